"""Scalars, and columns as arguments, on every target."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from small import points, rows, values
from targets import everywhere, host, table, tries

import morph
from morph.data.collection import Collection, Flag
from morph.language.errors import LanguageError
from morph.prelude import (
    atomic_add,
    atomic_exch,
    atomic_max,
    atomic_min,
    f32,
    f64,
    i8,
    i32,
    i64,
    random_u32,
    u64,
)


@morph.kernel
def summarise(r, found, changed):
    atomic_min(found.least, r.x)
    atomic_max(found.most, r.x, changed)
    atomic_add(found.total, i64(r.x))
    if r.x < 0:
        atomic_add(found.negative, 1)


@morph.program
def summary(t, changed, part):
    """The parts of a program's scalars as one number each."""
    found = morph.Scalars(t, least=i32(2**31 - 1), most=i32(-(2**31)), total=0, negative=i8(0))
    morph.foreach(t, summarise, found, changed)
    if part == 0:
        return i64(found.least)
    if part == 1:
        return i64(found.most)
    if part == 2:
        return found.total
    return i64(found.negative)


NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=300)


@tries(10)
@given(NUMBERS)
def test_a_program_reduces_into_its_scalars(target, numbers):
    x = np.array(numbers, np.int32)
    t, changed = table(target, x=x), Flag(target)
    want = [x.min(), x.max(), x.sum(dtype=np.int64), np.count_nonzero(x < 0) % 256]
    want[3] = int(np.int8(np.uint8(want[3])))
    for part in range(4):
        for run in (summary, summary.eager, summary.alone):
            found = everywhere(target, lambda run=run, part=part: run(t, changed, part))
            assert set(found) == {int(want[part])}


@morph.kernel
def count_and_number(p, found):
    p.x = atomic_add(found.count, 1)


@morph.kernel
def adopt(p, found):
    if p.x == found.limit:
        found.last = p.id
        found.seen = True


def test_scalars_of_the_host(target):
    def run():
        g = points(target, x=i64)
        found = morph.Scalars(g, count=10, last=-1, limit=12, seen=False)
        morph.foreach(g.points, count_and_number, found)
        morph.foreach(g.points, adopt, found)
        found.count += 1
        assert sorted(values(g.points, "x")) == [10, 11, 12, 13]
        assert g.points[int(found.last)].x == 12 and found.seen
        return int(found.count)

    assert set(everywhere(target, run)) == {15}


@morph.kernel
def total_of(totals, t):
    exact, most = i64(0), f32(0)
    for r in t:
        exact += r.x
        most = max(most, r.y)
    totals.exact += exact
    totals.most = most


@morph.program
def totals_of(t, totals):
    morph.foreach(totals, total_of, t)
    totals.exact = totals.exact * 2
    return totals.most


