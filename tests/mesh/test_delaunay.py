"""Delaunay triangulation, against SciPy where it is unique, else by exact predicates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay
from targets import examples

import morph
from morph.algorithms.triangulation import delaunay, insertion
from morph.algorithms.triangulation.delaunay import HULL, delaunay_tables
from morph.algorithms.triangulation.insertion_order import (
    draw,
    hilbert_order,
    insertion_rounds,
    strided_blocks,
)
from morph.mesh.validation import orientation
from morph.testing import fail_allocation, team

few = settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def early(monkeypatch, request):
    """Let points be sorted, and inserted in parallel from the start, unless there are many."""
    monkeypatch.setattr(delaunay, "FEW", 0)
    if "many" not in request.node.name:
        monkeypatch.setattr(delaunay, "FIRST_ROUNDS", 2)
        monkeypatch.setattr(delaunay, "SEQUENTIAL", 8)


def arrays(points, target):
    """The triangulation's corners, edge codes and first points of equal coordinates."""
    g = delaunay_tables(points, target)
    host = g.device.to_host
    assert np.array_equal(host(g.points.xy.array), points)
    return (host(a.array) for a in (g.triangles.node, g.triangles.opposite, g.points.same))


def triangulated(points, target):
    """Triangulate, and hold the result against all that is promised; gives the triangles."""
    points = np.asarray(points, float)
    node, opposite, same = arrays(points, target)

    _, rows, which = np.unique(points, axis=0, return_index=True, return_inverse=True)
    first = rows[which.ravel()]  # unique gives the least row of each
    assert np.array_equal(same, np.where(first == np.arange(len(points)), -1, first))
    assert np.array_equal(np.unique(node), np.sort(rows))  # every other point is a corner

    t, k = np.nonzero(opposite >= 0)
    assert np.array_equal(opposite[opposite[t, k] >> 2, opposite[t, k] & 3], 4 * t + k)
    assert (opposite[opposite < 0] == HULL).all()
    mesh = morph.Mesh(points, np.ascontiguousarray(node), np.where(opposite < 0, -1, opposite >> 2))
    assert [v for v in mesh.violations() if v.name != "duplicate-point"] == []

    t, k = np.nonzero(opposite < 0)
    begin, end = node[t, (k + 1) % 3], node[t, (k + 2) % 3]
    assert len(node) == 2 * len(rows) - 2 - len(begin)  # Euler: one polygon, no holes
    after = dict(zip(begin.tolist(), end.tolist(), strict=True))
    corner = np.array([after[e] for e in end.tolist()])
    assert (orientation(points, begin, end, corner) >= 0).all()  # and it is convex
    return node


def as_set(triangles):
    return set(map(tuple, np.sort(triangles, axis=1).tolist()))


@few
@given(n=st.integers(3, 40), seed=st.integers(0, 2**31))
def test_as_scipy(target, n, seed):
    points = np.random.default_rng(seed).random((n, 2))
    assert as_set(triangulated(points, target)) == as_set(Delaunay(points).simplices)


def test_many_points():
    """Enough for rounds of several threads, and for claims that are lost."""
    points = np.random.default_rng(5).random((40_000, 2))
    with team(4):
        found = as_set(triangulated(points, "cpu"))
    assert found == as_set(Delaunay(points).simplices)


def test_points_of_large_cavities_are_inserted_before_the_next_round(monkeypatch):
    """Otherwise the point location of their children starts far away."""
    inner, run, sizes = delaunay.insert_rounds, insertion.foreach, []

    def insert_rounds(g, order, *rest):
        def traced(items, kernel, *args):
            if kernel is insertion.enqueue:
                earlier = order.point.array[: sum(sizes)]
                assert (g.points.triangle.array[earlier] >= 0).all()
                sizes.append(len(items))
            run(items, kernel, *args)

        monkeypatch.setattr(insertion, "foreach", traced)
        return inner.__wrapped__(g, order, *rest)

    monkeypatch.setattr(delaunay, "insert_rounds", insert_rounds)
    turn = np.linspace(1, 12, 500)[:, None]
    arm = turn * np.concatenate([np.cos(turn), np.sin(turn)], axis=1)
    with team(1):
        triangulated(np.concatenate([arm, arm * (1 + 1 / turn)]), "cpu")
    assert sizes == [63, 62, 125, 250, 500]


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_threads_that_meet_at_every_point(threads):
    rng = np.random.default_rng(threads)
    points = rng.random((700, 2))
    with team(threads):
        assert as_set(triangulated(points, "cpu")) == as_set(Delaunay(points).simplices)
        triangulated(rng.integers(0, 12, (700, 2)), "cpu")


def test_every_allocation_can_fail(target):
    points = np.random.default_rng(4).integers(0, 4, (12, 2))
    n = 0
    fired = True
    while fired:
        n += 1 if target != "python" else 4
        with team(4), fail_allocation(n, target) as fault:
            triangulated(points, target)
        fired = fault.fired
    assert n > 20


@pytest.mark.gpu
def test_many_points_on_a_gpu():
    points = np.random.default_rng(6).random((300_000, 2))
    assert as_set(triangulated(points, "cuda")) == as_set(triangulated(points, "cpu"))
    import cupy

    g = delaunay_tables(cupy.asarray(points[:1000]), "cuda")
    assert len(g.triangles) == len(Delaunay(points[:1000]).simplices)


