"""The graph algorithms against NetworkX and SciPy, on every target."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, grid, lightest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph
from targets import everywhere, host, tries

import morph
from morph.algorithms.graph import mst
from morph.prelude import i32


@tries(10)
@given(
    edge_lists(weights=st.integers(0, 5)),
    st.booleans(),
    st.sampled_from(["i1", "u4", "i8", "f4", "f8"]),
)
def test_mst(target, edges, directed, dtype):
    n, src, dst, w = edges
    want = lightest(edges, undirected=True)
    tree = nx.minimum_spanning_tree(want)
    g = graph_of(edges, target, dtype, directed)
    results = everywhere(target, lambda: morph.mst(g))
    for found in results:
        assert found.weight == tree.size("weight")
        assert found.components == nx.number_connected_components(want)
        picked = host(g.edges.src)[host(found.edges)], host(g.edges.dst)[host(found.edges)]
        forest = nx.Graph(zip(*(p.tolist() for p in picked), strict=True))
        assert forest.number_of_edges() == len(picked[0])
        assert len(picked[0]) == 0 or nx.is_forest(forest)
        assert host(found.edges).tolist() == host(results[0].edges).tolist()  # there is one answer


def test_mst_leaves_out_arcs_whose_reverse_comes_first(target, monkeypatch):
    """The forest is that of all arcs: with ties, parallel edges, loops, and unequal reverses."""
    rng, n = np.random.default_rng(5), 110
    src, dst = rng.integers(0, n, (2, 300))
    weight, other = rng.integers(-2, 3, (2, 300)).astype(np.int32)
    both = np.concatenate([src, dst]), np.concatenate([dst, src])
    for second, twice in ((weight, True), (other, False)):
        costs = np.concatenate([weight, second])
        g = morph.Graph.from_edges(*both, weight=costs, n=n, symmetric=True, device=target)
        want = morph.mst(g)
        with monkeypatch.context() as patch:
            patch.setattr(mst, "SYMMETRY_ARCS", 1)
            patch.setattr(mst, "SYMMETRY_ARCS_ON_GPU", 1)
            assert mst._holds_edges_twice(g) == twice
            for found in everywhere(target, lambda g=g: morph.mst(g)):
                assert host(found.edges).tolist() == host(want.edges).tolist()
                assert found.weight == want.weight
            g.edges.weight[0] += 9  # now the reverse of the first arc is the lighter one
            assert not mst._holds_edges_twice(g)


def test_mst_processes_the_lightest_of_random_sparse_edges_first(monkeypatch):
    """Edges between neighbours, and those of a few large vertices, are looked at all together."""
    n, make = 1 << 18, morph.generate
    random = make.uniform(n, 2 * n, seed=3, weight=(1, 99), device="cpu")
    local = make.grid(512, 520, weight=(1, 99), device="cpu")
    skewed = make.rmat(18, 2, weight=(1, 99), device="cpu")
    want = morph.mst(random)
    monkeypatch.setattr(mst, "RANDOM_POINTS", n)
    for g, bands in (random, 2), (local, 1), (skewed, 1):
        assert len(mst._bands(g, 0, 100)) == bands, g
    found = morph.mst(random)
    assert found.edges.tolist() == want.edges.tolist() and found.weight == want.weight


def test_mst_ignores_weights_of_deleted_edges(target):
    """Also where most weights of the sample are NaN."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 10, (2, 400))
    weight = np.full(400, np.nan)
    weight[:15] = 1
    g = morph.Graph.from_edges(src, dst, weight=weight, n=10, device=target)
    g.edges.delete(np.flatnonzero(np.isnan(host(g.edges.weight[:]))))
    want = len(np.unique(host(morph.connected_components(g).label)))
    assert morph.mst(g).components == want < 10


def test_mst_of_extreme_weights(target):
    """The largest numbers of a type are weights like others."""
    for dtype, most in ((np.int8, 127), (np.float32, np.inf), (np.bool_, True)):
        weight = np.array([0, 1, most, most]).astype(dtype)
        g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 3], weight=weight, n=5, device=target)
        assert host(morph.mst(g).edges).tolist() == [0, 1, 3] and morph.mst(g).components == 2


