"""Boundary markers follow Triangle's rules: 1 at the boundary and 0 inside, unless given."""

import numpy as np
import pytest

import morph
from morph.io import mesh_edges, read_mesh

shewchuk = pytest.importorskip("triangle")

# a box of 6 by 4 with a square hole, an inner segment, an open line and a free point
POINTS = [[0, 0], [6, 0], [6, 4], [0, 4], [1, 1], [2, 1], [2, 2], [1, 2], [4, 0], [4, 4], [5, 1],
          [5, 3], [3, 2]]  # fmt: skip
BOX = [[0, 8], [8, 1], [1, 2], [2, 9], [9, 3], [3, 0]]
SQUARE = [[4, 5], [5, 6], [6, 7], [7, 4]]
INNER = [[8, 9], [10, 11]]
SEGMENTS = BOX + SQUARE + INNER
HOLE = [[1.5, 1.5]]
SOME = [0, 7, 0, 3, 0, 0, 0, 5, 0, 0, 4, 0]  # markers of some segments, 0 on others

INPUTS = {
    "no markers": {"segments": SEGMENTS},
    "a hole": {"segments": SEGMENTS, "holes": HOLE},
    "some markers": {"segments": SEGMENTS, "segment_markers": SOME},
    "some markers and a hole": {"segments": SEGMENTS, "segment_markers": SOME, "holes": HOLE},
    "marked points": {"segments": SEGMENTS, "segment_markers": SOME, "holes": HOLE,
                      "point_markers": [0, 9, 0, 0, 8, 0, 0, 0, 0, 0, 6, 0, 0]},
    "no outline": {"segments": SQUARE + INNER, "holes": HOLE, "hull": True},
    "a concavity": {"segments": [[0, 8], [8, 9], [9, 3], [3, 0], *SQUARE], "holes": HOLE},
    "points": {},
}  # fmt: skip
THEIRS = {"point_markers": "vertex_markers"}


def of_triangle(switches, points, hull=False, **given):
    """What Triangle makes of the same input."""
    given = {THEIRS.get(name, name): value for name, value in given.items()}
    for name in ("vertex_markers", "segment_markers"):
        if name in given:
            given[name] = np.reshape(given[name], (-1, 1))
    switches = ("p" if "segments" in given else "") + ("c" if hull else "") + switches
    return shewchuk.triangulate({"vertices": points, **given}, switches)


def of_morph(given, target):
    given = dict(given)
    hull = given.pop("hull", False)
    return morph.triangulate(morph.Pslg(POINTS, **given), hull=hull, device=target)


def by_ends(ends, markers):
    return {tuple(sorted(pair)): int(m) for pair, m in zip(ends.tolist(), markers, strict=True)}


def assert_marked_alike(mesh, theirs):
    """Markers of points, segments and edges, where both have the same points."""
    assert mesh.point_markers.tolist() == theirs["vertex_markers"].ravel().tolist()
    edges = by_ends(*mesh_edges(mesh))
    known = by_ends(theirs["edges"], theirs["edge_markers"].ravel())
    assert {e: edges[e] for e in known if e in edges} == {e: known[e] for e in known if e in edges}
    segments = by_ends(mesh.segments, mesh.segment_markers)
    assert segments == {e: edges[e] for e in segments}
    if "segments" in theirs:
        assert segments == by_ends(theirs["segments"], theirs["segment_markers"].ravel())


@pytest.mark.parametrize("name", INPUTS)
def test_triangulations(name, target):
    theirs = of_triangle("e", POINTS, **INPUTS[name])
    assert_marked_alike(of_morph(INPUTS[name], target), theirs)


def on_segments(middles, points, segments):
    """The input segment that each place lies on, -1 for none; all of them are level or upright."""
    found = np.full(len(middles), -1)
    for row, (a, b) in enumerate(np.asarray(points, float)[np.asarray(segments)]):
        low, high = np.minimum(a, b), np.maximum(a, b)
        found[((middles >= low) & (middles <= high)).all(axis=1)] = row
    return found


def markers_by_segment(points, point_markers, ends, markers, segments, inside):
    """Which markers pieces of each input segment, and new points on it, have."""
    middles, new = points[ends].mean(axis=1), points[inside:]
    of_pieces = zip(on_segments(middles, POINTS, segments), markers, strict=True)
    of_points = zip(on_segments(new, POINTS, segments), point_markers[inside:], strict=True)
    return [{(int(s), int(m)) for s, m in pairs} for pairs in (of_pieces, of_points)]


