"""Distances between all points, with weights that may be negative: Johnson's algorithm.

`bellman_ford` from all points at once yields the potential of each point: the least length of a
path that ends there, at most 0.  The reduced weight of an edge (weight plus potential of its source
minus potential of its target) is not negative (Johnson, JACM 1977), so `sssp` computes all rows
with reduced weights; the difference of two potentials corrects each distance.
Work: O(n m) at most for the potentials, and one search per source.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges, of_graph_on_one_device, source_rows
from morph.algorithms.graph.bellman_ford import bellman_ford
from morph.algorithms.graph.sssp import sssp
from morph.graph import Graph
from morph.graph.labels import VertexIds, name_of
from morph.language.arguments import boolean
from morph.runtime.arrays import all_true, any_true


class Johnson(NamedTuple):
    """Result of `johnson`: ``distance`` and ``predecessor`` (int32, or None), shape (k, n)."""

    distance: Any
    predecessor: Any


@of_graph_on_one_device
def johnson(graph: Graph, sources: Any = None, *, predecessors: bool = False) -> Johnson:
    """Find shortest paths between all points, with weights that may be negative.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device, with edge weights of any real type, by default 1; paths follow out-edges.
    sources : int or array of int, optional
        Ids or labels of the ``k`` sources; by default all live points, in order of ids.
    predecessors : bool
        Whether to compute ``predecessor``.

    Returns
    -------
    Johnson
        Row ``i`` is as in ``sssp(graph, sources, rows=True)``.  Exact for integer weights; for
        other weights computed in float64, with rounding errors relative to the longest path.

    Raises
    ------
    NegativeCycle
        If the graph has a cycle of negative weight, reachable or not; the error has the cycle's
        ``vertices`` and ``edges``.
    TypeError
        If a source is not an integer, or the graph is partitioned.
    ValueError
        If a source is not a vertex, or a weight is NaN or minus infinity.
    OverflowError
        If distances might not fit int64, or a distance overflows its floating-point type.
    """
    predecessors = boolean(predecessors, "predecessors")
    ids = graph.device.to_host(graph.points.ids())
    starts = source_rows(graph, VertexIds(ids) if sources is None else sources)
    with graph.device.active():
        weight = graph.edges.weight[live_edges(graph)] if "weight" in graph.edges.columns else None
        has_negative = weight is not None and not all_true(weight >= 0)
    if not has_negative:
        return Johnson(*sssp(graph, VertexIds(starts), rows=True, predecessors=predecessors))
    potential = bellman_ford(graph, VertexIds(ids)).distance  # raises the errors above
    kind = potential.dtype
    with graph.device.active():
        potential = potential.astype(np.float64 if kind.kind == "f" else np.int64)
        reduced = _reweighted(graph, weight, potential)
    found = sssp(reduced, starts, rows=True, predecessors=predecessors)
    return Johnson(_corrected(graph, found.distance, starts, potential, kind), found.predecessor)


def _reweighted(graph: Graph, weight: Any, potential: Any) -> Graph:
    """Return a graph with the reduced weights, which are not negative."""
    xp, pick = graph.device.xp, live_edges(graph)
    src, dst = graph.edges.src[pick], graph.edges.dst[pick]
    weight = weight.astype(potential.dtype) + potential[src] - potential[dst]
    if weight.dtype.kind == "f":  # rounding errors may be negative
        weight = xp.maximum(weight, 0)
    n = len(graph.points)
    return Graph.from_edges(src, dst, weight=weight, n=n, symmetric=False, device=graph.device)


def _corrected(graph: Graph, distance: Any, starts: Any, potential: Any, kind: Any) -> Any:
    """Return the distances with the original weights, in the dtype of the result."""
    xp = graph.device.xp
    with graph.device.active():
        real = distance.dtype.kind == "f"
        infinity = np.inf if real else np.iinfo(np.int64).max
        unreached = distance == infinity
        corrected = xp.where(unreached, 0, distance) + potential[None, :]
        corrected -= potential[xp.asarray(starts)][:, None]
        if real:
            beyond = ~unreached & ~(abs(corrected) <= np.finfo(kind).max)
            if any_true(beyond):
                k, v = (int(i[0]) for i in xp.nonzero(beyond))
                s, t = name_of(graph, starts[k]), name_of(graph, v)
                raise OverflowError(f"a distance from vertex {s} to {t} does not fit {kind}")
        return xp.where(unreached, infinity, corrected).astype(kind)
