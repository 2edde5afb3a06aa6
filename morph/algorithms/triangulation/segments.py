"""Constrained Delaunay triangulation: segments become edges of a Delaunay triangulation.

A segment that is no edge crosses a *channel* of triangles.  The channel is replaced by the Delaunay
triangulations of the two polygons at both sides of the segment, made top down: to a base edge
belongs the corner whose circle through its ends contains no other corner (Anglada 1997).  If the
triangulation was constrained Delaunay before, it is so again, without flips.

In parallel: each segment claims its channel with an atomic minimum of (round, priority); a segment
that owns all of it, and whose neighbour triangles no smaller key has claimed, retriangulates it in
place.  Priorities are a random permutation, so that few rounds are needed (Blelloch et al. 2012).
This terminates: the segment with the least key of a round is recovered up to the next point that
lies on it, or meets a constrained edge and is given up; points and edges are finite.  A channel may
have any length: its boundary is recorded in rows of a table, three more than edges crossed; each
channel is retriangulated once.  If no segments cross, the result does not depend on their order
(but for the diagonals of points on one circle), so few threads insert them one by one.

Predicates are exact.  A segment that passes through a point is split there.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.triangulation.half_edges import HULL, behind, half_edge
from morph.algorithms.triangulation.kept import KeptTables, initial_capacity
from morph.data.collection import Collection
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.sort import argsort
from morph.prelude import atomic_add, atomic_min, i32, i64, incircle, orient2d, static, vector

NO_CHORD = 2**31 - 1  # in column `chord`: no segment contains this edge
FIRST_KEY = 2**30 - 1  # keys of rounds decrease, so that newer claims win
UNCLAIMED = 2**62
FIRST_PART = 1000  # segments in the first part on a CPU; so few are inserted in any order
GROWTH = 3  # next part / segments inserted so far


# --- walking -------------------------------------------------------------------------------------


@func
def same_direction(a, x, v):
    """Whether v, on the line from a to x and not at a, lies on the side of x."""
    if x.x != a.x:
        return (v.x > a.x) == (x.x > a.x)
    return (v.y > a.y) == (x.y > a.y)


@func
def side_of(a, x, v):
    """The side of v on the line from a to x; most often v is at x, where signs are not computed."""
    if v.x == x.x and v.y == x.y:
        return i32(0)
    return orient2d(a, x, v)


@func
def first_edge(g, a, x):
    """The first edge that the ray from vertex a to x meets.

    Either the edge opposite a that it crosses, and None; or the edge from a that it runs along, and
    its other end; or -1, if it leaves the hull at a.
    """
    start = a.half_edge
    t, k = g.triangles[start >> 2], start & 3
    edge = i32(-1)
    end = None
    direction = i32(1)
    b, c = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
    first = side_of(a.xy, x, b.xy)
    right, left = first, i32(0)
    while edge < 0 and direction < 3:
        # the edge between a triangle and the one before is at the right of one, the left of other
        side = side_of(a.xy, x, c.xy if direction == 1 else b.xy)
        if direction == 1:
            left = side
        else:
            right = side
        if right == 0 and same_direction(a.xy, x, b.xy):
            edge = half_edge(t, (k + 2) % 3)
            end = b
        elif left == 0 and same_direction(a.xy, x, c.xy):
            edge = half_edge(t, (k + 1) % 3)
            end = c
        elif right < 0 and left > 0:
            edge = half_edge(t, k)
        else:
            o = t.opposite[(k + direction) % 3]
            if o == HULL:  # again from the start, clockwise
                direction += 1
                t, k = g.triangles[start >> 2], start & 3
                o = t.opposite[(k + 2) % 3]
                right = first
            if o == HULL:
                direction = i32(3)
            else:
                o = behind(o)
                t, k = g.triangles[o >> 2], ((o & 3) + direction) % 3
                b, c = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
                if direction == 1:
                    right = left
                else:
                    left = right
    return edge, end


@func
def cross_edge(g, a, b, edge):
    """Cross an edge from a to b: the half-edge behind, the vertex opposite, and its side of ab."""
    o = behind(g.triangles[edge >> 2].opposite[edge & 3])
    v = g.triangles[o >> 2].node[o & 3]
    side = i32(0) if v == b else orient2d(a.xy, b.xy, v.xy)
    return o, v, side


@func
def exit_edge(o, side):
    """The edge by which a walk leaves a triangle that it entered at o: right of a left vertex."""
    return (o & ~3) + ((o & 3) + (i32(1) if side > 0 else i32(2))) % 3


# --- preparation ---------------------------------------------------------------------------------


@kernel
def index_corners(t):
    for k in range(3):
        p = t.node[k]
        p.half_edge = half_edge(t, k)  # race: a corner of any triangle there will do
        atomic_add(p.degree, 1)


@kernel
def orient(s):
    if s.b.degree < s.a.degree:  # the first edge is searched around a, in time of its degree
        a = s.a
        s.a = s.b
        s.b = a
    s.now = s.a


@program
def index_and_orient(g):
    foreach(g.triangles, index_corners)
    foreach(g.chords, orient)


# --- a round -------------------------------------------------------------------------------------


@func
def constrain(g, edge, s):
    """Mark both sides of an edge; other items may do so at the same time."""
    t, k = g.triangles[edge >> 2], edge & 3
    atomic_min(t.chord[k], i32(s))
    if t.opposite[k] != HULL:
        o = behind(t.opposite[k])
        n = g.triangles[o >> 2]
        t.opposite[k] = ~o  # race: all write the same, and readers take either sign
        n.opposite[o & 3] = ~edge  # race: likewise
        atomic_min(n.chord[o & 3], i32(s))


@kernel
def follow_edges(s, g, remaining):
    """Mark edges that the segment runs along; enqueue it where it leaves them."""
    a = s.now
    edge, end = first_edge(g, a, s.b.xy)
    while end is not None:
        constrain(g, edge, s)
        if end == s.b:
            s.now = end
            return
        a = end
        edge, end = first_edge(g, a, s.b.xy)
    s.now = a
    s.first = edge
    remaining.add(s)


@kernel
def claim(s, g, round_key):
    """Claim the next channel of the segment."""
    key = i64(round_key) << 32 | i64(s.priority)
    edge = s.first
    atomic_min(g.triangles[edge >> 2].claim, key)
    side = i32(1)
    while side != 0 and g.triangles[edge >> 2].opposite[edge & 3] >= 0:
        o, v, side = cross_edge(g, s.now, s.b, edge)
        atomic_min(g.triangles[o >> 2].claim, key)
        edge = exit_edge(o, side)


@func
def uncontested(g, t, key):
    """Whether a triangle is claimed by this key, and no neighbour by a smaller one."""
    if t.claim != key:
        return False
    for k in range(3):
        if t.opposite[k] != HULL:
            if g.triangles[behind(t.opposite[k]) >> 2].claim < key:
                return False
    return True


@kernel
def check_claims(s, g, round_key, winners, retry, blocked, uncontended: static):
    """Check whether the segment owns its channel, and no smaller key has claimed a neighbour.

    ``uncontended``: no other segment of the round has claimed anything.
    """
    key = i64(round_key) << 32 | i64(s.priority)
    edge = s.first
    mine = uncontended or uncontested(g, g.triangles[edge >> 2], key)
    end = s.b
    met = i32(NO_CHORD)
    count = i32(0)
    side = i32(1)
    while side != 0 and met == NO_CHORD:
        t = g.triangles[edge >> 2]
        if t.opposite[edge & 3] < 0:
            met = t.chord[edge & 3]
        else:
            o, end, side = cross_edge(g, s.now, s.b, edge)
            mine = mine and (uncontended or uncontested(g, g.triangles[o >> 2], key))
            edge = exit_edge(o, side)
            count += 1
    s.count = count
    s.end = end
    s.met = met
    if met != NO_CHORD:
        blocked.add(s)
    elif mine:
        winners.add(s)
    else:
        retry.add(s)


@func
def record_edge(row, t, side):
    """Write an edge of the channel's boundary, and the side behind it, into a row."""
    row.vertex = t.node[(side + 1) % 3]
    row.opposite = t.opposite[side]
    row.chord = t.chord[side]
    row.edge = half_edge(t, side)


