"""Algorithms on partitioned graphs, against one device, SciPy, NetworkX and the checkers."""

import gc
import warnings
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from ranks import output_of_ranks
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree

import morph
from morph.algorithms.graph import bfs, sssp, triangles, workspace
from morph.algorithms.registry import ROWS
from morph.data.store import Store
from morph.operators.edge_map import pull_first
from morph.partition.persistent import PersistentProgram
from morph.partition.tables import EarlyResults
from morph.prelude import i32

DEVICES = [["cpu"], ["cpu"] * 2, ["cpu", "python", "cpu"], ["cpu"] * 4]
FAR = np.iinfo(np.int64).max


@st.composite
def divided(draw):
    n = draw(st.integers(1, 14))
    ends = st.lists(st.integers(0, n - 1), max_size=36)
    src = draw(ends)
    dst = draw(st.lists(st.integers(0, n - 1), min_size=len(src), max_size=len(src)))
    weight = draw(st.lists(st.integers(1, 9), min_size=len(src), max_size=len(src)))
    directed = draw(st.booleans())
    both = {} if directed else {"symmetrize": True}
    ends = np.array(src, np.int64), np.array(dst, np.int64)
    g = morph.Graph.from_edges(*ends, np.array(weight, np.int32), n, device="cpu", **both)
    devices = draw(st.sampled_from(DEVICES))
    owners = st.lists(st.integers(0, len(devices) - 1), min_size=n, max_size=n)
    parts = morph.partition(g, devices, draw(st.sampled_from(["range", "degree"]) | owners))
    if draw(st.booleans()):
        pairs = st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=6)
        inserts, deletes = (np.array(draw(pairs), int).reshape(-1, 2).T for _ in range(2))
        parts.apply((*inserts, np.full(inserts.shape[1], 3)), tuple(deletes))
        g = parts.to("cpu")
    return g, parts


def arcs(g):
    return g.edges.src[:], g.edges.dst[:], g.edges.weight[:]


def matrix(g, directed=True):
    """The least weight of each pair of points, which SciPy would add up."""
    found = {}
    for u, v, w in zip(*map(np.ndarray.tolist, arcs(g)), strict=True):
        ends = (u, v) if directed else (min(u, v), max(u, v))
        found[ends] = min(w, found.get(ends, w))
    at = np.array([*found] or np.zeros((0, 2), int)).T
    return coo_array(([*found.values()], tuple(at)), shape=(len(g.points),) * 2).tocsr()


@given(graphs=divided(), data=st.data())
def test_bfs(graphs, data):
    g, parts = graphs
    sources = data.draw(st.lists(st.integers(0, len(g.points) - 1), min_size=1, max_size=3))
    cutoff = data.draw(st.none() | st.integers(0, 3))
    found = morph.bfs(parts, sources, cutoff=cutoff)
    wanted = dijkstra(matrix(g), indices=sources, unweighted=True, min_only=True)
    wanted[wanted > (np.inf if cutoff is None else cutoff)] = np.inf
    assert np.array_equal(found.distance, np.where(wanted < np.inf, wanted, -1))
    morph.validate.bfs(g, found.distance, found.predecessor, source=sources, cutoff=cutoff)
    assert found.levels == morph.bfs(g, sources, cutoff=cutoff).levels
    assert found.distance.dtype == found.predecessor.dtype == np.int32


def test_bfs_pulls(tmp_path):
    g = morph.generate.rmat(9, device="cpu")  # levels have over a 256th of the points
    wanted = morph.bfs(g)
    parts = morph.partition(g, ["cpu"] * 3, "degree")
    found = morph.bfs(parts)
    text = bfs.search_by_levels.source()
    assert "pull_first" in text and "send_equal(a, t, a.graph_points_active" in text
    assert "spread_column<1>(a, t, a.graph_points_dist" not in text  # offers bound what is needed
    assert np.array_equal(found.distance, wanted.distance) and found.levels == wanted.levels
    morph.validate.bfs(g, found.distance, found.predecessor)
    pull_first.launches.clear()
    with parts.checkpoint(tmp_path / "run.npz"):  # by steps
        found = morph.bfs(parts)
        assert len(pull_first.launches) == 1
    assert np.array_equal(found.distance, wanted.distance)
    morph.validate.bfs(g, found.distance, found.predecessor)
    del parts
    gc.collect()
    assert not pull_first.launches  # which its filter would keep alive


