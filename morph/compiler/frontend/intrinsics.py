"""Calls of intrinsics, by name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NoReturn

from morph.compiler.frontend.arguments import (
    arity,
    constant_int,
    element_type,
    make_local,
    no_keywords,
)
from morph.compiler.frontend.atomics import OPERATIONS, check_atomic, check_prefetch
from morph.compiler.frontend.context import Context
from morph.compiler.frontend.operators import binary
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
from morph.language.intrinsics import FUNCTIONS, RANDOM, scalar_of
from morph.language.types import (
    BOOL,
    F64,
    I32,
    I64,
    NOTHING,
    U32,
    U64,
    Handle,
    Local,
    Nothing,
    Rows,
    Scalar,
    Shared,
    Tuple,
    Type,
    Vector,
    Weak,
)


def check_intrinsic(c: Context, node: ast.Call, name: str) -> Value:
    """``name(...)`` for an intrinsic."""
    if name not in (*KEYWORDS, *MISPLACED):
        no_keywords(c, node)
    return INTRINSICS.get(name, _check_pure)(c, node, name)


MISPLACED = {
    "single": (
        "single(...) stands alone as the condition of an `if`", "if single(x): ... else: ..."
    ),
    "range": ("range belongs in the head of a `for`", "for i in range(n):"),
    "bit_positions": (
        "bit_positions belongs in the head of a `for`", "for i in bit_positions(x):"
    ),
    "enumerate": ("enumerate belongs in the head of a `for`", "for i in range(n):"),
    "barrier": (
        "barrier() stands in a @program, or at the top level of a kernel",
        "all items have to reach it",
    ),
}  # fmt: skip


def _refuse_place(c: Context, node: ast.Call, name: str) -> NoReturn:
    problem, hint = MISPLACED[name]
    reject(problem, c.pos(node), hint)


def _check_barrier(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``barrier()``: the end of a part of a kernel."""
    arity(c, node, name, 0)
    if not any(node is x for x in c.definition.barriers):
        _refuse_place(c, node, name)
    c.out.append(ir.Barrier(pos=c.pos(node)))
    return ir.Const(value=-1, type=NOTHING, pos=c.pos(node))


def _check_len(c: Context, node: ast.Call, name: str) -> ir.Expr:
    arity(c, node, name, 1)
    x, pos = c.value(node.args[0]), c.pos(node)
    if isinstance(x, ObjectValue) and x.type.kind in (
        "table", "collection", "array", "column"
    ):  # fmt: skip
        return ir.StoreSize(slot=x.type.slot, type=I64, pos=pos)
    if isinstance(x, ir.Expr) and isinstance(x.type, Local | Rows):
        return ir.LocalSize(x=x, type=I64, pos=pos)
    if isinstance(x, ir.Expr) and isinstance(x.type, Vector):
        return ir.Const(value=x.type.size, type=Weak("i"), pos=pos)
    reject(f"{describe(x)} has no length", pos, "p.out_degree is a number of neighbours")


