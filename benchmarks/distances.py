"""Distances from many sources beside SciPy, igraph and NetworKit: how many times as long they take.

    python benchmarks/distances.py rmat14 grid128 --device cpu --sources 64

Inputs are named as `inputs` says.  A time is the median of --repeat runs on a graph that is on the
device already; peers run once, NetworKit on all threads.  Results are compared with theirs.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from common import beside, devices, median, table, timed
from inputs import Input, load
from peers import distances
from scipy.sparse import csgraph, csr_array

import morph
from morph.runtime.threads import get_num_threads


class Case(NamedTuple):
    """What is measured, on a device and in SciPy; the answers are arrays of doubles."""

    name: str
    run: Callable[[], Any]
    answer: Callable[[Any], Any]
    peers: dict[str, Callable[[], Any]]  # each returns the answer


def others(graph: Input, ids: Any, weighted: bool) -> dict[str, Callable[[], Any]]:
    """What computes the distances with igraph and NetworKit, if they are installed."""
    found: dict[str, Callable[[], Any]] = {}
    src, dst, weight = graph.once
    if importlib.util.find_spec("igraph"):
        import igraph

        g = igraph.Graph(graph.n, np.stack([src, dst], axis=1))
        given = weight.tolist() if weighted else None
        found["igraph"] = lambda: np.array(g.distances(ids.tolist(), weights=given), np.float64)
    if importlib.util.find_spec("networkit"):
        import networkit

        networkit.setNumberOfThreads(get_num_threads())
        ends = src.astype(np.uint64), dst.astype(np.uint64)
        k = networkit.GraphFromCoo((weight.astype(np.float64), ends), n=graph.n, weighted=True)
        if not weighted:
            k = networkit.GraphFromCoo(ends, n=graph.n)

        def run() -> Any:
            far = np.asarray(networkit.distance.SPSP(k, ids.tolist()).run().getDistances(True))
            return np.where(far > 1e300, np.inf, far)

        found["NetworKit"] = run
    return found


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

    for call, weighted in ((morph.sssp, True), (morph.bfs, False)):
        name = f"{call.__name__}, {len(ids)} sources"
        peers = {"SciPy": dijkstra(unweighted=not weighted), **others(graph, ids, weighted)}
        yield Case(f"{name}, rows", lambda call=call: call(g, ids, rows=True), matrix_of, peers)
        yield Case(f"{name}, one by one", each(call), stack, {})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("inputs", nargs="*", default=["rmat14", "grid128"])
    parser.add_argument("--device", default="all", help="cpu, cuda or all, the default")
    parser.add_argument("--sources", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without SciPy")
    options = parser.parse_args(arguments)
    for name in options.inputs:
        graph = load(name)
        print(f"{graph.name}: {graph.n:,} points, {graph.arcs:,} arcs", flush=True)
        lines, theirs = [], {}
        for device in devices(options.device):
            for case in cases(graph, device, options.sources):
                took, found = median(case.run, options.repeat)
                line = {"graph": graph.name, "device": device, "algorithm": case.name}
                line["ms"] = took * 1e3
                peers = {} if options.alone else case.peers
                for peer, run in peers.items():
                    if (case.name, peer) not in theirs:
                        theirs[case.name, peer] = timed(run)
                    spent, answer = theirs[case.name, peer]
                    line[peer] = beside(spent, took)
                    if not np.allclose(case.answer(found), answer, rtol=1e-6):
                        raise SystemExit(f"{name}, {case.name}, {device}: {peer} differs")
                lines.append(line)
        names = dict.fromkeys(key for line in lines for key in line)
        table([{key: line.get(key, "") for key in names} for line in lines])


if __name__ == "__main__":
    main()
