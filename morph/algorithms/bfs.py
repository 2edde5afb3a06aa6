"""Breadth-first search: the number of edges on a shortest path from a source to every point.

Level by level: the points at distance ``level`` give ``level + 1`` to those of their neighbours
that have none.  All writers of a point write the same value, so no atomic is needed (Unnikrishnan
et al., Falcon, figures 48 and 49).  The whole loop is one launch.  Work O(levels * n + m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.scratch import check_source, columns
from morph.collect import Flag
from morph.graph import Graph
from morph.kernel import foreach, kernel, program
from morph.prelude import i32

FAR = 1234567890


class Bfs(NamedTuple):
    """Result of `bfs`: ``distance``, shape (n,), int32, -1 if unreachable; ``levels``, an int."""

    distance: Any
    levels: int


@kernel
def visit(p, g, changed):
    for t in p.outnbrs:
        if t.dist > p.dist + 1:
            t.dist = p.dist + 1
            changed.set()


@program
def search(g, changed, source):
    g.points[source].dist = 0
    level = 0
    changed.set()
    while changed.take():
        foreach(g.points, visit, g, changed, where=lambda p: p.dist == level)
        level += 1
    return level


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
    check_source(len(graph.points), source)
    with columns(graph.points, dist=(i32, FAR)):
        levels = search(graph, Flag(graph), source)
        distance = graph.points.dist[:].copy()
    distance[distance == FAR] = -1
    return Bfs(distance, levels)
