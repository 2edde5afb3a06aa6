"""Work sharing: finds the loop of a kernel whose edges several threads may share.

The last loop over a point's neighbours or edges (or else over a table's rows) is shared if its
iterations are independent: none passes a local to another, or writes a value that another reads.
Then the threads of a warp or team share the edges of all items of a step, across rows.
The kernel becomes a *prologue* (the statements before the loop), the *body* of the loop, and an
*epilogue*.  `shared_loops` finds these kernels; the step's ``balance`` then decides whether long
rows are appended to a list for all threads (`lists`); kernels/schedule/balance.h distributes edges.

Non-atomic writes are allowed to rows that only one iteration accesses (its edge or row, or a row
that it allocates), and of a value that is the same for all iterations.  The result of an atomic on
a place that all iterations change must not be used.  A local declared outside of the loop may be a
*reduction*: iterations only add to it, or only take its minimum or maximum.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, replace

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.liveness import read_first
from morph.language.types import Column, Handle, Local, Object, Scalar, Shared, Store

LISTS = ("auto", "grid")  # choices with which all threads share long rows
CHOICES = ("auto", "thread", "warp", "block", "grid")
Loop = ir.ForEdges | ir.ForRows
LIVE_IN_BYTES = 32  # limit of the live-in locals stored with the remaining edges of a row
STAGING_BYTES = 4096 - 64  # bytes of a warp's staging buffers; see kernels/schedule/staging.h
COMMUTATIVE = ("min", "max", "add", "sub", "and", "or", "xor")  # in any order


@dataclass(frozen=True, slots=True)
class SharedLoop:
    """The parts of a kernel with a shared loop, and the locals that are live between them.

    Attributes
    ----------
    live_in : the locals (the item among them) that the body reads
    live_out : the locals that the epilogue reads or the body reduces to
    reductions : locals declared outside, with their operation: ``+``, ``min`` or ``max``
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
    kept = {s.kernel for s in steps if allows_shared_loop(s) and s.balance not in LISTS}  # no list
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
    called = [n.func for n in outside if isinstance(n, ir.Call)]
    outside += [n for f in called for n in ir.walk(reached(f, funcs))]
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
    row = isinstance(p.row, ir.Var) and p.row.name == bound(loop)[0]
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
    row, nodes = bound(s.loop)[0], list(ir.walk(tuple(reached)))
    for name in [x for x in plain if (slot, x) in unstable]:
        at = [n for n in ir.accesses(nodes) if _column(n) == (slot, name)]
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


def reached(name: str, funcs: Mapping[str, ir.Func]) -> tuple[ir.Func, ...]:
    """A function and all functions that it calls."""
    seen = {name: funcs[name]}
    todo = [name]
    while todo:
        for n in ir.walk(seen[todo.pop()]):
            if isinstance(n, ir.Call) and n.func not in seen:
                seen[n.func] = funcs[n.func]
                todo.append(n.func)
    return tuple(seen.values())


def can_run_ahead(items: Store, then: Store) -> bool:
    """Whether items of ``then`` can be stored in ``items``: collections of equal columns."""
    collection = items.kind == "collection" and items.slot != then.slot
    return collection and replace(items, slot=then.slot) == then


def runs_ahead(unit: ir.Unit) -> dict[str, tuple[str, str]]:
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


def lists(unit: ir.Unit) -> bool:
    """Whether long rows are appended to a list that all threads process."""
    steps = [s for s in ir.find(unit.blocks, ir.Foreach) if s.balance in LISTS]
    found = shared_loops(unit) if steps else {}
    return any(s.kernel in found for s in steps)


def bound(loop: Loop | ir.ForRange) -> list[str]:
    """The locals that a loop assigns, the edge first."""
    return [n for name in loop.binds if (n := getattr(loop, name)) is not None]


def shared_loop(
    kernel: ir.Func, funcs: Mapping[str, ir.Func], tables: Set[str]
) -> SharedLoop | None:
    """The parts of a kernel whose last loop can be shared, if it has one."""
    if not isinstance(kernel, ir.Kernel) or kernel.commit is not None:
        return None
    if any(isinstance(n, ir.MakeShared) for n in ir.walk(kernel.body)):
        return None  # see `group_execution`
    for head, loop, tail in last_loops(kernel.body, tables):
        facts = _Loop(loop, tail, kernel, funcs)
        if facts.is_independent():
            return facts.split(head)
    return None


