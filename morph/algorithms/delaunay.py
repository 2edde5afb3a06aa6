"""Delaunay triangulation of points: no point lies inside the circumcircle of a triangle.

Points are inserted in parallel (Bowyer 1981; Watson 1981): walk to the triangle that holds the
point, collect the *cavity*, all triangles whose circle holds it, and put a fan around the point in
its place.  An item claims its cavity with ``single`` and guards the ring around it; losers come
again.  The plane is closed by one point at infinity, None: behind each hull edge lies a *ghost*
triangle whose circle is the half-plane beyond (Guibas, Stolfi 1985), so that no point is outside.
Rounds, and where walks begin: `morph.algorithms.hilbert`.  Signs are exact; polygons of points on
one circle are cut up in some way.

O(n log n) expected for any points; O(log n) rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.hilbert import along_curve, rounds
from morph.collect import Collection
from morph.device import Device
from morph.device import device as find_device
from morph.dtypes import Ref, vec
from morph.graph import Graph
from morph.kernel import foreach, func, kernel, program
from morph.prelude import atomic_min, f64, i32, incircle, local, orient2d, single, vector
from morph.table import Table

HULL = -(2**31)  # the twin of an edge that has nothing behind it
LIMIT = 120  # triangles of a cavity that an item holds; larger ones are dug by flips

# --- geometry ------------------------------------------------------------------------------------


@func
def beyond(u, v, x):
    """Whether x lies left of the hull edge seen from outside, or inside of the edge itself."""
    side = orient2d(u, v, x)
    if side != 0:
        return side > 0
    if u.x != v.x:
        return min(u.x, v.x) < x.x and x.x < max(u.x, v.x)
    return min(u.y, v.y) < x.y and x.y < max(u.y, v.y)


@func
def circle_holds(t, x):
    """Whether x lies inside the circumcircle of triangle t."""
    a, b, c = t.node
    if a is None:
        return beyond(b.xy, c.xy, x)
    if b is None:
        return beyond(c.xy, a.xy, x)
    if c is None:
        return beyond(a.xy, b.xy, x)
    return incircle(a.xy, b.xy, c.xy, x) > 0


@func
def ghost_side(t):
    """The side of a ghost that is a hull edge; -1 of a triangle, 3 of a row not in use."""
    a, b, c = t.node
    if a is None:
        return 3 if b is None else 0
    return 1 if b is None else (2 if c is None else -1)


# --- insertion -----------------------------------------------------------------------------------


@func
def after(side):
    return 0 if side == 2 else side + 1


@func
def locate(g, p):
    """Walk to the triangle that holds p, or to a ghost whose hull edge p lies beyond."""
    x = p.xy
    q = p.parent
    while q.at is None:  # it has lost, too
        q = q.parent
    t = q.at
    came = ghost_side(t)
    if came >= 0:
        t = g.triangles[t.twin[came] >> 2]
        came = -1
    while True:
        a, b, c = t.node
        if a is None or b is None or c is None:
            return t
        if came != 0 and orient2d(b.xy, c.xy, x) < 0:
            edge = t.twin[0]
        elif came != 1 and orient2d(c.xy, a.xy, x) < 0:
            edge = t.twin[1]
        elif came != 2 and orient2d(a.xy, b.xy, x) < 0:
            edge = t.twin[2]
        else:
            return t
        t = g.triangles[edge >> 2]
        came = edge & 3


@func
def vertex_at(t, x):
    """The corner of t that lies at x, or None."""
    found = None
    for q in t.node:
        if q is not None:
            if q.xy.x == x.x and q.xy.y == x.y:
                found = q
    return found


@func
def grow_cavity(g, x, seed, cavity, rim, begin, ring):
    """Collect the triangles whose circle holds x; false if there are too many.

    Around them, counter-clockwise: the edges as seen from outside, where each begins, the
    triangles behind.
    """
    stack = local(i32, 128)
    cavity.add(seed)
    stack.add(seed.twin[2])
    stack.add(seed.twin[1])
    stack.add(seed.twin[0])
    while stack.size > 0:
        edge = stack.pop()
        t = g.triangles[edge >> 2]
        side = edge & 3
        before = after(after(side))
        if circle_holds(t, x):
            if cavity.size >= LIMIT:
                return False
            cavity.add(t)
            stack.add(t.twin[before])
            stack.add(t.twin[after(side)])
        else:
            rim.add(edge)
            begin.add(t.node[before])
            ring.add(t)
    return True


@kernel
def insert(p, g, again, large):
    if p.at is not None:
        return
    x = p.xy
    seed = locate(g, p)
    same = vertex_at(seed, x)
    cavity = g.triangles.local(128)
    rim = local(i32, 128)
    begin = g.points.local(128)
    ring = g.triangles.local(128)
    if same is not None:
        p.at = seed
        p.same = same
        atomic_min(same.first, p.input)
    elif not grow_cavity(g, x, seed, cavity, rim, begin, ring):
        large.add(p)
    else:
        cavity.add(g.triangles[2 * p.id])  # two rows that wait for p
        cavity.add(g.triangles[2 * p.id + 1])
        if single(cavity, guard=ring):
            size = rim.size
            before = cavity[size - 1]
            t = cavity[0]
            a = begin[0]
            for i in range(size):
                last = i + 1 == size
                b = begin[0] if last else begin[i + 1]
                next = cavity[0] if last else cavity[i + 1]
                edge = rim[i]
                t.node = vector(p, a, b)
                t.twin = vector(edge, 4 * i32(next) + 2, 4 * i32(before) + 1)
                g.triangles[edge >> 2].twin[edge & 3] = 4 * i32(t)
                before = t
                t = next
                a = b
            p.at = t
            if p.parent.at is not None:  # else it is not inserted yet
                p.parent.at = t
        else:
            again.add(p)


@kernel
def insert_large(one, g, large):
    """Insert points of large cavities one by one: split a triangle, then flip (Lawson 1977)."""
    for p in large:
        x = p.xy
        t = locate(g, p)
        same = vertex_at(t, x)
        p.at = t
        if same is not None:
            p.same = same
            atomic_min(same.first, p.input)
        else:
            split(t, p, g.triangles[2 * p.id], g.triangles[2 * p.id + 1], g)
            first = t.node[1]
            while True:
                edge = t.twin[0]
                if circle_holds(g.triangles[edge >> 2], x):
                    flip(t, edge, p, g)
                else:
                    t = g.triangles[t.twin[1] >> 2]
                    if t.node[1] == first:
                        break


@func
def write(t, p, a, b, outer, next, before, g):
    """Make t the triangle of p and ab, with edge ``outer`` behind ab, in the fan around p."""
    t.node = vector(p, a, b)
    t.twin = vector(outer, 4 * i32(next) + 2, 4 * i32(before) + 1)
    g.triangles[outer >> 2].twin[outer & 3] = 4 * i32(t)


@func
def split(t, p, u, v, g):
    """Cut triangle t into three around p, the others in rows u and v."""
    a, b, c = t.node
    side_a, side_b, side_c = t.twin
    write(t, p, a, b, side_c, u, v, g)
    write(u, p, b, c, side_a, v, t, g)
    write(v, p, c, a, side_b, t, u, g)


@func
def flip(s, edge, p, g):
    """Turn the edge between s, of the fan around p, and what is behind, which joins the fan."""
    t = g.triangles[edge >> 2]
    side = edge & 3
    a, b, d = s.node[1], s.node[2], t.node[side]
    before, next = g.triangles[s.twin[2] >> 2], g.triangles[s.twin[1] >> 2]
    left, right = t.twin[after(side)], t.twin[after(after(side))]
    write(s, p, a, d, left, t, before, g)
    write(t, p, d, b, right, next, s, g)
    next.twin[2] = 4 * i32(t) + 1


@program
def insert_all(g, work, again, large, one):
    while not work.empty:
        foreach(work, insert, g, again, large)
        if not large.empty:
            foreach(one, insert_large, g, large)
            large.clear()
        work, again = again, work
        again.clear()


# --- the first triangle, and the last -------------------------------------------------------------


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


@kernel
def mark_real(t):
    t.rank = i32(ghost_side(t) < 0)


@kernel
def write_real(t, g, out):
    """Copy a triangle to its place among those of the result."""
    if t.rank >= 0:
        a, b, c = t.node
        made = out.triangles[t.rank]
        made.node = vector(out.points[a.first], out.points[b.first], out.points[c.first])
        made.twin = vector(
            renumbered(t.twin[0], g), renumbered(t.twin[1], g), renumbered(t.twin[2], g)
        )


@func
def renumbered(edge, g):
    place = g.triangles[edge >> 2].rank
    return HULL if place < 0 else 4 * place + (edge & 3)


@kernel
def tell_same(p, out):
    q = p if p.same is None else p.same
    if q.first != p.input:
        out.points[p.input].same = out.points[q.first]


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
        bad = xp.flatnonzero(~xp.isfinite(xy).all(axis=1))
        if len(bad):
            raise ValueError(f"points: point {int(bad[0])} is at {xy[int(bad[0])].tolist()}")
        order = along_curve(where, xy)
        levels, parent = rounds(where, n)
        g = Graph(where)
        g.points.add("xy", vec(f64, 2))
        g.points.add("parent", Ref("points"))
        g.points.add("input", i32)  # row of the input
        g.points.add("first", i32)  # the least one of those with the same coordinates
        g.points.add("same", Ref("points"))
        g.add_table("triangles", node=Ref("points")[3], twin=(i32, 3), rank=i32)
        g.triangles.pack("node", "twin")
        g.points.add("at", Ref("triangles"))
        order = order.astype(np.int32)
        g.points.extend(xy=xy[order], parent=parent, input=order, first=order)
        g.triangles.extend(2 * n)
    start = Table("start", where, second=i32, third=i32)
    start.extend(1, second=n, third=n)
    root = g.points[int(levels[0][0])]
    foreach(g.points, find_second, root, start[0])
    if start[0].second < n:
        foreach(g.points, find_third, root, start[0], g)
    if start[0].third == n:
        raise ValueError("points: all lie on one line")
    foreach(start, make_first, root, g)
    work, again, large = (Collection(g.points, capacity=c) for c in (n, n, 0))
    with where.active():
        work.extend(xp.concatenate(levels))
    insert_all(g, work, again, large, start)
    return _result(g, xy)


def _result(g: Graph, xy: Any) -> Graph:
    """The triangles that are no ghosts, their corners numbered as the input."""
    where = g.device
    xp = where.xp
    foreach(g.triangles, mark_real)
    with where.active():
        place = g.triangles.rank.array
        count = xp.cumsum(place, dtype=np.int32)
        m = int(count[-1])
        place[:] = xp.where(place > 0, count - 1, -1)
        out = Graph(where)
        out.points.add("xy", vec(f64, 2))
        out.points.add("same", Ref("points"))
        out.add_table("triangles", node=Ref("points")[3], twin=(i32, 3))
        out.triangles.pack("node", "twin")
        out.points.extend(xy=xy)
        out.triangles.extend(m)
    foreach(g.triangles, write_real, g, out)
    foreach(g.points, tell_same, out)
    return out
