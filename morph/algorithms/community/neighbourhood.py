"""The simple graph of a graph, on the host and on its device, and what the host finds in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.graph.arguments import live_edges
from morph.algorithms.graph.components import connected_components
from morph.algorithms.graph.cores import core_number
from morph.graph import Graph

Ints = NDArray[np.int64]
MAX_CANDIDATES = 1 << 15  # vertices around a query that are searched
LARGEST = 1 << 24  # edges of a graph that keeps its simple graph for the next call


def max_distance(k: int, max_size: int) -> int:
    """Return the largest distance in a graph of ``max_size`` vertices and minimum degree ``k``.

    A vertex at distance d of another has d layers between: Yao, Chang, PVLDB 2021, lemma 1.
    """
    if k <= 1:
        return max_size - 1
    if k + 2 > max_size:
        return 1
    far = 2
    while k + far + 2 + (far + 1) // 3 * (k - 2) <= max_size:
        far += 1
    return far


class SimpleGraph:
    """The simple undirected graph of a graph, on the host, with core numbers from its device.

    Core numbers of deleted points are -1.
    """

    def __init__(self, graph: Graph, src: Ints, dst: Ints) -> None:
        n = len(graph.points)
        apart = src != dst
        src, dst = src[apart], dst[apart]
        pairs = np.sort(np.concatenate([src * n + dst, dst * n + src]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # `np.unique` hashes: 30 times slower
        self.n, self.targets = n, pairs % max(n, 1)
        self.offsets = np.searchsorted(pairs, np.arange(n + 1) * n)
        self.csr = Graph.from_csr(self.offsets, self.targets, symmetric=True, device=graph.device)
        to_host = graph.device.to_host
        core = np.asarray(to_host(core_number(self.csr).core)).astype(np.int64)
        self.core: Ints = np.where(to_host(graph.points.alive), core, -1)
        self.label: Ints = np.asarray(to_host(connected_components(self.csr).label)).astype(
            np.int64
        )
        self.component_size = np.bincount(self.label, minlength=n)[self.label]
        self.search_tables: Any = None  # of searches, see `tasks.search_tables`
        self.csr.points.add("core", np.int32)
        self.csr.points.core[:] = self.core.astype(np.int32)

    def rows(self, points: Ints) -> tuple[Ints, Ints]:
        """Return the edges out of points: the position of the point, and the other end."""
        first, count = self.offsets[points], self.offsets[points + 1] - self.offsets[points]
        ends = np.cumsum(count)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + count, count)
        return np.repeat(np.arange(len(points)), count), self.targets[at]


def simple_graph(graph: Graph) -> SimpleGraph:
    """Return the simple graph of the live edges, that of the call before if nothing has changed."""
    changes, kept = graph.kept.get("simple", (-1, None))
    if changes == graph.changes:
        return kept  # type: ignore[no-any-return]
    live = live_edges(graph)
    columns = (graph.edges.src, graph.edges.dst)
    ends = (graph.device.to_host(x.array[: len(graph.edges)]) for x in columns)
    at = live if isinstance(live, slice) else np.asarray(graph.device.to_host(live))
    made = SimpleGraph(graph, *(np.asarray(e)[at].astype(np.int64) for e in ends))
    if len(graph.edges) <= LARGEST:
        graph.kept["simple"] = graph.changes, made
    return made


def nearest(graph: SimpleGraph, query: int, count: int) -> Ints:
    """Return the first vertices of a breadth-first search, ascending: they are connected."""
    found = front = np.array([query])
    while len(found) < count:
        front = np.setdiff1d(graph.rows(front)[1], found)
        found = np.concatenate([found, front])
    return np.sort(found[:count])  # each has a neighbour in the level before


def component(graph: SimpleGraph, query: int, k: int, most: int) -> Ints | None:
    """Return the query's component of the ``k``-core; None if it exceeds ``most`` vertices."""
    front, seen = np.array([query]), np.zeros(len(graph.core), np.bool_)
    seen[query], count = True, 1
    while len(front) and count <= most:
        front = np.unique(graph.rows(front)[1])
        front = front[(graph.core[front] >= k) & ~seen[front]]
        seen[front] = True
        count += len(front)
    return np.flatnonzero(seen) if count <= most else None


def min_degree(graph: SimpleGraph, members: Ints) -> int:
    """Return the minimum degree of the subgraph that vertices induce."""
    at, ends = graph.rows(members)
    degree = np.bincount(at[np.isin(ends, members)], minlength=len(members))
    return int(degree.min())
