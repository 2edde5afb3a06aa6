"""Assignments: to locals, columns, elements and fields."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.methods import refuse_claimed
from morph.compiler.frontend.operators import OPS, binary, part
from morph.compiler.frontend.scope import Retype
from morph.compiler.frontend.selectors import columns_of, field, same_columns
from morph.compiler.frontend.values import (
    Bundle,
    Static,
    cast,
    coerce,
    default,
    describe,
    has_none,
    parts_of,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name, user_name
from morph.language.bundles import field_name
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.types import Handle, Local, Nothing, Rows, Tuple, Type

TEMPORARY = re.compile(r"t\d+_")


def check_assign(c: Context, node: ast.Assign) -> None:
    """``x = value``, ``x = y = value``, ``x, y = value``."""
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
        _unpack(c, node.targets[0], node.value)
        return
    v = c.value(node.value)
    if isinstance(v, Bundle) and v.struct and isinstance(node.value, ast.Call):
        if len(node.targets) > 1:
            reject(f"{describe(v)} has one name", c.pos(node), "make one for each")
        _assign_struct(c, node.targets[0], v)
        return
    x = c.evaluated(v, node.value)
    if len(node.targets) > 1:
        if isinstance(x, ir.MakeLocal):
            reject("a local collection has one name", c.pos(node), "make one for each")
        x = c.bind(x)
        c.kept.add(x.name if isinstance(x, ir.Var) else "")
    for target in node.targets:
        if isinstance(target, ast.Tuple):
            reject("a tuple is unpacked on a line of its own", c.pos(target), "x, y = t")
        _assign(c, target, x)


def _unpack(c: Context, target: ast.Tuple, value: ast.expr) -> None:
    x = c.expr(value)
    n = len(target.elts)
    if len(parts_of(x.type)) != n:
        problem = f"{x.type} does not unpack into {n} names"
        reject(problem, c.pos(target), "a tuple or a vector of as many values does")
    fresh = not isinstance(x, ir.Var)
    x = x if isinstance(x, ir.Make) else c.bind(x)
    if isinstance(x.type, Tuple):
        parts = [field(x, i, c.pos(target)) for i in range(n)]
    else:
        parts = [part(x, i) for i in range(n)]
    if isinstance(x, ir.Make) or not fresh:  # an assignment may change the next one's value
        parts = [p if isinstance(p, ir.Const) else c.copy(cast(p, default(p.type))) for p in parts]
    for t, p in zip(target.elts, parts, strict=True):
        _assign(c, t, p)


def _assign(c: Context, target: ast.expr, x: ir.Expr) -> None:
    """``target = x`` for a name, a column place, an element or a field."""
    if isinstance(target, ast.Name):
        assign_name(c, ir_name(target.id), x, c.pos(target))
        return
    with c.collect() as later:
        at = _target(c, target)
    _store(c, at, c.evaluate_before(x, later), c.pos(target))


def _assign_struct(c: Context, target: ast.expr, x: Bundle) -> None:
    """``name = Heap()`` for a struct with local collections: each field becomes a local."""
    if not isinstance(target, ast.Name):
        hint = "assign it to a name; its fields are assigned one by one"
        reject(f"{describe(x)} holds local collections", c.pos(target), hint)
    name, pos = ir_name(target.id), c.pos(target)
    known = c.params.get(name) or c.locals.get(name) or c.structs.get(name, x)
    if not isinstance(known, Bundle) or known.struct != x.struct or name in c.params:
        kind = str(known) if isinstance(known, Type) else describe(known)
        reject(f"{user_name(name)!r} is {kind}", pos, "use another name")
    fields: list[tuple[str, ir.Expr]] = []
    for f, v in x.fields:  # an assignment may change the next one's value
        assert isinstance(v, ir.Expr)
        plain = isinstance(v, ir.Const | ir.MakeLocal)
        fields.append((f, v if plain else c.copy(v)))
    for f, v in fields:
        assign_name(c, field_name(name, f), v, pos)
    own = ((f, field_name(name, f)) for f, _ in fields)
    made = tuple((f, ir.Var(name=n, type=c.locals[n], pos=pos)) for f, n in own)
    c.structs[name] = replace(x, fields=made)
    c.path().assigned |= {name}


def _target(c: Context, node: ast.expr) -> ir.Expr:
    """The target of an assignment, as the expression that reads it."""
    v = c.value(node) if isinstance(node, ast.Attribute | ast.Subscript) else None
    if isinstance(v, ir.Load):
        return v
    if isinstance(v, ir.Item | ir.Field) and isinstance(v.x, ir.Var):
        if not isinstance(v.x.type, Rows | Tuple):
            return v
    if isinstance(v, ir.Expr) and _is_row(v):
        return v
    if isinstance(v, ir.Var) and isinstance(node, ast.Attribute):
        struct = c.value(node.value)
        if isinstance(struct, Bundle) and struct.struct:
            return v
    problem = f"cannot assign to {type(node).__name__.lower() if v is None else describe(v)}"
    hint = "assign to a local, an element or field of a local, or a column of a row"
    reject(problem, c.pos(node), hint)


def _store(c: Context, at: ir.Expr, x: ir.Expr, pos: Pos) -> None:
    """Assign to a target."""
    if isinstance(at, ir.Load):
        value = coerce(x, at.type, f"column {at.place.column!r}")
        c.record_write(pos)
        place = c.builder.writable(at.place, pos)
        c.out.append(ir.Write(place=place, value=value, pos=pos))
        return
    if _is_row(at):
        _copy_row(c, at, x, pos)
        return
    if isinstance(at, ir.Var):  # a field of a struct with local collections
        if at.name in c.params:
            problem = f"{user_name(at.name)!r} is a field of a parameter"
            hint = "return the value: functions change local collections of their caller only"
            reject(problem, pos, hint)
        assign_name(c, at.name, x, pos)
        return
    assert isinstance(at, ir.Item | ir.Field) and isinstance(at.x, ir.Var)
    name = at.x.name
    if name in c.params and not isinstance(at.x.type, Local):
        reject(f"{user_name(name)!r} is a parameter", pos, "copy it to a local first")
    if isinstance(at, ir.Field):
        value = coerce(x, at.type, "field")
        c.out.append(ir.SetField(name=name, index=at.index, value=value, pos=pos))
        return
    if name in c.claimed:
        refuse_claimed(name, pos)
    value = coerce(x, at.type, "element")
    c.out.append(ir.SetItem(name=name, index=at.index, value=value, pos=pos))


def _is_row(x: ir.Expr) -> bool:
    """Whether a target is ``table[i]``, or ``rows[i]`` for new rows."""
    new = isinstance(x, ir.Item) and isinstance(x.x.type, Rows)
    return new or (isinstance(x, ir.Cast) and isinstance(x.type, Handle))


def _copy_row(c: Context, to: ir.Expr, x: ir.Expr, pos: Pos) -> None:
    """``table[i] = row``: all columns of the row."""
    assert isinstance(to.type, Handle)
    if c.definition.kind == "program":
        reject("a program copies no rows", pos, "assign column by column, or in a kernel")
    stores, t = c.builder.stores, x.type
    if not isinstance(t, Handle) or not same_columns(stores[to.type.slot], stores[t.slot]):
        problem = f"a row of {to.type.slot} takes a row of the same columns, not {t}"
        reject(problem, pos, "assign column by column")
    row, values = c.bind(to), dict(columns_of(c, c.bind(x), pos))
    for name, at in columns_of(c, row, pos):
        _store(c, at, values[name], pos)


def assign_name(c: Context, name: str, x: ir.Expr, pos: Pos) -> None:
    """``name = x``."""
    param = c.params.get(name) or c.structs.get(name)
    if isinstance(param, ir.Expr | Static):
        kind = "static" if isinstance(param, ir.Const) else describe(param)
        problem = f"{user_name(name)!r} is {kind} and cannot be assigned"
        reject(problem, pos, "use another name")
    t = c.locals.get(name) or c.hints.get(name)
    if isinstance(x, ir.MakeShared) and t is not None:
        hint = "a shared array has one name"
        reject(f"{user_name(name)!r} is {t} elsewhere", x.pos, hint)
    if isinstance(t, Local) and not isinstance(x, ir.MakeLocal):
        hint = "pass it on, or copy its values in a loop"
        reject("a local collection cannot be assigned", x.pos, hint)
    if isinstance(x.type, Local) and not isinstance(x, ir.MakeLocal):
        reject("a local collection has one name", x.pos, "use the first one")
    if isinstance(t, Nothing) and isinstance(x.type, Handle):
        raise Retype(name, x.type)
    if isinstance(x.type, Nothing):
        c.nones.setdefault(name, pos)
    elif has_none(x.type):
        reject("None has no table here", x.pos, "assign the parts one by one")
    t = t or default(x.type)
    c.locals[name] = t
    value = coerce(x, t, f"{user_name(name)!r}")
    c.edges = {n: e for n, e in c.edges.items() if name not in (n, e.point)}
    last = c.out[-1] if c.out else None
    if isinstance(value, ir.Var) and isinstance(last, ir.Assign) and last.name == value.name:
        if value.name not in c.kept and TEMPORARY.fullmatch(value.name):
            c.out.pop()
            c.locals.pop(value.name)
            value = last.value
    c.out.append(ir.Assign(name=name, value=value, pos=pos))
    if c.flow is not None:
        c.flow.assigned |= {name}


def check_augassign(c: Context, node: ast.AugAssign) -> None:
    """``x += value``; the target is evaluated once, as in Python."""
    pos = c.pos(node)
    op = OPS.get(type(node.op))
    if op is None:
        reject("@= is outside the language", pos, "write the sum out")
    if isinstance(node.target, ast.Name):
        read = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node.target)
        x, y = c.exprs([read, node.value])
        assign_name(c, ir_name(node.target.id), binary(c, op, x, y, pos), pos)
        return
    at = _target(c, node.target)
    if isinstance(at, ir.Load):
        index = c.bind(at.place.index) if at.place.index else None
        at = replace(at, place=replace(at.place, row=c.bind(at.place.row), index=index))
    elif isinstance(at, ir.Item):
        at = replace(at, index=c.bind(at.index))
    with c.collect() as later:
        y = c.expr(node.value)
    _store(c, at, binary(c, op, c.evaluate_before(at, later), y, pos), pos)
