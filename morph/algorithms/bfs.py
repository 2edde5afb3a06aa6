"""Breadth-first search: the number of edges on a shortest path from a source to every point.

Level by level on two worklists that are swapped: the points of a level give ``level + 1`` to those
of their neighbours that are farther, and whoever lowers a point first adds it to the next level
(Unnikrishnan et al., Falcon, figure 36).  The whole loop is one launch.  Work O(n + m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.scratch import check_source, columns
from morph.collect import Collection
from morph.graph import Graph
from morph.kernel import foreach, kernel, program
from morph.prelude import atomic_min, i32

FAR = 1234567890


class Bfs(NamedTuple):
    """Result of `bfs`: ``distance``, shape (n,), int32, -1 if unreachable; ``levels``, an int."""

    distance: Any
    levels: int


@kernel
def visit(p, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
            following.add(t)


@program
def search(current, following):
    levels = 0
    while not current.empty:
        foreach(current, visit, following)
        current, following = following, current
        following.clear()
        levels += 1
    return levels


def bfs(graph: Graph, source: int = 0) -> Bfs:
    """Find the number of edges from ``source`` to every point.

    Parameters
    ----------
    graph : Graph
        On any device; out-edges are followed.
    source : int
        Id of a point.

    Returns
    -------
    Bfs
        ``distance``, shape (n,), int32, on the graph's device, -1 where there is no path;
        ``levels``, how many levels were expanded.

    Raises
    ------
    ValueError
        If ``source`` is not a point.
    """
    n = len(graph.points)
    check_source(n, source)
    with columns(graph.points, dist=(i32, FAR)):
        graph.points[source].dist = 0
        current, following = (Collection(graph.points, capacity=n) for _ in range(2))
        current.add(source)
        levels = search(current, following)
        distance = graph.points.dist[:].copy()
    distance[distance == FAR] = -1
    return Bfs(distance, levels)
