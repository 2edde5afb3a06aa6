"""Validation of meshes, against rational arithmetic, SciPy, and meshes broken by hand."""

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph import refine
from morph.mesh import Mesh, MeshError, compiled
from morph.mesh.validation import incircle, orientation, repeated_points
from morph.runtime import threads

SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.375]])
FAN = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def square() -> Mesh:
    return Mesh(SQUARE.copy(), FAN.copy())


def grid(wide, tall):
    corner = (np.arange(tall)[:, None] * (wide + 1) + np.arange(wide)).ravel()
    up = np.stack([corner, corner + 1, corner + wide + 2], axis=1)
    return up, np.stack([corner, corner + wide + 2, corner + wide + 1], axis=1)


# --- predicates ----------------------------------------------------------------------------------

tricky = st.one_of(
    st.integers(-3, 3).map(float),
    st.integers(-9, 9).map(lambda k: k * 0.1),
    st.integers(-3, 3).map(lambda k: 0.5 + k * 2.0**-53),
    st.sampled_from([1e-300, -1e-160, 1e-80, 1e100, -1e150, 5e-324, 12.0, 24.0, 1e16, 1e16 + 2]),
    st.floats(-1e200, 1e200),
)
point = st.tuples(tricky, tricky)


def sign(value):
    return (value > 0) - (value < 0)


def exact_orientation(a, b, c):
    a, b, c = ([Fraction(v) for v in p] for p in (a, b, c))
    return sign((a[0] - c[0]) * (b[1] - c[1]) - (a[1] - c[1]) * (b[0] - c[0]))


def exact_incircle(a, b, c, d):
    rows = []
    for p in (a, b, c):
        x, y = Fraction(p[0]) - Fraction(d[0]), Fraction(p[1]) - Fraction(d[1])
        rows.append((x, y, x * x + y * y))
    (ax, ay, aa), (bx, by, bb), (cx, cy, cc) = rows
    return sign(aa * (bx * cy - by * cx) - bb * (ax * cy - ay * cx) + cc * (ax * by - ay * bx))


@given(st.lists(point, min_size=4, max_size=4))
def test_signs_are_exact(points):
    array = np.array(points)
    corners = np.arange(4, dtype=np.int32)[:, None]
    a, b, c, d = corners
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "LEAST", 0)
        patch.setattr(compiled, "LEAST_MADE", 0)
        assert orientation(array, a, b, c)[0] == exact_orientation(*points[:3])
    assert orientation(array, a, b, c)[0] == exact_orientation(*points[:3])
    assert incircle(array, a, b, c, d)[0] == exact_incircle(*points)


def test_signs_of_many_at_once_near_a_line_and_a_circle():
    rng = np.random.default_rng(0)
    base = np.array([[12.0, 12.0], [24.0, 24.0], [0.5, 0.5]])
    points = np.concatenate([base, 0.5 + rng.integers(-4, 5, (300, 2)) * 2.0**-53])
    k = np.arange(3, len(points))
    zero = np.zeros_like(k)
    found = orientation(points, k, zero, zero + 1)
    assert found.tolist() == [exact_orientation(points[i], points[0], points[1]) for i in k]
    circle = np.array([[0.1, 0], [0, 0.1], [-0.1, 0], [0, -0.1]])
    points = np.concatenate([circle, circle[3] + rng.integers(-3, 4, (300, 2)) * 2.0**-58])
    k = np.arange(4, len(points))
    zero = np.zeros_like(k)
    found = incircle(points, zero, zero + 1, zero + 2, k)
    assert found.tolist() == [exact_incircle(*points[:3], points[i]) for i in k]
    assert set(found.tolist()) >= {-1, 1}


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
def test_repeated_points(least, monkeypatch):
    monkeypatch.setattr(compiled, "LEAST", least)
    monkeypatch.setattr(compiled, "LEAST_MADE", least)
    points = np.array([[1, 2], [3, 4], [-0.0, 1], [1, 2], [0.0, 1], [1, 2]])
    assert repeated_points(points).tolist() == [[0, 3], [2, 4], [3, 5]]
    assert len(repeated_points(np.random.default_rng(0).random((1000, 2)))) == 0
    assert len(repeated_points(np.array([[0.0, 0], [np.nan, 1], [np.nan, 1], [0, 1]]))) == 0


