"""Maximal and maximum cliques, against NetworkX, on every target."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graphs import changed_graph, edge_lists, graph_of, live_graph, simple, small_graphs
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, tries

import morph
from morph import generate, testing, validate
from morph.algorithms.graph import cliques as module


def check(g, graph, target):
    """Every result on a graph, whose simple graph is ``graph``."""
    want = {tuple(sorted(c)) for c in nx.find_cliques(graph)}
    largest = max(map(len, want), default=0)
    for found in everywhere(target, lambda: [*morph.cliques(g)]):
        assert all(c.dtype == np.int64 for c in found)
        assert sorted(tuple(c.tolist()) for c in found) == sorted(want)
        validate.cliques(g, found)
    for best in everywhere(target, lambda: morph.max_clique(g)):
        assert best.size == largest and type(best.size) is int
        assert tuple(best.points.tolist()) in (want or {()})
        assert best.points.dtype == np.int64
        validate.max_clique(g, best.points)


@tries(12)
@given(edge_lists(most=12), st.booleans())
def test_cliques(target, edges, directed):
    check(graph_of(edges, target, directed=directed), simple(edges), target)


@tries(6)
@given(st.integers(5, 13), st.floats(0.5, 1), st.integers(0, 99))
def test_dense_graphs(target, n, p, seed):
    graph = nx.gnp_random_graph(n, p, seed=seed)
    check(morph.Graph.from_networkx(graph, device=target), graph, target)


@tries(6)
@given(edge_lists(most=9), st.data())
def test_graphs_that_were_changed(target, edges, data):
    g = changed_graph(edges, target, data)
    check(g, live_graph(g), target)


def test_small_graphs(target):
    for g in small_graphs(target):
        check(g, live_graph(g), target)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("n", [64, 65, 193])
def test_rows_of_several_words(device, n):
    """Complete graphs without a perfect matching, and with vertices that all others join."""
    g = morph.Graph.from_networkx(nx.complete_graph(n), device=device)
    assert [c.tolist() for c in morph.cliques(g)] == [[*range(n)]]
    for threads in (1, 2, 4):  # no order of the roots makes the search breadth first
        with testing.team(threads):
            assert morph.max_clique(g).size == n
    graph = nx.complete_graph(n)
    graph.remove_edges_from((i, i + 1) for i in range(0, 16, 2))
    g = morph.Graph.from_networkx(graph, device=device)
    found = [*morph.cliques(g)]
    assert len(found) == 2**8 and {len(c) for c in found} == {n - 8}
    assert len({tuple(c.tolist()) for c in found}) == 2**8
    assert morph.max_clique(g).size == n - 8


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs(device, monkeypatch):
    """By many threads; with many launches of few nodes, in many batches."""
    monkeypatch.setattr(module, "FIRST", 1)
    monkeypatch.setattr(module, "MOST", 300)
    monkeypatch.setattr(module, "ROOTS", 50)
    graph = nx.gnp_random_graph(110, 0.45, seed=2)
    graph = nx.disjoint_union(graph, nx.karate_club_graph())
    g = morph.Graph.from_networkx(graph, device=device)
    want = sorted(tuple(sorted(c)) for c in nx.find_cliques(graph))
    for threads in (1, 2, 4):
        with testing.team(threads):
            found = [*morph.cliques(g)]
            assert sorted(tuple(c.tolist()) for c in found) == want
            assert morph.max_clique(g).size == max(map(len, want))
    validate.cliques(g, found)
    g = generate.rmat(9, seed=3, device=device)
    validate.max_clique(g, morph.max_clique(g).points)
    validate.cliques(g, morph.cliques(g))


def test_there_may_be_very_many():
    """They are searched while they are asked for, in a copy of the graph."""
    graph = nx.complete_multipartite_graph(*[3] * 30)  # 3**30 maximal cliques
    g = morph.Graph.from_networkx(graph, device="cpu")
    found = morph.cliques(g)
    first = next(found)
    g.points.delete(0)
    sets = {tuple(first.tolist()), *(tuple(next(found).tolist()) for _ in range(9999))}
    assert len(sets) == 10000
    assert all({v // 3 for v in c} == {*range(30)} and len(c) == 30 for c in sets)
    assert morph.max_clique(g).size == 30


def test_what_they_take():
    assert morph.max_clique(nx.path_graph(3)).size == 2
    assert len([*morph.cliques(nx.path_graph(3))]) == 2
    parts = morph.partition(morph.Graph.from_edges([0], [1]), ["cpu"] * 2)
    for function in (morph.max_clique, morph.cliques):
        with pytest.raises(TypeError, match="takes a graph on one device"):
            function(parts)


def test_wrong_cliques_are_refused():
    g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 3], n=5, device="cpu")
    right = [np.array(c) for c in ([0, 1, 2], [2, 3], [4])]

    def refused(match, check, *args):
        with pytest.raises(validate.WrongAnswer, match=match):
            check(g, *args)

    validate.cliques(g, right)
    validate.max_clique(g, right[0])
    refused("2 maximal cliques, but there are 3", validate.cliques, right[:2])
    refused("there twice", validate.cliques, [*right, right[0][::-1]])
    refused("vertex 2 extends", validate.cliques, [np.array([0, 1])])
    refused("without vertices", validate.cliques, [np.array([], int)])
    refused("no edge joins vertices", validate.max_clique, np.array([0, 1, 3]))
    refused("not distinct", validate.max_clique, np.array([0, 0]))
    refused("type float64", validate.max_clique, np.array([0.0]))
    refused("5 is not a vertex", validate.max_clique, np.array([5]))
    refused("has vertices", validate.max_clique, np.array([], int))
    refused("vertex . is in a clique of more than 2", validate.max_clique, right[1])
