"""Defects with one possible repair are repaired, with a warning; all others are errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshfiles import ELE, NODE, POLY, assert_equal, grid, put, refusal

from morph.io import RepairWarning, read_mesh, write_mesh
from morph.io.mesh.repair import first_twins, merged
from morph.mesh.validation import repeated_points


def repaired(base):
    with pytest.warns(RepairWarning) as reported:
        mesh = read_mesh(base, repair=True)
    folder = str(base.parent) + "/"
    return mesh, [str(w.message).replace(folder, "") for w in reported]


def test_clockwise_triangles_are_turned(tmp_path):
    mesh, reported = repaired(put(tmp_path, ele="2 3 1\n1 1 3 2 .5\n2 4 3 1 .25\n"))
    assert mesh.triangles.tolist() == [[0, 1, 2], [3, 0, 2]]
    assert mesh.triangle_attributes.tolist() == [[0.5], [0.25]]
    assert reported == ["m.ele:2: triangle 1 (1 3 2) is clockwise: turned (and 1 more like it)"]
    mesh.check()


def test_merged_vertices_take_flat_triangles_with_them(tmp_path):
    node = NODE.replace("4 2", "6 2") + "5 1 1\n6 0 0\n"
    ele = "4 3\n1 1 2 3\n2 5 3 2\n3 6 5 4\n4 2 3 1\n"
    base = put(tmp_path, node, ele, POLY.replace("3 3 4 7", "3 5 4 7"))
    assert refusal(base) == "m.node:6: vertex 5 repeats the coordinates of vertex 3"
    mesh, reported = repaired(base)
    assert reported == [
        "m.node:6: vertex 5 repeats the coordinates of vertex 3: merged (and 1 more like it)",
        "m.ele:3: triangle 2 has two corners in one place: dropped",
        "m.ele:5: triangle 4 repeats triangle 1: dropped",
    ]
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.segments.tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]
    mesh.check()
    write_mesh(mesh, tmp_path / "n")
    assert_equal(mesh, read_mesh(tmp_path / "n"))


STILL_BAD = {
    (NODE.replace("3 1 1", "3 .5 0"), ELE): "m.ele:2: triangle 1 (1 2 3) is degenerate: its area is"
    " zero",
    (NODE, "2 3\n1 1 2 3\n2 1 2 4\n"): "m.ele:3: triangles 1 and 2 overlap: they lie on one side"
    " of an edge",
    (NODE, "2 3\n1 1 2 3\n2 1 3 9\n"): "m.ele:3: triangle 2 names vertex 9, but vertices are 1 to"
    " 4",
    (NODE, "1 3\n1 1 3 3\n"): "m.ele:2: no triangle is left",
}


@pytest.mark.parametrize("node, ele", STILL_BAD)
@pytest.mark.filterwarnings("ignore::morph.io.RepairWarning")
def test_other_faults_stay_errors(tmp_path, node, ele):
    assert refusal(put(tmp_path, node, ele), repair=True) == STILL_BAD[node, ele]


@given(st.integers(1, 6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_spoilt_mesh_is_mended(tmp_path_factory, wide, tall, random):
    """Turn triangles, give some corners a vertex of their own, repeat triangles: all undone."""
    mesh = grid(wide, tall, random)
    folder = tmp_path_factory.mktemp("spoilt")
    write_mesh(mesh, folder / "good")
    points, triangles = mesh.points.tolist(), mesh.triangles.tolist()
    spoilt = False
    for t in triangles:
        if random.random() < 0.3:
            t[1], t[2] = t[2], t[1]
            spoilt = True
        if random.random() < 0.3:
            points.append(points[t[0]])
            t[0] = len(points) - 1
            spoilt = True
    extra = mesh.triangle_attributes[:, 0].tolist()
    for _ in range(random.randint(0, 2)):
        k = random.randrange(len(triangles))
        triangles.append(random.sample(triangles[k], 3))
        extra.append(99.0)
        spoilt = True
    b = mesh.base
    first = [[m, *row] for m, row in zip(mesh.point_markers, mesh.point_attributes, strict=True)]
    rows = first + [[0, 7.0, 7.0]] * (len(points) - len(first))
    node = f"{len(points)} 2 2 1\n" + "".join(
        f"{k + b} {x!r} {y!r} {r[1]} {r[2]} {r[0]}\n"
        for k, ((x, y), r) in enumerate(zip(points, rows, strict=True))
    )
    ele = f"{len(triangles)} 3 1\n" + "".join(
        f"{k + b} {t[0] + b} {t[1] + b} {t[2] + b} {e!r}\n"
        for k, (t, e) in enumerate(zip(triangles, extra, strict=True))
    )
    base = put(folder, node, ele, (folder / "good.poly").read_text())
    again = repaired(base)[0] if spoilt else read_mesh(base)
    corners = [np.sort(m.triangles, axis=1).tolist() for m in (mesh, again)]
    assert corners[0] == corners[1]
    again.triangles, again.neighbors = mesh.triangles, mesh.neighbors
    assert_equal(mesh, again)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_merging_and_twins_by_brute_force(rows):
    points = np.array(rows, float).reshape(-1, 2)
    first = [rows.index(r) for r in rows]
    kept, new = merged(repeated_points(points), len(rows)) if rows else (np.ones(0, bool), [])
    assert kept.tolist() == [f == k for k, f in enumerate(first)]
    assert [points[kept][k].tolist() for k in new] == points.tolist()
    later, earlier = first_twins(points.astype(int))
    assert later.tolist() == [k for k, f in enumerate(first) if f != k]
    assert earlier.tolist() == [f for k, f in enumerate(first) if f != k]
    one = first_twins(points.astype(int) @ [10, 1])
    assert (one[0].tolist(), one[1].tolist()) == (later.tolist(), earlier.tolist())
