"""`can_run` and `should_run`: which calls the backend supports, and accelerates."""

from __future__ import annotations

from typing import Any

import networkx as nx

from morph.networkx_backend.converted import Converted

LARGE = 20_000  # nodes and edges from which the conversion is cheaper than most searches
LARGE_FOR_ALL_PAIRS = 500  # the same for a search from each node
ALL_PAIRS = {
    "all_pairs_dijkstra_path_length", "all_pairs_shortest_path_length",
    "average_shortest_path_length", "betweenness_centrality", "edge_betweenness_centrality",
    "johnson",
}  # fmt: skip
ONLY_HERE = {"leiden_communities"}  # functions that NetworkX does not implement itself


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Return whether the backend supports a call, or the reason why not.

    Weights are checked by the conversion, see `morph.networkx_backend.converted.exact`.
    """
    graph = _graph(args, kwargs)
    kinds = Converted, nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph
    if type(graph) not in kinds:
        return f"graphs of class {type(graph).__name__} may behave differently"
    if any(map(callable, (*args[1:], kwargs.get("weight")))):
        return "weights or flows by a function"
    if name == "leiden_communities":
        given = dict(zip(("max_level", "seed"), args[3:], strict=False)) | kwargs
        if given.get("max_level") is not None:
            return "max_level"
    if kwargs.get("flow_func") is not None:
        return "flow_func"
    return True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Return whether the backend is faster, including the conversion of the graph."""
    graph = _graph(args, kwargs)
    if isinstance(graph, Converted) or name in ONLY_HERE:
        return True
    least = LARGE_FOR_ALL_PAIRS if name in ALL_PAIRS else LARGE
    if graph.number_of_nodes() + graph.number_of_edges() < least:
        return "the graph is small"
    return True


def _graph(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else kwargs.get("G", kwargs.get("flowG"))
