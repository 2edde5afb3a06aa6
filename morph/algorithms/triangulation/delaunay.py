"""Delaunay triangulation of points: no point lies inside the circumcircle of a triangle.

Points are inserted in parallel (`insertion`), in rounds that double (`hilbert`), into a
triangulation closed at infinity, whose ghosts are dropped at the end.  Signs are exact, so it is
right for points of any finite size; polygons of points on one circle are cut up in some way.

O(n log n) expected for any points; O(log n) rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.triangulation.hilbert import along_curve, rounds, spread
from morph.algorithms.triangulation.insertion import ghost_side, insert_all, insert_in_turn
from morph.data.collection import Collection
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import available_threads, foreach, func, kernel
from morph.prelude import atomic_min, f64, i32, orient2d, vector
from morph.runtime.device import Device
from morph.runtime.device import device as find_device

HULL = -(2**31)  # the twin of an edge that has nothing behind it
TEAM = 4  # threads that claim triangles are faster than one that need not, from here on
ALONE = 2**14  # points inserted one after another, before there is room for a CPU's threads
FEW = 6  # rounds, of 32 points, before there is room for a GPU's
PIECE = 2**15  # points that one item inserts: an interrupt waits for its end
BATCH = 1024  # items that a CPU thread has under way at once
APART = 16  # how far apart they lie in the order, lest neighbours want the same triangles

# --- the first triangle --------------------------------------------------------------------------


@kernel
def find_second(p, a, start):
    if p.id < start.second:
        if p.xy.x != a.xy.x or p.xy.y != a.xy.y:
            atomic_min(start.second, i32(p.id))


@kernel
def find_third(p, a, start, g):
    if p.id < start.third:
        if orient2d(a.xy, g.points[start.second].xy, p.xy) != 0:
            atomic_min(start.third, i32(p.id))


@kernel
def make_first(start, a, g):
    """The first triangle, and the ghosts behind its sides."""
    b, c = g.points[start.second], g.points[start.third]
    if orient2d(a.xy, b.xy, c.xy) < 0:
        b, c = c, b
    t, u = 2 * i32(a), 2 * i32(a) + 1
    v, w = 2 * i32(b), 2 * i32(b) + 1
    g.triangles[t].node = vector(a, b, c)
    g.triangles[t].twin = vector(4 * u, 4 * v, 4 * w)
    g.triangles[u].node = vector(None, c, b)
    g.triangles[u].twin = vector(4 * t, 4 * w + 2, 4 * v + 1)
    g.triangles[v].node = vector(None, a, c)
    g.triangles[v].twin = vector(4 * t + 1, 4 * u + 2, 4 * w + 1)
    g.triangles[w].node = vector(None, b, a)
    g.triangles[w].twin = vector(4 * t + 2, 4 * v + 2, 4 * u + 1)
    a.at = g.triangles[t]
    b.at = g.triangles[t]
    c.at = g.triangles[t]


# --- the result ----------------------------------------------------------------------------------


@kernel
def cut_off(t, g, ghosts):
    """Collect the ghosts, and rows not in use; what is before a ghost is the hull."""
    side = ghost_side(t)
    if side >= 0:
        ghosts.add(t)
        if side < 3:
            edge = t.twin[side]
            g.triangles[edge >> 2].twin[edge & 3] = HULL


@func
def moved(edge, end, places):
    """The code of an edge, of a triangle that may move from beyond the end."""
    row = edge >> 2
    return edge if row < end else 4 * places[row - end].goal + (edge & 3)


@kernel
def renumber(t, end, places):
    """Name corners as the input does, and neighbours by where they will be."""
    a, b, c = t.node
    if a is not None and b is not None and c is not None:
        d, e, f = t.twin
        t.node = vector(a.parent, b.parent, c.parent)
        t.twin = vector(moved(d, end, places), moved(e, end, places), moved(f, end, places))


@kernel
def move(entry):
    entry.goal.node = entry.item.node
    entry.goal.twin = entry.item.twin


def delaunay_tables(points: Any, device: str | Device = "auto") -> Graph:
    """Triangulate points, and leave the result in tables on the device.

    Parameters
    ----------
    points : (n, 2) array of float64, NumPy's or CuPy's
        At least three, finite, not all on one line.  Of any magnitude.
    device : str or Device

    Returns
    -------
    Graph
        ``points``: ``xy``, row i is point i of the input; ``same``, the first point with the same
        coordinates if that is another one, else None.  A point with a ``same`` is no corner.

        ``triangles``: ``node``, three rows of ``points``, counter-clockwise, and ``twin``, i32[3],
        packed into one record.  Side k is opposite corner k and runs from ``node[k + 1]`` to
        ``node[k + 2]``; ``twin[k]`` is 4 * triangle + side of the same edge seen from the triangle
        behind it, -2**31 at the hull.  The triangles fill the convex hull; every row is in use,
        neighbours in space mostly in near rows.  The triangulation is Delaunay, exactly; of points
        on one circle it is one of the possible ones.

    Raises
    ------
    ValueError
        If there are fewer than three points, one is not finite, all lie on one line, or there are
        more than 2**28.
    """
    where = find_device(device)
    xy = where.asarray(points, np.float64)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"points: shape {xy.shape}, expected (n, 2)")
    n = len(xy)
    if not 3 <= n <= 2**28:
        raise ValueError(f"points: {n}, but from 3 to 2**28 can be triangulated")
    xp = where.xp
    with where.active():
        if not xp.isfinite(xy).all():
            bad = xp.flatnonzero(~xp.isfinite(xy).all(axis=1))
            raise ValueError(f"points: point {int(bad[0])} is at {xy[int(bad[0])].tolist()}")
    g = Graph(where)
    g.points.add("xy", vec(f64, 2))
    g.points.extend(xy=xy)
    order = along_curve(g.points)
    levels, parent = rounds(where, n)
    g.points.add("parent", Ref("points"))
    g.add_table("triangles", node=Ref("points")[3], twin=(i32, 3))
    g.triangles.pack("node", "twin")
    g.triangles.extend(2 * n)
    g.points.add("at", Ref("triangles"))
    with where.active():
        g.points.xy.array[:] = xp.take(xy, order, axis=0)
        g.points.parent.array[:] = parent
    start = Table("start", where, second=i32, third=i32)
    start.extend(1, second=n, third=n)
    root = g.points[int(levels[0][0])]
    foreach(g.points, find_second, root, start[0])
    if start[0].second < n:
        foreach(g.points, find_third, root, start[0], g)
    if start[0].third == n:
        raise ValueError("points: all lie on one line")
    foreach(start, make_first, root, g)
    copies = Collection(g.points, capacity=n, of=Ref(g.points))
    _insert(g, levels, copies, start)
    _name_corners(g, order, copies)
    _drop_ghosts(g)
    g.points.xy[:] = xy
    for name in ("parent", "at"):
        g.points.drop(name)
    return g


def _insert(g: Graph, levels: list[Any], copies: Collection, one: Table) -> None:
    """Insert all points, as many at once as there is room and are threads for."""
    where, n = g.device, len(g.points)
    join = where.xp.concatenate
    team = available_threads()
    if where.interprets or not where.on_host:
        few, lists = FEW, levels[FEW:]
    elif team == 1:
        few, lists = 0, [join(levels)]
    else:
        few = sum(team < TEAM or len(level) <= ALONE // 2 for level in levels)
        rest = [spread(level, BATCH * team, APART) for level in levels[few:]]
        lists = [join(rest)] if rest else []
    with where.active():
        work, again, large = (Collection(g.points, capacity=c) for c in (n, n, 0))
        early = join(levels[:few]) if few else work.items
        for start in range(0, len(early), PIECE):
            work.clear()
            work.extend(early[start : start + PIECE])
            foreach(one, insert_in_turn, g, work, copies)
        for items in lists:
            work.clear()
            work.extend(items)
            insert_all(g, work, again, large, copies, one)


def _name_corners(g: Graph, order: Any, copies: Collection) -> None:
    """Let ``parent`` be each point's row in the input, the first of those with its coordinates."""
    where = g.device
    xp = where.xp
    g.points.add("same", Ref("points"))
    with where.active():
        name = order.astype(np.int32)
        if len(copies):
            later, corner = copies.items, copies.of.array
            rows = xp.concatenate([order[later], order[corner]])
            xp.minimum.at(name, corner, name[later])
            first = name[xp.concatenate([corner, corner])]
            g.points.same.array[rows] = xp.where(first == rows, -1, first)
        g.points.parent.array[:] = name


def _drop_ghosts(g: Graph) -> None:
    """Number corners as the input does, and let the last triangles take the rows of ghosts."""
    where = g.device
    xp = where.xp
    rows = len(g.triangles)
    ghosts = Collection(g.triangles, capacity=rows // 256 + 64)
    foreach(g.triangles, cut_off, g, ghosts)
    end = rows - len(ghosts)
    places = Table("places", where, goal=i32)
    places.extend(len(ghosts))
    moves = Collection(g.triangles, goal=Ref(g.triangles))
    with where.active():
        unused = xp.sort(ghosts.items)
        stays = xp.ones(rows - end, np.bool_)
        stays[unused[unused >= end] - end] = False
        last = xp.flatnonzero(stays).astype(np.int32)
        free = unused[unused < end]
        places.goal.array[last] = free
        moves.extend(last + end, goal=free)
    foreach(g.triangles, renumber, end, places)
    foreach(moves, move)
    g.triangles.truncate(end)
