"""The factor of coordinates in tables, a power of two: exact predicates stay in range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.mesh import Mesh
from morph.runtime.arrays import all_true
from morph.runtime.device import Device


def bounds(mesh: Mesh) -> NDArray[np.float64]:
    """Return the lowest and the highest coordinates, shape (2, 2), on the host."""
    return box_of(mesh.device, mesh.points)


def box_of(where: Device, xy: Any) -> NDArray[np.float64]:
    """Return the lowest and the highest coordinates of points, shape (2, 2), on the host."""
    return np.array(where.extremes(xy[:, 0], xy[:, 1])).T


def scale_of(mesh: Mesh, box: Any = None) -> float:
    """Return the power of two that brings coordinates to where their fourth powers are numbers.

    Products by it are exact, so a mesh is refined alike at 1e-100 and at 1.  ``box`` is that of
    `bounds`, if it is known.

    Raises
    ------
    ValueError
        If coordinates are beyond 1e140, or nothing is as large as 1e-140, or the smallest of them
        would lose digits.
    """
    box = bounds(mesh) if box is None else box
    most, extent = float(np.abs(box).max()), float((box[1] - box[0]).max())
    if not (extent >= 1e-140 and most <= 1e140):
        raise ValueError(
            f"coordinates up to {most:g}, {extent:g} apart: exact predicates need them within"
            " 1e140, and at least 1e-140 apart"
        )
    if 2.0**-40 < extent and most < 2.0**40:
        return 1.0
    scale = 2.0 ** -math.frexp(most)[1]
    if not all_true(mesh.points * scale / scale == mesh.points):
        raise ValueError(f"coordinates up to {most:g} and others near 0 do not fit one scale")
    return scale
