"""PageRank of changing graphs: against a dense solution with NumPy after every batch."""

from __future__ import annotations

from typing import NamedTuple
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from batches import interrupted
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import splu
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


def compare_large(dynamic):
    """As `compare`, against a sparse solution; the residuals and their sums, too."""
    g, d = dynamic.graph, dynamic.damping
    alive = host(g.points.alive)
    n, live = len(alive), int(alive.sum())
    src, dst = (host(a) for a in g.edge_list()[:2])
    out = np.bincount(src, minlength=n)
    given = sparse.csr_array((1 / out[src], (dst, src)), shape=(n, n))
    value = splu(sparse.eye_array(n, format="csc") - d * given.tocsc()).solve(alive.astype(float))
    off = abs(host(dynamic.rank) - value / value.sum()).sum()
    rounding = 1e-14 / (1 - d)
    assert off <= dynamic.error + rounding and dynamic.error <= dynamic.tolerance + rounding
    totals = dynamic._ranks.totals
    y, r = (host(dynamic._table.columns[c])[:n] for c in ("value", "residual"))
    right = float(totals.base) + d * (given @ y) - y
    scale = y[alive].sum() * 1e-13
    assert abs(r - right)[alive].sum() <= scale
    assert abs(float(totals.sum) - y[alive].sum()) <= scale
    assert abs(float(totals.residual) - r[alive].sum()) <= scale
    assert abs(float(totals.norm) - abs(r[alive]).sum()) <= scale
    assert not host(dynamic._table.queued).any() and live == g.points.live


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
    if target == "cpu" and not directed:
        pytest.skip("test_every_way_to_repair has undirected graphs")

    @tries({"python": 3, "cpu": 30, "cuda": 30}[target])
    @given(pairs, BATCHES, st.sampled_from([1e6, 0.0]), st.sampled_from([0.0, 0.5, 0.85]))
    def check(edges, batches, share, damping):
        with team(3):
            follow(target, directed, edges, batches, share, damping)

    check()


class Choices(NamedTuple):
    """What decides how the ranks are repaired."""

    share: float
    round_edges: float  # 1e9: iterate after a search, even if few points have large residuals
    tolerance: float
    damping: float
    few: bool  # few points have all edges


CHOICES = st.builds(Choices, st.sampled_from([0.0, 0.1, 1e6]), st.sampled_from([0.0, 64.0, 1e9]),
                    st.sampled_from([1e-3, 1e-6, 1e-10]), st.sampled_from([0.3, 0.85, 0.99]),
                    st.booleans())  # fmt: skip


def follow_at_random(target, seed, directed, choices, threads):
    """Batches of a graph of which many points have no edges, or no out-edges."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 40 if target == "python" else 300))
    used = max(n // 8, 3) if choices.few else n
    g = morph.Graph.from_edges(*rng.integers(0, used, (2, 2 * n)), n=n, symmetrize=not directed,
                               directed=directed, device=target)  # fmt: skip
    rounds = dict.fromkeys(("ROUND", "ROUND_GPU"), choices.round_edges)
    with team(threads), mock.patch.multiple(pagerank, **rounds):
        dynamic = morph.DynamicPageRank(g, choices.damping, choices.tolerance)
        dynamic.share = choices.share
        compare_large(dynamic)
        for size in rng.integers(0, 12, 2 if target == "python" else 5):
            more = {}
            if size == 3:
                alive = np.flatnonzero(host(g.points.alive))
                more["delete_points"] = rng.choice(alive, 2, replace=False)
            alive = np.setdiff1d(
                np.flatnonzero(host(g.points.alive)), more.get("delete_points", [])
            )
            ids = np.flatnonzero(host(g.edges.alive))
            src, dst = (host(a)[ids] for a in (g.edges.src, g.edges.dst))
            gone = rng.choice(ids[directed | (src < dst)], size, replace=False)
            dynamic.apply(tuple(rng.choice(alive, (2, size))), gone, **more)
            compare_large(dynamic)


@pytest.mark.parametrize("directed", [False, True])
def test_every_way_to_repair(target, directed):
    @tries({"python": 3, "cpu": 30, "cuda": 40}[target])
    @given(st.integers(0, 2**32 - 1), CHOICES, st.sampled_from([1, 3]))
    def check(seed, choices, threads):
        follow_at_random(target, seed, directed, choices, threads)

    check()


def test_few_pushes_after_a_change_of_a_large_graph():
    """The points near the change, although all ranks together are as far off as they may be."""
    g = morph.generate.grid(150, 150, device="cpu")
    dynamic, affected = morph.DynamicPageRank(g, tolerance=1e-4), []
    for _ in range(6):
        done = dynamic.apply(([7 * 150], [80 * 150 + 3]))
        assert done.decision == "repaired" and done.affected < len(g.points) / 30
        affected.append(done.affected)
    assert sum(map(bool, affected)) >= 3


def test_sums_over_a_component_do_not_fall_slowly():
    """A change of the mean takes one shift, not a factor of the damping for each iteration."""
    g = morph.generate.rmat(10, device="cpu")
    dynamic = morph.DynamicPageRank(g, damping=0.99, tolerance=1e-6)
    dynamic.share = 0.0
    done = dynamic.apply(deletes=np.flatnonzero(host(g.edges.src) < host(g.edges.dst))[:200])
    compare_large(dynamic)
    assert 0 < done.rounds < 60


def test_iterations_of_undirected_graphs_are_accelerated():
    """Beside those of the same arcs in a directed graph, whose eigenvalues might be complex."""
    rounds = []
    for directed in (False, True):
        grid = morph.generate.grid(40, 40, device="cpu")
        g = morph.Graph.from_edges(*grid.edge_list()[:2], n=1600, directed=directed, device="cpu")
        dynamic = morph.DynamicPageRank(g, tolerance=1e-9)
        dynamic.share = 0.0
        rounds.append(dynamic.apply(([0, 1599], [1599, 0])).rounds)
        compare_large(dynamic)
    assert 0 < 1.5 * rounds[0] < rounds[1]


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
    with pytest.raises(TypeError, match="partitioned graph"):
        morph.DynamicPageRank(morph.partition(g.to("cpu"), ["cpu"] * 2))
