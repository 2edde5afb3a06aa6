"""Single-source shortest paths with non-negative weights.

Bellman-Ford on the points that changed: each lowers its neighbours with an atomic minimum, until no
distance falls (Unnikrishnan et al., Falcon, figure 42).  The whole loop is one launch.
Work O(rounds * n + relaxations).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.scratch import check_source, columns
from morph.collect import Flag
from morph.graph import Graph
from morph.kernel import foreach, kernel, program
from morph.prelude import atomic_min, bool_


class Sssp(NamedTuple):
    """Result of `sssp`: ``distance``, shape (n,), and ``rounds``, an int."""

    distance: Any
    rounds: int


@kernel
def relax(p, g, changed):
    p.updated = False
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)


@kernel
def mark(p):
    p.updated = p.dist < p.before
    p.before = p.dist


@program
def search(g, changed, source):
    g.points[source].dist = 0
    g.points[source].updated = True
    changed.set()
    rounds = 0
    while changed.take():
        foreach(g.points, relax, g, changed, where=lambda p: p.updated)
        foreach(g.points, mark)
        rounds += 1
    return rounds


def sssp(graph: Graph, source: int = 0) -> Sssp:
    """Find the length of a shortest path from ``source`` to every point.

    Parameters
    ----------
    graph : Graph
        On any device, with edge weights of any real type.
    source : int
        Id of a point.

    Returns
    -------
    Sssp
        ``distance``, shape (n,), on the graph's device: int64 for integer weights, else of the
        weights' type; unreachable is the largest int64, or infinity.

    Raises
    ------
    ValueError
        If ``source`` is not a point, there are no weights, or one is negative or NaN.
    """
    check_source(len(graph.points), source)
    if "weight" not in graph.edges.columns:
        raise ValueError("sssp needs edge weights: give weight= when the graph is made")
    weight = graph.edges.weight.array
    if weight.size and not bool((weight >= 0).all()):
        raise ValueError("sssp needs weights that are not negative and not NaN")
    dtype = weight.dtype if weight.dtype.kind == "f" else np.dtype(np.int64)
    far = np.inf if dtype.kind == "f" else np.iinfo(np.int64).max
    with columns(graph.points, dist=(dtype, far), before=(dtype, far), updated=(bool_, False)):
        rounds = search(graph, Flag(graph), source)
        return Sssp(graph.points.dist[:].copy(), rounds)
