"""Refinement to a maximum angle, and to a maximum ratio of circumradius to shortest edge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from refining import corners, square, star, violating
from targets import examples

import morph
from morph.algorithms.refinement.parameters import angle_bounds
from morph.algorithms.refinement.refine import refine_with_report
from morph.cli import main

MESHES = Path(__file__).parents[2] / "meshes"


def too_wide(mesh, angle, slack=1e-9):
    """Which triangles have an angle larger than this, in degrees."""
    return np.degrees(corners(mesh)[1]).max(axis=1) > angle * (1 + slack)


def ratios(mesh):
    """Circumradius by shortest edge: an edge is 2 R sin(angle opposite)."""
    length, turn = corners(mesh)
    return (length[:, 0] / (2 * np.sin(turn[:, 0]))) / length.min(axis=1)


@settings(max_examples=examples(12))
@given(
    n=st.integers(1, 80), seed=st.integers(0, 10**6), least=st.sampled_from([0, 20, 30]),
    most=st.floats(112, 179), area=st.sampled_from([None, 0.01]), conforming=st.booleans(),
)  # fmt: skip
def test_no_angle_is_larger(n, seed, least, most, area, conforming):
    mesh = square(n, seed)
    options = {"max_angle": most, "conforming": conforming, "device": "cpu"}
    result = refine_with_report(mesh, least, area, **options)
    result.mesh.check(conforming=conforming)
    assert result.unmet == {}
    assert not too_wide(result.mesh, most).any()
    assert not violating(result.mesh, least, np.inf if area is None else area).any()


@settings(max_examples=examples(8))
@given(n=st.integers(1, 80), seed=st.integers(0, 10**6), ratio=st.floats(0.8942, 4))
def test_no_ratio_is_larger(n, seed, ratio):
    result = refine_with_report(square(n, seed), 0, max_radius_edge=ratio, device="cpu")
    result.mesh.check()
    assert result.unmet == {}
    assert ratios(result.mesh).max() <= ratio * (1 + 1e-9)


def test_a_ratio_is_a_smallest_angle_and_the_stricter_of_both_counts():
    mesh, options = square(40, 3), {"deterministic": True, "device": "cpu"}
    angle = np.degrees(np.arcsin(1 / 2.4))
    by_angle = morph.refine(mesh, angle, **options)
    for least in (0, 20):
        by_ratio = morph.refine(mesh, least, max_radius_edge=1.2, **options)
        assert by_ratio.points.tobytes() == by_angle.points.tobytes()
    strict = morph.refine(mesh, 30, max_radius_edge=1.2, **options)
    assert strict.points.tobytes() == morph.refine(mesh, 30, **options).points.tobytes()


def test_bounds_that_ask_nothing_change_nothing():
    mesh, options = square(40, 3), {"deterministic": True, "device": "cpu"}
    plain = morph.refine(mesh, 25, **options)
    free = morph.refine(mesh, 25, max_angle=180, max_radius_edge=np.inf, **options)
    assert free.points.tobytes() == plain.points.tobytes()


def test_a_largest_angle_needs_fewer_triangles_than_the_smallest_that_implies_it():
    mesh = square(200, 1)
    wide = morph.refine(mesh, 0, max_angle=120, device="cpu")
    narrow = morph.refine(mesh, 30, device="cpu")
    assert not too_wide(narrow, 120).any()
    assert len(wide.triangles) < 0.7 * len(narrow.triangles)


def test_targets_agree(target):
    mesh, options = square(40, 5), {"max_angle": 118, "deterministic": True}
    fine = morph.refine(mesh, 0, device=target, **options)
    assert not too_wide(fine, 118).any()
    assert (
        fine.points.tobytes() == morph.refine(mesh, 0, device="python", **options).points.tobytes()
    )


@pytest.mark.parametrize("most", [112, 120, 150])
@pytest.mark.parametrize("name", ["italy", "norway"])
def test_coasts(name, most):
    result = refine_with_report(
        morph.Mesh.read(MESHES / f"{name}.node"), 0, max_angle=most, device="cpu"
    )
    result.mesh.check()
    assert set(result.unmet) <= {"small input angle"}
    assert too_wide(result.mesh, most).sum() <= sum(result.unmet.values())


@pytest.mark.parametrize("angle", [1.0, 12.0, 50.0])
@pytest.mark.parametrize("most", [112, 130])
def test_stars_end_and_what_is_left_is_counted(angle, most):
    result = refine_with_report(star(angle, 3), 0, max_angle=most, max_points=20000, device="cpu")
    result.mesh.check()
    assert "budget" not in result.unmet and result.added < 2000
    least, largest = (too_wide(result.mesh, most, s).sum() for s in (1e-9, -1e-9))
    assert least <= sum(result.unmet.values()) <= largest


@pytest.mark.parametrize("boundary", ["keep-hull", "keep-all"])
def test_kept_boundaries(boundary):
    mesh = morph.triangulate(
        [[0, 0], [10, 0], [10, 1], [5, 0.1], [0, 1.0]], hull=True, device="cpu"
    )
    result = refine_with_report(mesh, 0, max_angle=120, boundary=boundary, device="cpu")
    result.mesh.check()
    assert too_wide(result.mesh, 120).sum() == sum(result.unmet.values())
    assert set(result.unmet) <= {"boundary kept"}


@pytest.mark.parametrize("shift", [2.0**20, 2.0**30, 2.0**40])
def test_the_digits_of_coordinates_end_it(shift):
    one = square(12, 4)
    mesh = morph.Mesh(one.points + shift, one.triangles)
    result = refine_with_report(mesh, 0, max_angle=112, max_points=50000, device="cpu")
    assert result.added < 5000 and "budget" not in result.unmet


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_angle": 111}, "max_angle is from 112 to 180 degrees, not 111"),
        ({"max_angle": 181.0}, "max_angle is from 112 to 180 degrees, not 181.0"),
        ({"max_angle": np.nan}, "max_angle is from 112 to 180 degrees, not nan"),
        ({"max_radius_edge": 0.5}, "is at least 0.8941, which is a smallest angle of 34 degrees"),
        ({"max_radius_edge": -1}, "max_radius_edge is at least 0.8941.*, not -1"),
        ({"max_radius_edge": np.nan}, "max_radius_edge is at least 0.8941.*, not nan"),
    ],
)
def test_bounds_out_of_range(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        morph.refine(square(3, 0), device="cpu", **options)
    assert len(str(caught.value)) <= 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_angle": "120"}, "max_angle is a number, not '120'"),
        ({"max_radius_edge": [1]}, r"max_radius_edge is a number, not \[1\]"),
        ({"min_angle": True}, "min_angle is a number, not True"),
        ({"min_angle": np.array(2j)}, "min_angle is a number, not "),
        ({"conforming": "no"}, "conforming is True or False, not 'no'"),
        ({"progress": 1}, "progress is a function, not 1"),
        ({"max_points": 1.5}, "max_points is an integer, not 1.5"),
    ],
)
def test_options_of_other_types(options, message):
    with pytest.raises(TypeError, match=message):
        morph.refine(square(3, 0), device="cpu", **options)


def test_bounds_of_arrays_without_dimensions():
    assert angle_bounds(np.array(25.0), np.float32(130), None) == (25.0, 130.0)


def test_options_of_the_command(tmp_path):
    out = tmp_path / "fine"
    base = ["refine", str(MESHES / "italy"), "-o", str(out), "--json", "--device", "cpu", "-q0"]
    done = CliRunner().invoke(main, [*base, "--max-angle", "125"])
    assert done.exit_code == 0, done.output
    assert (
        json.loads(done.stdout)["quality"]["max_angle"] <= 125 or json.loads(done.stdout)["unmet"]
    )
    done = CliRunner().invoke(main, [*base, "--max-radius-edge", "1.1"])
    assert done.exit_code == 0, done.output
    fine = morph.Mesh.read(out)
    assert (ratios(fine) > 1.1 + 1e-6).sum() <= sum(json.loads(done.stdout)["unmet"].values())
    for wrong in (["--max-angle", "100"], ["--max-radius-edge", "0.5"], ["--max-angle", "nan"]):
        assert CliRunner().invoke(main, [*base, *wrong]).exit_code == 2
