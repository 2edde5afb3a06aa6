"""Components, cores, communities, spanning trees, PageRank and others, with NetworkX's interface.

Arguments, results and errors are those of NetworkX's functions of the same names.  Decorators of
NetworkX reject directed, undirected and multigraphs before these functions are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np

from morph.algorithms.graph.betweenness import betweenness
from morph.algorithms.graph.components import connected_components as find_components
from morph.algorithms.graph.cores import core_number as find_cores
from morph.algorithms.graph.leiden import leiden
from morph.algorithms.graph.mst import mst
from morph.algorithms.graph.pagerank import pagerank as rank_points
from morph.algorithms.graph.strong import strongly_connected_components as find_strong
from morph.algorithms.graph.triangles import triangle_count
from morph.graph import Graph
from morph.language.messages import shown
from morph.networkx_backend.betweenness_arguments import lengths_graph, sample
from morph.networkx_backend.converted import Converted, exact

__all__ = [
    "average_clustering", "betweenness_centrality", "clustering", "connected_components",
    "core_number", "is_connected", "is_strongly_connected", "is_weakly_connected",
    "leiden_communities", "maximum_spanning_edges", "maximum_spanning_tree",
    "minimum_spanning_edges", "minimum_spanning_tree", "node_connected_component",
    "number_connected_components", "number_strongly_connected_components",
    "number_weakly_connected_components", "pagerank", "strongly_connected_components",
    "transitivity", "triangles", "weakly_connected_components",
]  # fmt: skip


def _sets(G: Converted, label: Any) -> Iterator[set[Any]]:
    """Yield the nodes of each label, in the order of the labels."""
    label = G.host(label)
    order = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    for part in np.split(order, starts[1:]) if len(order) else ():
        yield set(G.nodes[part].tolist())


def _one(G: Converted, components: int) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return components == 1


def connected_components(G: Converted) -> Iterator[set[Any]]:
    """Generate the sets of nodes of the components."""
    return _sets(G, find_components(G.graph()).label)


def number_connected_components(G: Converted) -> int:
    """Count the components."""
    return int(find_components(G.graph()).components)


def is_connected(G: Converted) -> bool:
    """Whether there is exactly one component."""
    return _one(G, find_components(G.graph()).components)


def node_connected_component(G: Converted, n: Any) -> set[Any]:
    """Return the nodes of the component of a node."""
    if n not in G.index:
        raise KeyError(n)
    label = G.host(find_components(G.graph()).label)
    return set(G.nodes[label == label[G.index[n]]].tolist())


def weakly_connected_components(G: Converted) -> Iterator[set[Any]]:
    """Generate the sets of nodes of the weakly connected components."""
    return _sets(G, find_components(G.graph()).label)


def number_weakly_connected_components(G: Converted) -> int:
    """Count the weakly connected components."""
    return int(find_components(G.graph()).components)


def is_weakly_connected(G: Converted) -> bool:
    """Whether there is exactly one weakly connected component."""
    return _one(G, find_components(G.graph()).components)


def strongly_connected_components(G: Converted) -> Iterator[set[Any]]:
    """Generate the sets of nodes of the strongly connected components."""
    return _sets(G, find_strong(G.graph()).label)


def number_strongly_connected_components(G: Converted) -> int:
    """Count the strongly connected components."""
    return int(find_strong(G.graph()).components)


def is_strongly_connected(G: Converted) -> bool:
    """Whether there is exactly one strongly connected component."""
    return _one(G, find_strong(G.graph()).components)


def core_number(G: Converted) -> dict[Any, int]:
    """Return the core number of each node."""
    G.require_no_loops()
    return G.by_node(find_cores(G.graph()).core)


def leiden_communities(
    G: Converted, weight: Any = "weight", resolution: float = 1, max_level: int | None = None,
    seed: Any = None,
) -> list[set[Any]]:  # fmt: skip
    """Return the sets of nodes of communities by the Leiden method."""
    if max_level is not None:
        raise NotImplementedError(f"max_level: {shown(max_level)}: expected None")
    try:
        found = leiden(G.graph(weight), resolution, seed.randrange(2**31))
    except (TypeError, ValueError) as error:  # negative weights, a negative resolution
        raise NotImplementedError(str(error)) from error
    return list(_sets(G, found.label))


def triangles(G: Converted, nodes: Any = None) -> Any:
    """Return the number of triangles at each node, at some nodes, or at one."""
    if nodes is None:
        return G.by_node(triangle_count(G.graph()).triangles)
    _require_simple(G)
    count = G.by_node(triangle_count(G.graph()).triangles)
    return count[nodes] if nodes in G else {v: count[v] for v in G.original.nbunch_iter(nodes)}


def clustering(G: Converted, nodes: Any = None, weight: Any = None) -> Any:
    """Return the clustering coefficient of each node, of some nodes, or of one."""
    _require_simple(G, weight)
    count, pairs = _triangles_and_pairs(G)
    found = np.divide(2 * count, pairs, out=np.zeros(len(G)), where=count > 0)
    values = [c or 0 for c in found.tolist()]
    by_node = dict(zip(G.nodes.tolist(), values, strict=True))
    if nodes is None:
        return by_node
    return by_node[nodes] if nodes in G else {v: by_node[v] for v in G.original.nbunch_iter(nodes)}


def average_clustering(
    G: Converted, nodes: Any = None, weight: Any = None, count_zeros: bool = True
) -> float:
    """Return the mean of the clustering coefficients."""
    found = list(clustering(G, nodes, weight).values())
    if not count_zeros:
        found = [c for c in found if c]
    return float(sum(found) / len(found))


def transitivity(G: Converted) -> float:
    """Return the fraction of pairs of adjacent edges that a triangle closes."""
    _require_simple(G)
    count, pairs = _triangles_and_pairs(G)
    closed = int(count.sum())
    return 2 * closed / int(pairs.sum()) if closed else 0


def _require_simple(G: Converted, weight: Any = None) -> None:
    if G.is_directed() or G.is_multigraph():
        kind = type(G.original).__name__
        raise NotImplementedError(
            f"G: a {kind}: expected an undirected graph without parallel edges"
        )
    if weight is not None:
        raise NotImplementedError(f"weight: {shown(weight)}: expected None")


def _triangles_and_pairs(G: Converted) -> tuple[Any, Any]:
    """Return each point's triangles, and ordered pairs of neighbours."""
    src, dst = G.arcs
    degree = np.bincount(src[src != dst], minlength=len(G))
    return G.host(triangle_count(G.graph()).triangles), degree * (degree - 1)


