"""Launches of all parts that meet at crossings: started together, waited for, and stopped.

See ``kernels/schedule/parts.h``.  On a CPU each part has a host thread; GPUs are all started by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from time import perf_counter, sleep
from typing import Any

import numpy as np

from morph.compiler.ir.abi import PartsLayout
from morph.compiler.ir.layout import MAILBOX, Parts, Status
from morph.launch.launcher import Launch
from morph.launch.locks import Locks
from morph.launch.scratch import STOP, scratch
from morph.partition.objects import LaunchOnParts
from morph.runtime.threads import Call, start

SHORT = 0.01  # seconds; a longer wait for GPUs sleeps in between


class LaunchOfOnePart(Launch):
    """The launch of one part; several threads of the host launch the same unit at once."""

    def _load(self) -> None:
        super()._load()
        if self.on_host:  # a binary keeps the arguments of its latest call
            self.binary = copy(self.binary)

    def start(self) -> None:
        """Start the launch; on a CPU it runs in the calling thread until its end."""
        if not self.on_host:
            self.scratch.report.values[Status.ENDED] = 0
        self.binary(self.arguments, self._items())

    def wait(self) -> memoryview:
        """Wait for the end of the launch and return the status."""
        compiled = self.compiled
        return self.scratch.report.wait(self.reported, compiled.interruptible)

    def ended(self) -> memoryview | None:
        """Return the status if the launch has ended."""
        s = self.scratch
        return s.report.ended(s.launches if self.reported else -1)


class LaunchOfAllParts(LaunchOnParts):
    """The launches of all parts for one program.

    Attributes
    ----------
    first_index : int
        Index in ``launches`` of the GPU that is launched first: the one with most items, for which
        the others wait at a crossing.

    Parameters
    ----------
    launches : list of LaunchOfOnePart
    layout : PartsLayout
        Of the array with which each part accesses the others.
    locks : context manager
        Locks that a run holds, too.
    """

    first_index = 0

    def __init__(self, launches: list[LaunchOfOnePart], layout: PartsLayout, *locks: Any) -> None:
        self.launches, self.layout = launches, layout
        devices = [p.device for p in launches]
        self.arrays = [d.zeros(layout.size, np.int64) for d in devices]
        self.mailboxes = [d.zeros(MAILBOX, np.int64) for d in devices]
        own, memories = [p.lock for p in launches], {p.scratch for p in launches}
        self.memories = sorted(memories | {scratch(d) for d in devices}, key=id)
        self.held = Locks.of([*locks, *own, *(memory.lock for memory in self.memories)])
        self.valid = False  # whether the arrays have what a launch needs
        self.calls: list[Call] = []  # that start the other parts

    def _refuse_nested(self) -> None:
        """Refuse a launch within another one of this thread."""
        if any([memory.running for memory in self.memories]):
            raise RuntimeError("a signal handler that interrupts a launch cannot launch")

    def _guarded(
        self, busy: Sequence[Any], launch: Callable[[], Any], end: Callable[[], None]
    ) -> Any:
        """Launch, and end it in any case, also after a second interrupt."""
        try:
            for x in busy:
                x.running = True
            return launch()
        except BaseException:  # also one raised by a signal handler
            try:
                self._stop()
            except BaseException:  # the second interrupt
                self._stop()
            raise
        finally:
            try:
                try:
                    end()
                except BaseException:
                    end()
                    raise
            except BaseException:  # the second interrupt
                end()
                raise

    def _execute(self, behind: Callable[[], None] | None) -> list[memoryview]:
        """Launch once on all parts; return the status of each.

        ``behind`` enqueues work on GPUs behind the launch, without waiting for it.
        """
        first, *others = self.launches
        if first.on_host:  # signals are handled in the thread that called
            self.calls = []
            for p in others:
                start(self.calls, p.start)
            first.start()
            for call in self.calls:
                call.wait()
                if call.error is not None:
                    raise call.error
        else:
            # no call in between may wait for a device
            for p in (*self.launches[self.first_index :], *self.launches[: self.first_index]):
                p.start()
            if behind is not None:
                behind()
            if first.compiled.interruptible:
                return self._poll()
        return [p.wait() for p in self.launches]

    def _poll(self) -> list[memoryview]:
        """Wait until all GPUs have ended; raise an error at once, as other parts wait for it."""
        found, begin = dict[LaunchOfOnePart, memoryview](), perf_counter()
        while len(found) < len(self.launches):
            for p in self.launches:
                if p not in found and (status := p.ended()) is not None:
                    found[p] = status
            if (past := perf_counter() - begin) > SHORT:
                sleep(min(past / 200, 0.005))
        return [found[p] for p in self.launches]

    def _stop(self) -> None:
        """End all launches that run, and wait for them."""
        self.valid = False
        for p in self.launches:
            if p.on_host:
                p.scratch.barrier[STOP] = 1
        self.calls = [call for call in self.calls if not call.cancel()]
        for call in self.calls:
            while not call.ended:
                with suppress(BaseException):  # a further interrupt: parts end within 0.1 s
                    call.wait()
        self.calls = []
        for p in self.launches:
            with suppress(Exception):  # of a GPU that does not answer: stop the others, too
                p.scratch.stop()
            if p.on_host:
                p.scratch.barrier[STOP] = 0

    def _addresses(self) -> np.ndarray[Any, Any]:
        """The array of each part, with the addresses of all mailboxes."""
        found = np.zeros((len(self.launches), self.layout.size), np.int64)
        found[:, Parts.COUNT], found[:, Parts.NUMBER] = len(found), range(len(found))
        boxes = zip(self.launches, self.mailboxes, strict=True)
        addresses = [p.device.pointer(x) for p, x in boxes]
        found[:, Parts.MAILBOXES : Parts.MAILBOXES + len(found)] = addresses
        for (slot, column), at in self.layout.peers.items():
            objects = [p.refs[slot]() for p in self.launches]
            found[:, at : at + len(found)] = [x.address("column", column) for x in objects]  # type: ignore[union-attr]
        return found

    def _send(self, found: np.ndarray[Any, Any]) -> None:
        """Write the array of each part; crossings count from 0 again.

        Where the messages in an inbox lie remains: a launch may resume the step that executes them.
        """
        for k, p in enumerate(self.launches):
            with p.device.active():
                for words in (slice(Parts.ENDS), slice(Parts.ROUTES, None)):
                    self.arrays[k][words] = p.device.asarray(found[k][words])
                self.mailboxes[k][...] = 0
            p.arguments[p.compiled.index["parts"]] = p.device.pointer(self.arrays[k])
        self._synchronize()

    def _synchronize(self) -> None:
        for p in self.launches:
            p.device.synchronize()
