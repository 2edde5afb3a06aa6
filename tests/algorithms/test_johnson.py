"""Shortest paths between all points with negative weights: against NetworkX and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import edge_lists, graph_of, lightest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csgraph, csr_array
from targets import everywhere, host, tries
from test_bellman_ford import FAR, graph_weights, solved

import morph
from morph import validate

several = st.none() | st.lists(st.integers(0, 23), max_size=4)


@tries(15)
@given(
    edge_lists(most=10, weights=st.integers(-9, 30)), several,
    st.sampled_from(["i1", "i8", "f4", "f8"]), st.booleans(),
)  # fmt: skip
def test_against_networkx(target, edges, sources, dtype, is_shifted):
    n, src, dst, w = edges
    if is_shifted:  # negative weights, no negative cycle
        height = np.arange(n) * 7 % 11
        w = abs(w) + height[dst] - height[src]
    sources = None if sources is None else [i % n for i in sources]
    graph = lightest((n, src, dst, w))
    g, is_bounded = graph_of((n, src, dst, w), target, dtype), solved(graph, range(n)) is not None
    far = np.inf if dtype[0] == "f" else FAR

    def run():
        try:
            return morph.johnson(g, sources, predecessors=True)
        except morph.NegativeCycle as error:
            return error

    for found in everywhere(target, run):
        if not is_bounded:
            validate.path(g, np.append(found.vertices, found.vertices[0]), found.edges)
            assert sum(graph_weights(g, found.edges)) < 0
            continue
        starts = range(n) if sources is None else sources
        assert found.distance.shape == found.predecessor.shape == (len(starts), n)
        for s, row in zip(starts, host(found.distance).tolist(), strict=True):
            want = solved(graph, [s])
            assert row == [want.get(i, far) for i in range(n)]
        validate.johnson(g, *found, sources=sources)


def test_against_scipy(target):
    """Floating-point weights are rounded, and the checker allows for it."""
    rng, n = np.random.default_rng(4), 40
    height = rng.normal(size=n) * 100
    src, dst = rng.integers(0, n, (2, 200))
    src, dst = np.unique([src, dst], axis=1)
    weight = rng.random(len(src)) + 0.01 + height[dst] - height[src]
    want = csgraph.johnson(csr_array((weight, (src, dst)), shape=(n, n)))
    for dtype, tolerance in (("f8", 1e-12), ("f4", 1e-5)):
        g = morph.Graph.from_edges(src, dst, weight=weight.astype(dtype), n=n, device=target)
        found = morph.johnson(g, predecessors=True)
        assert found.distance.dtype == dtype
        assert np.allclose(host(found.distance), want, rtol=tolerance, atol=1e3 * tolerance)
        validate.johnson(g, *found, tolerance=10 * tolerance)


def test_corner_cases(target):
    empty = morph.johnson(morph.Graph(target))
    assert host(empty.distance).shape == (0, 0)
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0], weight=[-3, 1, 4], n=4, device=target)
    found = morph.johnson(g, [2, 2, 0])
    assert host(found.distance).tolist() == [[4, 1, 0, FAR]] * 2 + [[0, -3, -2, FAR]]
    assert found.predecessor is None
    g.points.delete(1)
    g.apply(inserts=([3], [2], [-5]))
    found = morph.johnson(g, predecessors=True)
    validate.johnson(g, *found)
    assert host(found.distance)[:, [0, 2, 3]].tolist() == [[0, FAR, FAR], [4, 0, FAR], [-1, -5, 0]]
    with pytest.raises(ValueError, match="source 1 is not a vertex"):
        morph.johnson(g, 1)
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[-1, np.inf], device=target)
    assert host(morph.johnson(g, 0).distance).tolist() == [[0, -1, np.inf]]
    plain = morph.Graph.from_edges([0, 1], [1, 2], device=target)
    assert host(morph.johnson(plain, 0).distance).tolist() == [[0, 1, 2]]


def test_what_is_refused(target):
    for weight, error, message in (
        ([-1, np.nan], ValueError, "neither NaN nor -inf"),
        ([-1, -np.inf], ValueError, "neither NaN nor -inf"),
        ([-1, 2**60], OverflowError, "weights of 1152921504606846976 on 3 vertices"),
        (np.array([3e38, 3e38, -1], "f4"), OverflowError, "does not fit float32"),
    ):
        src = np.arange(len(weight))
        g = morph.Graph.from_edges(src, src + 1, weight=weight, device=target)
        with pytest.raises(error, match=message):
            morph.johnson(g)


def test_wrong_distances():
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=[-2, 3])
    right = host(morph.johnson(g).distance)
    validate.johnson(g, right)
    for place, value in (((0, 1), -3), ((0, 2), FAR), ((2, 0), 7), ((1, 1), 1)):
        wrong = right.copy()
        wrong[place] = value
        with pytest.raises(validate.WrongAnswer):
            validate.johnson(g, wrong)
    with pytest.raises(validate.WrongAnswer, match="distance has 3 rows, for 1 sources"):
        validate.johnson(g, right, sources=[0])