def test_the_weight_of_a_forest_does_not_wrap_around(target):
    for dtype, big in ((np.int64, 2**63 - 1), (np.int64, -(2**63)), (np.uint64, 2**64 - 1)):
        weight = np.array([big, big, big], dtype)
        g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=weight, device=target)
        assert morph.mst(g).weight == 3 * big
    negative = np.array([2, -3, 1, -(10**6)], np.int32)
    g = morph.Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 3], weight=negative, device=target)
    assert host(morph.mst(g).edges).tolist() == [1, 2, 3] and morph.mst(g).weight == -(10**6) - 2


@tries(8)
@given(edge_lists(weights=st.integers(0, 3)), st.booleans(), st.booleans(), st.data())
def test_pagerank(target, edges, directed, weighted, data):
    n, src, dst, w = edges
    vector = st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any)
    jump, sink, begin = (data.draw(vector) for _ in range(3))
    g = graph_of(edges, target, directed=directed)
    own = {"personalization": jump, "dangling": sink, "start": begin, "weighted": weighted}
    found = morph.pagerank(g, tolerance=1e-13, iterations=1000, **own)
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(n))
    arcs = zip(src.tolist(), dst.tolist(), w.tolist(), strict=True)
    for a, b, x in arcs:
        graph.add_edge(a, b, weight=x if weighted else 1)
        if not directed and a != b:
            graph.add_edge(b, a, weight=x if weighted else 1)
    theirs = dict(zip(("personalization", "dangling", "nstart"), (jump, sink, begin), strict=True))
    theirs = {name: dict(enumerate(x)) for name, x in theirs.items() if x is not None}
    want = nx.pagerank(graph, tol=1e-14, max_iter=2000, **theirs)
    assert np.allclose(host(found.rank), [want[i] for i in range(n)], atol=1e-10)
    assert float(found.rank.sum()) == pytest.approx(1)
    single = morph.pagerank(g, **own, dtype="f4")
    assert single.rank.dtype == np.float32 and single.error < 1e-6
    assert np.allclose(host(single.rank), [want[i] for i in range(n)], atol=1e-5)
    how = {"tolerance": 0, "iterations": 2, **own}
    first, later = (host(morph.pagerank(g, **how).rank) for _ in range(2))
    assert np.allclose(later, first, rtol=1e-12, atol=0)


class Drawn(random.Random):
    """Gives NetworkX the sample that it is to draw."""

    def sample(self, population, k):
        return population[:k]


@tries(8)
@given(edge_lists(most=12), *(st.booleans(),) * 3, st.integers(1, 12))
def test_betweenness(target, edges, directed, normalized, endpoints, k):
    n = edges[0]
    graph = lightest(edges, not directed)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    g = morph.Graph.from_networkx(graph, device=target)
    how = {"normalized": normalized, "endpoints": endpoints}
    want = nx.betweenness_centrality(graph, **how)
    found = morph.betweenness(g, **how)
    assert np.allclose(host(found.centrality), [want[i] for i in range(n)])
    assert found.sources.tolist() == list(range(n))
    found = morph.betweenness(g, min(k, n), seed=3, **how)
    drawn = nx.Graph if not directed else nx.DiGraph
    first = found.sources.tolist()
    moved = drawn()  # the same graph, the sample first
    moved.add_nodes_from(sorted(range(n), key=lambda i: i not in first))
    moved.add_edges_from(graph.edges)
    want = nx.betweenness_centrality(moved, k=len(first), seed=Drawn(), **how)
    want = [want[i] for i in range(n)]
    assert np.allclose(host(found.centrality), want, equal_nan=True)
    again = morph.betweenness(g, found.sources, **how)
    assert np.allclose(host(again.centrality), want, equal_nan=True)


def test_betweenness_counts_parallel_edges_as_paths(target):
    g = morph.Graph.from_edges([0, 0, 0, 1, 2], [1, 1, 2, 3, 3], device=target)
    found = morph.betweenness(g, normalized=False).centrality
    assert host(found).tolist() == pytest.approx([0, 2 / 3, 1 / 3, 0])


