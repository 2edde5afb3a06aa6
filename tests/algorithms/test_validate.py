"""The checkers of graph algorithms accept correct results, and refuse wrong ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, lightest
from hypothesis import assume, given
from hypothesis import strategies as st
from targets import host, tries

import morph
from morph import validate
from morph.validate import WrongAnswer

FAR = np.iinfo(np.int64).max
WEIGHTS = st.integers(0, 3)
small = edge_lists(most=10, weights=WEIGHTS)


def wrong(check, *args, **how):
    """Whether a checker refuses."""
    try:
        check(*args, **how)
    except WrongAnswer as error:
        assert any(word in str(error) for word in ("vert", "edge", "sum", "source"))
        return True
    return False


def changed(data, values, others):
    """The values with one of them another."""
    at = data.draw(st.integers(0, len(values) - 1))
    bad = values.copy()
    bad[at] = data.draw(others)
    assume(bad[at] != values[at])
    return bad


@tries(60)
@given(small, st.booleans(), st.data())
def test_distances_in_edges(edges, directed, data):
    g = graph_of(edges, "cpu", directed=directed)
    source = data.draw(st.lists(st.integers(0, edges[0] - 1), min_size=1, max_size=2))
    cutoff = data.draw(st.none() | st.integers(0, 3))
    how = {"source": source, "cutoff": cutoff}
    found = morph.bfs(g, source, cutoff=cutoff)
    distance, before = host(found.distance), host(found.predecessor)
    validate.bfs(g, distance, **how)
    validate.bfs(g, distance, before, **how)
    bad = changed(data, distance, st.integers(-2, 11))
    assert wrong(validate.bfs, g, bad, **how) and wrong(validate.bfs, g, bad, before, **how)
    bad = changed(data, before, st.integers(-2, edges[0]))
    v = int(np.flatnonzero(bad != before)[0])
    graph = lightest(edges, not directed)
    right = distance[v] > 0 and graph.has_edge(bad[v], v) and distance[bad[v]] + 1 == distance[v]
    assert wrong(validate.bfs, g, distance, bad, **how) == (not right)


@tries(60)
@given(small, st.data())
def test_lengths_of_paths(edges, data):
    n, (source,) = edges[0], data.draw(st.tuples(st.integers(0, edges[0] - 1)))
    dtype = data.draw(st.sampled_from([np.int32, np.uint64, np.float32, np.float64]))
    cutoff = data.draw(st.none() | st.integers(0, 6))
    g, how = graph_of(edges, "cpu", dtype), {"source": source, "cutoff": cutoff}
    found = morph.sssp(g, source, cutoff=cutoff, predecessors=True)
    distance, before = host(found.distance), host(found.predecessor)
    validate.sssp(g, distance, **how)
    validate.sssp(g, distance, before, **how)
    far = FAR if distance.dtype.kind == "i" else np.inf
    bad = changed(data, distance, st.integers(-1, 20) | st.just(far))
    assert wrong(validate.sssp, g, bad, **how) and wrong(validate.sssp, g, bad, before, **how)
    bad = changed(data, before, st.integers(-2, n))
    assert wrong(validate.sssp, g, distance, bad, **how) == (
        not is_tree(lightest(edges), source, distance, bad.tolist(), far)
    )


def is_tree(graph, source, distance, before, far):
    """Whether every chain of predecessors is a path of the reported length."""
    for v in graph:
        if v == source or distance[v] == far:
            if before[v] != -1:
                return False
            continue
        length, at, steps = 0, v, 0
        while at != source:
            up = before[at]
            if not graph.has_edge(up, at) or steps > len(graph):
                return False
            if distance[up] + graph[up][at]["weight"] != distance[at]:
                return False
            length, at, steps = length + graph[up][at]["weight"], up, steps + 1
        if length != distance[v]:
            return False
    return True


def test_circles_of_zero_weight_prove_nothing():
    """Points 1 and 2 lead to each other for nothing, and nothing leads to them."""
    g = morph.Graph.from_edges([1, 2], [2, 1], weight=[0, 0], n=3)
    assert wrong(validate.sssp, g, np.array([0, 5, 5]))
    assert wrong(validate.sssp, g, np.array([0, 5, 5]), np.array([-1, 2, 1]))
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 1], weight=[9, 0, 0])
    with pytest.raises(WrongAnswer, match="vertex 1 is at 5, but no path of that length"):
        validate.sssp(g, np.array([0, 5, 5]))
    with pytest.raises(WrongAnswer, match="predecessors of vertex 1 lead round in a circle"):
        validate.sssp(g, np.array([0, 5, 5]), np.array([-1, 2, 1]))
    validate.sssp(g, np.array([0, 9, 9]), np.array([-1, 0, 1]))


def test_long_distances_do_not_wrap_around():
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[2**62, 2**62 - 2])
    validate.sssp(g, morph.sssp(g).distance)
    assert wrong(validate.sssp, g, np.array([0, 2**62, FAR]))
    distance = np.array([0, 0.1, 0.1 + 0.2])
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[0.1, 0.2])
    validate.sssp(g, distance)
    assert wrong(validate.sssp, g, np.array([0, 0.1, 0.3]))
    validate.sssp(g, np.array([0, 0.1, 0.3]), tolerance=1e-12)


@tries(60)
@given(small, st.booleans(), st.data())
def test_labels_cores_and_triangles(edges, directed, data):
    g, n = graph_of(edges, "cpu", directed=directed), edges[0]
    for check, values in (
        (validate.connected_components, morph.connected_components(g).label),
        (validate.core_number, morph.core_number(g).core),
        (validate.triangle_count, morph.triangle_count(g).triangles),
    ):
        check(g, values)
        assert wrong(check, g, changed(data, host(values), st.integers(-1, n + 1)))
        assert wrong(check, g, host(values)[1:]) and wrong(check, g, host(values) + 0.5)


@tries(60)
@given(small, st.data())
def test_systematic_errors(edges, data):
    """All points in one component, all in their own, all cores or counts one off."""
    g, n = graph_of(edges, "cpu"), edges[0]
    found = morph.connected_components(g)
    assert wrong(validate.connected_components, g, np.zeros(n, int)) == (found.components > 1)
    assert wrong(validate.connected_components, g, np.arange(n)) == (found.components < n)
    core = host(morph.core_number(g).core)
    for bad in (core + 1, core - 1, np.minimum(core, 1), np.full(n, core.max())):
        assert wrong(validate.core_number, g, bad) == (bad != core).any()
    found = morph.triangle_count(g)
    assert wrong(validate.triangle_count, g, found.triangles, found.total + 1)


@tries(80)
@given(small, st.booleans(), st.data())
def test_forests(edges, directed, data):
    g = graph_of(edges, "cpu", directed=directed)
    found, m = host(morph.mst(g).edges), len(g.edges)
    validate.mst(g, found)
    assume(m)
    bad = data.draw(st.lists(st.integers(0, m - 1), max_size=m, unique=True))
    if data.draw(st.booleans()):  # one edge of the forest exchanged
        bad = found.tolist()
        if bad:
            bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, m - 1))
    src, dst, weight = (host(x).tolist() for x in g.edge_list())
    forest = nx.MultiGraph([(src[k], dst[k]) for k in bad])
    graph = lightest(edges, undirected=True)
    right = (
        len(bad) == len(found)
        and (not bad or nx.is_forest(forest))
        and sum(weight[k] for k in bad) == nx.minimum_spanning_tree(graph).size("weight")
    )
    assert wrong(validate.mst, g, np.array(bad, int)) == (not right)
    assert wrong(validate.mst, g, [m]) and wrong(validate.mst, g, [-1])


@tries(40)
@given(small, st.booleans(), st.booleans(), st.data())
def test_ranks(edges, directed, weighted, data):
    g, n = graph_of(edges, "cpu", directed=directed), edges[0]
    vector = st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any)
    how = {
        "weighted": weighted,
        "personalization": data.draw(vector),
        "dangling": data.draw(vector),
    }
    rank = host(morph.pagerank(g, tolerance=1e-10, **how).rank)
    validate.pagerank(g, rank, **how)
    at = data.draw(st.integers(0, n - 1))
    bad, less = rank.copy(), data.draw(st.sampled_from([1e-6, 0.1, -1e-6, 2.0, np.nan]))
    bad[at] -= less
    assert wrong(validate.pagerank, g, bad, **how)
    assume(n > 1 and less == less)
    bad[at - 1] += less
    assert wrong(validate.pagerank, g, bad, **how)


@tries(40)
@given(small, *(st.booleans(),) * 3, st.data())
def test_paths_through_points(edges, directed, normalized, endpoints, data):
    g, n = graph_of(edges, "cpu", directed=directed), edges[0]
    how = {"normalized": normalized, "endpoints": endpoints}
    k = data.draw(st.none() | st.integers(1, n))
    found = morph.betweenness(g, k, **how)
    values, sources = host(found.centrality), None if k is None else found.sources
    validate.betweenness(g, values, sources, **how)
    at = data.draw(st.integers(0, n - 1))
    assume(values[at] == values[at])
    bad = values.copy()
    bad[at] += data.draw(st.sampled_from([1e-3, 1, -1e-3, np.nan]))
    assert wrong(validate.betweenness, g, bad, sources, **how)
    bad = values[::-1].copy()
    same = np.allclose(bad, values, equal_nan=True)
    assert wrong(validate.betweenness, g, bad, sources, **how) == (not same)


def test_messages_name_what_is_wrong():
    g = morph.Graph.from_edges([0, 1, 2, 0], [1, 2, 3, 3], weight=[1, 1, 1, 9], symmetrize=True)
    for check, answer, message in (
        (validate.bfs, [0, 1, 2, 2], "edge 1, from 0 to 3, is a shorter way: 3 is at 2, 0 at 0"),
        (validate.bfs, [0, 1, -1, 1], "edge 2, from 1 to 2, leads on, but 2 is unreachable"),
        (validate.bfs, [1, 1, 2, 1], "source 0 is not at distance 0"),
        (validate.sssp, [0, 1, 2, 2], "vertex 3 is at 2, but no path of that length leads to it"),
        (validate.connected_components, [0, 0, 0, 3], "edge 1, from 0 to 3, joins the labels 0"),
        (validate.core_number, [2, 2, 2, 3], "vertex 3 has the core number 3, but only 0 edges"),
        (validate.core_number, [1, 1, 1, 1], "vertex 0 has the core number 1, but lies in a part"),
        (validate.triangle_count, [1, 1, 1, 0], "vertex 0 has 1 triangles, but 0 were counted"),
        (validate.triangle_count, [1, 0, 0, 0], "triangles have the sum 1, which is not a multi"),
        (validate.mst, [0, 2, 4, 6], "closes a circle of edges of the forest"),
        (validate.mst, [0, 4], "joins two parts that the forest does not"),
        (validate.mst, [0, 0], "edge 0, from 0 to 1, is in the forest twice"),
        (validate.mst, [0, 1, 2], "of weight 1, is lighter than the forest's edge 1, from 0 to 3"),
    ):
        with pytest.raises(WrongAnswer, match=message):
            check(g, np.array(answer))
    found = morph.betweenness(g).centrality
    with pytest.raises(WrongAnswer, match="vertex 2 is wrong"):
        validate.betweenness(g, found + [0, 0, 0.1, 0])
    with pytest.raises(WrongAnswer, match="several vertices are wrong"):
        validate.betweenness(g, found + [0, 0.1, 0.1, 0.3])


def test_answers_on_graphs_with_deleted_points(target):
    g = morph.Graph.from_edges([0, 1, 0, 2], [1, 3, 2, 3], weight=[1, 1, 4, 4], device=target)

    @morph.kernel
    def leave(p):
        p.delete()

    morph.foreach(g.points, leave, where=lambda p: p.id == 1)
    found = morph.sssp(g, predecessors=True)
    validate.sssp(g, found.distance, found.predecessor)
    found = morph.bfs(g)
    validate.bfs(g, found.distance, found.predecessor)
    validate.connected_components(g, morph.connected_components(g).label)
    validate.core_number(g, morph.core_number(g).core)
    validate.triangle_count(g, morph.triangle_count(g).triangles)
    validate.mst(g, morph.mst(g).edges)
    validate.pagerank(g, morph.pagerank(g).rank)
    validate.betweenness(g, morph.betweenness(g).centrality)
    with pytest.raises(WrongAnswer, match="edge 0 is not an edge of the graph: it was deleted"):
        validate.mst(g, [0])
    with pytest.raises(ValueError, match="source 1 is not a vertex"):
        validate.bfs(g, morph.bfs(g).distance, source=1)
