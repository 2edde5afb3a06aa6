"""Mending triangles: the kernels of `morph.algorithms.refinement.refine`.

A kernel's item plans what mends its triangle, claims all that this changes, and changes it.  Bad
triangles wait in ``far`` until their level is due: the shortest edges first, which makes the fewest
triangles; those due are in ``near``.
"""

from __future__ import annotations

from morph.algorithms.refinement.cavity import (
    BUCKETS,
    KEPT,
    MISFIT,
    NONE,
    behind,
    bucket_of_corners,
    bucket_of_length,
    dot,
    encroached_side,
    fallback_point,
    grow_cavity,
    input_triangle,
    is_encroached,
    is_flat,
    is_narrow,
    largest,
    may_split,
    off_centre,
    shortest_side,
    size_in_cavity,
    spans_small_angle,
    split_point,
    too_large,
)
from morph.algorithms.triangulation.delaunay import HULL
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_sub,
    i8,
    i32,
    i64,
    incircle,
    local,
    orient2d,
    single,
    vector,
)

# why a triangle is left as it is; `find_left` counts by place in this list
REASONS = ("floor", "small input angle", "boundary kept", "no digits left", "budget")
FLOOR, INPUT_ANGLE, BOUNDARY, DIGITS, BUDGET = range(5)


@kernel
def find_defect(t, g, defect):
    """Whether a triangle breaks what refinement relies on: orientation, neighbours, Delaunay."""
    node, opposite = t.node, t.opposite
    a, b, c = node[0].xy, node[1].xy, node[2].xy
    good = orient2d(a, b, c) > 0
    for k in range(3):
        if opposite[k] == HULL:
            good = good and t.segment[k] is not None
        else:
            edge = behind(opposite[k])
            n, j = g.triangles[edge >> 2], edge & 3
            here = i32(t) * 4 + k
            good = good and n.opposite[j] == (here if opposite[k] >= 0 else ~here)
            if opposite[k] >= 0:
                good = good and incircle(a, b, c, n.node[j].xy) <= 0
    if not good:
        defect.set()


# --- which triangles -----------------------------------------------------------------------------


@func
def limit_of(t, g, params):
    """The largest area that t may have."""
    return g.inputs[t.origin].limit if hasattr(params, "has_limits") else params.area


@func
def bucket_of_triangle(t, g, params):
    """The level of t, the first if a segment at its side is to be split; LEVELS if all is good."""
    a, b, c = t.node
    size = a.wanted if hasattr(a, "wanted") else 0.0
    bucket = bucket_of_corners(a.xy, a.on, size, b, c, b.xy, c.xy, limit_of(t, g, params), params)
    return params.first_bucket if encroached_side(t, params) >= 0 else bucket


@func
def is_large(t, g, params):
    a, b, c = t.node
    size = a.wanted if hasattr(a, "wanted") else 0.0
    return too_large(a.xy, b.xy, c.xy, size, b, c, limit_of(t, g, params), params)


@kernel
def find_bad(t, waiting, g, params):
    bucket = bucket_of_triangle(t, g, params)
    if bucket < BUCKETS:
        if not hasattr(params, "segments_first"):
            opposite = t.opposite
            if opposite[0] < 0 or opposite[1] < 0 or opposite[2] < 0:
                bucket = params.first_bucket  # what is done at the hull late makes a long tail
        enqueue(waiting, t, t.node[0], i8(bucket), i64(0))


@func
def enqueue(work, t, stamp, bucket, order):
    """Add t to a worklist, to be mended while ``apex`` is its first vertex."""
    if hasattr(stamp, "stable_id"):  # see `morph.algorithms.refinement.deterministic`
        work.add(t, stamp=stamp, bucket=bucket, order=order)
    else:
        work.add(t, stamp=stamp, bucket=bucket)


@func
def order_of(item):
    return item.order if hasattr(item, "order") else i64(0)


@kernel
def activate(item, active):
    enqueue(active, item.item, item.stamp, item.bucket, order_of(item))


@kernel
def signal_urgent(item, urgent):
    urgent.set()


@kernel
def defer(item, following):
    enqueue(following, item.item, item.stamp, item.bucket, order_of(item))


# --- mending one ---------------------------------------------------------------------------------