def early(graph):
    """The results of algorithms whose columns are copied behind their programs."""
    ranks = morph.pagerank(graph, iterations=5)
    far, near = morph.sssp(graph, 3), morph.sssp(graph, 3, targets=[5])
    return morph.bfs(graph, 3).distance, far.distance, near.distance, ranks.rank, ranks.iterations


def test_results_that_gpus_copy_behind_a_program(monkeypatch):
    g = morph.generate.rmat(8, device="cpu")
    g.edges.add("weight", i32)
    g.edges.weight = (g.edges.src[:] + g.edges.dst[:]) * 7919 % 100 + 1
    parts = morph.partition(g, ["cpu"] * 2)
    wanted, copied, run = early(parts), [], PersistentProgram._execute

    def execute(self, behind):
        found = run(self, None)
        if behind is not None:  # as a GPU does, before the host knows of the end
            behind()
            copied.append(behind)
        return found

    monkeypatch.setattr(PersistentProgram, "_execute", execute)
    for columns in (EarlyResults._copy, lambda self: self._table.no_column):  # all made, none made
        monkeypatch.setattr(EarlyResults, "_copy", columns)
        copied.clear()
        found = early(parts)
        assert len(copied) == 4 and parts.behind is None
        assert all(np.allclose(a, b) for a, b in zip(found, wanted, strict=True))


def test_sssp_of_a_dense_graph_sends_distances_only_before_it_pulls():
    g = morph.generate.rmat(8, device="cpu")
    ends = g.edges.src[:], g.edges.dst[:]
    g.edges.add("weight", i32)
    g.edges.weight = (ends[0] + ends[1]) * 7919 % 100
    parts = morph.partition(g, ["cpu"] * 2)
    found = morph.sssp(parts)
    texts = sssp.dense_phase.source(), sssp.search.source()
    assert all("one launch of each part" in text for text in texts)
    assert [text.count("spread_column<1") for text in texts] == [1, 0]
    assert "first: rows of graph.points.dist are sent to mirrors, all" in texts[0]
    assert np.array_equal(found.distance, morph.sssp(g).distance)


def test_parts_of_2_to_the_31_edges_or_more_run_programs_together():
    g = morph.generate.rmat(8, weight=(1, 9), device="cpu")
    wide = property(lambda s: s.name == "edges" and s.capacity > 0)
    with mock.patch.object(Store, "_wide", wide):
        parts = morph.partition(g, ["cpu"] * 3)
        levels, paths = morph.bfs(parts).distance, morph.sssp(parts).distance
        ranks = morph.pagerank(parts)[0]
        programs = (bfs.search_by_levels, sssp.dense_phase, sssp.search)
    for f in programs:
        made = [x for x in f.launches.values() if isinstance(x, PersistentProgram)]
        assert any(s.wide for x in made for s in x.launches[0].compiled.outline.stores)
    assert np.array_equal(levels, morph.bfs(g).distance)
    assert np.array_equal(paths, morph.sssp(g).distance)
    assert np.allclose(ranks, morph.pagerank(g)[0], rtol=1e-12, atol=0)


@given(graphs=divided(), data=st.data())
def test_sssp(graphs, data):
    g, parts = graphs
    points = st.integers(0, len(g.points) - 1)
    sources = data.draw(st.lists(points, min_size=1, max_size=3))
    cutoff = data.draw(st.none() | st.integers(0, 20))
    found = morph.sssp(parts, sources, cutoff=cutoff, predecessors=True)
    wanted = dijkstra(matrix(g), indices=sources, min_only=True)
    if cutoff is None:
        target = data.draw(points)
        early = morph.sssp(parts, sources, targets=target).distance
        assert early[target] == min(wanted[target], FAR) or wanted[target] == np.inf
        assert ((early == FAR) | (early == found.distance)).all()
    else:
        wanted[wanted > cutoff] = np.inf
    assert found.distance.dtype == np.int64
    reached = wanted < np.inf
    assert np.array_equal(found.distance[reached], wanted[reached])
    assert (found.distance[~reached] == FAR).all()
    morph.validate.sssp(g, found.distance, found.predecessor, source=sources, cutoff=cutoff)


