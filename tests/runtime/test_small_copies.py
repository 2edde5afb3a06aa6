"""Values that one kernel writes to a GPU, run thread by thread on the host."""

import ctypes
import threading

import numpy as np
import pytest

from morph.runtime.backend import IOTA, Seeds
from morph.runtime.cuda import small_copies
from morph.runtime.toolchain import cpu

BLOCK, BLOCKS = 4, 3
SHIM = """
struct Place { unsigned x; };
struct ulonglong2 { unsigned long long x, y; };
static Place blockIdx, threadIdx, blockDim, gridDim;
#define __device__
#define __global__
#define __grid_constant__
"""
RUN = """
extern "C" __attribute__((visibility("default"))) void run(const Commands* a, unsigned blocks, unsigned threads) {
    gridDim.x = blocks, blockDim.x = threads;
    for (blockIdx.x = blocks; blockIdx.x-- > 0;)
        for (threadIdx.x = threads; threadIdx.x-- > 0;) put(*a);
}
"""  # noqa: E501


class There(np.ndarray):
    """An array whose address is asked for as CuPy's is."""

    __cuda_array_interface__ = None

    @property
    def data(self):
        return self

    @property
    def ptr(self):
        return self.__array_interface__["data"][0]


class Here:
    """What launches the kernel."""

    def __init__(self):
        self.lib = ctypes.CDLL(str(cpu.build(SHIM + small_copies.TEXT + RUN, name="put")))

    def start(self, c):
        c.arguments[0] = c.n
        blocks = min(-(-c.largest // BLOCK), BLOCKS)
        self.lib.run(ctypes.c_void_p(c.arguments.ctypes.data), blocks, BLOCK)


def made(n, dtype, step=1, first=0):
    """An array of 99; single values fill it in units of 16 bytes, but not if it has gaps."""
    raw = np.full(16 + first + n * step, 99, dtype).view(There)
    aligned = -raw.ptr % 16 // raw.itemsize
    return raw[aligned + first : aligned + first + n * step : step]


@pytest.mark.parametrize("layout", [(1, 0), (2, 0), (1, 1)], ids=["whole", "gaps", "odd"])
@pytest.mark.parametrize(
    "rows, copies", [([3], []), ([], []), ([0, 17, 49], [18]), ([49, 1], [2, 48]), ([], [5])]
)
def test_rows_that_something_begins_with_are_written_last(rows, copies, layout):
    dist, before, item = made(50, np.uint32, *layout), made(50, np.int16, *layout), made(50, "i4")
    beside, own, meta = made(50, np.float64), made(50, np.int32), made(8, np.int64)
    fills = [(dist, 2**32 - 1), (before, -1), (own, IOTA)]
    seeds = Seeds(meta, item, [(beside, 0.5)], [(dist, 7), (before, 5)])
    prepared = small_copies.CudaWriter(Here(), fills, seeds)
    assert prepared.fits
    for _ in range(2):
        for a in (dist, before, item, beside, own, meta):
            a[:] = 42
        prepared.write(*(np.array(x, np.int32) for x in (rows, copies)), np.arange(8) + len(rows))
        expected = np.full(50, 2**32 - 1)
        expected[rows + copies] = 7
        assert dist.tolist() == expected.tolist()
        assert before.tolist() == [5 if i in rows + copies else -1 for i in range(50)]
        assert own.tolist() == list(range(50))
        assert meta.tolist() == [k + len(rows) for k in range(8)]
        assert item.tolist() == rows + [42] * (50 - len(rows))
        assert beside.tolist() == [0.5] * len(rows) + [42] * (50 - len(rows))


def test_of_no_rows_nothing_is_launched():
    small_copies.CudaWriter(None, [(made(0, np.int32), 7)], None).write(None, None, None)


def test_what_does_not_fit_in_one_launch_is_said_to():
    many = [(made(5, np.int32), k) for k in range(small_copies.COMMANDS + 1)]
    assert not small_copies.CudaWriter(Here(), many, None).fits


@pytest.mark.parametrize(
    "kind, value", [("u1", 7), ("?", True), ("i2", -3), ("f4", 0.1), ("i8", 2**40)]
)
def test_one_value_in_arrays_of_any_size(kind, value):
    arrays = [made(n, kind, *layout) for n in (1, 3, 41) for layout in ((1, 0), (3, 0), (1, 1))]
    small_copies.CudaWriter(Here(), [(x, value) for x in arrays], None).write(None, None, None)
    for x in arrays:
        assert (x == np.dtype(kind).type(value)).all()
        assert kind == "?" or (x.base == np.dtype(kind).type(value)).sum() == x.size


@pytest.mark.parametrize("to, first", [(0, 0), (8, 0), (4, 8), (3, 0), (2, 5), (4, 4), (16, 32)])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 61])
def test_copies_between_arrays_of_any_alignment(to, first, size):
    given, found = made(100, np.uint8), made(100, np.uint8)
    given[:] = np.arange(100)
    writer = small_copies.CudaWriter(
        Here(), [(found[to : to + size], given[first : first + size])], None
    )
    writer.write(None, None, None)
    expected = np.full(100, 99)
    expected[to : to + size] = np.arange(first, first + size)
    assert found.tolist() == expected.tolist()


