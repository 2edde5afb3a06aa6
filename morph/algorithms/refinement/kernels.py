"""Mending triangles: the kernels of `morph.algorithms.refinement.refine`.

A kernel's item plans what mends its triangle, claims all that this changes, and changes it.  Bad
triangles wait in ``far`` until their level is due: the shortest edges first, which makes the fewest
triangles; those due are in ``near``.
"""

from __future__ import annotations

from morph.algorithms.refinement.cavity import (
    KEPT,
    LEVELS,
    MISFIT,
    NONE,
    behind,
    dot,
    encroached_side,
    encroaches,
    grade,
    grow_cavity,
    input_at,
    is_flat,
    is_narrow,
    largest,
    level_of,
    may_split,
    other_point,
    shortest_side,
    size_at,
    spans_small_angle,
    split_point,
    steiner_point,
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
def find_flaw(t, g, flaw):
    """Whether a triangle breaks what refinement relies on: orientation, neighbours, Delaunay."""
    node, twin = t.node, t.twin
    a, b, c = node[0].xy, node[1].xy, node[2].xy
    good = orient2d(a, b, c) > 0
    for k in range(3):
        if twin[k] == HULL:
            good = good and t.wall[k] is not None
        else:
            edge = behind(twin[k])
            n, j = g.triangles[edge >> 2], edge & 3
            here = i32(t) * 4 + k
            good = good and n.twin[j] == (here if twin[k] >= 0 else ~here)
            if twin[k] >= 0:
                good = good and incircle(a, b, c, n.node[j].xy) <= 0
    if not good:
        flaw.set()


# --- which triangles -----------------------------------------------------------------------------


@func
def limit_of(t, g, goal):
    """The largest area that t may have."""
    return g.inputs[t.origin].limit if hasattr(goal, "limited") else goal.area


@func
def level_at(t, g, goal):
    """The level of t, the first if a segment at its side is to be split; LEVELS if all is good."""
    a, b, c = t.node
    size = a.wanted if hasattr(a, "wanted") else 0.0
    level = grade(a.xy, a.on, size, b, c, b.xy, c.xy, limit_of(t, g, goal), goal)
    return goal.first if encroached_side(t, goal) >= 0 else level


@func
def is_large(t, g, goal):
    a, b, c = t.node
    size = a.wanted if hasattr(a, "wanted") else 0.0
    return too_large(a.xy, b.xy, c.xy, size, b, c, limit_of(t, g, goal), goal)


@kernel
def find_bad(t, far, g, goal):
    level = level_at(t, g, goal)
    if level < LEVELS:
        if not hasattr(goal, "strict"):
            twin = t.twin
            if twin[0] < 0 or twin[1] < 0 or twin[2] < 0:
                level = goal.first  # what is done at the hull late makes a long tail
        note(far, t, t.node[0], i8(level), i64(0))


@func
def note(work, t, apex, level, order):
    """Add t to a worklist, to be mended while ``apex`` is its first vertex."""
    if hasattr(apex, "birth"):  # see `morph.algorithms.refinement.deterministic`
        work.add(t, apex=apex, level=level, order=order)
    else:
        work.add(t, apex=apex, level=level)


@func
def order_of(item):
    return item.order if hasattr(item, "order") else i64(0)


@kernel
def promote(item, near):
    note(near, item.item, item.apex, item.level, order_of(item))


@kernel
def look(item, urgent):
    urgent.set()


@kernel
def postpone(item, again):
    note(again, item.item, item.apex, item.level, order_of(item))


# --- mending one ---------------------------------------------------------------------------------


@func
def plan(g, t, cavity, rim, begin, walls, origins, ring, goal):
    """Find the point that mends t, and collect what it replaces.

    Returns the point; the edge it splits, or NONE; where in the rim the other side of that edge
    begins (-1: nothing lies there); and NONE, or why it does not fit in: KEPT or MISFIT.
    """
    x = t.node[0].xy
    seed, side = t, i32(-1)
    cut, other, turn = i32(NONE), i32(HULL), i64(-1)
    tries = 0
    met = encroached_side(t, goal)
    if met >= 0:
        met += i32(t) * 4
    else:
        x = steiner_point(g, t, goal)
    while True:
        if met < 0:
            met = grow_cavity(g, x, seed, side, cavity, rim, begin, walls, origins, ring, goal)
        if met >= 0:  # split that segment instead
            cut, seed, side = met, g.triangles[met >> 2], met & 3
            x = split_point(g, seed, side)
            other, met = seed.twin[side], i32(NONE)
            cavity.clear()
            rim.clear()
            begin.clear()
            walls.clear()
            origins.clear()
            ring.clear()
        elif met == MISFIT and cut == NONE and tries < 2:  # rounding moved x out of the circle
            tries += 1
            x, met = other_point(t, tries), i32(NONE)
        elif met == NONE and other != HULL and turn < 0:  # then what is behind it
            turn, seed, side = rim.size, g.triangles[~other >> 2], ~other & 3
        else:
            break
    return x, cut, turn, met


@func
def encroached(x, p, q, outer, right, left, goal):
    """Whether a corner of x, p, q encroaches on the side opposite, one that may be split."""
    hit = (outer and encroaches(p, q, x, goal)) or (right and encroaches(q, x, p, goal))
    return (hit or (left and encroaches(x, p, q, goal))) and not is_flat(x, p, q, goal)


@func
def pays(goal):
    """Whether the budget has a point left; takes it."""
    if hasattr(goal, "left"):
        return atomic_sub(goal.left, 1) > 0
    else:
        return True


@kernel
def mend_one(item, g, level, again, far, goal):
    t = item.item
    cavity = g.triangles.local(128)
    rim = local(i32, 128)
    begin = g.points.local(128)
    walls = g.segments.local(128)
    origins = local(i32, 128)
    ring = g.triangles.local(128)
    x, cut, turn, met = plan(g, t, cavity, rim, begin, walls, origins, ring, goal)
    if met != NONE:
        return  # `find_left` tells why
    wall, last = None, None
    if cut >= 0:
        s, k = g.triangles[cut >> 2], cut & 3
        wall, last = s.wall[k], s.node[(k + 1) % 3]
    size = rim.size
    closed = cut < 0 or turn >= 0  # else x lies on the hull
    wanted = size_at(x, cavity) if hasattr(last, "wanted") else 0.0
    walled = walls.size > 0 or cut >= 0
    grades = local(i8, 128)
    now, later = i64(0), i64(0)
    a = begin[0]
    p = a.xy
    for i in range(size):
        b = begin[i + 1 if i + 1 < size else 0]
        if i + 1 == size and not closed:
            b = last
        q = b.xy
        limit = goal.area
        if hasattr(goal, "limited"):
            origins[i] = input_at(g, x, p, q, origins[i])
            limit = g.inputs[origins[i]].limit
        due = grade(x, wall, wanted, a, b, p, q, limit, goal)
        if walled:
            edge = rim[i]
            open_rim = edge < 0 and may_split(edge, goal)
            ends = cut >= 0 and (i + 1 == size or i + 1 == turn)
            begins = cut >= 0 and (i == 0 or i == turn)
            if encroached(x, p, q, open_rim, ends, begins, goal):
                due = goal.first
            elif due < LEVELS and not hasattr(goal, "strict"):
                due = goal.first
        a, p = b, q
        grades.add(i8(due))
        if due <= level:
            now += 1
        elif due < LEVELS:
            later += 1
    kept = cut >= 0  # and then t may be there still
    if kept:
        kept = t not in cavity
        now += i64(1) if kept else i64(0)
    if single(cavity, guard=ring, priority=i32(item.level) - (LEVELS - 64)):  # it has 6 bits
        if pays(goal):
            new = g.points.new(xy=x, on=wall)
            if hasattr(new, "birth"):
                new.birth = item.birth
            if hasattr(new, "wanted"):
                new.wanted = wanted
            extra = g.triangles.new_rows(size - cavity.size, fill=False)
            soon = again.new_rows(now, fill=False)
            late = far.new_rows(later, fill=False)
            m, n, w = i64(0), i64(0), i64(0)
            before, s, a = extra[size - cavity.size - 1], cavity[0], begin[0]
            for i in range(size):
                next = i + 1 if i + 1 < size else 0
                b, edge, due = begin[next], rim[i], i32(grades[i])
                after = cavity[min(next, cavity.size - 1)]
                if next >= cavity.size:
                    after = extra[next - cavity.size]
                if next == 0 and not closed:
                    b = last
                here, right, left = i32(s) * 4, i32(after) * 4 + 2, i32(before) * 4 + 1
                if cut >= 0:
                    if i + 1 == size or i + 1 == turn:
                        right = ~right if turn >= 0 else i32(HULL)
                        s.wall[1] = wall
                    if i == 0 or i == turn:
                        left = ~left if turn >= 0 else i32(HULL)
                        s.wall[2] = wall
                s.node = vector(new, a, b)
                s.twin = vector(edge, right, left)
                if hasattr(s, "origin"):
                    s.origin = origins[i]
                if edge >= 0:
                    g.triangles[edge >> 2].twin[edge & 3] = here
                else:
                    s.wall[0] = walls[w]
                    w += 1
                    if edge != HULL:
                        g.triangles[~edge >> 2].twin[~edge & 3] = ~here
                if due <= level:
                    e = soon[m]
                    m += 1
                    e.item = s
                    e.apex = new
                    e.level = i8(due)
                    if hasattr(e, "order"):
                        e.order = (item.birth << 16) + i
                elif due < LEVELS:
                    f = late[n]
                    n += 1
                    f.item = s
                    f.apex = new
                    f.level = i8(due)
                    if hasattr(f, "order"):
                        f.order = (item.birth << 16) + i
                before, s, a = s, after, b
            if kept:
                e = soon[m]
                e.item = t
                e.apex = item.apex
                e.level = item.level
                if hasattr(e, "order"):
                    e.order = item.order
    else:
        note(again, t, item.apex, item.level, order_of(item))


@program
def mend(g, near, again, far, urgent, goal, most, part, least, turns):
    """Mend what is bad, the most urgent first, in at most so many rounds; return their number.

    The next level is begun when fewer are near than ``most``, and than a part of all so far.

    Where segments matter, the order is strict: encroached ones first, and more levels.  Else points
    are put beside segments that are about to be split, and make many more.
    A triangle is written anew with its new point as first vertex: an entry with another apex is of
    one that is gone, and whoever replaced it has judged what stands there now.
    """
    rounds = 0
    level, first = goal.level, goal.first
    while rounds < turns and (not near.empty or level < LEVELS - 1):
        if hasattr(goal, "left"):
            if goal.left <= 0:
                break
        few = min(most, max(len(far) // part, least))
        while len(near) < few and level < LEVELS - 1:
            level = max(level + 1, first)
            foreach(far, promote, near, where=lambda i: i.level == level)
        due = i32(LEVELS)
        if hasattr(goal, "strict"):
            foreach(near, look, urgent, where=lambda i: i.level == 0 and i.item.node[0] == i.apex)
            if urgent.take():
                due = i32(0)
                foreach(near, postpone, again, where=lambda i: i.level != 0)
        foreach(
            near, mend_one, g, level, again, far, goal,
            where=lambda i: i.level <= due and i.item.node[0] == i.apex,
        )  # fmt: skip
        near, again = again, near
        again.clear()
        rounds += 1
    goal.level = level
    return rounds


@kernel
def find_left(t, g, far, counts, goal):
    """Count a triangle that is not as asked, by reason; what can be mended goes to ``far``."""
    i = shortest_side(t.node[0].xy, t.node[1].xy, t.node[2].xy)
    p, q, r = t.node[i], t.node[(i + 1) % 3], t.node[(i + 2) % 3]
    u, v, e = p.xy - r.xy, q.xy - r.xy, q.xy - p.xy
    least = dot(e, e)
    narrow, large = dot(u, v) ** 2 > goal.cos2 * (dot(u, u) * dot(v, v)), is_large(t, g, goal)
    k = encroached_side(t, goal)
    if narrow or large or k >= 0:
        most = largest(p.xy, q.xy, r.xy)
        small = not large and not is_narrow(dot(u, v), dot(u, u) * dot(v, v), least, most, goal)
        why = -1
        if k < 0 and not large and spans_small_angle(p.xy, p.on, q.xy, q.on):
            why = INPUT_ANGLE
        elif k < 0 and (small or is_flat(p.xy, q.xy, r.xy, goal)):
            why = FLOOR
        else:
            cavity = g.triangles.local(128)
            rim = local(i32, 128)
            begin = g.points.local(128)
            walls = g.segments.local(128)
            origins = local(i32, 128)
            ring = g.triangles.local(128)
            x, cut, turn, met = plan(g, t, cavity, rim, begin, walls, origins, ring, goal)
            why = BOUNDARY if met == KEPT else (DIGITS if met == MISFIT else BUDGET)
        if why == BUDGET:
            due = goal.first if k >= 0 else level_of(least, goal)
            note(far, t, t.node[0], i8(due), i64(0))
        if narrow or large:
            atomic_add(counts.n[why], 1)
