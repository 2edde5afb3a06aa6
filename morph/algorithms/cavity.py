"""What refinement asks of triangles and segments, and what a new point replaces.

All of it is functions of the language.  Options are columns: a goal without ``sized`` asks for no
sizes, a triangle without ``origin`` has no limit of its own, and what asks for them is not compiled
(`hasattr`).  An edge is coded 4 * triangle + side, and ``twin[k]`` of a triangle is the code of its
side k seen from behind; that of a segment is inverted, and HULL if nothing lies behind.
"""

from __future__ import annotations

from morph.algorithms.delaunay import HULL
from morph.kernel import func
from morph.prelude import exponent, f64, i32, incircle, local, orient2d, sqrt, vector

LEVELS = 120  # of urgency: two an octave of the square of the shortest edge
FEATURE_PART = 1.0 / 32.0  # of a feature's size: no edge is made shorter for an angle's sake
NONE, KEPT, MISFIT = -1, -2, -3  # no segment was met; one that must stay whole; no room for x

# --- geometry ------------------------------------------------------------------------------------


@func
def dot(u, v):
    return u.x * v.x + u.y * v.y


@func
def cross(u, v):
    return u.x * v.y - u.y * v.x


@func
def shortest_edge(a, b, c):
    """Turn a triangle so that its shortest edge runs from the first vertex to the second."""
    ab, bc, ca = b.xy - a.xy, c.xy - b.xy, a.xy - c.xy
    if dot(ab, ab) <= dot(bc, bc) and dot(ab, ab) <= dot(ca, ca):
        return a, b, c
    if dot(bc, bc) <= dot(ca, ca):
        return b, c, a
    return c, a, b


@func
def off_centre(a, b, c, reach):
    """The circumcentre, or the point on the way to it from ab that makes an angle just good."""
    u, v = b - a, c - a
    uu, vv = dot(u, u), dot(v, v)
    k = 0.5 / cross(u, v)
    centre = vector((v.y * uu - u.y * vv) * k, (u.x * vv - v.x * uu) * k)
    near = vector(0.5 * u.x - reach * u.y, 0.5 * u.y + reach * u.x)
    # of a triangle so flat that its circumcentre is no number, the other one
    return a + (centre if dot(centre, centre) <= dot(near, near) else near)


# --- what is asked -------------------------------------------------------------------------------


@func
def too_long(p, q, size, other):
    """Whether the edge pq is longer than the mean of the sizes wanted at its ends."""
    d, mean = q - p, 0.5 * (size + other)
    return dot(d, d) > mean * mean


@func
def too_large(x, p, q, size, a, b, limit, goal):
    """Whether the triangle x, a, b at x, p, q has too much area, or an edge too long."""
    large = abs(cross(p - x, q - x)) > 2.0 * limit
    if hasattr(goal, "sized"):
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
def below_feature(least, feature, other):
    """Whether an edge, squared, is a small part of the features at its ends.

    At 33 degrees, say, a corner of the input can ask for triangles ever smaller.
    """
    part = min(feature, other) * FEATURE_PART
    return least < part * part


@func
def level_of(least, goal):
    """The urgency of a triangle whose shortest edge is this long, squared.

    ``goal.first`` is the most urgent; if the order is strict, it is for encroached segments alone.
    """
    v = least * goal.scale
    low = goal.first + 1 if hasattr(goal, "strict") else goal.first
    return min(max(exponent(v * v) + i32(LEVELS - 1), low), i32(LEVELS - 1))


@func
def is_flat(p, q, r, goal):
    """Whether a triangle is too small or too flat, for its coordinates' digits, to be mended."""
    u, v, w = q - p, r - q, p - r
    twice = cross(u, v)
    return twice * twice < goal.floor * max(dot(u, u), dot(v, v), dot(w, w))