def betweenness_centrality(
    G: Converted, k: int | None = None, normalized: bool = True, weight: Any = None,
    endpoints: bool = False, seed: Any = None,
) -> dict[Any, float]:  # fmt: skip
    """Return the betweenness centrality of each node."""
    if len(G) == 0:
        return {}
    chosen = sample(G, None if k == len(G) else k, seed)
    found = betweenness(
        lengths_graph(G, weight), chosen, weighted=weight is not None,
        normalized=bool(normalized), endpoints=bool(endpoints),
    )  # fmt: skip
    return G.by_node(found.centrality)


def pagerank(
    G: Converted, alpha: float = 0.85, personalization: Any = None, max_iter: int = 100,
    tol: float = 1.0e-6, nstart: Any = None, weight: Any = "weight", dangling: Any = None,
) -> dict[Any, float]:  # fmt: skip
    """Return the PageRank of each node; the last iteration's L1 change is below ``n * tol``."""
    n = len(G)
    if n == 0:
        return {}
    graph = G.graph(weight)
    given = {
        name: None if values is None else np.array([values.get(v, 0) for v in G.nodes], np.float64)
        for name, values in (
            ("personalization", personalization), ("start", nstart), ("dangling", dangling)
        )
    }  # fmt: skip
    if personalization is not None and not any(personalization.get(v, 0) for v in G.nodes):
        raise ZeroDivisionError
    try:
        found = rank_points(graph, alpha, n * tol, max_iter, weighted=weight is not None, **given)
    except (TypeError, ValueError) as error:  # negative weights, a damping above 1
        raise NotImplementedError(str(error)) from error
    if not found.error < n * tol:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return G.by_node(found.rank)


def _spanning(
    G: Converted, weight: Any, algorithm: str, sign: int
) -> Iterator[tuple[Any, Any, Any, dict[Any, Any]]]:
    """Yield source, target, key and attributes of the edges of a spanning forest, lightest first.

    Ties are broken by the order of ``G.edges``, as in NetworkX's Kruskal algorithm.
    """
    if algorithm != "kruskal":
        raise NotImplementedError(f"algorithm: {shown(algorithm)}: expected kruskal")
    many = G.is_multigraph()
    edges = list(G.original.edges(keys=True, data=True) if many else G.original.edges(data=True))
    values = sign * exact([e[-1].get(weight, 1) for e in edges], len(G))
    ends = ([G.index[e[k]] for e in edges] for k in (0, 1))
    src, dst = (np.array(x, np.int64) for x in ends)
    graph = Graph.from_edges(src, dst, values, len(G), device=G.device)
    chosen = G.host(mst(graph).edges)
    order = chosen[np.argsort(values[chosen], kind="stable")]
    found = (edges[i] for i in order.tolist())
    return ((e[0], e[1], e[2] if many else None, e[-1]) for e in found)


def _chosen(
    G: Converted, weight: Any, algorithm: str, keys: bool, data: bool, sign: int
) -> Iterator[tuple[Any, ...]]:
    keys = keys and G.is_multigraph()
    found = _spanning(G, weight, algorithm, sign)
    return ((u, v, *([k] if keys else []), *([d] if data else [])) for u, v, k, d in found)


def minimum_spanning_edges(
    G: Converted, algorithm: str = "kruskal", weight: Any = "weight", keys: bool = True,
    data: bool = True, ignore_nan: bool = False,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Generate the edges of a minimum spanning forest."""
    return _chosen(G, weight, algorithm, keys, data, 1)


def maximum_spanning_edges(
    G: Converted, algorithm: str = "kruskal", weight: Any = "weight", keys: bool = True,
    data: bool = True, ignore_nan: bool = False,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Generate the edges of a maximum spanning forest."""
    return _chosen(G, weight, algorithm, keys, data, -1)


def minimum_spanning_tree(
    G: Converted, weight: Any = "weight", algorithm: str = "kruskal", ignore_nan: bool = False
) -> Any:
    """Return a minimum spanning forest as a NetworkX graph, with all attributes."""
    return _tree(G, minimum_spanning_edges(G, algorithm, weight))


def maximum_spanning_tree(
    G: Converted, weight: Any = "weight", algorithm: str = "kruskal", ignore_nan: bool = False
) -> Any:
    """Return a maximum spanning forest as a NetworkX graph, with all attributes."""
    return _tree(G, maximum_spanning_edges(G, algorithm, weight))


def _tree(G: Converted, edges: Iterator[tuple[Any, ...]]) -> Any:
    if G.is_directed():  # NetworkX refuses these in the function, not in a decorator
        raise nx.NetworkXNotImplemented("not implemented for directed type")
    tree = G.original.__class__()
    tree.graph.update(G.original.graph)
    tree.add_nodes_from(G.original.nodes.items())
    tree.add_edges_from(edges)
    return tree
