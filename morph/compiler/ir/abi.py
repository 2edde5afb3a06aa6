"""The arguments of a compiled unit: one packed struct of 8-byte words, the same on every target.

The emitter prints these fields as ``struct Args``; the binder fills them in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.sites import Sites
from morph.compiler.ir.spelling import ascii_name, clashes, spell
from morph.language.types import Handle, Local, Scalar, Struct, Tuple, Type, Vector

CTYPE = {
    "bool_": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8",
    "u16": "u16", "u32": "u32", "u64": "u64", "f16": "f16", "f32": "f32", "f64": "f64",
}  # fmt: skip


class Meta(IntEnum):
    """Words of a store's ``meta`` array (int64)."""

    COUNT = 0  # rows handed out (dead ones too), or end of a collection's items
    CAPACITY = 1
    HEAD = 2  # table: next slot of the free ring to reuse; collection: first item not taken
    TAIL = 3  # end of the free ring: deleted rows are pushed here
    COMMITTED = 4  # end of those rows of the free ring that may be reused
    BUDGET = 5  # rows that can still be reserved


class Status(IntEnum):
    """Words of the ``status`` array (int64)."""

    ERROR = 0  # 0, or what went wrong
    LINE = 1  # and on which line of the user's file
    FAILED = 2  # how many items were left untouched and must be replayed
    LOCAL = 3  # a local collection was too small
    ROUND = 4  # the last round of claims
    INJECT = 5  # test only: fail this many-th reservation from now (0: never)
    STORES = 8  # from here on, one word per store of the unit: it must grow


class State(IntEnum):
    """Words of a program's ``state`` array (int64); its variables follow."""

    BLOCK = 0
    STEP = 1
    REPLAY = 2
    WAY = 4  # what the swapped collections stand for: an index into the unit's ``ways``
    VARS = 5


@dataclass(frozen=True, slots=True)
class Field:
    """One word of ``Args``: an address, or a scalar in the low bytes."""

    name: str
    ctype: str
    kind: str
    slot: str = ""
    column: str = ""
    way: int = -1  # of a collection that is swapped: the way in which ``slot`` has this name


def cname(slot: str) -> str:
    """The C++ name of a slot, unless another slot's columns clash with it; see `prefixes`."""
    name = ascii_name(slot.replace(".", "_"))
    return f"u{name}" if name.startswith(("_", "MORPH")) else name  # such names are reserved


# what else of a store stands in Args: a column of that name gets a "_"
WORDS = frozenset("meta dead born free fill owner lock parent flag".split())
ADJACENCY = [f"{d}_{w}" for d in ("out", "in") for w in ("offset", "edge", "end")]
METHODS = frozenset({"add_total"})  # of Args


def column_part(column: str) -> str:
    """The end of the C++ name of a column."""
    return f"{ascii_name(column)}{'_' if column in WORDS or column.endswith('_') else ''}"


def prefixes(unit: ir.Unit) -> dict[str, str]:
    """What the C++ names of all words of each slot begin with: no two words share a name."""
    parts = {s.slot: [*WORDS, *(column_part(c.name) for c in s.columns)] for s in unit.stores}
    parts |= {g.slot: ADJACENCY for g in unit.graphs}
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


def reborn(unit: ir.Unit) -> frozenset[str]:
    """The tables a step runs over while rows of them are used again: those are no items of it."""
    dying = {s.slot for s in unit.stores if s.kind == "table" and s.deletes}
    if not dying:
        return frozenset()
    swept = {n.slot for n in ir.walk(unit.blocks) if isinstance(n, ir.Foreach)}
    made = {n.slot for n in ir.walk(unit.funcs) if isinstance(n, ir.New)}
    bulk = {n.slot for n in ir.walk(unit.funcs) if isinstance(n, ir.NewRows)}
    return frozenset((swept & made & dying) - bulk)


def alike(unit: ir.Unit) -> dict[str, frozenset[str]]:
    """For each slot that is swapped, all that it may change places with, itself among them."""
    found: dict[str, frozenset[str]] = {}
    for pair in (p for way in unit.ways for p in way):
        joined = frozenset().union(*(found.get(s, frozenset([s])) for s in pair))
        found |= dict.fromkeys(joined, joined)
    return found


def claims(unit: ir.Unit) -> bool:
    """Whether a kernel of the unit has ``single(collection)``."""
    return any(isinstance(n, ir.Claim) for n in ir.walk(unit.funcs))


def together(unit: ir.Unit) -> bool:
    """Whether all items of a step claim in one round."""
    return any(n.together for n in ir.walk(unit.blocks) if isinstance(n, ir.Foreach))


