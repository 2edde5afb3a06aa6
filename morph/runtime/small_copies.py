"""A few values to a GPU by one kernel, a few words back by one transfer.

What a launch needs before it, and what is asked after it, is small: columns at their fill, counters
of lists, a source.  CuPy takes a kernel or a copy for each.  Here they are the arguments of one
kernel, which the driver copies when it is launched: nothing is waited for.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from morph.runtime.toolchain import cuda

COMMANDS, WORDS = 24, 128  # of one launch: 1,800 bytes of arguments
FEW = 16  # values that are written one by one
MOST = 4  # rows that something begins with, written along with all else
SMALL = 4096  # bytes that are fetched through pinned memory
BLOCK, BLOCKS = 256, 528
EACH = 1 << 8  # every row has a value of its own
FROM = 1 << 9  # it is read from an array, whose address is the word
OWN = 1 << 10  # every row gets its own number
SPOT = 1 << 11  # one place, that of row `count`: whoever else writes this row does so before
IOTA = object()  # for a value: each row's own number
TO_DEVICE, TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost
NOT_READY = 600  # CUDA_ERROR_NOT_READY
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
    u64 word[{WORDS}];
}};
extern "C" __global__ void put(const __grid_constant__ Commands a) {{
    long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
    for (u64 k = 0; k < a.n; k++) {{
        const Command& c = a.command[k];
        int size = c.how & 255;
        bool each = c.how & {EACH}, own = c.how & {OWN};
        long long begin = first, end = c.count;
        if (c.how & {SPOT}) {{  // by the thread that has this row in any command
            begin = first == c.count % step ? 0 : 1;
            end = 1;
        }}
        if (c.how & {FROM}) {{  // of 8 bytes each, but for what is left
            u64* to = (u64*)c.at;
            const u64* from = (const u64*)a.word[c.from];
            for (long long i = first; i < c.count / 8; i += step) to[i] = from[i];
            if (first < c.count % 8) c.at[c.count / 8 * 8 + first] = ((const char*)from)[c.count / 8 * 8 + first];
            continue;
        }}
        for (long long i = begin; i < end; i += step) {{
            u64 x = own ? i : a.word[c.from + (each ? i : 0)];
            char* p = c.at + i * c.stride;
            if (size == 4) *(unsigned*)p = unsigned(x);
            else if (size == 8) *(u64*)p = x;
            else if (size == 2) *(unsigned short*)p = (unsigned short)x;
            else *p = char(x);
        }}
    }}
}}
"""  # noqa: E501

Write = tuple[Any, Any]
"""An array of one dimension on the device, and what to write there: a value, or one for each.

Or `IOTA`, or an array of the device: both of one type and size, contiguous, at multiples of 8.
"""


