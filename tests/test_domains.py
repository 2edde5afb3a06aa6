"""What a foreach runs over: items that a @func chooses, and the rows of a set."""

from __future__ import annotations

import pytest
from small import points, values
from targets import everywhere

import morph
from morph.language.errors import LanguageError
from morph.prelude import atomic_add, i32, i64

LIMIT = 2


@morph.func
def high(p):
    return p.id >= LIMIT


@morph.func
def chosen(p):
    return high(p) and p.id != 3


@morph.kernel
def count(p, step):
    if high(p):
        p.count += step
    p.count += step


def over(limit):
    @morph.func
    def above(p):
        return p.id > limit

    return above


def test_a_func_chooses_items(target):
    def run():
        g = points(target, n=6, count=i64)
        morph.foreach(g.points, count, 1, where=chosen)
        for n in (0, 4):  # what a @func takes from around it is compiled in
            morph.foreach(g.points, count, 10, where=over(n))
        morph.foreach(g.points, count, 100, where=lambda p: chosen(p))
        return values(g.points, "count")

    want = [0, 10, 222, 20, 222, 242]
    assert all(found == want for found in everywhere(target, run))


@morph.program
def rounds(g, sets, n):
    while n > 0:
        morph.foreach(g.points, count, 1, where=chosen)
        morph.foreach(sets, count, 10)
        n -= 1


def test_a_func_chooses_items_in_a_program(target):
    for run in (rounds, rounds.eager):
        g = points(target, n=4, count=i64)
        run(g, morph.Set(g.points), 3)
        assert values(g.points, "count") == [30, 30, 66, 60]


@morph.func
def number(p):
    return p.id


@morph.func
def of_two(p, q):
    return p.id < q.id


@morph.func
def changes(p):
    return atomic_add(p.count, 1) > 0


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        (number, "a filter gives a bool_"),
        (of_two, "'of_two' takes 2 arguments, not 1"),
        (changes, "a filter may not change anything"),
    ],
)
def test_functions_that_are_no_filters(target, where, problem):
    g = points(target, count=i64)
    with pytest.raises(LanguageError, match=problem):
        morph.foreach(g.points, count, 1, where=where)
    with pytest.raises(TypeError, match="where is a lambda or a @func of the item, not <morph ker"):
        morph.foreach(g.points, count, 1, where=count)


# --- sets ----------------------------------------------------------------------------------------


@morph.kernel
def join(p, sets):
    if p.id % 2 == 0:
        sets.union(p, p.outnbrs[0])


@morph.kernel
def tally(p, sets):
    atomic_add(sets.find(p).size, 1)


@morph.kernel
def everything(p, sets):
    for q in sets:
        p.sum += q.id
    for q in reversed(sets)[1:]:
        p.sum += q.size


def test_foreach_over_a_set_runs_over_its_table(target):
    def run():
        g = points(target, n=6, size=i32, sum=i64)
        sets = morph.Set(g.points)
        morph.foreach(sets, join, sets)
        morph.foreach(sets, tally, sets, where=lambda p: p.id != 5)
        morph.foreach(sets, everything, sets, where=lambda p: sets.find(p) == p)
        return values(g.points, "size"), values(g.points, "sum")

    for size, total in everywhere(target, run):
        assert size == [2, 0, 2, 0, 1, 0] and total == [20, 0, 20, 0, 20, 0]
