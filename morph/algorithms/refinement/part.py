"""A part of a mesh as tables of its own, which one device refines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.algorithms.refinement.host_mesh import Arrays
from morph.algorithms.refinement.kernels import WAITING
from morph.algorithms.refinement.parameters import parameters_of
from morph.algorithms.refinement.rounds import refine_tables, refuse_defects
from morph.algorithms.triangulation.half_edges import BORDER, HULL, behind
from morph.algorithms.triangulation.reading import has_segment, most_sides, neighbour, table_of
from morph.algorithms.triangulation.tables import empty_tables, link_sides, pairs_of
from morph.data.collection import Collection
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_max, f64, i8, i32, i64, vector
from morph.runtime.device import Device

if TYPE_CHECKING:
    from morph.algorithms.refinement.parts import PartitionedRefinement


class Part:
    """A part of the mesh as tables of its own.

    Parameters
    ----------
    run : PartitionedRefinement
    device : Device
    triangles : dict of str to array
        ``row``, its triangles; ``node`` and ``nbr``, in the numbers of the mesh; ``origin``.
    columns : callable
        ``columns(points)`` returns the columns of some points of the mesh, see `HostMesh`.

    Attributes
    ----------
    tables : Graph
        Triangles and points of the mesh come first, in the order of ``row`` and ``point``.
    row, point : (m,) and (n,) int arrays
        The mesh's numbers of the part's triangles and points.
    border : Collection
        The half-edge of each side at the border, the previous row of its triangle, and the triangle
        of the mesh behind (``old``, ``beyond``); `result` writes row and segment.
    rounds : int
        Rounds of refinement so far.
    """

    def __init__(
        self, run: PartitionedRefinement, device: Device, triangles: Arrays,
        columns: Callable[[Any], Arrays],
    ) -> None:  # fmt: skip
        self.device, self.rounds, host, xp = device, 0, run.host, device.xp
        self.row = triangles["row"]
        segments, markers, ends, segment = map(
            device.asarray, (run.mesh.segments, run.mesh.segment_markers, *host.edges())
        )
        with device.active():
            marks = table_of(
                device, "marks",
                used=device.zeros(host.n, np.bool_), number=device.full(host.n, -1, np.int32),
            )  # fmt: skip
            rows = table_of(device, "rows", local=device.full(host.m, -1, np.int32))
            corners = table_of(
                device, "corners", place=self.row, node=triangles["node"], nbr=triangles["nbr"]
            )
            foreach(corners, mark_corners, marks, rows)
            used = marks.used.array
            if run.limits is not None:  # centres of triangles are located in the input
                used[: len(run.mesh.points)] = True
            self.point, known = _with_ends(xp, used, segments, segment, ends, columns)
            g = self.tables = empty_tables(device, len(self.point), len(self.row))
            g.points.extend(xy=known["xy"] * run.scale)
            g.segments.extend(marker=markers)
            if "on" in known:
                g.points.on[:] = known["on"]
            if "wanted" in known:
                g.points.add("wanted", f64)
                g.points.wanted[:] = known["wanted"]
            g.triangles.extend(len(self.row))
            g.inputs.extend(len(self.row))
            some = len(self.row) // 8 + 64
            self.border = Collection(
                i32, device=device, capacity=some, old=i32, beyond=i32, place=i32, segment=i32
            )
            pairs = pairs_of(g, ends, segment)
            listed = table_of(device, "listed", point=self.point)
            enter_part(g, corners, listed, table_of(device, "segments", ends=segments), pairs,
                       marks, rows, self.border)  # fmt: skip
            link_sides(g, pairs)
            foreach(self.border, set_border, g)
            g.triangles.add("reason", i8, fill=WAITING)
            if "origin" in triangles:
                self._add_inputs(run, marks.number.array)
                g.triangles.add("origin", Ref("inputs"))
                g.triangles.origin[:] = triangles["origin"]

    def _add_inputs(self, run: PartitionedRefinement, number: Any) -> None:
        """Make the table of input triangles, to which those of the part refer."""
        g, mesh = self.tables, run.mesh
        g.inputs.truncate(0)
        if run.limits is None:
            g.inputs.extend(len(mesh.triangles))
            return
        g.inputs.add("limit", f64)
        g.inputs.add("corner", Ref("points")[3])
        g.inputs.extend(
            nbr=mesh.neighbors,
            limit=run.limits * run.scale * run.scale,
            corner=number[self.device.asarray(mesh.triangles)],
        )

    @property
    def added(self) -> int:
        """The number of new points."""
        return len(self.tables.points) - len(self.point)

    def refine(self, run: PartitionedRefinement, limit: int, few: int) -> None:
        """Refine until at most ``few`` triangles are left, or ``limit`` points were added."""
        g = self.tables
        refuse_defects(g, run.mesh)
        asked = replace(run.asked, max_points=limit)
        params = parameters_of(run.mesh, asked, run.scale, self.device, run.box)[0]
        if asked.deterministic:
            params.next_id = len(g.points)
        measure = run.measure
        self.rounds = refine_tables(g, params, None, lambda n: measure(g, run.scale, n), few)[0]

    def result(self, scale: float, first: int, row: Any) -> Arrays:
        """Return the part in the numbers of the mesh.

        Parameters
        ----------
        scale : float
            By which coordinates of the tables are divided.
        first : int
            The number of the first new point.
        row : (m,) int32 array
            The number of each triangle.

        Returns
        -------
        dict of str to array or dict
            ``points`` and ``triangles``, see `HostMesh`, of new points and of all triangles.  On
            the host: ``side``, ``ends``, ``segment``, ``failed`` and ``reason``; ``old``,
            ``border``, ``border_side``, ``border_segment``, ``beyond``: each side at the border, by
            its triangle's previous and present row, its segment or -1, and the triangle behind.
        """
        g, device, m = self.tables, self.device, len(self.tables.triangles)
        with device.active():
            new, number = self._numbers(first)
            points: Arrays = {
                name: device.empty((len(new), *shape), dtype)
                for name, shape, dtype in (
                    ("xy", (2,), np.float64), ("on", (), np.int32), ("marker", (), np.int32),
                    ("wanted", (), np.float64),
                )
                if name == "marker" or name in g.points.columns
            }  # fmt: skip
            triangles = {name: device.empty((m, 3), np.int32) for name in ("node", "nbr")}
            if "origin" in g.triangles.columns:
                triangles["origin"] = device.empty(m, np.int32)
            sides = Collection(
                i64, device=device, capacity=most_sides(g), segment=i32, ends=vec(i32, 2)
            )
            failed = Collection(i32, device=device, capacity=m // 256 + 64, reason=i8)
            read_part(
                g, table_of(device, "numbers", number=number), table_of(device, "rows", place=row),
                table_of(device, "corners", **triangles), sides, failed, self.border,
                table_of(device, "fresh", place=new, **points),
            )  # fmt: skip
            if scale != 1.0:
                points["xy"] /= scale
            border = self.border
            lists = {
                "side": sides.items, "ends": sides.ends.array, "segment": sides.segment.array,
                "failed": failed.items, "reason": failed.reason.array, "old": border.old.array,
                "border": border.place.array, "border_side": border.items,
                "border_segment": border.segment.array, "beyond": border.beyond.array,
            }  # fmt: skip
            found = {name: device.to_host(a) for name, a in lists.items()}
        found["border_side"] = found["border_side"] & 3
        for name in ("failed", "border", "beyond"):
            found[name] = found[name].astype(np.int64)
        return found | {"points": points, "triangles": triangles}

    def _numbers(self, first: int) -> tuple[Any, Any]:
        """Return the rows of the new points, in order, and the mesh's number of each point."""
        g, xp, n = self.tables, self.device.xp, len(self.point)
        new = xp.arange(n, len(g.points))
        number = self.device.empty(len(g.points), np.int32)
        number[:n] = self.point
        if "stable_id" in g.points.columns:
            new = new[xp.argsort(g.points.stable_id.array[n:])]
            number[new] = xp.arange(first, first + len(new), dtype=np.int32)
        else:
            number[n:] = xp.arange(first, first + len(new), dtype=np.int32)
        return new, number

    def strip(self, row: Any, triangles: Arrays, rings: int) -> Arrays:
        """Return the part's triangles of the strip, on the host.

        These are the triangles at the border, those still to refine, and rings around both.

        Parameters
        ----------
        row : (m,) int32 array
            The number of each triangle in the mesh.
        triangles : dict of str to array
            The columns of all triangles of the part, see `result`.
        rings : int
            The number of rings; a ring has the triangles across the sides of those before.

        Returns
        -------
        dict of str to array
            ``row``, ascending, and the columns of ``triangles``.
        """
        g, device = self.tables, self.device
        g.triangles.add("near", i32)
        some = len(g.triangles) // 16
        found, following = (Collection(g.triangles, capacity=some) for _ in range(2))
        find_strip(g, found, following, rings)
        with device.active():
            near, xp = device.xp.flatnonzero(g.triangles.near.array), device.xp
            arrays = {
                name: xp.take(a, near, axis=0) for name, a in ({"row": row} | triangles).items()
            }
            return {name: device.to_host(a) for name, a in arrays.items()}

    def free(self) -> None:
        """Free the memory of the tables now, not at the next garbage collection."""
        self.tables.dissolve()
        del self.tables


