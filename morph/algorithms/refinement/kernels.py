"""The kernels of `morph.algorithms.refinement.refine`, and the program that runs rounds of them.

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
    Insertion,
    add_neighbours,
    close_boundary,
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
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.sort import sort_first
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
DEFERRED_KEY = 2**62  # greater than the order of any item


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
def enqueue(work, t, stamp, bucket, order):
    """Add a triangle whose first vertex is ``stamp`` to a worklist."""
    if hasattr(stamp, "stable_id"):  # see `morph.algorithms.refinement.deterministic`
        work.add(t, stamp=stamp, bucket=bucket, order=order)
    else:
        work.add(t, stamp=stamp, bucket=bucket)


@func
def order_of(item):
    return item.order if hasattr(item, "order") else i64(0)


@func
def write_entry(entry, t, stamp, bucket, order):
    """Write a new entry of a worklist."""
    entry.item = t
    entry.stamp = stamp
    entry.bucket = bucket
    if hasattr(entry, "order"):
        entry.order = order


@kernel
def copy_entry(item, work):
    enqueue(work, item.item, item.stamp, item.bucket, order_of(item))


@kernel
def signal_urgent(item, urgent):
    urgent.set()


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
        enqueue(waiting, t, t.node[0], i8(bucket), i64(0))


# --- one triangle --------------------------------------------------------------------------------


@func
def plan_insertion(g, t, cavity, boundary, vertices, segments, params):
    """Find the point to insert for t and its cavity: an off-centre, or a point of a segment.

    The segment is an encroached side of t, or the first one found that the off-centre encroaches
    on.  Returns the point; the half-edge that it splits, or NONE; the index in ``boundary`` at
    which the cavity behind that segment begins (-1: there is none); and NONE, or why no point can
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
            met = grow_cavity(g, x, start, cavity, boundary, vertices, segments, params)
        if met >= 0:  # split that segment instead
            split, start = met, met
            x = split_point(g, split)
            opposite, met = g.triangles[split >> 2].opposite[split & 3], i32(NONE)
            cavity.clear()
            boundary.clear()
            vertices.clear()
            segments.clear()
        elif met == MISFIT and split == NONE and tries < 2:  # rounding moved x out of the circle
            tries += 1
            x, met = fallback_point(t, tries), i32(NONE)
        elif met == NONE and opposite != HULL and second < 0:  # grow the cavity behind the segment
            second, start = boundary.size, ~opposite
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


@func
def order_in_fan(item, i):
    return (item.stable_id << 16) + i if hasattr(item, "stable_id") else i64(0)


