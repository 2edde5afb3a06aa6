"""Meshes as tables of points, segments and triangles, and back."""

# mypy: disable-error-code="valid-type,no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.triangulation.half_edges import BORDER, HULL, behind, half_edge
from morph.algorithms.triangulation.kept import KeptObjects, kept_by
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.mesh import Mesh
from morph.operators.hashing import mix64
from morph.operators.sort import argsort
from morph.prelude import atomic_exch, bool_, f64, i32, i64, static, u64, vector
from morph.runtime.arrays import all_true, any_true
from morph.runtime.device import Device
from morph.runtime.device import device as find_device

# triangles: the codes of their sides fit in 31 bits, and none is that of BORDER
MOST = ~BORDER >> 2
MOST_REFINED = 1 << 13  # points of a mesh whose tables are kept: some 4 MB
SPARE = 1 << 10  # capacity for more points, of which small meshes get many
BLOCK = 1 << 14  # rows whose keys and numbers are computed at once


@kernel
def link_opposites(t, g):
    """Write the opposite half-edge of each side."""
    opposite = vector(i32(HULL), i32(HULL), i32(HULL))
    for k in range(3):
        n = g.inputs[t.id].nbr[k]
        if n is not None:
            back = g.inputs[n.id].nbr
            side = 0 if back[0].id == t.id else (1 if back[1].id == t.id else 2)
            opposite[k] = half_edge(n, side)
    t.opposite = opposite


@func
def bucket_of(buckets, a, b, mask):
    """The bucket of the pairs of two points, in any order."""
    low, high = min(a, b), max(a, b)
    return buckets[i64(mix64(u64(low) << 32 | u64(high)) & mask)]


@kernel
def enter_pair(e, buckets, mask):
    """Put a pair of points at the front of its bucket's list, unless the tables lack one."""
    if e.a >= 0 and e.b >= 0:
        e.next = atomic_exch(bucket_of(buckets, e.a, e.b, mask).first, i32(e.id))


@func
def pair_between(pairs, buckets, a, b, mask):
    """The first pair of the points a and b, in any order, or -1."""
    found = i32(-1)
    k = bucket_of(buckets, a, b, mask).first
    while k >= 0:
        e = pairs[k]
        if (e.a == a and e.b == b) or (e.a == b and e.b == a):
            found = k if found < 0 else min(found, k)
        k = e.next
    return found


@kernel
def mark_segments(t, g, pairs, buckets, mask):
    """Mark the sides of t that are segments."""
    for k in range(3):
        a, b = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
        e = pair_between(pairs, buckets, i32(a), i32(b), mask)
        if e >= 0:
            t.segment[k] = g.segments[pairs[e].segment]
            pairs[e].found = True  # race: the same value
            if t.opposite[k] >= 0:
                t.opposite[k] = ~t.opposite[k]


@kernel
def find_missing(e, pairs, buckets, mask, missing):
    """Whether a segment is no edge of any triangle; of equal ones, the first was marked."""
    if e.a < 0 or e.b < 0:
        missing.set()
    elif not pairs[pair_between(pairs, buckets, e.a, e.b, mask)].found:
        missing.set()


@program
def link(g, pairs, buckets, mask, missing):
    """Link the sides of all triangles, and mark those that are segments."""
    foreach(pairs, enter_pair, buckets, mask)
    foreach(g.triangles, link_opposites, g)
    foreach(g.triangles, mark_segments, g, pairs, buckets, mask)
    foreach(pairs, find_missing, pairs, buckets, mask, missing)


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


def initial_capacity(device: Device, most: int) -> int:
    """Return the first capacity of a list that gets at most ``most`` items, often far fewer.

    Growth would end the launch.  On a CPU untouched memory is not backed by pages; on a GPU it is.
    """
    return most if device.on_host else 0


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


def empty_tables(device: str | Device, n: int, m: int, small: bool = False) -> Graph:
    """Make the tables of a mesh of ``n`` points and ``m`` triangles, with capacity to refine it.

    ``small``: they may be those of an earlier call, which has released them by `tables_name`; then
    segments, too, have capacity.
    """
    where = find_device(device)
    kept = kept_by(tables_name(where)) if small else None
    if kept is None:
        kept = KeptObjects(_made_tables(where), small)
    g: Graph = kept.graph
    for table in (g.points, g.segments, g.triangles, g.inputs):
        table.truncate(0)
    kept.resize(g.points, 3 * n + SPARE)
    kept.resize(g.triangles, max(m, min(3 * m + 2 * SPARE, MOST)))
    if small:
        kept.resize(g.segments, n + SPARE)
    return g


