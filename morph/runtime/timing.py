"""Time spent on compilation, on transfers between devices, and on the rest."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from morph.runtime.device import Device

spent = {"compile": 0.0, "transfer": 0.0}
_within = threading.local()  # of each thread, the seconds of the blocks nested in the present one
used_devices: dict[str, Device] = {}  # devices with launches, by name


class Timing:
    """Seconds spent: ``compile`` (generation and compilers), ``transfer`` (devices), ``run``."""

    __slots__ = ("compile", "run", "transfer")

    def __init__(self) -> None:
        self.compile = self.transfer = self.run = 0.0


@contextlib.contextmanager
def timing() -> Iterator[Timing]:
    """Measure the block: ``with timing() as t: ...``, then ``t.compile`` and so on.

    Yields
    ------
    Timing
        Its fields are set when the block ends: ``compile`` and ``transfer`` as measured, ``run``
        the rest of the wall-clock time.
    """
    t, before = Timing(), dict(spent)
    start = time.perf_counter()
    try:
        yield t
    finally:
        synchronize()
        wall = time.perf_counter() - start
        t.compile = spent["compile"] - before["compile"]
        t.transfer = spent["transfer"] - before["transfer"]
        t.run = max(0.0, wall - t.compile - t.transfer)


@contextlib.contextmanager
def counting(kind: str) -> Iterator[None]:
    """Count the block as ``"compile"`` or ``"transfer"``; nested blocks are counted once."""
    if kind == "transfer":
        synchronize()
    outer, _within.seconds = getattr(_within, "seconds", 0.0), 0.0
    start = time.perf_counter()
    try:
        yield
    finally:
        if kind == "transfer":
            synchronize()
        wall = time.perf_counter() - start
        spent[kind] += wall - _within.seconds
        _within.seconds = outer + wall


def synchronize() -> None:
    """Wait for all launches on the devices that have been used."""
    for device in used_devices.values():
        device.synchronize()
