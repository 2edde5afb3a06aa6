"""refine(deterministic=True): the same bytes for any number of threads, and on every device."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from refining import check_refined, square
from scipy.spatial import Delaunay
from targets import everywhere, host, tries
from test_refine import MESHES

import morph
from morph import testing
from morph.algorithms.refinement.deterministic import DeterministicTables
from morph.algorithms.refinement.refine import refine_with_report
from morph.algorithms.triangulation.canonical import canonical
from morph.cli import main

ARRAYS = [f.name for f in fields(morph.Mesh) if f.name != "base"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def digest(mesh):
    """A hash of every byte of a mesh."""
    made = hashlib.sha256()
    for name in ARRAYS:
        x = host(getattr(mesh, name))
        made.update(f"{name} {x.dtype} {x.shape}".encode())
        made.update(x.tobytes())
    return made.hexdigest()


def in_every_way(device, run):
    """The digests of what ``run`` gives, by any number of threads."""
    ways = [contextlib.nullcontext()]
    if device == "cpu":
        ways = [testing.team(n) for n in (1, 2, 3, 7)]
    found = set()
    for way in ways:
        with way:
            made = run(device)
            found.add(digest(made))
    if device != "cpu":
        found.add(digest(run("cpu")))
    return found, made


def attributed(mesh):
    """A mesh with an attribute of points, and one of triangles."""
    values = np.stack([mesh.points[:, 0] ** 2, mesh.points @ [1.0, -3.0]], axis=1)
    corner = mesh.points[mesh.triangles]
    kinds = np.floor(corner[:, :, 0].mean(axis=1) * 3)[:, None]
    return morph.Mesh(
        mesh.points, mesh.triangles, segments=mesh.segments, point_attributes=values,
        triangle_attributes=kinds,
    )  # fmt: skip


def near_centre(p):
    return 0.01 + 0.1 * np.hypot(p[:, 0] - 0.5, p[:, 1] - 0.5)


OPTIONS = {
    "angle": {"min_angle": 28},
    "steep": {"min_angle": 31},
    "area": {"min_angle": 20, "max_area": 1e-3},
    "areas": {"min_angle": 20, "max_area": np.random.default_rng(1).uniform(0, 1e-2, 2000)},
    "field": {"min_angle": 25, "size": near_centre},
    "sizes": {"min_angle": 25, "size": np.random.default_rng(2).uniform(0.01, 0.1, 2000)},
    "hull": {"min_angle": 25, "boundary": "keep-hull"},
    "budget": {"min_angle": 30, "max_points": 137},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("asked", OPTIONS)
def test_random_meshes(device, asked, monkeypatch):
    monkeypatch.setattr("morph.algorithms.refinement.deterministic.SLICE", 64)  # several slices
    monkeypatch.setattr(
        "morph.algorithms.refinement.parameters.DEFERRAL_THRESHOLD", 32
    )  # rounds with and without deferral
    mesh = attributed(square(150, 5))
    options = dict(OPTIONS[asked])
    for name, n in (("max_area", len(mesh.triangles)), ("size", len(mesh.points))):
        if isinstance(options.get(name), np.ndarray):
            options[name] = options[name][:n]
    found, fine = in_every_way(
        device, lambda d: morph.refine(mesh, **options, deterministic=True, device=d)
    )
    assert len(found) == 1
    fine.check()
    if asked in ("angle", "area", "field"):
        check_refined(mesh, fine, options["min_angle"])
    if asked == "budget":
        assert len(fine.points) == len(mesh.points) + 137


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["italy", "norway"])
def test_coasts(device, name):
    mesh = morph.Mesh.read(MESHES / f"{name}.node")
    run = lambda d: morph.refine(mesh, 28, deterministic=True, device=d)  # noqa: E731
    found, fine = in_every_way(device, run)
    assert len(found) == 1
    check_refined(mesh, fine, 28)


@pytest.mark.parametrize("device", DEVICES)
def test_the_order_of_triangles_and_of_their_corners_does_not_matter(device):
    mesh, rng = square(300, 5), np.random.default_rng(2)
    turned = (rng.integers(0, 3, len(mesh.triangles))[:, None] + np.arange(3)) % 3
    triangles = rng.permutation(np.take_along_axis(mesh.triangles, turned, 1))
    other = morph.Mesh(mesh.points, triangles, segments=mesh.segments)
    made = [morph.refine(m, 28, deterministic=True, device=device) for m in (mesh, other)]
    for name in ("points", "triangles", "neighbors", "segments"):
        assert np.array_equal(*(host(getattr(m, name)) for m in made)), name


@pytest.mark.parametrize("device", DEVICES)
def test_no_point_is_left_after_a_small_round(device):
    mesh = morph.Mesh.read(MESHES / "italy.node")
    n = len(mesh.triangles) // 9
    run = lambda d: morph.refine(mesh, 30, max_points=n, deterministic=True, device=d)  # noqa: E731
    found, fine = in_every_way(device, run)
    assert len(found) == 1
    assert len(fine.points) == len(mesh.points) + n
    fine.check()


@pytest.mark.parametrize("device", DEVICES)
def test_rounds_are_not_launched_one_by_one(device, monkeypatch):
    """A coast takes many rounds of a few items: launches from the host take ten times as long."""
    launches = []
    run = DeterministicTables.reserve  # before each launch
    counted = lambda *args: launches.append(args) or run(*args)  # noqa: E731
    monkeypatch.setattr(DeterministicTables, "reserve", counted)
    mesh = morph.Mesh.read(MESHES / "canada.node")
    result = refine_with_report(mesh, 28, deterministic=True, device=device)
    assert result.rounds > 100
    assert len(launches) < 5


@tries(2)
@given(n=st.integers(3, 12), seed=st.integers(0, 10**6), angle=st.sampled_from([15, 28, 30]))
def test_small_meshes_on_every_target(target, n, seed, angle):
    mesh = attributed(square(n, seed))
    want = digest(morph.refine(mesh, angle, deterministic=True, device="cpu"))
    run = lambda: morph.refine(mesh, angle, deterministic=True, device=target)  # noqa: E731
    assert {digest(fine) for fine in everywhere(target, run)} == {want}


@pytest.mark.parametrize("device", DEVICES)
def test_cavities_that_no_local_collection_holds(device):
    """A point inside of a polygon of 300 corners replaces nearly all triangles at once."""
    turn = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    corners = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    points = np.concatenate([corners + [4.0 * i, 0] for i in range(2)])
    run = lambda d: morph.refine(points, 25, deterministic=True, device=d)  # noqa: E731
    found, fine = in_every_way(device, run)
    assert len(found) == 1
    fine.check()


@pytest.mark.parametrize("device", DEVICES)
def test_points_and_graphs_are_triangulated_first(device):
    """A grid: any diagonal of a square is Delaunay, and threads choose; not here."""
    x, y = np.meshgrid(np.arange(30.0), np.arange(30.0))
    points = np.random.default_rng(4).permutation(np.stack([x.ravel(), y.ravel()], axis=1))
    at = {tuple(p): i for i, p in enumerate(points.tolist())}
    corners = [at[c] for c in ((3.0, 4.0), (17.0, 4.0), (17.0, 20.0), (3.0, 20.0))]
    graph = morph.Pslg(
        points=points, segments=np.stack([corners, np.roll(corners, -1)], axis=1),
        regions=np.array([[5.0, 5.0, 7.0, 0.02]]),
    )  # fmt: skip
    for source in (points, graph):
        found, fine = in_every_way(
            device,
            lambda d, s=source: morph.refine(s, 30, max_area=0.1, deterministic=True, device=d),
        )
        assert len(found) == 1
        fine.check()


@tries(15)
@given(side=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_ties_are_canonicalised_from_any_start(target, side, seed):
    """Random diagonals of a grid, and of its circles of more points: one triangulation."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(float(side)), np.arange(float(side)))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    circle = np.array([[3, 4], [4, 3], [5, 0], [4, -3], [3, -4], [-3, -4], [-5, 0], [-4, 3]])
    for p in (points, rng.permutation(points), rng.permutation(circle).astype(float)):
        found = set()
        for _ in range(2):
            turn = rng.permutation(len(p))
            t = turn[Delaunay(p[turn]).simplices].astype(np.int32)
            u, v = p[t[:, 1]] - p[t[:, 0]], p[t[:, 2]] - p[t[:, 0]]
            area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
            t = t[area != 0]
            t[area[area != 0] < 0] = t[area[area != 0] < 0][:, [0, 2, 1]]
            made = canonical(morph.Mesh(p, t), morph.device(target))
            made.check()
            found.add(made.triangles.tobytes())
        assert len(found) == 1