def independent(
    loop: Loop | ir.ForRange, behind: ir.Body, kernel: ir.Kernel, funcs: Mapping[str, ir.Func]
) -> tuple[tuple[str, str], ...] | None:
    """The reductions of a loop whose iterations may run in any order; None if they may not."""
    facts = _Loop(loop, behind, kernel, funcs)
    return tuple(sorted(facts.reductions.items())) if facts.is_independent() else None


def reductions_of(
    loop: Loop, behind: ir.Body, kernel: ir.Kernel, funcs: Mapping[str, ir.Func]
) -> Mapping[str, str]:
    """The locals that a loop reduces to, and by which operation; ``behind`` follows the loop."""
    return _Loop(loop, behind, kernel, funcs).reductions


def is_divisible(
    loop: Loop, behind: ir.Body, kernel: ir.Kernel, funcs: Mapping[str, ir.Func],
    alike: Container[tuple[str, str]] = (),
) -> bool:  # fmt: skip
    """Whether parts of a graph may divide the iterations; each part keeps their order.

    The iterations are independent, apart from reductions.  The columns ``alike`` have one value
    after the loop, whichever part writes them; `Replicated` refuses reads of these in the loop.
    """
    return _Loop(loop, behind, kernel, funcs).is_divisible(alike)


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


