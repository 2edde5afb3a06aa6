"""Constrained Delaunay triangulation: segments become edges of a Delaunay triangulation.

A segment that is no edge crosses a *channel* of triangles.  These are replaced by the Delaunay
triangulations of the two polygons that they leave on either side of it, made top down: to a base
edge belongs the corner whose circle through its ends holds no other (Anglada 1997).  If the
triangulation was constrained Delaunay before, it is so again: nothing has to be flipped.

In parallel: every segment claims its channel with an atomic minimum of (round, rank); one that got
all of it, and whose neighbours no stronger one wants, rebuilds it, alone and in place.  Ranks are
a random permutation, so that few rounds are needed (Blelloch et al. 2012).  It ends: the strongest
segment of a round is recovered as far as the next point that lies on it, or meets a constrained
edge and is given up; points and edges are finite.  Channels have any length: what an item notes
about its channel lies in rows of a table, three more than edges crossed; each channel is rebuilt
but once.

Decisions are exact.  A segment that passes through a point ends there, and goes on from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.triangulation.delaunay import HULL
from morph.data.collection import Collection
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_min, i32, i64, incircle, orient2d, vector

FREE = 2**31 - 1  # by: no segment has asked for this edge
FIRST_KEY = 2**30 - 1  # ages fall from round to round, so that newer claims win
UNCLAIMED = 2**62


# --- walking -------------------------------------------------------------------------------------


@func
def behind(opposite):
    """The code of an edge seen from the other side, constrained or not."""
    return opposite if opposite >= 0 else ~opposite


@func
def half_edge(t, side):
    return i32(t) * 4 + i32(side)


@func
def same_direction(a, x, v):
    """Whether v, on the line from a to x and not at a, lies on the side of x."""
    if x.x != a.x:
        return (v.x > a.x) == (x.x > a.x)
    return (v.y > a.y) == (x.y > a.y)


@func
def first_edge(g, a, x):
    """The first edge on the way from point a to x.

    Either the edge opposite a that the way crosses, and None; or the edge from a that the way runs
    along, and its other end; or -1, if the way leaves the hull at a.
    """
    start = a.half_edge
    t, k = g.triangles[start >> 2], start & 3
    edge = i32(-1)
    end = None
    direction = i32(1)
    while edge < 0 and direction < 3:
        b, c = t.node[(k + 1) % 3], t.node[(k + 2) % 3]
        right, left = orient2d(a.xy, x, b.xy), orient2d(a.xy, x, c.xy)
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
            if o == HULL:  # once more from the start, clockwise
                direction += 1
                t, k = g.triangles[start >> 2], start & 3
                o = t.opposite[(k + 2) % 3]
            if o == HULL:
                direction = i32(3)
            else:
                o = behind(o)
                t, k = g.triangles[o >> 2], ((o & 3) + direction) % 3
    return edge, end


@func
def cross_edge(g, a, b, edge):
    """Cross an edge on the way from a to b: its code behind, the apex there, the apex's side."""
    o = behind(g.triangles[edge >> 2].opposite[edge & 3])
    v = g.triangles[o >> 2].node[o & 3]
    side = i32(0) if v == b else orient2d(a.xy, b.xy, v.xy)
    return o, v, side


@func
def exit_edge(o, side):
    """The edge by which a way leaves the triangle it entered at code o: right of a left apex."""
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
    if s.b.degree < s.a.degree:  # to leave a hub each segment turns around it
        a = s.a
        s.a = s.b
        s.b = a
    s.now = s.a


# --- a round -------------------------------------------------------------------------------------


@func
def constrain(g, edge, s):
    """Mark both sides of an edge; others may do so at the same time."""
    t, k = g.triangles[edge >> 2], edge & 3
    atomic_min(t.by[k], i32(s))
    if t.opposite[k] != HULL:
        o = behind(t.opposite[k])
        n = g.triangles[o >> 2]
        t.opposite[k] = ~o  # race: all write the same, and readers take either sign
        n.opposite[o & 3] = ~edge  # race: likewise
        atomic_min(n.by[o & 3], i32(s))


