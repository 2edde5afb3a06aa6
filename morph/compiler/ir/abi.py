"""The argument block of a compiled unit: one packed struct of 8-byte fields, equal on all targets.

`fields` returns the fields of a unit in order.  `codegen` prints them as ``struct Args``, and
`morph.launch.launcher` writes their values.  `layout` declares the arrays that they point to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.layout import (
    ARGUMENTS,
    CHECKED_ARGUMENT,
    CLAIMS_ARGUMENT,
    GRAPH_ARRAYS,
    MOST_PARTS,
    PARTS_ARGUMENT,
    QUEUE_ARGUMENT,
    STORE_ARRAYS,
    TOGETHER_ARGUMENT,
    Equal,
    Parts,
    Route,
)
from morph.compiler.ir.layout import Meta as Meta
from morph.compiler.ir.layout import State as State
from morph.compiler.ir.layout import Status as Status
from morph.compiler.ir.outline import Field as Field
from morph.compiler.ir.sites import sites_of
from morph.compiler.ir.spelling import ascii_name, clashes, spell
from morph.language.types import Handle, Local, Scalar, Struct, Tuple, Type, Vector

CTYPE = {
    "bool_": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8",
    "u16": "u16", "u32": "u32", "u64": "u64", "f16": "f16", "f32": "f32", "f64": "f64",
}  # fmt: skip


def cname(slot: str) -> str:
    """The C++ name of a slot, unless another slot's columns clash with it; see `prefixes`."""
    name = ascii_name(slot.replace(".", "_"))
    return f"u{name}" if name.startswith(("_", "MORPH")) else name  # such names are reserved


# arrays of a store or graph in Args: a column of the same name gets a "_"
ADJACENCY = [f"{d}_{w}" for d in ("out", "in") for w in GRAPH_ARRAYS]
METHODS = frozenset({"add_total", "add_float_total"})  # of Args


def column_part(column: str) -> str:
    """The suffix of the C++ name of a column."""
    return f"{ascii_name(column)}{'_' if column in STORE_ARRAYS or column.endswith('_') else ''}"


def prefixes(unit: ir.Unit) -> dict[str, str]:
    """By slot, the prefix of the C++ names of its fields: no two fields have the same name."""
    parts = {
        s.slot: [*STORE_ARRAYS, *(column_part(c.name) for c in s.columns)] for s in unit.stores
    }
    parts |= {g.slot: ADJACENCY for g in unit.graphs}
    parts |= {slot: [*ADJACENCY, "rebuild"] for slot in rebuilt(unit)}
    taken = METHODS | {spell(n) for n, _ in unit.scalars}
    found: dict[str, str] = {}
    for slot, ends in parts.items():
        n, prefix = 1, cname(slot)
        while any(clashes(f"{prefix}_{e}", taken) for e in ends):
            n += 1
            prefix = f"u{cname(slot)}{n}"
        found[slot] = prefix
        taken |= {f"{prefix}_{e}" for e in ends}
    return found


def shadow(prefix: str, column: str) -> str:
    """The C++ name of a column's shadow words; no column begins with "_"."""
    return f"shadow__{prefix}_{column_part(column)}"


def deaths(prefix: str) -> str:
    """The C++ name of the words that record which item deleted a row."""
    return f"deaths__{prefix}"


def recycled(unit: ir.Unit) -> frozenset[str]:
    """The tables that recycle rows during a step over them; these rows are no items of it."""
    dying = {s.slot for s in unit.stores if s.kind == "table" and s.deletes}
    if not dying:
        return frozenset()
    swept = {n.slot for n in ir.find(unit.blocks, ir.Foreach)}
    made = {n.slot for n in ir.find(unit.funcs, ir.New)}
    bulk = {n.slot for n in ir.find(unit.funcs, ir.NewRows)}
    return frozenset((swept & made & dying) - bulk)


