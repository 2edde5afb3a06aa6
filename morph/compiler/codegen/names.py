"""Names, types and constants of the IR as C++."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import CTYPE, column_part, prefixes
from morph.compiler.ir.spelling import spell, spell_global
from morph.compiler.passes.plan import Plan
from morph.language.types import (
    Handle,
    Local,
    Nothing,
    Rows,
    Scalar,
    Shared,
    Store,
    Struct,
    Tuple,
    Type,
    Vector,
    Weak,
)

OWN = frozenset(  # names of the printer inside functions
    """a batch it permutation Args BLOCKS BatchSlots Item CHANGES_TEAM PREPARES Permutation
    PUBLISHES Run SlotCaches end_item has_much_work member prepare publish_counters run""".split()
)
MEMBERS = frozenset(  # members of the structs that the printer makes
    """ASYNCHRONOUS AT BATCHED Buffers FETCH_ADDS FILTERS FLOAT_TOTALS HAS_EPILOGUE KNOWS_ROWS LIMIT
    LiveIn LiveOut PLACES REPLAYS Reach Reductions Rows SWEEPS Searches SlotCache TOTALS Tiled
    WHICH WORK_SHARING
    BatchSlots abort add all asynchronous attach begin behind block body buffers caches claim
    clear_staged commit demand detach edge end entries epilogue find flush flush_staged from front
    iterations join key launch list live_in live_out master meta open owner part permutation
    permutations position prefetch_row priority prologue
    reach reductions replay reservation reservations round row row_of rows run sense
    slot_cache step take_all test thread threads tiles to wins write x""".split()
)
SUFFIXED = frozenset(
    "group live_in live_out reductions row".split()
)  # names of the printer with a trailing underscore
PARTS = [
    "commit",
    "abort",
    "commit_demand",
    "abort_demand",
    "item",
    "item_buffers",
    "live_in",
    "live_out",
    "reductions",
    "reach",
    "prologue",
    "body",
    "epilogue",
    "test",
    "group",
]
UNBOUNDED = {float("inf"): "infinity()", float("-inf"): "-infinity()"}
TEMPORARY = re.compile(r"(b|both|c|e|k|n|p|r|rows|s|skip|v|w|x)\d+_")  # made by `Body.temp`
WORD = re.compile(r"[A-Za-z_]\w*")
BRACKET = re.compile(r"([()\[\]{}])")
OPENING, CLOSING = {*"([{"}, {*")]}"}
CALL = re.compile(r"\b([A-Za-z_]\w*)[(<]")


@cache
def prelude_names(prelude: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that the prelude declares or calls at namespace scope; all its identifiers."""
    text = re.sub(r"//.*", "", prelude)
    found = set(re.findall(r"# *define (\w+)", text)) | set(CALL.findall(text))
    declared = re.sub(r"#.*|\"[^\"\n]*\"", "", re.sub(r"\\\n", " ", text))
    open_, start = list[str](), ""  # brackets; the text since the last end of a statement
    for part in BRACKET.split(declared):
        if part in OPENING:
            is_enum = part == "{" and start.split(None, 1)[:1] == ["enum"]
            open_.append("enum" if is_enum else part)
        elif part in CLOSING:
            open_.pop()
        elif open_ in ([], ["enum"]):
            found.update(WORD.findall(part))
        start = "" if part in ("{", "}") else f"{start}{part}".rpartition(";")[2]
    return frozenset(w for w in found if len(w) > 1), frozenset(WORD.findall(text))


