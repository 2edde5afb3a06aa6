"""Loops over edges that several threads share: all choices of ``balance`` give equal results."""

from __future__ import annotations

import contextlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import counters_hold
from targets import everywhere, host, tries

import morph
from morph.compiler.passes.work_sharing import BALANCES
from morph.prelude import atomic_add, atomic_min, f32, i8, i32, i64, single, vector
from morph.testing import fail_allocation, team

FAR = 1 << 20


@st.composite
def graphs(draw):
    """Few points; some of them have most of the edges, twice and to themselves, too."""
    n = draw(st.integers(1, 12))
    point = st.integers(0, n - 1)
    ends = draw(st.lists(st.tuples(point, point), max_size=30))
    for hub in draw(st.lists(point, max_size=3)):
        ends += [(hub, t) for t in draw(st.lists(point, min_size=3, max_size=20))]
    return n, sorted(ends)


def graph(target, case, **columns):
    n, ends = case
    src, dst = np.array(ends, np.int32).reshape(-1, 2).T.copy()
    weight = (np.arange(len(ends)) * 7 % 5).astype(np.int32)
    g = morph.Graph.from_edges(src, dst, weight=weight, n=n, device=target)
    for name, kind in columns.items():
        g.points.add(name, kind)
    return g


def shared(target, run):
    """What ``run`` gives in each way of a target; on a GPU, too, where small graphs have hubs."""
    if target != "cuda":
        return everywhere(target, run)
    found = []
    for way in (contextlib.nullcontext(), team(1)):
        with way:
            found.append(run())
    return found


# --- kernels --------------------------------------------------------------------------------------


@morph.kernel
def visit(p, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
            following.add(t)


@morph.program
def levels_auto(current, following):
    while not current.empty:
        morph.foreach(current, visit, following)
        current, following = following, current
        following.clear()


@morph.program
def levels_thread(current, following):
    while not current.empty:
        morph.foreach(current, visit, following, balance="thread")
        current, following = following, current
        following.clear()


@morph.program
def levels_warp(current, following):
    while not current.empty:
        morph.foreach(current, visit, following, balance="warp")
        current, following = following, current
        following.clear()


@morph.program
def levels_block(current, following):
    while not current.empty:
        morph.foreach(current, visit, following, balance="block")
        current, following = following, current
        following.clear()


@morph.program
def levels_grid(current, following):
    while not current.empty:
        morph.foreach(current, visit, following, balance="grid")
        current, following = following, current
        following.clear()


PROGRAMS = {choice: globals()[f"levels_{choice}"] for choice in BALANCES}


def distances(case):
    n, ends = case
    dist = [0] + [FAR] * (n - 1)
    for _ in range(n):
        for a, b in ends:
            dist[b] = min(dist[b], dist[a] + 1)
    return dist


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs())
def test_levels(target, choice, eager, case):
    def run():
        g = graph(target, case)
        g.points.add("dist", i64, fill=FAR)
        g.points[0].dist = 0
        lists = [morph.Collection(g.points) for _ in range(2)]
        lists[0].add(0)
        (PROGRAMS[choice].eager if eager else PROGRAMS[choice])(*lists)
        counters_hold(*lists)
        return host(g.points.dist).tolist()

    assert all(found == distances(case) for found in shared(target, run))


@morph.kernel
def relax(p, changed):
    p.updated = False
    for e in p.outedges:
        if e.weight == 4:
            continue
        if atomic_min(e.dst.dist, p.dist + e.weight, changed) > p.dist + e.weight:
            e.dst.updated = True  # race: the point runs in this step or in the next one


@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs())
def test_where(target, choice, case):
    n, ends = case
    dist = [0] + [FAR] * (n - 1)
    for _ in range(n):
        for k, (a, b) in enumerate(ends):
            if k * 7 % 5 != 4:
                dist[b] = min(dist[b], dist[a] + k * 7 % 5)

    def run():
        g = graph(target, case, updated=np.bool_)
        g.points.add("dist", i32, fill=FAR)
        g.points[0].dist, g.points[0].updated = 0, True
        changed = morph.Flag(g)
        changed.set()
        while changed.take():
            morph.foreach(g.points, relax, changed, where=lambda p: p.updated, balance=choice)
        return host(g.points.dist).tolist()

    assert all(found == dist for found in shared(target, run))