def rebuilt(unit: ir.Unit) -> frozenset[str]:
    """The graphs whose adjacency a program rebuilds after steps that change points or edges."""
    if not unit.fused:
        return frozenset()
    nodes = list(ir.walk((unit.funcs, unit.blocks)))
    changed = restructured(nodes)
    walked = {n.graph for n in nodes if n.arguments == "adjacency"}  # type: ignore[attr-defined]
    tables = {g.slot: dict(g.tables) for g in unit.graphs}
    return frozenset(g for g in walked if changed & {tables[g]["points"], tables[g]["edges"]})


def restructured(nodes: Iterable[ir.Node]) -> set[str]:
    """The tables of points with deleted rows, and the tables of edges with changes, of nodes."""
    nodes = list(nodes)
    deleted = {n.slot for n in nodes if isinstance(n, ir.Delete)}
    made = {n.slot for n in nodes if isinstance(n, ir.New | ir.NewRows)}
    return deleted | {slot for slot in made if slot.endswith(".edges")}


def alike(unit: ir.Unit) -> dict[str, frozenset[str]]:
    """For each swapped slot, all slots with which it may be exchanged, itself included."""
    found: dict[str, frozenset[str]] = {}
    for pair in (p for found in unit.permutations for p in found):
        joined = frozenset().union(*(found.get(s, frozenset([s])) for s in pair))
        found |= dict.fromkeys(joined, joined)
    return found


def claims(unit: ir.Unit) -> bool:
    """Whether a kernel of the unit has ``single(collection)``."""
    return bool(ir.find(unit.funcs, ir.Claim))


def together(unit: ir.Unit) -> bool:
    """Whether all items of a step claim in one round."""
    return any(n.together for n in ir.find(unit.blocks, ir.Foreach))


def sections(unit: ir.Unit) -> int:
    """The maximum number of sections of a step."""
    steps = ir.find(unit.blocks, ir.Foreach)
    return max((n.sections for n in steps), default=1)


def queues(unit: ir.Unit) -> frozenset[str]:
    """The collections whose new items are executed in the step that adds them."""
    steps = ir.find(unit.blocks, ir.Foreach)
    return frozenset(n.slot for n in steps if n.until_empty)


@dataclass(frozen=True, slots=True)
class PartsLayout:
    """The layout of the variable section of the array of a part (see `Parts`).

    Attributes
    ----------
    routes : dict of str to int
        By slot of a table of points or edges, the first word of its `Route`.
    peers : dict of (slot, column) to int
        The first of the words with the addresses of a column in each part.
    marks : dict of (slot, column) to int
        The first of two words: the address of the marks of a column's rows (see `ir.Mark`; a byte
        for `MARKED_ROWS` rows, padded to words of 8 bytes), and the address of the first index in
        `Route.SENT` of each mark, by receiving part (i32).
    bits : dict of (slot, column) to int
        The first of the words of `Equal` of a column.
    size : int
        Number of words of the array.
    """

    routes: dict[str, int]
    peers: dict[tuple[str, str], int]
    marks: dict[tuple[str, str], int]
    bits: dict[tuple[str, str], int]
    size: int


def crossing(block: int, step: int) -> int:
    """The number that a part publishes at the crossing of a step."""
    return block << 16 | step


