"""Meshes on a GPU, simulated by NumPy, and on a real one if there is one."""

import dataclasses
import sys

import numpy as np
import pytest
from far import Far, Module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay

import morph
from morph.mesh import Mesh, MeshError
from morph.runtime import arrays
from morph.runtime.cuda.device import CudaDevice

device_module = sys.modules["morph.runtime.device"]  # morph.device is the function
ARRAYS = [f.name for f in dataclasses.fields(Mesh) if f.name != "base"]


@pytest.fixture(params=["far", pytest.param("cupy", marks=pytest.mark.gpu)])
def xp(request, monkeypatch):
    """The module of arrays on ``cuda:0``."""
    if request.param == "cupy":
        return pytest.importorskip("cupy")
    module = Module()
    known = {**device_module._known, "cuda:0": CudaDevice("cuda", 0, module)}
    monkeypatch.setattr(device_module, "_known", known)
    monkeypatch.setattr(arrays, "_fetch", Far.get)
    monkeypatch.setattr(arrays, "_fetch_all", lambda given: list(map(Far.get, given)))
    monkeypatch.setattr(CudaDevice, "extremes", device_module.Device.extremes)
    return module


def random_mesh(seed):
    rng = np.random.default_rng(seed)
    points = rng.random((int(rng.integers(4, 90)), 2))
    triangles = Delaunay(points).simplices
    p, q, r = points[triangles].transpose(1, 2, 0)
    turn = (q[0] - p[0]) * (r[1] - p[1]) < (q[1] - p[1]) * (r[0] - p[0])
    triangles[turn] = triangles[turn][:, ::-1]
    return points, triangles[rng.random(len(triangles)) < 0.9].astype(np.int32)


def same(there, here):
    for name in ARRAYS:
        value = getattr(there, name)
        assert not isinstance(value, np.ndarray), name
        assert value.get().tolist() == getattr(here, name).tolist(), name
        assert value.dtype == getattr(here, name).dtype, name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), bits=st.sampled_from([63, 20, 0]))
def test_what_is_missing_is_worked_out_there(xp, seed, bits):
    points, triangles = random_mesh(seed)
    if not len(triangles):
        return
    edge = triangles[:1, :2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("morph.mesh.halfedges.WORD_BITS", bits)
        there = Mesh(xp.asarray(points), xp.asarray(triangles), segments=xp.asarray(edge))
    here = Mesh(points, triangles, segments=edge)
    same(there, here)
    assert there.device.name == "cuda:0"
    ours, theirs = dataclasses.asdict(there.quality()), dataclasses.asdict(here.quality())
    for name in ("histogram", "aspect_histogram"):
        assert ours.pop(name) == theirs.pop(name)
    assert ours == pytest.approx(theirs, rel=1e-12)
    for name in ("areas", "angles", "aspect_ratios", "radius_edge_ratios"):
        assert getattr(there, name)().get() == pytest.approx(getattr(here, name)(), rel=1e-12)
    assert there.violations() == here.violations()


def test_arrays_are_kept_there(xp):
    points, triangles = random_mesh(1)
    here = Mesh(points, triangles)
    arrays = {name: xp.asarray(getattr(here, name)) for name in ARRAYS}
    for there in (Mesh(**arrays), Mesh.trusted(**arrays)):
        for name, array in arrays.items():
            kept = getattr(there, name)
            if isinstance(array, Far):
                assert kept is array or np.shares_memory(kept.here, array.here) or not array.size
            else:
                assert kept.data.ptr == array.data.ptr
        assert there.to("cuda") is there
        there.to("cpu").check()


def test_to_and_fro(xp, tmp_path):
    here = Mesh(*random_mesh(2))
    there = here.to("cuda")
    same(there, here)
    back = there.to("cpu")
    for name in ARRAYS:
        assert getattr(back, name).tolist() == getattr(here, name).tolist()
    there.write(tmp_path / "mesh")
    assert len(Mesh.read(tmp_path / "mesh.node").triangles) == len(here.triangles)


def test_refused_there(xp):
    points, triangles = random_mesh(3)
    there = xp.asarray(points), xp.asarray(triangles)
    with pytest.raises(ValueError, match="points lies on cuda:0 and triangles on cpu"):
        Mesh(there[0], triangles)
    with pytest.raises(ValueError, match="points lies on cpu and triangles on cuda:0"):
        Mesh(points, there[1])
    with pytest.raises(ValueError, match=r"triangles\[0\] = .*: an index must be in 0..2"):
        Mesh(there[0][:3], xp.asarray(np.maximum(triangles, 3)))
    with pytest.raises(MeshError, match="triangles 0 and 1 lie on the same side of edge"):
        Mesh(there[0], xp.asarray(triangles[[0, 0]]))
    assert Mesh(there[0], there[1].tolist()).device.name == "cuda:0"


@pytest.mark.gpu
def test_refining_there():
    here = Mesh(*random_mesh(4))
    fine = morph.refine(here.to("cuda"), min_angle=20, device="cuda")
    fine.check()
    assert fine.quality().area == pytest.approx(here.quality().area)


def test_the_dual_and_used_points_are_worked_out_there(xp):
    thin = np.array([[0, 0], [1, 1e-13], [0.5, 6e-14], [0.3, 1], [9, 9]])
    for points in (random_mesh(3)[0], thin):
        n = len(points) - 1
        triangles = Delaunay(points[:n]).simplices if points is not thin else [[0, 1, 2], [0, 2, 3]]
        triangles = np.asarray(triangles, np.int32)
        p, q, r = points[triangles].transpose(1, 2, 0)
        turn = (q[0] - p[0]) * (r[1] - p[1]) < (q[1] - p[1]) * (r[0] - p[0])
        triangles[turn] = triangles[turn][:, ::-1]
        here = Mesh(
            points, triangles, point_attributes=points * [[1, 3]], point_markers=range(n + 1)
        )
        there = here.to("cuda")
        for found, known in zip(there.voronoi(), here.voronoi(), strict=True):
            assert not isinstance(found, np.ndarray) and found.dtype == known.dtype
            np.testing.assert_allclose(found.get(), known, rtol=1e-9, atol=1e-9)
        made = there.compact()
        same(made, here.compact())
        assert len(made.points) == n and made.compact() is made
