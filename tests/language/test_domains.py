"""The items of a foreach: those that a @func selects, and the rows of a set."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from small import points, values
from targets import everywhere

import morph
from morph.language.errors import LanguageError
from morph.prelude import atomic_add, f64, i32, i64, single

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


# --- collections of numbers ----------------------------------------------------------------------


@morph.kernel
def square(x, g, made, n):
    atomic_add(g.points[i32(x)].sum, x * n)
    if x < 100:
        made.add(x * x)
    x += 1  # a local of the item


@morph.kernel
def own(x, g, lost):
    mine = g.points.local(2)
    mine.add(g.points[x % 3])
    if single(mine):
        g.points[x % 3].sum += x
    else:
        lost.add(x)


def numbers(target, kind, *values):
    made = morph.Collection(kind, device=target)
    made.extend(values)
    return made


def test_foreach_over_numbers(target):
    def run():
        g = points(target, n=4, sum=i64, size=i32)
        items, made = numbers(target, i64, 3, 1, 2, 1), numbers(target, i64)
        morph.foreach(items, square, g, made, 10, where=lambda x: x != LIMIT)
        assert list(items) == [3, 1, 2, 1] and items[1] == 1 and len(made) == 3
        return values(g.points, "sum"), sorted(int(x) for x in made)

    assert all(found == ([0, 20, 0, 30], [1, 1, 9]) for found in everywhere(target, run))


@morph.kernel
def total(p, numbers):
    for x in numbers:
        p.sum += x
    for x in numbers[2:]:
        p.sum += 1000 * i64(x > 0)


def test_a_loop_over_numbers(target):
    g = points(target, sum=i64)
    morph.foreach(g.points, total, numbers(target, i32, 5, -1, 7, 9))
    assert values(g.points, "sum") == [2020] * 4


def test_numbers_that_claim_rows(target):
    """An item lasts from gather to commit and abort."""

    def run():
        g = points(target, n=3, sum=i64)
        now, lost = numbers(target, i64, *range(1, 20)), numbers(target, i64)
        while not now.empty:
            morph.foreach(now, own, g, lost)
            now, lost = lost, now
            lost.clear()
        return values(g.points, "sum")

    want = [sum(x for x in range(1, 20) if x % 3 == r) for r in range(3)]
    assert all(found == want for found in everywhere(target, run))


@morph.func
def positive(x):
    return x > 0


@morph.kernel
def step_down(x, p, then):
    atomic_add(p.sum, i64(x))
    if x > 1:
        then.add(x / 2)


@morph.program
def falling(p, now, then, least):
    while not now.empty:
        morph.foreach(now, step_down, p, then, where=positive)
        now, then = then, now
        then.clear()
    morph.foreach(then, step_down, p, now, where=lambda x: x > least)


def test_numbers_in_a_program(target):
    for run in (falling, falling.eager):
        g = points(target, sum=i64)
        run(g.points[1], numbers(target, f64, 8.0, -3.0, 2.5), numbers(target, f64), 0.5)
        assert values(g.points, "sum") == [0, 8 + 4 + 2 + 1 + 2 + 1, 0, 0]


@morph.kernel
def take_two(p, numbers):
    for _ in range(2):
        entry = numbers.take()
        if entry is not None:
            p.sum += entry.item


def test_numbers_are_taken_as_entries(target):
    g = points(target, n=3, sum=i64)
    some = numbers(target, i64, 1, 20, 300)
    morph.foreach(g.points, take_two, some)
    assert sum(values(g.points, "sum")) == 321 and some.empty


def test_numbers_on_the_host(target):
    made = morph.Collection(f64, device=target)
    made.add(1.5)
    made.extend([2, 3.5])
    assert [*made] == [1.5, 2.0, 3.5] and made[-1 + 1] == 1.5
    assert made.device.to_host(made.items).tolist() == [1.5, 2.0, 3.5]
    again = pickle.loads(pickle.dumps(made))
    assert [*again] == [1.5, 2.0, 3.5] and again.table is None
    with pytest.raises(TypeError, match="reals among integers|cannot"):
        numbers(target, i64).add(1.5)
    assert morph.Collection(i64).device == morph.device("cpu")
    with pytest.raises(TypeError, match="of rows of a table or of numbers, not of 3"):
        morph.Collection(3)


@morph.kernel
def outside(x, g):
    g.points[x].sum = 1


def test_checks_name_the_entry(target):
    g = points(target, sum=i64)
    with pytest.raises(morph.CheckError, match=r"row 9 of points does not exist.*collection\[1\]"):
        morph.foreach(numbers(target, i64, 1, 9), outside, g, check=True)


# --- NumPy arrays --------------------------------------------------------------------------------


def fixed(values, dtype):
    made = np.array(values, dtype)
    made.flags.writeable = False
    return made


TABLE = fixed([5, 7, 11, 13], i32)
CORNERS = fixed([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], f64)


@morph.kernel
def look_up(p):
    p.sum = TABLE[p.id % len(TABLE)]
    p.share = CORNERS[p.id % 3].x + CORNERS[p.id % 3][p.id % 2]


@morph.func
def small(p):
    return TABLE[p.id] < 11


def test_kernels_read_arrays(target):
    def run():
        g = points(target, n=5, sum=i64, share=f64)
        morph.foreach(g.points, look_up)
        return values(g.points, "sum"), values(g.points, "share")

    want = [5, 7, 11, 13, 5], [2.0, 7.0, 10.0, 3.0, 6.0]
    assert all(found == want for found in everywhere(target, run))


def test_a_filter_reads_an_array(target):
    g = points(target, sum=i64)
    morph.foreach(g.points, look_up_only, where=small)
    morph.foreach(g.points, look_up_only, where=lambda p: TABLE[p.id] == 13)
    assert values(g.points, "sum") == [5, 7, 0, 13]


@morph.kernel
def look_up_only(p):
    p.sum = TABLE[p.id]


@morph.program
def looking(g, n):
    while n > 0:
        morph.foreach(g.points, add_up)
        n -= 1


@morph.kernel
def add_up(p):
    p.sum += TABLE[p.id]


def test_a_program_reads_an_array(target):
    for run in (looking, looking.eager):
        g = points(target, sum=i64)
        run(g, 3)
        assert values(g.points, "sum") == [15, 21, 33, 39]


def reader(array):
    @morph.kernel
    def read(p):
        p.sum = array[p.id]

    return read


def test_arrays_of_closures_and_changed_globals(target):
    global TABLE
    g = points(target, sum=i64)
    for start in (0, 10):
        morph.foreach(g.points, reader(fixed(range(start, start + 4), i64)))
        assert values(g.points, "sum") == list(range(start, start + 4))
    morph.foreach(g.points, look_up_only)
    old, TABLE = TABLE, fixed([1, 2, 3, 4], i32)
    morph.foreach(g.points, look_up_only)
    TABLE = old
    assert values(g.points, "sum") == [1, 2, 3, 4]
    view = fixed(range(8), i64)[::2]
    morph.foreach(g.points, reader(view))
    assert values(g.points, "sum") == [0, 2, 4, 6]


@morph.kernel
def put(p):
    TABLE[p.id] = 1


@morph.kernel
def raise_one(p):
    atomic_add(CORNERS[p.id][0], 1.0)


@morph.kernel
def lock(p):
    if single(TABLE[p.id]):
        p.sum = 1


@morph.kernel
def shape(p):
    p.sum = TABLE.size


@pytest.mark.parametrize(
    ("kernel", "problem"),
    [
        (put, "kernels only read NumPy arrays"),
        (raise_one, "kernels only read NumPy arrays"),
        (lock, "kernels only read NumPy arrays"),
        (shape, "a NumPy array has no 'size' in a kernel"),
        (reader(np.zeros(4)), "the NumPy array 'array' can change"),
        (reader(np.broadcast_to(np.zeros(1), 4)), "the NumPy array 'array' can change"),
        (reader(fixed([[[1]]], i64)), "the NumPy array 'array' has 3 dimensions"),
        (reader(np.broadcast_to(fixed([], i64), (3, 0))), r"'array' has the shape \(3, 0\)"),
        (reader(fixed(["a"], "U1")), "the NumPy array 'array' is of <U1"),
    ],
)
def test_arrays_that_are_refused(target, kernel, problem):
    g = points(target, sum=i64)
    with pytest.raises(LanguageError, match=problem):
        morph.foreach(g.points, kernel)


def test_checks_find_an_index_outside_of_an_array(target):
    g = points(target, n=5, sum=i64)
    with pytest.raises(morph.CheckError, match="row 4 of TABLE does not exist: there are 4 rows"):
        morph.foreach(g.points, look_up_only, check=True)
