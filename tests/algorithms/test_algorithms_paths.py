"""Breadth-first search and shortest paths: against NetworkX and SciPy, on every target."""

from __future__ import annotations

from unittest import mock

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, grid, lightest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from scipy.sparse import coo_array, csgraph
from targets import everywhere, host, tries

import morph
from morph import validate
from morph.algorithms.graph import bfs as bfs_module
from morph.algorithms.graph import costs
from morph.algorithms.graph import sssp as paths
from morph.algorithms.graph.costs import measured
from morph.data.collection import Flag
from morph.prelude import i32, u8, u32

FAR = np.iinfo(np.int64).max
several = st.lists(st.integers(0, 23), min_size=1, max_size=3)


def within(n, ids):
    return sorted({i % n for i in ids})


@tries(10)
@given(edge_lists(), several, st.none() | st.integers(0, 4), st.booleans())
def test_bfs(target, edges, sources, cutoff, directed):
    n, sources = edges[0], within(edges[0], sources)
    graph = lightest(edges, not directed)
    want = nx.multi_source_dijkstra_path_length(graph, sources, cutoff, weight=None)
    g = graph_of(edges, target, directed=directed)
    given_as = sources[0] if len(sources) == 1 else sources
    for found in everywhere(target, lambda: morph.bfs(g, given_as, cutoff=cutoff)):
        assert host(found.distance).tolist() == [want.get(i, -1) for i in range(n)]
        for v, u in enumerate(host(found.predecessor).tolist()):
            if want.get(v, 0) == 0:
                assert u == -1
            else:
                assert graph.has_edge(u, v) and want[u] + 1 == want[v]
        if cutoff is None:
            assert found.levels == max(want.values()) + 1
        assert found.distance.dtype == found.predecessor.dtype == np.int32


@pytest.mark.parametrize(("before", "noted"), [(bfs_module.INFINITY, False), (7, True)])
def test_a_distance_that_is_lowered_again_is_noted(target, before, noted):
    """Then the vertex may keep the parent of its first distance."""
    g = morph.Graph.from_edges([0], [1], device=target)
    g.points.add("dist", u32, fill=before)
    g.points.add("predecessor", i32, fill=-1)
    g.points[0].dist = 0
    now, then, far = (morph.Collection(g.points, capacity=2) for _ in range(3))
    now.add(g.points[0])
    conflict = Flag(g)
    morph.foreach(now, bfs_module.relax, u32(9), then, far, conflict, 1)
    assert bool(conflict) == noted and g.points[1].dist == 1 and then.items.tolist() == [1]


