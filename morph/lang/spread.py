"""Which loop of a kernel can be run by several threads at once, entry by entry.

The loop over a point's neighbours or edges with which a kernel ends, if its iterations neither hand
a local on nor write what another of them reads: then their order is of no account, and the entries
of all items of a step can be shared out whatever row they are in.  The kernel falls in two: the
*head*, all that comes before the loop, and what is done for one *entry*.

Plain writes are for rows that belong to the entry alone (its edge, a row that it has made), or of
one value that is the same for all.  An atomic at a place that all entries share gives nothing back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from morph.lang import ir
from morph.lang.flow import read_first
from morph.lang.types import Local, Object

LISTS = ("auto", "grid")  # choices by which long rows are shared out over all threads
CHOICES = ("auto", "thread", "warp", "grid")
LOOPS = (ir.While, ir.ForRange, ir.ForEdges, ir.ForRows, ir.ForItems)
SUMS = ("min", "max", "add", "sub", "and", "or", "xor")  # in any order the same
REFUSED = (
    ir.Return, ir.Reserve, ir.Claim, ir.Take, ir.NewRows,
    ir.MakeLocal, ir.LocalAdd, ir.LocalPop, ir.LocalClear,
)  # fmt: skip
AT = (ir.Load, ir.Write, ir.Atomic, ir.LockPlace)


@dataclass(frozen=True, slots=True)
class Spread:
    """The loop, what is done for one entry, and what that reads or takes of the item.

    ``live`` are the locals (the item among them) that the loop reads; ``room`` how many rows of
    each store an entry may take.
    """

    loop: ir.ForEdges
    entry: ir.Body
    live: tuple[str, ...]
    room: tuple[tuple[str, int], ...]


def spreads(unit: ir.Unit) -> dict[str, Spread]:
    """The loops that are shared out, by the name of their kernel."""
    funcs = {f.name: f for f in unit.funcs}
    steps = [s for s in ir.walk(unit.blocks) if isinstance(s, ir.Foreach)]
    wanted = dict.fromkeys(s.kernel for s in steps if s.balance != "thread")
    found = {name: spread(funcs[name], funcs) for name in wanted}
    return {name: s for name, s in found.items() if s is not None}


def lists(unit: ir.Unit) -> bool:
    """Whether long rows are put on a list, for all threads to share."""
    steps = [s for s in ir.walk(unit.blocks) if isinstance(s, ir.Foreach) and s.balance in LISTS]
    return bool(steps and spreads(unit).keys() & {s.kernel for s in steps})


def spread(kernel: ir.Func, funcs: Mapping[str, ir.Func]) -> Spread | None:
    """The loop of a kernel that can be shared out, if it has one."""
    if not isinstance(kernel, ir.Kernel) or kernel.commit is not None:
        return None
    for loop in _last(kernel.body):
        facts = _Loop(loop, kernel, funcs)
        if facts.holds():
            return facts.spread()
    return None


def _last(body: ir.Body) -> list[ir.ForEdges]:
    """The loops over edges after which nothing follows."""
    match body[-1] if body else None:
        case ir.ForEdges() as loop:
            return [loop]
        case ir.If() as s:
            return _last(s.then) + _last(s.orelse)
    return []


class _Loop:
    """A loop, and what its body does."""

    def __init__(self, loop: ir.ForEdges, kernel: ir.Kernel, funcs: Mapping[str, ir.Func]) -> None:
        self.loop, self.kernel, self.funcs = loop, kernel, funcs
        self.types = dict(kernel.params) | dict(kernel.locals)
        self.nodes = list(ir.walk(loop.body))
        self.given = {loop.edge, loop.var or loop.edge}
        self.assigned = _assigned(self.nodes)
        self.outer = sorted(read_first(loop.body) - self.given)
        self.own = {loop.edge, *self._made()} - {n for n in self.given if n in self.assigned}

    def spread(self) -> Spread:
        params = {n for n, _ in self.kernel.params[1:]}
        live = tuple(n for n in self.outer if n in self.types and n not in params)
        room = tuple(_room(self.loop.body).items())
        return Spread(self.loop, _leave(self.loop.body), live, room)

    def holds(self) -> bool:
        """Whether the order of the iterations is of no account."""
        loop = self.loop
        plain = loop.start is None and loop.skip is None and not loop.reverse
        return (
            plain
            and loop.direction != "all"
            and not any(isinstance(n, REFUSED) for n in self.nodes)
            and not _breaks(loop.body)
            and not self.assigned & set(self.outer)
            and not any(isinstance(self.types.get(n), Local | Object) for n in self.outer)
            and not _allocates_in_loops(loop.body)
            and self._calls_change_nothing()
            and self._effects_commute()
            and self._writes_are_apart()
        )

    # --- what it does ----------------------------------------------------------------------------

    def _made(self) -> set[str]:
        """The locals that name a row which the iteration itself has made."""
        values: dict[str, list[ir.Expr]] = {}
        for n in self.nodes:
            if isinstance(n, ir.Assign):
                values.setdefault(n.name, []).append(n.value)
        return {n for n, v in values.items() if len(v) == 1 and isinstance(v[0], ir.New)}

    def _below(self) -> list[ir.Node]:
        """What called functions do."""
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
        return not any(isinstance(n, (*ir.EFFECTS, ir.Write)) for n in self._below())

    def _shared(self, *exprs: ir.Expr | None) -> bool:
        """Whether an expression is the same for all entries, columns aside."""
        varying = self.given | self.assigned
        return not any(isinstance(n, ir.Var) and n.name in varying for n in ir.walk(exprs))

    def _effects_commute(self) -> bool:
        """Whether all effects but plain writes add up to the same in any order."""
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
                case ir.Atomic(place=p) if self._shared(p.row, p.index) and not self._sums(n):
                    return False
        return True

    def _sums(self, x: ir.Atomic) -> bool:
        """Whether an atomic at a place of all entries only adds to it: nobody asks in between."""
        same = [n for n in (*self.nodes, *self._below()) if isinstance(n, AT) and _at(n) == _at(x)]
        alone = any(isinstance(s, ir.Eval) and s.value is x for s in self.nodes)
        return x.op in SUMS and alone and all(getattr(n, "op", "") == x.op for n in same)

    def _writes_are_apart(self) -> bool:
        """Whether no iteration reads, or writes differently, what another one writes plainly."""
        written: dict[tuple[str, str], list[ir.Write]] = {}
        for n in self.nodes:
            if isinstance(n, ir.Write):
                written.setdefault(_at(n), []).append(n)
        moved = {_at(n) for n in self.nodes if isinstance(n, ir.Write | ir.Atomic)}
        if moved & {(f"{self.loop.graph}.edges", end) for end in ("src", "dst")}:
            return False
        every = [n for n in (*self.nodes, *self._below()) if isinstance(n, AT)]
        for column, writes in written.items():
            touched = [n for n in every if _at(n) == column]
            if not all(self._owned(n.place) for n in touched):
                first = writes[0].value
                one = len(writes) == 1 and self._is_one(first)
                one |= isinstance(first, ir.Const) and all(
                    isinstance(w.value, ir.Const) and w.value.value == first.value for w in writes
                )
                if not one or len(touched) > len(writes):
                    return False
        return True

    def _owned(self, p: ir.Place) -> bool:
        return isinstance(p.row, ir.Var) and p.row.name in self.own

    def _is_one(self, value: ir.Expr) -> bool:
        """Whether a value is the same for all entries and at all times."""
        looks = (ir.Load, ir.Call, ir.Dead, *ir.EFFECTS)
        return self._shared(value) and not any(isinstance(n, looks) for n in ir.walk(value))


def _assigned(nodes: list[ir.Node]) -> set[str]:
    found: set[str] = set()
    for n in nodes:
        match n:
            case ir.Assign() | ir.SetItem() | ir.SetField():
                found.add(n.name)
            case ir.ForRange() | ir.ForRows() | ir.ForItems():
                found.add(n.var)
            case ir.ForEdges():
                found |= {n.edge, n.var or n.edge}
    return found


def _at(n: ir.Load | ir.Write | ir.Atomic | ir.LockPlace) -> tuple[str, str]:
    """The column that a node reads or writes."""
    return n.place.slot, n.place.column


def _breaks(body: ir.Body) -> bool:
    """Whether a body leaves the loop that it is the body of."""
    for s in body:
        if isinstance(s, ir.Break) or (isinstance(s, ir.If) and _breaks((*s.then, *s.orelse))):
            return True
    return False


def _leave(body: ir.Body) -> ir.Body:
    """A loop's body as a function: who goes on to the next iteration returns."""
    done: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Continue):
            s = ir.Return(value=None, pos=s.pos)
        elif isinstance(s, ir.If):
            s = replace(s, then=_leave(s.then), orelse=_leave(s.orelse))
        done.append(s)
    return tuple(done)


def _allocates_in_loops(body: ir.Body) -> bool:
    return any(_room(s.body) for s in ir.walk(body) if isinstance(s, LOOPS))


def _room(body: ir.Body) -> dict[str, int]:
    """How many rows of each store statements may take, none of them a loop."""
    total: dict[str, int] = {}
    for s in body:
        found: dict[str, int] = {}
        if isinstance(s, ir.If):
            a, b = _room(s.then), _room(s.orelse)
            found = {k: max(a.get(k, 0), b.get(k, 0)) for k in {**a, **b}}
        elif not isinstance(s, LOOPS):
            for n in ir.walk(s):
                if isinstance(n, ir.New | ir.Add):
                    found[n.slot] = found.get(n.slot, 0) + 1
        for k, v in found.items():
            total[k] = total.get(k, 0) + v
    return total