@given(graphs=divided())
def test_mst(graphs):
    g, parts = graphs
    found, wanted = morph.mst(parts), morph.mst(g)
    ids = parts.edges.ids()  # a graph that is made of the parts has no gaps in the ids of edges
    assert np.array_equal(found.edges, ids[wanted.edges]) and found[1:] == wanted[1:]
    assert found.weight == minimum_spanning_tree(matrix(g, directed=False)).sum()
    morph.validate.mst(g, np.searchsorted(ids, found.edges))


@given(graphs=divided())
def test_triangle_count(graphs):
    g, parts = graphs
    peer = nx.Graph(zip(*arcs(g)[:2], strict=True))
    peer.remove_edges_from([*nx.selfloop_edges(peer)])
    peer.add_nodes_from(range(len(g.points)))
    wanted = nx.triangles(peer)
    found = morph.triangle_count(parts)
    assert found.triangles.tolist() == [wanted[i] for i in range(len(g.points))]
    assert found.total == sum(wanted.values()) // 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triangles, "MERGED_DEGREE", -1)  # rows are looked up in bitmaps
        patch.setattr(triangles, "MIN_ARCS", 1)
        assert np.array_equal(morph.triangle_count(parts).triangles, found.triangles)


@given(graphs=divided(), data=st.data())
def test_betweenness(graphs, data):
    g, parts = graphs
    options = {"normalized": data.draw(st.booleans()), "endpoints": data.draw(st.booleans())}
    sources = data.draw(st.none() | st.integers(1, len(g.points)))
    found = morph.betweenness(parts, sources, **options)
    wanted = morph.betweenness(g, sources, **options)
    assert np.array_equal(found.sources, wanted.sources)
    np.testing.assert_allclose(found.centrality, wanted.centrality, rtol=1e-12, atol=1e-14)
    if sources is None and not np.unique(np.stack(arcs(g)[:2]), axis=1).shape[1] < len(g.edges):
        peer = nx.DiGraph if g.directed else nx.Graph
        peer = peer(zip(*map(np.ndarray.tolist, arcs(g)[:2]), strict=True))
        peer.add_nodes_from(range(len(g.points)))
        exact = nx.betweenness_centrality(peer, **options)
        exact = [exact[i] for i in range(len(g.points))]
        np.testing.assert_allclose(found.centrality, exact, rtol=1e-12, atol=1e-14)


def chain():
    """A graph with 1000**104 shortest paths from the first point to the last."""
    ends = np.arange(104).repeat(1000)
    return morph.Graph.from_edges(ends, ends + 1, device="cpu")


def test_more_shortest_paths_than_float64_counts():
    g = chain()
    found = morph.betweenness(morph.partition(g, ["cpu"] * 2), [0]).centrality
    np.testing.assert_allclose(found, morph.betweenness(g, [0]).centrality, rtol=1e-12)


def test_deep_graphs():
    g = morph.generate.grid(3, 70, device="cpu")
    parts = morph.partition(g, ["cpu"] * 3)
    found = morph.bfs(parts)
    assert found.levels == morph.bfs(g).levels and found.distance.max() == 71
    morph.validate.bfs(g, found.distance, found.predecessor)
    assert np.array_equal(morph.sssp(parts, 4).distance, morph.sssp(g, 4).distance)


