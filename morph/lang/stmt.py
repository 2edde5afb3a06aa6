"""Checking statements: one forward pass over a function's body."""

from __future__ import annotations

import ast
from dataclasses import replace

from morph.lang import ir
from morph.lang.builtins import name_of
from morph.lang.call import Calls
from morph.lang.errors import reject
from morph.lang.ir import Pos
from morph.lang.scope import Flow, Loop, join, spelled
from morph.lang.types import (
    BOOL,
    I64,
    NOTHING,
    Handle,
    Local,
    Nothing,
    Rows,
    Struct,
    Tuple,
    Type,
    Vector,
)
from morph.lang.values import (
    Chain,
    Iterator,
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    cast,
    coerce,
    default,
    describe,
    truth,
)


class Statements(Calls):
    """The part of the checker that turns statements into IR."""

    is_kernel: bool
    result: Type | None
    commit: ir.Body | None
    abort: ir.Body | None
    claim: Pos | None

    def block(self, body: list[ast.stmt]) -> ir.Body:
        """A list of statements, in a list of their own."""
        outer, self.out = self.out, []
        ended = False
        for stmt in body:
            if ended:
                reject(
                    "nothing may follow single(collection)",
                    self.pos(stmt),
                    "move these statements into its branches, or before it",
                )
            before = self.claim
            if self.flow is None:
                break  # unreachable: Python would not run it either
            self.statement(stmt)
            ended = self.claim is not before
        done, self.out = tuple(self.out), outer
        return done

    def statement(self, node: ast.stmt) -> None:
        """One statement, appended to ``self.out``."""
        method = getattr(self, f"_{type(node).__name__.lower()}_stmt", None)
        if method is None:
            name = type(node).__name__
            hints = {
                "Try": "kernels raise nothing", "With": "only the host uses `with`",
                "Import": "import at the top of the file", "FunctionDef": "define a @func outside",
                "Global": "pass it as an argument", "Raise": "report through a column or a flag",
                "ClassDef": "declare a @struct outside",
            }  # fmt: skip
            reject(f"{name.lower()} is outside the language", self.pos(node), hints.get(name, ""))
        method(node)

    # --- assignment ------------------------------------------------------------------------------

    def _assign_stmt(self, node: ast.Assign) -> None:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
            self._unpack(node.targets[0], node.value)
            return
        x = self.expr(node.value)
        if len(node.targets) > 1:
            x = self.bind(x)
        for target in node.targets:
            self.assign(target, x)

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> None:
        x = self.expr(value)
        if isinstance(x.type, Vector) and x.type.size == len(target.elts):
            x = x if isinstance(x, ir.Make) else self.bind(x)
            parts = [self.part(x, i) for i in range(x.type.size)]
        elif isinstance(x.type, Tuple) and len(x.type.items) == len(target.elts):
            x = x if isinstance(x, ir.Make) else self.bind(x)
            parts = [self.field(x, i, self.pos(target)) for i in range(len(target.elts))]
        else:
            reject(f"{x.type} does not unpack into {len(target.elts)} names", self.pos(target))
        if isinstance(x, ir.Make):
            parts = [p if isinstance(p, ir.Const) else self._copied(p) for p in parts]
        for t, p in zip(target.elts, parts, strict=True):
            self.assign(t, p)

    def _copied(self, x: ir.Expr) -> ir.Expr:
        name = self.temporary(x.type)
        self.out.append(ir.Assign(name=name, value=cast(x, default(x.type)), pos=x.pos))
        return ir.Var(name=name, type=default(x.type), pos=x.pos)

    def assign(self, target: ast.expr, x: ir.Expr) -> None:
        """``target = x`` for a name, a column place, an element or a field."""
        pos = self.pos(target)
        if isinstance(target, ast.Name):
            self._assign_name(spelled(target.id), x, pos)
            return
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            name = spelled(target.value.id)
            t = self.locals.get(name)
            if isinstance(t, Vector | Local):
                index = self.integer(self.expr(target.slice), "index")
                if name in self.claimed:
                    reject(
                        f"{target.value.id!r} is owned by single and cannot change after it", pos
                    )
                self.out.append(
                    ir.SetItem(name=name, index=index, value=coerce(x, t.elem, "element"), pos=pos)
                )
                return
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            name = spelled(target.value.id)
            t = self.locals.get(name)
            if isinstance(t, Struct):
                names = [n for n, _ in t.fields]
                if target.attr not in names:
                    reject(f"{t} has no field {target.attr!r}", pos, f"it has {', '.join(names)}")
                i = names.index(target.attr)
                self.out.append(
                    ir.SetField(
                        name=name, index=i, value=coerce(x, t.fields[i][1], target.attr), pos=pos
                    )
                )
                return
        if not isinstance(target, ast.Attribute | ast.Subscript):
            reject(f"cannot assign to {type(target).__name__.lower()}", pos)
        mark = len(self.out)
        v = self.value(target)
        if len(self.out) > mark:
            x = self._frozen(x, mark)
        if not isinstance(v, ir.Load):
            reject(
                f"cannot assign to {describe(v)}", pos, "assign to a local, or to a column of a row"
            )
        self._wrote(pos)
        value = coerce(x, v.type, f"column {v.place.column!r}")
        self.out.append(ir.Write(place=v.place, value=value, pos=pos))

    def _wrote(self, pos: Pos) -> None:
        if self.flow is not None and self.flow.wrote is None:
            self.flow.wrote = pos

    def _assign_name(self, name: str, x: ir.Expr, pos: Pos) -> None:
        if isinstance(self.params.get(name), Value):  # type: ignore[arg-type]
            reject(f"{name!r} is a {describe(self.params[name])} and cannot be assigned", pos)  # type: ignore[arg-type]
        param = self.params.get(name)
        have = self.locals.get(name) or (param if isinstance(param, Type) else None)
        if isinstance(have, Local) and not isinstance(x, ir.MakeLocal):
            reject(
                "a local collection cannot be assigned",
                pos,
                "pass it on, or copy its values in a loop",
            )
        if isinstance(x.type, Local) and not isinstance(x, ir.MakeLocal):
            reject("a local collection has one name", pos, "use the first one")
        if have is None or (isinstance(have, Nothing) and isinstance(x.type, Handle)):
            have = default(x.type)
            self.locals[name] = have
        if isinstance(x.type, Nothing) and isinstance(have, Nothing):
            value: ir.Expr = x
        else:
            value = coerce(x, have, f"{name!r}")
        self.edges.pop(name, None)
        for other in [n for n, e in self.edges.items() if e[1] == name]:
            del self.edges[other]
        last = self.out[-1] if self.out else None
        if isinstance(value, ir.Var) and isinstance(last, ir.Assign) and last.name == value.name:
            if value.name.endswith("_") and value.name[0] == "t" and value.name[1:-1].isdigit():
                self.out.pop()
                self.locals.pop(value.name)
                value = last.value
        self.out.append(ir.Assign(name=name, value=value, pos=pos))
        self.define(name)

    def define(self, name: str) -> None:
        """From here on the local has a value."""
        if self.flow is not None:
            self.flow.assigned |= {name}

    def _augassign_stmt(self, node: ast.AugAssign) -> None:
        target = node.target
        load = ast.copy_location(
            ast.BinOp(left=_as_load(target), op=node.op, right=node.value), node
        )
        ast.fix_missing_locations(load)
        self.assign(target, self.expr(load))

    def _annassign_stmt(self, node: ast.AnnAssign) -> None:
        reject(
            "annotations are outside the language",
            self.pos(node),
            "types follow from the first value",
        )

    def _expr_stmt(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        mark = len(self.out)
        x = self.value(node.value)
        last = self.out[-1] if len(self.out) > mark else None
        if isinstance(x, ir.Var) and isinstance(last, ir.Assign) and last.name == x.name:
            self.out[-1] = ir.Eval(value=last.value, pos=last.pos)
            del self.locals[x.name]
        if len(self.out) == mark and isinstance(x, ir.Expr):
            if isinstance(x, ir.Call):
                return
            reject("this expression does nothing", self.pos(node))

    def _pass_stmt(self, node: ast.Pass) -> None:
        """Do nothing."""

    # --- control ---------------------------------------------------------------------------------

    def _if_stmt(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Call):
            f = self.value(node.test.func)
            if isinstance(f, PythonValue) and name_of(f.value) == "single":
                self._single(node, node.test)
                return
        cond = truth(self.expr(node.test))
        if isinstance(cond, ir.Const):
            self.out.extend(self.block(node.body if cond.value else node.orelse))
            return
        then, orelse = self._branches(node.body, node.orelse)
        self.out.append(ir.If(cond=cond, then=then, orelse=orelse, pos=self.pos(node)))

    def _branches(self, body: list[ast.stmt], other: list[ast.stmt]) -> tuple[ir.Body, ir.Body]:
        start, edges = self.flow, dict(self.edges)
        assert start is not None
        self.flow = start.copy()
        then = self.block(body)
        after_then = self.flow
        self.flow, edges_then = start.copy(), self.edges
        self.edges = dict(edges)
        orelse = self.block(other)
        self.edges = {k: v for k, v in self.edges.items() if edges_then.get(k) == v}
        self.flow = join(after_then, self.flow)
        return then, orelse

    def _single(self, node: ast.If, call: ast.Call) -> None:
        pos = self.pos(call)
        if len(call.args) != 1:
            reject("single takes one row, place or local collection", pos)
        x = self.value(call.args[0])
        if isinstance(x, ir.Expr) and isinstance(x.type, Local):
            self._claim(node, call, x, pos)
            return
        if call.keywords:
            reject("guard and priority go with a local collection only", pos)
        lock: ir.Expr
        if isinstance(x, ir.Load) and not isinstance(x.type, Vector | Handle):
            lock = ir.LockPlace(place=x.place, type=BOOL, pos=pos)
        elif isinstance(x, ir.Expr) and isinstance(x.type, Handle):
            lock = ir.Lock(slot=x.type.slot, row=x, type=BOOL, pos=pos)
        else:
            reject(f"single takes a row, a place or a local collection, not {describe(x)}", pos)
        won = self.effect(lock)
        then, orelse = self._branches(node.body, node.orelse)
        self.out.append(ir.If(cond=won, then=then, orelse=orelse, pos=self.pos(node)))

    def _claim(self, node: ast.If, call: ast.Call, x: ir.Expr, pos: Pos) -> None:
        if not self.is_kernel:
            reject(
                "single(collection) belongs in a @kernel",
                pos,
                "return the collection's parts to the kernel",
            )
        if self.loops:
            reject(
                "single(collection) cannot be in a loop",
                pos,
                "one item claims once; add the rest to a worklist",
            )
        if self.claim is not None:
            reject(
                "single(collection) can be in one place only",
                pos,
                f"the other is on line {self.claim.line}",
            )
        if (
            not isinstance(x, ir.Var)
            or not isinstance(x.type, Local)
            or not isinstance(x.type.elem, Handle)
        ):
            reject("single takes a local collection of rows", pos)
        assert self.flow is not None
        if self.flow.wrote is not None:
            reject(
                "a write before single(collection)",
                self.flow.wrote,
                f"the item may lose at line {pos.line} and must have changed nothing: move this after it",
            )
        keywords = {k.arg: k.value for k in call.keywords}
        guard = self.expr(keywords.pop("guard")) if "guard" in keywords else None
        if guard is not None and not (isinstance(guard, ir.Var) and isinstance(guard.type, Local)):
            reject("guard is a local collection of rows", guard.pos)
        priority = keywords.pop("priority", None)
        order = self.integer(self.expr(priority), "priority") if priority is not None else None
        if keywords:
            reject(
                f"single has no keyword {next(iter(keywords))!r}", pos, "it has guard and priority"
            )
        self.claim = pos
        self.out.append(
            ir.Claim(items=x.name, guard=guard.name if guard else None, priority=order, pos=pos)  # type: ignore[attr-defined]
        )
        start = self.flow
        self.flow, self.claimed = start.copy(), frozenset({x.name})
        self.commit = self.block(node.body)
        self.flow, self.claimed = start.copy(), frozenset()
        self.abort = self.block(node.orelse)
        self.flow = None

    def _while_stmt(self, node: ast.While) -> None:
        self._no_else(node)
        pos = self.pos(node)
        start = self.flow
        assert start is not None
        outer, self.out = self.out, []
        loop = Loop()
        self.loops.append(loop)
        edges = self.edges
        self.edges = {}
        self.flow = start.copy()
        cond = truth(self.expr(node.test))
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
        self.flow = after
        self._mark(wrote)

    def _mark(self, wrote: Pos | None) -> None:
        if self.flow is not None and self.flow.wrote is None:
            self.flow.wrote = wrote

    def _no_else(self, node: ast.While | ast.For) -> None:
        if node.orelse:
            reject("a loop has no `else` in the language", self.pos(node.orelse[0]))

    def _break_stmt(self, node: ast.Break) -> None:
        self.loops[-1].breaks.append(self.flow)
        self.out.append(ir.Break(pos=self.pos(node)))
        self.flow = None

    def _continue_stmt(self, node: ast.Continue) -> None:
        if self.flow is not None:
            self.loops[-1].wrote = self.loops[-1].wrote or self.flow.wrote
        self.out.append(ir.Continue(pos=self.pos(node)))
        self.flow = None

    def _return_stmt(self, node: ast.Return) -> None:
        pos = self.pos(node)
        x = None if node.value is None else self.expr(node.value)
        if x is not None and isinstance(x.type, Nothing) and self.result is None:
            x = None
        if self.is_kernel and x is not None:
            reject("a kernel returns no value", pos, "write it into a column")
        t = NOTHING if x is None else default(x.type)
        if isinstance(t, Local):
            reject(
                "a local collection cannot be returned",
                pos,
                "pass it in and let the function fill it",
            )
        if self.result is None:
            self.result = t
        if x is not None:
            x = coerce(x, self.result, "the function's result")
        elif self.result != NOTHING:
            if not isinstance(self.result, Handle):
                reject(f"the function returns {self.result} elsewhere, nothing here", pos)
            x = ir.Const(value=-1, type=self.result, pos=pos)
        self.out.append(ir.Return(value=x, pos=pos))
        self.flow = None

    # --- loops over things -----------------------------------------------------------------------

    def _for_stmt(self, node: ast.For) -> None:
        self._no_else(node)
        pos = self.pos(node)
        if not isinstance(node.target, ast.Name):
            reject("a loop binds one name", self.pos(node.target))
        if isinstance(node.iter, ast.Call):
            f = self.value(node.iter.func)
            if isinstance(f, PythonValue) and name_of(f.value) == "range":
                self._for_range(node, node.iter, pos)
                return
        x = self.value(node.iter)
        start, reverse = None, False
        if isinstance(x, Slice):
            x, start, reverse = x.x, x.start, x.reverse
            if isinstance(x, Slice):
                x, start, reverse = x.x, x.start or start, x.reverse or reverse
        var = spelled(node.target.id)
        if isinstance(x, Chain):
            if any(isinstance(n, ast.Break) for n in ast.walk(node)):
                reject(
                    "`break` cannot leave the edges at both ends", pos, "loop over nbr1, then nbr2"
                )
            for side in (x.first, x.second):
                self._for_edges(node, var, side, start, reverse, pos)
        elif isinstance(x, Iterator):
            self._for_edges(node, var, x, start, reverse, pos)
        elif isinstance(x, ObjectValue) and x.type.kind in ("table", "collection"):
            t = self.builder.item_type(x.type.slot)
            body = self._loop(node, {var: t})
            self.out.append(
                ir.ForRows(
                    slot=x.type.slot, var=var, start=start, reverse=reverse, body=body, pos=pos
                )
            )
        elif isinstance(x, ir.Expr) and isinstance(x.type, Local | Vector | Rows):
            elem = Handle(x.type.slot) if isinstance(x.type, Rows) else x.type.elem
            x = x if isinstance(x.type, Local) else self.bind(x)
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

    def _for_edges(
        self, node: ast.For, var: str, x: Iterator, start: ir.Expr | None, reverse: bool, pos: Pos
    ) -> None:
        point = self.bind(x.point)
        edges = Handle(f"{x.graph}.edges")
        self.builder.reads_adjacency(x.graph, x.direction)
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

    def _for_range(self, node: ast.For, call: ast.Call, pos: Pos) -> None:
        assert isinstance(node.target, ast.Name)
        if not 1 <= len(call.args) <= 3 or call.keywords:
            reject("range takes 1 to 3 integers", self.pos(call))
        args = [self.integer(x, "range") for x in self.exprs(call.args)]
        zero = ir.Const(value=0, type=I64, pos=pos)
        start, stop = (zero, args[0]) if len(args) == 1 else (args[0], args[1])
        step = args[2] if len(args) == 3 else ir.Const(value=1, type=I64, pos=pos)
        if isinstance(step, ir.Unary) and isinstance(step.x, ir.Const):
            step = ir.Const(value=-step.x.value, type=I64, pos=pos)
        if not isinstance(step, ir.Const) or step.value == 0:
            reject("the step of a range is a nonzero constant", self.pos(call.args[-1]))
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
        start, edges = self.flow, dict(self.edges)
        assert start is not None
        for name, t in binds.items():
            have = self.locals.get(name) or self.params.get(name)
            if have is not None and have != t:
                reject(
                    f"{name!r} is {have} elsewhere, {t} here",
                    self.pos(node.target),
                    "use another name",
                )
            if name not in self.params:
                self.locals[name] = t
        loop = Loop()
        self.loops.append(loop)
        self.flow = replace(start, assigned=start.assigned | set(binds))
        reassigned = {
            spelled(n.id)
            for n in ast.walk(ast.Module(node.body, []))
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self.edges = {
            k: e for k, e in edges.items() if k not in reassigned and e[1] not in reassigned
        }
        if edge is not None and not reassigned & {edge[0], edge[1][1]}:
            self.edges[edge[0]] = edge[1]
        body = self.block(node.body)
        self.loops.pop()
        wrote = (self.flow.wrote if self.flow else None) or loop.wrote
        for b in loop.breaks:
            wrote = wrote or (b.wrote if b else None)
        self.edges = {
            k: e for k, e in edges.items() if k not in reassigned and e[1] not in reassigned
        }
        self.flow = Flow(start.assigned, start.wrote or wrote)
        return body


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(
            ast.Attribute(value=target.value, attr=target.attr, ctx=ast.Load()), target
        )
    assert isinstance(target, ast.Subscript)
    return ast.copy_location(
        ast.Subscript(value=target.value, slice=target.slice, ctx=ast.Load()), target
    )
