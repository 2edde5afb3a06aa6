"""Steiner points: where a new vertex goes that removes a bad triangle or splits a segment.

Functions of the language.  Points are computed relative to a vertex of the triangle, so that the
rounding error is relative to its size.
"""

from __future__ import annotations

from morph.algorithms.refinement.quality import cross, dot
from morph.algorithms.triangulation.half_edges import HULL, behind, next_side, previous_side
from morph.launch.foreach import func
from morph.prelude import i32, sqrt, vector


@func
def shortest_side(a, b, c):
    """The vertex of a triangle, 0 to 2, at which its shortest edge begins, counter-clockwise."""
    ab, bc, ca = b - a, c - b, a - c
    if dot(ab, ab) <= dot(bc, bc) and dot(ab, ab) <= dot(ca, ca):
        return i32(0)
    return i32(1) if dot(bc, bc) <= dot(ca, ca) else i32(2)


@func
def circumcentre(u, v):
    """The circumcentre of the triangle 0, u, v."""
    uu, vv = dot(u, u), dot(v, v)
    k = 0.5 / cross(u, v)
    return vector((v.y * uu - u.y * vv) * k, (u.x * vv - v.x * uu) * k)


@func
def last_in_petal(c, d, u, middle, radius):
    """The last point of the segment from c to d in the petal of the edge from 0 to u; c is in it.

    The petal is the disk that contains the points left of u that see u at the minimum angle or a
    larger one.  Its centre is ``middle`` times the length of u away from the midpoint of u, and its
    radius is ``radius`` times that length.
    """
    f, e = c - vector(0.5 * u.x - middle * u.y, 0.5 * u.y + middle * u.x), d - c
    ee, ef = dot(e, e), dot(e, f)
    outside = dot(f, f) - radius * radius * dot(u, u)
    step = 0.0
    if ee > 0.0 and outside < 0.0:
        step = min((sqrt(ef * ef - ee * outside) - ef) / ee, 1.0)
    return c + e * step


@func
def off_centre(g, t, params):
    """The Steiner point of a bad triangle t: in a petal, as far from all vertices as possible.

    In a new triangle over the shortest edge, the angle at the new point is large enough if the
    point is in the petal of this edge.  The point of the petal that is farthest from all vertices
    is on an edge of the Voronoi diagram.  If the circumcentre is outside of the petal, the point is
    the top of the petal (the off-centre), on the bisector of the shortest edge; else it is on the
    bisector of one of the other edges, between the circumcentres of t and of the neighbour there
    (Erten, Ungor 2009).
    """
    node, opposite = t.node, t.opposite
    a, b, c = node[0].xy, node[1].xy, node[2].xy
    i = shortest_side(a, b, c)
    p, q, r = node[i].xy, node[next_side(i)].xy, node[previous_side(i)].xy
    u, v = q - p, r - p
    best = circumcentre(u, v)
    distance = dot(best, best)  # squared, from p to the best point
    top = vector(0.5 * u.x - params.reach * u.y, 0.5 * u.y + params.reach * u.x)
    if not distance <= dot(top, top):  # `not <=`: the circumcentre of a flat triangle is NaN
        return p + top
    if 4.0 * (1.0 - params.cos2) * distance > dot(
        u, u
    ):  # else the angle is good, but t is too large
        middle, radius = params.middle, params.reach - params.middle
        centre = best
        for k in range(2):
            edge = opposite[i] if k == 0 else opposite[next_side(i)]
            if edge >= 0:
                w = corner_across(g, edge)
                if k == 0:
                    next = circumcentre(w - q, r - q) + u
                else:
                    next = circumcentre(r - p, w - p)
                x = last_in_petal(centre, next, u, middle, radius)
                from_p, from_q = dot(x, x), dot(x - u, x - u)
                if min(from_p, from_q) > distance:
                    distance, best = min(from_p, from_q), x
    return p + best


@func
def fallback_point(t, tries):
    """A point to try instead: the circumcentre first, then the middle of the longest edge."""
    a, b, c = t.node[0].xy, t.node[1].xy, t.node[2].xy
    u, v, w = b - a, c - b, a - c
    if tries == 1:
        return a + circumcentre(u, c - a)
    uu, vv, ww = dot(u, u), dot(v, v), dot(w, w)
    if uu >= vv and uu >= ww:
        return a + u * 0.5
    return b + v * 0.5 if vv >= ww else c + w * 0.5


@func
def corner_across(g, edge):
    """Where the corner opposite an edge is: the code is a half-edge, or the complement of one."""
    code = behind(edge)
    return g.triangles[code >> 2].node[code & 3].xy


@func
def split_point(g, edge):
    """Where to split a segment: at its middle, or on a shell around one of its ends.

    Shells are circles of power-of-two radius around input vertices at which two segments of one
    triangle meet: the pieces beside such a vertex get equal lengths, and no longer encroach on each
    other (Ruppert 1995).
    """
    t, k = g.triangles[edge >> 2], edge & 3
    node, opposite = t.node, t.opposite
    i, j = (k + 1) % 3, (k + 2) % 3
    a, b = node[i], node[j]
    meets_a, meets_b = opposite[j] < 0, opposite[i] < 0  # whether another segment begins there
    if opposite[k] != HULL:
        other, h = g.triangles[behind(opposite[k]) >> 2].opposite, behind(opposite[k]) & 3
        meets_a, meets_b = meets_a or other[(h + 1) % 3] < 0, meets_b or other[(h + 2) % 3] < 0
    around_a, around_b = meets_a and a.on is None, meets_b and b.on is None
    d = b.xy - a.xy
    step = 0.5
    if around_a or around_b:
        length = sqrt(dot(d, d))
        shell = 1.0
        while length > 3.0 * shell:
            shell *= 2.0
        while length < 1.5 * shell:
            shell *= 0.5
        step = shell / length if around_a else 1.0 - shell / length
    return a.xy + d * step
