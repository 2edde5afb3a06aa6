"""Refinement on several devices: valid as on one, and of nearly the same size."""

from __future__ import annotations

import os
import sys
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from interrupting import Interrupts
from pretend import Pretended, pretended
from refining import check_refined, square, violating
from scipy.spatial import Delaunay
from targets import examples, tries
from test_refine import MESHES
from test_refine_deterministic import digest
from test_refine_options import halves

import morph
from morph import testing
from morph.algorithms.refinement import part, parts
from morph.algorithms.refinement.refine import refine_with_report
from morph.cli import main
from morph.launch import scratch
from morph.mesh import MeshError

GPU = pytest.param(["cuda:0", "cuda:0", "cpu"], marks=pytest.mark.gpu)
DEVICES = [["cpu", "cpu"], ["cpu", "cpu", "cpu"], GPU]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(parts, "LEAST", 40)


def plates():
    """A PSLG: a rectangle with a hole, and segments inside that share points with nothing."""
    x, y = st.floats(0.15, 0.4), st.floats(0.1, 0.9)
    return st.builds(plate, x, y, st.integers(0, 30), st.integers(0, 10**6))


def plate(x, y, n, seed):
    rim = [[0, 0], [2, 0], [2, 1], [0, 1]]
    hole = [[1 - x, 0.3], [1 + x, 0.3], [1 + x, 0.7], [1 - x, 0.7]]
    inside = [[0.1, y], [0.5, 0.5]]
    more = np.random.default_rng(seed).random((n, 2)) * [2, 1]
    points = np.concatenate([rim, hole, inside, more])
    around = [[k, (k + 1) % 4] for k in range(4)]
    segments = [*around, *([4 + a, 4 + b] for a, b in around), [8, 9]]
    return morph.triangulate(points, segments, [[1, 0.5]], device="cpu")


@tries(12)
@given(
    plates(), st.sampled_from([0, 20, 28, 32]), st.sampled_from([None, 0.01, 0.002]),
    st.booleans(), st.sampled_from([2, 3, 5]),
)  # fmt: skip
def test_any_plate(mesh, angle, area, strict, size):
    options = {"boundary": "keep-hull", "conforming": True} if strict else {}
    done = refine_with_report(mesh, angle, area, device=["cpu"] * size, **options)
    check_refined(mesh, done.mesh, 0)
    assert set(done.unmet) <= {"boundary kept", "small input angle"}
    bad = violating(done.mesh, angle, np.inf if area is None else area)
    assert bad.sum() == sum(done.unmet.values())
    assert done.added == len(done.mesh.points) - len(mesh.points)


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_size_is_that_of_one_device(devices, monkeypatch):
    monkeypatch.setattr(parts, "LEAST", 1000)
    mesh = square(6000, 3)
    one, done = (refine_with_report(mesh, 25, device=d) for d in ("cpu", devices))
    check_refined(mesh, done.mesh, 25)
    assert done.unmet == {}
    assert len(done.mesh.triangles) < 1.02 * len(one.mesh.triangles)


@pytest.mark.parametrize("options", [{"size": True}, {"max_points": 300}], ids=str)
def test_size_of_a_small_mesh(options):
    mesh = square(300, 3)
    if "size" in options:
        options = {"size": 0.01 + 0.1 * np.hypot(*(mesh.points - 0.3).T)}
    with pytest.MonkeyPatch.context() as patch, testing.team(1):
        patch.setattr(parts, "LEAST", 20_000)
        one, done = (
            refine_with_report(mesh, 25, device=d, **options) for d in ("cpu", ["cpu"] * 2)
        )
    check_refined(mesh, done.mesh, 0)
    assert len(done.mesh.triangles) == len(one.mesh.triangles)  # of one thread; it is not divided


@pytest.mark.parametrize("devices", [["cpu", "python"], ["python", "cpu"]], ids=str)
def test_a_coast_by_cpu_and_interpreter(devices, monkeypatch):
    mesh = morph.Mesh.read(MESHES / "italy.node")
    seen = []
    monkeypatch.setattr(parts, "LEAST", 20)
    done = refine_with_report(mesh, 25, device=devices, progress=lambda *x: seen.append(x))
    check_refined(mesh, done.mesh, 25)
    assert done.unmet == {} and done.mesh.quality().min_angle >= 25
    assert [x[0] for x in seen] == list(range(1, len(seen) + 1))
    assert len(seen) > 1 and seen[-1][1:] == (0, len(done.mesh.triangles))


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"deterministic": True}, {"size": 0.004}], ids=str)
def test_on_gpus(options, monkeypatch):
    monkeypatch.setattr(parts, "LEAST", 5000)
    cupy = pytest.importorskip("cupy")
    devices = [f"cuda:{k % cupy.cuda.runtime.getDeviceCount()}" for k in range(4)]
    mesh = square(50_000, 3).to("cuda:0")
    one, done = (refine_with_report(mesh, 28, device=d, **options) for d in ("cuda", devices))
    assert done.mesh.device.name == "cuda:0" and done.unmet == {}
    done.mesh.check()
    assert done.mesh.quality().min_angle >= 28
    assert len(done.mesh.triangles) < 1.03 * len(one.mesh.triangles)


