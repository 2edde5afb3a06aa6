"""Names, constants, tuples and operators; captured and global names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np

from morph.compiler.frontend.branches import condition
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.operators import OPS, binary, unary
from morph.compiler.frontend.values import (
    Bundle,
    ObjectValue,
    PythonValue,
    Value,
    cast,
    constant,
    default,
)
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.spelling import ir_name, user_name
from morph.language.bundles import field_name, is_bundle
from morph.language.errors import reject
from morph.language.intrinsics import from_dtype, name_of
from morph.language.position import Pos
from morph.language.types import BOOL, Local, Scalar, Tuple, Type


def check_constant(c: Context, node: ast.Constant) -> Value:
    """A number, ``True``, ``False`` or ``None``."""
    x = constant(node.value, c.pos(node))
    if x is None:
        problem = f"a constant of type {type(node.value).__name__} is outside the language"
        reject(problem, c.pos(node), "numbers, True, False and None are inside")
    return x


def check_name(c: Context, node: ast.Name) -> Value:
    """A parameter, a local, or a captured or global name."""
    name, pos, source = ir_name(node.id), c.pos(node), c.source
    if name in c.params:
        p = c.params[name]
        if isinstance(p, Type):
            return ir.Var(name=name, type=c.locals.get(name, p), pos=pos)
        return p
    if name in c.locals or name in c.structs:
        if c.flow is not None and name not in c.flow.assigned:
            problem = f"{user_name(name)!r} may have no value here"
            reject(problem, pos, "give it a value on every path")
        if name in c.structs:
            return replace(c.structs[name], pos=pos)
        return ir.Var(name=name, type=c.locals[name], pos=pos)
    if node.id in c.stored:
        reject(f"{user_name(name)!r} has no value yet", pos, "assign it before this line")
    known, obj = source.lookup(node.id)
    if not known:
        reject(f"{node.id!r} is not declared", pos, "it is no parameter, local or global")
    closed = node.id in source.function.__code__.co_freevars
    key = None if closed else (id(source.function.__globals__), node.id)
    return captured(c, obj, lambda: source.lookup(node.id)[1], node.id, pos, closed, key)


def captured(
    c: Context, obj: Any, current: Callable[[], Any], name: str, pos: Pos, closed: bool = False,
    key: Any = None,
) -> Value:  # fmt: skip
    """The value of a captured or global name; ``current`` looks up its current value."""
    builder = c.builder
    if isinstance(obj, np.ndarray):
        _check_array(obj, name, pos)
    if is_bundle(type(obj)):
        return _bundle(c, obj, current, name, pos, closed)
    t = builder.capture(obj, ir_name(name))
    if t is not None:
        builder.dependencies.add(current, obj, key)
        return ObjectValue(pos, t)
    if closed and not builder.inline and c.definition.kind in ("kernel", "where"):
        if isinstance(obj, bool | int | float | np.generic):
            return _closure(c, name, obj, current, pos)
    if name_of(obj) is None and not isinstance(obj, ModuleType):
        home = c.source.function.__globals__
        builder.dependencies.add(current, obj, key, home, closed and "." not in name)
    x = constant(obj, pos)
    return x if x is not None else PythonValue(pos, obj)


def _bundle(
    c: Context, obj: Any, current: Callable[[], Any], name: str, pos: Pos, closed: bool
) -> Bundle:
    """A captured or global named tuple."""

    def field(f: str) -> Value:
        return captured(
            c, getattr(obj, f), lambda: getattr(current(), f), f"{name}.{f}", pos, closed
        )  # fmt: skip

    return Bundle(pos, tuple((f, field(f)) for f in obj._fields))


def _check_array(array: np.ndarray[Any, Any], name: str, pos: Pos) -> None:
    """Refuse an array that kernels cannot read, or that may change, as they read a copy."""
    array_name = f"the NumPy array {name!r}"
    if from_dtype(array.dtype) is None:
        reject(f"{array_name} is of {array.dtype}", pos, "the reference lists the data types")
    if array.ndim not in (1, 2):
        hint = "1, or 2 for vectors, whose size is the second"
        reject(f"{array_name} has {array.ndim} dimensions", pos, hint)
    if 0 in array.shape[1:]:
        reject(f"{array_name} has the shape {array.shape}", pos, "a vector has at least 1 value")
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            problem = f"{array_name} can change, and a kernel keeps a copy of it"
            reject(
                problem, pos, f"{name}.flags.writeable = False, also of an array it is a view of"
            )
        base = base.base


def _closure(c: Context, name: str, obj: Any, current: Callable[[], Any], pos: Pos) -> ir.Expr:
    """A number of an enclosing function: an additional parameter, read at each launch."""
    x = constant(obj, pos)
    t = default(x.type) if x is not None else None
    if not isinstance(t, Scalar):
        reject(f"{name!r} is a {type(obj).__name__}", pos, "the reference lists the data types")
    key = f"{reduce(field_name, ir_name(name).split('.'))}_of_{c.definition.kind}_"
    c.builder.closures[key] = (t, name)
    c.builder.dependencies.add(lambda: type(current()), type(obj), closed=True)
    c.extra[key] = t
    return ir.Var(name=key, type=t, pos=pos)


def check_unaryop(c: Context, node: ast.UnaryOp) -> Value:
    """``-x``, ``+x``, ``~x``, ``not x``."""
    op, pos = OPS[type(node.op)], c.pos(node)
    if op != "not":
        return unary(c, op, c.expr(node.operand), pos)
    x = condition(c, node.operand)
    if isinstance(x, ir.Const):
        return ir.Const(value=not x.value, type=BOOL, pos=pos)
    return ir.Unary(op=op, x=x, type=BOOL, pos=pos)


def check_binop(c: Context, node: ast.BinOp) -> Value:
    """Arithmetic and bit operators."""
    if type(node.op) not in OPS:
        reject("@ is outside the language", c.pos(node), "write the sum out")
    x, y = c.exprs([node.left, node.right])
    return binary(c, OPS[type(node.op)], x, y, c.pos(node))


def check_tuple(c: Context, node: ast.Tuple) -> Value:
    """``x, y``."""
    parts = [cast(x, default(x.type)) for x in c.exprs(node.elts)]
    for p in parts:
        if isinstance(p.type, Local):
            reject("a local collection cannot be part of a tuple", p.pos, "use it by its name")
    t = Tuple(tuple(p.type for p in parts))
    return ir.Make(parts=tuple(parts), type=t, pos=c.pos(node))
