"""Where an item takes room for what it will allocate, and for how much.

Running out of room must leave the item untouched.  So before its first change of shared state an
item reserves an upper bound of everything that it may allocate from there on: each allocation
counts once, in a branch the larger side, in a loop as often as the loop runs.  What is not used is
given back when the item ends.  A bound that is not known at that point is an error at the line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from morph.compiler.frontend.scope import plain
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, I64, Handle, Local, Object, Rows, Scalar, Vector

if TYPE_CHECKING:
    from morph.compiler.frontend.unit import Builder

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
        self.builder, self.kernel = builder, kernel
        self.only: tuple[str, bool] | None = None  # count this one local collection
        nodes = self._reached(kernel)
        self.grows = any(isinstance(n, ir.LocalAdd) for n in nodes)
        self.written = {(n.place.slot, n.place.column) for n in nodes if isinstance(n, ir.Write)}
        self.written |= {
            (n.place.slot, n.place.column) for n in nodes if isinstance(n, ir.Atomic | ir.LockPlace)
        }
        self.grown = {n.slot for n in nodes if isinstance(n, ir.New | ir.NewRows | ir.Add)}

    def _reached(self, f: ir.Func) -> list[ir.Node]:
        """The nodes of a function and of all that it calls."""
        todo, seen, nodes = [f], {f.name}, list[ir.Node]()
        while todo:
            inner = list(ir.walk(todo.pop()))
            nodes += inner
            called = {n.func for n in inner if isinstance(n, ir.Call)} - seen
            seen |= called
            todo += [self.builder.funcs[name] for name in called]
        return nodes

    def changes(self, node: Any) -> bool:
        """Whether anything below changes shared state."""
        return any(
            isinstance(n, SHARED)
            or (isinstance(n, ir.Call) and self.builder.writes_shared(self.builder.funcs[n.func]))
            for n in ir.walk(node)
        )

    def region(self, body: ir.Body) -> ir.Body:
        """Reserve before the first change, as deep as the ifs allow."""
        first = next((i for i, s in enumerate(body) if self.changes(s)), None)
        if first is None:
            return body
        s = body[first]
        tail = body[first:]
        if isinstance(s, ir.If) and not self.changes(body[first + 1 :]):
            s = replace(s, then=self.region(s.then), orelse=self.region(s.orelse))
            return (*body[:first], s, *body[first + 1 :])
        bounds = _Bound(self, self.kernel, tail).body(tail)
        if not bounds and not self.grows:
            return body
        needs = tuple(
            ir.Need(slot=name, count=count, local=is_local, pos=s.pos)
            for (name, is_local), count in bounds.items()
        )
        return (*body[:first], ir.Reserve(needs=needs, pos=s.pos), *tail)


def _definitions(node: object) -> dict[str, list[ir.Expr | None]]:
    """What each local is assigned below; None for what is no expression."""
    found: dict[str, list[ir.Expr | None]] = {}
    for n in ir.walk(node):
        match n:
            case ir.Assign():
                found.setdefault(n.name, []).append(n.value)
            case ir.ForRange() | ir.ForRows() | ir.ForItems():
                found.setdefault(n.var, []).append(None)
            case ir.ForEdges():
                for v in (n.edge, n.var):
                    if v:
                        found.setdefault(v, []).append(None)
            case ir.SetItem() | ir.SetField() | ir.LocalAdd() | ir.LocalPop() | ir.LocalClear():
                found.setdefault(n.name, []).append(None)
            case _:
                pass
    return found


class _Bound:
    """The most that a region can allocate, as expressions that are known where it begins.

    What a called function allocates is bounded by its own ``_Bound``, whose ``outer`` is the
    caller's, and whose parameters stand for the caller's ``args``.
    """

    def __init__(
        self,
        facts: _Reserver,
        func: ir.Func,
        region: ir.Body,
        outer: _Bound | None = None,
        args: tuple[ir.Expr, ...] = (),
    ) -> None:
        self.facts, self.func, self.region, self.outer = facts, func, region, outer
        self.builder = facts.builder
        values = [n for n, t in func.params if not isinstance(t, Object)]
        self.args = dict(zip(values, args, strict=True)) if outer else {}
        self.assigned = _definitions(region)
        parts = (func.body, func.commit, func.abort) if isinstance(func, ir.Kernel) else func.body
        self.definitions = _definitions(parts)

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
                        f"how often this loop allocates in {what!r} is not known beforehand",
                        s.pos,
                        "use a `for` over a range or collection, or collect first, then allocate",
                    )
                return {}
            case ir.ForRange():
                span = _sub(s.stop, s.start) if s.step > 0 else _sub(s.start, s.stop)
                step = min(abs(s.step), 2**63 - 1)
                one = _int(1, s.pos)
                trips = span if step == 1 else _add(_div(_sub(span, one), step), one)
                return self.times(s, s.body, lambda: _max(self.known(trips, s.pos), _int(0, s.pos)))
            case ir.ForEdges():
                degree = ir.Degree(
                    graph=s.graph, point=s.point, direction=s.direction, type=I64, pos=s.pos
                )
                return self.times(s, s.body, lambda: self.known(degree, s.pos))
            case ir.ForRows():
                size = ir.StoreSize(slot=s.slot, type=I64, pos=s.pos)
                return self.times(s, s.body, lambda: self.known(size, s.pos))
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
        only = self.facts.only
        if only is not None and not isinstance(x, ir.LocalAdd | ir.Call):
            return {}
        match x:
            case ir.New() | ir.Add():
                return {(x.slot, False): _int(1, x.pos)}
            case ir.NewRows():
                return {(x.slot, False): self.known(x.count, x.pos)}
            case ir.LocalAdd():
                owner, name = self.owner(x.name)
                key = (owner.key(name), True)
                return {key: _int(1, x.pos)} if only in (None, key) else {}
            case ir.Call():
                return self.call(x)
            case _:
                return {}

    def call(self, x: ir.Call) -> Bounds:
        """The bounds of a called function, in the caller's terms."""
        func = self.builder.funcs[x.func]
        inner = _Bound(self.facts, func, func.body, self, x.args)
        found = inner.body(func.body)
        for name, t in func.locals:  # its own local collections have no room but their own
            count = found.pop((inner.key(name), True), None)
            if count is not None and isinstance(t, Local):
                if not isinstance(count, ir.Const) or count.value > t.capacity:
                    reject(
                        f"{plain(name)!r} may overflow after the item's first change",
                        x.pos,
                        "call this before anything is written, or pass the collection in",
                    )
        return found

    def key(self, name: str) -> str:
        """The name under which room in a local collection is counted."""
        return name if self.outer is None else f"{self.func.name}:{name}"

    def owner(self, name: str) -> tuple[_Bound, str]:
        """Where a local collection was made, and its name there."""
        arg = self.args.get(name)
        if self.outer is None or arg is None:
            return self, name
        assert isinstance(arg, ir.Var)
        return self.outer.owner(arg.name)

    def size(self, x: ir.Expr, pos: Pos) -> ir.Expr:
        """How often a loop over ``x`` runs."""
        if isinstance(x.type, Vector):
            return _int(x.type.size, pos)
        return self.known(ir.LocalSize(x=x, type=I64, pos=pos), pos)

    def known(self, x: ir.Expr, pos: Pos, exact: bool = False) -> ir.Expr:
        """The value of ``x``, or (unless ``exact``) a bound above it, where the region begins."""
        match x:
            case ir.Const():
                return x
            case ir.StoreSize() if x.slot not in self.facts.grown:
                return x
            case ir.Var():
                return self.variable(x, pos, exact)
            case ir.LocalSize(x=ir.Var(type=Rows()) as v):
                made = self.definitions.get(v.name, [])
                if len(made) == 1 and isinstance(made[0], ir.NewRows):
                    return self.known(made[0].count, pos, exact)
                return self.unknown(pos)
            case ir.LocalSize(x=ir.Var(type=Local()) as v):
                return self.local_size(v, pos, exact)
            case ir.Binary(op="+"):
                return replace(x, x=self.known(x.x, pos, exact), y=self.known(x.y, pos, exact))
            case ir.Binary(op="-"):
                return replace(x, x=self.known(x.x, pos, exact), y=self.known(x.y, pos, True))
            case ir.Binary(op="*" | "//", y=ir.Const(value=n)) if n > 0:
                return replace(x, x=self.known(x.x, pos, exact))
            case ir.Binary() | ir.Compare() | ir.Logic():
                return replace(x, x=self.known(x.x, pos, True), y=self.known(x.y, pos, True))
            case ir.Unary() | ir.Cast():
                same = isinstance(x, ir.Cast) and x.type == I64
                return replace(x, x=self.known(x.x, pos, exact or not same))
            case ir.Select():
                return replace(
                    x,
                    cond=self.known(x.cond, pos, True),
                    x=self.known(x.x, pos, exact),
                    y=self.known(x.y, pos, exact),
                )
            case ir.Builtin():
                same = x.name in ("min", "max")
                args = tuple(self.known(a, pos, exact or not same) for a in x.args)
                return replace(x, args=args)
            case ir.Degree():
                point = self.known(x.point, pos, True)
                return self.guarded(replace(x, point=point), f"{x.graph}.points", point)
            case ir.Item(x=ir.Var() as v) if v.name not in self.assigned:
                items, i = self.known(v, pos, True), self.known(x.index, pos, True)
                fixed = isinstance(v.type, Vector) and isinstance(i, ir.Const)
                size = ir.LocalSize(x=items, type=I64, pos=pos)
                item = replace(x, x=items, index=i)
                return item if fixed else _if(_in_range(i, size), item)
            case ir.Field():
                return replace(x, x=self.known(x.x, pos, True))
            case ir.Load(place=p) if (p.slot, p.column) not in self.facts.written:
                row = self.known(p.row, pos, True)
                index = self.known(p.index, pos, True) if p.index is not None else None
                found = replace(x, place=replace(p, row=row, index=index))
                return self.guarded(self.indexed(found), p.slot, row)
            case _:
                return self.unknown(pos)

    def indexed(self, x: ir.Load) -> ir.Expr:
        """A load whose index is checked: the program may use it under a condition only."""
        p = x.place
        if p.index is None or isinstance(p.index, ir.Const):
            return x
        column = self.builder.stores[p.slot].column(p.column)
        assert column is not None
        return _if(_in_range(p.index, _int(column.size, x.pos)), x)

    def computed(self, row: ir.Expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a row may have any number; one of a `Ref` column or a loop exists, or is None."""
        match row:
            case ir.Var():
                made = self.definitions.get(row.name, []) if row.name not in seen else []
                seen |= {row.name}
                return any(x is not None and self.computed(x, seen) for x in made)
            case ir.Select():
                return self.computed(row.x, seen) or self.computed(row.y, seen)
        return not isinstance(row, ir.Load | ir.Const)

    def guarded(self, x: ir.Expr, slot: str, row: ir.Expr) -> ir.Expr:
        """What is read of a row that may not exist where the region begins: then it is not used."""
        item = self.facts.kernel.params[0][0]
        if isinstance(row, ir.Var) and row.name == item:
            return x
        if not self.computed(row) or self.builder.stores[slot].kind != "table":
            none = ir.Const(value=-1, type=row.type, pos=x.pos)
            return _if(ir.Compare(op="!=", x=row, y=none, type=BOOL, pos=x.pos), x)
        number = ir.Cast(x=row, type=I64, pos=x.pos)
        size = ir.StoreSize(slot=slot, type=I64, pos=x.pos)
        return _if(_in_range(number, size), x)

    def local_size(self, v: ir.Var, pos: Pos, exact: bool) -> ir.Expr:
        """The most that a local collection holds in the region."""
        owner, name = self.owner(v.name)
        size: ir.Expr = _int(0, pos)
        if owner.outer is None and not any(
            isinstance(d, ir.MakeLocal) for d in owner.assigned.get(name, [])
        ):
            size = ir.LocalSize(x=replace(v, name=name), type=I64, pos=pos)
        if exact and (name in owner.assigned or owner.adds(name)):
            return self.unknown(pos)
        grown = owner.growth(name, pos)
        return size if grown is None else _add(size, grown)

    _growing: tuple[str, ...] = ()

    def growth(self, name: str, pos: Pos) -> ir.Expr | None:
        """How many values the region adds to a local collection."""
        if name in self._growing:
            reject(
                f"{plain(name)!r} grows in a loop over itself: how much is not known beforehand",
                pos, "bound the loop by something that does not grow",
            )  # fmt: skip
        key, before = (self.key(name), True), self.facts.only
        self._growing, self.facts.only = (*self._growing, name), key
        found = self.body(self.region).get(key) if self.adds(name) else None
        self._growing, self.facts.only = self._growing[:-1], before
        return found

    def adds(self, name: str) -> bool:
        """Whether the region adds to a local collection."""
        for n in ir.walk(self.region):
            if isinstance(n, ir.LocalAdd) and n.name == name:
                return True
            if isinstance(n, ir.Call):
                func = self.builder.funcs[n.func]
                values = [p for p, t in func.params if not isinstance(t, Object)]
                for p, a in zip(values, n.args, strict=True):
                    if isinstance(a, ir.Var) and a.name == name and self.builder.alters(func, p):
                        return True
        return False

    def variable(self, x: ir.Var, pos: Pos, exact: bool) -> ir.Expr:
        """A variable: as it is if the region leaves it alone, else through its one definition."""
        if x.name not in self.assigned:
            if x.name in self.args:
                assert self.outer is not None
                return self.outer.known(self.args[x.name], pos, exact)
            return x
        made = self.definitions[x.name]
        given = any(x.name == n for n, _ in self.func.params)
        if len(made) == 1 and made[0] is not None and not given:
            return self.known(made[0], pos, exact)
        return self.unknown(pos)

    def unknown(self, pos: Pos) -> ir.Expr:
        """Reject: the bound depends on what the region itself computes."""
        reject(
            "how many rows this allocates is not known before the item's first change",
            pos,
            "compute the count before anything is written",
        )


def _if(cond: ir.Expr, x: ir.Expr) -> ir.Expr:
    """The value of ``x`` under a condition, else zero or None."""
    if not isinstance(x.type, Scalar | Handle):
        return x
    least = ir.Const(value=-1 if isinstance(x.type, Handle) else 0, type=x.type, pos=x.pos)
    return ir.Select(cond=cond, x=x, y=least, type=x.type, pos=x.pos)


def _in_range(i: ir.Expr, size: ir.Expr) -> ir.Expr:
    above = ir.Compare(op=">=", x=i, y=_int(0, i.pos), type=BOOL, pos=i.pos)
    below = ir.Compare(op="<", x=i, y=size, type=BOOL, pos=i.pos)
    return ir.Logic(op="and", x=above, y=below, type=BOOL, pos=i.pos)


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