def write(array, values):
    """Write as `CudaDevice.write` does, in as many launches as are needed."""
    here, commands = Here(), small_copies.Commands()
    values = values if type(values) is There else np.asarray(values, array.dtype)
    for place, given in small_copies.one_dimensional(array, values):
        if not commands.add(place, given):
            here.start(commands), commands.clear()
            assert commands.add(place, given)
    here.start(commands)


@pytest.mark.parametrize("kind", ["u1", "?", "i2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(41,), (41, 3), (41, 16)])
def test_arrays_with_gaps(kind, shape):
    """One value, a value for each column, an array: to and from whole arrays and packed columns."""
    rng, size = np.random.default_rng(0), int(np.prod(shape))
    values = rng.integers(0, 2, shape).astype(kind)
    there = made(size, kind).reshape(shape)
    there[:] = values
    gaps = made(2 * size, kind).reshape(shape[0], 2, *shape[1:])[:, 1]
    for array in (made(size, kind).reshape(shape), gaps):
        for given in (values.flat[0], values[3], there):
            array[:] = 99
            write(array, given)
            assert (array == given).all()
        back = made(size, kind).reshape(shape)
        write(back, array)
        assert (back == values).all()
    assert (gaps.base == 99).sum() >= size or kind == "?"
    small = made(4, kind)
    write(small, values.reshape(-1)[:4])
    assert (small == values.reshape(-1)[:4]).all()


def test_writes_that_are_left_to_cupy():
    a, b = made(12, "i4").reshape(3, 4), made(3, "i4")
    refused = [
        (a, b.reshape(3, 1)), (a, b), (b, a[0]), (b, b[:1]),
        (a.reshape(3, 2, 2)[:, ::2], np.ones((2, 1), "i4")), (made(51, "i4").reshape(3, 17), a),
    ]  # fmt: skip
    for array, values in refused:
        assert small_copies.one_dimensional(array, values) is None, (array.shape, values.shape)


def test_one_integer_is_replaced():
    given, found = made(50, np.int32), made(50, np.int64)
    given[:] = np.arange(50) % 3 - 1
    here = Here()
    commands = small_copies.Commands()
    commands.replacement(found, given, -1, 2**63 - 1)
    here.start(commands)
    assert found.tolist() == [2**63 - 1 if x < 0 else x for x in given.tolist()]


class Event:
    """What a launch records on its stream."""

    def synchronize(self):
        self.waited = True


def test_large_arrays_of_the_host_are_read_from_pinned_memory():
    """Contiguous or not, to columns with gaps, int32 to int64; others get the column's type."""
    rng, event = np.random.default_rng(1), Event()
    copies = small_copies.SmallCopies.__new__(small_copies.SmallCopies)
    copies.commands, copies.lock = small_copies.Commands(), threading.Lock()
    pinned = []

    def pin(size):
        pinned.append(made(size, "u1"))
        return pinned[-1]

    copies.staging = small_copies.Staging(pin, event)
    copies.start = Here().start
    for n in (17, 61, 40_000):
        x, odd = rng.integers(-9, 9, n).astype("i4"), rng.integers(0, 9, 2 * n).astype("i2")[::2]
        columns = [made(n, "i8"), made(n, "i8", 3), made(n, "i4", 2), made(n, "f4")]
        few = made(3, "i8")
        copies.put([*zip(columns, (x, x, odd, x), strict=True), (few, np.array([1, 2, 3]))])
        for column, given in zip(columns, (x, x, odd, x), strict=True):
            assert (column == given).all() and (column.base == 99).sum() >= column.base.size - n
        assert few.tolist() == [1, 2, 3] and not copies.staging.used and event.waited
    assert len(pinned) == 2  # reused, and replaced by a larger one
    given, found = made(61, "i4", 2), made(61, "i8", 2)
    given[:] = rng.integers(-9, 9, 61)
    copies.put([(found, given)])  # both on the device
    assert (found == given).all()
