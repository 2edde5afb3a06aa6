"""Calls with a place in a column as argument: atomic operations and ``prefetch``."""

from __future__ import annotations

import ast
from dataclasses import replace

from morph.compiler.frontend.arguments import arity
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.values import ObjectValue, Value, coerce, describe
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.types import BOOL, NOTHING, Handle, Scalar, Shared, Vector

OPERATIONS = ("min", "max", "add", "sub", "and", "or", "xor", "cas", "exch")


def check_atomic(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``atomic_add(place, value, changed=flag)`` and the other atomics."""
    op, pos = name.removeprefix("atomic_"), c.pos(node)
    count = 3 if op == "cas" else 2
    keywords = {k.arg: k.value for k in node.keywords}
    changed = keywords.pop("changed", None)
    if keywords:
        reject(f"{name} has no keyword {next(iter(keywords))!r}", pos, "it has changed")
    arity(c, node, name, count, count + (changed is None))
    target = c.value(node.args[0])
    if isinstance(target, ir.Item) and isinstance(target.x.type, Shared):
        return _of_array(c, node, op, target)
    place = _place(c, target, node.args[0], name)
    row = c.bind(place.row)
    place = replace(place, row=row, index=c.bind(place.index) if place.index else None)
    elem = place.type
    if isinstance(elem, Handle) and op not in ("cas", "exch", "min", "max"):
        reject(f"{name} does not apply to a reference", pos, "use atomic_cas or atomic_exch")
    args = [coerce(x, elem, f"column {place.column!r}") for x in c.exprs(node.args[1:count])]
    if op in ("and", "or", "xor") and isinstance(elem, Scalar) and elem.kind == "f":
        reject(f"{name} applies to integers and bool_, not to {elem}", pos, "use atomic_cas")
    if elem == BOOL and op in ("add", "sub"):
        reject(f"{name} does not apply to bool_", pos, "use atomic_or")
    if len(node.args) > count:
        changed = node.args[count]
    flag = _flag(c, changed) if changed is not None else None
    return c.effect(ir.Atomic(op=op, place=place, args=tuple(args), flag=flag, type=elem, pos=pos))


def _of_array(c: Context, node: ast.Call, op: str, target: ir.Item) -> ir.Expr:
    """An atomic operation on an element of a shared array."""
    pos, elem = c.pos(node), target.type
    count = 3 if op == "cas" else 2
    if len(node.args) > count or node.keywords:
        reject("an atomic on a shared array raises no flag", pos, "call it without a flag")
    assert isinstance(target.x, ir.Var)
    index = c.bind(target.index)
    args = tuple(coerce(x, elem, "element") for x in c.exprs(node.args[1:count]))
    atomic = ir.ItemAtomic(op=op, name=target.x.name, index=index, args=args, type=elem, pos=pos)
    return c.effect(atomic, shared=False)


def _place(c: Context, x: Value, node: ast.expr, name: str) -> ir.Place:
    """A column place: ``row.column`` or ``row.column[i]``."""
    if not isinstance(x, ir.Load):
        reject(f"{name} needs a place in a column", c.pos(node), "as in t.dist or t.node[i]")
    if isinstance(x.type, Vector):
        problem = f"{name} needs one value of the vector column {x.place.column!r}"
        reject(problem, c.pos(node), f"{x.place.column}[i]")
    return c.builder.writable(x.place, c.pos(node))


def _flag(c: Context, node: ast.expr) -> str:
    f = c.value(node)
    if isinstance(f, ObjectValue) and f.type.kind == "flag":
        return f.type.slot
    reject(f"changed is a Flag, not {describe(f)}", c.pos(node), "pass a Flag to the kernel")


def check_prefetch(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``prefetch(place)``."""
    arity(c, node, name, 1)
    x, pos = c.value(node.args[0]), c.pos(node)
    if not isinstance(x, ir.Load):
        reject("prefetch needs a place in a column", pos, "prefetch(p.weight)")
    return c.effect(ir.Prefetch(place=x.place, type=NOTHING, pos=pos), shared=False)
