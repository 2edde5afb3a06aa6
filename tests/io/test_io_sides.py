"""`.area`, `.neigh` and `.edge` files: round trips, and every malformation with its line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshfiles import MESHES, PARSERS, grid, put, refusal, use_parser

from morph.io import (
    mesh_edges,
    read_area,
    read_edge,
    read_mesh,
    read_neigh,
    write_area,
    write_edge,
    write_mesh,
    write_neigh,
)
from morph.mesh import Mesh

AREA = "2\n1 .5\n2 -1\n"
NEIGH = "2 3\n1 -1 2 -1\n2 -1 -1 1\n"
EDGE = "5 1\n1 2 3 1\n2 1 3 0\n3 1 2 1\n4 3 4 1\n5 4 1 1\n"
READERS = {"area": read_area, "neigh": read_neigh, "edge": read_edge}
NUMBERS = "numbers must follow one another, as the first vertex counts"

BAD = {
    ("area", ""): "m.area:1: the file ends before the triangle header (number of triangles)",
    ("area", "2 1\n1 .5\n2 1\n"): "m.area:1: the triangle header has 2 fields, expected 1: number"
    " of triangles",
    ("area", "3\n1 .5\n2 1\n3 1\n"): "m.area:1: the file is about 3 triangles, the mesh has 2",
    ("area", "2\n1 .5\n"): "m.area:2: the file ends after 1 of 2 triangles",
    ("area", "2\n1 .5\n3 1\n"): f"m.area:3: found triangle 3, expected triangle 2: {NUMBERS}",
    ("area", "2\n0 .5\n1 1\n"): f"m.area:2: found triangle 0, expected triangle 1: {NUMBERS}",
    ("area", "2\n1 nan\n2 1\n"): "m.area:2: the area is not a finite number: 'nan'",
    ("area", "2\n1 .5\n2 1,5\n"): "m.area:3: a comma: fields are separated by blanks",
    ("area", AREA + "3 1\n"): "m.area:4: unexpected '3' after the last of the triangles",
    ("neigh", "2 4\n"): "m.neigh:1: the number of neighbors is 4, expected 3",
    ("neigh", "1 3\n1 -1 -1 -1\n"): "m.neigh:1: the file is about 1 triangles, the mesh has 2",
    ("neigh", NEIGH[:-8]): "m.neigh:3: found 1 fields, expected 4: triangle number neighbor 1"
    " neighbor 2 neighbor 3",
    ("neigh", NEIGH.replace("1 -1 2", "1 -1 3")): "m.neigh:2: triangle 1 names neighbor 3, but"
    " triangles are 1 to 2, and -1 is none",
    ("neigh", NEIGH.replace("1 -1 2", "1 -1 0")): "m.neigh:2: triangle 1 names neighbor 0, but"
    " triangles are 1 to 2, and -1 is none",
    ("neigh", NEIGH.replace("-1 1\n", "-1 -1\n")): "m.neigh:2: triangle 1 names neighbor 2, which"
    " does not name it back",
    ("neigh", NEIGH.replace("1 -1 2", "1 1 2")): "m.neigh:2: triangle 1 names neighbor 1, itself",
    ("neigh", NEIGH.replace("1 -1 2", "1 2 -1")): "m.neigh:2: triangle 1 names neighbor 2, which"
    " is not what the triangles' corners say",
    ("neigh", NEIGH.replace("2 -1", "2 -1.0")): "m.neigh:2: the neighbor 3 is not an integer:"
    " '-1.0'",
    ("edge", "5 2\n"): "m.edge:1: the number of markers is 2, expected 0 or 1",
    ("edge", EDGE.replace("4 3 4", "4 3 5")): "m.edge:5: edge 4 joins vertices 3 and 5, but"
    " vertices are 1 to 4",
    ("edge", EDGE.replace("4 3 4", "4 3 -1")): "m.edge:5: edge 4 joins vertices 3 and -1, but"
    " vertices are 1 to 4",
    ("edge", EDGE.replace("4 3 4", "4 3 3")): "m.edge:5: edge 4 joins a vertex to itself",
    ("edge", EDGE.replace("4 3 4", "4 3 1")): "m.edge:5: edge 4 repeats edge 2",
    ("edge", EDGE.replace("4 3 4", "4 2 4")): "m.edge:5: edge 4 (2 4) is not an edge of any"
    " triangle",
    ("edge", EDGE.replace("4 1 1", "4 1 9999999999")): "m.edge:6: marker 9999999999 does not fit"
    " 32 bits",
    ("edge", EDGE + "\x00"): "m.edge:7: binary data where text is expected",
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("kind, text", BAD, ids=lambda t: repr(t)[:40])
def test_bad(tmp_path, monkeypatch, kind, text, parser):
    mesh = read_mesh(put(tmp_path))
    use_parser(monkeypatch, parser)
    path = tmp_path / f"m.{kind}"
    path.write_text(text)
    assert refusal(path, READERS[kind], mesh=mesh) == BAD[kind, text]


def test_good(tmp_path):
    mesh = read_mesh(put(tmp_path))
    for kind, text in (("area", AREA), ("neigh", NEIGH), ("edge", EDGE)):
        (tmp_path / f"m.{kind}").write_text("# head\n" + text.replace("\n", " # a\r\n\r\n"))
    for known in (None, mesh):
        assert read_area(tmp_path / "m.area", known).tolist() == [0.5, -1]
        assert read_neigh(tmp_path / "m.neigh", known).tolist() == [[-1, 1, -1], [-1, -1, 0]]
        edges, markers = read_edge(tmp_path / "m.edge", known)
        assert edges.tolist() == [[1, 2], [0, 2], [0, 1], [2, 3], [3, 0]]
        assert markers.tolist() == [1, 0, 1, 1, 1]


def test_without_markers_edges_have_none(tmp_path):
    (tmp_path / "e.edge").write_text("2\n0 0 1\n1 1 5\n")
    edges, markers = read_edge(tmp_path / "e.edge")
    assert (edges.tolist(), markers.tolist()) == ([[0, 1], [1, 5]], [0, 0])


@given(st.integers(1, 8), st.integers(1, 8), st.randoms(use_true_random=False))
def test_round_trips(tmp_path_factory, wide, tall, random):
    mesh, folder = grid(wide, tall, random), tmp_path_factory.mktemp("sides")
    write_mesh(mesh, folder / "m", neighbors=True, edges=True)
    assert np.array_equal(read_neigh(folder / "m.neigh", mesh), mesh.neighbors)
    edges, markers = read_edge(folder / "m.edge", mesh)
    assert np.array_equal(edges, mesh_edges(mesh)[0])
    assert np.array_equal(markers, mesh_edges(mesh)[1])
    write_neigh(mesh, folder / "n.neigh")
    write_edge(mesh, folder / "n.edge")
    for kind in ("neigh", "edge"):
        assert (folder / f"n.{kind}").read_bytes() == (folder / f"m.{kind}").read_bytes()
    areas = np.array(
        [random.choice([random.random(), np.nan, -3.0, np.inf, 0.0]) for _ in mesh.triangles]
    )
    write_area(areas, folder / "m.area", mesh.base)
    wanted = [v if v > 0 and v < np.inf else -1 for v in areas.tolist()]
    assert read_area(folder / "m.area", mesh).tolist() == wanted


def test_edges_by_brute_force():
    mesh = read_mesh(MESHES / "canada")
    edges, markers = mesh_edges(mesh)
    every = {
        frozenset(e) for t in mesh.triangles.tolist() for e in zip(t, t[1:] + t[:1], strict=True)
    }
    assert {frozenset(e) for e in edges.tolist()} == every
    assert len(edges) == len(every)
    marked = {
        frozenset(s): m for s, m in zip(mesh.segments.tolist(), mesh.segment_markers, strict=True)
    }
    assert markers.tolist() == [marked.get(frozenset(e), 0) for e in edges.tolist()]


def test_triangle_has_the_same_neighbours_edges_and_markers():
    triangle = pytest.importorskip("triangle")
    points = np.random.default_rng(8).random((60, 2))
    segments = np.array([[3, 9]])
    given = {"vertices": points, "segments": segments, "segment_markers": [[5]]}
    out = triangle.triangulate(given, "pcenA")
    fixed, marks = out["segments"], out["segment_markers"].ravel()
    mesh = Mesh(out["vertices"], out["triangles"], segments=fixed, segment_markers=marks)
    assert np.array_equal(mesh.neighbors, out["neighbors"])
    edges, markers = mesh_edges(mesh)
    ours = {frozenset(e): m for e, m in zip(edges.tolist(), markers.tolist(), strict=True)}
    theirs = zip(out["edges"].tolist(), out["edge_markers"].ravel().tolist(), strict=True)
    assert ours == {frozenset(e): m for e, m in theirs}
    assert len(ours) == len(out["edges"])


def test_areas_must_be_one_a_triangle(tmp_path):
    with pytest.raises(ValueError, match="areas must have shape"):
        write_area(np.ones((2, 2)), tmp_path / "m.area")
    with pytest.raises(ValueError, match="base must be 0 or 1, got 2"):
        write_area(np.ones(2), tmp_path / "m.area", base=2)
    assert not list(tmp_path.iterdir())
