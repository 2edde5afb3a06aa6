"""Values of expressions during the check, and the promotion and coercion of types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.language.errors import reject
from morph.language.intrinsics import from_dtype, to_dtype
from morph.language.position import Pos
from morph.language.types import (
    BOOL,
    F64,
    I64,
    NOTHING,
    Handle,
    Nothing,
    Object,
    Scalar,
    Tuple,
    Type,
    Vector,
    Weak,
)


@dataclass(frozen=True, slots=True)
class Static:
    """A compile-time entity that is no value: an object, a function, a module."""

    pos: Pos


@dataclass(frozen=True, slots=True)
class ObjectValue(Static):
    """A graph, table, collection, set or flag."""

    type: Object


@dataclass(frozen=True, slots=True)
class PythonValue(Static):
    """A captured Python object: a function of the language, a builtin, a dtype, a module."""

    value: Any


@dataclass(frozen=True, slots=True)
class Bundle(Static):
    """A named tuple as a parameter: each of its fields is a parameter.

    Also a ``struct`` with local collections; if it is a local, its fields are locals.
    """

    fields: tuple[tuple[str, Value], ...]
    struct: str = ""


@dataclass(frozen=True, slots=True)
class Method(Static):
    """``receiver.name`` before it is called."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Iterator(Static):
    """``p.outnbrs`` and similar, before a loop iterates over it."""

    graph: str
    point: ir.Expr
    direction: str
    bind: str  # "point" or "edge"
    skip: ir.Expr | None = None
    start: ir.Expr | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Slice(Static):
    """``x[start:]`` or ``reversed(x)`` of an iterable."""

    x: Value
    start: ir.Expr | None
    reverse: bool


@dataclass(frozen=True, slots=True)
class Chain(Static):
    """Concatenated iterators: the edges at both ends of an edge."""

    first: Iterator
    second: Iterator


Value = ir.Expr | Static


def flattened(values: Iterable[Value]) -> list[Value]:
    """Values, with each bundle replaced by its fields."""
    found: list[Value] = []
    for v in values:
        found += flattened(x for _, x in v.fields) if isinstance(v, Bundle) else [v]
    return found


def describe(v: Value) -> str:
    """Name a value for a message."""
    match v:
        case ir.Expr():
            return str(v.type)
        case ObjectValue(type=t):
            return str(t)
        case PythonValue(value=ModuleType() as x):
            return f"module {x.__name__!r}"
        case Bundle(struct=name) if name:
            return f"struct {name}"
        case Bundle() | PythonValue(value=tuple()):
            return "a named tuple"
        case PythonValue(value=x):
            return f"{type(x).__name__} {getattr(x, '__name__', x)!r}"
        case Method(name=n):
            return f"method {n!r}"
        case _:
            return "an iterator"


def default(t: Type) -> Type:
    """The default type of a literal."""
    if isinstance(t, Weak):
        return I64 if t.kind == "i" else F64
    return t


def cast(x: ir.Expr, to: Type) -> ir.Expr:
    """Convert to any type; literals become constants of the type."""
    if x.type == to:
        return x
    if isinstance(x, ir.Const) and isinstance(to, Scalar):
        try:
            given = int(x.value) if to.kind in "iu" else x.value
            with np.errstate(over="ignore"):
                value = to_dtype(to).type(given).item()
        except (OverflowError, ValueError):
            _outside(x, to)
        return ir.Const(value=value, type=to, pos=x.pos)
    if isinstance(x, ir.Const) and isinstance(to, Handle):
        return ir.Const(value=-1, type=to, pos=x.pos)
    return ir.Cast(x=x, type=to, pos=x.pos)


def coerce(x: ir.Expr, to: Type, role: str) -> ir.Expr:
    """Convert if the value is preserved; otherwise reject, and suggest a cast."""
    t = x.type
    if t == to:
        return x
    if isinstance(to, Scalar) and isinstance(t, Weak):
        return _literal(x, to, role)
    if isinstance(to, Handle) and isinstance(t, Nothing):
        return ir.Const(value=-1, type=to, pos=x.pos)
    if isinstance(to, Scalar) and isinstance(t, Scalar):
        if np.can_cast(to_dtype(t), to_dtype(to), "safe"):
            return cast(x, to)
        reject(
            f"{role} is {to}, but the value is {t}",
            x.pos,
            f"nothing is narrowed silently: write {to}(...)",
        )
    if isinstance(x, ir.Make) and len(types := parts_of(to)) == len(x.parts):
        if isinstance(t, Tuple if isinstance(to, Tuple) else Vector):
            parts = tuple(coerce(p, part, role) for p, part in zip(x.parts, types, strict=True))
            return ir.Make(parts=parts, type=to, pos=x.pos)
    hint = f"{to.name}(...) casts" if isinstance(to, Scalar) else "the two types must be the same"
    if isinstance(to, Handle):
        hint = f"it refers to rows of {to.slot}; of a number i, write table[i]"
    reject(f"{role} is {to}, but the value is {t}", x.pos, hint)


