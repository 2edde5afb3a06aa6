"""Triangles of graphs with short sorted rows, which are merged without preparation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended

import morph
from morph.algorithms.graph import triangles
from morph.algorithms.graph.workspace import SHORT_ROWS

PAIRS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=60)


def graph(pairs, n=12, device="cpu"):
    """A graph with sorted rows, and loops, but no parallel edges."""
    both = {(u, v) for u, v in pairs} | {(v, u) for u, v in pairs}
    src, dst = np.array(sorted(both), np.int32).T
    offsets = np.searchsorted(src, np.arange(n + 1))
    return morph.Graph.from_csr(offsets, dst, symmetric=True, device=device)


def wanted(pairs, n=12):
    a = np.zeros((n, n), np.int64)
    for u, v in pairs:
        a[u, v] = a[v, u] = u != v
    return np.diag(a @ a @ a) // 2


def merges_rows(g):
    """Whether the call before found short and sorted rows."""
    return g.kept[SHORT_ROWS][1] is not None


@given(PAIRS)
def test_counts(pairs):
    g = graph(pairs)
    for _ in range(2):  # the second call knows the rows
        found = morph.triangle_count(g)
        assert found.triangles.tolist() == wanted(pairs).tolist()
        assert found.total == wanted(pairs).sum() // 3
    assert merges_rows(g)


def test_on_a_gpu(monkeypatch):
    pairs = [(i, (i + k) % 12) for i in range(12) for k in (0, 1, 2, 5)]
    g = graph(pairs, device=pretended(monkeypatch))
    assert morph.triangle_count(g).triangles.get().tolist() == wanted(pairs).tolist()
    assert merges_rows(g)


@pytest.mark.parametrize("limit", [4, 5])
def test_long_rows(monkeypatch, limit):
    """A row with one arc more than the limit is found wherever the row lies."""
    monkeypatch.setattr(triangles, "SHORT_ROW", limit)
    triangles.check_rows.launches.clear()
    for centre in (0, 6, 11):
        pairs = [(centre, t) for t in range(12) if t != centre][:5] + [(1, 2), (2, 3)]
        g = graph(pairs)
        longest = max(np.bincount(g.edges.src[:]))
        assert morph.triangle_count(g).triangles.tolist() == wanted(pairs).tolist()
        assert merges_rows(g) == (longest <= limit)


@pytest.mark.parametrize(
    ("offsets", "dst"),
    [([0, 2, 4, 6], [2, 1, 0, 2, 1, 0]), ([0, 3, 6, 8], [1, 1, 2, 0, 0, 2, 0, 1])],
    ids=["unsorted", "parallel"],
)
def test_other_rows(offsets, dst):
    """Unsorted rows and parallel edges are oriented and sorted."""
    g = morph.Graph.from_csr(offsets, dst, symmetric=True)
    assert morph.triangle_count(g).triangles.tolist() == [1, 1, 1]
    assert not merges_rows(g)


def test_changed_edges():
    """Rows that are no longer sorted are not merged."""
    g = graph([(0, 1), (1, 2), (0, 2)], n=3)
    assert morph.triangle_count(g).total == 1 and merges_rows(g)
    g.edges.dst[:] = np.array([2, 1, 2, 0, 1, 0])
    assert morph.triangle_count(g).triangles.tolist() == [1, 1, 1]
