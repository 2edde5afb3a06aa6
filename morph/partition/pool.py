"""Host threads that launch on parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

from morph.launch.scratch import scratch
from morph.partition.transport import Transport, raise_together
from morph.runtime.device import Device

_pool = ThreadPoolExecutor(256, "morph-parts")


def submit(function: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call a function in another thread."""
    return _pool.submit(function, *args)


def _forked() -> None:
    """Make a new pool in a child process, which has none of the threads."""
    global _pool
    _pool = ThreadPoolExecutor(256, "morph-parts")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def each_part(devices: Sequence[Device], transport: Transport, run: Callable[[int], Any]) -> None:
    """Call a function for each part of this process, in a thread for each GPU.

    An error of a part is raised in all processes when all parts have ended; an exception of a
    signal handler ends all launches.

    Parameters
    ----------
    devices : sequence of Device
        Of each part.
    transport : Transport
    run : callable
        Called with the number of the part.
    """
    errors: dict[int, BaseException | None] = dict.fromkeys(transport.here)
    groups: dict[Device, list[int]] = {}
    for k in transport.here:
        groups.setdefault(devices[k], []).append(k)

    def run_group(group: list[int]) -> None:
        for k in group:
            try:
                run(k)
            except Exception as error:
                error.add_note(f"on part {k}, by whose numbers edges are named")
                errors[k] = error

    # only in this thread a signal ends a launch on the host, which anyway uses all cores
    ordered = sorted(groups, key=lambda d: not d.on_host)
    here = max(sum(d.on_host for d in ordered), 1)
    first, others = ordered[:here], ordered[here:]
    waiting = [submit(copy_context().run, run_group, groups[d]) for d in others]
    try:
        for d in first:
            run_group(groups[d])
        wait(waiting)
    except BaseException:
        for d in others:
            scratch(d).stop()
        wait(waiting)
        raise
    raise_together(transport, errors)
