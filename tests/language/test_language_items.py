"""Names and constants; items that claim and reserve; programs."""

from __future__ import annotations

import numpy as np
import pytest
from small import points, rows, values

from morph.compiler.ir import nodes as ir
from morph.data.collection import Collection, Flag, Set
from morph.data.table import Table
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_min,
    barrier,
    f64,
    i32,
    i64,
    local,
    single,
    sqrt,
)

# --- names ---------------------------------------------------------------------------------------


@func
def step(x):
    return x + 1


def other_step():
    @func
    def step(x):
        return x * 10

    return step


STEP = other_step()


@kernel
def names(int, status, threads, deferred, int_, state):
    a, it, key, position, t0_ = status, threads, deferred, int_, state
    short = step(a) + STEP(it) + key + position + t0_
    int.bool = short
    int.delete_ = STEP(step(1))


def test_any_name_may_be_used(target):
    t = rows(target, bool=i64, delete_=i64)
    foreach(t, names, 1, 2, 3, 4, 5)
    assert values(t, "bool") == [2 + 20 + 3 + 4 + 5]
    assert values(t, "delete_") == [20]


@kernel
def hidden_words(p, g, g_points, room):
    mine = g.points.local(2)
    mine.add(p)
    p.lock = p.free + 1
    p.lock -= 1


@kernel
def hidden_claim(p, g, g_points, room):
    mine = g.points.local(2)
    mine.add(p)
    if single(mine):
        p.owner = p.free + g_points.x
        row = room.new(owner=p.id, flag=3)
        row.lock = p.lock


def test_a_column_may_be_named_as_what_stands_beside_it(target):
    g = points(target, owner=i64, lock=i64, free=i64)
    g.points.free[:] = 5
    other = rows(target, x=i64)
    other.x[:] = 2
    room = Table("room", g.device, owner=i64, flag=i64, lock=i64)
    foreach(g.points, hidden_words, g, other[0], room)
    foreach(g.points, hidden_claim, g, other[0], room)
    assert values(g.points, "owner") == [7] * 4 and values(g.points, "lock") == [5] * 4
    assert sorted(values(room, "owner")) == [0, 1, 2, 3]
    assert values(room, "flag") == [3] * 4 and values(room, "lock") == [5] * 4


# --- constants, closures -------------------------------------------------------------------------

SIZE = 3


class Settings:
    offset = 5


@kernel
def constant(r):
    r.a = SIZE + Settings.offset


def test_a_changed_attribute_is_new_code(target, monkeypatch):
    t = rows(target, a=i64)
    foreach(t, constant)
    monkeypatch.setattr(Settings, "offset", 100)
    foreach(t, constant)
    assert values(t, "a") == [103]


def with_helper(scale):
    @func
    def scaled(x):
        return x * scale

    @kernel
    def run(r, level):
        r.a += scaled(level)

    return run


@pytest.mark.parametrize("scale", [3, 4])
def test_functions_keep_the_closure_they_were_made_with(target, scale):
    t = rows(target, a=i64)
    foreach(t, with_helper(scale), 7)
    assert values(t, "a") == [7 * scale]


@kernel
def add(r, level):
    r.a += level


def test_a_filter_and_a_kernel_may_use_one_name_for_two_numbers(target):
    t = rows(target, 4, a=i64)
    for level in (2, 3, np.int32(1)):
        foreach(t, add, 10 * level, where=lambda r: r.id == level)  # noqa: B023
    assert values(t, "a") == [0, 10, 20, 30]
    for level in (0, 0.5):
        foreach(t, add, 1, where=lambda r: r.id < level)  # noqa: B023
    assert values(t, "a") == [1, 10, 20, 30]


# --- single --------------------------------------------------------------------------------------


@kernel
def own(p, g, k, won):
    k = k * 2  # a parameter that is assigned keeps its value to the end
    mine = g.points.local(4)
    mine.add(p)
    for t in p.outnbrs:
        mine.add(t)
    seen = None
    for t in mine:
        seen = t
    if single(mine):
        p.times += k
        seen.last = k
        won.add(p)
    else:
        p.lost += k


def test_locals_and_parameters_last_from_gather_to_commit(target):
    g = points(target, 8, times=i64, lost=i64, last=i64)
    won = Collection(g.points)
    foreach(g.points, own, g, 5, won)
    times, lost = np.array(values(g.points, "times")), np.array(values(g.points, "lost"))
    assert ((times == 10) ^ (lost == 10)).all() and times.any()
    assert len(won) == (times == 10).sum()


@kernel
def once(p, first):
    if single(first.lock):
        first.a = p.id + 1


