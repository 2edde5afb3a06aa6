"""Host threads that launch on parts.

An interrupt may come within any function in Python, also those of `concurrent.futures`, which then
keep a lock, or miscount their idle threads.  So threads wait for each other by plain locks only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from morph.launch.scratch import scratch
from morph.partition.transport import Transport, raise_together
from morph.runtime.device import Device

_idle: list[SimpleQueue[Any]] = []  # of threads that wait for the next call


class Call:
    """A call of a function in another thread."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function, self.args = function, args
        self.error: BaseException | None = None
        self.ended = False
        self._begun, self._running = Lock(), Lock()
        self._running.acquire()

    def run(self) -> None:
        """Call the function, unless it is cancelled."""
        if self._begun.acquire(blocking=False):
            try:
                self.function(*self.args)
            except BaseException as error:
                self.error = error
        self.ended = True
        self._running.release()

    def cancel(self) -> bool:
        """Whether the function has not been called, and will not be."""
        return self._begun.acquire(blocking=False)

    def wait(self) -> None:
        """Wait for the end of the call."""
        while not self.ended:
            self._running.acquire()
            self._running.release()


def start(calls: list[Call], function: Callable[..., Any], *args: Any) -> None:
    """Call a function in another thread; the list gets the call before that thread does."""
    calls.append(Call(function, *args))
    try:
        queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        Thread(target=_work, args=(queue,), name="morph-parts", daemon=True).start()
    queue.put(calls[-1])


def _work(queue: SimpleQueue[Any]) -> None:
    while True:
        queue.get().run()
        _idle.append(queue)


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_idle.clear)


def each_part(
    devices: Sequence[Device], transport: Transport, run: Callable[[int], Any], names: str = ""
) -> None:
    """Call a function for each part of this process, as `run_parts`.

    An error of a part is raised in all processes when all parts have ended.
    """
    raise_together(transport, run_parts(devices, transport.here, run, names))


def run_parts(
    devices: Sequence[Device], here: range, run: Callable[[int], Any], names: str = ""
) -> dict[int, BaseException | None]:
    """Call a function for each part of this process, in a thread for each GPU.

    An exception of a signal handler ends all launches.

    Parameters
    ----------
    devices : sequence of Device
        Of each part.
    here : range
        The parts of this process.
    run : callable
        Called with the number of the part.
    names : str
        What an error's note says of the part after its number.

    Returns
    -------
    dict of int to exception or None
        The error of each part.
    """
    errors: dict[int, BaseException | None] = dict.fromkeys(here)
    groups: dict[Device, list[int]] = {}
    for k in here:
        groups.setdefault(devices[k], []).append(k)

    def run_group(group: list[int]) -> None:
        for k in group:
            try:
                run(k)
            except Exception as error:
                error.add_note(f"on part {k}{names}")
                errors[k] = error

    # only in this thread a signal ends a launch on the host, which anyway uses all cores
    ordered = sorted(groups, key=lambda d: not d.on_host)
    on_host = max(sum(d.on_host for d in ordered), 1)
    first, others = ordered[:on_host], ordered[on_host:]
    calls: list[Call] = []
    try:
        for d in others:
            start(calls, copy_context().run, run_group, groups[d])
        for d in first:
            run_group(groups[d])
        for call in calls:
            call.wait()
    except BaseException:
        calls = [call for call in calls if not call.cancel()]
        for d in others:
            scratch(d).stop()
        for call in calls:
            call.wait()
        raise
    return errors
