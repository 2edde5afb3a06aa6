"""Random graphs for the tests of algorithms, and the corresponding NetworkX graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from targets import host

import morph
from morph import validate
from morph.algorithms.registration import Algorithm
from morph.algorithms.registry import ROWS

CASES = [(row, options) for row in ROWS for options in row.examples]
"""The rows of the registry, with options of each."""
WEIGHTS = st.integers(0, 50)
Edges = tuple[int, np.ndarray, np.ndarray, np.ndarray]


@st.composite
def edge_lists(draw: Any, most: int = 24, weights: Any = WEIGHTS) -> Edges:
    """Points and edges: parallel ones, loops, islands and all."""
    n = draw(st.integers(1, most))
    ends = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(ends, ends, weights), max_size=4 * most))
    src, dst = (np.array([e[i] for e in edges], np.int32) for i in range(2))
    return n, src, dst, np.array([e[2] for e in edges])


def graph_of(edges: Edges, target: str, dtype: Any = np.int32, directed: bool = True) -> Any:
    n, src, dst, w = edges
    weight = w.astype(dtype)
    return morph.Graph.from_edges(
        src, dst, weight=weight, n=n, symmetrize=not directed, device=target
    )


def lightest(edges: Edges, undirected: bool = False) -> Any:
    """The NetworkX graph of the lightest of parallel edges."""
    n, src, dst, w = edges
    graph = nx.Graph() if undirected else nx.DiGraph()
    graph.add_nodes_from(range(n))
    for a, b, x in zip(src.tolist(), dst.tolist(), w.tolist(), strict=True):
        if not graph.has_edge(a, b) or graph[a][b]["weight"] > x:
            graph.add_edge(a, b, weight=x)
    return graph


def simple(edges: Edges) -> Any:
    """The undirected NetworkX graph without loops and parallel edges."""
    graph = lightest(edges, undirected=True)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def small_graphs(target: str) -> Iterator[Any]:
    """Graphs without points, without edges, with a loop, and with parallel edges both ways."""
    for n, ends in ((0, ([], [])), (1, ([], [])), (1, ([0], [0])), (3, ([0, 0, 1], [1, 1, 0]))):
        yield morph.Graph.from_edges(*ends, n=n, device=target)


def changed_graph(edges: Edges, target: str, data: Any) -> Any:
    """A graph after a batch of insertions and deletions of edges, and perhaps of a point's."""
    n = edges[0]
    g = graph_of(edges, target)
    drawn = st.lists(st.integers(0, n - 1), min_size=6, max_size=6)
    new = [np.array(data.draw(drawn)) for _ in range(2)]
    ids = host(g.edges.ids())
    chosen = data.draw(st.lists(st.sampled_from(ids.tolist()), unique=True)) if len(ids) else []
    g.apply(inserts=(*new, np.ones(6, np.int32)), deletes=np.array(chosen, np.int64))
    if data.draw(st.booleans()):
        g.points.delete(data.draw(st.integers(0, n - 1)))
    return g


def live_graph(g: Any) -> Any:
    """The undirected NetworkX graph of live points and edges, without loops and parallel edges."""
    graph = nx.Graph()
    graph.add_nodes_from(host(g.points.ids()).tolist())
    live = host(g.edges.ids())
    ends = zip(host(g.edges.src)[live].tolist(), host(g.edges.dst)[live].tolist(), strict=True)
    graph.add_edges_from((a, b) for a, b in ends if a != b and a in graph and b in graph)
    return graph


def solve(row: Algorithm, graph: Any, **options: Any) -> Any:
    """Run an algorithm with options of its command."""
    return row.function(graph, **row.arguments_of(options))


def main_field(row: Algorithm, found: Any) -> np.ndarray:
    """The main array of a result."""
    return host(getattr(found, row.main))


def check(row: Algorithm, graph: Any, found: Any, **options: Any) -> None:
    """Give a result to its checker."""
    claims = row.checked_arguments(found, row.arguments_of(options))
    getattr(validate, row.public_name)(graph, **claims)


def grid(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Both directions of the edges of a grid."""
    ids = np.arange(side * side, dtype=np.int32).reshape(side, side)
    a = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    b = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    return np.concatenate([a, b]), np.concatenate([b, a])
