"""Steps that run a queue until it is empty: `foreach(queue, kernel, queue, until_empty=True)`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from small import counters_hold
from targets import everywhere, host, table, tries

import morph
from morph.language.errors import LanguageError
from morph.launch.checked import is_checked
from morph.prelude import (
    atomic_add,
    atomic_max,
    bool_,
    ctz,
    i32,
    i64,
    popcount,
    single,
    static,
    u32,
    u64,
)
from morph.testing import fail_allocation, team

WHERE = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
QUEENS = [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724]  # solutions of n queens


@morph.kernel
def place(e, queue, found, n: static):
    """Put a queen on the next row of the board, where no queen attacks it."""
    if e.depth == n:
        atomic_add(found[0].sum, 1)
    else:
        for k in range(n):
            square = u32(1) << u32(k)
            if square & (e.taken | e.left | e.right) == 0:
                left, right = (e.left | square) << u32(1), (e.right | square) >> u32(1)
                queue.add(depth=e.depth + 1, taken=e.taken | square, left=left, right=right)


def board(target, capacity=0):
    kinds = {"depth": i32, "taken": u32, "left": u32, "right": u32}
    queue = morph.Collection(device=target, capacity=capacity, **kinds)
    queue.add(depth=0, taken=0, left=0, right=0)
    return queue, table(target, sum=np.zeros(1, np.int64))


@pytest.mark.parametrize("n", [1, 4, 6])
@pytest.mark.parametrize("capacity", [0, 1000])
def test_items_that_are_added_run_in_the_same_step(target, n, capacity):
    def run():
        queue, found = board(target, capacity)
        morph.foreach(queue, place, queue, found, n, until_empty=True)
        assert queue.empty
        counters_hold(queue)
        return int(found[0].sum)

    found = everywhere(target, run)
    assert found == [QUEENS[n]] * len(found)


@pytest.mark.parametrize("where", WHERE)
def test_many_items(where):
    for threads in (1, 2, 3):
        with team(threads):
            queue, found = board(where)
            morph.foreach(queue, place, queue, found, 10, until_empty=True)
            assert int(found[0].sum) == QUEENS[10] and queue.empty
    queue, found = board(where)
    morph.foreach(queue, place, queue, found, 10, until_empty=True)
    assert int(found[0].sum) == QUEENS[10] and queue.empty


@pytest.mark.parametrize("where", [*WHERE, "apart"])
@pytest.mark.parametrize("fused", [False, True])
def test_items_that_have_run_leave_a_full_queue(where, fused, monkeypatch):
    """Of 100 chains of 1000 items only the last item of each is in the queue at a time."""
    where = pretended(monkeypatch) if where == "apart" else where
    for threads in (1, 2, 3):
        with team(threads):
            queue = morph.Collection(i64, device=where, capacity=100)
            other = morph.Collection(i64, device=where)
            queue.extend(np.full(100, 999))
            total = table(where, sum=np.zeros(1, np.int64))
            if fused:
                chains(queue, other, total)
            else:
                morph.foreach(queue, count_down, queue, total, until_empty=True)
            assert int(total[0].sum) == 100 * 999 * 500 and queue.empty
            counters_hold(queue)
            assert is_checked() or queue.capacity <= 1600  # of 100,000 items


@morph.kernel
def join(p, g, made):
    both = g.points.local(2)
    both.add(p)
    both.add(g.points[(p.id + 1) % len(g.points)])
    if single(both):
        made.new(of=p.id)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_queue_after_claims(where, threads):
    """Batches of claims leave nothing in the words that a queue expects to be zero."""
    with team(threads):
        g = morph.Graph(where)
        g.points.extend(3000)
        morph.foreach(g.points, join, g, morph.Table("made", where, of=i32))
        queue, found = board(where)
        morph.foreach(queue, place, queue, found, 6, until_empty=True)
    assert int(found[0].sum) == QUEENS[6] and queue.empty


@morph.kernel
def count_item(e, found):
    atomic_add(found[0].sum, e.depth)


@pytest.mark.parametrize("where", WHERE)
def test_a_queue_to_which_no_item_adds(where):
    """Each launch begins with the first item, and empties the queue."""
    for depth in (1, 2):
        queue, found = board(where)
        queue.depth[:] = depth
        morph.foreach(queue, count_item, found, until_empty=True)
        assert int(found[0].sum) == depth and queue.empty


# --- branch and bound ----------------------------------------------------------------------------


@morph.kernel
def branch(e, points, queue, best):
    """Extend the clique `e.members` by each candidate, if it may become larger than the best."""
    size = popcount(e.members)
    atomic_max(best[0].size, size)
    rest = e.candidates
    for _ in range(popcount(e.candidates)):
        if size + popcount(rest) > best[0].size:
            k = ctz(rest)
            rest = rest & (rest - u64(1))
            near = points[k].near & rest
            queue.add(members=e.members | u64(1) << u64(k), candidates=near)


@morph.program
def largest(points, queue, best):
    morph.foreach(queue, branch, points, queue, best, until_empty=True)
    return best[0].size


def adjacency(n, ends):
    near = np.zeros(n, np.uint64)
    for a, b in ends:
        if a != b:
            near[a] |= np.uint64(1 << b)
            near[b] |= np.uint64(1 << a)
    return near


def clique(target, n, ends, run=largest, capacity=0):
    points = table(target, near=adjacency(n, ends))
    best = table(target, size=np.zeros(1, np.int32))
    queue = morph.Collection(device=target, capacity=capacity, members=u64, candidates=u64)
    queue.add(members=0, candidates=2**n - 1)
    size = run(points, queue, best)
    assert queue.empty
    counters_hold(queue)
    return int(size)


def brute_force(n, ends):
    near = adjacency(n, ends).tolist()
    for size in range(n, 0, -1):
        for chosen in itertools.combinations(range(n), size):
            if all(near[a] >> b & 1 for a, b in itertools.combinations(chosen, 2)):
                return size
    return 0


@st.composite
def small_graphs(draw):
    n = draw(st.integers(1, 8))
    end = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(end, end), max_size=24))


@pytest.mark.parametrize("eager", [False, True])
@tries(10)
@given(small_graphs())
def test_maximum_clique(target, eager, case):
    run = largest.eager if eager else largest
    assert set(everywhere(target, lambda: clique(target, *case, run))) == {brute_force(*case)}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("capacity", [0, 4096])
def test_maximum_clique_of_a_larger_graph(where, capacity):
    rng = np.random.default_rng(3)
    ends = [(a, b) for a, b in itertools.combinations(range(40), 2) if rng.random() < 0.5]
    ends += list(itertools.combinations(rng.permutation(40)[:11].tolist(), 2))
    for threads in (1, 2, 4):
        with team(threads):
            assert clique(where, 40, ends, capacity=capacity) == 11


@pytest.mark.parametrize("where", WHERE)
def test_every_allocation_can_fail(where):
    ends = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 3)]
    n, fired = 0, True
    while fired:
        n += 1
        with fail_allocation(n, where) as fault, team(1 + n % 3):
            assert clique(where, 5, ends, capacity=100) == 3
        fired = fault.fired
    assert n > 4


# --- rows, filters, other lists, several steps ---------------------------------------------------


@morph.kernel
def split(r, rows, queue, leaves):
    if r.last - r.first <= 2:
        leaves.add(r)
    else:
        middle = (r.first + r.last) // 2
        queue.add(rows.new(first=r.first, last=middle, parent=r))
        queue.add(rows.new(first=middle, last=r.last, parent=r))
        atomic_add(r.parent.below, 2) if r.parent is not None else 0


@morph.kernel
def seed(r, queue):
    queue.add(r)


@morph.kernel
def rise(r, queue):
    r.reached = True  # race: all write the same
    if r.parent is not None:
        queue.add(r.parent)


@morph.program
def trees(rows, queue, leaves):
    morph.foreach(rows, seed, queue)
    morph.foreach(queue, split, rows, queue, leaves, until_empty=True)
    n = len(leaves)
    if queue.empty:
        morph.foreach(leaves, rise, queue)
        morph.foreach(queue, rise, queue, until_empty=True, where=lambda r: not r.reached)
    return n


@pytest.mark.parametrize("eager", [False, True])
def test_rows_that_items_make_and_a_filter(target, eager):
    """An item reads the row that the item which added it has made."""

    def run():
        g = morph.Graph(target)
        kinds = {"first": i32, "last": i32, "below": i32, "reached": bool_}
        rows = g.add_table("rows", parent=morph.Ref("rows"), **kinds)
        rows.extend(first=[0, 100], last=[64, 133], parent=[-1, -1])
        queue, leaves = morph.Collection(rows), morph.Collection(rows)
        n = (trees.eager if eager else trees)(rows, queue, leaves)
        assert queue.empty
        counters_hold(rows, queue, leaves)
        first, last, parent = host(rows.first), host(rows.last), host(rows.parent)
        children = np.bincount(parent[parent >= 0], minlength=len(first))
        assert (children[last - first > 2] == 2).all() and (children[last - first <= 2] == 0).all()
        inner = parent >= 0
        assert (first[inner] >= first[parent[inner]]).all()
        assert (last[inner] <= last[parent[inner]]).all()
        assert host(rows.reached).all()
        found = host(leaves.items)
        return n, sorted(zip(first[found].tolist(), last[found].tolist(), strict=True))

    want = [(k, k + 2) for k in range(0, 64, 2)]
    for n, found in everywhere(target, run):
        assert n == len(found) and found[:32] == want
        assert found[32][0] == 100 and found[-1][1] == 133
        assert all(a[1] == b[0] for a, b in itertools.pairwise(found[32:]))


@morph.kernel
def halve(x, other, total):
    atomic_add(total[0].sum, 1)
    if x > 1:
        other.add(x // 2)


@morph.kernel
def count_down(x, queue, total):
    atomic_add(total[0].sum, x)
    if x > 0:
        queue.add(x - 1)


@morph.program
def chains(queue, other, total):
    morph.foreach(queue, halve, other, total, where=lambda x: x < 0)
    morph.foreach(queue, count_down, queue, total, until_empty=True)


@morph.program
def swapped(a, b, total, rounds):
    while rounds > 0:
        morph.foreach(a, count_down, a, total, until_empty=True)
        morph.foreach(b, halve, a, total)
        a, b = b, a
        rounds -= 1


@pytest.mark.parametrize("eager", [False, True])
def test_queues_that_a_program_swaps(target, eager):
    def run():
        a, b = (morph.Collection(i64, device=target) for _ in range(2))
        a.extend([5, 0, 3])
        b.extend([9, 4])
        total = table(target, sum=np.zeros(1, np.int64))
        (swapped.eager if eager else swapped)(a, b, total, 3)
        counters_hold(a, b)
        return int(total[0].sum), len(a), len(b)

    # queues: 5, 0, 3, then 9, 4, then 4, 2; each time two items are halved
    assert set(everywhere(target, run)) == {(21 + 55 + 13 + 3 * 2, 1, 2)}


@pytest.mark.parametrize("where", ["cpu", "python"])
def test_nothing_added_or_no_items(where):
    total = table(where, sum=np.zeros(1, np.int64))
    queue, other = morph.Collection(i64, device=where), morph.Collection(i64, device=where)
    queue.extend([4, 7])
    morph.foreach(queue, halve, other, total, until_empty=True)
    assert queue.empty and int(total[0].sum) == 2 and sorted(host(other.items).tolist()) == [2, 3]
    morph.foreach(queue, halve, other, total, until_empty=True)
    assert int(total[0].sum) == 2 and len(other) == 2


def test_rounds_do_not_race(target):
    """A checked launch runs rounds: an item may read what the item that added it has written."""
    rows = table(target, x=np.arange(4, dtype=np.int32))
    queue = morph.Collection(rows)
    queue.add(0)
    morph.foreach(queue, follow, rows, queue, until_empty=True, check=True)
    assert host(rows.x).tolist() == [0, 1, 3, 6]
    queue.add(0)
    queue.add(1)
    with pytest.raises(morph.CheckError, match="race"):
        morph.foreach(queue, same_row, rows, queue, until_empty=True, check=True)


@morph.kernel
def follow(r, rows, queue):
    if r.id + 1 < len(rows):
        rows[r.id + 1].x += r.x
        queue.add(rows[r.id + 1])


@morph.kernel
def same_row(r, rows, queue):
    rows[3].x = i32(r.id)


# --- what is refused -----------------------------------------------------------------------------


@morph.kernel
def claims(r, rows, queue):
    some = rows.local(1)
    some.add(r)
    if single(some):
        queue.add(r)


@morph.kernel
def locks(r, rows, queue):
    if single(r):
        queue.add(r)


@morph.kernel
def takes(r, rows, queue):
    queue.take()


@morph.kernel
def reads(r, rows, queue):
    r.x = i32(queue.size)


@morph.program
def with_balance(rows, queue):
    morph.foreach(queue, follow, rows, queue, until_empty=True, balance="grid")


@morph.program
def of_a_table(rows, queue):
    morph.foreach(rows, follow, rows, queue, until_empty=True)


@morph.program
def no_literal(rows, queue):
    morph.foreach(queue, follow, rows, queue, until_empty=1)


def test_refused():
    rows = table("python", x=np.arange(4, dtype=np.int32))
    queue = morph.Collection(rows)
    for kernel in (claims, locks):
        with pytest.raises(LanguageError, match="there are no rounds"):
            morph.foreach(queue, kernel, rows, queue, until_empty=True)
    for kernel in (takes, reads):
        with pytest.raises(LanguageError, match="reads or takes from the queue"):
            morph.foreach(queue, kernel, rows, queue, until_empty=True)
    with pytest.raises(LanguageError, match="until_empty takes a collection"):
        morph.foreach(rows, follow, rows, queue, until_empty=True)
    for option in ({"together": True}, {"balance": "grid"}, {"ahead": queue}):
        with pytest.raises(ValueError, match="goes without"):
            morph.foreach(queue, follow, rows, queue, until_empty=True, **option)
    for program, problem in (
        (with_balance, "goes without ahead"),
        (of_a_table, "until_empty takes a collection"),
        (no_literal, "until_empty is True or False"),
    ):
        with pytest.raises(LanguageError, match=problem):
            program(rows, queue)


def test_one_step_for_threads_that_wait():
    queue, found = board("cpu")
    morph.foreach(queue, place, queue, found, 4, until_empty=True)
    assert is_checked() or "each_until_empty" in place.source()


@morph.kernel
def divide_by_two(e, queue, total):
    if e.left > 1:
        queue.add(left=e.left // 2)
        queue.add(left=e.left - e.left // 2)
    else:
        atomic_add(total.sum, 1)


@morph.kernel
def begin_count(r, queue, n):
    queue.add(left=n)


@morph.kernel
def store_id(r):
    r.at = i64(r.id)


@morph.program
def with_sections(rows, others, queue, total, n):
    with morph.sections():
        morph.foreach(rows, begin_count, queue, n)
        morph.foreach(others, store_id)
    morph.foreach(queue, divide_by_two, queue, total, until_empty=True)


def test_a_queue_in_a_program_with_sections():
    """Deferred items of such units have a bit for each section."""
    rows, others = table("cpu", at=np.zeros(3, np.int64)), table("cpu", at=np.zeros(5, np.int64))
    queue = morph.Collection(device="cpu", left=i64)
    total = morph.Scalars("cpu", sum=0)
    for threads in (1, 2):
        total.sum = 0
        with team(threads):
            with_sections(rows, others, queue, total, 100)
        assert total.sum == 300 and others.at[:].tolist() == [0, 1, 2, 3, 4]
