"""Names, types and constants of the IR as C++."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from morph.lang import ir
from morph.lang.abi import CTYPE, cname, column_name, reborn
from morph.lang.checks import Sites
from morph.lang.flow import only_added_to
from morph.lang.types import (
    Handle,
    Local,
    Nothing,
    Rows,
    Scalar,
    Store,
    Struct,
    Tuple,
    Type,
    Vector,
    Weak,
)  # fmt: skip

KEYWORDS = frozenset(
    """Args BLOCKS PHASES PREPARES Item Run SETTLES Way a again alignas alignof and and_eq asm auto
    beats bitand bitor blockDim blockIdx bool break case catch char char16_t char32_t class clocks
    compl const const_cast constexpr continue crew crowd cut decltype default delete do double
    dynamic_cast else end_item enum explicit export extern false float for friend full gap_count
    gaps goto gridDim handled if inline int it long morph_interpreter mutable namespace new noexcept
    not not_eq nullptr operator or or_eq pool prepare private protected public register
    reinterpret_cast released released_at return run settle short signed sizeof static static_assert
    static_cast stopped stopping struct switch template this threadIdx thread_local throw true try
    typedef typeid typename union unsigned using virtual void volatile wanted warpSize wchar_t way
    while xor xor_eq""".split()
)
MEMBERS = frozenset(  # of what items and threads carry
    """position row failed reserved key priority launch block step thread threads replay master
    sense round looked took told left way ahead stop laps""".split()
)
CALL = re.compile(r"\b([A-Za-z_]\w*)[(<]|\b(?:struct|define) (\w+)|\b([A-Z_]+) =")


@cache
def prelude_names(prelude: str) -> frozenset[str]:
    """What the prelude declares or calls, and the user's names must not hide."""
    return frozenset(w for found in CALL.findall(prelude) for w in found if len(w) > 1)


