"""Controls for tests: allocations that fail, the order of items, the number of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from morph.compiler.ir.abi import Status
from morph.launch import launcher
from morph.launch.scratch import scratch
from morph.runtime import threads as limits
from morph.runtime.device import Device, device_for


class Fault:
    """One allocation that is to fail; ``fired`` says, when the block has ended, whether it did."""

    __slots__ = ("fired",)

    def __init__(self) -> None:
        self.fired = False


@contextlib.contextmanager
def fail_allocation(n: int, where: str | Device | None = None) -> Iterator[Fault]:
    """Make the ``n``-th attempt to allocate inside the block fail, as if the store were full.

    Parameters
    ----------
    n : int
        From 1.  Reservations of rows and additions to local collections count, on every launch.
    where : str or Device, optional
        The device of the launches; see `morph.set_device` for the default.

    Yields
    ------
    Fault
        ``fired`` is false at the end if there were fewer than ``n`` attempts.

    Raises
    ------
    ValueError
        If ``n`` is not positive.
    """
    if n < 1:
        raise ValueError(f"attempts count from 1, not from {n}")
    on, fault, before = device_for(where), Fault(), launcher.faults
    status = scratch(on).status
    launcher.faults = launcher.refusing = True
    with on.active():
        status[Status.INJECT] = n
    try:
        yield fault
    finally:
        launcher.faults, launcher.refusing = before, False
        with on.active():
            fault.fired = bool(np.asarray(on.to_host(status))[Status.INJECT] <= 0)
            status[Status.INJECT] = 0


@contextlib.contextmanager
def item_order(seed: int) -> Iterator[None]:
    """Shuffle items by another seed, in kernels first launched inside on the python device."""
    before, launcher.seed = launcher.seed, seed
    try:
        yield
    finally:
        launcher.seed = before


@contextlib.contextmanager
def team(threads: int) -> Iterator[None]:
    """Use this many threads on the cpu device, over few items too, for objects new inside."""
    before = limits._limit, launcher.faults
    limits._limit, launcher.faults = threads, True  # builds for tests share out single items
    try:
        yield
    finally:
        limits._limit, launcher.faults = before
