"""The graph algorithms on an RMAT graph and on a grid, beside SciPy, NetworkX and the checkers.

Every answer is checked by `morph.validate`; the last column is what that takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bfs import grid
from common import devices, median, table

import morph
from morph import validate

Edges = tuple[np.ndarray, np.ndarray, np.ndarray, int]


def rmat(scale: int, each: int = 16, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the edges of Graph500's kind of graph, each once, without loops."""
    rng, n = np.random.default_rng(seed), 1 << scale
    src, dst = np.zeros((2, each * n), np.int64)
    for bit in range(scale):
        at = rng.random(each * n)
        src |= (at > 0.76).astype(np.int64) << bit
        dst |= (((at > 0.57) & (at <= 0.76)) | (at > 0.95)).astype(np.int64) << bit
    names = rng.permutation(n)
    src, dst = names[src], names[dst]
    keys = np.sort((np.minimum(src, dst) * n + np.maximum(src, dst))[src != dst])
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return keys // n, keys % n


def inputs(scale: int, side: int) -> dict[str, Edges]:
    """Both graphs, edges both ways, weights from 1 to 255."""
    found = {}
    a, b = rmat(scale)
    c, d = grid(side)
    once = c < d
    for name, u, v, n in ((f"rmat{scale}", a, b, 1 << scale),
                          (f"grid{side}", c[once], d[once], side**2)):  # fmt: skip
        weight = np.random.default_rng(2).integers(1, 256, len(u)).astype(np.int32)
        ends = np.concatenate([u, v]), np.concatenate([v, u])
        found[name] = *ends, np.concatenate([weight, weight]), n
    return found


def peers(edges: Edges, slow: bool) -> dict[str, Callable[[], Any]]:
    """SciPy's functions, and NetworkX's where SciPy has none."""
    src, dst, weight, n = edges
    found: dict[str, Callable[[], Any]] = {}
    try:
        from scipy.sparse import csgraph, csr_array

        m = csr_array((weight, (src, dst)), shape=(n, n))
        found = {
            "bfs": lambda: csgraph.breadth_first_order(m, 0),
            "sssp": lambda: csgraph.dijkstra(m, indices=0),
            "sssp, predecessors": lambda: csgraph.dijkstra(m, indices=0, return_predecessors=True),
            "connected_components": lambda: csgraph.connected_components(m, directed=False),
            "mst": lambda: csgraph.minimum_spanning_tree(m),
        }
        # triangles by products of the matrix whose edges are turned by degree
        degree = np.bincount(src, minlength=n)
        later = (degree[src] < degree[dst]) | ((degree[src] == degree[dst]) & (src < dst))
        ones = np.ones(int(later.sum()), np.int64)
        turned = csr_array((ones, (src[later], dst[later])), shape=(n, n))
        found["triangle_count"] = lambda: (turned @ turned).multiply(turned).sum()
    except ImportError:
        pass
    if slow:
        try:
            import networkx as nx

            g = nx.from_edgelist(zip(src.tolist(), dst.tolist(), strict=True))
            found["core_number"] = lambda: nx.core_number(g)
            found["pagerank"] = lambda: nx.pagerank(g)
            found["betweenness, 4 sources"] = lambda: nx.betweenness_centrality(g, 4, seed=1)
        except ImportError:
            pass
    return found


RUNS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "bfs": (morph.bfs, lambda g, f: validate.bfs(g, f.distance, f.predecessor)),
    "sssp": (morph.sssp, lambda g, f: validate.sssp(g, f.distance)),
    "sssp, predecessors": (
        lambda g: morph.sssp(g, predecessors=True),
        lambda g, f: validate.sssp(g, f.distance, f.predecessor),
    ),
    "connected_components": (
        morph.connected_components,
        lambda g, f: validate.connected_components(g, f.label),
    ),
    "mst": (morph.mst, lambda g, f: validate.mst(g, f.edges)),
    "core_number": (morph.core_number, lambda g, f: validate.core_number(g, f.core)),
    "triangle_count": (
        morph.triangle_count,
        lambda g, f: validate.triangle_count(g, f.triangles, f.total),
    ),
    "pagerank": (
        lambda g: morph.pagerank(g, tolerance=1e-6),
        lambda g, f: validate.pagerank(g, f.rank, tolerance=1e-6),
    ),
    "betweenness, 4 sources": (
        lambda g: morph.betweenness(g, 4),
        lambda g, f: validate.betweenness(g, f.centrality, f.sources),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=18)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="all")
    parser.add_argument("--slow", action="store_true", help="NetworkX, too")
    parser.add_argument("--only", nargs="*", default=list(RUNS), choices=list(RUNS))
    options = parser.parse_args()
    rows = []
    for name, edges in inputs(options.scale, options.side).items():
        src, dst, weight, n = edges
        others = peers(edges, options.slow)
        graphs = {
            device: morph.Graph.from_edges(src, dst, weight, n, symmetric=True, device=device)
            for device in devices(options.device)
        }
        for what in options.only:
            solve, judge = RUNS[what]
            if what.startswith("betweenness") and name.startswith("grid") and n > 10**5:
                continue  # more shortest paths than a float64 can count
            row: dict[str, Any] = {"graph": name, "what": what}
            for device, g in graphs.items():
                seconds, found = median(lambda g=g, solve=solve: solve(g), options.repeat)
                row[f"{device}, ms"] = seconds * 1e3
                start = time.perf_counter()
                judge(g, found)
                row["check, ms"] = (time.perf_counter() - start) * 1e3
            if what in others:
                row["peer, ms"] = median(others[what], 1 if options.slow else 3, 0)[0] * 1e3
            rows.append(row)
    table(rows)


if __name__ == "__main__":
    main()