def test_parents_of_deep_graphs(target):
    """Also where distances are lowered twice, as in other orders than the queue's."""
    n = 3 * 150
    grid = morph.generate.grid(3, n // 3, device="cpu")
    ids = np.random.default_rng(0).permutation(n)
    src, dst, *_ = grid.edge_list()
    g = morph.Graph.from_edges(ids[src], ids[dst], n=n, device=target)
    for found in everywhere(target, lambda: morph.bfs(g)):
        validate.bfs(g, found.distance, found.predecessor)


@tries(10)
@given(
    edge_lists(weights=st.integers(0, 50) | st.just(0)),
    several,
    st.sampled_from(["?", "i1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]),
)
def test_sssp(target, edges, sources, dtype):
    n, src, dst, w = edges
    w = w.astype(dtype)
    sources = within(n, sources)
    graph = lightest((n, src, dst, w.astype(float)))
    want = nx.multi_source_dijkstra_path_length(graph, sources)
    g = graph_of((n, src, dst, w), target, dtype)
    far = np.inf if dtype[0] == "f" else FAR
    for found in everywhere(target, lambda: morph.sssp(g, sources, predecessors=True)):
        distance = host(found.distance)
        assert distance.tolist() == [want.get(i, far) for i in range(n)]
        kind = {"f2": "f4", "f4": "f4", "f8": "f8"}.get(dtype, "i8")
        assert distance.dtype == kind and found.predecessor.dtype == np.int32
        follow(graph, sources, distance, host(found.predecessor).tolist(), far)
    assert morph.sssp(g, sources).predecessor is None


@tries(10)
@given(edge_lists(weights=st.integers(0, 50)), several, st.integers(0, 2), st.data())
def test_dense_graphs_held_both_ways(target, monkeypatch, edges, sources, dense, data):
    """Points that are left pull, if the weights are equal both ways; whether they are is seen."""
    monkeypatch.setattr(paths, "DENSE", dense)
    monkeypatch.setattr(paths, "BUCKETS", data.draw(st.sampled_from([1, 3, paths.BUCKETS])))
    dtype = data.draw(st.sampled_from([np.int32, np.float64]))
    g = graph_of(edges, target, dtype, directed=False)
    far = np.inf if dtype == np.float64 else FAR
    m, changed = len(g.edges), data.draw(st.none() | st.integers(0, len(g.edges)))
    if changed is not None and changed < m:
        g.edges.weight[changed] = 7
    src, dst, weight = (host(x) for x in g.edge_list())
    if m and dtype == np.int32:
        arcs = (sorted(zip(*ends, weight, strict=True)) for ends in ((src, dst), (dst, src)))
        first, second = arcs
        assert measured(g)[3] == (first == second)
    n, sources = edges[0], within(edges[0], sources)
    want = nx.multi_source_dijkstra_path_length(lightest((n, src, dst, weight)), sources)
    cutoff, targets = data.draw(st.none() | st.integers(0, 60)), data.draw(st.none() | several)
    targets = None if targets is None else within(n, targets)
    for found in everywhere(target, lambda: morph.sssp(g, sources, targets=targets, cutoff=cutoff)):
        distance = host(found.distance).tolist()
        for v in range(n):
            right = want[v] if v in want and want[v] <= (FAR if cutoff is None else cutoff) else far
            assert distance[v] == right or (targets and v not in targets and distance[v] == far)


def follow(graph, sources, distance, predecessor, far):
    """Every chain of predecessors is a path of the reported length."""
    for v in graph:
        if v in sources or distance[v] == far:
            assert predecessor[v] == -1
            continue
        length, at, steps = 0, v, 0
        while at not in sources:
            before = predecessor[at]
            length, at, steps = length + graph[before][at]["weight"], before, steps + 1
            assert steps <= len(graph)
        assert length == distance[v]


@tries(15)
@given(edge_lists(weights=st.floats(0, 2.0**100, width=32) | st.floats(0, 1, width=32)), st.data())
def test_real_weights_of_all_sizes(target, edges, data):
    """Distances are sums in the weights' own type, exactly; the checker needs no tolerance."""
    g = graph_of(edges, target, data.draw(st.sampled_from([np.float32, np.float64])))
    cutoff = data.draw(st.none() | st.floats(0, 2.0**100, width=32))
    for found in everywhere(target, lambda: morph.sssp(g, cutoff=cutoff, predecessors=True)):
        validate.sssp(g, found.distance, found.predecessor, cutoff=cutoff)
        validate.sssp(g, found.distance, cutoff=cutoff)


@tries(10)
@given(edge_lists(), st.integers(0, 60), st.lists(st.integers(0, 23), max_size=3), st.data())
def test_cutoff_and_targets(target, edges, cutoff, targets, data):
    n = edges[0]
    dtype = data.draw(st.sampled_from([np.int32, np.float64]))
    g, far = graph_of(edges, target, dtype), np.inf if dtype == np.float64 else FAR
    want = nx.single_source_dijkstra_path_length(lightest(edges), 0)
    found = host(morph.sssp(g, cutoff=cutoff + 0.5).distance)
    near = {v: d for v, d in want.items() if d <= cutoff}
    assert found.tolist() == [near.get(i, far) for i in range(n)]
    targets = within(n, targets)
    for result in everywhere(target, lambda: morph.sssp(g, targets=targets)):
        found = host(result.distance)
        assert [found[t] for t in targets] == [want.get(t, far) for t in targets]
        assert all(found[v] in (far, want.get(v, far)) for v in range(n))


def test_overflow_is_found(target):
    """A distance that does not fit is an error if there is no shorter one, and never wraps."""
    for dtype, big in ((np.int64, 2**62), (np.uint64, 2**63), (np.float32, 2e38)):
        weight = np.array([big, big, 1], dtype)
        g = morph.Graph.from_edges([0, 1, 0], [1, 2, 3], weight=weight, device=target)
        with pytest.raises(OverflowError, match="the distance of vertex [12], reached from"):
            morph.sssp(g)
        if dtype != np.uint64:
            assert host(morph.sssp(g, cutoff=big).distance).tolist()[1] == weight[0]
        ends = [0, 1, 0, 0], [1, 2, 3, 2]
        g = morph.Graph.from_edges(*ends, weight=np.append(weight, weight[2]), device=target)
        if dtype != np.uint64:
            assert host(morph.sssp(g).distance).tolist() == [0, weight[0], 1, 1]
    weight = np.array([2**31 - 2, 2**31 - 1, 1], np.int32)
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=weight, device=target)
    assert host(morph.sssp(g).distance).tolist() == [0, 2**31 - 2, 2**32 - 3, 2**32 - 2]
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[1, np.inf], device=target)
    assert host(morph.sssp(g).distance).tolist() == [0, 1, np.inf]


def test_zero_weights_make_no_circle_of_predecessors(target):
    """Points joined by edges that add nothing, behind one that does."""
    src, dst = [0, 1, 2, 3, 3, 1, 2], [1, 2, 3, 1, 2, 3, 1]
    weight = [5, 0, 0, 0, 0, 0, 0]
    g = morph.Graph.from_edges(src, dst, weight=weight, device=target)
    found = morph.sssp(g, predecessors=True)
    follow(lightest((4, *map(np.array, (src, dst, weight)))), [0], host(found.distance),
           host(found.predecessor).tolist(), FAR)  # fmt: skip
    tiny = np.array([1e30, 1.0, 1.0, 1.0], np.float32)  # too small to change a distance
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 1], weight=tiny, device=target)
    assert host(morph.sssp(g, predecessors=True).predecessor).tolist() == [-1, 0, 1, 2]


