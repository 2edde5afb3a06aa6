"""Programs that call programs: inlined in the fused launch, plain Python when run eagerly."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import tries
from test_targets_programs import both_ways
from test_targets_swaps import deal, filled, held, kernels, latest, points

import morph
from morph.prelude import atomic_add, i32, i64


@morph.program
def rounds_of(now, then, other, count):
    """Swaps its own names; what is left over stays in either list."""
    i = 0
    while i < count:
        morph.foreach(now, deal, then, other, i)
        now, then = then, now
        then.clear()
        i += 1
    return len(now) * 10 + len(then)


@morph.program
def nested(a, b, c, count):
    """The caller's names are unchanged by swaps of the callee, and are swapped themselves."""
    total, i = 0, 0
    while i < count:
        n = rounds_of(a, b, c, i)
        total = total * 7 + n + len(a)
        if i % 2 == 1:
            a, c = c, a
        rounds_of(c, a, b, 1)
        b, c = c, b
        if len(a) > 40:
            return rounds_of(b, c, a, 2)
        i += 1
    return total


def rounds_in_python(now, then, other, count):
    for i in range(count):
        for p in list(now):
            (then if (p + i) % 3 else other).append(p)
        now, then = then, now
        then.clear()
    return len(now) * 10 + len(then)


def nested_in_python(n, count):
    a, b, c = lists = [list(range(n)), [], []]
    total = 0
    for i in range(count):
        total = total * 7 + rounds_in_python(a, b, c, i) + len(a)
        if i % 2 == 1:
            a, c = c, a
        rounds_in_python(c, a, b, 1)
        b, c = c, b
        if len(a) > 40:
            return rounds_in_python(b, c, a, 2), [sorted(x) for x in lists]
    return total, [sorted(x) for x in lists]


@pytest.mark.unchecked
@tries(12)
@given(st.integers(0, 9), st.integers(0, 6))
def test_swaps_of_the_callee_are_its_own(target, n, count):
    def run(program):
        lists = filled(points(target, n), 3)
        return program(*lists, count), held(lists)

    assert both_ways(target, nested, run) == nested_in_python(n, count)
    if target != "python":
        assert latest(nested).permutations  # swapped in the argument block, not followed
        assert len(kernels(latest(nested))) == 3  # one for each order of the arguments


@pytest.mark.unchecked
def test_a_call_that_is_followed(target):
    """One list for two names cannot be exchanged in the argument block."""

    def run(program):
        lists = filled(points(target, 7), 2)
        return program(lists[0], lists[0], lists[1], 4), held(lists)

    both_ways(target, nested, run)
    if target != "python":
        assert latest(nested).permutations == ()


class Sums(NamedTuple):
    """A bundle, of objects and a number."""

    rows: Any
    total: Any
    step: int


@morph.kernel
def add_to(r, total, by):
    r.x += by
    atomic_add(total[0].x, by)


@morph.program
def add_twice(s, by, flag, row, é, x_):
    """Takes a bundle, numbers, a flag and a row; its numbers do not reach the caller."""
    limit = by + é
    morph.foreach(s.rows, add_to, s.total, by, where=lambda r: r.x < limit + x_)
    by += s.step
    morph.foreach(s.rows, add_to, s.total, by)
    row.x = row.x + 100
    if s.total[0].x > 100:
        flag.set()
        return i64(by)
    return s.total[0].x


@morph.program
def callers(rows, total, flag, row):
    by, i, limit, x_ = i64(1), 0, 0, 2
    while not flag.take():
        by = add_twice(Sums(rows, total, 3), by, flag, row, 50, x_)
        row.x = add_twice(Sums(rows, total, i64(i)), 2, flag, row, by, limit)
        add_twice(Sums(rows, total, 0), 0, flag, row, i, i)
        limit += 1
        i += x_
    return i * 1000 + limit