def test_a_grid_of_many_points():
    side = np.arange(200.0)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    assert len(triangulated(points, "cpu")) == 2 * 199 * 199


LATTICE = st.tuples(st.integers(0, 6), st.integers(0, 6))


@few
@given(points=st.lists(LATTICE, min_size=3, max_size=40), scale=st.integers(0, 4))
@example(points=[(0, 0), (1, 1), (2, 2), (3, 3), (3, 2)], scale=0)
@example(points=[(0, 0), (0, 1), (0, 0), (1, 0), (0, 1), (0, 0)], scale=0)
def test_lattices(target, points, scale):
    """Points on circles, on lines and on one another, at any size."""
    factor = [1.0, 1e-100, 1e100, 5e-324, 2.9e307][scale]
    points = np.array(points, float) * factor
    distinct = np.unique(points, axis=0)
    a = np.zeros(len(distinct), int)
    flat = len(distinct) < 3 or not orientation(distinct, a, a + 1, np.arange(len(distinct))).any()
    if flat:
        with pytest.raises(ValueError, match="all lie on one line"):
            delaunay_tables(points, target)
    else:
        triangulated(points, target)


@few
@given(
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([1.0, 1e-100, 1e100]),
    slope=st.sampled_from([0.0, 1.0, 1 / 3]),
)
def test_almost_on_a_line(target, seed, scale, slope):
    """No more than the last bits keep these from being one line."""
    rng = np.random.default_rng(seed)
    x = rng.random(30) + 1
    y = slope * x + 1 + rng.integers(-1, 2, 30) * 2.0**-52
    triangulated(np.stack([x, y], axis=1) * scale, target)


@few
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([1.0, 1e-100, 1e100]))
def test_clusters_down_to_the_last_bit(target, seed, scale):
    rng = np.random.default_rng(seed)
    centre = rng.random((3, 2)) + 1
    bits = rng.integers(-3, 4, (3, 15, 2)) * 2.0**-52
    triangulated((centre[:, None] + bits).reshape(-1, 2) * scale, target)


def test_crowded_points():
    """So near one another that their places on the curve are one: ranks are sorted instead."""
    rng = np.random.default_rng(1)
    dense = 1 + rng.integers(0, 4000, (3000, 2)) * 2.0**-52
    far = np.array([[0, 0], [1e100, 0], [0, 1e100]])
    triangulated(np.concatenate([far, dense]), "cpu")


@pytest.mark.parametrize("n", [30, 130])
def test_large_cavities(target, n):
    """The centre of a circle, and a point that sees a long side of the hull."""
    turn = np.linspace(0, 2 * np.pi, n, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    inside = np.random.default_rng(2).random((5, 2)) * 1e-9
    x = np.arange(n)
    parabola = np.stack([x, x * x * 1e-3 + 50], axis=1)
    triangulated(np.concatenate([circle, inside]), target)
    triangulated(np.concatenate([parabola, [[n / 2, -1e6]], [[n / 2 + 0.5, -1e6]]]), target)


def test_large_cavities_beside_one_another():
    turn = np.linspace(0, 2 * np.pi, 3000, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    inside = np.random.default_rng(3).normal(0, 1e-3, (3000, 2))
    triangulated(np.concatenate([circle, inside, circle + 5, inside + 5]), "cpu")


def test_what_is_refused(target):
    line = np.stack([np.arange(9.0), 3 * np.arange(9.0)], axis=1)
    bad = line.copy()
    bad[4, 1] = np.nan
    for points, message in (
        (line[:2], "points: 2, but from 3"),
        (line, "points: all lie on one line"),
        (line[[1, 1, 1, 1]], "points: all lie on one line"),
        (bad, r"points: point 4 is at \[4.0, nan\]"),
        (line.ravel(), r"points: shape \(18,\), expected \(n, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            delaunay_tables(points, target)


def test_the_curve_visits_neighbours(target):
    side = np.arange(8.0)
    cells = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    table = morph.Table("points", target, xy=(np.float64, 2))
    table.extend(xy=np.random.default_rng(0).permutation(cells))
    order = table.device.to_host(hilbert_order(table))
    path = table.device.to_host(table.xy.array)[order]
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


@given(n=st.integers(1, 300))
def test_rounds(n):
    g, order = morph.Graph("cpu"), morph.Table("order", "cpu", point=np.int32)
    g.points.add("parent", morph.Ref("points"))
    g.points.extend(n), order.extend(n)
    morph.foreach(order, draw, g.points, n)
    levels, parent = np.split(order.point.array, insertion_rounds(n)[:-1]), g.points.parent.array
    assert np.array_equal(np.sort(np.concatenate(levels)), np.arange(n))
    done = levels[0]
    assert len(done) == 1 and parent[done[0]] == done[0]
    for level in levels[1:]:
        assert np.isin(parent[level], done).all() and (np.diff(level) > 0).all()
        assert len(level) in (len(done), len(done) - 1)
        done = np.concatenate([done, level])


@given(n=st.integers(0, 300), together=st.integers(1, 20), apart=st.integers(1, 9))
def test_spread(n, together, apart):
    out = strided_blocks(np.arange(n), together, apart)
    assert np.array_equal(np.sort(out), np.arange(n))
    whole = n // (together * apart) * apart
    for turn in out[: whole * together].reshape(-1, together):
        assert (np.diff(turn) == apart).all()
