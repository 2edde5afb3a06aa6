"""Where an item takes room for what it will allocate, and for how much.

Running out of room must leave the item untouched.  So before its first change of shared state an
item reserves an upper bound of everything that it may allocate from there on: each allocation
counts once, in a branch the larger side, in a loop as often as the loop runs.  What is not used is
given back when the item ends.  A bound that is not known at that point is an error at the line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from morph.lang import ir
from morph.lang.errors import reject
from morph.lang.ir import Pos
from morph.lang.types import I64, Local, Object, Rows, Type, Vector

if TYPE_CHECKING:
    from morph.lang.unit import Builder

SHARED = (
    ir.Write, ir.Atomic, ir.New, ir.NewRows, ir.Delete, ir.Add, ir.Take, ir.SetUnion, ir.Lock,
    ir.LockPlace, ir.FlagSet,
)  # fmt: skip
Bounds = dict[tuple[str, bool], ir.Expr]  # (slot or local, is it a local) -> how many at most


def place_reserves(kernel: ir.Kernel, builder: Builder) -> ir.Kernel:
    """Put the ``Reserve`` statements into a kernel."""
    r = _Reserver(builder, kernel)
    body = r.region(kernel.body)
    commit = r.region(kernel.commit) if kernel.commit is not None else None
    abort = r.region(kernel.abort) if kernel.abort is not None else None
    return replace(kernel, body=body, commit=commit, abort=abort)


class _Reserver:
    def __init__(self, builder: Builder, kernel: ir.Kernel) -> None:
        self.builder = builder
        self.grows = any(
            isinstance(n, ir.LocalAdd) for f in (kernel, *self._callees(kernel)) for n in ir.walk(f)
        )

    def _callees(self, f: ir.Func) -> list[ir.Func]:
        called = [self.builder.funcs[n.func] for n in ir.walk(f) if isinstance(n, ir.Call)]
        return called + [g for c in called for g in self._callees(c)]

    def changes(self, node: Any) -> bool:
        """Whether anything below changes shared state."""
        return any(
            isinstance(n, SHARED)
            or (isinstance(n, ir.Call) and self.builder.writes_shared(self.builder.funcs[n.func]))
            for n in ir.walk(node)
        )

    def region(self, body: ir.Body) -> ir.Body:
        """Reserve before the first statement that changes anything, as deep as the ifs allow."""
        first = next((i for i, s in enumerate(body) if self.changes(s)), None)
        if first is None:
            if body and isinstance(body[-1], ir.If):
                last = body[-1]
                last = replace(last, then=self.region(last.then), orelse=self.region(last.orelse))
                return (*body[:-1], last)
            return body
        s = body[first]
        tail = body[first:]
        if (
            isinstance(s, ir.If)
            and not self.changes(s.cond)
            and not self.changes(body[first + 1 :])
        ):
            s = replace(s, then=self.region(s.then), orelse=self.region(s.orelse))
            return (*body[:first], s, *body[first + 1 :])
        bounds = _Bound(self.builder, tail).body(tail)
        if not bounds and not self.grows:
            return body
        needs = tuple(
            ir.Need(slot=name, count=count, local=is_local, pos=s.pos)
            for (name, is_local), count in bounds.items()
        )
        return (*body[:first], ir.Reserve(needs=needs, pos=s.pos), *tail)


class _Bound:
    """The most that a region can allocate, as expressions that are known where it begins."""

    def __init__(
        self, builder: Builder, region: ir.Body, names: dict[str, ir.Expr] | None = None
    ) -> None:
        self.builder, self.region = builder, region
        self.names = names  # a called function's parameters, as the caller sees them
        self.assigned: dict[str, list[ir.Expr | None]] = {}
        for n in ir.walk(region):
            match n:
                case ir.Assign():
                    self.assigned.setdefault(n.name, []).append(n.value)
                case ir.ForRange() | ir.ForRows() | ir.ForItems():
                    self.assigned.setdefault(n.var, []).append(None)
                case ir.ForEdges():
                    for v in (n.edge, n.var):
                        if v:
                            self.assigned.setdefault(v, []).append(None)
                case ir.SetItem() | ir.SetField():
                    self.assigned.setdefault(n.name, []).append(None)
                case _:
                    pass

    def body(self, body: ir.Body) -> Bounds:
        """The bounds of statements run one after another."""
        total: Bounds = {}
        for s in body:
            for k, v in self.stmt(s).items():
                total[k] = _add(total[k], v) if k in total else v
        return total

    def stmt(self, s: ir.Stmt) -> Bounds:
        """The bounds of one statement."""
        match s:
            case ir.Assign(value=value) | ir.Eval(value=value):
                return self.effect(value)
            case ir.If():
                a, b = self.body(s.then), self.body(s.orelse)
                return {k: _max(a.get(k), b.get(k)) for k in {**a, **b}}
            case ir.While():
                if inner := self.body(s.body):
                    what = next(iter(inner))[0]
                    reject(
                        f"how often this loop allocates in {what!r} is not known before the first change",
                        s.pos,
                        "use a `for` over a range or collection, or collect first and allocate after",
                    )
                return {}
            case ir.ForRange():
                span = _sub(s.stop, s.start) if s.step > 0 else _sub(s.start, s.stop)
                step = abs(s.step)
                trips = span if step == 1 else _div(_add(span, _int(step - 1, s.pos)), step)
                return self.times(s, s.body, lambda: _max(self.known(trips, s.pos), _int(0, s.pos)))
            case ir.ForEdges():
                return self.times(
                    s, s.body,
                    lambda: ir.Degree(
                        graph=s.graph, point=self.known(s.point, s.pos), direction=s.direction,
                        type=I64, pos=s.pos,
                    ),
                )  # fmt: skip
            case ir.ForRows():
                return self.times(s, s.body, lambda: ir.StoreSize(slot=s.slot, type=I64, pos=s.pos))
            case ir.ForItems():
                return self.times(s, s.body, lambda: self.size(s.x, s.pos))
            case _:
                return {}

    def times(self, loop: ir.Stmt, body: ir.Body, trips: Any) -> Bounds:
        """The bounds of a loop: its body's, as often as it runs."""
        inner = self.body(body)
        if not inner:
            return {}
        count = trips()
        return {k: _mul(count, v) for k, v in inner.items()}

    def effect(self, x: ir.Expr) -> Bounds:
        """The bounds of an expression that stands alone."""
        match x:
            case ir.New() | ir.Add():
                return {(x.slot, False): _int(1, x.pos)}
            case ir.NewRows():
                return {(x.slot, False): self.known(x.count, x.pos)}
            case ir.LocalAdd():
                return {(self.local(x.name), True): _int(1, x.pos)}
            case ir.Call():
                return self.call(x)
            case _:
                return {}

    def call(self, x: ir.Call) -> Bounds:
        """The bounds of a called function, in the caller's terms."""
        func = self.builder.funcs[x.func]
        values = [n for n, t in func.params if not _is_object(t)]
        inner = _Bound(self.builder, func.body, dict(zip(values, x.args, strict=True)))
        inner.outer = self
        return inner.body(func.body)

    outer: _Bound | None = None

    def local(self, name: str) -> str:
        """The caller's name of a local collection."""
        arg = (self.names or {}).get(name)
        if isinstance(arg, ir.Var):
            return self.outer.local(arg.name) if self.outer else arg.name
        return name

    def size(self, x: ir.Expr, pos: Pos) -> ir.Expr:
        """How often a loop over ``x`` runs."""
        if isinstance(x.type, Vector):
            return _int(x.type.size, pos)
        if isinstance(x.type, Rows):
            made = self.assigned.get(x.name) if isinstance(x, ir.Var) else None
            if made and len(made) == 1 and isinstance(made[0], ir.NewRows):
                return self.known(made[0].count, pos)
        return self.known(ir.LocalSize(x=x, type=I64, pos=pos), pos)

    def known(self, x: ir.Expr, pos: Pos) -> ir.Expr:
        """The expression in terms of what has its value where the region begins, or a rejection."""
        match x:
            case ir.Const() | ir.StoreSize():
                return x
            case ir.Var():
                return self.variable(x, pos)
            case ir.LocalSize(x=ir.Var() as v) if isinstance(v.type, Local):
                name = self.local(v.name)
                root = self
                while root.outer is not None:
                    root = root.outer
                size: ir.Expr = ir.LocalSize(
                    x=ir.Var(name=name, type=v.type, pos=pos), type=I64, pos=pos
                )
                if any(isinstance(v, ir.MakeLocal) for v in root.assigned.get(name, [])):
                    size = _int(0, pos)
                grown = root.growth(name, pos)
                return _add(size, grown) if grown is not None else size
            case ir.Binary() | ir.Compare() | ir.Logic():
                return replace(x, x=self.known(x.x, pos), y=self.known(x.y, pos))
            case ir.Unary() | ir.Cast():
                return replace(x, x=self.known(x.x, pos))
            case ir.Select():
                return replace(
                    x, cond=self.known(x.cond, pos), x=self.known(x.x, pos), y=self.known(x.y, pos)
                )
            case ir.Builtin():
                return replace(x, args=tuple(self.known(a, pos) for a in x.args))
            case ir.Degree():
                return replace(x, point=self.known(x.point, pos))
            case ir.Item():
                return replace(x, x=self.known(x.x, pos), index=self.known(x.index, pos))
            case ir.Field():
                return replace(x, x=self.known(x.x, pos))
            case ir.Load():
                return replace(x, place=replace(x.place, row=self.known(x.place.row, pos)))
            case _:
                return self.unknown(pos)

    _growing: tuple[str, ...] = ()

    def growth(self, name: str, pos: Pos) -> ir.Expr | None:
        """How many values the region adds to a local collection."""
        if name in self._growing:
            reject(
                f"{name!r} grows in a loop over itself, so how much it allocates is not known",
                pos, "bound the loop by something that does not grow",
            )  # fmt: skip
        self._growing = (*self._growing, name)
        found = self.body(self.region).get((name, True)) if self._adds(name) else None
        self._growing = self._growing[:-1]
        return found

    def _adds(self, name: str) -> bool:
        for n in ir.walk(self.region):
            if isinstance(n, ir.LocalAdd) and n.name == name:
                return True
            if isinstance(n, ir.Call) and any(
                isinstance(a, ir.Var) and a.name == name for a in n.args
            ):
                func = self.builder.funcs[n.func]
                if any(isinstance(m, ir.LocalAdd) for m in ir.walk(func)):
                    return True
        return False

    def variable(self, x: ir.Var, pos: Pos) -> ir.Expr:
        """A variable: as it is if the region leaves it alone, else through its one definition."""
        given = self.assigned.get(x.name)
        if given is None:
            if self.names is not None and x.name in self.names and self.outer is not None:
                return self.outer.known(self.names[x.name], pos)
            return x
        if len(given) == 1 and given[0] is not None and not isinstance(given[0], ir.EFFECTS):
            return self.known(given[0], pos)
        return self.unknown(pos)

    def unknown(self, pos: Pos) -> ir.Expr:
        """Reject: the bound depends on what the region itself computes."""
        reject(
            "how many rows this allocates is not known before the item's first change",
            pos,
            "compute the count before anything is written",
        )