@morph.kernel
def unfold(p, g, log, bias):
    near = vector(
        p.id, p.out_degree
    )  # locals of several sizes are passed to the thread of each edge
    small = i8(p.id % 100)
    if p.out_degree == 1:
        return
    first = g.links.new(of=p, end=p, key=-1)
    if p.id % 2 == 0:
        for e in p.outedges:
            atomic_add(p.count, 1)
            if e.dst != p:
                made = g.links.new(of=p, end=e.dst)
                made.key = near.x * 1000 + near.y + small + bias
                log.add(made, by=first.id * 0 + e.weight)
                e.seen = e.seen + 1
            else:
                log.add(first, by=e.id)
    else:
        p.count = 100


def unfolded(case, bias):
    n, ends = case
    degree = Counter(a for a, _ in ends)
    links, log, count, seen = Counter(), Counter(), [0] * n, [0] * len(ends)
    for p in range(n):
        if degree[p] == 1:
            continue
        links[p, p, -1] += 1
        if p % 2:
            count[p] = 100
    for k, (a, b) in enumerate(ends):
        if degree[a] == 1 or a % 2:
            continue
        count[a] += 1
        if a != b:
            links[a, b, a * 1000 + degree[a] + a % 100 + bias] += 1
            log[a, b, k * 7 % 5] += 1
            seen[k] += 1
        else:
            log[a, a, k] += 1
    return links, log, count, seen


def unfolds(target, case, choice, bias=5):
    g = graph(target, case, count=i32)
    g.edges.add("seen", i8)
    g.add_table("links", of=morph.Ref("points"), end=morph.Ref("points"), key=i64)
    log = morph.Collection(g.links, by=i64)
    morph.foreach(g.points, unfold, g, log, bias, balance=choice)
    counters_hold(g.links, log)
    of, end, key = (host(getattr(g.links, c)).tolist() for c in ("of", "end", "key"))
    assert len(log) == len(host(log.item))
    entries = zip(host(log.item).tolist(), host(log.by).tolist(), strict=True)
    logged = ((of[r], end[r], by) for r, by in entries)
    seen = host(g.edges.seen).tolist()
    made = Counter(zip(of, end, key, strict=True))
    return made, Counter(logged), host(g.points.count).tolist(), seen


@pytest.mark.parametrize("choice", BALANCES)
@tries(8)
@given(graphs())
def test_rows_and_entries_are_made(target, choice, case):
    want = unfolded(case, 5)
    assert all(got == want for got in shared(target, lambda: unfolds(target, case, choice)))


STAR = (9, sorted([(0, k % 9) for k in range(23)] + [(4, k % 3) for k in range(7)] + [(8, 1)] * 4))


@pytest.mark.parametrize("choice", BALANCES)
@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_every_allocation_can_fail(where, choice):
    want, n = unfolded(STAR, 5), 0
    while True:
        n += 1
        with fail_allocation(n, where) as fault, team(1 + n % 3):
            got = unfolds(where, STAR, choice)
        assert got == want
        if not fault.fired:
            break
    assert n > 8


@morph.kernel
def unless_closed(p, state, closed, log):
    """What decides whether an item runs is changed by the loops of others."""
    if state.closed == 0 and not closed.raised and p.at == 0:
        for t in p.outnbrs:
            log.add(t, by=p.id)
            if t.id == 3:
                state.closed = i32(1)
                closed.set()
                t.at = i32(1)


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_decisions_that_other_items_change(where):
    """An item runs as a whole or not at all, also if a part of it waits for capacity."""
    n, ends = 0, Counter(STAR[1])
    while True:
        g, n = graph(where, STAR, at=i32), n + 1
        state, closed = morph.Scalars(g, closed=i32(0)), morph.Flag(g)
        log = morph.Collection(g.points, by=i64)
        with fail_allocation(n, where) as fault, team(1 + n % 3):
            morph.foreach(g.points, unless_closed, state, closed, log)
        counters_hold(log)
        made = Counter(zip(host(log.by).tolist(), host(log.item).tolist(), strict=True))
        ran = {a for a, _ in made}
        assert made == Counter({x: count for x, count in ends.items() if x[0] in ran})
        assert ran and bool(state.closed) == closed.raised == (0 in ran)
        if not fault.fired:
            break
    assert n > 2