def assert_refined_alike(fine, theirs, segments):
    n = len(POINTS)
    assert fine.point_markers[:n].tolist() == theirs["vertex_markers"][:n].ravel().tolist()
    assert markers_by_segment(
        fine.points, fine.point_markers, fine.segments, fine.segment_markers, segments, n
    ) == markers_by_segment(
        theirs["vertices"], theirs["vertex_markers"].ravel(), theirs["segments"],
        theirs["segment_markers"].ravel(), segments, n,
    )  # fmt: skip
    assert len(fine.points) > 2 * n and len(theirs["vertices"]) > 2 * n


@pytest.mark.parametrize("name", [name for name in INPUTS if INPUTS[name].get("segments")])
def test_refined_triangulations(name, target):
    given = INPUTS[name]
    fine = morph.refine(of_morph(given, target), 25, max_area=0.1, device=target)
    theirs = of_triangle("q25a0.1", POINTS, **given)
    segments = given["segments"] + ([[0, 1], [1, 2], [2, 3], [3, 0]] if "hull" in given else [])
    assert_refined_alike(fine, theirs, segments)


@pytest.mark.parametrize("marked", [False, True])
def test_refined_meshes_whose_hull_has_marker_0(marked, target):
    coarse = of_triangle("", POINTS, segments=SEGMENTS, holes=HOLE)
    point_markers = np.array([0, 9, 0, 0, 8, 0, 0, 0, 0, 0, 6, 0, 0]) * marked
    markers = np.array(SOME) * marked
    mesh = morph.Mesh(POINTS, coarse["triangles"], segments=SEGMENTS, segment_markers=markers,
                      point_markers=point_markers)  # fmt: skip
    theirs = of_triangle("rq25a0.1", POINTS, triangles=coarse["triangles"], segments=SEGMENTS,
                         segment_markers=markers, point_markers=point_markers)  # fmt: skip
    fine = morph.refine(mesh, 25, max_area=0.1, device=target)
    assert_refined_alike(fine, theirs, SEGMENTS)
    assert (mesh.segment_markers == markers).all() and (mesh.point_markers == point_markers).all()


@pytest.mark.gpu
@pytest.mark.parametrize("marked", [False, True])
def test_refined_meshes_on_a_gpu_are_marked_alike(marked):
    mesh = of_morph(INPUTS["a hole"], "cpu")
    mesh.segment_markers[:] *= marked
    mesh.point_markers[:] = 0
    host = morph.refine(mesh, 25, max_area=0.05, deterministic=True, device="cpu")
    there = morph.refine(mesh.to("cuda"), 25, max_area=0.05, deterministic=True, device="cuda")
    for name in ("segments", "segment_markers", "point_markers"):
        assert (getattr(there.to("cpu"), name) == getattr(host, name)).all()


def poly_text(markers):
    """The box with a hole as a ``.poly`` file, with or without columns of markers."""
    rows = [f"{len(POINTS)} 2 0 0", *(f"{k} {x} {y}" for k, (x, y) in enumerate(POINTS))]
    rows.append(f"{len(SEGMENTS)} {int(markers is not None)}")
    for k, (a, b) in enumerate(SEGMENTS):
        rows.append(f"{k} {a} {b}" + ("" if markers is None else f" {markers[k]}"))
    return "\n".join([*rows, "1", "0 1.5 1.5", ""])


@pytest.mark.parametrize("markers", [None, SOME], ids=["no column", "a column"])
def test_files(markers, tmp_path):
    (tmp_path / "box.poly").write_text(poly_text(markers))
    given = {} if markers is None else {"segment_markers": markers}
    theirs = of_triangle("e", POINTS, segments=SEGMENTS, holes=HOLE, **given)
    mesh = morph.triangulate(tmp_path / "box.poly", device="cpu")
    assert_marked_alike(mesh, theirs)
    mesh.write(tmp_path / "box")
    assert_marked_alike(read_mesh(tmp_path / "box"), theirs)
    fine = morph.refine(tmp_path / "box.poly", 25, max_area=0.05, device="cpu")
    theirs = of_triangle("q25a0.1", POINTS, segments=SEGMENTS, holes=HOLE, **given)
    assert_refined_alike(fine, theirs, SEGMENTS)
