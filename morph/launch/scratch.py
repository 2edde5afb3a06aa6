"""What launches on a device share: a little memory for status, barriers and lists of their own."""

from __future__ import annotations

import os
import threading
import weakref
from functools import cached_property
from typing import Any

import numpy as np

from morph.compiler.ir.abi import Status
from morph.data.store import HIDDEN
from morph.launch.violations import Checks
from morph.runtime.device import Device
from morph.runtime.timing import used

HUB = 64  # bytes of a row on the list, of which something is left
STATUS, STATE = 64, 192  # words of the status, and of a program's state
STOP = 32  # index in ``barrier`` of the request to stop a GPU's launch; see kernels/target_cuda.h
ROUNDS = 1 << 25  # of claims, then they count from 0 again: a key has room for twice as many


class Scratch:
    """What every launch on a device shares: status, barrier and work-sharing words, replay bits.

    So one thread of the host at a time launches on a device, and holds ``lock``.

    Attributes
    ----------
    version : int
        Another one whenever any of the arrays is another.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.dirty = False  # a launch that can fail has begun, and not ended as it should
        self.running = False  # a launch is under way; one thread at a time launches
        self.claimed: weakref.WeakSet[Any] = weakref.WeakSet()  # stores whose rows have owners
        self.told = device.zeros(STATUS + STATE, np.int64)  # fetched together
        self.status = self.told[:STATUS]
        self.answer = device.answer(self.told)
        self.barrier = device.zeros(64, np.uint32)
        self.cursor = device.zeros(64, np.int64)
        self.hubs = self._list(0)
        self.bits = {kind: device.zeros(1024, np.uint32) for kind in ("pending", "lost")}
        self.queue = device.zeros(1024, np.uint32)
        self.launches = 0
        self.version = 0

    @cached_property
    def checks(self) -> Checks:
        """State shared by checked launches."""
        return Checks(self.device)

    def have(self, items: int, edges: int, threads: int) -> None:
        """Have room for a launch over so many items; bits that are set stay.

        There is a zeroed bit for each item, and on a GPU a word; and a list for the long rows of so
        many ``edges``, each of which has 64 or more (below 0: it needs none).  A thread may leave a
        row there for which there was no room, and overrun the list by one.
        """
        words = -(-items // 32)
        for kind, bits in self.bits.items():
            if words > bits.size:
                bigger = self.device.zeros(max(words, 2 * bits.size), np.uint32)
                bigger[: bits.size] = bits
                self.version += 1  # before, as everywhere here: an interrupt may come in between
                self.bits[kind] = bigger
        if self.device.kind == "cuda" and items > self.queue.size:
            self.version += 1
            self.queue = self.device.zeros(max(items, 2 * self.queue.size), np.uint32)
        if edges >= 0:
            self._have(8 * (1024 + edges // 64) + 3 * HUB * threads)

    def keep_hubs(self, threads: int) -> None:
        """Have as many places again for the rows that wait on the list."""
        waiting = int(self.device.to_host(self.hubs[:1])[0]) >> 32
        self._have((waiting + 4 * threads) * HUB)

    def arrays(self) -> dict[str, Any]:
        """What there is, by the words of a unit that have the addresses."""
        return {"status": self.status, "barrier": self.barrier, "cursor": self.cursor,
                "hubs": self.hubs, "queue": self.queue, **self.bits}  # fmt: skip

    def _have(self, side: int) -> None:
        """Have so many bytes on each side of the list; what is there stays."""
        old = 4 * (self.hubs.size - 8)
        if side <= old:
            return
        side, words = -(-side // 64) * 8, self.hubs
        made = self._list(side)
        with self.device.active():
            for k, at in enumerate((8, 8 + old // 8)):
                made[8 + k * side : 8 + k * side + old // 8] = words[at : at + old // 8]
            made[[0, 2, 3]] = words[[0, 2, 3]]
        self.version += 1
        self.hubs = made

    def _list(self, words: int) -> Any:
        """An empty list of two sides; it knows how many bytes each has."""
        made = self.device.zeros(8 + 2 * words, np.int64)
        made[1] = 8 * words
        return made

    def state_for(self, words: int) -> Any:
        """Words where a program keeps its state while it runs."""
        if words > STATE:
            return self.device.zeros(words, np.int64)
        return self.told[STATUS : STATUS + words]

    def begin(self) -> None:
        """Start from clean words, whatever stopped the launch before (memory, an interrupt)."""
        if self.dirty:
            with self.device.active():
                self.status[[Status.FAILED, Status.LOCAL]] = 0
                self.status[Status.STORES :] = 0
                self.hubs[[0, 2]] = 0
                for bits in self.bits.values():
                    bits[:] = 0
        self.dirty = True

    def stop(self) -> None:
        """End the running launch at its next barrier, and wait for its end."""
        self.dirty = True
        if self.device.kind == "cuda":
            self.answer.stop(self.barrier[STOP:])
            self.device.put((self.barrier, 0))

    def recount(self) -> None:
        """Count rounds of claims from 0 again: nobody owns anything."""
        with self.device.active():
            for store in self.claimed:
                store.hidden("owner")[:] = HIDDEN["owner"][1]
            self.status[Status.ROUND] = 0


_scratch: dict[str, Scratch] = {}


def scratch(device: Device) -> Scratch:
    """The scratch memory of a device."""
    if device.name not in _scratch:
        _scratch.setdefault(device.name, Scratch(device))  # atomic: threads may call this at once
        used[device.name] = device
    return _scratch[device.name]


def _forked() -> None:
    """In a child process: its other threads are gone, and so are their launches."""
    for s in _scratch.values():
        s.lock, s.dirty, s.running = threading.RLock(), True, False
        if s.device.kind != "cuda":
            s.barrier[:] = 0
            s.cursor[:] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
