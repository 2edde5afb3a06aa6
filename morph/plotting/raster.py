"""Rasterisation of triangles and segments, for meshes too fine for vector graphics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from morph.mesh.arrays import row_elements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CHUNK = 1 << 20  # triangles, rows or pixels at once


def rasterize(
    points: Floats,
    triangles: NDArray[np.int32],
    values: Floats,
    shape: tuple[int, int],
    mean: bool = True,
) -> Floats:
    """Rasterise triangles by scan lines.

    A pixel shows the mean over the triangle that contains its centre and the triangles whose
    centroid is in the pixel; so every triangle contributes.

    Parameters
    ----------
    points : (n, 2) float64 array
        In pixel coordinates: pixel (row i, column j) spans [j, j + 1) x [i, i + 1).
    triangles : (m, 3) int32 array
    values : (m,) float64 array
    shape : (height, width)
    mean : bool
        If False, a pixel shows one triangle, preferably the one that contains its centre.

    Returns
    -------
    (height, width) float64 array
        nan in pixels without a triangle.
    """
    height, width = shape
    total, count = np.zeros(height * width), np.zeros(height * width)

    def paint(row: Ints, column: Ints, value: Floats) -> None:
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        at = row[inside] * width + column[inside]
        if not mean:
            total[at], count[at] = value[inside], 1
            return
        total[:] += np.bincount(at, value[inside], len(total))
        count[:] += np.bincount(at, minlength=len(total))

    for start in range(0, len(triangles), _CHUNK):
        part = slice(start, start + _CHUNK)
        corners, value = points[triangles[part]], values[part]
        middle = np.floor(corners.mean(axis=1)).astype(np.int64)
        paint(middle[:, 1], middle[:, 0], value)
        # rows whose centre line the triangle crosses, then the pixels between its two edges
        low, high = corners[:, :, 1].min(axis=1), corners[:, :, 1].max(axis=1)
        first = np.clip(np.ceil(low - 0.5), 0, height).astype(np.int64)
        rows = np.clip(np.ceil(high - 0.5), 0, height).astype(np.int64) - first
        for t, place in row_elements(rows, _CHUNK):
            row = first[t] + place
            left, right = _span(corners[t], row + 0.5)
            begin = np.clip(np.ceil(left - 0.5), 0, width).astype(np.int64)
            pixels = np.clip(np.ceil(right - 0.5), 0, width).astype(np.int64) - begin
            for r, step in row_elements(np.maximum(pixels, 0), _CHUNK):
                paint(row[r], begin[r] + step, value[t[r]])
    with np.errstate(invalid="ignore"):
        return (total / count).reshape(shape)


def trace(points: Floats, segments: NDArray[np.int32], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Find the pixels on segments, sampled at steps of a pixel along the longer side."""
    height, width = shape
    hit = np.zeros(shape, bool)
    for start in range(0, len(segments), _CHUNK):
        a, b = points[segments[start : start + _CHUNK]].transpose(1, 0, 2)
        steps = np.ceil(np.abs(b - a).max(axis=1)).astype(np.int64) + 1
        for s, place in row_elements(steps, _CHUNK):
            x, y = (a[s] + (b - a)[s] * ((place + 0.5) / steps[s])[:, None]).T
            inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
            hit[y[inside].astype(np.int64), x[inside].astype(np.int64)] = True
    return hit


def _span(corners: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest x of triangles at height ``y``."""
    cuts = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in range(3):
            (ax, ay), (bx, by) = corners[:, k].T, corners[:, k - 1].T
            cut = ax + (y - ay) * ((bx - ax) / (by - ay))
            cuts.append(np.where((ay <= y) != (by <= y), cut, np.nan))
    return np.fmin.reduce(cuts), np.fmax.reduce(cuts)
