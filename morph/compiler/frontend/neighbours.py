"""Neighbours outside of loops: ``p.outnbrs[i]`` and ``t in p.outnbrs``."""

from __future__ import annotations

import ast
from dataclasses import replace

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.operators import comparison
from morph.compiler.frontend.values import Iterator, coerce
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import BOOL, I64, Handle


def check_neighbour(c: Context, x: Iterator, node: ast.expr, pos: Pos) -> ir.Expr:
    """``p.outnbrs[i]``: the first value of a loop that starts at ``i``; None if it is empty."""
    if c.definition.kind == "program":
        reject("a program takes no single neighbour", pos, "p.outnbrs[i] is for kernels")
    with c.collect() as later:
        index = c.bind(c.integer(c.expr(node), "index"))
    point = c.bind(c.evaluate_before(x.point, later))
    if isinstance(index, ir.Const) and index.value < 0:
        reject(f"index {index.value} is outside of the edges", pos, "the first one is at 0")
    edges, points = Handle(f"{x.graph}.edges"), Handle(f"{x.graph}.points")
    edge, other = c.temporary(edges), c.temporary(points) if x.bind == "point" else None
    bound = ir.Var(name=other or edge, type=points if other else edges, pos=pos)
    found = c.copy(ir.Const(value=-1, type=bound.type, pos=pos))
    c.kept.add(found.name)
    take = (ir.Assign(name=found.name, value=bound, pos=pos), ir.Break(pos=pos))
    loop = ir.ForEdges(
        graph=x.graph, point=point, direction=x.direction, edge=edge, var=other, start=index,
        reverse=False, skip=x.skip, body=take, pos=pos,
    )  # fmt: skip
    zero = ir.Const(value=0, type=I64, pos=pos)
    inside = ir.Compare(op=">=", x=index, y=zero, type=BOOL, pos=pos)
    c.out.append(ir.If(cond=inside, then=(loop,), orelse=(), pos=pos))
    return found


def check_membership(c: Context, op: str, node: ast.Compare) -> ir.Expr:
    """``x in y``; for neighbours, whether such an edge exists."""
    x, pos = c.expr(node.left), c.pos(node)
    with c.collect() as later:
        y = c.value(node.comparators[0])
        if not isinstance(y, Iterator) or y.bind != "point":
            y = c.evaluated(y, node.comparators[0])
    x = c.evaluate_before(x, later)
    if isinstance(y, ir.Expr):
        return comparison(op, x, y, pos)
    x, point = c.bind(coerce(x, Handle(f"{y.graph}.points"), "neighbour")), c.bind(y.point)
    none = ir.Const(value=-1, type=Handle(f"{y.graph}.edges"), pos=pos)

    def leads(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        edge = ir.FindEdge(graph=y.graph, x=a, y=b, type=none.type, pos=pos)
        return ir.Compare(op="!=", x=edge, y=none, type=BOOL, pos=pos)

    found = leads(point, x)
    if y.direction != "out":  # None has no edges
        row: ir.Expr = ir.Compare(op="!=", x=x, y=replace(none, type=x.type), type=BOOL, pos=pos)
        back = ir.Logic(op="and", x=row, y=leads(x, point), type=BOOL, pos=pos)
        both = ir.Logic(op="or", x=found, y=back, type=BOOL, pos=pos)
        found = back if y.direction == "in" else both
    return found if op == "in" else ir.Unary(op="not", x=found, type=BOOL, pos=pos)
