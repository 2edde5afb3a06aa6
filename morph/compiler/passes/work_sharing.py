"""Work sharing: finds the loop of a kernel whose edges several threads may share.

The last loop over a point's neighbours or edges (or else over a table's rows) is shared if its
iterations are independent (see `independence`).
Then the threads of a warp or team share the edges of all items of a step, across rows.
The kernel becomes a *prologue* (the statements before the loop), the *body* of the loop, and an
*epilogue*.  `shared_loops` finds these kernels; the step's ``balance`` then decides whether long
rows are appended to a list for all threads (`lists_long_rows`); kernels/schedule/balance.h
distributes edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.effects import called
from morph.compiler.passes.independence import (
    Loop,
    LoopFacts,
    column_of,
    loop_variables,
    rows_taken,
)
from morph.language.types import Column, Handle, Scalar, Store

BALANCES_WITH_LIST = (
    "auto",
    "grid",
)  # values of ``balance`` with which all threads share long rows
BALANCES = ("auto", "thread", "warp", "block", "grid")
LIVE_IN_BYTES = 32  # limit of the live-in locals stored with the remaining edges of a row
STAGING_BYTES = 4096 - 64  # bytes of a warp's staging buffers; see kernels/schedule/staging.h


@dataclass(frozen=True, slots=True)
class SharedLoop:
    """The parts of a kernel with a shared loop, and the locals that are live between them.

    Attributes
    ----------
    live_in : the locals (the item among them) that the body reads
    live_out : the locals that the epilogue reads or the body reduces to
    reductions : locals declared outside, with the operation: ``+``, ``|``, ``&``, ``min``, ``max``
    capacity : the maximum number of rows of each store that an iteration allocates
    batched : whether the threads that execute the body reserve that capacity, not the item
    pure : whether prologue and body have no effects, each item reaches the loop, and the prologue
        reads nothing that epilogues of other items write
    """

    prologue: ir.Body  # up to and including the loop
    loop: Loop
    body: ir.Body
    epilogue: ir.Body
    live_in: tuple[str, ...]
    live_out: tuple[str, ...]
    reductions: tuple[tuple[str, str], ...]
    capacity: tuple[tuple[str, int], ...]
    batched: bool = False
    pure: bool = False

    @property
    def completes(self) -> bool:
        """Whether there are statements or reductions after all iterations of an item."""
        return bool(self.epilogue or self.reductions)


def shared_loops(unit: ir.Unit) -> dict[str, SharedLoop]:
    """The shared loops, by the name of their kernel; none in a checked unit."""
    if unit.checked:
        return {}
    funcs = {f.name: f for f in unit.funcs}
    steps = ir.find(unit.blocks, ir.Foreach)
    wanted = dict.fromkeys(s.kernel for s in steps if allows_shared_loop(s))
    tables = {s.slot for s in unit.stores if s.kind == "table"}
    found = {name: shared_loop(funcs[name], funcs, tables) for name in wanted}
    kept = {
        s.kernel for s in steps if allows_shared_loop(s) and s.balance not in BALANCES_WITH_LIST
    }  # no list
    return {
        name: replace(s, batched=name not in kept and _in_batches(s, funcs[name], funcs))
        for name, s in found.items()
        if s is not None
    }


def allows_shared_loop(s: ir.Foreach) -> bool:
    """Whether threads may share the last loop of a step's kernel, if it has a `SharedLoop`."""
    return s.balance != "thread" and not s.until_empty


def _in_batches(s: SharedLoop, kernel: ir.Func, funcs: Mapping[str, ir.Func]) -> bool:
    """Whether the threads that execute the body reserve its capacity, instead of the item.

    Nothing else in the kernel may allocate in these stores, there is no epilogue, and the live-in
    locals are small enough to be stored with the remaining edges of a row that waits for capacity.
    """
    types = dict(kernel.params) | dict(kernel.locals)
    inside = {id(n) for n in ir.walk(s.loop)}
    outside = [n for n in ir.walk((s.prologue, s.epilogue)) if id(n) not in inside]
    outside += [n for f in called(outside, funcs) for n in ir.walk(f)]
    slots = {slot for slot, _ in s.capacity}
    taken = ir.slots(outside, "allocates")
    live = bytes_of(
        8 if isinstance(t := types[n], Scalar) and t.bits > 32 else 4 for n in s.live_in
    )
    storable = all(isinstance(types[n], Scalar | Handle) for n in s.live_in)
    storable = storable and live <= LIVE_IN_BYTES
    return bool(slots) and not s.completes and not slots & taken and storable


