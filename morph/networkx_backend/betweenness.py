"""Betweenness of edges, with NetworkX's interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.graph.edge_betweenness import edge_betweenness
from morph.graph import Graph
from morph.networkx_backend.betweenness_arguments import lengths_graph, sample
from morph.networkx_backend.converted import Converted, exact

__all__ = ["edge_betweenness_centrality"]


def edge_betweenness_centrality(
    G: Converted, k: int | None = None, normalized: bool = True, weight: Any = None,
    seed: Any = None,
) -> dict[Any, float]:  # fmt: skip
    """Return the betweenness centrality of each edge; equal parallel edges share theirs."""
    edges = list(G.original.edges)
    graph = lengths_graph(G, weight)
    if len(G) < 2:
        return dict.fromkeys(edges, 0.0)
    sources = sample(G, k, seed)
    found = edge_betweenness(graph, sources, weighted=weight is not None, normalized=False)
    centrality = G.host(found.centrality)
    if normalized:  # by one factor, as NetworkX does: its tests compare without a tolerance
        centrality = centrality * ((1 if G.is_directed() else 2) / (len(G) * (len(G) - 1)))
    src, dst = G.arcs
    if G.is_multigraph():
        centrality = _shared(G, graph, centrality, weight)
    once = slice(None) if G.is_directed() else src <= dst  # in the order of `G.edges`
    return dict(zip(edges, centrality[once].tolist(), strict=True))


def _shared(G: Converted, graph: Graph, centrality: Any, weight: Any) -> Any:
    """Divide the value of a pair of nodes among its shortest parallel arcs; the others have 0."""
    src, dst = G.arcs
    codes = src * len(G) + dst
    pair = np.searchsorted(np.unique(codes), codes)  # the edge of the graph without parallel edges
    shortest = np.ones(len(codes), bool)
    if weight is not None:
        shortest = exact(G.values(weight), len(G)) == G.host(graph.edges.weight.array)[pair]
    count = np.bincount(pair, shortest)
    return np.where(shortest, centrality[pair] / count[pair], 0.0)
