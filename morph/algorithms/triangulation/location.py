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

from collections.abc import Iterator
from typing import Any

import numpy as np

from morph.algorithms.triangulation.insertion_order import hilbert_order
from morph.algorithms.triangulation.scaling import scale_of
from morph.data.table import Table
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, kernel
from morph.mesh import Mesh
from morph.prelude import ctz, f64, i32, i64, orient2d, vector
from morph.runtime.arrays import all_true, listed, refuse_masked, refuse_rounded
from morph.runtime.device import Device, device_for

BLOCK = 4  # triangles below each leaf of the tree, a power of two
MOST = 1 << 21  # queries in a launch: Ctrl-C waits for copies of so many, which take little memory


@kernel
def find_containing(q, boxes, sorted_triangles, leaves):
    """Give q the least id of the triangles that contain it, or its position here, or -1."""
    x = q.xy
    found, found_at = i32(-1), i32(-1)
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
                            found, found_at = t.number, i32(row)
            node = (node + 1) >> ctz(node + 1)  # behind the subtree of the node
            if node == 1:
                break
    if hasattr(q, "position"):
        q.position = found_at
    else:
        q.found = found


@kernel
def interpolate_linearly(q, sorted_triangles, values):
    """Give q the value of the linear function through the corners of its triangle."""
    if q.position >= 0:
        t = sorted_triangles[q.position]
        u, v, w = t.b - t.a, t.c - t.a, q.xy - t.a
        a, b, c = values[t.node[0]].value, values[t.node[1]].value, values[t.node[2]].value
        if max(abs(u.x), abs(u.y)) < max(abs(v.x), abs(v.y)):
            u, v = v, u
            b, c = c, b
        if abs(u.x) < abs(u.y):
            u, v, w = vector(u.y, u.x), vector(v.y, v.x), vector(w.y, w.x)
        third, whole = 0.0, u.x * v.y - u.y * v.x
        if whole != 0.0:
            third = min(max((u.x * w.y - u.y * w.x) / whole, 0.0), 1.0)
        elif w.x == v.x and w.y == v.y:  # a corner of a triangle that is flat up to rounding
            third = 1.0
        second = (w.x - third * v.x) / u.x  # u.x is the largest: the sum below is accurate
        value = (1.0 - second - third) * a + second * b + third * c
        q.value = min(max(value, min(a, b, c)), max(a, b, c))


def find_simplex(mesh: Mesh, points: Any, device: str | Device | None = None) -> Any:
    """Find the triangle that contains each point.  See `morph.Mesh.find_simplex`."""
    where = device_for(device, mesh.points)
    queries = _rows(where, points)
    with where.active():
        found = where.xp.full(len(queries), -1, np.int32)
    for part, located, _ in _located(mesh, queries, where, found=i32):
        with where.active():
            found[part] = located.found.array[: len(located)]
    return found


def _located(mesh: Mesh, queries: Any, where: Device, **columns: Any) -> Iterator[Any]:
    """Locate points in parts: for each its slice, the table of its points, the triangles."""
    if not len(mesh.triangles) or not len(queries):
        return
    mesh = mesh.to(where)
    _check(mesh)
    scale = scale_of(mesh)
    boxes, sorted_triangles, leaves = _tree(mesh, scale, where)
    for first in range(0, len(queries), MOST):
        part = slice(first, first + MOST)
        located = Table("queries", where, xy=vec(f64, 2), **columns)
        with where.active():
            located.extend(xy=queries[part] * scale)
        foreach(located, find_containing, boxes, sorted_triangles, leaves)
        yield part, located, sorted_triangles


def _check(mesh: Mesh) -> None:
    with mesh.device.active():
        if not all_true(mesh.device.xp.isfinite(mesh.points)):
            raise ValueError("a point of the mesh is not finite: mesh.check() says which")