class _Loop:
    """A loop of a kernel, with the names and effects of its body."""

    def __init__(
        self, loop: Loop | ir.ForRange, tail: ir.Body, kernel: ir.Kernel,
        funcs: Mapping[str, ir.Func],
    ) -> None:  # fmt: skip
        self.loop, self.tail, self.kernel, self.funcs = loop, tail, kernel, funcs
        self.types = dict(kernel.params) | dict(kernel.locals)
        self.nodes = list(ir.walk(loop.body))
        self.given = set(bound(loop))
        self.assigned = _assigned(self.nodes)
        self.outer = read_first(loop.body) - self.given
        self.after = read_first(tail)
        self.reductions = {
            n: how for n in self.outer & self.assigned if (how := self._reduction(n))
        }
        self.private = {bound(loop)[0], *self._made()} - {
            n for n in self.given if n in self.assigned
        }

    def split(self, head: ir.Body) -> SharedLoop:
        """Prologue, body and epilogue; ``head`` are the statements up to the loop."""
        assert not isinstance(self.loop, ir.ForRange)
        params = {n for n, _ in self.kernel.params[1:]}
        kept = {n for n in self.types if n not in params}
        live, rest = (
            (self.outer - self.reductions.keys()) & kept,
            (self.after | self.reductions.keys()) & kept,
        )
        return SharedLoop(
            head, self.loop, _returning(self.loop.body), self.tail, tuple(sorted(live)),
            tuple(sorted(rest)), tuple(sorted(self.reductions.items())),
            tuple(_rows_taken(self.loop.body).items()), pure=self._is_pure(head),
        )  # fmt: skip

    def _is_pure(self, head: ir.Body) -> bool:
        """Whether only the tail has effects, and the loop is reached unconditionally."""
        own = [*ir.walk(head[:-1]), *self.nodes]
        calls = dict.fromkeys(n.func for n in own if isinstance(n, ir.Call))
        below = [f for name in calls for f in reached(name, self.funcs)]

        def has_effect(n: ir.Node) -> bool:
            return n.effect or n.writes or isinstance(n, ir.MakeLocal)

        return (
            head[-1] is self.loop
            and not self._reads_epilogues(head)
            and not any(has_effect(n) or n.sequential for n in own)
            and not any(f.cpp is not None for f in below)
            and not any(has_effect(n) for f in below for n in ir.walk(f.body))
        )

    def _reads_epilogues(self, head: ir.Body) -> bool:
        """Whether the head reads a value that tails write: the warps of one row might differ."""
        if any(isinstance(n, ir.Raised) for n in self._all(head[:-1])):
            return True
        reads = self._places(head[:-1], "reads")
        writes = self._places(self.tail, "writes")
        return any(not (reads[c] and writes[c]) for c in reads.keys() & writes.keys())

    def _places(self, body: ir.Body, trait: str) -> dict[tuple[str, str], bool]:
        """The columns that a body reads or writes, and whether only at the item itself."""
        own, found = list(ir.walk(body)), dict[tuple[str, str], bool]()
        below = self._all(body)[len(own) :]
        for n, here in (*((n, True) for n in own), *((n, False) for n in below)):
            for column in ir.columns([n], trait):
                row = ir.accesses([n])[0].place.row
                here = here and isinstance(row, ir.Var) and row.name == self.kernel.params[0][0]
                found[column] = here and found.get(column, True)
        return found

    def _all(self, body: ir.Body) -> list[ir.Node]:
        """The nodes of a body, followed by those of the functions that it calls."""
        own = list(ir.walk(body))
        calls = dict.fromkeys(n.func for n in own if isinstance(n, ir.Call))
        return own + [
            n for name in calls for f in reached(name, self.funcs) for n in ir.walk(f.body)
        ]

    def is_independent(self) -> bool:
        """Whether several threads may execute the iterations, in any order."""
        loop = self.loop
        match loop:
            case ir.ForRange():
                in_order = loop.step == 1
            case ir.ForEdges():
                in_order = not loop.reverse and loop.skip is None and loop.direction != "all"
            case _:
                in_order = not loop.reverse and not _rows_taken(loop.body)
        passed_on = (self.assigned & self.outer) - self.reductions.keys()
        passed_on |= (self.assigned | self.given) & self.after - self.reductions.keys()
        return (
            in_order
            and not any(n.sequential for n in self.nodes)
            and not breaks(loop.body)
            and not passed_on
            and not any(self._is_collection(n) for n in self._names())
            and not _allocates_in_loops(loop.body)
            and self._calls_change_nothing()
            and self._effects_commute()
            and self._writes_are_apart()
        )

    def is_divisible(self, alike: Container[tuple[str, str]]) -> bool:
        """Whether no iteration depends on another one, apart from reductions."""
        passed_on = (self.assigned & self.outer) - self.reductions.keys()
        kept = any(isinstance(self.types.get(n), Local) for n in self.outer)
        below = (n for n in self._below() if not isinstance(n, ir.Prefetch))
        return (
            not passed_on
            and not kept
            and not breaks(self.loop.body)
            and not any(n.effect or n.writes for n in below)
            and self._effects_commute()
            and self._writes_are_apart(alike)
        )

    def _is_collection(self, name: str) -> bool:
        t = self.types.get(name)
        return isinstance(t, Local | Object) and not isinstance(t, Shared)

    def _names(self) -> set[str]:
        return self.outer | self.after

    def _reduction(self, name: str) -> str:
        """The operation that reduces to a local: ``+``, ``min`` or ``max``; empty if none."""
        t = self.types.get(name)
        if not isinstance(t, Scalar) or t.bits < 32:
            return ""
        found: set[str] = set()
        uses = sum(isinstance(n, ir.Var) and n.name == name for n in self.nodes)
        sets = [n for n in self.nodes if name in ir.bound([n]) | ir.used([n])]
        for n in sets:
            match n:
                case ir.Var():
                    continue
                case ir.Assign(value=ir.Binary(op="+" | "-", x=ir.Var(name=first))) if (
                    first == name
                ):
                    found.add("+")
                case ir.Assign(value=ir.Builtin(name="min" | "max" as how, args=(x, y))) if any(
                    isinstance(v, ir.Var) and v.name == name for v in (x, y)
                ):
                    found.add(how)
                case _:
                    return ""
            uses -= 1
        return found.pop() if len(found) == 1 and not uses else ""

    # --- effects ---------------------------------------------------------------------------------

    def _made(self) -> set[str]:
        """The locals that denote a row allocated by the same iteration."""
        values: dict[str, list[ir.Expr]] = {}
        for n in self.nodes:
            if isinstance(n, ir.Assign):
                values.setdefault(n.name, []).append(n.value)
        return {n for n, v in values.items() if len(v) == 1 and isinstance(v[0], ir.New)}

    def _below(self) -> list[ir.Node]:
        """The nodes of called functions."""
        seen: set[str] = set()
        found: list[ir.Node] = []
        todo = [n.func for n in self.nodes if isinstance(n, ir.Call)]
        while todo:
            if (name := todo.pop()) not in seen:
                seen.add(name)
                inner = list(ir.walk(self.funcs[name].body))
                found += inner
                todo += [n.func for n in inner if isinstance(n, ir.Call)]
        return found

    def _calls_change_nothing(self) -> bool:
        called = (
            self.funcs[n.func] for n in (*self.nodes, *self._below()) if isinstance(n, ir.Call)
        )
        if any(f.cpp is not None for f in called):
            return False
        below = (n for n in self._below() if not isinstance(n, ir.Prefetch))
        return not any(n.effect or n.writes for n in below)

    def _shared(self, *exprs: ir.Expr | None) -> bool:
        """Whether an expression is the same for all entries, apart from loaded values."""
        varying = self.given | self.assigned
        return not any(isinstance(n, ir.Var) and n.name in varying for n in ir.walk(exprs))

    def _effects_commute(self) -> bool:
        """Whether all effects except non-atomic writes commute."""
        deleted = {n.slot for n in self.nodes if isinstance(n, ir.Delete)}
        for n in self.nodes:
            match n:
                case ir.FlagSet(value=False):
                    return False
                case ir.Dead() if n.slot in deleted:
                    return False
                case ir.Lock() if self._shared(n.row):
                    return False
                case ir.LockPlace(place=p) if self._shared(p.row, p.index):
                    return False
                case ir.Atomic(place=p) if self._shared(p.row, p.index) and not self._only_reduces(
                    n
                ):
                    return False
        return True

    def _only_reduces(self, x: ir.Atomic) -> bool:
        """Whether an atomic on a shared place only reduces: no iteration uses its result."""
        every = ir.accesses((*self.nodes, *self._below()))
        same = [n for n in every if _column(n) == _column(x)]
        unused = any(isinstance(s, ir.Eval) and s.value is x for s in self.nodes)
        return x.op in COMMUTATIVE and unused and all(getattr(n, "op", "") == x.op for n in same)

    def _writes_are_apart(self, alike: Container[tuple[str, str]] = ()) -> bool:
        """Whether no two iterations conflict by a non-atomic write."""
        written: dict[tuple[str, str], list[ir.Write]] = {}
        for n in self.nodes:
            if isinstance(n, ir.Write) and _column(n) not in alike:
                written.setdefault(_column(n), []).append(n)
        moved = ir.columns(self.nodes, "writes")
        if isinstance(self.loop, ir.ForEdges):
            if moved & {(f"{self.loop.graph}.edges", end) for end in ("src", "dst")}:
                return False
        every = ir.accesses((*self.nodes, *self._below()))
        for column, writes in written.items():
            touched = [n for n in every if _column(n) == column]
            if not all(self._owned(n.place) for n in touched):
                first = writes[0].value
                constant = len(writes) == 1 and self._is_constant(first)
                constant |= isinstance(first, ir.Const) and all(
                    isinstance(w.value, ir.Const) and w.value.value == first.value for w in writes
                )
                if not constant or len(touched) > len(writes):
                    return False
        return True

    def _owned(self, p: ir.Place) -> bool:
        return isinstance(p.row, ir.Var) and p.row.name in self.private

    def _is_constant(self, value: ir.Expr) -> bool:
        """Whether a value is the same for all entries, and does not change during the step."""
        nodes, written = list(ir.walk(value)), ir.columns(self._all(self.kernel.body), "writes")

        def changes(n: ir.Node) -> bool:
            constant = isinstance(n, ir.Load) and _column(n) not in written
            return (n.varies and not constant) or n.effect or isinstance(n, ir.Call)

        return self._shared(value) and not any(map(changes, nodes))


