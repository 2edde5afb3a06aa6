"""Group execution: items that the threads of a GPU's warp or block execute together.

Each item of a kernel with shared arrays (``shared(dtype, n)``) is executed by a group of threads.
All of them execute the statements of its body; the iterations of a loop at its top level are
divided among them, and a barrier of the group follows each.  If such a loop has loops inside, each
iteration belongs to a *subwarp* of adjacent threads, whose lanes divide the iterations of these
inner loops.  Only the first thread of the group changes memory outside of all loops, only the first
lane of a subwarp in an iteration of that subwarp.  On a CPU an item runs on one thread, in order.

`group_plan` finds the loops that are divided.  A kernel that does not qualify runs on one thread:
its loops are not independent (see `work_sharing`), or its statements are not *uniform*, so that
threads could take different branches before a barrier: they read values that other items change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.effects import called
from morph.compiler.passes.independence import COMMUTATIVE, Loop, LoopFacts
from morph.language.types import Shared, Type

THREADS, SUBWARPS, LANES = "thread", "subwarp", "lane"
WARP_BYTES = 4096  # limit of the shared arrays of an item that a warp executes
THREAD_BYTES = 1024  # limit of those that one thread has in its local memory
Columns = Set[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How a group executes an item: ``body``, by all its threads; if None, only by the first."""

    body: ir.Body | None  # with marks of divided loops
    bytes: int  # of shared arrays


def shares_arrays(kernel: ir.Func) -> bool:
    """Whether a kernel has shared arrays."""
    return any(isinstance(n, ir.MakeShared) for n in ir.walk(kernel.body))


def array_bytes(types: Iterable[Type]) -> int:
    """Return the size of the shared arrays among the types of an item's locals."""
    return sum(t.bytes for t in types if isinstance(t, Shared))


def group_plan(
    kernel: ir.Kernel, funcs: Mapping[str, ir.Func], unstable: Columns, checked: bool
) -> GroupPlan | None:
    """Decide how groups execute the items of a kernel; None if it has no shared arrays."""
    if not shares_arrays(kernel):
        return None
    size = array_bytes(t for _, t in kernel.locals)
    written = {column for _, column in ir.columns(ir.walk(kernel.body), "writes")}
    if checked or not written.isdisjoint(("src", "dst")):
        return GroupPlan(None, size)
    return GroupPlan(_LoopDivision(kernel, funcs, unstable).body(kernel.body, (), ""), size)


