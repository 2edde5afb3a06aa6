"""Limits given by a kernel: `x.reserve(n)` lets loops without a bound allocate in `x`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from small import counters_hold
from targets import everywhere, host, table, tries
from test_queue import adjacency, brute_force, small_graphs

import morph
from morph.launch.checked import is_checked
from morph.prelude import atomic_add, atomic_max, ctz, i64, local, popcount, struct, u64
from morph.testing import fail_allocation, team

WHERE = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@morph.kernel
def collatz(r, rows, steps, deep, most):
    """Make a row for each step to 1, in pairs where numbers are even."""
    stack = local(i64, 2)
    steps.reserve(most)
    rows.reserve(2 * most)
    stack.reserve(deep)
    x = r.x
    while x != 1:
        steps.add(r, x=x)
        if x % 2 == 0:
            pair = rows.new_rows(2)
            pair[0].x, pair[1].x = x, -x
            x = x // 2
        else:
            rows.new(x=x)
            x = 3 * x + 1
        if x < 20:
            stack.add(x)
    while stack.size > 0:
        atomic_add(r.total, stack.pop())


def chain(x):
    found = []
    while x != 1:
        found.append(x)
        x = x // 2 if x % 2 == 0 else 3 * x + 1
    return found


def run_collatz(target, numbers, deep=32, most=200, check=None):
    g = morph.Graph(target)
    starts = g.add_table("starts", x=i64, total=i64)
    starts.extend(x=numbers)
    rows = g.add_table("rows", x=i64)
    steps = morph.Collection(starts, x=i64)
    morph.foreach(starts, collatz, rows, steps, deep, most, check=check)
    counters_hold(starts, rows, steps)
    return (
        host(starts.total).tolist(),
        sorted(host(rows.x).tolist()),
        sorted(host(steps.x).tolist()),
    )


NUMBERS = [7, 27, 1, 97, 2, 19]


def expected():
    chains = [chain(x) for x in NUMBERS]
    rows = [y for c in chains for x in c for y in ((x, -x) if x % 2 == 0 else (x,))]
    totals = [sum(x for x in [*c[1:], 1] if x < 20) if c else 0 for c in chains]
    return totals, sorted(rows), sorted(x for c in chains for x in c)


def test_rows_entries_and_locals_in_a_while(target):
    assert all(
        got == expected() for got in everywhere(target, lambda: run_collatz(target, NUMBERS))
    )


@pytest.mark.parametrize("where", WHERE)
def test_every_allocation_can_fail(where):
    """An item that cannot reserve its limit has changed nothing, and runs again."""
    n, fired = 0, True
    while fired:
        n += 1
        with fail_allocation(n, where) as fault, team(1 + n % 3):
            assert run_collatz(where, NUMBERS) == expected()
        fired = fault.fired
    assert n > 4


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("deep", "most", "what"), [(32, 100, "steps"), (4, 200, "stack")])
def test_more_than_the_limit(target, deep, most, what, check):
    def run():
        with pytest.raises(morph.CheckError) as found:
            run_collatz(target, NUMBERS, deep, most, check)
        assert found.value.problem == f"an item adds more to {what!r} than it reserved"
        assert f"{what}.add(" in str(found.value)
        assert run_collatz(target, NUMBERS) == expected()  # the next launch works

    everywhere(target, run)


@morph.kernel
def bulk(r, rows, count):
    rows.reserve(5)
    left = count
    while left > 0:
        r.total = r.total + i64(rows.new_rows(r.x).size)
        left -= 1


def test_rows_in_bulk(target):
    """What is left of the limit after each allocation is exact, negative numbers count as none."""
    for numbers, count, fits in (([1, 2], 2, True), ([5, -3], 1, True), ([3], 2, False)):
        g = morph.Graph(target)
        starts, rows = (g.add_table(name, x=i64, total=i64) for name in ("starts", "rows"))
        starts.extend(x=numbers)
        if fits:
            morph.foreach(starts, bulk, rows, count)
            assert host(starts.total).tolist() == [count * max(x, 0) for x in numbers]
        else:
            with pytest.raises(morph.CheckError, match="rows' than it reserved"):
                morph.foreach(starts, bulk, rows, count)
        counters_hold(rows)


@morph.kernel
def in_a_branch(r, made):
    if r.x > 2:
        made.reserve(r.x)
        k = i64(0)
        while k < r.x:
            made.add(k)
            k += 1
    else:
        made.add(r.x)


@morph.program
def twice(rows, made):
    morph.foreach(rows, in_a_branch, made)
    morph.foreach(rows, in_a_branch, made)
    return len(made)


@pytest.mark.parametrize("eager", [False, True])
def test_a_limit_of_one_branch_and_in_a_program(target, eager):
    def run():
        rows, made = table(target, x=np.arange(6)), morph.Collection(i64, device=target)
        size = (twice.eager if eager else twice)(rows, made)
        counters_hold(made)
        return size, sorted(host(made.items).tolist())

    one = [0, 1, 2, *range(3), *range(4), *range(5)]
    assert all(got == (30, sorted(2 * one)) for got in everywhere(target, run))


@morph.kernel
def drain(r, queue, total):
    """Take as long as there are items."""
    x = queue.take()
    while x is not None:
        atomic_add(total[0].sum, x.item)
        x = queue.take()


def test_take_in_a_while(target):
    def run():
        rows, total = table(target, x=np.arange(3)), table(target, sum=np.zeros(1, np.int64))
        queue = morph.Collection(i64, device=target)
        queue.extend(np.arange(50))
        morph.foreach(rows, drain, queue, total)
        return int(total[0].sum), len(queue)

    assert set(everywhere(target, run)) == {(1225, 0)}


# --- branch and bound, depth first ---------------------------------------------------------------


@struct
class Part:
    members: u64
    rest: u64


@morph.kernel
def search(e, points, queue, best, n, budget):
    """Search some parts depth first, and add those that are left to the queue."""
    stack = local(Part, 4)
    stack.reserve(n * (n + 1) // 2 + 1)
    queue.reserve(n * (n + 1) // 2 + 1)
    stack.add(Part(e.members, e.rest))
    left = budget
    while stack.size > 0 and left > 0:
        part = stack.pop()
        size = popcount(part.members)
        atomic_max(best[0].size, size)
        rest = part.rest
        while size + popcount(rest) > best[0].size:
            k = ctz(rest)
            rest = rest & (rest - u64(1))
            stack.add(Part(part.members | u64(1) << u64(k), rest & points[k].near))
            if rest == u64(0):
                break
        left -= 1
    for part in stack:
        queue.add(members=part.members, rest=part.rest)


@morph.program
def largest(points, queue, best, n, budget):
    morph.foreach(queue, search, points, queue, best, n, budget, until_empty=True)
    return best[0].size


def clique(target, n, ends, budget, run=largest):
    points, best = table(target, near=adjacency(n, ends)), table(target, size=np.zeros(1, np.int32))
    queue = morph.Collection(device=target, members=u64, rest=u64)
    queue.add(members=0, rest=2**n - 1)
    size = run(points, queue, best, n, budget)
    counters_hold(queue)
    assert queue.empty
    return size


@pytest.mark.parametrize("eager", [False, True])
@tries(10)
@given(small_graphs())
def test_maximum_clique(target, eager, case):
    run = largest.eager if eager else largest
    assert set(everywhere(target, lambda: clique(target, *case, 3, run))) == {brute_force(*case)}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("budget", [1, 50, 1 << 40])
def test_maximum_clique_of_a_larger_graph(where, budget):
    rng = np.random.default_rng(3)
    ends = [(a, b) for a, b in itertools.combinations(range(40), 2) if rng.random() < 0.5]
    ends += list(itertools.combinations(rng.permutation(40)[:11].tolist(), 2))
    for threads in (1, 2, 4):
        with team(threads):
            assert clique(where, 40, ends, budget) == 11
    assert is_checked() or "exceed(" in largest.source()


def test_limits_cost_other_kernels_nothing():
    rows, made = table("cpu", x=np.arange(6)), morph.Collection(i64, device="cpu")
    morph.foreach(rows, plain, made)
    assert "exceed(" not in plain.source()


@morph.kernel
def plain(r, made):
    made.add(r.x)


def test_checks_after_a_local_collection_has_grown():
    """Marks of an earlier launch by the same unit are no races of this one."""
    for _ in range(4):
        assert run_collatz("python", NUMBERS, check=True) == expected()
