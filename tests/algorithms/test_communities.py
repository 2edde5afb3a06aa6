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
from morph.algorithms.graph import communities, label_propagation, leiden, louvain
from morph.prelude import f64, u64

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


def check_levels(g, target, resolution=1.0, seed=0):
    """Check `louvain` and `leiden`."""
    for function in (morph.louvain, morph.leiden):
        runs = everywhere(target, lambda f=function: f(g, resolution, seed))
        check_communities(g, runs[0], resolution)
        for found in runs[1:]:
            assert np.array_equal(host(found.label), host(runs[0].label))
            assert found[1:] == runs[0][1:]
        getattr(validate, function.__name__)(g, runs[0].label, runs[0].modularity, resolution)


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
    check_levels(g, target, seed=seed)


@tries(10)
@given(edge_lists(most=12), st.booleans(), st.sampled_from([0, 0.5, 1, 2, 1e6]), KINDS)
def test_louvain_and_leiden(target, edges, directed, resolution, kind):
    n, src, dst, w = edges
    g = morph.Graph.from_edges(
        src, dst, weight=w.astype(kind), n=n, directed=directed, device=target
    )
    check_levels(g, target, resolution)


def refined(g, resolution, seed):
    """The communities after moves, their parts, and the weight of each part."""
    rows = communities.rows_of_graph(g, louvain.COLUMNS | louvain.REFINING)
    points, n = rows.graph.points, len(g.points)
    points.label.array[:n] = g.device.xp.arange(n)
    whole = max(int(points.strength.array[:n].sum()), 1)
    weight = louvain.Weight(f64(1 / whole), f64(resolution / whole))
    now = morph.Collection(points, capacity=n)
    louvain.improve(*rows, morph.Set(points), u64(seed), weight, now)
    leiden.refine(*rows, u64(seed), weight.factor, now)
    found = (host(points.columns[x].array[:n]) for x in ("community", "label", "total", "strength"))
    offsets, edges = host(rows.graph.adjacency("out")[0]), rows.graph.edges
    arcs = np.repeat(np.arange(n), np.diff(offsets)), host(edges.dst[:]), host(edges.weight[:])
    return *map(np.array, found), *arcs, whole


@tries(20)
@given(edge_lists(most=16), st.sampled_from([0.3, 1, 2]), st.integers(0, 9))
def test_parts_of_communities(target, edges, resolution, seed):
    """Parts are connected, lie in communities, and have joined with a gain."""
    n, src, dst, w = edges
    g = morph.Graph.from_edges(src, dst, weight=w, n=n, device=target)
    runs = everywhere(target, lambda: refined(g, resolution, seed))
    community, label, total, strength, *arcs, whole = runs[0]
    assert all(np.array_equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0], strict=False))
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    ends = (x.tolist() for x in arcs)
    graph.add_weighted_edges_from((a, b, x) for a, b, x in zip(*ends, strict=True) if a < b and x)
    assert (label != np.arange(n)).any() or len(set(community)) == n
    whole_communities = np.array_equal(label, community)
    for part in set(label.tolist()):
        members = np.flatnonzero(label == part)
        assert members[0] == part and len(set(community[members])) == 1
        assert total[part] == strength[members].sum()
        inside = graph.subgraph(members.tolist())
        assert nx.is_connected(inside)
        squares = Fraction(int(total[part]) ** 2 - sum(int(x) ** 2 for x in strength[members]))
        gain = 2 * inside.size("weight") - Fraction(resolution) * squares / whole
        assert len(members) == 1 or gain > 0 or whole_communities


def test_arcs_of_different_weights(target):
    """Of two arcs between the same vertices, the weight of the one from the smaller id counts."""
    g = morph.Graph.from_edges(
        [0, 1, 2], [1, 2, 3], weight=[5, 1, 5], directed=False, device=target
    )
    for weight in ([5, 1, 5, 5, 1, 5], [5, 1, 9, 5, 0, 7]):
        g.edges.weight[:] = weight
        rows = communities.rows_of_graph(g, {})
        arcs = zip(host(rows.graph.edges.src[:]), host(rows.graph.edges.dst[:]), strict=True)
        found = dict(zip(arcs, host(rows.graph.edges.weight[:]).tolist(), strict=True))
        assert found == {(0, 1): 5, (1, 0): 5, (1, 2): 1, (2, 1): 1, (2, 3): 5, (3, 2): 5}
        assert host(rows.graph.points.strength[:]).tolist() == [5, 6, 6, 5]