class Commands:
    """The arguments of one launch."""

    def __init__(self) -> None:
        self.arguments = np.zeros(1 + 4 * COMMANDS + WORDS, np.int64)
        self.commands = self.arguments[1 : 1 + 4 * COMMANDS].reshape(-1, 4)
        self.words = self.arguments[1 + 4 * COMMANDS :]
        self.pointers = (ctypes.c_void_p * 1)(self.arguments.ctypes.data)
        self.given = ctypes.addressof(self.pointers)
        self.clear()

    def clear(self) -> None:
        """Do nothing so far."""
        self.n = self.at = self.largest = 0

    def add(self, array: Any, values: Any) -> bool:
        """Write values to an array; False if there is no room for that."""
        count, kind = array.size, array.dtype
        if not count:
            return True
        if hasattr(values, "__cuda_array_interface__"):
            if not self.word(values.data.ptr, FROM, array.data.ptr, array.nbytes):
                return False
            self.largest = max(self.largest, array.nbytes // 8 + 1)
            return True
        each = isinstance(values, np.ndarray) and values.ndim > 0
        k = count if each else 1
        if self.n == COMMANDS or self.at + k > WORDS:
            return False
        how = kind.itemsize | (EACH if each else 0)
        if values is IOTA:
            how |= OWN
        else:
            self.words[self.at : self.at + k].view(kind)[:: 8 // kind.itemsize] = values
        self.command(array.data.ptr, count, array.strides[0], how | self.at << 32)
        self.at += k
        return True

    def word(self, x: int, how: int, at: int, count: int, stride: int = 0) -> bool:
        """Add a command with a word of its own; False if there is no room."""
        if self.n == COMMANDS or self.at == WORDS:
            return False
        self.words[self.at] = x
        self.commands[self.n] = at, count, stride, how | self.at << 32
        self.n, self.at = self.n + 1, self.at + 1
        return True

    def command(self, at: int, count: int, stride: int, how: int) -> None:
        """Add a command, for which there is room."""
        self.commands[self.n] = at, count, stride, how
        self.n += 1
        self.largest = max(self.largest, count)


class Words:
    """What writes and fetches a little on one GPU; on CuPy's current stream."""

    def __init__(self, index: int) -> None:
        import cupy  # noqa: PLC0415

        self.device = cupy.cuda.Device(index)
        self.lock = threading.Lock()
        with self.device:
            arch = f"sm_{self.device.compute_capability}"
            self.module = cupy.cuda.function.Module()
            self.module.load(cuda.build(TEXT, arch, name="put"))
            self.function = self.module.get_function("put").ptr
            self.context = cupy.cuda.driver.ctxGetCurrent()
            self.pin = cupy.cuda.alloc_pinned_memory
            self.pinned = self.pin(SMALL)
        self.landed, self.landing = np.frombuffer(self.pinned, np.uint8, SMALL), self.pinned.ptr
        self.stream, self.launch = cupy.cuda.get_current_stream, cupy.cuda.driver.launchKernel
        self.current = cupy.cuda.driver.ctxGetCurrent
        self.set_current = cupy.cuda.driver.ctxSetCurrent
        self.copy, self.wait = cupy.cuda.runtime.memcpyAsync, cupy.cuda.runtime.streamSynchronize
        self.query, self.new_stream = _stream_query(), cupy.cuda.Stream
        self.commands = Commands()

    def put(self, writes: Sequence[Write]) -> None:
        """Write values to arrays; no two of them may share a place."""
        with self.lock:
            c = self.commands
            c.clear()
            for array, values in writes:
                if not c.add(array, values):
                    self.start(c)
                    c.clear()
                    alone = c.add(array, values)
                    assert alone, "that many values are no few"
            if c.n:
                self.start(c)

    def start(self, c: Commands) -> None:
        """Launch the kernel."""
        c.arguments[0] = c.n
        blocks = min(-(-c.largest // BLOCK), BLOCKS)
        if self.current() == self.context:
            self._launch(blocks, c.given)
        else:
            with self.elsewhere():
                self._launch(blocks, c.given)

    def _launch(self, blocks: int, given: int) -> None:
        self.launch(self.function, blocks, 1, 1, BLOCK, 1, 1, 0, self.stream().ptr, given, 0)

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Work on this GPU where another one is current, or none: a new thread has none."""
        with self.device:
            self.set_current(self.context)
            yield

    def fetch(self, array: Any) -> np.ndarray[Any, Any]:
        """Give a copy of an array, C-contiguous and small, on the host."""
        with self.lock:
            if self.current() == self.context:
                self.transfer(self.landing, array.data.ptr, array.nbytes)
            else:
                with self.elsewhere():
                    self.transfer(self.landing, array.data.ptr, array.nbytes)
            landed: np.ndarray[Any, Any] = self.landed[: array.nbytes].view(array.dtype)
            return landed.reshape(array.shape).copy()

    def transfer(self, to: int, at: int, size: int) -> None:
        """Wait for a copy of some bytes to pinned memory; or, if there are none, for the stream."""
        stream = self.stream().ptr
        if size:
            self.copy(to, at, size, TO_HOST, stream)
        self.wait(stream)

    def wait_in_turns(self) -> None:
        """Wait for the stream, and let signal handlers run meanwhile."""
        stream, begin = self.stream().ptr, perf_counter()
        while (code := self.query(stream)) == NOT_READY:
            if (past := perf_counter() - begin) > SHORT:
                sleep(min(past / 200, 0.005))
        if code:
            self.wait(stream)  # raises what is wrong


@cache
def _stream_query() -> Any:
    """The driver's function: the runtime's would leave "not ready" behind as the last error."""
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    library.cuStreamQuery.argtypes, library.cuStreamQuery.restype = [ctypes.c_void_p], ctypes.c_int
    return library.cuStreamQuery


class Answer:
    """What a GPU tells the host when a launch has ended: a few words in the host's memory.

    Attributes
    ----------
    address : int
        Where a launch may write them itself.
    words : memoryview of int64
        Those of the latest launch.
    """

    def __init__(self, words: Words, told: Any) -> None:
        self.on, self.told = words, told.data.ptr
        with words.elsewhere():
            self.pinned = words.pin(told.nbytes)
        self.size, self.address = told.nbytes, self.pinned.ptr
        self.words = np.frombuffer(self.pinned, np.int64, told.size).data

    def hear(self, written: bool, interruptible: bool = True) -> memoryview:
        """Wait for the launch; give its words, those of the device unless it has ``written`` them.

        They are there until the next launch.  If ``interruptible``, signal handlers run meanwhile.
        """
        on, size = self.on, 0 if written else self.size
        if on.current() == on.context:
            self._hear(size, interruptible)
        else:
            with on.elsewhere():
                self._hear(size, interruptible)
        return self.words

    def _hear(self, size: int, interruptible: bool) -> None:
        if interruptible:
            self.on.wait_in_turns()
        if size or not interruptible:
            self.on.transfer(self.address, self.told, size)

    def stop(self, word: Any) -> None:
        """Write 1 to ``word``, which the launch under way looks at, and wait for the launch."""
        on, one = self.on, np.ones(1, np.uint32)
        with on.elsewhere():
            beside = on.new_stream(non_blocking=True)
            on.copy(word.data.ptr, one.ctypes.data, 4, TO_DEVICE, beside.ptr)
            on.wait(beside.ptr)
            on.wait(on.stream().ptr)


class Seeds(NamedTuple):
    """What begins with some rows of a table: a list of them, and columns of theirs.

    ``counters`` and ``item`` are the list's, ``beside`` what its entries hold else, ``columns``
    what the rows hold: arrays and the value that each gets.
    """

    counters: Any
    item: Any
    beside: list[Write]
    columns: list[Write]


class Prepared:
    """Writes that are made again and again, alike but for the rows that something begins with."""

    most = MOST

    def __init__(self, on: Words, writes: Sequence[Write], seeds: Seeds | None) -> None:
        self.on, self.made = on, (made := Commands())
        self.fits = all([made.add(*w) for w in writes])  # else they take several launches
        self.fixed = made.n, made.at, made.largest
        self.seeds = seeds
        if seeds is not None:
            needs = 2 + len(seeds.beside) + MOST * len(seeds.columns)
            self.fits &= made.n + needs <= COMMANDS and made.at + 8 + MOST + needs <= WORDS

    def write(self, rows: Any, counters: Any) -> None:
        """Write all; the ``rows`` are at most `most`, the list's counters what they shall be."""
        c, seeds = self.made, self.seeds
        if seeds is not None:
            c.n, c.at, c.largest = self.fixed
            c.add(seeds.counters, counters)
            c.add(seeds.item[: len(rows)], rows)
            for array, value in seeds.beside:
                c.add(array[: len(rows)], value)
            for array, value in seeds.columns:
                size, at = array.dtype.itemsize, array.data.ptr
                c.words[c.at : c.at + 1].view(array.dtype)[0] = value
                for row in rows.tolist():
                    c.commands[c.n] = at + row * array.strides[0], row, 0, size | SPOT | c.at << 32
                    c.n += 1
                c.at += 1
        if c.n:  # else all of it is of no rows
            self.on.start(c)