class Names:
    """The C++ spelling of everything that the functions of one unit name."""

    def __init__(
        self, unit: ir.Unit, taken: frozenset[str], changed: frozenset[tuple[str, str]]
    ) -> None:
        self.unit, self.changed = unit, changed
        self.stores: dict[str, Store] = {s.slot: s for s in unit.stores}
        self.graphs = {g.slot: g for g in unit.graphs}
        self.index = {s.slot: i for i, s in enumerate(unit.stores)}
        self.reserved = KEYWORDS | taken
        self.funcs = {f.name: self.spell(f.name) for f in unit.funcs}
        self.reserved |= set(self.funcs.values())
        self.scalars = {n for n, _ in unit.scalars}
        self.structs: dict[str, str] = {}  # name -> definition, in the order of use
        self.snapshot = False  # loops begin and end as of the last barrier
        self.swapped = frozenset(s for way in unit.ways[:1] for s, _ in way)
        self.apart: frozenset[str] = frozenset()  # stores that hand out consecutive rows
        self.reborn = reborn(unit)
        self.grows: frozenset[str] = frozenset()  # functions that add to a local collection
        self.pure: set[str] = set()  # functions that use nothing of the item
        self.totals: list[str] = []  # what adds to the places that all add to
        self.added = only_added_to(unit)  # where these may lie
        self.sites = Sites(unit) if unit.checked else None

    def spell(self, name: str) -> str:
        """A user's name, out of the way of C++ and the prelude."""
        return f"{name}_" if name in self.reserved or name.endswith("_") else name

    def member(self, name: str) -> str:
        """A user's name among the members of what an item or a thread carries."""
        return f"{name}_" if name in MEMBERS else self.spell(name)

    def type(self, t: Type) -> str:
        """The C++ type."""
        match t:
            case Scalar():
                return CTYPE[t.name]
            case Handle():
                return "i32"
            case Weak():
                return "i64" if t.kind == "i" else "f64"
            case Vector():
                return f"Vec<{self.type(t.elem)}, {t.size}>"
            case Local():
                return f"Local<{self.type(t.elem)}, {t.capacity * self.unit.local_scale}>"
            case Rows():
                return "Rows"
            case Struct():
                return self._struct(self.spell(t.name), [(self.spell(n), f) for n, f in t.fields])
            case Tuple():
                parts = [(f"_{i}", x) for i, x in enumerate(t.items)]
                name = "_".join(re.sub(r"\W+", "_", self.type(x)).strip("_") for x in t.items)
                return self._struct(f"Tuple_{name}", parts)
            case Nothing():
                return "void"
        raise AssertionError(f"{t} is no value")

    def total(self, add: str) -> int:
        """The number of a place that all add to; those behind MOST_TOTALS are added to at once."""
        if add not in self.totals:
            self.totals.append(add)
        return self.totals.index(add)

    def call(self, func: str, args: str) -> str:
        """A call of a user's function."""
        return f"{self.funcs[func]}(a{'' if func in self.pure else ', it'}{args})"

    def room(self, t: Local, name: str) -> str:
        """The memory of a local collection, apart from it: its size can then be in a register."""
        return f"    {self.type(t.elem)} {name}[{t.capacity * self.unit.local_scale}];"

    def _struct(self, name: str, parts: Sequence[tuple[str, Type]]) -> str:
        members = " ".join(f"{self.type(t)} {n};" for n, t in parts)
        unique, k = name, 1
        while self.structs.setdefault(unique, members) != members:
            k += 1
            unique = f"{name}_{k}"
        return unique

    def field(self, t: Type, index: int) -> str:
        """The member that holds part ``index`` of a struct or tuple."""
        return self.spell(t.fields[index][0]) if isinstance(t, Struct) else f"_{index}"

    def column(self, slot: str, column: str) -> str:
        """The argument that is a column."""
        return f"{'way' if slot in self.swapped else 'a'}.{column_name(slot, column)}"

    def base(self, slot: str) -> str:
        """What the names of all other words of a slot begin with."""
        return f"{'way' if slot in self.swapped else 'a'}.{cname(slot)}"

    def extent(self, slot: str) -> tuple[str, str]:
        """Where the rows or items of a store begin and end, as of the last barrier."""
        meta = f"{self.base(slot)}_meta"
        first, last = ("FROM", "TO") if self.snapshot else ("HEAD", "COUNT")
        load = "load_settled" if self.snapshot else "load"
        begin = f"{load}({meta} + {first})" if self.stores[slot].kind == "collection" else "0"
        return begin, f"{load}({meta} + {last})"

    def edge(self, graph: str, direction: str, k: str) -> str:
        """The id of the edge at entry ``k``."""
        if direction == "out" and self.graphs[graph].out_identity:
            return f"edge_at({k})"
        return f"edge_at(a.{cname(graph)}_{direction}_edge, {k})"

    def ends(self, graph: str, direction: str) -> str:
        """What holds the other ends of edges: a column, or of loose rows a word by entry."""
        if self.graphs[graph].loose:
            return f"a.{cname(graph)}_{direction}_end"
        edges = dict(self.graphs[graph].tables)["edges"]
        return self.column(edges, "dst" if direction == "out" else "src")

    def end(self, graph: str, direction: str, k: str, edge: str) -> str:
        """The other end of the edge at entry ``k``."""
        ends = self.ends(graph, direction)
        return f"edge_at({ends}, {k})" if self.graphs[graph].loose else f"{ends}.get({edge})"

    def plain(self, slot: str) -> bool:
        """Whether an item of the store is the ``item`` of a collection, not its own row."""
        s = self.stores[slot]
        return s.kind == "collection" and [c.name for c in s.columns] == ["item"]


def constant(e: ir.Const) -> str:
    """A literal of exactly its type."""
    t, v = e.type, e.value
    if isinstance(t, Scalar | Weak) and t.kind == "f":
        name = CTYPE[t.name] if isinstance(t, Scalar) else "f64"
        v = float(v)
        text = "not_a_number()" if v != v else repr(v)
        if text in ("inf", "-inf"):
            text = text.replace("inf", "infinity()")
        return text if name == "f64" else f"{name}({text})"
    if isinstance(t, Scalar) and t.kind == "b":
        return "true" if v else "false"
    v = int(v)
    name = CTYPE[t.name] if isinstance(t, Scalar) else "i64" if isinstance(t, Weak) else "i32"
    text = "(-9223372036854775807ll - 1)" if v == -(2**63) else str(v)
    if not -(2**31) < v < 2**31 and v != -(2**63):
        text += "ull" if v >= 2**63 else "ll"
    return text if name == "i32" and abs(v) < 2**31 else f"{name}({text})"