class _LoopDivision:
    """Marks the loops to divide; ``level`` is the division of the enclosing loop, or empty."""

    def __init__(self, kernel: ir.Kernel, funcs: Mapping[str, ir.Func], unstable: Columns) -> None:
        self.kernel, self.funcs, self.unstable = kernel, funcs, unstable

    def body(self, body: ir.Body, following: ir.Body, level: str) -> ir.Body | None:
        """The statements with marks, None if not all threads may execute them.

        The statements ``following`` come after them.
        """
        found: list[ir.Stmt] = []
        for i, s in enumerate(body):
            marked = self._stmt(s, (*body[i + 1 :], *following), level)
            if marked is None:
                return None
            found.append(marked)
        return tuple(found)

    def _stmt(self, s: ir.Stmt, following: ir.Body, level: str) -> ir.Stmt | None:
        match s:
            case ir.If():
                if not self._is_uniform(s.cond):
                    return None
                then, orelse = (self.body(b, following, level) for b in (s.then, s.orelse))
                return (
                    None if then is None or orelse is None else replace(s, then=then, orelse=orelse)
                )
            case ir.ForRange() | ir.ForEdges() | ir.ForRows():
                uniform = all(map(self._is_uniform, ir.operands(s)))
                return self._loop(s, following, level) if uniform else None
        return s if self._may_execute(s, level) else None

    def _may_execute(self, s: ir.Stmt, level: str) -> bool:
        """Whether all threads may execute a statement that is no loop or branch."""
        match s:
            case ir.Assign() | ir.SetField():
                return self._is_uniform(s.value)
            case ir.SetItem():
                array = isinstance(dict(self.kernel.locals).get(s.name), Shared)
                return (
                    self._is_uniform(s.index)
                    and self._is_uniform(s.value)
                    and not (array and level)
                )
            case ir.Write():
                return self._is_uniform(s.place) and self._is_uniform(s.value)
            case ir.Eval(value=ir.Atomic(flag=None, op=op) as x) if op in COMMUTATIVE:
                return self._is_uniform(x.place) and all(map(self._is_uniform, x.args))
            case ir.Eval(value=ir.ItemAtomic(op=op) as x) if op in COMMUTATIVE:
                return self._is_uniform(x.index) and all(map(self._is_uniform, x.args))
            case ir.Continue():
                return bool(level)
            case ir.Return():
                return not level
        return False

    def _is_uniform(self, x: object) -> bool:
        """Whether an expression is uniform: the same for all threads, without side effects."""
        nodes = [*ir.walk(x)]
        below = called(nodes, self.funcs)
        if any(f.cpp is not None for f in below):
            return False
        nodes += [n for f in below for n in ir.walk(f.body)]
        return not any(
            n.effect or n.writes or n.allocates or isinstance(n, ir.Raised | ir.Dead)
            or (isinstance(n, ir.Load) and (n.place.slot, n.place.column) in self.unstable)
            for n in nodes
        )  # fmt: skip

    def _loop(self, s: Loop | ir.ForRange, following: ir.Body, level: str) -> ir.Stmt | None:
        """The loop with marks, None if its iterations cannot be divided."""
        facts = LoopFacts(s, following, self.kernel, self.funcs)
        if isinstance(s, ir.ForEdges) and s.direction == "all":
            return None
        if not facts.is_independent() or not self._arrays_are_independent(s, facts):
            return None
        reductions = tuple(sorted(facts.reductions.items()))
        if level:
            return replace(s, divided=LANES, reductions=reductions)
        inner = any(n.loop for n in ir.walk(s.body))
        if inner and (body := self.body(s.body, (), SUBWARPS)) is not None:
            return replace(s, divided=SUBWARPS, reductions=reductions, body=body)
        return replace(s, divided=THREADS, reductions=reductions)

    def _arrays_are_independent(self, s: ir.Stmt, facts: LoopFacts) -> bool:
        """Whether each array is only read, or only changed by one operation in any order.

        As with columns, iterations may use results of atomics at an index that depends on them.
        """
        nodes = list(ir.walk(s))
        evals = {id(n.value) for n in nodes if isinstance(n, ir.Eval)}
        constant = {id(n.x) for n in nodes if isinstance(n, ir.LocalSize)}
        arrays = (n for n in nodes if isinstance(n, ir.Var) and isinstance(n.type, Shared))
        read = {n.name for n in arrays if id(n) not in constant}
        ops: dict[str, set[str]] = {}
        for n in nodes:
            if isinstance(n, ir.ItemAtomic):
                if facts.is_invariant(n.index) and (id(n) not in evals or n.op not in COMMUTATIVE):
                    return False
                ops.setdefault(n.name, set()).add(n.op)
        return read.isdisjoint(ops) and all(len(found) == 1 for found in ops.values())


def group_size(balance: str, plan: GroupPlan) -> int:
    """Return how many threads of a GPU execute an item: 1, those of a warp, or of a block."""
    if balance == "thread" or plan.body is None:
        return 1
    return 32 if balance == "warp" and plan.bytes <= WARP_BYTES else 256


def widest_group(unit: ir.Unit) -> int:
    """Return the size of the largest group; 0 if no kernel of the unit has shared arrays."""
    names = {f.name for f in unit.funcs if isinstance(f, ir.Kernel) and shares_arrays(f)}
    steps = [s for s in ir.find(unit.blocks, ir.Foreach) if s.kernel in names]
    return max((32 if s.balance == "warp" else 256 for s in steps), default=0)
