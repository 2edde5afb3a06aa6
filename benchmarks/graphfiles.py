"""Construction and reading of graphs: seconds, MB/s, and peak memory beside the graph's memory.

    python benchmarks/graphfiles.py --scale 18

An R-MAT graph of edge factor 16 with weights of 1 to 255, both ways, is made of arrays, written to
every format and read again, beside the readers of other libraries; each in a process of its own,
the best of 3.  Then a random 3-SAT formula.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from reading import PEERS, compare

from morph import Graph, generate
from morph.io import write_cnf, write_graph
from morph.io.graph.formats import ROWS

NAMES = ["g.wel" if row.name == "edges" else f"g{row.suffixes[0]}" for row in ROWS]


def best(make: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        make()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(make: Callable[[], Graph]) -> str:
    """Peak over what is held, and over offsets, ends and weights alone."""
    tracemalloc.start()
    g = make()
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rows = 8 * (len(g.points) + 1) + 8 * len(g.edges)
    return f"{len(g.edges) / 1e6:.1f} M arcs, {held / 1e6:.0f} MB held, peak {most / held:.2f} x " \
           f"held, {most / rows:.2f} x rows"  # fmt: skip


def from_arrays(kind: str, scale: int) -> None:
    n, m = 1 << scale, 16 << scale
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, n, (2, m), dtype=np.int32)
    weight = rng.integers(1, 256, m, dtype=np.int32)
    if kind != "unsorted":
        src.sort()
    offsets = np.searchsorted(src, np.arange(n + 1))
    make = {
        "unsorted": lambda: Graph.from_edges(src, dst, weight, n),
        "sorted": lambda: Graph.from_edges(src, dst, weight, n),
        "rows": lambda: Graph.from_csr(offsets, dst, weight),
        "rows, no copy": lambda: Graph.from_csr(offsets, dst, weight, copy=False),
    }[kind]
    print(f"{kind:<14} {best(make):6.2f} s; {peak(make)}", flush=True)


def from_generator(scale: int) -> None:
    def make() -> Graph:
        return generate.rmat(scale, weight=(1, 255))

    print(f"{'rmat':<14} {best(make):6.2f} s; {peak(make)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=int, default=18)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only == "rmat":
        return from_generator(args.scale)
    if args.only:
        return from_arrays(args.only, args.scale)
    again = [sys.executable, __file__, "--scale", str(args.scale)]
    for kind in ("unsorted", "sorted", "rows", "rows, no copy", "rmat"):
        subprocess.run([*again, "--only", kind], check=True)
    with tempfile.TemporaryDirectory() as folder:
        graph = generate.rmat(args.scale, weight=(1, 255))
        for name in NAMES:
            path = Path(folder, name)
            seconds = best(lambda path=path: write_graph(graph, path))
            print(f"{name:<14} {seconds:6.2f} s to write, {path.stat().st_size / 1e6 / seconds:.0f}"
                  " MB/s", flush=True)  # fmt: skip
            peers = PEERS.get(path.suffix, [])
            compare(["morph.read_edges", "morph.read_graph", *peers], path)
        path = Path(folder, "f.cnf")
        write_cnf(generate.random_ksat(3, 4 << args.scale, 4.2), path)
        compare(["morph.read_cnf", "cat"], path)


if __name__ == "__main__":
    main()
