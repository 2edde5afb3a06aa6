"""Checker of point location in meshes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from morph.language.arguments import check_type
from morph.runtime.arrays import listed
from morph.validate.arcs import WrongAnswer


def find_simplex(mesh: Any, points: Any, found: Any) -> None:
    """Check the triangles that contain points, in rational arithmetic; O(m) for each point.

    Parameters
    ----------
    mesh : Mesh
        On the host, with triangles counter-clockwise.
    points : (k, 2) array
    found : (k,) array of int
        The least id of the (closed) triangles that contain each point, or -1.

    Raises
    ------
    WrongAnswer
        Naming a point.
    """
    check_type(mesh, "mesh", "Mesh")
    corners = np.asarray(mesh.points)[np.asarray(mesh.triangles)]
    queries = np.asarray(listed(points, "points"), np.float64)
    given = np.asarray(listed(found, "found"))
    if queries.ndim != 2:
        raise ValueError(f"points has shape {queries.shape}, expected (k, 2)")
    if given.shape != (len(queries),):
        raise WrongAnswer(f"{given.shape} is the shape of the result for {len(queries)} points")
    for k, x in enumerate(queries):
        near = (corners.min(axis=1) <= x).all(axis=1) & (x <= corners.max(axis=1)).all(axis=1)
        rows = np.flatnonzero(near).tolist()
        least = next((t for t in rows if _contains(corners[t], x)), -1)
        if least != given[k]:
            place = f"point {k} at {x.tolist()}"
            raise WrongAnswer(f"{place} is in triangle {least}, not {given[k]} (-1: outside)")


def _contains(corners: Any, x: Any) -> bool:
    """Whether a closed triangle contains a point."""
    at = [Fraction(c) for c in x.tolist()]
    a = [[Fraction(c) for c in corner] for corner in corners.tolist()]
    for p, q in ((0, 1), (1, 2), (2, 0)):
        across = (a[q][0] - a[p][0]) * (at[1] - a[p][1])
        if across < (a[q][1] - a[p][1]) * (at[0] - a[p][0]):
            return False
    return True
