"""The vertices around a query that a dense subgraph of bounded size may have, as bit rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.graph.components import connected_components
from morph.algorithms.graph.cores import core_number
from morph.graph import Graph

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
LARGEST = 1 << 15  # vertices around a query that are searched


def farthest(k: int, most: int) -> int:
    """Give the largest distance in a graph of ``most`` vertices and minimum degree ``k``.

    A vertex at distance d of another has d layers between: Yao, Chang, PVLDB 2021, lemma 1.
    """
    if k <= 1:
        return most - 1
    if k + 2 > most:
        return 1
    far = 2
    while k + far + 2 + (far + 1) // 3 * (k - 2) <= most:
        far += 1
    return far


class Subgraph(NamedTuple):
    """``ids``, shape (s,), the query first; ``near``, shape (s, s), whether two are adjacent."""

    ids: Ints
    near: Bools


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
        csr = Graph.from_csr(self.offsets, self.targets, symmetric=True, device=graph.device)
        to_host = graph.device.to_host
        self.core: Ints = np.asarray(to_host(core_number(csr).core)).astype(np.int64)
        self.label: Ints = np.asarray(to_host(connected_components(csr).label)).astype(np.int64)
        self.component_size = np.bincount(self.label, minlength=n)[self.label]
        self._place = np.full(n, -1)  # of vertices in the subgraph that is being made

    def rows(self, points: Ints) -> tuple[Ints, Ints]:
        """Give the edges out of points: the position of the point, and the other end."""
        first, count = self.offsets[points], self.offsets[points + 1] - self.offsets[points]
        ends = np.cumsum(count)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + count, count)
        return np.repeat(np.arange(len(points)), count), self.targets[at]


class Neighbourhood:
    """The surroundings of a query, for subgraphs of ``most`` vertices at most."""

    def __init__(self, graph: SimpleGraph, query: int, most: int) -> None:
        self.graph, self.query, self.most = graph, query, most
        self.adjacent = graph.targets[graph.offsets[query] : graph.offsets[query + 1]]
        second = graph.rows(self.adjacent)[1]
        self.second, self.common = np.unique(second, return_counts=True)
        self.is_adjacent = np.isin(self.second, self.adjacent, assume_unique=True)

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
            if size > self.most:
                return None
            seen.update(front.tolist())
            levels.append(front)
        return np.sort(np.concatenate(levels))

    def candidates(self, k: int) -> Ints:
        """Give vertices of core number ``k`` that are near the query, without it."""
        core, least = self.graph.core, 2 * k - self.most
        if least + 2 > 0:  # any two members have so many common neighbours, or two less if adjacent
            keep = self.common >= np.where(self.is_adjacent, least, least + 2)
            found = self.second[keep & (core[self.second] >= k)]
            if least <= 0:  # adjacent ones may have none
                found = np.union1d(found, self.adjacent[core[self.adjacent] >= k])
            near: Ints = found[found != self.query]
            return near
        seen = np.zeros(self.graph.n, bool)
        seen[self.query] = True
        front, levels = np.array([self.query]), []
        for _ in range(farthest(k, self.most)):
            front = np.unique(self.graph.rows(front)[1])
            front = front[~seen[front] & (core[front] >= k)]
            if not front.size:
                break
            seen[front] = True
            levels.append(front)
        return np.concatenate(levels) if levels else np.zeros(0, np.int64)

    def subgraph(self, k: int) -> Subgraph | None:
        """Give all that a subgraph of minimum degree ``k`` may have, None if there is none.

        Raises
        ------
        MemoryError
            If that are more than `LARGEST` vertices.
        """
        if self.graph.core[self.query] < k:
            return None
        ids = np.concatenate([[self.query], self.candidates(k)])
        if len(ids) <= k:
            return None
        place = self.graph._place
        place[ids] = np.arange(len(ids))
        a, b = self.graph.rows(ids)
        b = place[b]
        place[ids] = -1
        a, b = a[b >= 0], b[b >= 0]
        alive = self._reduced(len(ids), a, b, k)
        if not alive[0]:
            return None
        if (count := int(alive.sum())) > LARGEST:
            raise MemoryError(f"a matrix of {count} rows")
        at = np.cumsum(alive) - 1
        both = alive[a] & alive[b]
        near = np.zeros((count, count), bool)
        near[at[a[both]], at[b[both]]] = True
        return Subgraph(ids[alive], near)

    def _reduced(self, size: int, a: Ints, b: Ints, k: int) -> Bools:
        """Remove vertices until each has ``k`` neighbours, and enough in common with the query."""
        alive, before = np.ones(size, bool), -1
        while alive[0] and before != (before := int(alive.sum())):
            both = alive[a] & alive[b]
            a, b = a[both], b[both]
            degree = np.bincount(a, minlength=size)
            adjacent = np.zeros(size, bool)
            adjacent[b[a == 0]] = True
            common = np.bincount(a[adjacent[b]], minlength=size)
            least = 2 * k - self.most + np.where(adjacent, 0, 2)
            alive &= degree >= k
            alive[1:] &= common[1:] >= least[1:]
        return alive & (self._distances(size, a, b, k) if alive[0] else False)

    def _distances(self, size: int, a: Ints, b: Ints, k: int) -> Bools:
        """Tell which vertices are near enough to the query."""
        reached = np.zeros(size, bool)
        reached[0] = True
        for _ in range(farthest(k, self.most)):
            before = reached.sum()
            reached[b[reached[a]]] = True
            if reached.sum() == before:
                break
        return reached


def greedy(near: Bools, least: int, most: int) -> tuple[int, Ints]:
    """Add the vertex of most chosen neighbours, and so on; give the best of these subgraphs.

    Returns
    -------
    degree : int
        The largest minimum degree among those of ``least`` to ``most`` vertices, -1 if none is.
    members : array of int
    """
    degree = near.sum(axis=1)
    chosen, inside = [0], near[0].astype(np.int64)
    best, size = (0, 1) if least <= 1 else (-1, 0)
    value = inside * (len(near) + 1) + degree
    value[0] = -1
    scale = len(near) + 1
    while len(chosen) < most:
        v = int(value.argmax())
        if value[v] < scale:  # it has no chosen neighbour
            break
        chosen.append(v)
        inside += near[v]
        value += near[v] * scale
        value[chosen] = -1
        found = int(inside[chosen].min())
        if len(chosen) >= least and found > best:
            best, size = found, len(chosen)
    return best, np.array(chosen[:size], np.int64)