@tries(20)
@given(edge_lists(most=16), st.integers(1, 5), st.booleans())
def test_merged_groups(target, edges, count, directed):
    n, src, dst, w = edges
    g = morph.Graph.from_edges(src, dst, weight=w, n=n, directed=directed, device=target)
    rows = communities.rows_of_graph(g, louvain.COLUMNS, merges=True)
    xp, points = g.device.xp, rows.graph.points
    group = np.arange(n) % min(count, n)
    offsets = host(rows.graph.adjacency("out")[0])
    ends = group[np.repeat(np.arange(n), np.diff(offsets))], group[host(rows.graph.edges.dst[:])]
    want = np.zeros((n, n), np.int64)
    np.add.at(want, ends, host(rows.graph.edges.weight[:]))
    np.fill_diagonal(want, 0)
    points.label[:] = group
    points.arcs[:] = np.bincount(group, np.diff(offsets), minlength=n).astype(int)
    for _ in range(2):  # the tables are empty again
        roots = xp.arange(min(count, n))
        arcs, number = communities.merged_groups(rows, points.label.array[:n], roots)
        assert host(number).tolist() == group.tolist()
        found, at = np.zeros((n, n), np.int64), host(arcs.offsets)
        found[np.repeat(np.arange(len(roots)), np.diff(at)), host(arcs.dst)] = host(arcs.weight)
        assert np.array_equal(found, want)