def _with_ends(
    xp: Any, used: Any, segments: Any, segment: Any, ends: Any, columns: Callable[[Any], Arrays]
) -> tuple[Any, Arrays]:
    """Return the points of a part, and their columns.

    Parameters
    ----------
    xp : module
    used : (n,) bool array
        Mask of the points of the part's triangles.
    segments : (s, 2) int array
        The points of the input's segments.
    segment, ends : (k,) and (k, 2) int arrays
        The segments' edges, see `HostMesh.edges`.
    columns : callable
        See `Part`.

    Returns
    -------
    point : (p,) int array
        The points in ``used``, then further ends of the segments to which these points belong.
    known : dict of str to array
        Their columns.
    """
    point = xp.flatnonzero(used)
    known = columns(point)
    if "on" in known:
        on, segment = known["on"], segment[used[ends[:, 0]] & used[ends[:, 1]]]
        needed = xp.zeros(len(used), np.bool_)
        needed[segments[xp.concatenate([segment, on[on >= 0]])]] = True
        more = xp.flatnonzero(needed & ~used)
        if len(more):
            others = columns(more)
            known = {name: xp.concatenate([a, others[name]]) for name, a in known.items()}
            point = xp.concatenate([point, more])
    return point, known


@kernel
def mark_corners(t, marks, rows):
    """Mark the points of a triangle of the part, and the triangle."""
    for k in range(3):
        marks[t.node[k]].used = True  # race: the same value
    rows[t.place].local = i32(t.id)


