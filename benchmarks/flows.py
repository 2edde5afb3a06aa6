"""Maximum flows beside SciPy and igraph: milliseconds, and how many times as long the peers take.

    python benchmarks/flows.py rmat16 grid300 sides300 bipartite20000 --device cpu

``grid300`` is from one corner to the opposite one, ``sides300`` from one side of the grid to the
other; ``bipartite20000`` is a matching in a bipartite graph of so many vertices on each side, four
edges for each.  Other inputs are named as `inputs` says; the flow is from the vertex of largest
degree to the next one.  A time is the median of --repeat runs on a graph that is on the device
already.  Peers run once, on one thread, on structures of their own.  Results are checked, and
values compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from common import beside, devices, median, table, timed
from inputs import load
from scipy.sparse import coo_array, csgraph

import morph


class Problem(NamedTuple):
    """Edges with capacities, and two vertices."""

    src: Any
    dst: Any
    capacity: Any
    n: int
    source: int
    sink: int


def with_ends(edges: tuple[Any, Any, Any], n: int, first: Any, last: Any, most: int) -> Problem:
    """Add a source before some vertices, and a sink behind others."""
    src, dst, capacity = edges
    src = np.concatenate([src, np.full(len(first), n), last])
    dst = np.concatenate([dst, first, np.full(len(last), n + 1)])
    capacity = np.concatenate([capacity, np.full(len(first) + len(last), most)])
    return Problem(src, dst, capacity, n + 2, n, n + 1)


def problem(name: str) -> Problem:
    """Make a problem by its name."""
    if found := re.fullmatch(r"bipartite(\d+)", name):
        n = int(found[1])
        ends = np.random.default_rng(1).integers(0, n, (4 * n, 2)) + [0, n]
        src, dst = np.unique(ends, axis=0).T
        left = np.arange(n)
        return with_ends((src, dst, np.ones(len(src), np.int64)), 2 * n, left, left + n, 1)
    sides = re.fullmatch(r"sides(\d+)", name)
    graph = load(f"grid{sides[1]}" if sides else name)
    edges, n = (graph.src, graph.dst, graph.weight.astype(np.int64)), graph.n
    if sides:
        side = int(sides[1])
        first = np.arange(side) * side
        return with_ends(edges, n, first, first + side - 1, 10**6)
    source, sink = np.argsort(-graph.degree, kind="stable")[:2].tolist()
    if name.startswith("grid"):
        source, sink = 0, n - 1
    return Problem(*edges, n, source, sink)


def peers(given: Problem) -> dict[str, Callable[[], int]]:
    """What computes the value with each peer that is installed."""
    s, t, shape = given.source, given.sink, (given.n, given.n)
    ends = given.src, given.dst
    matrix = coo_array((given.capacity.astype(np.int32), ends), shape=shape).tocsr()
    found = {"SciPy": lambda: int(csgraph.maximum_flow(matrix, s, t).flow_value)}
    if importlib.util.find_spec("igraph"):
        import igraph

        graph = igraph.Graph(given.n, np.stack(ends, axis=1), directed=True)
        graph.es["capacity"] = given.capacity.tolist()
        found["igraph"] = lambda: int(graph.maxflow(s, t, "capacity").value)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = ["rmat16", "grid300", "sides300", "bipartite20000"]
    parser.add_argument("inputs", nargs="*", default=names)
    parser.add_argument("--device", default="all", help="cpu, cuda or all, the default")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    lines = []
    for name in options.inputs:
        given = problem(name)
        theirs = {peer: timed(run) for peer, run in peers(given).items()}
        for device in devices(options.device):
            ends, weight = (given.src, given.dst), given.capacity
            g = morph.Graph.from_edges(*ends, weight=weight, n=given.n, device=device)
            two = given.source, given.sink
            took, found = median(lambda g=g, two=two: morph.max_flow(g, *two), options.repeat)
            morph.validate.max_flow(g, found.flow, *two, value=found.value, cut=found.cut)
            line = {"input": name, "edges": len(weight), "value": found.value, "device": device}
            line["ms"] = took * 1e3
            for peer, (spent, value) in theirs.items():
                line[peer] = beside(spent, took)
                if value != found.value:
                    raise SystemExit(f"{name}, {device}: {found.value}, but {peer}'s is {value}")
            lines.append(line)
    table(lines)


if __name__ == "__main__":
    main()
