"""What refinement asks of triangles and segments, and what a new point replaces.

All of it is functions of the language.  Options are columns: a goal without ``sized`` asks for no
sizes, a triangle without ``origin`` has no limit of its own, and what asks for them is not compiled
(`hasattr`).  An edge is coded 4 * triangle + side, and ``twin[k]`` of a triangle is the code of its
side k seen from behind; that of a segment is inverted, and HULL if nothing lies behind.
"""

from __future__ import annotations

from morph.algorithms.triangulation.delaunay import HULL
from morph.launch.foreach import func
from morph.prelude import exponent, f64, i32, incircle, local, orient2d, sqrt, vector

BUCKETS = 120  # priorities by the squared shortest edge, the last level for the longest edges:
FINE_BUCKETS = 96  # the last so many are half an octave each, the others four octaves each
DIGITS = 2.0**-53  # times a coordinate: one half to one unit in its last place
NONE, KEPT, MISFIT = -1, -2, -3  # no segment was met; one that must stay whole; no room for x

# --- geometry ------------------------------------------------------------------------------------


@func
def dot(u, v):
    return u.x * v.x + u.y * v.y


@func
def cross(u, v):
    return u.x * v.y - u.y * v.x


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
    rest = dot(f, f) - radius * radius * dot(u, u)
    part = 0.0
    if ee > 0.0 and rest < 0.0:
        part = min((sqrt(ef * ef - ee * rest) - ef) / ee, 1.0)
    return c + e * part


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
    p, q, r = node[i].xy, node[(i + 1) % 3].xy, node[(i + 2) % 3].xy
    u, v = q - p, r - p
    best = circumcentre(u, v)
    far = dot(best, best)
    top = vector(0.5 * u.x - params.reach * u.y, 0.5 * u.y + params.reach * u.x)
    if not far <= dot(top, top):  # `not <=`: the circumcentre of a flat triangle is NaN
        return p + top
    if 4.0 * (1.0 - params.cos2) * far > dot(u, u):  # else the angle is good, but t is too large
        middle = (params.reach * params.reach - 0.25) / (2.0 * params.reach)
        radius = params.reach - middle
        centre = best
        for k in range(2):
            edge = opposite[(i + k) % 3]
            if edge >= 0:
                w = corner_across(g, edge)
                if k == 0:
                    next = circumcentre(w - q, r - q) + u
                else:
                    next = circumcentre(r - p, w - p)
                x = last_in_petal(centre, next, u, middle, radius)
                from_p, from_q = dot(x, x), dot(x - u, x - u)
                if min(from_p, from_q) > far:
                    far, best = min(from_p, from_q), x
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


# --- what is asked -------------------------------------------------------------------------------


@func
def too_long(p, q, size, other):
    """Whether the edge pq is longer than the mean of the sizes wanted at its ends."""
    d, mean = q - p, 0.5 * (size + other)
    return dot(d, d) > mean * mean


@func
def too_large(x, p, q, size, a, b, limit, params):
    """Whether the triangle x, a, b at x, p, q has too much area, or an edge too long."""
    large = abs(cross(p - x, q - x)) > 2.0 * limit
    if hasattr(params, "has_sizes"):
        large = large or too_long(x, p, size, a.wanted) or too_long(p, q, a.wanted, b.wanted)
        large = large or too_long(q, x, b.wanted, size)
    return large


@func
def spans_small_angle(p, s, q, t):
    """Whether p and q lie on segments s and t that meet below 60 degrees, equally far from where.

    Such an edge is as long as the input lets it be; splitting it would go on for ever
    (Miller, Pav, Walkington 2003).
    """
    if s is None or t is None or s == t:
        return False
    w = s.a if s.a == t.a or s.a == t.b else s.b
    if w != t.a and w != t.b:
        return False
    d, e, f = p - w.xy, q - w.xy, q - p
    far = dot(d, d)
    return far < 1.001 * dot(e, e) and dot(e, e) < 1.001 * far and dot(f, f) < far