@kernel
def follow_edges(s, g, remaining):
    """Mark the edges that are there, as far as the segment runs along them."""
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
    """Claim the channel that comes next."""
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
    """Whether a triangle is claimed by this key, and none around it by a stronger one."""
    if t.claim != key:
        return False
    for k in range(3):
        if t.opposite[k] != HULL:
            if g.triangles[behind(t.opposite[k]) >> 2].claim < key:
                return False
    return True


@kernel
def check_claims(s, g, round_key, winners, retry, blocked):
    """Whether the channel is the segment's own, and no stronger one wants what surrounds it."""
    key = i64(round_key) << 32 | i64(s.priority)
    edge = s.first
    mine = uncontested(g, g.triangles[edge >> 2], key)
    end = s.b
    met = i32(FREE)
    count = i32(0)
    side = i32(1)
    while side != 0 and met == FREE:
        t = g.triangles[edge >> 2]
        if t.opposite[edge & 3] < 0:
            met = t.by[edge & 3]
        else:
            o, end, side = cross_edge(g, s.now, s.b, edge)
            mine = mine and uncontested(g, g.triangles[o >> 2], key)
            edge = exit_edge(o, side)
            count += 1
    s.count = count
    s.end = end
    s.met = met
    if met != FREE:
        blocked.add(s)
    elif mine:
        winners.add(s)
    else:
        retry.add(s)


@func
def record_edge(edge_row, t, side):
    """Put an edge of the channel's rim, and what lies behind it, into a cell."""
    edge_row.point = t.node[(side + 1) % 3]
    edge_row.outer = t.opposite[side]
    edge_row.by = t.by[side]
    edge_row.edge = half_edge(t, side)


@func
def link_edge(g, edge_row, t, side):
    """Make an edge of the rim side `side` of triangle t."""
    t.by[side] = edge_row.by
    constrained = edge_row.outer < 0
    here = half_edge(t, side)
    there = i32(-1)
    if edge_row.mate is not None:  # the channel lies on both sides: whoever comes second links
        edge_row.edge = here
        there = edge_row.mate.edge
    elif edge_row.outer != HULL:
        there = behind(edge_row.outer)
    else:
        t.opposite[side] = HULL
    if there >= 0:
        t.opposite[side] = ~there if constrained else there
        g.triangles[there >> 2].opposite[there & 3] = ~here if constrained else here


