"""The intrinsics of kernels: objects that the compiler recognises by identity."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from morph.language.types import F32, F64, I32, SCALARS, U32, U64, Scalar

__all__ = [  # the names in `morph.prelude`
    "atan2", "atomic_add", "atomic_and", "atomic_cas", "atomic_exch", "atomic_max",
    "atomic_min", "atomic_or", "atomic_sub", "atomic_xor", "barrier", "bit_positions", "ceil",
    "clz", "cos", "ctz", "exp", "exp2", "exponent", "floor", "incircle", "local", "log", "log2",
    "orient2d", "philox", "popcount", "prefetch", "random_f32", "random_f64", "random_u32",
    "random_u64", "sat_add", "shared", "sin", "single", "sqrt", "static", "struct", "tan", "vector",
]  # fmt: skip


class Signature(NamedTuple):
    """The types of a pure function of numbers, all of one type."""

    arguments: int = 1
    kinds: str = "iuf"  # of the arguments
    result: Scalar | None = None  # None: the arguments' type
    converts: bool = False  # integers become f64; otherwise other kinds are rejected


_FLOAT = Signature(kinds="f", converts=True)
_BITS = Signature(kinds="iu", result=I32)


def _philox(key: int, counter: int, upper: int = 0) -> list[int]:
    """The four words of Philox4x32-10 for a key and a counter of 128 bits.

    References
    ----------
    J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel random numbers: as easy as 1, 2, 3.  SC 2011.
    """
    most = 2**32 - 1
    k, m = key & most, key >> 32 & most
    a, b, c, d = counter & most, counter >> 32 & most, upper & most, upper >> 32 & most
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second >> 32 ^ b ^ k, second & most, first >> 32 ^ d ^ m, first & most
        k, m = k + 0x9E3779B9 & most, m + 0xBB67AE85 & most
    return [a, b, c, d]


def _random(kind: Scalar, bits: int, *numbers: Any) -> Any:
    first, second, *_ = _philox(*map(int, numbers))
    number = to_dtype(kind).type((first << 32 | second) >> 64 - bits)
    return number * number.dtype.type(2.0**-bits) if kind.kind == "f" else number


class Intrinsic:
    """A function of the language.

    ``host``, if any, is its implementation on the host; a pure function has a ``signature``.
    """

    def __init__(
        self, name: str, doc: str, host: Callable[..., Any] | None = None,
        signature: Signature | None = None,
    ) -> None:  # fmt: skip
        self.name = self.__name__ = name
        self.__doc__ = doc
        self.host, self.signature = host, signature

    def __call__(self, *args: Any) -> Any:
        """Run on the host, as in eager programs; functions that need an item are refused."""
        if self.host is None:
            raise TypeError(f"{self.name} can be called only inside a @kernel or @func")
        return self.host(*args)

    def __repr__(self) -> str:
        return f"<morph intrinsic {self.name}>"


def _atomic(op: str) -> Intrinsic:
    extra = ", desired" if op == "cas" else ""
    return Intrinsic(
        f"atomic_{op}",
        f"atomic_{op}(place, value{extra}, changed=None): {op} into a column place at once; gives "
        "the old value, and raises the flag ``changed`` if the place changed.",
    )


atomic_min, atomic_max, atomic_add, atomic_sub = map(_atomic, ("min", "max", "add", "sub"))
atomic_and, atomic_or, atomic_xor = map(_atomic, ("and", "or", "xor"))
atomic_cas, atomic_exch = map(_atomic, ("cas", "exch"))
single = Intrinsic(
    "single",
    "if single(x): the branch is run by one item alone.  x is a row (first come), a column place "
    "(0 to 1), or a local collection of rows, all of which the winner owns.",
)
local = Intrinsic(
    "local", "local(dtype, capacity): an empty per-item collection of scalars.",
    lambda elem, capacity: LocalField(elem, capacity),
)  # fmt: skip
shared = Intrinsic(
    "shared", "shared(dtype, n): n zeros that all threads which execute the item access."
)
vector = Intrinsic("vector", "vector(x, y, ...): a fixed-length vector; vector(dtype, n) of zeros.")
barrier = Intrinsic("barrier", "barrier(): inside a program, wait for every thread.", lambda: None)
orient2d = Intrinsic("orient2d", "orient2d(a, b, c): 1 if counter-clockwise, 0 on a line; exact.")
incircle = Intrinsic("incircle", "incircle(a, b, c, d): 1 if d is inside circle abc; exact.")
prefetch = Intrinsic(
    "prefetch", "prefetch(place): a column place is soon used; a hint for a CPU, on a GPU nothing."
)
static = Intrinsic("static", "def f(p, n: static): the value of n is compiled in.")
bit_positions = Intrinsic(
    "bit_positions", "for i in bit_positions(x): the positions of the one bits, from the lowest on."
)
popcount = Intrinsic("popcount", "popcount(x): number of one bits of an integer.", signature=_BITS)
ctz = Intrinsic(
    "ctz", "ctz(x): number of zero bits below the lowest one bit of an integer.", signature=_BITS
)
clz = Intrinsic(
    "clz", "clz(x): number of zero bits above the highest one bit of an integer.", signature=_BITS
)
sat_add = Intrinsic(
    "sat_add", "sat_add(x, y): the sum of integers, saturated at the bounds of their type.",
    signature=Signature(2, "iu"),
)  # fmt: skip
exponent = Intrinsic(
    "exponent", "exponent(x): the e with ``2**e <= abs(x) < 2**(e + 1)``, of a float.",
    signature=Signature(kinds="f", result=I32),
)  # fmt: skip
sqrt, exp, log, floor, ceil, exp2, log2, sin, cos, tan = (
    Intrinsic(n, f"{n}(x): of a float, in its own precision.", getattr(np, n), _FLOAT)
    for n in ("sqrt", "exp", "log", "floor", "ceil", "exp2", "log2", "sin", "cos", "tan")
)
atan2 = Intrinsic(
    "atan2", "atan2(y, x): the angle of (x, y), from -pi to pi.", np.arctan2,
    _FLOAT._replace(arguments=2),
)  # fmt: skip
philox = Intrinsic(
    "philox",
    "philox(seed, counter, upper=0): four u32 of Philox4x32-10, the same on all devices.",
    lambda *numbers: np.array(_philox(*map(int, numbers)), np.uint32),
)
RANDOM = {  # the type and the number of random bits
    "random_u32": (U32, 32), "random_u64": (U64, 64), "random_f32": (F32, 24),
    "random_f64": (F64, 53),
}  # fmt: skip
random_u32, random_u64, random_f32, random_f64 = (
    Intrinsic(n, f"{n}(seed, counter, upper=0): " + doc, partial(_random, *RANDOM[n]))
    for n, doc in zip(RANDOM, 2 * ["any number."] + 2 * ["at least 0 and below 1."], strict=True)
)

_INTRINSICS = [obj for obj in tuple(globals().values()) if isinstance(obj, Intrinsic)]
FUNCTIONS = {  # pure functions, Python's among them
    "abs": Signature(), "round": _FLOAT, **{x.name: x.signature for x in _INTRINSICS if x.signature}
}  # fmt: skip
KERNEL_ONLY = {x.name for x in _INTRINSICS if x.signature and x.host is None}
_NAMES: dict[int, str] = {id(obj): obj.name for obj in _INTRINSICS}
_FOREIGN: tuple[tuple[Any, str], ...] = (
    (abs, "abs"), (min, "min"), (max, "max"), (len, "len"), (range, "range"),
    (reversed, "reversed"), (enumerate, "enumerate"), (hasattr, "hasattr"), (round, "round"),
    (divmod, "divmod"), (np.abs, "abs"), (np.minimum, "min"), (np.maximum, "max"),
    (np.rint, "round"),
    *((x.host, x.name) for x in _INTRINSICS if x.signature and x.host),
    *((getattr(math, name), name) for name in FUNCTIONS if hasattr(math, name)),
)  # fmt: skip
_NAMES.update((id(obj), name) for obj, name in _FOREIGN)


def name_of(obj: Any) -> str | None:
    """The language's name for a Python object, if it has one."""
    return _NAMES.get(id(obj))


