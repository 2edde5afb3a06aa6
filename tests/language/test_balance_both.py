"""Loops over the edges of both directions of a directed graph, which several threads share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from targets import everywhere, host, tries
from test_balance import STAR, graph, graphs, shared
from test_faults import counters_hold

import morph
from morph import foreach
from morph.compiler.passes.work_sharing import BALANCES
from morph.prelude import atomic_add, atomic_min, i32, i64
from morph.testing import fail_allocation, team


@morph.kernel
def summing(p, skip):
    total, low = i64(0), i64(99)
    for e in p.edges[skip:]:
        total += e.weight
        low = min(low, i64(e.id))
        atomic_add(e.dst.count, 1)
    p.total = total
    p.low = low


@morph.kernel
def listing(p, log):
    for t in p.nbrs:
        if t.id % 2 == 0:
            log.add(t, by=i64(p.id))


def rows_of(case):
    """The edges (id, source, target) of each point: those that leave it, then those that enter."""
    n, ends = case
    edges = [(k, a, b) for k, (a, b) in enumerate(ends)]
    return [[e for e in edges if e[1] == p] + [e for e in edges if e[2] == p] for p in range(n)]


def sums(target, case, choice, skip):
    g = graph(target, case, total=i64, low=i64, count=i64)
    foreach(g.points, summing, skip, balance=choice)
    return [host(getattr(g.points, c)).tolist() for c in ("total", "low", "count")]


def summed(case, skip):
    count, rows = [0] * case[0], [row[skip:] for row in rows_of(case)]
    for row in rows:
        for _, _, b in row:
            count[b] += 1
    total = [sum(k * 7 % 5 for k, _, _ in row) for row in rows]
    return [total, [min([99, *(k for k, _, _ in row)]) for row in rows], count]


def lists(target, case, choice):
    g = graph(target, case)
    log = morph.Collection(g.points, by=i64)
    foreach(g.points, listing, log, balance=choice)
    counters_hold(log)
    return Counter(zip(host(log.item).tolist(), host(log.by).tolist(), strict=True))


def listed(case):
    found = Counter((b, a) for a, b in case[1] if b % 2 == 0)
    return found + Counter((a, b) for a, b in case[1] if a % 2 == 0)


@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs())
def test_sums_and_lists(target, choice, case):
    for skip in (0, 2):
        found = shared(target, lambda skip=skip: sums(target, case, choice, skip))
        assert all(x == summed(case, skip) for x in found)
    assert all(x == listed(case) for x in shared(target, lambda: lists(target, case, choice)))


@pytest.mark.parametrize("choice", BALANCES)
@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_items_without_capacity(where, choice):
    for n in range(1, 6):
        with fail_allocation(n, where), team(1 + n % 3):
            assert lists(where, STAR, choice) == listed(STAR)


@morph.kernel
def lower(p, then):
    for t in p.nbrs:
        if atomic_min(t.level, p.level + 1) > p.level + 1:
            then.add(t)


@morph.program
def search(now, then):
    while not now.empty:
        foreach(now, lower, then, ahead=then)
        now, then = then, now
        then.clear()


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_asynchronous_steps(where):
    """Of many points on a path with a high-degree point in its middle."""
    n = 4000
    path = [(k, k + 1) if k % 3 else (k + 1, k) for k in range(999)]
    case = n, sorted(path + [(500, k) for k in range(1000, n)])

    def levels():
        g = graph(where, case)
        g.points.add("level", i32, fill=n)
        g.points.level[:] = n
        g.points[0].level = 0
        now, then = (morph.Collection(g.points, capacity=4 * n) for _ in range(2))
        now.add(0)
        search(now, then)
        return host(g.points.level)[:n]

    want = np.r_[np.arange(1000), np.full(n - 1000, 501)]
    assert all((x == want).all() for x in everywhere(where, levels))


@pytest.mark.unchecked  # loops of checked kernels are not shared
def test_the_loop_is_shared():
    """One thread ran a point's edges of both directions."""
    sums("cpu", STAR, "auto", 0)
    assert "WORK_SHARING = true" in summing.source()
    assert "typedef BothDirections Rows;" in summing.source()  # offsets are loaded once a row
