"""Undirected graphs keep the reverse of each edge; algorithms refuse them if one is missing."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import host, tries

import morph
from morph import validate
from morph.algorithms.registry import ROWS
from morph.prelude import i32

ARGUMENTS = {"k_core": (2,), "k_truss": (3,), "max_k_plex": (2,), "community": (0, (2, 3))}
ARGUMENTS["max_flow"] = (0, 3)
NAMES = sorted({row.public_name for row in ROWS if not row.acyclic} | set(ARGUMENTS))


def path_graph(target):
    return morph.Graph.from_edges(
        [0, 1, 2], [1, 2, 3], weight=[5, 6, 7], symmetrize=True, device=target
    )


def arcs(g):
    ids = host(g.edges.ids())
    columns = (host(getattr(g.edges, c)[:])[ids].tolist() for c in ("src", "dst", "weight"))
    return sorted(zip(*columns, strict=True))


@morph.kernel
def cut(e, u, v):
    if e.src.id == u and e.dst.id == v:
        e.delete()


@morph.kernel
def connect(p, g, u, v):
    if p.id == u:
        g.edges.new(p, g.points[v], i32(1))


def test_deletion_of_one_arc_deletes_both(target):
    g = path_graph(target)
    g.edges.delete([0])
    assert arcs(g) == [(1, 2, 6), (2, 1, 6), (2, 3, 7), (3, 2, 7)]
    assert host(morph.bfs(g, 3).distance).tolist() == [-1, 2, 1, 0]
    assert host(morph.betweenness(g, normalized=False).centrality).tolist() == [0, 0, 1, 0]
    g.edges[int(host(g.edges.ids())[0])].delete()
    assert arcs(g) == [(2, 3, 7), (3, 2, 7)]
    validate.index(g)
    g.apply(inserts=([0], [3], [2]))
    g.edges.delete(np.arange(len(g.edges)))
    assert g.edges.live == 0 and host(morph.bfs(g, 0).distance).tolist() == [0, -1, -1, -1]


def test_the_same_after_a_batch(target):
    """The index has rows with spare capacity."""
    ends = np.arange(40)
    g = morph.Graph.from_edges(ends, ends + 1, weight=ends, symmetrize=True, device=target)
    morph.bfs(g, 0)
    made = host(g.apply(inserts=([0], [2], [9])).inserted)
    assert g.gapped
    g.edges.delete(made[1])
    assert g.gapped and (0, 2, 9) not in arcs(g) and (2, 0, 9) not in arcs(g)
    validate.index(g)
    g.edges.delete(np.flatnonzero(host(g.edges.src[:]) == 20)[:1])
    assert host(morph.bfs(g, 40).distance).tolist() == [-1] * 21 + list(range(19, -1, -1))


def test_directed_graphs_delete_one_edge(target):
    g = morph.Graph.from_edges([0, 1], [1, 0], device=target)
    g.edges.delete([0])
    assert host(g.edges.ids()).tolist() == [1]


@pytest.mark.parametrize("name", NAMES)
def test_algorithms_refuse_an_edge_without_reverse(name):
    g = path_graph("cpu")
    g.edges.new(0, 3, 1)
    with pytest.raises(ValueError, match="edge 0 -> 3 has no reverse: Graph.apply"):
        getattr(morph, name)(g, *ARGUMENTS.get(name, ()))
    g.edges.new(3, 0, 1)
    getattr(morph, name)(g, *ARGUMENTS.get(name, ()))


def test_kernels_that_leave_one_arc_are_detected(target):
    g = path_graph(target)
    morph.foreach(g.edges, cut, 1, 2)
    for call in (morph.bfs, morph.connected_components, morph.DynamicBFS):
        with pytest.raises(ValueError, match="edge 2 -> 1 has no reverse"):
            call(g)
    with pytest.raises(ValueError, match="edge 2 -> 1 has no reverse"):
        g.apply(deletes=[0])
    morph.foreach(g.edges, cut, 2, 1)
    assert host(morph.bfs(g, 0).distance).tolist() == [0, 1, -1, -1]
    morph.foreach(g.points, connect, g, 0, 3)
    with pytest.raises(ValueError, match="edge 0 -> 3 has no reverse"):
        morph.bfs(g, 0)
    morph.foreach(g.points, connect, g, 3, 0)
    assert host(morph.bfs(g, 0).distance).tolist() == [0, 1, 2, 1]


def test_an_edge_without_reverse_can_be_deleted(target):
    """Edges with reverses are deleted with these, also while another has none."""
    g = path_graph(target)
    g.edges.new(0, 3, 1)
    g.edges.delete([2])
    assert arcs(g) == [(0, 3, 1), (1, 2, 6), (2, 1, 6), (2, 3, 7), (3, 2, 7)]
    g.edges.delete(len(g.edges) - 1)
    assert host(morph.bfs(g, 1).distance).tolist() == [-1, 0, 1, 2]


def test_parts_of_a_graph_have_all_reverses():
    g = path_graph("cpu")
    g.edges.new(0, 3, 1)
    with pytest.raises(ValueError, match="edge 0 -> 3 has no reverse"):
        morph.partition(g, ["cpu", "cpu"])
    parts = morph.partition(path_graph("cpu"), ["cpu", "cpu"])
    assert morph.mst(parts).weight == 18
    parts.apply(inserts=([0], [3], [1]))
    assert morph.mst(parts).weight == 12  # each part has only the edges from its points


@pytest.mark.parametrize("make", ["from_edges", "from_csr"])
def test_lists_that_are_not_symmetric_are_refused(target, make):
    """Each point has as many edges out as in."""
    first = [0, 1, 2] if make == "from_edges" else [0, 1, 2, 3]
    with pytest.raises(ValueError, match="symmetric=True, but edge 0 -> 1 has no reverse"):
        getattr(morph.Graph, make)(first, [1, 2, 0], symmetric=True, device=target)
    with pytest.raises(ValueError, match="1 edges out and 0 in"):
        morph.Graph.from_edges([0], [1], symmetric=True, device=target)
    g = morph.Graph.from_edges(
        [0, 0, 1, 0, 1, 0], [1, 1, 0, 0, 0, 0], symmetric=True, device=target
    )
    assert not g.directed and host(g.degree()).tolist() == [4, 2]
    ends = np.random.default_rng(0).integers(0, 1000, (2, 100_000))
    both = np.concatenate([ends, ends[::-1]], axis=1)
    assert morph.Graph.from_edges(*both, symmetric=True, device=target).edges.live == 200_000
    both[:, 3] = both[::-1, 3] if both[0, 3] != both[1, 3] else (1, 2)
    with pytest.raises(ValueError, match="symmetric=True"):
        morph.Graph.from_edges(*both, symmetric=True, device=target)


@pytest.mark.parametrize("dtype", ["i4", "i8", "u8", "f4", "f8", "?"])
def test_edge_betweenness_needs_equal_weights(target, dtype):
    weight = np.array([1, 2, 3, 1], dtype)
    g = morph.Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 0], weight, symmetrize=True, device=target)
    morph.edge_betweenness(g, weighted=True)
    g.edges.weight[0] = 0
    morph.edge_betweenness(g)
    with pytest.raises(ValueError, match="equal weights both ways"):
        morph.edge_betweenness(g, weighted=True)


def test_copies_know_their_reverses():
    g = path_graph("cpu")
    assert g.paired and g.copy().paired and morph.Graph("cpu", directed=False).paired
    g.edges.delete([0])
    assert g.paired and g.copy().paired
    g.compact()
    morph.bfs(g)
    assert g.paired


@given(data=st.data())
@tries(30)
def test_random_deletions(target, data):
    """Loops and parallel edges, of equal and of different weights."""
    n = data.draw(st.integers(1, 6))
    ends = st.integers(0, n - 1)
    edges = data.draw(st.lists(st.tuples(ends, ends, st.integers(0, 2)), min_size=1, max_size=12))
    g = morph.Graph.from_edges(
        *np.array(edges).T[:2], weight=np.array(edges)[:, 2], n=n, directed=False, device=target
    )
    for _ in range(3):
        left = arcs(g)
        ids = host(g.edges.ids()).tolist()
        if not ids:
            break
        chosen = data.draw(st.sampled_from(ids))
        u, v, w = (int(host(getattr(g.edges, c)[chosen])) for c in ("src", "dst", "weight"))
        g.edges.delete(chosen)
        for arc in {(u, v, w), (v, u, w)}:
            left.remove(arc)
        assert arcs(g) == left
        if data.draw(st.booleans()):
            a, b = data.draw(ends), data.draw(ends)
            g.apply(inserts=([a], [b], [1]))
        graph = nx.MultiGraph((a, b) for a, b, _ in arcs(g))
        graph.add_nodes_from(range(n))
        found = nx.single_source_shortest_path_length(graph, 0)
        assert host(morph.bfs(g, 0).distance).tolist() == [found.get(p, -1) for p in range(n)]
