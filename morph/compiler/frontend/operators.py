"""Operators on values: arithmetic, powers, comparisons; element by element on vectors."""

from __future__ import annotations

import ast

from morph.compiler.frontend.context import Context
from morph.compiler.frontend.values import coerce, common, constant, operand, to_common_type
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.intrinsics import BINARY, COMPARE, UNARY
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    F64,
    I64,
    Handle,
    Local,
    Nothing,
    Scalar,
    Struct,
    Tuple,
    Vector,
    Weak,
)

OPS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Pow: "**", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.UAdd: "+",
}  # fmt: skip


def unary(c: Context, op: str, x: ir.Expr, pos: Pos) -> ir.Expr:
    """``+ - ~`` of a value."""
    t = x.type
    if isinstance(t, Vector):
        return _of_vectors(c, op, [x], pos)
    if isinstance(t, Weak) and isinstance(x, ir.Const) and (op != "~" or t.kind == "i"):
        return ir.Const(value=UNARY[op](x.value), type=t, pos=pos)
    if not isinstance(t, Scalar) or t == BOOL or (op == "~" and t.kind == "f"):
        reject(f"{op} does not apply to {t}", pos, "`not` negates a bool_")
    return x if op == "+" else ir.Unary(op=op, x=x, type=t, pos=pos)


def binary(c: Context, op: str, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
    """An arithmetic or bit operator on two values."""
    if isinstance(x.type, Vector) or isinstance(y.type, Vector):
        return _of_vectors(c, op, [x, y], pos)
    if isinstance(x, ir.Const) and isinstance(y, ir.Const):
        if isinstance(x.type, Weak) and isinstance(y.type, Weak):
            return _fold(op, x, y, pos)
    if op == "**":
        return _power(c, x, y, pos)
    t = common(x, y)
    if op in ("&", "|", "^") and t == BOOL:
        return ir.Binary(op=op, x=x, y=y, type=t, pos=pos)
    if t.kind == "b":
        reject(f"{op} does not apply to bool_", pos, "cast first, as in i32(b)")
    if op == "/" and t.kind != "f":
        t = F64
    if op in ("&", "|", "^", "<<", ">>") and t.kind == "f":
        reject(f"{op} applies to integers, not to {t}", pos, "cast first, as in i64(x)")
    return ir.Binary(op=op, x=operand(x, t), y=operand(y, t), type=t, pos=pos)


def _fold(op: str, x: ir.Const, y: ir.Const, pos: Pos) -> ir.Expr:
    try:
        value = BINARY[op](x.value, y.value)
    except (ArithmeticError, ValueError, TypeError) as error:
        division = isinstance(error, ZeroDivisionError)  # its text differs from Python to Python
        cause = "division by zero" if division else error
        reject(f"this constant has no value: {cause}", pos, "constants are computed at once")
    folded = constant(value, pos)
    assert folded is not None
    return folded


def _power(c: Context, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
    for v in (x, y):
        if not isinstance(v.type, Scalar | Weak):
            reject(f"** applies to numbers, not to {v.type}", pos, "of a vector, take its parts")
    if not (isinstance(y, ir.Const) and isinstance(y.value, int) and 1 <= y.value <= 8):
        t = common(x, y)
        if t == BOOL:
            reject("** does not apply to bool_", pos, "cast first, as in i32(b)")
        return ir.Builtin(name="pow", args=(operand(x, t), operand(y, t)), type=t, pos=pos)
    base = c.bind(x)
    result = base
    for _ in range(y.value - 1):
        result = binary(c, "*", result, base, pos)
    return result


def _of_vectors(c: Context, op: str, args: list[ir.Expr], pos: Pos) -> ir.Expr:
    sizes = {a.type.size for a in args if isinstance(a.type, Vector)}
    if len(sizes) != 1:
        problem = f"vectors of {' and '.join(map(str, sorted(sizes)))} values do not match"
        reject(problem, pos, "one of them may be a number")
    bound = [a if isinstance(a, ir.Make) else c.bind(a) for a in args]
    parts: list[ir.Expr] = []
    for i in range(sizes.pop()):
        x, *others = [part(a, i) if isinstance(a.type, Vector) else a for a in bound]
        parts.append(binary(c, op, x, others[0], pos) if others else unary(c, op, x, pos))
    return ir.Make(parts=tuple(parts), type=Vector(parts[0].type, len(parts)), pos=pos)


def part(x: ir.Expr, i: int) -> ir.Expr:
    """Element ``i`` of a vector that may be evaluated repeatedly."""
    assert isinstance(x.type, Vector)
    if isinstance(x, ir.Make):
        return x.parts[i]
    index = ir.Const(value=i, type=I64, pos=x.pos)
    return ir.Item(x=x, index=index, type=x.type.elem, pos=x.pos)


def comparison(op: str, x: ir.Expr, y: ir.Expr, pos: Pos) -> ir.Expr:
    """``x op y`` as a bool."""
    if op in ("in", "not in"):
        if not isinstance(y.type, Local | Vector):
            problem = f"`in` looks into local collections and vectors, not {y.type}"
            reject(problem, pos, "of others, mark the rows in a column")
        if isinstance(y.type.elem, Vector | Struct):
            reject(f"{y.type.elem} cannot be compared", pos, "compare its parts")
        value = coerce(x, y.type.elem, "element")
        inside = ir.Contains(x=y, value=value, type=BOOL, pos=pos)
        return inside if op == "in" else ir.Unary(op="not", x=inside, type=BOOL, pos=pos)
    if op in ("is", "is not"):
        if not isinstance(y.type, Nothing) and not isinstance(x.type, Nothing):
            reject("`is` compares with None only", pos, "write ==")
        op = "==" if op == "is" else "!="
    if isinstance(x.type, Nothing) and isinstance(y.type, Nothing):
        return ir.Const(value=op == "==", type=BOOL, pos=pos)
    x, y = to_common_type(x, y, pos)
    if isinstance(x.type, Vector | Struct | Tuple | Local):
        reject(f"{x.type} cannot be compared", pos, "compare its parts")
    if isinstance(x.type, Handle) and op not in ("==", "!="):
        reject("rows have no order", pos, "compare x.id")
    if isinstance(x, ir.Const) and isinstance(y, ir.Const):
        return ir.Const(value=COMPARE[op](x.value, y.value), type=BOOL, pos=pos)
    return ir.Compare(op=op, x=x, y=y, type=BOOL, pos=pos)
