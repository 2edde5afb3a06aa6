"""Independence of a loop's iterations: which names and effects pass from one to another.

Non-atomic writes are allowed to rows that only one iteration accesses (its edge or row, or a row
that it allocates), and of a value that is the same for all iterations.  The result of an atomic on
a place that all iterations change must not be used.  A local declared outside of the loop may be a
*reduction*: iterations only add to it, only set or clear bits, or only take its minimum or maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial

from morph.compiler.ir import nodes as ir
from morph.compiler.passes.effects import called
from morph.compiler.passes.liveness import read_first
from morph.language.types import Local, Object, Scalar, Shared

Loop = ir.ForEdges | ir.ForRows
OPERATIONS = {"+": "+", "-": "+", "|": "|", "&": "&"}  # of a reduction ``x = x op y``
COMMUTATIVE = ("min", "max", "add", "sub", "and", "or", "xor")  # in any order


def reductions_of(
    loop: Loop, tail: ir.Body, kernel: ir.Kernel, funcs: Mapping[str, ir.Func]
) -> Mapping[str, str]:
    """The locals that a loop reduces to, and by which operation; ``tail`` follows the loop."""
    return LoopFacts(loop, tail, kernel, funcs).reductions


def is_divisible(
    loop: Loop, tail: ir.Body, kernel: ir.Kernel, funcs: Mapping[str, ir.Func],
    alike: Container[ir.ColumnKey] = (),
) -> bool:  # fmt: skip
    """Whether parts of a graph may divide the iterations; each part keeps their order.

    The iterations are independent, apart from reductions.  The columns ``alike`` have one value
    after the loop, whichever part writes them; `Replicated` refuses reads of these in the loop.
    """
    return LoopFacts(loop, tail, kernel, funcs).is_divisible(alike)


class LoopFacts:
    """A loop of a kernel, with the names and effects of its body; ``tail`` follows it."""

    def __init__(
        self, loop: Loop | ir.ForRange, tail: ir.Body, kernel: ir.Kernel,
        funcs: Mapping[str, ir.Func],
    ) -> None:  # fmt: skip
        self.loop, self.tail, self.kernel, self.funcs = loop, tail, kernel, funcs
        self.types = dict(kernel.params) | dict(kernel.locals)
        self.nodes = list(ir.walk(loop.body))
        self.given = set(loop_variables(loop))
        self.assigned = _assigned(self.nodes)
        self.outer = read_first(loop.body) - self.given
        self.live_out = read_first(tail)
        self.reductions = {
            n: how for n in self.outer & self.assigned if (how := self._reduction(n))
        }
        # locals that denote a row of this iteration alone
        self.private = {loop_variables(loop)[0], *self._made()} - {
            n for n in self.given if n in self.assigned
        }

    def all_nodes(self, body: ir.Body) -> list[ir.Node]:
        """The nodes of a body, followed by those of the functions that it calls."""
        return [*ir.walk(body), *self.called_nodes(body)]

    def called_nodes(self, body: ir.Body) -> list[ir.Node]:
        """The nodes of the functions that a body calls."""
        return [n for f in called(ir.walk(body), self.funcs) for n in ir.walk(f.body)]

    def is_independent(self) -> bool:
        """Whether several threads may execute the iterations, in any order."""
        loop = self.loop
        match loop:
            case ir.ForRange():
                in_order = loop.step == 1
            case ir.ForEdges():
                in_order = not loop.reverse and loop.skip is None
            case _:
                in_order = not loop.reverse and not rows_taken(loop.body)
        passed_on = (self.assigned & self.outer) - self.reductions.keys()
        passed_on |= (self.assigned | self.given) & self.live_out - self.reductions.keys()
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

    def is_divisible(self, alike: Container[ir.ColumnKey]) -> bool:
        """Whether no iteration depends on another one, apart from reductions."""
        passed_on = (self.assigned & self.outer) - self.reductions.keys()
        kept = any(isinstance(self.types.get(n), Local) for n in self.outer)
        below = (n for n in self.called_nodes(self.loop.body) if not isinstance(n, ir.Prefetch))
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
        return self.outer | self.live_out

    def _reduction(self, name: str) -> str:
        """The operation that reduces to a local (``+``, ``|``, ``&``, ``min``, ``max``), or ""."""
        t = self.types.get(name)
        if not isinstance(t, Scalar) or t.bits < 32:
            return ""
        uses = sum(isinstance(n, ir.Var) and n.name == name for n in self.nodes)
        found: set[str] = set()
        for n in self.nodes:
            if isinstance(n, ir.Var) or name not in ir.bound([n]) | ir.used([n]):
                continue
            value = n.value if isinstance(n, ir.Assign) else None
            found.add(combining_operation(value, partial(is_variable, name=name)))
            uses -= 1
        how = found.pop() if len(found) == 1 and not uses else ""
        return how if t.kind in "iu" or how not in ("|", "&") else ""

    # --- effects ---------------------------------------------------------------------------------

    def _made(self) -> set[str]:
        """The locals that denote a row allocated by the same iteration."""
        values: dict[str, list[ir.Expr]] = {}
        for n in self.nodes:
            if isinstance(n, ir.Assign):
                values.setdefault(n.name, []).append(n.value)
        return {n for n, v in values.items() if len(v) == 1 and isinstance(v[0], ir.New)}

    def _calls_change_nothing(self) -> bool:
        if any(f.cpp is not None for f in called(self.nodes, self.funcs)):
            return False
        below = (n for n in self.called_nodes(self.loop.body) if not isinstance(n, ir.Prefetch))
        return not any(n.effect or n.writes for n in below)

    def is_invariant(self, *exprs: ir.Expr | None) -> bool:
        """Whether an expression is the same for all iterations, apart from loaded values."""
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
                case ir.Lock() if self.is_invariant(n.row):
                    return False
                case ir.LockPlace(place=p) if self.is_invariant(p.row, p.index):
                    return False
                case ir.Atomic(place=p) if self.is_invariant(
                    p.row, p.index
                ) and not self._only_reduces(n):
                    return False
        return True

    def _only_reduces(self, x: ir.Atomic) -> bool:
        """Whether an atomic on a shared place only reduces: no iteration uses its result."""
        every = ir.accesses(self.all_nodes(self.loop.body))
        same = [n for n in every if column_of(n) == column_of(x)]
        unused = any(isinstance(s, ir.Eval) and s.value is x for s in self.nodes)
        return x.op in COMMUTATIVE and unused and all(getattr(n, "op", "") == x.op for n in same)

    def _writes_are_apart(self, alike: Container[ir.ColumnKey] = ()) -> bool:
        """Whether no two iterations conflict by a non-atomic write."""
        written: dict[tuple[str, str], list[ir.Write]] = {}
        for n in self.nodes:
            if isinstance(n, ir.Write) and column_of(n) not in alike:
                written.setdefault(column_of(n), []).append(n)
        moved = ir.columns(self.nodes, "writes")
        if isinstance(self.loop, ir.ForEdges):
            if moved & {(f"{self.loop.graph}.edges", end) for end in ("src", "dst")}:
                return False
        every = ir.accesses(self.all_nodes(self.loop.body))
        for column, writes in written.items():
            touched = [n for n in every if column_of(n) == column]
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
        """Whether a value is the same for all iterations, and does not change during the step."""
        nodes, written = (
            list(ir.walk(value)),
            ir.columns(self.all_nodes(self.kernel.body), "writes"),
        )

        def changes(n: ir.Node) -> bool:
            constant = isinstance(n, ir.Load) and column_of(n) not in written
            return (n.varies and not constant) or n.effect or isinstance(n, ir.Call)

        return self.is_invariant(value) and not any(map(changes, nodes))


def combining_operation(value: ir.Expr | None, is_old: Callable[[ir.Expr], bool]) -> str:
    """The operation by which a value combines the old one with another; empty if it does not."""
    match value:
        case ir.Binary(op=op, x=x, y=y) if op in OPERATIONS:
            return OPERATIONS[op] if is_old(x) or op != "-" and is_old(y) else ""
        case ir.Builtin(name="min" | "max" as how, args=(x, y)):
            return how if is_old(x) != is_old(y) else ""
    return ""


def is_variable(x: ir.Expr, name: str) -> bool:
    """Whether an expression is a local."""
    return isinstance(x, ir.Var) and x.name == name


def loop_variables(loop: Loop | ir.ForRange) -> list[str]:
    """The locals that a loop assigns, the edge first."""
    return [n for name in loop.binds if (n := getattr(loop, name)) is not None]


def _assigned(nodes: list[ir.Node]) -> set[str]:
    changed = (n for n in nodes if isinstance(n, ir.SetItem | ir.SetField))
    return ir.bound(nodes) | ir.used(changed)


def column_of(n: ir.Load | ir.Write | ir.Atomic | ir.LockPlace) -> tuple[str, str]:
    """The column that a node reads or writes."""
    return n.place.slot, n.place.column


def breaks(body: ir.Body) -> bool:
    """Whether the body of a loop leaves the loop."""
    for s in body:
        if isinstance(s, ir.Break) or (not s.loop and any(map(breaks, ir.bodies(s)))):
            return True
    return False


def _allocates_in_loops(body: ir.Body) -> bool:
    return any(rows_taken(b) for s in ir.walk(body) if s.loop for b in ir.bodies(s))


def rows_taken(body: ir.Body) -> dict[str, int]:
    """The maximum number of rows of each store that statements without loops allocate."""
    total: dict[str, int] = {}
    for s in body:
        found: dict[str, int] = {}
        if isinstance(s, ir.If):
            a, b = rows_taken(s.then), rows_taken(s.orelse)
            found = {k: max(a.get(k, 0), b.get(k, 0)) for k in {**a, **b}}
        elif not s.loop:
            for n in ir.walk(s):
                if isinstance(n, ir.New | ir.Add):
                    found[n.slot] = found.get(n.slot, 0) + 1
        for k, v in found.items():
            total[k] = total.get(k, 0) + v
    return total