@kernel
def refine_triangle(item, g, bucket, following, waiting, params):
    """Insert a point that removes a bad triangle or splits an encroached segment."""
    t = item.item
    cavity = g.triangles.local(128)
    boundary = local(i32, 128)
    vertices = g.points.local(129)  # with the end of the last edge
    segments = local(i32, 128)
    x, split, second, met = plan_insertion(g, t, cavity, boundary, vertices, segments, params)
    if met != NONE:  # no point can be inserted; `count_unmet` counts the reasons
        params.excused = 1  # race: the same value
        return
    on = None
    if split >= 0:
        on = g.triangles[split >> 2].segment[split & 3]
    size = size_in_cavity(x, cavity) if hasattr(t.node[0], "wanted") else 0.0
    new = Insertion(x, on, size, second, segments.size > 0 or split >= 0)
    neighbours = g.triangles.local(128)
    origins = g.inputs.local(128)
    buckets = local(i8, 128)
    close_boundary(g, split, second, vertices)
    add_neighbours(g, boundary, segments, neighbours, origins)
    now, later = find_buckets(new, boundary, vertices, origins, buckets, bucket, params)
    stays = split >= 0 and t not in cavity
    if stays:
        now += 1
    if single(cavity, guard=neighbours, priority=i32(item.bucket) - (BUCKETS - 64)):  # 0 to 63
        if takes_point(params):
            p = g.points.new(xy=new.xy, on=new.on)
            extra = g.triangles.new_rows(boundary.size - cavity.size, fill=False)
            soon = following.new_rows(now, fill=False)
            late = waiting.new_rows(later, fill=False)
            if hasattr(p, "stable_id"):
                p.stable_id = item.stable_id
            if hasattr(p, "wanted"):
                p.wanted = new.size
            retriangulate(g, p, new, cavity, extra, boundary, vertices, segments)
            m, n = i64(0), i64(0)
            for i in range(boundary.size):
                s, found = fan_triangle(cavity, extra, i), i32(buckets[i])
                if hasattr(s, "origin"):
                    s.origin = origins[i]
                if found <= bucket:
                    write_entry(soon[m], s, p, i8(found), order_in_fan(item, i))
                    m += 1
                elif found < BUCKETS:
                    write_entry(late[n], s, p, i8(found), order_in_fan(item, i))
                    n += 1
                elif found == EXCUSED:
                    params.excused = 1  # race: the same value
            if stays:
                write_entry(soon[m], t, item.stamp, item.bucket, order_of(item))
    else:
        enqueue(following, t, item.stamp, item.bucket, order_of(item))


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
            boundary = local(i32, 128)
            vertices = g.points.local(129)  # with the end of the last edge
            segments = local(i32, 128)
            x, split, second, met = plan_insertion(
                g, t, cavity, boundary, vertices, segments, params
            )
            why = BOUNDARY if met == KEPT else (DIGITS if met == MISFIT else BUDGET)
            if hasattr(t, "reason"):
                why = WAITING if met == WAITS else why
        if why == BUDGET:
            bucket = params.first_bucket if side >= 0 else bucket_of_length(least, params)
            enqueue(waiting, t, t.node[0], i8(bucket), i64(0))
        if narrow or large:
            if hasattr(t, "reason"):
                t.reason = i8(why)
            else:
                atomic_add(counts.n[why], 1)
        if hasattr(t, "reason"):
            if why >= BUDGET:
                t.reason = i8(WAITING)


# --- rounds --------------------------------------------------------------------------------------


@kernel
def list_entry(item, listed, params):
    """Copy an entry to the next row of ``listed``."""
    row = listed[atomic_add(params.listed, 1)]
    write_entry(row, item.item, item.stamp, item.bucket, item.order)
    row.key = item.order
    item.item.entry = i32(row)


@func
def has_preceding_neighbour(t, item, listed, count):
    """Whether triangle t has an item in the list that precedes this one."""
    if t.entry < 0 or t.entry >= count:
        return False
    other = listed[t.entry]
    if other.item != t:  # `entry` is of an earlier round
        return False
    return other.bucket < item.bucket or (other.bucket == item.bucket and other.order < item.order)


@kernel
def defer_conflicting(item, g, listed, count, following, params):
    """Defer an item if a triangle at most two steps away has one that precedes it.

    Both would claim the same triangles, nearly always; so the item need not find its cavity.
    """
    conflicting = False
    for k in range(3):
        edge = item.item.opposite[k]
        if edge >= 0 and not conflicting:
            t = g.triangles[edge >> 2]
            conflicting = has_preceding_neighbour(t, item, listed, count)
            for j in range(1, 3):
                behind_t = t.opposite[((edge & 3) + j) % 3]
                if behind_t >= 0 and not conflicting:
                    conflicting = has_preceding_neighbour(
                        g.triangles[behind_t >> 2], item, listed, count
                    )
    if conflicting:
        item.key = DEFERRED_KEY
        atomic_sub(params.listed, 1)
        enqueue(following, item.item, item.stamp, item.bucket, item.order)


@kernel
def copy_sorted(place, order, listed, sliced, first, stable_id):
    """Copy the item at a place of the sorted list to a row of ``sliced``."""
    item, row = listed[order[place]], sliced[place.id - first]
    write_entry(row, item.item, item.stamp, item.bucket, item.order)
    row.stable_id = stable_id + place.id


@kernel
def copy_by_order(item, selected, ranked, first):
    """Copy an item to the row of ``ranked`` at its rank; its new point's id is first + rank."""
    rank = i64(0)
    for other in selected:
        if other.order < item.order:
            rank += 1
    row = ranked[rank]
    write_entry(row, item.item, item.stamp, item.bucket, item.order)
    row.stable_id = first + rank


