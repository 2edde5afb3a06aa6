"""Cavities: the triangles whose circumcircles contain a new point, and the fan that replaces them.

Functions of the language (Bowyer 1981; Watson 1981; constrained: Shewchuk 2002).
"""

from __future__ import annotations

from morph.algorithms.refinement.quality import (
    BUCKETS,
    Corner,
    bucket_of,
    corner_of,
    cross,
    in_lens,
    is_encroached,
    is_flat,
    may_split,
)
from morph.algorithms.refinement.steiner import corner_across
from morph.algorithms.triangulation.half_edges import (
    BORDER,
    HULL,
    next_side,
    previous_side,
)
from morph.language.dtypes import Ref
from morph.launch.foreach import func
from morph.prelude import bool_, f64, i8, i32, i64, incircle, local, orient2d, struct, vector

# no obstacle; a segment that must not be split; the rounded point is outside of its cavity; the
# cavity reaches the border of a part
NONE, KEPT, MISFIT, WAITS = -1, -2, -3, -4


@struct
class Insertion:
    """A point to insert, once its cavity is known.

    ``on`` is the segment that it splits, or None; ``size`` the edge length wanted there;
    ``second`` the number of the edge of the boundary at which the cavity behind that segment
    begins, or -1; ``end`` the vertex at which the boundary ends; ``walled`` is true if a segment is
    split or is at the boundary.
    """

    xy: (f64, 2)  # type: ignore[syntax]
    on: Ref("segments")  # type: ignore[valid-type]
    size: f64  # type: ignore[valid-type]
    second: i64  # type: ignore[valid-type]
    end: Ref("points")  # type: ignore[valid-type]
    walled: bool_


@struct
class Boundary:
    """The boundary of a cavity, a linked list of edges, counter-clockwise; edge 0 is the first.

    ``edges`` are as of `across`, ``starts`` the vertices at which they begin, ``nexts`` the
    positions of the edges that follow; after the last one, that of the first.  ``segments`` are
    half-edges of the segments among them, in any order; `find_buckets` replaces them by rows.
    """

    edges: local(i32, 128)  # type: ignore[valid-type]
    starts: local(Ref("points"), 128)  # type: ignore[valid-type]
    nexts: local(i32, 128)  # type: ignore[valid-type]
    segments: local(i32, 128)  # type: ignore[valid-type]


# --- the cavity ----------------------------------------------------------------------------------


@func
def across(opposite, edge):
    """The half-edge behind a side; if it is a segment, the side's own half-edge, complemented."""
    return opposite if opposite >= 0 else ~edge


@func
def circle_across(edge, p, q, r, x):
    """Whether x is in the circle of the triangle across pq, with corner r; not across segments."""
    return edge >= 0 and incircle(q, p, r, x) > 0


@func
def segment_at_boundary(edge, opposite, p, q, x, splits, params):
    """Whether x may be inserted in a cavity with the segment pq at its boundary.

    Gives the half-edge if the segment has to be split instead, MISFIT or KEPT if neither it may nor
    the point fits, WAITS at the border of a part, or NONE.
    """
    if hasattr(params, "has_border"):
        if opposite == BORDER:
            return i32(WAITS)
    if splits:
        return i32(NONE) if orient2d(p, q, x) > 0 else i32(MISFIT)
    if may_split(opposite, params):
        return edge if is_encroached(p, q, x, params) or orient2d(p, q, x) <= 0 else i32(NONE)
    return i32(KEPT) if in_lens(p, q, x, params.lens) or orient2d(p, q, x) <= 0 else i32(NONE)


@func
def obstacle_at(edge, opposite, p, q, x, splits, params):
    """The result of `segment_at_boundary` if an edge of the boundary is a segment, else NONE."""
    if edge < 0:
        return segment_at_boundary(~edge, opposite, p, q, x, splits, params)
    return i32(NONE)


@func
def is_obstacle(found):
    """Whether the result of `obstacle_at` rejects the cavity."""
    return found >= 0 or found <= MISFIT


@func
def add_edge(boundary, edge, start, after):
    """Add an edge to a boundary; ``after`` is the position of the edge that follows."""
    boundary.edges.add(edge)
    boundary.starts.add(start)
    boundary.nexts.add(after)
    if edge < 0:
        boundary.segments.add(~edge)


@func
def replace_edge(boundary, at, left, middle, right):
    """Replace the edge at position ``at`` by two that meet at ``middle``."""
    added = i32(boundary.edges.size)
    add_edge(boundary, right, middle, boundary.nexts[at])
    boundary.edges[at] = left
    boundary.nexts[at] = added
    if left < 0:
        boundary.segments.add(~left)


