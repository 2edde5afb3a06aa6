"""Voronoi diagrams against Triangle's, SciPy's and exact ones; meshes without unused points."""

from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from meshfiles import MESHES, assert_equal

import morph
from morph.cli import main
from morph.io import mesh_edges, read_edge, read_mesh, write_mesh

shewchuk = pytest.importorskip("triangle")
spatial = pytest.importorskip("scipy.spatial")

BOX = [[0, 0], [6, 0], [6.1, 4], [0, 4.2], [1, 1], [2.1, 1], [2, 2], [1, 2.2], [4.3, 2], [5, 3.1]]
SEGMENTS = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [8, 9]]
FIELDS = ("vertices", "edges", "directions", "sites", "attributes")


def random_points(n, seed=5):
    return np.random.default_rng(seed).random((n, 2))


def inputs():
    yield "points", {"points": random_points(200)}, "e"
    yield "far", {"points": random_points(50) * 1e-3 + 1e3}, "e"
    yield "box", {"points": BOX, "segments": SEGMENTS, "holes": [[1.5, 1.5]]}, "pe"
    coast = morph.Pslg.read(MESHES / "south_africa.poly")
    given = {"points": coast.points, "segments": coast.segments, "holes": coast.holes}
    yield "coast", given, "pe"


CASES = [pytest.param(given, switches, id=name) for name, given, switches in inputs()]


def attributes_of(points):
    x, y = np.asarray(points, float).T
    return np.stack([x - 2 * y, np.sin(3 * x)], axis=1)


@pytest.mark.parametrize(("given", "switches"), CASES)
def test_triangle_s(given, switches):
    values = attributes_of(given["points"])
    names = {"points": "pointlist", "segments": "segmentlist", "holes": "holelist"}
    theirs, dual = shewchuk.core.triang(
        {names[k]: np.asarray(v) for k, v in given.items()} | {"pointattributelist": values},
        f"Qzv{switches}",
    )
    mesh = morph.triangulate(morph.Pslg(**given, point_attributes=values), device="cpu")
    found = mesh.voronoi()
    place = {tuple(sorted(t)): k for k, t in enumerate(theirs["trianglelist"].tolist())}
    rows = np.array([place[tuple(sorted(t))] for t in mesh.triangles.tolist()])  # ours in theirs
    assert sorted(rows) == list(range(len(place)))
    size = np.ptp(mesh.points, axis=0).max()
    thick = mesh.angles().min(axis=1) > 0.01
    near = dict(rtol=1e-7, atol=1e-7 * size)
    np.testing.assert_allclose(found.vertices[thick], dual["pointlist"][rows][thick], **near)
    at = np.asarray(dual["pointattributelist"]).reshape(len(place), -1)[rows]
    np.testing.assert_allclose(found.attributes[thick], at[thick], rtol=1e-6, atol=1e-6)

    def by_sites(sites, edges, directions):
        """Each edge, turned so that its dual goes from the lower point to the higher."""
        answer = {}
        for (a, b), (left, right), ray in zip(sites.tolist(), edges.tolist(), directions.tolist(),
                                              strict=True):  # fmt: skip
            flip = a > b and right >= 0
            answer[min(a, b), max(a, b)] = ((right, left) if flip else (left, right), tuple(ray))
        return answer

    mine = np.where(found.edges < 0, -1, rows[found.edges])
    known = by_sites(theirs["edgelist"], dual["edgelist"], dual["normlist"] + 0.0)
    assert by_sites(found.sites, mine, found.directions) == known
    assert np.array_equal(found.sites, mesh_edges(mesh)[0])


@pytest.mark.parametrize("n", [3, 4, 30, 1000])
def test_scipy_s(n):
    points = random_points(n, seed=n)
    known, mesh = spatial.Voronoi(points), morph.triangulate(points, device="cpu")
    found = mesh.voronoi()
    assert len(found.edges) == len(known.ridge_points)
    ours = {tuple(sorted(s)): k for k, s in enumerate(found.sites.tolist())}
    for sites, ends in zip(known.ridge_points.tolist(), known.ridge_vertices, strict=True):
        row = ours[tuple(sorted(sites))]
        edge = found.edges[row]
        finite = edge[edge >= 0]
        wanted = known.vertices[[v for v in ends if v >= 0]]
        got = found.vertices[finite]
        assert got.shape == wanted.shape
        if len(got) == 2 and np.hypot(*(got[0] - wanted[0])) > np.hypot(*(got[1] - wanted[0])):
            got = got[::-1]
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-9)
        assert (found.directions[row] == 0).all() == (len(finite) == 2)
    hull = found.edges[:, 1] < 0
    assert sorted(set(found.sites[hull].ravel().tolist())) == sorted(
        set(spatial.ConvexHull(points).vertices.tolist())
    )


