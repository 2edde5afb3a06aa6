"""Checking loops: `while`, and `for` over ranges, edges, rows and items."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from morph.compiler.frontend.assignments import Assignments
from morph.compiler.frontend.scope import Edges, Flow, Loop, Retype, join, plain, spelled
from morph.compiler.frontend.values import (
    Chain,
    Iterator,
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    describe,
)
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.intrinsics import name_of
from morph.language.position import Pos
from morph.language.types import BOOL, I64, U64, Handle, Local, Nothing, Object, Rows, Type, Vector


class Loops(Assignments):
    """The part of the checker that turns loops into IR."""

    def block(self, body: list[ast.stmt]) -> ir.Body:
        """A list of statements, in a list of their own."""
        raise AssertionError("the checker of statements has it")

    def _while_stmt(self, node: ast.While) -> None:
        self._no_else(node)
        pos = self.pos(node)
        start = self.flow
        assert start is not None
        outer, self.out = self.out, []
        loop = Loop()
        self.loops.append(loop)
        self.edges = edges = _without(self.edges, _assigned(node.body))
        self.flow = start.copy()
        cond = self.condition(node.test)
        before = self.out
        body = self.block(node.body)
        self.loops.pop()
        self.edges = edges
        self.out = outer
        wrote = (self.flow.wrote if self.flow else None) or loop.wrote
        always = isinstance(cond, ir.Const) and bool(cond.value)
        if before:
            stop = ir.If(cond=cond, then=(), orelse=(ir.Break(pos=pos),), pos=pos)
            body = (*before, stop, *body)
            cond = ir.Const(value=True, type=BOOL, pos=pos)
        self.out.append(ir.While(cond=cond, body=body, pos=pos))
        after: Flow | None = None if always else Flow(start.assigned, start.wrote or wrote)
        for b in loop.breaks:
            after = join(after, b)
        if after is not None and after.wrote is None:
            after.wrote = wrote
        self.flow = after

    def _no_else(self, node: ast.While | ast.For) -> None:
        if node.orelse:
            reject("a loop has no `else`", self.pos(node.orelse[0]), "set a local before `break`")

    def _break_stmt(self, node: ast.Break) -> None:
        self.loops[-1].breaks.append(self.flow)
        self.out.append(ir.Break(pos=self.pos(node)))
        self.flow = None

    def _continue_stmt(self, node: ast.Continue) -> None:
        if self.flow is not None:
            self.loops[-1].wrote = self.loops[-1].wrote or self.flow.wrote
        self.out.append(ir.Continue(pos=self.pos(node)))
        self.flow = None

    # --- loops over things -----------------------------------------------------------------------

    def _for_stmt(self, node: ast.For) -> None:
        self._no_else(node)
        pos = self.pos(node)
        if not isinstance(node.target, ast.Name):
            reject("a loop binds one name", self.pos(node.target), "count in a local of its own")
        if self.calls(node.iter, "range"):
            assert isinstance(node.iter, ast.Call)
            self._for_range(node, node.iter, pos)
            return
        x = self.items(self.value(node.iter))
        start: ir.Expr | None = None
        reverse = False
        if isinstance(x, Slice):
            start, reverse = x.start, x.reverse
            x = self.items(x.x)
        var = spelled(node.target.id)
        if isinstance(x, Chain):
            if start is not None or reverse or _breaks(node.body):
                reject(
                    "an edge's nbrs are two loops: no `break`, reversed or [start:]",
                    pos,
                    "loop over nbr1, then nbr2",
                )
            for side in (x.first, x.second):
                self._for_edges(node, var, side, start, reverse, pos)
        elif isinstance(x, Iterator):
            self._for_edges(node, var, x, start, reverse, pos)
        elif isinstance(x, ObjectValue) and x.type.kind in ("table", "collection"):
            t = self.builder.item_type(x.type.slot)
            bound, entry = self.builder.bound_type(t), var
            if bound != t:
                entry = self.temporary(t)
            body = self._loop(node, {entry: t, var: bound})
            if bound != t:
                number = self.builder.bound(ir.Var(name=entry, type=t, pos=pos))
                body = (ir.Assign(name=var, value=number, pos=pos), *body)
            self.out.append(
                ir.ForRows(
                    slot=x.type.slot, var=entry, start=start, reverse=reverse, body=body, pos=pos
                )
            )
        elif isinstance(x, ir.Expr) and isinstance(x.type, Local | Vector | Rows):
            elem = Handle(x.type.slot) if isinstance(x.type, Rows) else x.type.elem
            x = x if isinstance(x.type, Local) else self._fixed(x, node)
            body = self._loop(node, {var: elem})
            self.out.append(
                ir.ForItems(x=x, var=var, start=start, reverse=reverse, body=body, pos=pos)
            )
        else:
            reject(
                f"a loop cannot run over {describe(x)}",
                self.pos(node.iter),
                "it runs over range(...), neighbours, tables, collections and vectors",
            )

    def items(self, x: Value) -> Value:
        """What a loop over ``x`` runs over: of a set, the rows of its table."""
        if isinstance(x, ObjectValue) and x.type.kind == "set":
            table = self.builder.stores[x.type.slot].of
            assert table is not None
            return ObjectValue(x.pos, Object("table", table))
        return x

    def _for_edges(
        self, node: ast.For, var: str, x: Iterator, start: ir.Expr | None, reverse: bool, pos: Pos
    ) -> None:
        point = self.bind(x.point)
        edges = Handle(f"{x.graph}.edges")
        if x.bind == "edge":
            body = self._loop(node, {var: edges})
            edge, other = var, None
        else:
            edge, other = f"{var}_edge_", var
            self.locals[edge] = edges
            assert isinstance(point, ir.Var | ir.Const)
            source = point.name if isinstance(point, ir.Var) else ""
            body = self._loop(
                node, {var: Handle(f"{x.graph}.points")}, (var, (x.graph, source, edge))
            )
        self.out.append(
            ir.ForEdges(
                graph=x.graph,
                point=point,
                direction=x.direction,
                edge=edge,
                var=other,
                start=start,
                reverse=reverse,
                skip=x.skip,
                body=body,
                pos=pos,
            )  # fmt: skip
        )

    def _fixed(self, x: ir.Expr, node: ast.For) -> ir.Expr:
        """What a loop runs over, as it was when the loop began."""
        if isinstance(x, ir.Var) and x.name in _changed(node.body):
            copy = self.temporary(x.type)
            self.out.append(ir.Assign(name=copy, value=x, pos=x.pos))
            return ir.Var(name=copy, type=x.type, pos=x.pos)
        return self.bind(x)

    def calls(self, node: ast.expr, name: str) -> bool:
        """Whether an expression is a call of a builtin, by whatever name it was imported."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            return False
        f = node.func
        if isinstance(f, ast.Attribute) and not isinstance(f.value, ast.Name):
            return False
        found = self.value(f)
        return isinstance(found, PythonValue) and name_of(found.value) == name

    def _for_range(self, node: ast.For, call: ast.Call, pos: Pos) -> None:
        assert isinstance(node.target, ast.Name)
        if not 1 <= len(call.args) <= 3 or call.keywords:
            reject("range takes 1 to 3 integers", self.pos(call), "range(start, stop, step)")
        args = [self.integer(_at_most(x), "range") for x in self.exprs(call.args)]
        zero = ir.Const(value=0, type=I64, pos=pos)
        start, stop = (zero, args[0]) if len(args) == 1 else (args[0], args[1])
        step = args[2] if len(args) == 3 else ir.Const(value=1, type=I64, pos=pos)
        if not isinstance(step, ir.Const) or step.value == 0:
            reject(
                "the step of a range is a nonzero constant",
                self.pos(call.args[-1]),
                "use a `while` loop",
            )
        var = spelled(node.target.id)
        body = self._loop(node, {var: I64})
        self.out.append(
            ir.ForRange(var=var, start=start, stop=stop, step=int(step.value), body=body, pos=pos)
        )

    def _loop(
        self,
        node: ast.For,
        binds: dict[str, Type],
        edge: tuple[str, tuple[str, str, str]] | None = None,
    ) -> ir.Body:
        start = self.flow
        assert start is not None
        for name, t in binds.items():
            param = self.params.get(name)
            have = self.locals.get(name) or self.hints.get(name) or param
            if isinstance(have, Nothing) and isinstance(t, Handle):
                raise Retype(name, t)
            if have is not None and have != t:
                what = str(have) if isinstance(have, Type) else describe(have)
                reject(
                    f"{plain(name)!r} is {what} elsewhere, {t} here",
                    self.pos(node.target),
                    "use another name",
                )
            if name not in self.params:
                self.locals[name] = t
        loop = Loop()
        self.loops.append(loop)
        self.flow = replace(start, assigned=start.assigned | set(binds))
        assigned = _assigned(node.body)
        edges = _without(self.edges, assigned | set(binds))
        self.edges = dict(edges)
        if edge is not None and edge[1][1] not in assigned | {edge[0]}:
            self.edges[edge[0]] = edge[1]
        body = self.block(node.body)
        self.loops.pop()
        wrote = (self.flow.wrote if self.flow else None) or loop.wrote
        for b in loop.breaks:
            wrote = wrote or (b.wrote if b else None)
        self.edges = edges
        self.flow = Flow(start.assigned, start.wrote or wrote)
        return body