def test_on_a_pretended_gpu(monkeypatch):
    gpu = pretended(monkeypatch)
    mesh = square(100, 1)
    limits = np.full(len(mesh.triangles), 0.001)
    done = refine_with_report(mesh, 25, limits, 0.05, device=[gpu, gpu])
    check_refined(mesh, done.mesh, 25)
    assert done.unmet == {} and type(done.mesh.points) is np.ndarray


def test_rounds_of_parts_on_pretended_gpus(monkeypatch):
    """Wide strips are divided again while threads write and read the triangles on the host."""
    gpus = [pretended(monkeypatch, 0), *map(Pretended, range(1, 4))]
    for gpu in gpus[1:]:
        monkeypatch.setitem(scratch._scratch, gpu.name, scratch.Scratch(gpu))
    monkeypatch.setattr(parts, "RINGS", 16)
    monkeypatch.setattr(parts, "LEAST", 100)
    mesh, seen = square(1000, 1), []
    for _ in range(3):
        done = refine_with_report(
            mesh, 28, 0.001, device=gpus, progress=lambda *x: seen.append(x[0])
        )
        check_refined(mesh, done.mesh, 28)
        assert done.unmet == {} and seen[-1] > 2


def test_a_device_with_too_little_memory(monkeypatch):
    mesh = square(100, 1)
    before = digest(mesh)
    refine = Mock(side_effect=MemoryError)
    monkeypatch.setattr(part, "refine_tables", refine)
    with pytest.raises(MemoryError) as caught:
        refine_with_report(mesh, 25, 0.001, device=["cpu", "cpu"])
    assert caught.value.__notes__ == ["on part 0"]
    assert refine.call_count == 1  # the other part is not refined in vain
    assert digest(mesh) == before


@pytest.mark.parametrize("size", [2, 3])
def test_deterministic_for_any_number_of_threads(size):
    mesh = square(300, 5)
    found = set()
    for n in (1, 2, 3):
        with testing.team(n):
            done = morph.refine(mesh, 28, 0.001, device=["cpu"] * size, deterministic=True)
        found.add(digest(done))
    check_refined(mesh, done, 28)
    assert len(found) == 1


def test_deterministic_results_of_parts_with_borders():
    mesh = square(100, 1)
    refine = dict(size=0.05, device=["cpu", "cpu"], deterministic=True)
    done = morph.refine(mesh, 25, **refine)
    check_refined(mesh, done, 25)
    assert digest(done) == digest(morph.refine(mesh, 25, **refine))


def test_a_strip_to_which_no_point_can_be_added_becomes_wider():
    """Until it is the whole mesh; it is never divided into parts again."""
    m, at = 1000, np.arange(1000)
    run = Mock(devices=[0, 0], points_left=None)
    run.host = Mock(m=m, n=m, waiting=[500])
    run.host.triangles = {"nbr": np.stack([at - 1, np.minimum(at + 1, m - 1), at], axis=1)}
    run.refine_all.side_effect = [(np.arange(500, 520), 0)]
    sizes = []

    def refine_strip(rows, most):
        sizes.append(len(rows))
        if len(rows) == m:
            run.host.waiting = []
        return 0

    run.refine_strip.side_effect = refine_strip
    parts._refine(run, None)
    assert sizes[-1] == m and len(sizes) < 20 and sorted(sizes) == sizes


