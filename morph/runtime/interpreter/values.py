"""The values of the language as Python objects, and exact versions of their operations.

A scalar is a NumPy scalar of its type, and so overflows and rounds like it, except that a ``bool_``
is a Python bool.  A handle is an int.  A vector, struct or tuple is a Python tuple; new rows are a
range; a local collection is a `LocalItems`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from morph.language.intrinsics import philox, random_u64
from morph.language.types import Handle, Nothing, Scalar, Type, Weak
from morph.runtime.interpreter.powers import exp2, log2

Function = Callable[..., Any]


class LocalItems(list[Any]):
    """A per-item collection."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity


def dtype_of(t: Type) -> np.dtype[Any]:
    """The NumPy type of a scalar; a literal's is int64 or float64."""
    if isinstance(t, Weak):
        return np.dtype(np.int64 if t.kind == "i" else np.float64)
    if not isinstance(t, Scalar):
        raise TypeError(f"{t} is not a scalar type")
    return np.dtype(np.bool_ if t.kind == "b" else f"{t.kind}{t.bits // 8}")


def is_bool(t: Type) -> bool:
    """Whether values of the type are Python's True and False."""
    return isinstance(t, Scalar) and t.kind == "b"


def literal(value: Any, t: Type) -> Any:
    """The value of a constant of a type."""
    if isinstance(t, Handle | Nothing):
        return int(value)
    return bool(value) if is_bool(t) else dtype_of(t).type(value)


def from_memory(t: Type) -> Function:
    """Conversion of an element of a column's array to a value of type ``t``."""
    if isinstance(t, Handle):
        return int
    return bool if is_bool(t) else dtype_of(t).type


def cast(source: Type, target: Type) -> Function:
    """The conversion between two scalar types, or a handle and an integer."""
    if isinstance(target, Handle):
        return int
    dtype = dtype_of(target)
    if is_bool(target):
        return lambda x: bool(x != 0)
    if isinstance(source, Handle):
        return lambda x: np.int64(x).astype(dtype)
    if is_bool(source):
        return dtype.type
    if dtype.kind in "iu" and dtype_of(source).kind == "f":
        return lambda x: truncated(x, dtype)
    return lambda x: x.astype(dtype)


def truncated(x: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a float to an integer: saturating, and NaN to 0."""
    info = np.iinfo(dtype)
    if x != x:
        return dtype.type(0)
    if not math.isfinite(x):
        return dtype.type(info.max if x > 0 else info.min)
    return dtype.type(min(max(int(x), int(info.min)), int(info.max)))


UNARY: dict[str, Function] = {"-": operator.neg, "~": operator.invert, "not": operator.not_}
BINARY: dict[str, Function] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
COMPARE: dict[str, Function] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
ATOMIC: dict[str, Function] = {
    "min": lambda old, x: x if x < old else old,
    "max": lambda old, x: x if x > old else old,
    "add": operator.add,
    "sub": operator.sub,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "exch": lambda old, x: x,
    "cas": lambda old, expected, x: x if same_bits(old, expected) else old,
}


def same_bits(x: Any, y: Any) -> bool:
    """Bitwise equality: 0.0 and -0.0 differ, a NaN equals itself."""
    return bool(x == y) if isinstance(x, int) else bool(x.tobytes() == y.tobytes())


def _exp(x: Any) -> Any:
    try:
        return type(x)(math.exp(x))  # the C library's function, as in compiled code
    except OverflowError:
        return type(x)(math.inf)


def _log(x: Any) -> Any:
    return type(x)(math.log(x)) if x > 0 else np.log(x)


def _of_library(f: Callable[[float], float]) -> Function:
    """A function of the C library, as in compiled code, that is undefined at infinity."""
    return lambda x: type(x)(f(x) if math.isfinite(x) else math.nan)


def _power(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return x**y  # np.power uses square roots, which differ for -inf and -0.0
    if y < 0:
        return type(x)(int(x) ** int(-int(y) % 2) if abs(int(x)) == 1 else 0)
    return np.array(pow(int(x), int(y), 1 << 8 * x.itemsize)).astype(x.dtype)[()]


def _saturated_sum(x: Any, y: Any) -> Any:
    info = np.iinfo(x.dtype)
    return type(x)(min(max(int(x) + int(y), int(info.min)), int(info.max)))


def _bits(x: Any) -> int:
    """The bits of a NumPy integer, as a nonnegative integer."""
    mask: int = (1 << 8 * x.itemsize) - 1
    return int(x) & mask


def _popcount(x: Any) -> Any:
    return np.int32(_bits(x).bit_count())


def exponent(x: Any) -> Any:
    """The e with 2**e <= abs(x) < 2**(e + 1) for a NumPy float, from its bits."""
    info = np.finfo(x.dtype)
    bits = int(x.view(f"u{x.itemsize}")) >> info.nmant
    return np.int32((bits & (1 << info.iexp) - 1) - (1 << info.iexp - 1) + 1)


def determinant_sign(*points: tuple[Any, ...]) -> Any:
    """The exact sign of orient2d (three points) or incircle (four); 0 if not finite."""
    if not all(math.isfinite(v) for p in points for v in p):
        return np.int32(0)
    *others, (ox, oy) = [(Fraction(float(x)), Fraction(float(y))) for x, y in points]
    rows = [(x - ox, y - oy) for x, y in others]
    if len(rows) == 2:
        (a, b), (c, d) = rows
        det = a * d - b * c
    else:
        (a, b), (c, d), (e, f) = rows
        det = (
            (a * a + b * b) * (c * f - d * e)
            + (c * c + d * d) * (e * b - f * a)
            + (e * e + f * f) * (a * d - b * c)
        )
    return np.int32((det > 0) - (det < 0))


BUILTIN: dict[str, Function] = {
    "abs": abs,
    "min": lambda x, y: x if x < y or x != x else y,  # NaN propagates, as in NumPy
    "max": lambda x, y: x if x > y or x != x else y,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "exp": _exp,
    "log": _log,
    "exp2": exp2,
    "log2": log2,
    "sin": _of_library(math.sin),
    "cos": _of_library(math.cos),
    "tan": _of_library(math.tan),
    "atan2": lambda y, x: type(y)(math.atan2(y, x)),
    "pow": _power,
    "round": np.rint,
    "exponent": exponent,
    "popcount": _popcount,
    "ctz": lambda x: np.int32(len(f"{_bits(x):0{8 * x.itemsize}b}".split("1")[-1])),
    "clz": lambda x: np.int32(8 * x.itemsize - _bits(x).bit_length()),
    "sat_add": _saturated_sum,
    "philox": lambda *numbers: tuple(philox(*numbers)),
    "random": random_u64,
    "orient2d": determinant_sign,
    "incircle": determinant_sign,
}
