"""Refinement on several devices, each of which refines a part of the mesh at a time.

The mesh lies on the first device, as tables.  A round of parts divides triangles by ranges of the
Hilbert curve by their first corners; each device refines one range by `refine_tables`, as a mesh of
its own with all points and segments, in which sides towards other triangles are BORDER.  A cavity
that reaches a triangle at the border is given up, so these triangles stay as they are on both
sides.  Therefore all parts together remain a constrained Delaunay triangulation, and a part is
written back to the rows from which it was copied, with new rows behind all others.  The next round
takes the triangles that can still be refined with the triangles around them, and moves the cuts by
half a part; when these triangles, or the points that a round adds, are few, the first device
refines them, up to a number of points that makes them enough for all devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from morph.algorithms.refinement.kernels import REASONS, WAITING
from morph.algorithms.refinement.parameters import Request, parameters_of
from morph.algorithms.refinement.rounds import Progress, examine, refine_tables, worklist
from morph.algorithms.triangulation.half_edges import BORDER, HULL, behind
from morph.algorithms.triangulation.insertion_order import hilbert_order
from morph.algorithms.triangulation.tables import MOST
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel
from morph.mesh import Mesh
from morph.partition.group import DeviceGroup
from morph.prelude import i8, i32, i64, vector
from morph.runtime.device import Device

LEAST = 20_000  # triangles of a part, so that few of them are at its border
FEW = 100  # triangles of a part that wait for the next round although they could be refined
RINGS = 8  # of triangles around those to refine: most cavities do not reach further


def refine_parts(
    tables: Graph, mesh: Mesh, asked: Request, scale: float, devices: list[Device],
    measure: Callable[[Graph, int], int], progress: Progress | None,
) -> tuple[int, list[int]]:  # fmt: skip
    """Refine the tables of a mesh on several devices.

    Parameters
    ----------
    tables : Graph
        Of `to_tables`, on the first device or on the host.
    mesh : Mesh
        The same mesh.
    asked, scale
        See `parameters_of`.
    devices : list of Device
    measure : callable
        Sets the sizes wanted at new points of a part, see `refine_tables`.
    progress : callable, optional
        Called after each round of parts.

    Returns
    -------
    rounds : int
        Of all parts together.
    unmet : list of int
        What is left by reason, see `examine`.
    """
    tables.triangles.add("reason", i8, fill=WAITING)
    for table in (tables.points, tables.triangles):
        table.add("counterpart", i32)
    parts = Parts(tables, mesh, replace(asked, has_border=True), scale, measure)
    home, xp = tables.device, tables.device.xp
    with home.active():
        rows, rings, enough = xp.arange(len(tables.triangles)), RINGS, LEAST * len(devices)
    divided = len(rows) >= enough
    for turn in count(1):
        if divided:
            added = parts.refine(rows, devices, turn % 2)
        else:
            limit = max(enough, len(tables.points)) // 2
            added = parts.refine(rows, devices[:1], limit=limit)
        with home.active():
            waiting = xp.flatnonzero(tables.triangles.reason.array == WAITING)
        if progress is not None:
            progress(turn, len(waiting), len(tables.triangles))
        if not len(waiting) or parts.points_left == 0:
            break
        rings = rings if added or divided else 2 * rings
        rows = _around(tables, waiting, rings)
        divided = len(rows) >= enough and not (divided and added < LEAST)
    if asked.deterministic:  # the order of points is; that of triangles is derived from it
        tables.points.add("stable_id", i64)
        with home.active():
            tables.points.stable_id[:] = xp.arange(len(tables.points))
    if not len(waiting):
        with home.active():
            reasons = tables.triangles.reason.array
            unmet = home.to_host(reasons[reasons >= 0])
        return parts.rounds, np.bincount(unmet, minlength=len(REASONS)).tolist()
    tables.triangles.drop("reason")
    plain = replace(asked, deterministic=False, max_points=None)
    params = parameters_of(mesh, plain, scale, home)[0]
    return parts.rounds, examine(tables, worklist(tables, params, len(waiting)), params)


class Parts:
    """The parts of one refinement.

    Attributes
    ----------
    rounds : int
        Of all parts so far.
    points_left : int or None
        How many points may still be added.
    """

    def __init__(
        self, tables: Graph, mesh: Mesh, asked: Request, scale: float,
        measure: Callable[[Graph, int], int],
    ) -> None:  # fmt: skip
        self.tables, self.mesh, self.asked, self.scale = tables, mesh, asked, scale
        self.measure, self.rounds, self.points_left = measure, 0, asked.max_points

    def refine(
        self, rows: Any, devices: list[Device], shifted: int = 0, limit: int | None = None
    ) -> int:
        """Refine triangles in parts, one on each device; return the number of new points.

        Parameters
        ----------
        rows : (k,) int array
            The triangles.
        devices : list of Device
        shifted : int
            See `_divided`.
        limit : int, optional
            Most points to add in each part.
        """
        left, size, tables = self.points_left, len(devices), self.tables
        limits = [limit] * size
        if left is not None:
            shares = [left * (k + 1) // size - left * k // size for k in range(size)]
            limits = [s if limit is None else min(s, limit) for s in shares]
        if size == 1:
            with tables.device.active():
                order, ranges = tables.device.xp.arange(len(tables.points)), [rows]
        else:
            order = hilbert_order(tables.points, stable=self.asked.deterministic)
            ranges = _divided(tables, rows, order, size, shifted)
        here = [k for k in range(size) if len(ranges[k]) and limits[k] != 0]
        parts = {k: _moved(_part(tables, ranges[k], order), devices[k]) for k in here}
        rounds = [0] * size

        def run(k: int) -> None:
            if k in parts:
                rounds[k] = self._refined(parts[k], limits[k], FEW if size > 1 else 0)

        DeviceGroup(devices).each(run)
        for k in here:
            _join(tables, _moved(parts.pop(k), tables.device), order, len(ranges[k]))
        self.rounds += sum(rounds)
        added = len(tables.points) - len(order)
        if left is not None:
            self.points_left = left - added
        return added

    def _refined(self, part: Graph, limit: int | None, few: int) -> int:
        """Refine one part until at most ``few`` triangles are left; return the number of rounds."""
        asked = replace(self.asked, max_points=limit)
        params = parameters_of(self.mesh, asked, self.scale, part.device)[0]
        if asked.deterministic:
            params.next_id = len(part.points)
        return refine_tables(part, params, None, lambda n: self.measure(part, n), few)[0]


# --- which triangles -----------------------------------------------------------------------------


def _divided(tables: Graph, rows: Any, order: Any, size: int, shifted: int) -> list[Any]:
    """Divide triangles into ranges of the Hilbert curve.

    If ``shifted``, the cuts lie half a part further, and the first part has both ends of the curve.
    Which triangles a part gets does not depend on the order of rows.

    Parameters
    ----------
    order : (n,) int array
        The points along the curve.
    """
    xp = tables.device.xp
    with tables.device.active():
        position = xp.empty(len(order), np.int32)
        position[order] = xp.arange(len(order), dtype=np.int32)
        first = position[tables.triangles.node.array[rows, 0]]
        by_first = xp.argsort(first)
        rows, first = rows[by_first], first[by_first]
        at = [len(rows) * half // (2 * size) for half in range(2 - shifted, 2 * size, 2)]
        cuts = tables.device.to_host(xp.searchsorted(first, first[at])).tolist()
        parts = [rows[i:j] for i, j in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        if shifted:
            parts[0] = xp.concatenate([parts.pop(), parts[0]])
        return parts


def _around(tables: Graph, rows: Any, rings: int) -> Any:
    """Give triangles, and those that are at most ``rings`` steps across sides away; ascending."""
    xp, opposite = tables.device.xp, tables.triangles.opposite.array
    with tables.device.active():
        known = xp.zeros(len(tables.triangles), np.bool_)
        known[rows] = True
        for _ in range(rings):
            codes = opposite[rows].ravel()
            codes = codes[codes != HULL]
            rows = xp.where(codes < 0, ~codes, codes) >> 2
            rows = xp.unique(rows[~known[rows]])
            known[rows] = True
        return xp.flatnonzero(known)


# --- from the mesh to a part and back ------------------------------------------------------------


@func
def renumbered(opposite, triangles):
    """Give a half-edge code by the number of its triangle in the other tables; or BORDER."""
    if opposite == HULL or opposite == BORDER:
        return opposite
    edge = behind(opposite)
    number = triangles[edge >> 2].counterpart
    if number < 0:
        return i32(BORDER)
    code = number * 4 + (edge & 3)
    return code if opposite >= 0 else ~code


@kernel
def copy_triangle(t, g, mesh):
    """Copy a triangle of the mesh to its row of a part."""
    s = mesh.triangles[t.counterpart]
    node, opposite = s.node, s.opposite
    new = vector(i32(HULL), i32(HULL), i32(HULL))
    for k in range(3):
        t.node[k] = g.points[node[k].counterpart]
        new[k] = renumbered(opposite[k], mesh.triangles)
        if opposite[k] < 0:
            t.segment[k] = g.segments[i32(s.segment[k])]
    t.opposite = new
    if hasattr(t, "origin"):
        t.origin = g.inputs[i32(s.origin)]


@kernel
def write_back(t, g, mesh):
    """Write a triangle of a part to its row of the mesh; a side at the border stays as it is."""
    s = mesh.triangles[t.counterpart]
    node, opposite, new = t.node, t.opposite, s.opposite
    for k in range(3):
        s.node[k] = mesh.points[node[k].counterpart]
        if opposite[k] != BORDER:
            new[k] = renumbered(opposite[k], g.triangles)
            if opposite[k] < 0:
                s.segment[k] = mesh.segments[i32(t.segment[k])]
    s.opposite = new
    s.reason = t.reason
    if hasattr(t, "origin"):
        s.origin = mesh.inputs[i32(t.origin)]


def _part(tables: Graph, rows: Any, order: Any) -> Graph:
    """Copy triangles of the mesh, and all that they may refer to, to tables beside its own.

    Column ``counterpart`` has the row of each point or triangle in the other tables: in those of
    the mesh that of the part, -1 if a triangle has none.
    """
    g, xp = tables.like(), tables.device.xp
    points, triangles = tables.points, tables.triangles
    g.triangles.limit_rows(MOST)
    g.triangles.resize(min(3 * len(rows), MOST))
    g.points.resize(len(points) + len(rows))
    with tables.device.active():
        points.counterpart[order] = xp.arange(len(order), dtype=np.int32)
        triangles.counterpart = -1
        triangles.counterpart[rows] = xp.arange(len(rows), dtype=np.int32)
        columns = {
            name: xp.take(getattr(points, name).array, order, axis=0) for name in points.columns
        }
        for table in (tables.segments, tables.inputs):
            g.tables[table.name].extend(len(table))
        g.points.extend(**columns | {"counterpart": order})
        for table in (tables.segments, tables.inputs):
            for name, column in table.columns.items():
                a = getattr(table, name).array
                a = points.counterpart.array[a] if column.ref == "points" else a
                setattr(g.tables[table.name], name, a)
        g.triangles.extend(counterpart=rows)
    foreach(g.triangles, copy_triangle, g, tables)
    return g


def _moved(g: Graph, device: Device) -> Graph:
    """Give tables on a device: a copy, unless they are there."""
    if g.device == device:
        return g
    g.device.synchronize()
    moved = g.to(device)
    device.synchronize()
    _free(g)
    return moved


def _free(g: Graph) -> None:
    """Free the memory of tables now, not when Python's collector finds them."""
    for table in g.tables.values():
        table.truncate(0)
        table.resize(0)


def _join(tables: Graph, g: Graph, order: Any, rows: int) -> None:
    """Write back a part; points after those in ``order`` and triangles from ``rows`` on are new."""
    xp, n, m = tables.device.xp, len(tables.points), len(tables.triangles)
    with tables.device.active():
        new = xp.arange(len(order), len(g.points))
        if "stable_id" in g.points.columns:
            new = new[xp.argsort(g.points.stable_id.array[len(order) :])]
        columns = {name: getattr(g.points, name).array[new] for name in tables.points.columns}
        more = len(g.triangles) - rows
        g.points.counterpart[new] = xp.arange(n, n + len(new), dtype=np.int32)
        g.triangles.counterpart[rows:] = xp.arange(m, m + more, dtype=np.int32)
    tables.points.extend(**columns)
    tables.triangles.extend(more)
    foreach(g.triangles, write_back, g, tables)
    _free(g)
