"""A mesh on the host while devices refine parts of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.refinement.kernels import WAITING
from morph.algorithms.triangulation.attributes import carries, interpolated
from morph.algorithms.triangulation.canonical import sorted_triangles
from morph.algorithms.triangulation.reading import mark_hull
from morph.mesh import Mesh
from morph.partition.group import DeviceGroup, share_of
from morph.runtime.device import Device

SLACK = 16  # arrays of a strip get 1 / SLACK spare rows
GROWTH = 4  # arrays of a round of parts have so many times the rows: untouched pages cost nothing
COPIES = 8  # host threads that copy points and map memory
CHUNK = 1 << 22  # bytes of which one NumPy call maps the memory
PAGE = 1 << 12  # bytes of a page, of which one is written

Arrays = dict[str, Any]
_NO_ROWS = np.empty(0, np.int32)
_BORDER = ("old", "border", "border_side", "border_segment", "beyond")


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
        ``node``, ``nbr``; ``origin``, the input triangle.  Reading this attribute calls `finish`.
    writing : callable, optional
        Waits until the devices have written the triangles of a round of parts.
    side : (k,) int64 array
        The half-edge ``4 * triangle + side`` of each edge that belongs to a segment, in the
        triangle with the larger row of two.  Empty before the first round, like ``ends`` and
        ``segment``.
    ends : (k, 2) int32 array
        The points of these edges.
    segment : (k,) int32 array
        The rows of their segments in the input.
    failed, reason : (j,) int64 and int8 arrays
        The triangles that miss a limit, and why.
    """

    def __init__(self, source: Mesh, has_origin: bool) -> None:
        self.source, self.n, self.m = source, len(source.points), len(source.triangles)
        self.points: Arrays = {"xy": source.points, "marker": source.point_markers}
        self._triangles: Arrays = {"node": source.triangles, "nbr": source.neighbors}
        if has_origin:
            self._triangles["origin"] = np.arange(self.m, dtype=np.int32)
        self.writing: Callable[[], None] | None = None
        self._borders: Arrays = {}
        self.side = self.failed = np.empty(0, np.int64)
        self.ends = np.empty((0, 2), np.int32)
        self.segment, self.reason = np.empty(0, np.int32), np.empty(0, np.int8)

    @property
    def triangles(self) -> Arrays:
        """The columns of triangles, completely written."""
        self.finish()
        return self._triangles

    def finish(self) -> None:
        """Wait until the triangles of a round of parts are written; write neighbours at borders."""
        if self.writing is not None:
            self.writing()
            self.writing, border = None, self._borders
            self._triangles["nbr"][border["border"], border["border_side"]] = border["beyond"]

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
        return self.ends, self.segment

    def allocate(self, n: int, m: int) -> tuple[Arrays, Arrays]:
        """Allocate new arrays of points and of triangles, with spare rows; contents undefined."""
        points = self.points if "on" in self.points else self.points | {"on": _NO_ROWS}
        return tuple(
            {name: np.empty((k + k // SLACK, *a.shape[1:]), a.dtype) for name, a in old.items()}
            for old, k in ((points, n), (self._triangles, m))
        )  # type: ignore[return-value]

    def reserve(self, n: int, m: int) -> None:
        """Allocate capacity for n points and m triangles."""
        full = n > len(self.points["xy"]) or m > len(self.triangles["node"])
        if self.is_input or full:
            made = self.allocate(n, m)
            for new, old, k in zip(
                made, (self.points, self.triangles), (self.n, self.m), strict=True
            ):
                for name, a in new.items():
                    a[:k] = old[name][:k] if name in old else -1
            self.points, self._triangles = made

    def renew(
        self, arrays: tuple[Arrays, Arrays], n: int, m: int, found: list[Arrays], strip: Arrays
    ) -> None:
        """Replace all arrays after a round of parts, which gives all triangles new numbers.

        Parameters
        ----------
        arrays : tuple of dict of str to array
            Points, and triangles, which the devices have not written yet.
        n, m : int
            The numbers of points and triangles.
        found : list of dict of str to array
            See `Part.result`.
        strip : dict of str to array
            See `Part.strip`; the neighbours behind borders are written to its ``nbr``.
        """
        border = self._borders = _border_sides(found)
        t, k = border["border"], border["border_side"]
        by_old = np.argsort(border["old"])
        at = np.searchsorted(border["old"], border["beyond"], sorter=by_old)
        beyond = border["beyond"] = t[by_old][np.minimum(at, len(t) - 1)]
        at = np.searchsorted(strip["row"], t)
        strip["nbr"][at, k] = beyond
        self.points, self._triangles = arrays
        self.n, self.m = n, m
        self._merge_lists(found, _border_edges(border, strip["node"][at]), None)

    def connect(self, found: Arrays, replaced: Any) -> None:
        """Write the neighbours behind the border of a strip, and list its segments and reasons.

        Parameters
        ----------
        found : dict of str to array
            See `Part.result`.
        replaced : (m,) bool array
            Mask of the triangles that the strip replaces.
        """
        border = _border_sides([found])
        t = border["border"]
        self.triangles["nbr"][t, border["border_side"]] = border["beyond"]
        self._merge_lists([found], _border_edges(border, self.triangles["node"][t]), replaced)

    def _merge_lists(self, found: list[Arrays], more: Arrays, replaced: Any) -> None:
        """Replace the edges and reasons of replaced triangles, or of all, by those found."""
        keep_side = keep_failed = slice(0)
        if replaced is not None:
            keep_side, keep_failed = ~replaced[self.side // 4], ~replaced[self.failed]
        edges = [*found, more]
        self.side = np.concatenate([self.side[keep_side], *(f["side"] for f in edges)])
        self.ends = np.concatenate([self.ends[keep_side], *(f["ends"] for f in edges)])
        self.segment = np.concatenate([self.segment[keep_side], *(f["segment"] for f in edges)])
        self.failed = np.concatenate([self.failed[keep_failed], *(f["failed"] for f in found)])
        self.reason = np.concatenate([self.reason[keep_failed], *(f["reason"] for f in found)])

    def mesh(self, sorts: bool) -> Mesh:
        """Make the mesh, with the markers and attributes that follow from those of the input."""
        source, n, known = self.source, self.n, len(self.source.points)
        node, nbr = (self.triangles[name][: self.m] for name in ("node", "nbr"))
        segments, row = self.edges()
        if (np.bincount(row, minlength=len(source.segments)) == 0).any():
            source.check()  # a segment has no edge: `check` raises, unless it repeats another
        segment_markers, point_markers = source.segment_markers[row], self.points["marker"][:n]
        hull = nbr[self.side // 4, self.side % 4] < 0
        mark_hull(segments, segment_markers, point_markers, hull, np)
        triangle: Any = slice(self.m)
        if sorts:
            found = sorted_triangles(np, node, nbr)
            triangle, node, nbr = found.rows, found.node, found.nbr
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


def _border_sides(found: list[Arrays]) -> Arrays:
    """Return the sides at the borders of all parts, see `Part.result`."""
    return {name: np.concatenate([f[name] for f in found]) for name in _BORDER}


def _border_edges(border: Arrays, node: Any) -> Arrays:
    """Return ``side``, ``ends`` and ``segment`` of the edges of segments at borders.

    Both triangles at such an edge may be in the list; the one with the larger row lists the edge.

    Parameters
    ----------
    border : dict of str to array
        See `_border_sides`.
    node : (j, 3) int32 array
        The corners of the triangles ``border["border"]``.
    """
    listed = (border["border_segment"] >= 0) & (border["beyond"] < border["border"])
    t, k, segment = (border[x][listed] for x in ("border", "border_side", "border_segment"))
    node, row = node[listed], np.arange(len(t))
    ends = np.stack([node[row, (k + 1) % 3], node[row, (k + 2) % 3]], axis=1)
    return {"side": t * 4 + k, "ends": ends, "segment": segment}


class NewArrays:
    """Arrays of the mesh after a round of parts, which has the points that were known.

    Memory is mapped when it is first written, which takes longer than copies from GPUs.  So
    threads copy the known points, and write to the memory of triangles, while GPUs refine.
    """

    def __init__(self, host: HostMesh, group: DeviceGroup) -> None:
        self.host = host
        self.points, self.triangles = host.allocate(GROWTH * host.n, GROWTH * host.m)
        threads = 0 if all(d.on_host for d in group.devices) else COPIES
        self.wait = group.beside(threads, lambda k: self._copy(k, threads))
        if not threads:
            self._copy(0, 1)

    def _copy(self, k: int, size: int) -> None:
        """Copy a share of the points; map memory for a share of the triangles."""
        host = self.host
        share = share_of(host.n, k, size)
        for name, a in self.points.items():
            a[share] = host.points[name][share] if name in host.points else -1
        if size > 1:
            for a in self.triangles.values():
                rows = a[share_of(host.m, k, size)]
                data = rows.reshape(-1).view(np.uint8)
                for i in range(0, len(data), CHUNK):
                    data[i : i + CHUNK : PAGE] = 0

    def get(self, n: int, m: int) -> tuple[Arrays, Arrays]:
        """Wait for the copies; return the arrays, with capacity for n points and m triangles."""
        self.wait()
        host = self.host
        if n > len(self.points["xy"]) or m > len(self.triangles["node"]):
            self.points, self.triangles = host.allocate(n, m)
            self._copy(0, 1)
        return self.points, self.triangles


def around(nbr: Any, rows: Any, rings: int) -> Any:
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


def write_rows(device: Device, arrays: Arrays, columns: Arrays, rows: slice) -> None:
    """Copy arrays of a device to rows of columns on the host, in one transfer."""
    device.copy_to_host([*arrays.values()], [columns[name][rows] for name in arrays])
