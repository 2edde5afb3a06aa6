"""All algorithms on a machine that is not idle: default threads beside one thread.

    python benchmarks/contended.py --competitors 0 1 2 --repeat 15

A competitor is a process in an endless computation.  Calls on one thread and on
`morph.get_num_threads` threads alternate in one process, so both have the same load; times are
medians, in milliseconds.  ``ratio`` is the default's median beside that of one thread, ``mean`` the
same of the sums of all calls.  ``load`` is the use of cores by other processes at that
time, without competitors, as Linux reports it, else 0.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import table
from inputs import load

import morph
from morph import generate
from morph.algorithms.registration import Algorithm
from morph.algorithms.registry import ROWS

Case = Callable[[], Any]
Make = Callable[[], Case]  # what is made for a case that is left out would take time


def following(g: morph.Graph, size: int) -> Case:
    """Set and restore some weights; two consecutive calls change the same ones."""
    dynamic, rng, calls = morph.DynamicSSSP(g, 0), np.random.default_rng(3), itertools.count()
    weight = g.edges.weight[:].copy()
    batches = []
    for _ in range(8):
        ids = rng.choice(g.edges.live, min(size, len(g.edges)), replace=False).astype(np.int32)
        batches.append((ids, rng.integers(1, 256, len(ids)).astype(weight.dtype)))
    dynamic.apply(updates=(ids, weight[ids]))  # the first batch compiles, and makes rows gapped

    def batch() -> None:
        ids, changed = batches[next(calls) // 2 % len(batches)]
        dynamic.apply(updates=(ids, changed))
        dynamic.apply(updates=(ids, weight[ids]))

    return batch


def solving(row: Algorithm, g: morph.Graph) -> Case:
    """The row's first benchmark; of sources, the first two vertices."""
    benchmark = row.benchmarks[0]
    sources = {"sources": [0, 1]} if benchmark.sources else {}
    return partial(row.function, row.suited(g), **benchmark.arguments, **sources)


def cases(scale: int, side: int, triangles: int, variables: int) -> Iterator[tuple[str, Make]]:
    """What is measured, by name."""
    with tempfile.TemporaryDirectory() as folder:
        names = f"rmat{scale}", f"grid{side}", "grid100"
        rmat, grid, small = (load(name, Path(folder)).graph("cpu") for name in names)
    graphs = {"rmat": (f"rmat{scale}", rmat), "grid": (f"grid{side}", grid)}
    for row in ROWS:
        for name, g in (graphs[kind] for kind in row.inputs.split()):
            yield f"{row.public_name} {name}", partial(solving, row, g)
    yield "bfs grid100", lambda: partial(morph.bfs, small, 0)
    yield "sssp grid100", lambda: partial(morph.sssp, small, 0)
    yield "pagerank grid100", lambda: partial(morph.pagerank, small)
    yield f"DynamicSSSP grid{side}, 100", partial(following, grid, 100)
    yield f"DynamicSSSP grid{side}, 10000", partial(following, grid, 10_000)
    points = np.random.default_rng(1).random((triangles // 2, 2))
    triangulate = partial(morph.triangulate, points, device="cpu")
    yield f"triangulate {len(points)}", lambda: triangulate
    yield (
        f"refine {triangles}",
        lambda: partial(morph.refine, triangulate(), min_angle=30, device="cpu"),
    )
    formula = generate.random_ksat(3, variables, 4.0, seed=1)
    yield f"sat {variables}", lambda: partial(morph.survey.solve, formula, seed=1, device="cpu")


@contextmanager
def competitors(n: int) -> Iterator[None]:
    """Run n processes that compute without end."""
    spin = "while True: pass"
    running = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(n)]
    try:
        time.sleep(0.2 if n else 0)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def busy() -> float:
    """Seconds for which the cores have been busy."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, soft = map(int, file.readline().split()[1:8])
    except OSError:
        return 0.0
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def measure(run: Case, repeat: int, seconds: float) -> tuple[list[float], list[float]]:
    """Times of calls on one thread, and on the default; at least three of each.

    Either is first in turn, since the scheduler's slices may keep step with a pair of calls.
    """
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.perf_counter()
    while len(times[0]) < repeat:
        if len(times[0]) >= 3 and time.perf_counter() - begin > seconds:
            break
        pair = list(zip((1, None), times, strict=True))
        for n, found in pair[:: 1 - len(times[0]) % 2 * 2]:
            morph.set_num_threads(n)
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return times


def row(name: str, run: Case, n: int, o: argparse.Namespace) -> dict[str, Any]:
    """One line of the table."""
    before, mine = busy(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    begin = time.perf_counter()
    one, default = measure(run, o.repeat, o.seconds)
    wall = time.perf_counter() - begin
    mine = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - mine
    others = (busy() - before - mine) / wall
    return {
        "what": name, "competitors": n, "1 thread": 1e3 * statistics.median(one),
        "default": 1e3 * statistics.median(default),
        "ratio": statistics.median(default) / statistics.median(one),
        "mean": sum(default) / sum(one), "calls": len(one), "load": max(others - n, 0.0),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--competitors", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=10, help="for one line, about, at most")
    parser.add_argument("--scale", type=int, default=18, help="of the R-MAT graph")
    parser.add_argument("--side", type=int, default=1000, help="of the grid")
    parser.add_argument("--triangles", type=int, default=1_000_000)
    parser.add_argument("--variables", type=int, default=10_000)
    parser.add_argument("--only", default="", help="what has this in its name")
    o = parser.parse_args()
    rows = []
    for name, make in cases(o.scale, o.side, o.triangles, o.variables):
        if o.only not in name:
            continue
        run = make()
        for n in (1, None):  # compiled, and its tables are there
            morph.set_num_threads(n)
            run()
        for n in o.competitors:
            with competitors(n):
                rows.append(row(name, run, n, o))
            print(name, n, f"{rows[-1]['ratio']:.2f}", file=sys.stderr, flush=True)
    print(f"{morph.get_num_threads()} threads, load average {os.getloadavg()[0]:.1f}")
    table(rows)


if __name__ == "__main__":
    main()
