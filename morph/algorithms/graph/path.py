"""A path of a shortest-path tree, as arrays of its vertices and edges.

One thread follows the predecessors from the target, first to count them.  Then all edges of the
path are looked up in parallel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import as_graph, in_labels, lists_vertices, vertex_id
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.labels import name_of
from morph.language.arguments import integer
from morph.language.messages import shown
from morph.launch.foreach import foreach, kernel
from morph.prelude import i32, i64
from morph.runtime.arrays import all_true


@lists_vertices("vertices")
class Path(NamedTuple):
    """Result of `path`: ``vertices``, shape (k + 1,), int32, and ``edges``, shape (k,), int64.

    Both are on the graph's device and begin at the source; ``edges`` are ids.  If points have
    labels, ``vertices`` are labels, on the host, see `Graph.labels`.
    """

    vertices: Any
    edges: Any


@kernel
def count_steps(scalars, target, before, most):
    at, steps = i32(target), 0
    while before[at] >= 0 and steps < most:
        at = before[at]
        steps += 1
    scalars.steps = steps


@kernel
def list_vertices(scalars, target, before, steps):
    at, k = i32(target), scalars.steps
    while k >= 0:
        steps[k].vertex = at
        at = before[at]
        k -= 1


@kernel
def find_edge(step, g, steps):
    """Find the edge from the previous vertex: the lightest of parallel edges, ties by order."""
    step.edge = -1
    if step.id > 0:
        found = None
        for e in g.points[steps[step.id - 1].vertex].outedges:
            if e.dst.id == step.vertex:
                if found is None:
                    found = e
                elif hasattr(e, "weight"):
                    if e.weight < found.weight:
                        found = e
        if found is not None:
            step.edge = i64(found.id)


def path(graph: Graph, found: Any, target: int, *, row: int | None = None) -> Path:
    """Return the path to a vertex in a shortest-path tree, the result of `bfs` or `sssp`.

    Parameters
    ----------
    graph : Graph
        Graph of the result; not partitioned.
    found : Bfs, Sssp or any tuple with ``distance`` and ``predecessor``
        `sssp` computes predecessors with ``predecessors=True``.
    target : int
        Id or label of a vertex.
    row : int, optional
        Row of the result, if it has one for each of several sources.

    Returns
    -------
    Path

    Raises
    ------
    TypeError
        If ``target`` or ``row`` is not an integer, or the graph is partitioned.
    ValueError
        If ``target`` is not a vertex or not reachable, if the result has no such row or no
        predecessors, or does not belong to this graph.
    """
    graph = as_graph(graph)
    with graph._lock:
        end = vertex_id(graph, target, "target")
        if not hasattr(found, "distance") or not hasattr(found, "predecessor"):
            raise TypeError(f"found is the result of a search, not {shown(found)}")
        distance, before = found.distance, found.predecessor
        if before is None:
            raise ValueError("the result has no predecessors: sssp(..., predecessors=True)")
        n = len(graph.points)
        if row is not None:
            row = integer(row, "row")
            if before.ndim != 2 or not 0 <= row < len(before):
                raise ValueError(f"row = {row} of predecessors with shape {before.shape}")
            distance, before = distance[row], before[row]
        if before.shape != (n,):
            raise ValueError(f"predecessor has shape {before.shape}, not ({n},): row= selects one")
        if before[end].item() < 0 and distance[end].item() != 0:
            raise ValueError(f"no path leads to vertex {name_of(graph, end)}")
        made = _traced(graph, before, end)
        return made if graph._labels is None else in_labels(graph, made)


def _traced(graph: Graph, before: Any, end: int) -> Path:
    """Follow the predecessors from a vertex."""
    n, steps = len(graph.points), Table("steps", graph.device, vertex=i32, edge=i64)
    with graph.points.temporary_columns(predecessor=(i32, -1)):
        graph.points.predecessor[:] = before
        with graph.device.active():
            largest = int(graph.points.predecessor[:].max())
        if largest >= n:
            raise ValueError(f"predecessor {largest}: the graph has {n} points")
        scalars = Scalars(graph, steps=0)
        foreach(scalars, count_steps, end, graph.points.predecessor, n)
        count = int(scalars.steps)
        if count == n:
            raise ValueError(f"the predecessors of vertex {name_of(graph, end)} form a cycle")
        steps.extend(count + 1)
        foreach(scalars, list_vertices, end, graph.points.predecessor, steps)
    return Path(steps.vertex[:].copy(), _edges_of(graph, steps))


def edges_along(graph: Graph, vertices: Any) -> Any:
    """Return the ids of the edges between consecutive vertices."""
    steps = Table("steps", graph.device, vertex=i32, edge=i64)
    steps.extend(vertex=vertices)
    return _edges_of(graph, steps)


def _edges_of(graph: Graph, steps: Table) -> Any:
    foreach(steps, find_edge, graph, steps)
    with graph.device.active():
        edges = steps.edge[1:].copy()
        if not all_true(edges >= 0):
            k = int((edges < 0).argmax())
            u, v = (name_of(graph, steps.vertex[i]) for i in (k, k + 1))
            raise ValueError(f"no edge leads from {u} to {v}: the result is none of this graph")
        return edges
