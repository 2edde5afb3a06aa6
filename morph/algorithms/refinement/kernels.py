"""The kernels of `morph.algorithms.refinement.refine`: each examines or refines one triangle.

Delaunay refinement (Ruppert; Chew), in parallel rounds.  An item is an entry of a worklist: a
triangle, its first vertex when the triangle was enqueued (the *stamp*), and its priority bucket.
Retriangulation of a cavity reuses the rows of its triangles, with the new point as first vertex.
So an entry whose stamp differs from the first vertex is stale: its triangle was replaced, and the
item that replaced it has enqueued the new triangles that are bad.  Bad triangles are in ``waiting``
until their bucket becomes active.  Buckets with shorter edges come first, which adds the fewest
triangles.  ``active`` and ``following`` are the worklists of this round and of the next one.
"""

from __future__ import annotations

from morph.algorithms.refinement.cavity import (
    KEPT,
    MISFIT,
    NONE,
    WAITS,
    Boundary,
    Insertion,
    clear_boundary,
    end_of_boundary,
    fan_triangle,
    find_buckets,
    grow_cavity,
    retriangulate,
    size_in_cavity,
)
from morph.algorithms.refinement.quality import (
    BUCKETS,
    EXCUSED,
    bucket_of,
    bucket_of_length,
    corner_of,
    dot,
    encroached_side,
    has_wide_angle,
    is_flat,
    is_narrow,
    is_wide,
    largest,
    spans_small_angle,
    too_large,
)
from morph.algorithms.refinement.steiner import (
    fallback_point,
    off_centre,
    shortest_side,
    split_point,
)
from morph.algorithms.triangulation.half_edges import BORDER, HULL, behind, half_edge
from morph.launch.foreach import func, kernel
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
)

# why a bad triangle cannot be refined; `count_unmet` counts by position in this list
REASONS = ("floor", "small input angle", "boundary kept", "no digits left", "budget")
FLOOR, INPUT_ANGLE, BOUNDARY, DIGITS, BUDGET, WAITING = range(6)
NO_ITEM = 127  # `item_bucket` of a triangle without an item in a deterministic round


@kernel
def find_defect(t, g, defect):
    """Check the preconditions: orientation, neighbour symmetry, the Delaunay property."""
    node, opposite = t.node, t.opposite
    a, b, c = node[0].xy, node[1].xy, node[2].xy
    good = orient2d(a, b, c) > 0
    for k in range(3):
        if opposite[k] == HULL:
            good = good and t.segment[k] is not None
        elif opposite[k] != BORDER:
            edge = behind(opposite[k])
            n, j = g.triangles[edge >> 2], edge & 3
            here = half_edge(t, k)
            good = good and n.opposite[j] == (here if opposite[k] >= 0 else ~here)
            if opposite[k] >= 0:
                good = good and incircle(a, b, c, n.node[j].xy) <= 0
    if not good:
        defect.set()


# --- worklists -----------------------------------------------------------------------------------


@func
def enqueue(work, t, stamp, bucket):
    """Add a triangle whose first vertex is ``stamp`` to a worklist."""
    work.add(t, stamp=stamp, bucket=bucket)


@func
def write_entry(entry, t, stamp, bucket):
    """Write a new entry of a worklist."""
    entry.item = t
    entry.stamp = stamp
    entry.bucket = bucket


@kernel
def copy_entry(item, work):
    enqueue(work, item.item, item.stamp, item.bucket)


@func
def max_area_of(t, params):
    return t.origin.limit if hasattr(params, "has_limits") else params.area


@kernel
def find_bad(t, waiting, params):
    """Enqueue a triangle that is bad or has an encroached segment."""
    a, b, c = t.node
    bucket = bucket_of(corner_of(a), corner_of(b), corner_of(c), max_area_of(t, params), params)
    if bucket == EXCUSED:
        params.excused = 1  # race: the same value
    if encroached_side(t, params) >= 0:
        bucket = params.first_bucket
    if bucket < BUCKETS:
        if not hasattr(params, "segments_first"):
            opposite = t.opposite
            if opposite[0] < 0 or opposite[1] < 0 or opposite[2] < 0:
                bucket = params.first_bucket  # late changes at the hull take many small rounds
        enqueue(waiting, t, t.node[0], i8(bucket))


# --- one triangle --------------------------------------------------------------------------------


@func
def plan_insertion(g, t, cavity, boundary, params):
    """Find the point to insert for t and its cavity: an off-centre, or a point of a segment.

    The segment is an encroached side of t, or the first one found that the off-centre encroaches
    on.  Returns the point; the half-edge that it splits, or NONE; the position of the
    first edge of the cavity behind that segment (-1: there is none); and NONE, or why no point can
    be inserted: KEPT, MISFIT or WAITS.
    """
    x, start = t.node[0].xy, half_edge(t, 3)
    split, opposite, second = i32(NONE), i32(HULL), i64(-1)
    tries = 0
    met = encroached_side(t, params)
    if hasattr(params, "has_border"):
        if met >= 0:
            if t.opposite[met] == BORDER:
                return x, split, second, i32(WAITS)
    if met >= 0:
        met += i32(t) * 4
    else:
        x = off_centre(g, t, params)
    while True:
        if met < 0:
            met = grow_cavity(g, x, start, cavity, boundary, params)
        if met >= 0:  # split that segment instead
            split, start = met, met
            x = split_point(g, split)
            opposite, met = g.triangles[split >> 2].opposite[split & 3], i32(NONE)
            cavity.clear()
            clear_boundary(boundary)
        elif met == MISFIT and split == NONE and tries < 2:  # rounding moved x out of the circle
            tries += 1
            x, met = fallback_point(t, tries), i32(NONE)
        elif met == NONE and opposite != HULL and second < 0:  # grow the cavity behind the segment
            second, start = boundary.edges.size, ~opposite
        else:
            break
    return x, split, second, met


