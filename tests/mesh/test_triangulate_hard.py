"""Triangulation of hard inputs: last bits, extreme sizes, long segments, threads, bad input."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph.algorithms.triangulation import triangulate
from morph.algorithms.triangulation.delaunay import delaunay_tables
from morph.algorithms.triangulation.intersections import intersection, split_intersections
from morph.algorithms.triangulation.segments import insert_segments
from morph.testing import fail_allocation

seeds = st.integers(0, 2**32 - 1)
TRIANGLE = [[0, 0], [1, 0], [0, 1]]


def ring(n):
    return np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)


def canonical(triangles):
    """Triangles as a set, whatever their order and first corner."""
    return {min(t, t[1:] + t[:1], t[2:] + t[:2]) for t in map(tuple, triangles.tolist())}


def planar(rng, n, count):
    """Points, and random segments that do not cross: edges of some triangulation, flipped about."""
    points = rng.random((n, 2))
    order = np.argsort(np.arctan2(*(points - 0.5).T))
    at = np.sort(rng.permutation(n)[:count])
    return points, np.stack([order[at], order[np.roll(at, -1)]], axis=1)


def unique_pieces(mesh):
    return {tuple(sorted(s)) for s in mesh.segments.tolist()}


@tries(10)
@given(seed=seeds, n=st.integers(5, 60))
def test_the_triangulation_is_triangles(seed, n):
    triangle = pytest.importorskip("triangle")
    rng = np.random.default_rng(seed)
    points, segments = planar(rng, n, max(3, n // 3))
    mesh = morph.triangulate(points, segments, crossing="split", hull=True, device="cpu")
    if len(mesh.points) > n:  # the hull's angle of the polygon is over 180 degrees: it crosses
        return
    theirs = triangle.triangulate({"vertices": points, "segments": segments}, "pc")
    assert canonical(mesh.triangles) == canonical(theirs["triangles"])
    assert unique_pieces(mesh) == {tuple(sorted(s)) for s in theirs["segments"].tolist()}
    carved = morph.triangulate(points, segments, device="cpu")
    theirs = triangle.triangulate({"vertices": points, "segments": segments}, "p")
    if len(theirs.get("triangles", ())):
        assert canonical(carved.triangles) == canonical(theirs["triangles"])


def test_every_order_and_number_of_threads_gives_one_result(target, monkeypatch):
    rng = np.random.default_rng(5)
    n = 40 if target == "python" else 3000
    points, segments = planar(rng, n, n // 4)
    run = lambda: morph.triangulate(points, segments, hull=True, device=target)  # noqa: E731
    first, *others = everywhere(target, run)
    for few in (0, 9):  # in rounds; one by one
        monkeypatch.setattr(triangulate, "FEW_THREADS", few)
        others += everywhere(target, run)
    first.check()
    for mesh in others:
        assert canonical(mesh.triangles) == canonical(first.triangles)
        assert unique_pieces(mesh) == unique_pieces(first)


def test_crossing_segments_do_not_depend_on_the_number_of_threads(target, monkeypatch):
    """Few threads insert segments one by one, and in rounds once more to name two that cross."""
    rng = np.random.default_rng(6)
    n = 20 if target == "python" else 400
    points, segments = rng.random((n, 2)), rng.permutation(n).reshape(-1, 2)

    def run():
        with pytest.raises(ValueError, match="cross") as error:
            morph.triangulate(points, segments, device=target)
        mesh = morph.triangulate(points, segments, hull=True, crossing="split", device=target)
        return str(error.value), mesh.points.tolist(), canonical(mesh.triangles)

    found = []
    for few in (0, 9):
        monkeypatch.setattr(triangulate, "FEW_THREADS", few)
        found += everywhere(target, run)
    assert all(other == found[0] for other in found)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_every_allocation_can_fail(target, one_by_one):
    if one_by_one and not morph.device(target).on_host:
        pytest.skip("segments are inserted one by one on hosts")
    rng = np.random.default_rng(1)
    points = rng.random((12, 2))
    ends = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], np.int32)
    if one_by_one:  # the result then depends on the order of segments that cross
        points, ends = planar(rng, 30, 12)
        ends = ends.astype(np.int32)

    def insert(n):
        g = delaunay_tables(points, target)
        with fail_allocation(n, target) as fault:
            crossing = insert_segments(g, ends, one_by_one)
            pieces = split_intersections(g).pieces if len(crossing) else ends
        return canonical(host(g.triangles.node)), set(map(tuple, pieces.tolist())), fault

    want, n, fired = insert(10**6)[:2], 1, True
    while fired:
        *got, fault = insert(n)
        fired = fault.fired
        assert tuple(got) == want, n
        n += 1
    assert n > 20


def test_threads_at_once():
    rng = np.random.default_rng(2)
    inputs = [planar(rng, 200 + k, 40) for k in range(6)]
    with ThreadPoolExecutor(3) as pool:
        meshes = list(pool.map(lambda x: morph.triangulate(*x, hull=True, device="cpu"), inputs))
    for (points, _), mesh in zip(inputs, meshes, strict=True):
        mesh.check()
        assert np.array_equal(mesh.points[: len(points)], points)


@tries(8)
@given(seed=seeds, n=st.integers(4, 20), count=st.integers(1, 8))
def test_clusters_down_to_the_last_bit(target, seed, n, count):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 6, (n, 2)) * rng.choice([1, 1, 2**20, 2**40], (n, 1))
    points = np.unique(1 + bits * 2.0**-52, axis=0)
    if np.linalg.matrix_rank((points - points[0]) * 2.0**52) < 2:
        return
    segments = rng.integers(0, len(points), (count, 2))
    segments = segments[segments[:, 0] != segments[:, 1]]
    mesh = morph.triangulate(points, segments, crossing="split", hull=True, device=target)
    mesh.check()
    assert mesh.points.min() >= points.min() and mesh.points.max() <= points.max()


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e100, 1e300])
def test_any_magnitude(target, scale):
    rng = np.random.default_rng(3)
    points, segments = rng.random((20, 2)), rng.integers(0, 20, (12, 2))
    segments = segments[segments[:, 0] != segments[:, 1]]
    scale = 2.0 ** round(math.log2(scale))
    plain = morph.triangulate(points, segments, crossing="split", hull=True, device=target)
    scaled = morph.triangulate(points * scale, segments, crossing="split", hull=True, device=target)
    scaled.check()
    assert np.array_equal(scaled.points, plain.points * scale)
    assert canonical(scaled.triangles) == canonical(plain.triangles)


def test_magnitudes_together(target):
    points = np.array([[0, 0], [1e300, 0], [0, 1e300], [1e-300, 2e-300], [1, 1], [1e100, 1e80]])
    mesh = morph.triangulate(points, [[3, 1], [2, 5]], crossing="split", hull=True, device=target)
    mesh.check()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_segment_across_very_many_triangles(device):
    rng = np.random.default_rng(0)
    points = rng.random((30_000, 2))
    points[:4] = [[-1, 0.5], [2, 0.5001], [0.5, -1], [0.50001, 2]]
    mesh = morph.triangulate(points, [[0, 1]], hull=True, device=device)
    mesh.check()
    assert {0, 1} in [set(s) for s in mesh.segments.tolist()]
    both = morph.triangulate(points, [[0, 1], [2, 3]], crossing="split", hull=True, device=device)
    both.check()
    assert len(both.points) == len(points) + 1


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_hub_of_very_many_segments(device):
    n = 5000
    turn = np.linspace(0, 1.5, n)
    points = np.concatenate([[[0, 0]], np.stack([np.cos(turn), np.sin(turn)], axis=1)])
    points = np.concatenate([points, np.random.default_rng(0).random((n, 2)) * 0.5])
    segments = np.stack([np.zeros(n, int), np.arange(1, n + 1)], axis=1)
    mesh = morph.triangulate(points, segments, hull=True, device=device)
    mesh.check()
    assert {(0, i) for i in range(1, n + 1)} <= unique_pieces(mesh)


def test_many_nearly_parallel_segments_in_one_channel():
    n = 200
    y = np.linspace(0, 1e-3, n)
    points = np.concatenate([np.stack([np.zeros(n), y], 1), np.stack([np.ones(n), y], 1)])
    dust = np.random.default_rng(0).random((500, 2)) * [1, 0.2] - [0, 0.1]
    dust = dust[(dust[:, 1] < 0) | (dust[:, 1] > 1e-3)]
    points = np.concatenate([points, dust])
    segments = np.stack([np.arange(n), np.arange(n, 2 * n)], axis=1)
    mesh = morph.triangulate(points, segments, hull=True, device="cpu")
    mesh.check()
    assert {(i, n + i) for i in range(n)} <= unique_pieces(mesh)


def test_crossings_that_rounding_makes_end(target):
    """Lines through a few lattice cells of doubles: splitting one crossing bends others."""
    rng = np.random.default_rng(11)
    points = 1 + rng.integers(0, 12, (24, 2)) * 2.0**-52
    points, row = np.unique(points, axis=0, return_inverse=True)
    segments = row.ravel().reshape(-1, 2)
    segments = segments[segments[:, 0] != segments[:, 1]]
    mesh = morph.triangulate(points, segments, crossing="split", hull=True, device=target)
    mesh.check()


@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=8))
def test_a_crossing_is_rounded_once(numbers):
    a, b, c, d = (numbers[i : i + 2] for i in range(0, 8, 2))
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = (map(Fraction, p) for p in (a, b, c, d))
    below = (bx - ax) * (dy - cy) - (by - ay) * (dx - cx)
    if below == 0:
        return
    t = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / below
    s = ((cx - ax) * (by - ay) - (cy - ay) * (bx - ax)) / below
    if 0 <= t <= 1 and 0 <= s <= 1:
        assert intersection(a, b, c, d) == [float(ax + t * (bx - ax)), float(ay + t * (by - ay))]


def test_duplicates(target):
    points = np.array([[0, 0], [1, 0], [0, 1], [1, 0], [1, 1], [0, 0]], float)
    with pytest.raises(ValueError, match=r"points 1 and 3 have the same .* \(and 1 more\)"):
        morph.triangulate(points, device=target)
    graph = morph.Pslg(points, [[5, 3], [3, 1], [4, 0]], point_attributes=np.arange(6.0)[:, None])
    mesh = morph.triangulate(graph, duplicates="merge", hull=True, device=target)
    assert np.array_equal(mesh.points, points)
    mesh.check()
    assert set(np.unique(mesh.triangles)) == {0, 1, 2, 4} and len(mesh.triangles) == 2
    assert unique_pieces(mesh) == {(0, 1), (1, 4), (2, 4), (0, 2), (0, 4)}
    assert np.array_equal(mesh.point_attributes, graph.point_attributes)


def test_points_alone(target):
    points = np.random.default_rng(0).random((50, 2))
    mesh = morph.triangulate(points, device=target)
    mesh.check()
    assert (mesh.segment_markers == 1).all() and mesh.triangle_attributes.shape[1] == 0
    named = morph.triangulate(points, regions=[[0.5, 0.5, 4], [9, 9, 5]], device=target)
    assert (named.triangle_attributes == 4).all()
    assert len(morph.triangulate(points, holes=[[9, 9]], device=target).triangles)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ([], {}, "3"),
        ([[0, 0], [1, 0]], {}, "3"),
        ([[0, 0], [1, 1], [2, 2], [4, 4]], {}, "all lie on one line"),
        ([[0, 0], [1, 1], [2, 2]], {"segments": [[0, 2]]}, "all lie on one line"),
        ([[1, 1]] * 4, {}, "same coordinates|all lie on one line"),
        ([[0, 0], [1, 0], [0, math.nan]], {}, r"points\[2\] = .*: a number is not finite"),
        ([[0, 0], [math.inf, 0], [0, 1]], {}, r"points\[1\] = .*: a number is not finite"),
        ([[0, 0], [math.inf, 0], [-math.inf, 1]], {}, r"points\[1\] = .*: a number is not finite"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], {}, r"points must have shape \(any, 2\)"),
        ([["a", "b"]] * 3, {}, "points must hold numbers"),
        (TRIANGLE, {"segments": [[0, 3]]}, r"segments\[0\] = \[0, 3\]: an index must be in 0..2"),
        (TRIANGLE, {"segments": [[0, 1], [-1, 2]]}, r"segments\[1\] = \[-1, 2\]: an index"),
        (TRIANGLE, {"segments": [[1, 1]]}, r"segments\[0\] = \[1, 1\]: .* two different points"),
        (TRIANGLE, {"segments": [[0.0, 1.0]]}, "segments must hold integers, got float64"),
        (TRIANGLE, {"segments": [0, 1]}, r"segments must have shape \(any, 2\)"),
        (TRIANGLE, {"holes": [[0.2, math.nan]]}, r"holes\[0\] = .*: a number is not finite"),
        (TRIANGLE, {"holes": [[0.2, 0.2]]}, "every triangle is carved away"),
        (TRIANGLE, {"segments": ring(3), "holes": [[0.2, 0.2]]}, "every triangle is carved away"),
        (TRIANGLE, {"regions": [[0.2, 0.2]]}, r"regions must have shape \(any, 4\)"),
        (TRIANGLE, {"crossing": "ignore"}, "crossing is 'refuse' or 'split', not 'ignore'"),
        (TRIANGLE, {"duplicates": 1}, "duplicates is 'refuse' or 'merge', not 1"),
        (morph.Pslg(TRIANGLE), {"segments": [[0, 1]]}, "segments is given twice"),
    ],
)
def test_bad_input(source, options, message):
    with pytest.raises(ValueError, match=message):
        morph.triangulate(source, device="cpu", **options)


def test_finite_points_whose_sum_overflows():
    points = [[0, 0], [1.5e308, 0], [1.5e308, 1.5e308]]
    assert morph.Pslg(points).points.tolist() == points


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"segment_markers": [1, 2]}, r"segment_markers must have shape \(0,\)"),
        ({"point_markers": [0.5] * 3}, "point_markers must hold integers"),
        ({"point_markers": [0, 2**40, 1]}, "point_markers must hold integers from"),
        ({"point_attributes": [[1.0]]}, r"point_attributes must have shape \(3, any\)"),
        ({"base": 2}, "base is 0 or 1, not 2"),
    ],
)
def test_bad_graphs(options, message):
    with pytest.raises(ValueError, match=message):
        morph.Pslg(TRIANGLE, **options)


def test_a_graph_goes_through_a_file(tmp_path):
    graph = morph.Pslg(TRIANGLE, ring(3), [4, 5, 6], regions=[[0.2, 0.2, 3]], base=1)
    graph.write(tmp_path / "one.poly")
    again = morph.Pslg.read(tmp_path / "one.poly")
    assert again.segment_markers.tolist() == [4, 5, 6] and again.base == 1
    mesh = morph.triangulate(tmp_path / "one.poly", device="cpu")
    assert mesh.triangle_attributes.tolist() == [[3]] and mesh.base == 1
    assert sorted(mesh.segment_markers.tolist()) == [4, 5, 6]
