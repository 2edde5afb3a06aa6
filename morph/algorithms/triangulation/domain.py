"""The arrays of a triangulated domain, read from its tables on their device."""

# mypy: disable-error-code="valid-type,no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.algorithms.triangulation.half_edges import half_edge
from morph.algorithms.triangulation.kept import KeptTables
from morph.algorithms.triangulation.reading import (
    has_segment,
    number_behind,
    number_of,
    read_triangle,
)
from morph.algorithms.triangulation.segments import NO_CHORD
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import bool_, i32, static, vector
from morph.runtime.device import device as find_device


@kernel
def list_sides(t, g, sides, by_id: static):
    """List each side that is a segment or on the boundary; a side of two triangles once."""
    opposite, number = t.opposite, number_of(t, by_id)
    for k in range(3):
        beyond = number_behind(g, opposite[k], by_id)
        if opposite[k] < 0 and beyond < number:
            a, b = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
            ends = vector(number_of(a, by_id), number_of(b, by_id))
            chord = i32(NO_CHORD)
            if hasattr(t, "chord"):
                chord = t.chord[k]
            sides.add(half_edge=half_edge(t, k), ends=ends, chord=chord, hull=beyond < 0)


@func
def is_numbered(t):
    return t.stable_id >= 0


@program
def read_all(g, corners, sides):
    """Read all triangles, in the order of their rows."""
    foreach(g.triangles, read_triangle, g, corners, False)
    # not in the same step, as each of its items reserves capacity of the list
    foreach(g.triangles, list_sides, g, sides, False, where=has_segment)


@program
def read_numbered(g, corners, sides):
    """Read the triangles that have a number, in the order of these."""
    foreach(g.triangles, read_triangle, g, corners, True, where=is_numbered)
    foreach(g.triangles, list_sides, g, sides, True, where=has_segment)


class Domain(NamedTuple):
    """Arrays on the host.

    Attributes
    ----------
    points : (n, 2) float64 array
    triangles, neighbors : (m, 3) int32 arrays
        As of a `Mesh`.
    segments : (s, 2) int32 array
        Constrained edges and the edges of the boundary.
    chord : (s,) int32 array
        Of each segment the chord (see `insert_segments`) that contains it, or NO_CHORD.
    hull : (s,) bool array
        Whether each segment is on the boundary.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int32]
    neighbors: NDArray[np.int32]
    segments: NDArray[np.int32]
    chord: NDArray[np.int32]
    hull: NDArray[np.bool_]


def read_domain(g: Graph, stays: NDArray[np.bool_] | None, kept: Any) -> Domain:
    """Read the domain from its tables, in the order of rows.

    Parameters
    ----------
    g : Graph
        As `delaunay_tables`, `insert_segments` or `remove_exterior` leaves it.
    stays : (n,) bool array on the host, optional
        Which points are read; by default all.
    kept : (m,) bool array of the device, optional
        Which triangles are read; by default all.
    """
    m = len(g.triangles)
    numbered = stays is not None or kept is not None
    if numbered:
        m = _number(g, stays, kept)
    kept_tables = KeptTables.of(g)
    corners = kept_tables.table_to_read("corners", m, node=(i32, 3), nbr=(i32, 3))
    columns: dict[str, Any] = {"half_edge": i32, "ends": vec(i32, 2), "chord": i32, "hull": bool_}
    chords = len(g.chords) if "chords" in g.tables else 0
    sides = kept_tables.list("sides", capacity=chords + m // 256 + 64, **columns)
    (read_numbered if numbered else read_all)(g, corners, sides)
    listed = (getattr(sides, name).array for name in columns)
    arrays = g.points.xy.array, corners.node.array, corners.nbr.array, *listed
    xy, node, nbr, rows, ends, chord, hull = find_device("cpu").asarrays(*arrays)
    order = np.argsort(rows)
    if kept_tables.small and g.device.on_host:  # the next call writes to these arrays
        xy, node, nbr = xy.copy(), node.copy(), nbr.copy()
    return Domain(
        xy if stays is None else xy[stays], node, nbr, ends[order], chord[order], hull[order]
    )


def _number(g: Graph, stays: NDArray[np.bool_] | None, kept: Any) -> int:
    """Number the points that stay, and the triangles that are kept; return how many these are."""
    device, xp = g.device, g.device.xp
    kept_tables = KeptTables.of(g)
    kept_tables.attach(g.points, stable_id=(i32, 0))
    kept_tables.attach(g.triangles, stable_id=(i32, -1))
    with device.active():
        if stays is None:
            g.points.stable_id.array[:] = xp.arange(len(g.points), dtype=np.int32)
        else:
            g.points.stable_id.array[:] = device.asarray(np.cumsum(stays, dtype=np.int32) - 1)
        if kept is None:
            kept = xp.ones(len(g.triangles), np.bool_)
        rows = xp.flatnonzero(kept)
        g.triangles.stable_id.array[rows] = xp.arange(len(rows), dtype=np.int32)
    return len(rows)