def test_left_right_and_outward():
    mesh = morph.triangulate(BOX, SEGMENTS, device="cpu")
    found = mesh.voronoi()
    a, b = mesh.points[found.sites[:, 0]], mesh.points[found.sites[:, 1]]
    middles = mesh.points[mesh.triangles].mean(axis=1)

    def side(p):
        return np.sign((b - a)[:, 0] * (p - a)[:, 1] - (b - a)[:, 1] * (p - a)[:, 0])

    assert (side(middles[found.edges[:, 0]]) == 1).all()
    inner = found.edges[:, 1] >= 0
    assert (side(middles[found.edges[:, 1]])[inner] == -1).all()
    assert (side(a + found.directions)[~inner] == -1).all()
    assert ((found.directions * (b - a)).sum(axis=1) == 0).all()
    length = np.hypot(*(b - a).T)
    np.testing.assert_allclose(np.hypot(*found.directions.T), np.where(inner, 0, length))


def exact(corners):
    """The circumcentre in rational numbers."""
    (ax, ay), (bx, by), (cx, cy) = (map(Fraction, c) for c in corners)
    ux, uy, vx, vy = bx - ax, by - ay, cx - ax, cy - ay
    double = 2 * (ux * vy - uy * vx)
    uu, vv = ux * ux + uy * uy, vx * vx + vy * vy
    return [ax + (uu * vy - vv * uy) / double, ay + (vv * ux - uu * vx) / double]


@pytest.mark.parametrize("factor", [1.0, 1e-150, 1e-300, 1e150, 1e307])
def test_thin_triangles_and_extreme_coordinates(factor):
    thin = [[0, 0], [1, 1e-13], [0.5, 6e-14], [0.3, 1], [0.25, 1 + 2.0**-52], [0.7, 0.4]]
    points = np.array(thin) * factor
    mesh = morph.triangulate(points, device="cpu")
    found = mesh.voronoi()
    assert factor != 1 or mesh.angles().min() < 1e-10
    for t, row in zip(mesh.triangles.tolist(), found.vertices.tolist(), strict=True):
        wanted = exact(points[t].tolist())
        reach = max(abs(w) for w in wanted) + Fraction(factor)
        for got, value in zip(row, wanted, strict=True):
            if abs(value) > Fraction(1.7e308):
                assert abs(got) == np.inf and (got > 0) == (value > 0)
            else:
                assert abs(Fraction(got) - value) <= reach * Fraction(1e-8)


def test_no_triangles_and_flat_ones():
    assert [len(a) for a in morph.Mesh([[0, 0]], []).voronoi()] == [0] * 5
    flat = morph.Mesh([[0, 0], [1, 0], [2, 0]], [[0, 1, 2]])
    assert np.isnan(flat.voronoi().vertices).all()
    assert morph.Mesh([[0, 0], [1, np.nan], [2, 0]], [[0, 1, 2]]).voronoi().edges.shape == (3, 2)


@pytest.mark.gpu
def test_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    for points in (random_points(300), np.array([[0, 0], [1, 1e-13], [0.5, 6e-14], [0.3, 1]])):
        graph = morph.Pslg(points, point_attributes=attributes_of(points))
        mesh = morph.triangulate(graph, device="cpu")
        there, here = mesh.to("cuda").voronoi(), mesh.voronoi()
        for name in FIELDS:
            array = getattr(there, name)
            assert isinstance(array, cupy.ndarray) and array.dtype == getattr(here, name).dtype
            np.testing.assert_allclose(array.get(), getattr(here, name), rtol=1e-12, atol=1e-12)


# --- files ---------------------------------------------------------------------------------------


