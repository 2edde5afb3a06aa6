"""Arrays in host memory: NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from ctypes import addressof, c_char
from pathlib import Path
from typing import Any

import numpy as np

from morph.language.dtypes import ID_LIMIT
from morph.language.hooks import Hook
from morph.runtime import arrays
from morph.runtime.arrays import Array, is_host
from morph.runtime.backend import IOTA, Launch, Seeds, Write
from morph.runtime.device import Device
from morph.runtime.threads import in_threads

ALIGN = 64  # bytes; a cache line, and two sectors of GPU memory
WRITE_BY_THREADS = 1 << 22  # bytes of an array from which on several threads write to it
COPY_BY_THREADS = 1 << 24  # the same of results and fills; threads begin too late for smaller ones
WRITTEN_AT_ONCE = 1 << 18  # bytes that a thread then writes at once
REDUCED_AT_ONCE = 1 << 15  # rows that a thread reduces at once
REDUCED_BY_THREADS = 32  # such pieces from which on several threads reduce an array
_UNCHANGED: AbstractContextManager[None] = nullcontext()
_load: Hook[Launch] = Hook("morph.runtime.cpu.launch:load")
_build: Hook[Any] = Hook("morph.runtime.cpu.launch:build")


def _extremes(array: Array) -> tuple[Any, Any]:
    """Return the least and the largest value, of large arrays by several threads."""
    if array.size <= REDUCED_AT_ONCE:  # also a single number
        array = np.ascontiguousarray(array)
        return array.min().item(), array.max().item()
    parts = -(-len(array) // REDUCED_AT_ONCE)
    least, most = np.empty(parts, array.dtype), np.empty(parts, array.dtype)

    def reduce_parts(first: int, end: int) -> None:
        for k in range(first, end):
            part = array[k * REDUCED_AT_ONCE : (k + 1) * REDUCED_AT_ONCE]
            part = np.ascontiguousarray(part)  # NumPy's reductions are then many times as fast
            least[k], most[k] = part.min(), part.max()

    if parts < REDUCED_BY_THREADS:
        reduce_parts(0, parts)
    else:
        in_threads(reduce_parts, parts)
    return least.min().item(), most.max().item()


def _by_parts(array: Array, work: Callable[[int, int], None], least: int) -> None:
    """Call ``work(first, end)`` for rows that fit a cache, from ``least`` bytes on by threads.

    Threads share the page faults of new memory.
    """
    step = -(-len(array) * WRITTEN_AT_ONCE // max(array.nbytes, 1)) or 1
    parts = -(-len(array) // step)

    def work_on_parts(first: int, end: int) -> None:
        for k in range(first, end):
            work(k * step, min((k + 1) * step, len(array)))

    if array.nbytes < least:
        work_on_parts(0, parts)
    else:
        in_threads(work_on_parts, parts)


def _fill(array: Array, value: float) -> None:
    """Write a number to all elements; ``fill`` takes a tenth of the time of an assignment."""
    if array.nbytes < COPY_BY_THREADS:
        array.fill(value)
    else:
        _by_parts(array, lambda first, end: array[first:end].fill(value), COPY_BY_THREADS)


class HostDevice(Device):
    """The host's memory and its CPU."""

    on_host = True
    interprets = False
    local_limit = 1 << 20  # below the size of a thread's stack
    bulk = 1 << 20
    serial_items = 500  # just below TEAM_START_ITEMS in kernels/team_cpu.h
    throughput = 1 << 21

    def active(self) -> AbstractContextManager[Any]:
        return _UNCHANGED

    def buffer(self, nbytes: int) -> Array:
        raw = np.zeros(nbytes + ALIGN, np.uint8)
        start = -self.pointer(raw) % ALIGN
        return raw[start : start + nbytes]

    def free(self) -> int | None:
        """Return the free memory for this process on Linux, including limits of control groups."""
        try:
            lines = Path("/proc/meminfo").read_text().splitlines()
            free = next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable")) << 10
        except (OSError, StopIteration):
            return None
        with suppress(OSError, ValueError):  # no limit: the file is missing, or contains "max"
            group = Path("/sys/fs/cgroup")
            limit = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            cached = (group / "memory.stat").read_text().split()
            given_back = int(cached[cached.index("inactive_file") + 1])
            free = min(free, limit - used + given_back)
        return free

    def strided(
        self, buffer: Array, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any
    ) -> Array:
        """View bytes as an array that begins at ``offset`` and has these strides."""
        return np.ndarray(shape, dtype, buffer=buffer, offset=offset, strides=strides)

    def pointer(self, x: Array) -> int:
        try:
            return addressof(c_char.from_buffer(x))  # a fifth of the time of NumPy's interface
        except (TypeError, ValueError, BufferError):  # empty, strided or read-only
            return int(x.__array_interface__["data"][0])

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        if type(x) is np.ndarray:
            return x if dtype is None else np.asarray(x, dtype)
        return np.asarray(self.to_host(x), dtype)

    def asarrays(self, *given: Any) -> list[Array]:
        return arrays.all_to_host(given)

    def copy(self, x: Any) -> Array:
        return np.array(x) if is_host(x) else self.to_host(x)

    def copies(self, *sources: Array) -> list[Array]:
        return [x.copy() if x.nbytes < COPY_BY_THREADS else self._copied(x) for x in sources]

    def _copied(self, x: Array) -> Array:
        made = np.empty(x.shape, x.dtype)
        self.write(made, x)
        return made

    def replaced(self, x: Array, old: int, new: int, dtype: Any) -> Array:
        if x.ndim != 1:
            return super().replaced(x, old, new, dtype)
        made = np.empty(x.shape, dtype)

        def replace_rows(first: int, end: int) -> None:
            made[first:end] = x[first:end]
            np.putmask(made[first:end], x[first:end] == old, new)

        _by_parts(made, replace_rows, COPY_BY_THREADS)
        return made

    def to_host(self, x: Any) -> np.ndarray[Any, Any]:
        return x if type(x) is np.ndarray else arrays.to_host(x)

    def write(self, array: Array, values: Any) -> None:
        """Write values, large arrays by several threads, which share page faults of new memory."""
        if getattr(values, "ndim", 0):
            values = self.asarray(values)
        if array.nbytes < WRITE_BY_THREADS:
            array[...] = values
            return None
        values = self.asarray(values)
        if values.ndim > array.ndim or np.may_share_memory(array, values):
            return super().write(array, values)  # NumPy copies values that lie where it writes
        values = np.broadcast_to(values, array.shape)

        def write_rows(first: int, end: int) -> None:
            array[first:end] = values[first:end]

        _by_parts(array, write_rows, WRITE_BY_THREADS)

    def extremes(self, *arrays: Array) -> list[tuple[Any, Any]]:
        return [_extremes(a) for a in arrays]

    def put(self, *writes: Write) -> None:
        for array, values in writes:
            if values.__class__ in (int, float, bool):
                _fill(array, values)
            else:
                array[:] = np.arange(array.size) if values is IOTA else values

    def prepared(self, writes: Sequence[Write], seeds: Sequence[Any] | None = None) -> HostWriter:
        return HostWriter(self, writes, None if seeds is None else Seeds(*seeds))

    def load(self, code: Any, faults: bool, seed: int) -> Any:
        return _load(code.outline, code.text, faults, code.interruptible, code.rebuilt)

    def build(self, code: Any) -> None:
        _build(code.outline, code.text, code.rebuilt)

    def report(self, values: Array) -> HostReport:
        return HostReport(values)

    def synchronize(self) -> None:
        """Do nothing: a launch has ended when the call returns."""