@func
def takes_point(params):
    """Decrement the number of points that may still be added; returns whether one was left."""
    if hasattr(params, "points_left"):
        return atomic_sub(params.points_left, 1) > 0
    else:
        return True


@kernel
def refine_triangle(item, g, bucket, following, waiting, params):
    """Insert a point that removes a bad triangle or splits an encroached segment."""
    t = item.item
    cavity = g.triangles.local(128)
    boundary = Boundary()
    x, split, second, met = plan_insertion(g, t, cavity, boundary, params)
    if met != NONE:  # no point can be inserted; `count_unmet` counts the reasons
        params.excused = 1  # race: the same value
        return
    on = None
    if split >= 0:
        on = g.triangles[split >> 2].segment[split & 3]
    size = size_in_cavity(x, cavity) if hasattr(t.node[0], "wanted") else 0.0
    end = end_of_boundary(g, boundary, split, second)
    new = Insertion(x, on, size, second, end, boundary.segments.size > 0 or split >= 0)
    neighbours = g.triangles.local(128)
    origins = g.inputs.local(128)
    buckets = local(i8, 128)
    now, later = find_buckets(g, new, boundary, neighbours, origins, buckets, bucket, params)
    stays = split >= 0 and t not in cavity
    if stays:
        now += 1
    edges = boundary.edges.size
    if single(cavity, guard=neighbours, priority=i32(item.bucket) - (BUCKETS - 64)):  # 0 to 63
        if takes_point(params):
            p = g.points.new(xy=new.xy, on=new.on)
            extra = g.triangles.new_rows(edges - cavity.size, fill=False)
            soon = following.new_rows(now, fill=False)
            late = waiting.new_rows(later, fill=False)
            if hasattr(p, "stable_id"):  # see `morph.algorithms.refinement.deterministic`
                p.stable_id = item.stable_id
                for i in range(extra.size):  # at most two
                    extra[i].stable_id = i32(2 * item.stable_id + i)
                    extra[i].item_bucket = i8(NO_ITEM)
            if hasattr(p, "wanted"):
                p.wanted = new.size
            retriangulate(g, p, new, cavity, extra, boundary)
            m, n = i64(0), i64(0)
            for i in range(edges):
                s, found = fan_triangle(cavity, extra, i), i32(buckets[i])
                if hasattr(s, "origin"):
                    s.origin = origins[i]
                if found <= bucket:
                    write_entry(soon[m], s, p, i8(found))
                    m += 1
                elif found < BUCKETS:
                    write_entry(late[n], s, p, i8(found))
                    n += 1
                elif found == EXCUSED:
                    params.excused = 1  # race: the same value
            if stays:
                write_entry(soon[m], t, item.stamp, item.bucket)
    else:
        following.add(t, stamp=item.stamp, bucket=item.bucket)


@kernel
def count_unmet(t, g, waiting, counts, params):
    """Count a bad triangle by the reason why it is not refined; enqueue it if it can be.

    In a part of a mesh such a triangle gets its reason instead; WAITING if it can be refined.
    """
    i = shortest_side(t.node[0].xy, t.node[1].xy, t.node[2].xy)
    p, q, r = t.node[i], t.node[(i + 1) % 3], t.node[(i + 2) % 3]
    u, v, e = p.xy - r.xy, q.xy - r.xy, q.xy - p.xy
    least, product = dot(e, e), dot(u, u) * dot(v, v)
    a, b, c = corner_of(t.node[0]), corner_of(t.node[1]), corner_of(t.node[2])
    narrow, large = (
        dot(u, v) ** 2 > params.cos2 * product,
        too_large(a, b, c, max_area_of(t, params), params),
    )
    if hasattr(params, "wide"):
        narrow = narrow or has_wide_angle(p.xy, q.xy, r.xy, params.wide)
    side = encroached_side(t, params)
    if narrow or large or side >= 0:
        most = largest(p.xy, q.xy, r.xy)
        small = not large and not is_narrow(dot(u, v), product, least, most, params)
        if hasattr(params, "wide"):
            small = small and not is_wide(p.xy, q.xy, r.xy, least, params)
        why = -1
        if side < 0 and not large and spans_small_angle(corner_of(p), corner_of(q)):
            why = INPUT_ANGLE
        elif side < 0 and (small or is_flat(p.xy, q.xy, r.xy, params)):
            why = FLOOR
        else:
            cavity = g.triangles.local(128)
            boundary = Boundary()
            x, split, second, met = plan_insertion(g, t, cavity, boundary, params)
            why = BOUNDARY if met == KEPT else (DIGITS if met == MISFIT else BUDGET)
            if hasattr(t, "reason"):
                why = WAITING if met == WAITS else why
        if why == BUDGET:
            bucket = params.first_bucket if side >= 0 else bucket_of_length(least, params)
            enqueue(waiting, t, t.node[0], i8(bucket))
        if narrow or large:
            if hasattr(t, "reason"):
                t.reason = i8(why)
            else:
                atomic_add(counts.n[why], 1)
        if hasattr(t, "reason"):
            if why >= BUDGET:
                t.reason = i8(WAITING)