@kernel
def retriangulate(s, g, polygon_edges, round_key, retry):
    """Retriangulate both sides of a channel that is the segment's own."""
    n = s.count + 3
    boundary = polygon_edges.new_rows(n)  # counter-clockwise from the segment's beginning
    # the way once more: edges at its right from the front, at its left from the back
    t, k = g.triangles[s.first >> 2], s.first & 3
    record_edge(boundary[0], t, (k + 2) % 3)
    record_edge(boundary[n - 1], t, (k + 1) % 3)
    boundary[0].old = t
    right, left = 1, n - 1
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
    # an edge of the rim may have the channel on both sides
    for i in range(n):
        g.triangles[boundary[i].edge >> 2].opposite[boundary[i].edge & 3] = i32(i)
    key = i64(round_key) << 32 | i64(s.priority)
    for edge_row in boundary:
        if edge_row.outer != HULL:
            o = behind(edge_row.outer)
            if g.triangles[o >> 2].claim == key:
                edge_row.mate = boundary[g.triangles[o >> 2].opposite[o & 3]]
        edge_row.edge = -1
    # polygons still to be triangulated: base from rim[high] to rim[low], behind it a triangle
    boundary[0].high = i32(right)
    boundary[0].made = boundary[0].old
    boundary[0].base = ~half_edge(boundary[1].old, 2)
    boundary[right].high = i32(n)
    boundary[right].made = boundary[1].old
    boundary[right].base = ~half_edge(boundary[0].old, 2)
    boundary[right].below = -1
    boundary[0].below = i32(right)
    used = 2
    top = i32(0)
    while top >= 0:
        low = boundary[top]
        first, high = top, low.high
        top = low.below
        a, b = boundary[high % n].point, low.point
        best = first + 1
        for i in range(first + 2, high):
            if incircle(a.xy, b.xy, boundary[best].point.xy, boundary[i].point.xy) > 0:
                best = i32(i)
        c = boundary[best].point
        t = low.made
        t.node = vector(a, b, c)
        t.opposite[2] = low.base
        t.by[2] = i32(s) if low.base < 0 else FREE
        a.half_edge = half_edge(t, 0)  # race: a corner of any triangle there will do
        b.half_edge = half_edge(t, 1)  # race: likewise
        c.half_edge = half_edge(t, 2)  # race: likewise
        for j in range(2):
            begin = first if j == 0 else best
            stop = best if j == 0 else high
            if stop == begin + 1:
                link_edge(g, boundary[begin], t, j)
            else:
                child = boundary[used].old
                used += 1
                boundary[begin].made = child
                boundary[begin].high = stop
                boundary[begin].base = half_edge(t, j)
                boundary[begin].below = top
                top = begin
                t.opposite[j] = half_edge(child, 2)
                t.by[j] = FREE
    s.now = s.end
    if s.end != s.b:
        retry.add(s)


@program
def recover(g, polygon_edges, work, retry, remaining, winners, blocked):
    round_key = FIRST_KEY
    while not work.empty:
        foreach(work, follow_edges, g, remaining)
        foreach(remaining, claim, g, round_key)
        foreach(remaining, check_claims, g, round_key, winners, retry, blocked)
        foreach(winners, retriangulate, g, polygon_edges, round_key, retry)
        work, retry = retry, work
        retry.clear()
        remaining.clear()
        winners.clear()
        round_key -= 1
    return FIRST_KEY - round_key


def insert_segments(g: Graph, ends: Any) -> Collection:
    """Make edges of segments, in the tables of a Delaunay triangulation.

    Parameters
    ----------
    g : Graph
        As `delaunay_tables` leaves it.  ``triangles.twin`` becomes the complement at edges that are
        constrained; new are ``triangles.by``, for each side the least segment that runs along it
        or 2**31 - 1, ``points.at``, 4 * triangle + corner, and the table ``chords``, of segments.
    ends : (s, 2) int32 array
        Rows of points that are corners.

    Returns
    -------
    Collection
        The segments that meet a constrained edge, whose segment is ``met``.
    """
    point, triangle = Ref("points"), Ref("triangles")
    g.triangles.add("by", (i32, 3), fill=FREE)
    g.triangles.add("claim", i64, fill=UNCLAIMED)
    g.points.add("half_edge", i32, fill=-1)
    g.points.add("degree", i32)
    n = len(ends)
    g.add_table(
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
    g.add_table(
        "polygon_edges", point=point, outer=i32, by=i32, edge=i32, mate=Ref("polygon_edges"), old=triangle,
        made=triangle, high=i32, base=i32, below=i32, capacity=min(8 * n, len(g.triangles)),
    )  # fmt: skip
    priority = np.random.default_rng(n).permutation(n).astype(np.int32)
    g.chords.extend(a=ends[:, 0], b=ends[:, 1], priority=priority)
    foreach(g.triangles, index_corners)
    foreach(g.chords, orient)
    work, retry, remaining, winners, blocked = (
        Collection(g.chords, capacity=c) for c in (n, n, n, n, 0)
    )
    with g.device.active():  # in the order of rows of triangles, which is one of places
        work.extend(g.points.half_edge.array[g.chords.a.array].argsort())
    recover(g, g.polygon_edges, work, retry, remaining, winners, blocked)
    return blocked
