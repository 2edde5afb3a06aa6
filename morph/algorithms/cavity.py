"""What refinement asks of triangles and segments: good or bad, encroached, where to add a point.

All of it is functions of the language.  Options are columns: a goal without ``left`` has no budget,
points without ``wanted`` have no sizes, and what asks for them is not compiled (`hasattr`).
"""

from __future__ import annotations

from morph.kernel import func
from morph.prelude import f64, i32, i64, incircle, local, orient2d, sqrt, vector

FEATURE_PART = 1.0 / 64.0  # of a feature's size: no edge is made shorter for an angle's sake

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


@func
def split_point(a, b, s):
    """Where to split the piece ab of the segment s: its middle, or a shell around a sharp end.

    Shells are circles of power-of-two radius: of segments that meet in a small angle, pieces beside
    the common end become equally long, and encroach on each other no more (Ruppert 1995).
    """
    d = b.xy - a.xy
    t = 0.5
    if (a.on is None) != (b.on is None):
        end = a if a.on is None else b
        if (s.sharp & (1 if s.a == end else 2)) != 0:
            length = sqrt(dot(d, d))
            shell = 1.0
            while length > 3.0 * shell:
                shell *= 2.0
            while length < 1.5 * shell:
                shell *= 0.5
            t = shell / length if a.on is None else 1.0 - shell / length
    return a.xy + d * t


# --- what is asked -------------------------------------------------------------------------------


@func
def small_angle(p, q, r, goal):
    """Whether the angle at r, opposite the shortest edge pq, is smaller than asked."""
    u, v = p.xy - r.xy, q.xy - r.xy
    d = dot(u, v)
    return d > 0.0 and d * d > goal.cos2 * dot(u, u) * dot(v, v)


@func
def too_long(p, q):
    """Whether the edge pq is longer than the mean of the sizes wanted at its ends."""
    d = q.xy - p.xy
    mean = 0.5 * (p.wanted + q.wanted)
    return dot(d, d) > mean * mean


@func
def too_large(p, q, r, o, goal):
    """Whether a triangle from the input triangle o has too much area, or an edge too long."""
    limit = o.limit if hasattr(o, "limit") else goal.area
    large = abs(cross(p.xy - r.xy, q.xy - r.xy)) > 2.0 * limit
    if hasattr(p, "wanted"):
        large = large or too_long(p, q) or too_long(q, r) or too_long(r, p)
    return large


@func
def below_floor(p, q, r, goal):
    """Whether a triangle is too small or too flat, for its coordinates' digits, to be mended."""
    u, v = p.xy - r.xy, q.xy - r.xy  # the longest edge is one of these
    twice = cross(u, v)
    return twice * twice < goal.floor * max(dot(u, u), dot(v, v))


@func
def below_feature(p, q):
    """Whether the edge pq is a small part of the features around it: refinement may go on for ever.

    At 33 degrees, say, a corner of the input can ask for triangles ever smaller.
    """
    if hasattr(p, "feature"):
        d = q.xy - p.xy
        least = min(p.feature, q.feature) * FEATURE_PART
        return dot(d, d) < least * least
    else:
        return False


@func
def spans_small_angle(p, q):
    """Whether p and q lie on two segments that meet below 60 degrees, equally far from where.

    Such an edge is as long as the input lets it be; splitting it would go on for ever
    (Miller, Pav, Walkington 2003).
    """
    s, t = p.on, q.on
    if s is None or t is None or s == t:
        return False
    w = s.a if s.a == t.a or s.a == t.b else s.b
    if w != t.a and w != t.b:
        return False
    d, e, f = p.xy - w.xy, q.xy - w.xy, q.xy - p.xy
    far = dot(d, d)
    return far < 1.001 * dot(e, e) and dot(e, e) < 1.001 * far and dot(f, f) < far


@func
def is_bad(a, b, c, o, goal):
    """Whether a triangle has a small angle or is large, and may be mended."""
    p, q, r = shortest_edge(a, b, c)
    if below_floor(p, q, r, goal):
        return False
    if too_large(p, q, r, o, goal):
        return True
    return small_angle(p, q, r, goal) and not spans_small_angle(p, q) and not below_feature(p, q)


# --- segments ------------------------------------------------------------------------------------


@func
def may_split(behind, goal):
    """Whether a segment with the triangle ``behind`` it may get points."""
    if hasattr(goal, "keep_all"):
        return False
    elif hasattr(goal, "keep_hull"):
        return behind is not None
    else:
        return True


@func
def encroaches(a, b, x):
    """Whether the vertex x of a triangle lies inside the diametral circle of its side ab."""
    return dot(a.xy - x.xy, b.xy - x.xy) < 0.0


@func
def open_side(t, k, goal):
    """Whether side k of t is a segment that may get points."""
    return t.wall[k] is not None and may_split(t.nbr[k], goal)


