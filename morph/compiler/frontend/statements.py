"""Blocks of statements, expression statements, ``if``, ``return``."""

from __future__ import annotations

import ast

from morph.compiler.frontend.arguments import arity, no_keywords
from morph.compiler.frontend.branches import Arm, chain, condition
from morph.compiler.frontend.calls import is_call
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.scope import Edges, Flow, Retype, join
from morph.compiler.frontend.values import Method, ObjectValue, coerce, default, has_none, truth
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.types import NOTHING, Handle, Local, Nothing, Tuple

RESULT = "return"  # the hint for the type of a function's result; no local can have this name


def check_statement(c: Context, node: ast.stmt) -> None:
    """One statement, appended to ``c.out``."""
    rules = c.rules.statements
    rules.get(type(node), rules[ast.AST])(c, node)


def check_block(c: Context, body: list[ast.stmt]) -> ir.Body:
    """The statements of a block, as a body."""
    with c.collect() as done:
        ended = False
        for stmt in body:
            if ended:
                reject(
                    "nothing may follow single(collection)",
                    c.pos(stmt),
                    "move these statements into its branches, or before it",
                )
            claim = c.claim
            if c.flow is None:
                break  # the rest is unreachable, as in Python
            check_statement(c, stmt)
            ended = c.claim is not claim
    return tuple(done)


def check_expr(c: Context, node: ast.Expr) -> None:
    """An expression for its effect."""
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    if c.definition.kind != "program" and (loop := _extension(c, node.value)):
        check_statement(c, loop)
        return
    mark = len(c.out)
    x = c.value(node.value)
    last = c.out[-1] if len(c.out) > mark else None
    if isinstance(x, ir.Var) and isinstance(last, ir.Assign) and last.name == x.name:
        c.out[-1] = ir.Eval(value=last.value, pos=last.pos)
        del c.locals[x.name]
    elif last is None and not isinstance(x, ir.Call):
        reject("this expression does nothing", c.pos(node), "call it, or assign its value")


def _extension(c: Context, node: ast.expr) -> ast.For | None:
    """The loop that is equivalent to ``collection.extend(xs)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    f = c.value(node.func) if node.func.attr == "extend" else None
    x = f.receiver if isinstance(f, Method) else None
    if not (isinstance(x, ObjectValue) and x.type.kind == "collection"):
        if not (isinstance(x, ir.Expr) and isinstance(x.type, Local)):
            return None
    no_keywords(c, node)
    arity(c, node, "extend", 1)
    if ast.dump(node.args[0]) == ast.dump(node.func.value):
        reject("a collection cannot be extended by itself", c.pos(node), "loop over a copy")
    each = f"each_{node.lineno}_{node.col_offset}"
    item, bound = (ast.Name(id=each, ctx=ctx) for ctx in (ast.Load(), ast.Store()))
    add = ast.Call(ast.Attribute(node.func.value, "add", ast.Load()), [item], [])
    loop = ast.For(bound, node.args[0], [ast.Expr(add)], [])
    for new in (item, bound, add, add.func, loop, loop.body[0]):
        ast.copy_location(new, node)
    return loop


def check_if(c: Context, node: ast.If) -> None:
    """``if`` with all its ``elif``."""
    arms: list[Arm] = []
    ends: list[tuple[Flow | None, Edges]] = []
    first, other = node, list[ast.stmt]([node])
    with c.collect() as before:
        while len(other) == 1 and isinstance(other[0], ast.If) and c.flow is not None:
            node = other[0]
            if node is not first and is_call(c, node.test, "single"):
                break
            cond = condition(c, node.test)
            if isinstance(cond, ir.Const):
                other = node.body if cond.value else node.orelse
                continue
            start, edges = c.flow, c.edges
            c.flow = start.copy()
            arms.append(Arm(tuple(before), cond, check_block(c, node.body), c.pos(node)))
            before.clear()
            ends.append((c.flow, c.edges))
            c.flow, c.edges, other = start.copy(), edges, node.orelse
        last = (*before, *check_block(c, other))
    for flow, edges in reversed(ends):
        join_paths(c, flow, edges)
    c.out += chain(c, arms, last)


def join_paths(c: Context, flow: Flow | None, edges: Edges) -> None:
    """Join the current state with that of another branch."""
    if c.flow is None:
        c.edges = edges
    elif flow is not None:
        c.edges = {k: v for k, v in c.edges.items() if edges.get(k) == v}
    c.flow = join(flow, c.flow)


def check_return(c: Context, node: ast.Return) -> None:
    """``return``, with or without a value."""
    pos = c.pos(node)
    x = None if node.value is None else c.expr(node.value)
    if c.definition.kind == "where" and x is not None:
        x = truth(x)
    if c.is_kernel and x is not None and not isinstance(x.type, Nothing):
        reject("a kernel returns no value", pos, "write it into a column")
    if x is not None and isinstance(x.type, Local):
        hint = "pass it in and let the function fill it"
        reject("a local collection cannot be returned", pos, hint)
    x = ir.Const(value=-1, type=NOTHING, pos=pos) if x is None else x
    if c.result is None:
        c.result = c.hints.get(RESULT, default(x.type))
    if has_none(c.result) and not has_none(x.type):
        if isinstance(x.type, Handle | Tuple) and not c.is_kernel:
            raise Retype(RESULT, x.type)
    nothing = c.result == x.type == NOTHING
    value = None if nothing else coerce(x, c.result, "the function's result")
    c.out.append(ir.Return(value=value, pos=pos))
    c.flow = None