def test_single_place(target):
    t = rows(target, 9, lock=i32, a=i64)
    foreach(t, once, t[3])
    assert sum(a > 0 for a in values(t, "a")) == 1 and values(t, "lock")[3] == 1


# --- reservations --------------------------------------------------------------------------------


@func
def spread(out, p, extra):
    for t in p.outnbrs:
        out.add(t)
    for _ in range(extra):
        out.add(p)


@kernel
def allocate(p, g, out, made, n):
    some = local(i64, 4)
    p.mark = 1
    for i in range(n):
        some.add(i)
    for i in some:
        made.new(i)
    spread(out, p, n - 1)
    fresh = made.new_rows(n)
    for r in fresh:
        r.x = 100
    if p.other is not None:
        for _ in range(p.other.size):
            out.add(p)


@pytest.mark.parametrize("n", [0, 1, 3, 9])
def test_what_is_reserved_is_enough(target, n):
    g = points(target, mark=i32, other=Ref("points"), size=i64)
    g.points.other[:] = np.array([-1, 0, 0, -1], np.int32)
    g.points.size[:] = 2
    out, made = Collection(g.points), Table("made", g.device, x=i64)
    foreach(g.points, allocate, g, out, made, n)
    assert len(out) == 5 + 4 * max(n - 1, 0) + 4
    assert sorted(values(made, "x")) == sorted([*range(n)] * 4 + [100] * 4 * n)


def needs(kernel_, g, *args):
    """What a kernel reserves, as written in the IR."""
    foreach(g.points, kernel_, *args)
    unit = list(kernel_.launches.values())[-1].compiled.unit
    return [n for f in unit.funcs for s in ir.walk(f) if isinstance(s, ir.Reserve) for n in s.needs]


@kernel
def one_side(p, out):
    if p.id > 1:
        out.add(p)
        out.add(p)
    elif p.id == 1:
        out.add(p)


def test_branches_reserve_their_own():
    g = points("python")
    found = needs(one_side, g, Collection(g.points))
    assert [n.count.value for n in found] == [2, 1]


# --- programs ------------------------------------------------------------------------------------


@kernel
def visit(p, level, next):
    p.dist = level
    for t in p.outnbrs:
        if atomic_min(t.dist, level + 1) > level + 1:
            next.add(t)


@kernel
def touch(p):
    p.count += 1


@program
def levels(g, cur, next, source, most):
    g.points[source].dist = 0
    level = 0
    while not cur.empty:
        foreach(cur, visit, level, next)
        cur, next = next, cur
        next.clear()
        level += 1
        if level >= most:
            break
    return level


@program
def nested(g, flag, n):
    total = 0
    i = 0
    while i < n:
        i += 1
        if i == 2:
            continue
        j = 0
        while True:
            j += 1
            foreach(g.points, touch, where=lambda p: p.id < j and p.id < i)
            barrier()
            if j >= i:
                break
        if i % 2 == 1:
            flag.set()
        if flag.take():
            g.points[0].dist += i
            total += 10 * i
        elif i == 100:
            return -1
        x = i if i > 2 else j
        total += x
    g.points[1].dist = sqrt(g.points[0].dist)
    if total > 1000:
        return total
    else:
        return 0 - total


def both(run, target, **columns):
    """A program's result and its points, fused and eagerly."""
    found = []
    for eager in (False, True):
        g = points(target, 6, **columns)
        found.append((run(g, eager), {c: values(g.points, c) for c in columns}))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("most", [1, 2, 3, 99])
def test_swapped_worklists(target, most):
    def run(g, eager):
        g.points.dist[:] = 100
        cur, next_ = Collection(g.points), Collection(g.points)
        cur.add(1)
        result = (levels.eager if eager else levels)(g, cur, next_, 1, most)
        return int(result), sorted(cur.items.tolist()), sorted(next_.items.tolist())

    result, found = both(run, target, dist=i64)
    assert result[0] == min(most, 6)
    assert sum(d < 100 for d in found["dist"]) == min(most + 1, 6)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_nested_loops_break_continue_return(target, n):
    def run(g, eager):
        return int((nested.eager if eager else nested)(g, Flag(g), n))

    both(run, target, count=i64, dist=f64)


@kernel
def link(p, sets, joined):
    for t in p.outnbrs:
        if t.id != 0 and sets.union(p, t):
            atomic_add(joined.x, 1)


@kernel
def name(p, sets):
    p.label = sets.find(p)


def test_sets(target):
    g = points(target, 5, label=Ref("points"))
    sets, joined = Set(g.points), rows(target, x=i64)
    foreach(g.points, link, sets, joined[0])
    foreach(g.points, name, sets)
    assert values(g.points, "label") == [0] * 5
