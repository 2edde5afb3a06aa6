"""Topological orders and the cycles that prevent them: against NetworkX."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from graphs import edge_lists, graph_of
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import validate


def answers(target, g):
    """An order or an error in each way of a target."""

    def run():
        try:
            return morph.topological_order(g)
        except morph.CycleError as error:
            return error

    return everywhere(target, run)


def levels_of(graph, n):
    """The levels of NetworkX; None if there is a cycle."""
    if not nx.is_directed_acyclic_graph(graph):
        return None
    level = np.zeros(n, int)
    for k, points in enumerate(nx.topological_generations(graph)):
        level[points] = k
    return level.tolist()


@tries(25)
@given(edge_lists(), st.booleans(), st.randoms(use_true_random=False))
def test_against_networkx(target, edges, is_acyclic, rng):
    n, src, dst, w = edges
    if is_acyclic:  # edges lead forwards in a random order of the points
        rank = np.array(rng.sample(range(n), n))
        up = rank[src] < rank[dst]
        src, dst, w = np.where(up, src, dst), np.where(up, dst, src), w
        src, dst, w = (x[src != dst] for x in (src, dst, w))
    graph = nx.MultiDiGraph(zip(src.tolist(), dst.tolist(), strict=True))
    graph.add_nodes_from(range(n))
    g, want = graph_of((n, src, dst, w), target), levels_of(graph, n)
    assert want is not None or not is_acyclic
    shown = set()
    for found in answers(target, g):
        if want is None:
            ends = np.append(found.vertices, found.vertices[0])
            validate.path(g, ends, found.edges)
            assert len(set(found.vertices.tolist())) == len(found.edges)
            shown.add((str(found), *found.edges.tolist()))
        else:
            assert host(found.level).tolist() == want and found.levels == max(want) + 1
            assert host(found.order).tolist() == np.argsort(want, kind="stable").tolist()
            validate.topological_order(g, found.order, found.level)
            validate.topological_order(g, list(nx.topological_sort(graph)))
    assert len(shown) <= 1


def test_corner_cases(target):
    found = morph.topological_order(morph.Graph(target))
    assert host(found.order).tolist() == [] and found.levels == 0
    alone = morph.Graph.from_edges([], [], n=1, device=target)
    assert host(morph.topological_order(alone).order).tolist() == [0]
    loop = morph.Graph.from_edges([0, 1, 1], [1, 1, 2], device=target)
    with pytest.raises(morph.CycleError, match=r"^a cycle: 1 -> 1$") as error:
        morph.topological_order(loop)
    assert error.value.edges.tolist() == [1]
    again = pickle.loads(pickle.dumps(error.value))
    assert type(again) is morph.CycleError and again.vertices.tolist() == [1]
    both = morph.Graph.from_edges([2], [1], symmetrize=True, device=target)
    with pytest.raises(morph.CycleError, match="a cycle: 1 -> 2 -> 1"):
        morph.topological_order(both)
    assert issubclass(morph.NegativeCycle, morph.CycleError)
    n = 300
    ring = morph.Graph.from_edges(np.arange(n), (np.arange(n) + 1) % n, device=target)
    with pytest.raises(morph.CycleError, match=r"a cycle: 0 -> .* 7 -> \.\.\. -> 0$") as error:
        morph.topological_order(ring)
    assert error.value.vertices.tolist() == list(range(n))


def test_of_a_graph_that_changes(target):
    """Deleted points and edges count no more; gapped rows are read as they are."""
    g = morph.Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 0, 4, 1], weight=[1] * 5, device=target)
    with pytest.raises(morph.CycleError):
        morph.topological_order(g)
    g.apply(inserts=([3], [0], [1]), deletes=([2], [0]))
    found = morph.topological_order(g)
    assert host(found.order).tolist() == [3, 0, 4, 1, 2]
    validate.topological_order(g, found.order, found.level)
    g.apply(inserts=([2], [3], [1]))
    with pytest.raises(morph.CycleError, match="a cycle: 0 -> 1 -> 2 -> 3 -> 0"):
        morph.topological_order(g)
    g.points.delete(3)
    found = morph.topological_order(g)
    assert host(found.order).tolist() == [0, 4, 1, 2]
    assert host(found.level).tolist() == [0, 1, 2, -1, 0]
    validate.topological_order(g, found.order, found.level)


def test_graphs_of_other_libraries():
    graph = nx.DiGraph([(0, 2), (2, 1), (0, 3)])
    for theirs in (graph, sp.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(4)))):
        assert morph.topological_order(theirs).levels == 3
    with pytest.raises(TypeError, match="no graph can be made of"):
        morph.topological_order(None)
    parts = morph.partition(morph.Graph.from_edges([0], [1]), ["cpu"] * 2)
    with pytest.raises(TypeError, match="not a partitioned graph"):
        morph.topological_order(parts)


def test_wrong_orders():
    g = morph.Graph.from_edges([0, 0, 2], [1, 2, 3])
    for order, level, message in (
        ([0, 1, 3, 2], None, "edge 2, from 2 to 3, leads back"),
        ([0, 1, 2], None, r"shape \(3,\)"),
        ([0, 1, 2, 4], None, "4 is no vertex"),
        ([0, 1, 2, 2], None, "vertex 3 is missing"),
        ([0, 1, 2, 3], [0, 1, 1, 1], "from 2 to 3, joins the levels 1, 1"),
        ([0, 1, 2, 3], [0, 2, 1, 2], "vertex 1 has the level 2, but no edge"),
        ([0, 1, 2, 3], [-1, 1, 1, 2], "vertex 0 has the level -1"),
    ):
        level = None if level is None else np.array(level)
        with pytest.raises(validate.WrongAnswer, match=message):
            validate.topological_order(g, np.array(order), level)
