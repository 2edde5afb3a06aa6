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
from morph.algorithms.triangulation.tables import empty_tables, link_sides, sides_of
from morph.data.collection import Collection
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_max, f64, i8, i32
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
        Gives the columns of points, see `HostMesh`.

    Attributes
    ----------
    tables : Graph
        Triangles and points of the mesh come first, in the order of ``row`` and ``point``.
    row, point : arrays
        The mesh's numbers of the part's triangles and points.
    t, k, beyond : arrays
        Each side at the border, and the triangle of the mesh behind.
    rounds : int
    """

    def __init__(
        self, run: PartitionedRefinement, device: Device, triangles: Arrays,
        columns: Callable[[Any], Arrays],
    ) -> None:  # fmt: skip
        self.device, self.rounds, host, xp = device, 0, run.host, device.xp
        self.row, nbr = triangles["row"], triangles["nbr"]
        segments, markers, ends, segment = map(
            device.asarray, (run.mesh.segments, run.mesh.segment_markers, *host.edges())
        )
        with device.active():
            used = device.zeros(host.n, np.bool_)
            used[triangles["node"]] = True
            if run.limits is not None:  # centres of triangles are located in the input
                used[: len(run.mesh.points)] = True
            inside = xp.flatnonzero(used[ends[:, 0]] & used[ends[:, 1]])
            self.point, known = _with_ends(xp, used, segments, segment[inside], columns)
            number = device.full(host.n, -1, np.int32)
            number[self.point] = xp.arange(len(self.point), dtype=np.int32)
            local = device.full(host.m + 1, -1, np.int32)  # no neighbour, -1, stays so
            local[self.row] = xp.arange(len(self.row), dtype=np.int32)
            inner = local[nbr]
            self.t, self.k = xp.nonzero((inner < 0) & (nbr >= 0))
            self.beyond = nbr[self.t, self.k]
            g = self.tables = empty_tables(device, len(self.point), len(self.row))
            g.points.extend(xy=known["xy"] * run.scale)
            g.segments.extend(a=number[segments[:, 0]], b=number[segments[:, 1]], marker=markers)
            if "on" in known:
                g.points.on[:] = known["on"]
            if "wanted" in known:
                g.points.add("wanted", f64)
                g.points.wanted[:] = known["wanted"]
            g.triangles.extend(node=number[triangles["node"]])
            g.inputs.add("nbr", Ref("inputs")[3])
            g.inputs.extend(nbr=inner)
            link_sides(g, number[ends[inside]], segment[inside], (self.t, self.k))
            g.triangles.add("reason", i8, fill=WAITING)
            if "origin" in triangles:
                self._add_inputs(run, number)
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
        """Give the part in the numbers of the mesh.

        Parameters
        ----------
        scale : float
            Of the coordinates.
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
        g, xp, n = self.tables, self.device.xp, len(self.point)
        node, nbr, side, side_segment = sides_of(g)
        with self.device.active():
            new = xp.arange(n, len(g.points))
            if "stable_id" in g.points.columns:
                new = new[xp.argsort(g.points.stable_id.array[n:])]
            number = xp.empty(len(g.points), np.int32)
            number[:n] = self.point
            number[new] = xp.arange(first, first + len(new), dtype=np.int32)
            points: Arrays = {name: xp.take(getattr(g.points, name).array, new, axis=0)
                      for name in ("xy", "on", "wanted") if name in g.points.columns}  # fmt: skip
            points["xy"] /= scale
            marker, on = g.segments.marker.array, points["on"]
            points["marker"] = xp.zeros(len(on), np.int32)
            if len(marker):
                points["marker"] = xp.where(on >= 0, marker[xp.maximum(on, 0)], 0).astype(np.int32)
            nbr[self.t, self.k] = -1
            rows = xp.concatenate([row, xp.full(1, -1, np.int32)])
            triangles = {"node": number[node], "nbr": rows[nbr]}
            if "origin" in g.triangles.columns:
                triangles["origin"] = g.triangles.origin.array.copy()
            segment, reason = g.triangles.segment.array, g.triangles.reason.array
            failed = xp.flatnonzero(reason >= 0)
            t, k = side // 4, side % 4
            ends = [triangles["node"][t, (k + step) % 3] for step in (1, 2)]
            lists = {
                "side": row[t].astype(np.int64) * 4 + k, "segment": side_segment,
                "ends": xp.stack(ends, axis=1),
                "failed": row[failed].astype(np.int64), "reason": reason[failed],
                "old": self.row[self.t], "border": row[self.t].astype(np.int64),
                "border_side": self.k, "border_segment": segment[self.t, self.k],
                "beyond": self.beyond.astype(np.int64),
            }  # fmt: skip
            found = {name: self.device.to_host(a) for name, a in lists.items()}
        return found | {"points": points, "triangles": triangles}

    def strip(self, row: Any, triangles: Arrays, rings: int) -> Arrays:
        """Give the triangles around the border and those to refine, on the host.

        Parameters
        ----------
        row : (m,) int32 array
            The number of each triangle.
        triangles : dict of str to array
            Of `result`.
        rings : int
            How many steps across sides around these triangles are given, too.

        Returns
        -------
        dict of str to array
            ``row`` and the columns of ``triangles``.
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
        """Free the memory of the tables now, not when Python's collector finds them."""
        self.tables.dissolve()
        del self.tables


def _with_ends(
    xp: Any, used: Any, segments: Any, segment: Any, columns: Callable[[Any], Arrays]
) -> tuple[Any, Arrays]:
    """Give the points in ``used`` and the ends of all their segments, and their columns."""
    point = xp.flatnonzero(used)
    known = columns(point)
    if "on" in known:
        on = known["on"]
        ends = xp.zeros(len(used), np.bool_)
        ends[segments[xp.concatenate([segment, on[on >= 0]])]] = True
        more = xp.flatnonzero(ends & ~used)
        if len(more):
            others = columns(more)
            known = {name: xp.concatenate([a, others[name]]) for name, a in known.items()}
            point = xp.concatenate([point, more])
    return point, known


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
