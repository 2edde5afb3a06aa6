"""Betweenness centrality of edges: the fraction of shortest paths that pass through each edge.

The dependency of an edge on a source is the fraction of the shortest paths to its target that use
the edge, times 1 plus the dependency of the target (Brandes, Social Networks 2008).  Dependencies
of points are computed as in `betweenness`; one pass over the edges per source adds the former.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import lists_vertices, live_edges, of_graph_on_one_device
from morph.algorithms.graph.betweenness import chosen_sources, dependencies
from morph.algorithms.graph.betweenness_weighted import is_tight, scaled_part
from morph.graph import Graph
from morph.graph.reverses import have_reverses
from morph.language.arguments import boolean
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import f64


@lists_vertices("sources")
class EdgeBetweenness(NamedTuple):
    """Result of `edge_betweenness`: ``centrality``, shape (m,), float64, and ``sources``.

    ``sources``: ids, int64, or labels, see `Graph.labels`.
    """

    centrality: Any
    sources: Any


@func
def is_step(u, e, v):
    return u.dist < v.dist and u.dist + 1 == v.dist


@func
def part(u, v):
    return u.paths / v.paths


@kernel
def pass_edge(e, leads, part, both):
    u, v = e.src, e.dst
    if leads(u, e, v):
        e.passed += part(u, v) * (1.0 + v.dependency)
    elif both:
        if leads(v, e, u):
            e.passed += part(v, u) * (1.0 + u.dependency)


def _has_equal_reverses(graph: Graph) -> bool:
    src, dst, weight = graph.edge_list()
    is_vector = weight is not None and weight.ndim > 1  # refused later
    return is_vector or have_reverses(graph.device, src, dst, weight)


@of_graph_on_one_device
def edge_betweenness(
    graph: Graph,
    sources: Any = None,
    *,
    weighted: bool = False,
    normalized: bool = True,
    seed: int = 0,
) -> EdgeBetweenness:
    """Compute the betweenness centrality of every edge.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Parallel edges belong to different paths.
    sources : int or array of int, optional
        As in `betweenness`.
    weighted : bool
        As in `betweenness`.
    normalized : bool
        Divide by the number of pairs of points; else the paths of each pair have a total of 1, and
        unless ``graph.directed`` each unordered pair counts once.
    seed : int

    Returns
    -------
    EdgeBetweenness
        ``centrality``, shape (m,), float64, on the graph's device, indexed by edge id, as in
        NetworkX; both arcs of an edge of an undirected graph have its value, deleted edges NaN.
        ``sources``, shape (k,), int64.

    Raises
    ------
    OverflowError, TypeError, ValueError
        As `betweenness`; also if the two arcs of an edge of an undirected graph differ in weight.
    """
    weighted, normalized = boolean(weighted, "weighted"), boolean(normalized, "normalized")
    chosen, both = chosen_sources(graph, sources, seed), not graph.directed
    if both and weighted and not _has_equal_reverses(graph):
        raise ValueError(
            "edge_betweenness needs equal weights both ways in a graph that is not directed"
        )
    with ExitStack() as added:
        added.enter_context(graph.edges.temporary_columns(passed=(f64, 0)))

        def each(scaled: bool) -> None:
            by_weights = weighted and "weight" in graph.edges.columns
            leads = is_tight if by_weights else is_step
            foreach(graph.edges, pass_edge, leads, scaled_part if scaled else part, both)

        added.enter_context(dependencies(graph, chosen, 0.0, weighted, each))
        (share,) = graph.device.copies(graph.edges.passed[:])
    n, k = graph.points.live, len(chosen)
    with graph.device.active():
        if n > 1 and k:
            share *= (1 / (n - 1) if normalized else n / (1 if graph.directed else 2)) / k
        centrality = graph.device.xp.full(len(share), np.nan)
        live = live_edges(graph)
        centrality[live] = share[live]
    return EdgeBetweenness(centrality, chosen.astype(np.int64))
