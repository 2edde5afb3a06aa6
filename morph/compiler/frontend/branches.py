"""Checking what decides: ``and``, ``or``, chains of comparisons, ``a if c else b``, ``elif``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from morph.compiler.frontend.values import Value, meet, truth
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, Local, Type

OPS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Pow: "**", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.UAdd: "+",
}  # fmt: skip
CHAIN = 40  # ifs in one another's ``else``


@dataclass(frozen=True, slots=True)
class Arm:
    """``if cond: then`` of a chain; ``before`` computes the condition."""

    before: ir.Body
    cond: ir.Expr
    then: ir.Body
    pos: Pos


class Branches:
    """The part of the checker that knows what is evaluated under which condition."""

    out: list[ir.Stmt]

    def pos(self, node: ast.AST) -> Pos:
        """Where a node stands in the user's file."""
        raise AssertionError("the checker of expressions has these")

    def expr(self, node: ast.expr) -> ir.Expr:
        """An expression that must be a value."""
        raise AssertionError

    def exprs(self, nodes: Sequence[ast.expr]) -> list[ir.Expr]:
        """Several values, left to right."""
        raise AssertionError

    def bounded(self, x: ir.Expr) -> ir.Expr:
        """A value of few nodes."""
        raise AssertionError

    def bind(self, x: ir.Expr) -> ir.Expr:
        """Evaluate now."""
        raise AssertionError

    def temporary(self, t: Type) -> str:
        """A fresh local."""
        raise AssertionError

    def comparison(self, op: str, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
        """``x op y`` as a bool."""
        raise AssertionError

    def membership(self, op: str, node: ast.Compare, pos: Pos) -> ir.Expr:
        """``x in y`` or ``x not in y``."""
        raise AssertionError

    def condition(self, node: ast.expr) -> ir.Expr:
        """An expression of which only the truth matters."""
        if not isinstance(node, ast.BoolOp):
            return truth(self.expr(node))
        op = "and" if isinstance(node.op, ast.And) else "or"
        result = self.condition(node.values[0])
        for value in node.values[1:]:
            result = self.short(op, result, lambda v=value: self.condition(v), self.pos(node))  # type: ignore[misc]
            result = self.bounded(result)
        return result

    def _boolop_expr(self, node: ast.BoolOp) -> Value:
        op = "and" if isinstance(node.op, ast.And) else "or"
        result = self.expr(node.values[0])
        for value in node.values[1:]:
            result = self.bounded(self._either(op, result, value, self.pos(node)))
        return result

    def _either(self, op: str, x: ir.Expr, node: ast.expr, pos: Pos) -> ir.Expr:
        """``x op node`` as a value: of numbers one of the two, as in Python."""
        true = truth(x)
        if isinstance(true, ir.Const):
            return x if true.value == (op == "or") else self.expr(node)
        outer, self.out = self.out, []
        y = self.expr(node)
        inner, self.out = self.out, outer
        if x.type == y.type == BOOL:

            def rest() -> ir.Expr:
                self.out += inner
                return y

            return self.short(op, x, rest, pos)
        truth(y)
        x = self.bind(x)
        cond, (x, y) = truth(x), meet(x, y, pos)
        if op == "or":
            return self.choice([Arm((), cond, (), pos)], [x], tuple(inner), y)
        return self.choice([Arm((), cond, tuple(inner), pos)], [y], (), x)

    def short(self, op: str, x: ir.Expr, rest: Callable[[], ir.Expr], pos: Pos) -> ir.Expr:
        """``x op rest``, where ``rest`` is evaluated only if ``x`` does not decide."""
        if isinstance(x, ir.Const):
            return x if x.value == (op == "or") else rest()
        outer, self.out = self.out, []
        y = rest()
        inner, self.out = self.out, outer
        if not inner:
            return ir.Logic(op=op, x=x, y=y, type=BOOL, pos=pos)
        name = self.temporary(BOOL)
        self.out.append(ir.Assign(name=name, value=x, pos=pos))
        result = ir.Var(name=name, type=BOOL, pos=pos)
        body = (*inner, ir.Assign(name=name, value=y, pos=pos))
        then, orelse = (body, ()) if op == "and" else ((), body)
        self.out.append(ir.If(cond=result, then=then, orelse=orelse, pos=pos))
        return result

    def _compare_expr(self, node: ast.Compare) -> Value:
        pos = self.pos(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            return self.membership(OPS[type(node.ops[0])], node, pos)
        if len(node.ops) == 1:
            x, y = self.exprs([node.left, node.comparators[0]])
            return self.comparison(OPS[type(node.ops[0])], x, y, pos)
        x, y = (self.bind(e) for e in self.exprs([node.left, node.comparators[0]]))
        result = self.comparison(OPS[type(node.ops[0])], x, y, pos)
        terms = [y]
        for op, right in zip(node.ops[1:], node.comparators[1:], strict=True):

            def rest(op: ast.cmpop = op, right: ast.expr = right) -> ir.Expr:
                terms.append(self.expr(right))
                if right is not node.comparators[-1]:
                    terms[-1] = self.bind(terms[-1])
                return self.comparison(OPS[type(op)], terms[-2], terms[-1], pos)

            result = self.bounded(self.short("and", result, rest, pos))
        return result

    def _ifexp_expr(self, node: ast.IfExp) -> Value:
        outer, pos = self.out, self.pos(node)
        arms: list[Arm] = []
        values: list[ir.Expr] = []
        other: ast.expr = node
        self.out = []
        while isinstance(other, ast.IfExp):
            cond = self.condition(other.test)
            if isinstance(cond, ir.Const):
                other = other.body if cond.value else other.orelse
                continue
            before, self.out = tuple(self.out), []
            values.append(self.expr(other.body))
            arms.append(Arm(before, cond, tuple(self.out), self.pos(other)))
            self.out, other = [], other.orelse
        result = self.expr(other)
        last, self.out = tuple(self.out), outer
        if not arms:
            self.out += last
            return result
        self.out += arms[0].before
        arms[0] = replace(arms[0], before=())
        for i in reversed(range(len(arms))):  # all meet in one type
            values[i], result = meet(values[i], result, arms[i].pos)
        values = [meet(x, result, a.pos)[0] for x, a in zip(values, arms, strict=True)]
        if isinstance(result.type, Local):
            reject("a local collection has one name", pos, "use an `if` statement")
        return self.choice(arms, values, last, result)

    def choice(
        self, arms: list[Arm], values: list[ir.Expr], last: ir.Body, result: ir.Expr
    ) -> ir.Expr:
        """The value of the first arm whose condition holds, else ``result`` after ``last``."""
        pos = arms[0].pos
        if len(arms) <= CHAIN and not last and not any(a.before or a.then for a in arms):
            for x, a in reversed(list(zip(values, arms, strict=True))):
                result = ir.Select(cond=a.cond, x=x, y=result, type=result.type, pos=a.pos)
            return result
        name = self.temporary(result.type)

        def given(before: ir.Body, x: ir.Expr) -> ir.Body:
            return (*before, ir.Assign(name=name, value=x, pos=pos))

        arms = [replace(a, then=given(a.then, x)) for a, x in zip(arms, values, strict=True)]
        self.out += self.chain(arms, given(last, result))
        return ir.Var(name=name, type=result.type, pos=pos)

    def chain(self, arms: Sequence[Arm], last: ir.Body) -> ir.Body:
        """``if``, ``elif`` and so on, and what is left; a long chain in several nests of ifs."""
        parts = [arms[i : i + CHAIN] for i in range(0, len(arms), CHAIN)]
        if len(parts) <= 1:
            return _nest(arms, last)
        left = ir.Var(name=self.temporary(BOOL), type=BOOL, pos=arms[0].pos)

        def say(value: bool) -> ir.Stmt:
            x = ir.Const(value=value, type=BOOL, pos=left.pos)
            return ir.Assign(name=left.name, value=x, pos=left.pos)

        done: list[ir.Stmt] = [say(True)]
        for part in parts:
            rest = last if part is parts[-1] else (say(True),)
            then = (say(False), *_nest(part, rest))
            done.append(ir.If(cond=left, then=then, orelse=(), pos=part[0].pos))
        return tuple(done)


def _nest(arms: Sequence[Arm], last: ir.Body) -> ir.Body:
    """Ifs, each in the ``else`` of the one before."""
    for a in reversed(arms):
        last = (*a.before, ir.If(cond=a.cond, then=a.then, orelse=last, pos=a.pos))
    return last
