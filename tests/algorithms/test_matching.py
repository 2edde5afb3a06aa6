"""Maximal matchings, against the sequential greedy algorithm and NetworkX, on every target."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graphs import changed_graph, edge_lists, graph_of
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import generate, validate

SEEDS = st.sampled_from([0, 1, 2**64 - 1, 2**70])
MASK = 2**64 - 1


def mix(x):
    """The finalizer of SplitMix64, with Python's integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def live_edges(g):
    """The id, ends and weight of each edge between different live points."""
    alive, ids = set(host(g.points.ids()).tolist()), host(g.edges.ids())
    columns = [host(getattr(g.edges, c))[ids].tolist() for c in ("src", "dst", "weight")]
    rows = zip(ids.tolist(), *columns, strict=True)
    return [r for r in rows if r[1] != r[2] and r[1] in alive and r[2] in alive]


def greedy(g, weighted, seed):
    """Take the edges in order, each whose ends are free."""
    partner, chosen = {}, []

    def place(row):
        e, a, b, w = row
        key = mix((min(a, b) << 32 | max(a, b)) ^ mix(seed & MASK))
        return -w if weighted else 0, -key, e

    for e, a, b, w in sorted(live_edges(g), key=place):
        if a not in partner and b not in partner and (w > 0 or not weighted):
            partner[a], partner[b] = b, a
            chosen.append(e)
    return partner, sorted(chosen)


def check(g, target, weighted=False, seed=0):
    partner, edges = greedy(g, weighted, seed)
    for found in everywhere(target, lambda: morph.matching(g, weighted, seed)):
        got = host(found.partner)
        assert got.dtype == np.int32 and got.tolist() == [
            partner.get(v, -1) for v in range(len(g.points))
        ]
        assert host(found.edges).dtype == np.int64 and host(found.edges).tolist() == edges
        assert found.size == len(edges) and type(found.size) is int
        validate.matching(g, found.partner, found.edges, found.weight, weighted)
    return found


@tries(20)
@given(
    edge_lists(most=12, weights=st.integers(-3, 9)), st.booleans(), st.booleans(), SEEDS,
    st.sampled_from([np.int32, np.float64]),
)  # fmt: skip
def test_the_greedy_matching(target, edges, directed, weighted, seed, dtype):
    g = graph_of(edges, target, dtype, directed)
    found = check(g, target, weighted, seed)
    graph = nx.Graph()
    for _, a, b, w in live_edges(g):
        w = w if weighted else 1
        if w > 0 and (not graph.has_edge(a, b) or graph[a][b]["weight"] < w):
            graph.add_edge(a, b, weight=w)
    most = sum(graph[a][b]["weight"] for a, b in nx.max_weight_matching(graph))
    assert most <= 2 * found.weight


@tries(6)
@given(edge_lists(most=10), st.booleans(), st.data())
def test_graphs_that_were_changed(target, edges, weighted, data):
    check(changed_graph(edges, target, data), target, weighted)


def test_small_graphs(target):
    for n, ends in ((0, ([], [])), (1, ([], [])), (1, ([0], [0])), (3, ([0, 0], [1, 1]))):
        g = morph.Graph.from_edges(*ends, n=n, weight=np.ones(len(ends[0])), device=target)
        check(g, target), check(g, target, weighted=True)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32"])
def test_types_of_weights(dtype):
    weight = np.array([1, 0, 1, 1, 0, 1], bool) if dtype == "bool" else [3, 0, 100, 7, 2, 100]
    g = morph.Graph.from_edges(
        [0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 3], weight=np.array(weight, dtype), device="cpu"
    )
    found = check(g, "cpu", weighted=True)
    assert found.weight == host(g.edges.weight)[found.edges].sum(dtype=float)


def test_extreme_weights():
    big = 2**64 - 1
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=np.array([big, big - 1, big], "u8"))
    assert morph.matching(g, weighted=True).weight == 2 * big
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=[np.inf, -np.inf, 1e308])
    assert check(g, "cpu", weighted=True).weight == np.inf


def test_weights_that_rise_along_a_path():
    n = 2000
    g = morph.Graph.from_edges(np.arange(n), np.arange(1, n + 1), weight=np.arange(1, n + 1))
    check(g, "cpu", weighted=True)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("weighted", [False, True])
def test_larger_graphs_with_many_threads(device, weighted):
    for g in (generate.rmat(12, seed=3, device=device), generate.grid(64, 64, device=device)):
        found = everywhere(device, lambda g=g: morph.matching(g, weighted, 5))
        assert all(np.array_equal(host(found[0].edges), host(x.edges)) for x in found[1:])
        x = found[0]
        validate.matching(g, x.partner, x.edges, x.weight, weighted)


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1], weight=[np.nan])
    with pytest.raises(ValueError, match="seed is 0 or more, not -1"):
        morph.matching(g, seed=-1)
    with pytest.raises(ValueError, match="not NaN"):
        morph.matching(g, weighted=True)
    with pytest.raises(TypeError, match="takes a graph on one device"):
        morph.matching(morph.partition(g, ["cpu"] * 2))


def test_wrong_matchings_are_refused():
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 3], weight=[1, 9, 1, 5], device="cpu")

    def refused(match, partner, edges, weight=1, weighted=False):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.matching(g, np.array(partner), np.array(edges, int), weight, weighted)

    validate.matching(g, np.array([1, 0, 3, 2]), np.array([0, 2]), 2)
    validate.matching(g, np.array([-1, 2, 1, -1]), np.array([1]), 9, True)
    refused("shape", [1, 0, 3], [0, 2])
    refused("vertex 0 has the partner 4", [4, 0, 3, 2], [0, 2])
    refused("vertex 3 has the partner 3", [1, 0, -1, 3], [0, 3])
    refused("which has another one", [1, 2, 1, -1], [1])
    refused("edge 0 comes after edge 2", [1, 0, 3, 2], [2, 0])
    refused("edge 7 is not in the graph", [1, 0, 3, 2], [0, 7])
    refused("edge 1, from 1 to 2, does not join", [1, 0, 3, 2], [0, 1])
    refused("vertex 2 is matched by 0 edges", [1, 0, 3, 2], [0])
    refused("edge 2, from 2 to 3, joins two", [1, 0, -1, -1], [0])
    refused("edge 1, from 1 to 2, is heavier", [1, 0, 3, 2], [0, 2], 2, True)
    refused("the weight is 2.0, not 3.0", [1, 0, 3, 2], [0, 2], 3)
