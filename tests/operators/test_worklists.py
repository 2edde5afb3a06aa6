"""Advance, filter, and order by key, against SciPy and plain Python, on every target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from graphs import edge_lists
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph
from targets import everywhere, host, tries

import morph
from morph.prelude import atomic_min, f64, i32, vector
from morph.worklists import (
    Visit,
    advance,
    advance_edges,
    advance_entries,
    advance_once,
    bucket_queue,
    in_order,
    keep,
    keep_once,
    run_in_order,
)

FAR = 2**31 - 1


@morph.func
def rises(p, t):
    return t.id > p.id


@morph.func
def even(p):
    return p.id % 2 == 0


@tries(10)
@given(edge_lists(most=12))
def test_advance_and_filter(target, edges):
    n, src, dst, _ = edges
    led = sorted(v for u, v in zip(src, dst, strict=True) if v > u)

    def run():
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        found = []
        for step in (advance, advance_once):
            all, into = morph.Collection(g.points), morph.Collection(g.points)
            all.extend(np.arange(n))
            morph.foreach(all, step, rises, into)
            found.append(into)
        return found

    for twice, once in everywhere(target, run):
        assert sorted(host(twice.items).tolist()) == led
        assert sorted(host(once.items).tolist()) == sorted(set(led))


def test_filters(target):
    g = morph.Graph.from_edges([], [], n=9, device=target)
    for step, want in ((keep, [2, 2, 4]), (keep_once, [2, 4])):
        items, into = morph.Collection(g.points), morph.Collection(g.points)
        items.extend([1, 2, 2, 3, 4, 7])
        morph.foreach(items, step, even, into)
        assert sorted(host(into.items).tolist()) == want


@morph.func
def reached(p, t, level, most):
    return t.id <= most and atomic_min(t.dist, i32(level)) > level


@morph.program
def reach(now, then, most):
    level = 1
    while not now.empty:
        morph.foreach(now, advance, reached, then, level, most)
        now, then = then, now
        then.clear()
        level += 1
    return level


@pytest.mark.parametrize("run", [reach, reach.eager])
def test_advance_with_further_arguments(target, run):
    g = morph.Graph.from_edges([0, 0, 1, 2, 3], [1, 2, 3, 3, 4], device=target)
    g.points.add("dist", i32, fill=99)
    g.points[0].dist = 0
    now = morph.Collection(g.points)
    now.add(0)
    assert run(now, morph.Collection(g.points), 3) == 4
    assert host(g.points.dist[:]).tolist() == [0, 1, 1, 2, 99]


@morph.func
def heavier(p, e, least):
    return p.id < 3 and e.weight > least


@tries(10)
@given(edge_lists(most=12))
def test_advance_over_edges(target, edges):
    n, src, dst, _ = edges
    weight = np.arange(len(src), dtype=np.int32)
    led = sorted(v for u, v, w in zip(src, dst, weight, strict=True) if u < 3 and w > 1)

    def run():
        g = morph.Graph.from_edges(src, dst, weight=weight, n=n, device=target)
        into = morph.Collection(g.points)
        morph.foreach(g.points, advance_edges, heavier, into, 1)
        return host(into.items).tolist()

    for found in everywhere(target, run):
        assert sorted(found) == led


@morph.func
def lighter(entry, e, paths):
    d = entry.key + e.weight
    atomic_min(paths[0].shortest, d)
    return d < 9, d


@morph.func
def cheap(entry, most):
    return entry.key <= most


def test_entries_with_columns(target):
    def run():
        g = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3], weight=[5, 1, 1, 9], device=target)
        paths = morph.Table("paths", target, shortest=np.int64)
        paths.extend(shortest=[99])
        lists = [morph.Collection(g.points, key=np.int64) for _ in range(3)]
        lists[0].extend([0, 1, 2], key=[0, 5, 1])
        morph.foreach(lists[0], advance_entries, lighter, lists[1], paths)
        morph.foreach(lists[1], keep, cheap, lists[2], 5)
        assert all(e.outnbrs == e.item.outnbrs for e in lists[1])
        return [sorted((e.item.id, int(e.key)) for e in x) for x in lists[1:]], paths[0].shortest

    for (added, kept), shortest in everywhere(target, run):
        assert added == [(1, 5), (2, 1), (3, 6)] and kept == [(1, 5), (2, 1)] and shortest == 1


def test_entries_without_neighbours():
    g = morph.Graph.from_edges([0], [1])
    for items in (morph.Collection(by=morph.Ref(g.edges)), morph.Collection(g.points, key=i32)):
        items.extend(n=1)
        for name in ("outnbrs", "colour"):
            with pytest.raises(AttributeError, match=f"has no column {name!r}"):
                getattr(next(iter(items)), name)


def test_values_for_several_columns(target):
    @morph.func
    def both(p, e):
        return True, vector(e.weight, f64(p.id))

    g = morph.Graph.from_edges([0, 1], [1, 0], weight=np.array([2.5, 3.5]), device=target)
    into = morph.Collection(g.points, pair=morph.vec(np.float64, 2))
    morph.foreach(g.points, advance_entries, both, into)
    order = np.argsort(host(into.items))
    assert host(into.pair)[order].tolist() == [[3.5, 1], [2.5, 0]]


def test_advance_in_a_program(target):
    @morph.func
    def farther(p, t):
        return atomic_min(t.dist, p.dist + 1) > p.dist + 1

    @morph.program
    def levels(now, then):
        level = 0
        while not now.empty:
            morph.foreach(now, advance, farther, then)
            now, then = then, now
            then.clear()
            level += 1
        return level

    g = morph.generate.grid(4, 5, device=target)
    g.points.add("dist", i32, fill=99)
    g.points[0].dist = 0
    now = morph.Collection(g.points)
    now.add(0)
    assert levels(now, morph.Collection(g.points)) == 8
    assert host(g.points.dist[:]).tolist() == [i + j for i in range(4) for j in range(5)]


@morph.kernel
def relax(entry, g, limit, near, far):
    p, before = entry.item, entry.key
    for t in p.outnbrs:
        d = before + g.weight(p, t)
        if atomic_min(t.dist, d) > d:
            if d <= limit:
                near.add(t, key=d)
            else:
                far.add(t, key=d)


@tries(10)
@given(edge_lists(most=12))
def test_shortest_paths_in_order(target, edges):
    n, src, dst, weight = edges
    weight = np.asarray(weight).astype(np.int32) % 50 + 1
    lightest = {}
    for u, v, w in zip(src, dst, weight.tolist(), strict=True):
        lightest[u, v] = min(w, lightest.get((u, v), w))
    ends = tuple(zip(*lightest, strict=True)) or ((), ())
    matrix = coo_array((list(lightest.values()), ends), shape=(n, n)).tocsr()
    want = csgraph.dijkstra(matrix, indices=0)

    for kind in (np.int32, np.float32):

        def run(kind=kind):
            g = morph.Graph.from_edges(src, dst, weight=weight.astype(kind), n=n, device=target)
            far = FAR if kind is np.int32 else np.inf
            found = []
            for delta in (None, 3):
                g.points.add("dist", kind, fill=far)
                g.points[0].dist = 0
                items = morph.Collection(g.points, key=kind)
                items.add(0, key=0)
                in_order(items, relax, g, delta=delta)
                assert items.empty
                found.append(host(g.points.dist[:]).astype(float))
                g.points.drop("dist")
            return found

        for found in everywhere(target, run):
            for dist in found:
                assert np.where(dist == FAR, np.inf, dist).tolist() == want.tolist()


@morph.kernel
def hand_on(entry, g, limit, near, far):
    entry.item.seen += 1
    for t in entry.item.outnbrs:
        d = entry.key + g.weight(entry.item, t)
        if d <= limit:
            near.add(t, key=d)
        else:
            far.add(t, key=d)


def test_keys_without_end(target):
    """Keys that are infinite, or no numbers, come last; they do not wait for ever."""
    for weight in (np.inf, np.nan):
        w = np.array([1, weight, 2], np.float32)
        g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], weight=w, device=target)
        g.points.add("seen", i32)
        items = morph.Collection(g.points, key=np.float32)
        items.add(0, key=0)
        in_order(items, hand_on, g, delta=1)
        assert host(g.points.seen[:]).tolist() == [1, 1, 1, 1]


class Limits(NamedTuple):
    """What `relax_below` is given beside the graph."""

    graph: Any
    most: int
    stop_at: int


@morph.kernel
def relax_below(entry, s, limit, near, far):
    p, before = entry.item, entry.key
    for t in p.outnbrs:
        d = before + s.graph.weight(p, t)
        if d <= s.most and atomic_min(t.dist, d) > d:
            if d <= limit:
                near.add(t, key=d)
            else:
                far.add(t, key=d)


@morph.func
def is_current(entry):
    return entry.key == entry.item.dist


@morph.program
def beyond(s, near, limit):
    return near.empty and limit >= s.stop_at


@morph.program
def settle(queue, s):
    """Up to a limit, at which all smaller distances are final."""
    steps = run_in_order(queue, Visit(relax_below, s, is_current, beyond))
    return queue.state[0].limit if steps > 0 else -1


@pytest.mark.unchecked
@tries(10)
@given(edge_lists(most=12), st.integers(0, 90), st.sampled_from([1, 7, 1000]))
def test_a_queue_that_stops_and_goes_on(target, edges, stop_at, delta):
    n, src, dst, weight = edges
    weight = np.asarray(weight).astype(np.int32) % 50 + 1
    g = morph.Graph.from_edges(src, dst, weight=weight, n=n, device=target)
    want = host(morph.sssp(g, cutoff=100).distance)

    def run(program):
        g.points.add("dist", i32, fill=FAR)
        g.points[0].dist = 0
        queue = bucket_queue(g.points, i32, delta, largest=1000)
        queue.near.add(0, key=0)
        limit = program(queue, Limits(g, 100, stop_at))
        final = host(g.points.dist[:])
        if limit == 1000:  # the queue became empty
            assert all(c.empty for c in queue[:4])
        else:
            assert limit >= stop_at
            near, next_near, far, next_far, *others = queue
            for a, b in ((near, next_near), (far, next_far)):
                assert a.empty or b.empty
            queue = type(queue)._make(
                [*((next_near, near) if len(next_near) else (near, next_near)),
                 *((next_far, far) if len(next_far) else (far, next_far)), *others]
            )  # fmt: skip
            program(queue, Limits(g, 100, 1000))
        done = host(g.points.dist[:])
        g.points.drop("dist")
        settled = np.minimum(want, FAR) <= min(limit, 100)
        assert final[settled].tolist() == want[settled].tolist()
        assert done.tolist() == np.minimum(want, FAR).tolist()
        return limit

    limits = [x for p in (settle, settle.eager) for x in everywhere(target, lambda: run(p))]
    assert len(set(limits)) == 1
    if target != "python":
        unit = list(settle.launches.values())[-1].compiled.unit
        assert len(unit.permutations) == 4  # of near and far: each step is compiled once


def test_a_bundle_in_order(target):
    weight = np.array([5, 9, 1], np.int32)
    g = morph.Graph.from_edges([0, 0, 1], [1, 2, 2], weight=weight, device=target)
    g.points.add("dist", i32, fill=FAR)
    g.points[0].dist = 0
    items = morph.Collection(g.points, key=i32)
    items.add(0, key=0)
    in_order(items, relax_below, Limits(g, 5, 0), where=is_current)
    assert host(g.points.dist[:]).tolist() == [0, 5, FAR]


def test_bad_orders():
    g = morph.generate.grid(2, 2)
    with pytest.raises(ValueError, match="one column 'key', but these have \\['item'\\]"):
        in_order(morph.Collection(g.points), relax, g)
    items = morph.Collection(g.points, key=i32)
    with pytest.raises(ValueError, match="delta is a positive number, not 0"):
        in_order(items, relax, g, delta=0)
    assert in_order(items, relax, g) == 0


@pytest.mark.parametrize(
    ("key", "delta", "message"),
    [
        (np.complex64, 1, "key = complex64"),
        (np.bool_, 1, "key = bool"),
        (np.int64, -1, "delta is a positive number, not -1"),
        (np.int64, 0, "delta is a positive number, not 0"),
        (np.float64, float("nan"), "delta is a positive number, not nan"),
    ],
)
def test_bad_queues(key, delta, message):
    g = morph.Graph.from_edges([0], [1], device="cpu")
    with pytest.raises(ValueError, match=message):
        bucket_queue(g.points, key, delta)
    with pytest.raises(TypeError, match="delta is a number, not 'x'"):
        bucket_queue(g.points, np.int64, "x")
