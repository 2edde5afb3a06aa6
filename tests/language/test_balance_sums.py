"""Loops over edges with sums or an epilogue: all choices of ``balance`` give equal results."""

from __future__ import annotations

import re
from collections import Counter
from functools import reduce
from operator import and_, or_

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import counters_hold
from targets import everywhere, host, tries
from test_balance import STAR, graph, graphs, shared

import morph
from morph import foreach
from morph.compiler.passes.work_sharing import BALANCES
from morph.launch.checked import is_checked
from morph.prelude import atomic_add, f32, f64, i32, i64, u32, u64
from morph.testing import fail_allocation, team


@morph.kernel
def summing(p, log, least):
    total = p.count + 0.5
    low, high = least, i64(-9)
    n = 0
    for e in p.outedges:
        atomic_add(e.dst.count, 0)
        if e.dst == p:
            continue
        n -= 1
        low = min(low, e.weight)
        if e.weight > 1:
            high = max(e.id, high)
            for twice in range(2):
                total += e.weight * twice
    if n < 0:
        log.add(p, by=i64(low))
        p.high = high
        p.total = total
    p.met = -n


def summed(case, least=3):
    n, ends = case
    log, high, total, met = Counter(), [0] * n, [0.0] * n, [0] * n
    for p in range(n):
        mine = [(k, k * 7 % 5) for k, (a, b) in enumerate(ends) if a == p != b]
        met[p] = len(mine)
        if mine:
            log[p, min(least, *(w for _, w in mine))] += 1
            high[p] = max([-9, *(k for k, w in mine if w > 1)])
            total[p] = 0.5 + sum(w for _, w in mine if w > 1)
    return log, high, total, met


def sums(target, case, choice):
    g = graph(target, case, count=i32, high=i64, total=np.float64, met=i64)
    log = morph.Collection(g.points, by=i64)
    morph.foreach(g.points, summing, log, np.int32(3), balance=choice)
    counters_hold(log)
    found = Counter(zip(host(log.item).tolist(), host(log.by).tolist(), strict=True))
    return found, *(host(getattr(g.points, c)).tolist() for c in ("high", "total", "met"))


@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs())
def test_sums(target, choice, case):
    assert all(got == summed(case) for got in shared(target, lambda: sums(target, case, choice)))


@pytest.mark.parametrize("choice", BALANCES)
@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_sums_of_items_without_room(where, choice):
    for n in range(1, 6):
        with fail_allocation(n, where), team(1 + n % 3):
            assert sums(where, STAR, choice) == summed(STAR)


@morph.kernel
def gathering(p, log, most):
    total, wide = f32(0), f64(p.id)
    small, large = u32(4_000_000_000), u64(1)
    low, high = np.inf, f32(-1)
    some, every = u32(0), i64(-1)
    for e in p.inedges:
        total -= f32(e.weight)
        wide += e.weight * 2.0**40
        small = min(u32(e.id), small)
        large = max(large, u64(e.id))
        low = min(low, f64(e.weight))
        high = max(high, f32(e.weight))
        some |= u32(1) << u32(e.id % 5)
        every &= i64(e.weight) | 8
    if p.in_degree > 0:  # room is reserved here, behind the loop
        made = log.new_rows(i32(min(-total, most)) + 1)
        for entry in made:
            entry.item = p
            entry.by = (i64(small) * 1000 + i64(large)) * 1000 + i64(some) * 16 + every
            entry.of = wide + low - high


def gathered(case, most=2):
    n, ends = case
    log = Counter()
    for p in range(n):
        mine = [(k, k * 7 % 5) for k, (_, b) in enumerate(ends) if b == p]
        if mine:
            edges, weights = zip(*mine, strict=True)
            of = p + sum(weights) * 2.0**40 + min(weights) - max(weights)
            some = reduce(or_, (1 << k % 5 for k in edges))
            every = reduce(and_, (w | 8 for w in weights))
            by = (edges[0] * 1000 + max(edges[-1], 1)) * 1000 + some * 16 + every
            log[p, by, of] = min(sum(weights), most) + 1
    return log


def gathers(target, case, choice):
    g = graph(target, case)
    log = morph.Collection(g.points, by=i64, of=np.float64)
    morph.foreach(g.points, gathering, log, f32(2), balance=choice)
    counters_hold(log)
    entries = (host(x).tolist() for x in (log.item, log.by, log.of))
    return Counter(zip(*entries, strict=True))


