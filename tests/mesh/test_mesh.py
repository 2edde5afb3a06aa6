"""Meshes: derived arrays, refusals, attributes; quality against a slow reference."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morph
import morph.mesh.quality as quality_module
from morph.mesh import MeshError, compiled
from morph.mesh.mesh import Mesh, find_neighbors

SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.375]])
FAN = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def square() -> Mesh:
    return Mesh(SQUARE.copy(), FAN.copy())


def test_what_is_missing_is_worked_out():
    mesh = square()
    assert mesh.neighbors.tolist() == [[1, 3, -1], [2, 0, -1], [3, 1, -1], [0, 2, -1]]
    assert sorted(map(sorted, mesh.segments.tolist())) == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert mesh.segment_markers.tolist() == [1, 1, 1, 1]
    assert mesh.point_markers.tolist() == [1, 1, 1, 1, 0]
    assert mesh.point_attributes.shape == (5, 0)
    assert mesh.triangle_attributes.shape == (4, 0)
    assert mesh.triangles.dtype == mesh.neighbors.dtype == mesh.segments.dtype == np.int32
    mesh.check()


def test_an_inner_segment_is_unmarked():
    mesh = Mesh(SQUARE, FAN, segments=[[0, 4], [0, 1]])
    assert mesh.segments[:2].tolist() == [[0, 4], [0, 1]]
    assert mesh.segment_markers.tolist() == [0, 1, 1, 1, 1]


def test_no_triangles():
    mesh = Mesh(np.zeros((0, 2)), np.zeros((0, 3), np.int32))
    mesh.check()
    assert mesh.quality().to_dict()["min_angle"] is None
    assert Mesh(SQUARE, []).neighbors.shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": np.zeros(4)}, r"points must have shape \(any, 2\), got \(4,\)"),
        ({"triangles": FAN[:, :2]}, r"triangles must have shape \(any, 3\), got \(4, 2\)"),
        ({"triangles": FAN + 0.0}, "triangles must hold integers, got float64"),
        ({"triangles": FAN + 1}, r"triangles\[0\] = \[1, 2, 5\]: an index must be in 0..4"),
        ({"segments": [[0, -1]]}, r"segments\[0\] = \[0, -1\]: an index must be in 0..4"),
        ({"neighbors": FAN}, r"neighbors\[0\] = \[0, 1, 4\]: an index must be in -1..3"),
        ({"neighbors": FAN[:1] - 4}, r"neighbors\[0\] = \[-4, -3, 0\]"),
        ({"neighbors": [[-1, -1, -1]]}, "neighbors has 1 rows for 4 triangles"),
        ({"point_markers": [1]}, r"point_markers must have shape \(5,\), got \(1,\)"),
        ({"segments": [[0, 1]], "segment_markers": [1, 2]}, r"segment_markers must have shape"),
        ({"point_attributes": np.ones((4, 1))}, r"point_attributes must have shape \(5, any\)"),
        ({"triangle_attributes": np.ones(4)}, r"triangle_attributes must have shape \(4, any\)"),
        ({"holes": np.ones((1, 3))}, r"holes must have shape \(any, 2\)"),
        ({"point_markers": np.ones(5)}, "point_markers must hold integers, got float64"),
        (
            {"point_markers": [2**31, 0, 0, 0, 0]},
            "point_markers must hold integers from -2147483648",
        ),
        ({"points": SQUARE.astype(str)}, "points must hold numbers, got <U32"),
        ({"triangles": FAN > 0}, "triangles must hold integers, got bool"),
        (
            {"neighbors": np.zeros((4, 2), int)},
            r"neighbors must have shape \(any, 3\), got \(4, 2\)",
        ),
        ({"triangles": FAN[[0, 1, 0]]}, "triangles 0 and 2 lie on the same side of edge"),
        ({"triangles": [[0, 1, 4], [0, 1, 2]]}, "triangles 0 and 1 lie on the same side of edge"),
    ],
)
def test_refused_arrays(change, message):
    with pytest.raises(ValueError, match=message):
        Mesh(**{"points": SQUARE, "triangles": FAN, **change})


def slow_neighbors(triangles):
    sides = {}
    for t, corners in enumerate(triangles.tolist()):
        for k in range(3):
            sides[corners[(k + 1) % 3], corners[(k + 2) % 3]] = t, k
    out = np.full(triangles.shape, -1)
    for (a, b), (t, k) in sides.items():
        out[t, k] = sides.get((b, a), (-1, 0))[0]
    return out


@given(
    *(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1)),
    *(st.booleans(), st.integers(1, 9), st.sampled_from([0, 1, 8, 1 << 30])),
)
def test_neighbors_against_a_dictionary(wide, tall, seed, wide_words, group_bits, block):
    rng = np.random.default_rng(seed)
    triangles = np.concatenate(grid(wide, tall)).astype(np.int32)
    triangles = triangles[rng.permutation(len(triangles))][: int(rng.integers(1, 99))]
    triangles = rng.permutation(100).astype(np.int32)[triangles]
    with pytest.MonkeyPatch.context() as patch:
        if wide_words:  # as if higher points did not fit the words
            patch.setattr("morph.mesh.halfedges.WORD_BITS", 0)
        patch.setattr("morph.mesh.halfedges._GROUP_BITS", group_bits)
        least = 0 if block else 1 << 30
        patch.setattr(compiled, "LEAST", least)
        patch.setattr(compiled, "LEAST_MADE", least)
        patch.setattr(compiled, "_BLOCK", block)
        found = find_neighbors(triangles, 100)
    assert found.tolist() == slow_neighbors(triangles).tolist()


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
def test_triangles_on_one_side_of_an_edge(least, monkeypatch):
    monkeypatch.setattr(compiled, "LEAST", least)
    monkeypatch.setattr(compiled, "LEAST_MADE", least)
    triangles = np.concatenate(grid(30, 30)).astype(np.int32)
    triangles[700] = triangles[40]
    with pytest.raises(
        MeshError, match=r"triangles 40 and 700 lie on the same side of edge \(41, "
    ):
        find_neighbors(triangles, 31 * 31)


def grid(wide, tall):
    corner = (np.arange(tall)[:, None] * (wide + 1) + np.arange(wide)).ravel()
    up = np.stack([corner, corner + 1, corner + wide + 2], axis=1)
    return up, np.stack([corner, corner + wide + 2, corner + wide + 1], axis=1)


def test_quality_of_known_triangles():
    mesh = Mesh(np.array([[0, 0], [2, 0], [0, 2.0], [2, 2]]), np.array([[0, 1, 2], [1, 3, 2]]))
    quality = mesh.quality()
    assert quality.min_angle == pytest.approx(45)
    assert quality.max_angle == pytest.approx(90)
    assert (quality.area, quality.min_area, quality.max_area) == (4, 2, 2)
    assert (quality.points, quality.triangles, quality.segments) == (4, 2, 4)
    assert sum(quality.histogram) == 6
    assert quality.histogram[4] + quality.histogram[9] == 6
    assert quality.to_dict()["histogram"] == list(quality.histogram)


def slow_shapes(points, corners):
    """Angles, area, aspect, radius-edge by the cosine rule and Heron's formula."""
    a, b, c = (math.dist(points[corners[k - 2]], points[corners[k - 1]]) for k in range(3))
    half = (a + b + c) / 2
    area = math.sqrt(half * (half - a) * (half - b) * (half - c))
    angles = [
        math.degrees(math.acos((y * y + z * z - x * x) / (2 * y * z)))
        for x, y, z in ((a, b, c), (b, c, a), (c, a, b))
    ]
    longest = max(a, b, c)
    return angles, area, longest * longest / (2 * area), a * b * c / (4 * area) / min(a, b, c)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-60, 1.0, 1e60]), st.integers(1, 40))