@kernel
def number_point(p, marks):
    """Write the number of a point in the part."""
    marks[p.point].number = i32(p.id)


@kernel
def number_pair(e, marks):
    """Replace the ends of an edge by their numbers in the part."""
    e.a, e.b = marks[e.a].number, marks[e.b].number


@kernel
def enter_segment(s, g, marks):
    """Write the ends of a segment that are in the part."""
    a, b = marks[s.ends[0]].number, marks[s.ends[1]].number
    if a >= 0:
        g.segments[s.id].a = g.points[a]
    if b >= 0:
        g.segments[s.id].b = g.points[b]


@kernel
def enter_triangle(t, g, marks, rows):
    """Write the corners of a triangle, and the triangles of the part behind its sides."""
    for k in range(3):
        g.triangles[t.id].node[k] = g.points[marks[t.node[k]].number]
        if t.nbr[k] >= 0:
            n = rows[t.nbr[k]].local
            if n >= 0:
                g.inputs[t.id].nbr[k] = g.inputs[n]


@kernel
def list_border(t, rows, border):
    """Enqueue the sides of a triangle towards other parts."""
    for k in range(3):
        n = t.nbr[k]
        if n >= 0:
            if rows[n].local < 0:
                side = i32(t.id) * 4 + i32(k)
                border.add(side, old=t.place, beyond=n, place=t.place, segment=i32(-1))


