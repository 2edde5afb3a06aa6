"""Placement of capacity reservations in kernels, and upper bounds of the allocations of an item.

An item whose allocation fails must have changed nothing.  Before its first change of shared state
an item therefore reserves an upper bound of all its later allocations: the sum over statements,
the maximum of two branches, the body of a loop times its iterations.  The item returns unused
capacity when it ends.  A bound that is unknown at that point is an error at the line of the
allocation, unless the kernel gives a limit (`ir.Limit`).  Then the item reserves the limit, and
tests the remaining capacity before each allocation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import count as count_from_0
from typing import Any, NoReturn

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import user_name
from morph.compiler.passes.effects import Effects, value_params
from morph.compiler.passes.grouping import Make, allocations
from morph.language.errors import reject
from morph.language.intrinsics import BINARY
from morph.language.position import Pos
from morph.language.types import BOOL, I64, Handle, Local, Rows, Scalar, Store, Vector

Counted = tuple[str, bool]  # a slot or local collection, and whether it is local
Bounds = dict[Counted, ir.Expr]  # upper bounds of allocations
Limits = dict[Counted, ir.Limit]  # given by the kernel


def place_reservations(
    kernel: ir.Kernel, stores: Mapping[str, Store], effects: Effects
) -> ir.Kernel:
    """Put the ``Reserve`` statements into a kernel."""
    r = _Reservations(kernel, stores, effects)
    body = r.placed(kernel.body)
    commit = r.placed(kernel.commit) if kernel.commit is not None else None
    abort = r.placed(kernel.abort) if kernel.abort is not None else None
    for n in ir.walk((body, commit, abort)):
        if isinstance(n, ir.Limit):
            hint = "write it there, at the top level, in a kernel without single(collection)"
            reject("reserve comes before the item's first change", n.pos, hint)
    return replace(kernel, body=body, commit=commit, abort=abort, locals=tuple(r.locals.items()))


def exact_reservations(
    kernel: ir.Kernel, stores: Mapping[str, Store], consecutive: frozenset[str],
    reached: Mapping[str, tuple[ir.Func, ...]],
) -> tuple[ir.Body, ir.Body] | None:  # fmt: skip
    """The reservations of commit and abort, if both always allocate exactly what they reserve.

    Then a thread can allocate for several items together.
    """
    found: list[ir.Body] = []
    for body in (kernel.commit or (), kernel.abort or ()):
        while len(body) == 1 and isinstance(body[0], ir.If) and _is_true(body[0].cond, reached):
            body = body[0].then
        if any(isinstance(n, ir.Reserve) for n in ir.walk(body)):
            if not _allocates_exactly(body, stores, consecutive, reached):
                return None
        needed = (s for s in body[:1] if isinstance(s, ir.Reserve) and s.needs)
        found.append(tuple(needed))
    return (found[0], found[1]) if any(found) else None


def _allocates_exactly(
    body: ir.Body, stores: Mapping[str, Store], consecutive: frozenset[str],
    reached: Mapping[str, tuple[ir.Func, ...]],
) -> bool:  # fmt: skip
    """Whether a body begins with a reservation, and then always allocates each of its rows."""
    if not isinstance(body[0], ir.Reserve):
        return False
    made = [e.slot for _, e in allocations(body[1:], stores, consecutive)]
    for s in body[1 + len(made) :]:  # the count of later `new_rows` may have changed
        single = allocations((s,), stores, consecutive)
        made += [e.slot for _, e in single if not isinstance(e, ir.NewRows)]
    nodes = list(ir.walk(body))
    called = [f for n in nodes if isinstance(n, ir.Call) for f in reached[n.func]]
    every = [n for n in (*nodes, *ir.walk(tuple(called))) if isinstance(n, Make)]
    needs = [n.slot for n in body[0].needs]
    once = len(made) == len(set(made)) == len(every) == len(needs)
    ends = any(isinstance(n, ir.Return | ir.LocalAdd) for n in nodes)
    return once and set(made) == set(needs) and not ends


def _is_true(x: ir.Expr, reached: Mapping[str, tuple[ir.Func, ...]]) -> bool:
    """Whether a condition is constantly true, or a call of a function that only returns True."""
    if isinstance(x, ir.Call):
        body = reached[x.func][0].body
        only = body[0] if len(body) == 1 else None
        return isinstance(only, ir.Return) and only.value is not None and _is_true(only.value, {})
    return isinstance(x, ir.Const) and x.value is True


class _Reservations:
    """A kernel, and the columns and stores that it and the called functions change."""

    def __init__(self, kernel: ir.Kernel, stores: Mapping[str, Store], effects: Effects) -> None:
        self.kernel, self.stores, self.effects = kernel, stores, effects
        self.only: Counted | None = None  # count the additions to this local collection only
        self.locals, self.limits = dict(kernel.locals), Limits()
        nodes = effects.nodes(kernel)
        self.grows = any(isinstance(n, ir.LocalAdd) for n in nodes)
        self.written, self.grown = ir.columns(nodes, "writes"), ir.slots(nodes, "allocates")

    def placed(self, body: ir.Body) -> ir.Body:
        """Reserve before the first change, within branches if all changes are in these."""
        changes, before = self.effects.changes_shared, self.limits
        first = next((i for i, s in enumerate(body) if changes(s)), len(body))
        head, tail = body[:first], body[first:]
        if self.kernel.commit is None:
            found = [s for s in head if isinstance(s, ir.Limit)]
            self.limits = before | {(s.slot, s.local): s for s in found}
            head = tuple(s for s in head if not isinstance(s, ir.Limit))
        if not tail:
            self.limits = before
            return head
        s = tail[0]
        if isinstance(s, ir.If) and not changes(tail[1:]):
            s = replace(s, then=self.placed(s.then), orelse=self.placed(s.orelse))
            self.limits = before
            return (*head, s, *tail[1:])
        bounds = _Region(self, self.kernel, tail).body(tail) | self._reserved()
        limited = self._limited(tail) if self.limits else tail
        self.limits = before
        if not bounds and not self.grows:
            return (*head, *tail)
        needs = tuple(
            ir.Need(slot=name, count=count, local=is_local, pos=s.pos)
            for (name, is_local), count in bounds.items()
        )
        return (*head, ir.Reserve(needs=needs, pos=s.pos), *limited)

    # --- limits ----------------------------------------------------------------------------------

    def _reserved(self) -> Bounds:
        """The reservations of the limits; for a local collection, the limit minus its size."""
        bounds: Bounds = {}
        for (name, local), s in self.limits.items():
            x: ir.Expr = s.count
            if local:
                items = ir.Var(name=name, type=self.locals[name], pos=s.pos)
                x = _fold("-", x, ir.LocalSize(x=items, type=I64, pos=s.pos))
            bounds[name, local] = _max(x, _int(0, s.pos))
        return bounds

    def _limited(self, body: ir.Body) -> ir.Body:
        """Statements with a test before each allocation that has a limit."""
        done: list[ir.Stmt] = []
        for s in body:
            self._refuse_calls(s)
            if isinstance(s, ir.Assign | ir.Eval):
                done += self._tests(s.value)
            done.append(ir.rewrite_bodies(s, self._limited))
        return tuple(done)

    def _tests(self, x: ir.Expr) -> list[ir.Stmt]:
        match x:
            case ir.LocalAdd():
                limit = self.limits.get((x.name, True))
            case ir.New() | ir.Add() | ir.NewRows():
                limit = self.limits.get((x.slot, False))
            case _:
                return []
        if limit is None:
            return []
        pos, most = x.pos, limit.count
        if isinstance(x, ir.LocalAdd):
            items = ir.Var(name=x.name, type=self.locals[x.name], pos=pos)
            full: ir.Expr = ir.LocalSize(x=items, type=I64, pos=pos)
            return [_exceeds(full, most, limit, pos)]
        made: list[ir.Stmt] = []
        count: ir.Expr = _int(1, pos)
        if isinstance(x, ir.NewRows):
            name = next(n for i in count_from_0() if (n := f"n{i}_") not in self.locals)
            self.locals[name] = I64
            made = [ir.Assign(name=name, value=_max(x.count, _int(0, pos)), pos=pos)]
            count = ir.Var(name=name, type=I64, pos=pos)
        left = ir.Binary(op="-", x=most, y=count, type=I64, pos=pos)
        spent = ir.Assign(name=most.name, value=left, pos=pos)
        return [*made, spent, _exceeds(_int(-1, pos), most, limit, pos)]

    def _refuse_calls(self, s: ir.Stmt) -> None:
        """Refuse a call that allocates in a store with a limit, as the function cannot test it."""
        for call in ir.find(tuple(ir.operands(s)), ir.Call):
            func = self.effects.funcs[call.func]
            slots = ir.slots(self.effects.nodes(func), "allocates")
            for name, local in self.limits:
                given = self.effects.passed(call, name) if local else ()
                if any(self.effects.change_of(*x) for x in given) or (not local and name in slots):
                    problem = f"{user_name(func.name)!r} adds to {user_name(name)!r}"
                    reject(f"{problem}, which has a limit", call.pos, "add in the kernel itself")


def _definitions(node: object) -> dict[str, list[ir.Expr | None]]:
    """The values assigned to each local in a tree; None for a value without an expression."""
    values: dict[str, list[ir.Expr | None]] = defaultdict(list)
    for n in ir.walk(node):
        if isinstance(n, ir.SetItem | ir.SetField | ir.LocalAdd | ir.LocalPop | ir.LocalClear):
            values[n.name].append(None)
        for name in ir.bound([n]):
            values[name].append(n.value if isinstance(n, ir.Assign) else None)
    return dict(values)


class _Region:
    """Upper bounds of the allocations of a region, as expressions that are valid at its begin.

    A called function is a nested region: ``outer`` is the region of the caller, and ``args`` are
    the arguments for its parameters.
    """

    def __init__(
        self,
        facts: _Reservations,
        func: ir.Func,
        region: ir.Body,
        outer: _Region | None = None,
        args: tuple[ir.Expr, ...] = (),
    ) -> None:
        self.facts, self.func, self.region, self.outer = facts, func, region, outer
        self.args = dict(zip(value_params(func), args, strict=True)) if outer else {}
        self.assigned = _definitions(region)
        parts = (func.body, func.commit, func.abort) if isinstance(func, ir.Kernel) else func.body
        self.definitions = _definitions(parts)
        self.growing: tuple[str, ...] = ()  # local collections whose growth is being computed

    # --- statements ------------------------------------------------------------------------------

    def body(self, body: ir.Body) -> Bounds:
        """The bounds of a sequence of statements."""
        total: Bounds = {}
        for s in body:
            for k, v in self.stmt(s).items():
                total[k] = _fold("+", total[k], v) if k in total else v
        return total

    def stmt(self, s: ir.Stmt) -> Bounds:
        """The bounds of one statement."""
        match s:
            case ir.Assign(value=value) | ir.Eval(value=value):
                return self.effect(value)
            case ir.If():
                a, b = self.body(s.then), self.body(s.orelse)
                return {**a, **b, **{k: _max(a[k], b[k]) for k in a if k in b}}
            case ir.While():
                if inner := self.body(s.body):
                    name = next(iter(inner))[0]
                    reject(
                        f"how often this loop allocates in {name!r} is not known beforehand",
                        s.pos,
                        "use a `for` over a range or collection, or collect first, then allocate; "
                        "or declare a limit: reserve(n)",
                    )
                return {}
            case ir.ForRange() | ir.ForBits() | ir.ForEdges() | ir.ForRows() | ir.ForItems():
                inner = self.body(s.body)
                count = self.iterations(s) if inner else None
                return {k: _fold("*", count, v) for k, v in inner.items() if count is not None}
        return {}

    def iterations(
        self, s: ir.ForRange | ir.ForBits | ir.ForEdges | ir.ForRows | ir.ForItems
    ) -> ir.Expr:
        """An upper bound of the iterations of a loop."""
        pos = s.pos
        match s:
            case ir.ForRange():
                span = _fold("-", s.stop, s.start) if s.step > 0 else _fold("-", s.start, s.stop)
                step, one = _int(min(abs(s.step), 2**63 - 1), pos), _int(1, pos)
                if step != one:
                    span = _fold("+", _fold("//", _fold("-", span, one), step), one)
                return _max(self.known(span, pos), _int(0, pos))
            case ir.ForBits():
                return _int(s.x.type.bits, pos)  # type: ignore[attr-defined]
            case ir.ForEdges():
                graph, point, direction = s.graph, s.point, s.direction
                degree = ir.Degree(graph=graph, point=point, direction=direction, type=I64, pos=pos)
                return self.known(degree, pos)
            case ir.ForRows():
                return self.known(ir.StoreSize(slot=s.slot, type=I64, pos=pos), pos)
        if isinstance(s.x.type, Vector):
            return _int(s.x.type.size, pos)
        return self.known(ir.LocalSize(x=s.x, type=I64, pos=pos), pos)

    def effect(self, x: ir.Expr) -> Bounds:
        """The bounds of an expression statement."""
        only, limits = self.facts.only, self.facts.limits
        match x:
            case ir.Call():
                return self.call(x)
            case ir.LocalAdd():
                owner, name = self.owner(x.name)
                key = (owner.key(name), True)
                return {key: _int(1, x.pos)} if only in (None, key) and key not in limits else {}
            case ir.New() | ir.Add() | ir.NewRows() if only is None and (x.slot, False) in limits:
                return {}
            case ir.New() | ir.Add() if only is None:
                return {(x.slot, False): _int(1, x.pos)}
            case ir.NewRows() if only is None:
                return {(x.slot, False): self.known(x.count, x.pos)}
        return {}

    def call(self, x: ir.Call) -> Bounds:
        """The bounds of a called function, in the caller's terms."""
        func = self.facts.effects.funcs[x.func]
        inner = _Region(self.facts, func, func.body, self, x.args)
        bounds = inner.body(func.body)
        for name, t in func.locals:  # local collections of a function have a fixed capacity
            count = bounds.pop((inner.key(name), True), None)
            if count is not None and isinstance(t, Local):
                if not isinstance(count, ir.Const) or count.value > t.capacity:
                    reject(
                        f"{user_name(name)!r} may overflow after the item's first change",
                        x.pos,
                        "call this before anything is written, or pass the collection in",
                    )
        return bounds

    def key(self, name: str) -> str:
        """The name under which capacity in a local collection is counted."""
        return name if self.outer is None else f"{self.func.name}:{name}"

    def owner(self, name: str) -> tuple[_Region, str]:
        """The region that declares a local collection, and its name there."""
        arg = self.args.get(name)
        if self.outer is None or arg is None:
            return self, name
        assert isinstance(arg, ir.Var)
        return self.outer.owner(arg.name)

    # --- values ----------------------------------------------------------------------------------

    def known(self, x: ir.Expr, pos: Pos, exact: bool = False) -> ir.Expr:
        """The value of ``x``, or (unless ``exact``) an upper bound, at the begin of the region."""
        match x:
            case ir.Const():
                return x
            case ir.StoreSize() if x.slot not in self.facts.grown:
                return x
            case ir.Var():
                return self.variable(x, pos, exact)
            case ir.LocalSize(x=ir.Var() as v):
                return self.size(v, pos, exact)
            case ir.Builtin():
                same = exact or x.name not in ("min", "max")
                return replace(x, args=tuple(self.known(a, pos, same) for a in x.args))
            case ir.Item(x=ir.Var() as v) if v.name not in self.assigned:
                items, i = self.known(v, pos, True), self.known(x.index, pos, True)
                fixed = isinstance(v.type, Vector) and isinstance(i, ir.Const)
                size = ir.LocalSize(x=items, type=I64, pos=pos)
                item = replace(x, x=items, index=i)
                return item if fixed else _if(_in_range(i, size), item)
            case ir.Load(place=p) if (p.slot, p.column) not in self.facts.written:
                row = self.known(p.row, pos, True)
                index = self.known(p.index, pos, True) if p.index is not None else None
                load = replace(x, place=replace(p, row=row, index=index))
                return self.guarded(self.indexed(load), p.slot, row)
        operands = _operands(x, exact)
        if operands is None:
            self.unknown(pos)
        known: dict[str, Any] = {f: self.known(getattr(x, f), pos, e) for f, e in operands.items()}
        x = replace(x, **known)
        return self.guarded(x, f"{x.graph}.points", x.point) if isinstance(x, ir.Degree) else x

    def variable(self, x: ir.Var, pos: Pos, exact: bool) -> ir.Expr:
        """A variable: itself if the region does not assign it, else by its single definition."""
        if x.name not in self.assigned:
            if x.name in self.args:
                assert self.outer is not None
                return self.outer.known(self.args[x.name], pos, exact)
            return x
        value, *others = self.definitions[x.name]
        if value is not None and not others and x.name not in dict(self.func.params):
            return self.known(value, pos, exact)
        self.unknown(pos)

    def size(self, v: ir.Var, pos: Pos, exact: bool) -> ir.Expr:
        """The number of new rows, or the maximum size of a local collection in the region."""
        if isinstance(v.type, Rows):
            made = self.definitions.get(v.name, [])
            if len(made) == 1 and isinstance(made[0], ir.NewRows):
                return self.known(made[0].count, pos, exact)
            self.unknown(pos)
        owner, name = self.owner(v.name)
        size: ir.Expr = _int(0, pos)
        if owner.outer is None and not any(
            isinstance(d, ir.MakeLocal) for d in owner.assigned.get(name, [])
        ):
            size = ir.LocalSize(x=replace(v, name=name), type=I64, pos=pos)
        if exact and (name in owner.assigned or owner.adds(name)):
            self.unknown(pos)
        if owner.outer is None and (name, True) in self.facts.limits:
            return self.facts.limits[name, True].count
        growth = owner.growth(name, pos)
        return size if growth is None else _fold("+", size, growth)

    def growth(self, name: str, pos: Pos) -> ir.Expr | None:
        """The number of values that the region adds to a local collection."""
        if name in self.growing:
            problem = "grows in a loop over itself: how much is not known beforehand"
            hint = "bound the loop by something that does not grow"
            reject(f"{user_name(name)!r} {problem}", pos, hint)
        key, before = (self.key(name), True), self.facts.only
        self.growing, self.facts.only = (*self.growing, name), key
        growth = self.body(self.region).get(key) if self.adds(name) else None
        self.growing, self.facts.only = self.growing[:-1], before
        return growth

    def adds(self, name: str) -> bool:
        """Whether the region adds to a local collection."""
        effects = self.facts.effects
        for n in ir.walk(self.region):
            if isinstance(n, ir.LocalAdd) and n.name == name:
                return True
            if isinstance(n, ir.Call):
                if any(effects.change_of(func, param) for func, param in effects.passed(n, name)):
                    return True
        return False

    def unknown(self, pos: Pos) -> NoReturn:
        """Reject: the bound depends on a value that the region computes."""
        reject(
            "how many rows this allocates is not known before the item's first change",
            pos,
            "compute the count before anything is written",
        )

    # --- reads that may be invalid where the region begins ---------------------------------------

    def indexed(self, x: ir.Load) -> ir.Expr:
        """A load with a bounds check, as the program may evaluate it under a condition only."""
        p = x.place
        if p.index is None or isinstance(p.index, ir.Const):
            return x
        column = self.facts.stores[p.slot].column(p.column)
        assert column is not None
        return _if(_in_range(p.index, _int(column.size, x.pos)), x)

    def computed(self, row: ir.Expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a row's number may be invalid; `Ref` columns and loops give rows or None."""
        match row:
            case ir.Var():
                made = self.definitions.get(row.name, []) if row.name not in seen else []
                seen |= {row.name}
                return any(x is not None and self.computed(x, seen) for x in made)
            case ir.Select():
                return self.computed(row.x, seen) or self.computed(row.y, seen)
        return not isinstance(row, ir.Load | ir.Const)

    def guarded(self, x: ir.Expr, slot: str, row: ir.Expr) -> ir.Expr:
        """A read that is skipped if the row does not exist at the begin of the region."""
        item = self.facts.kernel.params[0][0]
        if isinstance(row, ir.Var) and row.name == item:
            return x
        if not self.computed(row) or self.facts.stores[slot].kind != "table":
            none = ir.Const(value=-1, type=row.type, pos=x.pos)
            return _if(ir.Compare(op="!=", x=row, y=none, type=BOOL, pos=x.pos), x)
        number = ir.Cast(x=row, type=I64, pos=x.pos)
        size = ir.StoreSize(slot=slot, type=I64, pos=x.pos)
        return _if(_in_range(number, size), x)


def _exceeds(x: ir.Expr, most: ir.Expr, limit: ir.Limit, pos: Pos) -> ir.If:
    """A statement that ends the item unless ``x`` is below ``most``."""
    cond = ir.Compare(op=">=", x=x, y=most, type=BOOL, pos=pos)
    return ir.If(cond=cond, then=(ir.Exceed(slot=limit.slot, pos=pos),), orelse=(), pos=pos)


def _operands(x: ir.Expr, exact: bool) -> dict[str, bool] | None:
    """The operands whose bounds give a bound of ``x``, and whether exact; None: no bound."""
    match x:
        case ir.Binary(op="+"):
            return {"x": exact, "y": exact}
        case ir.Binary(op="-"):
            return {"x": exact, "y": True}
        case ir.Binary(op="*" | "//", y=ir.Const(value=n)) if n > 0:
            return {"x": exact}
        case ir.Binary() | ir.Compare() | ir.Logic():
            return {"x": True, "y": True}
        case ir.Cast() if x.type == I64:
            return {"x": exact}
        case ir.Unary() | ir.Cast() | ir.Field():
            return {"x": True}
        case ir.Select():
            return {"cond": True, "x": exact, "y": exact}
        case ir.Degree():
            return {"point": True}
    return None


def _if(cond: ir.Expr, x: ir.Expr) -> ir.Expr:
    """``x`` if a condition holds, else zero or None."""
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
    """``x op y``, folded if both are constants."""
    if isinstance(y, ir.Const) and (op, y.value) in (("-", 0), ("*", 1)):
        return x
    if isinstance(x, ir.Const) and isinstance(y, ir.Const):
        return _int(int(BINARY[op](x.value, y.value)), x.pos)
    return ir.Binary(op=op, x=x, y=y, type=I64, pos=x.pos)


def _max(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    if isinstance(x, ir.Const) and isinstance(y, ir.Const):
        return x if x.value >= y.value else y
    return x if x == y else ir.Builtin(name="max", args=(x, y), type=I64, pos=x.pos)
