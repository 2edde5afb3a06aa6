"""Distances between all points, with weights that may be negative: Johnson's algorithm.

`bellman_ford` from all points at once gives each point a potential: the least length of a path that
ends there, at most 0.  A weight plus the potential of the edge's source, less that of its target,
is not negative (Johnson, JACM 1977), so `sssp` finds all rows in the changed weights, and the
difference of two potentials corrects each distance.

Work: O(n m) at most for the potentials, and a search for each source.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges, of_graph_on_one_device, source_rows
from morph.algorithms.graph.bellman_ford import bellman_ford
from morph.algorithms.graph.sssp import sssp
from morph.data.conversion import truth
from morph.graph import Graph
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
        On any device, with edge weights of any real type, 1 if it has none; out-edges are followed.
    sources : int or array of int, optional
        Ids or labels of the ``k`` vertices to start at; by default all live points, in order of
        their ids.
    predecessors : bool
        Whether to find ``predecessor``.

    Returns
    -------
    Johnson
        Row ``i`` is as that of ``sssp(graph, sources, rows=True)``.  Exact for integer weights;
        others are computed in float64, and are rounded in proportion to the longest path.

    Raises
    ------
    NegativeCycle
        If the graph has a cycle of negative weight, whether a source reaches it or not; it has the
        cycle's ``vertices`` and ``edges``.
    TypeError
        If a source is not an integer, or the graph is in parts.
    ValueError
        If a source is not a vertex, or a weight is NaN or minus infinity.
    OverflowError
        If distances might not fit int64, or one does not fit the floating-point type.
    """
    predecessors = truth(predecessors, "predecessors")
    ids = graph.device.to_host(graph.points.ids())
    starts = source_rows(graph, ids if sources is None else sources)
    with graph.device.active():
        weight = graph.edges.weight[live_edges(graph)] if "weight" in graph.edges.columns else None
        has_negative = weight is not None and not all_true(weight >= 0)
    if not has_negative:
        return Johnson(*sssp(graph, starts, rows=True, predecessors=predecessors))
    potential = bellman_ford(graph, ids).distance  # refuses what has no distances
    kind = potential.dtype
    with graph.device.active():
        potential = potential.astype(np.float64 if kind.kind == "f" else np.int64)
        changed = _changed(graph, weight, potential)
    found = sssp(changed, starts, rows=True, predecessors=predecessors)
    return Johnson(_corrected(graph, found.distance, starts, potential, kind), found.predecessor)


def _changed(graph: Graph, weight: Any, potential: Any) -> Graph:
    """Return a graph of the same points whose weights are not negative."""
    xp, pick = graph.device.xp, live_edges(graph)
    src, dst = graph.edges.src[pick], graph.edges.dst[pick]
    weight = weight.astype(potential.dtype) + potential[src] - potential[dst]
    if weight.dtype.kind == "f":  # rounding may leave a little less than 0
        weight = xp.maximum(weight, 0)
    n = len(graph.points)
    return Graph.from_edges(src, dst, weight=weight, n=n, symmetric=False, device=graph.device)


def _corrected(graph: Graph, distance: Any, starts: Any, potential: Any, kind: Any) -> Any:
    """Return the distances in the weights of the graph, in the type of the result."""
    xp = graph.device.xp
    with graph.device.active():
        real = distance.dtype.kind == "f"
        unreached = distance == (np.inf if real else np.iinfo(np.int64).max)
        near = xp.where(unreached, 0, distance) + potential[None, :]
        near -= potential[xp.asarray(starts)][:, None]
        if real:
            lost = ~unreached & ~(abs(near) <= np.finfo(kind).max)
            if any_true(lost):
                k, v = (int(i[0]) for i in xp.nonzero(lost))
                raise OverflowError(
                    f"a distance from vertex {starts[k]} to {v} does not fit {kind}"
                )
        return xp.where(unreached, np.inf if real else np.iinfo(np.int64).max, near).astype(kind)
