"""Overheads: import, first compilation, compilation from the cache, a launch.

With ``--tour``: the time and processor time of a process that calls the public functions once, with
an empty cache of kernels ("cold") and with a full one ("warm").
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import devices, table

import morph
from morph.algorithms.registry import ALGORITHMS
from morph.runtime.timing import synchronize

DYNAMIC = (
    morph.DynamicBFS, morph.DynamicSSSP, morph.DynamicComponents, morph.DynamicCores,
    morph.DynamicPageRank,
)  # fmt: skip

IMPORT = "import time; t = time.perf_counter(); import morph; print(time.perf_counter() - t)"
COMPILE = """
import sys, time, morph
from morph.prelude import *
g = morph.Graph.from_edges([0], [1], device=sys.argv[1])
g.points.add("dist", i32)
@morph.kernel
def count(p, g):
    for t in p.outnbrs:
        atomic_add(t.dist, 1)
@morph.kernel
def relax(p, g):
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + 1)
if sys.argv[1] == "cuda":
    import cupy; cupy.zeros(1).sum().item()
for k in (count, relax):
    with morph.timing() as t:
        morph.foreach(g.points, k, g)
    print(t.compile)
"""


@morph.kernel
def empty(p, g, a, b, c, d, e, f, h, i, j):
    pass


def child(code: str, device: str, cache: str) -> list[float]:
    """Run a program in a fresh interpreter and read the numbers that it prints."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        env = {**os.environ, "MORPH_CACHE": cache, "MORPH_OPTIMIZE": "auto"}  # as users do
        out = subprocess.run(
            [sys.executable, file.name, device], env=env, check=True, capture_output=True, text=True
        ).stdout
    return [float(x) for x in out.split()]


def launch(device: str) -> float:
    """Microseconds for one foreach of an empty kernel with ten arguments."""
    g = morph.Graph.from_edges([0, 1], [1, 0], device=device)
    args = (g, 1, 2, 3, 4, 5, 6.0, 7.0, 8.0, True)
    best = float("inf")
    for _ in range(7):
        synchronize()
        start = time.perf_counter()
        for _ in range(2000):
            morph.foreach(g.points, empty, *args)
        synchronize()
        best = min(best, (time.perf_counter() - start) / 2000)
    return best * 1e6


def tour(device: str, corners: int = 200) -> list[Callable[[], object]]:
    """Calls of the public functions, on small inputs; meshes have so many corners at first."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 40, (2, 200)), axis=0)
    ends = ends[:, ends[0] < ends[1]]  # without cycles
    weight = rng.integers(1, 9, ends.shape[1])
    numbers = morph.Table("numbers", device, x=morph.prelude.f64)
    numbers.extend(x=rng.random(100))
    make = partial(morph.Graph.from_edges, device=device)
    one_way = make(*ends, weight, n=40)
    both = make(*ends, weight, n=40, symmetrize=True)
    points, square = rng.random((corners, 2)), [[0, 0], [1, 0], [1, 1], [0, 1]]
    border = [[0, 1], [1, 2], [2, 3], [3, 0]]
    mesh = morph.triangulate(points, device=device)
    formula = morph.generate.random_ksat(3, 300, 4.0)
    graph_calls = [
        partial(row.function, row.suited(one_way), **row.arguments_of(row.examples[0]))
        for row in ALGORITHMS.values()
    ]  # fmt: skip

    def follow(kind: Any) -> None:
        batch = ([1], [39], [3]) if kind is morph.DynamicSSSP else ([1], [39])
        g = both if kind in (morph.DynamicComponents, morph.DynamicCores) else one_way
        given = g.edges.weight[:] if kind is morph.DynamicSSSP else None
        kind(make(g.edges.src[:], g.edges.dst[:], given, n=40, symmetric=g is both)).apply(batch)

    return [
        *graph_calls,
        partial(morph.k_core, both, 3), partial(morph.k_truss, both, 3),
        lambda: list(morph.cliques(both)), partial(morph.max_clique, both),
        partial(morph.max_k_plex, both, 2), partial(morph.community, both, [0, 1], (3, 6)),
        partial(morph.max_flow, one_way, 0, 39), lambda: morph.path(
            one_way, morph.sssp(one_way, predecessors=True), 39
        ),
        partial(morph.triangulate, points, device=device),
        partial(morph.triangulate, square, border, device=device),
        partial(morph.refine, mesh, 25), partial(morph.refine, mesh, 20, max_area=0.01),
        partial(morph.survey.solve, formula, device=device),
        partial(morph.survey.walksat, formula, device=device),
        partial(morph.survey.surveys, formula, max_sweeps=5, device=device),
        partial(morph.survey.beliefs, formula, max_sweeps=5, device=device),
        partial(morph.survey.decimate, formula, device=device),
        *(partial(follow, kind) for kind in DYNAMIC),
        partial(morph.sort, numbers, numbers.x), partial(morph.argsort, numbers.x),
        partial(morph.scan, numbers.x), partial(morph.reduce, numbers.x, "sum"),
        partial(morph.compact, numbers, lambda row: row.x > 0.5),
    ]  # fmt: skip


def tour_seconds(device: str) -> dict[str, object]:
    """Time the tour in two new processes: seconds, and processor seconds with its compilers."""
    row: dict[str, object] = {"device": device, "calls": len(tour("cpu"))}
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "MORPH_CACHE": cache, "MORPH_OPTIMIZE": "auto"}
        for name in ("cold", "warm"):
            before, since = os.times(), time.perf_counter()
            code = [sys.executable, __file__, "--device", device, "--calls"]
            subprocess.run(code, env=env, check=True)
            after = os.times()
            row[f"{name} s"] = time.perf_counter() - since
            spent = after.children_user + after.children_system
            row[f"{name} processor s"] = spent - before.children_user - before.children_system
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="all")
    parser.add_argument("--tour", action="store_true", help="only the tour of public functions")
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.calls:
        for call in tour(given.device):
            call()
        return
    if given.tour:
        table([tour_seconds(device) for device in devices(given.device)])
        return
    rows = []
    for device in devices(given.device):
        with tempfile.TemporaryDirectory() as cache:
            imports = [child(IMPORT, device, cache)[0] for _ in range(5)]
            first = child(COMPILE, device, cache)
            again = [child(COMPILE, device, cache) for _ in range(3)]
        rows.append({
            "device": device,
            "import s": sorted(imports)[2],
            "first compile s": first[0],  # the compiler's own modules are loaded in it
            "second s": first[1],
            "from cache ms": sorted(a[0] for a in again)[1] * 1e3,  # likewise
            "second ms": sorted(a[1] for a in again)[1] * 1e3,
            "empty foreach us": launch(device),
        })  # fmt: skip
    table(rows)


if __name__ == "__main__":
    main()
