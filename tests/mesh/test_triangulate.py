"""Triangulation of planar straight-line graphs, checked by Shapely, by Triangle and exactly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from targets import tries

import morph
import morph.algorithms.triangulation.segments as algorithm
from morph.algorithms.triangulation import triangulate

MESHES = Path(__file__).parents[2] / "meshes"
COASTS = ["italy", "norway", "chile", "south_africa", "canada"]
SQUARE = np.array([[0, 0], [4, 0], [4, 4], [0, 4]], float)
INNER = np.array([[1, 1], [3, 1], [3, 3], [1, 3]], float)
seeds = st.integers(0, 2**32 - 1)


def ring(first, n):
    """Segments of a closed polygon of n points."""
    i = np.arange(n)
    return np.stack([first + i, first + (i + 1) % n], axis=1)


def domain(mesh):
    return shapely.union_all(shapely.polygons(mesh.points[mesh.triangles]))


def lines(points, segments):
    return shapely.union_all(shapely.linestrings(points[segments]))


def check_domain(mesh, wanted):
    """A sound mesh, exactly constrained Delaunay, of the area that was wanted."""
    mesh.check()
    scale = abs(wanted.area) + 1e-300
    assert mesh.quality().area == pytest.approx(wanted.area, rel=1e-9)
    assert domain(mesh).symmetric_difference(wanted).area <= 1e-9 * scale


def star(rng, n, inner=0.2):
    """A star-shaped polygon with n corners."""
    angle = np.sort(rng.random(n)) * 0.2 + np.arange(n)
    radius = rng.uniform(inner, 1, n)
    turn = 2 * np.pi / n
    return radius[:, None] * np.stack([np.cos(angle * turn), np.sin(angle * turn)], axis=1)


@tries(5)
@given(seed=seeds, n=st.integers(4, 30), loose=st.integers(0, 30))
def test_polygons_with_a_hole_and_points(target, seed, n, loose):
    rng = np.random.default_rng(seed)
    outer, hole = star(rng, n, 0.5), star(rng, 5) * 0.3
    points = np.concatenate([outer, hole, rng.uniform(-1.2, 1.2, (loose, 2))])
    segments = np.concatenate([ring(0, n), ring(n, 5)])
    mesh = morph.triangulate(points, segments, holes=[[0, 0]], device=target)
    check_domain(mesh, shapely.Polygon(outer, [hole]))
    assert np.array_equal(mesh.points, points)
    assert len(mesh.segments) == n + 5 and (mesh.segment_markers == 1).all()
    full = morph.triangulate(points, segments, hull=True, device=target)
    check_domain(full, shapely.MultiPoint(points).convex_hull)


def spiral(n, thickness):
    """Two arms that wind around each other: every long edge crosses many triangles."""
    t = np.linspace(1, 12, n)
    curve = t[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)
    return np.concatenate([curve, curve[::-1] * (1 + thickness / t[::-1, None])])


@pytest.mark.parametrize("n", [40, 400])
def test_spiral(n):
    points = spiral(n, 1.0)
    points += np.random.default_rng(0).uniform(-1e-3, 1e-3, points.shape)
    polygon = shapely.Polygon(points)
    assert polygon.is_valid
    check_domain(morph.triangulate(points, ring(0, len(points)), device="cpu"), polygon)


@pytest.mark.parametrize(("few_threads", "program"), [(9, "recover_one_by_one"), (0, "recover")])
def test_segments_in_parts(monkeypatch, few_threads, program):
    """Parts of growing size give the triangulation of all segments at once."""
    points = star(np.random.default_rng(0), 400)
    whole = morph.triangulate(points, ring(0, 400), device="cpu")
    monkeypatch.setattr(algorithm, "FIRST_PART", 10)
    inner, sizes = getattr(algorithm, program), []

    def recover(g, edges, work, *lists):
        sizes.append(len(work))
        return inner(g, edges, work, *lists)

    monkeypatch.setattr(algorithm, program, recover)
    monkeypatch.setattr(triangulate, "FEW_THREADS", few_threads)
    parts = morph.triangulate(points, ring(0, 400), device="cpu")
    assert sum(sizes) == 400 and sizes[0] == 10 and len(sizes) > 3
    names = [{frozenset(t) for t in mesh.triangles.tolist()} for mesh in (parts, whole)]
    assert names[0] == names[1]
    parts.check()


@pytest.mark.parametrize("degrees", [1.0, 1e-3, 1e-9])
def test_stars_of_sharp_angles(target, degrees):
    spikes = 12
    turn = 2 * np.pi * np.arange(spikes) / spikes
    half = math.radians(degrees) / 2
    tip = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    inner = [
        math.tan(half) * np.stack([np.cos(turn + s), np.sin(turn + s)], axis=1)
        for s in (-np.pi / spikes, np.pi / spikes)
    ]
    points = np.stack([inner[0], tip, inner[1]], axis=1).reshape(-1, 2)
    keep = np.arange(len(points)) % 3 != 2  # two spikes share an inner corner
    points = points[keep]
    mesh = morph.triangulate(points, ring(0, len(points)), device=target)
    mesh.check()
    assert mesh.quality().area == pytest.approx(shapely.Polygon(points).area, rel=1e-6)


def test_a_fan_of_segments_one_degree_apart(target):
    turn = np.radians(np.arange(60))
    rim = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    rng = np.random.default_rng(1)
    points = np.concatenate([[[0, 0]], rim, rng.random((40, 2)) * 0.7])
    segments = np.stack([np.zeros(60, int), np.arange(1, 61)], axis=1)
    mesh = morph.triangulate(points, segments, hull=True, device=target)
    check_domain(mesh, shapely.MultiPoint(points).convex_hull)
    have = {tuple(sorted(s)) for s in mesh.segments.tolist()}
    assert {(0, i) for i in range(1, 61)} <= have


@tries(6)
@given(seed=seeds, side=st.integers(2, 6), count=st.integers(1, 6))
def test_grids_with_segments_through_their_points(target, seed, side, count):
    rng = np.random.default_rng(seed)
    points = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) * 1.0
    segments = rng.integers(0, side * side, (count, 2))
    segments = segments[segments[:, 0] != segments[:, 1]]
    mesh = morph.triangulate(points, segments, crossing="split", hull=True, device=target)
    check_domain(mesh, shapely.box(0, 0, side - 1, side - 1))
    kept = lines(mesh.points, mesh.segments).buffer(1e-9)
    assert shapely.covers(kept, shapely.linestrings(points[segments])).all()
    for corner, other in mesh.segments:  # no point lies inside a segment
        inside = shapely.LineString(mesh.points[[corner, other]])
        near = shapely.distance(inside, shapely.points(mesh.points)) < 1e-12
        assert near.sum() == 2


@tries(10)
@given(seed=seeds, n=st.integers(4, 30), count=st.integers(1, 15))
def test_crossing_segments_are_split(target, seed, n, count):
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    segments = rng.integers(0, n, (count, 2))
    segments = segments[segments[:, 0] != segments[:, 1]]
    if not len(segments):
        return
    mesh = morph.triangulate(points, segments, crossing="split", hull=True, device=target)
    check_domain(mesh, shapely.MultiPoint(points).convex_hull)
    wanted = lines(points, segments)  # union_all nodes the lines
    have = lines(mesh.points, mesh.segments)
    assert wanted.difference(have.buffer(1e-9)).length < 1e-9
    nodes = shapely.MultiPoint(shapely.get_coordinates(wanted))
    new = shapely.points(mesh.points[n:])
    assert (shapely.distance(nodes, new) < 1e-9).all()


def test_a_grid_of_crossings_is_split_at_once(target):
    seen = []
    at = np.arange(1.0, 6.0)
    across = np.stack([np.zeros(5), at, np.full(5, 6.0), at], axis=1).reshape(-1, 2)
    points = np.concatenate([across, across[:, ::-1]])
    segments = np.arange(20).reshape(-1, 2)
    mesh = morph.triangulate(
        points, segments, crossing="split", device=target, progress=lambda *x: seen.append(x)
    )
    check_domain(mesh, shapely.box(1, 1, 5, 5))
    assert len(mesh.points) == 20 + 25
    assert [what for what, _ in seen] == ["points", "segments"] * 2 + ["domain"]


def test_crossing_segments_are_refused(target):
    cross = np.array([[0, 0], [2, 2], [0, 2], [2, 0], [3, 3]], float)
    with pytest.raises(ValueError, match="segments 0 and 2 cross"):
        morph.triangulate(cross, [[0, 1], [1, 4], [2, 3]], device=target)


def test_attributes_and_markers_of_a_crossing(target):
    graph = morph.Pslg(
        [[0, 0], [4, 4], [0, 4], [4, 0]],
        [[0, 1], [2, 3]],
        segment_markers=[0, 7],
        point_attributes=[[0.0, 1], [8, 1], [1, 1], [1, 1]],
    )
    mesh = morph.triangulate(graph, crossing="split", device=target)
    mesh.check()
    assert mesh.points[4:].tolist() == [[2, 2]]
    assert mesh.point_attributes[4].tolist() in ([4, 1], [1, 1])
    assert mesh.point_markers[4] == 7
    inside = mesh.segment_markers[(mesh.segments == 4).any(axis=1)]
    assert sorted(inside.tolist()) == [0, 0, 7, 7]


def test_segments_through_points_overlapping_and_repeated(target):
    points = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [2, 3], [2, -3]], float)
    segments = [[0, 3], [1, 4], [4, 1], [2, 5]]
    mesh = morph.triangulate(
        morph.Pslg(points, segments, segment_markers=[0, 5, 6, 9]), hull=True, device=target
    )
    mesh.check()
    of = dict(zip(map(tuple, np.sort(mesh.segments).tolist()), mesh.segment_markers, strict=True))
    assert {k: of[k] for k in ((0, 1), (1, 2), (2, 3), (3, 4), (2, 5))} == {
        (0, 1): 0, (1, 2): 5, (2, 3): 5, (3, 4): 5, (2, 5): 9,
    }  # fmt: skip
    assert mesh.point_markers.tolist() == [1, 5, 5, 5, 5, 9, 1]


def test_holes_and_regions(target):
    points = np.concatenate([SQUARE, INNER])
    segments = np.concatenate([ring(0, 4), ring(4, 4)])
    graph = morph.Pslg(points, segments, regions=[[0.5, 0.5, 3, 0.1], [2, 2, 8, -1], [9, 9, 5, 1]])
    mesh = morph.triangulate(graph, device=target)
    check_domain(mesh, shapely.box(0, 0, 4, 4))
    centre = mesh.points[mesh.triangles].mean(axis=1)
    inside = (np.abs(centre - 2) < 1).all(axis=1)
    assert np.array_equal(mesh.triangle_attributes[:, 0], np.where(inside, 8.0, 3.0))
    assert np.array_equal(mesh.regions, graph.regions)
    rim = (mesh.segments < 4).all(axis=1)
    assert (mesh.segment_markers == rim).all() and (mesh.point_markers == [1] * 4 + [0] * 4).all()

    hollow = morph.triangulate(points, segments, holes=[[2, 2], [-3, 1]], device=target)
    check_domain(hollow, shapely.box(0, 0, 4, 4).difference(shapely.box(1, 1, 3, 3)))
    assert (hollow.segment_markers == 1).all() and len(hollow.points) == 8

    apart = morph.triangulate(points, segments[4:], regions=[[2, 2, 8]], device=target)
    check_domain(apart, shapely.box(1, 1, 3, 3))
    open_lines = morph.triangulate(points, [[0, 2]], device=target)
    check_domain(open_lines, shapely.box(0, 0, 4, 4))
    outside = morph.triangulate(points, segments[4:], regions=[[2, 2, 8]], hull=True, device=target)
    assert sorted(set(outside.triangle_attributes[:, 0])) == [0, 8]


@pytest.mark.parametrize("place", [[1, 2], [4, 0.5], [3, 3], [0, 0]])
@pytest.mark.parametrize("what", ["holes", "regions"])
def test_places_on_a_segment_are_refused(target, place, what):
    points = np.concatenate([SQUARE, INNER])
    segments = np.concatenate([ring(0, 4), ring(4, 4)])
    place = [*place, 1] if what == "regions" else place
    with pytest.raises(ValueError, match=rf"{what}\[0\] = .* on a segment or on the hull"):
        morph.triangulate(points, segments, **{what: [place]}, device=target)


def test_places_on_points_and_edges_that_nothing_constrains(target):
    points = np.concatenate([SQUARE, INNER, [[2, 2]]])
    segments = np.concatenate([ring(0, 4), ring(4, 4)])
    for place in ([2, 2], [1.5, 1.5], [2, 1.5], [2, 2.5]):
        mesh = morph.triangulate(points, segments, holes=[place], device=target)
        check_domain(mesh, shapely.box(0, 0, 4, 4).difference(shapely.box(1, 1, 3, 3)))


@pytest.mark.parametrize("name", COASTS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_coasts(name, device):
    known = morph.Mesh.read(MESHES / f"{name}.node")
    mesh = morph.triangulate(MESHES / f"{name}.poly", device=device)
    check_domain(mesh, domain(known))
    assert len(mesh.triangles) == len(known.triangles)
    ends = lambda m: {tuple(sorted(s)) for s in m.segments.tolist()}  # noqa: E731
    assert ends(mesh) == ends(known)
    assert np.array_equal(mesh.point_markers, known.point_markers)


def test_a_coast_on_every_target(target):
    mesh = morph.triangulate(MESHES / "italy.poly", device=target)
    check_domain(mesh, domain(morph.Mesh.read(MESHES / "italy.node")))


def test_on_a_pretended_gpu(monkeypatch):
    """Arrays of the device do not meet arrays of the host."""
    gpu = pretended(monkeypatch)
    points = np.random.default_rng(0).random((1000, 2))
    mesh = morph.triangulate(points, device=gpu)
    mesh.check()
    assert np.array_equal(mesh.points, points) and type(mesh.points) is np.ndarray
    points = np.concatenate([SQUARE, INNER, [[1.2, 3.5], [3.5, 1.2]]])
    segments = np.concatenate([ring(0, 4), ring(4, 4), [[8, 9]]])
    for options in {"holes": [[1.5, 2.0]]}, {"hull": True, "regions": [[0.5, 0.5, 3.0]]}:
        done, other = (
            morph.triangulate(points, segments, crossing="split", device=device, **options)
            for device in (gpu, "cpu")
        )
        done.check()
        assert len(done.points) == 12 and len(done.segments) == len(other.segments)
        assert done.triangle_attributes.sum() == other.triangle_attributes.sum()
        assert np.array_equal(np.sort(done.point_markers), np.sort(other.point_markers))
