"""Scan, sort, compact and rows of extreme values, against NumPy, on every target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from targets import everywhere, host, tries

import morph
from morph.data import sorting
from morph.operators.reduce import NO_ROW, REDUCTIONS
from morph.prelude import f16, f64, i8, i32, u8, u64
from morph.worklists import (
    compact_rows,
    compact_space,
    find_largest,
    find_least,
    scan_column,
    scan_first,
    scan_space,
    sort_order,
    sort_space,
)

TYPES = [i8, i32, u64, f16, f64, np.bool_]
SCANS = {
    "sum": np.cumsum, "prod": np.cumprod, "min": np.minimum.accumulate,
    "max": np.maximum.accumulate, "any": lambda x: np.logical_or.accumulate(x != 0),
    "all": lambda x: np.logical_and.accumulate(x != 0),
}  # fmt: skip
FIRST = {"sum": 0, "prod": 1, "any": False, "all": True}


def rows(target, n, dtype, delete=()):
    """A table of small numbers, some rows of it deleted, and its values that are left."""
    values = np.random.default_rng(n).integers(0, 3, n).astype(dtype)
    t = morph.Table("t", target, x=dtype, of=i32)
    t.extend(x=values, of=np.arange(n, dtype=i32))
    held = np.ones(n, bool)
    held[list(delete)] = False
    if len(delete):
        t.delete(list(delete))
    return t, values, held


@morph.func
def first(a, b):
    """Associative, and not commutative."""
    return a if a != 2 else b


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_scan(target, op, dtype):
    for n, delete in ((0, ()), (1, ()), (40, (0, 3, 39))):
        t, values, held = rows(target, n, dtype, delete)
        want = SCANS[op](values[held])
        found = morph.scan(t.x, op)
        assert (
            found.dtype
            == getattr(values, op)(
                axis=0, **({} if n else {"initial": 0} if op in ("min", "max") else {})
            ).dtype
        )
        assert host(found)[held].tolist() == want.tolist() and not host(found)[~held].any()
        before = host(morph.scan(t.x, op, exclusive=True))[held]
        assert before[1:].tolist() == want[:-1].tolist()
        if n and op in FIRST:
            assert before[0] == FIRST[op]
        elif n:  # no value changes it
            assert all(getattr(np, op)([before[0], x]) == x for x in values)


@tries(6)
@given(st.integers(1, 5000))
def test_scan_by_a_function(target, n):
    if target == "python":
        n %= 70

    def run():
        t, values, _ = rows(target, n, i32)
        return host(morph.scan(t.x, first)), values

    for found, values in everywhere(target, run):
        other = np.flatnonzero(values != 2)
        held = values.copy()
        if other.size:
            held[other[0] :] = values[other[0]]
        assert found.tolist() == held.tolist()


def test_scan_of_arrays_and_refusals(target):
    assert morph.scan(np.array([1, 2, 3], i8)).tolist() == [1, 3, 6]
    assert morph.scan([4, 2, 3], "min").tolist() == [4, 2, 2]
    t, _, _ = rows(target, 3, i32)
    with pytest.raises(ValueError, match="no reduction 'mean'"):
        morph.scan(t.x, "mean")
    with pytest.raises(ValueError, match="has no neutral element, so its scan is not exclusive"):
        morph.scan(t.x, first, exclusive=True)
    t.add("v", morph.vec(f64, 2))
    with pytest.raises(ValueError, match="an operator takes one value a row"):
        morph.scan(t.v)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.__name__)
def test_argsort(target, dtype):
    for delete in ((), (0, 5, 6)):
        t, values, held = rows(target, 50, dtype, delete)
        ids = np.flatnonzero(held)
        want = ids[np.argsort(values[held], kind="stable")]
        assert host(morph.argsort(t.x)).tolist() == want.tolist()
        down = host(morph.argsort(t.x, descending=True))
        order = np.lexsort((ids, -values[held].astype(f64)))
        assert down.tolist() == ids[order].tolist()


@pytest.mark.parametrize("keys", [
    np.array([2**63 - 1, -(2**63), 0, -1]), np.array([2**64 - 1, 0, 2**63, 2**63 - 1], u64),
    np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]), np.array([127, -128, 0, -128], i8),
    np.array([], f64), np.array([5]),
])  # fmt: skip
def test_argsort_of_extreme_keys(target, keys):
    keys = morph.device(target).asarray(keys)
    assert host(morph.argsort(keys)).tolist() == np.argsort(host(keys), kind="stable").tolist()


def test_words_are_sorted(monkeypatch):
    """By the compiled library, which serves from a number of sorted words on, and by NumPy."""
    rng, n = np.random.default_rng(1), sorting.USE_FROM
    masks = [0, 1, 2**63 - 1, 2**11 - 1 << 52, 0x0FF0_0FFF_00FF_F00F, (2**14 - 1) * (2**32 + 1)]
    words = [rng.integers(0, 2**63, n + k) & mask for k, mask in enumerate(masks)]
    words.append(np.arange(n))
    expected = [np.sort(x) for x in words]
    keys = rng.integers(-5, 2**17, n).astype(np.int32)
    order = np.argsort(keys, kind="stable")
    for least in (n + 1, 0):
        monkeypatch.setattr(sorting, "COMPILE_AFTER", least)
        monkeypatch.setattr(sorting, "_sorted", [0])
        monkeypatch.setattr(sorting.LIBRARY, "_loaded", {})
        monkeypatch.setattr(sorting.LIBRARY, "_is_made", False)
        assert (sorting._library(n) is None) == (least > n)
        for x, y in zip(words, expected, strict=True):
            found = x.copy()
            sorting.sort_words(found)
            assert (found == y).all()
            backwards = np.repeat(x, 2)[::2][::-1]  # not contiguous
            sorting.sort_words(backwards)
            assert (backwards == y).all()
        assert (sorting.order_of(np, keys) == order).all()


@pytest.mark.parametrize("ordered", [0, 20])
@pytest.mark.parametrize("mask", [0, 2**63 - 1, 0x0FF0_0FFF_00FF_F00F])
def test_words_are_sorted_by_threads(monkeypatch, mask, ordered):
    rng = np.random.default_rng(mask)
    words = rng.integers(0, 2**63, 10_007) & mask
    if ordered:
        words = words >> ordered << ordered | np.arange(words.size)
    monkeypatch.setattr(sorting, "COMPILE_AFTER", 0)
    monkeypatch.setattr(sorting, "PART", 1000)
    monkeypatch.setattr(sorting, "get_num_threads", lambda: 4)
    expected = np.sort(words)
    for _ in range(2):  # the second time they are in order
        sorting.sort_words(words, ordered)
        assert (words == expected).all()


def test_sort_of_a_collection(target):
    g = morph.Graph.from_edges([0, 1], [1, 2], n=5, device=target)
    g.points.add("x", i32)
    g.points.x[:] = [3, 1, 2, 1, 0]
    items = morph.Collection(g.points, key=f64, of=morph.Ref(g.edges))
    items.extend([4, 0, 3, 1], key=[2.5, 1, 2.5, 0], of=[0, 1, -1, 0])
    morph.sort(items, "key")
    assert host(items.items).tolist() == [1, 0, 4, 3] and host(items.of).tolist() == [0, 1, 0, -1]
    morph.sort(items, g.points.x[items.items], descending=True)
    assert host(items.items).tolist() == [0, 1, 3, 4] and host(items.key).tolist() == [
        1,
        0,
        2.5,
        2.5,
    ]
    items.add(2, key=7, of=1)
    assert host(items.key).tolist() == [1, 0, 2.5, 2.5, 7]
    with pytest.raises(ValueError, match="has no column 'colour'"):
        morph.sort(items, "colour")
    with pytest.raises(ValueError, match="has 5 rows, but there are 2 keys"):
        morph.sort(items, np.arange(2))
    with pytest.raises(ValueError, match="sorted by one value a row, not of shape"):
        morph.sort(items, np.zeros((5, 2)))


def test_sort_of_a_graphs_tables(target):
    """References, neighbours, sets and worklists follow rows that move; deleted rows go."""
    g = morph.Graph.from_edges([0, 0, 1, 2, 4], [1, 2, 3, 3, 0], n=5, device=target)
    g.points.add("label", i32)
    g.points.label[:] = [30, 10, 20, 50, 40]
    g.edges.add("length", i32)
    g.edges.length[:] = [5, 4, 3, 2, 1]
    g.add_table("homes", at=morph.Ref("points"))
    g.homes.new(at=4)
    pairs = {(30, 10): 5, (30, 20): 4, (10, 50): 3, (20, 50): 2, (40, 30): 1}
    items = morph.Collection(g.points)
    items.add(3)

    def seen():
        name = host(g.points.label).tolist()
        found = {(name[e.src.id], name[e.dst.id]): int(e.length) for e in g.edges if not e.dead}
        out = {name[p.id]: sorted(name[t.id] for t in p.outnbrs) for p in g.points}
        return found, out

    out = seen()[1]
    morph.sort(g.points, "label")
    assert host(g.points.label).tolist() == [10, 20, 30, 40, 50] and seen() == (pairs, out)
    assert g.homes[0].at.label == 40 and items[0].label == 50
    morph.sort(g.edges, "length")
    assert host(g.edges.length).tolist() == [1, 2, 3, 4, 5] and seen() == (pairs, out)
    assert g.edge_order is not None and host(g.edge_order).tolist() == [4, 3, 2, 1, 0]
    assert morph.bfs(g, source=3).distance.tolist() == [2, 2, 1, 0, 3]
    g.edges[1].delete()
    morph.sort(g.edges, np.array([1, 1, 0, 0, 0]), descending=True)
    assert host(g.edges.length).tolist() == [1, 3, 4, 5]


@morph.func
def odd(p):
    return p.id % 2 == 1


def test_compact(target):
    g = morph.Graph.from_edges([0, 1], [1, 2], n=9, device=target)
    g.points.delete([3])
    assert host(morph.compact(g.points, odd).items).tolist() == [1, 5, 7]
    low = 2
    assert host(morph.compact(g.points, lambda p: p.id < low).items).tolist() == [0, 1]
    items = morph.Collection(g.points)
    items.extend([7, 2, 1, 7, 4])
    assert host(morph.compact(items, odd).items).tolist() == [7, 1, 7]
    assert host(items.items).tolist() == [7, 2, 1, 7, 4]
    mask = morph.device(target).asarray(np.array([False, True, True, False, True]))
    assert host(morph.compact(items, mask).items).tolist() == [2, 1, 4]
    with pytest.raises(ValueError, match="a mask of collection has 5 booleans"):
        morph.compact(items, mask[:3])


def test_compact_of_entries(target):
    g = morph.Graph.from_edges([0, 1], [1, 2], n=9, device=target)
    items = morph.Collection(g.points, key=f64, by=morph.Ref(g.edges), pair=morph.vec(i32, 2))
    items.extend([4, 1, 4, 2], key=[1, 2, 3, 4], by=[0, 1, -1, 0], pair=np.arange(8).reshape(4, 2))

    @morph.kernel
    def take_one(p, items):
        items.take()

    morph.foreach(g.points, take_one, items, where=lambda p: p.id == 0)
    assert len(items) == 3
    kept = morph.compact(items, lambda e: e.key > 1.5)
    left = [(e.item.id, float(e.key), host(e.pair).tolist()) for e in items if e.key > 1.5]
    assert [(e.item.id, float(e.key), host(e.pair).tolist()) for e in kept] == left
    assert len(left) >= 2 and kept.columns["by"].ref == "edges"
    numbers = morph.Collection(i32, device=target)
    numbers.extend([5, 6, 7])
    kept = morph.compact(numbers, morph.device(target).asarray(np.array([True, False, True])))
    assert host(kept.item).tolist() == [5, 7]
    with pytest.raises(ValueError, match="the items of collection are not rows: give a mask"):
        morph.compact(numbers, odd)


def test_on_a_gpu_that_is_pretended(monkeypatch):
    """No array of the host meets one of the device."""
    there = pretended(monkeypatch)
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 0], n=6, device=there)
    g.points.add("x", i32)
    g.points.x[:] = [2, 0, 1, 1, 0, 2]
    g.points.delete([1])
    assert host(morph.scan(g.points.x, exclusive=True)).tolist() == [0, 0, 2, 3, 4, 4]
    assert host(morph.scan(g.points.x, "max")).tolist() == [2, 0, 2, 2, 2, 2]
    assert host(morph.argsort(g.points.x)).tolist() == [4, 2, 3, 0, 5]
    assert morph.argmax(g.points.x).id == 0 and morph.argmin(g.points.x).id == 4
    items = morph.compact(g.points, odd)
    assert host(items.items).tolist() == [3, 5]
    morph.sort(items, np.array([1, 0]))
    assert host(items.items).tolist() == [5, 3]
    assert host(morph.compact(items, np.array([False, True])).items).tolist() == [3]
    morph.sort(g.points, "x", descending=True)
    assert host(g.points.x).tolist() == [2, 2, 1, 1, 0] and host(items.items).tolist() == [1, 3]


def test_rows_of_extreme_values(target):
    t, values, held = rows(target, 30, f64, (0, 4))
    least, most = morph.argmin(t.x), morph.argmax(t.x)
    ids = np.flatnonzero(held)
    assert (least.id, most.id) == (ids[values[held].argmin()], ids[values[held].argmax()])
    assert least.of == least.id  # its other columns
    assert morph.argmax(np.array([1, 3, 3])) == 1
    items = morph.Collection(t, key=i32)
    items.extend([1, 2, 3], key=[4, 2, 2])
    assert morph.argmin(items.key).item.id == 2
    with pytest.raises(ValueError, match="the argmin of t.x over no rows"):
        morph.argmin(morph.Table("t", target, x=i32).x)


def test_reduce_of_arrays():
    assert morph.reduce(np.array([200, 100], u8), "sum") == 300
    assert morph.reduce([3, 1, 2], "min") == 1
    assert morph.reduce(np.array([2, 2, 1]), first) == 1


@morph.func
def plus(a, b):
    return a + b


@morph.kernel
def count_out(p, g):
    p.start = i32(p.out_degree)


@morph.kernel
def place(p, starts, listed):
    """Write the neighbours of all points one after another, in order."""
    at = starts[p] - p.out_degree
    for t in p.outnbrs:
        listed[at] = t.id
        at += 1


@morph.program
def list_neighbours(g, scan, listed):
    morph.foreach(g.points, count_out, g)
    scan_column(scan, plus)
    morph.foreach(g.points, place, scan.x, listed)


@pytest.mark.parametrize("n", [1, 5, 300])
@pytest.mark.parametrize("how", [list_neighbours, list_neighbours.eager])
def test_scan_in_a_program(target, how, n):
    """A filled list in the order of the points: what a CSR is made of."""
    rng = np.random.default_rng(n)
    src, dst = rng.integers(0, n, (2, 2 * n))

    def run():
        g = morph.Graph.from_edges(src, dst, n=n, device=target)
        g.points.add("start", i32)
        listed = morph.Table("listed", target, x=i32)
        listed.extend(2 * n)
        how(g, scan_space(g.points.start), listed.x)
        return host(g.points.start).tolist(), host(listed.x).tolist()

    order = np.argsort(src, kind="stable")
    for start, listed in everywhere(target, run):
        assert start == np.cumsum(np.bincount(src, minlength=n)).tolist()
        assert listed == dst[order].tolist()


def test_scan_of_a_table_that_has_grown(target):
    t = morph.Table("t", target, x=i32)
    t.extend(x=np.ones(3, i32))
    scan = scan_space(t.x)
    for n in (20, 500):
        t.extend(n)
        t.x[:] = 1
        scan_column(scan, plus)
        assert host(t.x).tolist() == list(range(1, len(t) + 1))


@pytest.mark.parametrize("n", [0, 1, 17, 300])
def test_scan_of_the_first_rows(target, n):
    t = morph.Table("t", target, x=i32)
    t.extend(x=np.ones(300, i32))
    scan_first(scan_space(t.x), n, plus)
    assert host(t.x).tolist() == list(range(1, n + 1)) + [1] * (300 - n)


@morph.func
def distance(r, x):
    return abs(r.x - x)


@morph.program
def nearest(found, t, queries, ids):
    k = 0
    while k < len(queries):
        found.value = 1e9
        find_least(found, t, distance, queries[k])
        ids[k] = i32(found.row_id)
        k += 1


@pytest.mark.parametrize("how", [nearest, nearest.eager])
def test_find_least_in_a_program(target, how):
    x = np.random.default_rng(3).integers(0, 40, 60).astype(f64)
    queries = np.array([0.25, 17.5, 39, 100, -3])

    def run():
        t, q = morph.Table("t", target, x=f64), morph.Table("q", target, x=f64, of=i32)
        t.extend(x=x)
        q.extend(x=queries)
        how(morph.Scalars(target, value=0.0, row_id=0), t, q.x, q.of)
        return host(q.of).tolist()

    for found in everywhere(target, run):
        assert found == [int(np.abs(x - y).argmin()) for y in queries]


def test_find_least_of_no_rows(target):
    found = morph.Scalars(target, value=0.0, row_id=0)
    find_least(found, morph.Table("t", target, x=f64), distance, 1.5)
    assert found.row_id == NO_ROW


@morph.program
def farthest(found, t, query):
    found.value = -1.0
    find_largest(found, t, distance, query)
    return found.row_id


@pytest.mark.parametrize("how", [farthest, farthest.eager])
def test_find_largest_in_a_program(target, how):
    x = np.random.default_rng(3).integers(0, 40, 60).astype(f64)

    def run():
        t = morph.Table("t", target, x=f64)
        found = morph.Scalars(target, value=0.0, row_id=0)
        empty = how(found, t, 1.0)
        t.extend(x=x)
        return empty, [how(found, t, y) for y in (0.25, 17.5, 39.0)], found.value

    for empty, rows_, value in everywhere(target, run):
        assert empty == NO_ROW and value == np.abs(x - 39).max()
        assert rows_ == [int(np.abs(x - y).argmax()) for y in (0.25, 17.5, 39.0)]


@morph.func
def is_below(r, limit):
    return r.x < limit


@morph.program
def compact_twice(space, limit):
    n = compact_rows(space, is_below, limit)
    more = compact_rows(space, is_below, limit + 1)
    return 1000 * n + more


@morph.program
def compact_once(space, limit):
    n = compact_rows(space, is_below, limit)
    return n


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(("n", "delete"), [(0, ()), (1, ()), (60, ()), (70, (0, 3, 69))])
def test_compact_in_a_program(target, eager, n, delete):
    def run():
        t, values, held = rows(target, n, i32, delete)
        space = compact_space(t)
        t.extend(3)  # left out
        results = []
        for limit in (0, 1, 2, 9):
            found = (compact_once.eager if eager else compact_once)(space, limit)
            results.append(host(space.order)[:found].tolist())
            assert results[-1] == np.flatnonzero((values < limit) & held).tolist()
        assert compact_twice(space, 1) == 1000 * len(results[1]) + len(results[2])
        return results

    everywhere(target, run)


@morph.kernel
def rank(r, order, t):
    t[order[r]].rank = r.id


@morph.kernel
def blur(r, by):
    r.x = r.x % by


@morph.program
def rank_all(t, space, by):
    """The rank of each row, by remainders first by ``by`` and then by ever fewer."""
    while by > 3:
        morph.foreach(t, blur, i32(by))
        sort_order(space)
        by = by // 2
    morph.foreach(space.places, rank, space.order, t)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 65, 400])
@pytest.mark.parametrize("how", [rank_all, rank_all.eager])
def test_sort_in_a_program(target, how, n):
    n = min(n, 65) if target == "python" else n
    values = np.random.default_rng(n).integers(0, 1000, n).astype(i32)

    def run():
        t = morph.Table("t", target, x=i32, rank=i32)
        t.extend(n, x=values)
        space = sort_space(t.x)
        how(t, space, 50)
        return host(t.rank).tolist(), host(space.order).tolist()

    x = values.copy()
    for by in (50, 25, 12, 6):
        x %= by
    order = np.argsort(x, kind="stable")
    for ranks, found in everywhere(target, run):
        assert found == order.tolist() and ranks == np.argsort(order).tolist()


@pytest.mark.parametrize("dtype", [f64, u64, np.bool_], ids=lambda d: d.__name__)
def test_sort_of_other_keys_in_a_program(target, dtype):
    t, values, _ = rows(target, 30, dtype)
    space = sort_space(t.x)
    sort_order(space)
    assert host(space.order).tolist() == np.argsort(values, kind="stable").tolist()


def test_sort_of_nan_and_of_rows_in_a_program(target):
    def run():
        x = np.random.default_rng(5).integers(0, 9, 90).astype(f64)
        x[::7] = np.nan
        x[1::7] = np.inf
        t = morph.Table("t", target, x=f64, next=morph.Ref("t"))
        t.extend(x=x)
        to = np.random.default_rng(6).integers(-1, 90, 90)
        for i in np.flatnonzero(to >= 0).tolist():
            t[i].next = t[int(to[i])]
        for column, keys in ((t.x, x), (t.next, to)):
            space = sort_space(column)
            sort_order(space)
            assert host(space.order).tolist() == np.argsort(keys, kind="stable").tolist()

    everywhere(target, run)


@pytest.mark.parametrize("bits", [3, 17, 33, 48, 49, 62])
def test_stable_order_of_keys(bits):
    keys = np.random.default_rng(bits).integers(0, 1 << bits, 400) >> np.arange(400) % 9
    keys[200:] = keys[:200]
    assert np.array_equal(sorting.stable_order(np, keys, bits), np.argsort(keys, kind="stable"))


def test_a_scan_takes_numbers():
    for values in (np.array([1, 2], object), np.array(["a"]), np.array([1j])):
        with pytest.raises(ValueError, match="a scan takes numbers, not an array of"):
            morph.scan(values)


def test_sort_refuses_other_objects():
    for x in (np.array([2, 1]), [2, 1], None):
        with pytest.raises(TypeError, match="sort takes a table or collection on one device, not"):
            morph.sort(x, "x")
        with pytest.raises(TypeError, match="compact takes a table or collection on one device"):
            morph.compact(x, odd)
