"""Shared arrays, and items that the threads of a warp or block execute together."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sm90
from targets import everywhere, host

import morph
from morph import foreach
from morph.compiler.codegen.unit import prelude
from morph.compiler.passes.work_sharing import BALANCES
from morph.launch.checked import is_checked
from morph.prelude import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_exch,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xor,
    bool_,
    i32,
    i64,
    popcount,
    shared,
    static,
    u32,
    u64,
)

N, LAST = 40, 2**63 - 1
ENDS = np.arange(N).repeat(np.arange(N) % 7 * 5), np.arange(sum(n % 7 * 5 for n in range(N))) % N


def graph(target):
    g = morph.Graph.from_edges(*ENDS, n=N, device=target)
    for name in ("met", "total", "low", "high", "bins"):
        g.points.add(name, i64)
    g.points.add("skipped", bool_)
    return g


@morph.func
def is_odd(x):
    return x % 2 == 1


@morph.kernel
def survey(p, g, bins: static):
    """Of the neighbours of p: the set, their neighbours in it, and numbers of both in bins."""
    if p.out_degree == 0:
        p.skipped = True
        return
    seen = shared(u64, 1)
    count = shared(i32, bins)
    for t in p.outnbrs:
        atomic_or(seen[0], u64(1) << u64(t.id))
        atomic_add(count[t.id % bins], 1)
    met, low, high = 0, i32(99), i64(-1)
    for t in p.outnbrs:
        both = i32(0)
        if t.id != 3:
            for e in t.outedges:
                if seen[0] >> u64(e.dst.id) & u64(1) != u64(0):
                    both += 1
                    high = max(high, i64(e.id))
                    if is_odd(e.id):
                        atomic_add(e.dst.met, 1)
            low = min(low, both)
            met += both
            atomic_add(t.met, both)
    count[bins - 1] = 0
    p.low, p.high = low, high
    for i in range(bins):
        k = i if count[i] > 1 else 0
        while k > 0:  # so that the loop around is divided among all threads
            atomic_add(p.bins, i64(count[i]))
            k -= 1
    for i in range(LAST - 3, LAST):
        met += LAST - i
    atomic_add(p.total, met)


def surveyed(bins):
    rows = [ENDS[1][ENDS[0] == p] for p in range(N)]
    first = np.searchsorted(ENDS[0], range(N))
    met, total, high = np.zeros(N, int), np.zeros(N, int), np.full(N, 0)
    low, in_bins = np.zeros(N, int), np.zeros(N, int)
    for p, row in enumerate(rows):
        if not row.size:
            continue
        low[p], high[p] = 99, -1
        for t in row[row != 3]:
            both = [(first[t] + i, x) for i, x in enumerate(rows[t]) if x in row]
            met[t] += len(both)
            low[p], total[p] = min(low[p], len(both)), total[p] + len(both)
            high[p] = max(high[p], max([e for e, _ in both], default=-1))
            for e, x in both:
                met[x] += e % 2
        counts = np.bincount(row % bins, minlength=bins)[:-1]
        total[p] += 1 + 2 + 3
        in_bins[p] = sum(i * int(c) for i, c in enumerate(counts) if c > 1)
    return {"met": met, "total": total, "low": low, "high": high, "bins": in_bins}


@pytest.mark.parametrize("balance", ["auto", "warp", "thread"])
def test_threads_that_share_an_item_find_what_one_finds(target, balance):
    want = surveyed(5)

    def run():
        g = graph(target)
        foreach(g.points, survey, g, 5, where=lambda p: p.id != 13, balance=balance)
        foreach(g.points, survey, g, 5, where=lambda p: p.id == 13, balance=balance)
        return [host(getattr(g.points, name)[:]) for name in want]

    for found in everywhere(target, run):
        for name, x in zip(want, found, strict=True):
            assert x.tolist() == want[name].tolist(), name
    threads = {"auto": 256, "warp": 32, "thread": 1}[balance]
    assert f"GROUP = {1 if is_checked() else threads};" in survey.source()


@morph.kernel
def in_order(p, g):
    """A prefix sum and all operations: one thread, since the iterations depend on each other."""
    x = shared(u32, 8)
    y = shared(i64, 2)
    for i in range(1, 8):
        x[i] = x[i - 1] + u32(i)
    old = atomic_exch(y[0], 5)
    atomic_sub(y[0], 7)
    atomic_min(y[1], y[0] + old)
    atomic_max(x[0], u32(9))
    atomic_xor(x[0], u32(3))
    atomic_and(x[1], u32(0))
    old = i64(atomic_cas(x[6], 20, 5) + atomic_cas(x[6], 21, 6) + atomic_cas(x[6], 20, 7))
    p.total = y[1] * 1000 + i64(x[7]) * 10 + popcount(x[0]) + x[1] + len(x) + old + i64(x[6])


def test_what_threads_cannot_share_runs_on_one(target):
    def run():
        g = graph(target)
        foreach(g.points, in_order, g)
        return host(g.points.total[:])

    for found in everywhere(target, run):
        assert found.tolist() == [-2000 + 280 + 2 + 8 + (21 + 21 + 6) + 6] * N
    assert "GROUP = 1;" in in_order.source()


@morph.func
def count(keys, sums, key, weight):
    """Add a weight to the sum of a key in a hash table, and return it; no key is 0."""
    at = key % len(keys)
    held = atomic_cas(keys[at], 0, key)
    while held != 0 and held != key:
        at = (at + 1) % len(keys)
        held = atomic_cas(keys[at], 0, key)
    return atomic_add(sums[at], weight) + weight


@morph.kernel
def find_heaviest(p, size: static):
    """The largest sum of the weights of edges whose targets have the same remainder by 7."""
    keys = shared(i32, size)
    sums = shared(i64, size)
    for e in p.outedges:
        count(keys, sums, i32(e.dst.id) % 7 + 1, e.weight)
    most = i64(-LAST)
    for i in range(size):
        if keys[i] != 0:
            most = max(most, sums[i])
    p.total = most


@pytest.mark.parametrize(("size", "balance"), [(8, "thread"), (16, "warp"), (128, "block")])
def test_a_hash_table_in_arrays(target, size, balance):
    weight = np.random.default_rng(3).integers(-(2**33), 2**33, len(ENDS[0]))
    sums = np.zeros((N, 7), np.int64)
    np.add.at(sums, (ENDS[0], ENDS[1] % 7), weight)
    seen = np.zeros((N, 7), bool)
    seen[ENDS[0], ENDS[1] % 7] = True
    want = np.where(seen, sums, -LAST).max(axis=1)

    def run():
        g = morph.Graph.from_edges(*ENDS, weight=weight, n=N, device=target)
        g.points.add("total", i64)
        foreach(g.points, find_heaviest, size, balance=balance)
        return host(g.points.total[:])

    for total in everywhere(target, run):
        assert total.tolist() == want.tolist()
    threads = {"thread": 1, "warp": 32, "block": 256}[balance]
    assert f"GROUP = {1 if is_checked() else threads};" in find_heaviest.source()
    assert f"OWN_ARRAYS = {str(size < 128).lower()};" in find_heaviest.source()


@morph.kernel
def find_largest_part(p, size: static):
    """The largest sum so far of weights that are not negative: in any order the largest sum."""
    keys = shared(i32, size)
    sums = shared(i64, size)
    most = i64(0)
    for e in p.outedges:
        most = max(most, count(keys, sums, i32(e.dst.id) % 7 + 1, e.weight))
    p.total = most


@pytest.mark.parametrize("balance", ["thread", "warp", "block"])
def test_results_of_additions_at_places_of_iterations(target, balance):
    weight = np.random.default_rng(4).integers(0, 2**33, len(ENDS[0]))
    sums = np.zeros((N, 7), np.int64)
    np.add.at(sums, (ENDS[0], ENDS[1] % 7), weight)

    def run():
        g = morph.Graph.from_edges(*ENDS, weight=weight, n=N, device=target)
        g.points.add("total", i64)
        foreach(g.points, find_largest_part, 16, balance=balance)
        return host(g.points.total[:])

    for total in everywhere(target, run):
        assert total.tolist() == sums.max(axis=1).tolist()
    threads = {"thread": 1, "warp": 32, "block": 256}[balance]
    assert f"GROUP = {1 if is_checked() else threads};" in find_largest_part.source()


@morph.kernel
def find_shared_element(p):
    """All iterations use the old value of one element: they are not independent."""
    x = shared(i32, 1)
    for t in p.outnbrs:
        if atomic_cas(x[0], 0, i32(t.id) + 1) == 0:
            p.low = t.id


@pytest.mark.unchecked
def test_swaps_of_one_element_are_not_shared():
    g = graph("cpu")
    foreach(g.points, find_shared_element)
    assert "GROUP = 1;" in find_shared_element.source()
    first = [ENDS[1][ENDS[0] == p][0] if (ENDS[0] == p).any() else 0 for p in range(N)]
    assert host(g.points.low[:]).tolist() == first


@morph.kernel
def bend(e, g):
    """Moves an edge while other items walk edges: their threads could see different rows."""
    degree = shared(i32, 1)
    for _ in e.src.outnbrs:
        atomic_add(degree[0], 1)
    if degree[0] > 3:
        e.dst = e.src


@pytest.mark.unchecked
def test_items_that_move_edges_run_on_one_thread():
    g = graph("cpu")
    foreach(g.edges, bend, g)
    src, dst = host(g.edges.src[:]), host(g.edges.dst[:])
    assert dst.tolist() == np.where(np.bincount(ENDS[0])[src] > 3, src, ENDS[1]).tolist()
    assert "GROUP = 1;" in bend.source()


@morph.program
def twice(g):
    foreach(g.points, survey, g, 5, balance="warp")
    foreach(g.points, survey, g, 5, balance="block")


def test_in_a_program(target):
    g = graph(target)
    twice(g)
    want = surveyed(5)
    assert host(g.points.met[:]).tolist() == (2 * want["met"]).tolist()
    assert host(g.points.low[:]).tolist() == want["low"].tolist()


@morph.kernel
def beyond(p, g):
    x = shared(i32, 4)
    atomic_add(x[p.id], 1)
    p.total = x[p.id // 2]


def test_an_index_out_of_range_is_reported(target):
    g = graph(target)
    problem = r"index 4 is out of range: 'x' has 4 values \(item points\[4\]\)"
    with pytest.raises(morph.CheckError, match=problem):
        foreach(g.points, beyond, g, check=True)


@pytest.mark.unchecked
def test_the_threads_of_a_warp_have_arrays_of_their_own():
    g = graph("cpu")
    foreach(g.points, survey, g, 5)
    assert BALANCES == ("auto", "thread", "warp", "block", "grid")
    text = survey.source()
    assert "group_.subwarp()" in text and "group_.lane()" in text and "reduce_lanes" in text
    assert re.search(r"MORPH_SHARED Shared<u64, 1> v\d+_\[G::COUNT\]", text)
    assert "struct Group" in prelude(groups=True) and "struct Group" not in prelude()


@pytest.mark.nvrtc
@pytest.mark.unchecked
def test_they_compile_for_sm_90():
    g, texts = graph("cpu"), {}
    for balance in ("auto", "warp"):
        foreach(g.points, survey, g, 5, balance=balance)
        texts[prelude(groups=True) + survey.source()] = "morph_survey"
    g.edges.add("weight", i64)
    for size, balance in ((8, "thread"), (16, "warp"), (128, "block")):
        foreach(g.points, find_heaviest, size, balance=balance)
        texts[prelude(groups=True) + find_heaviest.source()] = "morph_find_heaviest"
    sm90.compile_all(texts)