def numbers(path):
    return [[float(w) for w in line.split()] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("base", [0, 1])
def test_files(tmp_path, base):
    points = random_points(40)
    mesh = morph.triangulate(
        morph.Pslg(points, point_attributes=attributes_of(points), base=base), device="cpu"
    )
    write_mesh(mesh, tmp_path / "m", voronoi=True, edges=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "m.edge", "m.ele", "m.node", "m.poly", "m.v.edge", "m.v.node",
    ]  # fmt: skip
    found, m = mesh.voronoi(), len(mesh.triangles)
    header, *rows = numbers(tmp_path / "m.v.node")
    assert header == [m, 2, 2, 0]
    counted = np.arange(base, base + m)[:, None]
    assert np.array_equal(rows, np.concatenate([counted, found.vertices, found.attributes], axis=1))
    header, *rows = numbers(tmp_path / "m.v.edge")
    assert header == [len(found.edges), 0]
    for k, row in enumerate(rows):
        left, right = found.edges[k] + base
        tail = [right] if found.edges[k, 1] >= 0 else [-1, *found.directions[k]]
        assert row == [k + base, left, *tail]
    assert np.array_equal(read_edge(tmp_path / "m.edge", mesh)[0], found.sites)


def test_large_files(tmp_path, monkeypatch):
    """Rays keep their rows where the text is written in several parts."""
    monkeypatch.setattr("morph.io.mesh.voronoi._ROWS", 7)
    mesh = morph.triangulate(random_points(40), device="cpu")
    write_mesh(mesh, tmp_path / "m", voronoi=True)
    found = mesh.voronoi()
    rows = numbers(tmp_path / "m.v.edge")[1:]
    assert [row[1:3] for row in rows] == found.edges.tolist()
    assert [len(row) for row in rows] == np.where(found.edges[:, 1] < 0, 5, 3).tolist()


def test_what_files_do_not_hold(tmp_path):
    mesh = morph.Mesh([[0, 0], [1, 0], [2, 0]], [[0, 1, 2]])
    with pytest.raises(ValueError, match=r"voronoi vertices\[0\]\[0\] is nan"):
        write_mesh(mesh, tmp_path / "m", voronoi=True)
    assert not list(tmp_path.iterdir())


# --- unused points -------------------------------------------------------------------------------

HOLED = [*BOX, [1.5, 1.5], [9, 9], [0, 0]]  # in the hole, outside, and a twin


def holed():
    graph = morph.Pslg(HOLED, SEGMENTS, list(range(9)), list(range(13)), attributes_of(HOLED),
                       [[1.4, 1.5]])  # fmt: skip
    return morph.triangulate(graph, duplicates="merge", device="cpu")


def assert_compact(mesh, made):
    assert_equal(made, made.compact())
    assert made.compact() is made
    used = np.unique(mesh.triangles)
    for name in ("points", "point_markers", "point_attributes"):
        assert np.array_equal(getattr(made, name), getattr(mesh, name)[used])
    assert np.array_equal(made.points[made.triangles], mesh.points[mesh.triangles])
    assert np.array_equal(made.points[made.segments], mesh.points[mesh.segments])
    assert np.array_equal(made.segment_markers, mesh.segment_markers)
    made.check()


def test_compact():
    mesh = holed()
    assert len(mesh.points) == 13 and len(mesh.compact().points) == 10
    assert_compact(mesh, mesh.compact())
    assert np.array_equal(mesh.compact().points, BOX)  # as Triangle's -j


@pytest.mark.gpu
def test_compact_on_a_gpu():
    mesh = holed()
    assert_compact(mesh, mesh.to("cuda").compact().to("cpu"))


@pytest.mark.parametrize("command", ["triangulate", "refine"])
def test_commands(tmp_path, command):
    morph.Pslg(HOLED[:-1], SEGMENTS, holes=[[1.4, 1.5]]).write(tmp_path / "box.poly")
    for letters in (["-v"], ["-v", "-j", "-e"]):
        args = [command, str(tmp_path / "box.poly"), "-o", str(tmp_path / "out"), "--device", "cpu"]
        done = CliRunner().invoke(main, [*args, *letters])
        assert (done.exit_code, done.stderr) == (0, "")
        mesh = read_mesh(tmp_path / "out")
        unused = len(mesh.points) - len(np.unique(mesh.triangles))
        assert unused == (0 if "-j" in letters else 2)
        vertices = np.array(numbers(tmp_path / "out.v.node")[1:])[:, 1:]
        assert np.array_equal(vertices, mesh.voronoi().vertices)
    for name in ("voronoi", "jettison"):
        done = CliRunner().invoke(main, [command, str(tmp_path / "box.poly"), f"--{name}"])
        message = f"morph: --{name} says how files are written: it needs -o\n"
        assert (done.exit_code, done.stderr) == (2, message)
