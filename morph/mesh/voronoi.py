"""The dual of a triangulation: circumcentres of triangles, joined across edges.

The code runs on NumPy and CuPy.  Circumcentres of triangles that are so thin that their determinant
loses digits are computed in exact arithmetic, one by one; such triangles are rare.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from morph.mesh.arrays import MeshArrays
from morph.runtime.device import Array, Device

THIN = 2.0**-20  # a triangle is thin if its determinant is at most this part of its two products


class Voronoi(NamedTuple):
    """The dual of a mesh; where the mesh is Delaunay, the Voronoi diagram of its points.

    Attributes
    ----------
    vertices : (m, 2) float64 array
        The circumcentre of each triangle; equal for triangles with a common circumcircle.  nan for
        a degenerate triangle, inf if a coordinate overflows.
    edges : (e, 2) int32 array
        Rows of ``vertices``: the triangles left and right of each edge of the mesh, in the order of
        `morph.io.mesh_edges`.  The second is -1 for a ray, which crosses a hull edge.
    directions : (e, 2) float64 array
        Outward direction of each ray, as long as the edge of the mesh; 0 for other edges.
    sites : (e, 2) int32 array
        The dual edge of the mesh: the two points whose cells the edge separates.
    attributes : (m, k) float64 array
        The point attributes, extrapolated linearly from each triangle to its circumcentre.
    """

    vertices: Array
    edges: Array
    directions: Array
    sites: Array
    attributes: Array


def voronoi(mesh: MeshArrays) -> Voronoi:
    """Compute the dual of a mesh on the device of its arrays."""
    where = mesh.device
    xp, t, neighbors = where.xp, mesh.triangles, mesh.neighbors
    with where.active():
        own = (neighbors < 0) | (neighbors > xp.arange(len(t), dtype=np.int32)[:, None])
        row, k = xp.nonzero(own)
        sites = xp.stack([t[row, (k + 1) % 3], t[row, (k + 2) % 3]], axis=1)
        beyond = neighbors[row, k]
        start, end = (xp.take(mesh.points, sites[:, side], axis=0) for side in (0, 1))
        along = end - start
        outward = xp.stack([along[:, 1], -along[:, 0]], axis=1) + 0.0  # no negative zeros
        vertices, attributes = _circumcentres(mesh, where)
        return Voronoi(
            vertices,
            xp.stack([row.astype(np.int32), xp.maximum(beyond, -1)], axis=1),
            xp.where((beyond < 0)[:, None], outward, 0.0),
            sites,
            attributes,
        )


def _circumcentres(mesh: MeshArrays, where: Device) -> tuple[Array, Array]:
    """Circumcentres of all triangles, and the point attributes there."""
    xp, t, points = where.xp, mesh.triangles, mesh.points
    with np.errstate(all="ignore"):
        half = 0.5 * points  # differences of halves are finite
        a, b, c = (xp.take(half, t[:, side], axis=0) for side in range(3))
        u, v = b - a, c - a
        exponent = xp.frexp(xp.maximum(xp.abs(u), xp.abs(v)).max(axis=1, keepdims=True))[1]
        u, v = xp.ldexp(u, -exponent), xp.ldexp(v, -exponent)
        left, right = u[:, 0] * v[:, 1], u[:, 1] * v[:, 0]
        double = 2 * (left - right)
        uu, vv = (u * u).sum(axis=1), (v * v).sum(axis=1)
        x = (uu * v[:, 1] - vv * u[:, 1]) / double
        y = (vv * u[:, 0] - uu * v[:, 0]) / double
        part = xp.stack([x * v[:, 1] - y * v[:, 0], y * u[:, 0] - x * u[:, 1]], axis=1)
        part *= (2 / double)[:, None]
        vertices = xp.take(points, t[:, 0], axis=0) + xp.ldexp(
            xp.stack([x, y], axis=1), exponent + 1
        )
        thin = xp.flatnonzero(xp.abs(double) <= 2 * THIN * (xp.abs(left) + xp.abs(right)))
        if len(thin):
            exact = np.array([_exact(c) for c in where.to_host(points[t[thin]]).tolist()])
            exact = where.asarray(exact)
            vertices[thin], part[thin] = exact[:, :2], exact[:, 2:]
        of = mesh.point_attributes[t]
        along = (of[:, 1:] - of[:, :1]) * part[:, :, None]
        return vertices, of[:, 0] + along.sum(axis=1)


def _exact(corners: list[list[float]]) -> list[float]:
    """Circumcentre of one triangle, and its coordinates along two sides, correctly rounded."""
    if not all(math.isfinite(x) for corner in corners for x in corner):
        return [math.nan] * 4
    ratios = [x.as_integer_ratio() for corner in corners for x in corner]
    scale = max(q for _, q in ratios)  # powers of two
    ax, ay, bx, by, cx, cy = (p * (scale // q) for p, q in ratios)
    ux, uy, vx, vy = bx - ax, by - ay, cx - ax, cy - ay
    area = ux * vy - uy * vx  # twice
    if not area:
        return [math.nan] * 4
    uu, vv = ux * ux + uy * uy, vx * vx + vy * vy
    x, y = uu * vy - vv * uy, vv * ux - uu * vx  # times twice the area
    quotients: list[tuple[Any, Any]] = [
        (2 * area * ax + x, 2 * area * scale),
        (2 * area * ay + y, 2 * area * scale),
        (x * vy - y * vx, 2 * area * area),
        (y * ux - x * uy, 2 * area * area),
    ]
    return [_divided(p, q) for p, q in quotients]


def _divided(p: int, q: int) -> float:
    """Correctly rounded quotient of integers; inf on overflow."""
    try:
        return p / q
    except OverflowError:
        return math.copysign(math.inf, (p > 0) == (q > 0) or -1)