def _real(name: str, values: Any) -> Any:
    """Give an array of any device as it is, all else as NumPy's, and refuse all but real numbers.

    CuPy has no arrays of text.
    """
    refuse_masked(values, name)
    values = listed(values, name)
    array = values if hasattr(values, "__cuda_array_interface__") else np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}")
    refuse_rounded(array, name, np.float64, values)
    return array


def _rows(where: Device, points: Any) -> Any:
    """Check the shape of queries, and give them on the device."""
    rows = _real("points", points)
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"points must have shape (k, 2), got {tuple(rows.shape)}")
    return where.asarray(rows, np.float64)


def _tree(mesh: Mesh, scale: float, where: Device) -> tuple[Table, Table, int]:
    """Sort the triangles, and build the tree of boxes; its root is row 1, leaves come last."""
    xp, m = where.xp, len(mesh.triangles)
    leaves = 1 << (-(-m // BLOCK) - 1).bit_length()
    with where.active():
        points = mesh.points * scale
        a, b, c = (points[mesh.triangles[:, k]] for k in range(3))
        middles = Table("middles", where, xy=vec(f64, 2))
        middles.extend(xy=a / 3 + b / 3 + c / 3)
        order = hilbert_order(middles)
        a, b, c = a[order], b[order], c[order]
        low = xp.full((leaves * BLOCK, 2), np.inf)
        high = xp.full((leaves * BLOCK, 2), -np.inf)
        low[:m] = xp.minimum(xp.minimum(a, b), c)
        high[:m] = xp.maximum(xp.maximum(a, b), c)
        while len(low) > leaves:  # halves: NumPy is slow along a short axis
            low, high = xp.minimum(low[::2], low[1::2]), xp.maximum(high[::2], high[1::2])
        lows, highs = xp.empty((2 * leaves, 2)), xp.empty((2 * leaves, 2))
        lows[0], highs[0] = np.inf, -np.inf
        size = leaves
        while True:
            lows[size : 2 * size], highs[size : 2 * size] = low, high
            if size == 1:
                break
            size //= 2
            low, high = xp.minimum(low[::2], low[1::2]), xp.maximum(high[::2], high[1::2])
        boxes = Table("boxes", where, pack=("low", "high"), low=vec(f64, 2), high=vec(f64, 2))
        boxes.extend(low=lows, high=highs)
        done = Table(
            "sorted_triangles", where, a=vec(f64, 2), b=vec(f64, 2), c=vec(f64, 2),
            node=vec(i32, 3), number=i32,
        )  # fmt: skip
        node = mesh.triangles[order]
        done.extend(a=a, b=b, c=c, node=node, number=order.astype(np.int32))
    return boxes, done, leaves


def interpolate(mesh: Mesh, values: Any, points: Any, device: str | Device | None = None) -> Any:
    """Interpolate values at the points of a mesh.  See `morph.Mesh.interpolate`."""
    where = device_for(device, mesh.points)
    with where.active():
        xp, given = where.xp, where.asarray(_real("values", values))
        if given.ndim not in (1, 2) or len(given) != len(mesh.points):
            shape = f"({len(mesh.points)},) or ({len(mesh.points)}, k), one row for each point"
            raise ValueError(f"values must have shape {shape}, got {tuple(given.shape)}")
        queries = _rows(where, points)
        out = xp.full((len(queries), *given.shape[1:]), np.nan)
        by_column, columns = out, given.T
        if given.ndim == 1:
            by_column, columns = out[:, None], given[None]
    tables = []
    for column in columns if len(queries) else ():
        tables.append(Table("values", where, value=f64))
        with where.active():
            tables[-1].extend(value=xp.ascontiguousarray(column, dtype=np.float64))
    for part, located, sorted_triangles in _located(mesh, queries, where, position=i32, value=f64):
        located.value = np.nan  # outside of the mesh
        for k, table in enumerate(tables):
            foreach(located, interpolate_linearly, sorted_triangles, table)
            with where.active():
                by_column[part, k] = located.value.array[: len(located)]
    return out
