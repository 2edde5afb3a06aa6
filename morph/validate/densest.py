"""Checker of densest subgraphs, by augmenting paths in Python integers."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.language.arguments import boolean
from morph.language.messages import shortened
from morph.validate.arcs import Arcs, Ints, WrongAnswer


def densest_subgraph(graph: Graph, points: Any, density: Any = None, exact: Any = True) -> None:
    """Check a densest subgraph, with edges as in `morph.densest_subgraph`.

    The proof is the dual solution: each edge is divided between its ends so that the load of no
    vertex exceeds the density.  Slow for more than 100,000 edges in a dense part.

    Parameters
    ----------
    graph : Graph
    points : array of ids or labels
    density : Fraction, optional
    exact : bool
        Whether ``points`` must be the union of all densest subgraphs; else a density of at least
        half the maximum is accepted.

    Raises
    ------
    WrongAnswer
    """
    arcs = Arcs(graph)
    inside = _inside(arcs, points)
    edges = _pairs(arcs)
    count = int(inside.sum())
    if count == 0:
        if arcs.alive.any():
            raise WrongAnswer("no subgraph of a graph that has vertices")
        return
    found = Fraction(int(inside[edges].all(axis=1).sum()), count)
    exact = boolean(exact, "exact")
    if density is not None and found != density:
        raise WrongAnswer(f"the density is {found}, not {shortened(str(density))}")
    most = found if exact else 2 * found
    tight = _tight(arcs, edges, most)
    denser = Fraction(int(tight[edges].all(axis=1).sum()), max(int(tight.sum()), 1))
    if denser > most:
        raise WrongAnswer(f"the density is {found}, but that of another subgraph is {denser}")
    if exact and (missing := np.flatnonzero(tight & ~inside)).size:
        v = arcs.vertex(missing[0])
        raise WrongAnswer(f"{v} is in another subgraph of the density {found}")


def _inside(arcs: Arcs, points: Any) -> Any:
    ids = arcs.listed(points)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise WrongAnswer(f"the points have shape {ids.shape} and type {ids.dtype}")
    for v in ids.tolist():
        if not (0 <= v < arcs.n and arcs.alive[v]):
            raise WrongAnswer(f"{v} is not a vertex")
    if len(np.unique(ids)) != len(ids):
        raise WrongAnswer("the points are not distinct")
    inside = np.zeros(arcs.n, bool)
    inside[ids.astype(np.int64)] = True
    return inside


def _pairs(arcs: Arcs) -> Ints:
    """Return the pairs of adjacent vertices, each once."""
    ends = np.sort(np.stack([arcs.src, arcs.dst], axis=1).astype(np.int64), axis=1)
    pairs: Ints = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return pairs


def _tight(arcs: Arcs, edges: Ints, density: Fraction) -> Any:
    """Return the largest set of vertices of at least this density, if none is denser."""
    left = arcs.alive.copy()
    while True:  # a vertex of a densest subgraph has a degree in it of at least the density
        edges = edges[left[edges].all(axis=1)]
        degree = np.bincount(edges.ravel(), minlength=arcs.n)
        few = left & (degree * density.denominator < density.numerator)
        if not few.any():
            break
        left[few] = False
    tight = np.zeros(arcs.n, bool)
    tight[list(_Division(edges.tolist(), np.flatnonzero(left).tolist(), density).full())] = True
    return tight


class _Division:
    """Units of edges, divided between their ends; each vertex has a capacity in units."""

    def __init__(self, edges: list[list[int]], vertices: list[int], density: Fraction) -> None:
        self.units = density.denominator
        self.left = dict.fromkeys(vertices, density.numerator)
        self.held: dict[int, dict[int, int]] = {v: {} for v in vertices}  # units, by neighbour
        for u, v in edges:
            few = min(max(self.left[u], 0), self.units)
            self._give(u, v, few)
            self._give(v, u, self.units - few)
        while self._improve():
            pass

    def _give(self, u: int, v: int, units: int) -> None:
        self.held[u][v] = self.held[u].get(v, 0) + units
        self.left[u] -= units

    def _height(self) -> dict[int, int]:
        """Return the distance of each vertex to free capacity, for those that have a path to it."""
        height = {v: 0 for v, left in self.left.items() if left > 0}
        queue = deque(height)
        while queue:
            v = queue.popleft()
            for u in self.held[v]:
                if u not in height and self.held[u][v] > 0:
                    height[u] = height[v] + 1
                    queue.append(u)
        return height

    def _improve(self) -> bool:
        """Move units along shortest augmenting paths until there is none (Dinic 1970)."""
        height, improved = self._height(), False
        ways = {v: iter(self.held[v]) for v in height}
        for start in height:
            path = [start]
            while path and self.left[start] < 0:
                v = path[-1]
                if self.left[v] > 0:
                    self._move(path)
                    improved, path = True, [start]
                    ways[start] = iter(self.held[start])
                    continue
                for u in ways[v]:
                    if height.get(u) == height[v] - 1 and self.held[v][u] > 0:
                        path.append(u)
                        break
                else:
                    path.pop()
        return improved

    def _move(self, path: list[int]) -> None:
        steps = list(zip(path, path[1:], strict=False))
        units = min(self.held[u][v] for u, v in steps)
        units = min(units, -self.left[path[0]], self.left[path[-1]])
        for u, v in steps:
            self._give(u, v, -units)
            self._give(v, u, units)

    def full(self) -> set[int]:
        """Return the vertices without a path to free capacity."""
        return set(self.left) - set(self._height())