def staged(s: SharedLoop, stores: Mapping[str, Store]) -> dict[str, tuple[int, int]]:
    """Collections with a staging buffer: its offset in a warp's memory and its size in entries.

    The position of a new entry is not used, and its columns are scalars.
    """
    evals = {id(n.value) for n in ir.find(s.body, ir.Eval)}
    made = [n for n in ir.walk(s.body) if n.allocates]
    kept = [n for n in made if not (isinstance(n, ir.Add) and id(n) in evals)]
    unstaged = ir.slots(kept, "allocates")
    slots = [
        slot
        for slot, _ in s.capacity
        if slot not in unstaged and not any(c.size for c in stores[slot].columns)
    ]
    sizes = {slot: entry_bytes(stores[slot]) for slot in slots}
    places = STAGING_BYTES // max(sum(sizes.values()), 1)
    if not s.batched or any(n * 128 > places for _, n in s.capacity):
        return {}
    found, at = {}, 0
    for slot, size in sizes.items():
        found[slot] = at, places
        at += -(-places * size // 8) * 8
    return found if at <= STAGING_BYTES else {}


def entry_bytes(store: Store) -> int:
    """The size of a struct with the columns of a list."""
    return bytes_of(c.dtype.bits // 8 for c in store.columns)


def bytes_of(sizes: Iterable[int]) -> int:
    """The size of a struct with members of some sizes, with padding."""
    at, widest = 0, 1
    for size in sizes:
        at = -(-at // size) * size + size
        widest = max(widest, size)
    return -(-at // widest) * widest


def over(loop: Loop) -> str:
    """The table whose rows a loop iterates over."""
    return f"{loop.graph}.edges" if isinstance(loop, ir.ForEdges) else loop.slot


def of_edge(p: ir.Place, loop: Loop, columns: Iterable[str]) -> bool:
    """Whether a place is one of some columns of the current edge, or row, of a loop."""
    row = isinstance(p.row, ir.Var) and p.row.name == loop_variables(loop)[0]
    return row and p.index is None and p.slot == over(loop) and p.column in columns


def preloaded(
    s: SharedLoop, stores: Mapping[str, Store], unstable: Set[tuple[str, str]],
    reached: Iterable[ir.Func],
) -> dict[str, Column]:  # fmt: skip
    """The columns of an edge or row that an iteration always reads, and no other iteration writes.

    They are loaded together with the end of the edge, before earlier iterations are executed.  A
    column that the iteration writes must not be read after that write.
    """
    slot, first = over(s.loop), list[ir.Node]()
    for x in s.body:
        first += ir.walk(x.cond if isinstance(x, ir.If) else x)
        if isinstance(x, ir.If | ir.Return):
            break
    if any(n.loop for n in first):
        return {}
    plain = {c.name: c for c in stores[slot].columns if not c.size and c.record < 0}
    row, nodes = loop_variables(s.loop)[0], list(ir.walk(tuple(reached)))
    for name in [x for x in plain if (slot, x) in unstable]:
        at = [n for n in ir.accesses(nodes) if column_of(n) == (slot, name)]
        if not _reads_then_writes(at, row, first, s.body):
            del plain[name]
    loads = [n.place for n in first if isinstance(n, ir.Load)]
    assigned = any(isinstance(n, ir.Assign) and n.name == row for n in ir.walk(s.body))
    found = {p.column for p in loads if of_edge(p, s.loop, plain)} if not assigned else set()
    return {name: plain[name] for name in sorted(found)}


def _reads_then_writes(
    at: Iterable[ir.Load | ir.Write], row: str, first: Iterable[ir.Node], body: ir.Body
) -> bool:
    """Whether accesses are only to an iteration's own row, with all reads before the writes."""
    before, inside = ({id(n) for n in x} for x in (first, ir.walk(body)))
    return all(
        isinstance(n.place.row, ir.Var)
        and n.place.row.name == row
        and (isinstance(n, ir.Load) and id(n) in before)
        | (isinstance(n, ir.Write) and id(n) in inside - before)
        for n in at
    )


def can_store_items_of(items: Store, then: Store) -> bool:
    """Whether items of ``then`` can be stored in ``items``: collections of equal columns."""
    collection = items.kind == "collection" and items.slot != then.slot
    return collection and replace(items, slot=then.slot) == then


def asynchronous_kernels(unit: ir.Unit) -> dict[str, tuple[str, str]]:
    """The asynchronous kernels: the list that each enqueues to, and the list with the entries.

    Entries are stored behind the items of the list that the step reads, so no other code may
    allocate there.  A thread must detect the end of an item: the loop is shared, without an
    epilogue.  No live-in local may be an entry of that list, as its slot may have been recycled.
    """
    kernels = [f for f in unit.funcs if isinstance(f, ir.Kernel) and f.ahead]
    found = shared_loops(unit) if kernels else {}
    return {
        f.name: f.ahead
        for f in kernels
        if f.ahead
        and f.name in found
        and not found[f.name].completes
        and not any(
            dict(f.params + f.locals)[n] == Handle(f.ahead[1]) for n in found[f.name].live_in
        )
        and not any(isinstance(n, ir.Add) and n.slot == f.ahead[1] for n in ir.walk(f))
    }


def lists_long_rows(unit: ir.Unit) -> bool:
    """Whether long rows are appended to a list that all threads process."""
    steps = [s for s in ir.find(unit.blocks, ir.Foreach) if s.balance in BALANCES_WITH_LIST]
    found = shared_loops(unit) if steps else {}
    return any(s.kernel in found for s in steps)


def shared_loop(
    kernel: ir.Func, funcs: Mapping[str, ir.Func], tables: Set[str]
) -> SharedLoop | None:
    """The parts of a kernel whose last loop can be shared, if it has one."""
    if not isinstance(kernel, ir.Kernel) or kernel.commit is not None:
        return None
    if any(isinstance(n, ir.MakeShared) for n in ir.walk(kernel.body)):
        return None  # see `group_execution`
    for head, loop, tail in last_loops(kernel.body, tables):
        facts = LoopFacts(loop, tail, kernel, funcs)
        if facts.is_independent():
            return _split(facts, head)
    return None


def _split(facts: LoopFacts, head: ir.Body) -> SharedLoop:
    """Prologue, body and epilogue; ``head`` are the statements up to the loop."""
    assert not isinstance(facts.loop, ir.ForRange)
    params = {n for n, _ in facts.kernel.params[1:]}
    kept = {n for n in facts.types if n not in params}
    live_in = (facts.outer - facts.reductions.keys()) & kept
    live_out = (facts.live_out | facts.reductions.keys()) & kept
    return SharedLoop(
        head, facts.loop, _returning(facts.loop.body), facts.tail, tuple(sorted(live_in)),
        tuple(sorted(live_out)), tuple(sorted(facts.reductions.items())),
        tuple(rows_taken(facts.loop.body).items()), pure=_is_pure(facts, head),
    )  # fmt: skip


def _is_pure(facts: LoopFacts, head: ir.Body) -> bool:
    """Whether only the tail has effects, and the loop is reached unconditionally."""
    own = [*ir.walk(head[:-1]), *facts.nodes]
    below = called(own, facts.funcs)

    def has_effect(n: ir.Node) -> bool:
        return n.effect or n.writes or isinstance(n, ir.MakeLocal)

    return (
        head[-1] is facts.loop
        and not _reads_epilogues(facts, head)
        and not any(has_effect(n) or n.sequential for n in own)
        and not any(f.cpp is not None for f in below)
        and not any(has_effect(n) for f in below for n in ir.walk(f.body))
    )


def _reads_epilogues(facts: LoopFacts, head: ir.Body) -> bool:
    """Whether the head reads a value that tails write: the warps of one row might differ."""
    if any(isinstance(n, ir.Raised) for n in facts.all_nodes(head[:-1])):
        return True
    reads = _places(facts, head[:-1], "reads")
    writes = _places(facts, facts.tail, "writes")
    return any(not (reads[c] and writes[c]) for c in reads.keys() & writes.keys())


def _places(facts: LoopFacts, body: ir.Body, trait: str) -> dict[tuple[str, str], bool]:
    """The columns that a body reads or writes, and whether only at the item itself."""
    own, below = ir.walk(body), facts.called_nodes(body)
    found: dict[tuple[str, str], bool] = {}
    for n, here in (*((n, True) for n in own), *((n, False) for n in below)):
        for column in ir.columns([n], trait):
            row = ir.accesses([n])[0].place.row
            here = here and isinstance(row, ir.Var) and row.name == facts.kernel.params[0][0]
            found[column] = here and found.get(column, True)
    return found


def last_loops(body: ir.Body, tables: Set[str]) -> list[tuple[ir.Body, Loop, ir.Body]]:
    """The last loops, one in each branch, with the statements before and after them."""
    branch = body[-1] if body else None
    if isinstance(branch, ir.If):
        found = [
            (replace(branch, then=h), loop, t) for h, loop, t in last_loops(branch.then, tables)
        ]
        found += [
            (replace(branch, orelse=h), loop, t) for h, loop, t in last_loops(branch.orelse, tables)
        ]
        if found:
            return [((*body[:-1], h), loop, t) for h, loop, t in found]
    loops: list[tuple[int, Loop]] = [
        (i, s) for i, s in enumerate(body) if isinstance(s, ir.ForEdges)
    ]
    if not loops:
        rows = ((i, s) for i, s in enumerate(body) if isinstance(s, ir.ForRows))
        loops = [(i, s) for i, s in rows if s.slot in tables]
    return [(body[: i + 1], s, body[i + 1 :]) for i, s in loops[-1:]]


def _returning(body: ir.Body) -> ir.Body:
    """A loop's body as the body of a function: ``continue`` becomes ``return``."""
    done: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Continue):
            s = ir.Return(value=None, pos=s.pos)
        elif not s.loop:
            s = ir.rewrite_bodies(s, _returning)
        done.append(s)
    return tuple(done)