@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs())
def test_tails_that_reserve(target, choice, case):
    got = shared(target, lambda: gathers(target, case, choice))
    assert all(log == gathered(case) for log in got)


@pytest.mark.parametrize("choice", BALANCES)
@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_every_tail_can_fail(where, choice):
    want, n = gathered(STAR), 0
    while True:
        n += 1
        with fail_allocation(n, where) as fault, team(1 + n % 3):
            assert gathers(where, STAR, choice) == want
        if not fault.fired:
            break
    assert n > 8


@morph.kernel
def spread_out(p, k, log):
    n = i64(0)
    for t in p.outnbrs:
        n += t.n
    p.next = n
    if n > 10**6:
        log.add(p)


@morph.kernel
def take_over(p):
    p.n = p.next


@morph.program
def rounds(g, k, log):
    while k > 0:
        morph.foreach(g.points, spread_out, k, log, where=lambda p: p.id % 3 != 1)
        morph.foreach(g.points, take_over)
        k -= 1
    return k


@tries(8)
@given(graphs(), st.integers(1, 5))
def test_sums_in_a_program(target, case, k):
    n, ends = case
    of, want = [1] * n, Counter()
    for _ in range(k):
        of = [sum(of[b] for a, b in ends if a == p) if p % 3 != 1 else 0 for p in range(n)]
        want.update(p for p in range(n) if of[p] > 10**6)

    def run(eager):
        g = graph(target, case, n=i64, next=i64)
        g.points.n[:] = 1
        log = morph.Collection(g.points)
        (rounds.eager if eager else rounds)(g, k, log)
        counters_hold(log)
        return host(g.points.n).tolist(), Counter(host(log.item).tolist())

    for eager in (False, True):
        assert all(got == (of, want) for got in shared(target, lambda: run(eager)))


@morph.kernel
def degrees_of_others(p):
    low, n, of = i64(p.id), i32(0), f64(p.id)
    for e in p.outedges:
        if e.dst != p:
            n += 1
            low = min(low, i64(e.weight) - p.id)
            of += e.dst.of
    p.n = n
    p.low = low
    p.sum = of


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", ["star", "hubs", "even", "none"])
def test_rows_of_all_points(where, kind):
    """Parts of rows, short rows, long ones and none: a GPU's warps share all of them evenly."""
    rng, n = np.random.default_rng(7), 3000
    count = {"star": 70_000, "hubs": 50_000, "even": 9000, "none": 0}[kind]
    src = np.full(count, 1234) if kind == "star" else np.sort(np.arange(count) % n)
    if kind == "hubs":
        src = np.sort(rng.integers(0, n, count) ** 4 // n**3)
    dst = rng.integers(0, n, count)
    g = graph(where, (n, list(zip(src.tolist(), dst.tolist(), strict=True))), of=f64)
    for name, t in (("n", i32), ("low", i64), ("sum", f64)):
        g.points.add(name, t)
    of = rng.integers(0, 9, n)
    g.points.of[:] = of
    morph.foreach(g.points, degrees_of_others)
    assert is_checked() or "SWEEPS = true, REPLAYS = false" in degrees_of_others.source()
    kept = src != dst
    weight, low, total = np.arange(count) * 7 % 5, np.arange(n), np.arange(n, dtype=float)
    np.minimum.at(low, src[kept], (weight - src)[kept])
    np.add.at(total, src[kept], of[dst[kept]])
    assert (host(g.points.n) == np.bincount(src[kept], minlength=n)).all()
    assert (host(g.points.low) == low).all() and (host(g.points.sum) == total).all()


@morph.kernel
def late(p, log, k):
    n = 0
    for e in p.outedges[p.id - k :]:
        n += 1
        log.add(p, by=e.id)
    p.met = n


@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs(), st.integers(-3, 8))
def test_rows_from_a_position_on(target, choice, case, k):
    n, ends = case
    rows = [[e for e, (a, _) in enumerate(ends) if a == p][max(p - k, 0) :] for p in range(n)]

    def run():
        g = graph(target, case, met=i64)
        log = morph.Collection(g.points, by=i64)
        morph.foreach(g.points, late, log, k, balance=choice)
        counters_hold(log)
        found = zip(host(log.item).tolist(), host(log.by).tolist(), strict=True)
        spreads = choice != "thread" and not is_checked()
        assert ("WORK_SHARING = true" in late.source()) == spreads
        return sorted(found), host(g.points.met).tolist()

    want = [(p, e) for p, row in enumerate(rows) for e in row], [len(row) for row in rows]
    assert all(got == want for got in shared(target, run))