@func
def trace_boundary(s, g, boundary):
    """Record the boundary of a channel, counter-clockwise from the beginning of the segment.

    Edges at the right of the segment are added in front, edges at its left from the back.  Gives
    the place of the segment's end.
    """
    t, k = g.triangles[s.first >> 2], s.first & 3
    right, left = 1, boundary.size - 1
    record_edge(boundary[0], t, (k + 2) % 3)
    record_edge(boundary[left], t, (k + 1) % 3)
    boundary[0].old = t
    edge = s.first
    for i in range(s.count):
        o, v, side = cross_edge(g, s.now, s.b, edge)
        edge = exit_edge(o, side)
        t, k = g.triangles[o >> 2], o & 3
        boundary[i + 1].old = t
        if side <= 0:
            record_edge(boundary[right], t, (k + 1) % 3)
            right += 1
        if side >= 0:
            left -= 1
            record_edge(boundary[left], t, (k + 2) % 3)
    return right


@func
def pair_edges(g, boundary, key):
    """Find the edges that have the channel on both sides: each is twice in the boundary."""
    for i in range(boundary.size):
        g.triangles[boundary[i].edge >> 2].opposite[boundary[i].edge & 3] = i32(i)
    for row in boundary:
        if row.opposite != HULL:
            o = behind(row.opposite)
            if g.triangles[o >> 2].claim == key:
                row.mate = boundary[g.triangles[o >> 2].opposite[o & 3]]
        row.edge = -1


