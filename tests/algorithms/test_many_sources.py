"""Distances from many sources, a row for each: against NetworkX, on every target."""

from __future__ import annotations

import importlib
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
from morph.testing import team

FAR = np.iinfo(np.int64).max
MODULES = [importlib.import_module(f"morph.algorithms.graph.{name}") for name in ("bfs", "sssp")]
sources = st.lists(st.integers(0, 23), max_size=4)


def sharing(batch, by_thread):
    """Searches that are shared by so many sources, 1: by none; or, on a CPU, by a thread each."""
    bfs, sssp = MODULES
    by = {"batch_size": lambda g: batch} | ({} if by_thread else {"sources_at_once": lambda *_: 0})
    return (
        mock.patch.multiple(bfs, SMALL=0 if batch > 1 else 4, **by),
        mock.patch.multiple(sssp, HOST_BATCH=0, **by),
    )


@tries(7)
@given(edge_lists(), sources, st.sampled_from([1, 3]), st.data())
def test_rows(target, edges, ids, batch, data):
    n, ids = edges[0], [i % edges[0] for i in ids]
    dtype = data.draw(st.sampled_from(["i4", "u4", "f8"]))
    cutoff = data.draw(st.none() | st.integers(0, 60))
    targets = data.draw(st.none() | st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    directed = data.draw(st.booleans())
    g, graph = graph_of(edges, target, dtype, directed), lightest(edges, not directed)
    far = np.inf if dtype[0] == "f" else FAR
    want = [nx.single_source_dijkstra_path_length(graph, i, cutoff) for i in ids]
    levels = [nx.single_source_shortest_path_length(graph, i, cutoff) for i in ids]
    a, b = sharing(batch, data.draw(st.booleans()))
    with a, b:
        for found in everywhere(
            target, lambda: morph.sssp(g, ids, rows=True, cutoff=cutoff, predecessors=True)
        ):
            right = [[row.get(v, far) for v in range(n)] for row in want]
            assert host(found.distance).tolist() == right
            assert found.distance.shape == found.predecessor.shape == (len(ids), n)
            validate.sssp(
                g, found.distance, found.predecessor, source=ids, cutoff=cutoff, rows=True
            )
        for found in everywhere(target, lambda: morph.bfs(g, ids, rows=True, cutoff=cutoff)):
            right = [[row.get(v, -1) for v in range(n)] for row in levels]
            assert host(found.distance).tolist() == right
            validate.bfs(g, found.distance, found.predecessor, source=ids, cutoff=cutoff, rows=True)
        some = host(morph.sssp(g, ids, rows=True, targets=targets, cutoff=cutoff).distance)
        for row, every in zip(some, want, strict=True):
            assert all(row[t] == every.get(t, far) for t in targets or ())
            assert all(row[v] in (far, every.get(v, far)) for v in range(n))


def test_overflow_and_zero_weights(target):
    weight = np.array([2**30, 2**30, 2**30, 0, 0])
    g = morph.Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 3], weight=weight, device=target)
    found = morph.sssp(g, [0, 3], rows=True, predecessors=True)  # first in 32 bits
    assert host(found.distance)[0].tolist() == [0, 2**30, 2**31, 3 * 2**30, 3 * 2**30]
    assert host(found.predecessor).tolist() == [[-1, 0, 1, 2, 3], [-1, -1, -1, -1, 3]]
    g.edges.weight[1] = FAR - 1
    with pytest.raises(OverflowError, match="the distance of vertex 3, reached from vertex 2"):
        morph.sssp(g, [1, 0], rows=True)
    g = morph.Graph.from_edges([0, 1], [1, 0], device=target)  # no weights
    found = morph.sssp(g, [1, 1], rows=True, predecessors=True)
    assert host(found.distance).tolist() == [[1, 0]] * 2
    assert host(found.predecessor).tolist() == [[1, -1]] * 2


def test_more_sources_than_bits_of_a_word(target):
    g = morph.generate.grid(4, 5, device=target)
    ids = np.arange(70) % 20
    found = morph.bfs(g, ids, rows=True)
    validate.bfs(g, found.distance, found.predecessor, source=ids, rows=True)
    assert found.levels == 8
    with pytest.raises(validate.WrongAnswer, match="distance has 19 rows, for 70 sources"):
        validate.bfs(g, found.distance[:19], source=ids, rows=True)


def test_parts_are_searched_from_one_source_after_another():
    g = morph.generate.grid(4, 4)
    parts = morph.partition(g, ["cpu", "cpu"])
    for ids in ([5, 0], []):
        for call in (morph.bfs, morph.sssp):
            found, want = call(parts, ids, rows=True), call(g, ids, rows=True)
            assert np.array_equal(found.distance, want.distance)


def test_wrong_arguments(target):
    g = morph.generate.grid(2, 2, device=target)
    for call in (morph.bfs, morph.sssp):
        with pytest.raises(TypeError, match="rows is True or False, not 2"):
            call(g, [0], rows=2)
        with pytest.raises(ValueError, match="source 4 is not a vertex"):
            call(g, [0, 4], rows=True)


@pytest.mark.parametrize("cutoff", [1, 10])
def test_no_parent_at_the_end_of_an_infinite_edge(target, cutoff):
    g = morph.Graph.from_edges([0, 1, 0], [1, 2, 3], weight=[1, np.inf, 2], n=5, device=target)
    found = morph.sssp(g, [0, 1], rows=True, predecessors=True, cutoff=cutoff)
    assert host(found.predecessor).tolist() == [[-1, 0, -1, 0 if cutoff > 1 else -1, -1], [-1] * 5]


def test_a_cpu_has_a_thread_for_each_source():
    ends = np.arange(99), np.arange(1, 100)
    g = morph.Graph.from_edges(*ends, weight=np.full(99, 2), device="cpu")
    path = f"{morph.algorithms.graph.source_threads.__name__}.MOST_ROWS"
    with mock.patch.object(MODULES[1], "_solved") as one, mock.patch(path, 250):
        with team(2):
            found = morph.sssp(g, [0, 1, 2, 3, 4], rows=True)  # in three batches
            hops = morph.bfs(g, [0, 1, 2, 3, 4], rows=True)
        assert not one.called
    assert found.distance[:, -1].tolist() == [198, 196, 194, 192, 190]
    assert hops.distance[:, -1].tolist() == [99, 98, 97, 96, 95]
    with mock.patch.object(MODULES[1], "paths_of_each") as by_thread:
        for threads, rows, most in ((3, 1, 1 << 16), (1, 3, 99)):  # few sources; a large graph
            with team(threads), mock.patch(f"{path.rpartition('.')[0]}.ALONE", most):
                far = morph.sssp(g, list(range(rows)), rows=True).distance
            assert far[:, -1].tolist() == [198, 196, 194][:rows]
        assert not by_thread.called