@func
def bucket_of_length(least, params):
    """The urgency of a triangle whose shortest edge is this long, squared.

    ``goal.first`` is the most urgent; if the order is strict, it is for encroached segments alone.
    """
    v = least * params.scale
    low = params.first_bucket + 1 if hasattr(params, "segments_first") else params.first_bucket
    fine = exponent(v * v)
    coarse = (fine + i32(FINE_BUCKETS)) >> 3
    fine = fine if coarse >= 0 else coarse - i32(FINE_BUCKETS)
    return min(max(fine + i32(BUCKETS - 1), low), i32(BUCKETS - 1))


@func
def largest(p, q, r):
    """The largest absolute value of the coordinates of three points."""
    return max(abs(p.x), abs(q.x), abs(r.x), abs(p.y), abs(q.y), abs(r.y))


@func
def is_narrow(d, product, least, most, params):
    """Whether an angle is too small, given the precision of coordinates up to ``most``.

    ``d`` is the dot product of the sides of the angle, ``product`` the product of their squared
    lengths, ``least`` the squared length of the opposite edge.  If that edge is a few units in the
    last place long, rounding a new point may change the angle by degrees, and triangles of that
    size would be refined endlessly; there 26.45 degrees suffice, for which termination is proven
    (Miller, Pav, Walkington 2003).
    """
    return d * d > min(params.cos2 + most * DIGITS / sqrt(least), params.proven) * product


@func
def is_flat(p, q, r, params):
    """Whether a triangle's height is below the coordinates' precision or the floor of sizes.

    Short triangles may be four times as flat: they end on the grid of coordinates.
    """
    u, v, w = q - p, r - q, p - r
    twice = cross(u, v)
    most = largest(p, q, r) * DIGITS
    longest = max(dot(u, u), dot(v, v), dot(w, w))
    part = 1.0 if longest > 2.0**20 * most * most else 0.0625
    return twice * twice < max(part * most * most, params.floor) * longest


@func
def bucket_of_corners(x, on, size, a, b, p, q, limit, params):
    """The level of a triangle x, a, b if it has a small angle or is large; LEVELS if it is good.

    p and q are where a and b lie.
    x may be a point not yet inserted: it is on the segment ``on`` and has the given size.
    """
    ab, bx, xa = q - p, x - q, p - x
    lab, lbx, lxa = dot(ab, ab), dot(bx, bx), dot(xa, xa)
    d, product, least = dot(xa, bx), lxa * lbx, lab  # at the corner opposite the shortest edge
    if lbx < lab and lbx <= lxa:
        d, product, least = dot(xa, ab), lxa * lab, lbx
    elif lxa < lab:
        d, product, least = dot(ab, bx), lab * lbx, lxa
    bad = d * d > params.cos2 * product
    if bad:
        bad = is_narrow(d, product, least, largest(x, p, q), params)
    if bad:
        if least == lab:
            bad = not spans_small_angle(p, a.on, q, b.on)
        elif least == lbx:
            bad = not spans_small_angle(q, b.on, x, on)
        else:
            bad = not spans_small_angle(x, on, p, a.on)
    bad = (bad or too_large(x, p, q, size, a, b, limit, params)) and not is_flat(x, p, q, params)
    return bucket_of_length(least, params) if bad else i32(BUCKETS)


# --- segments ------------------------------------------------------------------------------------


@func
def may_split(opposite, params):
    """Whether the segment with this twin may get points."""
    if hasattr(params, "keep_all"):
        return False
    elif hasattr(params, "keep_hull"):
        return opposite != HULL
    else:
        return True


@func
def in_lens(a, b, x, lens):
    """Whether x is in the diametral lens of ab.

    Points of the lens see ab at an obtuse angle whose squared cosine is ``lens`` or more.
    """
    u, v = a - x, b - x
    d = dot(u, v)
    return d < 0.0 and d * d >= lens * dot(u, u) * dot(v, v)


@func
def is_encroached(a, b, x, params):
    """Whether a visible vertex x encroaches on the segment ab, so that ab must be split.

    For a conforming mesh: x is in the diametral circle (Ruppert 1995).  Otherwise: x is in the
    diametral lens; outside of the lens the angles at ab are large enough (Chew 1993; Shewchuk
    2002).
    """
    if hasattr(params, "conforming"):
        return dot(a - x, b - x) < 0.0
    else:
        return in_lens(a, b, x, params.lens)