class HostWriter:
    """Repeats the same writes, see `morph.runtime.backend.Writer`."""

    fits, most = True, ID_LIMIT

    def __init__(self, on: Device, writes: Sequence[Write], seeds: Seeds | None) -> None:
        self.on, self.writes, self.seeds = on, writes, seeds

    def write(self, rows: Any, copies: Any, counters: Any) -> None:
        """Execute the writes; the host has already set the list's ``counters``."""
        self.on.put(*self.writes)
        if self.seeds is not None:
            k = len(rows)
            self.seeds.item[:k] = rows
            for array, x in self.seeds.beside:
                array[:k] = x
            at = rows[0] if k == 1 else rows  # an index is faster than an array of one
            for array, x in self.seeds.columns:
                array[at] = x
                if len(copies):
                    array[copies] = x


class HostReport:
    """Reads values in place, without a copy."""

    def __init__(self, values: Array) -> None:
        self.values, self.address = memoryview(values), 0

    def wait(self, written: bool, interruptible: bool = True) -> memoryview:
        return self.values

    def poll(self, launch: int, interruptible: bool = True) -> memoryview:
        return self.values

    def ended(self, launch: int) -> memoryview:
        """Return the values: a launch has ended when the call returns."""
        return self.values

    def stop(self, barrier: Array, word: int) -> None:
        """Do nothing: a launch has ended when the call returns."""


def find(index: int) -> HostDevice:
    """Return the device ``cpu``."""
    return HostDevice("cpu", index, np)