def parts_of(unit: ir.Unit) -> PartsLayout | None:
    """The layout of the array of a part, if all parts of a graph execute the unit together."""
    nodes = list(ir.walk(unit.blocks))
    if not any(isinstance(n, ir.Agree | ir.Exchange | ir.Combine | ir.Deliver) for n in nodes):
        return None
    stores, sent = {s.slot: s for s in unit.stores}, list[ir.Deliver]()
    tables, columns = dict[str, None](), dict[tuple[str, str], None]()
    marked, equal = dict[tuple[str, str], None](), dict[tuple[str, str], None]()
    for n in nodes:
        if isinstance(n, ir.Mirrors):
            tables[n.slot] = None
            if n.marked:
                marked[n.slot, n.column] = None
            if n.value is not None:
                equal[n.slot, n.column] = None
        elif isinstance(n, ir.Exchange):
            columns |= dict.fromkeys((m.slot, m.column) for m in (*n.combines, *n.spreads))
        elif isinstance(n, ir.Combine):
            columns[n.slot, n.column] = None
        elif isinstance(n, ir.Deliver):
            tables[n.table] = None
            sent.append(n)
    columns |= dict.fromkeys((n.inbox, c.name) for n in sent for c in stores[n.inbox].columns)
    routes = {slot: Parts.ROUTES + i * Route.WORDS for i, slot in enumerate(tables)}
    first = Parts.ROUTES + len(routes) * Route.WORDS
    peers = {c: first + i * MOST_PARTS for i, c in enumerate(columns)}
    first += len(peers) * MOST_PARTS
    marks = {c: first + 2 * i for i, c in enumerate(marked)}
    first += 2 * len(marks)
    bits = {c: first + Equal.WORDS * i for i, c in enumerate(equal)}
    return PartsLayout(routes, peers, marks, bits, first + Equal.WORDS * len(bits))


class _Used:
    """The fields that nodes of a unit need."""

    def __init__(self, unit: ir.Unit) -> None:
        self.fields: dict[Field, None] = {}
        self.prefix = prefixes(unit)
        self.stores = {s.slot: s for s in unit.stores}
        self.graphs = {g.slot: g for g in unit.graphs}

    def column(self, slot: str, name: str) -> None:
        """A column."""
        c = self.stores[slot].column(name)
        assert c is not None, (slot, name)
        layout = f"{c.stride}, {c.offset}" if c.offset else f"{c.stride}"
        cname = f"{self.prefix[slot]}_{column_part(name)}"
        self.fields[Field(cname, CTYPE[c.dtype.name], "column", slot, name, layout)] = None

    def array(self, slot: str, kind: str, value: str = "", layout: str = "") -> None:
        """Another array of a store or graph."""
        arrays = STORE_ARRAYS | GRAPH_ARRAYS
        value = value or arrays[kind.rpartition("_")[2]].address
        self.fields[Field(f"{self.prefix[slot]}_{kind}", value, kind, slot, layout=layout)] = None

    def rows(self, slot: str) -> None:
        """The fields from which the existence of rows of a store follows."""
        self.array(slot, "meta")
        if self.stores[slot].kind == "collection" and self.stores[slot].column("item"):
            self.column(slot, "item")
        if self.stores[slot].deletes:
            self.array(slot, "dead")

    def new(self, slot: str) -> None:
        """The fields that the allocation of a row needs."""
        self.rows(slot)
        if self.stores[slot].kind == "table":
            self.array(slot, "free")
            self.array(slot, "fill")
        for c in self.stores[slot].columns:
            self.column(slot, c.name)

    def adjacency(self, graph: str, direction: str) -> None:
        """The fields of the adjacency of a graph."""
        g = self.graphs[graph]
        for d in ("out", "in") if direction == "all" else (direction,):
            self.array(graph, f"{d}_offset", "const LooseRow*" if g.gapped else "")
            if g.gapped or d == "in" or not g.out_identity:
                self.array(graph, f"{d}_edge")
            for array in ("tile", "far", "place") if g.tiled == d else ():
                self.array(graph, f"{d}_{array}")
            if g.gapped:
                self.array(graph, f"{d}_end")
            else:
                self.column(dict(g.tables)["edges"], "dst" if d == "out" else "src")

    def free(self, slot: str) -> None:
        """The fields that the deletion of a row needs."""
        self.rows(slot)
        self.array(slot, "free")

    def node(self, n: Any) -> None:
        """The fields that a node needs, by its trait ``arguments``."""
        match n.arguments:
            case "column":
                self.column(n.slot, n.column)
            case "copies":
                self.rows(n.slot)
                self.column(n.slot, n.column)
            case "adjacency":
                self.adjacency(n.graph, n.direction)
            case "need" if not n.local:
                self.rows(n.slot)
            case "raised" if n.flag:
                self.array(n.flag, "flag")
            case "ahead" if n.ahead:
                self.new(n.ahead[1])
            case "messages":
                self.new(n.outbox)
                self.new(n.inbox)
            case "rows" | "new" | "free" as how:
                getattr(self, how)(n.slot)
            case "parent" | "flag" | "lock" as kind:
                self.array(n.slot, kind)

    def owners(self, f: ir.Func) -> None:
        """The claim keys of the rows that a function claims."""
        types = dict(f.locals) | dict(f.params)
        for name in sorted(ir.used(ir.find(f, ir.Claim))):
            kind = types[name]
            if isinstance(kind, Local) and isinstance(kind.elem, Handle):
                slot = kind.elem.slot
                self.array(
                    slot, "owner", STORE_ARRAYS["owner"].value, str(self.stores[slot].owner_stride)
                )

    def checks(self, unit: ir.Unit) -> None:
        """The fields that the checked mode needs."""
        sites = sites_of(unit)
        for slot in sites.rows(self.stores):
            self.rows(slot)
        for slot, name in sites.tracked:
            words = shadow(self.prefix[slot], name)
            self.fields[Field(words, "u64*", "shadow", slot, name)] = None
        for slot in sites.deleting:
            self.fields[Field(deaths(self.prefix[slot]), "u64*", "deaths", slot)] = None


