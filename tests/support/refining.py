"""Meshes to refine, and checks of refined meshes that share no code with refinement."""

from __future__ import annotations

import math

import numpy as np
import pytest
import shapely
from scipy.spatial import Delaunay

import morph


def mesh_of(points):
    """The Delaunay mesh of points, of SciPy."""
    t = Delaunay(points).simplices.astype(np.int32)
    p = points[t]
    u, v = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    t[area < 0] = t[area < 0][:, [0, 2, 1]]
    return morph.Mesh(points, t)


def square(n, seed):
    """A Delaunay mesh of random points in the unit square, the corners among them."""
    rng = np.random.default_rng(seed)
    return mesh_of(np.concatenate([[[0, 0], [1, 0], [1, 1], [0, 1]], rng.random((n, 2))]))


def corners(mesh):
    """Edges and angles (radians) at the corners of each triangle: side k is opposite corner k."""
    p = mesh.points[mesh.triangles]
    u, v = np.roll(p, -1, axis=1) - p, np.roll(p, -2, axis=1) - p
    turn = np.arctan2(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0], (u * v).sum(axis=2))
    return np.linalg.norm(v - u, axis=2), turn


def violating(mesh, angle=0.0, area=np.inf, sizes=None, slack=1e-9):
    """Which triangles exceed the limits: angle in degrees, area or areas, sizes at points."""
    length, turn = corners(mesh)
    wrong = turn.min(axis=1) < math.radians(angle) * (1 - slack)
    wrong |= mesh.areas() > np.asarray(area) * (1 + slack)
    if sizes is not None:
        h = sizes[mesh.triangles]
        mean = (np.roll(h, -1, axis=1) + np.roll(h, -2, axis=1)) / 2
        wrong |= (length > mean * (1 + slack)).any(axis=1)
    return wrong


def walls(mesh):
    """Which sides of triangles are segments, shape (m, 3)."""
    keys = {frozenset(s) for s in mesh.segments.tolist()}
    t = mesh.triangles.tolist()
    return np.array([[frozenset((r[k - 2], r[k - 1])) in keys for k in range(3)] for r in t])


def encroached(mesh, angle=45.0):
    """Triangles with a corner well inside the diametral lens of a segment at their side.

    From the lens of an angle, a segment is seen under 180 degrees less twice the angle, or more;
    that of 45 degrees is the diametral circle.
    """
    return (walls(mesh) & (corners(mesh)[1] > np.pi - 2 * math.radians(angle) + 1e-9)).any(axis=1)


def star(angle, rays=6, length=1.0, pairs=1):
    """A PSLG in a square: pairs of rays from the middle that enclose ``angle`` degrees."""
    turns = []
    for k in range(rays):
        first = 2 * math.pi * k / rays + 0.1
        turns += [first + math.radians(angle) * j for j in range(pairs + 1)]
    lengths = length * (1 + 0.3 * np.arange(len(turns)) / len(turns))
    ends = np.stack([lengths * np.cos(turns), lengths * np.sin(turns)], axis=1)
    box = np.array([[-2, -2], [2, -2], [2, 2], [-2, 2]])
    points = np.concatenate([box, [[0, 0]], ends])
    around = [[0, 1], [1, 2], [2, 3], [3, 0]]
    segments = np.array(around + [[4, 5 + k] for k in range(len(turns))])
    return morph.triangulate(points, segments, device="cpu")


def boundary(mesh):
    """The domain as a Shapely polygon: the union of its triangles."""
    return shapely.union_all(shapely.polygons(mesh.points[mesh.triangles]))


def input_angles(mesh):
    """The smallest angle between two segments that meet, in degrees."""
    ends = {}
    for a, b in mesh.segments.tolist():
        ends.setdefault(a, []).append(b)
        ends.setdefault(b, []).append(a)
    least = 180.0
    for p, others in ends.items():
        directions = sorted(math.atan2(*(mesh.points[q] - mesh.points[p])[::-1]) for q in others)
        turns = zip(directions, [*directions[1:], directions[0] + 2 * math.pi], strict=True)
        least = min([least, *(math.degrees(b - a) for a, b in turns if len(directions) > 1)])
    return least


def check_refined(mesh, fine, angle):
    """What must hold of every refined mesh."""
    fine.check()
    assert np.array_equal(fine.points[: len(mesh.points)], mesh.points)
    before, after = boundary(mesh), boundary(fine)
    assert after.area == pytest.approx(before.area, rel=1e-9)
    assert after.symmetric_difference(before).area <= 1e-9 * before.area
    assert after.boundary.length == pytest.approx(before.boundary.length, rel=1e-9)
    if input_angles(mesh) >= 60:
        assert fine.quality().min_angle >= angle
