"""Refinement on several devices, each of which refines a part of the mesh at a time.

The mesh lies on the host, as tables.  A round of parts divides triangles by ranges of the Hilbert
curve by their first corners; each device refines one range by `refine_tables`, as a mesh of its
own, in which sides towards other triangles are BORDER.  A cavity that reaches a triangle at the
border is given up, so these triangles stay as they are on both sides.  Therefore all parts together
remain a constrained Delaunay triangulation, and a part is written back to the rows from which it
was copied, with new rows behind all others.  Then the host finds the triangles that can still be
refined.  The next round takes them with the triangles around them, and moves the cuts by half a
part; when these triangles, or the points that a round adds, are few, one device refines them, up
to a number of points that makes them enough for all devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.refinement.kernels import REASONS, WAITING
from morph.algorithms.refinement.parameters import Request, parameters_of
from morph.algorithms.refinement.rounds import Progress, examine, refine_tables, worklist
from morph.algorithms.triangulation.half_edges import BORDER, HULL
from morph.algorithms.triangulation.insertion_order import hilbert_keys
from morph.algorithms.triangulation.tables import empty_tables
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.mesh import Mesh
from morph.partition.group import DeviceGroup
from morph.prelude import f64, i8, i64, u64
from morph.runtime.device import Device

LEAST = 20_000  # triangles of a part, so that few of them are at its border
RINGS = 8  # of triangles around those to refine: most cavities do not reach further
Ints = NDArray[np.int32]


class Part(NamedTuple):
    """A part on its device, and which rows of the mesh its first rows are."""

    g: Graph
    points: NDArray[np.int64]
    triangles: NDArray[np.int64]
    segments: NDArray[np.int64]


def refine_parts(
    tables: Graph, mesh: Mesh, asked: Request, scale: float, devices: list[Device],
    measure: Callable[[Graph, int], int], progress: Progress | None,
) -> tuple[int, list[int]]:  # fmt: skip
    """Refine the tables of a mesh, which lie on the host, on several devices.

    Parameters
    ----------
    tables : Graph
        Of `to_tables`, on the host.
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
    tables.triangles.reason = WAITING
    parts = Parts(tables, mesh, replace(asked, has_border=True), scale, measure)
    rows, rings, enough = np.arange(len(tables.triangles)), RINGS, LEAST * len(devices)
    divided = len(rows) >= enough
    for turn in count(1):
        where, limit = devices, None
        if not divided:
            where, limit = devices[:1], max(enough, len(tables.points)) // 2
        added = parts.refine(_divided(tables, rows, where, turn % 2), where, limit)
        waiting = np.flatnonzero(tables.triangles.reason.array == WAITING)
        if progress is not None:
            progress(turn, len(waiting), len(tables.triangles))
        if not len(waiting) or parts.points_left == 0:
            break
        rings = rings if added or divided else 2 * rings
        rows = _around(tables, waiting, rings)
        divided = len(rows) >= enough and not (divided and added < LEAST)
    if asked.deterministic:  # the order of points is; that of triangles is derived from it
        tables.points.add("stable_id", i64)
        tables.points.stable_id[:] = np.arange(len(tables.points))
    if not len(waiting):
        reasons = tables.triangles.reason.array
        return parts.rounds, np.bincount(reasons[reasons >= 0], minlength=len(REASONS)).tolist()
    tables.triangles.drop("reason")
    plain = replace(asked, deterministic=False, max_points=None)
    params = parameters_of(mesh, plain, scale, tables.device)[0]
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

    def refine(self, rows: list[Any], devices: list[Device], limit: int | None) -> int:
        """Refine parts, one on each device, and join them; return the number of new points.

        Parameters
        ----------
        rows : list of (k,) int arrays
            The triangles of each part.
        devices : list of Device
        limit : int, optional
            Most points to add in each part.
        """
        left, size = self.points_left, len(rows)
        limits = [limit] * size
        if left is not None:
            shares = [left * (k + 1) // size - left * k // size for k in range(size)]
            limits = [s if limit is None else min(s, limit) for s in shares]
        parts: list[Any] = [None] * size
        rounds = [0] * size

        def run(k: int) -> None:
            if len(rows[k]) and limits[k] != 0:
                parts[k] = part = _part(self.tables, rows[k], devices[k])
                rounds[k] = self._refined(part, devices[k], limits[k])

        group, tables = DeviceGroup(devices), self.tables
        group.each(run)
        n, m, first = len(tables.points), len(tables.triangles), []
        for part in parts:
            first.append((n, m))
            if part is not None:
                n += len(part.g.points) - len(part.points)
                m += len(part.g.triangles) - len(part.triangles)
        added = n - len(tables.points)
        tables.points.extend(added)
        tables.triangles.extend(m - len(tables.triangles))

        def join(k: int) -> None:
            if parts[k] is not None:
                _join(tables, parts[k], *first[k])

        group.each(join)
        self.rounds += sum(rounds)
        if left is not None:
            self.points_left = left - added
        return added

    def _refined(self, part: Part, device: Device, limit: int | None) -> int:
        """Refine one part; return the number of rounds."""
        asked = replace(self.asked, max_points=limit)
        params = parameters_of(self.mesh, asked, self.scale, device)[0]
        if asked.deterministic:
            params.next_id = len(part.points)
        return refine_tables(part.g, params, None, lambda known: self.measure(part.g, known))[0]


# --- which triangles -----------------------------------------------------------------------------


def _divided(tables: Graph, rows: Any, devices: list[Device], shifted: int) -> list[Any]:
    """Divide triangles into ranges of the Hilbert curve, one for each device.

    If ``shifted``, the cuts lie half a part further, and the first part has both ends of the curve.
    Which triangles a part gets does not depend on the order of rows.
    """
    size = len(devices)
    if size == 1:
        return [rows]
    corners = Table("corners", devices[0], xy=vec(f64, 2), key=u64)
    corners.extend(xy=tables.points.xy.array[tables.triangles.node.array[rows, 0]])
    keys = devices[0].to_host(hilbert_keys(corners))
    at = [len(rows) * half // (2 * size) for half in range(2 - shifted, 2 * size, 2)]
    cuts = np.partition(keys, at)[at]
    part = np.searchsorted(cuts, keys, side="right") % size
    return [rows[part == k] for k in range(size)]


def _around(tables: Graph, rows: Any, rings: int) -> Any:
    """Give triangles, and those that are at most ``rings`` steps across sides away; ascending."""
    opposite = tables.triangles.opposite.array
    known = np.zeros(len(tables.triangles), np.bool_)
    known[rows] = True
    for _ in range(rings):
        codes = opposite[rows].ravel()
        codes = codes[codes != HULL]
        rows = np.where(codes < 0, ~codes, codes) >> 2
        rows = np.unique(rows[~known[rows]])
        known[rows] = True
    return np.flatnonzero(known)


# --- from the mesh to a part and back ------------------------------------------------------------


def _part(tables: Graph, rows: Any, device: Device) -> Part:
    """Copy triangles of the mesh, and what they refer to, to a device.

    If input triangles have limits, each part has all input triangles: which of them contains a new
    triangle is found by a walk.
    """
    triangles, inputs = _arrays(tables.triangles), tables.inputs
    node, opposite, segment = (triangles[name][rows] for name in ("node", "opposite", "segment"))
    segment[opposite >= 0] = -1  # kernels leave former values there
    used = np.zeros(len(tables.points), np.bool_)
    used[node] = True
    if "limit" in inputs.columns:
        used[inputs.corner.array] = True
    on, ends = tables.points.on.array, _arrays(tables.segments)
    lines = np.zeros(len(tables.segments), np.bool_)
    lines[segment[segment >= 0]] = True
    lines[on[used & (on >= 0)]] = True
    used[ends["a"][lines]] = used[ends["b"][lines]] = True
    points, segments = np.flatnonzero(used), np.flatnonzero(lines)
    point_at, segment_at = _numbers(points, len(used)), _numbers(segments, len(lines))

    g = empty_tables(device, len(points), len(rows))
    columns: dict[str, Any] = {"xy": tables.points.xy.array[points]}
    if "wanted" in tables.points.columns:
        g.points.add("wanted", f64)
        columns["wanted"] = tables.points.wanted.array[points]
    g.points.extend(**columns)
    for end in ("a", "b"):
        ends[end] = point_at[ends[end]]
    g.segments.extend(**{name: a[segments] for name, a in ends.items()})
    g.points.on[:] = segment_at[on[points]]
    columns = {"node": point_at[node], "segment": segment_at[segment]}
    g.triangles.add("reason", i8)
    if "origin" in triangles:
        g.triangles.add("origin", Ref("inputs"))
        columns["origin"] = triangles["origin"][rows]
        g.inputs.extend(len(inputs))
    if "limit" in inputs.columns:
        for name, kind in {
            "nbr": Ref("inputs")[3],
            "corner": Ref("points")[3],
            "limit": f64,
        }.items():
            g.inputs.add(name, kind)
        g.inputs.nbr, g.inputs.limit = inputs.nbr.array, inputs.limit.array
        g.inputs.corner = point_at[inputs.corner.array]
    opposite = _renumbered(opposite, _numbers(rows, len(tables.triangles)))
    g.triangles.extend(opposite=opposite, **columns)
    return Part(g, points, rows, segments)


def _join(tables: Graph, part: Part, n: int, m: int) -> None:
    """Write a part back: its new points from row ``n`` of the mesh on, new triangles from ``m``."""
    g, rows, kept = part.g, part.triangles, len(part.points)
    xp, added = g.device.xp, len(g.points) - kept
    with g.device.active():
        order = xp.arange(kept + added)
        if "stable_id" in g.points.columns:
            order = xp.argsort(g.points.stable_id.array)
        point_of = xp.empty(kept + added, np.int32)
        point_of[order[:kept]] = g.device.asarray(part.points)
        point_of[order[kept:]] = xp.arange(n, n + added)
        triangle_of = xp.arange(m - len(rows), m + len(g.triangles) - len(rows), dtype=np.int32)
        triangle_of[: len(rows)] = g.device.asarray(rows)
        segment_of = g.device.asarray(np.append(part.segments, -1).astype(np.int32))
        change = {
            "on": lambda a: segment_of[a],
            "node": lambda a: point_of[a],
            "opposite": lambda a: _renumbered(a, triangle_of, xp),
            "segment": lambda a: segment_of[a],
        }
        for name in tables.points.columns:
            new = getattr(g.points, name).array[order[kept:]]
            new = change[name](new) if name in change else new
            getattr(tables.points, name).array[n : n + added] = g.device.to_host(new)
        for name in tables.triangles.columns:
            a = getattr(g.triangles, name).array
            found = g.device.to_host(change[name](a) if name in change else a)
            to = getattr(tables.triangles, name).array
            if name == "opposite":
                at_border = found[: len(rows)] == BORDER
                found[: len(rows)][at_border] = to[rows][at_border]
            to[rows], to[m : m + len(a) - len(rows)] = found[: len(rows)], found[len(rows) :]


def _arrays(table: Table) -> dict[str, Any]:
    """Give the columns of a table, on the host."""
    return {name: table.device.to_host(getattr(table, name).array) for name in table.columns}


def _numbers(rows: Any, n: int) -> Ints:
    """Number rows by their position; -1 for all others of ``n``, and for row -1."""
    number = np.full(n + 1, -1, np.int32)
    number[rows] = np.arange(len(rows), dtype=np.int32)
    return number


def _renumbered(opposite: Any, number: Any, xp: Any = np) -> Any:
    """Give half-edge codes by other numbers of triangles; of a triangle without one, BORDER."""
    hull = opposite == HULL
    border = opposite == BORDER
    code = xp.where(opposite < 0, ~opposite, opposite)
    row = number[xp.where(hull | border, 0, code >> 2)]
    code = (row << 2) | (code & 3)
    code = xp.where(opposite < 0, ~code, code)
    return xp.where(hull, opposite, xp.where(border | (row < 0), np.int32(BORDER), code))
