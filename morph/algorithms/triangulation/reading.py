"""Meshes read from their tables: in the order of rows, or of deterministic ids."""

# mypy: disable-error-code="valid-type,no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.triangulation.attributes import carries, interpolated
from morph.algorithms.triangulation.half_edges import BORDER, HULL, behind
from morph.algorithms.triangulation.kept import KeptObjects
from morph.data.collection import Collection
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.mesh import Mesh
from morph.prelude import f64, i32, static, vector
from morph.runtime.device import Device

# --- numbers of triangles and points -------------------------------------------------------------


@func
def neighbour(opposite):
    """The triangle behind a side, given its ``opposite`` entry; -1 at HULL, MOST at BORDER."""
    return i32(-1) if opposite == HULL else behind(opposite) >> 2


@func
def number_of(row, by_id: static):
    """The number of a point or triangle: its row, or its deterministic id."""
    if by_id:
        return i32(row.stable_id)
    else:
        return i32(row)


@func
def number_behind(g, opposite, by_id: static):
    """The number of the triangle behind a side; see `neighbour`."""
    n = neighbour(opposite)
    if by_id:
        if opposite != HULL and opposite != BORDER:
            n = g.triangles[n].stable_id
    return n


# --- kernels -------------------------------------------------------------------------------------


@kernel
def read_triangle(t, g, rows, by_id: static):
    """Write the corners of t and the triangles behind its sides."""
    a, b, c = t.node
    opposite = t.opposite
    row = rows[number_of(t, by_id)]
    row.node = vector(number_of(a, by_id), number_of(b, by_id), number_of(c, by_id))
    row.nbr = vector(
        number_behind(g, opposite[0], by_id),
        number_behind(g, opposite[1], by_id),
        number_behind(g, opposite[2], by_id),
    )


@kernel
def list_segments(t, g, sides, by_id: static):
    """Enqueue the sides of t that are segments, as half-edges, and the rows of the segments.

    Of two triangles at a segment, only the one with the larger number enqueues it.
    """
    opposite, number = t.opposite, number_of(t, by_id)
    for k in range(3):
        if opposite[k] < 0 and number_behind(g, opposite[k], by_id) < number:
            sides.add(number * 4 + i32(k), segment=i32(t.segment[k]))


@kernel
def read_point(p, points, known):
    """Write the coordinates and the marker of a point: of a new one that of its segment, or 0."""
    row = points[p.id]
    row.xy = p.xy
    if p.id >= known:
        row.marker = i32(0) if p.on is None else p.on.marker


@kernel
def read_segments(t, segments, points):
    """Enqueue the ends and markers of the sides of t that are segments, see `list_segments`.

    At the hull markers are 1 in place of 0, also those of points, as with Triangle's -r.
    """
    opposite = t.opposite
    for k in range(3):
        beyond = neighbour(opposite[k])
        if opposite[k] < 0 and beyond < i32(t):
            a, b = i32(t.node[(k + 1) % 3]), i32(t.node[(k + 2) % 3])
            marker = t.segment[k].marker
            if beyond < 0:
                marker = i32(1) if marker == 0 else marker
                if points[a].marker == 0:
                    points[a].marker = 1  # race: the same value
                if points[b].marker == 0:
                    points[b].marker = 1  # race: the same value
            segments.add(ends=vector(a, b), marker=marker)


@func
def has_segment(t):
    return t.opposite[0] < 0 or t.opposite[1] < 0 or t.opposite[2] < 0


@program
def read_triangles(g, corners, sides, by_id: static):
    """Write the corners and neighbours of all triangles, and list the sides that are segments."""
    foreach(g.triangles, read_triangle, g, corners, by_id)
    # not in the same step, as each of its items reserves capacity of the list
    foreach(g.triangles, list_segments, g, sides, by_id, where=has_segment)