@func
def encroached_side(t, params):
    """The side of t that is a segment to be split, its corner opposite encroaching; or -1."""
    node, opposite = t.node, t.opposite
    if opposite[0] < 0 or opposite[1] < 0 or opposite[2] < 0:
        a, b, c = node[0].xy, node[1].xy, node[2].xy
        k = i32(-1)  # no more than one corner is obtuse
        if is_encroached(b, c, a, params):
            k = i32(0)
        elif is_encroached(c, a, b, params):
            k = i32(1)
        elif is_encroached(a, b, c, params):
            k = i32(2)
        if (
            k >= 0
            and opposite[k] < 0
            and may_split(opposite[k], params)
            and not is_flat(a, b, c, params)
        ):
            return k
    return i32(-1)


@func
def behind(opposite):
    """The code of what lies behind a side that is no hull."""
    return opposite if opposite >= 0 else ~opposite


@func
def split_point(g, t, k):
    """Where to split a piece of a segment, side k of t: its middle, or a shell around an end.

    Shells are circles of power-of-two radius around corners that one triangle spans: pieces beside
    the corner become equally long, and encroach on each other no more (Ruppert 1995).
    """
    node, opposite = t.node, t.opposite
    i, j = (k + 1) % 3, (k + 2) % 3
    a, b = node[i], node[j]
    at_a, at_b = (
        opposite[j] < 0,
        opposite[i] < 0,
    )  # whether the triangle's next side is a segment, too
    if opposite[k] != HULL:
        beyond = behind(opposite[k])
        other, h = g.triangles[beyond >> 2].opposite, beyond & 3
        at_a, at_b = at_a or other[(h + 1) % 3] < 0, at_b or other[(h + 2) % 3] < 0
    first, second = at_a and a.on is None, at_b and b.on is None
    d = b.xy - a.xy
    part = 0.5
    if first or second:
        length = sqrt(dot(d, d))
        shell = 1.0
        while length > 3.0 * shell:
            shell *= 2.0
        while length < 1.5 * shell:
            shell *= 0.5
        part = shell / length if first else 1.0 - shell / length
    return a.xy + d * part


# --- cavities ------------------------------------------------------------------------------------


@func
def across(opposite, own):
    """What lies across a side: the twin, or of a segment the side's own code, inverted."""
    return opposite if opposite >= 0 else ~own


@func
def corner_across(g, edge):
    """Where the corner opposite a side lies."""
    code = behind(edge)
    return g.triangles[code >> 2].node[code & 3].xy


@func
def holds(edge, p, q, r, x):
    """Whether x is in the circle of what lies across the side pq, at r; not if pq is a segment."""
    return edge >= 0 and incircle(q, p, r, x) > 0


@func
def signed(end, inside):
    return i32(end) if inside else ~i32(end)


