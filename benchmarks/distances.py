"""Distances from many sources beside SciPy: seconds, and how many times as long SciPy takes.

    python benchmarks/distances.py rmat14 grid128 --device cpu --sources 64

Inputs are named as `inputs` says.  A time is the median of --repeat runs on a graph that is on the
device already; SciPy runs once, on one thread.  Answers are held against SciPy's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import devices, median, table
from inputs import Input, load
from peers import distances
from scipy.sparse import csgraph, csr_array

import morph


class Case(NamedTuple):
    """What is measured, on a device and in SciPy; the answers are arrays of doubles."""

    name: str
    run: Callable[[], Any]
    answer: Callable[[Any], Any]
    peer: Callable[[], Any] | None


def cases(graph: Input, device: str, count: int) -> Iterator[Case]:
    """Yield the cases on a graph."""
    g, ids = graph.graph(device), np.array(graph.sources(count))
    rows = graph.weight.astype(np.float64), graph.dst, graph.offsets
    matrix = csr_array(rows, shape=(graph.n, graph.n))

    def matrix_of(found: Any) -> Any:
        return distances(g.device.to_host(found.distance))

    def each(call: Any) -> Callable[[], Any]:
        return lambda: [call(g, int(i)) for i in ids]

    def stack(found: Any) -> Any:
        return np.stack([matrix_of(one) for one in found])

    def dijkstra(**options: Any) -> Callable[[], Any]:
        return lambda: csgraph.dijkstra(matrix, indices=ids, **options)

    for call, peer in (
        (morph.sssp, dijkstra()),
        (morph.bfs, dijkstra(unweighted=True)),
    ):
        name = f"{call.__name__}, {len(ids)} sources"
        yield Case(f"{name}, rows", lambda call=call: call(g, ids, rows=True), matrix_of, peer)
        yield Case(f"{name}, one by one", each(call), stack, None)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("inputs", nargs="*", default=["rmat14", "grid128"])
    parser.add_argument("--device", default="all", help="cpu, cuda or all, the default")
    parser.add_argument("--sources", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without SciPy")
    options = parser.parse_args(arguments)
    for name in options.inputs:
        graph = load(name, Path(tempfile.gettempdir(), "morph-graphs"))
        print(f"{graph.name}: {graph.n:,} points, {graph.arcs:,} arcs", flush=True)
        lines, theirs = [], {}
        for device in devices(options.device):
            for case in cases(graph, device, options.sources):
                took, found = median(case.run, options.repeat)
                line = {"device": device, "algorithm": case.name, "ms": took * 1e3}
                if case.peer and not options.alone:
                    if case.name not in theirs:
                        start = time.perf_counter()
                        answer = case.peer()
                        theirs[case.name] = time.perf_counter() - start, answer
                    spent, answer = theirs[case.name]
                    line["SciPy"] = f"{spent / took:.3g} x"
                    if not np.allclose(case.answer(found), answer, rtol=1e-6):
                        raise SystemExit(f"{name}, {case.name}, {device}: wrong")
                lines.append({"SciPy": ""} | line)
        table(lines)


if __name__ == "__main__":
    main()
