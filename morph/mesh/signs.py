"""Exact signs of determinants, for arrays of points.

Signs are computed in double precision if Shewchuk's error bound proves them (J. R. Shewchuk,
Adaptive precision floating-point arithmetic and fast robust geometric predicates, 1997), else in
exact integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.mesh.compiled import oriented

_CHUNK = 1 << 16  # signs computed at once: their arrays fit the cache
_EPS = 2.0**-53
_SMALL, _LARGE = 1e-70, 1e70  # products of four differences in this range are in range, too

Ids = NDArray[Any]


def orientation(points: NDArray[np.float64], a: Ids, b: Ids, c: Ids) -> NDArray[np.int8]:
    """Exact sign of the area of triangles: 1 counter-clockwise, 0 collinear, -1 clockwise.

    Parameters
    ----------
    points : (n, 2) float64 array
    a, b, c : (k,) integer arrays
        Rows of ``points``.
    """
    out = oriented(points, a, b, c)
    if out is None:
        return _signs(points, (a, b, c), _orientation_filter, _orientation_exact)
    doubtful = np.flatnonzero(out == 2)
    corners = a[doubtful], b[doubtful], c[doubtful]
    out[doubtful] = _signs(points, corners, _orientation_filter, _orientation_exact)
    return out


def incircle(points: NDArray[np.float64], a: Ids, b: Ids, c: Ids, d: Ids) -> NDArray[np.int8]:
    """Exact position of ``d`` relative to the circle through counter-clockwise ``a, b, c``.

    Returns
    -------
    (k,) int8 array
        1 inside, 0 on the circle, -1 outside.
    """
    return _signs(points, (a, b, c, d), _incircle_filter, _incircle_exact)


def _signs(
    points: NDArray[np.float64],
    corners: tuple[Ids, ...],
    estimate: Callable[[list[Any]], tuple[Any, Any]],
    exact: Callable[[list[Any]], Any],
) -> NDArray[np.int8]:
    """Signs by a floating-point filter, then exactly where the filter fails."""
    out = np.empty(len(corners[0]), np.int8)
    for start in range(0, len(out), _CHUNK):
        rows = [np.take(points, c[start : start + _CHUNK], axis=0) for c in corners]
        with np.errstate(all="ignore"):
            last = rows[-1]
            diffs = [v for r in rows[:-1] for v in (r[:, 0] - last[:, 0], r[:, 1] - last[:, 1])]
            value, bound = estimate(diffs)
            sure = np.abs(value) > bound
            for v in diffs:
                size = np.abs(v)
                sure &= ((size > _SMALL) & (size < _LARGE)) | (v == 0)
        sign = np.where(sure, np.sign(value), 0).astype(np.int8)
        doubtful = np.flatnonzero(~sure)
        if len(doubtful):
            whole = _integers(np.concatenate([r[doubtful] for r in rows], axis=1))
            x, y = whole[:, 0::2], whole[:, 1::2]
            n = x.shape[1] - 1
            exact_diffs = [v for k in range(n) for v in (x[:, k] - x[:, n], y[:, k] - y[:, n])]
            det = exact(exact_diffs)
            sign[doubtful] = (det > 0).astype(np.int8) - (det < 0).astype(np.int8)
        out[start : start + _CHUNK] = sign
    return out


def _integers(values: NDArray[np.float64]) -> NDArray[Any]:
    """Scale each row by a power of two to exact Python integers."""
    mantissa, exponent = np.frexp(values)
    exponent = np.where(mantissa == 0, 1 << 20, exponent)
    shift = exponent - exponent.min(axis=1, keepdims=True)
    shift[mantissa == 0] = 0
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    shifted: NDArray[Any] = np.left_shift(whole, shift.astype(object))
    return shifted


def _orientation_filter(d: list[Any]) -> tuple[Any, Any]:
    left, right = d[0] * d[3], d[1] * d[2]
    return left - right, 4 * _EPS * (np.abs(left) + np.abs(right))


def _orientation_exact(d: list[Any]) -> Any:
    return d[0] * d[3] - d[1] * d[2]


def _incircle_filter(d: list[Any]) -> tuple[Any, Any]:
    ax, ay, bx, by, cx, cy = d
    bc, cb, ca, ac, ab, ba = bx * cy, cx * by, cx * ay, ax * cy, ax * by, bx * ay
    lift_a, lift_b, lift_c = ax * ax + ay * ay, bx * bx + by * by, cx * cx + cy * cy
    value = lift_a * (bc - cb) + lift_b * (ca - ac) + lift_c * (ab - ba)
    size = lift_a * (np.abs(bc) + np.abs(cb)) + lift_b * (np.abs(ca) + np.abs(ac))
    return value, 12 * _EPS * (size + lift_c * (np.abs(ab) + np.abs(ba)))


def _incircle_exact(d: list[Any]) -> Any:
    ax, ay, bx, by, cx, cy = d
    value = (ax * ax + ay * ay) * (bx * cy - cx * by)
    value = value + (bx * bx + by * by) * (cx * ay - ax * cy)
    return value + (cx * cx + cy * cy) * (ax * by - bx * ay)
