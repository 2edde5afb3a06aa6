"""Loops: ``while``, and ``for`` over ranges, edges, rows and items."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from morph.compiler.frontend.branches import condition
from morph.compiler.frontend.calls import is_call
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.scope import BoundEdge, Edges, Flow, Loop, Retype, join
from morph.compiler.frontend.statements import check_block
from morph.compiler.frontend.values import Chain, Iterator, ObjectValue, Slice, describe
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name, user_name
from morph.language.bundles import field_name
from morph.language.errors import reject
from morph.language.types import BOOL, I64, U64, Handle, Local, Nothing, Rows, Scalar, Type, Vector


def check_while(c: Context, node: ast.While) -> None:
    """``while cond: ...``."""
    no_else(c, node)
    pos, start, loop = c.pos(node), c.path(), Loop()
    c.loops.append(loop)
    c.edges = edges = _without(c.edges, _assigned(node.body))
    c.flow = start.copy()
    with c.collect() as before:
        cond = condition(c, node.test)
        body = check_block(c, node.body)
    c.loops.pop()
    c.edges = edges
    wrote = (c.flow.wrote if c.flow else None) or loop.wrote
    always = isinstance(cond, ir.Const) and bool(cond.value)
    if before:
        stop = ir.If(cond=cond, then=(), orelse=(ir.Break(pos=pos),), pos=pos)
        body = (*before, stop, *body)
        cond = ir.Const(value=True, type=BOOL, pos=pos)
    c.out.append(ir.While(cond=cond, body=body, pos=pos))
    after: Flow | None = None if always else Flow(start.assigned, start.wrote or wrote)
    for flow in loop.breaks:
        after = join(after, flow)
    if after is not None and after.wrote is None:
        after.wrote = wrote
    c.flow = after


def no_else(c: Context, node: ast.While | ast.For) -> None:
    """Refuse the ``else`` of a loop."""
    if node.orelse:
        reject("a loop has no `else`", c.pos(node.orelse[0]), "set a local before `break`")


def check_break(c: Context, node: ast.Break) -> None:
    """``break``."""
    c.loops[-1].breaks.append(c.flow)
    c.out.append(ir.Break(pos=c.pos(node)))
    c.flow = None


def check_continue(c: Context, node: ast.Continue) -> None:
    """``continue``."""
    if c.flow is not None:
        c.loops[-1].wrote = c.loops[-1].wrote or c.flow.wrote
    c.out.append(ir.Continue(pos=c.pos(node)))
    c.flow = None


def check_for(c: Context, node: ast.For) -> None:
    """``for var in ...``."""
    no_else(c, node)
    pos = c.pos(node)
    if not isinstance(node.target, ast.Name):
        reject("a loop binds one name", c.pos(node.target), "count in a local of its own")
    if is_call(c, node.iter, "range"):
        assert isinstance(node.iter, ast.Call)
        _over_range(c, node, node.iter)
        return
    if is_call(c, node.iter, "bit_positions"):
        assert isinstance(node.iter, ast.Call)
        _over_bits(c, node, node.iter)
        return
    x, var = c.value(node.iter), ir_name(node.target.id)
    part = x if isinstance(x, Slice) else Slice(x.pos, x, None, False)
    part = replace(part, x=c.builder.domain(part.x))
    start, reverse = part.start, part.reverse
    match part.x:
        case Chain(first=first, second=second):
            if start is not None or reverse or _breaks(node.body):
                problem = "an edge's nbrs are two loops: no `break`, reversed or [start:]"
                reject(problem, pos, "loop over nbr1, then nbr2")
            _over_edges(c, node, var, first, part)
            _over_edges(c, node, var, second, part)
        case Iterator() as x:
            _over_edges(c, node, var, x, part)
        case ObjectValue(type=t) if t.kind in ("table", "collection"):
            item = c.builder.item_type(t.slot)
            bound = c.builder.bound_type(item)
            entry = var if bound == item else c.temporary(item)
            body = _body(c, node, bound)
            if bound != item:
                number = c.builder.bound(ir.Var(name=entry, type=item, pos=pos))
                body = (ir.Assign(name=var, value=number, pos=pos), *body)
            c.out.append(
                ir.ForRows(slot=t.slot, var=entry, start=start, reverse=reverse, body=body, pos=pos)
            )
        case ir.Expr(type=Local() | Vector() | Rows() as t) as x:
            x = x if isinstance(t, Local) else _fixed(c, x, node)
            body = _body(c, node, Handle(t.slot) if isinstance(t, Rows) else t.elem)
            c.out.append(
                ir.ForItems(x=x, var=var, start=start, reverse=reverse, body=body, pos=pos)
            )
        case x:
            hint = "it runs over range(...), neighbours, tables, collections and vectors"
            reject(f"a loop cannot run over {describe(x)}", c.pos(node.iter), hint)


def _over_edges(c: Context, node: ast.For, var: str, x: Iterator, part: Slice) -> None:
    """A loop over the edges of a point, or over its neighbours."""
    point, edges = c.bind(x.point), Handle(f"{x.graph}.edges")
    if x.bind == "edge":
        edge, other = var, None
        body = _body(c, node, edges)
    else:
        edge, other = f"{var}_edge_", var
        c.locals[edge] = edges
        at = point.name if isinstance(point, ir.Var) else ""
        bound = BoundEdge(x.graph, at, x.point, edge)
        body = _body(c, node, Handle(f"{x.graph}.points"), bound)
    c.out.append(
        ir.ForEdges(
            graph=x.graph,
            point=point,
            direction=x.direction,
            edge=edge,
            var=other,
            start=part.start,
            reverse=part.reverse,
            skip=x.skip,
            body=body,
            pos=c.pos(node),
        )  # fmt: skip
    )


def _over_range(c: Context, node: ast.For, call: ast.Call) -> None:
    assert isinstance(node.target, ast.Name)
    var, pos = ir_name(node.target.id), c.pos(node)
    if not 1 <= len(call.args) <= 3 or call.keywords:
        reject("range takes 1 to 3 integers", c.pos(call), "range(start, stop, step)")
    args = [c.integer(_bounded(x), "range") for x in c.exprs(call.args)]
    zero = ir.Const(value=0, type=I64, pos=pos)
    start, stop = (zero, args[0]) if len(args) == 1 else (args[0], args[1])
    step = args[2] if len(args) == 3 else ir.Const(value=1, type=I64, pos=pos)
    if not isinstance(step, ir.Const) or step.value == 0:
        hint = "use a `while` loop"
        reject("the step of a range is a nonzero constant", c.pos(call.args[-1]), hint)
    body = _body(c, node, I64)
    c.out.append(
        ir.ForRange(var=var, start=start, stop=stop, step=int(step.value), body=body, pos=pos)
    )


def _over_bits(c: Context, node: ast.For, call: ast.Call) -> None:
    assert isinstance(node.target, ast.Name)
    var, pos = ir_name(node.target.id), c.pos(node)
    x = c.expr(call.args[0]) if len(call.args) == 1 and not call.keywords else None
    if x is None or not isinstance(x.type, Scalar) or x.type.kind not in "iu":
        hint = "for i in bit_positions(u64(x))"
        reject("bit_positions takes one integer of a known type", c.pos(call), hint)
    body = _body(c, node, I64)
    c.out.append(ir.ForBits(var=var, x=x, body=body, pos=pos))


def _bounded(x: ir.Expr) -> ir.Expr:
    """A bound of a range; a u64 above the range of i64 is limited to its maximum."""
    if x.type != U64 or isinstance(x, ir.Const):
        return x
    most = ir.Const(value=2**63 - 1, type=U64, pos=x.pos)
    return ir.Builtin(name="min", args=(x, most), type=U64, pos=x.pos)


def _fixed(c: Context, x: ir.Expr, node: ast.For) -> ir.Expr:
    """The values that a loop iterates over, evaluated when the loop begins."""
    changed = isinstance(x, ir.Var) and _is_among(x.name, _changed(node.body))
    return c.copy(x) if changed else c.bind(x)


def _body(c: Context, node: ast.For, t: Type, bound: BoundEdge | None = None) -> ir.Body:
    """The body of a loop whose variable has type ``t``, and may be the end of an edge."""
    assert isinstance(node.target, ast.Name)
    name, start, loop = ir_name(node.target.id), c.path(), Loop()
    known = c.locals.get(name) or c.hints.get(name) or c.params.get(name) or c.structs.get(name)
    if isinstance(known, Nothing) and isinstance(t, Handle):
        raise Retype(name, t)
    if known is not None and known != t:
        kind = str(known) if isinstance(known, Type) else describe(known)
        problem = f"{user_name(name)!r} is {kind} elsewhere, {t} here"
        reject(problem, c.pos(node.target), "use another name")
    if name not in c.params:
        c.locals[name] = t
    c.loops.append(loop)
    c.flow = Flow(start.assigned | {name}, start.wrote)
    assigned = _assigned(node.body) | {name}
    c.edges = edges = _without(c.edges, assigned)
    if bound is not None and not _is_among(bound.point, assigned):
        c.edges = {**edges, name: bound}
    body = check_block(c, node.body)
    c.loops.pop()
    wrote = (c.flow.wrote if c.flow else None) or loop.wrote
    for flow in loop.breaks:
        wrote = wrote or (flow.wrote if flow else None)
    c.edges = edges
    c.flow = Flow(start.assigned, start.wrote or wrote)
    return body


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign; a write to a column assigns none."""
    return {name for stmt in body for n in ast.walk(stmt) if (name := _stored(n))}


