"""From a ``@program`` to blocks: one launch instead of one for every ``foreach``.

A program is uniform: every thread runs the same control flow over the same scalars.  There is one
block for each program point: what is left to run.  Inside a block a swap of collections gives the
names other meanings; at its end they mean what they were declared to be, and the collections have
changed places.  Where these cannot (see `double_buffering`), a program point is also what each
name stands for, so that each block knows its collections and no swap remains.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, NamedTuple

from morph.compiler.frontend.scope import Flow, plain, spelled
from morph.compiler.frontend.unit import Builder, Checker, checked
from morph.compiler.frontend.values import (
    Bundle,
    Method,
    ObjectValue,
    PythonValue,
    Value,
    coerce,
    default,
    describe,
    flattened,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.double_buffering import Unlike, Way, check_alike, check_fit, ways
from morph.compiler.passes.work_sharing import CHOICES, can_run_ahead
from morph.language.definition import Definition, definition_of
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, I32, NOTHING, Handle, Nothing, Object, Scalar, Type

RESULT = "result_"
OF_ITEMS = (
    ir.Atomic, ir.Lock, ir.LockPlace, ir.Take, ir.SetFind, ir.SetUnion, ir.Prefetch,
)  # fmt: skip
Step = ir.Assign | ir.Foreach | ir.OneThread | ir.TakeFlag | ir.Clear
Point = tuple[Any, ...]  # what is left to run: (statements, index) or a loop, innermost first


class Cut(NamedTuple):
    """A program as it runs: its state variables, its blocks (the first is the entry), its ways."""

    state: tuple[tuple[str, Type], ...]
    blocks: tuple[ir.Block, ...]
    ways: tuple[Way, ...]


def check_claims(kernel: ir.Kernel, name: str, pos: Pos) -> None:
    """Refuse ``together=True`` for a kernel that does not claim."""
    if kernel.commit is None:
        hint = "all others' items do not wait for each other: leave out together=True"
        reject(f"{plain(name)!r} has no single(collection)", pos, hint)


def cut(builder: Builder, definition: Definition, params: dict[str, Value | Type]) -> Cut:
    """Check a program and cut it into blocks."""

    def program(hints: dict[str, Type], follow: bool) -> Cut:
        return ProgramChecker(builder, definition, params, hints, follow).program()

    try:
        return checked(lambda hints: program(hints, False))
    except Unlike:
        return checked(lambda hints: program(hints, True))


class ProgramChecker(Checker):
    """Checks a program and cuts it into blocks; ``follow``: one for each meaning of the names."""

    def __init__(
        self,
        builder: Builder,
        definition: Definition,
        params: dict[str, Value | Type],
        hints: dict[str, Type],
        follow: bool,
    ) -> None:
        super().__init__(builder, definition, definition.name, params, hints)
        self.follow, self.declared = follow, dict(params)
        self.blocks: list[ir.Block | None] = []
        self.known: dict[Any, int] = {}
        self.flows: dict[int, Flow] = {}
        self.queue: list[tuple[int, Point, dict[str, Value | Type]]] = []
        self.open = False  # whether some path ends without a result

    def program(self) -> Cut:
        """Check all of it."""
        tree = self.source.tree
        assert isinstance(tree, ast.FunctionDef)
        start = tuple(tree.body)
        assert self.flow is not None
        self._point(((start, 0),), dict(self.params), self.flow)
        for name, p in list(self.params.items()):
            if isinstance(p, Scalar | Handle):
                kind = p if isinstance(p, Scalar) else I32
                x: ir.Expr = ir.Var(name=f"{name}_arg_", type=kind, pos=self.source.pos(tree))
                x = x if isinstance(p, Scalar) else ir.Cast(x=x, type=p, pos=x.pos)
                self.out.append(ir.Assign(name=name, value=x, pos=x.pos))
        first = self._steps()
        while self.queue:
            index, point, params = self.queue.pop()
            self.params, self.flow = dict(params), self.flows[index].copy()
            self.out = []
            self.blocks[index] = self._block(point)
        blocks = [b for b in self.blocks if b is not None]
        blocks[0] = replace(blocks[0], steps=(*first, *blocks[0].steps))
        if any(b.goto == 0 or b.orelse == 0 for b in blocks) and first:
            entry = ir.Block(steps=tuple(first), cond=None, goto=1, pos=blocks[0].pos)
            blocks[0] = replace(blocks[0], steps=blocks[0].steps[len(first) :])
            shifted = [
                replace(b, goto=b.goto + (b.goto >= 0), orelse=b.orelse + (b.orelse >= 0))
                for b in blocks
            ]
            blocks = [entry, *shifted]
        if RESULT in self.locals and self.open:
            what = f"{self.source.name!r} may end without a value"
            reject(what, self.source.pos(tree), "return a value on every path, or on none")
        state, found = self._state(blocks), ways(tuple(blocks))
        if found:
            check_fit(found, state, self.builder.stores, self.builder.captured)
        return Cut(tuple(state.items()), tuple(blocks), found)

    def _state(self, blocks: list[ir.Block]) -> dict[str, Type]:
        nodes = list(ir.walk(tuple(blocks)))
        used = {n.name for n in nodes if isinstance(n, ir.Assign | ir.Var)}
        used |= {n.var for n in nodes if isinstance(n, ir.TakeFlag)}
        state = {n: t for n, t in self.locals.items() if n in used}
        for n in nodes:
            if isinstance(n, ir.Assign) and not isinstance(state[n.name], Scalar | Handle):
                what = f"{plain(n.name)!r} is a {state[n.name]}"
                if isinstance(state[n.name], Nothing):
                    what = f"{plain(n.name)!r} is only ever None"
                reject(f"{what}; a program keeps numbers and rows", n.pos, "use a @kernel")
        return state

    # --- control flow ----------------------------------------------------------------------------

    def _swap(self) -> tuple[tuple[str, str], ...]:
        """Which collections have changed places since the block began."""
        found: dict[str, str] = {}
        if self.follow:
            return ()
        for n, p in self.declared.items():
            now = self.params[n]
            if isinstance(p, ObjectValue) and isinstance(now, ObjectValue):
                if found.setdefault(p.type.slot, now.type.slot) != now.type.slot:
                    raise Unlike  # two names were one collection, and are not any more
        return tuple((a, b) for a, b in found.items() if a != b)

    def _point(self, point: Point, params: dict[str, Value | Type], flow: Flow) -> int:
        if not self.follow:  # names mean again what they were declared to be
            objects = {n: p for n, p in self.declared.items() if isinstance(p, ObjectValue)}
            params = {**params, **objects}
        while point and isinstance(point[0], tuple) and point[0][1] == len(point[0][0]):
            point = point[1:]
        if not point:
            self.open = True
            return -1
        binding = tuple((n, p.type.slot) for n, p in params.items() if isinstance(p, ObjectValue))
        key = (tuple((id(p[0]), p[1]) if isinstance(p, tuple) else id(p) for p in point), binding)
        if key not in self.known:
            self.known[key] = len(self.blocks)
            self.blocks.append(None)
            self.flows[self.known[key]] = flow.copy()
            self.queue.append((self.known[key], point, dict(params)))
            return self.known[key]
        index = self.known[key]
        common = self.flows[index].assigned & flow.assigned
        if common != self.flows[index].assigned:  # less is known here than on the first path
            self.flows[index] = Flow(common)
            self.queue.append((index, point, dict(params)))
        return index

    def _here(self) -> Flow:
        assert self.flow is not None
        return self.flow

    def _jump(self, point: Point, pos: Pos) -> ir.Block:
        goto = self._point(point, self.params, self._here())
        return ir.Block(steps=self._steps(), cond=None, goto=goto, swap=self._swap(), pos=pos)

    def _branch(self, cond: ir.Expr, yes: Point, no: Point, pos: Pos) -> ir.Block:
        steps = self._steps()
        if isinstance(cond, ir.Const):
            goto = self._point(yes if cond.value else no, self.params, self._here())
            return ir.Block(steps=steps, cond=None, goto=goto, swap=self._swap(), pos=pos)
        orelse = self._point(no, self.params, self._here())
        goto = self._point(yes, self.params, self._here())
        swap = self._swap()
        return ir.Block(steps=steps, cond=cond, goto=goto, orelse=orelse, swap=swap, pos=pos)

    def _steps(self) -> tuple[Step, ...]:
        """What has been checked so far, as steps of a block."""
        done: list[Step] = []
        for s in self.out:
            if isinstance(s, ir.If):
                reject("an effect that may not happen", s.pos, "write it in an `if` statement")
            if isinstance(s, ir.OneThread) and done and isinstance(done[-1], ir.OneThread):
                done[-1] = replace(done[-1], body=(*done[-1].body, *s.body))
            else:
                assert isinstance(s, Step)
                done.append(s)
        self.out = []
        return tuple(done)

    def step(self, s: Step) -> None:
        """Append a step: what stands beside statements in a program."""
        self.out.append(s)  # type: ignore[arg-type]

    def _block(self, point: Point) -> ir.Block:
        while True:
            if not point:
                self.open = True
                pos = self.source.pos(self.source.tree)
                return ir.Block(steps=self._steps(), cond=None, goto=-1, pos=pos)
            head, rest = point[0], point[1:]
            if isinstance(head, ast.While):
                pos = self.pos(head)
                if self.out:
                    return self._jump(point, pos)
                cond = self.condition(head.test)
                return self._branch(cond, ((self._body(head.body), 0), *point), rest, pos)
            body, i = head
            if i == len(body):
                point = rest
                if point and isinstance(point[0], ast.While):
                    return self._jump(point, self.pos(point[0]))
                continue
            stmt, after = body[i], ((body, i + 1), *rest)
            pos = self.pos(stmt)
            if isinstance(stmt, ast.While):
                self._no_else(stmt)
                return self._jump((stmt, *after), pos)
            if isinstance(stmt, ast.If):
                cond = self.condition(stmt.test)
                yes, no = (
                    ((self._body(stmt.body), 0), *after),
                    ((self._body(stmt.orelse), 0), *after),
                )
                return self._branch(cond, yes, no, pos)
            if isinstance(stmt, ast.Break | ast.Continue):
                while not isinstance(point[0], ast.While):
                    point = point[1:]  # Python's own parser has seen to it that there is one
                return self._jump(point[1:] if isinstance(stmt, ast.Break) else point, pos)
            if isinstance(stmt, ast.Return):
                self._result(stmt)
                return ir.Block(steps=self._steps(), cond=None, goto=-1, pos=pos)
            if self._swap() and self._runs(stmt):
                return self._jump(point, pos)
            self.statement(stmt)
            point = after

    _bodies: dict[int, tuple[ast.stmt, ...]]

    def _body(self, body: list[ast.stmt]) -> tuple[ast.stmt, ...]:
        if not hasattr(self, "_bodies"):
            self._bodies = {}
        return self._bodies.setdefault(id(body), tuple(body))

    def _result(self, stmt: ast.Return) -> None:
        x = self.expr(stmt.value) if stmt.value is not None else None
        if x is None or isinstance(x.type, Nothing):
            self.open = True
            return
        if not isinstance(default(x.type), Scalar):
            reject(
                "a program returns a number or nothing", self.pos(stmt), "write the rest to columns"
            )
        self._assign_name(RESULT, x, self.pos(stmt))

    # --- statements ------------------------------------------------------------------------------

    def _for_stmt(self, node: ast.For) -> None:
        reject(
            "a program loops with `while`",
            self.pos(node),
            "`for` is for kernels; here count with a scalar",
        )

    def _expr_stmt(self, node: ast.Expr) -> None:
        if self.calls(node.value, "barrier"):
            self.step(ir.OneThread(body=(), pos=self.pos(node)))
        elif self._runs(node):
            assert isinstance(node.value, ast.Call)
            self._foreach(node.value)
        else:
            super()._expr_stmt(node)

    def _runs(self, stmt: ast.stmt) -> bool:
        """Whether a statement is a ``foreach``."""
        if not (isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)):
            return False
        f = stmt.value.func
        if not isinstance(f, ast.Name | ast.Attribute):
            return False
        if isinstance(f, ast.Attribute) and not isinstance(f.value, ast.Name):
            return False
        found = self.value(f)
        return isinstance(found, PythonValue) and hasattr(found.value, "morph_foreach")

    def _assign_stmt(self, node: ast.Assign) -> None:
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        names = [spelled(t.id) for t, _ in pairs if isinstance(t, ast.Name)]
        if not any(isinstance(self.params.get(n), ObjectValue) for n in names):
            super()._assign_stmt(node)
            return
        objects = [self.value(v) for _, v in pairs]
        if len(node.targets) > 1 or len(names) != len(pairs):
            reject("collections are swapped by themselves", self.pos(node), "a, b = b, a")
        for name, obj in zip(names, objects, strict=True):
            self._rebind(name, obj, self.pos(node))

    def _rebind(self, name: str, obj: Value, pos: Pos) -> None:
        have = self.params.get(name)
        if not isinstance(have, ObjectValue) or not isinstance(obj, ObjectValue) or (
            obj.type.kind != have.type.kind
        ):  # fmt: skip
            what = describe(have) if isinstance(have, ObjectValue) else "no object"
            reject(
                f"{plain(name)!r} is {what}, but the value is {describe(obj)}",
                pos,
                "swap parameters of one kind: a, b = b, a",
            )
        if not self.follow and have.type != obj.type:
            stores = self.builder.stores
            a, b = (stores.get(o.type.slot) for o in (have, obj))
            if a is None or b is None:
                raise Unlike
            check_alike(a, b, self.builder.captured)
        self.params[name] = obj

    def _foreach(self, call: ast.Call) -> None:
        pos = self.pos(call)
        if len(call.args) < 2:
            reject(
                "foreach takes a table or collection, a kernel, and its arguments",
                pos,
                "foreach(g.points, kernel, g)",
            )
        domain, kernel = self.value(call.args[0]), self.value(call.args[1])
        if not isinstance(domain, ObjectValue) or domain.type.kind not in ("table", "collection"):
            what = describe(domain)
            reject(f"foreach runs over a table or collection, not {what}", pos, "g.points, say")
        definition = definition_of(kernel.value) if isinstance(kernel, PythonValue) else None
        if definition is None or definition.kind != "kernel":
            reject(f"foreach runs a @kernel, not {describe(kernel)}", pos, "decorate it")
        args = [self.value(a) for a in call.args[2:]]
        item = self.builder.item_type(domain.type.slot)
        found = self.builder.kernel(definition, item, args, pos)
        where_args: tuple[ir.Expr, ...] = ()
        balance, ahead, together = "auto", None, False
        for k in call.keywords:
            if k.arg == "balance":
                balance = self._balance(k.value)
            elif k.arg == "together":
                together = self._together(definition, found, k.value)
            elif k.arg == "ahead":
                ahead = self._ahead(domain, k.value)
            elif k.arg == "where":
                found, where_args = self._filtered(found, k.value, item, pos)
            else:
                hint = "it has where, balance, ahead and together"
                reject(f"foreach has no keyword {k.arg!r}", pos, hint)
        if ahead:  # a copy of its own
            name = found.name if found.where else self.builder.unique(found.name)
            found = replace(found, name=name, ahead=ahead)
            self.builder.funcs[name] = found
        types = [t for _, t in found.params[1:] if not isinstance(t, Object)]
        numbers = [a for a in flattened(args) if isinstance(a, ir.Expr)]
        passed = tuple(coerce(a, t, "argument") for a, t in zip(numbers, types, strict=True))
        self.step(
            ir.Foreach(
                slot=domain.type.slot,
                kernel=found.name,
                args=passed,
                where_args=where_args,
                together=together,
                balance=balance,
                pos=pos,
            )
        )

    def _balance(self, node: ast.expr) -> str:
        value = node.value if isinstance(node, ast.Constant) else None
        if value not in CHOICES:
            listed = ", ".join(f'"{c}"' for c in CHOICES)
            reject("balance is one of a few words", self.pos(node), f"write {listed}")
        return str(value)

    def _together(self, definition: Definition, found: ir.Kernel, node: ast.expr) -> bool:
        """Whether all items of the step claim in one round."""
        value = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(value, bool):
            reject("together is True or False", self.pos(node), "write together=True")
        if value:
            check_claims(found, definition.name, self.pos(node))
        return value

    def _ahead(self, domain: ObjectValue, node: ast.expr) -> tuple[str, str]:
        """Whose items may run ahead, and in whose room they lie meanwhile."""
        then, stores = self.value(node), self.builder.stores
        a = stores.get(domain.type.slot)
        b = stores.get(then.type.slot) if isinstance(then, ObjectValue) else None
        if a is None or b is None or not can_run_ahead(a, b):
            reject(
                f"what is added to {describe(then)} is no item like those of {describe(domain)}",
                self.pos(node),
                "ahead= takes another collection of the same rows and columns",
            )
        return b.slot, a.slot

    def _filtered(
        self, kernel: ir.Kernel, node: ast.expr, item: Type, pos: Pos
    ) -> tuple[ir.Kernel, tuple[ir.Expr, ...]]:
        if not isinstance(node, ast.Lambda):
            reject("where is a lambda of the item", self.pos(node), "where=lambda p: p.updated")
        if len(node.args.args) != 1:
            reject("where is a lambda of the item", self.pos(node), "it has one parameter")
        name = f"{kernel.name}_where"
        params: dict[str, Value | Type] = {spelled(node.args.args[0].arg): item}
        outer = {n: p for n, p in self.params.items() if n not in params}
        inner = _Filter(self, node, self.builder.unique(name), params, outer)
        func = inner.function()
        if self.builder.writes_shared(func):
            reject("a filter may not change anything", func.pos, "do it in the kernel")
        self.builder.funcs[func.name] = func
        filtered = replace(kernel, name=self.builder.unique(kernel.name), where=func.name)
        self.builder.funcs[filtered.name] = filtered
        return filtered, tuple(ir.Var(name=n, type=t, pos=pos) for n, t in inner.extra.items())

    # --- effects ---------------------------------------------------------------------------------

    def effect(self, x: ir.Expr, shared: bool = True) -> ir.Expr:
        """An effect of the program itself: one thread has it."""
        if isinstance(x, OF_ITEMS):
            reject(
                "this is for the items of a foreach",
                x.pos,
                "a program is one: assign, or use a kernel",
            )
        if isinstance(x, ir.Add | ir.New | ir.NewRows | ir.Delete):
            reject(
                "a program does not add or delete",
                x.pos,
                "do it before the program, or in a kernel",
            )
        self.step(ir.OneThread(body=(ir.Eval(value=x, pos=x.pos),), pos=x.pos))
        return ir.Const(value=-1, type=NOTHING, pos=x.pos)

    def _user(self, definition: Definition, args: list[Value], pos: Pos) -> ir.Expr:
        reject(
            f"{definition.name!r} is a @func, and a program calls none",
            pos,
            "call it in a kernel; a program is plain Python when it runs eagerly",
        )

    def store(self, at: ir.Expr, x: ir.Expr, pos: Pos) -> None:
        """Assign to a column: one thread does."""
        outer, self.out = self.out, []
        super().store(at, x, pos)
        body, self.out = tuple(self.out), outer
        self.step(ir.OneThread(body=body, pos=pos))

    def _method(self, node: ast.Call, f: Method, pos: Pos) -> Value:
        if isinstance(f.receiver, ObjectValue):
            kind, slot = f.receiver.type.kind, f.receiver.type.slot
            if kind == "flag" and f.name == "take":
                name = self.temporary(BOOL)
                self.step(ir.TakeFlag(var=name, slot=slot, pos=pos))
                return ir.Var(name=name, type=BOOL, pos=pos)
            if kind == "collection" and f.name == "clear":
                self.step(ir.Clear(slot=slot, pos=pos))
                return ir.Const(value=-1, type=NOTHING, pos=pos)
        return super()._method(node, f, pos)


class _Filter(Checker):
    """A ``where`` lambda inside a program: it sees the program's scalars as parameters."""

    def __init__(
        self, program: ProgramChecker, node: ast.Lambda, name: str, params: dict[str, Value | Type],
        outer: dict[str, Value | Type],
    ) -> None:  # fmt: skip
        source = replace(program.source, tree=node)
        super().__init__(program.builder, Definition("where", source), name, params, {})
        self.program, self.outer = program, outer

    def _name_expr(self, node: ast.Name) -> Value:
        name = spelled(node.id)
        if name not in self.params and (name in self.outer or name in self.program.locals):
            return self._outer(name, node)
        return super()._name_expr(node)

    def _outer(self, name: str, node: ast.Name) -> Value:
        p = self.outer.get(name)
        if isinstance(p, ObjectValue | PythonValue):
            return p
        if isinstance(p, Bundle):
            reject("a filter can use the program's scalars, not a named tuple", self.pos(node),
                   "assign the field to a variable first")  # fmt: skip
        x = self.program.expr(node)  # it may have no value yet
        if not isinstance(x.type, Scalar):
            reject(f"a filter can use the program's scalars, not {x.type}", self.pos(node),
                   "keep what it needs in a column")  # fmt: skip
        self.extra[name] = x.type
        return replace(x, pos=self.pos(node))