@morph.kernel
def survey(whole, rows, least):
    total, high = i64(whole.total), i32(-1)
    for r in rows[1:]:
        if r.x < least:
            continue
        total += r.x
        high = max(high, r.id)
        r.x = r.x + 1
    whole.total = total
    whole.high = high


@morph.kernel
def thin_out(r, most):
    if r.x > most:
        r.delete()


@morph.program
def surveys(all, whole, rows, k):
    while k > 0:
        morph.foreach(all, survey, rows, 2)
        morph.foreach(rows, thin_out, whole.total)  # read before the first item runs
        k -= 1
    return k


@tries(10)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 3))
def test_a_table_is_summed_up(target, xs, k):
    x, total, dead = list(xs), 0, set()
    for _ in range(k):
        met = [r for r in range(1, len(x)) if r not in dead and x[r] >= 2]
        total += sum(x[r] for r in met)
        high = max(met, default=-1)
        for r in met:
            x[r] += 1
        dead |= {r for r in range(len(x)) if x[r] > total}

    def run(eager):
        rows = morph.Table("rows", target, x=i64)
        rows.extend(x=xs)
        every = morph.Table("every", target, total=i64, high=i32)
        every.extend(1)
        (surveys.eager if eager else surveys)(every, every[0], rows, k)
        alive = host(rows.alive)
        return int(every[0].total), int(every[0].high), host(rows.x)[alive].tolist()

    want = total, high, [v for r, v in enumerate(x) if r not in dead]
    for eager in (True, False):
        assert all(got == want for got in shared(target, lambda: run(eager)))


@morph.kernel
def fills(r, rows):
    for q in rows:
        q.x = r.id + q.x


@morph.kernel
def meets_itself(r, rows):
    for q in rows:
        if q.x > r.x:
            q.x = 0


@pytest.mark.unchecked  # loops of checked kernels are not shared
@pytest.mark.parametrize("kernel", [fills, meets_itself])
def test_rows_that_are_shared(kernel):
    rows = morph.Table("rows", "cpu", x=i64)
    rows.extend(1)
    morph.foreach(rows, kernel, rows)
    assert ("WORK_SHARING = true" in kernel.source()) == (kernel is fills)


@morph.kernel
def turns(p, all):
    mine = all[0].n  # race: the item has met the write of another or not
    total = i64(0)
    for _ in p.outnbrs:
        total += mine
    p.total = total
    all[0].n = 1  # race: the same value


@morph.kernel
def turns_by_flag(p, all, seen):
    mine = i64(seen.raised)
    total = i64(0)
    for _ in p.outnbrs:
        total += mine
    p.total = total
    seen.set()


def test_a_row_is_not_shared_where_its_head_reads_what_other_tails_write(target):
    """All entries of an item have the values that its prologue has read once, in any thread."""
    g = graph(target, (9, [(0, k % 9) for k in range(90)]))
    g.points.add("total", i64)
    all = morph.Table("all", g.device, n=i64)
    all.extend(1)
    for kernel, *more in ((turns,), (turns_by_flag, morph.Flag(g))):
        morph.foreach(g.points, kernel, all, *more)
        assert host(g.points.total).tolist() in ([0] + [0] * 8, [90] + [0] * 8)
        if target != "python" and not is_checked():
            assert "SWEEPS = false" in kernel.source()


@morph.kernel
def tally(p, cell):
    atomic_add(cell[0].many, p.x)
    atomic_add(cell[0].few, i32(1))
    for t in p.outnbrs:
        if t.x < 0:
            atomic_add(cell[0].ends, u64(t.x))
    if p.x > 0:
        atomic_add(cell[0].asked, 1)
        if cell[0].asked > 0:  # its own at least
            p.saw = True


@morph.program
def tallies(g, cell, rounds):
    while rounds > 0:
        before = cell[0].many
        foreach(g.points, tally, cell)
        cell[0].grown = cell[0].many - before
        rounds -= 1


