"""Communities, against the definitions in exact fractions and NetworkX, on every target."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from graphs import changed_graph, edge_lists, small_graphs
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import generate, validate
from morph.algorithms.graph import communities, label_propagation, louvain

SEEDS = st.sampled_from([0, 1, 2**64 - 1, 2**70])
KINDS = st.sampled_from([np.int8, np.uint64, np.int64, np.float16, np.float32, np.float64])


def weighted(g):
    """The NetworkX graph of live points and edges; weights of parallel ones are added up."""
    graph = nx.Graph()
    graph.add_nodes_from(host(g.points.ids()).tolist())
    live = host(g.edges.ids())
    weight = host(g.edges.weight)[live] if "weight" in g.edges.columns else np.ones(len(live), int)
    ends = (host(x)[live].tolist() for x in (g.edges.src, g.edges.dst))
    for a, b, w in zip(*ends, weight.tolist(), strict=True):
        if (g.directed or a <= b) and a in graph and b in graph:
            before = graph.get_edge_data(a, b, {"weight": 0})["weight"]
            graph.add_edge(a, b, weight=before + Fraction(w))
    return graph


def sets(g, label):
    ids, label = host(g.points.ids()), host(label)
    return [set(ids[label[ids] == k].tolist()) for k in np.unique(label[ids])]


def check_communities(g, found, resolution=1.0):
    """Communities are connected and named by their least points; the modularity is theirs."""
    graph, label = weighted(g), host(found.label)
    assert label.dtype == np.int32 and label.shape == (len(g.points),)
    alive = np.zeros(len(label), bool)
    alive[host(g.points.ids())] = True
    assert (label[~alive] == -1).all()
    parts = sets(g, found.label)
    assert found.number == len(parts) and type(found.number) is int
    for part in parts:
        assert nx.is_connected(graph.subgraph(part)) and label[min(part)] == min(part)
    whole = sum(w for *_, w in graph.edges.data("weight"))
    want = nx.community.modularity(graph, parts, resolution=resolution) if whole else 0
    assert type(found.modularity) is float and abs(found.modularity - want) <= 1e-14 * max(
        resolution, 1
    )
    return graph, label


def check_louvain(g, target, resolution=1.0, seed=0):
    runs = everywhere(target, lambda: morph.louvain(g, resolution, seed))
    check_communities(g, runs[0], resolution)
    for found in runs[1:]:
        assert np.array_equal(host(found.label), host(runs[0].label)) and found[1:] == runs[0][1:]
    validate.louvain(g, runs[0].label, runs[0].modularity, resolution)


def check(g, target, seed=0):
    runs = everywhere(target, lambda: morph.label_propagation(g, seed))
    graph, label = check_communities(g, runs[0])
    for found in runs[1:]:
        assert np.array_equal(host(found.label), label) and found[1:] == runs[0][1:]
    for v in graph:
        weights: dict[int, Fraction] = {}
        for t in graph[v]:
            if t != v:
                weights[label[t]] = weights.get(label[t], 0) + graph[v][t]["weight"]
        assert weights.get(label[v], 0) == max(weights.values(), default=0)
    validate.label_propagation(g, runs[0].label, runs[0].modularity)
    check_louvain(g, target, seed=seed)


@tries(10)
@given(edge_lists(most=12), st.booleans(), st.sampled_from([0, 0.5, 1, 2, 1e6]), KINDS)
def test_louvain(target, edges, directed, resolution, kind):
    n, src, dst, w = edges
    g = morph.Graph.from_edges(
        src, dst, weight=w.astype(kind), n=n, directed=directed, device=target
    )
    check_louvain(g, target, resolution)


@tries(10)
@given(edge_lists(most=14), st.booleans(), SEEDS, KINDS)
def test_label_propagation(target, edges, directed, seed, kind):
    n, src, dst, w = edges
    g = morph.Graph.from_edges(
        src, dst, weight=w.astype(kind), n=n, directed=directed, device=target
    )
    check(g, target, seed)


def test_small_graphs(target):
    for g in small_graphs(target):
        check(g, target)
    check(morph.Graph.from_edges([0, 1], [1, 2], weight=[0, 0], device=target), target)


@tries(6)
@given(edge_lists(most=10), st.data())
def test_graphs_that_were_changed(target, edges, data):
    g = changed_graph(edges, target, data)
    check(g, target)


def test_hash_tables_in_arrays_and_in_memory(target, monkeypatch):
    """Labels do not depend on the degrees up to which a vertex has its table in arrays."""
    star = np.zeros(99, int), np.arange(1, 100)
    src, dst = np.concatenate([np.random.default_rng(5).integers(0, 100, (2, 150)), star], axis=1)
    results = []
    for few, some, many in ((8, 64, 1024), (2, 4, 8), (1, 1, 1), (1, 2, 200)):
        for module in (communities, louvain, label_propagation):
            for name, degree in (("FEW", few), ("SOME", some), ("MANY", many)):
                monkeypatch.setattr(module, name, degree)
        g = morph.Graph.from_edges(src, dst, n=100, device=target)
        both = morph.louvain(g), morph.label_propagation(g)
        results.append([host(found.label).tolist() for found in both])
    assert all(x == results[0] for x in results)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs_with_many_threads(device):
    graphs = generate.rmat(11, seed=3, device=device), generate.grid(48, 48, device=device)
    for g in (*graphs, generate.rmat(14, 3, seed=1, device=device)):
        runs = everywhere(device, lambda g=g: morph.label_propagation(g, 5))
        for found in runs[1:]:
            assert np.array_equal(host(runs[0].label), host(found.label))
            assert found[1:] == runs[0][1:]
        validate.label_propagation(g, runs[0].label, runs[0].modularity)
        check_louvain(g, device)


def test_modularity_is_as_large_as_that_of_networkx():
    graphs = [
        nx.karate_club_graph(), nx.les_miserables_graph(), nx.florentine_families_graph(),
        nx.connected_caveman_graph(10, 8), nx.powerlaw_cluster_graph(300, 4, 0.5, seed=1),
        nx.grid_2d_graph(15, 15), nx.balanced_tree(3, 4), nx.gnp_random_graph(200, 0.03, seed=2),
    ]  # fmt: skip
    ratios = []
    for graph in graphs:
        want = nx.community.modularity(graph, nx.community.louvain_communities(graph, seed=1))
        found = morph.louvain(morph.Graph.from_networkx(graph, device="cpu"))
        ratios.append(found.modularity / want)
    assert min(ratios) > 0.95 and np.mean(ratios) > 0.99


@pytest.mark.parametrize("weight", [2**64 - 1, 2**63 - 1, 1e308, 5e-324, 3.0])
def test_extreme_weights(target, weight):
    """The heavy triangles stay together; all modularities are those of equal weights."""
    ends = np.array([0, 0, 1, 2, 3, 3, 4]), np.array([1, 2, 2, 3, 4, 5, 5])
    kind = {2**64 - 1: np.uint64, 2**63 - 1: np.int64}.get(weight, np.float64)
    g = morph.Graph.from_edges(*ends, weight=np.full(7, weight, kind), device=target)
    for function in (morph.label_propagation, morph.louvain):
        found = function(g)
        assert host(found.label).tolist() == [0, 0, 0, 3, 3, 3]
        assert abs(found.modularity - 5 / 14) < 1e-14
        validate.label_propagation(g, found.label, found.modularity)


@pytest.mark.parametrize("symmetrize", [False, True])
def test_parallel_edges_and_self_loops_add_up(target, symmetrize):
    ends = np.array([0, 0, 0, 0, 1, 3, 3, 4, 5, 4, 2]), np.array([0, 0, 1, 1, 2, 4, 4, 5, 3, 4, 3])
    weight = np.arange(1.0, 12)
    g = morph.Graph.from_edges(*ends, weight=weight, symmetrize=symmetrize, device=target)
    for function in (morph.label_propagation, morph.louvain):
        found = function(g)
        whole = nx.MultiGraph()
        whole.add_weighted_edges_from(zip(*(x.tolist() for x in (*ends, weight)), strict=True))
        sets = [set(np.flatnonzero(host(found.label) == x)) for x in set(host(found.label))]
        assert abs(found.modularity - nx.community.modularity(whole, sets)) < 1e-12


@pytest.mark.parametrize("resolution", [1e13, 1e300, np.finfo(float).max])
def test_huge_resolution(target, resolution):
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 4], symmetrize=True, device=target)
    found = morph.louvain(g, resolution)  # at such modularities a sum with the least gain is equal
    assert host(found.label).tolist() == [0, 1, 2, 3, 4]
    assert found.modularity == -0.21875 * resolution


def test_edges_of_no_weight_join_nothing(target):
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=[0, 3, 0], device=target)
    assert host(morph.label_propagation(g).label).tolist() == [0, 1, 1, 3]


def test_cliques_are_found(target):
    g = morph.Graph.from_networkx(nx.connected_caveman_graph(8, 6), device=target)
    for function in (morph.label_propagation, morph.louvain):
        found = function(g)
        assert found.number == 8 and found.modularity > 0.8


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    for function in (morph.label_propagation, morph.louvain):
        with pytest.raises(ValueError, match="seed is 0 or more, not -1"):
            function(g, seed=-1)
        with pytest.raises(TypeError, match="seed is"):
            function(g, seed=0.5)
        with pytest.raises(TypeError, match="takes a graph on one device"):
            function(morph.partition(g, ["cpu"] * 2))
        for weight in (-1, np.nan, np.inf, -0.5):
            wrong = morph.Graph.from_edges([0, 1], [1, 2], weight=np.array([1, weight]))
            with pytest.raises(ValueError, match="finite and not negative, not"):
                function(wrong)
    for resolution in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="resolution is finite and 0 or more, not"):
            morph.louvain(g, resolution)
    with pytest.raises(TypeError, match="resolution is a number, not"):
        morph.louvain(g, "1")


def test_wrong_communities_are_refused():
    ends = [0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5]
    g = morph.Graph.from_edges(*ends, device="cpu")

    def refused(match, label, modularity=None):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.label_propagation(g, np.array(label), modularity)

    validate.label_propagation(g, np.array([0, 0, 0, 3, 3, 3]), 5 / 14)
    validate.label_propagation(g, np.zeros(6, int), 0)
    refused("shape", [0] * 5)
    refused("the modularity is 0.357", [0, 0, 0, 3, 3, 3], 0.36)
    refused("not nan", [0, 0, 0, 3, 3, 3], np.nan)
    refused("vertex 0 has the label 1", [1, 1, 1, 3, 3, 3])
    refused("vertex 5 has the label 0, but 5", [0, 0, 0, 3, 3, 0])
    refused("vertex 2 has edges of more weight to 0", [0, 0, 2, 2, 2, 2])
