"""PageRank of changing graphs: against a dense solution with NumPy after every batch."""

from __future__ import annotations

from unittest import mock

import networkx as nx
import numpy as np
import pytest
from batches import interrupted
from hypothesis import given
from hypothesis import strategies as st
from targets import host, tries

import morph
from morph.algorithms.dynamic import following, pagerank
from morph.testing import team

POINTS, TOLERANCE = 9, 1e-10
ends = st.integers(0, POINTS - 1)
pairs = st.lists(st.tuples(ends, ends), max_size=30)
BATCHES = st.lists(st.tuples(pairs, st.lists(st.integers(0, 99), max_size=20), st.none() | ends),
                   min_size=1, max_size=5)  # fmt: skip


def solved(g, damping):
    """The fixed point, by a dense matrix in which points without out-edges jump anywhere."""
    alive = host(g.points.alive)
    n = max(int(alive.sum()), 1)
    matrix = np.zeros((len(alive), len(alive)))
    src, dst = (host(a) for a in g.edge_list()[:2])
    np.add.at(matrix, (dst, src), 1.0)
    out = matrix.sum(0)
    matrix[:, out > 0] /= out[out > 0]
    matrix[:, (out == 0) & alive] = (alive / n)[:, None]
    return np.linalg.solve(np.eye(len(alive)) - damping * matrix, (1 - damping) * alive / n)


def compare(dynamic):
    g, rank = dynamic.graph, host(dynamic.rank)
    off = abs(rank - solved(g, dynamic.damping)).sum()
    assert off <= dynamic.error + 1e-13 and dynamic.error <= dynamic.tolerance + 1e-13
    assert np.isclose(rank.sum(), float(g.points.live > 0), atol=1e-13)
    morph.validate.pagerank(g, dynamic.rank, dynamic.damping, 2 * dynamic.tolerance + 1e-13)


def as_arrays(found):
    src, dst = np.array(found, np.int64).reshape(-1, 2).T
    return src, dst


def follow(target, directed, edges, batches, share, damping):
    g = morph.Graph.from_edges(*as_arrays(edges), n=POINTS, symmetrize=not directed, device=target)
    dynamic = morph.DynamicPageRank(g, damping, TOLERANCE)
    dynamic.share = share
    compare(dynamic)
    for inserts, deletes, point in batches:
        alive, more = host(g.points.alive).copy(), {}
        if point is not None:
            more["delete_points"] = np.array([point])
            alive[point] = False
        ids = np.flatnonzero(host(g.edges.alive))
        inserts = [(u, v) for u, v in inserts if alive[u] and alive[v]]
        gone = ids[np.array(deletes, int) % len(ids)] if ids.size else ids
        dynamic.apply(as_arrays(inserts), gone, **more)
        compare(dynamic)


@pytest.mark.parametrize("directed", [False, True])
def test_after_every_batch(target, directed):
    @tries({"python": 3, "cpu": 30, "cuda": 30}[target])
    @given(pairs, BATCHES, st.sampled_from([1e6, 0.0]), st.sampled_from([0.0, 0.5, 0.85]))
    def check(edges, batches, share, damping):
        with team(3):
            follow(target, directed, edges, batches, share, damping)

    check()


@pytest.mark.parametrize("pushes", [1e9, pagerank.PUSHES])
def test_no_drift_in_200_batches(pushes):
    """Hubs and dangling points come and go, and the graph grows and shrinks."""
    rng, n = np.random.default_rng(3), 60
    g = morph.Graph.from_edges(*rng.integers(0, n, (2, 150)), n=n, device="cpu")
    dynamic = morph.DynamicPageRank(g, tolerance=1e-12)
    dynamic.share, done = 1e9, []
    with mock.patch.object(pagerank, "PUSHES", pushes):
        for k in range(200):
            star = np.full(20, rng.integers(n)), rng.integers(0, n, 20)
            ids = np.flatnonzero(host(g.edges.alive))
            gone = rng.choice(ids, 10 if k % 40 < 20 else 30, replace=False)
            done.append(dynamic.apply(star[:: 1 if k % 2 else -1], gone).decision)
            compare(dynamic)
    assert done.count("repaired") > (150 if pushes > 1e6 else 20)
    links = nx.MultiDiGraph(list(zip(*(host(a) for a in g.edge_list()[:2]), strict=True)))
    links.add_nodes_from(range(n))
    want = nx.pagerank(links, tol=1e-15, max_iter=1000)
    assert np.allclose(host(dynamic.rank), [want[v] for v in range(n)], rtol=0, atol=1e-12)


def test_after_pushes_that_were_given_up(target):
    """No point keeps the mark of a worklist, else its residual would grow."""
    for seed in range(1 if target == "python" else 3):
        rng = np.random.default_rng(seed)
        side = 12 if target == "python" else 24
        g = morph.generate.grid(side, side, device=target)
        dynamic = morph.DynamicPageRank(g, tolerance=1e-7)
        dynamic.share = 1.0
        for k in range(2 if target == "python" else 40):
            dynamic.apply(tuple(rng.integers(0, side * side, (2, 1 + k % 3))))
            assert dynamic.error <= 1e-7


def test_all_of_a_batch_or_nothing():
    n = 1
    while True:
        g = morph.Graph.from_edges(*np.triu_indices(6, 1), n=12, device="cpu")
        dynamic = morph.DynamicPageRank(g, tolerance=TOLERANCE)
        dynamic.share = 1e6
        change = lambda d=dynamic: d.apply(([6, 7, 0], [7, 8, 6]), ([0], [1]))  # noqa: E731
        error = (KeyboardInterrupt, MemoryError)[n % 2]
        if not interrupted(change, n, error, (following, pagerank)):
            break
        compare(dynamic)
        n += 1
    assert n > 10
    before = host(dynamic.rank).tolist()
    with pytest.raises(ValueError, match="12"):
        dynamic.apply(([0], [12]))
    assert host(dynamic.rank).tolist() == before


def test_other_changes_and_what_is_refused(target):
    assert morph.DynamicPageRank(morph.Graph.from_edges([], [], n=0)).rank.size == 0
    g = morph.Graph.from_edges([0, 1], [1, 2], n=3, device=target)
    dynamic = morph.DynamicPageRank(g)
    g.points.extend(2)
    dynamic.apply(([3, 4], [4, 4]), delete_points=[0])
    compare(dynamic)
    g.compact()
    compare(dynamic)
    dynamic.update(g.apply(([1], [0])))
    compare(dynamic)
    for options in ({"damping": 1.0}, {"tolerance": 0.0}, {"tolerance": np.nan}):
        with pytest.raises(ValueError, match="is from"):
            morph.DynamicPageRank(g, **options)
    with pytest.raises(TypeError, match="in parts"):
        morph.DynamicPageRank(morph.partition(g.to("cpu"), ["cpu"] * 2))
