"""``if single(x)``: locks of rows and places, and claims of local collections."""

from __future__ import annotations

import ast

from morph.compiler.frontend.calls import is_call
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.statements import check_block, check_if, join_paths
from morph.compiler.frontend.values import describe
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.types import BOOL, Handle, Local, Vector


def check_if_or_single(c: Context, node: ast.If) -> None:
    """``if``, whose condition may be ``single(x)``."""
    if is_call(c, node.test, "single"):
        assert isinstance(node.test, ast.Call)
        _single(c, node, node.test)
    else:
        check_if(c, node)


def _single(c: Context, node: ast.If, call: ast.Call) -> None:
    pos = c.pos(call)
    if len(call.args) != 1:
        problem = "single takes one row, place or local collection"
        reject(problem, pos, "single(cavity, guard=ring, priority=k)")
    x = c.value(call.args[0])
    if isinstance(x, ir.Expr) and isinstance(x.type, Local):
        _claim(c, node, call, x)
        return
    if call.keywords:
        problem = "guard and priority go with a local collection only"
        reject(problem, pos, "a row goes to the first item that comes")
    lock: ir.Expr
    if isinstance(x, ir.Load) and not isinstance(x.type, Vector | Handle):
        lock = ir.LockPlace(place=c.builder.writable(x.place, pos), type=BOOL, pos=pos)
    elif isinstance(x, ir.Expr) and isinstance(x.type, Handle):
        lock = ir.Lock(slot=x.type.slot, row=x, type=BOOL, pos=pos)
    else:
        problem = f"single takes a row, a place or a local collection, not {describe(x)}"
        reject(problem, pos, "single(p), single(p.lock) or single(cavity)")
    won = c.effect(lock)
    start, edges = c.path(), c.edges
    c.flow = start.copy()
    then = check_block(c, node.body)
    after = c.flow, c.edges
    c.flow, c.edges = start.copy(), edges
    orelse = check_block(c, node.orelse)
    join_paths(c, *after)
    c.out.append(ir.If(cond=won, then=then, orelse=orelse, pos=c.pos(node)))


def _claim(c: Context, node: ast.If, call: ast.Call, x: ir.Expr) -> None:
    pos, start = c.pos(call), c.path()
    if not c.is_kernel:
        hint = "return the collection's parts to the kernel"
        reject("single(collection) belongs in a @kernel", pos, hint)
    if c.loops:
        hint = "one item claims once; add the rest to a worklist"
        reject("single(collection) cannot be in a loop", pos, hint)
    if c.claim is not None:
        hint = f"the other is on line {c.claim.line}"
        reject("single(collection) can be in one place only", pos, hint)
    items = _claimable(x)
    if items is None:
        reject("single takes a local collection of rows", pos, "as made by g.points.local(n)")
    if start.wrote is not None:
        hint = f"the item may lose at line {pos.line} having changed nothing: move this after it"
        reject("a write before single(collection)", start.wrote, hint)
    keywords = {k.arg: k.value for k in call.keywords}
    guard = None
    if "guard" in keywords:
        y = c.expr(keywords.pop("guard"))
        guard = _claimable(y)
        if guard is None:
            hint = "as made by g.points.local(n)"
            reject("guard is a local collection of rows", y.pos, hint)
    priority = keywords.pop("priority", None)
    order = c.integer(c.expr(priority), "priority") if priority is not None else None
    if keywords:
        problem = f"single has no keyword {next(iter(keywords))!r}"
        reject(problem, pos, "it has guard and priority")
    c.claim = pos
    c.out.append(ir.Claim(items=items, guard=guard, priority=order, pos=pos))
    c.flow, c.claimed = start.copy(), frozenset({items})
    c.commit = check_block(c, node.body)
    c.flow, c.claimed = start.copy(), frozenset()
    c.abort = check_block(c, node.orelse)
    c.flow = None


def _claimable(x: ir.Expr) -> str | None:
    """The name of a local collection of rows; None for other expressions."""
    if isinstance(x, ir.Var) and isinstance(x.type, Local) and isinstance(x.type.elem, Handle):
        return x.name
    return None
