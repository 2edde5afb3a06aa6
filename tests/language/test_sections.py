"""Sections: kernels of one step, in programs and on the host, on every target, against Python."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits import stride
from targets import everywhere, host, table, tries
from test_targets_programs import both_ways, graph, graphs

import morph
from morph import foreach, kernel, program, sections
from morph.prelude import atomic_add, atomic_min, i64, local, single, static
from morph.testing import fail_allocation, team

FAR = 99


@kernel
def visit(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level + 1) > level + 1:
            following.add(t)


@kernel
def count(r, by, total, made):
    if r.x % 3 < 2:
        made.new(x=r.x + by)
    atomic_add(total[0].x, r.x)


@program
def levels(now, then, other_now, other_then, rows, total, made):
    """Two searches, and rows of a table, in the same steps."""
    level = 0
    while not now.empty or not other_now.empty:
        with sections():
            foreach(now, visit, level, then, where=lambda p: p.dist == level)
            foreach(other_now, visit, level, other_then)
            foreach(rows, count, level + total[0].x, total, made, balance="thread")
        now, then = then, now
        other_now, other_then = other_then, other_now
        then.clear()
        other_then.clear()
        level += 1
    return level


def search(n, edges):
    dist, found = [FAR] * n, [0]
    dist[0] = 0
    sizes = []
    while found:
        sizes.append(len(found))
        ends = {(p, t) for p in found for s, t in edges if s == p}
        found = sorted({t for p, t in ends if dist[t] > dist[p] + 1})
        for t in found:
            dist[t] = len(sizes)
    return dist, len(sizes)


def begun(target, n, edges):
    g = graph(target, n, edges)
    g.points.add("dist", i64, fill=FAR)
    g.points[0].dist = 0
    now, then = morph.Collection(g.points), morph.Collection(g.points)
    now.add(0)
    return g, now, then


@tries(6)
@given(graphs(), graphs(5), st.integers(0, 40))
def test_programs(target, one, other, rows):
    def run(program):
        g, *lists = begun(target, *one)
        h, *more = begun(target, *other)
        t, total = table(target, x=np.arange(rows)), table(target, x=np.zeros(1, np.int64))
        made = morph.Table("made", target, x=i64)
        steps = program(*lists, *more, t, total, made)
        found = (host(x.points.dist).tolist() for x in (g, h))
        return steps, *found, int(host(total.x)[0]), sorted(host(made.x[:]).tolist())

    (one_dist, a), (other_dist, b) = search(*one), search(*other)
    steps, sums = max(a, b), sum(range(rows))
    made = sorted(x + step + step * sums for step in range(steps) for x in range(rows) if x % 3 < 2)
    expected = (steps, one_dist, other_dist, steps * sums, made)
    assert both_ways(target, levels, run) == expected


@kernel
def lower(p, g, changed):
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)


@kernel
def scale(r, by, twice: static):
    r.x = r.x * by * (2 if twice else 1)


@tries(6)
@given(graphs(), graphs(5))
def test_host(target, one, other):
    def run():
        searches = []
        for n, edges in (one, other):
            g = graph(target, n, edges, weight=np.ones(len(edges), np.int64))
            g.points.add("dist", i64, fill=FAR)
            g.points[0].dist = 0
            searches.append((g, morph.Flag(g)))
        rows, rounds = table(target, x=np.ones(3, np.int64)), 0
        (g, changed), (h, moved) = searches
        again = True
        while again:
            with sections():
                foreach(g.points, lower, g, changed, where=lambda p: p.dist < FAR)
                foreach(h.points, lower, h, moved, where=lambda p: p.dist < FAR)
                foreach(rows, scale, 1, rounds == 0, where=lambda r: r.id != 1)
            again, rounds = bool(changed.take() | moved.take()), rounds + 1
        assert host(rows.x).tolist() == [2, 1, 2]
        return [host(x.points.dist).tolist() for x, _ in searches]

    expected = [search(*one)[0], search(*other)[0]]
    found = everywhere(target, run)
    assert found == [expected] * len(found)


@kernel
def mark(r):
    r.y = r.y + 1


@program
def split(rows, k):
    with sections():
        foreach(rows[:k], scale, 3, False)
        foreach(rows[k:], mark)


@tries(6)
@given(st.integers(0, 9), st.integers(-11, 11))
def test_slices(target, rows, k):
    def run():
        a, b = (table(target, x=np.arange(rows), y=np.zeros(rows, np.int64)) for _ in "ab")
        split(a, k)
        with sections():
            foreach(b[:k], scale, 3, False)
            foreach(b[k:], mark)
        return [host(c).tolist() for t in (a, b) for c in (t.x, t.y)]

    numbers = list(range(rows))
    x = [3 * n for n in numbers[:k]] + numbers[k:]
    y = [0 for _ in numbers[:k]] + [1 for _ in numbers[k:]]
    found = everywhere(target, run)
    assert found == [[x, y, x, y]] * len(found)


def test_an_error_launches_nothing(target):
    rows = table(target, x=np.ones(3, np.int64))
    with pytest.raises(KeyError), sections():
        foreach(rows, scale, 5, False)
        raise KeyError
    with pytest.raises(RuntimeError, match="sections cannot be nested"), sections(), sections():
        foreach(rows, scale, 5, False)
    with pytest.raises(TypeError, match="foreach runs a @kernel"), sections():
        foreach(rows, len)
    with sections():
        pass
    assert host(rows.x).tolist() == [1, 1, 1]


@kernel
def pile(r, found, size):
    mine = local(i64, 1)
    for i in range(r.x):
        mine.add(i)
    r.sum = 0
    for v in mine:
        r.sum += v
        if v < size:
            found.add(r)


def piled(target):
    a, b = (
        table(target, x=np.arange(n), y=np.ones(n, np.int64), sum=np.zeros(n, np.int64))
        for n in (40, 9)
    )
    mine, other = morph.Collection(a), morph.Collection(b)
    with sections():
        foreach(a, pile, mine, 2)
        foreach(b, pile, other, 3)
        foreach(b, scale_other, 3)
    for t in (a, b):
        x = host(t.x)
        assert (host(t.sum) == x * (x - 1) // 2).all()
    assert sorted(host(mine.items).tolist()) == [i for i in range(40) for _ in range(min(i, 2))]
    assert sorted(host(other.items).tolist()) == [i for i in range(9) for _ in range(min(i, 3))]
    assert host(b.y).tolist() == [3] * 9
    return sorted(host(mine.items).tolist())


@kernel
def scale_other(r, by):
    r.y *= by


def test_items_of_several_sections_are_deferred(target):
    everywhere(target, lambda: piled(target))


@pytest.mark.parametrize("threads", [1, 4])
def test_every_allocation_of_a_section_fails(target, threads):
    if target == "python" and threads > 1:
        pytest.skip("the interpreter has one thread")
    n, fired = 1, True
    with team(threads):
        while fired:
            with fail_allocation(n, target) as fault:
                piled(target)
            fired, n = fault.fired, n + 3 + n // stride(target)
    assert n > 100


@kernel
def fill(p, by):
    p.x = by


@kernel
def read(p, sum):
    atomic_add(sum[0].y, p.x)


@kernel
def declared(p, by):
    p.x = by  # race: of other rows than those of `fill`


@kernel
def grow(p, rows):
    rows.new()


@kernel
def lock(p, rows):
    if single(rows[0]):
        p.y = 1


@kernel
def own(p, rows):
    mine = rows.local(1)
    mine.add(p)
    if single(mine):
        p.y = 1


CONFLICTS = {
    "section 2 reads column 'x' of items, and section 1 writes it in line": (fill, read),
    "section 2 writes column 'x' of items, and section 1 reads it in line": (read, fill),
    "section 2 writes column 'x' of items, and section 1 too, in line": (fill, fill),
    "section 2 runs over or asks for the size of items, and section 1 adds to it in line":
        (grow, read),
    "section 2 locks rows of items, and section 1 too, in line": (lock, lock),
}  # fmt: skip


@pytest.mark.parametrize("expected", CONFLICTS)
def test_conflicts(target, expected):
    t = table(target, x=np.zeros(3, np.int64), y=np.zeros(3, np.int64))
    arguments = {fill: 1, read: t, grow: t, lock: t}
    with pytest.raises(morph.LanguageError, match=re.escape(expected)), sections():
        for k in CONFLICTS[expected]:
            foreach(t, k, arguments[k])
    assert not host(t.x).any() and len(t) == 3


def test_a_conflict_names_the_argument(target):
    """Tables of the same name are distinguished by their kernels."""
    t, u = (table(target, x=np.zeros(3, np.int64), y=np.zeros(3, np.int64)) for _ in range(2))
    expected = "section 3 writes column 'x' of items_of_read_only, and section 2 reads it in line"
    with pytest.raises(morph.LanguageError, match=re.escape(expected)), sections():
        foreach(t, fill, 1)
        foreach(u, read_only)
        foreach(u, fill, 1)


@kernel
def read_only(p):
    p.y = p.x


def test_a_declared_race_is_no_conflict(target):
    t = table(target, x=np.zeros(4, np.int64), y=np.zeros(4, np.int64))
    for checks in (False, True):
        with morph.checked(checks), sections():
            foreach(t, fill, 1, where=lambda p: p.id < 2)
            foreach(t, declared, 2, where=lambda p: p.id >= 2)
        assert host(t.x).tolist() == [1, 1, 2, 2]
    with pytest.raises(morph.LanguageError, match="has a barrier of its own"), sections():
        foreach(t, own, t)
        foreach(t, fill, 1)


@kernel
def outside(p, rows):
    rows[p.id + 3].x = 1


def test_checks(target):
    t = table(target, x=np.zeros(4, np.int64))
    u = table(target, x=np.zeros(4, np.int64))
    with pytest.raises(morph.CheckError, match="row 4 of rows does not exist"), sections():
        foreach(t, fill, 1)
        foreach(u, outside, u, check=True)


def test_large_sections_share_the_threads(target):
    n = 200 if target == "python" else 20000
    hub = [(0, i) for i in range(1, n)] + [(i, i + 1) for i in range(1, n - 1)]

    def run(program):
        g, *lists = begun(target, n, hub)
        h, *more = begun(target, n // 2, [e for e in hub if max(e) < n // 2])
        t, total = table(target, x=np.arange(n)), table(target, x=np.zeros(1, np.int64))
        made = morph.Table("made", target, x=i64)
        program(*lists, *more, t, total, made)
        assert len(made) == 2 * len([x for x in range(n) if x % 3 < 2])
        return [host(x.points.dist).tolist() for x in (g, h)]

    assert both_ways(target, levels, run) == [[0] + [1] * (size - 1) for size in (n, n // 2)]


@program
def doubled(t, n):
    while t[0].x < n:
        foreach(t, scale, 2, False)
    return t[0].x


def test_programs_and_operators_in_the_block_run_at_once(target):
    """Only calls of `foreach` in the block itself are sections."""
    for run in (doubled, doubled.eager):
        t, u = (table(target, x=np.arange(1, 5)) for _ in range(2))
        with sections():
            foreach(u, scale, 3, False)
            assert run(t, 8) == 8
            found = morph.compact(t, lambda r: r.x > 20)
        assert host(found.items).tolist() == [2, 3]
        assert host(t.x).tolist() == [8, 16, 24, 32] and host(u.x).tolist() == [3, 6, 9, 12]


@morph.func
def below_two(k):
    return k < 2


@morph.func
def below_three(k):
    return k < 3


def test_what_filters_capture(target):
    """A program is found again by the captured objects, also when its own closure has changed."""

    def last(chosen):
        for wanted in chosen:
            t = table(target, x=np.arange(1, 5))
            with sections():
                foreach(t, scale, 3, False, where=lambda r: wanted(r.id))
        return host(t.x).tolist()

    for _ in range(2):
        assert last([below_two, below_three]) == [3, 6, 9, 4]
        assert last([below_two]) == [3, 6, 3, 4]