@morph.kernel
def backwards(p):
    p.at = p.at + f32(1)
    for t in p.innbrs:
        atomic_add(t.given, p.id)
        if single(t):
            atomic_min(t.dist, p.id)


@pytest.mark.parametrize("choice", BALANCES)
def test_in_edges_and_locks(target, choice):
    n, ends = STAR

    def run():
        g = graph(target, STAR, at=f32, given=i64)
        g.points.add("dist", i32, fill=FAR)
        morph.foreach(g.points, backwards, balance=choice)
        return [host(getattr(g.points, c)).tolist() for c in ("at", "given", "dist")]

    given = [sum(b for a, b in ends if a == p) for p in range(n)]
    for at, got, dist in shared(target, run):
        assert at == [1.0] * n and got == given
        assert all(d in ([b for a, b in ends if a == p] or [FAR]) for p, d in enumerate(dist))


@morph.kernel
def tally(p):
    for t in p.outnbrs:
        atomic_add(t.hits, 1)


@morph.kernel
def add_up(p):
    total, last = i64(0), i32(-1)
    for t in p.outnbrs:
        total += t.id
        last = max(last, t.hits)
    p.total, p.last = total, last


@pytest.mark.parametrize("choice", BALANCES)
@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_large(where, choice):
    """HighDegreeList as they are: an R-MAT graph, with one point that has as many edges again."""
    rng, scale, m = np.random.default_rng(3), 12, 1 << 16
    n, src, dst = 1 << scale, np.zeros(m, np.int64), np.zeros(m, np.int64)
    for bit in range(scale):
        x = rng.random(m)
        src |= (x > 0.76).astype(np.int64) << bit
        dst |= ((x > 0.57) & (x < 0.76) | (x > 0.95)).astype(np.int64) << bit
    src, dst = np.concatenate([src, np.full(m, 77)]), np.concatenate([dst, rng.integers(0, n, m)])
    src[0], dst[0] = 0, 77
    order = np.argsort(src, kind="stable")
    src, dst = src[order].astype(np.int32), dst[order].astype(np.int32)
    want = np.full(n, FAR)
    want[0] = 0
    while True:
        before = want.copy()
        np.minimum.at(want, dst, before[src] + 1)
        if (want == before).all():
            break
    for way in (contextlib.nullcontext(), team(3)):
        with way:
            g = morph.Graph.from_edges(src, dst, n=n, device=where)
            g.points.add("dist", i64, fill=FAR)
            g.points.add("hits", i32)
            for run in (PROGRAMS[choice], PROGRAMS[choice].eager):
                g.points.dist[:] = FAR
                g.points[0].dist = 0
                lists = [morph.Collection(g.points) for _ in range(2)]
                lists[0].add(0)
                run(*lists)
                assert (host(g.points.dist) == want).all()
            morph.foreach(g.points, tally, balance=choice)  # each edge is run once
            assert (host(g.points.hits) == np.bincount(dst, minlength=n)).all()
            morph.foreach(g.points, tally, balance=choice, where=lambda p: p.id % 7 == 0)
            again = np.bincount(dst[src % 7 == 0], minlength=n)
            hits = host(g.points.hits)
            assert (hits == np.bincount(dst, minlength=n) + again).all()
            g.points.add("total", i64)
            g.points.add("last", i32)
            morph.foreach(g.points, add_up, balance=choice)
            last = np.full(n, -1)
            np.maximum.at(last, src, hits[dst])
            assert (host(g.points.total) == np.bincount(src, dst, n).astype(np.int64)).all()
            assert (host(g.points.last) == last).all()
