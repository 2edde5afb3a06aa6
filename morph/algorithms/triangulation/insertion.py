"""Insertion of points into a Delaunay triangulation, in parallel.

The *cavity* of a point, all triangles whose circumcircle contains it, is replaced by a fan around
it (Bowyer 1981; Watson 1981).  An item walks to the triangle that contains its point (Devillers,
Pion, Teillaud 2002), collects the cavity, claims it with ``single`` and guards the neighbour
triangles; items whose claim fails are enqueued again.  A point with a large cavity is inserted
later, by one thread, and its fan is made by flips (Lawson 1977), which need no memory.

The plane is closed by one point at infinity, None: behind each hull edge is a *ghost* triangle
whose circle is the half-plane beyond (Guibas, Stolfi 1985), so that no point is outside.  Then an
insertion always adds two triangles, for which rows 2 p and 2 p + 1 are reserved: nothing is
allocated, and triangles near in space are near in memory.

Tables: ``points`` with ``xy``, ``parent`` (a near one inserted before) and ``triangle`` (one near
it, None until it is inserted); ``triangles`` with ``node`` and ``opposite``.
"""

from __future__ import annotations

from morph.algorithms.triangulation.half_edges import next_side, previous_side
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import i32, incircle, local, orient2d, single, vector

MAX_CAVITY = 60  # triangles in a cavity that an item replaces; with the two new rows 62

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
def in_circle(t, x):
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
def containing_triangle(g, p):
    """Walk to the triangle that contains p, or to a ghost whose hull edge p lies beyond."""
    x = p.xy
    q = p.parent
    while q.triangle is None:  # not inserted yet, either
        q = q.parent
    t = q.triangle
    entered = ghost_side(t)
    if entered >= 0:
        t = g.triangles[t.opposite[entered] >> 2]
        entered = -1
    while True:
        a, b, c = t.node
        if a is None or b is None or c is None:
            return t
        if entered != 0 and orient2d(b.xy, c.xy, x) < 0:
            edge = t.opposite[0]
        elif entered != 1 and orient2d(c.xy, a.xy, x) < 0:
            edge = t.opposite[1]
        elif entered != 2 and orient2d(a.xy, b.xy, x) < 0:
            edge = t.opposite[2]
        else:
            return t
        t = g.triangles[edge >> 2]
        entered = edge & 3


@func
def coincident_corner(t, x):
    """The corner of t that lies at x, or None."""
    found = None
    for q in t.node:
        if q is not None:
            if q.xy.x == x.x and q.xy.y == x.y:
                found = q
    return found


@func
def grow_cavity(g, x, seed, cavity, boundary, starts, neighbours):
    """Collect the triangles whose circumcircle contains x; false if there are too many.

    ``boundary``, ``starts`` and ``neighbours`` are the half-edges around them, counter-clockwise,
    their first vertices, and their triangles.
    """
    stack = local(i32, 64)
    cavity.add(seed)
    stack.add(seed.opposite[2])
    stack.add(seed.opposite[1])
    stack.add(seed.opposite[0])
    while stack.size > 0:
        edge = stack.pop()
        t = g.triangles[edge >> 2]
        side = edge & 3
        if in_circle(t, x):
            if cavity.size >= MAX_CAVITY:
                return False
            cavity.add(t)
            stack.add(t.opposite[previous_side(side)])
            stack.add(t.opposite[next_side(side)])
        else:
            boundary.add(edge)
            starts.add(t.node[previous_side(side)])
            neighbours.add(t)
    return True


@func
def fill_cavity(g, p, cavity, boundary, starts):
    """Replace the cavity by a fan around p."""
    size = boundary.size
    before = cavity[size - 1]
    t = cavity[0]
    a = starts[0]
    for i in range(size):
        j = 0 if i + 1 == size else i + 1
        next, b = cavity[j], starts[j]
        edge = boundary[i]
        t.node = vector(p, a, b)
        t.opposite = vector(edge, 4 * i32(next) + 2, 4 * i32(before) + 1)
        g.triangles[edge >> 2].opposite[edge & 3] = 4 * i32(t)
        before, t, a = t, next, b
    p.triangle = t
    q = p.parent
    # race: q may be inserted in this step; every triangle that is written is at q
    if q.triangle is not None:  # else it is not inserted yet
        q.triangle = t  # race: likewise