def test_a_warning_where_one_device_is_faster(monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STEPS", 20)
    g = morph.generate.grid(3, 30, device="cpu")
    parts = morph.partition(g, ["cpu", "python"])
    with pytest.warns(
        morph.PerformanceWarning, match=r"6\d steps for 294 edges: one device is"
    ) as found:
        morph.bfs(parts)
    assert found[0].filename == __file__
    together = morph.partition(g, ["cpu"] * 2)
    before = together._steps
    morph.bfs(together)  # in one launch, of one kind of device: no warning
    assert together._steps > before + 20
    for graph in (g, together, parts):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            morph.bfs(graph, cutoff=10), morph.connected_components(graph)
            if graph is not parts:
                morph.bfs(graph)


@pytest.mark.parametrize("kind", ["u4", "f8", "u8"])
def test_sssp_by_types_of_weights(kind):
    g = weighted(kind)
    parts = morph.partition(g, ["cpu"] * 2)
    wanted, found = morph.sssp(g, predecessors=True), morph.sssp(parts, predecessors=True)
    assert found.distance.dtype == wanted.distance.dtype
    assert np.array_equal(found.distance, wanted.distance)
    assert np.array_equal(found.predecessor, wanted.predecessor)
    wanted, found = morph.mst(g), morph.mst(parts)
    assert np.array_equal(found.edges, wanted.edges) and found[1:] == wanted[1:]


@pytest.mark.parametrize("directed", [False, True])
def test_weighted_pagerank(directed):
    g = weighted(directed=directed)
    for devices in (["cpu"] * 2, ["python", "cpu", "cpu"]):
        found = morph.pagerank(morph.partition(g, devices), weighted=True).rank
        np.testing.assert_allclose(found, morph.pagerank(g, weighted=True).rank, rtol=1e-12)
        g.edges.weight[:] = np.arange(len(g.edges)) % 7  # others in the other direction


def weighted(kind="i4", directed=True):
    rng = np.random.default_rng(5)
    ends, weight = rng.integers(0, 60, (2, 500)), rng.integers(1, 90, 500).astype(kind)
    return morph.Graph.from_edges(
        *ends, weight=weight, n=60, device="cpu", **({} if directed else {"symmetrize": True})
    )


def test_refused_weights_and_overflow():
    g = weighted("i8")
    parts = morph.partition(g, ["cpu"] * 2)
    far = int(g.edges.dst[3])
    for graph in (g, parts):
        graph.edges.weight[:] = 2**62
        with pytest.raises(OverflowError, match=r"the distance of vertex \d+, reached from"):
            morph.sssp(graph, 5)
        graph.edges.weight[3] = -1
        with pytest.raises(ValueError, match=f"not negative and not NaN.* to {far} has -1"):
            morph.sssp(graph)
    assert set(parts.points.columns) == {"global_id"}


def check_all(devices, directed, comm=None):
    """Check that all algorithms give what they give on one device."""
    g = weighted(directed=directed)
    parts = morph.partition(g, devices, "degree", comm=comm)
    for row in [row for row in ROWS if row.in_parts]:
        given = row.arguments_of({}) | row.complete
        given |= {"betweenness": {"sources": 5}, "pagerank": {"weighted": not directed}}.get(
            row.name, {}
        )
        wanted = row.function(g, **given)
        for found in [row.function(parts, **given) for _ in range(2)]:  # the second reuses objects
            found = found._make(map(parts.devices[0].to_host, found))
            for name, a, b in zip(found._fields, found, wanted, strict=True):
                if (row.name, name) == ("bfs", "predecessor"):
                    morph.validate.bfs(g, found.distance, a)
                elif np.asarray(b).dtype.kind == "f":
                    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
                else:
                    assert np.array_equal(a, b), (row.name, name)


def test_all_algorithms_on_parts_of_a_device_and_the_host(monkeypatch):
    there = pretended(monkeypatch)
    check_all([there, there], directed=True)
    check_all([there, "python"], directed=False)


@pytest.mark.gpu
@pytest.mark.parametrize("names", ["cuda", "cuda cuda", "cuda cpu cuda", "cuda:0 cuda:1"])
def test_all_algorithms_on_gpus(names):
    try:
        devices = [morph.device(name) for name in names.split()]
    except morph.runtime.device.DeviceError as error:
        pytest.skip(str(error))
    check_all(devices, directed=True)
    check_all(devices, directed=False)


@pytest.mark.mpi
def test_all_algorithms_on_ranks():
    code = """
from test_parts_algorithms import check_all
check_all(None, True, comm)
check_all(None, False, comm)
print("equal")
"""
    assert output_of_ranks(2, code) == ["equal"] * 2
