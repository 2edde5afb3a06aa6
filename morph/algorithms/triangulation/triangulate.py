"""From points and segments to a constrained Delaunay triangulation of the domain they bound.

The points are triangulated (`delaunay`), segments inserted (`segments`) and split where they cross
(`intersections`), and holes and concavities removed (`exterior`); all of it on the device, with
exact predicates.  Conventions are those of Triangle (Shewchuk 1996).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.triangulation.delaunay import delaunay_tables
from morph.algorithms.triangulation.domain import Domain, read_domain
from morph.algorithms.triangulation.exterior import remove_exterior
from morph.algorithms.triangulation.intersections import split_intersections
from morph.algorithms.triangulation.kept import KeptTables, tables_for
from morph.algorithms.triangulation.segments import NO_CHORD, insert_segments
from morph.graph import Graph
from morph.language.arguments import boolean, check_callable, check_choice
from morph.launch.ahead import compile_ahead
from morph.launch.foreach import available_threads
from morph.mesh import Mesh, Pslg, RepairWarning
from morph.runtime.arrays import all_true, any_true
from morph.runtime.device import Device, device_for

FEW_THREADS = 2  # up to so many, segments one by one take less time than claims of channels


def triangulate(
    source: Any,
    segments: Any = None,
    holes: Any = None,
    regions: Any = None,
    *,
    segment_markers: Any = None,
    crossing: str = "refuse",
    duplicates: str = "refuse",
    hull: bool = False,
    device: str | Device | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Mesh:
    """Triangulate points, or the domain that segments bound: constrained Delaunay.

    Parameters
    ----------
    source : (n, 2) float64 array, Pslg, path, dict or object with ``__geo_interface__``
        At least three points, not all on one line, of any finite size; or a graph; or a ``.poly``
        or ``.node`` file, see `morph.io.read_pslg`; or an argument of `Pslg.of`, such as a polygon.
    segments : (s, 2) int array, optional
        Edges that the triangulation must contain.  A segment through points is split at them;
        where several lie on one another, they become one.
    holes : (h, 2) float64 array, optional
        Points; the triangles that no segment separates from them are removed.
    regions : (r, 3) or (r, 4) float64 array, optional
        ``x, y, attribute`` and largest area (for `refine`).  Triangles that no segment separates
        from the point get the attribute; of several regions there, the last counts.
    segment_markers : (s,) int array, optional
        A number for each segment, which its pieces keep; 0 unless given.
    crossing : str
        Of segments that cross: ``"refuse"``, or ``"split"`` both at a new point, which is rounded
        to the nearest doubles.
    duplicates : str
        Of points with equal coordinates: ``"refuse"``, or ``"merge"``: segments of the later ones
        end at the first, the later ones are in no triangle, and segments of zero length are
        dropped, with a `morph.io.RepairWarning` that counts them.
    hull : bool
        Keep all of the convex hull but for the holes.  Else the concavities outside of the segments
        are removed; if segments enclose nothing, the hull is kept, too.
    device : str or Device, optional
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"python"``.  By default that of points
        on a GPU, else see `morph.set_device`, else ``"auto"``.
    progress : callable, optional
        Called with what begins, and of how many: ``("points", n)``, ``("segments", s)``,
        ``("domain", m)``; the first two again when crossings were split, or before an error that
        names segments that cross.

    Returns
    -------
    Mesh
        Points in their order, used or not, new ones behind.  Segments are the constrained edges,
        with the marker of the segment that they are part of (of several, the first that is not 0),
        and the rim of the domain; there a marker 0 becomes 1.  So does a point's marker 0 become
        that of a segment at it.  With regions, triangles have one attribute, 0 outside of all.

    Raises
    ------
    TypeError
        If ``hull`` is not True or False, or ``progress`` not a function.
    ValueError
        If the input is out of range or of the wrong type; points repeat, are fewer than three or
        all on one line; segments cross; a hole or region lies on a segment or on the hull; nothing
        is left.  A hole or region outside has no effect.
    FormatError, OSError
        If ``source`` is a file that cannot be read.
    """
    check_choice(crossing, "crossing", ("refuse", "split"))
    check_choice(duplicates, "duplicates", ("refuse", "merge"))
    check_callable(progress, "progress")
    hull, report = boolean(hull, "hull"), progress or _silent
    named = {"segments": segments, "holes": holes, "regions": regions}
    named["segment_markers"] = segment_markers
    pslg = _as_pslg(source, named, merge=duplicates == "merge")
    where = device_for(device, source, otherwise="auto")
    if segments is None and not isinstance(source, Pslg):
        compile_ahead("triangulate", where)
    n = len(pslg.points)
    # the least row of the segments along an edge decides: those with a marker come first
    origin = np.argsort(pslg.segment_markers == 0, kind="stable").astype(np.int32)
    ends = pslg.segments[origin]
    points, attributes = pslg.points, pslg.point_attributes
    on_gpu = hasattr(source, "__cuda_array_interface__") and not where.on_host
    given = source if on_gpu else points
    few_threads = where.on_host and available_threads() <= FEW_THREADS
    one_by_one = crossing == "refuse" and few_threads
    kept_tables = tables_for(where, n)
    while True:
        report("points", len(points))
        g = delaunay_tables(given, where, kept_tables)
        same = _duplicates(g)
        if duplicates == "refuse" and same is not None:
            _refuse_duplicates(same[:n])
        if not (len(ends) or len(pslg.holes) or len(pslg.regions)):
            return _mesh(g, pslg, attributes, same, origin, None, None)
        report("segments", len(ends))
        if same is not None:
            ends = np.where(same[ends] >= 0, same[ends], ends)
        proper = ends[:, 0] != ends[:, 1]
        if not all_true(proper):
            _report_dropped(np.sort(origin[~proper]))
            ends, origin = ends[proper], origin[proper]
        blocked = insert_segments(g, ends, one_by_one)
        if not len(blocked):
            break
        if one_by_one:  # the pair that the error names must not depend on the number of threads
            one_by_one = False
            continue
        if crossing == "refuse":
            _refuse_crossing(g, blocked.items, origin)
        split = split_intersections(g)
        attributes = np.concatenate([attributes, _between(points, attributes, split)])
        given = points = np.concatenate([points, split.points])
        ends, origin = split.pieces, origin[split.of]
    report("domain", len(g.triangles))
    kept, region = remove_exterior(g, pslg.holes, pslg.regions, hull)
    return _mesh(g, pslg, attributes, same, origin, kept, region)


def _silent(what: str, many: int) -> None:
    """Report no progress."""


class _MergedPslg(Pslg):
    """A graph with segments of zero length, which are dropped when its points are merged."""

    def _check_lengths(self) -> None:
        pass


def _as_pslg(source: Any, given: dict[str, Any], merge: bool) -> Pslg:
    """Return the input as one graph; ``given`` are the arguments beside the source."""
    named = {name: value for name, value in given.items() if value is not None}
    if isinstance(source, str | os.PathLike):
        source = Pslg.read(source, duplicates="keep" if merge else "refuse")
    return (_MergedPslg if merge else Pslg).of(source, **named)


def _report_dropped(rows: NDArray[np.int32]) -> None:
    more = f" (and {len(rows) - 1} more like it)" if len(rows) > 1 else ""
    message = f"segments[{rows[0]}] has zero length: dropped{more}"
    warnings.warn(message, RepairWarning, stacklevel=3)


def _duplicates(g: Graph) -> NDArray[np.int32] | None:
    """Column ``same`` of the points, on the host; None if no point has the coordinates of another.

    Most often there are none, and nothing needs to be copied.
    """
    same = g.points.same.array
    with g.device.active():
        return g.device.to_host(same) if any_true(same >= 0) else None


def _refuse_duplicates(same: NDArray[np.int32]) -> None:
    later = np.flatnonzero(same >= 0)
    if len(later):
        i, j = int(same[later[0]]), int(later[0])
        more = f" (and {len(later) - 1} more)" if len(later) > 1 else ""
        hint = 'duplicates="merge" keeps the first'
        raise ValueError(f"points {i} and {j} have the same coordinates{more}: {hint}")


def _refuse_crossing(g: Graph, blocked: Any, origin: NDArray[np.int32]) -> None:
    chord = g.device.to_host(blocked)
    other = g.device.to_host(g.chords.met.array)[chord]
    pairs = np.sort(np.stack([origin[chord], origin[other]], axis=1), axis=1)
    i, j = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))[0]].tolist()
    raise ValueError(f'segments {i} and {j} cross: crossing="split" splits both there')


def _between(points: Any, attributes: Any, split: Any) -> Any:
    """Attributes of new points, linear along the pieces that they lie on."""
    a, b = split.between[:, 0], split.between[:, 1]
    if not attributes.shape[1]:
        return np.empty((len(a), 0))
    exponent = np.frexp(np.abs(points).max())[1]  # at 1 no difference overflows or vanishes
    start, end, at = (np.ldexp(x, -exponent) for x in (points[a], points[b], split.points))
    step = end - start
    axis = np.abs(step).argmax(axis=1)[:, None]
    t = np.take_along_axis(at - start, axis, 1) / np.take_along_axis(step, axis, 1)
    return (1 - t) * attributes[a] + t * attributes[b]


def _mesh(
    g: Graph, pslg: Pslg, attributes: Any, same: Any, origin: Any, kept: Any, region: Any
) -> Mesh:
    """Read the domain from its tables; drop new points at the coordinates of others."""
    n, stays = len(pslg.points), None
    if same is not None and any_true(same[n:] >= 0):
        stays = np.ones(len(same), bool)
        stays[n:] = same[n:] < 0
        attributes = attributes[stays]
    domain = read_domain(g, stays, kept)
    KeptTables.of(g).release(g.device.name)
    markers, point_markers = _markers(pslg, origin, domain)
    columns = {}
    if len(pslg.regions):
        values = np.append(pslg.regions[:, 2], 0.0)  # row -1: no region
        columns["triangle_attributes"] = values[region][:, None]
    return Mesh.trusted(
        points=domain.points,
        triangles=domain.triangles,
        neighbors=domain.neighbors,
        segments=domain.segments,
        segment_markers=markers,
        point_markers=point_markers,
        point_attributes=attributes,
        holes=pslg.holes,
        regions=pslg.regions,
        base=pslg.base,
        **columns,
    )


def _markers(pslg: Pslg, origin: Any, domain: Domain) -> tuple[Any, Any]:
    """Markers of segments and points of a domain; ``origin``: of each chord the input's segment."""
    segments, n = domain.segments, len(pslg.points)
    point_markers = np.zeros(len(domain.points), np.int32)
    if not np.count_nonzero(pslg.segment_markers):  # the only marker is 1
        point_markers[segments[domain.hull]] = 1
        given = point_markers[:n]
        np.copyto(given, pslg.point_markers, where=pslg.point_markers != 0)
        return domain.hull.astype(np.int32), point_markers
    if np.count_nonzero(pslg.point_markers):
        point_markers[:n] = pslg.point_markers
    rank = np.full(len(segments), len(origin))  # behind all segments of the input
    markers = np.zeros(len(segments), np.int32)
    known = domain.chord != NO_CHORD
    rank[known] = domain.chord[known]
    markers[known] = pslg.segment_markers[origin[rank[known]]]
    markers[(markers == 0) & domain.hull] = 1
    # a point takes the marker of the first segment at it that has one; reversed ranks, 0: none
    marked = np.flatnonzero(markers)
    marker_of = np.zeros(len(origin) + 2, np.int32)
    marker_of[rank[marked]] = markers[marked]
    ends, last = segments[marked].ravel(), len(origin) + 1
    # zeros for most points: pages of memory that nothing writes need not be mapped
    reversed_rank = np.zeros(len(domain.points), np.int32)
    np.maximum.at(reversed_rank, ends, np.repeat(last - rank[marked], 2).astype(np.int32))
    ends = ends[point_markers[ends] == 0]
    point_markers[ends] = marker_of[last - reversed_rank[ends]]
    return markers, point_markers
