"""Removal of holes and of the exterior from a constrained triangulation; regions are numbered.

A part of the triangulation is a connected component of triangles across edges without segments.
One sweep of a concurrent union-find finds all parts; a flood fill would take as many rounds as the
domain is deep.  The triangle that contains a seed (of a hole or region) is found by a straight walk
from a nearby point (Devillers, Pion, Teillaud 2002).
O(m a(m)) for m triangles and O(sqrt(m)) for each seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.triangulation.half_edges import HULL, behind, half_edge
from morph.algorithms.triangulation.kept import KeptTables
from morph.algorithms.triangulation.segments import NO_CHORD, exit_edge, first_edge
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_max, bool_, f64, i32, orient2d
from morph.runtime.arrays import all_true, any_true

SAMPLE = 1000  # points at which walks may begin
SEED: dict[str, Any] = {
    "xy": vec(f64, 2), "start": Ref("points"), "triangle": Ref("triangles"), "on_segment": bool_,
}  # fmt: skip

# --- parts ---------------------------------------------------------------------------------------


@kernel
def unite(t, g, parts):
    for k in range(3):
        if t.opposite[k] >= 0:
            parts.union(t, g.triangles[t.opposite[k] >> 2])


@kernel
def mark_exterior(t, parts):
    """Mark parts that extend to an edge of the hull that no input segment contains."""
    for k in range(3):
        if t.opposite[k] == HULL and t.chord[k] == NO_CHORD:
            part = parts.find(t)
            part.outside = True  # race: the same value


@kernel
def mark_hole(seed, parts):
    if seed.triangle is not None:
        part = parts.find(seed.triangle)
        part.hole = True  # race: the same value


@kernel
def mark_region(seed, parts):
    if seed.triangle is not None:
        atomic_max(parts.find(seed.triangle).region, i32(seed))


@kernel
def copy_labels(t, parts):
    part = parts.find(t)
    t.outside = part.outside  # race: the representative, which others read, writes its own value
    t.hole = part.hole  # race: likewise
    t.region = part.region  # race: likewise


@program
def label_parts(g, parts, holes, regions, hull):
    """Label each triangle as its part is: outside, in a hole, in a region."""
    foreach(g.triangles, unite, g, parts)
    if not hull:
        foreach(g.triangles, mark_exterior, parts)
    foreach(holes, mark_hole, parts)
    foreach(regions, mark_region, parts)
    foreach(g.triangles, copy_labels, parts)


# --- seeds ---------------------------------------------------------------------------------------


@func
def beyond(a, v, x):
    """Whether x lies farther from a than v does, where the three are on one ray from a."""
    if x.x != a.x:
        return x.x != v.x and (x.x > v.x) == (x.x > a.x)
    return x.y != v.y and (x.y > v.y) == (x.y > a.y)


@func
def has_constrained_edge(g, a):
    """Whether a constrained edge ends at point a."""
    t, k = g.triangles[a.half_edge >> 2], a.half_edge & 3
    while True:
        o = t.opposite[(k + 1) % 3]
        if o < 0:
            return True
        t, k = g.triangles[o >> 2], ((o & 3) + 1) % 3
        if half_edge(t, k) == a.half_edge:
            return False


@func
def is_on_segment(g, t, x):
    """Whether x, in triangle t, lies on a constrained edge or at an end of one."""
    for k in range(3):
        a, b, c = t.node[k], t.node[(k + 1) % 3], t.node[(k + 2) % 3]
        if a.xy.x == x.x and a.xy.y == x.y:
            return has_constrained_edge(g, a)
        if t.opposite[k] < 0 and orient2d(b.xy, c.xy, x) == 0:
            return True
    return False


@kernel
def walk_to_seed(seed, g):
    """Find the triangle that contains a seed, if one does, by a straight walk from its start."""
    x = seed.xy
    a = seed.start
    edge = i32(-1)  # the edge to cross; -1 at point a
    triangle = i32(-1)
    while triangle < 0:
        if edge < 0:
            edge, v = first_edge(g, a, x)
            if edge < 0:
                return
            if v is not None:
                if beyond(a.xy, v.xy, x):
                    a = v
                    edge = -1
                else:
                    triangle = edge >> 2
        else:
            t, k = g.triangles[edge >> 2], edge & 3
            if orient2d(t.node[(k + 1) % 3].xy, t.node[(k + 2) % 3].xy, x) >= 0:
                triangle = edge >> 2
            elif t.opposite[k] == HULL:
                return
            else:
                o = behind(t.opposite[k])
                v = g.triangles[o >> 2].node[o & 3]
                side = orient2d(a.xy, x, v.xy)
                if side != 0:
                    edge = exit_edge(o, side)
                elif beyond(a.xy, v.xy, x):
                    a = v
                    edge = -1
                else:
                    triangle = o >> 2
    seed.triangle = g.triangles[triangle]
    seed.on_segment = is_on_segment(g, g.triangles[triangle], x)


def find_seeds(g: Graph, name: str, xy: Any) -> Table:
    """Locate seeds: ``triangle``, or None if it is outside.

    Raises
    ------
    ValueError
        If a seed lies on a constrained edge.
    """
    seeds = KeptTables.of(g).add_table(name, **SEED)
    if not len(xy):
        return seeds
    host = g.device.to_host
    step = -(-len(g.triangles) // SAMPLE)
    with g.device.active():
        chosen = g.triangles.node.array[::step, 0]
        sample, points = host(chosen), host(g.points.xy.array[chosen])
    start = [sample[_nearest(points, x)] for x in xy]
    seeds.extend(xy=xy, start=np.array(start, np.int32))
    foreach(seeds, walk_to_seed, g)
    wrong = np.flatnonzero(host(seeds.on_segment.array))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"{name}[{row}] = {xy[row].tolist()}: it lies on a segment or on the hull")
    return seeds


def _nearest(points: Any, x: Any) -> int:
    """Row of the point at the least distance from x, the greater difference of the two."""
    with np.errstate(over="ignore"):
        return int(np.abs(points - x).max(axis=1).argmin())


def remove_exterior(g: Graph, holes: Any, regions: Any, hull: bool) -> tuple[Any, Any]:
    """Find which triangles are in the domain, and in which region.

    Parameters
    ----------
    g : Graph
        As `insert_segments` leaves it.
    holes, regions : (h, 2) and (r, any) float64 arrays
        Seeds; those outside of the triangulation have no effect.
    hull : bool
        Whether everything inside the hull, but for the holes, is in the domain.

    Returns
    -------
    kept : (m,) bool array of the device, or None
        None if all are in the domain.
    region : (k,) int32 array on the host
        Of each triangle in the domain the row of ``regions``, the last one that names its part, or
        -1; empty if there are no regions.

    Raises
    ------
    ValueError
        If a hole or region lies on a constrained edge, or nothing is left.
    """
    kept_tables = KeptTables.of(g)
    kept_tables.attach(g.triangles, outside=(bool_, False), hole=(bool_, False), region=(i32, -1))
    parts = kept_tables.set("parts", g.triangles)
    seeds = [find_seeds(g, *given) for given in (("holes", holes), ("regions", regions[:, :2]))]
    label_parts(g, parts, *seeds, hull)
    outside, hole, region = (
        getattr(g.triangles, name).array for name in ("outside", "hole", "region")
    )
    with g.device.active():
        kept = ~hole if all_true(outside) else ~(hole | outside)  # open lines enclose nothing
        if not any_true(kept):
            why = "the holes reach all of the domain"
            if not all_true(hole):
                why = "the segments enclose holes only; hull=True keeps the convex hull"
            raise ValueError(f"every triangle is carved away: {why}")
        kept = None if all_true(kept) else kept
        named = region[slice(None) if kept is None else kept] if len(regions) else region[:0]
    return kept, g.device.to_host(named)
