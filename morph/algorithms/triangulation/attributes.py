"""Attributes of new points: interpolated in the triangles of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.mesh import Mesh
from morph.runtime.arrays import any_true


def carries(mesh: Mesh) -> bool:
    """Whether new points or triangles have attributes."""
    return bool(mesh.point_attributes.shape[1] or mesh.triangle_attributes.shape[1])


def interpolated(source: Mesh, old: Any, xy: Any, node: Any, origin: Any, known: int) -> Any:
    """Values at new points: linear in the input triangle that contains them.

    It is found by a walk from an input triangle near it (Devillers, Pion, Teillaud 2002).

    Parameters
    ----------
    source : Mesh
        The input.
    old : (n, k) float64 array
        Values at its points.
    xy : (p, 2) float64 array
        All points, new ones last.
    node, origin : (m, 3), (m,) int32 arrays
        Triangles over all points, and the input triangle each came from.
    known : int
        The first new point.
    """
    near = np.zeros(len(xy), np.int64)
    near[node.ravel()] = np.repeat(origin, 3)
    at, p = near[known:], xy[known:]
    weight = np.empty((len(p), 3))
    for _ in range(len(source.triangles)):
        corner = source.points[source.triangles[at]] - p[:, None, :]
        u, v = np.roll(corner, -1, axis=1), np.roll(corner, -2, axis=1)
        weight = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
        worst = weight.argmin(axis=1)
        behind = source.neighbors[at, worst]
        on = (weight.min(axis=1) < 0) & (behind >= 0)
        if not any_true(on):
            break
        at = np.where(on, behind, at)
    weight = np.maximum(weight, 0)  # rounding puts points of the hull a little outside
    weight /= weight.sum(axis=1, keepdims=True)
    return (weight[..., None] * old[source.triangles[at]]).sum(axis=1)
