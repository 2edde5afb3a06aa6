"""The names that kernels use: ``from morph.prelude import *``.

Atomics, ``single``, vectors and local collections, exact predicates, mathematical functions and
data types.  On the host only the data types do anything.
"""

from morph.language import intrinsics
from morph.language.dtypes import bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from morph.language.intrinsics import *  # noqa: F403

__all__ = [
    "bool_", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
]  # fmt: skip
__all__ += intrinsics.__all__