@func
def link_edge(g, row, t, side):
    """Make an edge of the boundary side ``side`` of triangle t."""
    t.chord[side] = row.chord
    constrained = row.opposite < 0
    here = half_edge(t, side)
    other = i32(-1)
    if row.mate is not None:  # the second of the two links both
        row.edge = here
        other = row.mate.edge
    elif row.opposite != HULL:
        other = behind(row.opposite)
    else:
        t.opposite[side] = HULL
    if other >= 0:
        t.opposite[side] = ~other if constrained else other
        g.triangles[other >> 2].opposite[other & 3] = ~here if constrained else here


@func
def push_polygon(row, end, triangle, base, below):
    """Put the polygon from a row to row ``end``, over a base edge, on the stack."""
    row.end = i32(end)
    row.triangle = triangle
    row.base = base
    row.below = i32(below)


@func
def corner_over(boundary, a, b, first, end):
    """The place of the corner of a polygon whose circle through ab contains no other corner."""
    best = first + 1
    for i in range(first + 2, end):
        if incircle(a.xy, b.xy, boundary[best].vertex.xy, boundary[i].vertex.xy) > 0:
            best = i32(i)
    return best


@func
def triangulate_polygons(s, g, boundary, right):
    """Triangulate the polygons at both sides of the segment, in the rows of the channel."""
    n = boundary.size
    push_polygon(boundary[right], n, boundary[1].old, ~half_edge(boundary[0].old, 2), -1)
    push_polygon(boundary[0], right, boundary[0].old, ~half_edge(boundary[1].old, 2), i32(right))
    used = 2
    top = i32(0)
    while top >= 0:
        low = boundary[top]
        first, end = top, low.end
        top = low.below
        a, b = boundary[end % n].vertex, low.vertex
        best = corner_over(boundary, a, b, first, end)
        c = boundary[best].vertex
        t = low.triangle
        t.node = vector(a, b, c)
        t.opposite[2] = low.base
        t.chord[2] = i32(s) if low.base < 0 else NO_CHORD
        a.half_edge = half_edge(t, 0)  # race: a corner of any triangle there will do
        b.half_edge = half_edge(t, 1)  # race: likewise
        c.half_edge = half_edge(t, 2)  # race: likewise
        for j in range(2):
            start = first if j == 0 else best
            stop = best if j == 0 else end
            if stop == start + 1:
                link_edge(g, boundary[start], t, j)
            else:
                child = boundary[used].old
                used += 1
                push_polygon(boundary[start], stop, child, half_edge(t, j), top)
                top = start
                t.opposite[j] = half_edge(child, 2)
                t.chord[j] = NO_CHORD


@kernel
def retriangulate(s, g, channel_edges, round_key, retry):
    """Replace the triangles of a channel that is the segment's own."""
    boundary = channel_edges.new_rows(s.count + 3)
    right = trace_boundary(s, g, boundary)
    pair_edges(g, boundary, i64(round_key) << 32 | i64(s.priority))
    triangulate_polygons(s, g, boundary, right)
    s.now = s.end
    if s.end != s.b:
        retry.add(s)


