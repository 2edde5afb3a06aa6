"""Minima and maxima of arrays, by the kernel of a GPU run on the host."""

import ctypes
import math

import numpy as np
import pytest
from test_small_copies import SHIM, There

import morph
from morph.runtime.cuda import extremes
from morph.runtime.toolchain import cpu

WARP = """
static long long atomicMin(long long* at, long long x) { auto was = *at; if (x < was) *at = x; return was; }
static long long atomicMax(long long* at, long long x) { auto was = *at; if (x > was) *at = x; return was; }
static unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) { return (*at += x) - x; }
static void __threadfence() {}
static long long __shfl_down_sync(unsigned, long long x, int) { return x; }
"""  # noqa: E501
RUN = """
extern "C" __attribute__((visibility("default"))) void run(const Arguments* a, unsigned blocks) {
    gridDim.x = blocks, blockDim.x = 1, threadIdx.x = 0;
    for (blockIdx.x = blocks; blockIdx.x-- > 0;) extremes(*a);
}
"""


class OnHost(extremes.Extremes):
    """The kernel, one thread a block."""

    def __init__(self):
        self.lib = ctypes.CDLL(str(cpu.build(SHIM + WARP + extremes.TEXT + RUN, name="extremes")))
        self.on, self.function = self, None
        self.report = np.zeros(2 * extremes.MOST, np.int64)
        self.found = np.array([extremes.LOW, extremes.HIGH] * extremes.MOST + [0], np.int64)
        self.prepare(self.found.ctypes.data, self.report.ctypes.data)

    def stream(self):
        return self

    ptr = 0

    def launch(self, function, blocks, *rest):
        self.lib.run(ctypes.c_void_p(self.arguments.ctypes.data), blocks)

    def wait(self, stream):
        """The kernel has ended."""


def arrays():
    rng = np.random.default_rng(5)
    pairs = rng.integers(-(2**31), 2**31, (3000, 2), np.int32)
    reals = np.array([3.5, -0.0, -1e300, 7e-320, math.inf])
    made = [pairs[:, 1], pairs, rng.integers(-(2**62), 2**62, 1000), reals, -abs(reals), pairs[:1]]
    return [a.view(There) for a in made]


def test_the_kernel_finds_what_numpy_finds():
    find, given = OnHost(), arrays()
    assert all(map(extremes.suits, given))
    for _ in range(2):  # the second launch finds the memory prepared
        assert find(given) == [(a.min().item(), a.max().item()) for a in given]


@pytest.mark.parametrize("sign", [1, -1])
def test_nan_is_found(sign):
    a = np.array([1.0, np.copysign(np.nan, sign), 2.0]).view(There)
    ((low, high),) = OnHost()([a])
    assert math.isnan(low if sign < 0 else high)


def test_other_arrays_are_left_to_cupy():
    for a in (np.zeros(3, np.uint8), np.zeros(0, np.int32), np.zeros((4, 4), np.int32)[:, :2]):
        assert not extremes.suits(a.view(There))
    assert morph.device("cpu").extremes(np.arange(5), np.ones(2)) == [(0, 4), (1.0, 1.0)]
