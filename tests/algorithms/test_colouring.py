"""Colourings, against the sequential greedy algorithm and NetworkX, on every target."""

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


def greedy(g, seed):
    """Give vertices the smallest colour left, by falling degree, then in order of priority."""
    graph, degree, color = live_graph(g), {}, {}
    live = host(g.edges.ids())
    ends = zip(host(g.edges.src)[live].tolist(), host(g.edges.dst)[live].tolist(), strict=True)
    for a, b in ends:
        if a != b and a in graph and b in graph:
            for v in (a, b) if g.directed else (a,):
                degree[v] = degree.get(v, 0) + 1

    def key(v):
        return -degree.get(v, 0), int(random_u32(seed % 2**64, v)), v

    for v in sorted(graph, key=key):
        taken = {color.get(t) for t in graph[v]}
        color[v] = min(set(range(len(taken) + 1)) - taken)
    return color


def check(g, target, seed=0):
    color = greedy(g, seed)
    want = [color.get(v, -1) for v in range(len(g.points))]
    for found in everywhere(target, lambda: morph.colouring(g, seed)):
        got = host(found.color)
        assert got.dtype == np.int32 and got.tolist() == want
        assert found.number == max(want, default=-1) + 1 and type(found.number) is int
        validate.colouring(g, found.color)


@tries(25)
@given(edge_lists(most=14), st.booleans(), SEEDS)
def test_the_greedy_colouring(target, edges, directed, seed):
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
        found = everywhere(device, lambda g=g: morph.colouring(g, 5))
        assert all(np.array_equal(host(found[0].color), host(x.color)) for x in found[1:])
        validate.colouring(g, found[0].color)


@pytest.mark.parametrize("n", [1, 64, 65, 130])
def test_cliques_and_stars(target, n):
    """Of up to three windows of colours."""
    for graph, number in ((nx.complete_graph(n), n), (nx.star_graph(n), 2)):
        found = morph.colouring(morph.Graph.from_networkx(graph, device=target))
        assert found.number == number


def test_about_as_many_colours_as_networkx():
    g = generate.rmat(10, seed=1, device="cpu")
    want = nx.greedy_color(live_graph(g), "largest_first")
    assert morph.colouring(g).number <= max(want.values()) + 4


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="seed is 0 or more, not -1"):
        morph.colouring(g, -1)
    with pytest.raises(TypeError, match="seed is"):
        morph.colouring(g, 0.5)
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.colouring(morph.partition(g, ["cpu"] * 2))


def test_wrong_colourings_are_refused():
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 3], device="cpu")

    def refused(match, color):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.colouring(g, np.array(color))

    for right in ([0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 2, 0]):
        validate.colouring(g, np.array(right))
    refused("shape", [0] * 3)
    refused("type float64", [0.0, 1, 0, 1])
    refused("vertex 1 has the colour -1", [0, -1, 0, 1])
    refused("edge 0, from 0 to 1, joins two", [0, 0, 1, 0])
    refused("vertex 3 has the colour 2", [0, 1, 0, 2])