@program
def recover(g, channel_edges, work, retry, remaining, winners, blocked, round_key):
    """Insert the segments of ``work``; return the key of the round after the last one."""
    while not work.empty:
        foreach(work, follow_edges, g, remaining)
        foreach(remaining, claim, g, round_key)
        foreach(remaining, check_claims, g, round_key, winners, retry, blocked, False)
        foreach(winners, retriangulate, g, channel_edges, round_key, retry)
        work, retry = retry, work
        retry.clear()
        remaining.clear()
        winners.clear()
        round_key -= 1
    return round_key


@program
def recover_one_by_one(g, channel_edges, work, retry, remaining, winners, blocked, round_key):
    """The same, with a round for each segment."""
    foreach(work, follow_edges, g, retry)  # many segments are edges already
    work, retry = retry, work
    retry.clear()
    while not work.empty:
        i = i64(0)
        while i < len(work):
            foreach(work[i : i + 1], follow_edges, g, remaining)
            foreach(remaining, claim, g, round_key)
            foreach(remaining, check_claims, g, round_key, winners, retry, blocked, True)
            foreach(winners, retriangulate, g, channel_edges, round_key, retry)
            remaining.clear()
            winners.clear()
            round_key -= 1
            i += 1
        work, retry = retry, work
        retry.clear()
    return round_key


def insert_segments(g: Graph, ends: Any, one_by_one: bool = False) -> Collection:
    """Make edges of segments, in the tables of a Delaunay triangulation.

    Parameters
    ----------
    g : Graph
        As `delaunay_tables` leaves it.  ``triangles.opposite`` becomes the complement at edges that
        are constrained.  New are the table ``chords``, a row for each segment; ``triangles.chord``,
        for each side the least chord that runs along it or `NO_CHORD`; ``points.half_edge``, 4 *
        triangle + corner.
    ends : (s, 2) int32 array
        Rows of points that are corners.
    one_by_one : bool
        Whether one segment is inserted at a time, without claims.  Where segments cross, the order
        of insertion then decides which are blocked.

    Returns
    -------
    Collection
        The segments that meet a constrained edge, whose segment is ``met``.
    """
    point, triangle = Ref("points"), Ref("triangles")
    kept = KeptTables.of(g)
    kept.attach(g.triangles, chord=((i32, 3), NO_CHORD), claim=(i64, UNCLAIMED))
    kept.attach(g.points, half_edge=(i32, -1), degree=(i32, 0))
    n = len(ends)
    kept.add_table(
        "chords",
        a=point,
        b=point,
        now=point,
        end=point,
        first=i32,
        count=i32,
        met=i32,
        priority=i32,
    )
    kept.add_table(
        "channel_edges", vertex=point, opposite=i32, chord=i32, edge=i32, mate=Ref("channel_edges"),
        old=triangle, triangle=triangle, end=i32, base=i32, below=i32,
        capacity=min(8 * n, (2 if g.device.on_host else 1) * len(g.triangles)),
    )  # fmt: skip
    # On a CPU random parts, the first ones small: later segments then cross few triangles, so that
    # few of them claim the same ones.
    size = FIRST_PART if g.device.on_host else n
    priority = np.arange(n, dtype=np.int32)
    if n > size or not one_by_one:
        priority = np.random.default_rng(n).permutation(priority)
    g.chords.extend(a=ends[:, 0], b=ends[:, 1], priority=priority)
    index_and_orient(g)
    work, retry, remaining, winners, blocked = kept.lists(
        g.chords, chords_due=n, chords_to_retry=n, chords_left=n, winners=n,
        blocked=initial_capacity(g.device, n),
    )  # fmt: skip
    if n > FIRST_PART:
        with g.device.active():  # by rows of triangles, whose neighbours lie near them
            order = argsort(g.points.half_edge.array[g.chords.a.array])
            in_order = g.chords.priority.array[order]
    end, round_key = 0, i64(FIRST_KEY)
    recover_part = recover_one_by_one if one_by_one else recover
    while end < n:
        first, end = end, min(n, end + size)
        with g.device.active():
            if n <= FIRST_PART:
                work.extend_live()
            elif end - first < n:
                work.extend(order[(in_order >= first) & (in_order < end)])
            else:
                work.extend(order)
        lists = work, retry, remaining, winners, blocked
        round_key = i64(recover_part(g, g.channel_edges, *lists, round_key))
        size = GROWTH * end  # not by conflicts: these depend on the order of threads
        if end < n:
            work.clear()
            g.channel_edges.truncate(0)
    return blocked
