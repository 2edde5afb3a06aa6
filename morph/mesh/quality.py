"""Shapes of triangles (angles, areas, aspect ratios) and the quality of meshes.

The code runs on NumPy and CuPy: ``xp`` is the array module.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from morph.runtime.device import Array

CHUNK = {"numpy": 1 << 17, "cupy": 1 << 22}  # triangles at once: to fit the cache, to fill a GPU
ASPECT_BINS = (1.5, 2, 2.5, 3, 4, 6, 10, 15, 25, 50, 100, 300, 1e3, 1e4, 1e5)


@dataclass(frozen=True)
class Quality:
    """Quality of a mesh.

    Attributes
    ----------
    points, triangles, segments : int
        Sizes.
    min_angle, max_angle : float
        Over all corners, in degrees; negative for clockwise triangles.
    area : float
        Total area of all triangles, in squared units of the coordinates.
    min_area, max_area : float
        Extreme areas of triangles; negative for clockwise triangles.
    min_edge, max_edge : float
        Extreme edge lengths, in units of the coordinates.
    max_aspect : float
        Longest edge of a triangle divided by its shortest altitude, as in Triangle (Shewchuk
        1996); 1.155 for an equilateral, inf for a degenerate triangle.
    mean_radius_edge, max_radius_edge : float
        Circumradius divided by shortest edge, the measure of Delaunay refinement (Miller, Talmor,
        Teng, Walkington 1995): 1 / (2 sin(smallest angle)); 0.577 for an equilateral triangle.
    histogram : tuple of 18 int
        Number of angles in [0, 10), [10, 20), ... [170, 180] degrees; the first bin includes
        negative angles and nan.
    aspect_histogram : tuple of 16 int
        Number of triangles by aspect ratio, with Triangle's upper bin limits 1.5, 2, 2.5, 3, 4, 6,
        10, 15, 25, 50, 100, 300, 1,000, 10,000 and 100,000; the last bin is unbounded and includes
        nan.

    Notes
    -----
    Without triangles, all fields except the sizes, ``area`` and the histograms are nan.
    """

    points: int
    triangles: int
    segments: int
    min_angle: float
    max_angle: float
    area: float
    min_area: float
    max_area: float
    min_edge: float
    max_edge: float
    max_aspect: float
    mean_radius_edge: float
    max_radius_edge: float
    histogram: tuple[int, ...]
    aspect_histogram: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; None represents nan and inf."""
        values = asdict(self)
        for name, value in values.items():
            if isinstance(value, tuple):
                values[name] = list(value)
            elif not math.isfinite(value):
                values[name] = None
        return values


class Shapes:
    """The shapes of some triangles, computed from their corners on demand.

    Parameters
    ----------
    points : (n, 2) float64 array
    triangles : (m, 3) integer array
    xp : module
        ``numpy`` or ``cupy``.

    Attributes
    ----------
    double : (m,) float64 array
        Twice the signed areas.
    """

    def __init__(self, points: Array, triangles: Array, xp: Any) -> None:
        self.xp = xp
        corners = xp.take(points, triangles.T, axis=0)
        # row k is the edge opposite corner k; in all arrays below, columns are triangles
        self._x, self._y = (corners[[2, 0, 1], :, k] - corners[[1, 2, 0], :, k] for k in (0, 1))
        self.double = self._x[1] * self._y[2] - self._y[1] * self._x[2]
        self._squares = self._x * self._x + self._y * self._y

    def areas(self) -> Array:
        """Signed areas, shape (m,)."""
        return self.double / 2

    def edges(self) -> Array:
        """Lengths of the edges opposite each corner, shape (3, m)."""
        return self.xp.sqrt(self._squares)

    def angles(self) -> Array:
        """Angles at the corners in degrees, shape (3, m)."""
        x, y, xp = self._x, self._y, self.xp
        after, before = [1, 2, 0], [2, 0, 1]
        inner = -(x[after] * x[before] + y[after] * y[before])
        angles = xp.arctan2(self.double, inner)
        angles *= 180 / math.pi
        return angles

    def aspects(self) -> Array:
        """Longest edge divided by shortest altitude, shape (m,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._squares.max(axis=0) / abs(self.double)

    def radius_edges(self) -> Array:
        """Circumradius divided by shortest edge, shape (m,)."""
        # the circumradius is the product of the edges divided by four times the area
        low, high = self._squares.min(axis=0), self._squares.max(axis=0)
        middle = self._squares.sum(axis=0) - low - high
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.xp.sqrt(middle) * self.xp.sqrt(high) / (2 * abs(self.double))


def chunks(triangles: Array, xp: Any) -> list[Array]:
    """Split triangles into chunks that fit the cache."""
    size = CHUNK[xp.__name__]
    return [triangles[k : k + size] for k in range(0, len(triangles), size)]


def measure(points: Array, triangles: Array, segments: Array, xp: Any) -> Quality:
    """Measure a mesh, chunk by chunk.

    Parameters
    ----------
    points : (n, 2) float64 array
    triangles : (m, 3) int32 array
    segments : (s, 2) int32 array
    xp : module
        ``numpy`` or ``cupy``.
    """
    angle_bins, aspect_bins = xp.zeros(18, np.int64), xp.zeros(len(ASPECT_BINS) + 1, np.int64)
    limits = xp.asarray(ASPECT_BINS, np.float64)
    lows, highs, sums = [], [], []
    for part in chunks(triangles, xp):
        shapes = Shapes(points, part, xp)
        angles, aspects, radii = shapes.angles(), shapes.aspects(), shapes.radius_edges()
        areas, edges = shapes.areas(), shapes.edges()
        with np.errstate(invalid="ignore"):
            tens = (angles.ravel() * 0.1).astype(np.int32)
        angle_bins += xp.bincount(xp.clip(tens, 0, 17), minlength=18)
        aspect_bins += xp.bincount(
            xp.searchsorted(limits, aspects, side="right"), minlength=len(aspect_bins)
        )
        of = [angles, areas, edges, aspects, radii]
        lows.append(xp.stack([v.min() for v in of]))
        highs.append(xp.stack([v.max() for v in of]))
        sums.append(xp.stack([areas.sum(), radii.sum()]))
    nothing = [xp.full(5, math.nan)]
    low = xp.stack(lows or nothing).min(axis=0).tolist()
    high = xp.stack(highs or nothing).max(axis=0).tolist()
    area, radii = xp.stack(sums or [xp.zeros(2)]).sum(axis=0).tolist()
    return Quality(
        points=len(points),
        triangles=len(triangles),
        segments=len(segments),
        min_angle=low[0],
        max_angle=high[0],
        area=area,
        min_area=low[1],
        max_area=high[1],
        min_edge=low[2],
        max_edge=high[2],
        max_aspect=high[3],
        mean_radius_edge=radii / len(triangles) if len(triangles) else math.nan,
        max_radius_edge=high[4],
        histogram=tuple(angle_bins.tolist()),
        aspect_histogram=tuple(aspect_bins.tolist()),
    )
