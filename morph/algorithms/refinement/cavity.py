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
    behind,
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
    ``second`` the index in the boundary at which the cavity behind that segment begins, or -1;
    ``walled`` is true if a segment is split or is at the boundary.
    """

    xy: (f64, 2)  # type: ignore[syntax]
    on: Ref("segments")  # type: ignore[valid-type]
    size: f64  # type: ignore[valid-type]
    second: i64  # type: ignore[valid-type]
    walled: bool_


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
def signed(end, inside):
    return i32(end) if inside else ~i32(end)


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
def grow_cavity(g, x, start, cavity, boundary, vertices, segments, params):
    """Collect the triangles whose circumcircle contains x, and the boundary of their union.

    The search is depth-first and counter-clockwise.  It begins with all sides of a triangle,
    ``start`` = 4 * triangle + 3, or at the end of a segment that x splits, a half-edge, and goes
    around to its beginning.  Each edge of the boundary adds its ``opposite`` to ``boundary``, its
    first vertex to ``vertices``, and a segment its half-edge in the cavity to ``segments``.

    Gives the half-edge of the first segment found on which x encroaches and that may be split;
    otherwise WAITS, KEPT, MISFIT (x is in no circle, or behind a segment), or NONE.
    """
    edges = local(i32, 128)  # still to be crossed
    ends = local(i32, 128)  # where each ends; complemented if it is an edge of the boundary
    t, code = g.triangles[start >> 2], start & ~3
    splits = (start & 3) < 3
    k = start & 3 if splits else i32(1)
    node, opposite = t.node, t.opposite
    i, j = next_side(k), previous_side(k)
    a, b, c = node[j], node[k], node[i]
    pa, pb, pc = a.xy, b.xy, c.xy
    if incircle(pa, pb, pc, x) <= 0:
        return i32(MISFIT)  # rounded out of its own circle
    met = i32(NONE)
    cavity.add(t)
    if not splits:
        edge = across(opposite[k], code + k)
        edges.add(edge)
        ends.add(signed(a, circle_across(edge, pc, pa, corner_across(g, edge), x)))
    last, edge = across(opposite[j], code + j), across(opposite[i], code + i)
    pu, pv = corner_across(g, last), corner_across(g, edge)
    edges.add(last)
    ends.add(signed(c, circle_across(last, pb, pc, pu, x)))
    inside = circle_across(edge, pa, pb, pv, x)
    while True:
        while not inside:
            outer = edge
            if edge < 0:
                outer = g.triangles[~edge >> 2].opposite[~edge & 3]
                found = segment_at_boundary(~edge, outer, a.xy, b.xy, x, splits, params)
                if found >= 0 or found == MISFIT:
                    return found
                if hasattr(params, "has_border"):
                    if found == WAITS:  # no such cavity is used, and it may be large
                        return found
                met = min(met, found)
                segments.add(~edge)
            boundary.add(outer)
            vertices.add(a)
            if edges.size == 0:
                return met
            a, edge, end = b, edges.pop(), ends.pop()
            inside = end >= 0
            b = g.points[behind(end)]
        n, k = g.triangles[edge >> 2], edge & 3
        node, opposite = n.node, n.opposite
        d = node[k]
        pa, pb, pd = a.xy, b.xy, d.xy
        cavity.add(n)
        code, i, j = edge - k, next_side(k), previous_side(k)
        last, edge = across(opposite[j], code + j), across(opposite[i], code + i)
        pu, pv = corner_across(g, last), corner_across(g, edge)  # loaded together
        edges.add(last)
        ends.add(signed(b, circle_across(last, pd, pb, pu, x)))
        inside = circle_across(edge, pa, pd, pv, x)
        b = d


@func
def close_boundary(g, split, second, vertices):
    """Add the end of the last edge: the first vertex, or that of a segment on the hull."""
    if split >= 0 and second < 0:
        vertices.add(g.triangles[split >> 2].node[((split & 3) + 1) % 3])
    else:
        vertices.add(vertices[0])


@func
def add_neighbours(g, boundary, segments, neighbours, origins):
    """Collect the triangles behind the boundary, and the input triangles in front of it.

    Half-edges in ``segments`` are replaced by the rows of their segments.
    """
    w = i64(0)
    for edge in boundary:
        if edge >= 0:
            n = g.triangles[edge >> 2]
            neighbours.add(n)
            if hasattr(n, "origin"):
                origins.add(g.triangles[n.opposite[edge & 3] >> 2].origin)
        else:
            t, k = g.triangles[segments[w] >> 2], segments[w] & 3
            segments[w] = i32(t.segment[k])
            w += 1
            if edge != HULL:
                neighbours.add(g.triangles[~edge >> 2])
            if hasattr(t, "origin"):
                origins.add(t.origin)


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
def find_buckets(new, boundary, vertices, origins, buckets, bucket, params):
    """Find the bucket of each triangle of the fan.

    Gives how many go to buckets up to ``bucket``, and how many bad ones to later buckets.
    """
    x = Corner(new.xy, new.on, new.size)
    now, later = i64(0), i64(0)
    a = corner_of(vertices[0])
    for i in range(boundary.size):
        b = corner_of(vertices[i + 1])
        max_area = params.area
        if hasattr(params, "has_limits"):
            origins[i] = input_triangle(x.xy, a.xy, b.xy, origins[i])
            max_area = origins[i].limit
        found = bucket_of(x, a, b, max_area, params)
        if new.walled:
            outer = boundary[i] < 0 and may_split(boundary[i], params)
            right, left = ends_on_segment(new, i, boundary.size), begins_on_segment(new, i)
            if has_encroached_side(x.xy, a.xy, b.xy, outer, right, left, params):
                found = params.first_bucket
            elif found < BUCKETS and not hasattr(params, "segments_first"):
                found = params.first_bucket
        a = b
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
def retriangulate(g, p, new, cavity, extra, boundary, vertices, segments):
    """Replace the triangles of the cavity by a fan around p."""
    size = boundary.size
    w = i64(0)
    before, t = fan_triangle(cavity, extra, size - 1), cavity[0]
    for i in range(size):
        after = fan_triangle(cavity, extra, i + 1 if i + 1 < size else 0)
        edge, here = boundary[i], i32(t) * 4
        right, left = i32(after) * 4 + 2, i32(before) * 4 + 1
        if ends_on_segment(new, i, size):
            right = ~right if new.second >= 0 else i32(HULL)
            t.segment[1] = new.on
        if begins_on_segment(new, i):
            left = ~left if new.second >= 0 else i32(HULL)
            t.segment[2] = new.on
        t.node = vector(p, vertices[i], vertices[i + 1])
        t.opposite = vector(edge, right, left)
        if edge >= 0:
            g.triangles[edge >> 2].opposite[edge & 3] = here
        else:
            t.segment[0] = g.segments[segments[w]]
            w += 1
            if edge != HULL:
                g.triangles[~edge >> 2].opposite[~edge & 3] = ~here
        before, t = t, after