@pytest.mark.parametrize("weight", [np.array([1, FAR]), np.array([1, np.inf])])
def test_points_that_are_not_reached_have_no_predecessor(target, weight):
    """Though an edge leads there, whose length is their reported distance."""
    g = morph.Graph.from_edges([0, 0], [1, 2], weight=weight, device=target)
    found = morph.sssp(g, cutoff=9, predecessors=True)
    assert host(found.distance).tolist() == [0, *weight]
    assert host(found.predecessor).tolist() == [-1, 0, -1]


def test_points_and_edges_that_were_deleted(target):
    g = morph.Graph.from_edges([0, 1, 0, 2], [1, 3, 2, 3], weight=[1, 1, 4, 4], device=target)

    @morph.kernel
    def leave(p):
        p.delete()

    morph.foreach(g.points, leave, where=lambda p: p.id == 1)
    assert host(morph.bfs(g).distance).tolist() == [0, -1, 1, 2]
    assert host(morph.sssp(g).distance).tolist() == [0, FAR, 4, 8]
    for call in (morph.bfs, morph.sssp):
        with pytest.raises(ValueError, match="source 1 is not a vertex: it was deleted"):
            call(g, 1)
        with pytest.raises(TypeError, match="source is an id or an array of ids, not 'x'"):
            call(g, "x")


def test_weights_of_edges_that_were_deleted_do_not_count(target):
    g = morph.Graph.from_edges([0, 0, 0, 1], [1, 1, 2, 2], weight=[2**31 - 1, 5, 7, -9],
                               device=target)  # fmt: skip
    g.apply(deletes=[0, 3])
    assert host(morph.sssp(g).distance).tolist() == [0, 5, 7]
    g.apply(inserts=([2], [0], [-3]))
    with pytest.raises(ValueError, match="the edge from 2 to 0 has -3"):
        morph.sssp(g)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_large_graphs_with_many_threads(device):
    src, dst = grid(200)
    weight = (src.astype(np.int64) * dst % 97 + 1).astype(np.int32)
    g = morph.Graph.from_edges(src, dst, weight=weight, symmetric=True, device=device)
    want = np.add.outer(np.arange(200), np.arange(200)).ravel()
    assert (host(morph.bfs(g).distance) == want).all()
    matrix = coo_array((weight, (src, dst)), shape=(40000, 40000)).tocsr()
    for kind in (np.int32, np.float32):
        g = morph.Graph.from_edges(src, dst, weight=weight.astype(kind), device=device)
        assert (host(morph.sssp(g).distance) == csgraph.dijkstra(matrix, indices=0)).all()
    rng = np.random.default_rng(5)  # hubs: the levels are large, and search backwards
    src, dst = (rng.zipf(1.5, 60000) - 1) % 5000, rng.integers(0, 5000, 60000)
    g = morph.Graph.from_edges(src, dst, n=5000, symmetrize=True, device=device)
    ones = np.ones(len(src))
    matrix = coo_array((ones, (src, dst)), shape=(5000, 5000)).tocsr()
    want = csgraph.dijkstra(matrix, directed=False, indices=7, unweighted=True)
    found = morph.bfs(g, 7)
    distance, before = host(found.distance), host(found.predecessor)
    assert (np.where(distance < 0, np.inf, distance) == want).all()
    reached = np.flatnonzero(distance > 0)
    assert (distance[before[reached]] + 1 == distance[reached]).all()