def test_a_foreach_over_scalars_runs_once(target):
    n = 5000
    t = table(target, x=np.arange(n), y=np.arange(n, dtype=np.float32))

    def run():
        totals = morph.Scalars(t, exact=7, most=np.float32(0))
        morph.foreach(totals, total_of, t)
        assert (totals.exact, totals.most) == (7 + n * (n - 1) // 2, n - 1)
        assert totals_of(t, totals) == totals_of.eager(t, totals) == n - 1
        return int(totals.exact)

    total = n * (n - 1) // 2
    assert set(everywhere(target, run)) == {2 * (2 * (7 + 2 * total) + total)}


class Problem(NamedTuple):
    graph: Any
    found: Any
    x: Any


@morph.func
def note(found, k):
    atomic_add(found.total, k)


@morph.kernel
def note_all(p, problem):
    note(problem.found, problem.x[p] + i64(problem.x[p.id]))


@morph.program
def inner(problem, rounds):
    times = morph.Scalars(problem.graph, total=0)
    i = 0
    while i < rounds:
        morph.foreach(problem.graph.points, note_all, Problem(problem.graph, times, problem.x))
        i += 1
    return times.total


@morph.program
def outer(problem):
    """Calls a program that makes scalars, twice in a loop; has scalars of the same name."""
    times = morph.Scalars(problem.graph, total=1000)
    i = 0
    while i < 3:
        a = inner(problem, i)
        b = inner(problem, 1)
        times.total = times.total + a + b
        i += 1
    morph.foreach(problem.graph.points, note_all, problem)
    return times.total


def test_scalars_in_bundles_functions_and_called_programs(target):
    g = points(target, x=i64)
    g.points.x[:] = [1, 2, 3, 4]
    found = morph.Scalars(g, total=0)
    problem = Problem(g, found, g.points.x)
    results = [
        x for run in (outer, outer.eager) for x in everywhere(target, lambda run=run: run(problem))
    ]
    assert set(results) == {1000 + 20 * (3 + 3)} and found.total == 20 * len(results)


@morph.kernel
def weigh(p, weight, out):
    for t in p.outnbrs:
        atomic_add(out[t.id], weight[g_offset(p.id)])
    atomic_add(out[p.id], 0 * len(weight))


@morph.func
def g_offset(i):
    return i % 3


@morph.program
def weighed(g, weight, out):
    out[0] = out[0] + 100
    morph.foreach(g.points, weigh, weight, out)
    return out[0] + weight[2]


def test_columns_as_arguments(target):
    weight = rows(target, 3, w=f64, unused=i32)
    weight.w[:] = [1, 10, 100]
    for run in (weighed, weighed.eager):
        g, out = points(target), rows(target, 4, sum=f64)
        assert run(g, weight.w, out.sum) == 101 + 100  # from 3: of weight 0
        assert values(out, "sum") == [101, 1, 11, 100]
        weighed(g, weight.w, out.sum)
        assert values(out, "sum") == [202, 2, 22, 200]


@morph.kernel
def shift(r, xy, other):
    xy[r] = other[r.id] + r.xy
    xy[r.id][0] = xy[r].x + 1.0
    atomic_exch(xy[r][1], 5.0)


def test_columns_of_vectors(target):
    xy, offset = np.arange(8.0).reshape(4, 2), np.full((4, 2), 0.5)
    t, other = table(target, xy=xy), table(target, by=offset)
    morph.foreach(t, shift, t.xy, other.by)
    assert host(t.xy).tolist() == [[1.5, 5], [3.5, 5], [5.5, 5], [7.5, 5]]


def test_columns_follow_growth_and_are_known_by_identity(target):
    t, out = rows(target, 2, x=i64, y=i64), rows(target, 9, v=i64)
    t.x[:], t.y[:] = 1, 2
    for column, want in ((t.x, 1), (t.y, 2), (t.x, 1)):
        morph.foreach(out, gather, column)
        assert values(out, "v") == [want, want, *[0] * 7]
    t.extend(x=np.full(5000, 3), y=np.full(5000, 4))
    morph.foreach(out, gather, t.y)
    assert values(out, "v") == [2, 2, *[4] * 7]
    old = t.x
    t.drop("x")
    with pytest.raises(ValueError, match="no column of a table"):
        morph.foreach(out, gather, old)
    with pytest.raises(ValueError, match="no column of a table: pass collection itself"):
        morph.foreach(out, gather, Collection(i64, device=target).item)


@morph.kernel
def gather(r, column):
    r.v = column[r.id] if r.id < len(column) else 0


@morph.kernel
def past_the_end(r, column):
    column[r.id + 1] = 3


@morph.kernel
def clash(r, found):
    found.x = r.id


def test_checks(target):
    t = rows(target, 2, x=i64)
    with pytest.raises(morph.CheckError, match=r"row 2 of .* does not exist"):
        morph.foreach(t, past_the_end, t.x, check=True)
    with pytest.raises(morph.CheckError, match=r"race: in one step scalars\[0\].x is written"):
        morph.foreach(t, clash, morph.Scalars(t, x=0), check=True)


def test_what_is_no_scalar():
    for value in ("a", None, [[1]], 2**70):
        with pytest.raises(TypeError, match="scalar 'x' is a number or a vector"):
            morph.Scalars("cpu", x=value)
    with pytest.raises(ValueError, match="another meaning"):
        morph.Scalars("cpu", id=1)
    assert morph.Scalars("cpu", n=3).n == 3
    found = morph.Scalars("cpu", x=1, real=2.5, small=np.uint8(3), yes=True, v=np.zeros(2))
    kinds = [c.dtype.name for c in found.table.columns.values()]
    assert kinds == ["int64", "float64", "uint8", "bool", "float64"]
    with pytest.raises(AttributeError, match="has no column 'y'"):
        found.y = 1
    with pytest.raises(OverflowError):
        found.small = 300
    with pytest.raises(LanguageError, match="has no column"):
        morph.foreach(found, total_of, rows("cpu", 1, x=i64, y=f32))


def test_copies_of_scalars(target):
    found = morph.Scalars(target, x=1, v=np.array([1.0, 2.0]))
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        other.x = 5
        assert (found.x, other.x, list(other.v)) == (1, 5, [1, 2])
    assert repr(found) == f"<Scalars on {found.device.name}: x=1, v=[1. 2.]>"


GLOBAL = morph.Scalars("cpu", hits=0)
HELD = morph.Table("held", "cpu", x=u64)
HELD.extend(4)
COLUMN = HELD.x


@morph.kernel
def hit(r):
    atomic_add(GLOBAL.hits, 1)
    COLUMN[r.id] += u64(random_u32(1, r.id) > 0)


def test_scalars_and_columns_as_globals():
    GLOBAL.hits = 0
    morph.foreach(rows("cpu", 4, x=i32), hit)
    assert GLOBAL.hits == 4 and HELD.x[:].tolist() == [1] * 4


def test_on_arrays_that_are_not_the_hosts(monkeypatch):
    device = pretended(monkeypatch)
    test_scalars_of_the_host(device)
    test_a_foreach_over_scalars_runs_once(device)
    test_columns_as_arguments(device)
    test_columns_of_vectors(device)
    test_columns_follow_growth_and_are_known_by_identity(device)
