"""Collections that are swapped in a program: compiled for each name, or tracked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import host, tries
from test_targets_programs import both_ways

import morph
from morph.compiler.ir import nodes as ir
from morph.compiler.passes import double_buffering
from morph.prelude import i64


@morph.kernel
def deal(p, left, right, k):
    if (p.id + k) % 3 == 0:
        right.add(p)
    else:
        left.add(p)


@morph.program
def tides(a, b, c, d, rounds):
    """Two pairs that change places at their own times; sizes before and after they are cleared."""
    i, total = 0, 0
    while i < rounds:
        morph.foreach(a, deal, b, c, i)
        a, b = b, a
        b.clear()
        total += len(a)
        if i % 3 == 1:
            c, d = d, c
        morph.foreach(c, deal, a, d, i)
        size = len(c)
        c.clear()
        total = total * 2 + size
        if len(d) > len(c) and i % 2 == 0:
            c, d = d, c
        i += 1
    return total


def tided(n, rounds):
    """The same in Python."""
    a, b, c, d = lists = list(range(n)), [], [], []
    total = 0

    def dealt(now, left, right, k):
        for p in list(now):
            (left if (p + k) % 3 else right).append(p)

    for i in range(rounds):
        dealt(a, b, c, i)
        a, b = b, a
        b.clear()
        total += len(a)
        if i % 3 == 1:
            c, d = d, c
        dealt(c, a, d, i)
        size = len(c)
        c.clear()
        total = total * 2 + size
        if len(d) > len(c) and i % 2 == 0:
            c, d = d, c
    return total, [sorted(x) for x in lists]


def points(target, n):
    t = morph.Table("points", target)
    t.extend(n)
    return t


def filled(t, count):
    """Worklists over a table, the first with all of its rows."""
    lists = [morph.Collection(t) for _ in range(count)]
    lists[0].extend(np.arange(len(t)))
    return lists


def held(lists):
    return [sorted(host(c.items).tolist()) for c in lists]


def latest(program):
    """The latest unit that was compiled for a program."""
    return list(program.launches.values())[-1].compiled.unit


def kernels(unit):
    return [f.name for f in unit.funcs if isinstance(f, ir.Kernel)]


@pytest.mark.unchecked
@tries(10)
@given(st.integers(0, 9), st.integers(0, 12))
def test_two_pairs(target, n, rounds):
    def run(program):
        lists = filled(points(target, n), 4)
        return program(*lists, rounds), held(lists)

    assert both_ways(target, tides, run) == tided(n, rounds)
    if target != "python":
        unit = latest(tides)
        assert len(unit.permutations) == 4 and len(kernels(unit)) == 2


@morph.kernel
def weigh(e, left, right):
    p = e.item
    if (p.id + e.weight) % 3 == 0:
        right.add(p, weight=e.weight + p.id)
    else:
        left.add(p, weight=e.weight + 1)


@morph.program
def turn(a, b, c, rounds):
    i = 0
    while i < rounds:
        morph.foreach(a, weigh, b, c)
        a.clear()
        a, b, c = b, c, a
        i += 1
    return len(a) * 10000 + len(b) * 100 + len(c)


def turned(n, rounds):
    a, b, c = lists = [(p, 0) for p in range(n)], [], []
    for _ in range(rounds):
        for p, w in a:
            if (p + w) % 3:
                b.append((p, w + 1))
            else:
                c.append((p, w + p))
        a.clear()
        a, b, c = b, c, a
    return len(a) * 10000 + len(b) * 100 + len(c), [sorted(x) for x in lists]


def weighed(t, count):
    """Worklists whose entries carry a weight, the first with all rows of a table."""
    lists = [morph.Collection(t, weight=i64) for _ in range(count)]
    lists[0].extend(np.arange(len(t)), weight=np.zeros(len(t), np.int64))
    return lists


def entries(c):
    return list(zip(host(c.items).tolist(), host(c.weight[:]).tolist(), strict=True))


@pytest.mark.unchecked
@tries(8)
@given(st.integers(0, 9), st.integers(0, 9))
def test_three_in_a_circle_with_columns(target, n, rounds):
    def run(program):
        lists = weighed(points(target, n), 3)
        return program(*lists, rounds), [sorted(entries(c)) for c in lists]

    assert both_ways(target, turn, run) == turned(n, rounds)
    if target != "python":
        assert len(latest(turn).permutations) == 3 and len(kernels(latest(turn))) == 1


@morph.program
def pour(a, b, rounds):
    """No swap: the second list takes the first's name, and both are one."""
    i = 0
    while i < rounds:
        morph.foreach(a, deal, b, b, i)
        if i == 1:
            a = b
        i += 1
    return len(a)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_two_names_for_one_list(target, rounds):
    def run(program):
        lists = filled(points(target, 3), 2)
        return program(*lists, rounds), held(lists)

    sizes = {1: (3, 3), 2: (6, 6), 4: (24, 24)}[rounds]
    total, (first, second) = both_ways(target, pour, run)
    assert (len(first), len(second)) == (3, sizes[1])
    assert total == (3 if rounds == 1 else sizes[0])


@pytest.mark.unchecked
def test_one_list_given_twice(target):
    """`a` and `b` are one list; then `b` is another: no exchange of words says that."""

    def run(program):
        lists = filled(points(target, 6), 2)
        result = program(lists[0], lists[0], lists[1], lists[1], 3)
        return result, held(lists)

    assert both_ways(target, tides, run)[1] is not None

    @morph.program
    def shift(a, b, c):
        morph.foreach(a, deal, c, c, 0)
        a, b, c = c, a, b
        morph.foreach(a, deal, b, c, 0)
        return len(a) + 100 * len(b) + 10000 * len(c)

    def other(program):
        lists = filled(points(target, 6), 2)
        return program(lists[0], lists[0], lists[1]), held(lists)

    # the first list, which b and c name, has its own six and those of the second
    assert both_ways(target, shift, other)[0] == 6 + 100 * 12 + 10000 * 12
    if target != "python":
        assert latest(shift).permutations == ()