class Names:
    """The C++ spelling of all names in the functions of one unit."""

    def __init__(self, plan: Plan, prelude: str) -> None:
        unit = plan.unit
        self.plan, self.unit = plan, unit
        self.by_warp = any(f.by_warp is not None for f in plan.functions.values())
        self.prefix = prefixes(unit)
        self.stores: dict[str, Store] = {s.slot: s for s in unit.stores}
        self.wide = {s.slot for s in unit.stores if s.wide}
        self.graphs = {g.slot: g for g in unit.graphs}
        self.index = {s.slot: i for i, s in enumerate(unit.stores)}
        declared, words = prelude_names(prelude)
        self.taken = {*words, *OWN, *MEMBERS, *(f"{w}_" for w in SUFFIXED)}  # at namespace scope
        self.made: set[str] = set()
        self.funcs = {f.name: self._function(f) for f in unit.funcs}
        self.made |= {*self._struct_names()}
        self.reserved = (declared | OWN | self.made) - SUFFIXED
        ends = ("reservation", "flag", "turn")
        made = {f"{p}_{end}" for p in self.prefix.values() for end in ends}
        self.members = {w for w in words if len(w) > 1} | MEMBERS | made
        self.scalars = {n for n, _ in unit.scalars}
        self.structs: dict[str, str] = {}  # name -> definition, in the order of use

    def _function(self, f: ir.Func) -> str:
        """A name for a function that is unique, and whose parts have unique names."""
        base = spell_global(f.name, self.taken)
        ends = [*PARTS, *(f"to_{p}" for p in self.prefix.values())]
        n, name = 1, base
        while True:
            made = {name, *(f"{name}_{e}" for e in ends if isinstance(f, ir.Kernel))}
            if self.taken.isdisjoint(made) and not TEMPORARY.fullmatch(name):
                self.taken |= made
                self.made |= made
                return name
            n += 1
            name = f"{base}_{n}"

    def _struct_names(self) -> list[str]:
        """The names of the user's structs; several structs of one name are numbered."""
        used = {n.type for n in ir.walk(self.unit.funcs) if isinstance(n, ir.Expr)}
        used |= {t for f in self.unit.funcs for _, t in (*f.params, *f.locals)}
        todo, found = list(used), set[Struct]()
        while todo:
            match todo.pop():
                case Struct() as t if t not in found:
                    found.add(t)
                    todo += [kind for _, kind in t.fields]
                case Tuple(items=items):
                    todo += items
                case Vector(elem=elem) | Local(elem=elem):
                    todo.append(elem)
        names = Counter(self._struct_name(t) for t in found)
        return [numbered(name, k) for name, most in names.items() for k in range(1, most + 1)]

    def _struct_name(self, t: Struct) -> str:
        name = spell_global(t.name, self.taken)
        hidden = name in self.taken or TEMPORARY.fullmatch(name)
        return f"{name}_struct_" if hidden else name

    def spell(self, name: str) -> str:
        """A user's name, changed if it collides with C++ or the prelude."""
        return spell(name, self.reserved)

    def member(self, name: str) -> str:
        """A user's name as a member of the struct of an item or thread."""
        return f"{name}_" if name in self.members else self.spell(name)

    def type(self, t: Type) -> str:
        """The C++ type."""
        match t:
            case Scalar():
                return CTYPE[t.name]
            case Handle():
                return "i64" if t.slot in self.wide else "i32"
            case Weak():
                return "i64" if t.kind == "i" else "f64"
            case Vector():
                return f"Vec<{self.type(t.elem)}, {t.size}>"
            case Shared():
                return f"Shared<{self.type(t.elem)}, {t.capacity}>"
            case Local():
                kind = "InlineLocal" if self.by_warp else "Local"
                return f"{kind}<{self.type(t.elem)}, {t.capacity * self.unit.local_scale}>"
            case Rows():
                return "Rows"
            case Struct():
                name = self._struct_name(t)
                return self._struct(name, [(self.spell(n), f) for n, f in t.fields])
            case Tuple():
                parts = [(f"_{i}", x) for i, x in enumerate(t.items)]
                return self._struct(f"Tuple_{'_'.join(map(self._word, t.items))}", parts)
            case Nothing():
                return "void"
        raise AssertionError(f"{t} is no value")

    def _word(self, t: Type) -> str:
        """A type as a part of the name of a tuple."""
        if isinstance(t, Vector):
            return f"Vec_{self._word(t.elem)}_{t.size}"
        return self.type(t).strip("_")

    def call(self, func: str, args: str) -> str:
        """A call of a user's function."""
        return (
            f"{self.funcs[func]}(a{', it' if self.plan.functions[func].takes_item else ''}{args})"
        )

    def buffer(self, t: Local, name: str) -> str:
        """The buffer of a local collection; separate, so that its size can be in a register."""
        return f"{self.type(t.elem)} {name}[{t.capacity * self.unit.local_scale}];"

    def _struct(self, name: str, parts: Sequence[tuple[str, Type]]) -> str:
        members = " ".join(f"{self.type(t)} {n};" for n, t in parts)
        k = 1
        while self.structs.setdefault(numbered(name, k), members) != members:
            k += 1
        return numbered(name, k)

    def field(self, t: Type, index: int) -> str:
        """The member that holds part ``index`` of a struct or tuple."""
        return self.spell(t.fields[index][0]) if isinstance(t, Struct) else f"_{index}"

    def column(self, slot: str, column: str) -> str:
        """The expression for a column in the argument block."""
        return f"{self.base(slot)}_{column_part(column)}"

    def base(self, slot: str) -> str:
        """The prefix of the other arguments of a slot."""
        return f"{'permutation' if slot in self.plan.swapped else 'a'}.{self.prefix[slot]}"

    def extent(self, slot: str) -> tuple[str, str]:
        """The begin and end of a store's rows or items, as of the last barrier."""
        meta = f"{self.base(slot)}_meta"
        first, last = ("FROM", "TO") if self.plan.snapshot else ("HEAD", "COUNT")
        load = "load_stable" if self.plan.snapshot else "load"
        begin = f"{load}({meta} + {first})" if self.stores[slot].kind == "collection" else "0"
        return begin, f"{load}({meta} + {last})"

    def offsets(self, graph: str, direction: str) -> list[str]:
        """The offsets of the rows in a direction, or in both for "all"."""
        directions = ("out", "in") if direction == "all" else (direction,)
        return [f"a.{self.prefix[graph]}_{d}_offset" for d in directions]

    def edge(self, graph: str, direction: str, k: str) -> str:
        """The id of the edge at entry ``k``."""
        if direction == "out" and self.graphs[graph].out_identity:
            return f"edge_at({k})"
        return f"edge_at(a.{self.prefix[graph]}_{direction}_edge, {k})"

    def ends(self, graph: str, direction: str) -> str:
        """The array of the other ends of edges: a column, or for gapped rows an array by entry."""
        if self.graphs[graph].gapped:
            return f"a.{self.prefix[graph]}_{direction}_end"
        edges = dict(self.graphs[graph].tables)["edges"]
        return self.column(edges, "dst" if direction == "out" else "src")

    def end(self, graph: str, direction: str, k: str, edge: str) -> str:
        """The other end of the edge at entry ``k``."""
        ends = self.ends(graph, direction)
        return f"edge_at({ends}, {k})" if self.graphs[graph].gapped else f"{ends}.get({edge})"

    def entry_address(self, graph: str, direction: str, k: str) -> str:
        """The address of what is loaded first of entry ``k``: its other end, or its edge."""
        if self.graphs[graph].gapped:
            return f"{self.ends(graph, direction)} + {k}"
        if direction == "out" and self.graphs[graph].out_identity:
            return f"{self.ends(graph, direction)}.at({k})"
        return f"a.{self.prefix[graph]}_{direction}_edge + {k}"

    def lists_rows(self, slot: str) -> bool:
        """Whether the store is a collection of rows: its column ``item`` has the row of an item."""
        return self.stores[slot].lists_rows


def numbered(name: str, k: int) -> str:
    """The name of the ``k``-th of several structs of one name."""
    return name if k == 1 else f"{name}_of_{k}_"


def constant(e: ir.Const) -> str:
    """A literal of exactly its type."""
    t, v = e.type, e.value
    if isinstance(t, Scalar | Weak) and t.kind == "f":
        name = CTYPE[t.name] if isinstance(t, Scalar) else "f64"
        v = float(v)
        text = "not_a_number()" if v != v else UNBOUNDED.get(v, repr(v))
        return text if name == "f64" else f"{name}({text})"
    if isinstance(t, Scalar) and t.kind == "b":
        return "true" if v else "false"
    v = int(v)
    name = CTYPE[t.name] if isinstance(t, Scalar) else "i64" if isinstance(t, Weak) else "i32"
    text = "(-9223372036854775807ll - 1)" if v == -(2**63) else str(v)
    if not -(2**31) < v < 2**31 and v != -(2**63):
        text += "ull" if v >= 2**63 else "ll"
    return text if name == "i32" and abs(v) < 2**31 else f"{name}({text})"
