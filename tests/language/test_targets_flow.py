"""Control flow, local collections, constants, closures and filters, on every target."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from targets import everywhere, host, table, tries

import morph
from morph.prelude import atomic_add, i64, local

# --- control flow --------------------------------------------------------------------------------


@morph.func
def note(r, x):
    """Tell of having been called; true if x is positive."""
    r.calls += 1
    return x > 0


@morph.kernel
def decisions(r):
    r.both = note(r, r.x) and note(r, r.y)
    r.either = note(r, r.x) or note(r, r.y) or note(r, r.x + r.y)
    r.chain = 0 < r.x < r.y < 6
    r.choice = (1 if note(r, r.x) else 2) if r.y > r.x else (3 if not note(r, r.y) else 4)
    if r.x < 0:
        r.case = 1
    elif r.x == 0 and r.y:
        r.case = 2
    elif not r.x:
        r.case = 3
    else:
        r.case = 4
    n, steps = r.x * r.x + 1, 0
    while True:
        if n <= 1:
            break
        steps += 1
        if n % 2 == 0:
            n //= 2
            continue
        n = 3 * n + 1
    r.steps = steps
    h = i64(7)
    for i in range(r.x, r.y):
        if i == 3:
            continue
        for j in range(9, r.x, -2):
            if j * i > 20:
                break
            h = h * 31 + i * j
        for j in range(-2, 9, 3):
            h = h * 31 + j
            if h % 5 == 0:
                return
            r.hash = h


def decided(x, y):
    """The same in Python: calls, both, either, chain, choice, case, steps, hash."""
    calls = []

    def note(x):
        calls.append(x)
        return x > 0

    both = note(x) and note(y)
    either = note(x) or note(y) or note(x + y)
    choice = (1 if note(x) else 2) if y > x else (3 if not note(y) else 4)
    kind = 1 if x < 0 else 2 if x == 0 and y else 3 if not x else 4
    n, steps = x * x + 1, 0
    while n > 1:
        n, steps = n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1
    h, out = 7, 0

    def wrap(v):
        return (v + 2**63) % 2**64 - 2**63

    def walk():
        nonlocal h, out
        for i in range(x, y):
            if i == 3:
                continue
            for j in range(9, x, -2):
                if j * i > 20:
                    break
                h = wrap(h * 31 + i * j)
            for j in range(-2, 9, 3):
                h = wrap(h * 31 + j)
                if h % 5 == 0:
                    return
                out = h

    walk()
    return len(calls), both, either, 0 < x < y < 6, choice, kind, steps, out


@tries(12)
@given(st.lists(st.tuples(st.integers(-6, 8), st.integers(-6, 8)), min_size=1, max_size=8))
def test_control_flow(target, pairs):
    """Short circuit, chained comparison, conditional expressions, loops left and cut short."""
    x, y = np.array(pairs, np.int64).T.copy()
    names = ("calls", "both", "either", "chain", "choice", "case", "steps", "hash")
    kinds = dict.fromkeys(("both", "either", "chain"), bool)
    want = [np.array(w) for w in zip(*itertools.starmap(decided, pairs), strict=True)]

    def run():
        empty = {name: np.zeros(len(x), kinds.get(name, np.int64)) for name in names}
        t = table(target, x=x, y=y, **empty)
        morph.foreach(t, decisions)
        for name, w in zip(names, want, strict=True):
            assert np.array_equal(t.__getattr__(name), w), (name, pairs)

    everywhere(target, run)


@morph.kernel
def stacks(r):
    s = local(i64, 32)
    for i in range(r.x):
        s.add(i * r.y)
        if s.size > 3 and i % 2 == 1:
            s.add(s.pop() + s.pop())
    size, has = len(s), 2 * r.y in s
    h = i64(1)
    for v in s[1:]:
        h = h * 31 + v
    for v in reversed(s):
        h = h * 37 + v
    for v in reversed(s)[2:]:
        h = h * 41 + v
    if s.size > 2:
        s[1] = s[0] + s[2]
        h += s[1]
    for v in s:  # grows as it goes
        if v > 0 and s.size < 12:
            s.add(v - 3)
    h += s.size
    s.clear()
    s.add(h)
    r.size, r.has, r.hash = size, has, s[0] + s.size


def stacked(x, y):
    s = []
    for i in range(x):
        s.append(i * y)
        if len(s) > 3 and i % 2 == 1:
            s.append(s.pop() + s.pop())
    size, has, h = len(s), 2 * y in s, 1
    for v in s[1:]:
        h = h * 31 + v
    for v in reversed(s):
        h = h * 37 + v
    for v in s[::-1][2:]:
        h = h * 41 + v
    if len(s) > 2:
        s[1] = s[0] + s[2]
        h += s[1]
    for v in s:
        if v > 0 and len(s) < 12:
            s.append(v - 3)
    h += len(s)
    return size, has, (h + 1 + 2**63) % 2**64 - 2**63


@tries(10)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-4, 9)), min_size=1, max_size=6))
def test_local_collections(target, pairs):
    x, y = np.array(pairs, np.int64).T.copy()
    want = list(itertools.starmap(stacked, pairs))

    def run():
        t = table(target, x=x, y=y, size=x * 0, has=x > 99, hash=x * 0)
        morph.foreach(t, stacks)
        got = zip(*(np.asarray(c).tolist() for c in (t.size, t.has, t.hash)), strict=True)
        assert list(got) == want

    everywhere(target, run)


# --- constants and closures ----------------------------------------------------------------------

FACTOR = 3


@morph.kernel
def scaled(r):
    r.out = r.x * FACTOR


def test_a_changed_constant_is_new_code(target, monkeypatch):
    t = table(target, x=np.arange(4), out=np.zeros(4, np.int64))
    for factor in (3, 5, 3):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        morph.foreach(t, scaled)
        assert np.array_equal(t.out, np.arange(4) * factor)
    monkeypatch.setitem(globals(), "FACTOR", np.int64(7))
    morph.foreach(t, scaled)
    assert np.array_equal(t.out, np.arange(4) * 7)


def test_closures_are_read_at_every_launch(target):
    """A number of an enclosing function is an argument, in kernels and in filters."""
    shift, least = 1, 0

    @morph.kernel
    def shifted(r):
        r.out = r.x + shift

    t = table(target, x=np.arange(6), out=np.zeros(6, np.int64))
    morph.foreach(t, shifted)
    assert np.array_equal(t.out, np.arange(6) + 1)
    for by, limit in [(10, 2), (20, 4), (30, 9)]:
        shift, least = by, limit
        morph.foreach(t, shifted, where=lambda r: r.x >= least)
    assert np.array_equal(t.out, [1, 2, 12, 13, 24, 25])
    if target != "python":
        assert len(shifted.launches) == 2  # one without the filter, one with it


@morph.kernel
def marked(r, by):
    r.out += by


@tries(8)
@given(hnp.arrays(np.int64, 9, elements=st.integers(-5, 5)), st.integers(-5, 5))
def test_filters(target, x, limit):
    """A filter sees columns, ids and the numbers around it; an unmatched item is left alone."""

    def run():
        t = table(target, x=x, out=x * 0)
        morph.foreach(t, marked, 1, where=lambda r: r.x > limit and r.id % 2 == 0)
        morph.foreach(t, marked, 10, where=lambda r: r.x == limit or not r.x)
        want = (x > limit) * (np.arange(9) % 2 == 0) + 10 * ((x == limit) | (x == 0))
        assert np.array_equal(t.out, want)

    everywhere(target, run)


@morph.kernel
def tallied(r, cell):
    if r.x > 0:
        atomic_add(cell[0].sum, r.x)
    elif r.x < 0:
        atomic_add(cell[1].sum, r.x)
    else:
        atomic_add(cell[2].sum, 1)


@tries(8)
@given(st.lists(st.integers(-(2**53), 2**53) | st.integers(-2, 2), min_size=1, max_size=70))
def test_sums_in_branches(target, xs):
    """A GPU's warp adds once for all its lanes: for those that are in the same branch."""
    x = np.array(xs, np.int64)

    def run():
        rows, cell = table(target, x=x), morph.Table("cell", target, sum=i64)
        cell.extend(3)
        morph.foreach(rows, tallied, cell)
        return host(cell.sum).tolist()

    want = [int(x[x > 0].sum()), int(x[x < 0].sum()), int((x == 0).sum())]
    assert all(got == want for got in everywhere(target, run))


@morph.kernel
def append_id(r, into):
    into.add(r.id)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_filters_of_many_items(target, n):
    """A filter that most, few or some rows of a block of 64 pass, and a list that grows."""
    x = np.random.default_rng(n).integers(0, 100, n)
    x[200:400] += 100
    x[400:600] -= 100

    def run():
        t = table(target, x=x)
        for least in (-200, 0, 50, 99, 300):
            into = morph.Collection(i64, capacity=1, device=target)
            morph.foreach(t, append_id, into, where=lambda r: r.x >= least)  # noqa: B023
            assert sorted(host(into.items).tolist()) == np.flatnonzero(x >= least).tolist()

    everywhere(target, run)
