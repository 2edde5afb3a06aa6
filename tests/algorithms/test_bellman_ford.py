"""Shortest paths with negative weights, and cycles of negative weight: against NetworkX."""

from __future__ import annotations

import pickle
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, lightest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import validate
from morph.algorithms.graph import bellman_ford as module
from morph.testing import team

FAR = np.iinfo(np.int64).max
several = st.lists(st.integers(0, 23), min_size=1, max_size=3)


def solved(graph, sources):
    """Distances of NetworkX from the nearest of several sources; None if there is a cycle."""
    graph = graph.copy()
    graph.add_edges_from((("all", i) for i in sources), weight=0)
    try:
        found = nx.single_source_bellman_ford_path_length(graph, "all")
    except nx.NetworkXUnbounded:
        return None
    return {v: d for v, d in found.items() if v != "all"}


@tries(15)
@given(
    edge_lists(weights=st.integers(-9, 30)), several, st.sampled_from(["i1", "i8", "f4", "f8"]),
    st.booleans(),
)  # fmt: skip
def test_against_networkx(target, edges, sources, dtype, is_shifted):
    n, src, dst, w = edges
    if is_shifted:  # negative weights, no negative cycle
        height = np.arange(n) * 7 % 11
        w = abs(w) + height[dst] - height[src]
    sources = sorted({i % n for i in sources})
    graph = lightest((n, src, dst, w))
    g, want = graph_of((n, src, dst, w), target, dtype), solved(graph, sources)
    far = np.inf if dtype[0] == "f" else FAR

    def run():
        try:
            return morph.bellman_ford(g, sources, predecessors=True)
        except morph.NegativeCycle as error:
            return error

    for found in everywhere(target, run):
        if want is None:
            weight = graph_weights(g, found.edges)
            ends = np.append(found.vertices, found.vertices[0])
            validate.path(g, ends, found.edges)
            assert sum(weight) < 0 and len(set(found.vertices.tolist())) == len(weight)
            names = [*map(str, ends.tolist())] if len(weight) <= 8 else []
            assert " -> ".join(names) in str(found)
        else:
            assert host(found.distance).tolist() == [want.get(i, far) for i in range(n)]
            validate.bellman_ford(g, *found, source=sources)
            validate.bellman_ford(g, found.distance, source=sources)


def graph_weights(g, edges):
    return host(g.edges.weight)[edges].tolist()


@pytest.mark.parametrize("predecessors", [False, True])
def test_long_cycles_and_paths(target, predecessors):
    """Cycles are searched for while the worklist still grows, and again later."""
    n = 300
    src, weight = np.arange(n), np.where(np.arange(n) % 2, -3, 3)
    with mock.patch.object(module, "CHECKED", 2):
        g = morph.Graph.from_edges(src[:-1], src[1:], weight=weight[:-1], device=target)
        found = morph.bellman_ford(g, 0, predecessors=predecessors)
        assert host(found.distance)[[0, 298, 299]].tolist() == [0, 0, 3]
        validate.bellman_ford(g, *found)
        g = morph.Graph.from_edges(src, (src + 1) % n, weight=weight - (src == 7), device=target)
        with pytest.raises(morph.NegativeCycle, match=r"weight: \d+ -> .* -> \.\.\. -> ") as error:
            morph.bellman_ford(g, 5, predecessors=predecessors)
    again = pickle.loads(pickle.dumps(error.value))
    assert len(again.vertices) == len(again.edges) == n and sum(graph_weights(g, again.edges)) == -1


def test_decreases_count_in_the_same_round():
    """A path whose vertices are all in the first worklist, in its order, takes few rounds."""
    n = 200
    src = np.concatenate([np.zeros(n - 2, int), np.arange(1, n - 1)])
    dst = np.concatenate([np.arange(1, n - 1), np.arange(2, n)])
    weight = np.repeat([0, -1], n - 2)
    g = morph.Graph.from_edges(src, dst, weight=weight, device="cpu")
    with mock.patch.object(module, "_has_negative_cycle", side_effect=AssertionError):
        with team(1):
            found = morph.bellman_ford(g, predecessors=True)
    assert found.distance[1:].tolist() == [-i for i in range(n - 1)]
    assert found.predecessor.tolist() == [-1, 0, *range(1, n - 1)]