def _assigned(nodes: list[ir.Node]) -> set[str]:
    changed = (n for n in nodes if isinstance(n, ir.SetItem | ir.SetField))
    return ir.bound(nodes) | ir.used(changed)


def _column(n: ir.Load | ir.Write | ir.Atomic | ir.LockPlace) -> tuple[str, str]:
    """The column that a node reads or writes."""
    return n.place.slot, n.place.column


def breaks(body: ir.Body) -> bool:
    """Whether the body of a loop leaves the loop."""
    for s in body:
        if isinstance(s, ir.Break) or (not s.loop and any(map(breaks, ir.bodies(s)))):
            return True
    return False


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


def _allocates_in_loops(body: ir.Body) -> bool:
    return any(_rows_taken(b) for s in ir.walk(body) if s.loop for b in ir.bodies(s))


def _rows_taken(body: ir.Body) -> dict[str, int]:
    """The maximum number of rows of each store that statements without loops allocate."""
    total: dict[str, int] = {}
    for s in body:
        found: dict[str, int] = {}
        if isinstance(s, ir.If):
            a, b = _rows_taken(s.then), _rows_taken(s.orelse)
            found = {k: max(a.get(k, 0), b.get(k, 0)) for k in {**a, **b}}
        elif not s.loop:
            for n in ir.walk(s):
                if isinstance(n, ir.New | ir.Add):
                    found[n.slot] = found.get(n.slot, 0) + 1
        for k, v in found.items():
            total[k] = total.get(k, 0) + v
    return total
