"""Refinement on several devices, each of which refines a part of the mesh.

The mesh lies on the host.  In a round of parts, each device reads an equal share of the arrays, and
sends triangles to the device in whose range of a Hilbert curve their first corners lie.  A part is
refined by `refine_tables` as a mesh of its own, in which sides towards other parts are BORDER, and
each device writes its part to rows of its own in new arrays on the host.  A cavity that reaches a
triangle at the border is given up, so these triangles stay as they are on both sides.  Therefore
all parts together remain a constrained Delaunay triangulation.

Then the first device refines the strip: the triangles at borders, and those that can still be
refined, with triangles around them.  A mesh with fewer than LEAST triangles per device is one
strip.  Rounds of parts and of strips alternate as `_refine` decides, until no triangle waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, count
from typing import Any

import numpy as np

from morph.algorithms.refinement.host_mesh import Arrays, HostMesh, NewArrays, around, write_rows
from morph.algorithms.refinement.kernels import REASONS
from morph.algorithms.refinement.parameters import UNLIMITED, Request, parameters_of
from morph.algorithms.refinement.part import Part
from morph.algorithms.refinement.rounds import Progress, examine, worklist
from morph.algorithms.triangulation.attributes import carries
from morph.algorithms.triangulation.insertion_order import hilbert_keys
from morph.algorithms.triangulation.scaling import box_of, scale_of
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.mesh import Mesh
from morph.partition.group import DeviceGroup, share_of
from morph.prelude import f64, u64
from morph.runtime.arrays import bincount
from morph.runtime.device import Device

LEAST = 20_000  # triangles of a part, so that few of them are at its border
MOST_LEFT = 100  # triangles of a part that wait for the strip although they could be refined
RINGS = 12  # of triangles around those to refine: few cavities reach further
SAMPLE = 1 << 14  # points of each share that are compared to divide the curve

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
        Triangles that miss a limit, by reason, see `examine`.
    """
    asked = replace(asked, has_border=True)
    run = PartitionedRefinement(mesh, asked, limits, sizes, devices, measure)
    try:
        unmet = _refine(run, progress)
    finally:
        run.host.finish()
    return run.host.mesh(asked.deterministic), run.rounds, unmet