def scalar_of(obj: Any) -> Scalar | None:
    """The scalar type of a NumPy scalar class, dtype, or bool/int/float; else None."""
    if obj is bool:
        return SCALARS["bool_"]
    if obj is int:
        return SCALARS["i64"]
    if obj is float:
        return SCALARS["f64"]
    if isinstance(obj, np.dtype) or (isinstance(obj, type) and issubclass(obj, np.generic)):
        return from_dtype(np.dtype(obj))
    return None


def from_dtype(dtype: np.dtype[Any]) -> Scalar | None:
    """The scalar type of a NumPy dtype, None if the language has none."""
    return next(
        (s for s in SCALARS.values() if s.kind == dtype.kind and s.bits == dtype.itemsize * 8),
        None,
    )


def to_dtype(scalar: Scalar) -> np.dtype[Any]:
    """The NumPy dtype of a scalar type."""
    return np.dtype(f"{scalar.kind}{scalar.bits // 8}")


class LocalField(NamedTuple):
    """``local(elem, capacity)`` as the annotation of a field of a struct."""

    elem: Any
    capacity: int


class StructType:
    """A small record of values, made by ``@struct`` from a class with annotated fields."""

    def __init__(self, cls: type, names: dict[str, Any]) -> None:
        self.name = self.__name__ = cls.__name__
        self.__doc__ = cls.__doc__
        self.annotations: dict[str, Any] = dict(cls.__annotations__)
        self.names = names  # the namespace of annotations that are strings

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: structs exist only in kernels."""
        raise TypeError(f"struct {self.name} can be made only inside a @kernel or @func")


def struct(cls: type) -> StructType:
    """Declare a struct: a class whose annotations are scalar types, ``(dtype, n)`` or ``Ref``.

    A field can also be a local collection: ``local(dtype, capacity)``, ``local((dtype, n), ...)``,
    ``local(struct, ...)`` or, for rows, ``local(Ref(...), ...)``.

    Parameters
    ----------
    cls : type
        A class with annotations and nothing else.

    Returns
    -------
    StructType
        A type that kernels call to make a struct.
    """
    frame = sys._getframe(1)
    return StructType(cls, {**frame.f_globals, **frame.f_locals})


UNARY: dict[str, Callable[[Any], Any]] = {
    "+": lambda x: x,
    "-": lambda x: -x,
    "~": lambda x: ~x,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda x, y: bool(x == y),
    "!=": lambda x, y: bool(x != y),
    "<": lambda x, y: bool(x < y),
    "<=": lambda x, y: bool(x <= y),
    ">": lambda x, y: bool(x > y),
    ">=": lambda x, y: bool(x >= y),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "**": lambda x, y: x**y,
}
