"""Memory shared by all launches on a device: status, barrier, high-degree list, bitmaps."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from functools import cached_property
from typing import Any

import numpy as np

from morph.compiler.ir.layout import Status
from morph.data.store import HIDDEN
from morph.language.hooks import Hook
from morph.language.weak import WeakObjects
from morph.runtime.device import Device, device
from morph.runtime.threads import get_num_threads
from morph.runtime.timing import used_devices

checks: Hook[Any] = Hook("morph.launch.violations:Checks")
# A long row that does not fit the list of a GPU is left to a single warp, and a worklist may have a
# row several times: entries of most kernels have 32 bytes.
LIST_BYTES = 1 << 28  # maximum of a side, unless 8 bytes for each possible row are more
ENTRY_BYTES = 64  # bytes of an entry of the list of high-degree vertices
STATUS_WORDS, STATE_WORDS = 64, 192  # words of the status, and of a program's state
STOP = 32  # index in ``barrier`` of the request to stop a GPU's launch; see kernels/target_cuda.h
POOL_WORD = 16  # index in ``barrier`` of the address of the thread pool; see kernels/target_cpu.h
ROUNDS = 1 << 25  # of claims before the count restarts at 0; a key has bits for twice as many


class Scratch:
    """Memory shared by all launches on a device.

    One host thread at a time launches on a device: the thread that holds ``lock``.

    Attributes
    ----------
    version : int
        Changes whenever one of the arrays is replaced.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.dirty = False  # a launch that can fail has begun, and not ended normally
        self.running = False  # a launch is in progress
        self.claimed: WeakObjects[Any] = WeakObjects()  # stores with owner arrays
        self.results = device.zeros(STATUS_WORDS + STATE_WORDS, np.int64)  # fetched together
        self.status = self.results[:STATUS_WORDS]
        self.report = device.report(self.results)
        self.barrier = device.zeros(64, np.uint32)
        self.cursor = device.zeros(64, np.int64)
        self.high_degree = self._list(0)
        self.bits = {kind: device.zeros(1024, np.uint32) for kind in ("deferred", "lost", "ready")}
        self.queue = device.zeros(1024, np.uint32)
        self.launches = 0
        self.version = 0
        self._addresses: tuple[int, dict[str, int]] = -1, {}  # of a version

    @cached_property
    def checks(self) -> Any:
        """State shared by checked launches."""
        return checks(self.device)

    def allocate(self, items: int, edges: int, threads: int) -> None:
        """Allocate the arrays of a launch over ``items`` items; bits that are set are kept.

        These are a zeroed bit, and on a GPU a queue element, for each item, and a list of the
        high-degree vertices (64 edges or more) of a graph with ``edges`` edges; a negative number
        means no list.  A thread that could not reserve an entry may overrun the list by one.
        """
        size = -(-items // 32)
        for kind, bits in self.bits.items():
            if size > bits.size:
                bigger = self.device.zeros(max(size, 2 * bits.size), np.uint32)
                self.device.put((bigger[: bits.size], bits))
                self.version += 1  # before the change, in case an interrupt comes in between
                self.bits[kind] = bigger
        if not self.device.on_host and items > self.queue.size:
            self.version += 1
            self.queue = self.device.zeros(max(items, 2 * self.queue.size), np.uint32)
        if edges >= 0:
            rows = 1024 + edges // 64
            side = max(8 * rows, 0 if self.device.on_host else min(32 * rows, LIST_BYTES))
            self._allocate_list(side + 3 * ENTRY_BYTES * threads)

    def grow_high_degree_list(self, threads: int) -> None:
        """Double the capacity of the list for the entries that it holds."""
        waiting = int(self.device.to_host(self.high_degree[:1])[0]) >> 32
        self._allocate_list((waiting + 4 * threads) * ENTRY_BYTES)

    def addresses(self) -> dict[str, int]:
        """The addresses of the arrays, by their fields in the argument block."""
        version, known = self._addresses
        if version != self.version:
            version = self.version
            arrays = {
                "status": self.status, "barrier": self.barrier, "cursor": self.cursor,
                "high_degree": self.high_degree, "queue": self.queue, **self.bits,
            }  # fmt: skip
            known = {kind: self.device.pointer(array) for kind, array in arrays.items()}
            self._addresses = version, known
        return known

    def _allocate_list(self, side: int) -> None:
        """Allocate ``side`` bytes on each side of the list; entries are kept."""
        old = 4 * (self.high_degree.size - 8)
        if side <= old:
            return
        side, before = -(-side // 64) * 8, self.high_degree
        made = self._list(side)
        parts = [(8 + k * side, 8 + k * (old // 8), old // 8) for k in (0, 1)]
        header = (0, 0, 1), (2, 2, 2)
        self.device.put(
            *((made[to : to + n], before[at : at + n]) for to, at, n in (*header, *parts))
        )
        self.version += 1
        self.high_degree = made

    def _list(self, size: int) -> Any:
        """An empty list of two sides, with their size in bytes in its header."""
        made = self.device.zeros(8 + 2 * size, np.int64)
        self.device.put((made[1:2], 8 * size))
        return made

    def state_for(self, size: int) -> Any:
        """Memory for the state of a running program."""
        if size > STATE_WORDS:
            return self.device.zeros(size, np.int64)
        return self.results[STATUS_WORDS : STATUS_WORDS + size]

    def begin(self) -> None:
        """Clear the status, also after a launch that an error or interrupt has ended."""
        if self.dirty:
            flags = Status.EXCEEDED, Status.FAILED, Status.LOCAL
            counts = [self.status[k : k + 1] for k in flags] + [self.status[Status.STORES :]]
            counts += [self.high_degree[k : k + 1] for k in (0, 2)]
            self.device.put(*((array, 0) for array in (*counts, *self.bits.values())))
        self.dirty = True

    def stop(self) -> None:
        """End the running launch at its next barrier, and wait until it has ended."""
        self.dirty = True
        self.report.stop(self.barrier, STOP)

    def recount(self) -> None:
        """Restart the count of claim rounds at 0: clear the owner of each row."""
        owners = [(store.hidden("owner"), HIDDEN["owner"][1]) for store in self.claimed]
        self.device.put(*owners, (self.status[Status.ROUND : Status.ROUND + 1], 0))


_scratch: dict[str, Scratch] = {}


def scratch(device: Device) -> Scratch:
    """The scratch memory of a device."""
    if device.name not in _scratch:
        _scratch.setdefault(device.name, Scratch(device))  # atomic: threads may call this at once
        used_devices[device.name] = device
    return _scratch[device.name]


class _Limit(ctypes.Structure):
    """The first fields of ``Pool`` in kernels/target_cpu.h."""

    _fields_ = (
        ("limited_until", ctypes.c_int64),
        ("limit", ctypes.c_int32),
        ("free", ctypes.c_int32),
    )


def available_threads() -> int:
    """Number of CPU threads of a launch: fewer while other processes use the cores."""
    most = get_num_threads()
    address = int(scratch(device("cpu")).barrier[POOL_WORD : POOL_WORD + 2].view(np.uint64)[0])
    if not address:
        return most
    now = _Limit.from_address(address + 63 & ~63)
    most = min(now.free or most, most)
    limited = now.limit and time.clock_gettime_ns(time.CLOCK_MONOTONIC) < now.limited_until
    return min(now.limit, most) if limited else most


def _forked() -> None:
    """Reset the locks in a child process, which has none of the parent's other threads."""
    for s in _scratch.values():
        s.lock, s.dirty, s.running = threading.RLock(), True, False
        if s.device.on_host:
            s.barrier[:] = 0
            s.cursor[:] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