@program
def enter_part(g, corners, listed, segments, pairs, marks, rows, border):
    """Fill the tables of a part with a mesh's triangles, their points and segments."""
    foreach(listed, number_point, marks)
    foreach(pairs, number_pair, marks)
    foreach(segments, enter_segment, g, marks)
    foreach(corners, enter_triangle, g, marks, rows)
    foreach(corners, list_border, rows, border)


@kernel
def set_border(e, g):
    """Mark a side at the border."""
    g.triangles[e.item >> 2].opposite[e.item & 3] = BORDER


@func
def row_behind(opposite, rows):
    """Return the row of the triangle behind a side, -1 if there is none in the part."""
    return i32(-1) if opposite == HULL or opposite == BORDER else rows[behind(opposite) >> 2].place


@kernel
def read_corners(t, numbers, rows, corners):
    """Write the corners of t, the triangles behind its sides, and its input triangle."""
    a, b, c = t.node
    opposite, to = t.opposite, corners[t.id]
    to.node = vector(numbers[a.id].number, numbers[b.id].number, numbers[c.id].number)
    to.nbr = vector(
        row_behind(opposite[0], rows), row_behind(opposite[1], rows), row_behind(opposite[2], rows)
    )
    if hasattr(t, "origin"):
        to.origin = i32(t.origin)


@kernel
def read_sides(t, numbers, rows, sides):
    """Enqueue the sides of t that are segments, see `list_segments`."""
    opposite = t.opposite
    for k in range(3):
        if opposite[k] < 0 and neighbour(opposite[k]) < i32(t):
            a, b = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
            sides.add(
                i64(rows[t.id].place) * 4 + k, segment=i32(t.segment[k]),
                ends=vector(numbers[a.id].number, numbers[b.id].number),
            )  # fmt: skip


@kernel
def read_failed(t, rows, failed):
    """Enqueue t if it misses a limit."""
    if t.reason >= 0:
        failed.add(rows[t.id].place, reason=t.reason)


@kernel
def read_border(e, g, rows):
    """Write the present row of a triangle at the border, and the segment there or -1."""
    t = e.item >> 2
    e.place = rows[t].place
    e.segment = i32(g.triangles[t].segment[e.item & 3])


@kernel
def read_fresh(p, g):
    """Write the columns of a new point."""
    q = g.points[p.place]
    p.xy = q.xy
    p.on = i32(q.on)
    p.marker = i32(0) if q.on is None else q.on.marker
    if hasattr(q, "wanted"):
        p.wanted = q.wanted


@program
def read_part(g, numbers, rows, corners, sides, failed, border, fresh):
    """Write a part in the numbers of the mesh, see `Part.result`."""
    foreach(fresh, read_fresh, g)
    foreach(border, read_border, g, rows)
    foreach(g.triangles, read_corners, numbers, rows, corners)
    foreach(g.triangles, read_sides, numbers, rows, sides, where=has_segment)
    foreach(g.triangles, read_failed, rows, failed)


@kernel
def begin_strip(t, found):
    """Collect a triangle that can be refined or is at the border."""
    o = t.opposite
    if t.reason == WAITING or o[0] == BORDER or o[1] == BORDER or o[2] == BORDER:
        t.near = 1
        found.add(t)


@kernel
def widen_strip(t, g, following):
    """Collect the triangles beside t that have not been collected."""
    opposite = t.opposite
    for k in range(3):
        if opposite[k] != HULL and opposite[k] != BORDER:
            n = g.triangles[behind(opposite[k]) >> 2]
            if atomic_max(n.near, 1) == 0:
                following.add(n)


@program
def find_strip(g, found, following, rings):
    """Set column ``near`` of the triangles of a part's strip to 1."""
    foreach(g.triangles, begin_strip, found)
    ring = 0
    while ring < rings:
        foreach(found, widen_strip, g, following)
        found, following = following, found
        following.clear()
        ring += 1