def test_bundles_numbers_rows_and_flags(target):
    def run(program):
        rows, total = (morph.Table(n, target, x=i64) for n in ("rows", "total"))
        rows.extend(5), total.extend(1)
        result = program(rows, total, morph.Flag(rows), rows[2])
        return result, rows.x[:].tolist(), total.x[:].tolist()

    def python():
        x, total, flag = [0] * 5, 0, False

        def call(step, by, limit):
            nonlocal total, flag
            for k in range(5):
                if x[k] < by + limit:
                    x[k] += by
                    total += by
            by += step
            for k in range(5):
                x[k] += by
                total += by
            x[2] += 100
            flag = flag or total > 100
            return by if total > 100 else total

        by, i, limit = 1, 0, 0
        while not flag:
            by = call(3, by, 50 + 2)
            x[2] = call(i, 2, by + limit)
            call(0, 0, i + i)
            limit += 1
            i += 2
        return i * 1000 + limit, x, [total]

    assert both_ways(target, callers, run) == python()


@morph.kernel
def multiply(r, out):
    for k in range(r.x):
        out.new(x=r.x * 10 + i32(k))


@morph.program
def step_of(rows, out, count):
    while count > 0:
        morph.foreach(rows, multiply, out)
        count -= 1


@morph.program
def grow(rows, out, count):
    """Every step outgrows the table: the launch resumes within the callee."""
    i = i64(0)
    while i < count:
        step_of(rows, out, i)
        i += 1
    return len(out)


def test_a_launch_resumes_within_the_callee(target):
    def run(program):
        rows, out = (morph.Table(n, target, x=i32) for n in ("rows", "out"))
        rows.extend(3, x=np.array([1, 2, 30], np.int32))
        return program(rows, out, 4), sorted(out.x[:].tolist())

    made = [10, 20, 21, *range(300, 330)]  # in each of 0 + 1 + 2 + 3 steps
    assert both_ways(target, grow, run) == (33 * 6, sorted(made * 6))


@morph.program
def first(a):
    return a[0].w


@morph.program
def keep_type(a):
    """An eager call gives a value of the column's type, as the fused one does."""
    x = first(a)
    a[1].w = x + 1
    y = first(a)
    return x + y


def test_results_keep_their_types(target):
    def run(program):
        a = morph.Table("a", target, w=np.float32)
        a.extend(2, w=np.array([0.1, 0], np.float32))
        return program(a), a.w[:].tolist()

    x = np.float32(0.1)
    assert both_ways(target, keep_type, run) == (float(x + x), [float(x), float(x + 1)])


def test_a_program_that_is_given_as_an_argument_or_captured(target):
    @morph.program
    def twice(run, a, b):
        run(a, b, a, 1)
        return run(b, a, b, 1)

    @morph.program
    def once(a, b):
        return twice(rounds_of, a, b)

    def run(program):
        lists = filled(points(target, 6), 2)
        return program(*lists), held(lists)

    both_ways(target, once, run)


@morph.program
def with_more(a, run, *more):
    n = run(a, *more)
    return n


def test_further_arguments(target):
    @morph.program
    def main(a, b, c):
        n = with_more(a, rounds_of, b, c, 2)
        return with_more(b, rounds_of, a, c, n)

    def run(program):
        lists = filled(points(target, 6), 3)
        return program(*lists), held(lists)

    both_ways(target, main, run)


def test_errors_are_reported_in_the_callee():
    @morph.program
    def fails(a):
        b = len(a)
        a = b
        return len(a)

    @morph.program
    def calls(a, b):
        fails(a)

    lists = filled(points("cpu", 3), 2)
    for run in (calls, calls.eager):
        with pytest.raises(morph.LanguageError) as error:
            run(*lists)
        assert error.value.problem == "'a' is collection a, but the value is i64"
        assert "a = b" in str(error.value)
    assert rounds_of(*filled(points("cpu", 3), 3), 2) == 10  # programs run fused as before