def tables_name(device: Device) -> str:
    """The name by which the tables of a small mesh are kept."""
    return f"{device.name} mesh"


def _made_tables(device: Device) -> Graph:
    g = Graph(device)
    g.points.add("xy", vec(f64, 2))
    g.add_table("segments", a=Ref("points"), b=Ref("points"), marker=i32)
    g.points.add("on", Ref("segments"))
    g.points.pack("xy", "on")
    g.add_table(
        "triangles", node=Ref("points")[3], opposite=(i32, 3), segment=Ref("segments")[3],
        pack=("node", "opposite"),
    )  # fmt: skip
    g.triangles.limit_rows(MOST)
    g.add_table("inputs", nbr=Ref("inputs")[3])
    return g


def to_tables(
    mesh: Mesh,
    device: str | Device,
    scale: float = 1.0,
    limits: Any = None,
    sizes: Any = None,
    keep: bool = False,
) -> Graph:
    """Convert a mesh to tables: points, segments, triangles with half-edges and segments.

    ``opposite`` of a triangle is described in `half_edges`; ``segment[k]`` is the segment at side
    k, or None.

    Parameters
    ----------
    mesh : Mesh
    device : str or Device
    scale : float
        The factor of coordinates and sizes, and squared of areas: a power of two.
    limits : (m,) float64 array, optional
        Largest area in each input triangle: ``inputs.limit``.
    sizes : (n,) float64 array, optional
        Edge length wanted at each point: ``points.wanted``.
    keep : bool
        Whether the tables of a small mesh are kept: the caller adds no columns, and releases them.

    Raises
    ------
    MeshError
        If a segment is no edge of the mesh.
    """
    n, m = len(mesh.points), len(mesh.triangles)
    plain = limits is None and sizes is None and not carries(mesh)
    g = empty_tables(device, n, m, keep and plain and n <= MOST_REFINED)
    work = g.device.array_device(3 * m)
    with work.active():
        g.points.extend(xy=work.asarray(mesh.points) * scale if scale != 1.0 else mesh.points)
        g.triangles.extend(node=mesh.triangles)
        g.inputs.extend(nbr=mesh.neighbors)
        if limits is not None:
            g.inputs.add("limit", f64)
            g.inputs.add("corner", Ref("points")[3])
            g.inputs.limit, g.inputs.corner = limits * scale * scale, mesh.triangles
        if limits is not None or carries(mesh) or sizes is not None:
            g.triangles.add("origin", Ref("inputs"))
            g.triangles.origin = work.xp.arange(m, dtype=np.int32)
        if sizes is not None:
            g.points.add("wanted", f64)
            g.points.wanted[:] = sizes * scale
        segments = work.asarray(mesh.segments)
        a, b = segments[:, 0], segments[:, 1]
        g.segments.extend(a=a, b=b, marker=mesh.segment_markers)
        row = work.xp.arange(len(a), dtype=np.int32)
    if link_sides(g, pairs_of(g, segments, row)):
        mesh.check()  # says which
        raise ValueError("a segment is no edge of the mesh")
    return g


def pairs_of(g: Graph, ends: Any, row: Any) -> Table:
    """Make a table of pairs of points, the edges that belong to segments, and these segments.

    Parameters
    ----------
    g : Graph
    ends : (k, 2) int array
    row : (k,) int32 array
    """
    columns: dict[str, Any] = {"a": i32, "b": i32, "segment": i32, "next": i32, "found": bool_}
    pairs = KeptObjects.of(g).table("pairs", **columns)
    pairs.extend(a=ends[:, 0], b=ends[:, 1], segment=row)
    return pairs


def link_sides(g: Graph, pairs: Table) -> Flag:
    """Write columns ``opposite`` and ``segment`` of all triangles.

    Parameters
    ----------
    g : Graph
        Tables with points, triangles, ``inputs.nbr`` and segments.
    pairs : Table
        See `pairs_of`; in the numbers of the tables, -1 for points that they lack.

    Returns
    -------
    Flag
        Whether a pair is no edge.
    """
    size = max(64, 1 << (2 * len(pairs)).bit_length())
    kept = KeptObjects.of(g)
    buckets, missing = kept.table("buckets", first=i32), kept.flag("missing")
    buckets.extend(size, first=-1)
    link(g, pairs, buckets, u64(size - 1), missing)
    return missing


def carries(mesh: Mesh) -> bool:
    """Whether new points or triangles have attributes."""
    return bool(mesh.point_attributes.shape[1] or mesh.triangle_attributes.shape[1])


