"""Refinement on several devices, each of which refines a part of the mesh.

The mesh lies on the host.  In a round of parts, each device reads an equal share of the arrays, and
sends triangles to the device in whose range of a Hilbert curve their first corners lie.  A part is
refined by `refine_tables` as a mesh of its own, in which sides towards other parts are BORDER, and
each device writes its part to rows of its own in new arrays on the host.  A cavity that reaches a
triangle at the border is given up, so these triangles stay as they are on both sides.  Therefore
all parts together remain a constrained Delaunay triangulation.

Then the first device refines the strip: the triangles at borders, and those that can still be
refined, with triangles around them.  Small meshes are a strip as a whole, up to a number of points
that makes them enough for all devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, count
from typing import Any

import numpy as np

from morph.algorithms.refinement.kernels import REASONS, WAITING, find_defect
from morph.algorithms.refinement.parameters import Request, parameters_of
from morph.algorithms.refinement.rounds import Progress, examine, refine_tables, worklist
from morph.algorithms.triangulation.half_edges import BORDER, HULL, behind
from morph.algorithms.triangulation.insertion_order import hilbert_keys
from morph.algorithms.triangulation.tables import (
    box_of,
    carries,
    empty_tables,
    interpolated,
    link_sides,
    mark_hull,
    scale_of,
    sides_of,
    sorted_triangles,
)
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, kernel, program
from morph.mesh import Mesh, MeshError
from morph.partition.group import DeviceGroup
from morph.prelude import atomic_max, f64, i8, i32, u64
from morph.runtime.arrays import bincount
from morph.runtime.device import Device

LEAST = 20_000  # triangles of a part, so that few of them are at its border
FEW = 100  # triangles of a part that wait for the strip although they could be refined
RINGS = 8  # of triangles around those to refine: most cavities do not reach further
SAMPLE = 1 << 14  # points of each share that are compared to divide the curve
SLACK = 16  # new arrays have capacity for 1 / SLACK more rows
GROWTH = 4  # the same for a round of parts, as a multiple; memory is mapped when it is written
COPIES = 8  # threads that begin new arrays
CHUNK, PAGE = 1 << 22, 1 << 12  # bytes

Arrays = dict[str, Any]
_NO_ROWS = np.empty(0, np.int32)
_BORDER = ("old", "border", "border_side", "border_segment", "beyond")
Measure = Callable[[Graph, float, int], int]


def refine_parts(
    mesh: Mesh, asked: Request, limits: Any, sizes: Any, devices: list[Device], measure: Measure,
    progress: Progress | None,
) -> tuple[Mesh, int, list[int]]:  # fmt: skip
    """Refine a mesh on several devices.

    Parameters
    ----------
    mesh : Mesh
        On the host.
    asked : Request
    limits, sizes
        Of input triangles and points, see `to_tables`.
    devices : list of Device
    measure : callable
        Sets the sizes wanted at new points of a part, given its tables, the scale of coordinates
        and the first new point; see `refine_tables`.
    progress : callable, optional
        Called after each round of parts or of a strip.

    Returns
    -------
    mesh : Mesh
        On the host.
    rounds : int
        Of all parts together.
    unmet : list of int
        What is left by reason, see `examine`.
    """
    asked = replace(asked, has_border=True)
    run = PartedRefinement(mesh, asked, limits, sizes, devices, measure)
    unmet = _refine(run, progress)
    return run.host.mesh(asked.deterministic), run.rounds, unmet


def _refine(run: PartedRefinement, progress: Progress | None) -> list[int]:
    """Refine in rounds; count the triangles that miss a limit, by reason."""
    host, enough = run.host, LEAST * len(run.devices)
    rows, rings, divided = np.arange(host.m), RINGS, host.m >= enough
    for turn in count(1):
        if divided:
            rows, added = run.refine_all()
        else:
            added = run.refine_strip(rows, max(enough, host.n) // 2)
        if progress is not None:
            progress(turn, len(host.waiting), host.m)
        if not len(host.waiting) or run.points_left == 0:
            break
        if not divided:
            rings = rings if added else 2 * rings
            rows = _around(host.triangles["nbr"][: host.m], host.waiting, rings)
        many = len(rows) >= max(enough, host.m // len(run.devices))
        divided = many and not (divided and added < LEAST)
    return run.unmet(rings)


class HostMesh:
    """A mesh on the host while it is refined; arrays may have more rows than are used.

    Attributes
    ----------
    n, m : int
        The numbers of points and triangles.
    points : dict of str to array
        ``xy``, ``marker``; ``on``, the segment of each or -1, unless all are input points;
        ``wanted``.
    triangles : dict of str to array
        ``node``, ``nbr``; ``origin``, the input triangle.
    side, segment : arrays
        The half-edge ``4 * triangle + side`` of each segment's edge, in the triangle with the
        larger row of two, and the segment's row in the input; empty before the first round.
    failed, reason : arrays
        The triangles that miss a limit, and why.
    """

    def __init__(self, source: Mesh, has_origin: bool) -> None:
        self.source, self.n, self.m = source, len(source.points), len(source.triangles)
        self.points: Arrays = {"xy": source.points, "marker": source.point_markers}
        self.triangles: Arrays = {"node": source.triangles, "nbr": source.neighbors}
        if has_origin:
            self.triangles["origin"] = np.arange(self.m, dtype=np.int32)
        self.side = self.failed = np.empty(0, np.int64)
        self.segment, self.reason = np.empty(0, np.int32), np.empty(0, np.int8)

    @property
    def is_input(self) -> bool:
        """Whether nothing has been refined; then the arrays are those of the input."""
        return self.points["xy"] is self.source.points

    @property
    def waiting(self) -> Any:
        """The triangles that can still be refined."""
        return self.failed[self.reason == WAITING]

    def edges(self) -> tuple[Any, Any]:
        """The ends of the segments' edges, shape (k, 2), and the segment of each."""
        if self.is_input:
            return self.source.segments, np.arange(len(self.source.segments), dtype=np.int32)
        node, t, k = self.triangles["node"], self.side // 4, self.side % 4
        return np.stack([node[t, (k + 1) % 3], node[t, (k + 2) % 3]], axis=1), self.segment

    def arrays(self, n: int, m: int) -> tuple[Arrays, Arrays]:
        """Allocate arrays for n points and m triangles, and more."""
        points = self.points if "on" in self.points else self.points | {"on": _NO_ROWS}
        return tuple(
            {name: np.empty((k + k // SLACK, *a.shape[1:]), a.dtype) for name, a in old.items()}
            for old, k in ((points, n), (self.triangles, m))
        )  # type: ignore[return-value]

    def reserve(self, n: int, m: int) -> None:
        """Allocate capacity for n points and m triangles."""
        full = n > len(self.points["xy"]) or m > len(self.triangles["node"])
        if self.is_input or full:
            made = self.arrays(n, m)
            for new, old, k in zip(
                made, (self.points, self.triangles), (self.n, self.m), strict=True
            ):
                for name, a in new.items():
                    a[:k] = old[name][:k] if name in old else -1
            self.points, self.triangles = made

    def connect(self, found: list[Arrays], replaced: Any = None) -> None:
        """Write the neighbours behind borders, and list edges of segments, and reasons.

        Parameters
        ----------
        found : list of dict of str to array
            See `Part.result`.
        replaced : (m,) bool array, optional
            The triangles that the only part has; by default all triangles are in parts and have
            new numbers.
        """
        border = {name: np.concatenate([f[name] for f in found]) for name in _BORDER}
        t, k, beyond = border["border"], border["border_side"], border["beyond"]
        if replaced is None:
            by_old = np.argsort(border["old"])
            at = np.searchsorted(border["old"], beyond, sorter=by_old)
            beyond = t[by_old][np.minimum(at, len(t) - 1)]
        self.triangles["nbr"][t, k] = beyond
        # of two parts, or of a part and a triangle outside, one has the edge
        listed = (border["border_segment"] >= 0) & (beyond < t)
        more = {"side": t[listed] * 4 + k[listed], "segment": border["border_segment"][listed]}
        for names, size in ((("side", "segment"), 4), (("failed", "reason"), 1)):
            stay = slice(0) if replaced is None else ~replaced[getattr(self, names[0]) // size]
            for name in names:
                new = [f[name] for f in found] + ([more[name]] if name in more else [])
                setattr(self, name, np.concatenate([getattr(self, name)[stay], *new]))

    def mesh(self, sorts: bool) -> Mesh:
        """Make the mesh, with the markers and attributes that follow from those of the input."""
        source, n, known = self.source, self.n, len(self.source.points)
        node, nbr = (self.triangles[name][: self.m] for name in ("node", "nbr"))
        segments, row = self.edges()
        if (np.bincount(row, minlength=len(source.segments)) == 0).any():
            source.check()  # a segment is no edge, unless it is there twice
        segment_markers, point_markers = source.segment_markers[row], self.points["marker"][:n]
        hull = nbr[self.side // 4, self.side % 4] < 0
        mark_hull(segments, segment_markers, point_markers, hull, np)
        triangle: Any = slice(self.m)
        if sorts:
            triangle, node, nbr = sorted_triangles(np, node, nbr)
            segments = np.sort(segments, axis=1)
            by_end = np.lexsort((segments[:, 1], segments[:, 0]))
            segments, segment_markers = segments[by_end], segment_markers[by_end]
        arrays: Arrays = {
            "points": self.points["xy"][:n], "triangles": node, "neighbors": nbr,
            "segments": segments, "segment_markers": segment_markers,
            "point_markers": point_markers, "holes": source.holes, "regions": source.regions,
        }  # fmt: skip
        if carries(source):
            origin, old = self.triangles["origin"][triangle], source.point_attributes
            arrays["triangle_attributes"] = source.triangle_attributes[origin]
            if old.shape[1]:
                new = interpolated(source, old, arrays["points"], node, origin, known)
                arrays["point_attributes"] = np.concatenate([old, new])
        return Mesh.trusted(**arrays, base=source.base)


class NewArrays:
    """Arrays of the mesh after a round of parts, which has the points that were known.

    Memory is mapped when it is first written, which takes longer than copies from GPUs.  So
    threads copy the known points, and write to the memory of triangles, while GPUs refine.
    """

    def __init__(self, host: HostMesh, group: DeviceGroup) -> None:
        self.host = host
        self.points, self.triangles = host.arrays(GROWTH * host.n, GROWTH * host.m)
        threads = 0 if all(d.on_host for d in group.devices) else COPIES
        self.wait = group.beside(threads, lambda k: self._copy(k, threads))
        if not threads:
            self._copy(0, 1)

    def _copy(self, k: int, size: int) -> None:
        """Copy a share of the points; map memory for a share of the triangles."""
        host = self.host
        share = slice(host.n * k // size, host.n * (k + 1) // size)
        for name, a in self.points.items():
            a[share] = host.points[name][share] if name in host.points else -1
        if size > 1:
            for a in self.triangles.values():
                rows = a[host.m * k // size : host.m * (k + 1) // size]
                data = rows.reshape(-1).view(np.uint8)
                for i in range(0, len(data), CHUNK):
                    data[i : i + CHUNK : PAGE] = 0

    def get(self, n: int, m: int) -> tuple[Arrays, Arrays]:
        """Wait for the copies; return the arrays, with capacity for n points and m triangles."""
        self.wait()
        host = self.host
        if n > len(self.points["xy"]) or m > len(self.triangles["node"]):
            self.points, self.triangles = host.arrays(n, m)
            self._copy(0, 1)
        return self.points, self.triangles


class PartedRefinement:
    """One refinement on several devices.

    Attributes
    ----------
    host : HostMesh
    box : (2, 2) array
        The least and the largest coordinates.
    scale : float
        What coordinates are multiplied by in tables.
    rounds : int
        Of all parts so far.
    points_left : int or None
        How many points may still be added.
    """

    def __init__(
        self, mesh: Mesh, asked: Request, limits: Any, sizes: Any, devices: list[Device],
        measure: Measure,
    ) -> None:  # fmt: skip
        self.mesh, self.asked, self.limits, self.measure = mesh, asked, limits, measure
        self.devices, self.group, self.xy = devices, DeviceGroup(devices), dict[int, Any]()
        self.rounds, self.points_left = 0, asked.max_points
        self.host = HostMesh(mesh, limits is not None or sizes is not None or carries(mesh))
        self.box = self._read_points()
        self.scale = scale_of(mesh, self.box)
        if sizes is not None:
            self.host.points["wanted"] = sizes * self.scale

    # --- all triangles in parts ------------------------------------------------------------------

    def refine_all(self) -> tuple[Any, int]:
        """Refine all triangles in parts, one on each device.

        Returns
        -------
        rows : array of int
            The strip.
        added : int
            The number of new points.
        """
        size, left, parts = len(self.devices), self.points_left, dict[int, Part]()
        limits: list[int | None] = [None] * size
        if left is not None:
            limits = [left * (k + 1) // size - left * k // size for k in range(size)]
        made = NewArrays(self.host, self.group)
        points = self._points_of_parts()
        triangles = self._triangles_of_parts(points)

        def refine(k: int) -> None:
            given, columns = triangles.pop(k), points.pop(k)
            if len(given["row"]):
                xp = self.devices[k].xp
                parts[k] = Part(
                    self, self.devices[k], given,
                    lambda rows: {name: xp.take(a, rows, axis=0) for name, a in columns.items()},
                )  # fmt: skip
            del given
            columns.clear()
            if k in parts:
                parts[k].refine(self, limits[k], FEW)

        self.group.each(refine)
        return self._gather(parts, made)

    def _share(self, k: int, rows: int) -> slice:
        size = len(self.devices)
        return slice(rows * k // size, rows * (k + 1) // size)

    def _read_points(self) -> Any:
        """Copy a share of the coordinates to each device; return the least and the largest."""
        host, ends = self.host, {}

        def read(k: int) -> None:
            share = host.points["xy"][self._share(k, host.n)]
            self.xy[k] = self.devices[k].asarray(share)
            if len(share):
                ends[k] = box_of(self.devices[k], self.xy[k])

        self.group.each(read)
        boxes = np.stack([*ends.values()])
        return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])

    def _points_of_parts(self) -> dict[int, Arrays]:
        """For each device the columns of all points, and ``part``, in whose range they lie."""
        host, size, keys, sent = self.host, len(self.devices), dict[int, Any](), dict[int, Any]()
        sample: dict[int, Any] = {}
        names = [*(name for name in host.points if name != "marker"), "part"]
        if not self.xy:
            self._read_points()  # points have been added

        def find_keys(k: int) -> None:
            device, n = self.devices[k], len(self.xy[k])
            cells = Table("cells", device, xy=vec(f64, 2), key=u64)
            cells.extend(xy=self.xy[k])
            with device.active():
                keys[k] = hilbert_keys(cells, self.box)[:n]
                sample[k] = device.to_host(keys[k][:: 1 + n // SAMPLE].copy())

        def compare(k: int) -> None:
            device, share = self.devices[k], self._share(k, host.n)
            columns = {"xy": self.xy.pop(k)}
            with device.active():
                part = device.xp.searchsorted(device.asarray(cuts), keys.pop(k), side="right")
                columns["part"] = part.astype(np.int16)
            for name in names:
                if name not in columns:
                    columns[name] = device.asarray(host.points[name][share])
            sent[k] = [[columns[name] for name in names]] * size

        self.group.each(find_keys)
        known = np.sort(np.concatenate([*sample.values()]))
        cuts = known[[len(known) * k // size for k in range(1, size)]]
        self.group.each(compare)
        return self._exchanged(sent, names)

    def _triangles_of_parts(self, points: dict[int, Arrays]) -> dict[int, Arrays]:
        """For each device the triangles whose first corners lie in its range."""
        host, size, sent = self.host, len(self.devices), dict[int, Any]()

        def sort(k: int) -> None:
            device, share = self.devices[k], self._share(k, host.m)
            xp, arrays = device.xp, [device.asarray(a[share]) for a in host.triangles.values()]
            with device.active():
                part = xp.take(points[k].pop("part"), arrays[0][:, 0])
                order = xp.argsort(part, kind="stable")
                ends = np.cumsum(device.to_host(bincount(xp, part, size))).tolist()
                arrays.append(xp.arange(share.start, share.stop, dtype=np.int32))
                sent[k] = [
                    [xp.take(a, order[i:j], axis=0) for a in arrays]
                    for i, j in zip([0, *ends[:-1]], ends, strict=True)
                ]

        self.group.each(sort)
        return self._exchanged(sent, [*host.triangles, "row"])

    def _exchanged(self, sent: dict[int, Any], names: list[str]) -> dict[int, Arrays]:
        """Send arrays to the parts; for each part what it has received from all, by name."""
        received, made = self.group.exchange(sent), dict[int, Arrays]()
        for k, device in enumerate(self.devices):
            with device.active():
                columns = map(device.xp.concatenate, zip(*received.pop(k), strict=True))
                made[k] = dict(zip(names, columns, strict=True))
        return made

    def _gather(self, parts: dict[int, Part], made: NewArrays) -> tuple[Any, int]:
        """Make the mesh of its parts: each device writes its rows."""
        host, size, found, strips = self.host, len(self.devices), dict[int, Any](), []
        sizes = [len(parts[k].tables.triangles) if k in parts else 0 for k in range(size)]
        added = [parts[k].added if k in parts else 0 for k in range(size)]
        point = [*accumulate(added, initial=host.n)]
        row = [*accumulate(sizes, initial=0)]
        points, triangles = made.get(point[-1], row[-1])

        def write(k: int) -> None:
            if k in parts:
                part = parts.pop(k)
                with part.device.active():
                    rows = part.device.xp.arange(*row[k : k + 2], dtype=np.int32)
                found[k] = part.result(self.scale, point[k], rows)
                _write(part.device, found[k].pop("points"), points, slice(*point[k : k + 2]))
                _write(part.device, found[k].pop("triangles"), triangles, slice(*row[k : k + 2]))
                strips.append(part.strip(rows))
                part.free()
                self.rounds += part.rounds

        self.group.each(write)
        host.points, host.triangles, host.n, host.m = points, triangles, point[-1], row[-1]
        host.connect([found[k] for k in sorted(found)])
        return np.sort(np.concatenate(strips)), self._count(sum(added))

    def _count(self, added: int) -> int:
        if self.points_left is not None:
            self.points_left -= added
        return added

    # --- some triangles on the first device ------------------------------------------------------

    def refine_strip(self, rows: Any, limit: int) -> int:
        """Refine triangles on the first device; return the number of new points, at most a limit.

        Parameters
        ----------
        rows : (k,) int array
            The triangles, ascending.
        limit : int
        """
        host, part = self.host, self._strip(rows)
        limit = limit if self.points_left is None else min(limit, self.points_left)
        part.refine(self, limit, 0)
        added = part.added
        n, m = host.n + added, host.m + len(part.tables.triangles) - len(rows)
        host.reserve(n, m)
        replaced = np.zeros(host.m, np.bool_)
        replaced[rows] = True
        with part.device.active():
            new = part.device.xp.arange(host.m, m, dtype=np.int32)
            found = part.result(self.scale, host.n, part.device.xp.concatenate([part.row, new]))
        _write(part.device, found.pop("points"), host.points, slice(host.n, n))
        arrays = {name: part.device.to_host(a) for name, a in found.pop("triangles").items()}
        for name, a in arrays.items():
            host.triangles[name][rows] = a[: len(rows)]
            host.triangles[name][host.m : m] = a[len(rows) :]
        part.free()
        host.n, host.m = n, m
        host.connect([found], replaced)
        self.rounds += part.rounds
        return self._count(added)

    def _strip(self, rows: Any) -> Part:
        """Copy triangles, which are on the host, to the first device."""
        device, host = self.devices[0], self.host
        self.xy.clear()

        def columns(points: Any) -> Arrays:
            read = {name: a for name, a in host.points.items() if name != "marker"}
            return self._read(read, device.to_host(points))

        given = self._read(host.triangles, rows)
        given["row"] = device.asarray(rows.astype(np.int32))
        return Part(self, device, given, columns)

    def _read(self, arrays: Arrays, rows: Any) -> Arrays:
        """Copy rows of arrays to the first device; the threads of all devices read them."""
        device, taken = self.devices[0], dict[int, list[Any]]()

        def take(k: int) -> None:
            share = rows[self._share(k, len(rows))]
            taken[k] = [np.take(a, share, 0) for a in arrays.values()]

        self.group.each(take)
        found = zip(*(taken[k] for k in sorted(taken)), strict=True)
        return {
            name: device.asarray(np.concatenate(a)) for name, a in zip(arrays, found, strict=True)
        }

    def unmet(self, rings: int) -> list[int]:
        """Count the triangles that miss a limit, by reason."""
        host, failed = self.host, self.host.failed
        counts = np.zeros(len(REASONS), np.int64)
        left = np.ones(host.m, np.bool_)
        if len(host.waiting):  # a cavity may reach a border no more, and others need no point
            rows = _around(host.triangles["nbr"][: host.m], host.waiting, rings)
            left[rows] = False
            part = self._strip(rows)
            part.tables.triangles.drop("reason")
            plain = replace(self.asked, deterministic=False, max_points=None)
            params = parameters_of(self.mesh, plain, self.scale, part.device, self.box)[0]
            waiting = worklist(part.tables, params, len(host.waiting))
            counts += examine(part.tables, waiting, params)
        counts += np.bincount(host.reason[left[failed]], minlength=len(REASONS))
        found: list[int] = counts.tolist()
        return found


class Part:
    """A part of the mesh as tables of its own.

    Parameters
    ----------
    run : PartedRefinement
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
    t, k, beyond : arrays
        Each side at the border, and the triangle of the mesh behind.
    rounds : int
    """

    def __init__(
        self, run: PartedRefinement, device: Device, triangles: Arrays,
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

    def _add_inputs(self, run: PartedRefinement, number: Any) -> None:
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

    def refine(self, run: PartedRefinement, limit: int | None, few: int) -> None:
        """Refine until at most ``few`` triangles are left, or ``limit`` points were added."""
        g, defect = self.tables, Flag(self.tables)
        foreach(g.triangles, find_defect, g, defect)
        if defect:
            run.mesh.check()  # says what is wrong
            raise MeshError(run.mesh.violations())
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
            the host: ``side``, ``segment``, ``failed`` and ``reason``; ``old``, ``border``,
            ``border_side``, ``border_segment``, ``beyond``: each side at the border, by its
            triangle's previous and present row, its segment or -1, and the triangle behind.
        """
        g, xp, n = self.tables, self.device.xp, len(self.point)
        node, nbr, side = sides_of(g)
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
            lists = {
                "side": row[t].astype(np.int64) * 4 + k, "segment": segment[t, k],
                "failed": row[failed].astype(np.int64), "reason": reason[failed],
                "old": self.row[self.t], "border": row[self.t].astype(np.int64),
                "border_side": self.k, "border_segment": segment[self.t, self.k],
                "beyond": self.beyond.astype(np.int64),
            }  # fmt: skip
            found = {name: self.device.to_host(a) for name, a in lists.items()}
        return found | {"points": points, "triangles": triangles}

    def strip(self, row: Any) -> Any:
        """The triangles around the border and those to refine, on the host."""
        g, device = self.tables, self.device
        g.triangles.add("near", i32)
        some = len(g.triangles) // 16
        found, following = (Collection(g.triangles, capacity=some) for _ in range(2))
        find_strip(g, found, following, RINGS)
        with device.active():
            return device.to_host(row[device.xp.flatnonzero(g.triangles.near.array)])

    def free(self) -> None:
        """Free the memory now, not when Python's collector finds it."""
        for table in self.tables.tables.values():
            table.truncate(0)
            table.resize(0)


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


def _around(nbr: Any, rows: Any, rings: int) -> Any:
    """Give triangles, and those that are at most ``rings`` steps across sides away; ascending."""
    known, found = np.zeros(len(nbr), np.bool_), [rows]
    known[rows] = True
    for _ in range(rings):
        rows = nbr[rows].ravel()
        rows = rows[rows >= 0]
        rows = np.unique(rows[~known[rows]])
        known[rows] = True
        found.append(rows)
    return np.sort(np.concatenate(found))


def _write(device: Device, arrays: Arrays, columns: Arrays, rows: slice) -> None:
    """Copy arrays of a device to rows of columns on the host."""
    for name, a in arrays.items():
        device.copy_to_host(a, columns[name][rows])
