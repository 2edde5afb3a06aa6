"""Shared state of items: atomics, single, collections, sets, reductions; on every target."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, same, table, tries

import morph
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
    f64,
    i32,
    i64,
    single,
)

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
ROWS = 40


@morph.kernel
def apply(r, cells, f_min, f_max, f_add, f_sub, f_exch, f_cas):
    c = cells[r.at]
    r.o_min = atomic_min(c.min_, r.x, f_min)
    r.o_max = atomic_max(c.max_, r.x, f_max)
    r.o_add = atomic_add(c.add_, r.x, f_add)
    r.o_sub = atomic_sub(c.sub_, r.x, changed=f_sub)
    r.o_exch = atomic_exch(c.exch_, r.x, f_exch)
    r.o_cas = atomic_cas(c.cas_, 1, r.x, f_cas)
    atomic_add(c.pair[r.at % 2], r.x)


@morph.kernel
def apply_bits(r, cells, f_and, f_or, f_xor, f_exch):
    c = cells[r.at]
    r.o_and = atomic_and(c.and_, r.x, f_and)
    r.o_or = atomic_or(c.or_, r.x, f_or)
    r.o_xor = atomic_xor(c.xor_, r.x, f_xor)
    r.o_exch = atomic_exch(c.exch_, r.x, f_exch)


FOLD = {
    "min": np.minimum, "max": np.maximum, "add": np.add, "sub": np.subtract,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def check_history(op, x, at, start, end, old, flag):
    """What must hold of atomics on cells, in whatever order they came."""
    for cell in range(len(start)):
        mine, olds = x[at == cell], old[at == cell]
        met = [start[cell], *mine]
        if op in FOLD:
            want = FOLD[op].reduce(np.array(met, x.dtype), dtype=x.dtype)
            assert same(end[cell : cell + 1], np.array([want])), op
        elif op == "exch":
            assert Counter([*olds, end[cell]]) == Counter(met)
        else:
            assert end[cell] in (met if start[cell] == 1 else [start[cell]])
        if len(olds):  # the first to come saw what was there
            assert start[cell] in olds, op
    assert flag or (start == end).all(), op
    alike = all((old[at == c] == start[c]).all() for c in range(len(start)))
    assert not flag or not alike or (start != end).any(), op


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@tries(4)
@given(st.data())
def test_atomics(target, dtype, data):
    """Four cells side by side, small ones within one word."""
    least = 0 if dtype[0] == "u" else -3
    x = np.array(data.draw(st.lists(st.integers(least, 3), min_size=ROWS, max_size=ROWS)), dtype)
    at = np.array(data.draw(st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS)), np.int32)
    ops = ("min", "max", "add", "sub", "exch", "cas")
    start = np.array([0, 1, 2, 1], dtype)

    def run():
        cells = table(target, **{f"{op}_": start for op in ops}, pair=np.zeros((4, 2), dtype))
        t = table(target, x=x, at=at, **{f"o_{op}": x for op in ops})
        flags = [morph.Flag(target) for _ in ops]
        morph.foreach(t, apply, cells, *flags)
        for op, flag in zip(ops, flags, strict=True):
            end, old = host(cells.__getattr__(f"{op}_")), host(t.__getattr__(f"o_{op}"))
            check_history(op, x, at, start, end, old, bool(flag))
        want = np.zeros((4, 2), dtype)
        np.add.at(want, (at, at % 2), x)
        assert np.array_equal(cells.pair, want)

    everywhere(target, run)


@pytest.mark.parametrize("dtype", ["b1", *INTEGERS])
@tries(3)
@given(st.data())
def test_atomics_on_bits(target, dtype, data):
    most = 1 if dtype == "b1" else 127
    x = np.array(data.draw(st.lists(st.integers(0, most), min_size=ROWS, max_size=ROWS)), dtype)
    at = np.array(data.draw(st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS)), np.int32)
    ops = ("and", "or", "xor", "exch")
    start = np.array([1, 0, 1, 1] if dtype == "b1" else [127, 0, 85, 3], dtype)

    def run():
        cells = table(target, **{f"{op}_": start for op in ops})
        t = table(target, x=x, at=at, **{f"o_{op}": x for op in ops})
        flags = [morph.Flag(target) for _ in ops]
        morph.foreach(t, apply_bits, cells, *flags)
        for op, flag in zip(ops, flags, strict=True):
            end, old = host(cells.__getattr__(f"{op}_")), host(t.__getattr__(f"o_{op}"))
            check_history(op, x, at, start, end, old, bool(flag))

    everywhere(target, run)


@morph.kernel
def refer(p, first, last):
    for t in p.outnbrs:
        atomic_min(t.least, p)
        atomic_max(t.most, p)
        if atomic_cas(t.any, None, p) is None:
            first.set()
        atomic_exch(t.last, p, last)


@st.composite
def graphs(draw, most=12):
    n = draw(st.integers(1, most))
    ends = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(ends, ends), max_size=3 * most))


def graph(target, n, edges, **more):
    src, dst = (np.array([e[i] for e in edges], np.int32) for i in (0, 1))
    return morph.Graph.from_edges(src, dst, n=n, device=target, **more)


@tries(10)
@given(graphs())
def test_atomics_on_references(target, edges):
    n, ends = edges
    into = [[s for s, d in ends if d == p] for p in range(n)]

    def run():
        g = graph(target, n, ends)
        for name in ("least", "most", "any", "last"):
            g.points.add(name, morph.Ref("points"))
        g.points.least[:] = n - 1
        first, last = morph.Flag(g), morph.Flag(g)
        morph.foreach(g.points, refer, first, last)
        assert host(g.points.least).tolist() == [min(s, default=n - 1) for s in into]
        assert host(g.points.most).tolist() == [max(s, default=-1) for s in into]
        for name in ("any", "last"):
            got = host(g.points.__getattr__(name)).tolist()
            assert all(x in s if s else x == -1 for x, s in zip(got, into, strict=True)), name
        assert bool(first) == bool(last) == bool(ends)

    everywhere(target, run)


# --- single --------------------------------------------------------------------------------------


@morph.kernel
def one_of_many(e):
    if single(e.dst):
        e.dst.rows += 1
        e.won = True
    else:
        atomic_add(e.dst.lost, 1)
    if single(e.dst.lock):
        e.dst.places += 1


@tries(10)
@given(graphs())
def test_single_row_and_place(target, edges):
    """One item a launch gets a row; one gets a place, until it is opened again."""
    n, ends = edges
    into = np.array([sum(d == p for _, d in ends) for p in range(n)])

    def run():
        g = graph(target, n, ends)
        for name in ("rows", "lost", "places"):
            g.points.add(name, i64)
        g.points.add("lock", np.uint8)
        g.edges.add("won", bool_)
        for launch in (1, 2):
            morph.foreach(g.edges, one_of_many)
            assert np.array_equal(g.points.rows, launch * (into > 0))
            assert np.array_equal(g.points.lost, launch * (into - (into > 0)))
            assert np.array_equal(g.points.places, into > 0)
        g.points.lock[:] = 0
        morph.foreach(g.edges, one_of_many)
        assert np.array_equal(g.points.places, 2 * (into > 0))

    everywhere(target, run)


@morph.kernel
def touch(p, g, again, log):
    cells = g.points.local(16)  # room for all of them: an item that overflows runs in a batch later
    cells.add(p)
    for t in p.nbrs:
        if t not in cells:
            cells.add(t)
    if single(cells):
        for c in cells:
            c.hits += 1  # not atomic: it is mine alone
            c.by = p
        for c in cells:
            if c.by != p:
                c.broken = True
        log.add(p)
    else:
        again.add(p)


@tries(12)
@given(graphs(most=16))
def test_single_collection(target, edges):
    """The winners of a round share nothing, an item always wins, and in the end all have."""
    n, ends = edges
    near = [{p} | {b for a, b in ends if a == p} | {a for a, b in ends if b == p} for p in range(n)]

    def run():
        g = graph(target, n, ends)
        g.points.add("hits", i32)
        g.points.add("by", morph.Ref("points"))
        g.points.add("broken", bool_)
        # room for all, so that a launch is one batch on the GPU: a replay would be another
        work, again, log = (morph.Collection(g.points, capacity=2 * n) for _ in range(3))
        work.extend(np.arange(n))
        rounds = []
        while len(work):
            before = len(log)
            morph.foreach(work, touch, g, again, log)
            rounds.append(host(log.items)[before:].tolist())
            assert rounds[-1], "no item has won"
            assert sorted(rounds[-1] + host(again.items).tolist()) == sorted(
                host(work.items).tolist()
            )
            work, again = again, work
            again.clear()
        assert sorted(sum(rounds, [])) == list(range(n))
        assert host(g.points.hits).tolist() == [sum(p in s for s in near) for p in range(n)]
        assert not host(g.points.broken).any()
        if target == "cuda":
            for won in rounds:
                assert sum(len(near[p]) for p in won) == len(set().union(*(near[p] for p in won)))

    everywhere(target, run)


@morph.kernel
def colour(p, g, again):
    mine = g.points.local(1)
    ring = g.points.local(8)
    mine.add(p)
    for t in p.nbrs:
        if t != p:
            ring.add(t)
    if single(mine, guard=ring, priority=p.rank):
        c = i64(0)
        for _step in range(ring.size + 1):
            taken = False
            for t in ring:
                if t.colour == c:
                    taken = True
            if taken:
                c += 1
        p.colour = c
    else:
        again.add(p)


@tries(12)
@given(graphs(most=16), st.data())
def test_guard_and_priority(target, edges, data):
    """Neighbours never win together, so that greedy colouring stays proper; the first rank wins."""
    n, ends = edges
    ranks = data.draw(st.lists(st.integers(-2, 70), min_size=n, max_size=n))
    degree = [len({a, b}) - 1 for a, b in ends]

    def run():
        g = graph(target, n, ends)
        g.points.add("colour", i64, fill=-1)
        g.points.add("rank", i64)
        g.points.rank[:] = np.array(ranks)
        work, again = morph.Collection(g.points), morph.Collection(g.points)
        work.extend(np.arange(n))
        while len(work):
            morph.foreach(work, colour, g, again)
            assert len(again) < len(work), "no item has won"
            work, again = again, work
            again.clear()
        got = host(g.points.colour)
        assert (got >= 0).all() and all(got[a] != got[b] for a, b in ends if a != b)
        assert got.max(initial=0) <= sum(degree)

    everywhere(target, run)


# --- collections, sets ---------------------------------------------------------------------------


@morph.kernel
def spread(p, g, then, seen):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
            then.add(t, by=p, length=f64(t.id) / 2.0)
            seen.set()


@morph.kernel
def arrive(entry, then):
    if entry.by != entry.item:
        entry.item.tree = entry.by
        entry.item.length = entry.length
        then.add(entry.item)


@tries(12)
@given(graphs(most=16))
def test_worklists_carry_columns_and_are_swapped(target, edges):
    n, ends = edges
    net = nx.DiGraph(ends)
    net.add_nodes_from(range(n))
    want = nx.single_source_shortest_path_length(net, 0)

    def run():
        g = graph(target, n, ends)
        g.points.add("dist", i64, fill=1 << 40)
        g.points.add("tree", morph.Ref("points"))
        g.points.add("length", f64)
        now, then = morph.Collection(g.points), morph.Collection(g.points)
        found = morph.Collection(g.points, by=morph.Ref(g.points), length=f64)
        seen = morph.Flag(g)
        now.add(0)
        g.points[0].dist = 0
        while not now.empty:
            morph.foreach(now, spread, g, found, seen)
            assert seen.take() == (len(found) > 0)
            morph.foreach(found, arrive, then)
            found.clear()
            now, then = then, now
            then.clear()
        got = host(g.points.dist).tolist()
        assert got == [want.get(p, 1 << 40) for p in range(n)]
        tree = host(g.points.tree).tolist()
        for p in range(n):
            if 0 < got[p] < 1 << 40:
                assert (tree[p], p) in ends and got[tree[p]] == got[p] - 1
                assert g.points[p].length == p / 2

    everywhere(target, run)


@morph.kernel
def drain(r, work, got):
    for _i in range(r.want):
        x = work.take()
        if x is not None:
            got.add(x)


@tries(10)
@given(st.integers(0, 30), st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_take(target, many, wants):
    """Each item is taken once, as long as there are any."""

    def run():
        points = morph.Table("points", target)
        points.extend(31)
        work, got = morph.Collection(points), morph.Collection(points)
        work.extend(np.arange(many))
        t = table(target, want=np.array(wants))
        for taken in (sum(wants), 2 * sum(wants)):
            morph.foreach(t, drain, work, got)
            items = host(got.items).tolist()
            assert len(set(items)) == len(items) == min(taken, many)
            assert sorted(items + host(work.items).tolist()) == list(range(many))

    everywhere(target, run)


@morph.kernel
def join(e, sets, joined):
    if sets.union(e.src, e.dst):
        atomic_add(joined[0].x, 1)


@morph.kernel
def find(p, sets):
    p.root = sets.find(p)


@tries(15)
@given(graphs(most=20))
def test_sets(target, edges):
    """Components and their smallest members, as NetworkX finds them."""
    n, ends = edges
    net = nx.Graph(ends)
    net.add_nodes_from(range(n))
    parts = list(nx.connected_components(net))
    want = [next(min(c) for c in parts if p in c) for p in range(n)]

    def run():
        g = graph(target, n, ends)
        g.points.add("root", morph.Ref("points"))
        sets, joined = morph.Set(g.points), table(target, x=np.zeros(1, np.int64))
        morph.foreach(g.edges, join, sets, joined)
        assert int(host(joined.x)[0]) == n - len(parts)
        morph.foreach(g.points, find, sets)
        assert host(g.points.root).tolist() == want == host(sets.labels()).tolist()
        sets.reset()
        morph.foreach(g.points, find, sets)
        assert host(g.points.root).tolist() == list(range(n))

    everywhere(target, run)


@morph.func
def larger_square(a, b):
    return a if a * a > b * b else b


@morph.func
def xor(a, b):
    return a ^ b


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "b1"])
def test_reductions(target, dtype):
    """Built-in ones as NumPy's over the live rows; a function in one order on all devices."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 5, 37).astype(dtype)
    dead = [0, 3, 36]
    live = np.delete(x, dead)

    def run():
        t = table(target, x=x)
        t.delete(dead)
        for op in ("sum", "prod", "min", "max", "any", "all"):
            got, want = morph.reduce(t.x, op), getattr(live, op)()
            assert got == want and np.asarray(got).dtype == want.dtype, op
        if dtype != "b1":
            square = morph.reduce(t.x, larger_square)
            assert square == live.max() and np.asarray(square).dtype == dtype
        if dtype[0] in "iub":
            assert morph.reduce(t.x, xor) == np.bitwise_xor.reduce(live)

    everywhere(target, run)
