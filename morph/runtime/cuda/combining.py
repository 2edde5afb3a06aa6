"""Combination of arrays of several GPUs: all-reduce by kernels that access the memory of all GPUs.

Each GPU combines a range of the rows, and stores the result into all arrays.  CuPy would need a
kernel for each pair of arrays, and a copy for each result.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from morph.runtime.arrays import Array
from morph.runtime.cuda.modules import loaded

MOST = 8  # maximum of arrays, one for each GPU
BLOCK, BLOCKS = 256, 528  # threads of a block; at most four blocks on each of 132 multiprocessors
OPERATIONS = {  # those of `morph.partition.routes.OPERATIONS`
    "add": "x + y", "min": "y < x ? y : x", "max": "x < y ? y : x", "or": "x | y", "and": "x & y",
}  # fmt: skip
TYPES = {
    "i1": "signed char", "u1": "unsigned char", "b1": "unsigned char", "i2": "short",
    "u2": "unsigned short", "i4": "int", "u4": "unsigned", "i8": "long long",
    "u8": "unsigned long long", "f4": "float", "f8": "double",
}  # fmt: skip
TEXT = """
extern "C" __global__ void combine(
    T* a0, T* a1, T* a2, T* a3, T* a4, T* a5, T* a6, T* a7,
    long long first, long long last, long long count
) {
    T* const at[] = {a0, a1, a2, a3, a4, a5, a6, a7};
    long long i = first + blockIdx.x * (long long)blockDim.x + threadIdx.x;
    for (; i < last; i += gridDim.x * (long long)blockDim.x) {
        T x = at[0][i];
#pragma unroll
        for (int k = 1; k < 8; k++)
            if (k < count) {
                T y = at[k][i];
                x = OPERATION;
            }
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (k < count) at[k][i] = x;
    }
}
"""


def text(kind: str, op: str) -> str:
    """Return the C++ of the kernel for values of a type, such as ``"i4"``."""
    return f"typedef {TYPES[kind]} T;\n#define OPERATION {OPERATIONS[op]}\n{TEXT}"


# held by callers of `_function`: if two threads loaded a kernel, one module would be unloaded while
# its kernel may run
_lock = threading.Lock()


@cache
def _function(index: int, kind: str, op: str) -> tuple[Any, Any]:
    """Load the kernel on the current GPU, ``index``; it is valid while its module is kept."""
    module = loaded(text(kind, op), index, "combine")
    return module, module.get_function("combine")


def combine(index: int, arrays: Sequence[Array], rows: slice, op: str) -> bool:
    """Combine rows of arrays into all of them on the current GPU, see `Backend.combine`."""
    kind, like = arrays[0].dtype.str[1:], arrays[0]
    plain = all(a.flags.c_contiguous for a in arrays) and kind in TYPES
    unsupported = like.dtype.kind == "f" and op in ("or", "and")
    unsupported |= kind == "b1" and op == "add"  # a sum of bools might exceed 1
    if not plain or len(arrays) > MOST or unsupported:
        return False
    each = like.size // max(len(like), 1)
    first, last = rows.start * each, rows.stop * each
    if first < last:
        with _lock:
            _, function = _function(index, kind, op)
        addresses = [a.data.ptr for a in arrays] + [0] * (MOST - len(arrays))
        numbers = (*addresses, first, last, len(arrays))
        blocks = min(-(-(last - first) // BLOCK), BLOCKS)
        function((blocks, 1, 1), (BLOCK, 1, 1), tuple(map(np.int64, numbers)))
    return True