@ir.of_latest
def fields(unit: ir.Unit) -> tuple[Field, ...]:
    """The fields that the unit's code uses, in the order of ``struct Args``.

    The fields of swapped collections come last, once for each buffer permutation.
    """
    found = _Used(unit)
    for n in ir.walk((unit.funcs, unit.blocks)):
        found.node(n)
    for f in unit.funcs:
        found.owners(f)
    for slot in recycled(unit):
        found.array(slot, "created")
    for slot in rebuilt(unit):
        found.array(slot, "rebuild", "i64*")
    if unit.checked:
        found.checks(unit)
    used = found.fields
    for name, scalar in unit.scalars:
        used[Field(name, f"alignas(8) {CTYPE[scalar.name]}", "scalar", column=name)] = None
    exchanged = alike(unit)
    for field in list(used):  # a kernel may access each permutation of them
        for other in exchanged.get(field.slot, ()):
            name = found.prefix[other] + field.name.removeprefix(found.prefix[field.slot])
            used[replace(field, name=name, slot=other)] = None
    common = (
        ARGUMENTS
        | (CHECKED_ARGUMENT if unit.checked else {})
        | (TOGETHER_ARGUMENT if together(unit) else {})
        | (CLAIMS_ARGUMENT if claims(unit) else {})
        | (QUEUE_ARGUMENT if queues(unit) else {})
        | (PARTS_ARGUMENT if parts_of(unit) else {})
    )
    # scalars stay in the order of the call, so that a prepared launch writes them as they are given
    listed = sorted(used, key=_place)
    fixed = (f for f in listed if f.slot not in exchanged)
    swapped = (
        replace(f, slot=dict(found)[f.slot], permutation=i)
        for i, found in enumerate(unit.permutations)
        for f in listed
        if f.slot in exchanged
    )
    return (*fixed, *(Field(name, value, name) for name, value in common.items()), *swapped)


def _place(f: Field) -> tuple[str, bool, str]:
    return f.slot, f.kind != "column", "" if f.kind == "scalar" else f.name


def local_bytes(unit: ir.Unit) -> int:
    """The maximum memory of an item for its local collections."""
    return sum(
        unit.local_scale * t.capacity * _bytes(t.elem)
        for f in unit.funcs
        for _, t in f.locals
        if isinstance(t, Local)
    )


def _bytes(t: Type) -> int:
    match t:
        case Scalar():
            return t.bits // 8
        case Vector():
            return t.size * _bytes(t.elem)
        case Struct():
            return sum(_bytes(x) for _, x in t.fields)
        case Tuple():
            return sum(map(_bytes, t.items))
    return 4  # a handle
