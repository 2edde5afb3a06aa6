"""The vertices around a query that a dense subgraph of bounded size may have, on the host."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.graph.arguments import live_edges
from morph.algorithms.graph.components import connected_components
from morph.algorithms.graph.cores import core_number
from morph.graph import Graph

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MAX_CANDIDATES = 1 << 15  # vertices around a query that are searched


class TooManyCandidates(Exception):
    """More than `MAX_CANDIDATES` vertices may be in a subgraph."""


def farthest(k: int, max_size: int) -> int:
    """Give the largest distance in a graph of ``max_size`` vertices and minimum degree ``k``.

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
    """The simple undirected graph of a graph, on the host, with core numbers from its device."""

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
        self.core: Ints = np.asarray(to_host(core_number(self.csr).core)).astype(np.int64)
        self.label: Ints = np.asarray(to_host(connected_components(self.csr).label)).astype(
            np.int64
        )
        self.component_size = np.bincount(self.label, minlength=n)[self.label]

    def rows(self, points: Ints) -> tuple[Ints, Ints]:
        """Give the edges out of points: the position of the point, and the other end."""
        first, count = self.offsets[points], self.offsets[points + 1] - self.offsets[points]
        ends = np.cumsum(count)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + count, count)
        return np.repeat(np.arange(len(points)), count), self.targets[at]


def simple_graph(graph: Graph) -> SimpleGraph:
    """Give the simple graph of the live edges."""
    live = live_edges(graph)
    columns = (graph.edges.src, graph.edges.dst)
    ends = (graph.device.to_host(x.array[: len(graph.edges)]) for x in columns)
    at = live if isinstance(live, slice) else np.asarray(graph.device.to_host(live))
    return SimpleGraph(graph, *(np.asarray(e)[at].astype(np.int64) for e in ends))


class Neighbourhood:
    """The surroundings of a query, for subgraphs of ``max_size`` vertices at most."""

    def __init__(self, graph: SimpleGraph, query: int, max_size: int) -> None:
        self.graph, self.query, self.max_size = graph, query, max_size
        self.adjacent = graph.targets[graph.offsets[query] : graph.offsets[query + 1]]

    @cached_property
    def second(self) -> tuple[Ints, Ints, Bools]:
        """The neighbours of neighbours: ids, neighbours in common, and whether adjacent."""
        ids, common = np.unique(self.graph.rows(self.adjacent)[1], return_counts=True)
        return ids, common, np.isin(ids, self.adjacent, assume_unique=True)

    def nearest(self, count: int) -> tuple[int, Ints]:
        """Give the minimum degree among the first vertices of a breadth-first search, and these."""
        found = front = np.array([self.query])
        while len(found) < count:
            front = np.setdiff1d(self.graph.rows(front)[1], found)
            found = np.concatenate([found, front])
        found = found[:count]  # connected: each has a neighbour in the level before
        return self.min_degree(found), np.sort(found)

    def min_degree(self, members: Ints) -> int:
        """Give the minimum degree of the subgraph that vertices induce."""
        at, ends = self.graph.rows(members)
        degree = np.bincount(at[np.isin(ends, members)], minlength=len(members))
        return int(degree.min())

    def component(self, k: int) -> Ints | None:
        """Give the query's component in the ``k``-core, None if it is too large."""
        core, front = self.graph.core, np.array([self.query])
        seen, levels, size = {self.query}, [front], 1
        while front.size:
            front = self.graph.rows(front)[1]
            front = np.unique(front[core[front] >= k])
            front = front[[v not in seen for v in front.tolist()]] if front.size else front
            size += front.size
            if size > self.max_size:
                return None
            seen.update(front.tolist())
            levels.append(front)
        return np.sort(np.concatenate(levels))

    def candidates(self, k: int) -> Ints:
        """Give the vertices that a subgraph of minimum degree ``k`` may have.

        Returns
        -------
        array of int
            The query, then other vertices, ascending; a superset.

        Raises
        ------
        TooManyCandidates
        """
        core, least = self.graph.core, 2 * k - self.max_size
        if least + 2 > 0:  # any two members have so many common neighbours, or two less if adjacent
            ids, common, is_adjacent = self.second
            keep = common >= np.where(is_adjacent, least, least + 2)
            others = ids[keep & (core[ids] >= k)]
            if least <= 0:  # adjacent ones may have none
                others = np.union1d(others, self.adjacent[core[self.adjacent] >= k])
            others = others[others != self.query]
        else:
            others = self._within(k, farthest(k, self.max_size))
        if len(others) >= MAX_CANDIDATES:
            raise TooManyCandidates(f"{len(others)} vertices may be in a subgraph")
        return np.concatenate([[self.query], others])

    def _within(self, k: int, distance: int) -> Ints:
        """Give the other vertices within a distance in the ``k``-core, ascending."""
        core = self.graph.core
        seen = np.zeros(self.graph.n, bool)
        seen[self.query] = True
        front, levels = np.array([self.query]), [np.zeros(0, np.int64)]
        for _ in range(distance):
            front = np.unique(self.graph.rows(front)[1])
            front = front[~seen[front] & (core[front] >= k)]
            if not front.size:
                break
            seen[front] = True
            levels.append(front)
        return np.sort(np.concatenate(levels))