@func
def plan_insertion(g, t, cavity, boundary, vertices, segments, origins, neighbours, params):
    """Find the point that mends t, and collect what it replaces.

    Returns the point; the edge it splits, or NONE; where in the rim the other side of that edge
    begins (-1: nothing lies there); and NONE, or why it does not fit in: KEPT or MISFIT.
    """
    x = t.node[0].xy
    seed, side = t, i32(-1)
    split, other, turn = i32(NONE), i32(HULL), i64(-1)
    tries = 0
    met = encroached_side(t, params)
    if met >= 0:
        met += i32(t) * 4
    else:
        x = off_centre(g, t, params)
    while True:
        if met < 0:
            met = grow_cavity(
                g, x, seed, side, cavity, boundary, vertices, segments, origins, neighbours, params
            )
        if met >= 0:  # split that segment instead
            split, seed, side = met, g.triangles[met >> 2], met & 3
            x = split_point(g, seed, side)
            other, met = seed.opposite[side], i32(NONE)
            cavity.clear()
            boundary.clear()
            vertices.clear()
            segments.clear()
            origins.clear()
            neighbours.clear()
        elif met == MISFIT and split == NONE and tries < 2:  # rounding moved x out of the circle
            tries += 1
            x, met = fallback_point(t, tries), i32(NONE)
        elif met == NONE and other != HULL and turn < 0:  # then what is behind it
            turn, seed, side = boundary.size, g.triangles[~other >> 2], ~other & 3
        else:
            break
    return x, split, turn, met


@func
def has_encroached_side(x, p, q, outer, right, left, params):
    """Whether a corner of x, p, q encroaches on the side opposite, one that may be split."""
    hit = (outer and is_encroached(p, q, x, params)) or (right and is_encroached(q, x, p, params))
    return (hit or (left and is_encroached(x, p, q, params))) and not is_flat(x, p, q, params)


@func
def takes_point(params):
    """Whether the budget has a point left; takes it."""
    if hasattr(params, "points_left"):
        return atomic_sub(params.points_left, 1) > 0
    else:
        return True


@kernel
def refine_triangle(item, g, bucket, following, waiting, params):
    t = item.item
    cavity = g.triangles.local(128)
    boundary = local(i32, 128)
    vertices = g.points.local(128)
    segments = g.segments.local(128)
    origins = local(i32, 128)
    neighbours = g.triangles.local(128)
    x, split, turn, met = plan_insertion(
        g, t, cavity, boundary, vertices, segments, origins, neighbours, params
    )
    if met != NONE:
        return  # `find_left` tells why
    segment, last = None, None
    if split >= 0:
        s, k = g.triangles[split >> 2], split & 3
        segment, last = s.segment[k], s.node[(k + 1) % 3]
    size = boundary.size
    closed = split < 0 or turn >= 0  # else x lies on the hull
    wanted = size_in_cavity(x, cavity) if hasattr(last, "wanted") else 0.0
    walled = segments.size > 0 or split >= 0
    grades = local(i8, 128)
    now, later = i64(0), i64(0)
    a = vertices[0]
    p = a.xy
    for i in range(size):
        b = vertices[i + 1 if i + 1 < size else 0]
        if i + 1 == size and not closed:
            b = last
        q = b.xy
        limit = params.area
        if hasattr(params, "has_limits"):
            origins[i] = input_triangle(g, x, p, q, origins[i])
            limit = g.inputs[origins[i]].limit
        due = bucket_of_corners(x, segment, wanted, a, b, p, q, limit, params)
        if walled:
            edge = boundary[i]
            open_rim = edge < 0 and may_split(edge, params)
            ends = split >= 0 and (i + 1 == size or i + 1 == turn)
            begins = split >= 0 and (i == 0 or i == turn)
            if has_encroached_side(x, p, q, open_rim, ends, begins, params):
                due = params.first_bucket
            elif due < BUCKETS and not hasattr(params, "segments_first"):
                due = params.first_bucket
        a, p = b, q
        grades.add(i8(due))
        if due <= bucket:
            now += 1
        elif due < BUCKETS:
            later += 1
    kept = split >= 0  # and then t may be there still
    if kept:
        kept = t not in cavity
        now += i64(1) if kept else i64(0)
    if single(
        cavity, guard=neighbours, priority=i32(item.bucket) - (BUCKETS - 64)
    ):  # it has 6 bits
        if takes_point(params):
            new = g.points.new(xy=x, on=segment)
            if hasattr(new, "stable_id"):
                new.stable_id = item.stable_id
            if hasattr(new, "wanted"):
                new.wanted = wanted
            extra = g.triangles.new_rows(size - cavity.size, fill=False)
            soon = following.new_rows(now, fill=False)
            late = waiting.new_rows(later, fill=False)
            m, n, w = i64(0), i64(0), i64(0)
            before, s, a = extra[size - cavity.size - 1], cavity[0], vertices[0]
            for i in range(size):
                next = i + 1 if i + 1 < size else 0
                b, edge, due = vertices[next], boundary[i], i32(grades[i])
                after = cavity[min(next, cavity.size - 1)]
                if next >= cavity.size:
                    after = extra[next - cavity.size]
                if next == 0 and not closed:
                    b = last
                here, right, left = i32(s) * 4, i32(after) * 4 + 2, i32(before) * 4 + 1
                if split >= 0:
                    if i + 1 == size or i + 1 == turn:
                        right = ~right if turn >= 0 else i32(HULL)
                        s.segment[1] = segment
                    if i == 0 or i == turn:
                        left = ~left if turn >= 0 else i32(HULL)
                        s.segment[2] = segment
                s.node = vector(new, a, b)
                s.opposite = vector(edge, right, left)
                if hasattr(s, "origin"):
                    s.origin = origins[i]
                if edge >= 0:
                    g.triangles[edge >> 2].opposite[edge & 3] = here
                else:
                    s.segment[0] = segments[w]
                    w += 1
                    if edge != HULL:
                        g.triangles[~edge >> 2].opposite[~edge & 3] = ~here
                if due <= bucket:
                    e = soon[m]
                    m += 1
                    e.item = s
                    e.stamp = new
                    e.bucket = i8(due)
                    if hasattr(e, "order"):
                        e.order = (item.stable_id << 16) + i
                elif due < BUCKETS:
                    f = late[n]
                    n += 1
                    f.item = s
                    f.stamp = new
                    f.bucket = i8(due)
                    if hasattr(f, "order"):
                        f.order = (item.stable_id << 16) + i
                before, s, a = s, after, b
            if kept:
                e = soon[m]
                e.item = t
                e.stamp = item.stamp
                e.bucket = item.bucket
                if hasattr(e, "order"):
                    e.order = item.order
    else:
        enqueue(following, t, item.stamp, item.bucket, order_of(item))


