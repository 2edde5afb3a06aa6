"""Options of refinement: areas, sizes, fixed boundaries, budgets; remaining triangles by reason."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refining import square, violating
from scipy.spatial import Delaunay
from targets import examples

import morph
from morph.algorithms.refinement import rounds
from morph.algorithms.refinement.parameters import Request, puts_segments_first
from morph.algorithms.refinement.refine import refine_with_report
from morph.mesh import Pslg

MESHES = Path(__file__).parents[2] / "meshes"
BOUNDARIES = ["split", "keep-hull", "keep-all"]


def left(result):
    return sum(result.unmet.values())


def cross():
    """The square of side 8, its sides in units, with a segment inside."""
    side = np.arange(8.0)
    corner = [
        (side, 0 * side),
        (0 * side + 8, side),
        (8 - side, 0 * side + 8),
        (0 * side, 8 - side),
    ]
    points = np.concatenate([*(np.stack(c, axis=1) for c in corner), [[2, 4.5], [6, 4.5]]])
    segments = [[k, (k + 1) % 32] for k in range(32)] + [[32, 33]]
    return morph.triangulate(points, segments, device="cpu")


def halves(left=0.01, right=0.0):
    """A PSLG of two unit squares side by side, each a region."""
    points = np.array([[0, 0], [1, 0], [2, 0], [2, 1], [1, 1], [0, 1]], float)
    segments = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [1, 4]]
    regions = [[0.5, 0.5, 3, left], [1.5, 0.5, 7, right], [9, 9, 1, 1e-9]]
    return Pslg(points, np.array(segments), regions=np.array(regions))


# --- areas ---------------------------------------------------------------------------------------


@settings(max_examples=examples(6))
@given(seed=st.integers(0, 10**6), area=st.sampled_from([1e-3, 1e-4]))
def test_an_area_for_each_triangle(seed, area):
    mesh = square(20, seed)
    limits = np.full(len(mesh.triangles), np.nan)
    limits[[3, 7, 9]] = [area, -1, 2 * area]
    result = refine_with_report(mesh, 20, limits, device="cpu")
    fine = result.mesh
    fine.check()
    assert result.unmet == {}
    middle = fine.points[fine.triangles].mean(axis=1)
    held = Delaunay(mesh.points).find_simplex(middle)  # the same triangles in the same order
    assert not violating(fine, 20, np.where(limits > 0, limits, np.inf)[held]).any()
    near = middle[np.isin(held, [3, 9])]  # none, if these two are slivers
    away = np.linalg.norm(middle[:, None] - near, axis=2).min(axis=1, initial=np.inf)
    assert fine.areas()[away > 0.3].max(initial=1) > 10 * area  # fine triangles stay where asked


def test_areas_of_regions(target):
    fine = refine_with_report(halves(), 20, "regions", device=target).mesh
    fine.check()
    first = fine.points[fine.triangles].mean(axis=1)[:, 0] < 1
    assert fine.areas()[first].max() <= 0.01 < fine.areas()[~first].max()
    assert (fine.triangle_attributes[:, 0] == np.where(first, 3, 7)).all()


def test_a_region_ends_at_segments_and_the_later_of_two_counts():
    mesh = morph.triangulate(halves(), device="cpu")
    regions = [[0.5, 0.5, 0, 0.3], [0.4, 0.6, 0, 0.02], [1.5, 0.5, 0, -1]]
    mesh = dataclasses.replace(mesh, regions=np.array(regions))
    fine = morph.refine(mesh, 0, "regions", device="cpu")
    first = fine.points[fine.triangles].mean(axis=1)[:, 0] < 1
    assert fine.areas()[first].max() <= 0.02 < fine.areas()[~first].max()


# --- sizes ---------------------------------------------------------------------------------------


def test_a_size_at_each_point_is_linear_in_between(target):
    mesh = square(12, 6)
    linear = lambda p: 0.05 + 0.3 * p[:, 0] + 0.1 * p[:, 1]  # noqa: E731
    result = refine_with_report(mesh, 20, size=linear(mesh.points), device=target)
    assert result.unmet == {}
    assert not violating(result.mesh, 20, sizes=linear(result.mesh.points), slack=1e-6).any()


@settings(max_examples=examples(6))
@given(seed=st.integers(0, 10**6), least=st.floats(0.02, 0.2), slope=st.floats(0, 2))
def test_a_size_field_is_asked_at_every_point(seed, least, slope):
    asked = []

    def field(p):
        asked.append(len(p))
        return least + slope * np.abs(p - 0.4).max(axis=1)

    result = refine_with_report(square(10, seed), 25, size=field, device="cpu")
    fine = result.mesh
    assert result.unmet == {} and sum(asked) == len(fine.points)
    assert not violating(fine, 25, sizes=field(fine.points)).any()


def test_a_size_field_that_jumps_and_one_without_end(target):
    jump = lambda p: np.where(p[:, 0] < 0.5, 0.2, np.inf)  # noqa: E731
    fine = morph.refine(square(4, 1), 20, size=jump, device=target)
    fine.check()
    assert not violating(fine, 20, sizes=jump(fine.points)).any()
    uniform = morph.refine(square(4, 1), 20, size=np.full(8, 0.3), device=target)
    assert not violating(uniform, 20, sizes=np.full(len(uniform.points), 0.3)).any()


# --- kept boundaries -----------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_boundaries_are_kept(target, boundary):
    mesh = cross()
    result = refine_with_report(mesh, 25, 0.2, boundary=boundary, device=target)
    fine = result.mesh
    fine.check()
    assert left(result) == violating(fine, 25, 0.2).sum()
    hull, segments = (fine.neighbors < 0).sum(), len(fine.segments)
    if boundary == "split":
        assert result.unmet == {} and hull > 32
    else:
        assert hull == 32 and set(result.unmet) == {"boundary kept"}
        assert segments == 33 if boundary == "keep-all" else segments > 33


@settings(max_examples=examples(20))
@given(
    n=st.integers(1, 40), seed=st.integers(0, 10**6), area=st.sampled_from([None, 0.002, 0.05]),
    options=st.sampled_from(  # each is a compilation
        [
            (0, "split", None, None), (25, "keep-hull", 7, None), (28, "keep-hull", None, None),
            (34, "split", None, None), (32, "keep-all", None, 0.1), (20, "split", 30, 0.1),
        ]
    ),
)  # fmt: skip
def test_what_is_left_is_counted_once(n, seed, area, options):
    angle, boundary, points, size = options
    mesh = square(n, seed)
    field = None if size is None else lambda p: size + p[:, 0]
    result = refine_with_report(
        mesh, angle, area, field, boundary=boundary, max_points=points, device="cpu"
    )
    fine = result.mesh
    fine.check()
    sizes = None if size is None else field(fine.points)
    area = np.inf if area is None else area
    least, most = (violating(fine, angle, area, sizes, s).sum() for s in (1e-9, -1e-9))
    if points is None:
        assert least <= left(result) <= most
    assert result.added == len(fine.points) - len(mesh.points)
    if points is not None:
        assert result.added <= points
        assert result.added == points or "budget" not in result.unmet


# --- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [0, 1, 17, 100])
def test_a_budget_is_used_up_and_never_passed(target, points):
    mesh = square(30, 2)
    result = refine_with_report(mesh, 30, 0.0005, max_points=points, device=target)
    result.mesh.check()
    assert result.added == points == len(result.mesh.points) - len(mesh.points)
    assert set(result.unmet) == {"budget"}
    assert left(result) == violating(result.mesh, 30, 0.0005).sum() > 0


def test_a_budget_with_room_to_spare_changes_nothing():
    mesh = square(30, 2)
    result = refine_with_report(mesh, 25, max_points=10**6, device="cpu")
    assert result.unmet == {} and result.mesh.quality().min_angle >= 25


# --- scales and sources --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 3e-7, 1e40, 1e100])
def test_coordinates_of_any_scale(target, scale):
    one = square(8, 3)
    mesh = dataclasses.replace(one, points=one.points * scale)
    sizes = np.full(len(mesh.points), 0.3 * scale)
    result = refine_with_report(mesh, 25, 0.02 * scale * scale, sizes, device=target)
    fine = result.mesh
    assert result.unmet == {}
    assert np.array_equal(fine.points[: len(mesh.points)], mesh.points)
    back = morph.Mesh(fine.points / scale, fine.triangles, segments=fine.segments)
    assert not violating(back, 25, 0.02, np.full(len(back.points), 0.3), 1e-6).any()
    assert fine.violations() == []


def test_a_power_of_two_changes_nothing_else():
    one = square(25, 3)
    ends = []
    for scale in (1.0, 2.0**300, 2.0**-300):
        mesh = dataclasses.replace(one, points=one.points * scale)
        ends.append(morph.refine(mesh, 28, device="python"))
        assert ends[-1].quality().min_angle == pytest.approx(ends[0].quality().min_angle, abs=1)


@pytest.mark.parametrize(
    ("factor", "message"),
    [(1e-160, "at least 1e-140 apart"), (1e150, "within 1e140")],
)
def test_scales_out_of_the_domain_are_refused(factor, message):
    one = square(3, 0)
    mesh = dataclasses.replace(one, points=one.points * factor)
    with pytest.raises(ValueError, match=message):
        morph.refine(mesh, device="cpu")


def test_large_and_tiny_coordinates_that_fit_no_scale():
    points = np.array([[0, 0], [1e139, 0], [1e139, 1e139], [1e-250, 1e139]])
    mesh = morph.Mesh(points, np.array([[0, 1, 2], [0, 2, 3]], np.int32))
    with pytest.raises(ValueError, match="do not fit one scale"):
        morph.refine(mesh, device="cpu")


def test_sources():
    mesh = morph.Mesh.read(MESHES / "italy")
    graph = Pslg.read(MESHES / "italy.poly") if (MESHES / "italy.poly").exists() else None
    sizes = [
        len(morph.refine(source, 25, device="cpu").triangles)
        for source in (mesh, MESHES / "italy", str(MESHES / "italy.node"), graph)
    ]
    assert max(sizes) < 1.2 * min(sizes)
    box = morph.refine(np.array([[0, 0], [4, 0], [4, 1], [0, 1.0]]), 30, device="cpu")
    assert box.quality().min_angle >= 30 and box.quality().area == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_area": "region"}, "'regions', not 'region'"),
        ({"max_area": [1.0, 2.0]}, r"must have shape \(\d+,\), one a triangle, got \(2,\)"),
        ({"size": [0.1]}, r"size must have shape \(7,\), got \(1,\)"),
        ({"size": np.zeros(7)}, r"size must be positive, not 0.0 at \(0, 0\)"),
        ({"size": lambda p: p[:, 0] * np.nan}, r"size\(points\) must be positive, not nan at"),
        ({"size": lambda p: 3.0}, r"size\(points\) must have shape \(7,\), got \(\)"),
        ({"boundary": "keep"}, "boundary is one of split, keep-hull, keep-all, not 'keep'"),
        ({"max_points": -1}, "max_points must be 0 or more, not -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        morph.refine(square(3, 0), device="cpu", **options)


def test_a_budget_beyond_64_bits():
    with pytest.raises(ValueError, match=r"max_points must be below 2\*\*62, not 11"):
        morph.refine(square(3, 0), max_points=2**70, device="cpu")


# --- what is examined, and in which order ---------------------------------------------------------


def test_all_triangles_are_examined_only_if_one_was_given_up(monkeypatch):
    examined, inner = [], rounds.examine
    monkeypatch.setattr(rounds, "examine", lambda *args: examined.append(args) or inner(*args))
    assert refine_with_report(square(40, 3), 25, device="cpu").unmet == {}
    assert not examined
    kept = refine_with_report(cross(), 25, 0.2, boundary="keep-all", device="cpu")
    assert kept.unmet and examined


def test_segments_come_first_above_30_degrees_on_a_cpu_only():
    asked = Request(33.0)
    for size, kind, want in (
        (20_000, "cpu", True), (20_000, "cuda", False), (9000, "cuda", True)
    ):  # fmt: skip
        mesh = SimpleNamespace(triangles=range(size), segments=range(9))
        assert puts_segments_first(mesh, asked, kind) == want