def test_shapes_against_the_cosine_rule(seed, scale, chunk):
    rng = np.random.default_rng(seed)
    points = rng.random((12, 2)) + np.arange(12)[:, None] % 3 * [3, 0] + [0, 0]
    points[:, 1] += np.arange(12) % 2 * 5.0
    corners = np.arange(12).reshape(-1, 3)
    p, q, r = points[corners].transpose(1, 0, 2)
    turn = (q[:, 0] - p[:, 0]) * (r[:, 1] - p[:, 1]) < (q[:, 1] - p[:, 1]) * (r[:, 0] - p[:, 0])
    corners[turn] = corners[turn][:, ::-1]
    mesh = Mesh(points * scale, corners)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(quality_module.CHUNK, "numpy", chunk)
        quality, found = mesh.quality(), [mesh.angles(), mesh.areas(), mesh.aspect_ratios()]
        found.append(mesh.radius_edge_ratios())
    want = [np.array(v) for v in zip(*(slow_shapes(points, t) for t in corners), strict=True)]
    want[1] = want[1] * scale**2
    for ours, theirs in zip(found, want, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
    angles, areas, aspects, radii = found
    assert (quality.min_angle, quality.max_angle) == (angles.min(), angles.max())
    assert (quality.min_area, quality.max_area) == (areas.min(), areas.max())
    assert quality.area == pytest.approx(areas.sum(), rel=1e-12)
    assert (quality.max_aspect, quality.max_radius_edge) == (aspects.max(), radii.max())
    assert quality.mean_radius_edge == pytest.approx(radii.mean(), rel=1e-12)
    assert quality.histogram == tuple(np.histogram(angles, 18, (0, 180))[0])
    bins = [0, *quality_module.ASPECT_BINS, np.inf]
    assert quality.aspect_histogram == tuple(np.histogram(aspects, bins)[0])
    assert radii == pytest.approx(1 / (2 * np.sin(np.radians(angles.min(axis=1)))), rel=1e-9)


def test_quality_of_broken_triangles():
    points = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [np.nan, 0]])
    mesh = Mesh.trusted(
        points=points, triangles=np.array([[0, 1, 2], [0, 3, 1], [0, 1, 4]]), neighbors=None,
        segments=[], segment_markers=[], point_markers=[],
    )  # fmt: skip
    quality = mesh.quality()
    assert sum(quality.histogram) == 9 and sum(quality.aspect_histogram) == 3
    assert quality.aspect_histogram[-1] == 2
    assert quality.to_dict()["max_aspect"] is None
    assert mesh.areas()[:2].tolist() == [0, -0.5]
    assert mesh.angles()[1].tolist() == pytest.approx([-90, -45, -45])