@func
def grow_cavity(
    g, x, seed, side, cavity, boundary, vertices, segments, origins, neighbours, params
):
    """Collect the triangles whose circle holds x, and what is around them.

    Depth first, counter-clockwise: from all sides of the seed (``side`` < 0), or from the end of
    one side, a segment that x splits, around to its beginning.  Each edge of the rim adds its twin
    to ``rim``, its first vertex to ``begin``, its segment if it is one to ``walls``, the triangle
    behind it to ``ring``.  Gives the code of the first segment met that x encroaches on and that
    may be split; else KEPT, MISFIT, if x lies in no circle or behind a wall, or NONE.
    """
    edges = local(i32, 128)  # still to be looked at
    ends = local(i32, 128)  # and where each ends; inverted where the rim is found there
    node, opposite = seed.node, seed.opposite
    k = i32(1) if side < 0 else i32(side)
    code, i, j = i32(seed) * 4, (k + 1) % 3, (k + 2) % 3
    a, b, c = node[j], node[k], node[i]
    pa, pb, pc = a.xy, b.xy, c.xy
    if incircle(pa, pb, pc, x) <= 0:
        return i32(MISFIT)  # rounded out of its own circle
    found = i32(NONE)
    cavity.add(seed)
    if side < 0:
        edge = across(opposite[k], code + k)
        edges.add(edge)
        ends.add(signed(a, holds(edge, pc, pa, corner_across(g, edge), x)))
    last, edge = across(opposite[j], code + j), across(opposite[i], code + i)
    pu, pv = corner_across(g, last), corner_across(g, edge)
    edges.add(last)
    ends.add(signed(c, holds(last, pb, pc, pu, x)))
    inside = holds(edge, pa, pb, pv, x)
    while True:
        while not inside:
            if edge >= 0:
                n = g.triangles[edge >> 2]
                boundary.add(edge)
                neighbours.add(n)
                if hasattr(seed, "origin"):
                    origins.add(g.triangles[n.opposite[edge & 3] >> 2].origin)
            else:
                own = ~edge
                s, k = g.triangles[own >> 2], own & 3
                beyond = s.opposite[k]
                if side >= 0:
                    if orient2d(a.xy, b.xy, x) <= 0:
                        return i32(MISFIT)
                elif may_split(beyond, params):
                    if is_encroached(a.xy, b.xy, x, params) or orient2d(a.xy, b.xy, x) <= 0:
                        return own
                elif in_lens(a.xy, b.xy, x, params.lens) or orient2d(a.xy, b.xy, x) <= 0:
                    found = i32(KEPT)
                boundary.add(beyond)
                segments.add(s.segment[k])
                if beyond != HULL:
                    neighbours.add(g.triangles[~beyond >> 2])
                if hasattr(seed, "origin"):
                    origins.add(s.origin)
            vertices.add(a)
            if edges.size == 0:
                return found
            a, edge, end = b, edges.pop(), ends.pop()
            inside = end >= 0
            b = g.points[behind(end)]
        n, k = g.triangles[edge >> 2], edge & 3
        node, opposite = n.node, n.opposite
        d = node[k]
        pa, pb, pd = a.xy, b.xy, d.xy
        cavity.add(n)
        code, i, j = edge - k, (k + 1) % 3, (k + 2) % 3
        last, edge = across(opposite[j], code + j), across(opposite[i], code + i)
        pu, pv = corner_across(g, last), corner_across(g, edge)  # under way together
        edges.add(last)
        ends.add(signed(b, holds(last, pd, pb, pu, x)))
        inside = holds(edge, pa, pd, pv, x)
        b = d


@func
def size_in_cavity(x, cavity):
    """The size wanted at x, linear in the triangle of the cavity that holds it."""
    best, size = f64(0.0), f64(0.0)
    first = True
    for s in cavity:
        a, b, c = s.node
        u, v, w = a.xy - x, b.xy - x, c.xy - x
        i, j, k = cross(v, w), cross(w, u), cross(u, v)
        least = min(i, j, k)
        if first or least > best:  # positive in the one that holds x
            first, best = False, least
            i, j, k = max(i, 0.0), max(j, 0.0), max(k, 0.0)
            sum = i + j + k
            size = (i * a.wanted + j * b.wanted + k * c.wanted) / sum if sum > 0.0 else a.wanted
    return size


@func
def input_triangle(g, x, p, q, near):
    """The input triangle that holds the middle of the triangle x, p, q, looked for from ``near``.

    The walk crosses an edge that the middle lies behind, each time; where a concavity stops it, or
    it turns in a circle, as it may where edges are constrained, the answer is ``near``.
    """
    middle = (x + p + q) * (1.0 / 3.0)
    o = g.inputs[near]
    for _ in range(64):
        a, b, c = o.corner
        if orient2d(a.xy, b.xy, middle) < 0:
            k = 2
        elif orient2d(b.xy, c.xy, middle) < 0:
            k = 0
        elif orient2d(c.xy, a.xy, middle) < 0:
            k = 1
        else:
            return i32(o)
        beside = o.nbr[k]
        if beside is None:
            return near
        o = g.inputs[beside.id]
    return near
