"""The speed of devices: the time of a kernel that reads a value at the other end of each edge."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.runtime.device import Device

DEGREE = 8
SIZES = [1 << k for k in (8, 12, 16, 20)]  # points of the graphs, until a run takes long enough
ENOUGH = 0.02  # seconds
ROUNDS = 4  # of a run
_speeds: dict[str, float] = {}


@kernel
def pull(p: Any) -> None:
    """Sum the values of the neighbours."""
    total = 0
    for t in p.outnbrs:
        total += t.value
    p.sum = total


@program
def pulls(g: Any, rounds: int) -> None:
    """Sum so many times."""
    done = 0
    while done < rounds:
        foreach(g.points, pull)
        done += 1


def speed(device: Device) -> float:
    """Edges per second of a device, which each process measures once."""
    if device.name not in _speeds:
        _speeds[device.name] = _measured(device)
    return _speeds[device.name]


def _measured(device: Device) -> float:
    """Time runs on larger and larger graphs; the last of these counts."""
    found = 0.0
    for n in SIZES:
        rng = np.random.default_rng(n)
        src, dst = np.arange(n).repeat(DEGREE), rng.integers(0, n, DEGREE * n)
        g = Graph.from_edges(src, dst, n=n, device=device)
        for name in ("value", "sum"):
            g.points.add(name, np.int64)
        pulls(g, 1)  # compiles
        seconds = min(_timed(g) for _ in range(3))
        found = ROUNDS * len(g.edges) / seconds
        if seconds > ENOUGH:
            break
    return found


def _timed(g: Graph) -> float:
    start = time.perf_counter()
    pulls(g, ROUNDS)
    return time.perf_counter() - start
