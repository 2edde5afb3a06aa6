"""Shortest paths, with NetworkX's interface.

Arguments, results and errors are those of NetworkX's functions of the same names; the choice among
several shortest paths may differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np

from morph.algorithms.graph.bellman_ford import bellman_ford
from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.cycles import NegativeCycle
from morph.algorithms.graph.johnson import johnson as find_all
from morph.algorithms.graph.sssp import sssp
from morph.language.messages import shown
from morph.networkx_backend.converted import Converted

__all__ = [
    "all_pairs_dijkstra_path_length", "all_pairs_shortest_path_length", "ancestors",
    "average_shortest_path_length", "bellman_ford_path", "bellman_ford_path_length", "descendants",
    "dijkstra_path", "dijkstra_path_length", "has_path", "johnson", "multi_source_dijkstra",
    "multi_source_dijkstra_path", "multi_source_dijkstra_path_length", "shortest_path",
    "shortest_path_length", "single_source_bellman_ford", "single_source_bellman_ford_path",
    "single_source_bellman_ford_path_length", "single_source_dijkstra",
    "single_source_dijkstra_path", "single_source_dijkstra_path_length",
    "single_source_shortest_path", "single_source_shortest_path_length",
    "single_target_shortest_path", "single_target_shortest_path_length",
]  # fmt: skip

BLOCK = 1 << 22  # distances of all pairs in memory at once
SOURCE_MISSING = "Node {} not found in graph"
Lengths = dict[Any, Any]
Paths = dict[Any, list[Any]]


class _Tree:
    """Distances and a tree of shortest paths from one or several sources."""

    def __init__(self, G: Converted, distance: Any, predecessor: Any) -> None:
        self.G = G
        self.distance = G.host(distance)
        self.predecessor: Any = None if predecessor is None else G.host(predecessor)

    @property
    def reached(self) -> Any:
        """The reached points, by ascending distance."""
        return _reached(self.distance)

    def lengths(self) -> Lengths:
        """Return the distances of the reached nodes."""
        return _lengths(self.G, self.distance)

    def length(self, target: Any, message: str) -> Any:
        """Return the distance of a node, or raise `NetworkXNoPath`."""
        t = self.G.index.get(target)
        if t is None or not _is_reached(self.distance[t : t + 1])[0]:
            raise nx.NetworkXNoPath(message)
        return self.distance[t].item()

    def path(self, target: Any) -> list[Any]:
        """Return the nodes of the path to a reached node."""
        p, steps = self.G.index[target], []
        while p >= 0:
            steps.append(p)
            p = int(self.predecessor[p])
        return self.G.nodes[steps[::-1]].tolist()  # type: ignore[no-any-return]

    def paths(self) -> Paths:
        """Return the paths to all reached nodes."""
        reached, nodes = self.reached.tolist(), self.G.nodes
        before = self.predecessor.tolist()
        found: dict[int, list[Any]] = {}
        for p in reached:
            pending = []
            while p >= 0 and p not in found:  # a parent at the same distance may come later
                pending.append(p)
                p = before[p]
            for q in reversed(pending):
                found[q] = [*found[before[q]], nodes[q]] if before[q] >= 0 else [nodes[q]]
        return {nodes[p]: found[p] for p in reached}


def _is_reached(distance: Any) -> Any:
    if distance.dtype.kind == "f":
        return distance < np.inf
    return distance >= 0 if distance.dtype == np.int32 else distance < np.iinfo(np.int64).max


def _reached(distance: Any) -> Any:
    points = np.flatnonzero(_is_reached(distance))
    return points[np.argsort(distance[points], kind="stable")]


def _lengths(G: Converted, distance: Any) -> Lengths:
    points = _reached(distance)
    return dict(zip(G.nodes[points].tolist(), distance[points].tolist(), strict=True))


def _cutoff(cutoff: Any) -> Any:
    """Return the equivalent cutoff of Morph: None, or a number from 0 on."""
    if cutoff is None:
        return None
    if not isinstance(cutoff, int | float) or not cutoff >= 0:
        raise NotImplementedError(f"cutoff: {shown(cutoff)} is not a number from 0 on")
    return None if cutoff == float("inf") else cutoff


def _levels(cutoff: Any) -> Any:
    """Return a limit of the number of edges; NetworkX rounds fractions up."""
    cutoff = _cutoff(cutoff)
    return None if cutoff is None else math.ceil(cutoff)


def _hops(G: Converted, source: int, cutoff: Any = None, reverse: bool = False) -> _Tree:
    found = bfs(G.graph(reverse=reverse), source, cutoff=_levels(cutoff))
    return _Tree(G, found.distance, found.predecessor)


def _weighted(
    G: Converted, sources: Any, weight: Any, cutoff: Any = None, target: Any = None,
    paths: bool = False, reverse: bool = False,
) -> _Tree:  # fmt: skip
    t = None if target is None else G.index.get(target)
    try:
        found = sssp(
            G.graph(weight, reverse), sources, targets=t, cutoff=_cutoff(cutoff), predecessors=paths
        )
    except ValueError as error:  # NetworkX may succeed with negative weights
        raise NotImplementedError(str(error)) from error
    return _Tree(G, found.distance, found.predecessor)


def _negative(
    G: Converted, source: int, weight: Any, paths: bool = False, reverse: bool = False
) -> _Tree:
    try:
        found = bellman_ford(G.graph(weight, reverse), source, predecessors=paths)
    except NegativeCycle as error:
        raise nx.NetworkXUnbounded("Negative cycle detected.") from error
    return _Tree(G, found.distance, found.predecessor)


def single_source_shortest_path_length(G: Converted, source: Any, cutoff: Any = None) -> Lengths:
    """Return the number of edges to each reachable node."""
    return _hops(G, G.point(source, "Source {} is not in G"), cutoff).lengths()


def single_target_shortest_path_length(G: Converted, target: Any, cutoff: Any = None) -> Lengths:
    """Return the number of edges from each node that reaches the target."""
    return _hops(G, G.point(target, "Target {} is not in G"), cutoff, reverse=True).lengths()


def single_source_shortest_path(G: Converted, source: Any, cutoff: Any = None) -> Paths:
    """Return a path with the fewest edges to each reachable node."""
    return _hops(G, G.point(source, "Source {} not in G"), cutoff).paths()


def single_target_shortest_path(G: Converted, target: Any, cutoff: Any = None) -> Paths:
    """Return a path with the fewest edges from each node that reaches the target."""
    found = _hops(G, G.point(target, "Target {} not in G"), cutoff, reverse=True).paths()
    return {v: path[::-1] for v, path in found.items()}


def all_pairs_shortest_path_length(
    G: Converted, cutoff: Any = None
) -> Iterator[tuple[Any, Lengths]]:
    """Generate the numbers of edges from each node."""
    graph, cutoff = G.graph(), _levels(cutoff)
    return _rows(G, lambda sources: bfs(graph, sources, cutoff=cutoff, rows=True))


def _rows(G: Converted, search: Any) -> Iterator[tuple[Any, Lengths]]:
    for sources, distances in _blocks(G, search):
        for s, distance in zip(sources.tolist(), distances, strict=True):
            yield G.nodes[s], _lengths(G, distance)


def _blocks(G: Converted, search: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the distances from all points, in blocks of sources."""
    n = len(G)
    step = min(max(BLOCK // max(n, 1), 1), 1024)
    for first in range(0, n, step):
        sources = np.arange(first, min(first + step, n))
        yield sources, G.host(search(sources).distance)


def descendants(G: Converted, source: Any) -> set[Any]:
    """Return the nodes that are reachable from a node, without the node."""
    return set(_others(G, source, False))


def ancestors(G: Converted, source: Any) -> set[Any]:
    """Return the nodes that reach a node, without the node."""
    return set(_others(G, source, True))


def _others(G: Converted, source: Any, reverse: bool) -> list[Any]:
    if source not in G:
        raise nx.NetworkXError(f"The node {source} is not in the digraph.")
    found = _hops(G, G.index[source], reverse=reverse)
    return G.nodes[found.distance > 0].tolist()  # type: ignore[no-any-return]


def has_path(G: Converted, source: Any, target: Any) -> bool:
    """Whether a path leads from one node to another."""
    s, t = _ends(G, source, target)
    return bool(_hops(G, s).distance[t] >= 0)


def _ends(G: Converted, source: Any, target: Any) -> tuple[int, int]:
    message = "Source {} is not in G"
    return G.point(source, message), G.point(target, message.replace("Source", "Target"))


def multi_source_dijkstra(
    G: Converted, sources: Any, target: Any = None, cutoff: Any = None, weight: Any = "weight"
) -> tuple[Any, Any]:
    """Return the distances and paths from the nearest source, to all nodes or to a target."""
    points = _sources(G, sources)
    if target in sources:
        return 0, [target]
    found = _weighted(G, points, weight, cutoff, target, paths=True)
    if target is None:
        return found.lengths(), found.paths()
    length = found.length(target, f"No path to {target}.")
    return length, found.path(target)


def _sources(G: Converted, sources: Any) -> list[int]:
    if not sources:
        raise ValueError("sources must not be empty")
    return [G.point(s, SOURCE_MISSING) for s in sources]


def multi_source_dijkstra_path(
    G: Converted, sources: Any, cutoff: Any = None, weight: Any = "weight"
) -> Paths:
    """Return the paths from the nearest source."""
    return _weighted(G, _sources(G, sources), weight, cutoff, paths=True).paths()


def multi_source_dijkstra_path_length(
    G: Converted, sources: Any, cutoff: Any = None, weight: Any = "weight"
) -> Lengths:
    """Return the distances from the nearest source."""
    return _weighted(G, _sources(G, sources), weight, cutoff).lengths()


def single_source_dijkstra(
    G: Converted, source: Any, target: Any = None, cutoff: Any = None, weight: Any = "weight"
) -> tuple[Any, Any]:
    """Return the distances and paths from a node, to all nodes or to a target."""
    return multi_source_dijkstra(G, {source}, target, cutoff, weight)


def single_source_dijkstra_path(
    G: Converted, source: Any, cutoff: Any = None, weight: Any = "weight"
) -> Paths:
    """Return the shortest paths from a node."""
    return multi_source_dijkstra_path(G, {source}, cutoff, weight)


def single_source_dijkstra_path_length(
    G: Converted, source: Any, cutoff: Any = None, weight: Any = "weight"
) -> Lengths:
    """Return the distances from a node."""
    return multi_source_dijkstra_path_length(G, {source}, cutoff, weight)


def dijkstra_path(G: Converted, source: Any, target: Any, weight: Any = "weight") -> list[Any]:
    """Return a shortest path from one node to another."""
    path: list[Any] = _required(G, source, target, single_source_dijkstra, weight)[1]
    return path


def dijkstra_path_length(G: Converted, source: Any, target: Any, weight: Any = "weight") -> Any:
    """Return the distance from one node to another."""
    s = G.point(source, SOURCE_MISSING)
    if source == target:
        return 0
    found = _weighted(G, s, weight, target=target)
    return found.length(target, f"Node {target} not reachable from {source}")


def all_pairs_dijkstra_path_length(
    G: Converted, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, Lengths]]:
    """Generate the distances from each node."""
    graph, cutoff = G.graph(weight), _cutoff(cutoff)
    _require_nonnegative(graph)
    return _rows(G, lambda sources: sssp(graph, sources, cutoff=cutoff, rows=True))


def _require_nonnegative(graph: Any) -> None:
    """Reject negative weights before a generator starts, when NetworkX can still fall back."""
    if not len(graph.edges) or "weight" not in graph.edges.columns:
        return
    least = graph.edges.weight.array.min().item()
    if least < 0:
        raise NotImplementedError(f"weight: {least} is negative, which Morph refuses here")


def single_source_bellman_ford(
    G: Converted, source: Any, target: Any = None, weight: Any = "weight"
) -> tuple[Any, Any]:
    """Return the distances and paths from a node, to all nodes or to a target."""
    s = G.point(source, SOURCE_MISSING)
    if source == target:
        return 0, [source]
    found = _negative(G, s, weight, paths=True)
    if target is None:
        return found.lengths(), found.paths()
    length = found.length(target, f"Node {target} not reachable from {source}")
    return length, found.path(target)


def single_source_bellman_ford_path(G: Converted, source: Any, weight: Any = "weight") -> Paths:
    """Return the shortest paths from a node."""
    return _negative(G, G.point(source, SOURCE_MISSING), weight, paths=True).paths()


def single_source_bellman_ford_path_length(
    G: Converted, source: Any, weight: Any = "weight"
) -> Lengths:
    """Return the distances from a node."""
    return _negative(G, G.point(source, SOURCE_MISSING), weight).lengths()


def bellman_ford_path(G: Converted, source: Any, target: Any, weight: Any = "weight") -> list[Any]:
    """Return a shortest path from one node to another."""
    path: list[Any] = _required(G, source, target, single_source_bellman_ford, weight)[1]
    return path


def bellman_ford_path_length(G: Converted, source: Any, target: Any, weight: Any = "weight") -> Any:
    """Return the distance from one node to another."""
    s = G.point(source, SOURCE_MISSING)
    if source == target:
        return 0
    return _negative(G, s, weight).length(target, f"node {target} not reachable from {source}")


def johnson(G: Converted, weight: Any = "weight") -> dict[Any, Paths]:
    """Return the shortest paths from each node to each, with weights that may be negative."""
    graph, paths = G.graph(weight), []
    for start in range(0, len(G), step := max(1, BLOCK // max(len(G), 1))):
        points = np.arange(start, min(start + step, len(G)))
        try:
            found = find_all(graph, points, predecessors=True)
        except NegativeCycle as error:
            raise nx.NetworkXUnbounded("Negative cycle detected.") from error
        rows = zip(found.distance, found.predecessor, strict=True)
        paths += [_Tree(G, *row).paths() for row in rows]
    return dict(zip(G.nodes.tolist(), paths, strict=True))


def _required(G: Converted, source: Any, target: Any, search: Any, weight: Any) -> Any:
    """Search for a required target; None is not supported as a node."""
    if target is None:
        raise NotImplementedError("target: Morph does not support None as a node")
    return search(G, source, target=target, weight=weight)


def _method(weight: Any, method: str) -> str:
    if method not in ("dijkstra", "bellman-ford"):
        raise ValueError(f"method not supported: {method}")
    return "unweighted" if weight is None else method


def _tree(G: Converted, source: Any, target: Any, weight: Any, method: str, paths: bool) -> _Tree:
    """Search from the source, or, without a source, backwards from the target."""
    reverse = source is None
    start = target if reverse else source
    if start is None:
        raise NotImplementedError("source and target are None: Morph does not compute all pairs")
    if not reverse and target is not None and (method == "unweighted" or paths):
        _ends(G, source, target)
    p = G.point(start, SOURCE_MISSING)
    if method == "unweighted":
        return _hops(G, p, reverse=reverse)
    if method == "dijkstra":
        return _weighted(G, p, weight, None, None if reverse else target, paths, reverse)
    return _negative(G, p, weight, paths, reverse)


def shortest_path(
    G: Converted, source: Any = None, target: Any = None, weight: Any = None,
    method: str = "dijkstra",
) -> Any:  # fmt: skip
    """Return a shortest path, or the paths from a source, or the paths to a target."""
    found = _tree(G, source, target, weight, _method(weight, method), paths=True)
    if source is None:
        return {v: path[::-1] for v, path in found.paths().items()}
    if target is None:
        return found.paths()
    found.length(target, f"No path between {source} and {target}.")
    return found.path(target)


def shortest_path_length(
    G: Converted, source: Any = None, target: Any = None, weight: Any = None,
    method: str = "dijkstra",
) -> Any:  # fmt: skip
    """Return the distance between two nodes, or the distances from a source or to a target."""
    found = _tree(G, source, target, weight, _method(weight, method), paths=False)
    if source is None or target is None:
        return found.lengths()
    return found.length(target, f"Node {target} not reachable from {source}")


def average_shortest_path_length(
    G: Converted, weight: Any = None, method: str | None = None
) -> float:
    """Return the mean of the distances of all ordered pairs of nodes."""
    if method not in (None, "unweighted", "dijkstra"):
        raise NotImplementedError(f"method: {shown(method)}: expected unweighted or dijkstra")
    n = len(G)
    if n == 0:
        raise nx.NetworkXPointlessConcept(
            "the null graph has no paths, thus there is no average shortest path length"
        )
    if n == 1:
        return 0
    search: Any = bfs if method == "unweighted" or weight is None else sssp
    graph = G.graph(None if search is bfs else weight)
    _require_nonnegative(graph)
    total = 0
    for _, distances in _blocks(G, lambda sources: search(graph, sources, rows=True)):
        if not _is_reached(distances).all():
            kind = "strongly connected" if G.is_directed() else "connected"
            raise nx.NetworkXError(f"Graph is not {kind}.")
        total += _sum(distances)
    return float(total / (n * (n - 1)))


def _sum(distances: Any) -> Any:
    """Return the sum, exact for integers of any size."""
    if distances.dtype.kind == "f" or int(distances.max()) * distances.size < 2**62:
        return distances.sum().item()
    return sum(distances.ravel().tolist())
