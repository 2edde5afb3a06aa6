"""Components, cores and triangles, against NetworkX, on every target."""

from __future__ import annotations

from unittest import mock

import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, simple
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import validate
from morph.algorithms.graph import components, triangles
from morph.algorithms.graph.workspace import Workspace
from morph.testing import team


@tries(10)
@given(edge_lists(), st.booleans())
def test_components(target, edges, directed):
    n = edges[0]
    want = np.empty(n, np.int64)
    parts = list(nx.connected_components(simple(edges)))
    for part in parts:
        want[list(part)] = min(part)
    for found in everywhere(
        target, lambda: morph.connected_components(graph_of(edges, target, directed=directed))
    ):
        assert host(found.label).tolist() == want.tolist()
        assert found.components == len(parts) and found.label.dtype == np.int32


def check_strong(target, n, ends):
    graph = nx.DiGraph(list(zip(*ends, strict=True)))
    graph.add_nodes_from(range(n))
    want = np.empty(n, np.int64)
    parts = list(nx.strongly_connected_components(graph))
    for part in parts:
        want[list(part)] = min(part)
    g = morph.Graph.from_edges(*ends, n=n, device=target)
    for found in everywhere(target, lambda: morph.strongly_connected_components(g)):
        assert host(found.label).tolist() == want.tolist()
        assert found.components == len(parts) and found.label.dtype == np.int32
        morph.validate.strongly_connected_components(g, found.label)


@tries(20)
@given(edge_lists())
def test_strong_components(target, edges):
    n, src, dst, _ = edges
    check_strong(target, n, (src, dst))


def test_strong_components_beside_loops(target):
    """Found on an H100, where an unmerged build gave each point a component of its own."""
    check_strong(target, 3, ([0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 2, 1]))


