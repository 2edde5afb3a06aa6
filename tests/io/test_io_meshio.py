"""Conversion from and to meshio: data that is kept, reoriented or refused."""

import random

import numpy as np
import pytest
from meshfiles import MESHES, assert_equal, grid

from morph.io import from_meshio, read_mesh, to_meshio

meshio = pytest.importorskip("meshio")
POINTS = np.array([[0, 0], [1, 0], [0, 1.0]])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("three_d", [False, True])
def test_meshio_and_back(three_d, order):
    mesh = read_mesh(MESHES / "south_africa")
    mesh.triangle_attributes = np.arange(len(mesh.triangles))[:, None] * 0.5
    there = to_meshio(mesh, three_d=three_d, order=order)
    assert there.points.shape[1] == 2 + three_d
    back = from_meshio(there)
    back.holes, back.base = mesh.holes, mesh.base
    assert_equal(mesh, back)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("suffix", [".vtk", ".vtu", ".msh"])
def test_files_of_formats_that_want_three_coordinates(tmp_path, suffix, order):
    mesh = grid(4, 3, random.Random(7))
    there = to_meshio(mesh, three_d=True, order=order)
    if suffix == ".msh":  # of cell data, meshio carries Gmsh's own only
        there.cell_data = {"gmsh:physical": there.cell_data["marker"]}
        there.cell_data["gmsh:geometrical"] = there.cell_data["gmsh:physical"]
        mesh.triangle_attributes = np.empty((len(mesh.triangles), 0))
    path = tmp_path / f"m{suffix}"
    there.write(path, file_format="gmsh22" if suffix == ".msh" else None)
    back = from_meshio(path)
    back.holes, back.regions, back.base = mesh.holes, mesh.regions, mesh.base
    assert_equal(mesh, back)


def test_flat_formats_take_two_coordinates(tmp_path):
    mesh = read_mesh(MESHES / "italy")
    to_meshio(mesh).write(tmp_path / "italy.mesh")
    back = from_meshio(tmp_path / "italy.mesh")
    assert np.array_equal(back.triangles, mesh.triangles)
    assert np.array_equal(back.points, mesh.points)


def test_clockwise_triangles_are_turned_middles_too():
    mesh = from_meshio(meshio.Mesh(POINTS, [("triangle", [[0, 2, 1]])]))
    assert mesh.quality().area == 0.5
    points = np.concatenate([POINTS, [[0, 0.5], [0.5, 0.5], [0.5, 0]]])
    mesh = from_meshio(meshio.Mesh(points, [("triangle6", [[0, 2, 1, 3, 4, 5]])]))
    assert mesh.triangles.tolist() == [[0, 1, 2]]
    assert mesh.points.tolist() == POINTS.tolist()


def test_markers_of_gmsh_and_chosen_data():
    cells = [("line", [[0, 1]]), ("vertex", [[0]]), ("triangle", [[0, 1, 2]])]
    source = meshio.Mesh(
        np.pad(POINTS, ((0, 0), (0, 1)), constant_values=4.5),
        cells,
        point_data={"u": np.array([1.0, 2, 3]), "flow": np.eye(3)[:, :2]},
        cell_data={
            "gmsh:physical": [np.array([7]), np.array([0]), np.array([2])],
            "density": [np.zeros(1), np.zeros(1), np.array([2.5])],
        },
    )
    mesh = from_meshio(source, point_attributes=["flow", "u"], triangle_attributes=["density"])
    assert mesh.segment_markers.tolist() == [7, 1, 1]
    assert mesh.point_attributes.tolist() == [[1, 0, 1], [0, 1, 2], [0, 0, 3]]
    assert mesh.triangle_attributes.tolist() == [[2.5]]
    assert from_meshio(source).point_attributes.shape == (3, 0)
    with pytest.raises(ValueError, match=r"no data named 'v': there are \['flow', 'u'\]"):
        from_meshio(source, point_attributes=["v"])


def test_attributes_keep_their_order_beyond_nine():
    data = {f"attribute_{k}": np.full(3, float(k)) for k in (10, 2, 1)}
    mesh = from_meshio(meshio.Mesh(POINTS, [("triangle", [[0, 1, 2]])], point_data=data))
    assert mesh.point_attributes[0].tolist() == [1, 2, 10]


TRIANGLE = ("triangle", [[0, 1, 2]])
BAD = {
    "cells of type 'quad'": (np.eye(4)[:, :2], [("quad", [[0, 1, 2, 3]])], {}),
    "one plane z = constant: z is 0.0 at point 0 and 1.0 at point 2": (np.eye(3), [TRIANGLE], {}),
    "there are no triangles": (POINTS, [("line", [[0, 1]])], {}),
    r"triangle 0 \[0, 1, 1\] has no area": (POINTS, [("triangle", [[0, 1, 1]])], {}),
    r"point 1 \[inf, 0.0\] is not finite": ([[0, 0], [np.inf, 0], [0, 1]], [TRIANGLE], {}),
    r"a triangle names a point outside 0\.\.2": (POINTS, [("triangle", [[0, 1, 3]])], {}),
    "marker must hold integers of 32 bits": (POINTS, [TRIANGLE], {"marker": [0.5, 1, 1]}),
    "triangle 0: vertex 5 is not in the middle of edge 2 0: curved edges are not supported": (
        np.concatenate([POINTS, [[0.5, 0], [0.5, 0.5], [0.1, 0.5]]]),
        [("triangle6", [[0, 1, 2, 3, 4, 5]])],
        {},
    ),
    "first and of second order": (
        np.concatenate([POINTS, [[0.5, 0], [0.5, 0.5], [0, 0.5]]]),
        [("triangle6", [[0, 1, 2, 3, 4, 5]]), TRIANGLE],
        {},
    ),
    "points must have 2 or 3 coordinates": (POINTS[:, :1], [TRIANGLE], {}),
}


@pytest.mark.parametrize("message", BAD, ids=lambda m: m[:20])
@pytest.mark.filterwarnings("ignore:.*VTK requires:UserWarning", "ignore::RuntimeWarning")
def test_bad(message):
    points, cells, point_data = BAD[message]
    with pytest.raises(ValueError, match=message):
        from_meshio(meshio.Mesh(points, cells, point_data=point_data))


def test_a_line_that_ends_in_a_middle_is_refused():
    points = np.concatenate([POINTS, [[0.5, 0], [0.5, 0.5], [0, 0.5]]])
    cells = [("triangle6", [[0, 1, 2, 3, 4, 5]]), ("line", [[0, 3]])]
    with pytest.raises(ValueError, match="line 0 ends in the middle of an edge"):
        from_meshio(meshio.Mesh(points, cells))


def test_an_order_that_is_none():
    with pytest.raises(ValueError, match="order must be 1 or 2, got 0"):
        to_meshio(read_mesh(MESHES / "square"), order=0)