def _refine(run: PartitionedRefinement, progress: Progress | None) -> list[int]:
    """Refine in rounds; count the triangles that miss a limit, by reason."""
    host, enough = run.host, LEAST * len(run.devices)
    rings, divided = RINGS, host.m >= enough
    rows = np.arange(0 if divided else host.m)
    for number in count(1):
        if divided:
            rows, added = run.refine_all()
        else:
            added = run.refine_strip(rows, max(enough, host.n) // 2)
        if progress is not None:
            progress(number, len(host.waiting), host.m)
        if not len(host.waiting) or run.points_left == 0:
            break
        if not divided:
            rings = rings if added else 2 * rings
            rows = around(host.triangles["nbr"][: host.m], host.waiting, rings)
        many = len(rows) >= max(enough, host.m // len(run.devices))
        # a large strip is divided, too, unless the last division added few points, or none could be
        # added to the last strip: then only a wider one can help
        few = added < LEAST if divided else not added
        divided = many and not few
    return run.unmet(rings)


class PartitionedRefinement:
    """One refinement on several devices.

    Attributes
    ----------
    host : HostMesh
    box : (2, 2) array
        The least and the largest coordinates.
    scale : float
        The factor of coordinates in tables.
    strip : dict of str to array
        The triangles of the strip after a round of parts, until they are refined.
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
        self.strip: Arrays = {}
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
        # without a limit, too, so that parts and strips launch the same units
        shares = [share_of(UNLIMITED if left is None else left, k, size) for k in range(size)]
        limits = [share.stop - share.start for share in shares]
        self.host.finish()  # here, as several threads will read the triangles at once
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
                parts[k].refine(self, limits[k], MOST_LEFT)

        self.group.each(refine)
        return self._gather(parts, made)

    def _share(self, k: int, rows: int) -> slice:
        return share_of(rows, k, len(self.devices))

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
            xp, arrays = device.xp, device.asarrays(*(a[share] for a in host.triangles.values()))
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
        """Send arrays to the parts; for each part the arrays received from all, by name."""
        received, made = self.group.exchange(sent), dict[int, Arrays]()
        for k, device in enumerate(self.devices):
            with device.active():
                columns = map(device.xp.concatenate, zip(*received.pop(k), strict=True))
                made[k] = dict(zip(names, columns, strict=True))
        return made

    def _gather(self, parts: dict[int, Part], made: NewArrays) -> tuple[Any, int]:
        """Replace the mesh by that of the parts; return the strip, and the number of new points.

        Each device writes its rows; threads write the triangles while the caller continues.
        """
        host, size, found, strips = self.host, len(self.devices), dict[int, Any](), dict[int, Any]()
        sizes = [len(parts[k].tables.triangles) if k in parts else 0 for k in range(size)]
        added = [parts[k].added if k in parts else 0 for k in range(size)]
        point = [*accumulate(added, initial=host.n)]
        row = [*accumulate(sizes, initial=0)]
        points, triangles = made.get(point[-1], row[-1])
        self.rounds += sum(part.rounds for part in parts.values())

        def number(k: int) -> None:
            if k in parts:
                part = parts.pop(k)
                with part.device.active():
                    rows = part.device.xp.arange(*row[k : k + 2], dtype=np.int32)
                found[k] = part.result(self.scale, point[k], rows)
                write_rows(part.device, found[k].pop("points"), points, slice(*point[k : k + 2]))
                strips[k] = part.strip(rows, found[k]["triangles"], RINGS)
                part.free()

        def write(k: int) -> None:
            if k in columns:
                write_rows(self.devices[k], columns.pop(k), triangles, slice(*row[k : k + 2]))

        self.group.each(number)
        columns = {k: f.pop("triangles") for k, f in found.items()}
        used = sorted(found)
        self.strip = {
            name: np.concatenate([strips[k][name] for k in used]) for name in strips[used[0]]
        }
        lists = [found[k] for k in used]
        host.renew((points, triangles), point[-1], row[-1], lists, self.strip)
        host.writing = self.group.beside(size, write)  # meanwhile the strip is refined
        return self.strip["row"], self._count(sum(added))

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
        host, part = self.host, self._part_of(rows)
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
        write_rows(part.device, found.pop("points"), host.points, slice(host.n, n))
        arrays = {name: part.device.to_host(a) for name, a in found.pop("triangles").items()}
        for name, a in arrays.items():
            host.triangles[name][rows] = a[: len(rows)]
            host.triangles[name][host.m : m] = a[len(rows) :]
        part.free()
        host.n, host.m = n, m
        host.connect(found, replaced)
        self.rounds += part.rounds
        return self._count(added)

    def _part_of(self, rows: Any) -> Part:
        """Make a part on the first device of triangles of the mesh."""
        device, host = self.devices[0], self.host
        self.xy.clear()  # points will be added: the shares of coordinates become invalid

        def columns(points: Any) -> Arrays:
            read = {name: a for name, a in host.points.items() if name != "marker"}
            return self._read(read, device.to_host(points))

        if rows is self.strip.get("row"):
            given = {name: device.asarray(a) for name, a in self.strip.items()}
        else:
            given = self._read(host.triangles, rows)
            given["row"] = device.asarray(rows.astype(np.int32))
        self.strip = {}
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
        counts: Any = np.zeros(len(REASONS), np.int64)
        left: Any = slice(None)
        # triangles around waiting ones are examined again: the border may no longer prevent an
        # insertion
        if len(host.waiting):
            rows = around(host.triangles["nbr"][: host.m], host.waiting, rings)
            left = ~np.isin(failed, rows)
            part = self._part_of(rows)
            part.tables.triangles.drop("reason")
            unlimited = replace(self.asked, deterministic=False, max_points=None)
            params = parameters_of(self.mesh, unlimited, self.scale, part.device, self.box)[0]
            waiting = worklist(part.tables, "waiting", len(host.waiting))
            counts += examine(part.tables, waiting, params)
            part.free()
        counts += np.bincount(host.reason[left], minlength=len(REASONS))
        found: list[int] = counts.tolist()
        return found