# --- what is kept ---------------------------------------------------------------------------------


def whole():
    """All arrays of a mesh, of the types that a mesh has."""
    mesh = Mesh(
        SQUARE, FAN, point_attributes=np.ones((5, 2)), triangle_attributes=np.ones((4, 1)),
        holes=np.zeros((1, 2)), regions=np.zeros((2, 4)),
    )  # fmt: skip
    return {f.name: getattr(mesh, f.name) for f in dataclasses.fields(mesh)}


@pytest.mark.parametrize("make", [Mesh, Mesh.trusted])
def test_arrays_that_fit_are_not_copied(make):
    arrays = whole()
    mesh = make(**arrays)
    for name, array in arrays.items():
        assert getattr(mesh, name) is array or np.shares_memory(getattr(mesh, name), array), name
    assert mesh.to("cpu") is mesh and mesh.device == morph.device("cpu")


def test_arrays_that_do_not_fit_are_copied_and_left_alone():
    points, triangles = np.asfortranarray(SQUARE), FAN.astype(np.int64)
    mesh = Mesh(points, triangles)
    mesh.points[0] = 7
    mesh.triangles[0] = 0
    assert points[0].tolist() == [0, 0] and triangles[0].tolist() == [0, 1, 4]


def test_trusted_looks_at_nothing():
    mesh = Mesh.trusted(**{**whole(), "neighbors": np.full((4, 3), 99)})
    assert {v.name for v in mesh.violations()} == {"index"}
    with pytest.raises(TypeError, match="a mesh has no colour"):
        Mesh.trusted(**whole(), colour=1)
    with pytest.raises(KeyError, match="segments"):
        Mesh.trusted(points=SQUARE, triangles=FAN, neighbors=FAN)


def test_lists_and_views_of_columns():
    table = morph.Table("t", "cpu", xy=morph.vec(morph.prelude.f64, 2))
    table.extend(xy=SQUARE)
    assert Mesh(table.xy, FAN.tolist()).quality() == square().quality()
