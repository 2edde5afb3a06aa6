"""Second-order elements: Triangle's numbering; extra nodes are checked and dropped when read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshfiles import MESHES, assert_equal, grid, put, refusal

from morph.io import RepairWarning, read_mesh, second_order, write_mesh
from morph.mesh import Mesh

#  4--7--3
#  |  / |     8 in the middle of 1 3, the edge of both triangles
#  9 8  6
#  |/   |
#  1--5--2
NODE = (
    "9 2 1 1\n1 0 0 1 1\n2 1 0 2 1\n3 1 1 3 1\n4 0 1 4 1\n"
    "5 .5 0 0 1\n6 1 .5 0 1\n7 .5 1 0 1\n8 .5 .5 0 0\n9 0 .5 0 1\n"
)
ELE = "2 6 1\n1 1 2 3 6 8 5 10\n2 1 3 4 7 9 8 20\n"


def test_middles_are_checked_and_left_behind(tmp_path):
    mesh = read_mesh(put(tmp_path, NODE, ELE, "0 2 0 0\n1 1\n1 3 1 5\n0\n"))
    assert mesh.points.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.point_attributes.tolist() == [[1], [2], [3], [4]]
    assert mesh.point_markers.tolist() == [1] * 4
    assert mesh.triangle_attributes.tolist() == [[10], [20]]
    assert mesh.segments[0].tolist() == [2, 0]
    mesh.check()


def test_middles_may_come_first(tmp_path):
    node = "6 2\n0 .5 0\n1 0 0\n2 .5 .5\n3 1 0\n4 0 .5\n5 0 1\n"
    mesh = read_mesh(put(tmp_path, node, "1 6\n0 1 3 5 2 4 0\n"))
    assert mesh.points.tolist() == [[0, 0], [1, 0], [0, 1]]
    assert mesh.triangles.tolist() == [[0, 1, 2]]


BAD = {
    ELE.replace("6 8 5", "6 8"): "m.ele:2: found 7 fields, expected 8: triangle number vertex 1"
    " vertex 2 vertex 3 vertex 4 vertex 5 vertex 6 attribute 1",
    ELE.replace("6 8 5", "6 10 5"): "m.ele:2: triangle 1 names vertex 10, but vertices are 1 to 9",
    ELE.replace("7 9 8", "8 7 9"): "m.ele:3: triangle 2: vertex 8 is not in the middle of edge 3 4:"
    " curved edges are not supported",
    ELE.replace("7 9 8", "2 9 8"): "m.ele:3: triangle 2: vertex 2 is a corner, and in the middle of"
    " an edge",
}


@pytest.mark.parametrize("ele", BAD)
def test_bad_middles(tmp_path, ele):
    assert refusal(put(tmp_path, NODE, ele)) == BAD[ele]


def test_an_edge_has_one_middle(tmp_path):
    node = NODE.replace("9 2 1 1", "10 2 1 1") + "10 .50001 .5 0 0\n"
    message = "m.ele:2: triangle 1: edge 3 1 has two nodes in its middle"
    assert refusal(put(tmp_path, node, ELE.replace("7 9 8", "7 9 10"))) == message


def test_a_segment_cannot_end_in_a_middle(tmp_path):
    base = put(tmp_path, NODE, ELE, "0 2 0 0\n1 1\n1 1 5 5\n0\n")
    assert refusal(base) == "m.poly:3: segment 1 (1 5) is not an edge of any triangle"


def test_repair_turns_the_middles_too(tmp_path):
    with pytest.warns(RepairWarning):
        mesh = read_mesh(
            put(tmp_path, NODE, ELE.replace("1 2 3 6 8 5", "1 3 2 6 5 8")), repair=True
        )
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]


@given(st.integers(1, 8), st.integers(1, 8), st.randoms(use_true_random=False))
def test_meshes_survive_a_round_trip(tmp_path_factory, wide, tall, random):
    mesh, folder = grid(wide, tall, random), tmp_path_factory.mktemp("order")
    write_mesh(mesh, folder / "m", order=2, neighbors=True, edges=True)
    assert_equal(mesh, read_mesh(folder / "m"))
    fine = second_order(mesh)
    ends = mesh.points[mesh.triangles]
    for k in range(3):
        wanted = 0.5 * (ends[:, (k + 1) % 3] + ends[:, (k + 2) % 3])
        assert np.array_equal(fine.points[fine.triangles[:, 3 + k]], wanted)
    middles = fine.points[fine.segments[:, 2]]
    assert np.array_equal(middles, 0.5 * mesh.points[mesh.segments].sum(axis=1))
    edges = len(np.unique(fine.triangles[:, 3:]))
    assert len(fine.points) == len(mesh.points) + edges
    assert edges == len(mesh.points) + len(mesh.triangles) - 1  # Euler


def test_triangle_makes_the_same_nodes():
    triangle = pytest.importorskip("triangle")
    points = np.random.default_rng(4).random((40, 2))
    out = triangle.triangulate({"vertices": points}, "co2")
    corners = out["triangles"][:, :3]
    mesh = Mesh(out["vertices"][:40], corners)
    fine = second_order(mesh)
    assert np.array_equal(fine.points[fine.triangles], out["vertices"][out["triangles"]])
    assert len(fine.points) == len(out["vertices"])
    theirs, ours = np.empty(len(fine.points), int), np.empty(len(fine.points), int)
    theirs[out["triangles"]] = out["vertex_markers"][:, 0][out["triangles"]]
    ours[out["triangles"]] = fine.point_markers[fine.triangles]
    assert np.array_equal(theirs[40:], ours[40:])


def test_markers_and_attributes_of_middles():
    mesh = Mesh(
        np.array([[0.0, 0], [1, 0], [0, 1e308 * 1.5]]),
        np.array([[0, 1, 2]]),
        segments=np.array([[2, 1], [0, 1]]),
        segment_markers=np.array([7, -3]),
        point_attributes=np.array([[1.0], [2.0], [1.5e308]]),
    )
    fine = second_order(mesh)
    assert fine.point_markers.tolist()[3:] == [7, 1, -3]
    assert fine.point_attributes.ravel().tolist()[3:] == [7.5e307, 7.5e307, 1.5]
    assert fine.segments.tolist() == [[2, 1, 3], [0, 1, 5], [2, 0, 4]]


def test_an_edge_without_room_is_refused(tmp_path):
    mesh = Mesh(np.array([[1.0, 1], [np.nextafter(1, 2), 1], [0, 2]]), np.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match=r"the middle of edge \(0, 1\) has the coord"):
        write_mesh(mesh, tmp_path / "m", order=2)
    with pytest.raises(ValueError, match="order must be 1 or 2, got 3"):
        write_mesh(mesh, tmp_path / "m", order=3)
    assert not list(tmp_path.iterdir())


def test_coastlines_of_second_order(tmp_path):
    mesh = read_mesh(MESHES / "canada")
    write_mesh(mesh, tmp_path / "m", order=2)
    assert_equal(mesh, read_mesh(tmp_path / "m"))