@program
def read_mesh(g, corners, segments, points, known):
    """Write the corners and neighbours of all triangles, all points and segments."""
    foreach(g.points, read_point, points, known)
    foreach(g.triangles, read_triangle, g, corners, False)
    foreach(g.triangles, read_segments, segments, points, where=has_segment)


# --- arrays --------------------------------------------------------------------------------------


def from_tables(g: Graph, source: Mesh, scale: float, home: Device) -> Mesh:
    """Read a mesh from its tables, to the device ``home``; ``scale`` is that of the tables.

    The coordinates of the source's points are restored exactly.
    """
    ordered = "stable_id" in g.points.columns
    device, triangle, arrays = (_arrays_in_order if ordered else _arrays_by_row)(g, source)
    with device.active():
        if scale != 1.0:
            arrays["points"] /= scale
        if carries(source):
            origin = device.asarray(g.triangles.origin.array)[triangle]
            arrays["triangle_attributes"] = device.asarray(source.triangle_attributes)[origin]
    arrays |= {"holes": source.holes, "regions": source.regions}
    given = home.asarrays(*arrays.values())
    if KeptObjects.of(g).small and home.on_host == device.on_host:
        given = [home.copy(x) for x in given]  # the next call writes to these arrays
    arrays = dict(zip(arrays, given, strict=True))
    if source.point_attributes.shape[1]:
        host = device.to_host
        placed = host(arrays["points"]), host(arrays["triangles"]), host(origin)
        old = host(source.point_attributes)
        new = interpolated(source.to("cpu"), old, *placed, len(source.points))
        arrays["point_attributes"] = home.asarray(np.concatenate([old, new]))
    return Mesh.trusted(**arrays, base=source.base)


def _arrays_by_row(g: Graph, source: Mesh) -> tuple[Device, Any, dict[str, Any]]:
    """The arrays of a mesh in the order of rows: their device, all rows, and the arrays by name."""
    device, kept, known = g.device, KeptObjects.of(g), len(source.points)
    points = kept.table_to_read("all points", len(g.points), xy=(f64, 2), marker=i32)
    corners = kept.table_to_read("corners", len(g.triangles), node=(i32, 3), nbr=(i32, 3))
    segments = kept.list("sides", capacity=most_sides(g), ends=vec(i32, 2), marker=i32)
    device.write(points.marker.array[:known], device.asarray(source.point_markers))
    read_mesh(g, corners, segments, points, known)
    columns = {
        "points": points.xy, "point_markers": points.marker, "triangles": corners.node,
        "neighbors": corners.nbr, "segments": segments.ends, "segment_markers": segments.marker,
    }  # fmt: skip
    return device, slice(None), {name: column.array for name, column in columns.items()}


def _arrays_in_order(g: Graph, source: Mesh) -> tuple[Device, Any, dict[str, Any]]:
    """The arrays of a mesh in the order of `rows_of_mesh`, as of `_arrays_by_row`."""
    rows = rows_of_mesh(g)
    device, xp = rows.device, rows.device.xp
    with device.active():
        node, nbr, t, k = rows.node, rows.nbr, rows.side // 4, rows.side % 4
        segments = xp.stack([node[t, (k + 1) % 3], node[t, (k + 2) % 3]], axis=1)
        marker = device.asarray(g.segments.marker.array)
        on = device.asarray(g.points.on.array)[rows.point][len(source.points) :]
        added = xp.where(on >= 0, marker[xp.maximum(on, 0)], 0).astype(np.int32)
        segment_markers = marker[rows.segment]
        point_markers = xp.concatenate([device.asarray(source.point_markers), added])
        mark_hull(segments, segment_markers, point_markers, nbr[t, k] < 0, xp)
        return device, rows.triangle, {
            "points": device.asarray(g.points.xy.array)[rows.point],
            "triangles": xp.ascontiguousarray(node),
            "neighbors": xp.ascontiguousarray(nbr, np.int32),
            "segments": xp.ascontiguousarray(segments, np.int32),
            "segment_markers": segment_markers,
            "point_markers": point_markers,
        }  # fmt: skip


