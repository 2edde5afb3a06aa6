"""Betweenness of edges, and by weights, beside NetworkX and igraph."""

import igraph
import networkx as nx
import numpy as np
import pytest
from graphs import edge_lists, graph_of, lightest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import validate

WEIGHTS = st.integers(1, 5)
DTYPES = ["i1", "u8", "i4", "i8", "f2", "f4", "f8"]


def by_edges(g, want):
    """The values of NetworkX in the order of the edges of a graph."""
    src, dst, _ = (None if a is None else host(a).tolist() for a in g.edge_list())
    ends = zip(src, dst, strict=True)
    return [want[e] if e in want else want[e[::-1]] for e in ends]


@tries(6)
@given(edge_lists(most=9, weights=WEIGHTS), *(st.booleans(),) * 4, st.sampled_from(DTYPES))
def test_beside_networkx(target, edges, directed, weighted, normalized, endpoints, dtype):
    graph = lightest(edges, not directed)
    g = morph.Graph.from_networkx(graph, device=target)
    if "weight" in g.edges.columns:
        weight = host(g.edges.weight[:]).astype(dtype)
        src, dst = host(g.edges.src[:]), host(g.edges.dst[:])
        whole = slice(None) if directed else src <= dst
        g = morph.Graph.from_edges(
            src[whole], dst[whole], weight=weight[whole], n=len(graph), directed=directed,
            device=target,
        )  # fmt: skip
    how = {"weighted": weighted, "normalized": normalized}
    theirs = {"weight": "weight" if weighted else None, "normalized": normalized}
    want = nx.betweenness_centrality(graph, endpoints=endpoints, **theirs)
    found = morph.betweenness(g, endpoints=endpoints, **how)
    assert np.allclose(host(found.centrality), [want[i] for i in range(edges[0])])
    validate.betweenness(g, found.centrality, endpoints=endpoints, **how)
    found = morph.edge_betweenness(g, **how)
    want = nx.edge_betweenness_centrality(graph, **theirs)
    assert np.allclose(host(found.centrality), by_edges(g, want))
    validate.edge_betweenness(g, found.centrality, **how)


@tries(6)
@given(edge_lists(most=9, weights=WEIGHTS), st.booleans(), st.booleans(), st.data())
def test_multigraphs_beside_igraph(target, edges, directed, weighted, data):
    """With parallel edges and loops, from some sources."""
    n, src, dst, w = edges
    g = morph.Graph.from_edges(src, dst, weight=w, n=n, directed=directed, device=target)
    peer = igraph.Graph(n, list(zip(src.tolist(), dst.tolist(), strict=True)), directed=directed)
    weights = w.tolist() if weighted else None
    how = {"weighted": weighted, "normalized": False}
    found = host(morph.betweenness(g, **how).centrality)
    assert np.allclose(found, peer.betweenness(directed=directed, weights=weights))
    found = host(morph.edge_betweenness(g, **how).centrality)
    order = np.arange(len(found)) if g.edge_order is None else host(g.edge_order)
    in_order = np.empty_like(found)
    in_order[order] = found
    want = peer.edge_betweenness(directed=directed, weights=weights)
    assert np.allclose(in_order[: len(src)], want)
    sources = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    for found in (morph.edge_betweenness(g, sources, **how),):
        validate.edge_betweenness(g, found.centrality, found.sources, **how)
    found = morph.betweenness(g, sources, **how)
    validate.betweenness(g, found.centrality, found.sources, **how)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_in_every_way(target, directed, weighted):
    """The order of items and the number of threads make no difference."""
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 12, (2, 40))
    weight = rng.integers(1, 4, 40)
    g = morph.Graph.from_edges(src, dst, weight=weight, n=12, directed=directed, device=target)
    want = None
    for found in everywhere(target, lambda: morph.edge_betweenness(g, weighted=weighted)):
        validate.edge_betweenness(g, found.centrality, weighted=weighted)
        want = host(found.centrality) if want is None else want
        assert np.allclose(host(found.centrality), want, rtol=1e-13)


@pytest.mark.parametrize("weighted", [True, False])
def test_counts_beyond_float64(target, weighted):
    """A chain of 1100 pairs of parallel edges has 2**1100 paths."""
    n = 1100 if target != "python" else 10
    ends = np.arange(n).repeat(2)
    g = morph.Graph.from_edges(ends, ends + 1, weight=np.full(2 * n, 3), device=target)
    how = {"weighted": weighted, "normalized": False}
    found = morph.edge_betweenness(g, [0], **how)
    want = (n - np.arange(n)).repeat(2) / 2 * (n + 1)
    assert np.allclose(host(found.centrality), want, rtol=1e-12)
    validate.edge_betweenness(g, found.centrality, [0], **how)
    found = morph.betweenness(g, [0, 1], weighted=weighted)
    validate.betweenness(g, found.centrality, [0, 1], weighted=weighted)


