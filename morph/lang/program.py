"""From a ``@program`` to blocks: one launch instead of one for every ``foreach``.

A program is uniform: every thread runs the same control flow over the same scalars.  Collections
that are swapped are followed while compiling: a program point is (what is left to run, which
collection each name stands for), so that each block knows its collections and no swap remains.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from morph.lang import ir
from morph.lang.builtins import name_of
from morph.lang.definition import Definition, definition_of
from morph.lang.errors import reject
from morph.lang.ir import Pos
from morph.lang.scope import Flow, spelled
from morph.lang.types import BOOL, I32, NOTHING, Handle, Nothing, Object, Scalar, Type
from morph.lang.unit import Builder, Checker
from morph.lang.values import (
    Method,
    ObjectValue,
    PythonValue,
    Value,
    coerce,
    default,
    describe,
    truth,
)

RESULT = "result_"
Point = tuple[Any, ...]  # what is left to run: (statements, index) or a loop, innermost first


class ProgramChecker(Checker):
    """Checks a program and cuts it into blocks."""

    def __init__(
        self,
        builder: Builder,
        definition: Definition,
        params: dict[str, Value | Type],
        hints: dict[str, Type],
    ) -> None:
        super().__init__(builder, definition, definition.name, params, hints)
        self.blocks: list[ir.Block | None] = []
        self.known: dict[Any, int] = {}
        self.flows: dict[int, Flow | None] = {}
        self.queue: list[tuple[int, Point, dict[str, Value | Type]]] = []

    def program(self) -> tuple[tuple[tuple[str, Type], ...], tuple[ir.Block, ...]]:
        """The program's state variables and its blocks, the first being the entry."""
        tree = self.source.tree
        assert isinstance(tree, ast.FunctionDef)
        start = tuple(tree.body)
        self._point(((start, 0),), dict(self.params), self.flow)
        for name, p in list(self.params.items()):
            if isinstance(p, Scalar | Handle):
                kind = p if isinstance(p, Scalar) else I32
                x: ir.Expr = ir.Var(name=f"{name}_arg_", type=kind, pos=self.source.pos(tree))
                x = x if isinstance(p, Scalar) else ir.Cast(x=x, type=p, pos=x.pos)
                self.out.append(ir.Assign(name=name, value=x, pos=x.pos))
        first, self.out = self.out, []
        while self.queue:
            index, point, params = self.queue.pop()
            self.params, self.flow = params, self.flows[index]
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
        state = {n: t for n, t in self.locals.items() if not isinstance(t, Nothing)}
        return tuple(state.items()), tuple(blocks)

    # --- control flow ----------------------------------------------------------------------------

    def _point(self, point: Point, params: dict[str, Value | Type], flow: Flow | None) -> int:
        while point and isinstance(point[0], tuple) and point[0][1] == len(point[0][0]):
            point = point[1:]
        if not point:
            return -1
        binding = tuple((n, p.type.slot) for n, p in params.items() if isinstance(p, ObjectValue))
        key = (tuple((id(p[0]), p[1]) if isinstance(p, tuple) else id(p) for p in point), binding)
        if key not in self.known:
            self.known[key] = len(self.blocks)
            self.blocks.append(None)
            self.flows[self.known[key]] = flow.copy() if flow else None
            self.queue.append((self.known[key], point, dict(params)))
        return self.known[key]

    def _jump(self, point: Point, pos: Pos) -> ir.Block:
        goto = self._point(point, self.params, self.flow)
        return ir.Block(steps=self._steps(), cond=None, goto=goto, pos=pos)

    def _branch(self, cond: ir.Expr, yes: Point, no: Point, pos: Pos) -> ir.Block:
        steps = self._steps()
        if isinstance(cond, ir.Const):
            goto = self._point(yes if cond.value else no, self.params, self.flow)
            return ir.Block(steps=steps, cond=None, goto=goto, pos=pos)
        orelse = self._point(no, self.params, self.flow)
        goto = self._point(yes, self.params, self.flow)
        return ir.Block(steps=steps, cond=cond, goto=goto, orelse=orelse, pos=pos)

    def _steps(self) -> tuple[Any, ...]:
        done: list[Any] = []
        for s in self.out:
            if isinstance(s, ir.OneThread) and done and isinstance(done[-1], ir.OneThread):
                done[-1] = replace(done[-1], body=(*done[-1].body, *s.body))
            else:
                done.append(s)
        self.out = []
        return tuple(done)

    def _block(self, point: Point) -> ir.Block:
        while True:
            if not point:
                pos = self.source.pos(self.source.tree)
                return ir.Block(steps=self._steps(), cond=None, goto=-1, pos=pos)
            head, rest = point[0], point[1:]
            if isinstance(head, ast.While):
                pos = self.pos(head)
                if self.out:
                    return self._jump(point, pos)
                cond = truth(self.expr(head.test))
                return self._branch(cond, ((tuple(head.body), 0), *point), rest, pos)
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
                cond = truth(self.expr(stmt.test))
                yes, no = (
                    ((self._body(stmt.body), 0), *after),
                    ((self._body(stmt.orelse), 0), *after),
                )
                return self._branch(cond, yes, no, pos)
            if isinstance(stmt, ast.Break | ast.Continue):
                while not isinstance(point[0], ast.While):
                    point = point[1:]
                return self._jump(point[1:] if isinstance(stmt, ast.Break) else point, pos)
            if isinstance(stmt, ast.Return):
                self._result(stmt)
                return ir.Block(steps=self._steps(), cond=None, goto=-1, pos=pos)
            self.statement(stmt)
            point = after

    _bodies: dict[int, tuple[ast.stmt, ...]]

    def _body(self, body: list[ast.stmt]) -> tuple[ast.stmt, ...]:
        if not hasattr(self, "_bodies"):
            self._bodies = {}
        return self._bodies.setdefault(id(body), tuple(body))

    def _result(self, stmt: ast.Return) -> None:
        if stmt.value is None:
            return
        x = self.expr(stmt.value)
        if isinstance(x.type, Nothing):
            return
        if not isinstance(default(x.type), Scalar):
            reject("a program returns a scalar or nothing", self.pos(stmt))
        self._assign_name(RESULT, x, self.pos(stmt))

    # --- statements ------------------------------------------------------------------------------

    def _for_stmt(self, node: ast.For) -> None:
        reject(
            "a program loops with `while`",
            self.pos(node),
            "`for` is for kernels; here count with a scalar",
        )

    def _expr_stmt(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            f = self.value(node.value.func)
            if isinstance(f, PythonValue) and getattr(f.value, "morph_foreach", False):
                self._foreach(node.value)
                return
            if isinstance(f, PythonValue) and name_of(f.value) == "barrier":
                self.out.append(ir.OneThread(body=(), pos=self.pos(node)))  # type: ignore[arg-type]
                return
        super()._expr_stmt(node)

    def _assign_stmt(self, node: ast.Assign) -> None:
        target, value = node.targets[0], node.value
        if (
            isinstance(target, ast.Tuple)
            and isinstance(value, ast.Tuple)
            and len(node.targets) == 1
        ):
            names = [spelled(t.id) for t in target.elts if isinstance(t, ast.Name)]
            if all(isinstance(self.params.get(n), ObjectValue) for n in names) and names:
                objects = [self.value(v) for v in value.elts]
                if len(objects) == len(names) == len(target.elts):
                    for name, obj in zip(names, objects, strict=True):
                        self._rebind(name, obj, self.pos(node))
                    return
        if isinstance(target, ast.Name) and isinstance(
            self.params.get(spelled(target.id)), ObjectValue
        ):
            self._rebind(spelled(target.id), self.value(value), self.pos(node))
            return
        super()._assign_stmt(node)

    def _rebind(self, name: str, obj: Value, pos: Pos) -> None:
        have = self.params[name]
        assert isinstance(have, ObjectValue)
        if not isinstance(obj, ObjectValue) or obj.type.kind != have.type.kind:
            reject(f"{name!r} is a {describe(have)}, the value is {describe(obj)}", pos)
        self.params[name] = obj

    def _foreach(self, call: ast.Call) -> None:
        pos = self.pos(call)
        if len(call.args) < 2:
            reject("foreach takes a table or collection, a kernel, and its arguments", pos)
        domain, kernel = self.value(call.args[0]), self.value(call.args[1])
        if not isinstance(domain, ObjectValue) or domain.type.kind not in ("table", "collection"):
            reject(f"foreach runs over a table or collection, not {describe(domain)}", pos)
        definition = definition_of(kernel.value) if isinstance(kernel, PythonValue) else None
        if definition is None or definition.kind != "kernel":
            reject("foreach runs a @kernel", pos)
        args = [self.value(a) for a in call.args[2:]]
        item = self.builder.item_type(domain.type.slot)
        found = self.builder.kernel(definition, item, args, pos)
        where_args: tuple[ir.Expr, ...] = ()
        for k in call.keywords:
            if k.arg != "where":
                reject(f"foreach has no keyword {k.arg!r}", pos, "it has where")
            found, where_args = self._filtered(found, k.value, item, pos)
        passed = tuple(a for a in args if isinstance(a, ir.Expr))
        types = [t for _, t in found.params[1:] if not isinstance(t, Object)]
        passed = tuple(coerce(a, t, "argument") for a, t in zip(passed, types, strict=False))
        self.out.append(
            ir.Foreach(
                slot=domain.type.slot,
                kernel=found.name,
                args=passed,
                where_args=where_args,
                pos=pos,
            )  # type: ignore[arg-type]
        )

    def _filtered(
        self, kernel: ir.Kernel, node: ast.expr, item: Type, pos: Pos
    ) -> tuple[ir.Kernel, tuple[ir.Expr, ...]]:
        if not isinstance(node, ast.Lambda):
            reject("where is a lambda of the item", self.pos(node))
        name = f"{kernel.name}_where"
        params: dict[str, Value | Type] = {spelled(node.args.args[0].arg): item}
        outer = {n: p for n, p in self.params.items() if n not in params}
        inner = _Filter(self, node, self.builder.unique(name), params, outer)
        func = inner.function()
        self.builder.funcs[func.name] = func
        filtered = replace(kernel, name=self.builder.unique(kernel.name), where=func.name)
        self.builder.funcs[filtered.name] = filtered
        return filtered, tuple(ir.Var(name=n, type=t, pos=pos) for n, t in inner.extra.items())

    # --- effects ---------------------------------------------------------------------------------

    def effect(self, x: ir.Expr, shared: bool = True) -> ir.Expr:
        """An effect of the program itself: one thread has it."""
        if x.type != NOTHING and not isinstance(x, ir.Atomic | ir.SetUnion):
            reject(
                "this gives each item its own answer, and a program has no items",
                x.pos,
                "use it in a kernel",
            )
        if isinstance(x, ir.Add | ir.New | ir.NewRows):
            reject(
                "a program does not allocate",
                x.pos,
                "fill the collection before the program, or in a kernel",
            )
        body = (ir.Eval(value=x, pos=x.pos),)
        self.out.append(ir.OneThread(body=body, pos=x.pos))  # type: ignore[arg-type]
        return ir.Const(value=-1, type=NOTHING, pos=x.pos)

    def assign(self, target: ast.expr, x: ir.Expr) -> None:
        mark = len(self.out)
        super().assign(target, x)
        for i in range(mark, len(self.out)):
            s = self.out[i]
            if isinstance(s, ir.Write):
                self.out[i] = ir.OneThread(body=(s,), pos=s.pos)  # type: ignore[call-overload]

    def _method(self, node: ast.Call, f: Method, pos: Pos) -> Value:
        if isinstance(f.receiver, ObjectValue):
            kind, slot = f.receiver.type.kind, f.receiver.type.slot
            if kind == "flag" and f.name == "take":
                name = self.temporary(BOOL)
                self.out.append(ir.TakeFlag(var=name, slot=slot, pos=pos))  # type: ignore[arg-type]
                return ir.Var(name=name, type=BOOL, pos=pos)
            if kind == "collection" and f.name == "clear":
                self.out.append(ir.Clear(slot=slot, pos=pos))  # type: ignore[arg-type]
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
        x = self.program.expr(node)  # it may have no value yet
        if not isinstance(x.type, Scalar):
            reject(f"a filter can use the program's scalars, not {x.type}", self.pos(node),
                   "keep what it needs in a column")  # fmt: skip
        self.extra[name] = x.type
        return replace(x, pos=self.pos(node))