def test_areas_sizes_and_attributes():
    mesh = square(60, 2)
    limits = np.where(np.arange(len(mesh.triangles)) % 3, 0.01, 0.001)
    fine = morph.refine(mesh, 20, limits, device=["cpu"] * 3)
    fine.check()
    held = Delaunay(mesh.points).find_simplex(fine.points[fine.triangles].mean(axis=1))
    assert not violating(fine, 20, limits[held]).any()

    def size(xy):
        return 0.03 + 0.1 * np.hypot(xy[:, 0] - 0.3, xy[:, 1])

    fine = morph.refine(mesh, 20, size=size, device=["cpu"] * 3)
    fine.check()
    assert not violating(fine, 20, sizes=size(fine.points)).any()
    mesh = morph.triangulate(halves(), device="cpu")
    mesh.point_attributes = mesh.points @ [[3.0], [-2.0]]
    fine = morph.refine(mesh, 20, 0.001, device=["cpu", "cpu"])
    first = fine.points[fine.triangles].mean(axis=1)[:, 0] < 1
    assert (fine.triangle_attributes[:, 0] == np.where(first, 3, 7)).all()
    assert np.allclose(fine.point_attributes, fine.points @ [[3.0], [-2.0]])


@pytest.mark.parametrize("most", [0, 1, 7, 200])
def test_no_more_points_than_asked_for(most):
    mesh = square(60, 2)
    done = refine_with_report(mesh, 20, 0.001, max_points=most, device=["cpu"] * 3)
    done.mesh.check()
    assert done.added <= most and done.unmet["budget"] > 0
    assert violating(done.mesh, 20, 0.001).sum() == sum(done.unmet.values())


@pytest.mark.unchecked
@pytest.mark.skipif(sys.implementation.name != "cpython", reason="instructions of CPython")
def test_an_interrupt_anywhere_leaves_the_mesh_as_it_was():
    places = os.path.dirname(parts.__file__)
    mesh = square(100, 4)
    before = digest(mesh)

    def run():
        return morph.refine(mesh, 25, device=["cpu", "cpu"], deterministic=True)

    expected = digest(run())
    whole = Interrupts(places)
    assert not whole.run(run)
    for k in range(1, whole.count + 1, whole.count // examples(16)):
        assert Interrupts(places, k).run(run)
        assert digest(mesh) == before
    assert digest(run()) == expected


def flipped(mesh, t, k):
    """The mesh with the edge behind corner k of a triangle flipped; None if that overlaps."""
    triangles, n = mesh.triangles.copy(), mesh.neighbors[t, k]
    a, b, c = np.roll(triangles[t], -k)
    d = np.setdiff1d(triangles[n], [b, c])[0]
    triangles[t], triangles[n] = [a, b, d], [a, d, c]
    u, v, w = mesh.points[triangles[[t, n]]].transpose(1, 0, 2)
    area = np.linalg.det(np.stack([v - u, w - u], axis=1))
    return morph.Mesh(mesh.points, triangles) if (area > 0).all() else None


def test_an_edge_of_any_triangle_is_checked():
    mesh = square(200, 1)
    inside = np.flatnonzero((mesh.neighbors >= 0).all(axis=1))
    others = [other for t in inside[::9] if (other := flipped(mesh, t, 0)) is not None]
    assert len(others) > 20
    for other in others:
        with pytest.raises(MeshError, match=r"Delaunay|delaunay"):
            morph.refine(other, 0, device=["cpu"] * 3)


def test_what_is_refused():
    points = np.array([[0, 0], [10, 0], [5, 1], [5, -1]], float)
    mesh = morph.Mesh(points, np.array([[0, 1, 2], [1, 0, 3]], np.int32))
    with pytest.raises(MeshError, match=r"Delaunay|delaunay"):
        morph.refine(mesh, device=["cpu", "cpu"])
    mesh = square(300, 2)
    t = int(np.flatnonzero((mesh.neighbors >= 0).all(axis=1))[0])
    opposite = np.setdiff1d(mesh.triangles[mesh.neighbors[t, 0]], mesh.triangles[t])[0]
    ends = [[mesh.triangles[t, 0], opposite]]
    mesh.segments = np.append(mesh.segments, ends, axis=0).astype(np.int32)
    mesh.segment_markers = np.append(mesh.segment_markers, np.int32(0))
    with pytest.raises(MeshError, match="segment"):
        morph.refine(mesh, device=["cpu", "cpu"])
    with pytest.raises(ValueError, match="device is a list of no devices"):
        morph.refine(mesh, device=[])
    with pytest.raises(ValueError, match="no device 'gpu'"):
        morph.refine(mesh, device=["cpu", "gpu"])


def test_the_command_line(tmp_path):
    out = tmp_path / "out"
    args = ["refine", str(MESHES / "italy.node"), "-q", "28", "--device", "cpu,cpu", "-o", str(out)]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    assert "\ncpu,cpu: " in done.output
    morph.Mesh.read(out).check()
    done = CliRunner().invoke(main, [*args[:-2], "--device", "cpu,gpu"])
    assert done.exit_code == 2 and "--device: no device 'gpu'" in done.output