def _at_most(x: ir.Expr) -> ir.Expr:
    """A bound of a range: one of u64 that i64 cannot hold is the largest that it can."""
    if x.type != U64 or isinstance(x, ir.Const):
        return x
    most = ir.Const(value=2**63 - 1, type=U64, pos=x.pos)
    return ir.Builtin(name="min", args=(x, most), type=U64, pos=x.pos)


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign; who writes a column of a row assigns none."""
    return {
        spelled(n.id)
        for stmt in body
        for n in ast.walk(stmt)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _changed(body: Sequence[ast.stmt]) -> set[str]:
    """The names whose values statements change, if these are vectors: by an element, too."""
    return _assigned(body) | {
        spelled(n.value.id)
        for stmt in body
        for n in ast.walk(stmt)
        if isinstance(n, ast.Attribute | ast.Subscript)
        and isinstance(n.ctx, ast.Store)
        and isinstance(n.value, ast.Name)
    }


def _without(edges: Edges, names: set[str]) -> Edges:
    """The edges of loops whose variable and whose point are none of ``names``."""
    return {k: e for k, e in edges.items() if k not in names and e[1] not in names}


def _breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether statements can leave the loop that they are the body of."""
    for stmt in body:
        if isinstance(stmt, ast.Break):
            return True
        if isinstance(stmt, ast.If) and (_breaks(stmt.body) or _breaks(stmt.orelse)):
            return True
    return False
