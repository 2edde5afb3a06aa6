"""Largest k-plexes, against all sets of vertices, on every target."""

from __future__ import annotations

from itertools import combinations
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, simple
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, tries

import morph
from morph import validate
from morph.algorithms.community import plex


def is_plex(graph, points, k):
    return all(len(points) - len({*graph[v]}.intersection(points)) <= k for v in points)


def largest(graph, k):
    """The size of a largest k-plex."""
    sizes = range(len(graph), 0, -1)
    return next((s for s in sizes for x in combinations(graph, s) if is_plex(graph, x, k)), 0)


def check(g, graph, k, target):
    want = largest(graph, k)
    for found in everywhere(target, lambda: morph.max_k_plex(g, k)):
        assert found.size == want == len(found.points) and type(found.size) is int
        assert found.proved and found.points.dtype == np.int64
        assert is_plex(graph, found.points.tolist(), k)
        validate.max_k_plex(g, found.points, k)


@tries(15)
@given(edge_lists(most=8), st.booleans(), st.integers(1, 5))
def test_all_sets(target, edges, directed, k):
    check(graph_of(edges, target, directed=directed), simple(edges), k, target)


@tries(6)
@given(st.integers(5, 10), st.floats(0.4, 1), st.integers(0, 99), st.integers(1, 4))
def test_dense_graphs(target, n, p, seed, k):
    graph = nx.gnp_random_graph(n, p, seed=seed)
    check(morph.Graph.from_networkx(graph, device=target), graph, k, target)


def test_graphs_that_were_changed(target):
    g = morph.Graph.from_edges([0, 0, 1, 2, 3, 4], [1, 2, 2, 3, 4, 5], device=target)
    g.points.delete(1)
    g.apply(inserts=([2, 3, 5], [4, 5, 2]), deletes=([0], [2]))
    graph = nx.Graph([(2, 3), (3, 4), (4, 5), (2, 4), (3, 5), (2, 5)])
    graph.add_node(0)
    for k in (1, 2, 5, 6, 2**70):
        check(g, graph, k, target)


def test_small_graphs(target):
    for n in (0, 1, 3):
        g = morph.Graph.from_edges([], [], n=n, device=target)
        for k in (1, 2, 4):
            found = morph.max_k_plex(g, k)
            assert found.size == min(n, k) and found.proved


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_planted(device, k):
    """Among sparse vertices, a complete graph without k - 1 perfect matchings; sets of words."""
    graph = nx.gnp_random_graph(300, 0.05, seed=k)
    members = [*range(7, 300, 20)][:12]
    for i, v in enumerate(members):
        for j, w in enumerate(members[:i]):
            if (i ^ j) >= k or i >= 8:  # of the first 8 each lacks k - 1
                graph.add_edge(v, w)
            elif graph.has_edge(v, w):
                graph.remove_edge(v, w)
    found = morph.max_k_plex(morph.Graph.from_networkx(graph, device=device), k)
    assert found.size == 12 and found.points.tolist() == members and found.proved


@pytest.mark.parametrize("k", [1, 2, 5])
def test_too_many_candidates(k):
    """Sets that are too large are searched on lists, up to a number of nodes."""
    graphs = nx.gnp_random_graph(30, 0.3, seed=1), nx.cycle_graph(12)
    made = [morph.Graph.from_networkx(g, device="cpu") for g in graphs]
    best = [morph.max_k_plex(g, k).size for g in made]
    with mock.patch.object(plex, "MAX_CANDIDATES", 3):
        found = [morph.max_k_plex(g, k) for g in made]
        assert [x.size for x in found] == best and all(x.proved for x in found)
        with mock.patch.object(plex, "LISTED_NODES", 0):
            ended = morph.max_k_plex(made[0], k)
    assert not ended.proved
    for x in (ended, found[0]):
        assert is_plex(graphs[0], x.points.tolist(), k)


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="k is 1 or more, not 0"):
        morph.max_k_plex(g, 0)
    with pytest.raises(TypeError, match="k is"):
        morph.max_k_plex(g, 1.5)
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.max_k_plex(morph.partition(g, ["cpu"] * 2), 1)


def test_wrong_plexes_are_refused():
    g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 3], n=5, device="cpu")

    def refused(match, points, k):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.max_k_plex(g, np.array(points, np.int64), k)

    validate.max_k_plex(g, np.array([0, 1, 2]), 1)
    validate.max_k_plex(g, np.array([0, 1, 2, 3]), 3)
    refused("vertex 0 has no edge to 1 others, k is 1", [0, 1, 2, 3], 1)
    refused("a 1-plex of more than 2", [2, 3], 1)
    refused("a 3-plex of more than 3", [0, 1, 2], 3)
    refused("a 1-plex of more than 0", [], 1)
    refused("5 is not a vertex", [5], 1)
