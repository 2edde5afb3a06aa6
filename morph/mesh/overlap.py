"""Exact test whether the triangles of a mesh overlap, based on its hull.

Let all triangles be counter-clockwise, and let every edge except hull edges have one triangle on
each side.  The number of triangles that cover a position is then the winding number of the hull
around it.  Three tests, each of which assumes the previous ones, prove that it is 0 or 1:

1. the triangles of each point do not overlap: around a point, the cover increases only at hull
   edges that leave the point, so it suffices to count the triangles in the direction of each of
   these edges, or in any direction if there are none (`crowded_corners`);
2. hull edges meet at common ends only (`crossing_hull`); hence a triangle that covers one hull edge
   is part of a cover of the whole connected component of the hull;
3. no other triangle covers one point of each connected component of the hull (`covered_twice`).

All tests treat ends of hull edges with equal coordinates as one point (`one_row_each`).  Other
points may have duplicates: test 1 is local to a point, and tests 2 and 3 use coordinates.

Cost: O(h log h) for h hull edges whose bounding boxes overlap few others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from morph.mesh.arrays import row_elements
from morph.mesh.signs import orientation

_CHUNK = 1 << 18  # pairs tested at once

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Boxes = tuple[Floats, Floats]  # least and greatest x, y, x + y, x - y, each (k, 4)


def one_row_each(points: Floats, hull: Ids) -> NDArray[np.int32]:
    """Map ends of hull edges with equal coordinates to one row, all other points to themselves.

    Returns
    -------
    (n,) int32 array
        For each row of ``points``, the row to use.
    """
    rows = np.arange(len(points), dtype=np.int32)
    ends = np.unique(hull)
    ends = ends[np.lexsort((points[ends, 1], points[ends, 0]))]  # equal ones in order of rows
    new = np.ones(len(ends), bool)
    new[1:] = (points[ends[1:]] != points[ends[:-1]]).any(axis=1)
    rows[ends] = ends[new][np.cumsum(new) - 1]
    return rows


def crowded_corners(points: Floats, triangles: NDArray[np.int32], hull: Ids) -> Ids:
    """Find points whose triangles overlap one another.

    Parameters
    ----------
    points : (n, 2) float64 array
    triangles : (m, 3) int32 array
        Counter-clockwise.
    hull : (h, 2) int64 array
        Hull edges, with the mesh on their left.

    Returns
    -------
    (k,) int64 array
        Rows of ``points``, in order.
    """
    n, y = len(points), points[:, 1]
    # direction +x from a point: opposite edges that cross its height upwards
    turns = np.zeros(n, np.int64)
    rim = np.zeros(n, bool)
    rim[hull[:, 0]] = True
    stars = []
    for k in range(3):
        at, first, second = (triangles[:, (k + j) % 3] for j in range(3))
        rising = (y[first] < y[at]) & (y[at] <= y[second])
        turns += np.bincount(at[rising], minlength=n)
        near = rim[at]
        stars.append(np.stack([at[near], first[near], second[near]], axis=1))
    # in the direction of each hull edge that leaves a point
    star = np.concatenate(stars).astype(np.int64)
    star = star[np.argsort(star[:, 0], kind="stable")]
    degree = np.bincount(star[:, 0], minlength=n)
    begin, size = (np.cumsum(degree) - degree)[hull[:, 0]], degree[hull[:, 0]]
    for edge, place in row_elements(size, _CHUNK):
        at, first, second = star[begin[edge] + place].T
        toward = hull[edge, 1]
        holds = orientation(points, at, first, toward) >= 0
        holds[holds] = orientation(points, at[holds], toward[holds], second[holds]) > 0
        cover = np.bincount(edge[holds], minlength=len(hull))
        np.maximum.at(turns, hull[:, 0], cover)
    return np.flatnonzero(turns > 1)


def crossing_hull(points: Floats, hull: Ids) -> Ids:
    """Find pairs of hull edges that intersect other than at a common end.

    Returns
    -------
    (k, 2) int64 array
        Rows of ``hull``.
    """
    found = []
    for e, f in _meeting_boxes(_boxes(points, hull)):
        (a, b), (c, d) = hull[e].T, hull[f].T
        joined = (a == c) | (a == d) | (b == c) | (b == d)
        meet = np.zeros(len(e), bool)
        # with a common end: they intersect only if their directions from there are equal
        at = np.flatnonzero(joined)
        s = np.where((a == c) | (a == d), a, b)[at]
        p, q = (a + b)[at] - s, (c + d)[at] - s
        alike = (np.sign(points[p] - points[s]) == np.sign(points[q] - points[s])).all(axis=1)
        at, s, p, q = at[alike], s[alike], p[alike], q[alike]
        meet[at[orientation(points, s, p, q) == 0]] = True
        # without: each must separate the ends of the other
        at = np.flatnonzero(~joined)
        for g, h, x, y in ((a, b, c, d), (c, d, a, b)):
            g, h, x, y = g[at], h[at], x[at], y[at]
            at = at[orientation(points, g, h, x) * orientation(points, g, h, y) <= 0]
        meet[at] = True
        found.append(np.stack([e[meet], f[meet]], axis=1))
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def covered_twice(points: Floats, triangles: NDArray[np.int32], hull: Ids) -> Ids:
    """Find connected components of the hull that other triangles cover.

    Returns
    -------
    (k,) int64 array
        A point of each component, in ascending order.
    """
    y = points[:, 1]
    corners = np.unique(hull)
    label = _connected(np.searchsorted(corners, hull), len(corners))
    order = np.lexsort((points[corners, 1], points[corners, 0], label))
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    lowest = corners[order[first]]  # the leftmost point of each part

    # infinitesimally above the ray to -x: the point's own triangles, and the hull's winding number
    own = np.zeros(len(points), np.int64)
    for k in range(3):
        at, after, before = (triangles[:, (k + j) % 3] for j in range(3))
        own += np.bincount(at[(y[after] > y[at]) & (y[at] >= y[before])], minlength=len(points))
    cover = np.zeros(len(lowest), np.int64)
    low, high = _boxes(points, lowest[:, None])
    low[:, [0, 2, 3]] = -np.inf
    for e, i in _meeting_boxes(_boxes(points, hull), (low, high)):
        (a, b), p = hull[e].T, lowest[i]
        down = (y[b] <= y[p]) & (y[p] < y[a])
        up = (y[a] <= y[p]) & (y[p] < y[b])
        side = orientation(points, a, b, p)
        cover += np.bincount(i[down & (side > 0)], minlength=len(lowest))
        cover -= np.bincount(i[up & (side < 0)], minlength=len(lowest))
    return np.sort(lowest[cover != own[lowest]])


def _connected(edges: Ids, n: int) -> Ids:
    """Label the points of each connected component by its smallest point, shape (n,)."""
    label = np.arange(n)
    while True:
        ends = label[edges]
        lower = label.copy()
        for k in range(2):
            np.minimum.at(lower, ends[:, k], ends.min(axis=1))
        while (lower[lower] != lower).any():
            lower = lower[lower]
        if (lower == label).all():
            return label
        label = lower


def _boxes(points: Floats, ids: Ids) -> Boxes:
    """Bound groups of points, shape (k, any), by octagons.

    Octagons of intersecting groups intersect also with rounded sums, as rounding is monotone.
    """
    x, y = points[ids, 0], points[ids, 1]
    with np.errstate(over="ignore"):
        bounds = x, y, x + y, x - y
    return (
        np.stack([v.min(axis=1) for v in bounds], axis=1),
        np.stack([v.max(axis=1) for v in bounds], axis=1),
    )


def _meeting_boxes(first: Boxes, second: Boxes | None = None) -> Iterator[tuple[Ids, Ids]]:
    """Yield intersecting pairs of boxes: one of each set, or each pair of the first set once.

    Both sets are sorted along a space-filling curve and bounded by binary trees, which are
    traversed simultaneously.
    """
    alone = second is None
    second = first if second is None else second
    size = max(len(first[0]), len(second[0]))
    one, tree = _tree(first, size)
    two, other = (one, tree) if alone else _tree(second, size)
    stack = [(0, np.zeros(1, np.int64), np.zeros(1, np.int64))]
    while stack:
        level, i, j = stack.pop()
        (low_i, high_i), (low_j, high_j) = tree[level], other[level]
        meet = ((low_i[i] <= high_j[j]) & (low_j[j] <= high_i[i])).all(axis=1)
        i, j = i[meet], j[meet]
        if level == len(tree) - 1:
            if alone:
                i, j = i[i < j], j[i < j]
            if len(i):
                yield one[i], two[j]
            continue
        i = (2 * i[:, None] + np.array([0, 0, 1, 1])).ravel()
        j = (2 * j[:, None] + np.array([0, 1, 0, 1])).ravel()
        if alone:
            i, j = i[i <= j], j[i <= j]
        for start in range(0, len(i), _CHUNK):
            stack.append((level + 1, i[start : start + _CHUNK], j[start : start + _CHUNK]))


def _tree(boxes: Boxes, size: int) -> tuple[Ids, list[Boxes]]:
    """Order boxes along a Z-curve of the ranks of their sides, and build a binary tree of bounds.

    Returns
    -------
    order : (k,) int64 array
        The box of each leaf; the remaining leaves are empty.
    levels : list of Boxes
        1, 2, 4, ... boxes, up to ``size`` or more.
    """
    count = len(boxes[0])
    code = np.zeros(count, np.int64)
    for k, side in enumerate((boxes[0][:, 0], boxes[1][:, 1])):
        rank = np.empty(count, np.int64)
        rank[np.argsort(side, kind="stable")] = np.arange(count)
        for bit in range(count.bit_length()):
            code |= (rank >> bit & 1) << (2 * bit + k)
    order: Ids = np.argsort(code)
    fill = np.full(((1 << max(size - 1, 0).bit_length()) - count, 4), np.inf)
    low, high = np.concatenate([boxes[0][order], fill]), np.concatenate([boxes[1][order], -fill])
    levels = [(low, high)]
    while len(low) > 1:
        low, high = np.minimum(low[::2], low[1::2]), np.maximum(high[::2], high[1::2])
        levels.append((low, high))
    return order, levels[::-1]