@func
def grade(x, on, size, feature, a, b, p, q, limit, goal):
    """The level of a triangle x, a, b if it has a small angle or is large; LEVELS if it is good.

    p and q are where a and b lie.
    x may be a point that is not there yet: it lies on the segment ``on``, has the size wanted and
    the feature size given.
    """
    ab, bx, xa = q - p, x - q, p - x
    lab, lbx, lxa = dot(ab, ab), dot(bx, bx), dot(xa, xa)
    d, product, least = dot(xa, bx), lxa * lbx, lab  # at the corner opposite the shortest edge
    if lbx < lab and lbx <= lxa:
        d, product, least = dot(xa, ab), lxa * lab, lbx
    elif lxa < lab:
        d, product, least = dot(ab, bx), lab * lbx, lxa
    bad = d * d > goal.cos2 * product
    if bad:
        if least == lab:
            bad = not spans_small_angle(p, a.on, q, b.on)
        elif least == lbx:
            bad = not spans_small_angle(q, b.on, x, on)
        else:
            bad = not spans_small_angle(x, on, p, a.on)
        if hasattr(goal, "features"):
            ends = a.feature if least != lbx else b.feature
            other = feature if least != lab else b.feature
            bad = bad and not below_feature(least, ends, other)
    bad = (bad or too_large(x, p, q, size, a, b, limit, goal)) and not is_flat(x, p, q, goal)
    return level_of(least, goal) if bad else i32(LEVELS)


# --- segments ------------------------------------------------------------------------------------


@func
def may_split(twin, goal):
    """Whether the segment with this twin may get points."""
    if hasattr(goal, "keep_all"):
        return False
    elif hasattr(goal, "keep_hull"):
        return twin != HULL
    else:
        return True


@func
def encroaches(a, b, x):
    """Whether x lies inside of the circle over the diameter ab."""
    return dot(a - x, b - x) < 0.0


@func
def encroached_side(t, goal):
    """The side of t that is a segment to be split, its corner opposite encroaching; or -1."""
    node, twin = t.node, t.twin
    if twin[0] < 0 or twin[1] < 0 or twin[2] < 0:
        a, b, c = node[0].xy, node[1].xy, node[2].xy
        k = i32(-1)  # no more than one corner is obtuse
        if encroaches(b, c, a):
            k = i32(0)
        elif encroaches(c, a, b):
            k = i32(1)
        elif encroaches(a, b, c):
            k = i32(2)
        if k >= 0 and twin[k] < 0 and may_split(twin[k], goal) and not is_flat(a, b, c, goal):
            return k
    return i32(-1)


@func
def behind(twin):
    """The code of what lies behind a side that is no hull."""
    return twin if twin >= 0 else ~twin


@func
def split_point(g, t, k):
    """Where to split a piece of a segment, side k of t: its middle, or a shell around an end.

    Shells are circles of power-of-two radius around corners that one triangle spans: pieces beside
    the corner become equally long, and encroach on each other no more (Ruppert 1995).
    """
    node, twin = t.node, t.twin
    i, j = (k + 1) % 3, (k + 2) % 3
    a, b = node[i], node[j]
    at_a, at_b = twin[j] < 0, twin[i] < 0  # whether the triangle's next side is a segment, too
    if twin[k] != HULL:
        beyond = behind(twin[k])
        other, h = g.triangles[beyond >> 2].twin, beyond & 3
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


@func
def hides(a, b, x, lens):
    """Whether x encroaches on the segment ab: lies in its diametral lens, or behind it.

    From a point in the lens, ab is seen under an angle whose squared cosine is ``lens`` or more; 0
    is the diametral circle.
    """
    u, v = a - x, b - x
    d = dot(u, v)
    return (d <= 0.0 and d * d >= lens * dot(u, u) * dot(v, v)) or orient2d(a, b, x) <= 0


# --- cavities ------------------------------------------------------------------------------------


@func
def across(twin, own):
    """What lies across a side: the twin, or of a segment the side's own code, inverted."""
    return twin if twin >= 0 else ~own


@func
def opposite(g, edge):
    """Where the corner opposite a side lies."""
    code = behind(edge)
    return g.triangles[code >> 2].node[code & 3].xy


@func
def holds(edge, p, q, r, x):
    """Whether x is in the circle of what lies across the side pq, at r; not if pq is a segment."""
    return edge >= 0 and incircle(q, p, r, x) > 0


