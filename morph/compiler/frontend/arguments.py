"""Arguments of calls: their number, constants, values for the columns of a new row."""

from __future__ import annotations

import ast

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.values import coerce
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.intrinsics import StructType, scalar_of
from morph.language.position import Pos
from morph.language.types import Local, Store, Type, Vector


def no_keywords(c: Context, node: ast.Call) -> None:
    """Refuse keyword arguments."""
    if node.keywords:
        reject("keyword arguments do not go here", c.pos(node), "write the values in order")


def arity(c: Context, node: ast.Call, name: str, least: int, most: int | None = None) -> None:
    """Refuse a call with less than ``least`` or more than ``most`` arguments."""
    most = least if most is None else most
    if not least <= len(node.args) <= most:
        number = str(least) if least == most else f"{least} to {most}"
        plural = "argument" if number == "1" else "arguments"
        problem = f"{name} takes {number} {plural}, not {len(node.args)}"
        reject(problem, c.pos(node), "the reference lists every function")


def constant_int(c: Context, node: ast.expr, role: str) -> int:
    """A positive integer that is known while compiling."""
    n = c.expr(node)
    if not (isinstance(n, ir.Const) and isinstance(n.value, int) and n.value > 0):
        hint = "a number, or a global that is one"
        reject(f"{role} must be a positive constant", c.pos(node), hint)
    return n.value


def make_local(c: Context, node: ast.Call, elem: Type) -> ir.Expr:
    """A new local collection, whose capacity is the call's last argument."""
    t = Local(elem, constant_int(c, node.args[-1], "capacity"))
    return ir.MakeLocal(type=t, pos=c.pos(node))


def column_values(c: Context, node: ast.Call, store: Store) -> tuple[tuple[str, ir.Expr], ...]:
    """The arguments of a call, as values of columns by name."""
    names = [column.name for column in store.columns]
    if len(node.args) > len(names):
        problem = f"{store.slot} has {len(names)} columns, not {len(node.args)}"
        reject(problem, c.pos(node), ", ".join(names))
    given = dict(zip(names, node.args, strict=False))
    for k in node.keywords:
        if k.arg in given or k.arg not in names:
            problem = "given twice" if k.arg in given else "unknown"
            hint = f"{store.slot} has {', '.join(names)}"
            reject(f"column {k.arg!r} is {problem}", c.pos(node), hint)
        given[str(k.arg)] = k.value
    values = []
    for name, x in zip(given, c.exprs(list(given.values())), strict=True):
        column = store.column(name)
        assert column is not None
        t: Type = Vector(column.elem, column.size) if column.size else column.elem
        values.append((name, coerce(x, t, f"column {name!r}")))
    return tuple(values)


def field_type(struct: StructType, name: str, pos: Pos) -> Type | None:
    """The type of a field; None for a reference, whose table the value decides."""
    t = struct.annotations[name]
    t = eval(t, struct.names) if isinstance(t, str) else t
    if hasattr(t, "table") and not t.size:  # a Ref
        return None
    elem, size = t if isinstance(t, tuple) and len(t) == 2 else (t, 0)
    scalar = scalar_of(elem)
    if scalar is None:
        reject(
            f"field {name!r} of {struct.name} has no type of the language",
            pos,
            'annotate it with a dtype, (dtype, n) or Ref("table")',
        )
    return Vector(scalar, size) if size else scalar
