"""``barrier()`` in kernels: each part is a step, on every target, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, table, tries
from test_targets_programs import both_ways

import morph
from morph import foreach, func, kernel, program, sections
from morph.launch.checked import is_checked
from morph.prelude import atomic_add, barrier, i64, static
from morph.testing import fail_allocation, team

SMALL = st.lists(st.integers(-9, 9), min_size=1, max_size=40)


@func
def after(r, t, by):
    return (r.id + by) % len(t)


@kernel
def shift(r, t, by):
    """Adds to another row, reads the sums of others, then their means."""
    i = after(r, t, by)
    x = r.x
    atomic_add(t[i].sum, x)
    barrier()
    for j in range(2):
        r.y += t[(i + j) % len(t)].sum
    barrier()
    r.x = t[i].y + by


@program
def shifts(t, by, rounds):
    n = 0
    while n < rounds:
        foreach(t, shift, t, by + n + t[0].x, where=lambda r: r.id % 3 < 2)
        n += 1


def shifted(x, by, rounds):
    x, y, sums = np.array(x), np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
    wanted, size = np.arange(len(x)) % 3 < 2, len(x)
    for n in range(rounds):
        step = by + n + x[0]
        at = (np.arange(size) + step) % size
        np.add.at(sums, at[wanted], x[wanted])
        y[wanted] += (sums[at] + sums[(at + 1) % size])[wanted]
        x[wanted] = (y[at] + step)[wanted]
    return x.tolist(), y.tolist(), sums.tolist()


def rows(target, x):
    zeros = np.zeros(len(x), np.int64)
    return table(target, x=np.array(x, np.int64), y=zeros, sum=zeros.copy())


@tries(8)
@given(SMALL, st.integers(-50, 50))
def test_programs(target, x, by):
    def run(program):
        t = rows(target, x)
        program(t, by, 3)
        return tuple(host(c).tolist() for c in (t.x, t.y, t.sum))

    assert both_ways(target, shifts, run) == shifted(x, by, 3)


@tries(8)
@given(SMALL, st.integers(-50, 50))
def test_host(target, x, by):
    def run():
        t = rows(target, x)
        for n in range(3):
            foreach(t, shift, t, by + n + int(t[0].x), where=lambda r: r.id % 3 < 2)
        return tuple(host(c).tolist() for c in (t.x, t.y, t.sum))

    for found in everywhere(target, run):
        assert found == shifted(x, by, 3)


@kernel
def spread(r, made, found, twice: static):
    for i in range(r.x):
        made.new(x=i)
    barrier()
    r.y = len(made)
    if r.x > 0:
        found.add(r)
        if twice:
            found.add(r)


def allocated(target):
    t, limit = rows(target, np.arange(12)), 3
    made, found = morph.Table("made", target, x=i64), morph.Collection(t)
    foreach(t, spread, made, found, True, where=lambda r: r.id > limit)
    assert sorted(host(made.x[:]).tolist()) == sorted(i for x in range(4, 12) for i in range(x))
    assert host(t.y).tolist() == [0] * 4 + [len(made)] * 8
    assert sorted(host(found.items).tolist()) == sorted([*range(4, 12)] * 2)


@pytest.mark.parametrize("threads", [1, 4])
def test_allocations_in_both_parts(target, threads):
    n, fired = 1, True
    with team(threads):
        while fired:
            with fail_allocation(n, target) as fault:
                allocated(target)
            fired, n = fault.fired, n + 2
    assert n > 20


@kernel
def rotate(r, t):
    x = t[(r.id + 1) % len(t)].x
    r.y = x
    barrier()
    r.x = r.y


def test_no_race_between_parts(target):
    t = rows(target, np.arange(7))
    with morph.checked():
        foreach(t, rotate, t)
    foreach(t, rotate, t, check=True)
    assert host(t.x).tolist() == [2, 3, 4, 5, 6, 0, 1]


@kernel
def late(r, t):
    r.sum = 1
    barrier()
    t[r.id + 3].y = 1


def test_errors_of_parts(target):
    t = rows(target, np.arange(7))
    with pytest.raises(morph.CheckError, match="row 7 of rows does not exist"):
        foreach(t, late, t, check=True)
    with pytest.raises(morph.LanguageError, match="the items of a kernel change before"):
        foreach(t, late, t, where=lambda r: r.sum == 0)
    with pytest.raises(morph.LanguageError, match="has a barrier of its own"), sections():
        foreach(t, late, t)
    with pytest.raises(morph.LanguageError, match=r"takes the item and 1 more"):
        foreach(t, late)
    with pytest.raises(ValueError, match="until_empty goes without sections and barrier"):
        foreach(morph.Collection(t), late, t, until_empty=True)


# --- the barrier before a step --------------------------------------------------------------------


@kernel
def count_down(r, limits):
    r.x += limits[0].step
    atomic_add(limits[0].most, -limits[0].fall)


@kernel
def count_up(r, limits):
    r.x += limits[0].step


def up_to_limit(count):
    @program
    def run(t, limits):
        n = 0
        while n < limits[0].most:
            few = limits[0].step
            foreach(t, count, limits)
            n += few
        return n

    return run


@pytest.mark.parametrize(("count", "want"), [(count_up, 10), (count_down, 4)])
def test_no_barrier_after_reading_what_is_never_written(count, want):
    run = up_to_limit(count)
    t = table("cpu", x=np.zeros(4, np.int64))
    limits = table("cpu", most=np.array([9]), step=np.array([2]), fall=np.array([1]))
    with team(2):
        assert run(t, limits) == want
    assert host(t.x).tolist() == [want] * 4
    if not is_checked():
        assert ("has_read |=" in run.source()) == (count is count_down)
