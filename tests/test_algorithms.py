"""The graph algorithms against NetworkX and SciPy, on every target."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph

import morph
from morph.algorithms import bfs as bfs_module
from morph.algorithms import sssp as sssp_module
from morph.algorithms.scratch import columns
from morph.prelude import i32

on_targets = settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


WEIGHTS = st.integers(0, 50)


@st.composite
def edge_lists(draw, most=24, weights=WEIGHTS):
    """Points and edges: parallel ones, loops, islands and all."""
    n = draw(st.integers(1, most))
    ends = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(ends, ends, weights), max_size=4 * most))
    src, dst, w = (np.array([e[i] for e in edges], np.int32) for i in range(3))
    return n, src, dst, w


def lightest(n, src, dst, w, undirected=False):
    """The NetworkX graph of the lightest of parallel edges."""
    graph = nx.Graph() if undirected else nx.DiGraph()
    graph.add_nodes_from(range(n))
    for a, b, x in zip(src.tolist(), dst.tolist(), w.tolist(), strict=True):
        if not graph.has_edge(a, b) or graph[a][b]["weight"] > x:
            graph.add_edge(a, b, weight=x)
    return graph


def host(x):
    return x.get() if hasattr(x, "get") else np.asarray(x)


@on_targets
@given(edge_lists(), st.data())
def test_bfs(target, edges, data):
    n, src, dst, w = edges
    source = data.draw(st.integers(0, n - 1))
    found = morph.bfs(morph.Graph.from_edges(src, dst, n=n, device=target), source)
    want = nx.single_source_shortest_path_length(lightest(*edges), source)
    assert host(found.distance).tolist() == [want.get(i, -1) for i in range(n)]
    assert found.levels == max(want.values()) + 1


@on_targets
@given(edge_lists(), st.data(), st.sampled_from(["i1", "u2", "i4", "i8", "f4", "f8"]))
def test_sssp(target, edges, data, dtype):
    n, src, dst, w = edges
    source = data.draw(st.integers(0, n - 1))
    g = morph.Graph.from_edges(src, dst, weight=w.astype(dtype), n=n, device=target)
    found = morph.sssp(g, source)
    want = nx.single_source_dijkstra_path_length(lightest(*edges), source)
    far = np.inf if dtype[0] == "f" else np.iinfo(np.int64).max
    assert host(found.distance).tolist() == [want.get(i, far) for i in range(n)]


@on_targets
@given(edge_lists(weights=st.integers(0, 5)))
def test_mst(target, edges):
    n, src, dst, w = edges
    found = morph.mst(morph.Graph.from_edges(src, dst, weight=w, n=n, device=target))
    want = lightest(n, src, dst, w, undirected=True)
    tree = nx.minimum_spanning_tree(want)
    assert found.weight == tree.size("weight")
    assert found.components == nx.number_connected_components(want)
    order = np.argsort(src, kind="stable")
    picked = order[host(found.edges)]
    forest = nx.Graph(zip(src[picked].tolist(), dst[picked].tolist(), strict=True))
    assert forest.number_of_edges() == len(picked) and nx.is_forest(forest) if len(picked) else True


@on_targets
@given(edge_lists())
def test_pagerank(target, edges):
    n, src, dst, w = edges
    found = morph.pagerank(morph.Graph.from_edges(src, dst, n=n, device=target), tolerance=1e-12)
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(src.tolist(), dst.tolist(), strict=True))
    want = nx.pagerank(graph, tol=1e-13, max_iter=1000)
    assert np.allclose(host(found.rank), [want[i] for i in range(n)], atol=1e-10)
    assert float(found.rank.sum()) == pytest.approx(1)


@on_targets
@given(edge_lists(most=12))
def test_betweenness(target, edges):
    n, src, dst, w = edges
    graph = lightest(*edges)
    graph.remove_edges_from(nx.selfloop_edges(graph))
    ends = np.array(list(graph.edges), np.int32).reshape(-1, 2)
    g = morph.Graph.from_edges(ends[:, 0], ends[:, 1], n=n, device=target)
    want = nx.betweenness_centrality(graph, normalized=False)
    assert np.allclose(host(morph.betweenness(g)), [want[i] for i in range(n)])


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
    assert host(morph.betweenness(g)).tolist() == [1, 1, 1, 0]
    assert list(g.points.columns) == order and g.points.packs == (("dist", "rank"),)
    assert [host(getattr(g.points, n)[:]).tolist() for n in names] == [[k] * 4 for k in range(8)]
    assert host(mine[:]).tolist() == [0] * 4


def grid(side):
    ids = np.arange(side * side, dtype=np.int32).reshape(side, side)
    a = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    b = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    return np.concatenate([a, b]), np.concatenate([b, a])


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
    graph = lightest(5000, src, dst, weight, undirected=True)
    g = morph.Graph.from_edges(src, dst, weight=weight, n=5000, device=device)
    found = morph.mst(g)
    graph.remove_edges_from(nx.selfloop_edges(graph))
    assert found.weight == nx.minimum_spanning_tree(graph).size("weight")
    assert found.components == nx.number_connected_components(graph)


@on_targets
@given(edge_lists(weights=st.integers(0, 30)))
def test_fused_equals_eager(target, edges):
    """The decorator changes the speed and nothing else."""
    n, src, dst, w = edges
    g = morph.Graph.from_edges(src, dst, weight=w, n=n, device=target)
    results = []
    for run in (bfs_module.search, bfs_module.search.eager):
        with columns(g.points, dist=(i32, bfs_module.FAR)):
            lists = [morph.Collection(g.points) for _ in range(2)]  # without room: they grow
            g.points[0].dist = 0
            lists[0].add(0)
            results.append((run(*lists), host(g.points.dist.array).tolist()))
    assert results[0] == results[1]
    for run in (sssp_module.search, sssp_module.search.eager):
        with columns(
            g.points, dist=(np.int64, 1 << 60), before=(np.int64, 1 << 60), updated=(bool, 0)
        ):
            run(g, morph.Flag(g), 0)
            results.append(host(g.points.dist.array).tolist())
    assert results[2] == results[3]


def test_the_users_graph_is_left_as_it_was(target):
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=np.array([1, 2]), device=target)
    before = [(name, list(t.columns)) for name, t in g.tables.items()]
    morph.bfs(g), morph.sssp(g), morph.mst(g), morph.pagerank(g), morph.betweenness(g)
    assert [(name, list(t.columns)) for name, t in g.tables.items()] == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: morph.bfs(g, 9), "source 9 is not a vertex: the graph has 2"),
        (lambda g: morph.bfs(g, -1), "source -1 is not a vertex"),
        (lambda g: morph.sssp(g, 2), "source 2 is not a vertex"),
        (lambda g: morph.sssp(morph.Graph.from_edges([0], [1])), "needs edge weights"),
        (lambda g: morph.mst(morph.Graph.from_edges([0], [1])), "needs edge weights"),
        (lambda g: morph.sssp(morph.Graph.from_edges([0], [1], weight=[-1.0])), "not negative"),
        (lambda g: morph.sssp(morph.Graph.from_edges([0], [1], weight=[np.nan])), "not NaN"),
        (lambda g: morph.mst(morph.Graph.from_edges([0], [1], weight=[np.nan])), "not NaN"),
        (lambda g: morph.pagerank(g, damping=2), "damping is from 0 to 1, not 2"),
        (lambda g: morph.pagerank(g, iterations=0), "must be positive"),
        (lambda g: morph.betweenness(g, sources=[3]), "source 3 is not a vertex"),
    ],
)
def test_bad_arguments(call, message):
    g = morph.Graph.from_edges([0], [1], weight=np.array([1]))
    with pytest.raises(ValueError, match=message):
        call(g)
