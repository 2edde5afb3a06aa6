"""Valid meshes broken in every way: validation names each defect; concurrent validation."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial import Delaunay

import morph
from morph.mesh import Mesh
from morph.mesh.validation import incircle, orientation

MESHES = Path(__file__).parents[2] / "meshes"


def good(rng):
    """A Delaunay mesh of points with even coordinates, some triangles left out."""
    points = np.unique(rng.integers(0, 40, (int(rng.integers(6, 40)), 2)), axis=0) * 2.0
    triangles = Delaunay(points, qhull_options="QJ" if len(points) < 5 else None).simplices
    sign = orientation(points, *triangles.T)
    triangles[sign < 0] = triangles[sign < 0][:, ::-1]
    triangles = triangles[sign != 0]
    mesh = Mesh(points, triangles[rng.random(len(triangles)) < 0.9])
    return mesh


def replace(mesh, other):
    for f in dataclasses.fields(mesh):
        setattr(mesh, f.name, getattr(other, f.name))


def pick(rng, choices):
    assume(len(choices))
    return choices[int(rng.integers(len(choices)))]


def clockwise(rng, mesh):
    t = rng.integers(len(mesh.triangles))
    for array in (mesh.triangles, mesh.neighbors):
        array[t] = array[t, ::-1]


def repeated_corner(rng, mesh):
    t = rng.integers(len(mesh.triangles))
    mesh.triangles[t, 1] = mesh.triangles[t, 0]


def point_beyond_an_edge(rng, mesh):
    t = rng.integers(len(mesh.triangles))
    a, b, c = mesh.points[mesh.triangles[t]]
    mesh.points[mesh.triangles[t, 0]] = b + c - a


def wrong_neighbor(rng, mesh):
    t, k = rng.integers(len(mesh.triangles)), rng.integers(3)
    others = np.arange(-1, len(mesh.triangles))
    mesh.neighbors[t, k] = pick(rng, others[others != mesh.neighbors[t, k]])


def turned_neighbors(rng, mesh):
    t = rng.integers(len(mesh.triangles))
    turned = np.roll(mesh.neighbors[t], 1)
    assume((turned != mesh.neighbors[t]).any())
    mesh.neighbors[t] = turned


def triangle_twice(rng, mesh):
    t = rng.integers(len(mesh.triangles))
    mesh.triangles = np.concatenate([mesh.triangles, np.roll(mesh.triangles[t : t + 1], 1)])
    mesh.neighbors = np.concatenate([mesh.neighbors, np.roll(mesh.neighbors[t : t + 1], 1)])
    mesh.triangle_attributes = np.empty((len(mesh.triangles), 0))


def forgotten_triangle(rng, mesh):
    """A hole that its neighbours do not know of: they point to the triangle that took its row."""
    t = pick(rng, np.flatnonzero((mesh.neighbors[:-1] >= 0).any(axis=1)))
    mesh.triangles[t], mesh.neighbors[t] = mesh.triangles[-1], mesh.neighbors[-1]
    mesh.triangles, mesh.neighbors = mesh.triangles[:-1], mesh.neighbors[:-1]
    mesh.triangle_attributes = np.empty((len(mesh.triangles), 0))


def hole_without_rim(rng, mesh):
    """A hole that its neighbours know of, but no segments around it."""
    t = pick(rng, np.flatnonzero((mesh.neighbors >= 0).any(axis=1)))
    keep = np.arange(len(mesh.triangles)) != t
    rest = Mesh(mesh.points, mesh.triangles[keep])
    mesh.triangles, mesh.neighbors = rest.triangles, rest.neighbors
    mesh.triangle_attributes = rest.triangle_attributes
    points = set(mesh.triangles.ravel().tolist())
    inside = [set(s) <= points for s in mesh.segments.tolist()]  # those of the triangle go with it
    mesh.segments, mesh.segment_markers = mesh.segments[inside], mesh.segment_markers[inside]


def bare_hull(rng, mesh):
    keep = np.arange(len(mesh.segments)) != rng.integers(len(mesh.segments))
    mesh.segments, mesh.segment_markers = mesh.segments[keep], mesh.segment_markers[keep]


def segment_across(rng, mesh):
    edges = {frozenset(e) for t in mesh.triangles.tolist() for e in ((t[0], t[1]), t[1:], t[::2])}
    a, b = rng.integers(len(mesh.points), size=2)
    assume(frozenset((int(a), int(b))) not in edges)
    mesh.segments[rng.integers(len(mesh.segments))] = a, b


def segment_twice(rng, mesh):
    s = rng.integers(len(mesh.segments))
    mesh.segments = np.concatenate(
        [mesh.segments, mesh.segments[s : s + 1, :: rng.choice([1, -1])]]
    )
    mesh.segment_markers = np.ones(len(mesh.segments), np.int32)


def no_number(rng, mesh):
    mesh.points[rng.integers(len(mesh.points)), rng.integers(2)] = rng.choice([np.nan, np.inf])


def index_outside(rng, mesh):
    array = pick(rng, [mesh.triangles, mesh.segments, mesh.neighbors])
    array[rng.integers(len(array)), rng.integers(2)] = rng.choice([-2, len(mesh.points) + 99])


def point_twice(rng, mesh):
    """A crack: a triangle has a corner of its own, in the place of the one that others have."""
    t = pick(rng, np.flatnonzero((mesh.neighbors >= 0).any(axis=1)))
    used = np.bincount(mesh.triangles.ravel(), minlength=len(mesh.points))
    k = pick(rng, np.flatnonzero(used[mesh.triangles[t]] > 1))
    points = np.concatenate([mesh.points, mesh.points[mesh.triangles[t, k]][None]])
    mesh.triangles[t, k] = len(mesh.points)
    replace(mesh, Mesh(points, mesh.triangles))


def flipped(rng, mesh):
    """An edge that is turned in its quadrilateral: no longer Delaunay."""
    for t, k in rng.permutation(np.argwhere(mesh.neighbors >= 0)):
        p, q, r = np.roll(mesh.triangles[t], -k)
        u = mesh.neighbors[t, k]
        s = mesh.triangles[u].sum() - q - r
        ids = np.array([[p, q, s], [p, s, r]])
        if (orientation(mesh.points, *ids.T) > 0).all() and incircle(
            mesh.points, *(np.array([i]) for i in (p, q, r, s))
        )[0] < 0:
            mesh.triangles[[t, u]] = ids
            mesh.neighbors = Mesh(mesh.points, mesh.triangles).neighbors
            return
    assume(False)


def hanging_point(rng, mesh):
    """An edge halved on one side only; all else as it should be."""
    t, k = pick(rng, np.argwhere(mesh.neighbors >= 0))
    p, q, r = np.roll(mesh.triangles[t], -k)
    n = len(mesh.points)
    points = np.concatenate([mesh.points, (mesh.points[q] + mesh.points[r])[None] / 2])
    assume(not (points[:-1] == points[-1]).all(axis=1).any())
    keep = np.arange(len(mesh.triangles)) != t
    new = Mesh(points, np.concatenate([mesh.triangles[keep], [[p, q, n], [p, n, r]]]))
    replace(mesh, new)


def second_sheet(rng, mesh):
    """A smaller copy over the middle of a triangle: no hull edges cross, each is good alone."""
    t = rng.integers(len(mesh.triangles))
    middle = mesh.points[mesh.triangles[t]].mean(axis=0)
    copy = middle + (mesh.points - mesh.points.mean(axis=0)) * 1e-4
    new = Mesh(
        np.concatenate([mesh.points, copy]),
        np.concatenate([mesh.triangles, mesh.triangles + len(mesh.points)]),
    )
    replace(mesh, new)


def short_markers(rng, mesh):
    name = rng.choice(["segment_markers", "point_markers", "point_attributes"])
    setattr(mesh, name, getattr(mesh, name)[:-1])


def floating_indices(rng, mesh):
    name = rng.choice(["triangles", "neighbors", "segments"])
    setattr(mesh, name, getattr(mesh, name) * 1.0)


BREAKS = {
    clockwise: {"orientation"},
    repeated_corner: {"corners"},
    point_beyond_an_edge: {"orientation"},
    wrong_neighbor: {"neighbour"},
    turned_neighbors: {"neighbour"},
    triangle_twice: {"duplicate-triangle"},
    forgotten_triangle: {"neighbour", "index"},
    hole_without_rim: {"hull"},
    bare_hull: {"hull"},
    segment_across: {"segment"},
    segment_twice: {"duplicate-segment"},
    no_number: {"finite"},
    index_outside: {"index"},
    point_twice: {"duplicate-point"},
    flipped: {"delaunay"},
    hanging_point: {"overlap"},
    second_sheet: {"overlap"},
    short_markers: {"shape"},
    floating_indices: {"type"},
}


@pytest.mark.parametrize("change", BREAKS, ids=lambda f: f.__name__)
@given(seed=st.integers(0, 2**32 - 1))
def test_each_break_is_named(change, seed):
    rng = np.random.default_rng(seed)
    mesh = good(rng)
    assume(len(mesh.triangles) > 1)
    assert mesh.violations() == []
    change(rng, mesh)
    found = {v.name for v in mesh.violations()}
    assert found & BREAKS[change], found


def test_threads_refine_and_check_at_once():
    def work(k):
        name = ["italy", "south_africa", "chile", "square"][k % 4]
        mesh = Mesh.read(MESHES / f"{name}.node")
        fine = morph.refine(mesh, min_angle=20 + k % 5, device="cpu")
        fine.check()
        return mesh, fine

    with ThreadPoolExecutor(6) as pool:
        for mesh, fine in pool.map(work, range(12)):
            assert len(fine.triangles) >= len(mesh.triangles)
            assert fine.quality().area == pytest.approx(mesh.quality().area, rel=1e-12)


def test_threads_share_one_mesh():
    mesh = Mesh.read(MESHES / "norway.node")
    alone = mesh.quality()
    with ThreadPoolExecutor(4) as pool:
        checks = [pool.submit(mesh.violations) for _ in range(4)]
        measured = [pool.submit(mesh.quality) for _ in range(4)]
        refined = [pool.submit(morph.refine, mesh, 20, device="cpu") for _ in range(4)]
    assert all(f.result() == [] for f in checks)
    assert all(f.result() == alone for f in measured)
    for f in refined:
        f.result().check()
