"""Maximal independent sets, against the sequential greedy algorithm, on every target."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graphs import changed_graph, edge_lists, graph_of, live_graph, small_graphs
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import generate, validate
from morph.prelude import random_u32

SEEDS = st.sampled_from([0, 1, 2**64 - 1, 2**70])


def greedy(graph, seed):
    """Take the vertices in order of priority, each whose neighbours are not taken."""
    taken = set()
    for v in sorted(graph, key=lambda v: (int(random_u32(seed % 2**64, v)), v)):
        if taken.isdisjoint(graph[v]):
            taken.add(v)
    return taken


def check(g, target, seed=0):
    want = sorted(greedy(live_graph(g), seed))
    for found in everywhere(target, lambda: morph.maximal_independent_set(g, seed)):
        selected = host(found.selected)
        assert selected.dtype == np.bool_ and selected.shape == (len(g.points),)
        assert np.flatnonzero(selected).tolist() == want
        assert found.size == len(want) and type(found.size) is int
        validate.maximal_independent_set(g, found.selected)


@tries(25)
@given(edge_lists(most=14), st.booleans(), SEEDS)
def test_the_greedy_set(target, edges, directed, seed):
    check(graph_of(edges, target, directed=directed), target, seed)


def test_small_graphs(target):
    for g in small_graphs(target):
        check(g, target)


@tries(8)
@given(edge_lists(most=10), st.data())
def test_graphs_that_were_changed(target, edges, data):
    g = changed_graph(edges, target, data)
    check(g, target)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs_with_many_threads(device):
    for g in (generate.rmat(12, seed=3, device=device), generate.grid(64, 64, device=device)):
        found = everywhere(device, lambda g=g: morph.maximal_independent_set(g, 5))
        assert all(np.array_equal(host(found[0].selected), host(x.selected)) for x in found[1:])
        validate.maximal_independent_set(g, found[0].selected)


def test_a_clique_and_a_star(target):
    for graph, size in ((nx.complete_graph(40), {1}), (nx.star_graph(40), {1, 40})):
        found = morph.maximal_independent_set(morph.Graph.from_networkx(graph, device=target))
        assert found.size in size


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="seed is 0 or more, not -1"):
        morph.maximal_independent_set(g, -1)
    with pytest.raises(TypeError, match="seed is"):
        morph.maximal_independent_set(g, 0.5)
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.maximal_independent_set(morph.partition(g, ["cpu"] * 2))


def test_wrong_sets_are_refused():
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 3], device="cpu")

    def refused(match, selected):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.maximal_independent_set(g, np.array(selected))

    for right in ([1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1]):
        validate.maximal_independent_set(g, np.array(right, bool))
    refused("shape", [True] * 3)
    refused("type int64", [1, 0, 1, 0])
    refused("edge 0, from 0 to 1, joins two", [True, True, False, True])
    refused("vertex 2 is not selected", [True, False, False, False])
    refused("vertex 0 is not selected", [False, False, True, False])