def fields(unit: ir.Unit) -> tuple[Field, ...]:
    """What the unit's code touches, in the order of ``struct Args``.

    Last come the words of swapped collections, once for each way to bind them.
    """
    used: dict[Field, None] = {}
    prefix = prefixes(unit)
    stores = {s.slot: s for s in unit.stores}
    graphs = {g.slot: g for g in unit.graphs}

    def column(slot: str, name: str) -> None:
        col = stores[slot].column(name)
        assert col is not None, (slot, name)
        apart = f", {col.offset}" if col.offset else ""
        ctype = f"Col<{CTYPE[col.dtype.name]}, {col.stride}{apart}>"
        used[Field(f"{prefix[slot]}_{column_part(name)}", ctype, "column", slot, name)] = None

    def word(slot: str, kind: str, ctype: str) -> None:
        used[Field(f"{prefix[slot]}_{kind}", ctype, kind, slot)] = None

    def rows(slot: str) -> None:
        word(slot, "meta", "i64*")
        if stores[slot].kind == "collection" and stores[slot].column("item"):
            column(slot, "item")
        if stores[slot].deletes:
            word(slot, "dead", "u8*")

    def new(slot: str) -> None:
        rows(slot)
        if stores[slot].kind == "table":
            word(slot, "free", "i32*")
            word(slot, "fill", "const u8*")
        for c in stores[slot].columns:
            column(slot, c.name)

    def adjacency(graph: str, direction: str) -> None:
        g = graphs[graph]
        edges = dict(g.tables)["edges"]
        for d in ("out", "in") if direction == "all" else (direction,):
            if g.loose:
                word(graph, f"{d}_offset", "const LooseRow*")
                word(graph, f"{d}_edge", "const i32*")
                word(graph, f"{d}_end", "const i32*")
                continue
            word(graph, f"{d}_offset", "const i64*")
            if d == "in" or not g.out_identity:
                word(graph, f"{d}_edge", "const i32*")
            column(edges, "dst" if d == "out" else "src")

    for n in ir.walk((unit.funcs, unit.blocks)):
        match n:
            case ir.Place():
                column(n.slot, n.column)
            case ir.Dead():
                rows(n.slot)
            case ir.New() | ir.NewRows() | ir.Add():
                new(n.slot)
            case ir.Delete():
                rows(n.slot)
                word(n.slot, "free", "i32*")
            case ir.Take() | ir.StoreSize() | ir.ForRows() | ir.Foreach() | ir.Clear():
                rows(n.slot)
            case ir.Degree():
                adjacency(n.graph, n.direction)
            case ir.FindEdge():
                adjacency(n.graph, "out")
            case ir.ForEdges():
                adjacency(n.graph, n.direction)
            case ir.SetFind() | ir.SetUnion():
                word(n.slot, "parent", "i32*")
            case ir.FlagSet() | ir.TakeFlag() | ir.Raised():
                word(n.slot, "flag", "i32*")
            case ir.Lock():
                word(n.slot, "lock", "i32*")
            case ir.Need(local=False):
                rows(n.slot)
            case ir.Kernel(ahead=(_, slot)):
                new(slot)
            case _:
                pass
        if isinstance(n, ir.Atomic) and n.flag:
            word(n.flag, "flag", "i32*")
    for f in unit.funcs:
        for claim in (n for n in ir.walk(f) if isinstance(n, ir.Claim)):
            types = dict(f.locals) | dict(f.params)
            for name in (claim.items, claim.guard):
                kind = types[name] if name else None
                if isinstance(kind, Local) and isinstance(kind.elem, Handle):
                    stride = stores[kind.elem.slot].owner_stride
                    word(kind.elem.slot, "owner", f"Col<u64, {stride}>")
    for slot in sorted(reborn(unit)):
        word(slot, "born", "i32*")
    if unit.checked:
        sites = Sites(unit)
        for slot in sites.rows(stores):
            rows(slot)
        for slot, name in sites.tracked:
            used[Field(shadow(prefix[slot], name), "u64*", "shadow", slot, name)] = None
        for slot in sites.deleting:
            used[Field(deaths(prefix[slot]), "u64*", "deaths", slot)] = None
    for name, scalar in unit.scalars:
        used[Field(name, f"alignas(8) {CTYPE[scalar.name]}", "scalar", column=name)] = None
    exchanged = alike(unit)
    for field in list(used):  # whatever a kernel does to one of them, it does to all
        for other in exchanged.get(field.slot, ()):
            name = prefix[other] + field.name.removeprefix(prefix[field.slot])
            used[replace(field, name=name, slot=other)] = None
    common: tuple[Field, ...] = (
        Field("status", "i64*", "status"),  # Status
        Field("pending", "u32*", "pending"),  # one bit per item that must be replayed
        Field("replay", "i64", "replay"),  # run only the pending items
        Field("launch", "i64", "launch"),  # number of this launch, for single(row)
        Field("threads", "i64", "threads"),  # CPU threads to use
        Field("barrier", "u32*", "barrier"),  # the team's barrier words
        Field("cursor", "i64*", "cursor"),  # the team's work-sharing words, zero between launches
        Field("state", "i64*", "state"),  # State; null unless fused
        Field("hubs", "i64*", "hubs"),  # the list of long rows; see kernels/schedule/balance.h
        Field("report", "i64*", "report"),  # status and state for the host's eyes; may be null
    )
    if unit.checked:
        common += (Field("check", "i64*", "check"),)  # the violation, see kernels/core/check.h
    if together(unit):
        common += (Field("lost", "u32*", "lost"),)  # one bit per item that does not claim again
    if claims(unit):
        common += (Field("queue", "u32*", "queue"),)  # on a GPU, one word per item: those that pass
    listed = sorted(used, key=lambda f: (f.slot, f.kind != "column", f.name))
    fixed = (f for f in listed if f.slot not in exchanged)
    swapped = (
        replace(f, slot=dict(way)[f.slot], way=i)
        for i, way in enumerate(unit.ways)
        for f in listed
        if f.slot in exchanged
    )
    return (*fixed, *common, *swapped)


def local_bytes(unit: ir.Unit) -> int:
    """How much memory of its own an item needs for its local collections, at most."""
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


def scalar_of(field: Field, unit: ir.Unit) -> Scalar:
    """The type of a scalar field."""
    return dict(unit.scalars)[field.column]
