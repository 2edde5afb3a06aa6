"""Betweenness centrality: the share of shortest paths (in edges) that pass through each point.

Brandes' algorithm, one source after another: level by level forwards, counting shortest paths, then
backwards, adding up what each point carries (Brandes 2001; Unnikrishnan et al., Falcon, figures 34
and 35).  Both sweeps of a source are one launch.  Work O(sources * (levels * n + m)).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from morph.algorithms.scratch import check_source, columns
from morph.collect import Flag
from morph.graph import Graph
from morph.kernel import foreach, kernel, program
from morph.prelude import atomic_add, f64, i32

FAR = 1234567890


@kernel
def reset(p):
    p.dist = FAR
    p.sigma = 0.0
    p.delta = 0.0


@kernel
def forward(p, changed):
    for t in p.outnbrs:
        if t.dist > p.dist + 1:
            t.dist = p.dist + 1
            changed.set()
        if t.dist == p.dist + 1:
            atomic_add(t.sigma, p.sigma)


@kernel
def backward(p):
    carried = 0.0
    for t in p.outnbrs:
        if t.dist == p.dist + 1:
            carried += p.sigma / t.sigma * (1.0 + t.delta)
    p.delta = carried
    if p.dist > 0:
        p.bc += carried


@program
def accumulate(g, changed, source):
    foreach(g.points, reset)
    g.points[source].dist = 0
    g.points[source].sigma = 1.0
    level = 0
    changed.set()
    while changed.take():
        foreach(g.points, forward, changed, where=lambda p: p.dist == level)
        level += 1
    while level > 0:
        level -= 1
        foreach(g.points, backward, where=lambda p: p.dist == level)


def betweenness(graph: Graph, sources: Iterable[int] | None = None) -> Any:
    """Find the betweenness centrality of every point.

    Parameters
    ----------
    graph : Graph
        On any device; edges count one each, followed outwards.
    sources : iterable of int, optional
        Start only from these points; all points by default, which is exact.

    Returns
    -------
    array, shape (n,), float64
        Sum over the sources of the pair dependencies, not normalised; on a graph whose edges are
        held in both directions each pair counts twice.

    Raises
    ------
    ValueError
        If a source is not a point.
    """
    n = len(graph.points)
    chosen = list(range(n)) if sources is None else [int(s) for s in sources]
    for s in chosen:
        check_source(n, s)
    changed = Flag(graph)
    with columns(graph.points, dist=(i32, FAR), sigma=(f64, 0), delta=(f64, 0), bc=(f64, 0)):
        for s in chosen:
            accumulate(graph, changed, s)
        return graph.points.bc[:].copy()