def test_repeated_points_among_parts_of_several_threads(monkeypatch):
    monkeypatch.setattr(compiled, "LEAST", 0)
    monkeypatch.setattr(threads, "_free_cores", lambda: 4)
    monkeypatch.setattr(threads, "get_num_threads", lambda: 4)
    points = np.random.default_rng(0).random((300_000, 2))
    for first, second in [(0, 299_999), (150_000, 150_001), (5, 40_000), (40_000, 5)]:
        again = points.copy()
        again[second] = again[first]
        assert compiled.has_repeated(again) is True
    for _ in range(5):
        assert compiled.has_repeated(points) is False
    points[:, 0], points[:, 1] = points[:, 0] > 2, np.arange(300_000)  # neighbouring hashes
    assert compiled.has_repeated(points) is False


def test_many_points_with_a_nan_are_no_chain_of_collisions(monkeypatch):
    """They took a time that is quadratic in their number: minutes here."""
    monkeypatch.setattr(compiled, "LEAST", 0)
    started = time.process_time()
    assert compiled.has_repeated(np.full((300_000, 2), np.nan)) is False
    assert time.process_time() - started < 10


def test_indices_out_of_range_are_not_read(monkeypatch):
    """They reach NumPy, which raises or counts them from the end."""
    monkeypatch.setattr(compiled, "LEAST", 0)
    monkeypatch.setattr(compiled, "LEAST_MADE", 0)
    a, b, c = np.array([[0, 1, -1]], np.int32).T
    assert orientation(SQUARE, a, b, c) == orientation(SQUARE, a, b, c + len(SQUARE))
    with pytest.raises(IndexError):
        orientation(SQUARE, a, b, c + len(SQUARE) + 1)
    triangles = np.array([[0, 1, 2**31 - 1]], np.int32)
    assert compiled.paired(triangles, 3) is None and compiled.paired(triangles - 2, 3) is None


# --- validation of broken meshes -----------------------------------------------------------------


def broken(change):
    mesh = square()
    change(mesh)
    return {v.name: v for v in mesh.violations()}


def test_validation_names_what_is_broken():
    def clockwise(mesh):
        mesh.triangles[1] = [2, 1, 4]

    assert "triangle 1 is clockwise" in broken(clockwise)["orientation"].message

    def flat(mesh):
        mesh.points[4] = [0.5, 0]

    assert "triangle 0 is degenerate" in broken(flat)["orientation"].message

    def corner(mesh):
        mesh.triangles[2] = [2, 2, 4]

    assert "triangle 2 repeats a corner" in broken(corner)["corners"].message

    def outside(mesh):
        mesh.triangles[3, 0] = 5

    assert broken(outside)["index"].message == "triangles[3] = [5, 0, 4] is outside 0..4"

    def infinite(mesh):
        mesh.points[2, 1] = np.inf

    assert broken(infinite)["finite"].ids.tolist() == [2]

    def short(mesh):
        mesh.neighbors = mesh.neighbors[:3]

    assert "neighbors has shape (3, 3), expected (4, 3)" in broken(short)["shape"].message

    def asymmetric(mesh):
        mesh.neighbors[0] = [3, 1, -1]

    assert 0 in broken(asymmetric)["neighbour"].ids

    def forgotten(mesh):
        mesh.neighbors[0, 0] = mesh.neighbors[1, 1] = -1

    found = broken(forgotten)
    assert "lacks a neighbour" in found["neighbour"].message
    assert found["neighbour"].ids.tolist() == [0, 1]

    def twice(mesh):
        mesh.triangles[1] = [4, 0, 1]

    found = broken(twice)
    assert found["duplicate-triangle"].ids.tolist() == [0, 1]
    assert "edge-use" in found

    def unbounded(mesh):
        mesh.segments, mesh.segment_markers = mesh.segments[1:], mesh.segment_markers[1:]

    assert "hull edge that is no segment" in broken(unbounded)["hull"].message

    def crossing(mesh):
        mesh.segments[0] = [0, 2]

    assert "segment 0 (0, 2) is not an edge" in broken(crossing)["segment"].message

    def repeated(mesh):
        mesh.segments[1] = mesh.segments[0][::-1]

    assert broken(repeated)["duplicate-segment"].ids.tolist() == [1]

    def same_place(mesh):
        mesh.points[4] = mesh.points[0]

    assert broken(same_place)["duplicate-point"].ids.tolist() == [4]