def test_communities_are_divided(target):
    """Cliques leave a community of all vertices: none has another community beside it."""
    g = morph.Graph.from_networkx(nx.ring_of_cliques(8, 5), device=target)
    finest = communities.rows_of_graph(g, louvain.COLUMNS | louvain.REFINING, merges=True)
    one = g.device.xp.zeros(40, np.int32)
    for _ in range(3):
        one, value = louvain._levels(finest, one, 1.0, 0, 0.0, leiden.refine)
    assert host(one).tolist() == (np.arange(40) // 5 * 5).tolist()
    assert abs(value - morph.leiden(g).modularity) < 1e-14


def test_levels_keep_communities(monkeypatch):
    """Each level begins with the communities of the previous one: the modularity never falls."""
    levels, improved = [], louvain._improved

    def recorded(rows, label, *args):
        found = improved(rows, label, *args)
        levels.append((len(label), *(host(x).copy() for x in (label, *found[:2]))))
        return found

    monkeypatch.setattr(louvain, "_improved", recorded)
    morph.leiden(generate.rmat(10, seed=2, device="cpu"))
    assert any(len(set(label)) < len(set(part)) for _, _, label, part in levels)
    for (_, _, label, part), (n, begin, *_) in zip(levels, levels[1:], strict=False):
        roots = np.unique(part)
        if len(roots) == n:  # otherwise the first level follows
            _, want = np.unique(label[roots], return_inverse=True)
            _, have = np.unique(begin, return_inverse=True)
            assert np.array_equal(want, have)


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
    n = 20 if target == "python" else 40
    star = np.zeros(n - 1, int), np.arange(1, n)
    ends = np.random.default_rng(5).integers(0, n, (2, n * 3 // 2))
    src, dst = np.concatenate([ends, star], axis=1)
    results = []
    degrees = (8, 64, 1024), (2, 4, 8), (1, 2, 200)
    for few, some, many in degrees[: 2 if target == "cpu" else 3]:  # which compiles a second each
        for module in (communities, louvain, label_propagation):
            for name, degree in (("FEW", few), ("SOME", some), ("MANY", many)):
                monkeypatch.setattr(module, name, degree)
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        found = morph.louvain(g), morph.leiden(g), morph.label_propagation(g)
        results.append([host(one.label).tolist() for one in found])
    assert all(x == results[0] for x in results)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_larger_graphs_with_many_threads(device):
    less = 3 * (device == "cpu")  # tests compile for CPUs without optimization
    graphs = (
        generate.rmat(11 - less * 2 // 3, seed=3, device=device),
        generate.grid(48 - 8 * less, 24, device=device),
    )
    for g in (*graphs, generate.rmat(14 - less, 3, seed=1, device=device)):
        runs = everywhere(device, lambda g=g: morph.label_propagation(g, 5))
        for found in runs[1:]:
            assert np.array_equal(host(runs[0].label), host(found.label))
            assert found[1:] == runs[0][1:]
        validate.label_propagation(g, runs[0].label, runs[0].modularity)
        check_levels(g, device)


def test_modularity_is_as_large_as_that_of_networkx():
    graphs = [
        nx.karate_club_graph(), nx.les_miserables_graph(), nx.florentine_families_graph(),
        nx.connected_caveman_graph(10, 8), nx.powerlaw_cluster_graph(300, 4, 0.5, seed=1),
        nx.grid_2d_graph(15, 15), nx.balanced_tree(3, 4), nx.gnp_random_graph(200, 0.03, seed=2),
    ]  # fmt: skip
    ratios = []
    for graph in graphs:
        want = nx.community.modularity(graph, nx.community.louvain_communities(graph, seed=1))
        g = morph.Graph.from_networkx(graph, device="cpu")
        ratios.append([f(g).modularity / want for f in (morph.louvain, morph.leiden)])
    louvain, leiden = np.array(ratios).T
    assert louvain.min() > 0.95 and louvain.mean() > 0.99
    assert leiden.min() > 0.98 and leiden.mean() > max(1, louvain.mean())


@pytest.mark.parametrize("weight", [2**64 - 1, 2**63 - 1, 1e308, 5e-324, 3.0])
def test_extreme_weights(target, weight):
    """The heavy triangles stay together; all modularities are those of equal weights."""
    ends = np.array([0, 0, 1, 2, 3, 3, 4]), np.array([1, 2, 2, 3, 4, 5, 5])
    kind = {2**64 - 1: np.uint64, 2**63 - 1: np.int64}.get(weight, np.float64)
    g = morph.Graph.from_edges(*ends, weight=np.full(7, weight, kind), device=target)
    for function in (morph.label_propagation, morph.louvain, morph.leiden):
        found = function(g)
        assert host(found.label).tolist() == [0, 0, 0, 3, 3, 3]
        assert abs(found.modularity - 5 / 14) < 1e-14
        validate.label_propagation(g, found.label, found.modularity)


@pytest.mark.parametrize("symmetrize", [False, True])
def test_parallel_edges_and_self_loops_add_up(target, symmetrize):
    ends = np.array([0, 0, 0, 0, 1, 3, 3, 4, 5, 4, 2]), np.array([0, 0, 1, 1, 2, 4, 4, 5, 3, 4, 3])
    weight = np.arange(1.0, 12)
    g = morph.Graph.from_edges(*ends, weight=weight, symmetrize=symmetrize, device=target)
    for function in (morph.label_propagation, morph.louvain, morph.leiden):
        found = function(g)
        whole = nx.MultiGraph()
        whole.add_weighted_edges_from(zip(*(x.tolist() for x in (*ends, weight)), strict=True))
        sets = [set(np.flatnonzero(host(found.label) == x)) for x in set(host(found.label))]
        assert abs(found.modularity - nx.community.modularity(whole, sets)) < 1e-12


@pytest.mark.parametrize("resolution", [1e13, 1e300, np.finfo(float).max])
def test_huge_resolution(target, resolution):
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 4], symmetrize=True, device=target)
    for function in (morph.louvain, morph.leiden):
        found = function(g, resolution)  # at such modularities a sum with the least gain is equal
        assert host(found.label).tolist() == [0, 1, 2, 3, 4]
        assert found.modularity == -0.21875 * resolution


def test_edges_of_no_weight_join_nothing(target):
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=[0, 3, 0], device=target)
    assert host(morph.label_propagation(g).label).tolist() == [0, 1, 1, 3]


def test_cliques_are_found(target):
    g = morph.Graph.from_networkx(nx.connected_caveman_graph(8, 6), device=target)
    for function in (morph.label_propagation, morph.louvain, morph.leiden):
        found = function(g)
        assert found.number == 8 and found.modularity > 0.8


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    for function in (morph.label_propagation, morph.louvain, morph.leiden):
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
    for function in (morph.louvain, morph.leiden):
        for resolution in (-1, np.nan, np.inf):
            with pytest.raises(ValueError, match="resolution is finite and 0 or more, not"):
                function(g, resolution)
        with pytest.raises(TypeError, match="resolution is a number, not"):
            function(g, "1")


def test_wrong_communities_are_refused():
    ends = [0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5]
    g = morph.Graph.from_edges(*ends, device="cpu")

    def refused(match, label, modularity=None):
        with pytest.raises(validate.WrongAnswer, match=match):
            validate.label_propagation(g, np.array(label), modularity)

    validate.label_propagation(g, np.array([0, 0, 0, 3, 3, 3]), 5 / 14)
    validate.label_propagation(g, np.zeros(6, int), 0)
    validate.leiden(g, np.array([0, 0, 0, 3, 3, 3]), 5 / 14)
    with pytest.raises(validate.WrongAnswer, match="vertex 5 has the label 0, but 5"):
        validate.leiden(g, np.array([0, 0, 0, 3, 3, 0]))
    with pytest.raises(validate.WrongAnswer, match="the modularity is"):
        validate.leiden(g, np.array([0, 0, 0, 3, 3, 3]), 5 / 14, resolution=2)
    refused("shape", [0] * 5)
    refused("the modularity is 0.357", [0, 0, 0, 3, 3, 3], 0.36)
    refused("not nan", [0, 0, 0, 3, 3, 3], np.nan)
    refused("vertex 0 has the label 1", [1, 1, 1, 3, 3, 3])
    refused("vertex 5 has the label 0, but 5", [0, 0, 0, 3, 3, 0])
    refused("vertex 2 has edges of more weight to 0", [0, 0, 2, 2, 2, 2])


def test_arcs_of_unequal_weights_are_found_by_all_bits_of_their_hash():
    """Weights are scaled by a power of 2; a product with them keeps few bits of a hash."""
    for v in range(130, 160):
        g = morph.Graph.from_edges([0, 1], [v, 2], [1.0, 1.0], n=160, directed=False, device="cpu")
        g.edges.weight[:] = np.where(g.edges.src[:] == v, 2.0, 1.0)
        found = morph.louvain(g)
        validate.louvain(g, found.label, found.modularity)