@func
def grow_cavity(g, x, start, cavity, boundary, params):
    """Collect the triangles whose circumcircle contains x, and the boundary of their union.

    The boundary begins with all sides of a triangle, ``start`` = 4 * triangle + 3, or with two, if
    ``start`` is a half-edge on a segment that x splits.  If x is in the circumcircle of the
    triangle behind an edge, its other sides replace the edge.

    Gives the half-edge of the first segment found on which x encroaches and that may be split;
    otherwise WAITS, KEPT, MISFIT (x is in no circle, or behind a segment), or NONE.
    """
    growing = local(i32, 128)  # positions of edges still to be replaced
    splits = (start & 3) < 3
    t, k = g.triangles[start >> 2], start & 3 if splits else i32(1)
    node, opposite = t.node, t.opposite
    a, b = node[previous_side(k)], node[next_side(k)]
    pa, pb, pc = a.xy, b.xy, node[k].xy
    if incircle(pa, pc, pb, x) <= 0:
        return i32(MISFIT)  # rounded out of its own circle
    first, edge, end = i32(boundary.edges.size), (start & ~3) + k, b
    met, at = i32(NONE), first
    add_edge(boundary, edge, a, first if splits else first + 1)
    if not splits:
        side, end = across(opposite[k], edge), a
        add_edge(boundary, side, b, first)
        met = obstacle_at(side, opposite[k], pb, pa, x, splits, params)
        if is_obstacle(met):
            return met
        if circle_across(side, pb, pa, corner_across(g, side), x):
            growing.add(first + 1)
    while True:
        n, k = g.triangles[edge >> 2], edge & 3
        node, opposite = n.node, n.opposite
        d = node[k]
        pd = d.xy
        cavity.add(n)
        code, i, j = edge - k, next_side(k), previous_side(k)
        left, right = across(opposite[i], code + i), across(opposite[j], code + j)
        pu, pv = corner_across(g, left), corner_across(g, right)  # loaded together
        added = i32(boundary.edges.size)
        replace_edge(boundary, at, left, d, right)
        found = obstacle_at(left, opposite[i], pa, pd, x, splits, params)
        if is_obstacle(found):
            return found
        met = min(met, found)
        found = obstacle_at(right, opposite[j], pd, pb, x, splits, params)
        if is_obstacle(found):
            return found
        met = min(met, found)
        grows = circle_across(left, pa, pd, pu, x)
        if circle_across(right, pd, pb, pv, x):
            if grows:
                growing.add(added)
            else:
                at, edge, pa = added, right, pd
        elif not grows:
            if growing.size == 0:
                return met
            at = growing.pop()
            edge, pa = boundary.edges[at], boundary.starts[at].xy
            after = boundary.nexts[at]
            pb = boundary.starts[after].xy if after != first else end.xy
        if grows:
            edge, pb = left, pd


@func
def next_position(boundary, at, i, new):
    """The position of edge i + 1 of a boundary, if edge i is at position ``at``."""
    return i32(new.second) if i + 1 == new.second else boundary.nexts[at]


@func
def end_of_edge(boundary, after, i, new):
    """The vertex at which edge i of a boundary ends, if edge i + 1 is at position ``after``."""
    return new.end if i + 1 >= boundary.edges.size else boundary.starts[after]


@func
def end_of_boundary(g, boundary, split, second):
    """The end of the last edge: the first vertex, or that of a segment on the hull."""
    if split >= 0 and second < 0:
        return g.triangles[split >> 2].node[((split & 3) + 1) % 3]
    return boundary.starts[0]


@func
def clear_boundary(boundary):
    boundary.edges.clear()
    boundary.starts.clear()
    boundary.nexts.clear()
    boundary.segments.clear()


@func
def size_in_cavity(x, cavity):
    """The size wanted at x, linear in the triangle of the cavity that contains it."""
    best, size = f64(0.0), f64(0.0)
    first = True
    for s in cavity:
        a, b, c = s.node
        u, v, w = a.xy - x, b.xy - x, c.xy - x
        i, j, k = cross(v, w), cross(w, u), cross(u, v)
        least = min(i, j, k)
        if first or least > best:  # positive in the triangle that contains x
            first, best = False, least
            i, j, k = max(i, 0.0), max(j, 0.0), max(k, 0.0)
            sum = i + j + k
            size = (i * a.wanted + j * b.wanted + k * c.wanted) / sum if sum > 0.0 else a.wanted
    return size


# --- the fan -------------------------------------------------------------------------------------


@func
def ends_on_segment(new, i, size):
    """Whether the second edge at the new point, of triangle i of the fan, is a split segment."""
    return new.on is not None and (i + 1 == size or i + 1 == new.second)


@func
def begins_on_segment(new, i):
    """Whether the first edge at the new point, of triangle i of the fan, is a split segment."""
    return new.on is not None and (i == 0 or i == new.second)


@func
def has_encroached_side(x, p, q, outer, right, left, params):
    """Whether a corner of xpq encroaches on the side opposite, where that one may be split."""
    hit = (outer and is_encroached(p, q, x, params)) or (right and is_encroached(q, x, p, params))
    return (hit or (left and is_encroached(x, p, q, params))) and not is_flat(x, p, q, params)