def test_predecessors_that_rounding_hides(target):
    """The search starts again with deterministic rounds if no search of edges finds them."""
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[-1, 4], device=target)
    with mock.patch.object(module, "_find_predecessors", return_value=False):
        found = morph.bellman_ford(g, [0], predecessors=True)
    assert host(found.distance).tolist() == [0, -1, 3]
    assert host(found.predecessor).tolist() == [-1, 0, 1]


def test_a_negative_cycle_that_is_not_reached(target):
    g = morph.Graph.from_edges([0, 2, 3], [1, 3, 2], weight=[-1, -1, -1], device=target)
    assert host(morph.bellman_ford(g).distance).tolist() == [0, -1, FAR, FAR]
    found = morph.bellman_ford(g, [0, 1], predecessors=True)
    assert host(found.distance).tolist()[:2] == [0, -1]
    assert host(morph.path(g, found, 1).vertices).tolist() == [0, 1]
    for wrong, message in (
        ([0, -2, FAR, FAR], "no path of that length leads to it"),
        ([0, 0, FAR, FAR], "is a shorter way"),
        ([-1, -2, FAR, FAR], "no source is at distance 0"),
        ([1, 0, FAR, FAR], "source 0 is at 1"),
    ):
        with pytest.raises(validate.WrongAnswer, match=message):
            validate.bellman_ford(g, np.array(wrong), source=[0, 1])


def test_what_is_refused(target):
    for weight, error, message in (
        ([-1, np.nan], ValueError, "neither NaN nor -inf, but the edge from 1 to 2 has nan"),
        ([-np.inf, 1], ValueError, "but the edge from 0 to 1 has -inf"),
        ([-1e308, -1e308], OverflowError, "the distance of vertex 2 is too small for float64"),
        (np.array([-3e38, -3e38], "f4"), OverflowError, "of vertex 2 is too small for float32"),
        ([1e308, 1e308, -1], OverflowError, "of vertex 2, reached from vertex 1, is too large"),
        ([-1, 2**60], OverflowError, "weights of 1152921504606846976 on 3 vertices"),
    ):
        src = np.arange(len(weight))
        g = morph.Graph.from_edges(src, src + 1, weight=weight, device=target)
        with pytest.raises(error, match=message):
            morph.bellman_ford(g)
    if target == "cpu":
        g = morph.Graph.from_edges([0, 1], [1, 2], weight=[-1, 4])
        parts = morph.partition(g, ["cpu"] * 2)
        with pytest.raises(TypeError, match="not a partitioned graph"):
            morph.bellman_ford(parts)
        parts.edges.weight[:] = 2
        assert host(morph.bellman_ford(parts).distance).tolist() == [0, 2, 4]


@pytest.mark.parametrize("part", [1, 2, 8])
def test_cycles_of_weights_whose_sums_nearly_overflow(part):
    n = 40
    heavy = -((2**62 - 1) // (2 * n + 32) // part)
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    graph = morph.Graph.from_edges(src, dst, weight=np.full(len(src), heavy), n=n)
    with pytest.raises(morph.NegativeCycle):
        morph.bellman_ford(graph, 0)


def test_worklists_that_grow_and_shrink():
    """A GPU's block or a CPU's thread relaxes small worklists, all of them large ones."""
    width, length = 3000, 70
    middle, path = np.arange(1, width + 1), np.arange(width + 1, width + length)
    src = np.concatenate([np.zeros(width, int), middle, path])
    dst = np.concatenate([middle, np.full(width, width + 1), path + 1])
    weight = np.concatenate([middle % 7, -middle, np.full(length - 1, -2)])
    g = morph.Graph.from_edges(src, dst, weight=weight, device="cpu")
    found = morph.bellman_ford(g, 0, predecessors=True)
    validate.bellman_ford(g, found.distance, found.predecessor, source=0)
    assert found.distance[-1] == (middle % 7 - middle).min() - 2 * (length - 1)
