"""Mending triangles: the kernels of `morph.algorithms.refine`.

A kernel's item plans what mends its triangle, claims all that this changes, and changes it.
"""

from __future__ import annotations

from morph.algorithms.cavity import (
    below_feature,
    below_floor,
    circle_holds,
    dot,
    encroached_side,
    feature_at,
    grow_cavity,
    input_at,
    is_bad,
    off_centre,
    shortest_edge,
    side_of,
    size_at,
    small_angle,
    spans_small_angle,
    split_cavity,
    split_point,
    too_large,
)
from morph.kernel import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_sub,
    i32,
    i64,
    incircle,
    local,
    log,
    orient2d,
    single,
    vector,
)

# why a triangle is left as it is; `find_left` counts by place in this list
REASONS = ("floor", "small input angle", "boundary kept", "no digits left", "budget")
FLOOR, INPUT_ANGLE, KEPT, DIGITS, BUDGET = range(5)


@kernel
def find_flaw(t, flaw):
    """Whether a triangle breaks what refinement relies on: orientation, neighbours, Delaunay."""
    a, b, c = t.node
    good = orient2d(a.xy, b.xy, c.xy) > 0
    for k in range(3):
        n = t.nbr[k]
        if n is None:
            good = good and t.wall[k] is not None
        else:
            j = side_of(n, t)
            good = good and n.nbr[j] == t
            if t.wall[k] is None:
                good = good and incircle(a.xy, b.xy, c.xy, n.node[j].xy) <= 0
    if not good:
        flaw.set()


@func
def plan(g, t, cavity, rim, ring, goal):
    """Find the point that mends t, and collect what it replaces.

    Returns the point; the edge it splits (-1: none, -2: it would have to be one that must stay
    whole); where in the rim the other side of that edge begins (-1: nothing lies there); and
    whether the point fits in, digits being finite.
    """
    turn = i64(-1)
    k = encroached_side(t, goal)
    if k >= 0:
        cut, x, fits = i64(t) * 4 + k, t.node[0].xy, True
    else:
        p, q, r = shortest_edge(t.node[0], t.node[1], t.node[2])
        x = off_centre(p.xy, q.xy, r.xy, goal.reach)
        cut = grow_cavity(g, x, t, i64(-1), cavity, rim, ring, goal)
        fits = circle_holds(t, x)  # else x was rounded out of its own circle
    if cut >= 0:
        s, side = g.triangles[cut >> 2], cut & 3
        x = split_point(s.node[(side + 1) % 3], s.node[(side + 2) % 3], s.wall[side])
        cavity.clear()
        rim.clear()
        ring.clear()
        turn, fits = split_cavity(g, x, s, side, cavity, rim, ring, goal)
    return x, cut, turn, fits


@func
def is_flawed(t, g, goal):
    """Whether t is to be mended, or a segment at its side to be split."""
    a, b, c = t.node
    return is_bad(a, b, c, g.inputs[t.origin], goal) or encroached_side(t, goal) >= 0


@func
def is_large(t, g, goal):
    a, b, c = t.node
    return too_large(a, b, c, g.inputs[t.origin], goal)


@func
def urgency(t, goal):
    """The priority of t: encroached segments first, then the shortest edge."""
    if encroached_side(t, goal) >= 0:
        return i64(-(1 << 20))
    p, q, r = shortest_edge(t.node[0], t.node[1], t.node[2])
    e = q.xy - p.xy
    return i64(log(dot(e, e) * goal.scale) * 2.885) + 40


@func
def pays(goal):
    """Whether the budget has a point left; takes it."""
    if hasattr(goal, "left"):
        return atomic_sub(goal.left, 1) > 0
    else:
        return True


@kernel
def find_bad(t, bad, g, goal):
    if is_flawed(t, g, goal):
        bad.add(t, t.node[0])


@func
def read_rim(g, rim, begin, outer, walls, sides, origins):
    """Note what the edges of the rim know before their triangles are rewritten."""
    for edge in rim:
        s, k = g.triangles[edge >> 2], edge & 3
        o = s.nbr[k]
        begin.add(s.node[(k + 1) % 3])
        outer.add(o)
        walls.add(s.wall[k])
        origins.add(s.origin)
        sides.add(i64(0) if o is None else side_of(o, s))


