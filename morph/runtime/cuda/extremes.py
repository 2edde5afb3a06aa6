"""The least and the largest values of arrays of a GPU, by one kernel and one wait.

CuPy would launch a reduction and wait for a copy, for each of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from morph.runtime.arrays import Array, import_cupy

MOST = 8  # arrays of one launch
KINDS = {"i4": 0, "i8": 1, "f8": 2}
BLOCK, BLOCKS = 256, 132  # threads of a block; more blocks would conflict more often
LOW, HIGH = np.iinfo(np.int64).max, np.iinfo(np.int64).min  # of no values

TEXT = f"""
typedef long long i64;
struct Values {{
    const char* at;
    i64 count, stride, kind;
}};
struct Arguments {{
    i64 n;
    i64* found;  // of each array the least and the largest value; at the end, finished warps
    volatile i64* report;  // in memory of the host
    Values values[{MOST}];
}};
// Integers in the order of the reals; NaN are the first or the last ones.
__device__ i64 ordered(i64 bits) {{ return bits < 0 ? bits ^ 0x7fffffffffffffffLL : bits; }}
__device__ i64 value(const Values& v, i64 i) {{
    const char* at = v.at + i * v.stride;
    return v.kind == 0 ? *(const int*)at : v.kind == 1 ? *(const i64*)at : ordered(*(const i64*)at);
}}
extern "C" __global__ void extremes(const __grid_constant__ Arguments a) {{
    i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = gridDim.x * (i64)blockDim.x;
    bool leads = threadIdx.x % 32 == 0;
    for (i64 k = 0; k < a.n; k++) {{
        const Values& v = a.values[k];
        i64 low = {LOW}LL, high = -{LOW}LL - 1, i = first;
        for (; i + 3 * step < v.count; i += 4 * step) {{
            i64 x[4];
#pragma unroll
            for (int j = 0; j < 4; j++) x[j] = value(v, i + j * step);
#pragma unroll
            for (int j = 0; j < 4; j++) low = x[j] < low ? x[j] : low, high = x[j] > high ? x[j] : high;
        }}
        for (; i < v.count; i += step) {{
            i64 x = value(v, i);
            low = x < low ? x : low, high = x > high ? x : high;
        }}
        for (int d = 16; d; d /= 2) {{
            i64 x = __shfl_down_sync(0xffffffffu, low, d), y = __shfl_down_sync(0xffffffffu, high, d);
            low = x < low ? x : low, high = y > high ? y : high;
        }}
        if (leads) atomicMin(&a.found[2 * k], low), atomicMax(&a.found[2 * k + 1], high);
    }}
    if (!leads) return;
    __threadfence();
    i64 warps = gridDim.x * (i64)((blockDim.x + 31) / 32);
    unsigned long long* finished = (unsigned long long*)&a.found[{2 * MOST}];
    if (atomicAdd(finished, 1ull) != (unsigned long long)(warps - 1)) return;
    __threadfence();  // the last warp reports, and prepares the next launch
    for (i64 k = 0; k < a.n; k++) {{
        a.report[2 * k] = atomicMin(&a.found[2 * k], {LOW}LL);
        a.report[2 * k + 1] = atomicMax(&a.found[2 * k + 1], -{LOW}LL - 1);
        a.found[2 * k] = {LOW}LL, a.found[2 * k + 1] = -{LOW}LL - 1;
    }}
    *finished = 0;
}}
"""  # noqa: E501


def strided(a: Array) -> tuple[int, int] | None:
    """The number of values of an array and the bytes between them; None if these vary."""
    if a.flags.c_contiguous:
        return a.size, a.dtype.itemsize
    return (a.size, a.strides[0]) if a.ndim == 1 else None


def suits(a: Array) -> bool:
    """Whether `Extremes` takes an array of the GPU."""
    return a.dtype.str[1:] in KINDS and a.dtype.isnative and a.size > 0 and strided(a) is not None


class Extremes:
    """Finds extremes on one GPU; made and called while this is current, with its lock held.

    Parameters
    ----------
    on : SmallCopies
        Its module has the kernel.
    """

    def __init__(self, on: Any) -> None:
        cupy = import_cupy()
        self.on, self.function = on, on.module.get_function("extremes").ptr
        self.pinned = on.pin(16 * MOST)
        self.report = np.frombuffer(self.pinned, np.int64, 2 * MOST)
        start = np.array([LOW, HIGH] * MOST + [0], np.int64)
        self.found = cupy.asarray(start)
        cupy.cuda.get_current_stream().synchronize()  # later launches may use another stream
        self.prepare(self.found.data.ptr, self.pinned.ptr)

    def prepare(self, found: int, report: int) -> None:
        """Make the kernel's arguments, with two addresses."""
        self.arguments = np.zeros(3 + 4 * MOST, np.int64)
        self.arguments[1:3] = found, report
        self.values = self.arguments[3:].reshape(-1, 4)
        self.pointers = (ctypes.c_void_p * 1)(self.arguments.ctypes.data)

    def __call__(self, arrays: Sequence[Array]) -> list[tuple[Any, Any]]:
        """The least and the largest value of each of at most `MOST` arrays, see `suits`."""
        largest = 0
        for k, a in enumerate(arrays):
            size, stride = strided(a) or (0, 0)
            self.values[k] = a.data.ptr, size, stride, KINDS[a.dtype.str[1:]]
            largest = max(largest, size)
        self.arguments[0] = len(arrays)
        blocks, stream = min(-(-largest // BLOCK), BLOCKS), self.on.stream().ptr
        given = ctypes.addressof(self.pointers)
        self.on.launch(self.function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, given, 0)
        self.on.wait(stream)
        pairs = self.report.reshape(-1, 2)
        return [as_numbers(pair, a.dtype) for pair, a in zip(pairs, arrays, strict=False)]


def as_numbers(pair: Any, dtype: Any) -> tuple[Any, Any]:
    """Convert a pair of numbers of the kernel to Python numbers."""
    if dtype.kind == "f":
        pair = np.where(pair < 0, pair ^ LOW, pair).view(np.float64)
    low, high = pair.tolist()
    return low, high
