"""Validation of meshes that are locally valid everywhere, and overlap."""

import itertools

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay
from targets import examples

from morph.mesh import Mesh, MeshError


def cross(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def turned(points, triangles):
    """The triangles counter-clockwise; those without area left out."""
    p, q, r = points[triangles].transpose(1, 2, 0)
    area = cross(p, q, r)
    triangles = np.where((area < 0)[:, None], triangles[:, [0, 2, 1]], triangles)
    return triangles[area != 0].astype(np.int32)


def apart(s, t):
    """Whether two counter-clockwise triangles share no inner point: an edge parts them."""
    return any(
        all(cross(u[k - 1], u[k], p) <= 0 for p in v) for u, v in ((s, t), (t, s)) for k in range(3)
    )


def touch(a, b, c, d):
    """Whether segments ab and cd share a point that is not an end of both."""
    between = lambda p, q, x: (  # noqa: E731
        cross(p, q, x) == 0 and min(p, q) <= x <= max(p, q) and x not in (p, q)
    )
    if between(a, b, c) or between(a, b, d) or between(c, d, a) or between(c, d, b):
        return True
    if {a, b} == {c, d}:
        return True
    signs = [np.sign(v) for v in (cross(a, b, c), cross(a, b, d), cross(c, d, a), cross(c, d, b))]
    return signs[0] * signs[1] < 0 and signs[2] * signs[3] < 0


def slow_verdict(mesh):
    """Overlapping triangles, and hull edges that meet elsewhere than at common ends."""
    corners = [[tuple(map(int, mesh.points[i])) for i in t] for t in mesh.triangles]
    over = any(not apart(s, t) for s, t in itertools.combinations(corners, 2))
    hull = [
        (corners[t][(k + 1) % 3], corners[t][(k + 2) % 3])
        for t, k in np.argwhere(mesh.neighbors < 0)
    ]
    return over, any(touch(*e, *f) for e, f in itertools.combinations(hull, 2))


def names(mesh):
    return {v.name for v in mesh.violations()}


@st.composite
def shifted_meshes(draw):
    """Some triangles of a triangulation, one point or a whole part of it moved elsewhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = np.unique(rng.integers(0, 9, (int(rng.integers(4, 15)), 2)), axis=0) * 1.0
    points = np.concatenate([points, [[-1, -1], [10, -1], [4, 11]]])
    triangles = turned(points, Delaunay(points).simplices)
    triangles = triangles[rng.random(len(triangles)) < draw(st.sampled_from([0.5, 0.8, 1]))]
    if draw(st.booleans()):  # a second sheet
        keep = rng.random(len(triangles)) < 0.5
        triangles = np.concatenate([triangles, triangles[keep] + len(points)])
        scale = draw(st.sampled_from([1, 2, 4]))
        points = np.concatenate([points * scale, points + rng.integers(-20, 40, 2)])
    if draw(st.booleans()):
        points[rng.integers(len(points))] += rng.integers(-4, 5, 2)
    return points, triangles


@settings(max_examples=examples(300))
@given(shifted_meshes())
def test_overlap_against_every_pair(shape):
    points, triangles = shape
    mesh = Mesh(points, triangles)
    found = names(mesh) - {"delaunay", "duplicate-point"}
    areas = mesh.areas()
    if (areas <= 0).any():
        assert found == {"orientation"}
        return
    over, meets = slow_verdict(mesh)
    assert bool(found & {"star", "overlap"}) == (over or meets), found
    assert found <= {"star", "overlap"}
    for scale in (2.0**-330, 2.0**330):  # about 1e-100 and 1e100
        assert names(Mesh(points * scale, triangles)) - {"delaunay", "duplicate-point"} == found
    if not found:
        union = shapely.union_all(shapely.polygons(points[triangles]))
        assert union.area == pytest.approx(areas.sum(), rel=1e-12)


def disc(x, y, radius, n=12):
    """A fan around (x, y)."""
    angle = np.arange(n) * 2 * np.pi / n
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius + [x, y]
    k = np.arange(n)
    return np.concatenate([ring, [[x, y]]]), np.stack([k, (k + 1) % n, k * 0 + n], axis=1)


def strip(turns, n=24, width=1.0, climb=0.0):
    """A band that winds around the origin, from triangle to triangle."""
    steps = int(turns * n) + 1
    angle = np.arange(steps) * 2 * np.pi / n
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    radius = 1 + climb * np.arange(steps)[:, None] / n
    k = np.arange(steps - 1)
    low = np.stack([k, k + steps, k + 1], axis=1)
    high = np.stack([k + 1, k + steps, k + 1 + steps], axis=1)
    return np.concatenate([way * radius, way * (radius + width)]), np.concatenate([low, high])


def together(*parts):
    offsets = np.cumsum([0, *(len(p) for p, _ in parts[:-1])])
    return Mesh(
        np.concatenate([p for p, _ in parts]),
        np.concatenate([t + k for (_, t), k in zip(parts, offsets, strict=True)]),
    )


@pytest.mark.parametrize(
    ("parts", "good"),
    [
        ([disc(0, 0, 1), disc(3, 0, 1)], True),
        ([disc(0, 0, 5), disc(0.1, 0.2, 1)], False),  # no hull edges cross
        ([disc(0.1, 0.2, 1), disc(0, 0, 5)], False),
        ([disc(0, 0, 1), disc(1.5, 0, 1)], False),
        ([strip(0.9)], True),
        ([strip(0.9), disc(0, 0, 0.9)], True),  # in the hole
        ([strip(0.9), disc(0, 0, 0.9), disc(0.1, 0, 0.1)], False),
        ([strip(0.9), disc(1.5, 0, 0.1)], False),
        ([strip(1.3, n=24.5)], False),  # each point is good, and so is each hull edge's end
        ([strip(1.3)], False),  # some points are there twice, exactly or nearly
        ([strip(1.3, climb=0.5)], False),
        ([strip(3.7, climb=1.5)], True),  # a spiral
        ([strip(3.7, climb=1.5), strip(3.4, climb=1.5)], False),
    ],
)
def test_sheets(parts, good):
    mesh = together(*parts)
    corners = shapely.polygons(mesh.points[mesh.triangles])
    union = shapely.union_all(corners, grid_size=1e-12)
    assert (mesh.areas().sum() - union.area < 1e-6) == good
    assert (not names(mesh) & {"star", "overlap"}) == good


def test_a_fan_beyond_a_full_turn():
    # from 10 to 410 degrees: one far edge crosses the ray to the right, as in a good fan
    angle = np.radians(np.arange(10, 411, 40))
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.linspace(1, 2, 11)[:, None]
    k = np.arange(10)
    mesh = Mesh(np.concatenate([ring, [[0, 0]]]), np.stack([k, k + 1, k * 0 + 11], axis=1) % 12)
    mesh.triangles[:, 2] = 11
    found = {v.name: v for v in mesh.violations()}
    assert found["star"].ids.tolist() == [11]


def test_a_point_on_an_edge():
    points = np.array([[0, 0], [2, 0], [1, 2], [1, 0], [1, -1.0]])
    mesh = Mesh(points, np.array([[0, 1, 2], [0, 4, 3], [4, 1, 3]]))
    with pytest.raises(MeshError, match=r"overlap: hull edges \(\d, \d\) and \(\d, \d\) cross or"):
        mesh.check()


def test_a_crack():
    points = np.array([[0, 0], [2, 0], [1, 2], [0, 0], [1, -2], [2, 0.0]])
    assert names(Mesh(points, np.array([[0, 1, 2], [3, 4, 5]]))) == {"overlap", "duplicate-point"}


def test_parts_that_meet_at_a_point_given_twice():
    points = np.array([[28, 24], [28, 16], [32, 32], [40, 34], [33, 33], [32, 32.0]])
    assert names(Mesh(points, np.array([[0, 1, 2], [3, 4, 5]]))) == {"duplicate-point"}
    points[3] = 28, 20  # now one lies over the other there
    points[4] = 30, 24
    assert names(Mesh(points, np.array([[0, 1, 2], [3, 4, 5]]))) == {"star", "duplicate-point"}


def test_a_chequered_board_is_good():
    x, y = np.meshgrid(np.arange(40.0), np.arange(40.0))
    corner = (np.arange(39)[:, None] * 40 + np.arange(39)).ravel()
    corner = corner[(corner // 40 + corner % 40) % 2 == 0]
    up = np.stack([corner, corner + 1, corner + 41], axis=1)
    down = np.stack([corner, corner + 41, corner + 40], axis=1)
    Mesh(np.stack([x.ravel(), y.ravel()], axis=1), np.concatenate([up, down])).check()
