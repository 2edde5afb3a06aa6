"""Half-edges of triangles: keys of undirected edges, neighbours and hull edges.

The code runs on NumPy and CuPy: ``xp`` is the array module; only counts are copied to the host.
Half-edge ``3 * t + k`` is the edge of triangle ``t`` opposite its corner ``k``, from corner
``k + 1`` to corner ``k + 2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from morph.mesh.compiled import paired
from morph.mesh.errors import MeshError, Violation
from morph.runtime.device import Array

WORD_BITS = 63  # bits of a packed, signed sort key
_GROUP_BITS = 18  # half-edges sorted at once on the host, or more if there are 2**_MOST_BITS groups
_MOST_BITS = 5  # of the number of groups: each takes a pass over all half-edges
_STEPS = np.array([[1, 1, -2], [2, -1, -1]])  # from a corner to the ends of the edge opposite to it
_Group = tuple[Array | None, Array, Array, int, int]
"""Half-edges, None for all; their two points; first point and number of the lower points."""


def edge_keys(a: Array, b: Array, n: int, xp: Any = np) -> Array:
    """Return int64 keys of the undirected edges between points ``a`` and ``b`` of ``n``."""
    return xp.minimum(a, b).astype(np.int64) * n + xp.maximum(a, b)


def hull_edges(triangles: Array, neighbors: Array, xp: Any = np) -> Array:
    """Return the hull edges, with the mesh on their left; shape (h, 2), int32."""
    half = xp.flatnonzero(neighbors.ravel() < 0)
    row, k = half // 3, half % 3
    return xp.stack([triangles[row, (k + 1) % 3], triangles[row, (k + 2) % 3]], axis=1)


def find_neighbors(triangles: Array, n: int, xp: Any = np) -> Array:
    """Find the triangle across each edge.

    The half-edges are sorted by their two points, which makes the two half-edges of an edge
    adjacent; compiled code pairs those of large meshes on the host.  A sort of 64-bit keys is much
    faster than an argsort, so lower point, higher point, direction and half-edge are packed into
    one key, with as many low bits of the higher point as fit; the few edges with equal keys but
    different high bits are sorted again, by all bits.

    Parameters
    ----------
    triangles : (m, 3) int32 array
        Counter-clockwise corners.
    n : int
        Number of points.
    xp : module
        ``numpy`` or ``cupy``.

    Returns
    -------
    (m, 3) int32 array
        Neighbour opposite corner k; -1 at the hull.

    Raises
    ------
    MeshError
        If an edge has several triangles on one side.
    """
    if xp is np and (found := paired(triangles, n)) is not None:
        return found
    neighbors = xp.full(3 * len(triangles), -1, np.int32)
    bits = min((3 * len(triangles)).bit_length() - _GROUP_BITS, _MOST_BITS) if xp is np else 0
    groups = _groups(triangles, n, bits) if bits > 0 else [_all(triangles, n)]
    for half, a, b, first, points in groups:
        pairs = _pairs(a, b, n, first, points, xp)
        if pairs is None:
            _refuse_overlap(*_all(triangles, n)[1:3], n, xp)
        one, two = pairs if half is None else (half[p] for p in pairs)
        neighbors[one] = two // 3
        neighbors[two] = one // 3
    return neighbors.reshape(-1, 3)


def _all(triangles: Array, n: int) -> _Group:
    """Return all half-edges as one group."""
    return None, triangles[:, [1, 2, 0]].ravel(), triangles[:, [2, 0, 1]].ravel(), 0, n


def _groups(triangles: Array, n: int, bits: int) -> Iterator[_Group]:
    """Yield half-edges in groups by the upper ``bits`` of their lower point, on the host.

    The arrays of a group are small: less memory, and more of them in the cache.
    """
    shift = max(n.bit_length() - bits, 0)
    group = np.empty(triangles.shape, np.uint8)
    for k in range(3):
        low = np.minimum(triangles[:, (k + 1) % 3], triangles[:, (k + 2) % 3])
        group[:, k] = np.right_shift(low, shift, out=low)
    flat = triangles.ravel()
    for g in range(((n - 1) >> shift) + 1):
        half = np.flatnonzero(group.ravel() == g)
        corner = half % 3
        a, b = (flat[half + step[corner]] for step in _STEPS)
        yield half, a, b, g << shift, 1 << shift


def _pairs(
    a: Array, b: Array, n: int, first: int, points: int, xp: Any
) -> tuple[Array, Array] | None:
    """Return the positions of the two half-edges of each edge with two triangles.

    The half-edges lead from ``a`` to ``b``; their lower points are ``points`` from ``first`` on.
    Returns None if an edge has several triangles on one side.
    """
    high = xp.maximum(a, b)
    half_bits, point_bits = len(a).bit_length(), n.bit_length()
    high_bits = max(min(point_bits, WORD_BITS - points.bit_length() - 1 - half_bits), 0)
    word = xp.minimum(a, b).astype(np.int64)
    word -= first
    word <<= high_bits
    word |= high & ((1 << high_bits) - 1)
    word <<= 1
    word |= a > b
    word <<= half_bits
    word |= xp.arange(len(a))
    word.sort()
    order = word & ((1 << half_bits) - 1)
    word >>= half_bits
    left = xp.flatnonzero((word[1:] ^ word[:-1]) <= 1)
    if high_bits < point_bits:
        left = _part(word, order, left, high, xp)
    one, two = order[left], order[left + 1]
    bad = (word[left] == word[left + 1]).any() | (left[1:] == left[:-1] + 1).any()
    return None if bool(bad) else (one, two)


def _part(word: Array, order: Array, left: Array, high: Array, xp: Any) -> Array:
    """Sort half-edges with equal keys of different edges again; returns the positions of pairs."""
    same = high[order[left]] == high[order[left + 1]]
    mixed = xp.unique(word[left[~same]] >> 1)
    if not len(mixed):
        return left
    step = xp.zeros(len(word) + 1, np.int8)
    step[xp.searchsorted(word, 2 * mixed)] += 1
    step[xp.searchsorted(word, 2 * mixed + 1, side="right")] -= 1
    mark = xp.cumsum(step, dtype=np.int8)[:-1] > 0
    at = xp.flatnonzero(mark)
    keys, rows = word[at], order[at]
    rank = xp.lexsort(xp.stack([high[rows].astype(np.int64) * 2 + (keys & 1), keys >> 1]))
    word[at], order[at] = keys[rank], rows[rank]
    again = xp.flatnonzero(mark[left])
    place = left[again]
    same[again] = high[order[place]] == high[order[place + 1]]
    return left[same]


def _refuse_overlap(a: Array, b: Array, n: int, xp: Any) -> NoReturn:
    """Raise `MeshError` for two triangles on the same side of an edge."""
    key = a.astype(np.int64) * n + b
    order = xp.argsort(key)
    at = int(xp.flatnonzero(key[order][1:] == key[order][:-1])[0])
    half = sorted(int(h) for h in order[at : at + 2])
    s, t = half[0] // 3, half[1] // 3
    edge = (int(a[half[0]]), int(b[half[0]]))
    message = f"triangles {s} and {t} lie on the same side of edge {edge}"
    raise MeshError([Violation("edge-use", message, np.array([s, t]))])
