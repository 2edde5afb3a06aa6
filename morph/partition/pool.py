"""Host threads that launch on parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from morph.launch.scratch import scratch
from morph.partition.transport import Transport, raise_together
from morph.runtime.device import Device
from morph.runtime.threads import run_calls


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
        Added to the part's number in the note of an error.

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

    def run_here() -> None:
        for d in first:
            run_group(groups[d])

    def stop() -> None:
        for d in others:
            scratch(d).stop()

    apart = [partial(copy_context().run, run_group, groups[d]) for d in others]
    run_calls(apart, run_here, stop)
    return errors