def table_of(device: Device, name: str, **arrays: Any) -> Table:
    """A table whose memory are contiguous arrays of numbers of a device."""
    columns: dict[str, Any] = {
        column: (a.dtype, a.shape[1]) if a.ndim > 1 else a.dtype for column, a in arrays.items()
    }
    table = Table(name, device, **columns)
    table.adopt(len(next(iter(arrays.values()))), arrays)
    return table


def most_sides(g: Graph) -> int:
    """The capacity of a list for `list_segments`."""
    return len(g.segments) + len(g.triangles) // 256


def mark_hull(segments: Any, segment_markers: Any, point_markers: Any, hull: Any, xp: Any) -> None:
    """Turn marker 0 into 1 on hull segments and at their ends, as Triangle's ``-r`` does."""
    segment_markers[hull & (segment_markers == 0)] = 1
    ends = segments[hull].ravel()
    point_markers[ends] = xp.where(point_markers[ends] == 0, 1, point_markers[ends])


# --- rows and sides ------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The arrays of a mesh with m triangles and s segments, read from its tables.

    Points and triangles are in the order of rows, or, if points have a deterministic id, in the
    order that the ids define.  Segments are in the order of half-edges.

    Attributes
    ----------
    device : Device
        Of the arrays: that of the tables, or the CPU if there are few triangles.
    point, triangle : array or slice
        The row of each point and of each triangle.
    node, nbr : array of int32, shape (m, 3)
        Corners, and neighbours behind the opposite sides, or -1.
    side : array of int32, shape (s,)
        Half-edge ``4 * triangle + side`` of each segment.
    segment : array of int32, shape (s,)
        Its row in the table of segments.
    """

    device: Device
    point: Any
    triangle: Any
    node: Any
    nbr: Any
    side: Any
    segment: Any


class Sides(NamedTuple):
    """Columns ``node`` and ``nbr``, see `Rows`; the half-edges of segments and their rows."""

    node: Any
    nbr: Any
    side: Any
    segment: Any


def sides_of(g: Graph, by_id: bool = False) -> Sides:
    """Read the triangles of a graph, and its segments in any order.

    Points and triangles have the numbers of their rows, or their deterministic ids.
    """
    m = len(g.triangles)
    node, nbr = (g.device.empty((m, 3), np.int32) for _ in range(2))
    corners = table_of(g.device, "corners", node=node, nbr=nbr)
    sides = Collection(i32, device=g.device, capacity=most_sides(g), segment=i32)
    read_triangles(g, corners, sides, by_id)
    return Sides(node, nbr, sides.items, sides.segment.array)


def rows_of_mesh(g: Graph) -> Rows:
    """Read the triangles of a graph; deterministic ids become the numbers of the mesh."""
    by_id = "stable_id" in g.points.columns
    device = g.device.array_device(3 * len(g.triangles), 2 * len(g.points))
    xp, point, triangle = device.xp, slice(None), slice(None)
    with device.active():
        if by_id:
            point, triangle = (_renumber(table, device) for table in (g.points, g.triangles))
        node, nbr, side, segment = map(device.asarray, sides_of(g, by_id))
        order = xp.argsort(side)
        return Rows(device, point, triangle, node, nbr, side[order], segment[order])


def _renumber(table: Table, device: Device) -> Any:
    """Replace ids by consecutive ones in the same order; return the rows in this order."""
    rows = _counting_order(device.xp, device.asarray(table.stable_id.array))
    ids = device.xp.empty(len(rows), table.stable_id.dtype)
    ids[rows] = device.xp.arange(len(rows), dtype=ids.dtype)
    table.stable_id[:] = ids
    return rows


def _counting_order(xp: Any, ids: Any) -> Any:
    """The order of distinct numbers from 0, not many of which are missing."""
    place = xp.full(int(ids.max()) + 1, -1)
    place[ids] = xp.arange(len(ids))
    return place[place >= 0]
