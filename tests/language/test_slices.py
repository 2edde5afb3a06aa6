"""``foreach`` over a slice of a table or collection, on every target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from small import points, rows, values
from targets import everywhere, host, tries

import morph
from morph.data.collection import Collection
from morph.prelude import atomic_add, i32, i64, single

BOUNDS = st.none() | st.integers(-12, 12)


@morph.kernel
def mark(r):
    r.x += 1


@morph.program
def mark_from(t, start):
    morph.foreach(t[start:], mark)


@morph.program
def mark_to(t, stop):
    morph.foreach(t[:stop], mark)


@morph.program
def mark_between(t, start, stop):
    morph.foreach(t[start:stop], mark)


def sliced(t, start, stop, fused):
    """Mark the rows of ``t[start:stop]``, by the host or by a program."""
    if fused is None:
        morph.foreach(t[start:stop], mark)
    elif start is None:
        mark_to(t, 100 if stop is None else stop)
    elif stop is None:
        mark_from(t, start)
    else:
        mark_between(t, start, stop)


@tries(25)
@given(st.integers(0, 9), BOUNDS, BOUNDS)
def test_bounds_are_those_of_python(target, n, start, stop):
    want = [0] * n
    want[start:stop] = [1] * len(want[start:stop])
    for fused in (None, True):

        def run(fused=fused):
            t = rows(target, n, x=i32)
            sliced(t, start, stop, fused)
            g = points(target, 10, x=i32)
            c = Collection(g.points)
            c.extend(list(range(n)))
            sliced(c, start, stop, fused)
            assert values(g.points, "x")[:n] == values(t, "x")
            return values(t, "x")

        assert all(found == want for found in everywhere(target, run))


@morph.kernel
def grow(r, t):
    t.new(x=r.x + 1)
    t.new(x=r.x + 2)


@morph.program
def generations(t, most):
    """Each generation makes the next one: rows made in a step are the next step's slice."""
    first, rounds = 0, 0
    while rounds < most:
        last = len(t)
        morph.foreach(t[first:], grow, t)
        first = last
        rounds += 1
    morph.foreach(t[-2:], grow, t)
    return first


def test_rows_made_in_the_last_step(target):
    want = [[0]]
    for _ in range(7):
        want.append([x + by for x in want[-1] for by in (1, 2)])
    for run in (generations, generations.eager):

        def grown(run=run):
            t = rows(target, 1, x=i64)  # no capacity: items run again after growth
            assert run(t, 7) == sum(map(len, want[:-1]))
            assert len(t) == sum(map(len, want)) + 4
            return values(t, "x")

        for x in everywhere(target, grown):
            at = 0
            for generation in want:
                assert sorted(x[at : at + len(generation)]) == sorted(generation)
                at += len(generation)


@morph.kernel
def count_edges(p, found):
    for t in p.outnbrs:
        atomic_add(found.edges, 1)
        atomic_add(t.x, 1)


@morph.kernel
def sum_into(p):
    total = i64(0)
    for t in p.innbrs:
        total += t.id + 1
    p.x = total


@pytest.mark.parametrize("balance", ["auto", "warp", "thread", "grid"])
def test_shared_loops(target, balance):
    def run():
        g = points(target, 200, x=i64)
        found = morph.Scalars(g, edges=0)
        morph.foreach(g.points[50:-50], count_edges, found, balance=balance)
        x = values(g.points, "x")
        assert found.edges == 100 and x == [0] * 51 + [1] * 100 + [0] * 49
        morph.foreach(g.points[:], sum_into, balance=balance)
        before = values(g.points, "x")
        morph.foreach(g.points[1:3], sum_into, where=lambda p: p.id > 1, balance=balance)
        assert values(g.points, "x") == before
        return before[:4]

    assert all(x == [200, 1, 3, 3] for x in everywhere(target, run))


@morph.kernel
def total_of(r, found):
    atomic_add(found.n, r.x)


def test_sections_over_slices(target):
    def run():
        t, other = rows(target, 6, x=i64), rows(target, 3, x=i64)
        other.x[:] = [1, 10, 100]
        found = morph.Scalars(target, n=0)
        for k in (2, 4):
            with morph.sections():
                morph.foreach(t[k:], mark)
                morph.foreach(other[: k - 2], total_of, found, where=lambda r: r.x > 1)
        return values(t, "x"), int(found.n)

    assert all(found == ([0, 0, 1, 1, 2, 2], 10) for found in everywhere(target, run))


@morph.kernel
def pair(p, g):
    both = g.points.local(2)
    both.add(p)
    for t in p.outnbrs:
        both.add(t)
        break
    if both.size == 2:
        if single(both):
            p.x, both[1].x = p.x + 1, both[1].x + 1


def test_claims_and_deleted_rows(target):
    g = points(target, 40, x=i32)
    g.points.delete([15, 22])
    morph.foreach(g.points[10:30], pair, g)
    x = host(g.points.x)
    assert x.any() and not x[:10].any() and not x[31:].any() and x[15] == x[22] == 0
    together = points(target, 40, x=i32)
    morph.foreach(together.points[10:30], pair, together, together=True)
    assert not host(together.points.x)[:10].any() and host(together.points.x)[10:31].any()
    assert [p.id for p in g.points[14:17]] == [14, 16] and len(g.points[14:17]) == 3


@morph.kernel
def unused(r, queue):
    queue.add(r)


def test_what_is_refused():
    g = points("cpu")
    c = Collection(g.points)
    with pytest.raises(ValueError, match="its step is 1"):
        morph.foreach(g.points[::2], mark)
    with pytest.raises(ValueError, match="takes a whole collection"):
        morph.foreach(c[1:], unused, c, until_empty=True)
    with pytest.raises(TypeError, match="one row's id"):
        g.points["a"]
    assert repr(g.points[1:3]) == "points[1:3]"


def test_on_arrays_that_are_not_the_hosts(monkeypatch):
    device = pretended(monkeypatch)
    test_rows_made_in_the_last_step(device)
    test_claims_and_deleted_rows(device)
