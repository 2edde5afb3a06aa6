"""Point location: the triangle of a mesh that contains each of many points, and interpolation.

Triangles are sorted along a Hilbert curve through their middles, and a complete binary tree of
bounding boxes is built above blocks of them (Lauterbach et al., Fast BVH construction on GPUs,
2009).  Each query descends into the boxes that contain it, without a stack: the node after a
subtree follows from its number.  In a block the signs of `orient2d` decide, which are exact.  So
holes, concavities, several components, narrow triangles and graded meshes need no special case,
unlike a walk, which may leave the mesh.

O(m log m) for the tree, and O(log m) for a query of a mesh whose triangles are not all narrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.triangulation.insertion_order import hilbert_order
from morph.algorithms.triangulation.tables import scale_of
from morph.data.table import Table
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, kernel
from morph.mesh import Mesh
from morph.prelude import ctz, f64, i32, i64, orient2d
from morph.runtime.arrays import all_true
from morph.runtime.device import Device
from morph.runtime.device import device as find_device

BLOCK = 4  # triangles below each leaf of the tree
MOST = 1 << 21  # queries in a launch: Ctrl-C waits for copies of so many, which take little memory


@kernel
def find_containing(q, boxes, sorted_triangles, leaves):
    """Give q the least id of the triangles that contain it, or -1."""
    x = q.xy
    found = i32(-1)
    node = i64(1)
    while True:
        box = boxes[node]
        inside = box.low.x <= x.x and x.x <= box.high.x and box.low.y <= x.y and x.y <= box.high.y
        if inside and node < leaves:
            node = 2 * node
        else:
            if inside:
                first = (node - leaves) * BLOCK
                for row in range(first, min(first + BLOCK, len(sorted_triangles))):
                    t = sorted_triangles[row]
                    if found < 0 or t.number < found:
                        if (
                            orient2d(t.a, t.b, x) >= 0
                            and orient2d(t.b, t.c, x) >= 0
                            and orient2d(t.c, t.a, x) >= 0
                        ):
                            found = t.number
            node = (node + 1) >> ctz(node + 1)  # behind the subtree of the node
            if node == 1:
                break
    q.found = found


def find_simplex(mesh: Mesh, points: Any, device: str | Device | None = None) -> Any:
    """Find the triangle that contains each point.  See `morph.Mesh.find_simplex`."""
    where = mesh.device if device is None else find_device(device)
    queries = _rows(where, points)
    with where.active():
        found = where.xp.full(len(queries), -1, np.int32)
    if not len(mesh.triangles) or not len(queries):
        return found
    mesh = mesh.to(where)
    _check(mesh)
    scale = scale_of(mesh)
    boxes, sorted_triangles, leaves = _tree(mesh, scale, where)
    for first in range(0, len(queries), MOST):
        part = queries[first : first + MOST]
        table = Table("queries", where, xy=vec(f64, 2), found=i32)
        with where.active():
            table.extend(xy=part * scale)
        foreach(table, find_containing, boxes, sorted_triangles, leaves)
        with where.active():
            found[first : first + len(part)] = table.found.array[: len(part)]
    return found


def _check(mesh: Mesh) -> None:
    with mesh.device.active():
        if not all_true(mesh.device.xp.isfinite(mesh.points)):
            raise ValueError("a point of the mesh is not finite: mesh.check() says which")


def _rows(where: Device, points: Any) -> Any:
    """Check the shape of queries, and give them on the device."""
    on_gpu = hasattr(points, "__cuda_array_interface__")
    rows = points if on_gpu else np.asarray(points)  # CuPy has no text
    if rows.dtype.kind not in "iuf":
        raise ValueError(f"points must hold real numbers, got {rows.dtype}")
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"points must have shape (k, 2), got {tuple(rows.shape)}")
    return where.asarray(rows, np.float64)


def _tree(mesh: Mesh, scale: float, where: Device) -> tuple[Table, Table, int]:
    """Sort the triangles, and build the tree of boxes; its root is row 1, leaves come last."""
    xp, m = where.xp, len(mesh.triangles)
    leaves = 1 << (-(-m // BLOCK) - 1).bit_length()
    with where.active():
        corners = mesh.points[mesh.triangles] * scale
        middles = Table("middles", where, xy=vec(f64, 2))
        middles.extend(xy=(corners / 3).sum(axis=1))
        order = hilbert_order(middles)
        corners = corners[order]
        low = xp.full((leaves * BLOCK, 2), np.inf)
        high = xp.full((leaves * BLOCK, 2), -np.inf)
        low[:m], high[:m] = corners.min(axis=1), corners.max(axis=1)
        low = low.reshape(leaves, BLOCK, 2).min(axis=1)
        high = high.reshape(leaves, BLOCK, 2).max(axis=1)
        lows, highs = xp.empty((2 * leaves, 2)), xp.empty((2 * leaves, 2))
        lows[0], highs[0] = np.inf, -np.inf
        size = leaves
        while True:
            lows[size : 2 * size], highs[size : 2 * size] = low, high
            if size == 1:
                break
            size //= 2
            low, high = low.reshape(size, 2, 2).min(axis=1), high.reshape(size, 2, 2).max(axis=1)
        boxes = Table("boxes", where, low=vec(f64, 2), high=vec(f64, 2))
        boxes.pack("low", "high")
        boxes.extend(low=lows, high=highs)
        done = Table(
            "sorted_triangles", where, a=vec(f64, 2), b=vec(f64, 2), c=vec(f64, 2), number=i32
        )
        a, b, c = (xp.ascontiguousarray(corners[:, k]) for k in range(3))
        done.extend(a=a, b=b, c=c, number=order.astype(np.int32))
    return boxes, done, leaves


def interpolate(mesh: Mesh, values: Any, points: Any, device: str | Device | None = None) -> Any:
    """Interpolate values at the points of a mesh.  See `morph.Mesh.interpolate`."""
    where = mesh.device if device is None else find_device(device)
    with where.active():
        xp, given = where.xp, where.asarray(values)
        if given.dtype.kind not in "iuf":
            raise ValueError(f"values must hold real numbers, got {given.dtype}")
        if given.ndim not in (1, 2) or len(given) != len(mesh.points):
            shape = f"({len(mesh.points)},) or ({len(mesh.points)}, k), one row for each point"
            raise ValueError(f"values must have shape {shape}, got {tuple(given.shape)}")
        found = find_simplex(mesh, points, where)
        queries = _rows(where, points)
        mesh = mesh.to(where)
        out = xp.full((len(queries), *given.shape[1:]), np.nan)
        inside = xp.flatnonzero(found >= 0)
        if not len(inside):
            return out
        rows = mesh.triangles[found[inside]]
        a, b, c = (mesh.points[rows[:, k]] for k in range(3))
        x = queries[inside]
        scale = scale_of(mesh)
        u, v, w = (b - a) * scale, (c - a) * scale, (x - a) * scale
        whole = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
        second = (w[:, 0] * v[:, 1] - w[:, 1] * v[:, 0]) / whole
        third = (u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]) / whole
        parts = xp.stack([1 - second - third, second, third], axis=1)
        if given.ndim == 2:
            parts = parts[:, :, None]
        out[inside] = (parts * given[rows]).sum(axis=1)
        return out