@pytest.mark.unchecked
def test_what_a_kernel_captures_stays_what_it_is(target):
    def run(program_of):
        lists = filled(points(target, 8), 3)
        log = lists[2]

        @morph.kernel
        def keep(p, into):
            if p.id % 2 == 0:
                log.add(p)
            else:
                into.add(p)

        @morph.program
        def rounds(a, b, c):
            i = 0
            while i < 3:
                morph.foreach(a, keep, b)
                b, c = c, b
                i += 1
            return len(b) * 100 + len(c)

        result = program_of(rounds)(*lists)
        if target != "python" and program_of is not eager:
            assert latest(rounds).permutations == () and len(kernels(latest(rounds))) == 2
        return result, held(lists)

    def eager(program):
        return program.eager

    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    want = (16 * 100 + 8, [list(range(8)), sorted(odd * 2), sorted(even * 3 + odd)])
    assert run(lambda program: program) == run(eager) == want


def test_lists_of_other_columns_are_followed(target):
    t = points(target, 4)
    plain, heavy = morph.Collection(t), morph.Collection(t, weight=i64)
    plain.extend(np.arange(4))
    heavy.extend(np.arange(2), weight=np.ones(2, np.int64))

    @morph.program
    def change(a, b):
        a, b = b, a
        return len(a) * 10 + len(b)

    assert change(plain, heavy) == change.eager(plain, heavy) == 24


def test_rows_of_tables_stay_their_own(target):
    """Tables that change places are followed: a row stays one of its own table."""

    @morph.kernel
    def count(r, x):
        r.x += x

    @morph.program
    def both(a, b, row):
        morph.foreach(a, count, i64(1))
        a, b = b, a
        morph.foreach(a, count, i64(10))
        row.x = row.x * 2
        return row.x

    def run(program):
        a, b = (morph.Table(n, target, x=i64) for n in "ab")
        a.extend(2), b.extend(3)
        return program(a, b, a[1]), host(a.x).tolist(), host(b.x).tolist()

    assert both_ways(target, both, run) == (2, [1, 2], [10, 10, 10])


def test_names_of_the_emitted_text_are_free_for_users(target):
    @morph.kernel
    def mark(p, permutation, permutations):
        Permutation = p.id  # noqa: N806
        if Permutation > 0:
            permutation.add(p)
        else:
            permutations.add(p)

    @morph.program
    def go(a, permutation, permutations):
        reported = 0
        while reported < 3:
            morph.foreach(a, mark, permutation, permutations)
            permutation, permutations = permutations, permutation
            reported += 1
        return reported

    def run(program):
        lists = filled(points(target, 3), 3)
        return program(*lists), held(lists)

    assert both_ways(target, go, run) == (3, [[0, 1, 2], [0, 1, 1, 2, 2], [0, 0, 1, 2]])


def block(swap, *to):
    pos = ir.Pos("user.py", 1, 0, 1)
    cond = ir.Const(value=True, type=double_buffering.Type, pos=pos) if len(to) > 1 else None
    goto, orelse = (*to, -1, -1)[:2]
    return ir.Block(steps=(), cond=cond, goto=goto, orelse=orelse, swap=tuple(swap), pos=pos)


def test_ways_that_are_reached():
    circle, pair = [("a", "b"), ("b", "c"), ("c", "a")], [("a", "b"), ("b", "a")]
    assert double_buffering.permutations((block((), 1), block(()))) == ()
    once = double_buffering.permutations((block(pair, 1), block(())))
    assert len(once) == 2 and once[0] == (("a", "a"), ("b", "b"))
    assert len(double_buffering.permutations((block(circle, 0),))) == 3
    assert len(double_buffering.permutations((block(circle, 0, 1), block(pair, 0)))) == 6
    slots = "abcdefgh"
    circle = list(zip(slots, slots[1:] + slots[:1], strict=True))
    with pytest.raises(double_buffering.Unlike):  # 40,320 ways
        double_buffering.permutations((block(circle, 0, 1), block(pair, 0)))


def test_more_ways_than_words_fit_are_followed(target):
    """Seven lists in any order: followed, as few of the orders are reached."""
    t = points(target, 3)
    lists = [morph.Collection(t, **{f"w{k}": i64 for k in range(60)}) for _ in range(7)]

    @morph.program
    def around(a, b, c, d, e, f, g):
        i = 0
        while i < 8:
            a, b, c, d, e, f, g = b, c, d, e, f, g, a
            i += 1
        return len(a) * 10 + len(g)

    lists[1].add(0)
    assert around(*lists) == around.eager(*lists) == 10


@morph.kernel
def add_one(p, now, after):
    after[p.id] = now[p.id] + 1


@morph.program
def alternate(t, now, after, rounds):
    """Two columns that change places in each round."""
    i = 0
    while i < rounds:
        morph.foreach(t, add_one, now, after)
        now, after = after, now
        i += 1


@pytest.mark.parametrize("apart", [False, True])
def test_columns_are_swapped(target, apart):
    """Also those of one table, whose slots are equal."""
    t, other = points(target, 3), points(target, 3)
    t.add("x", i64)
    other.add("y", i64)
    t.add("y", i64)
    columns = t.x, (other if apart else t).y
    alternate(t, *columns, 3)
    assert [host(c[:]).tolist() for c in columns] == [[2] * 3, [3] * 3]
