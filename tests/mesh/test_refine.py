"""Refinement, checked by Shapely and by the validation of meshes, on every target."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refining import check_refined, input_angles, square
from targets import examples

import morph
from morph.algorithms.refinement.refine import refine_with_report

MESHES = Path(__file__).parents[2] / "meshes"
COASTS = ["italy", "norway", "chile", "south_africa", "canada"]


@pytest.mark.parametrize("name", COASTS)
@pytest.mark.parametrize("angle", [20, 25, 28])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_coasts(name, angle, device):
    mesh = morph.Mesh.read(MESHES / f"{name}.node")
    result = refine_with_report(mesh, angle, device=device)
    check_refined(mesh, result.mesh, angle)
    assert set(result.unmet) <= {"small input angle"}
    if name in ("italy", "south_africa") and angle <= 25:
        assert result.mesh.quality().min_angle >= min(angle, input_angles(mesh))


def test_a_coast_on_every_target(target):
    mesh = morph.Mesh.read(MESHES / "italy.node")
    fine = morph.refine(mesh, 25, device=target)
    check_refined(mesh, fine, 25)
    assert fine.quality().min_angle >= 25


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(3, 40), seed=st.integers(0, 10**6), angle=st.sampled_from([15, 20, 28, 30]))
def test_random_points_in_a_square(target, n, seed, angle):
    mesh = square(n, seed)
    fine = morph.refine(mesh, angle, device=target)
    check_refined(mesh, fine, angle)


def test_many_threads():
    mesh = square(20_000, 3)
    result = refine_with_report(mesh, 28, device="cpu")
    check_refined(mesh, result.mesh, 28)
    assert len(result.mesh.triangles) < 3.5 * len(mesh.triangles)


@pytest.mark.gpu
def test_many_blocks():
    mesh = square(200_000, 3)
    result = refine_with_report(mesh, 28, device="cuda")
    result.mesh.check()
    assert result.mesh.quality().min_angle >= 28
    assert len(result.mesh.triangles) < 3.5 * len(mesh.triangles)


def test_largest_area(target):
    mesh = square(5, 1)
    fine = morph.refine(mesh, 20, max_area=0.01, device=target)
    check_refined(mesh, fine, 20)
    assert fine.quality().max_area <= 0.01


def test_a_segment_inside_is_kept_and_split(target):
    points = np.array([[0, 0], [4, 0], [4, 1], [0, 1], [1, 0.4], [3, 0.6]], float)
    triangles = np.array(
        [[0, 1, 4], [1, 5, 4], [1, 2, 5], [2, 3, 5], [3, 4, 5], [3, 0, 4]], np.int32
    )
    mesh = morph.Mesh(points, triangles, segments=np.array([[4, 5]], np.int32))
    fine = morph.refine(mesh, 25, device=target)
    check_refined(mesh, fine, 25)
    inside = fine.segments[fine.segment_markers == 0]
    lengths = np.linalg.norm(np.diff(fine.points[inside], axis=1), axis=2)
    assert lengths.sum() == pytest.approx(math.hypot(2, 0.2))


def test_progress_reports_each_round(target):
    seen = []
    mesh = morph.Mesh.read(MESHES / "italy.node")
    result = refine_with_report(mesh, 25, device=target, progress=lambda *x: seen.append(x))
    assert [x[0] for x in seen] == list(range(1, result.rounds + 1))
    assert seen[-1][1] == 0 and seen[-1][2] == len(result.mesh.triangles)


def test_regions_keep_their_attributes(target):
    points = np.array([[0, 0], [3, 0], [3, 1], [0, 1], [1, 0], [1, 1]], float)
    triangles = np.array([[0, 4, 5], [0, 5, 3], [4, 1, 2], [4, 2, 5]], np.int32)
    mesh = morph.Mesh(
        points, triangles, segments=np.array([[4, 5]], np.int32),
        triangle_attributes=np.array([[7.0], [7], [9], [9]]),
    )  # fmt: skip
    fine = morph.refine(mesh, 20, max_area=0.05, device=target)
    centre = fine.points[fine.triangles].mean(axis=1)
    assert (fine.triangle_attributes[:, 0] == np.where(centre[:, 0] < 1, 7, 9)).all()


@pytest.mark.parametrize("far", [0.0, 2.0**20, 2.0**36, 2.0**44])
def test_coordinates_that_leave_few_digits_end_in_a_sound_mesh(target, far):
    points = np.array([[0, 0], [0.25, 0], [0.25, 0.03125], [0, 0.03125]]) + far
    mesh = morph.Mesh(points, np.array([[0, 1, 2], [0, 2, 3]], np.int32))
    fine = refine_with_report(mesh, 30, max_area=1e-4, device=target).mesh
    fine.check()
    assert fine.quality().area == pytest.approx(mesh.quality().area)


def test_a_triangle_flatter_than_its_digits(target):
    """Its determinant in floating point is zero; its exact orientation is not."""
    points = np.array([[0, 0], [0.5, 0.5], [1, 1 + 2.0**-52]])
    mesh = morph.Mesh(points, np.array([[0, 1, 2]], np.int32))
    fine = morph.refine(mesh, 25, device=target)
    fine.check()
    assert np.isfinite(fine.points).all()


@pytest.mark.parametrize("name", ["italy", "chile", "south_africa"])
def test_point_attributes_are_interpolated(name):
    mesh = morph.Mesh.read(MESHES / f"{name}.node")
    linear = lambda p: np.stack([p @ [3.0, -2.0] + 1, p @ [0.5, 4.0]], axis=1)  # noqa: E731
    mesh = dataclasses.replace(mesh, point_attributes=linear(mesh.points))
    fine = morph.refine(mesh, 25, device="cpu")
    assert np.array_equal(fine.point_attributes[: len(mesh.points)], mesh.point_attributes)
    assert np.allclose(fine.point_attributes, linear(fine.points), atol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_angle": -1}, "min_angle is from 0 to 34 degrees, not -1"),
        ({"min_angle": 40}, "min_angle is from 0 to 34 degrees, not 40"),
        ({"max_area": 0}, "max_area must be positive, not 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        morph.refine(square(3, 0), **options)


def test_a_mesh_that_is_not_delaunay_is_refused():
    points = np.array([[0, 0], [10, 0], [5, 1], [5, -1]], float)
    mesh = morph.Mesh(points, np.array([[0, 1, 2], [1, 0, 3]], np.int32))
    fine = morph.Mesh(points, np.array([[0, 3, 2], [3, 1, 2]], np.int32))
    fine.check()
    with pytest.raises(morph.mesh.MeshError, match="Delaunay|delaunay"):
        morph.refine(mesh)
