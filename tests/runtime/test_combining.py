"""The kernel that combines arrays of several GPUs, run thread by thread on the host."""

import ctypes

import numpy as np
import pytest
from test_small_copies import SHIM

import morph
from morph.partition.group import DeviceGroup
from morph.partition.routes import OPERATIONS
from morph.runtime.cuda import combining
from morph.runtime.toolchain import cpu

BLOCKS, BLOCK = 2, 3
RUN = """
extern "C" __attribute__((visibility("default")))
void run(T** a, long long first, long long last, long long count) {
    gridDim.x = 2, blockDim.x = 3;
    for (blockIdx.x = 0; blockIdx.x < 2; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < 3; threadIdx.x++)
            combine(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], first, last, count);
}
"""


def wanted(arrays, op):
    result = arrays[0]
    for a in arrays[1:]:
        result = OPERATIONS[op](np, result, a)
    return result


def values(rng, kind, count):
    drawn = [rng.integers(0, 100, 50).astype(kind) for _ in range(count)]
    if drawn[0].dtype.kind == "f":
        drawn[0][3] = drawn[-1][7] = np.nan
    return drawn


@pytest.mark.parametrize("kind, op", [("i4", "add"), ("f8", "min"), ("u1", "or")])
def test_rows_are_combined_in_order(kind, op):
    lib = ctypes.CDLL(str(cpu.build(SHIM + combining.text(kind, op) + RUN, name="combine")))
    for count in (1, 2, 5, combining.MOST):
        arrays = values(np.random.default_rng(count), kind, count)
        before = [a.copy() for a in arrays]
        addresses = [a.ctypes.data for a in arrays] + [0] * (combining.MOST - count)
        lib.run(
            (ctypes.c_void_p * combining.MOST)(*addresses), *map(ctypes.c_longlong, (7, 31, count))
        )
        result = wanted(before, op)
        for a, old in zip(arrays, before, strict=True):
            assert np.array_equal(a[7:31], result[7:31], equal_nan=kind == "f8")
            assert np.array_equal(a[:7], old[:7], equal_nan=kind == "f8")
            assert np.array_equal(a[31:], old[31:], equal_nan=kind == "f8")


@pytest.mark.parametrize(
    "kind, op, count, step",
    [("f4", "or", 2, 1), ("b1", "add", 2, 1), ("f2", "min", 2, 1), ("i4", "add", 9, 1),
     ("i4", "add", 2, 2)],
)  # fmt: skip
def test_what_no_kernel_combines(kind, op, count, step):
    arrays = [np.ones(8, kind)[::step] for _ in range(count)]
    assert not combining.combine(0, arrays, slice(0, 4), op)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (333, 2)])
def test_groups_of_gpus(shape):
    xp = morph.device("cuda").xp
    gpus = min(xp.cuda.runtime.getDeviceCount(), 4)
    for devices in (["cuda:0"] * 3, [f"cuda:{k % gpus}" for k in range(4)]):
        group = DeviceGroup(devices)
        for kind, op in (("i4", "add"), ("i8", "add"), ("u1", "or"), ("f8", "max"), ("i1", "max")):
            rng = np.random.default_rng(5)
            given = [rng.integers(0, 99, shape).astype(kind) for _ in devices]
            arrays = [d.copy(a) for d, a in zip(group.devices, given, strict=True)]
            assert group._combined(arrays, [slice(0, 0)] * len(devices), op)
            group.all_reduce(arrays, op)
            for d, a in zip(group.devices, arrays, strict=True):
                assert a.device.id == d.index
                assert np.array_equal(d.to_host(a), wanted(given, op))