def parts_of(t: Type) -> tuple[Type, ...]:
    """The types of the parts of a vector or tuple."""
    if isinstance(t, Vector):
        return (t.elem,) * t.size
    return t.items if isinstance(t, Tuple) else ()


def has_none(t: Type) -> bool:
    """Whether a type contains a ``None`` without a known table."""
    return isinstance(t, Nothing) or any(has_none(p) for p in parts_of(t))


def _outside(x: ir.Const, to: Scalar) -> NoReturn:
    info = np.iinfo(to_dtype(to))
    reject(f"{x.value} does not fit {to}", x.pos, f"{to} holds {info.min} to {info.max}")


def _literal(x: ir.Expr, to: Scalar, role: str) -> ir.Expr:
    assert isinstance(x, ir.Const)
    value = x.value
    if to.kind == "b":
        reject(f"{role} is bool_, but the value is a number", x.pos, "write True or False")
    if to.kind in "iu":
        if isinstance(x.type, Weak) and x.type.kind == "f":
            reject(f"{role} is {to}, but the value is a float", x.pos, f"write {to}(...)")
        info = np.iinfo(to_dtype(to))
        if not info.min <= value <= info.max:
            _outside(x, to)
    return cast(x, to)


def common(x: ir.Expr, y: ir.Expr) -> Scalar:
    """The common scalar type of two operands: NumPy's promotion; literals adapt."""
    a, b = x.type, y.type
    for v in (x, y):
        if not isinstance(v.type, Scalar | Weak):
            reject(f"{v.type} is not a number", v.pos, "x.id is the number of a row")
    if isinstance(a, Weak) and isinstance(b, Weak):
        kind = "f" if "f" in (a.kind, b.kind) else "i"
        return I64 if kind == "i" else F64
    if isinstance(a, Weak) or isinstance(b, Weak):
        weak, strong = (a, b) if isinstance(a, Weak) else (b, a)
        assert isinstance(weak, Weak) and isinstance(strong, Scalar)
        if strong.kind == "b":
            return I64 if weak.kind == "i" else F64
        return F64 if weak.kind == "f" and strong.kind != "f" else strong
    assert isinstance(a, Scalar) and isinstance(b, Scalar)
    t = from_dtype(np.promote_types(to_dtype(a), to_dtype(b)))
    assert t is not None
    return t


def to_common_type(x: ir.Expr, y: ir.Expr, pos: Pos) -> tuple[ir.Expr, ir.Expr]:
    """Convert two values to a common type, for comparison and for ``a if c else b``."""
    a, b = x.type, y.type
    if isinstance(a, Handle | Nothing) or isinstance(b, Handle | Nothing):
        if isinstance(a, Nothing) and isinstance(b, Handle):
            return coerce(x, b, "value"), y
        if isinstance(b, Nothing) and isinstance(a, Handle):
            return x, coerce(y, a, "value")
        if a == b:
            return x, y
        reject(f"{a} does not go with {b}", pos, "compare rows of one table; row.id is its number")
    if a == b and not isinstance(a, Weak):
        return x, y
    t = common(x, y)
    return operand(x, t), operand(y, t)


def operand(x: ir.Expr, t: Scalar) -> ir.Expr:
    """An operand promoted to the common type (a literal must fit)."""
    return coerce(x, t, "operand") if isinstance(x.type, Weak) else cast(x, t)


def constant(value: Any, pos: Pos) -> ir.Const | None:
    """The constant for a captured Python or NumPy scalar; None for other objects."""
    if value is None:
        return ir.Const(value=-1, type=NOTHING, pos=pos)
    if isinstance(value, bool | np.bool_):
        return ir.Const(value=bool(value), type=BOOL, pos=pos)
    if isinstance(value, np.generic):
        t = from_dtype(value.dtype)
        return ir.Const(value=value.item(), type=t, pos=pos) if t else None
    if isinstance(value, int):
        return ir.Const(value=int(value), type=Weak("i"), pos=pos)
    if isinstance(value, float):
        return ir.Const(value=value, type=Weak("f"), pos=pos)
    return None


def truth(x: ir.Expr) -> ir.Expr:
    """A condition: booleans as they are, numbers compared with zero."""
    if x.type == BOOL:
        return x
    if isinstance(x, ir.Const) and isinstance(x.type, Scalar | Weak):
        return ir.Const(value=bool(x.value), type=BOOL, pos=x.pos)
    if isinstance(x.type, Handle):
        reject("a handle is not a condition", x.pos, "write `x is not None`")
    if isinstance(x.type, Scalar):
        zero = ir.Const(value=0, type=x.type, pos=x.pos)
        return ir.Compare(op="!=", x=x, y=zero, type=BOOL, pos=x.pos)
    reject(f"{x.type} is not a condition", x.pos, "compare it, or one of its parts")