@tries(15)
@given(st.data())
def test_strong_components_of_chained_cycles(target, data):
    """Of components that follow one another; rounds of colouring and trimming alternate."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    ends = np.cumsum(sizes)
    n = int(ends[-1])
    order = np.array(data.draw(st.permutations(range(n))))
    first = ends - sizes
    pieces = [np.arange(begin, end) for begin, end in zip(first, ends, strict=True)]
    cycles = [pair for ids in pieces for pair in zip(ids, np.roll(ids, -1), strict=True)]
    links = [(begin - 1, begin) for begin in first[1:]]
    jumps = data.draw(st.lists(st.tuples(*[st.integers(0, len(sizes) - 1)] * 2), max_size=6))
    links += [(first[min(a, b)], ends[max(a, b)] - 1) for a, b in jumps]
    check_strong(target, n, order[np.array(cycles + links).T])


def test_strong_components_along_a_multiplicative_hash():
    """A chain of 20,000 cycles, whose ids ascend by Fibonacci hash: a round finds many of them."""
    n = 40_000
    order = np.argsort((np.arange(1, n + 1, dtype=np.uint64) * 0x9E3779B1) % 2**32)
    first, second = order.reshape(-1, 2).T
    src = np.concatenate([first, second, second[:-1]])
    g = morph.Graph.from_edges(src, np.concatenate([second, first, first[1:]]), device="cpu")
    found = morph.strongly_connected_components(g)  # minutes, if a round finds one
    assert found.components == n // 2
    assert (host(found.label)[order] == np.minimum(first, second).repeat(2)).all()


def test_strong_components_that_are_wrong_are_refused():
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 0, 3, 2], n=5, device="cpu")
    check = morph.validate.strongly_connected_components
    check(g, [0, 0, 2, 2, 4])
    with pytest.raises(morph.validate.WrongAnswer, match="vertex 4 has the label 2, but no path"):
        check(g, [0, 0, 2, 2, 2])
    with pytest.raises(morph.validate.WrongAnswer, match="edge 0, from 0 to 1, is on a cycle"):
        check(g, [0, 1, 2, 2, 4])
    with pytest.raises(morph.validate.WrongAnswer, match="label 1 is of other vertices"):
        check(g, [0, 0, 1, 1, 4])
    with pytest.raises(morph.validate.WrongAnswer, match="label 2, which is no vertex up to 0"):
        check(g, [2, 0, 2, 2, 4])
    path = morph.Graph.from_edges([0, 1], [1, 2], n=3, device="cpu")
    with pytest.raises(
        morph.validate.WrongAnswer, match="vertex 1 has the label 0, but no path to it"
    ):
        check(path, [0, 0, 0])


def cores(edges, directed):
    """Core numbers by the definition, parallel edges counting each."""
    n, src, dst, _ = edges
    apart = src != dst
    ends = list(zip(src[apart].tolist(), dst[apart].tolist(), strict=True))
    left, core, k = set(range(n)), [0] * n, 0
    while left:
        degree = dict.fromkeys(left, 0)
        for a, b in ends:
            if a in left and b in left:
                degree[a] += 1
                degree[b] += 1
        fall = {p for p in left if degree[p] <= k}
        for p in fall:
            core[p] = k
        left -= fall
        k += not fall
    return core


@tries(10)
@given(edge_lists(most=14), st.booleans())
def test_core_numbers(target, edges, directed):
    want = cores(edges, directed)
    for found in everywhere(
        target, lambda: morph.core_number(graph_of(edges, target, directed=directed))
    ):
        assert host(found.core).tolist() == want
        assert found.largest == max(want) and found.core.dtype == np.int32
    g = graph_of(edges, target, directed=directed)
    for k in {0, 1, max(want), max(want) + 1, 10**12}:
        assert host(morph.k_core(g, k).points).tolist() == [i for i, c in enumerate(want) if c >= k]


@tries(10)
@given(edge_lists(most=14))
def test_core_numbers_are_those_of_networkx(target, edges):
    graph = simple(edges)
    found = morph.core_number(morph.Graph.from_networkx(graph, device=target))
    want = nx.core_number(graph)
    assert host(found.core).tolist() == [want[i] for i in range(edges[0])]


@tries(10)
@given(edge_lists(most=14), st.booleans(), st.sampled_from([triangles.MERGED_DEGREE, -1]))
def test_triangles(target, edges, directed, short):
    want = nx.triangles(simple(edges))

    def run():
        # rows are merged, or looked up in bitmaps, in parts of two arcs by two
        with mock.patch.multiple(
            triangles, MERGED_DEGREE=short, MIN_ARCS=1, ITEM_ARCS=2, ITEM_ROW=2
        ):
            return morph.triangle_count(graph_of(edges, target, directed=directed))

    for found in everywhere(target, run):
        assert host(found.triangles).tolist() == [want[i] for i in range(edges[0])]
        assert found.total == sum(want.values()) // 3 and found.triangles.dtype == np.int64


def test_empty_graphs(target):
    g = morph.Graph.from_edges([], [], n=0, device=target)
    assert host(morph.connected_components(g).label).size == 0
    assert morph.connected_components(g).components == 0
    assert morph.core_number(g).largest == 0 and host(morph.core_number(g).core).size == 0
    assert host(morph.k_core(g, 0).points).size == 0
    assert morph.triangle_count(g).total == 0
    g = morph.Graph.from_edges([], [], n=2, device=target)
    assert host(morph.connected_components(g).label).tolist() == [0, 1]
    assert host(morph.core_number(g).core).tolist() == [0, 0]


def test_deleted_points_are_in_nothing(target):
    ends = [0, 1, 2, 2, 3, 4], [1, 2, 0, 3, 4, 2]
    g = morph.Graph.from_edges(*ends, symmetrize=True, device=target)

    @morph.kernel
    def leave(p):
        p.delete()

    morph.foreach(g.points, leave, where=lambda p: p.id == 2)
    assert host(morph.connected_components(g).label).tolist() == [0, 0, -1, 3, 3]
    assert morph.connected_components(g).components == 2
    assert host(morph.core_number(g).core).tolist() == [1, 1, -1, 1, 1]
    assert host(morph.k_core(g, 1).points).tolist() == [0, 1, 3, 4]
    assert morph.triangle_count(g).total == 0


def test_bad_arguments():
    g = morph.Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="k is 0 or more, not -1"):
        morph.k_core(g, -1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_large_graphs_with_many_threads(device):
    rng = np.random.default_rng(5)
    edges = 5000, (rng.zipf(1.5, 60000) - 1) % 5000, rng.integers(0, 5000, 60000), np.ones(60000)
    graph = simple(edges)
    g = morph.Graph.from_networkx(graph, device=device)
    want, cored = nx.triangles(graph), nx.core_number(graph)
    for short in (0, 10**6):
        with mock.patch.object(triangles, "MERGED_DEGREE", short):
            found = morph.triangle_count(g)
        assert host(found.triangles).tolist() == [want[i] for i in range(5000)]
    assert host(morph.core_number(g).core).tolist() == [cored[i] for i in range(5000)]
    assert morph.connected_components(g).components == nx.number_connected_components(graph)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_components_of_samples_of_both_sizes(device, threads):
    """Small graphs have fewer counters of roots than there are components, and a smaller sample."""
    for n in (40, components.SMALL, components.SMALL + 1):
        for edges in (0, n // 3, 2 * n):
            ends = np.random.default_rng(edges).integers(0, n, (2, edges))
            g = morph.Graph.from_edges(*ends, n=n, directed=False, device=device)
            with team(threads):
                found = morph.connected_components(g)
            validate.connected_components(g, found.label)
            assert found.components == len(np.unique(host(found.label)))
        few = n <= components.SMALL
        (kept,) = [x for x in g.kept.values() if isinstance(x, Workspace)]
        assert len(kept.objects[1]) == (components.SMALL_SAMPLE if few else components.SAMPLE)