def test_columns_of_the_user_stay(target):
    """Columns named as those of the algorithms, some packed, are as they were after each."""
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0], weight=[3, 1, 2], n=4, device=target)
    names = "dist before sigma bc rank lock lightest dist_".split()
    for k, name in enumerate(names):
        g.points.add(name, i32, fill=k)
    g.points.pack("dist", "rank")
    mine, order = g.points.dist, list(g.points.columns)
    assert host(morph.bfs(g).distance).tolist() == [0, 1, 2, -1]
    assert host(morph.sssp(g).distance).tolist()[:3] == [0, 3, 4]
    assert morph.mst(g).weight == 3 and morph.pagerank(g).rank.size == 4
    assert host(morph.betweenness(g, normalized=False).centrality).tolist() == [1, 1, 1, 0]
    assert list(g.points.columns) == order and g.points.packs == (("dist", "rank"),)
    assert [host(getattr(g.points, n)[:]).tolist() for n in names] == [[k] * 4 for k in range(8)]
    assert host(mine[:]).tolist() == [0] * 4


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_large_graphs_with_many_threads(device):
    """Enough work for several threads to meet: a grid, and a random graph with hubs."""
    src, dst = grid(200)
    weight = (src.astype(np.int64) * dst % 97 + 1).astype(np.int32)
    g = morph.Graph.from_edges(src, dst, weight=weight, symmetric=False, device=device)
    want = np.add.outer(np.arange(200), np.arange(200)).ravel()
    assert (host(morph.bfs(g).distance) == want).all()
    matrix = coo_array((weight, (src, dst)), shape=(40000, 40000)).tocsr()
    assert (host(morph.sssp(g).distance) == csgraph.dijkstra(matrix, indices=0)).all()
    rng = np.random.default_rng(5)
    src, dst = (rng.zipf(1.5, 60000) - 1) % 5000, rng.integers(0, 5000, 60000)
    weight = rng.integers(1, 256, 60000).astype(np.int32)
    graph = lightest((5000, src, dst, weight), undirected=True)
    g = morph.Graph.from_edges(src, dst, weight=weight, n=5000, device=device)
    found = morph.mst(g)
    assert found.weight == nx.minimum_spanning_tree(graph).size("weight")
    assert found.components == nx.number_connected_components(graph)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: morph.bfs(g, 9), "source 9 is not a vertex: the graph has 2"),
        (lambda g: morph.bfs(g, -1), "source -1 is not a vertex"),
        (lambda g: morph.sssp(g, 2), "source 2 is not a vertex"),
        (lambda g: morph.sssp(morph.Graph.from_edges([0], [1], weight=[-1.0])), "not negative"),
        (lambda g: morph.sssp(morph.Graph.from_edges([0], [1], weight=[np.nan])), "not NaN"),
        (lambda g: morph.mst(morph.Graph.from_edges([0], [1], weight=[np.nan])), "not NaN"),
        (
            lambda g: morph.pagerank(
                morph.Graph.from_edges([0, 0], [1, 1], weight=[0, 5e-324]), weighted=True
            ),
            "doubles 0 or from 1e-290 to 1e[+]290, not 5e-324",
        ),
        (lambda g: morph.pagerank(g, damping=2), "damping is from 0 to 1, not 2"),
        (lambda g: morph.pagerank(g, iterations=0), "must be positive"),
        (lambda g: morph.pagerank(g, dtype="i4"), "ranks are float64 or float32, not int32"),
        (lambda g: morph.pagerank(g, personalization=[1]), r"has shape \(1,\), not \(2,\)"),
        (lambda g: morph.pagerank(g, dangling=[1]), r"dangling has shape \(1,\), not \(2,\)"),
        (lambda g: morph.pagerank(g, start=[0, 0]), "start has the sum 0.0"),
        (lambda g: morph.pagerank(g, personalization=[1, -1]), "negative or not finite"),
        (
            lambda g: morph.pagerank(g, personalization=[0, 0]),
            "the sum 0.0, which must be positive",
        ),
        (lambda g: morph.betweenness(g, sources=[3]), "source 3 is not a vertex"),
        (lambda g: morph.betweenness(g, 3), "a sample of 3 sources: the graph has 2 points"),
        (lambda g: morph.bfs(g, [0, 7]), "source 7 is not a vertex"),
        (lambda g: morph.bfs(g, cutoff=-1), "cutoff is a number from 0 on, not -1"),
        (lambda g: morph.sssp(g, cutoff=np.nan), "cutoff is a number from 0 on, not nan"),
        (lambda g: morph.sssp(g, targets=[0, 5]), "target 5 is not a vertex"),
    ],
)
def test_bad_arguments(call, message):
    g = morph.Graph.from_edges([0], [1], weight=np.array([1]))
    with pytest.raises(ValueError, match=message):
        call(g)
