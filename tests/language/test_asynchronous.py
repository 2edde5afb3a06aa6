"""Asynchronous execution: a thread executes the items that it has added; the result is the same.

Checked programs run launch by launch, so nothing runs ahead: of these only the results are tested.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from small import counters_hold
from targets import everywhere, host, tries
from test_balance import FAR, STAR, distances, graph, graphs, shared

import morph
from morph import generate, validate
from morph.language.errors import LanguageError
from morph.launch.checked import is_checked
from morph.prelude import atomic_add, atomic_min, i32, i64
from morph.testing import fail_allocation, team

WHERE = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@morph.kernel
def visit(p, following):
    near = p.dist + 1
    for t in p.outnbrs:
        if atomic_min(t.dist, near) > near:
            following.add(t)


@morph.program
def levels(current, following):
    while not current.empty:
        morph.foreach(current, visit, following, ahead=following)
        current, following = following, current
        following.clear()


@morph.kernel
def relax(entry, g, following, visits):
    p, before = entry.item, entry.dist
    atomic_add(visits[0].n, 1)
    for t in p.outnbrs:
        d = before + g.weight(p, t)
        if atomic_min(t.dist, d) > d:
            following.add(t, dist=d, twice=2 * d)


@morph.program
def lengths(g, current, following, visits):
    while not current.empty:
        morph.foreach(current, relax, g, following, visits, ahead=following, balance="warp",
                      where=lambda e: e.dist == e.item.dist and e.twice == 2 * e.dist)  # fmt: skip
        current, following = following, current
        following.clear()


def level(target, case, eager=False, capacity=0):
    g = graph(target, case)
    g.points.add("dist", i64, fill=FAR)
    g.points[0].dist = 0
    lists = [morph.Collection(g.points, capacity=capacity) for _ in range(2)]
    lists[0].add(0)
    (levels.eager if eager else levels)(*lists)
    counters_hold(*lists)
    return host(g.points.dist).tolist()


def length(target, case, eager=False, capacity=0):
    g = graph(target, case)
    g.points.add("dist", i32, fill=FAR)
    g.points[0].dist = 0
    visits = morph.Table("visits", target, n=i64)
    visits.extend(1)
    pair = [morph.Collection(g.points, capacity=capacity, dist=i32, twice=i64) for _ in range(2)]
    pair[0].add(0, dist=0, twice=0)
    (lengths.eager if eager else lengths)(g, *pair, visits)
    counters_hold(*pair)
    return host(g.points.dist).tolist()


def shortest(case):
    return _relaxed(case, np.arange(len(case[1])) * 7 % 5)


def _relaxed(case, weight):
    n, ends = case
    src, dst = np.array(ends, int).reshape(-1, 2).T
    dist = np.full(n, FAR)
    dist[0] = 0
    while True:
        before = dist.copy()
        np.minimum.at(dist, dst, np.minimum(before[src] + weight, FAR))
        if (dist == before).all():
            return dist.tolist()


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("capacity", [0, 200])
@tries(10)
@given(graphs())
def test_levels(target, eager, capacity, case):
    found = shared(target, lambda: level(target, case, eager, capacity))
    assert all(got == distances(case) for got in found)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("capacity", [0, 200])
@tries(10)
@given(graphs())
def test_entries(target, eager, capacity, case):
    found = shared(target, lambda: length(target, case, eager, capacity))
    assert all(got == shortest(case) for got in found)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("run", [level, length])
def test_every_allocation_can_fail(where, run):
    n, fired = 0, True
    while fired:
        n += 1
        with fail_allocation(n, where) as fault, team(1 + n % 3):
            got = run(where, STAR, capacity=300)
        assert got == (distances if run is level else shortest)(STAR)
        fired = fault.fired
    assert n > 4


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("capacity", [0, 40, 3000])
def test_lists_that_grow_while_items_run_ahead(where, capacity):
    """Reservations fail in the middle of a queue; no item is lost."""
    rng = np.random.default_rng(7)
    n, m = 600, 1800
    case = n, sorted((int(a), int(b)) for a, b in rng.integers(0, n, (m, 2)))
    want, least = _relaxed(case, np.ones(m, int)), _relaxed(case, np.arange(m) * 7 % 5)
    for threads in (1, 2, 3):
        with team(threads):
            assert level(where, case, capacity=capacity) == want
            assert length(where, case, capacity=capacity) == least
    assert level(where, case, capacity=capacity) == want
    assert length(where, case, capacity=capacity) == least


@pytest.mark.parametrize("where", WHERE)
def test_fewer_items_meet_at_barriers(where):
    """A long path, on which every level has one item."""
    n = 5000
    case = n, [(k, k + 1) for k in range(n - 1)]
    assert level(where, case, capacity=n) == list(range(n))
    assert is_checked() or "ASYNCHRONOUS = true" in levels.source()
    assert length(where, case, capacity=n) == np.cumsum([0, *(np.arange(n - 1) * 7 % 5)]).tolist()
    assert is_checked() or "ASYNCHRONOUS = true" in lengths.source()


@morph.kernel
def looks_late(entry, following):
    for t in entry.item.outnbrs:
        d = entry.dist + 1
        if atomic_min(t.dist, d) > d:
            following.add(t, dist=d)


@morph.program
def looked_late(current, following):
    while not current.empty:
        morph.foreach(current, looks_late, following, ahead=following)
        current, following = following, current
        following.clear()


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("capacity", [6, 300])
def test_a_long_row_whose_item_lay_in_a_queue(where, capacity):
    """Its entries are run at the end of the step: by then another item may lie there."""
    many = 20000
    ends = [(0, 1), (0, 2), (2, 3), (2, 4), (3, 5), (4, 6)]
    ends += [(k, t) for k in (1, 7) for t in range(10 + k * many, 10 + (k + 1) * many)]
    g = graph(where, (10 + 8 * many, sorted(ends)))
    g.points.add("dist", i32, fill=FAR)
    lists = [morph.Collection(g.points, capacity=c, dist=i32) for c in (capacity, 4 * many)]
    for p in (0, 7):
        g.points[p].dist = 0
        lists[0].add(p, dist=0)
    with team(2):
        looked_late(*lists)
    found = host(g.points.dist)
    assert found[:7].tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert set(found[10 + many : 10 + 2 * many]) == {2}


@pytest.mark.parametrize("where", WHERE)
def test_rows_of_every_length_in_a_queue(where):
    """A path; point k of it has so many leaves, from each of which one more point is reached."""
    leaves = [0, 1, 2, 3, 4, 5, 0, 7, 31, 32, 0, 33, 62, 63, 64, 65, 0, 127, 128, 130, 300, 1]
    ends, n = [], len(leaves)
    for k, many in enumerate(leaves):
        ends += [(k, k + 1)] if k + 1 < len(leaves) else []
        for _ in range(many):
            ends += [(k, n), (n, n + 1)]
            n += 2
    case = n, sorted(ends)
    weight = np.arange(len(ends)) * 7 % 5
    for capacity in (40, n):
        assert level(where, case, capacity=capacity) == _relaxed(case, np.ones(len(ends), int))
        assert length(where, case, capacity=capacity) == _relaxed(case, weight)
    for program in (levels, lengths):
        assert is_checked() or "KNOWS_ROWS = true" in program.source()


@morph.kernel
def marks(entry, following):
    p, before = entry.item, entry.dist
    entry.twice = i64(-1)
    for t in p.outnbrs:
        d = before + 1
        if atomic_min(t.dist, d) > d:
            following.add(t, dist=d, twice=0)


@morph.program
def marked(current, following):
    while not current.empty:
        morph.foreach(current, marks, following, ahead=following,
                      where=lambda e: e.twice == 0 and e.dist == e.item.dist)  # fmt: skip
        current, following = following, current
        following.clear()


def test_columns_of_the_list_that_are_written(target):
    """They are read again; the other columns cannot change before the thread executes the item."""

    def run():
        g = graph(target, (50, [(k, k + 1) for k in range(49)]))
        g.points.add("dist", i32, fill=FAR)
        g.points[0].dist = 0
        pair = [morph.Collection(g.points, capacity=60, dist=i32, twice=i64) for _ in range(2)]
        pair[0].add(0, dist=0, twice=0)
        marked(*pair)
        return host(g.points.dist).tolist()

    assert all(found == list(range(50)) for found in everywhere(target, run))
    if target == "cpu" and not is_checked():
        text = marked.source()
        assert "current_dist.stable()" in text and "current_twice.stable()" not in text


@morph.kernel
def hop(p, following):
    near = p.dist + 1
    for t in p.outnbrs:
        if atomic_min(t.beyond.dist, near) > near:
            following.add(t.beyond)


@morph.program
def hops(current, following):
    while not current.empty:
        morph.foreach(current, hop, following, ahead=following)
        current, following = following, current
        following.clear()


def around(target, program, edges, first, want):
    """60 points, each of which knows the next one; a program begins at the first, at ``first``."""

    def run():
        n = 60
        g = graph(target, (n, edges))
        g.points.add("dist", i64, fill=FAR)
        g.points.add("beyond", morph.Ref("points"))
        g.points.beyond[:] = (np.arange(n) + 1) % n
        g.points[0].dist = first
        lists = [morph.Collection(g.points, capacity=4 * n) for _ in range(2)]
        lists[0].add(0)
        program(*lists)
        return host(g.points.dist).tolist()

    for found in everywhere(target, run):
        assert found == want, found
    if target == "cpu" and not is_checked():
        assert (
            "ASYNCHRONOUS = true" in program.source() and "KNOWS_ROWS = false" in program.source()
        )


def test_items_that_are_not_where_entries_lead(target):
    """Their rows are not known when they are added."""
    edges = [(k, (k + j) % 60) for k in range(60) for j in (1, 2)]
    want = [0, 21, *(-(-k // 3) for k in range(2, 60))]  # steps of 2 or 3 around the circle
    around(target, hops, edges, 0, want)


@morph.kernel
def hop_and_step(p, following):
    t = p.beyond  # which the loop calls its own, too
    if atomic_min(t.dist, 1) > 1:
        following.add(t)
    for t in p.outnbrs:
        if atomic_min(t.dist, 1) > 1:
            following.add(t)


@morph.program
def reach(current, following):
    while not current.empty:
        morph.foreach(current, hop_and_step, following, ahead=following)
        current, following = following, current
        following.clear()


def test_items_added_before_the_loop(target):
    """Nor are the rows of these."""
    around(target, reach, [(k, k + 1) for k in range(0, 60, 2)], FAR, [1] * 60)


# --- where nothing runs ahead, or nothing may ----------------------------------------------------


@morph.kernel
def ends_with_more(p, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
            following.add(t)
    p.done = 1


@morph.program
def not_shared(current, following):
    while not current.empty:
        morph.foreach(current, ends_with_more, following, ahead=following)
        current, following = following, current
        following.clear()


def test_ignored(target):
    """Who adds has to know when an item has ended."""

    def run():
        g = graph(target, STAR, done=i32)
        g.points.add("dist", i64, fill=FAR)
        g.points[0].dist = 0
        lists = [morph.Collection(g.points, capacity=99) for _ in range(2)]
        lists[0].add(0)
        not_shared(*lists)
        return host(g.points.dist).tolist()

    assert all(found == distances(STAR) for found in everywhere(target, run))
    if target == "cpu" and not is_checked():
        assert "ASYNCHRONOUS = true" not in not_shared.source()


def test_only_what_is_like_the_items():
    @morph.program
    def itself(current, following):
        morph.foreach(current, visit, following, ahead=current)

    @morph.program
    def table(g, following):
        morph.foreach(g.points, visit, following, ahead=following)

    @morph.program
    def number(current, following):
        morph.foreach(current, visit, following, ahead=8)

    @morph.program
    def other(current, following, more):
        morph.foreach(current, visit, following, ahead=more)

    g = graph("cpu", STAR, dist=i64)
    lists = [morph.Collection(g.points) for _ in range(2)]
    more = morph.Collection(g.points, by=i64)
    for program, args in (
        (itself, lists), (table, (g, lists[0])), (number, lists), (other, (*lists, more)),
    ):  # fmt: skip
        with pytest.raises(LanguageError, match="another collection of the same rows and columns"):
            program(*args)


# --- algorithms -----------------------------------------------------------------------------------


def grids(side, seed):
    ids = np.arange(side * side, dtype=np.int32).reshape(side, side)
    a = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    b = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    weight = np.random.default_rng(seed).integers(0, 9, len(a)).astype(np.int32)
    return np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([weight, weight])


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_deep_graphs(where, threads):
    """More levels than are run one by one: distances and predecessors are exact all the same."""
    side = 60
    a, b, weight = grids(side, threads)
    with team(threads):
        g = morph.Graph.from_edges(a, b, weight=weight, symmetric=True, device=where)
        for start in (0, side * side // 2 + 7):
            x, y = divmod(np.arange(side * side), side)
            want = abs(x - start // side) + abs(y - start % side)
            for cutoff in (None, 31, 32, 33, 50, 64, 65):
                most = side * side if cutoff is None else cutoff
                found = morph.bfs(g, start, cutoff=cutoff)
                validate.bfs(g, found.distance, found.predecessor, source=start, cutoff=cutoff)
                assert (host(found.distance) == np.where(want > most, -1, want)).all()
                assert found.levels == min(most, want.max() + 1)
            paths = morph.sssp(g, start, predecessors=True)
            validate.sssp(g, paths.distance, paths.predecessor, source=start)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_levels_of_few_items(where, threads):
    """A range of queued items ends between others, or behind an item that enqueued no more."""
    n = 1500  # more than a thread executes between two looks at signals
    for rows in (1, 2, 3):
        strip = generate.grid(rows, n, device=where)
        far = np.concatenate([np.arange(n) + row for row in range(rows)])
        with team(threads):
            for start in (0, n // 2):
                found = morph.bfs(strip, start)
                validate.bfs(strip, found.distance, found.predecessor, source=start)
                paths = morph.sssp(strip, start, predecessors=True)
                validate.sssp(strip, paths.distance, paths.predecessor, source=start)
                if not start:
                    assert (host(found.distance) == far).all()
                    assert (host(paths.distance) == far).all()
            assert (host(morph.core_number(strip).core) == min(rows, 2)).all()


@morph.kernel
def goes_on(p, following):
    near, q = p.dist + 1, p
    for q in p.outnbrs:
        near += i64(q.far)
    for t in q.outnbrs:
        if atomic_min(t.dist, near) > near:
            following.add(t)


@morph.program
def gone_on(current, following):
    while not current.empty:
        morph.foreach(current, goes_on, following, ahead=following)
        current, following = following, current
        following.clear()


@pytest.mark.parametrize("where", WHERE)
def test_a_variable_that_a_loop_goes_on_from_is_no_item(where):
    """Its row is not that of the item, which is known before."""
    ends = [(0, 1), (0, 2), (2, 7), (2, 3), (3, 4), (4, 5), (5, 6), (5, 0), (3, 8), (8, 1)]
    g = graph(where, (9, sorted(ends)), far=i32)
    g.points.add("dist", i64, fill=FAR)
    g.points[0].dist = 0
    lists = [morph.Collection(g.points, capacity=300) for _ in range(2)]
    lists[0].add(0)
    gone_on(*lists)
    assert host(g.points.dist).tolist() == [0, 2, FAR, 1, FAR, FAR, FAR, 1, FAR]
    assert is_checked() or "KNOWS_ROWS = true" not in gone_on.source()
