"""Quality: whether a triangle is bad and how urgent it is, and whether a segment is encroached.

Functions of the language.  An option that is not used is no column of ``params``, and what would
read it is not compiled (`hasattr`).
"""

from __future__ import annotations

from morph.algorithms.triangulation.half_edges import BORDER, HULL
from morph.language.dtypes import Ref
from morph.launch.foreach import func
from morph.prelude import exponent, f64, i32, sqrt, struct

BUCKETS = 120  # priorities by the squared shortest edge, the last bucket for the longest edges:
FINE_BUCKETS = 96  # the last so many are half an octave each, the others four octaves each
EXCUSED = BUCKETS + 1  # of a triangle that misses a limit but cannot be improved
DIGITS = 2.0**-53  # times a coordinate: one half to one unit in its last place


@struct
class Corner:
    """A vertex, or a point that is not inserted yet.

    ``on`` is the segment in whose interior it lies, or None; ``size`` the edge length wanted there.
    """

    xy: (f64, 2)  # type: ignore[syntax]
    on: Ref("segments")  # type: ignore[valid-type]
    size: f64  # type: ignore[valid-type]


@func
def corner_of(p):
    return Corner(p.xy, p.on, p.wanted if hasattr(p, "wanted") else 0.0)


@func
def dot(u, v):
    return u.x * v.x + u.y * v.y


@func
def cross(u, v):
    return u.x * v.y - u.y * v.x


# --- triangles -----------------------------------------------------------------------------------


@func
def too_long(a, b):
    """Whether the edge ab is longer than the mean of the sizes wanted at its ends."""
    d, mean = b.xy - a.xy, 0.5 * (a.size + b.size)
    return dot(d, d) > mean * mean


@func
def too_large(a, b, c, max_area, params):
    """Whether the triangle abc has too much area, or an edge too long."""
    large = abs(cross(b.xy - a.xy, c.xy - a.xy)) > 2.0 * max_area
    if hasattr(params, "has_sizes"):
        large = large or too_long(a, b) or too_long(b, c)
        large = large or too_long(c, a)
    return large


@func
def spans_small_angle(a, b):
    """Whether a and b lie on two segments that meet below 60 degrees, equally far from where.

    Such an edge is as long as the input permits; refinement would not terminate there
    (Miller, Pav, Walkington 2003).
    """
    s, t = a.on, b.on
    if s is None or t is None or s == t:
        return False
    w = s.a if s.a == t.a or s.a == t.b else s.b
    if w != t.a and w != t.b:
        return False
    d, e, f = a.xy - w.xy, b.xy - w.xy, b.xy - a.xy
    dd = dot(d, d)
    return dd < 1.001 * dot(e, e) and dot(e, e) < 1.001 * dd and dot(f, f) < dd


@func
def bucket_of_length(least, params):
    """The bucket of a triangle whose shortest edge has this squared length.

    ``params.first_bucket`` is the most urgent; with ``segments_first`` it is for encroached
    segments alone.
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
def exceeds(u, v, cos2):
    """Whether u and v enclose more than the obtuse angle of squared cosine ``cos2``."""
    d = dot(u, v)
    return d < 0.0 and d * d > cos2 * dot(u, u) * dot(v, v)


@func
def has_wide_angle(p, q, r, cos2):
    """Whether a triangle has an angle larger than the obtuse one of squared cosine ``cos2``."""
    u, v, w = q - p, r - q, p - r
    return exceeds(u, -w, cos2) or exceeds(v, -u, cos2) or exceeds(w, -v, cos2)


@func
def is_wide(p, q, r, least, params):
    """Whether an angle is too large, given the precision of coordinates; see `is_narrow`.

    ``least`` is the squared length of the shortest edge.  An angle above 180 degrees less twice
    26.45 makes another one smaller than 26.45 degrees.
    """
    slack = largest(p, q, r) * DIGITS / sqrt(least)
    return has_wide_angle(p, q, r, min(params.wide + slack, params.proven_wide))


@func
def is_flat(p, q, r, params):
    """Whether a triangle's height is below the coordinates' precision or the least size.

    Short triangles may be four times as flat: they end on the grid of coordinates.
    """
    u, v, w = q - p, r - q, p - r
    twice = cross(u, v)
    most = largest(p, q, r) * DIGITS
    longest = max(dot(u, u), dot(v, v), dot(w, w))
    portion = 1.0 if longest > 2.0**20 * most * most else 0.0625
    return twice * twice < max(portion * most * most, params.floor) * longest


@func
def bucket_of(a, b, c, max_area, params):
    """The bucket of the triangle abc if it misses a limit of angle or size, or BUCKETS if not.

    EXCUSED if it misses a limit, but cannot be improved.  `is_narrow` and `is_flat` are called only
    where rounding of the coordinates may matter: ``params.resolution`` is at least the square of
    the rounding unit in them.
    """
    ab, bc, ca = b.xy - a.xy, c.xy - b.xy, a.xy - c.xy
    lab, lbc, lca = dot(ab, ab), dot(bc, bc), dot(ca, ca)
    d, product, least = dot(ab, ca), lab * lca, lbc  # at the corner opposite the shortest edge
    if lca < lbc and lca <= lab:
        d, product, least = dot(ab, bc), lab * lbc, lca
    elif lab < lbc:
        d, product, least = dot(bc, ca), lbc * lca, lab
    narrow = d * d > params.cos2 * product
    bad = narrow
    if bad:
        if d * d <= (params.cos2 + 2.0**-20) * product or least <= 2.0**40 * params.resolution:
            bad = is_narrow(d, product, least, largest(a.xy, b.xy, c.xy), params)
    if hasattr(params, "wide"):
        narrow = narrow or has_wide_angle(a.xy, b.xy, c.xy, params.wide)
        bad = bad or is_wide(a.xy, b.xy, c.xy, least, params)
    if bad:
        s = b.on if least == lbc else (c.on if least == lca else a.on)
        t = c.on if least == lbc else (a.on if least == lca else b.on)
        if s is not None and t is not None:
            if least == lbc:
                bad = not spans_small_angle(b, c)
            elif least == lca:
                bad = not spans_small_angle(c, a)
            else:
                bad = not spans_small_angle(a, b)
    large = too_large(a, b, c, max_area, params)
    bad = bad or large
    if bad:
        twice = cross(ab, ca)
        if twice * twice <= params.resolution * (lab + lbc + lca):
            bad = not is_flat(a.xy, b.xy, c.xy, params)
    if bad:
        return bucket_of_length(least, params)
    return i32(EXCUSED) if narrow or large else i32(BUCKETS)


# --- segments ------------------------------------------------------------------------------------


@func
def may_split(opposite, params):
    """Whether the segment with this ``opposite`` may be split."""
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
        if hasattr(params, "has_border"):
            if k >= 0:
                if opposite[k] == BORDER and t.segment[k] is None:
                    return i32(-1)
        if k >= 0 and opposite[k] < 0 and may_split(opposite[k], params):
            if not is_flat(a, b, c, params):
                return k
    return i32(-1)