def _is_object(t: Type) -> bool:
    return isinstance(t, Object)


def _int(n: int, pos: Pos) -> ir.Expr:
    return ir.Const(value=n, type=I64, pos=pos)


def _fold(op: str, x: ir.Expr, y: ir.Expr) -> ir.Expr:
    if isinstance(x, ir.Const) and isinstance(y, ir.Const):
        a, b = int(x.value), int(y.value)
        return _int({"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0}[op], x.pos)
    return ir.Binary(op=op, x=x, y=y, type=I64, pos=x.pos)


def _add(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    return _fold("+", x, y)


def _sub(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    return x if isinstance(y, ir.Const) and y.value == 0 else _fold("-", x, y)


def _mul(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    if isinstance(y, ir.Const) and y.value == 1:
        return x
    return _fold("*", x, y)


def _div(x: ir.Expr, n: int) -> ir.Expr:
    return _fold("//", x, _int(n, x.pos))


def _max(x: ir.Expr | None, y: ir.Expr | None) -> ir.Expr:
    if x is None or y is None:
        found = y if x is None else x
        assert found is not None
        return found
    if isinstance(x, ir.Const) and isinstance(y, ir.Const):
        return x if x.value >= y.value else y
    if x == y:
        return x
    return ir.Builtin(name="max", args=(x, y), type=I64, pos=x.pos)
