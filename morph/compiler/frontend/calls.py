"""Calls: casts, structs, functions of the user; `methods` and `intrinsics` have the others."""

from __future__ import annotations

import ast
from typing import Any

from morph.compiler.frontend.arguments import arity, field_type, no_keywords
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.intrinsics import check_intrinsic
from morph.compiler.frontend.methods import check_method
from morph.compiler.frontend.values import (
    Bundle,
    Method,
    PythonValue,
    Value,
    cast,
    coerce,
    describe,
)
from morph.compiler.ir import nodes as ir
from morph.language.bundles import is_bundle
from morph.language.definition import definition_of
from morph.language.errors import reject
from morph.language.intrinsics import KERNEL_ONLY, StructType, name_of, scalar_of
from morph.language.types import I32, Handle, Local, Scalar, Struct, Weak


def check_call(c: Context, node: ast.Call) -> Value:
    """``f(...)``."""
    f, pos = c.value(node.func), c.pos(node)
    if isinstance(f, Method):
        return check_method(c, node, f)
    if not isinstance(f, PythonValue):
        reject(f"{describe(f)} cannot be called", pos, "call a @func, a builtin or a method")
    definition = definition_of(f.value)
    if definition is not None:
        no_keywords(c, node)
        if definition.kind == c.definition.kind == "program":
            hint = "x = f(...), f(...) or return f(...)"
            reject(f"the program {definition.name!r} is called within an expression", pos, hint)
        if definition.kind != "func":
            reject(
                f"{definition.name!r} is a @{definition.kind} and cannot be called here",
                pos,
                "kernels are run by foreach; a function called from a kernel is a @func",
            )
        return c.rules.call(c, definition, c.arguments(node.args), pos)
    if isinstance(f.value, StructType):
        return _struct(c, node, f.value)
    if isinstance(f.value, type) and is_bundle(f.value):
        return _bundle(c, node, f.value)
    scalar = scalar_of(f.value)
    if scalar is not None:
        return _cast(c, node, scalar)
    name = name_of(f.value)
    if name is None:
        reject(
            f"{describe(f)} cannot be called in the language",
            pos,
            "decorate your own functions with @func; see the reference for the builtins",
        )
    if c.definition.kind == "program" and name in KERNEL_ONLY:
        reject(f"{name} is not for programs", pos, "call it in a kernel")
    return check_intrinsic(c, node, name)


def _bundle(c: Context, node: ast.Call, kind: Any) -> Bundle:
    """``Side(rows, entries)``, for an argument."""
    no_keywords(c, node)
    arity(c, node, kind.__name__, len(kind._fields))
    values = c.arguments(node.args)
    return Bundle(c.pos(node), tuple(zip(kind._fields, values, strict=True)))


def callee(c: Context, node: ast.expr) -> Any:
    """The Python object that an expression calls by its name, as in ``f(x)`` or ``module.f(x)``."""
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name()) as f):
            v = c.value(f)
            return v.value if isinstance(v, PythonValue) else None
    return None


def is_call(c: Context, node: ast.expr, name: str) -> bool:
    """Whether an expression calls an intrinsic, under any name."""
    return name_of(callee(c, node)) == name


def _cast(c: Context, node: ast.Call, scalar: Scalar) -> ir.Expr:
    """``i32(x)``."""
    no_keywords(c, node)
    arity(c, node, scalar.name, 1)
    x = c.expr(node.args[0])
    if isinstance(x.type, Handle):
        x = cast(x, I32)
    if not isinstance(x.type, Scalar | Weak):
        reject(f"{x.type} cannot be cast to {scalar}", x.pos, "cast its parts")
    return cast(x, scalar)


def _struct(c: Context, node: ast.Call, struct: StructType) -> Value:
    """``Box(1.0, high=2.0)``; fields that are local collections are empty, and no arguments."""
    pos = c.pos(node)
    types = {name: field_type(c, struct, name, pos) for name in struct.annotations}
    names = [name for name, t in types.items() if not isinstance(t, Local)]
    given = dict(zip(names, node.args, strict=False)) | {k.arg: k.value for k in node.keywords}
    if set(given) != set(names) or len(node.args) + len(node.keywords) != len(names):
        taken = ", ".join(names) or "no values"
        reject(f"{struct.name} takes {taken}", pos, "in order, or by name")
    values = dict(zip(given, c.exprs(list(given.values())), strict=True))
    fields: list[tuple[str, ir.Expr]] = []
    for name, t in types.items():
        if isinstance(t, Local):
            fields.append((name, ir.MakeLocal(type=t, pos=pos)))
            continue
        x = values[name]
        if t is not None:
            x = coerce(x, t, f"{struct.name}.{name}")
        elif not isinstance(x.type, Handle):
            problem = f"{struct.name}.{name} is a row, but the value is {x.type}"
            reject(problem, x.pos, "g.points[i] is row i")
        fields.append((name, x))
    if len(names) < len(types):
        return Bundle(pos, tuple(fields), struct.name)
    made = Struct(struct.name, tuple((name, x.type) for name, x in fields))
    return ir.Make(parts=tuple(x for _, x in fields), type=made, pos=pos)