def test_points_of_no_triangle_are_free():
    Mesh(np.concatenate([SQUARE, SQUARE[:2], [[0.6, 0.5]]]), FAN).check()


def test_validation_sees_a_star_that_goes_round_twice():
    angles = np.arange(10) * (4 * np.pi / 10)
    radius = np.where(np.arange(10) < 5, 1, 1.1)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) * radius[:, None]
    points = np.concatenate([ring, [[0.0, 0.0]]])
    triangles = np.array([[k, (k + 1) % 10, 10] for k in range(10)])
    names = {v.name: v for v in Mesh(points, triangles).violations()}
    assert names["star"].ids.tolist() == [10]


def test_validation_on_delaunay():
    points = np.array([[0, 0], [3, -1], [6, 0], [3, 1.0]])
    bad = Mesh(points, np.array([[0, 1, 2], [0, 2, 3]]))
    assert [v.name for v in bad.violations()] == ["delaunay"]
    with pytest.raises(MeshError, match="delaunay: triangle 0 has a corner of a neighbour"):
        bad.check()
    Mesh(points, np.array([[0, 1, 2], [0, 2, 3]]), segments=[[0, 2]]).check()  # constrained
    Mesh(points, np.array([[0, 1, 3], [1, 2, 3]])).check()


def test_validation_on_conforming_delaunay(target):
    """The longer diagonal of a rhombus is a segment; Delaunay's is the other."""
    points = np.array([[0, 0], [3, -1], [6, 0], [3, 1.0]])
    mesh = Mesh(points, np.array([[0, 1, 2], [0, 2, 3]]), segments=[[0, 2]])
    mesh.check()
    assert [(v.name, v.ids.tolist()) for v in mesh.violations(conforming=True)] == [
        ("conforming", [0])
    ]
    with pytest.raises(MeshError, match="conforming: triangle 0 has a corner of a neighbour"):
        mesh.check(conforming=True)
    refine(mesh, 20, device=target, conforming=True).check(conforming=True)


def test_cocircular_points_are_delaunay_either_way():
    up, down = grid(8, 8)
    x, y = np.meshgrid(np.arange(9) * 0.1, np.arange(9) * 0.1)
    Mesh(np.stack([x.ravel(), y.ravel()], axis=1), np.concatenate([up, down])).check()


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-100, 1.0, 1e100]))
def test_validation_agrees_with_scipy(seed, scale):
    delaunay = pytest.importorskip("scipy.spatial").Delaunay
    rng = np.random.default_rng(seed)
    points = rng.random((int(rng.integers(4, 60)), 2))
    triangles = delaunay(points).simplices
    a, b, c = points[triangles].transpose(1, 0, 2)
    turned = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) < (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    triangles[turned] = triangles[turned][:, ::-1]
    mesh = Mesh(points * scale, triangles)
    assert [v for v in mesh.violations() if v.name != "delaunay"] == []
    # one flipped edge must be found, unless the four corners are nearly cocircular
    inner = np.argwhere(mesh.neighbors >= 0)
    if len(inner):
        t, k = inner[int(rng.integers(len(inner)))]
        u = mesh.neighbors[t, k]
        p, q, r = np.roll(mesh.triangles[t], -k)
        s = mesh.triangles[u].sum() - q - r
        flipped = mesh.triangles.copy()
        flipped[t], flipped[u] = [p, q, s], [p, s, r]
        ids = np.array([[p, q, s], [p, s, r]])
        if (orientation(mesh.points, *ids.T) > 0).all():
            assert "delaunay" in {v.name for v in Mesh(mesh.points, flipped).violations()}