def _check_hasattr(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``hasattr(row, "column")``: a compile-time constant."""
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
    """``local(dtype, capacity)``, ``local((dtype, n), capacity)``, ``local(struct, capacity)``."""
    arity(c, node, name, 2)
    given, pos, size = node.args[0], c.pos(node), 0
    if isinstance(given, ast.Tuple) and len(given.elts) == 2:
        size = constant_int(c, given.elts[1], "vector size")
        given = given.elts[0]
    t = c.value(given)
    elem = element_type(c, t.value if isinstance(t, PythonValue) else None, size, pos)
    if elem is None:
        hint = "rows: g.points.local(capacity)"
        reject("local takes a dtype and a capacity", pos, hint)
    return make_local(c, node, elem)


SHARED_BYTES = 32768  # limit for an item, as a GPU's block has 48 KB, also for other buffers


def _check_shared(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``shared(dtype, n)``."""
    arity(c, node, name, 2)
    pos, tree, given = c.pos(node), c.source.tree, c.value(node.args[0])
    elem = scalar_of(given.value) if isinstance(given, PythonValue) else None
    if elem is None or elem.kind not in "iu" or elem.bits < 32:
        reject("shared takes i32, u32, i64 or u64, and a size", pos, "shared(u32, 1024)")
    alone = [s for s in getattr(tree, "body", []) if getattr(s, "value", None) is node]
    if c.definition.kind != "kernel" or not alone or len(getattr(alone[0], "targets", ())) != 1:
        hint = "name = shared(u32, 1024), outside of branches and loops"
        reject("a shared array is made at the top level of a kernel", pos, hint)
    t = Shared(elem, constant_int(c, node.args[1], "size"))
    total = t.bytes + sum(x.bytes for x in c.locals.values() if isinstance(x, Shared))
    if total > SHARED_BYTES:
        problem = f"the shared arrays of an item take {total} bytes, more than {SHARED_BYTES}"
        reject(problem, pos, "give several items a part of the work each")
    return ir.MakeShared(type=t, pos=pos)


def _check_vector(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``vector(dtype, n)`` of zeros, or ``vector(x, y, ...)``."""
    pos = c.pos(node)
    if len(node.args) == 2 and _is_dotted(node.args[0]):  # evaluated twice
        dtype = c.value(node.args[0])
        if isinstance(dtype, PythonValue) and (scalar := scalar_of(dtype.value)) is not None:
            zero = ir.Const(value=0, type=scalar, pos=pos)
            n = constant_int(c, node.args[1], "vector size")
            return ir.Make(parts=(zero,) * n, type=Vector(scalar, n), pos=pos)
    args = c.exprs(node.args)
    if not args:
        reject("vector takes at least one value", pos, "vector(x, y), or vector(dtype, n)")
    # literals last, so that the other arguments decide the type
    first, *others = sorted(args, key=lambda a: isinstance(a.type, Weak | Nothing))
    t: Type = first.type
    parts: tuple[ir.Expr, ...]
    if isinstance(t, Handle | Nothing) or all(a.type == BOOL for a in args):
        parts = tuple(coerce(a, t, "value") for a in args)
    else:
        for a in others or [first]:
            t = common(ir.Const(value=0, type=t, pos=first.pos), a)
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
        t = common(result, y)
        pair = (operand(result, t), operand(y, t))
        result = c.bounded(ir.Builtin(name=name, args=pair, type=t, pos=pos))
    return result


def _check_pure(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """A function of one or two numbers, by its signature."""
    args, pos, signature = c.exprs(node.args), c.pos(node), FUNCTIONS[name]
    if len(args) != (n := signature.arguments):
        problem = f"{name} takes {n} argument{'s' * (n > 1)}, not {len(args)}"
        reject(problem, pos, f"{name}({', '.join('xy'[:n])})")
    t: Type = default(args[0].type) if n == 1 else common(args[0], args[1])
    if not isinstance(t, Scalar) or t == BOOL:
        reject(f"{name} does not apply to {args[0].type}", pos, "it takes a number")
    if t.kind not in signature.kinds and not signature.converts:
        kinds = "integers" if signature.kinds == "iu" else "floats"
        reject(f"{name} applies to {kinds}, not to {t}", pos, "cast it first")
    to = t if t.kind in signature.kinds else F64
    args = [cast(operand(x, t), to) for x in args]
    return ir.Builtin(name=name, args=tuple(args), type=signature.result or to, pos=pos)


def _check_divmod(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """``divmod(x, y)``."""
    args, pos = c.exprs(node.args), c.pos(node)
    arity(c, node, name, 2)
    x, y = (c.bind(a) for a in args)
    parts = tuple(binary(c, op, x, y, pos) for op in ("//", "%"))
    return ir.Make(parts=parts, type=Tuple(tuple(p.type for p in parts)), pos=pos)


def _check_random(c: Context, node: ast.Call, name: str) -> ir.Expr:
    """The words of Philox, or a number made of the highest bits of the first two words."""
    args, pos = c.exprs(node.args), c.pos(node)
    arity(c, node, name, 2, 3)
    for x in args:
        if not isinstance(x.type, Scalar | Weak) or x.type.kind not in "iu":
            reject(f"{name} takes integers, not {x.type}", x.pos, "cast it: i64(...)")
    if len(args) == 2:
        args = [*args, ir.Const(value=0, type=U64, pos=pos)]
    given = tuple(cast(x, U64) for x in args)
    if name == "philox":
        return ir.Builtin(name=name, args=given, type=Vector(U32, 4), pos=pos)
    number: ir.Expr = ir.Builtin(name="random", args=given, type=U64, pos=pos)
    kind, bits = RANDOM[name]
    if bits < 64:
        spare = ir.Const(value=64 - bits, type=U64, pos=pos)
        number = cast(binary(c, ">>", number, spare, pos), kind)
    scale = ir.Const(value=2.0**-bits, type=kind, pos=pos)
    return binary(c, "*", number, scale, pos) if kind.kind == "f" else number


KEYWORDS = tuple(f"atomic_{op}" for op in OPERATIONS)  # those that take keyword arguments
INTRINSICS: Mapping[str, Callable[[Context, ast.Call, str], Value]] = {
    **dict.fromkeys(MISPLACED, _refuse_place),
    "barrier": _check_barrier,
    **dict.fromkeys(KEYWORDS, check_atomic),
    "prefetch": check_prefetch,
    "len": _check_len,
    "hasattr": _check_hasattr,
    "reversed": _check_reversed,
    "local": _check_local,
    "shared": _check_shared,
    "vector": _check_vector,
    "orient2d": _check_predicate,
    "incircle": _check_predicate,
    "min": _check_extremum,
    "max": _check_extremum,
    "divmod": _check_divmod,
    "philox": _check_random,
    **dict.fromkeys(RANDOM, _check_random),
}