def test_many_points_behind_a_long_path(target):
    """Points look themselves at levels whose number a byte could not tell from those before."""
    rng = np.random.default_rng(2)
    path = np.arange(40)
    many = np.arange(40, 140)
    src = np.concatenate([path[:-1], np.full(100, 39), rng.choice(many, 500)])
    dst = np.concatenate([path[1:], many, rng.integers(40, 400, 500)])
    g = morph.Graph.from_edges(src, dst, n=400, symmetrize=True, device=target)
    for source in (0, 20):
        found = morph.bfs(g, source)
        validate.bfs(g, found.distance, found.predecessor, source=source)
        assert found.levels == int(host(found.distance).max()) + 1


def test_distances_that_hardly_fit(target, monkeypatch):
    """Sums of 32 bits are tried where they most likely suffice; else all is computed again."""
    monkeypatch.setattr(costs, "LONGEST_PATH", 1)
    weight = np.full(5, 2**30, np.int32)
    g = morph.Graph.from_edges(np.arange(5), np.arange(1, 6), weight=weight, n=7, device=target)
    tried = mock.Mock(side_effect=paths._solved)
    monkeypatch.setattr(paths, "_solved", tried)
    want = [i << 30 for i in range(6)] + [FAR]
    for cutoff, runs in ((None, 2), (2**31, 2), (2**32, 2), (2**30, 1)):
        tried.reset_mock()
        found = morph.sssp(g, cutoff=cutoff, predecessors=True)
        most = FAR if cutoff is None else cutoff
        assert host(found.distance).tolist() == [d if d <= most else FAR for d in want]
        assert host(found.predecessor).tolist() == [
            i - 1 if 0 < i < 6 and d <= most else -1 for i, d in enumerate(want)
        ]
        assert tried.call_count == runs
    tried.reset_mock()
    assert host(morph.sssp(g, targets=[1]).distance).tolist()[:2] == want[:2]
    assert tried.call_count <= 2


@tries(6)
@given(edge_lists())
def test_fused_equals_eager(target, edges):
    """The decorator changes the speed and nothing else."""
    results = []
    g = graph_of(edges, target)
    for run in (bfs_module.search, bfs_module.search.eager):
        names = {"dist": (u32, bfs_module.INFINITY), "active": (u8, 0), "predecessor": (i32, -1)}
        with g.points.temporary_columns(**names):
            lists = [morph.Collection(g.points) for _ in range(3)]  # without room: they grow
            g.points[0].dist = 0
            lists[0].add(0)
            levels = run(bfs_module.level_map(g), *lists, morph.Flag(g), u32(99), 1)
            results.append((levels, host(g.points.dist.array).tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("parts", [1, 2])
def test_changed_weights_are_measured_again(parts):
    g = morph.generate.rmat(7, 16, weight=(1, 9), device="cpu")
    g = g if parts == 1 else morph.partition(g, ["cpu"] * parts)
    weight = g.edges.weight[:].copy()
    assert measured(g).equal and measured(g).equal
    g.edges.weight[5] = int(weight[5]) + 1
    assert not measured(g).equal
    g.edges.weight[:] = np.roll(weight, 1)  # of the same sum
    assert not measured(g).equal and not measured(g).equal
    g.edges.weight[:] = weight
    assert measured(g).equal
    k = 1 + int(np.flatnonzero(weight[1:-1] > 2)[0])
    changed = weight.copy()
    changed[k - 1 : k + 2] += [1, -2, 1]  # linear functions of the ids do not change
    g.edges.weight[:] = changed
    assert not measured(g).equal
    g.edges.weight[:] = weight
    assert measured(g).equal


def test_changed_weights_beside_a_search(monkeypatch):
    """A GPU searches with the statistics of an earlier call, and again if the weights differ."""
    g, same = (
        morph.generate.rmat(7, 16, weight=(1, 9), device=where)
        for where in (pretended(monkeypatch), "cpu")
    )
    solved, solve = [], paths._solved

    def counted(*args, **kwargs):
        solved.append(1)
        return solve(*args, **kwargs)

    monkeypatch.setattr(paths, "_solved", counted)

    def searches(weight):
        solved.clear()
        g.edges.weight[:] = weight
        found, n = morph.sssp(g, 0).distance.get(), len(solved)
        same.edges.weight[:] = weight
        assert found.tolist() == morph.sssp(same, 0).distance.tolist()
        return n

    weight = g.edges.weight.array.get()
    assert searches(weight) == searches(weight) == 1
    assert searches(np.roll(weight, 1)) == 2  # not symmetric
    assert searches(np.roll(weight, 1)) == 1
    assert searches(weight * 2**27) == 2  # distances of 32 bits overflow
    wrong = weight.copy()
    wrong[5] = -1
    g.edges.weight[:] = wrong
    with pytest.raises(ValueError, match="negative"):
        morph.sssp(g, 0)
    assert searches(weight) == 1
