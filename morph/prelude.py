"""The names that kernels use: ``from morph.prelude import *``.

Atomics, ``single``, vectors and local collections, exact predicates, mathematical functions and
data types.  On the host only the data types do anything.
"""

from morph.language.dtypes import bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from morph.language.intrinsics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_exch,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xor,
    barrier,
    ceil,
    exp,
    exp2,
    exponent,
    floor,
    incircle,
    local,
    log,
    log2,
    orient2d,
    popcount,
    prefetch,
    single,
    sqrt,
    struct,
    vector,
)

__all__ = [
    "atomic_add", "atomic_and", "atomic_cas", "atomic_exch", "atomic_max", "atomic_min",
    "atomic_or", "atomic_sub", "atomic_xor", "barrier", "bool_", "ceil", "exp", "exp2", "exponent",
    "f16", "f32", "f64", "floor", "i8", "i16", "i32", "i64", "incircle", "local", "log", "log2",
    "orient2d", "popcount", "prefetch", "single", "sqrt", "struct", "u8", "u16", "u32", "u64",
    "vector",
]  # fmt: skip