@func
def marked(end, inside):
    return i32(end) if inside else ~i32(end)


@func
def grow_cavity(g, x, seed, side, cavity, rim, begin, walls, origins, ring, goal):
    """Collect the triangles whose circle holds x, and what is around them.

    Depth first, counter-clockwise: from all sides of the seed (``side`` < 0), or from the end of
    one side, a segment that x splits, around to its beginning.  Each edge of the rim adds its twin
    to ``rim``, its first vertex to ``begin``, its segment if it is one to ``walls``, the triangle
    behind it to ``ring``.  Gives the code of the first segment met that x encroaches on and that
    may be split; else KEPT, MISFIT, if x lies in no circle or behind a wall, or NONE.
    """
    edges = local(i32, 128)  # still to be looked at
    ends = local(i32, 128)  # and where each ends; inverted where the rim is found there
    node, twin = seed.node, seed.twin
    k = i32(1) if side < 0 else i32(side)
    code, i, j = i32(seed) * 4, (k + 1) % 3, (k + 2) % 3
    a, b, c = node[j], node[k], node[i]
    pa, pb, pc = a.xy, b.xy, c.xy
    if incircle(pa, pb, pc, x) <= 0:
        return i32(MISFIT)  # rounded out of its own circle
    found = i32(NONE)
    cavity.add(seed)
    if side < 0:
        edge = across(twin[k], code + k)
        edges.add(edge)
        ends.add(marked(a, holds(edge, pc, pa, opposite(g, edge), x)))
    last, edge = across(twin[j], code + j), across(twin[i], code + i)
    pu, pv = opposite(g, last), opposite(g, edge)
    edges.add(last)
    ends.add(marked(c, holds(last, pb, pc, pu, x)))
    inside = holds(edge, pa, pb, pv, x)
    while True:
        while not inside:
            if edge >= 0:
                n = g.triangles[edge >> 2]
                rim.add(edge)
                ring.add(n)
                if hasattr(seed, "origin"):
                    origins.add(g.triangles[n.twin[edge & 3] >> 2].origin)
            else:
                own = ~edge
                s, k = g.triangles[own >> 2], own & 3
                beyond = s.twin[k]
                if side >= 0:
                    if orient2d(a.xy, b.xy, x) <= 0:
                        return i32(MISFIT)
                elif may_split(beyond, goal):
                    if hides(a.xy, b.xy, x, 0.0):
                        return own
                elif hides(a.xy, b.xy, x, goal.lens):
                    found = i32(KEPT)
                rim.add(beyond)
                walls.add(s.wall[k])
                if beyond != HULL:
                    ring.add(g.triangles[~beyond >> 2])
                if hasattr(seed, "origin"):
                    origins.add(s.origin)
            begin.add(a)
            if edges.size == 0:
                return found
            a, edge, end = b, edges.pop(), ends.pop()
            inside = end >= 0
            b = g.points[behind(end)]
        n, k = g.triangles[edge >> 2], edge & 3
        node, twin = n.node, n.twin
        d = node[k]
        pa, pb, pd = a.xy, b.xy, d.xy
        cavity.add(n)
        code, i, j = edge - k, (k + 1) % 3, (k + 2) % 3
        last, edge = across(twin[j], code + j), across(twin[i], code + i)
        pu, pv = opposite(g, last), opposite(g, edge)  # under way together
        edges.add(last)
        ends.add(marked(b, holds(last, pd, pb, pu, x)))
        inside = holds(edge, pa, pd, pv, x)
        b = d


@func
def size_at(x, cavity):
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
def input_at(g, x, p, q, near):
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


@func
def feature_at(x, begin, large):
    """The size of the features around x: it grows from vertex to vertex no faster than distance.

    A point put into a triangle because that is large is a feature itself.  Segments near x do not
    count: in a corner that asks for triangles ever smaller, it would shrink with them.
    """
    least = f64(0.0)
    for i in range(begin.size):
        d = begin[i].xy - x
        size = sqrt(dot(d, d)) + (0.0 if large else begin[i].feature)
        if i == 0 or size < least:
            least = size
    return least
