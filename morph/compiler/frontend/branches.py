"""Conditional evaluation: ``and``, ``or``, chained comparisons, ``a if c else b``, ``elif``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.neighbours import check_membership
from morph.compiler.frontend.operators import OPS, comparison
from morph.compiler.frontend.values import Value, to_common_type, truth
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, Local

MAX_NESTED_IFS = 40  # nesting depth of ifs in ``else``


@dataclass(frozen=True, slots=True)
class Arm:
    """``if cond: then`` of a chain; ``before`` computes the condition."""

    before: ir.Body
    cond: ir.Expr
    then: ir.Body
    pos: Pos


def condition(c: Context, node: ast.expr) -> ir.Expr:
    """An expression that is used only as a condition."""
    if not isinstance(node, ast.BoolOp):
        return truth(c.expr(node))
    op = "and" if isinstance(node.op, ast.And) else "or"
    result = condition(c, node.values[0])
    for value in node.values[1:]:
        result = _short(c, op, result, lambda v=value: condition(c, v), c.pos(node))  # type: ignore[misc]
        result = c.bounded(result)
    return result


def check_boolop(c: Context, node: ast.BoolOp) -> Value:
    """``x and y``, ``x or y`` as a value: for numbers one of the two, as in Python."""
    op = "and" if isinstance(node.op, ast.And) else "or"
    result = c.expr(node.values[0])
    for value in node.values[1:]:
        result = c.bounded(_either(c, op, result, value, c.pos(node)))
    return result


def _either(c: Context, op: str, x: ir.Expr, node: ast.expr, pos: Pos) -> ir.Expr:
    true = truth(x)
    if isinstance(true, ir.Const):
        return x if true.value == (op == "or") else c.expr(node)
    with c.collect() as inner:
        y = c.expr(node)
    if x.type == y.type == BOOL:

        def rest() -> ir.Expr:
            c.out += inner
            return y

        return _short(c, op, x, rest, pos)
    truth(y)
    x = c.bind(x)
    cond, (x, y) = truth(x), to_common_type(x, y, pos)
    if op == "or":
        return _choice(c, [Arm((), cond, (), pos)], [x], tuple(inner), y)
    return _choice(c, [Arm((), cond, tuple(inner), pos)], [y], (), x)


def _short(c: Context, op: str, x: ir.Expr, rest: Callable[[], ir.Expr], pos: Pos) -> ir.Expr:
    """``x op rest``, where ``rest`` is evaluated only if ``x`` does not decide."""
    if isinstance(x, ir.Const):
        return x if x.value == (op == "or") else rest()
    with c.collect() as inner:
        y = rest()
    if not inner:
        return ir.Logic(op=op, x=x, y=y, type=BOOL, pos=pos)
    name = c.temporary(BOOL)
    c.out.append(ir.Assign(name=name, value=x, pos=pos))
    result = ir.Var(name=name, type=BOOL, pos=pos)
    body = (*inner, ir.Assign(name=name, value=y, pos=pos))
    then, orelse = (body, ()) if op == "and" else ((), body)
    c.out.append(ir.If(cond=result, then=then, orelse=orelse, pos=pos))
    return result


def check_compare(c: Context, node: ast.Compare) -> Value:
    """``x < y``, and ``x < y < z``, which evaluates each operand once."""
    pos = c.pos(node)
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
        return check_membership(c, OPS[type(node.ops[0])], node)
    x, y = c.exprs([node.left, node.comparators[0]])
    if len(node.ops) > 1:
        x, y = c.bind(x), c.bind(y)
    result = comparison(OPS[type(node.ops[0])], x, y, pos)
    terms = [y]
    for op, right in zip(node.ops[1:], node.comparators[1:], strict=True):

        def rest(op: ast.cmpop = op, right: ast.expr = right) -> ir.Expr:
            terms.append(c.expr(right))
            if right is not node.comparators[-1]:
                terms[-1] = c.bind(terms[-1])
            return comparison(OPS[type(op)], terms[-2], terms[-1], pos)

        result = c.bounded(_short(c, "and", result, rest, pos))
    return result


def check_ifexp(c: Context, node: ast.IfExp) -> Value:
    """``a if c else b``; nested ones become one chain of ifs."""
    pos = c.pos(node)
    arms: list[Arm] = []
    values: list[ir.Expr] = []
    other: ast.expr = node
    with c.collect() as last:
        while isinstance(other, ast.IfExp):
            cond = condition(c, other.test)
            if isinstance(cond, ir.Const):
                other = other.body if cond.value else other.orelse
                continue
            before = tuple(last)
            last.clear()
            with c.collect() as then:
                values.append(c.expr(other.body))
            arms.append(Arm(before, cond, tuple(then), c.pos(other)))
            other = other.orelse
        result = c.expr(other)
    if not arms:
        c.out += last
        return result
    c.out += arms[0].before
    arms[0] = replace(arms[0], before=())
    for i in reversed(range(len(arms))):  # all values get a common type
        values[i], result = to_common_type(values[i], result, arms[i].pos)
    values = [to_common_type(x, result, a.pos)[0] for x, a in zip(values, arms, strict=True)]
    if isinstance(result.type, Local):
        reject("a local collection has one name", pos, "use an `if` statement")
    return _choice(c, arms, values, tuple(last), result)


def _choice(
    c: Context, arms: list[Arm], values: list[ir.Expr], last: ir.Body, result: ir.Expr
) -> ir.Expr:
    """The value of the first arm whose condition holds, else ``result`` after ``last``."""
    pos = arms[0].pos
    if len(arms) <= MAX_NESTED_IFS and not last and not any(a.before or a.then for a in arms):
        for x, a in reversed(list(zip(values, arms, strict=True))):
            result = ir.Select(cond=a.cond, x=x, y=result, type=result.type, pos=a.pos)
        return result
    name = c.temporary(result.type)

    def given(before: ir.Body, x: ir.Expr) -> ir.Body:
        return (*before, ir.Assign(name=name, value=x, pos=pos))

    arms = [replace(a, then=given(a.then, x)) for a, x in zip(arms, values, strict=True)]
    c.out += chain(c, arms, given(last, result))
    return ir.Var(name=name, type=result.type, pos=pos)


def chain(c: Context, arms: Sequence[Arm], last: ir.Body) -> ir.Body:
    """``if``, ``elif`` ..., ``else``; a long chain is divided, to limit the nesting depth."""
    parts = [arms[i : i + MAX_NESTED_IFS] for i in range(0, len(arms), MAX_NESTED_IFS)]
    if len(parts) <= 1:
        return _nest(arms, last)
    left = ir.Var(name=c.temporary(BOOL), type=BOOL, pos=arms[0].pos)

    def set_left(value: bool) -> ir.Stmt:
        x = ir.Const(value=value, type=BOOL, pos=left.pos)
        return ir.Assign(name=left.name, value=x, pos=left.pos)

    done: list[ir.Stmt] = [set_left(True)]
    for part in parts:
        rest = last if part is parts[-1] else (set_left(True),)
        then = (set_left(False), *_nest(part, rest))
        done.append(ir.If(cond=left, then=then, orelse=(), pos=part[0].pos))
    return tuple(done)


def _nest(arms: Sequence[Arm], last: ir.Body) -> ir.Body:
    """Ifs, each in the ``else`` of the previous one."""
    for a in reversed(arms):
        last = (*a.before, ir.If(cond=a.cond, then=a.then, orelse=last, pos=a.pos))
    return last