@kernel
def insert(p, g, retry, large, duplicates):
    if p.triangle is not None:
        return
    x = p.xy
    seed = containing_triangle(g, p)
    same = coincident_corner(seed, x)
    cavity = g.triangles.local(64)
    boundary = local(i32, 64)
    starts = g.points.local(64)
    neighbours = g.triangles.local(64)
    if same is not None:
        duplicates.add(p, same)
        p.triangle = seed  # race: walks to points whose parent is p start here or at an ancestor
    elif not grow_cavity(g, x, seed, cavity, boundary, starts, neighbours):
        large.add(p)
    else:
        cavity.add(g.triangles[2 * p.id])  # the two rows reserved for p
        cavity.add(g.triangles[2 * p.id + 1])
        if single(cavity, guard=neighbours):
            fill_cavity(g, p, cavity, boundary, starts)
        else:
            retry.add(p)


@kernel
def insert_sequentially(one, g, work, duplicates):
    """Insert points one after another."""
    for p in work:
        if p.triangle is None:
            seed = containing_triangle(g, p)
            same = coincident_corner(seed, p.xy)
            if same is None:
                insert_by_flips(g, p, seed)
            else:
                duplicates.add(p, same)
                p.triangle = seed


@func
def insert_by_flips(g, p, t):
    """Make the fan around p by flips."""
    split(t, p, g.triangles[2 * p.id], g.triangles[2 * p.id + 1], g)
    first = t.node[1]
    while True:
        edge = t.opposite[0]
        if in_circle(g.triangles[edge >> 2], p.xy):
            flip(t, edge, p, g)
        else:
            t = g.triangles[t.opposite[1] >> 2]
            if t.node[1] == first:
                break
    p.triangle = t


@func
def write(t, p, a, b, outer, next, before, g):
    """Make t the triangle of p and ab, with edge ``outer`` behind ab, in the fan around p."""
    t.node = vector(p, a, b)
    t.opposite = vector(outer, 4 * i32(next) + 2, 4 * i32(before) + 1)
    g.triangles[outer >> 2].opposite[outer & 3] = 4 * i32(t)


@func
def split(t, p, u, v, g):
    """Cut triangle t into three around p, the others in rows u and v."""
    a, b, c = t.node
    side_a, side_b, side_c = t.opposite
    write(t, p, a, b, side_c, u, v, g)
    write(u, p, b, c, side_a, v, t, g)
    write(v, p, c, a, side_b, t, u, g)


@func
def flip(s, edge, p, g):
    """Flip an edge of s, of the fan around p: the triangle behind the edge joins the fan."""
    t = g.triangles[edge >> 2]
    side = edge & 3
    a, b, d = s.node[1], s.node[2], t.node[side]
    before, next = g.triangles[s.opposite[2] >> 2], g.triangles[s.opposite[1] >> 2]
    left, right = t.opposite[next_side(side)], t.opposite[previous_side(side)]
    write(s, p, a, d, left, t, before, g)
    write(t, p, d, b, right, next, s, g)
    next.opposite[2] = 4 * i32(t) + 1


@kernel
def enqueue(entry, g, work):
    work.add(g.points[entry.point])


@program
def insert_rounds(g, order, progress, work, retry, large, duplicates):
    """Insert the points of ``order`` in rounds, until some have large cavities.

    The first ``progress.begin`` points are inserted or in ``work``, and the round ends there that
    has ``progress.level`` rounds behind it.  Walks begin at points of earlier rounds.  Returns
    whether some have large cavities.
    """
    begin = progress.begin
    level = progress.level
    while (begin < len(order) or not work.empty) and large.empty:
        level = level - 1 if work.empty else level
        end = i32(len(order)) + (i32(1) << level) - 1 >> level
        # no points unless a round begins: a branch would compile what follows twice
        foreach(order[begin:end], enqueue, g, work)
        begin = end
        foreach(work, insert, g, retry, large, duplicates)
        work, retry = retry, work
        retry.clear()
    progress.begin = begin
    progress.level = level
    return not large.empty
