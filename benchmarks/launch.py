"""What things cost before any work is done: import, first compile, compile from cache, a launch."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from common import devices, table

import morph
from morph.runtime.timing import synchronize

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="all")
    rows = []
    for device in devices(parser.parse_args().device):
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
