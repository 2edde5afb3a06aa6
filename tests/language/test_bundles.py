"""Named tuples as parameters of kernels, functions and programs, on every target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from targets import everywhere, host

from morph import Collection, Flag, Graph, Table, foreach, func, kernel, program
from morph.language.errors import LanguageError
from morph.prelude import atomic_add, i32, i64, local


class Side(NamedTuple):
    rows: Any
    shift: Any


class Filter(NamedTuple):
    first: Side
    second: Side
    visit: Any


class Both(NamedTuple):
    first: Side
    second: Side
    visit: Any
    row: Any


@func
def twice(x):
    return 2 * x


@func
def put(r, side, by):
    atomic_add(side.rows[r.id].x, side.shift * by)


@kernel
def put_both(r, both, n):
    put(r, both.first, i64(1))
    if n > 0:
        put(r, both.second, both.visit(n))
    atomic_add(both.row.x, r.id)


@program
def run(t, both, n):
    step, low = 0, both.second.shift
    while step < both.first.shift:
        foreach(t, put_both, both, n, where=lambda r: r.id >= low)
        step += 1
    return step + both.second.shift


def tables(target):
    made = [Table(name, target, x=i64) for name in ("t", "u", "v", "w")]
    for t in made:
        t.extend(4)
    return made


def test_kernel(target):
    def go():
        t, u, v, w = tables(target)
        bundle = Both(Side(u, 2), Side(v, np.int32(1)), twice, w[2])
        foreach(t, put_both, bundle, 7)
        foreach(t, put_both, bundle._replace(first=Side(w, 5)), 0)
        return [host(x.x[:]).tolist() for x in (u, v, w)]

    for found in everywhere(target, go):
        assert found == [[2] * 4, [14] * 4, [5, 5, 17, 5]]


@pytest.mark.parametrize("how", ["fused", "eager", "alone"])
def test_program(target, how):
    def go():
        t, u, v, w = tables(target)
        bundle = Both(Side(u, 2), Side(v, np.int32(1)), twice, w[0])
        call = {"fused": run, "eager": run.eager, "alone": run.alone}[how]
        return call(t, bundle, 3), [host(x.x[:]).tolist() for x in (u, v, w)]

    for found in everywhere(target, go):
        assert found == (3, [[0, 4, 4, 4], [0, 12, 12, 12], [12, 0, 0, 0]])


def test_numbers_change_without_another_text(target):
    t, u, v, w = tables(target)
    for n in range(3):
        foreach(t, put_both, Both(Side(u, n), Side(v, np.int32(0)), twice, w[0]), 1)
    assert host(u.x[:]).tolist() == [3] * 4
    launches = len(put_both.launches)
    foreach(t, put_both, Both(Side(u, 7), Side(v, np.int32(0)), twice, w[0]), 1)
    assert host(u.x[:]).tolist() == [10] * 4 and len(put_both.launches) == launches


class Lists(NamedTuple):
    now: Any
    then: Any


@kernel
def follow(p, lists):
    for t in p.outnbrs:
        lists.then.add(t)


@program
def swapped_beside(g, now, then, lists):
    foreach(now, follow, lists)
    now, then = then, now
    foreach(then, follow, lists)  # what `now` was
    return 10 * len(lists.now) + len(lists.then)


def test_fields_stay_when_names_are_swapped(target):
    for call in (swapped_beside, swapped_beside.eager):
        g = Graph.from_edges([0, 0, 1], [1, 2, 2], n=3, device=target)
        now, then = Collection(g.points), Collection(g.points)
        now.add(0)
        assert call(g, now, then, Lists(now, then)) == 14
        assert sorted(host(then.items).tolist()) == [1, 1, 2, 2]


@kernel
def put_one(r, side, n):
    put(r, side, n)


@kernel
def put_made(r, both, n):
    put(r, Side(both.second.rows, both.first.shift), n)


@program
def made(t, both, n):
    foreach(t, put_made, both, n)
    foreach(t, put_one, Side(both.first.rows, n + 1), n)
    return n


def test_bundles_made_in_kernels_and_programs(target):
    for call in (made, made.eager):
        t, u, v, w = tables(target)
        assert call(t, Both(Side(u, 2), Side(v, 9), twice, w[0]), 3) == 3
        assert host(u.x[:]).tolist() == [12] * 4 and host(v.x[:]).tolist() == [6] * 4


class Search(NamedTuple):
    graph: Any
    found: Any
    limit: Any
    lost: Any


@kernel
def search(p, s):
    for t in p.outnbrs:
        if s.graph.weight(p, t) < s.limit:
            s.found.add(t)
        else:
            s.lost.set()


def test_graph_collection_and_flag(target):
    def go():
        g = Graph.from_edges([0, 0, 1], [1, 2, 2], weight=[1, 5, 3], device=target)
        found, lost = Collection(g.points), Flag(g)
        foreach(g.points, search, Search(g, found, i32(4), lost))
        return sorted(host(found.items).tolist()), lost.take()

    for found in everywhere(target, go):
        assert found == ([1, 2], True)


def refused(target, what, *args):
    t, *_ = tables(target)
    with pytest.raises(LanguageError) as error:
        foreach(t, what, *args)
    return error.value.problem, error.value.hint


CPP = func(cpp="return x;")


@kernel
def misspelt(r, side):
    r.x = side.shfit


@kernel
def assigned(r, side):
    side = r.x  # noqa: F841


@kernel
def field_assigned(r, side):
    side.shift = r.x


@kernel
def added(r, side):
    r.x = side + 1


@kernel
def too_few(r, side):
    put(r, Side(side.rows), 1)


@kernel
def by_name(r, side):
    put(r, Side(rows=side.rows, shift=1), 1)


@CPP
def foreign(x) -> i64:
    """Not called."""


@kernel
def to_cpp(r, side):
    r.x = foreign(side)


@program
def filtered_by_row(t, both):
    foreach(t, moved, 1, where=lambda r: r != both.row)


def test_rejections(target):
    side = Side(1, 2)
    found = refused(target, misspelt, side)
    assert found == ("the named tuple has no 'shfit'", "it has rows, shift")
    assert refused(target, assigned, side)[0] == "'side' is a named tuple and cannot be assigned"
    assert refused(target, field_assigned, side)[0] == "cannot assign to i64"
    assert refused(target, added, side)[0] == "a named tuple is not a value"
    t, u, *_ = tables(target)
    assert refused(target, too_few, side)[0] == "Side takes 2 arguments, not 1"
    assert refused(target, by_name, side)[0] == "keyword arguments do not go here"
    with pytest.raises(LanguageError, match="the program's scalars, not handle of t"):
        filtered_by_row(t, Both(side, side, twice, t[0]))
    assert refused(target, to_cpp, side)[0] == "a named tuple cannot be an argument of C++"


@func
def below(r, both, step):
    return both.visit(r.id) < both.second.shift + step and both.first.rows[0].x == 7


@kernel
def moved(r, by):
    r.x += by


@program
def filtered(t, both, steps):
    step = 0
    while step < steps:
        foreach(t, moved, 1, where=lambda r: below(r, both, step))
        step += 1


def test_filters_of_programs(target):
    """A filter takes a bundle of the program as a whole."""

    def run(run_program):
        t, u, *_ = tables(target)
        u.x[0] = 7
        found = []
        for shift in (1, i32(3), 2.5):
            both = Filter(Side(u, 0), Side(t, shift), twice)
            run_program(t, both, 3)
            found.append(host(t.x).tolist())
        return found

    for form in (filtered, filtered.eager):
        for found in everywhere(target, lambda form=form: run(form)):
            assert found == [[3, 1, 0, 0], [6, 4, 1, 0], [9, 7, 2, 0]]


COUNTS = Side(1, 2)


def test_bundles_from_outside(target):
    """Globals are compiled in; the numbers of a closure are read at every launch."""

    def run():
        t, u, *_ = tables(target)
        inner = Filter(Side(u, i64(1)), Side(t, 0), twice)

        @kernel
        def captured(r):
            r.x += inner.visit(inner.first.shift) + COUNTS.shift
            atomic_add(inner.first.rows[r.id].x, inner.first.shift)

        for n in range(3):
            foreach(t, captured, where=lambda r: r.id < inner.first.shift)
            inner = inner._replace(first=inner.first._replace(shift=i64(n + 2)))
        return host(t.x).tolist(), host(u.x).tolist()

    for found in everywhere(target, run):
        assert found == ([18, 14, 8, 0], [6, 5, 3, 0])


def test_a_field_of_no_kind_is_refused(target):
    t, *_ = tables(target)
    with pytest.raises(TypeError, match="'rows' is a str; kernels take graphs"):
        foreach(t, misspelt, Side("x", 1))


def test_arguments_are_counted_as_written(target):
    assert (
        refused(target, misspelt, 1, 2)[0] == "'misspelt' takes 1 arguments after the item, not 2"
    )


@func
def more(r):
    r.x += 1
    return r.x


@func
def digits(a, side, b):
    return a * 1000 + side.rows * 100 + side.shift * 10 + b


@kernel
def in_order(r, out):
    out[r.id].x = digits(r.x, Side(r.x, more(r)), more(r)) + r.x


def test_arguments_are_evaluated_in_order(target):
    def go():
        t, out, *_ = tables(target)
        foreach(t, in_order, out)
        return host(out.x[:]).tolist()

    assert all(found == [14] * 4 for found in everywhere(target, go))


class Underscored(NamedTuple):
    x: Any
    x_: Any
    x__: Any


@kernel
def add_fields(r, a, a__x_, a__x__):
    r.x += a.x + 10 * a.x_ + 100 * a.x__ + 1000 * a__x_ + 10000 * a__x__


def test_names_that_end_in_underscores(target):
    t, *_ = tables(target)
    foreach(t, add_fields, Underscored(1, 2, 3), 4, 5)
    assert host(t.x[:]).tolist() == [54321] * 4


@func
def weighted(x, y, *others):
    return 10 * x + y + total(*others)


@func
def total(*numbers):
    return third(*numbers, 0)


@func
def third(x, y, z):
    return 100 * (x + y) + z


@kernel
def add_numbers(r, side, f, *more):
    atomic_add(side.rows[0].x, f(r.id, side.shift, *more))
    r.x = f(*Side(3, side.shift), *more)


@program
def sums(t, side, *more):
    step = 0
    while step < 2:
        foreach(t, add_numbers, side, weighted, *more)
        step += 1
    return step


@pytest.mark.parametrize("how", ["foreach", "fused", "eager"])
def test_further_arguments(target, how):
    def go():
        t, u, _, _ = tables(target)
        side = Side(u, np.int32(7))
        if how == "foreach":
            for _ in range(2):
                foreach(t, add_numbers, side, weighted, 2, np.int32(3))
        else:
            call = sums if how == "fused" else sums.eager
            assert call(t, side, 2, np.int32(3)) == 2
        return host(u.x[:]).tolist(), host(t.x[:]).tolist()

    for added, stored in everywhere(target, go):
        assert added == [2 * sum(10 * i + 7 + 500 for i in range(4)), 0, 0, 0]
        assert stored == [10 * 3 + 7 + 500] * 4


def test_no_further_arguments(target):
    @func
    def plus(x, y, *nothing):
        return x + y

    t, u, _, _ = tables(target)
    foreach(t, add_numbers, Side(u, 7), plus)
    foreach(t, add_numbers, Side(u, 7), plus, 5)
    assert host(t.x[:]).tolist() == [10] * 4 and host(u.x[:]).tolist()[0] == 2 * (6 + 28)


class Stack(NamedTuple):
    values: Any
    step: Any


@func
def push(stack, x):
    stack.values.add(x + stack.step)
    return stack.values.size


@kernel
def stacks(r):
    mine = local(i64, 1)
    n = push(Stack(mine, 5), r.id)
    n = push(Stack(mine, r.id), n)
    r.x = 100 * mine[0] + 10 * mine[1] + n


def test_a_bundle_holds_a_local_collection(target):
    t = Table("rows", target, x=i64)
    t.extend(3)
    foreach(t, stacks)
    assert host(t.x).tolist() == [512, 622, 732]
