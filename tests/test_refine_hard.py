"""Hard inputs: small angles, nested and touching segments, coasts at 33 degrees, cocircular grids.

Of each: it ends, the mesh is sound, what is left is counted, and no segment is encroached.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refining import encroached, mesh_of, star, violating

import morph
from morph.algorithms.refine import refine_with_report
from morph.testing import team

MESHES = Path(__file__).parent.parent / "meshes"
COASTS = ["italy", "norway", "chile", "south_africa", "canada"]


def refined(mesh, angle, area=None, device="cpu"):
    """Refine, and judge what must hold whatever the input."""
    result = refine_with_report(mesh, angle, area, device=device)
    fine = result.mesh
    fine.check()
    assert not encroached(fine).any()  # with this, all segments are Delaunay edges: conforming
    area = np.inf if area is None else area
    least, most = (violating(fine, angle, area, slack=s).sum() for s in (1e-9, -1e-9))
    assert least <= sum(result.unmet.values()) <= most
    return result


def nested(depth, turn):
    """Squares in one another, each turned, their corners joined; then all turned a little."""
    points, segments = [], []
    for k in range(depth):
        at = len(points)
        r = 0.6**k
        angles = [turn * k + math.pi / 2 * j for j in range(4)]
        points += [(r * math.cos(a), r * math.sin(a)) for a in angles]
        segments += [[at + j, at + (j + 1) % 4] for j in range(4)]
        segments += [[at - 4, at]] if k else []
    return morph.triangulate(np.array(points), np.array(segments), device="cpu", crossing="split")


@pytest.mark.parametrize("name", COASTS)
@pytest.mark.parametrize("area", [None, 0.2])
def test_coasts_at_33_degrees(name, area):
    result = refined(morph.Mesh.read(MESHES / f"{name}.node"), 33, area)
    assert set(result.unmet) <= {"small input angle", "floor"}
    assert sum(result.unmet.values()) < 0.02 * len(result.mesh.triangles) + 15


# triangles of Triangle 1.6 with -pqD at 20, 28, 30 and 33 degrees
TRIANGLE = {
    "italy": (98, 135, 163, 245), "norway": (123, 142, 163, 209), "chile": (226, 406, 549, 813),
    "south_africa": (186, 294, 309, 502), "canada": (1304, 1931, 2287, 3601),
}  # fmt: skip


@pytest.mark.parametrize("name", COASTS)
def test_coasts_get_about_as_many_triangles_as_from_triangle(name):
    """In one order, one thread's; cascades in corners would make several times as many."""
    coast = morph.Pslg.read(MESHES / f"{name}.poly")
    with team(1):
        made = [len(morph.refine(coast, q, device="cpu").triangles) for q in (20, 28, 30, 33)]
    for n, most, by in zip(made, TRIANGLE[name], (1.05, 1.1, 1.1, 1.2), strict=True):
        assert 0.8 * most < n < by * most


@pytest.mark.parametrize("name", COASTS)
def test_coasts_are_conforming(name):
    result = refined(morph.Mesh.read(MESHES / f"{name}.node"), 28, 0.5)
    assert set(result.unmet) <= {"small input angle"}


@settings(max_examples=8)
@given(
    angle=st.sampled_from([1.0, 4.0, 30.0, 59.0]), rays=st.integers(1, 6), pairs=st.integers(1, 3),
    asked=st.sampled_from([20, 30]),
)  # fmt: skip
def test_stars(angle, rays, pairs, asked):
    mesh = star(angle, min(rays, int(360 / angle / (pairs + 1))) or 1, pairs=pairs)
    result = refined(mesh, asked)
    assert set(result.unmet) <= {"small input angle"}
    # what is narrow lies between rays: away from them, nothing is
    bad = violating(result.mesh, asked)
    middle = result.mesh.points[result.mesh.triangles[bad]].mean(axis=1)
    assert (np.linalg.norm(middle, axis=1) < 1.4).all()


def test_a_star_of_one_degree_on_every_target(target):
    result = refined(star(3.0, 2, 0.5), 20, device=target)
    assert set(result.unmet) == {"small input angle"}


@pytest.mark.parametrize("asked", [33, 34])
def test_stars_end_at_any_angle(asked):
    refined(star(5.0, 3), asked)


@settings(max_examples=6)
@given(depth=st.integers(1, 6), turn=st.floats(0, 1), asked=st.sampled_from([20, 28]))
def test_nested_segments_that_touch(depth, turn, asked):
    result = refined(nested(depth, turn), asked)
    assert set(result.unmet) <= {"small input angle"}


def test_parallel_segments_a_hair_apart():
    gap = 1e-3
    points = [[0, 0], [1, 0], [1, 1], [0, 1], [0.2, 0.5], [0.8, 0.5], [0.2, 0.5 + gap]]
    points += [[0.8, 0.5 + gap]]
    segments = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [6, 7]]
    mesh = morph.triangulate(np.array(points), np.array(segments), device="cpu")
    result = refined(mesh, 25)
    assert result.unmet == {}
    assert result.mesh.quality().min_edge > gap / 4


@pytest.mark.parametrize("asked", [20, 30, 33])
def test_cocircular_grids(asked):
    axis = np.arange(9.0)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    result = refined(mesh_of(points), asked)
    assert result.added == 0
    assert refined(mesh_of(points), asked, 0.1).unmet == {}


def test_points_closer_than_their_digits_let_be_mended():
    cluster = 0.5 + np.array([[0, 0], [1, 0], [0, 1], [3, 2], [2, 5]]) * 2.0**-52
    mesh = mesh_of(np.concatenate([[[0, 0], [1, 0], [1, 1], [0, 1]], cluster]))
    result = refined(mesh, 28)
    assert set(result.unmet) <= {"floor", "no digits left"}


def test_a_needle():
    points = np.array([[0, 0], [1, 0], [1, 1e-4]])
    result = refined(morph.Mesh(points, np.array([[0, 1, 2]], np.int32)), 25)
    assert set(result.unmet) <= {"small input angle"}


@pytest.mark.parametrize("deterministic", [False, True])
def test_more_triangles_than_can_be_numbered(monkeypatch, deterministic):
    """Sides are numbered in 31 bits: a mesh that would need more is refused, not scrambled."""
    monkeypatch.setattr("morph.algorithms.meshtables.MOST", 400)
    mesh = morph.Mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]])
    options = {"deterministic": deterministic, "device": "cpu"}
    with pytest.raises(ValueError, match="triangles is limited to 400 rows"):
        morph.refine(mesh, 20, max_area=1e-4, **options)
    fine = morph.refine(mesh, 20, max_area=4e-3, **options)
    assert 200 < len(fine.triangles) < 400
