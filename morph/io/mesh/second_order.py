"""Second-order elements: a mid-edge node for every edge, as by Triangle's ``-o2``.

A `Mesh` contains corners only.  Reading drops mid-edge nodes after a check; writing, and
`second_order` for finite elements, recompute them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from morph.language.arguments import check_type
from morph.mesh.mesh import Floats, Ints, Mesh, edge_keys
from morph.mesh.validation import repeated_points


@dataclass(frozen=True)
class SecondOrder:
    """The arrays of a mesh with mid-edge nodes; these follow the corners.

    Attributes
    ----------
    points : (n + e, 2) float64 array
        The mesh's n points, and the midpoints of its e edges.
    triangles : (m, 6) int32 array
        Three corners, then the mid-edge nodes of the edges opposite to them.
    segments : (s, 3) int32 array
        Two ends, then the mid-edge node.
    point_markers : (n + e,) int32 array
        A mid-edge node has the marker of its segment; 0 if it lies on no segment.
    point_attributes : (n + e, k) float64 array
        A mid-edge node has the mean of its edge's ends.
    """

    points: Floats
    triangles: Ints
    segments: Ints
    point_markers: Ints
    point_attributes: Floats


def second_order(mesh: Mesh) -> SecondOrder:
    """Add a node at the midpoint of every edge of a mesh.

    Raises
    ------
    ValueError
        If the midpoint of an edge rounds to the coordinates of another point.
    """
    check_type(mesh, "mesh", "Mesh")
    mesh = mesh.to("cpu")
    n, t = len(mesh.points), mesh.triangles
    own = owned(mesh.neighbors)
    names = np.cumsum(own.ravel(), dtype=np.int64).reshape(own.shape) + (n - 1)
    if n + int(own.sum()) >= 2**31:
        raise ValueError("the mesh has more points and edges than 32-bit numbers can count")
    ends = np.stack([np.roll(t, -1, axis=1)[own], np.roll(t, -2, axis=1)[own]], axis=1)
    middles = names.astype(np.int32)
    for k in range(3):
        rest = np.flatnonzero(~own[:, k])
        other = mesh.neighbors[rest, k]
        side = (mesh.neighbors[other] == rest[:, None]).argmax(axis=1)
        middles[rest, k] = names[other, side]
    points = np.concatenate([mesh.points, _mean(mesh.points, ends)])
    twins = repeated_points(points)
    if len(twins):
        new = twins[twins[:, 1] >= n][:, 1]
        if len(new):
            a, b = ends[int(new[0]) - n].tolist()
            raise ValueError(f"the middle of edge ({a}, {b}) has the coordinates of another point")
    keys = edge_keys(ends[:, 0], ends[:, 1], n)
    edge = look_up(keys, edge_keys(mesh.segments[:, 0], mesh.segments[:, 1], n))
    if (edge < 0).any():
        row = int((edge < 0).argmax())
        raise ValueError(f"segments[{row}] = {mesh.segments[row].tolist()} is no edge of the mesh")
    markers = np.zeros(len(ends), np.int32)
    markers[edge] = mesh.segment_markers
    attributes = mesh.point_attributes
    return SecondOrder(
        points,
        np.concatenate([t, middles], axis=1),
        np.concatenate([mesh.segments, (edge + n).astype(np.int32)[:, None]], axis=1),
        np.concatenate([mesh.point_markers, markers]),
        np.concatenate([attributes, _mean(attributes, ends)]),
    )


def _mean(values: Floats, ends: Ints) -> Floats:
    """Means over pairs of rows; values are halved first only if the sum overflows."""
    a, b = values[ends[:, 0]], values[ends[:, 1]]
    with np.errstate(over="ignore"):
        mean: Floats = 0.5 * (a + b)
    return np.where(np.isfinite(mean), mean, 0.5 * a + 0.5 * b)


def look_up(table: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the index of each key in an unsorted table; -1 if it is absent."""
    if not len(table):
        return np.full(len(keys), -1)
    order = np.argsort(table)
    at = np.searchsorted(table, keys, sorter=order)
    place = order[np.minimum(at, len(table) - 1)]
    return np.where(table[place] == keys, place, -1)


def owned(neighbors: Ints) -> NDArray[np.bool_]:
    """Which half-edges represent their edge: the lower-numbered of two, and those at the hull."""
    mine: NDArray[np.bool_] = (neighbors < 0) | (neighbors > np.arange(len(neighbors))[:, None])
    return mine


def without_middles(count: int, middles: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Drop mid-edge nodes.

    Parameters
    ----------
    count : int
        Number of points.
    middles : (m, 3) int32 array

    Returns
    -------
    kept : (count,) bool array
        Points that remain.
    rows : (count,) int32 array
        New row of each point; -1 for dropped points.
    """
    kept = np.ones(count, bool)
    kept[middles] = False
    return kept, np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