@func
def encroached_side(t, goal):
    """The side of t that is a segment on which the corner opposite encroaches, or -1."""
    a, b, c = t.node
    k = -1
    if encroaches(b, c, a):  # no more than one corner is obtuse
        k = 0
    elif encroaches(c, a, b):
        k = 1
    elif encroaches(a, b, c):
        k = 2
    if k >= 0 and open_side(t, k, goal):
        p, q, r = shortest_edge(a, b, c)
        if not below_floor(p, q, r, goal):
            return k
    return -1


@func
def hides(a, b, x, lens):
    """Whether x encroaches on the segment ab: lies in its diametral lens, or behind it.

    From a point in the lens, ab is seen under an angle whose squared cosine is ``lens`` or more; 0
    is the diametral circle.
    """
    u, v = a - x, b - x
    d = dot(u, v)
    return (d <= 0.0 and d * d >= lens * dot(u, u) * dot(v, v)) or orient2d(a, b, x) <= 0


# --- topology ------------------------------------------------------------------------------------


@func
def side_of(s, t):
    """The side of s behind which t lies."""
    return 0 if s.nbr[0] == t else (1 if s.nbr[1] == t else 2)


@func
def circle_holds(t, x):
    """Whether x lies inside the circumcircle of triangle t."""
    return incircle(t.node[0].xy, t.node[1].xy, t.node[2].xy, x) > 0


@func
def grow_cavity(g, x, seed, k, cavity, rim, ring, goal):
    """Collect the triangles whose circle holds x, the edges around them in order, those behind.

    An edge is coded 4 * triangle + side.  Depth first, counter-clockwise: from all sides of the
    seed (k < 0), giving the first segment met that x encroaches on and that may be split, else -2
    if x encroaches on one that may not, else -1; or from the end of its side k, a segment that x
    splits, around to its beginning.
    """
    stack = local(i64, 128)
    cavity.add(seed)
    if k < 0:
        stack.add(i64(seed) * 4 + 2)
    stack.add(i64(seed) * 4 + (k + 2) % 3)
    stack.add(i64(seed) * 4 + (k + 1) % 3)
    found = i64(-1)
    while stack.size > 0:
        edge = stack.pop()
        s = g.triangles[edge >> 2]
        i = edge & 3
        n = s.nbr[i]
        if s.wall[i] is not None:
            if k < 0:
                a, b = s.node[(i + 1) % 3], s.node[(i + 2) % 3]
                if may_split(n, goal):
                    if hides(a.xy, b.xy, x, 0.0):
                        return edge
                elif hides(a.xy, b.xy, x, goal.lens):
                    found = i64(-2)
        elif circle_holds(n, x):
            j = side_of(n, s)
            cavity.add(n)
            stack.add(i64(n) * 4 + (j + 2) % 3)
            stack.add(i64(n) * 4 + (j + 1) % 3)
            continue
        rim.add(edge)
        if n is not None:
            ring.add(n)
    return found


@func
def sees_walls(g, x, rim):
    """Whether x lies inside of every segment of the rim; inside of other edges it always does."""
    for edge in rim:
        s, k = g.triangles[edge >> 2], edge & 3
        if s.wall[k] is not None:
            if orient2d(s.node[(k + 1) % 3].xy, s.node[(k + 2) % 3].xy, x) <= 0:
                return False
    return True


@func
def split_cavity(g, x, s, k, cavity, rim, ring, goal):
    """Collect the cavities at both sides of the segment at side k of s, which x splits.

    Returns where in ``rim`` the other side begins (-1 if nothing lies behind), and whether x fits:
    rounded, it may lie out of a circle or behind another segment.
    """
    turn = i64(-1)
    grow_cavity(g, x, s, k, cavity, rim, ring, goal)
    fits = circle_holds(s, x)
    n = s.nbr[k]
    if n is not None:
        turn = rim.size
        grow_cavity(g, x, n, side_of(n, s), cavity, rim, ring, goal)
        fits = fits and circle_holds(n, x)
    return turn, fits and sees_walls(g, x, rim)


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
def feature_at(g, x, rim, large):
    """The size of the features around x: it grows from vertex to vertex no faster than distance.

    A point put into a triangle because that is large is a feature itself.
    """
    least = f64(0.0)
    first = True
    for edge in rim:
        a = g.triangles[edge >> 2].node[((edge & 3) + 1) % 3]
        d = a.xy - x
        size = sqrt(dot(d, d)) + (0.0 if large else a.feature)
        if first or size < least:
            first, least = False, size
    return least


@func
def input_at(g, a, b, c, near):
    """The input triangle that holds the middle of the triangle abc, looked for from ``near``.

    The walk crosses an edge that x lies behind, each time; where a concavity stops it, or it turns
    in a circle, as it may where edges are constrained, the answer is ``near``.
    """
    x = (a.xy + b.xy + c.xy) * (1.0 / 3.0)
    o = g.inputs[near]
    for _ in range(64):
        p, q, r = o.corner
        if orient2d(p.xy, q.xy, x) < 0:
            k = 2
        elif orient2d(q.xy, r.xy, x) < 0:
            k = 0
        elif orient2d(r.xy, p.xy, x) < 0:
            k = 1
        else:
            return i32(o)
        o = o.beside[k]
        if o is None:
            return near
    return near