def _changed(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign, or whose elements they assign."""
    elements = (
        n.value
        for stmt in body
        for n in ast.walk(stmt)
        if isinstance(n, ast.Attribute | ast.Subscript) and isinstance(n.ctx, ast.Store)
    )
    return _assigned(body) | {name for x in elements if (name := _local(x))}


def _stored(node: ast.AST) -> str:
    """The local that a node stores, "" if none."""
    return _local(node) if isinstance(getattr(node, "ctx", None), ast.Store) else ""


def _local(node: ast.AST) -> str:
    """The local of a name, or of a field of a struct whose fields are locals; "" if neither."""
    match node:
        case ast.Name(id=name):
            return ir_name(name)
        case ast.Attribute(value=ast.Name(id=name), attr=field):
            return field_name(ir_name(name), field)
    return ""


def _without(edges: Edges, names: set[str]) -> Edges:
    """The edges of loops whose variable and point are not in ``names``."""
    return {k: e for k, e in edges.items() if k not in names and not _is_among(e.point, names)}


def _is_among(name: str, names: set[str]) -> bool:
    """Whether a local, or the struct that it is a field of, is among some names."""
    return name in names or name.partition("__")[0] in names


def _breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether the body of a loop can leave the loop."""
    for stmt in body:
        if isinstance(stmt, ast.Break):
            return True
        if isinstance(stmt, ast.If) and (_breaks(stmt.body) or _breaks(stmt.orelse)):
            return True
    return False
