"""Calls of the functions that the language itself has, each by its name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NoReturn

from morph.compiler.frontend.arguments import arity, constant_int, make_local, no_keywords
from morph.compiler.frontend.atomics import OPERATIONS, check_atomic, check_prefetch
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.values import (
    ObjectValue,
    PythonValue,
    Slice,
    Value,
    cast,
    coerce,
    common,
    default,
    describe,
    operand,
)
from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.intrinsics import FLOAT_FUNCTIONS, scalar_of
from morph.language.types import (
    BOOL,
    F64,
    I32,
    I64,
    Handle,
    Local,
    Nothing,
    Rows,
    Scalar,
    Type,
    Vector,
    Weak,
)


def check_intrinsic(c: Context, node: ast.Call, name: str) -> Value:
    """``name(...)`` of a function that the language has."""
    if name not in (*KEYWORDS, *MISPLACED):
        no_keywords(c, node)
    return INTRINSICS.get(name, _check_pure)(c, node, name)


MISPLACED = {
    "single": (
        "single(...) stands alone as the condition of an `if`", "if single(x): ... else: ..."
    ),
    "range": ("range belongs in the head of a `for`", "for i in range(n):"),
    "enumerate": ("enumerate belongs in the head of a `for`", "for i in range(n):"),
    "barrier": ("barrier belongs in a @program", "the end of each foreach is one"),
}  # fmt: skip


def _refuse_place(c: Context, node: ast.Call, name: str) -> NoReturn:
    problem, hint = MISPLACED[name]
    reject(problem, c.pos(node), hint)


def _check_len(c: Context, node: ast.Call, name: str) -> ir.Expr:
    arity(c, node, name, 1)
    x, pos = c.value(node.args[0]), c.pos(node)
    if isinstance(x, ObjectValue) and x.type.kind in ("table", "collection"):
        return ir.StoreSize(slot=x.type.slot, type=I64, pos=pos)
    if isinstance(x, ir.Expr) and isinstance(x.type, Local | Rows):
        return ir.LocalSize(x=x, type=I64, pos=pos)
    if isinstance(x, ir.Expr) and isinstance(x.type, Vector):
        return ir.Const(value=x.type.size, type=Weak("i"), pos=pos)
    reject(f"{describe(x)} has no length", pos, "p.out_degree is a number of neighbours")


def _check_hasattr(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``hasattr(row, "column")``: known while compiling."""
    arity(c, node, name, 2)
    x, column, pos = c.expr(node.args[0]), node.args[1], c.pos(node)
    if not isinstance(x.type, Handle):
        reject(f"{x.type} has no columns", pos, "hasattr asks a row")
    if not (isinstance(column, ast.Constant) and isinstance(column.value, str)):
        reject("hasattr takes the name of a column", pos, 'hasattr(p, "weight")')
    exists = c.builder.stores[x.type.slot].column(column.value) is not None
    return ir.Const(value=exists, type=BOOL, pos=pos)


def _check_reversed(c: Context, node: ast.Call, name: str) -> Value:
    arity(c, node, name, 1)
    x, pos = c.value(node.args[0]), c.pos(node)
    if isinstance(x, Slice):
        reject("reversed goes inside", pos, "reversed(x)[start:] leaves out the last ones")
    return Slice(pos, x, None, True)


def _check_local(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``local(dtype, capacity)``."""
    arity(c, node, name, 2)
    t = c.value(node.args[0])
    elem = scalar_of(t.value) if isinstance(t, PythonValue) else None
    if elem is None:
        hint = "rows: g.points.local(capacity)"
        reject("local takes a dtype and a capacity", c.pos(node), hint)
    return make_local(c, node, elem)


def _check_vector(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``vector(dtype, n)`` of zeros, or ``vector(x, y, ...)``."""
    pos = c.pos(node)
    if len(node.args) == 2 and _is_dotted(node.args[0]):  # else evaluated twice
        dtype = c.value(node.args[0])
        if isinstance(dtype, PythonValue) and (scalar := scalar_of(dtype.value)) is not None:
            zero = ir.Const(value=0, type=scalar, pos=pos)
            n = constant_int(c, node.args[1], "vector size")
            return ir.Make(parts=(zero,) * n, type=Vector(scalar, n), pos=pos)
    args = c.exprs(node.args)
    if not args:
        reject("vector takes at least one value", pos, "vector(x, y), or vector(dtype, n)")
    # literals last, so that they give way to all others
    first, *others = sorted(args, key=lambda a: isinstance(a.type, Weak | Nothing))
    t: Type = first.type
    parts: tuple[ir.Expr, ...]
    if isinstance(t, Handle | Nothing) or all(a.type == BOOL for a in args):
        parts = tuple(coerce(a, t, "value") for a in args)
    else:
        for a in others or [first]:
            t = common(ir.Const(value=0, type=t, pos=first.pos), a, pos)
        assert isinstance(t, Scalar)
        parts = tuple(operand(a, t) for a in args)
    return ir.Make(parts=parts, type=Vector(t, len(parts)), pos=pos)


def _is_dotted(node: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one, as in ``np.float32``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _check_predicate(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``orient2d(a, b, c)``, ``incircle(a, b, c, d)``."""
    args = c.exprs(node.args)
    arity(c, node, name, 3 if name == "orient2d" else 4)
    points = tuple(coerce(a, Vector(F64, 2), f"argument of {name}") for a in args)
    return ir.Builtin(name=name, args=points, type=I32, pos=c.pos(node))


def _check_extremum(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``min(x, y, ...)``, ``max(x, y, ...)``."""
    args, pos = c.exprs(node.args), c.pos(node)
    if len(args) < 2:
        reject(f"{name} takes two or more numbers", pos, "over a column: reduce(column, op)")
    result = args[0]
    for y in args[1:]:
        t = common(result, y, pos)
        pair = (operand(result, t), operand(y, t))
        result = c.bounded(ir.Builtin(name=name, args=pair, type=t, pos=pos))
    return result


def _check_pure(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """A function of one number."""
    args, pos = c.exprs(node.args), c.pos(node)
    if len(args) != 1:
        reject(f"{name} takes 1 argument, not {len(args)}", pos, f"{name}(x)")
    x = args[0]
    if isinstance(x.type, Weak):
        x = cast(x, default(x.type))
    t = x.type
    if not isinstance(t, Scalar) or t == BOOL:
        reject(f"{name} does not apply to {x.type}", pos, "it takes a number")
    if name in FLOAT_FUNCTIONS and t.kind != "f":
        x = cast(x, F64)
    if name == "popcount" and t.kind not in ("i", "u"):
        reject(f"popcount applies to integers, not to {x.type}", pos, "cast it first")
    if name == "exponent" and t.kind != "f":
        reject(f"exponent applies to floats, not to {x.type}", pos, "cast it first")
    result = I32 if name in ("popcount", "exponent") else x.type
    return ir.Builtin(name=name, args=(x,), type=result, pos=pos)


KEYWORDS = tuple(f"atomic_{op}" for op in OPERATIONS)  # those that take keyword arguments
INTRINSICS: Mapping[str, Callable[[Context, ast.Call, str], Value]] = {
    **dict.fromkeys(MISPLACED, _refuse_place),
    **dict.fromkeys(KEYWORDS, check_atomic),
    "prefetch": check_prefetch,
    "len": _check_len,
    "hasattr": _check_hasattr,
    "reversed": _check_reversed,
    "local": _check_local,
    "vector": _check_vector,
    "orient2d": _check_predicate,
    "incircle": _check_predicate,
    "min": _check_extremum,
    "max": _check_extremum,
}