def segment_of_sides(mesh: Mesh) -> Any:
    """For each side of each triangle its segment, or -1; shape (m, 3), int32."""
    ends = mesh.triangles[:, [[1, 2], [2, 0], [0, 1]]].astype(np.int64)
    n = len(mesh.points)
    sides = ends.min(axis=2) * n + ends.max(axis=2)
    keys = np.sort(mesh.segments, axis=1).astype(np.int64) @ [n, 1]
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, sides, sorter=order), max(len(keys) - 1, 0))
    found = keys[order][at] == sides
    return np.where(found, order[at], -1).astype(np.int32)


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


def _blocks(xp: Any, n: int) -> Iterator[slice]:
    """Slices of n rows: NumPy's temporary arrays stay in a cache, CuPy's operations are few."""
    size = BLOCK if xp is np else n
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


class SortedTriangles(NamedTuple):
    """The result of `sorted_triangles`: m triangles in their new order.

    Attributes
    ----------
    rows : (m,) int array
        The former row of each triangle.
    node, nbr : (m, 3) int array, (m, 3) int32 array
        Corners, and neighbours behind the opposite sides, or -1.
    number : (m + 1,) int32 array
        The new row of each former row; the last entry, that of row -1, is -1.
    first : (m,) int8 array
        The corner of each former row that comes first now.
    """

    rows: Any
    node: Any
    nbr: Any
    number: Any
    first: Any


def sorted_triangles(xp: Any, node: Any, nbr: Any) -> SortedTriangles:
    """Rotate triangles so that the least point comes first, and sort them.

    Parameters
    ----------
    xp : module
        NumPy or CuPy.
    node, nbr : (m, 3) int arrays
        Corners, and neighbours behind the opposite sides, or -1.

    Returns
    -------
    SortedTriangles
    """
    m, bits = len(node), int(node.max()).bit_length()
    turns = xp.asarray([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    first, key = xp.empty(m, np.int8), xp.empty(m, np.int64)
    for block in _blocks(xp, m):
        a, b, c = node[block].T
        least = xp.where((a < b) & (a < c), 0, xp.where(b < c, 1, 2))
        second = xp.where(least == 0, b, xp.where(least == 1, c, a))
        first[block] = least
        key[block] = xp.minimum(xp.minimum(a, b), c).astype(np.int64) << bits | second
    # no two triangles share a directed edge: the sort of one key is many times as fast as lexsort
    rows = argsort(key)
    number = xp.full(m + 1, -1, np.int32)  # no neighbour, -1, stays so
    number[rows] = xp.arange(m, dtype=np.int32)
    old_node, old_nbr = (xp.ascontiguousarray(x).ravel() for x in (node, nbr))
    node, nbr = xp.empty((m, 3), node.dtype), xp.empty((m, 3), np.int32)
    for block in _blocks(xp, m):
        row = rows[block]
        # NumPy copies single numbers many times as fast as short rows
        at = 3 * row[:, None] + xp.take(turns, xp.take(first, row), axis=0)
        node[block] = xp.take(old_node, at)
        nbr[block] = xp.take(number, xp.take(old_nbr, at))
    return SortedTriangles(rows, node, nbr, number, first)


def interpolated(source: Mesh, old: Any, xy: Any, node: Any, origin: Any, known: int) -> Any:
    """Values at new points: linear in the input triangle that contains them.

    It is found by a walk from an input triangle near it (Devillers, Pion, Teillaud 2002).

    Parameters
    ----------
    source : Mesh
        The input.
    old : (n, k) float64 array
        Values at its points.
    xy : (p, 2) float64 array
        All points, new ones last.
    node, origin : (m, 3), (m,) int32 arrays
        Triangles over all points, and the input triangle each came from.
    known : int
        The first new point.
    """
    near = np.zeros(len(xy), np.int64)
    near[node.ravel()] = np.repeat(origin, 3)
    at, p = near[known:], xy[known:]
    weight = np.empty((len(p), 3))
    for _ in range(len(source.triangles)):
        corner = source.points[source.triangles[at]] - p[:, None, :]
        u, v = np.roll(corner, -1, axis=1), np.roll(corner, -2, axis=1)
        weight = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
        worst = weight.argmin(axis=1)
        behind = source.neighbors[at, worst]
        on = (weight.min(axis=1) < 0) & (behind >= 0)
        if not any_true(on):
            break
        at = np.where(on, behind, at)
    weight = np.maximum(weight, 0)  # rounding puts points of the hull a little outside
    weight /= weight.sum(axis=1, keepdims=True)
    return (weight[..., None] * old[source.triangles[at]]).sum(axis=1)
