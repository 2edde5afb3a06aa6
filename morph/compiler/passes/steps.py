"""Properties of a unit's steps, and of the expressions between them that all threads compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.independence import Loop
from morph.compiler.passes.work_sharing import SharedLoop
from morph.language.types import Handle, Scalar, Store


def uniform(unit: ir.Unit) -> tuple[ir.Node, ...]:
    """The expressions that all threads compute redundantly."""
    found: list[ir.Node] = []
    for b in unit.blocks:
        found += [b.cond] if b.cond is not None else []
        for s in b.steps:
            found += [s.value] if isinstance(s, ir.Assign) else []
            if isinstance(s, ir.Foreach):
                found += [*s.args, *s.where_args, *(x for x in (s.start, s.stop) if x is not None)]
    return tuple(found)


def joined(steps: Sequence[ir.Node]) -> dict[int, tuple[ir.Node, list[str]]]:
    """Steps by number, each with the collections that are cleared at its barrier.

    A `Clear` is merged into the step before it, also across steps that read no size.  So is an
    `Agree`.  If there is none, it is merged into a `OneThread` after it.
    """
    found: dict[int, tuple[ir.Node, list[str]]] = {}
    last: list[str] | None = None
    for k, s in enumerate(steps):
        if isinstance(s, ir.OneThread) and (first := found.get(k - 1)) and s.body:
            if isinstance(first[0], ir.Clear) and not _uses(s, first[1]):
                found[k] = s, found.pop(k - 1)[1]
                last = found[k][1]
                continue
        if isinstance(s, ir.Clear) and last is not None:
            last.append(s.slot)
            continue
        if isinstance(s, ir.Agree):
            continue
        found[k] = (s, [s.slot] if isinstance(s, ir.Clear) else [])
        asks = any(isinstance(n, ir.StoreSize | ir.Call) for n in ir.walk(s))
        if not isinstance(s, ir.Assign):
            last = found[k][1] if not isinstance(s, ir.TakeFlag) else None
        elif asks:
            last = None
    return found


def _uses(s: ir.OneThread, collections: list[str]) -> bool:
    """Whether the statements of one thread may use collections."""
    nodes = list(ir.walk(s))
    slots = {getattr(n, "slot", None) for n in nodes} | {n.place.slot for n in ir.accesses(nodes)}
    return any(isinstance(n, ir.Call) for n in nodes) or bool(slots & {*collections})


def loops_without_barrier(unit: ir.Unit) -> bool:
    """Whether a loop of the program has no barrier, at which it could be interrupted."""
    left = {
        i: {b.goto, b.orelse if b.cond is not None else b.goto}
        for i, b in enumerate(unit.blocks)
        if not any(s.synchronises for s in b.steps)
    }
    while ends := [i for i, after in left.items() if not after & left.keys()]:
        for i in ends:
            del left[i]
    return bool(left)


def fetch_adds(reached: Iterable[ir.Func], partial_sums: Set[int]) -> bool:
    """Whether items add floats atomically, or use the old value: slow under contention.

    ``partial_sums`` has the ids of atomics that add to a thread's partial sum.
    """
    nodes = list(ir.walk(tuple(reached)))
    unused = {id(n.value) for n in nodes if isinstance(n, ir.Eval)}
    adds = (n for n in nodes if isinstance(n, ir.Atomic) and n.op in ("add", "sub"))
    adds = (n for n in adds if id(n) not in partial_sums)
    types = ((id(n) in unused, n.place.type) for n in adds)
    return any(not quiet or (isinstance(t, Scalar) and t.kind == "f") for quiet, t in types)


def is_own_row(s: ir.Foreach, k: ir.Kernel, loop: Loop, stores: Mapping[str, Store]) -> bool:
    """Whether a loop runs over the edges of the item, or of the point of the item."""
    if not isinstance(loop, ir.ForEdges):
        return False
    point, given = loop.point, dict[str, list[ir.Expr]]()
    item, kind = k.params[0]
    for n in ir.walk(k.body):
        if isinstance(n, ir.Assign):
            given.setdefault(n.name, []).append(n.value)
    loops = ir.bound(n for n in ir.walk(k.body) if not isinstance(n, ir.Assign))
    while isinstance(point, ir.Var) and len(given.get(point.name, ())) == 1:
        if point.name in loops:  # a loop changes it
            return False
        point = given[point.name][0]
    collection = stores[s.slot].kind == "collection"
    if isinstance(point, ir.Load):
        row = point.place.row
        its = collection and (point.place.slot, point.place.column) == (s.slot, "item")
        return its and isinstance(row, ir.Var) and row.name == item
    entry = collection and kind == Handle(s.slot)
    return not entry and isinstance(point, ir.Var) and point.name == item


def knows_row(k: ir.Kernel, loop: Loop, then: str, stable: bool) -> bool:
    """Whether each iteration adds only the other end of its edge to ``then``."""
    adds = [n for n in ir.find(k.body, ir.Add) if n.slot == then]
    items = [dict(n.values)["item"] for n in adds]
    return (
        isinstance(loop, ir.ForEdges)
        and loop.direction != "all"
        and loop.start is None
        and loop.var not in ir.bound(ir.walk(loop.body))
        and {id(n) for n in adds} <= {id(n) for n in ir.walk(loop.body)}  # not before the loop
        and all(isinstance(x, ir.Var) and x.name == loop.var for x in items)
        and stable
    )


def sweeps(s: ir.Foreach, k: ir.Kernel, shared: SharedLoop, unit: ir.Unit) -> bool:
    """Whether a step only reduces over the packed adjacency rows of all points: see sweep.h."""
    loop, item = shared.loop, k.params[0][0]
    if not (isinstance(loop, ir.ForEdges) and isinstance(loop.point, ir.Var)):
        return False
    if loop.direction == "all":
        return False
    g = next(g for g in unit.graphs if g.slot == loop.graph)
    begins = loop.start is None and not g.gapped and dict(g.tables)["points"] == s.slot
    given = any(isinstance(n, ir.Assign) and n.name == item for n in ir.walk(k.body))
    whole = begins and loop.point.name == item and not given
    alone = shared.pure and shared.completes and s.balance == "auto" and k.where is None
    return whole and alone


def tiled(s: ir.Foreach, k: ir.Kernel, shared: SharedLoop, unit: ir.Unit) -> bool:
    """Whether a step `sweeps`, reads only the other ends of edges, and has one reduction."""
    if not sweeps(s, k, shared, unit) or unit.checked or len(shared.reductions) != 1:
        return False
    loop = shared.loop
    assert isinstance(loop, ir.ForEdges)
    g = next(g for g in unit.graphs if g.slot == loop.graph)
    result = dict(k.locals)[shared.reductions[0][0]]
    small = isinstance(result, Scalar) and 32 <= result.bits <= 64
    ends = bool(loop.var) and loop.edge not in ir.used(ir.walk(shared.body))
    return g.tiled == loop.direction and not shared.live_in and ends and small