@program
def run_sorted(g, active, following, waiting, sorts, bucket, last, params):
    """Run a deterministic round; returns the next id."""
    params.listed = 0
    foreach(
        active, list_entry, g.ranked, params,
        where=lambda i: i.bucket <= last and i.item.node[0] == i.stamp,
    )  # fmt: skip
    count = params.listed
    if len(active) > params.deferral_threshold:
        foreach(g.ranked[:count], defer_conflicting, g, g.ranked, count, following, params)
    sort_first(sorts, count)
    count = params.listed
    first, next_id = 0, params.next_id
    while first < count:
        end = min(first + len(g.sliced), count)
        foreach(
            sorts.places[first:end], copy_sorted, sorts.order, g.ranked, g.sliced, first, next_id
        )
        foreach(
            g.sliced[: end - first], refine_triangle, g, bucket, following, waiting, params,
            where=lambda i: i.item.node[0] == i.stamp, together=True,
        )  # fmt: skip
        first = end
    params.next_id = next_id + count
    return next_id + count


@program
def run_rounds(g, active, following, waiting, selected, urgent, params, turns):
    """Refine the active triangles in at most ``turns`` rounds; returns the number of rounds.

    The next bucket becomes active when the number of active triangles is below ``params.most`` and
    below a fraction, 1 / ``params.portion``, of the entries of ``waiting`` (at least
    ``params.least``).  With ``params.segments_first``, items of bucket 0 (encroached segments) run
    alone before all others: points beside segments that will be split add many triangles.

    A deterministic round sorts its items by order.  The program returns before a round that has
    more items than ``g.ranked`` has rows, whose new rows might exceed the capacity of the tables,
    or that might add too many points.  ``selected`` is a list, or on a CPU a `Sort`.
    """
    rounds = 0
    bucket = params.bucket
    if hasattr(params, "next_id"):
        next_id, capacity = params.next_id, params.item_capacity
    while rounds < turns and (not active.empty or bucket < BUCKETS - 1):
        few = min(params.most, max(len(waiting) // params.portion, params.least))
        while len(active) < few and bucket < BUCKETS - 1:
            bucket = max(bucket + 1, params.first_bucket)
            foreach(waiting, copy_entry, active, where=lambda i: i.bucket == bucket)
        needed = i64(1)
        if hasattr(params, "next_id"):
            needed = len(active)
            if hasattr(params, "listed"):
                capacity = params.item_capacity - len(g.points) - needed
            else:
                capacity -= needed
            rows = len(waiting) + len(g.triangles) + 3 * needed
            if needed > len(g.ranked) or capacity < 0 or rows > params.waiting_capacity:
                break
        if hasattr(params, "points_left"):
            if params.points_left < needed:
                break
        last = i32(BUCKETS)
        if hasattr(params, "segments_first"):
            foreach(
                active, signal_urgent, urgent,
                where=lambda i: i.bucket == 0 and i.item.node[0] == i.stamp,
            )  # fmt: skip
            if urgent.take():
                last = i32(0)
                foreach(
                    active, copy_entry, following,
                    where=lambda i: i.bucket != 0
                    and (not hasattr(i, "order") or i.item.node[0] == i.stamp),
                )  # fmt: skip
        if hasattr(params, "listed"):
            next_id = run_sorted(g, active, following, waiting, selected, bucket, last, params)
        elif hasattr(params, "next_id"):
            foreach(
                active, copy_entry, selected,
                where=lambda i: i.bucket <= last and i.item.node[0] == i.stamp,
            )  # fmt: skip
            foreach(selected, copy_by_order, selected, g.ranked, next_id)
            foreach(
                g.ranked, refine_triangle, g, bucket, following, waiting, params,
                where=lambda i: i.stable_id >= next_id, together=True,
            )  # fmt: skip
            next_id += len(selected)
            selected.clear()
        else:
            foreach(
                active, refine_triangle, g, bucket, following, waiting, params,
                where=lambda i: i.bucket <= last and i.item.node[0] == i.stamp,
            )  # fmt: skip
        active, following = following, active
        following.clear()
        rounds += 1
    params.bucket = bucket
    if hasattr(params, "next_id"):
        params.next_id = next_id
    return rounds
