"""Small copies: a few values to a GPU by one kernel, or to the host by one transfer.

A launch needs and returns few values: columns at their fill, counters of lists, a source.  CuPy
launches a kernel or a copy for each.  Here all of them are arguments of one kernel; the driver
copies arguments at the launch, so the host does not wait.  Host arrays of more values are copied to
pinned memory, which the kernel reads.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from time import perf_counter, sleep
from typing import Any

import numpy as np

from morph.compiler.ir.layout import Status
from morph.runtime.arrays import import_cupy
from morph.runtime.backend import IOTA, Seeds, Write
from morph.runtime.cuda import driver, extremes
from morph.runtime.cuda.extremes import Extremes
from morph.runtime.cuda.modules import loaded

COMMANDS, VALUES = 24, 128  # of one launch: 1,800 bytes of arguments
MOST_VALUES = 16  # maximum of host values, or columns, that `CudaDevice.write` passes to a launch
MOST_SEEDS = 4  # maximum of seed rows, written by the same launch
SMALL = 4096  # maximum of bytes that are fetched through pinned memory
LEAST_STAGED = 1 << 16  # bytes of pinned memory for host arrays
BLOCK, BLOCKS = 256, 528  # threads of a block; at most four blocks on each of 132 multiprocessors
EACH = 1 << 8  # one value per element
FROM = 1 << 9  # values are read from an array, whose address is the command's value
OWN = 1 << 10  # each element gets its index
SPOT = 1 << 11  # one element, of unit `count`; the thread that fills this unit writes it last
WIDE = 1 << 12  # one value in units of 16 bytes; in other commands a unit is a row
STRIDED = 1 << 13  # values are read from an array; its address and stride are the command's values
REPLACE = 1 << 14  # int32 values are read from an array, and int64 written, one of them replaced
WIDEN = 1 << 15  # with `STRIDED`: int32 values are read, and int64 written
BEFORE = 1 + 4 * COMMANDS  # words before the values
COMMAND = struct.Struct("=4q")
# a word of equal values, by NumPy's character of their type
FILLS = {c: struct.Struct("=" + 8 // np.dtype(c).itemsize * c) for c in "bBhHiIfd"}
FILLS |= {c: struct.Struct("=q") for c in "lq"} | {c: struct.Struct("=Q") for c in "LQ"}
TO_DEVICE, TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost
NOT_READY = 600  # CUDA_ERROR_NOT_READY
POLLS = 20_000  # reads of a launch's number, about 1 ms, before the stream is queried
POLLS_OF_ONE = 5_000  # the same where the host waits for several GPUs
ENDED = int(Status.ENDED)
SHORT = 0.01  # seconds; a longer wait sleeps in between

TEXT = f"""
typedef unsigned long long u64;
struct Command {{
    char* at;
    long long count, stride;
    int how, from;  // bytes of a value, and whether there is one for each; where they stand
}};
struct Commands {{
    u64 n;
    Command command[{COMMANDS}];
    u64 word[{VALUES}];
}};
template <class T>  // in units of T, four loads at a time, then the remaining bytes
__device__ void copy(char* to, const char* from, long long bytes, long long first, long long step) {{
    long long units = bytes / sizeof(T), i = first;
    for (; i + 3 * step < units; i += 4 * step) {{
        T x[4];
#pragma unroll
        for (int k = 0; k < 4; k++) x[k] = ((const T*)from)[i + k * step];
#pragma unroll
        for (int k = 0; k < 4; k++) ((T*)to)[i + k * step] = x[k];
    }}
    for (; i < units; i += step) ((T*)to)[i] = ((const T*)from)[i];
    for (i = units * sizeof(T) + first; i < bytes; i += step) to[i] = from[i];
}}
// In units of 16 bytes; the thread whose turn comes after the last whole one writes the remaining bytes.
__device__ void fill_wide(char* at, long long bytes, u64 x, long long first, long long step) {{
    long long units = bytes / 16, i = first;
    for (; i < units; i += step) ((ulonglong2*)at)[i] = ulonglong2{{x, x}};
    if (i == units)
        for (long long k = 16 * units; k < bytes; k++) at[k] = char(x >> 8 * (k % 8));
}}
template <class T>
__device__ void fill(const Command& c, T x, long long first, long long end, long long step) {{
    for (long long i = first; i < end; i += step) *(T*)(c.at + i * c.stride) = x;
}}
template <class T, class From = T>  // four loads at a time
__device__ void copy_strided(const Command& c, const u64* from, long long first, long long step) {{
    const char* source = (const char*)from[0];
    long long stride = (long long)from[1], i = first;
    for (; i + 3 * step < c.count; i += 4 * step) {{
        From x[4];
#pragma unroll
        for (int k = 0; k < 4; k++) x[k] = *(const From*)(source + (i + k * step) * stride);
#pragma unroll
        for (int k = 0; k < 4; k++) *(T*)(c.at + (i + k * step) * c.stride) = T(x[k]);
    }}
    for (; i < c.count; i += step) *(T*)(c.at + i * c.stride) = T(*(const From*)(source + i * stride));
}}
template <class T>  // the index, without values
__device__ void write_each(const Command& c, const u64* values, long long first, long long step) {{
    for (long long i = first; i < c.count; i += step) *(T*)(c.at + i * c.stride) = T(values ? values[i] : i);
}}
extern "C" __global__ void put(const __grid_constant__ Commands a) {{
    long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
    for (u64 k = 0; k < a.n; k++) {{
        const Command& c = a.command[k];
        const u64* from = a.word + c.from;
        int size = c.how & 255;
        if (c.how & {FROM}) {{
            u64 addresses = u64(c.at) | *from;
            if (addresses % 16 == 0) copy<ulonglong2>(c.at, (const char*)*from, c.count, first, step);
            else if (addresses % 4 == 0) copy<unsigned>(c.at, (const char*)*from, c.count, first, step);
            else copy<char>(c.at, (const char*)*from, c.count, first, step);
        }} else if (c.how & {STRIDED}) {{
            if (c.how & {WIDEN}) copy_strided<long long, int>(c, from, first, step);
            else if (size == 4) copy_strided<unsigned>(c, from, first, step);
            else if (size == 8) copy_strided<u64>(c, from, first, step);
            else if (size == 2) copy_strided<unsigned short>(c, from, first, step);
            else copy_strided<char>(c, from, first, step);
        }} else if (c.how & {REPLACE}) {{
            const int* x = (const int*)from[0];
            for (long long i = first; i < c.count; i += step)
                ((long long*)c.at)[i] = x[i] == (long long)from[1] ? (long long)from[2] : x[i];
        }} else if (c.how & {WIDE}) {{
            fill_wide(c.at, c.count * size, *from, first, step);
        }} else if (c.how & {EACH | OWN}) {{
            const u64* values = c.how & {OWN} ? 0 : from;
            if (size == 4) write_each<unsigned>(c, values, first, step);
            else if (size == 8) write_each<u64>(c, values, first, step);
            else if (size == 2) write_each<unsigned short>(c, values, first, step);
            else write_each<char>(c, values, first, step);
        }} else {{
            bool spot = c.how & {SPOT};  // by the thread that has this unit in any command
            long long begin = !spot ? first : first == c.count % step ? 0 : 1, end = spot ? 1 : c.count;
            if (size == 4) fill<unsigned>(c, unsigned(*from), begin, end, step);
            else if (size == 8) fill<u64>(c, *from, begin, end, step);
            else if (size == 2) fill<unsigned short>(c, (unsigned short)*from, begin, end, step);
            else fill<char>(c, char(*from), begin, end, step);
        }}
    }}
}}
"""  # noqa: E501
MODULE = TEXT + extremes.TEXT


def is_wide(array: Any) -> bool:
    """Whether a single value is written to an array in units of 16 bytes."""
    return bool(array.strides[0] == array.dtype.itemsize and array.data.ptr % 16 == 0)


def is_large(values: Any) -> bool:
    """Whether values are a host array that does not fit into the arguments of a launch."""
    return isinstance(values, np.ndarray) and values.size > MOST_VALUES


def widens(array: Any, values: Any) -> bool:
    """Whether int32 values are written to an int64 array."""
    return bool(values.dtype == np.int32 and array.dtype == np.int64)


def is_dense(array: Any) -> bool:
    """Whether a one-dimensional array is contiguous."""
    return bool(array.size == 1 or array.strides[0] == array.dtype.itemsize)


def one_dimensional(array: Any, values: Any) -> list[Write] | None:
    """Split a write into writes to one-dimensional arrays; None if `SmallCopies` cannot do it.

    ``values`` have the array's dtype: a NumPy array (zero-dimensional for a scalar), or an array on
    the same GPU that shares no memory with the target.
    """
    single = values.ndim == 0 and isinstance(values, np.ndarray)
    if array.ndim == 1 and (single or array.shape == values.shape):
        return [(array, values[()] if single else values)]
    if array.flags.c_contiguous:
        if single:
            return [(array.reshape(-1), values[()])]
        if array.shape == values.shape and values.flags.c_contiguous:
            return [(array.reshape(-1), values.reshape(-1))]
    if array.ndim != 2 or array.shape[1] > MOST_VALUES:
        return None
    row = isinstance(values, np.ndarray) and values.shape == array.shape[1:]
    if not (single or row or values.shape == array.shape):
        return None
    return [(array[:, k], values[()] if single else values[..., k]) for k in range(array.shape[1])]


class Commands:
    """The arguments of one launch."""

    def __init__(self) -> None:
        self.arguments = np.zeros(BEFORE + VALUES, np.int64)
        self.words = self.arguments.data
        self.commands = self.arguments[1:BEFORE].reshape(-1, 4)
        self.values = self.arguments[BEFORE:]
        self.pointers = (ctypes.c_void_p * 1)(self.arguments.ctypes.data)
        self.given = ctypes.addressof(self.pointers)
        self.clear()

    def clear(self) -> None:
        """Remove all commands."""
        self.n = self.at = self.largest = 0

    def add(self, array: Any, values: Any) -> bool:
        """Write values to an array; False if the launch has no space for them.

        The values have the array's dtype, or are int32 in memory of the GPU, and the array int64.
        """
        count, kind = array.size, array.dtype
        if not count:
            return True
        if hasattr(values, "__cuda_array_interface__"):
            return self.copied(array, values.data.ptr, values.strides[0], values.dtype.itemsize)
        each = isinstance(values, np.ndarray) and values.ndim > 0
        k = count if each else 1
        if self.n == COMMANDS or self.at + k > VALUES:
            return False
        how = kind.itemsize | (EACH if each else 0)
        if values is IOTA:
            how |= OWN
        elif each:
            self.values[self.at : self.at + k].view(kind)[:: 8 // kind.itemsize] = values
        else:
            self.value(kind, values)
            how |= WIDE if is_wide(array) else 0
        self.command(array.data.ptr, count, array.strides[0], how | self.at << 32)
        self.at += k
        return True

    def value(self, kind: Any, value: Any) -> None:
        """Set the next word to a value of a type, as often as it has space."""
        try:
            at, same = 8 * (BEFORE + self.at), (value,) * (8 // kind.itemsize)
            FILLS[kind.char].pack_into(self.words, at, *same)
        except (KeyError, struct.error):  # another type, or a value of one: NumPy converts it
            self.values[self.at : self.at + 1].view(kind)[:] = value

    def copied(self, array: Any, at: int, stride: int, size: int) -> bool:
        """Copy as many values of ``size`` bytes as an array has; False if there is no space."""
        same = size == array.dtype.itemsize
        if same and is_dense(array) and (stride == size or array.size == 1):
            if not self.single(at, FROM, array.data.ptr, array.nbytes):
                return False
            self.largest = max(self.largest, array.nbytes // 16 + 1)
            return True
        if self.n == COMMANDS or self.at + 2 > VALUES:
            return False
        self.values[self.at : self.at + 2] = at, stride
        how = array.dtype.itemsize | STRIDED | (0 if same else WIDEN) | self.at << 32
        self.command(array.data.ptr, array.size, array.strides[0], how)
        self.at += 2
        return True

    def replacement(self, array: Any, values: Any, old: int, new: int) -> None:
        """Add a command of `SmallCopies.replace`, as the first."""
        self.values[:3] = values.data.ptr, old, new
        self.command(array.data.ptr, array.size, 8, REPLACE)
        self.at += 3

    def single(self, x: int, how: int, at: int, count: int) -> bool:
        """Add a command with one value; False if the launch has no space for it."""
        if self.n == COMMANDS or self.at == VALUES:
            return False
        self.values[self.at] = x
        COMMAND.pack_into(self.words, 8 + 32 * self.n, at, count, 0, how | self.at << 32)
        self.n, self.at = self.n + 1, self.at + 1
        return True

    def command(self, at: int, count: int, stride: int, how: int) -> None:
        """Add a command; the caller has checked that there is space."""
        COMMAND.pack_into(self.words, 8 + 32 * self.n, at, count, stride, how)
        self.n += 1
        units = count * (how & 255) // 16 + 1 if how & WIDE else count
        self.largest = max(self.largest, units)


class Staging:
    """Pinned memory that a launch reads, reused when the launch has ended.

    Attributes
    ----------
    used : bool
        Whether launches that are enqueued now read it.
    """

    def __init__(self, pin: Any, event: Any) -> None:
        self.pin, self.event, self.used = pin, event, False
        self.pinned: Any = None
        self.values = np.zeros(0, np.uint8)

    def place(self, arrays: Sequence[tuple[np.ndarray[Any, Any], Any]]) -> list[int]:
        """Copy arrays of the host, each as a dtype; returns their addresses."""
        sizes = [-(-a.size * kind.itemsize // 16) * 16 for a, kind in arrays]
        self.event.synchronize()
        if sum(sizes) > self.values.size:
            size = max(2 * sum(sizes), LEAST_STAGED)
            self.pinned = self.pin(size)
            self.values = np.frombuffer(self.pinned, np.uint8, size)
        places, begin = [], 0
        for (a, kind), size in zip(arrays, sizes, strict=True):
            self.values[begin : begin + a.size * kind.itemsize].view(kind)[:] = a
            places.append(self.pinned.ptr + begin)
            begin += size
        self.used = True
        return places


class SmallCopies:
    """Writes to and reads from one GPU, on CuPy's current stream."""

    def __init__(self, index: int) -> None:
        cupy = import_cupy()
        self.device = cupy.cuda.Device(index)
        self.lock = threading.Lock()
        with self.device:
            self.module = loaded(MODULE, index, "put")
            self.function = self.module.get_function("put").ptr
            self.context = cupy.cuda.driver.ctxGetCurrent()
            self.pin = cupy.cuda.alloc_pinned_memory
            self.pinned = self.pin(SMALL)
            event = cupy.cuda.Event(disable_timing=True)
        self.staging = Staging(self.pin, event)
        self.pinned_bytes = np.frombuffer(self.pinned, np.uint8, SMALL)
        self.pinned_address = self.pinned.ptr
        self.stream, self.launch = cupy.cuda.get_current_stream, cupy.cuda.driver.launchKernel
        self.current = cupy.cuda.driver.ctxGetCurrent
        self.set_current = cupy.cuda.driver.ctxSetCurrent
        self.copy, self.wait = cupy.cuda.runtime.memcpyAsync, cupy.cuda.runtime.streamSynchronize
        self.query, self.new_stream = _stream_query(), cupy.cuda.Stream
        self.commands = Commands()
        self._extremes: Extremes | None = None

    def put(self, writes: Sequence[Write]) -> None:
        """Write values to arrays; two writes may not overlap."""
        with self.lock:
            c = self.commands
            c.clear()
            large = [w for w in writes if is_large(w[1])]
            if large:
                self._stage(large)
            for write in writes:
                if not is_large(write[1]):
                    self._add(Commands.add, *write)
            if c.n:
                self.start(c)
            self.staging.used = False

    def _stage(self, writes: Sequence[Write]) -> None:
        """Add commands that write large arrays of the host, from pinned memory."""
        kinds = [x.dtype if widens(array, x) else array.dtype for array, x in writes]
        places = self.staging.place([(x, kind) for (_, x), kind in zip(writes, kinds, strict=True)])
        for (array, _), kind, at in zip(writes, kinds, places, strict=True):
            self._add(Commands.copied, array, at, kind.itemsize, kind.itemsize)

    def _add(self, add: Any, *write: Any) -> None:
        """Add a command; if the launch has no space for it, start that and begin another one."""
        c = self.commands
        if not add(c, *write):
            self.start(c)
            c.clear()
            added = add(c, *write)
            assert added, "too many values for a small copy"

    def replace(self, array: Any, values: Any, old: int, new: int) -> None:
        """Write int32 values to an int64 array, with ``new`` in place of ``old``."""
        with self.lock:
            c = self.commands
            c.clear()
            c.replacement(array, values, old, new)
            if array.size:
                self.start(c)

    def start(self, c: Commands) -> None:
        """Launch the kernel."""
        c.arguments[0] = c.n
        blocks = min(-(-c.largest // BLOCK), BLOCKS)
        if (before := self.current()) == self.context:
            self._launch(blocks, c.given)
            return
        self.set_current(self.context)  # takes less time than `elsewhere`
        try:
            self._launch(blocks, c.given)
        finally:
            self.set_current(before)

    def _launch(self, blocks: int, given: int) -> None:
        stream = self.stream()
        self.launch(self.function, blocks, 1, 1, BLOCK, 1, 1, 0, stream.ptr, given, 0)
        if self.staging.used:
            self.staging.event.record(stream)

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Make this GPU current in a thread with another current GPU, or none (a new thread)."""
        with self.device:
            self.set_current(self.context)
            yield

    def fetch(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy a small C-contiguous array to the host."""
        with self.lock:
            if self.current() == self.context:
                self.transfer(self.pinned_address, array.data.ptr, array.nbytes)
            else:
                with self.elsewhere():
                    self.transfer(self.pinned_address, array.data.ptr, array.nbytes)
            found: np.ndarray[Any, Any] = self.pinned_bytes[: array.nbytes].view(array.dtype)
            return found.reshape(array.shape).copy()

    def extremes(self, arrays: Sequence[Any]) -> list[tuple[Any, Any]]:
        """The least and the largest value of each of a few arrays, see `Extremes`."""
        with self.lock, nullcontext() if self.current() == self.context else self.elsewhere():
            if self._extremes is None:
                self._extremes = Extremes(self)
            return self._extremes(arrays)

    def transfer(self, to: int, at: int, size: int) -> None:
        """Copy ``size`` bytes to pinned memory and wait for the stream; 0 bytes: only wait."""
        stream = self.stream().ptr
        if size:
            self.copy(to, at, size, TO_HOST, stream)
        self.wait(stream)

    def poll(self) -> None:
        """Wait for the stream; signal handlers run during the wait."""
        stream, begin = self.stream().ptr, perf_counter()
        while (code := self.query(stream)) == NOT_READY:
            if (past := perf_counter() - begin) > SHORT:
                sleep(min(past / 200, 0.005))
        if code:
            self.wait(stream)  # raises the error


@cache
def _stream_query() -> Any:
    """The driver's function, as that of the runtime would set "not ready" as the last error."""
    library = driver.load()
    library.cuStreamQuery.argtypes, library.cuStreamQuery.restype = [ctypes.c_void_p], ctypes.c_int
    return library.cuStreamQuery


class CudaReport:
    """Reads an array after each launch, through pinned memory: see `morph.runtime.backend.Report`.

    A fused program writes its state to ``address`` itself.
    """

    def __init__(self, on: SmallCopies, values: Any) -> None:
        self.on, self.source = on, values.data.ptr
        with on.elsewhere():
            self.pinned = on.pin(values.nbytes)
        self.size, self.address = values.nbytes, self.pinned.ptr
        self.values = np.frombuffer(self.pinned, np.int64, values.size).data
        self.values[ENDED] = 0

    def wait(self, written: bool, interruptible: bool = True) -> memoryview:
        """Wait for the launch and return the values."""
        on, size = self.on, 0 if written else self.size
        if on.current() == on.context:
            self._wait(size, interruptible)
        else:
            with on.elsewhere():
                self._wait(size, interruptible)
        return self.values

    def poll(self, launch: int, interruptible: bool = True) -> memoryview:
        """See `morph.runtime.backend.Report`."""
        values = self.values
        for _ in range(POLLS):
            if values[ENDED] == launch:
                return values
        return self.wait(True, interruptible)

    def _wait(self, size: int, interruptible: bool) -> None:
        if interruptible:
            self.on.poll()
        if size or not interruptible:
            self.on.transfer(self.address, self.source, size)

    def ended(self, launch: int) -> memoryview | None:
        """See `morph.runtime.backend.Report`."""
        values = self.values
        for _ in range(POLLS_OF_ONE):
            if values[ENDED] == launch:
                return values
        with self.on.elsewhere():
            ready = self.on.query(self.on.stream().ptr) != NOT_READY
        return self.wait(launch >= 0) if ready else None

    def stop(self, barrier: Any, word: int) -> None:
        """Write 1 to a barrier word that a running launch polls; wait; clear all words."""
        on, one = self.on, np.ones(1, np.uint32)
        with on.elsewhere():
            beside = on.new_stream(non_blocking=True)
            on.copy(barrier[word:].data.ptr, one.ctypes.data, 4, TO_DEVICE, beside.ptr)
            on.wait(beside.ptr)
            on.wait(on.stream().ptr)
        on.put([(barrier, 0)])


class CudaWriter:
    """Repeats the same writes by one kernel, see `morph.runtime.backend.Writer`."""

    most = MOST_SEEDS

    def __init__(self, on: SmallCopies, writes: Sequence[Write], seeds: Seeds | None) -> None:
        self.on, self.commands = on, (c := Commands())
        self.fits = all([c.add(*w) for w in writes])  # else they take several launches
        self.seeds = seeds
        if seeds is not None:
            needs = 2 + len(seeds.beside) + MOST_SEEDS * len(seeds.columns)
            self.fits &= c.n + needs <= COMMANDS and c.at + 8 + MOST_SEEDS + needs <= VALUES
            if self.fits:
                self._prepare(seeds)

    def _prepare(self, seeds: Seeds) -> None:
        """Add the commands for seeds; `write` sets their numbers of rows and their values.

        Sets ``counters`` and ``rows``, views of the values that `write` replaces; ``counted``, the
        words with the number of rows in commands; ``columns``, for each column its address, stride,
        bytes that `SPOT` counts per row, and command; ``fixed``, the number of commands so far.
        """
        c = self.commands
        self.counters = c.values[c.at : c.at + seeds.counters.size]
        c.add(seeds.counters, np.zeros(seeds.counters.size, seeds.counters.dtype))
        self.rows, first = c.values[c.at : c.at + MOST_SEEDS].view(np.int32)[::2], c.n
        c.command(seeds.item.data.ptr, 0, seeds.item.strides[0], 4 | EACH | c.at << 32)
        c.at += MOST_SEEDS
        for array, value in seeds.beside:
            wide = WIDE if is_wide(array) else 0
            c.command(array.data.ptr, 0, array.strides[0], array.dtype.itemsize | wide | c.at << 32)
            self._value(array, value)
        self.counted = [1 + 4 * k + 1 for k in range(first, c.n)]
        self.columns = []
        for array, value in seeds.columns:
            size = array.dtype.itemsize
            each = size if is_wide(array) else 16
            self.columns.append((array.data.ptr, array.strides[0], each, size | SPOT | c.at << 32))
            self._value(array, value)
        self.fixed = c.n
        c.largest = max(c.largest, seeds.counters.size)

    def _value(self, array: Any, value: Any) -> None:
        """Append a value in an array's dtype."""
        c = self.commands
        c.values[c.at : c.at + 1].view(array.dtype)[0] = value
        c.at += 1

    def write(self, rows: Any, copies: Any, counters: Any) -> None:
        """Make the writes, then those of the seeds."""
        c = self.commands
        if self.seeds is not None:
            n, count, words = self.fixed, len(rows), c.words
            self.counters[:] = counters
            self.rows[:count] = rows
            for at in self.counted:
                words[at] = count
            for row in (*rows.tolist(), *copies.tolist()):
                for at, step, each, how in self.columns:
                    COMMAND.pack_into(words, 8 + 32 * n, at + row * step, row * each // 16, 0, how)
                    n += 1
            c.n = n
        if c.n:  # else all arrays are empty
            self.on.start(c)