@program
def run_rounds(g, active, following, waiting, urgent, params, most, part, least, turns):
    """Mend what is bad, the most urgent first, in at most so many rounds; return their number.

    The next level is begun when fewer are near than ``most``, and than a part of all so far.

    Where segments matter, the order is strict: encroached ones first, and more levels.  Else points
    are put beside segments that are about to be split, and make many more.
    A triangle is written anew with its new point as first vertex: an entry with another apex is of
    one that is gone, and whoever replaced it has judged what stands there now.
    """
    rounds = 0
    bucket, first_bucket = params.bucket, params.first_bucket
    while rounds < turns and (not active.empty or bucket < BUCKETS - 1):
        if hasattr(params, "points_left"):
            if params.points_left <= 0:
                break
        few = min(most, max(len(waiting) // part, least))
        while len(active) < few and bucket < BUCKETS - 1:
            bucket = max(bucket + 1, first_bucket)
            foreach(waiting, activate, active, where=lambda i: i.bucket == bucket)
        due = i32(BUCKETS)
        if hasattr(params, "segments_first"):
            foreach(
                active,
                signal_urgent,
                urgent,
                where=lambda i: i.bucket == 0 and i.item.node[0] == i.stamp,
            )
            if urgent.take():
                due = i32(0)
                foreach(active, defer, following, where=lambda i: i.bucket != 0)
        foreach(
            active, refine_triangle, g, bucket, following, waiting, params,
            where=lambda i: i.bucket <= due and i.item.node[0] == i.stamp,
        )  # fmt: skip
        active, following = following, active
        following.clear()
        rounds += 1
    params.bucket = bucket
    return rounds


@kernel
def count_unmet(t, g, waiting, counts, params):
    """Count a triangle that is not as asked, by reason; what can be mended goes to ``far``."""
    i = shortest_side(t.node[0].xy, t.node[1].xy, t.node[2].xy)
    p, q, r = t.node[i], t.node[(i + 1) % 3], t.node[(i + 2) % 3]
    u, v, e = p.xy - r.xy, q.xy - r.xy, q.xy - p.xy
    least = dot(e, e)
    narrow, large = dot(u, v) ** 2 > params.cos2 * (dot(u, u) * dot(v, v)), is_large(t, g, params)
    k = encroached_side(t, params)
    if narrow or large or k >= 0:
        most = largest(p.xy, q.xy, r.xy)
        small = not large and not is_narrow(dot(u, v), dot(u, u) * dot(v, v), least, most, params)
        why = -1
        if k < 0 and not large and spans_small_angle(p.xy, p.on, q.xy, q.on):
            why = INPUT_ANGLE
        elif k < 0 and (small or is_flat(p.xy, q.xy, r.xy, params)):
            why = FLOOR
        else:
            cavity = g.triangles.local(128)
            boundary = local(i32, 128)
            vertices = g.points.local(128)
            segments = g.segments.local(128)
            origins = local(i32, 128)
            neighbours = g.triangles.local(128)
            x, split, turn, met = plan_insertion(
                g, t, cavity, boundary, vertices, segments, origins, neighbours, params
            )
            why = BOUNDARY if met == KEPT else (DIGITS if met == MISFIT else BUDGET)
        if why == BUDGET:
            due = params.first_bucket if k >= 0 else bucket_of_length(least, params)
            enqueue(waiting, t, t.node[0], i8(due), i64(0))
        if narrow or large:
            atomic_add(counts.n[why], 1)