@kernel
def refine_one(item, g, again, goal):
    t = item.item
    if t.node[0] != item.apex:
        return  # rewritten since: whoever did has judged the new triangle
    cavity = g.triangles.local(128)
    rim = local(i64, 128)
    ring = g.triangles.local(128)
    x, cut, turn, fits = plan(g, t, cavity, rim, ring, goal)
    if cut == -2 or not fits:
        return  # `find_left` tells why
    wall, first, last = None, None, None
    if cut >= 0:
        s, k = g.triangles[cut >> 2], cut & 3
        wall, first, last = s.wall[k], s.node[(k + 2) % 3], s.node[(k + 1) % 3]
    if single(cavity, guard=ring, priority=urgency(t, goal)):
        begin = g.points.local(128)
        outer = g.triangles.local(128)
        walls = g.segments.local(128)
        sides = local(i64, 128)
        origins = local(i32, 128)
        fan = g.triangles.local(128)
        read_rim(g, rim, begin, outer, walls, sides, origins)
        size = rim.size
        closed = cut < 0 or turn >= 0  # else x lies on the hull
        if pays(goal):
            new = g.points.new(xy=x, on=wall)
            if hasattr(new, "wanted"):
                new.wanted = size_at(x, cavity)
            if hasattr(new, "feature"):
                new.feature = feature_at(g, x, rim, is_large(t, g, goal))
            for i in range(size):
                fan.add(cavity[i] if i < cavity.size else g.triangles.new())
            for i in range(size):
                s = fan[i]
                a = begin[i]
                b = begin[i + 1] if i + 1 < size else (begin[0] if closed else last)
                after = fan[i + 1] if i + 1 < size else (fan[0] if closed else None)
                before = fan[i - 1] if i > 0 else (fan[size - 1] if closed else None)
                o = g.inputs[origins[i]]
                s.origin = input_at(g, new, a, b, origins[i]) if hasattr(o, "limit") else origins[i]
                s.node = vector(new, a, b)
                s.nbr = vector(outer[i], after, before)
                s.wall = vector(
                    walls[i],
                    wall if b == first or b == last else None,
                    wall if a == first or a == last else None,
                )
                if outer[i] is not None:
                    outer[i].nbr[sides[i]] = s
                if is_flawed(s, g, goal):
                    again.add(s, new)
            if t not in cavity:
                again.add(t, item.apex)
    else:
        again.add(t, item.apex)


@program
def refine_all(g, work, again, goal):
    rounds = 0
    while not work.empty:
        foreach(work, refine_one, g, again, goal)
        work, again = again, work
        again.clear()
        rounds += 1
    return rounds


@program
def refine_within(g, work, again, goal):
    """Refine until there is no bad triangle, or no point left in the budget."""
    rounds = 0
    while not work.empty and goal.left > 0:
        foreach(work, refine_one, g, again, goal)
        work, again = again, work
        again.clear()
        rounds += 1
    return rounds


@kernel
def find_left(t, g, work, counts, goal):
    """Count a triangle that is not as asked, by reason; what can be mended goes to ``work``."""
    p, q, r = shortest_edge(t.node[0], t.node[1], t.node[2])
    narrow, large = small_angle(p, q, r, goal), too_large(p, q, r, g.inputs[t.origin], goal)
    k = encroached_side(t, goal)
    if narrow or large or k >= 0:
        why = -1
        if k < 0 and below_floor(p, q, r, goal):
            why = FLOOR
        elif k < 0 and not large and spans_small_angle(p, q):
            why = INPUT_ANGLE
        elif k < 0 and not large and below_feature(p, q):
            why = FLOOR
        else:
            cavity = g.triangles.local(128)
            rim = local(i64, 128)
            ring = g.triangles.local(128)
            x, cut, turn, fits = plan(g, t, cavity, rim, ring, goal)
            why = KEPT if cut == -2 else (BUDGET if fits else DIGITS)
        if why == BUDGET:
            work.add(t, t.node[0])
        if narrow or large:
            atomic_add(counts.n[why], 1)