@func
def input_triangle(x, p, q, start):
    """The input triangle that contains the centre of the triangle xpq, found by a walk.

    Each step crosses an edge that the centre lies behind; where a concavity stops the walk, or it
    turns in a circle, as it may where edges are constrained, the answer is ``start``.
    """
    centre = (x + p + q) * (1.0 / 3.0)
    t = start
    for _ in range(64):
        a, b, c = t.corner
        if orient2d(a.xy, b.xy, centre) < 0:
            k = 2
        elif orient2d(b.xy, c.xy, centre) < 0:
            k = 0
        elif orient2d(c.xy, a.xy, centre) < 0:
            k = 1
        else:
            return t
        n = t.nbr[k]
        if n is None:
            return start
        t = n
    return start


@func
def find_buckets(g, new, boundary, neighbours, origins, buckets, bucket, params):
    """Find the bucket of each triangle of the fan, and the triangles behind the boundary.

    Segments among the edges are replaced by their ``opposite``, and their rows written to
    ``segments``, in order.  Gives how many triangles of the fan go to buckets up to ``bucket``, and
    how many bad ones to later buckets.
    """
    x = Corner(new.xy, new.on, new.size)
    now, later, w, at = i64(0), i64(0), i64(0), i32(0)
    size, after = boundary.edges.size, next_position(boundary, i32(0), i64(0), new)
    a = corner_of(boundary.starts[0])
    b = corner_of(end_of_edge(boundary, after, i64(0), new))
    for i in range(size):
        edge, beyond = boundary.edges[at], next_position(boundary, after, i + 1, new)
        c = corner_of(end_of_edge(boundary, beyond, i + 1, new))  # loads overlap with the rest
        max_area = params.area
        if edge >= 0:
            n = g.triangles[edge >> 2]
            neighbours.add(n)
            if hasattr(n, "origin"):
                origins.add(g.triangles[n.opposite[edge & 3] >> 2].origin)
        else:
            t, k = g.triangles[~edge >> 2], ~edge & 3
            edge = t.opposite[k]
            boundary.edges[at] = edge
            boundary.segments[w] = i32(t.segment[k])
            w += 1
            if edge != HULL:
                neighbours.add(g.triangles[~edge >> 2])
            if hasattr(t, "origin"):
                origins.add(t.origin)
        if hasattr(params, "has_limits"):
            origins[i] = input_triangle(x.xy, a.xy, b.xy, origins[i])
            max_area = origins[i].limit
        found = bucket_of(x, a, b, max_area, params)
        if new.walled:
            outer = edge < 0 and may_split(edge, params)
            right, left = ends_on_segment(new, i, size), begins_on_segment(new, i)
            if has_encroached_side(x.xy, a.xy, b.xy, outer, right, left, params):
                found = params.first_bucket
            elif found < BUCKETS and not hasattr(params, "segments_first"):
                found = params.first_bucket
        a, b, at, after = b, c, after, beyond
        buckets.add(i8(found))
        if found <= bucket:
            now += 1
        elif found < BUCKETS:
            later += 1
    return now, later


@func
def fan_triangle(cavity, extra, i):
    """Triangle i of the fan: the rows of the cavity are used first."""
    return cavity[i] if i < cavity.size else extra[i - cavity.size]


@func
def retriangulate(g, p, new, cavity, extra, boundary):
    """Replace the triangles of the cavity by a fan around p."""
    size, w, at = boundary.edges.size, i64(0), next_position(boundary, i32(0), i64(0), new)
    before, t = fan_triangle(cavity, extra, size - 1), cavity[0]
    after = fan_triangle(cavity, extra, i64(1))
    edge, a, b = boundary.edges[0], boundary.starts[0], end_of_edge(boundary, at, i64(0), new)
    for i in range(size):
        # of the next triangle: loads overlap with the rest
        then = fan_triangle(cavity, extra, i + 2 if i + 2 < size else i + 2 - size)
        next_edge, beyond = boundary.edges[at], next_position(boundary, at, i + 1, new)
        c = end_of_edge(boundary, beyond, i + 1, new)
        here, right, left = i32(t) * 4, i32(after) * 4 + 2, i32(before) * 4 + 1
        if ends_on_segment(new, i, size):
            right = ~right if new.second >= 0 else i32(HULL)
            t.segment[1] = new.on
        if begins_on_segment(new, i):
            left = ~left if new.second >= 0 else i32(HULL)
            t.segment[2] = new.on
        t.node = vector(p, a, b)
        t.opposite = vector(edge, right, left)
        if edge >= 0:
            g.triangles[edge >> 2].opposite[edge & 3] = here
        else:
            t.segment[0] = g.segments[boundary.segments[w]]
            w += 1
            if edge != HULL:
                g.triangles[~edge >> 2].opposite[~edge & 3] = ~here
        before, t, after, edge = t, after, then, next_edge
        a, b, at = b, c, beyond