def test_threads_of_a_process():
    code = """
import morph
import precompiled; precompiled.follow()
from refining import square
from test_refine_deterministic import digest
print(digest(morph.refine(square(2500, 1), 28, deterministic=True, device="cpu")))
"""
    found = set()
    for threads in "1", "2", "5":
        env = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = [sys.executable, "-c", code]
        found.add(subprocess.check_output(run, env=env, text=True, cwd=MESHES.parent))
    assert len(found) == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_the_command(tmp_path, threads):
    """A grid in a file; the reference is what Python makes of it."""
    x, y = np.meshgrid(np.arange(12.0), np.arange(12.0))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    (tmp_path / "grid.node").write_text(
        f"{len(points)} 2 0 0\n" + "".join(f"{i} {a} {b}\n" for i, (a, b) in enumerate(points))
    )
    asked = ["--deterministic", "-q", "30", "-a", "0.3", "--device", "cpu", "-o"]
    with testing.team(threads):
        given = ["refine", str(tmp_path / "grid.node"), *asked, str(tmp_path / "out")]
        done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    made = morph.Mesh.read(tmp_path / "out")
    want = morph.refine(points, 30, 0.3, deterministic=True, device="cpu")
    assert np.array_equal(made.points, want.points)
    assert np.array_equal(made.triangles, want.triangles)


def test_progress_and_report(target, monkeypatch):
    monkeypatch.setattr(
        "morph.algorithms.refinement.parameters.DEFERRAL_THRESHOLD", 8
    )  # rounds with and without deferral
    seen = []
    mesh = square(30, 1)
    result = refine_with_report(
        mesh, 25, deterministic=True, device=target, progress=lambda *x: seen.append(x)
    )
    assert [x[0] for x in seen] == list(range(1, result.rounds + 1))
    assert seen[-1][2] == len(result.mesh.triangles)
    assert digest(result.mesh) == digest(morph.refine(mesh, 25, deterministic=True))
