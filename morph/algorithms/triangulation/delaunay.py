"""Delaunay triangulation of points: no point lies inside the circumcircle of a triangle.

Points are inserted in parallel (`insertion`), in rounds of doubling size (`insertion_order`), into
a triangulation closed at infinity, whose ghost triangles are dropped at the end.  Predicates are
exact, for coordinates of any finite size; cocircular points are triangulated in one of the possible
ways.

O(n log n) expected for any points; O(log n) rounds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.triangulation.half_edges import HULL
from morph.algorithms.triangulation.insertion import (
    MAX_CAVITY,
    ghost_side,
    insert_rounds,
    insert_sequentially,
)
from morph.algorithms.triangulation.insertion_order import (
    draw,
    insertion_rounds,
    order_by_keys,
    strided_blocks,
)
from morph.algorithms.triangulation.kept import KeptTables, initial_capacity
from morph.data.collection import Collection
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import available_threads, foreach, func, kernel, program
from morph.prelude import atomic_min, i32, i64, orient2d, u64, vector
from morph.runtime.arrays import all_true, refuse_masked, refuse_rounded
from morph.runtime.device import Device, device_for

TEAM = 4  # from so many threads on, claiming triangles is faster than one thread without claims
SEQUENTIAL = 2**14  # points inserted one after another, before several CPU threads find enough work
FIRST_ROUNDS = 6  # rounds, of 32 points, inserted one after another before a GPU's threads start
FEW = 2**8  # points that are not sorted: walks between them are shorter than the sort
CHUNK = 2**15  # points that one item inserts: it cannot be interrupted
BATCH = 1024  # items that a CPU thread gathers before it claims
STRIDE = 16  # their distance in the order, so that few compete for the same triangles

# --- the first triangle --------------------------------------------------------------------------


@kernel
def find_second(p, a, start):
    if p.id < start.second:
        if p.xy.x != a.xy.x or p.xy.y != a.xy.y:
            atomic_min(start.second, i32(p.id))


@kernel
def find_third(p, a, start, g):
    if p.id < start.third and start.second < len(g.points):
        if orient2d(a.xy, g.points[start.second].xy, p.xy) != 0:
            atomic_min(start.third, i32(p.id))


@kernel
def make_first(start, a, g):
    """The first triangle, and the ghosts behind its sides, unless all points lie on one line."""
    if start.third >= len(g.points):
        return
    b, c = g.points[start.second], g.points[start.third]
    if orient2d(a.xy, b.xy, c.xy) < 0:
        b, c = c, b
    t, u = 2 * i32(a), 2 * i32(a) + 1
    v, w = 2 * i32(b), 2 * i32(b) + 1
    g.triangles[t].node = vector(a, b, c)
    g.triangles[t].opposite = vector(4 * u, 4 * v, 4 * w)
    g.triangles[u].node = vector(None, c, b)
    g.triangles[u].opposite = vector(4 * t, 4 * w + 2, 4 * v + 1)
    g.triangles[v].node = vector(None, a, c)
    g.triangles[v].opposite = vector(4 * t + 1, 4 * u + 2, 4 * w + 1)
    g.triangles[w].node = vector(None, b, a)
    g.triangles[w].opposite = vector(4 * t + 2, 4 * v + 2, 4 * u + 1)
    a.triangle = g.triangles[t]
    b.triangle = g.triangles[t]
    c.triangle = g.triangles[t]


@program
def begin(g, order, start):
    """Draw the order; make a triangle of its first point, one elsewhere and one off their line.

    Returns whether there is such a point.
    """
    foreach(order, draw, g.points, len(order))
    a = g.points[order[0].point]
    foreach(g.points, find_second, a, start[0])
    foreach(g.points, find_third, a, start[0], g)
    foreach(start, make_first, a, g)
    return start[0].third < len(g.points)


# --- the result ----------------------------------------------------------------------------------


@kernel
def find_ghosts(t, g, ghosts):
    """List ghosts and unused rows; a side with a ghost behind it is on the hull."""
    side = ghost_side(t)
    if side >= 0:
        ghosts.new(triangle=i32(t))
        if side < 3:
            edge = t.opposite[side]
            g.triangles[edge >> 2].opposite[edge & 3] = HULL


@kernel
def list_unused(ghost, end, unused):
    """Collect the rows that are not in use, of those that the result has."""
    if ghost.triangle < end:
        unused.add(old_row=ghost.triangle)


@kernel
def list_last(t, last):
    """Collect the triangles in rows that the result does not have."""
    if ghost_side(t) < 0:
        last.add(old_row=i32(t))


@kernel
def place_unused(entry, ghosts):
    ghosts[i64(entry)].unused = entry.old_row


@kernel
def place_last(entry, ghosts, end):
    """These triangles are as many as the rows that are not in use."""
    ghosts[entry.old_row - end].new_row = ghosts[i64(entry)].unused


@func
def moved_half_edge(edge, end, ghosts):
    """The code of a half-edge after triangles from row ``end`` on have moved."""
    row = edge >> 2
    return edge if row < end else 4 * ghosts[row - end].new_row + (edge & 3)


@kernel
def renumber(t, end, ghosts):
    """Number corners as in the input, and neighbours by the rows they will have."""
    a, b, c = t.node
    if a is not None and b is not None and c is not None:
        d, e, f = t.opposite
        t.node = vector(a.parent, b.parent, c.parent)
        t.opposite = vector(
            moved_half_edge(d, end, ghosts),
            moved_half_edge(e, end, ghosts),
            moved_half_edge(f, end, ghosts),
        )


@kernel
def move(entry, g, ghosts, end):
    t = g.triangles[entry.old_row]
    new = g.triangles[ghosts[entry.old_row - end].new_row]
    new.node = t.node
    new.opposite = t.opposite


@program
def drop_ghosts(g, ghosts, unused, last):
    """Number corners as in the input, and move the last triangles to rows that are not in use.

    Returns the number of triangles.
    """
    foreach(g.triangles, find_ghosts, g, ghosts)
    end = i32(len(g.triangles) - len(ghosts))
    foreach(ghosts, list_unused, end, unused)
    foreach(g.triangles[end:], list_last, last)
    foreach(unused, place_unused, ghosts)
    foreach(last, place_last, ghosts, end)
    foreach(g.triangles, renumber, end, ghosts)
    foreach(last, move, g, ghosts, end)
    return end


def delaunay_tables(
    points: Any, device: str | Device | None = None, kept: KeptTables | None = None
) -> Graph:
    """Triangulate points, and leave the result in tables on the device.

    Parameters
    ----------
    points : (n, 2) array of float64, NumPy's or CuPy's
        At least three, finite, not all on one line.  Of any magnitude.
    device : str or Device, optional
        As of `triangulate`.
    kept : KeptTables, optional
        The tables, on the device; by default new ones.

    Returns
    -------
    Graph
        ``points``: ``xy``, row i is point i of the input; ``same``, the first point with the same
        coordinates if that is another one, else None.  A point with a ``same`` is no corner.

        ``triangles``: ``node``, three rows of ``points``, counter-clockwise, and ``opposite``,
        i32[3], packed into one record.  Side k is opposite corner k and runs from ``node[k + 1]``
        to ``node[k + 2]``; ``opposite[k]`` is 4 * triangle + side of the same edge in the triangle
        behind it, -2**31 at the hull.  The triangles fill the convex hull; every row is in use,
        neighbours in space mostly in near rows.  The triangulation is Delaunay, exactly; of points
        on one circle it is one of the possible ones.

    Raises
    ------
    ValueError
        If there are fewer than three points, one is not finite, all lie on one line, or there are
        more than 2**28.
    """
    where = device_for(device, points, otherwise="auto")
    refuse_masked(points, "points")
    xy = where.asarray(points)
    if xy.dtype.kind not in "iuf":
        raise ValueError(f"points must hold real numbers, got {xy.dtype}")
    refuse_rounded(xy, "points", np.float64, points)
    xy = xy.astype(np.float64, copy=False)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"points: shape {xy.shape}, expected (n, 2)")
    n = len(xy)
    if not 3 <= n <= 2**28:
        raise ValueError(f"points: {n}, but from 3 to 2**28 can be triangulated")
    xp = where.xp
    with where.active():
        if not all_true(xp.isfinite(xy)):
            bad = xp.flatnonzero(~xp.isfinite(xy).all(axis=1))
            raise ValueError(f"points: point {int(bad[0])} is at {xy[int(bad[0])].tolist()}")
    kept = KeptTables(where, False) if kept is None else kept
    g = kept.begin()
    g.points.extend(xy=xy)
    along = _sort(g, kept)
    order = kept.table("order", point=i32)
    order.extend(n)
    g.triangles.extend(2 * n)
    kept.attach(g.points, parent=(Ref("points"), None), triangle=(Ref("triangles"), None))
    start = kept.table("start", second=i32, third=i32, begin=i32, level=i32)
    plan = _plan(where, n)
    start.extend(1, second=n, third=n, begin=plan.begin, level=plan.level)
    if not begin(g, order, start):
        raise ValueError("points: all lie on one line")
    duplicates = kept.list("duplicates", g.points, n, of=Ref(g.points))
    _insert(g, order, duplicates, start, plan)
    _name_corners(g, along, duplicates)
    _drop_ghosts(g)
    if n > FEW:
        g.points.xy[:] = xy
    kept.detach(g.points, "parent", "triangle")
    return g


def _sort(g: Graph, kept: KeptTables) -> Any:
    """Sort points along a curve, unless they are few; return the row of each in the input."""
    n, where = len(g.points), g.device
    if n <= FEW:
        with where.active():
            return where.xp.arange(n)
    kept.attach(g.points, key=(u64, 0))
    along = order_by_keys(g.points)
    kept.detach(g.points, "key")
    with where.active():
        g.points.xy.array[:] = where.xp.take(g.points.xy.array, along, axis=0)
    return along


class Plan(NamedTuple):
    """How points are inserted.

    Attributes
    ----------
    ends : list of int
        The end of each round.
    team : int
        Threads for which points are reordered.
    begin : int
        Points of early rounds, which one thread inserts one after another.
    level : int
        Rounds that are left then.
    """

    ends: list[int]
    team: int
    begin: int
    level: int


def _plan(where: Device, n: int) -> Plan:
    """Choose which of the rounds of n points one thread inserts."""
    team, ends = available_threads(), insertion_rounds(n)
    rounds = pairwise([0, *ends])
    joined = 0  # rounds that are too short for a list of their own
    if where.interprets or not where.on_host:
        early, team = FIRST_ROUNDS, 1
    elif team == 1:
        early, joined = 0, sum(b - a <= MAX_CAVITY for a, b in rounds)
    else:
        early = sum(team < TEAM or b - a <= SEQUENTIAL // 2 for a, b in rounds)
    begin = ends[min(early, len(ends)) - 1] if early else 0
    return Plan(ends, team, begin, len(ends) - max(early, joined - 1))


def _insert(
    g: Graph, order: Table, duplicates: Collection, start: Table, plan: Plan
) -> None:  # fmt: skip
    """Insert all points: those of early rounds by one thread, those of later rounds in parallel.

    One thread also inserts the points with large cavities, before the next round begins.
    """
    n, begin, points = len(g.points), plan.begin, order.point.array
    for a, b in pairwise(plan.ends) if plan.team > 1 else ():
        if a >= begin:
            points[a:b] = strided_blocks(points[a:b], BATCH * plan.team, STRIDE)
    many = initial_capacity(g.device, n)
    work, retry, large = KeptTables.of(g).lists(g.points, work=n, retry=n, large=many)
    for first in range(0, begin, CHUNK):
        work.extend(points[first : min(begin, first + CHUNK)])
        foreach(start, insert_sequentially, g, work, duplicates)
        work.clear()
    while begin < n:
        if not insert_rounds(g, order, start[0], work, retry, large, duplicates):
            return
        foreach(start, insert_sequentially, g, large, duplicates)
        large.clear()
        if work.empty:  # the program has swapped them
            work, retry = retry, work


def _name_corners(g: Graph, along: Any, duplicates: Collection) -> None:
    """Let ``parent`` be each point's row in the input, the first of those with its coordinates."""
    where = g.device
    xp = where.xp
    with where.active():
        name = along.astype(np.int32)
        if len(duplicates):
            later, corner = duplicates.items, duplicates.of.array
            rows = xp.concatenate([along[later], along[corner]])
            xp.minimum.at(name, corner, name[later])
            first = name[xp.concatenate([corner, corner])]
            g.points.same.array[rows] = xp.where(first == rows, -1, first)
        g.points.parent.array[:] = name


def _drop_ghosts(g: Graph) -> None:
    """Remove ghosts and rows not in use."""
    kept, rows = KeptTables.of(g), len(g.triangles)
    few = rows // (8 if g.device.on_host else 256) + 64
    ghosts = kept.table("ghosts", few, triangle=i32, unused=i32, new_row=i32)
    unused, last = (kept.list(name, capacity=few, old_row=i32) for name in ("unused", "last"))
    g.triangles.truncate(drop_ghosts(g, ghosts, unused, last))
