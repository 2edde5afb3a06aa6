"""Group execution: items that the threads of a GPU's warp or block execute together.

A kernel with shared arrays (``shared(dtype, n)``) has one item to a group of threads.  All of them
run the statements of its body alike; the iterations of a loop at its top level are divided among
them, and a barrier of the group follows each.  If such a loop has loops inside, each iteration
belongs to a *tile* of adjacent threads, whose lanes divide the iterations of these inner loops.
What changes memory outside of all loops is done by the first thread of the group, what changes it
in an iteration of a tile by the tile's first lane.  On a CPU an item runs on one thread, in order.

`groups` finds the loops that are divided.  A kernel that does not qualify runs on one thread: its
loops are not independent (see `work_sharing`), or threads could take different branches on their
way to a barrier, for example because they read what other items change.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.work_sharing import COMMUTATIVE, Loop, independent, reached
from morph.language.types import Shared

THREADS, TILES, LANES = "thread", "tile", "lane"
WARP_BYTES = 4096  # of shared arrays, at most, where each warp has an item of its own
Columns = Set[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class GroupLoop:
    """A loop that threads divide: among all ``thread``, by ``tile``, or the ``lane`` of a tile."""

    by: str
    reductions: tuple[tuple[str, str], ...]  # see `work_sharing.SharedLoop`


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a group executes an item; ``loops`` by id.  Not ``together``: its first thread alone."""

    together: bool
    loops: Mapping[int, GroupLoop]
    bytes: int  # of shared arrays


def shares_arrays(kernel: ir.Func) -> bool:
    """Whether a kernel has shared arrays."""
    return any(isinstance(n, ir.MakeShared) for n in ir.walk(kernel.body))


def grouping(
    kernel: ir.Kernel, funcs: Mapping[str, ir.Func], unstable: Columns, checked: bool
) -> Grouping | None:
    """How a group executes the items of a kernel; None if it has no shared arrays."""
    arrays = [n.type for n in ir.walk(kernel.body) if isinstance(n, ir.MakeShared)]
    if not arrays:
        return None
    size = sum(t.capacity * t.elem.bits // 8 for t in arrays if isinstance(t, Shared))  # type: ignore[attr-defined]
    found = _Groups(kernel, funcs, unstable)
    moved = {column for _, column in ir.columns(ir.walk(kernel.body), "writes")}  # ends of edges
    together = not checked and moved.isdisjoint(("src", "dst")) and found.body(kernel.body, (), "")
    return Grouping(together, found.loops if together else {}, size)


class _Groups:
    """Finds the loops; ``level`` is that of the loop around a statement, or empty."""

    def __init__(self, kernel: ir.Kernel, funcs: Mapping[str, ir.Func], unstable: Columns) -> None:
        self.kernel, self.funcs, self.unstable = kernel, funcs, unstable
        self.loops: dict[int, GroupLoop] = {}

    def body(self, body: ir.Body, behind: ir.Body, level: str) -> bool:
        """Whether threads may run statements alike; ``behind`` are those that follow."""
        return all(self._stmt(s, (*body[i + 1 :], *behind), level) for i, s in enumerate(body))

    def _stmt(self, s: ir.Stmt, behind: ir.Body, level: str) -> bool:
        match s:
            case ir.If():
                branches = (self.body(b, behind, level) for b in (s.then, s.orelse))
                return self._alike(s.cond) and all(branches)
            case ir.ForRange() | ir.ForEdges() | ir.ForRows():
                return all(map(self._alike, ir.operands(s))) and self._loop(s, behind, level)
            case ir.Assign() | ir.SetField():
                return self._alike(s.value)
            case ir.SetItem():
                array = isinstance(dict(self.kernel.locals).get(s.name), Shared)
                return self._alike(s.index) and self._alike(s.value) and not (array and level)
            case ir.Write():
                return self._alike(s.place) and self._alike(s.value)
            case ir.Eval(value=ir.Atomic(flag=None, op=op) as x) if op in COMMUTATIVE:
                return self._alike(x.place) and all(map(self._alike, x.args))
            case ir.Eval(value=ir.ItemAtomic(op=op) as x) if op in COMMUTATIVE:
                return self._alike(x.index) and self._alike(x.value)
            case ir.Continue():
                return bool(level)
            case ir.Return():
                return not level
        return False

    def _alike(self, x: object) -> bool:
        """Whether all threads find the same value, without an effect."""
        nodes = [*ir.walk(x)]
        called = dict.fromkeys(n.func for n in nodes if isinstance(n, ir.Call))
        below = [f for name in called for f in reached(name, self.funcs)]
        if any(f.cpp is not None for f in below):
            return False
        nodes += [n for f in below for n in ir.walk(f.body)]
        return not any(
            n.effect or n.writes or n.allocates or isinstance(n, ir.Raised | ir.Dead)
            or (isinstance(n, ir.Load) and (n.place.slot, n.place.column) in self.unstable)
            for n in nodes
        )  # fmt: skip

    def _loop(self, s: Loop | ir.ForRange, behind: ir.Body, level: str) -> bool:
        """Whether the iterations of a loop can be divided."""
        facts = independent(s, behind, self.kernel, self.funcs)
        if facts is None or not self._arrays_are_apart(s):
            return False
        by = LANES
        if not level:
            inner = any(n.loop for n in ir.walk(s.body))
            kept = dict(self.loops)
            by = TILES if inner and self.body(s.body, (), TILES) else THREADS
            if by == THREADS:
                self.loops = kept
        self.loops[id(s)] = GroupLoop(by, facts)
        return True

    def _arrays_are_apart(self, s: ir.Stmt) -> bool:
        """Whether each array is only read, or only changed by one operation in any order."""
        nodes = list(ir.walk(s))
        evals = {id(n.value) for n in nodes if isinstance(n, ir.Eval)}
        read = {n.name for n in nodes if isinstance(n, ir.Var) and isinstance(n.type, Shared)}
        ops: dict[str, set[str]] = {}
        for n in nodes:
            if isinstance(n, ir.ItemAtomic):
                if id(n) not in evals or n.op not in COMMUTATIVE:
                    return False
                ops.setdefault(n.name, set()).add(n.op)
        return read.isdisjoint(ops) and all(len(found) == 1 for found in ops.values())


def group_size(balance: str, arrays: Grouping) -> int:
    """How many threads of a GPU execute an item: 1, those of a warp, or of a block."""
    if balance == "thread" or not arrays.together:
        return 1
    return 32 if balance == "warp" and arrays.bytes <= WARP_BYTES else 256


def widest_group(unit: ir.Unit) -> int:
    """The most threads that take one item, 0 if no kernel of the unit has shared arrays."""
    names = {f.name for f in unit.funcs if isinstance(f, ir.Kernel) and shares_arrays(f)}
    steps = [s for s in ir.find(unit.blocks, ir.Foreach) if s.kernel in names]
    return max((32 if s.balance == "warp" else 256 for s in steps), default=0)
