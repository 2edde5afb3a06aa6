"""Arguments of calls: their number, constants, values for the columns of a new row."""

from __future__ import annotations

import ast
from typing import Any

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.values import coerce
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.evaluation import evaluated
from morph.language.intrinsics import LocalField, StructType, scalar_of
from morph.language.position import Pos
from morph.language.types import Handle, Local, Store, Struct, Type, Vector


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
    """A positive integer that is a compile-time constant."""
    n = c.expr(node)
    if not (isinstance(n, ir.Const) and isinstance(n.value, int) and n.value > 0):
        hint = "a number, or a global that is one"
        reject(f"{role} must be a positive constant", c.pos(node), hint)
    return n.value


def make_local(c: Context, node: ast.Call, elem: Type) -> ir.Expr:
    """A new local collection; its capacity is the last argument of the call."""
    t = Local(elem, constant_int(c, node.args[-1], "capacity"))
    return ir.MakeLocal(type=t, pos=c.pos(node))


def column_values(c: Context, node: ast.Call, store: Store) -> tuple[tuple[str, ir.Expr], ...]:
    """The values of columns that a call passes, by name."""
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


def element_type(c: Context, elem: Any, size: int, pos: Pos) -> Type | None:
    """The type of the values of a local collection; None if ``elem`` is no type."""
    if not isinstance(elem, StructType):
        scalar = scalar_of(elem)
        return Vector(scalar, size) if size and scalar else scalar
    fields = [(field, field_type(c, elem, field, pos)) for field in elem.annotations]
    known = tuple((field, kind) for field, kind in fields if kind is not None)
    if len(known) < len(fields):
        hint = "keep the rows in a local collection of their own"
        reject(f"{elem.name} has rows of tables that are not known here", pos, hint)
    if any(isinstance(kind, Local) for _, kind in known):
        hint = "keep their values in a local collection of their own"
        reject(f"{elem.name} holds local collections, and no collection holds those", pos, hint)
    return None if size else Struct(elem.name, known)


def field_type(c: Context, struct: StructType, name: str, pos: Pos) -> Type | None:
    """The type of a field; None for a reference, whose table is that of the value."""
    t = struct.annotations[name]
    t = evaluated(t, struct.names) if isinstance(t, str) else t
    if isinstance(t, LocalField):
        return _local_type(c, t, f"{struct.name}.{name}", pos)
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


def _local_type(c: Context, t: LocalField, name: str, pos: Pos) -> Local:
    """The type of a field that is a local collection."""
    if not isinstance(t.capacity, int) or t.capacity < 1:
        reject(f"the capacity of {name} is {t.capacity}", pos, "a positive integer")
    if hasattr(t.elem, "table"):  # a Ref
        return Local(_row_type(c, t.elem, name, pos), t.capacity)
    elem, size = t.elem if isinstance(t.elem, tuple) and len(t.elem) == 2 else (t.elem, 0)
    kind = element_type(c, elem, size, pos)
    if kind is None:
        hint = 'local(dtype, n), local((dtype, k), n), local(struct, n) or local(Ref("table"), n)'
        reject(f"{name} is a local collection of no type of the language", pos, hint)
    return Local(kind, t.capacity)


def _row_type(c: Context, ref: Any, name: str, pos: Pos) -> Handle:
    """The handle of a ``Ref``: of its table, or of the only graph that has a table of its name."""
    tables = [dict(g.tables) for g in c.builder.graphs.values()]
    found = {t[ref.name] for t in tables if ref.name in t}
    if ref.table is not None:
        known = c.builder.capture(ref.table, ref.name)
        found = {known.slot} if known else set()
    if len(found) != 1:
        number = "several tables" if found else "no table"
        reject(f"{name} refers to {number} {ref.name!r} here", pos, "Ref(table), or one graph")
    return Handle(found.pop())
