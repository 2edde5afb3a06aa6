"""Deferred items, executed again after stores have grown, read what the other items read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import rows, values
from targets import everywhere, tries

from morph import Collection, Graph, Table, foreach, kernel, program
from morph.prelude import i64

N = 40


@kernel
def look_and_add(p, c):
    p.size = len(c)
    p.least = 99
    for q in c:
        p.seen += 1
        p.least = min(p.least, q.id)
    for _ in c[1:]:
        p.later += 1
    c.add(p)
    c.add(p)


@kernel
def look_and_make(p, t):
    p.size = len(t)
    for r in t:
        p.seen += r.a
    t.new(a=1)
    t.new(a=1)


@kernel
def look_and_connect(p, g):
    p.size = len(g.edges)
    p.seen = p.out_degree
    for t in p.outnbrs:
        p.later += t.id
    g.edges.new(p, g.points[0])


@kernel
def take_and_add(p, c, d):
    q = c.take()
    p.seen = -1 if q is None else q.id
    p.size = len(c)
    c.add(p)
    d.add(p)
    d.add(p)


@kernel
def spread(p, c):
    p.size = len(c)
    for t in p.outnbrs:
        c.add(t)


@kernel
def grow(r, t):
    r.a += 1
    t.new(a=0)
    t.new(a=0)


@program
def spread_twice(g, c):
    foreach(g.points, spread, c)
    foreach(g.points, spread, c)


@program
def spread_twice_by_warps(g, c):
    foreach(g.points, spread, c, balance="warp")
    foreach(g.points, spread, c, balance="warp")


@program
def run_twice(items, step, c):
    foreach(items, step, c)
    foreach(items, step, c)


@program
def take_once(g, c, d):
    foreach(g.points, take_and_add, c, d)


@program
def grow_slices(t, first, last):
    foreach(t[first:last], grow, t)
    foreach(t[:last], grow, t)


def graph(target):
    g = Graph.from_edges(range(N), [(i + 3) % N for i in range(N)], n=N, device=target)
    for name in ("size", "seen", "later", "least"):
        g.points.add(name, i64)
    return g


def columns(g):
    return [set(values(g.points, name)) for name in ("size", "seen", "later")]


@pytest.mark.parametrize("capacity", [3, 20, 51])
def test_sizes_and_loops_over_what_grows(target, capacity):
    def run():
        g = graph(target)
        c = Collection(g.points)
        c.extend([5, 1, 7])
        c.resize(capacity)
        foreach(g.points, look_and_add, c)
        assert columns(g) == [{3}, {3}, {2}] and set(values(g.points, "least")) == {1}
        assert len(c) == 3 + 2 * N
        t = Table("t", g.device, a=i64)
        t.extend(2)
        t.a[:] = 1
        t.resize(capacity)
        g.points.seen[:] = 0
        foreach(g.points, look_and_make, t)
        assert columns(g)[:2] == [{2}, {2}] and len(t) == 2 + 2 * N
        g.points.later[:] = 0
        g.edges.resize(N + capacity)
        foreach(g.points, look_and_connect, g)
        assert columns(g)[:2] == [{N}, {1}]
        assert values(g.points, "later") == [(i + 3) % N for i in range(N)]

    everywhere(target, run)


@pytest.mark.parametrize("capacity", [3, 20, 70])
def test_sizes_in_programs(target, capacity):
    def run():
        g = graph(target)
        c = Collection(g.points)
        c.extend([5, 1, 7])
        c.resize(capacity)
        run_twice(g.points, look_and_add, c)
        assert columns(g) == [{3 + 2 * N}, {6 + 2 * N}, {4 + 2 * N}]
        assert len(c) == 3 + 4 * N

    everywhere(target, run)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("room", [6, 30, 100])
def test_only_items_of_the_last_barrier_are_taken(target, room, fused):
    def run():
        g = graph(target)
        c, d = Collection(g.points), Collection(g.points)
        c.extend(range(5))
        for x in (c, d):
            x.resize(room)
        if fused:
            take_once(g, c, d)
        else:
            foreach(g.points, take_and_add, c, d)
        got = [x for x in values(g.points, "seen") if x >= 0]
        assert sorted(got) == [0, 1, 2, 3, 4] and columns(g)[0] == {5}
        assert len(c) == N and len(d) == 2 * N

    everywhere(target, run)


@tries(10)
@given(st.integers(-25, 25), st.integers(-25, 25), st.integers(0, 40))
def test_slices_of_what_grows(target, first, last, more):
    def run():
        t = rows(target, 20, a=i64)
        t.resize(20 + more)
        want = [0] * 20
        for part in (slice(first, last), slice(None, last)):
            new = want[part]
            want[part] = [x + 1 for x in new]
            want += [0] * (2 * len(new))
        grow_slices(t, first, last)
        assert sorted(values(t, "a")[20:]) == sorted(want[20:])
        assert values(t, "a")[:20] == want[:20] and len(t) == len(want)
        t = rows(target, 20, a=i64)
        t.resize(20 + more)
        want = [0] * 20
        want[first:last] = [1] * len(want[first:last])
        foreach(t[first:last], grow, t)
        assert values(t, "a")[:20] == want and len(t) == 20 + 2 * sum(want)

    everywhere(target, run)


@pytest.mark.parametrize("balance", ["thread", "warp", "grid", "program", "program by warps"])
def test_rows_that_threads_share(target, balance):
    """On a GPU, the warps of a program share out the capacity left at a barrier."""
    programs = {"program": spread_twice, "program by warps": spread_twice_by_warps}

    def run():
        n, more = 600, [1] * 5000
        g = Graph.from_edges([*range(n), *[7] * 5000], [*range(n), *more], n=n, device=target)
        g.points.add("size", i64)
        c = Collection(g.points)
        c.extend([3, 4])
        c.resize(1000)
        if balance in programs:
            programs[balance](g, c)
        else:
            foreach(g.points, spread, c, balance=balance)
        times = 2 if balance in programs else 1
        assert set(values(g.points, "size")) == {2 + (times - 1) * (n + 5000)}
        assert sorted(values(c, "item")) == sorted([3, 4, *times * [*range(n), *more]])

    everywhere(target, run)