def test_sums_for_all(target):
    """A warp may add once in a step, but what is asked in it is there at once."""
    rng = np.random.default_rng(4)
    n, m = 300, 900
    src, dst = rng.integers(0, n, (2, m))
    x = rng.integers(-(2**62), 2**62, n)

    def run():
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        g.points.add("x", i64), g.points.add("saw", np.bool_)
        g.points.x[:] = x
        cell = morph.Table("cell", g.device, many=i64, few=i32, ends=u64, asked=i64, grown=i64)
        cell.extend(1)
        tallies(g, cell, 3)
        assert cell[0].many == int(3 * x.astype(object).sum() + 2**63) % 2**64 - 2**63
        assert cell[0].grown == int(x.astype(object).sum() + 2**63) % 2**64 - 2**63
        assert cell[0].ends == int(3 * x[dst][x[dst] < 0].astype(object).sum()) % 2**64
        assert cell[0].few == 3 * n and cell[0].asked == 3 * (x > 0).sum()
        assert host(g.points.saw).tolist() == (x > 0).tolist()

    everywhere(target, run)
    if target == "cpu" and not is_checked():
        assert "TOTALS = 3 }" in tallies.source()


@morph.kernel
def tally_floats(p, cell):
    atomic_add(cell[0].many, p.x)
    atomic_add(cell[0].third, p.x)
    atomic_add(cell[0].fourth, -p.x)
    atomic_add(cell[0].fifth, 1.0)
    atomic_add(cell[0].sixth, 2 * p.x)
    atomic_add(cell[0].seventh, 0.25)
    for t in p.outnbrs:
        atomic_add(cell[0].ends, f32(t.x))
    if atomic_add(cell[0].asked, 0.5) >= 0.5:  # the value before is used: no partial sums
        p.saw = True


@morph.program
def float_tallies(g, cell, rounds):
    while rounds > 0:
        before = cell[0].many
        morph.foreach(g.points, tally_floats, cell)
        cell[0].grown = cell[0].many - before
        rounds -= 1


def test_float_sums_for_all(target):
    """Partial sums of threads are added at the barrier of each step; infinities stay."""
    rng = np.random.default_rng(5)
    n, m = 300, 900
    src, dst = rng.integers(0, n, (2, m))

    def run(x, rounds):
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        g.points.add("x", f64), g.points.add("saw", np.bool_)
        g.points.x[:] = x
        more = dict.fromkeys(("third", "fourth", "fifth", "sixth", "seventh"), f64)
        cell = morph.Table("cell", g.device, many=f64, ends=f32, asked=f64, grown=f64, **more)
        cell.extend(1)
        float_tallies(g, cell, rounds)
        assert cell[0].many == rounds * x.sum() and cell[0].grown == x.sum()
        assert cell[0].ends == rounds * x[dst].sum() and cell[0].asked == rounds * n / 2
        assert cell[0].third == -cell[0].fourth == cell[0].sixth / 2 == rounds * x.sum()
        assert cell[0].fifth == 4 * cell[0].seventh == rounds * n
        assert host(g.points.saw).sum() == (n if rounds > 1 else n - 1)

    run(rng.integers(-100, 100, n) / 4, 3)  # exact in any order
    run(np.where(np.arange(n) == dst[7], np.inf, rng.random(n)), 1)
    if target == "cpu" and not is_checked():
        assert "FLOAT_TOTALS = 6 }" in float_tallies.source()


@morph.kernel
def turn(cell, g):
    first, second = i64(0), i64(0)
    for p in g.points:
        p.z += 2
        second += p.z  # as it is now
        old = p.x
        first += old * p.y
        if old != p.y:
            p.x = p.y + 1
    cell.first, cell.second = first, second


def test_columns_of_rows_that_are_read_together(target):
    """What others write, or the entry has written, is not what was read ahead."""
    n = 500
    x, y, z = (np.arange(n, dtype=np.int64) * k % 97 for k in (3, 5, 7))

    def run():
        g = morph.Graph.from_edges([0], [1], n=n, device=target)
        for name, values in (("x", x), ("y", y), ("z", z)):
            g.points.add(name, i64)
            getattr(g.points, name)[:] = values
        cell = morph.Table("cell", g.device, first=i64, second=i64)
        cell.extend(1)
        morph.foreach(cell, turn, g)
        assert (cell[0].first, cell[0].second) == ((x * y).sum(), (z + 2).sum())
        assert (host(g.points.x) == np.where(x != y, y + 1, x)).all() and (
            host(g.points.z) == z + 2
        ).all()

    everywhere(target, run)
    if target == "cpu" and not is_checked():
        reach = turn.source().partition("_reach {")[2].partition("};")[0]
        read = set(re.findall(r"i64 (\w)_?;", reach))  # a name that C++ text has already gets a "_"
        assert {"x", "y"} <= read and "z" not in read
