"""Topological order of a directed acyclic graph, level by level.

Points without in-edges have level 0.  After the points of a level and their out-edges are removed,
the points without in-edges are the next level (Kahn, CACM 1962): a point's level is the number of
edges on a longest path to it.  One pass over the out-edges counts in-edges, so no index of in-edges
is needed.  If the graph has a cycle, some points remain, and following predecessors among them
finds a cycle.  One launch.  Work: O(n + m), plus the sort of the points by level.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import lists_vertices, of_graph_on_one_device, results
from morph.algorithms.graph.cycles import NO_PREDECESSOR, CycleError, refuse_cycle
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.operators.sort import argsort
from morph.prelude import atomic_add, atomic_min, atomic_sub, i32


@lists_vertices("order")
class TopologicalOrder(NamedTuple):
    """Result of `topological_order`.

    ``order``, shape (live,): the ids of the points, int64, or labels, see `Graph.labels`;
    ``level``, shape (n,), int32; ``levels``, an int: how many there are.
    """

    order: Any
    level: Any
    levels: int


@kernel
def count_in(p):
    for t in p.outnbrs:
        atomic_add(t.waiting, 1)


@kernel
def start(p, now):
    if p.waiting == 0:
        p.level = 0
        now.add(p)


@kernel
def remove(p, level, then):
    for t in p.outnbrs:
        if atomic_sub(t.waiting, 1) == 1:
            t.level = level
            then.add(t)


@kernel
def find_predecessor(p):
    for t in p.outnbrs:
        if t.level < 0:
            atomic_min(t.predecessor, p.id)


@program
def find_levels(g, now, then, live):
    """Return the number of levels, or -1 if there is a cycle."""
    foreach(g.points, count_in)
    foreach(g.points, start, now)
    level, done = i32(0), 0
    while not now.empty:
        level += 1
        done += len(now)
        foreach(now, remove, level, then)
        now, then = then, now
        then.clear()
    if done < live:
        foreach(g.points, find_predecessor, where=lambda p: p.level < 0)
        level = i32(-1)
    return level


@of_graph_on_one_device
def topological_order(graph: Graph) -> TopologicalOrder:
    """Order the points of a directed acyclic graph such that every edge leads forwards.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.

    Returns
    -------
    TopologicalOrder
        On the graph's device; labels are on the host.  ``level``: the number of edges on the
        longest path to a point, -1 for deleted points.  ``order``: the points by level, ties by id;
        so neither depends on the device or the number of threads.

    Raises
    ------
    CycleError
        If there is a cycle; a `ValueError` with its ``vertices`` and ``edges``.  An undirected
        graph with an edge has a cycle.
    """
    n = len(graph.points)

    def make() -> list[Any]:
        return [Collection(graph.points, capacity=n) for _ in range(2)]

    columns: dict[str, Any] = {"waiting": (i32, 0), "level": (i32, -1)}
    columns["predecessor"] = i32, NO_PREDECESSOR
    with workspace(graph, "topological", make, **columns) as lists:
        levels = int(find_levels(graph, *lists, graph.points.live))
        if levels < 0:
            refuse_cycle(graph, graph.points.predecessor[:], CycleError)
        (level,) = results(graph, "level")
        return TopologicalOrder(argsort(graph.points.level), level, levels)
