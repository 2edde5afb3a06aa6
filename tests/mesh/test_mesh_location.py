"""Point location, checked in rational numbers, and interpolation, beside those of SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, tries

import morph
from morph import validate

SQUARE = np.array([[0, 0], [8, 0], [8, 8], [0, 8]], float)
HOLES = [[2.0, 2.0], [6.0, 2.0], [4.0, 6.0]]  # the middles of squares with sides of 2
seeds = st.integers(0, 2**32 - 1)


def plate(rng, many):
    """A square with holes, an L cut out of its corner or not, and points on a lattice."""
    points, segments = [*SQUARE], [[0, 1], [1, 2], [2, 3], [3, 0]]
    if rng.random() < 0.5:
        points[2] = np.array([5.0, 5.0])
    holes = [h for h in HOLES if rng.random() < 0.5]
    for x, y in holes:
        n = len(points)
        points += [np.array([x + a, y + b]) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        segments += [[n, n + 1], [n + 1, n + 2], [n + 2, n + 3], [n + 3, n]]
    points += [*(rng.integers(0, 17, (many, 2)) / 2)]
    options = {"crossing": "split", "duplicates": "merge", "device": "cpu"}
    inner = [h for h in holes if h != [4.0, 6.0] or tuple(points[2]) == (8, 8)]
    return morph.triangulate(np.array(points), segments, inner or None, **options)


@pytest.mark.filterwarnings("ignore::morph.mesh.RepairWarning")
@tries(12)
@given(seed=seeds, many=st.integers(0, 25), scale=st.sampled_from([1.0, 1e-90, 3e80]))
def test_points_of_lattices(target, seed, many, scale):
    rng = np.random.default_rng(seed)
    mesh = plate(rng, many)
    mesh.points = mesh.points * scale
    lattice = rng.integers(-2, 35, (40, 2)) / 4  # many lie on edges and vertices
    points = np.concatenate([lattice * scale, mesh.points[:5], [[np.nan, 0], [np.inf, 1]]])
    for found in everywhere(target, lambda: host(mesh.find_simplex(points, target))):
        assert found.dtype == np.int32
        validate.find_simplex(mesh, points, found)
    values = np.stack([mesh.points[:, 0], mesh.points @ [2, -1] + scale], axis=1)
    at = host(mesh.interpolate(values, points, target))
    outside = found < 0
    assert np.array_equal(np.isnan(at), np.stack([outside, outside], axis=1))
    wanted = np.stack([points[:, 0], points @ [2, -1] + scale], axis=1)[~outside]
    assert np.allclose(at[~outside], wanted, rtol=0, atol=1e-13 * 30 * scale)


def test_nearly_on_edges(target):
    """Points one rounding beside an edge, where signs by doubles are wrong."""
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 2))
    mesh = morph.triangulate([a, b, [0, 3], [3, 0]], device="cpu")
    t = rng.random((60, 1))
    points = np.nextafter(a + t * (b - a), rng.choice([-9.0, 9.0], (60, 2)))
    validate.find_simplex(mesh, points, host(mesh.find_simplex(points, target)))


def test_many_launches(monkeypatch):
    monkeypatch.setattr("morph.algorithms.triangulation.location.MOST", 7)
    mesh = morph.triangulate(np.random.default_rng(1).random((30, 2)), device="cpu")
    points = np.random.default_rng(2).random((40, 2))
    validate.find_simplex(mesh, points, mesh.find_simplex(points))


def test_a_graded_mesh_and_narrow_triangles():
    rng = np.random.default_rng(3)
    points = np.concatenate([10.0 ** -rng.integers(0, 12, (300, 1)) * rng.random((300, 2))])
    mesh = morph.triangulate(points, device="cpu")
    queries = np.concatenate([points, points[:100] * 0.7 + points[100:200] * 0.3])
    validate.find_simplex(mesh, queries, mesh.find_simplex(queries))
    fan = morph.triangulate([[0, 0], *([1.0, k / 500] for k in range(500))], device="cpu")
    queries = rng.random((200, 2))
    validate.find_simplex(fan, queries, fan.find_simplex(queries))


def test_points_in_triangles_of_almost_no_area(target):
    """Rounding puts the points of an oblique line beside it, by 1e-14."""
    rng = np.random.default_rng(2)
    for angle in (0.3, 1.1, 2.5):
        along = np.outer(np.sort(rng.random(40)), [np.cos(angle), np.sin(angle)]) + rng.random(2)
        points = np.concatenate([100 * along, 100 * along.mean(axis=0) + [[70, 50], [-90, 50]]])
        mesh = morph.triangulate(points, hull=True, device=target)
        triangles, points = host(mesh.triangles), host(mesh.points)
        queries = np.concatenate([points[triangles].mean(axis=1), points])
        queries = queries[host(mesh.find_simplex(queries, target)) >= 0]
        values, wanted = (x @ [3, -1] for x in (points, queries))
        assert np.allclose(host(mesh.interpolate(values, queries, target)), wanted, atol=1e-9)
        kinked = abs(values - values.mean())
        found = host(mesh.interpolate(kinked, queries, target))
        assert kinked.min() <= found.min() and found.max() <= kinked.max()
        assert np.array_equal(host(mesh.interpolate(kinked, points, target)), kinked)


def test_as_scipy():
    spatial = pytest.importorskip("scipy.spatial")
    interpolators = pytest.importorskip("scipy.interpolate")
    rng = np.random.default_rng(1)
    peer = spatial.Delaunay(rng.random((3000, 2)))
    mesh = morph.Mesh.of({"vertices": peer.points, "triangles": peer.simplices})
    points = rng.random((20_000, 2)) * 1.2 - 0.1
    assert np.array_equal(mesh.find_simplex(points), peer.find_simplex(points))
    values = np.sin(9 * mesh.points[:, 0])
    wanted = interpolators.LinearNDInterpolator(peer, values)(points)
    assert np.allclose(mesh.interpolate(values, points), wanted, atol=1e-12, equal_nan=True)
    assert np.array_equal(mesh.interpolate(values, mesh.points), values)  # at vertices exactly


def test_empty_and_refused(target):
    mesh = morph.Mesh(SQUARE.copy(), [[0, 1, 2], [0, 2, 3]])
    assert host(mesh.find_simplex([[4, 4], [1, 0], [9, 9]], target)).tolist() == [0, 0, -1]
    assert host(mesh.find_simplex(np.empty((0, 2)), target)).shape == (0,)
    assert host(mesh.interpolate(np.ones(4), np.empty((0, 2)), target)).shape == (0,)
    none = morph.Mesh(np.empty((0, 2)), np.empty((0, 3), int))
    assert host(none.find_simplex([[0, 0]], target)).tolist() == [-1]
    for points in ([1, 2], [[1, 2, 3]], [["a", "b"]], [[1j, 0]], None):
        with pytest.raises(ValueError, match="points must"):
            mesh.find_simplex(points, target)
    for values in (np.ones(3), 1.0, ["a"] * 4, np.ones((4, 1, 1))):
        with pytest.raises(ValueError, match="values must"):
            mesh.interpolate(values, [[1, 1]], target)
    with pytest.raises(ValueError, match="points: rows of different lengths"):
        mesh.find_simplex([[1, 2], [3]], target)
    mesh.points[0] = np.nan
    with pytest.raises(ValueError, match="is not finite"):
        mesh.find_simplex([[1, 1]], target)


def test_the_checker_refuses():
    mesh = morph.Mesh(SQUARE.copy(), [[0, 1, 2], [0, 2, 3]])
    validate.find_simplex(mesh, [[4, 4], [9, 9]], [0, -1])
    for wrong in ([1, -1], [-1, -1], [0, 0], [0]):
        with pytest.raises(validate.WrongAnswer):
            validate.find_simplex(mesh, [[4, 4], [9, 9]], wrong)