def test_ties_of_rounded_sums(target):
    """0.1 + 0.2 is not 0.3 in float64, but is in float32; infinite edges are on no path."""
    ends = [0, 1, 0, 0, 3], [1, 2, 2, 3, 2]
    weight = np.array([0.1, 0.2, 0.3, np.inf, 0.1])
    for dtype in (np.float64, np.float32):
        g = morph.Graph.from_edges(*ends, weight=weight.astype(dtype), device=target)
        tie = dtype(0.1) + dtype(0.2) == dtype(0.3)
        found = host(morph.betweenness(g, weighted=True, normalized=False).centrality)
        assert found.tolist() == [0, 0.5 if tie else 0, 0, 0]
        validate.betweenness(g, found, weighted=True, normalized=False)
        found = host(morph.edge_betweenness(g, weighted=True, normalized=False).centrality)
        validate.edge_betweenness(g, found, weighted=True, normalized=False)


def test_small_graphs(target):
    for n in (0, 1, 2):
        g = morph.Graph.from_edges([], [], n=n, device=target)
        for weighted in (True, False):
            found = morph.edge_betweenness(g, weighted=weighted)
            assert host(found.centrality).size == 0 and found.sources.size == n
            validate.edge_betweenness(g, found.centrality, weighted=weighted)
            assert host(morph.betweenness(g, weighted=weighted).centrality).tolist() == [0] * n
    g = morph.Graph.from_edges([0], [0], weight=[2], device=target)
    assert host(morph.edge_betweenness(g, weighted=True).centrality).tolist() == [0]
    g = morph.generate.grid(2, 2, device=target)
    assert not host(morph.edge_betweenness(g, []).centrality).any()


@pytest.mark.parametrize("weighted", [True, False])
def test_changed_graphs(target, weighted):
    """Deleted edges have NaN; deleted points are no sources."""
    ends = np.array([[0, 1, 2, 0, 3, 4], [1, 2, 3, 3, 4, 0]])
    weight = np.array([1, 1, 1, 3, 2, 1])
    g = morph.Graph.from_edges(*ends, weight=weight, device=target)
    g.apply(deletes=([3], [4]), inserts=([1], [4], [2]))
    g.points.delete(2)
    found = morph.edge_betweenness(g, weighted=weighted, normalized=False)
    live = host(g.edges.ids())
    src, dst = host(g.edges.src[:])[live], host(g.edges.dst[:])[live]
    graph = nx.DiGraph()
    graph.add_nodes_from([0, 1, 3, 4])
    at = (src != 2) & (dst != 2)
    for u, v, w in zip(src[at], dst[at], host(g.edges.weight[:])[live][at], strict=True):
        graph.add_edge(u, v, weight=w)
    want = nx.edge_betweenness_centrality(
        graph, normalized=False, weight="weight" if weighted else None
    )
    values = host(found.centrality)
    got = {(u, v): x for u, v, x in zip(src[at], dst[at], values[live[at]], strict=True)}
    assert got == pytest.approx(want)
    assert np.isnan(values).sum() == len(values) - at.sum()
    validate.edge_betweenness(g, values, weighted=weighted, normalized=False)


def test_refusals(target):
    for bad in (0, -1, np.nan):
        g = morph.Graph.from_edges([0, 1], [1, 2], weight=np.array([1, bad]), device=target)
        for run in (morph.betweenness, morph.edge_betweenness):
            with pytest.raises(ValueError, match=r"weights above 0, but the edge from 1 to 2 has"):
                run(g, weighted=True)
            run(g)
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[1e30, 1e-30], device=target)
    with pytest.raises(ValueError, match="weights too far apart: from source 0"):
        morph.betweenness(g, weighted=True)
    big = np.array([2**62, 2**62])
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=big, device=target)
    with pytest.raises(OverflowError):
        morph.edge_betweenness(g, weighted=True)
    with pytest.raises(TypeError, match="weighted"):
        morph.edge_betweenness(g, weighted=1.5)
    assert {*g.points.columns} == set() and {*g.edges.columns} == {"src", "dst", "weight"}
    parts = morph.partition(g, [target] * 2) if target in ("cpu", "python") else None
    if parts is not None:
        for run in (lambda: morph.betweenness(parts, weighted=True),
                    lambda: morph.edge_betweenness(parts)):  # fmt: skip
            with pytest.raises(TypeError, match="not a partitioned graph"):
                run()


@pytest.mark.parametrize("directed", [True, False])
def test_the_checker_finds_wrong_values(directed):
    edges = 5, np.array([0, 1, 2, 0, 3]), np.array([1, 2, 3, 3, 4]), np.array([1, 1, 1, 4, 2])
    g = graph_of(edges, "cpu", directed=directed)
    right = host(morph.edge_betweenness(g, weighted=True).centrality)
    for k in range(len(right)):
        wrong = right.copy()
        wrong[k] += 0.01
        with pytest.raises(
            validate.WrongAnswer, match=f"edge {k}, .* is wrong" if directed else "edge"
        ):
            validate.edge_betweenness(g, wrong, weighted=True)
    for wrong in (right[1:], right.astype(int), np.full_like(right, np.nan), -right - 1):
        with pytest.raises(validate.WrongAnswer):
            validate.edge_betweenness(g, wrong, weighted=True)
    with pytest.raises(validate.WrongAnswer):
        validate.edge_betweenness(g, right)
