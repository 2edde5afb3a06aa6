"""Programs fused into one launch and run launch by launch, on every target, against Python."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import everywhere, host, table, tries

import morph
from morph.prelude import atomic_add, atomic_min, f64, i32, i64, single


@st.composite
def graphs(draw, most=12):
    n = draw(st.integers(1, most))
    ends = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(ends, ends), max_size=3 * most))


def graph(target, n, edges, **more):
    src, dst = (np.array([e[i] for e in edges], np.int32) for i in (0, 1))
    return morph.Graph.from_edges(src, dst, n=n, device=target, **more)


def both_ways(target, program, run):
    """What ``run(program)`` gives fused and eagerly, in every way of the target: all the same."""
    found = [x for p in (program, program.eager) for x in everywhere(target, lambda: run(p))]
    assert all(x == found[0] for x in found), found
    return found[0]


@morph.kernel
def bump(r, by, total):
    r.x += by
    atomic_add(total[0].x, r.x)


@morph.program
def loops(t, total, rounds, limit):
    """Nested loops, break, continue, uniform reads of what kernels wrote, a value returned."""
    i, sweeps = 0, 0
    while i < rounds:
        i += 1
        if i % 3 == 2:
            continue
        j = 0
        while True:
            if j >= i or total[0].x > limit:
                break
            morph.foreach(t, bump, i * 10 + j, total, where=lambda r: r.id % 2 == j % 2)
            sweeps += 1
            j += 1
        if total[0].x > limit:
            if sweeps > 4:
                return sweeps * 1000 + i
            total[0].x = 0
    return sweeps


def looped(n, rounds, limit):
    x, total, i, sweeps = [0] * n, 0, 0, 0

    def result():
        return x, total

    while i < rounds:
        i += 1
        if i % 3 == 2:
            continue
        j = 0
        while j < i and total <= limit:
            for k in range(n):
                if k % 2 == j % 2:
                    x[k] += i * 10 + j
                    total += x[k]
            sweeps += 1
            j += 1
        if total > limit:
            if sweeps > 4:
                return (sweeps * 1000 + i, *result())
            total = 0
    return (sweeps, *result())


@tries(10)
@given(st.integers(1, 9), st.integers(0, 7), st.integers(0, 2000))
def test_loops_and_results(target, n, rounds, limit):
    def run(program):
        t, total = table(target, x=np.zeros(n, np.int64)), table(target, x=np.zeros(1, np.int64))
        result = program(t, total, rounds, limit)
        return result, host(t.x).tolist(), int(host(total.x)[0])

    assert both_ways(target, loops, run) == looped(n, rounds, limit)


@morph.kernel
def visit(p, level, following, parked):
    for t in p.outnbrs:
        if atomic_min(t.dist, level + 1) > level + 1:
            if t.id % 3 == 0:
                parked.add(t)
            else:
                following.add(t)


@morph.program
def three(g, now, then, later, most):
    """Three worklists that change places: points divisible by three wait for their own round."""
    level = 0
    rounds = 0
    while not now.empty or not later.empty:
        if now.empty:
            now, later = later, now
        while not now.empty:
            morph.foreach(now, visit, level, then, later)
            now.clear()
            now, then = then, now
            level += 1
            rounds += 1
            if rounds >= most:
                return -rounds
    return rounds


def waited(n, ends, most):
    """The same in Python."""
    far = 1 << 30
    out = [[b for a, b in ends if a == p] for p in range(n)]
    dist, now, later, level, rounds = [0] + [far] * (n - 1), [0], [], 0, 0
    while now or later:
        if not now:
            now, later = later, now
        while now:
            then = []
            for p in now:
                for t in out[p]:
                    if dist[t] > level + 1:
                        dist[t] = level + 1
                        (later if t % 3 == 0 else then).append(t)
            now, level, rounds = then, level + 1, rounds + 1
            if rounds >= most:
                return -rounds, dist, sorted(now), sorted(later)
    return rounds, dist, sorted(now), sorted(later)


@tries(12)
@given(graphs(), st.sampled_from([1, 3, 1000]))
def test_three_collections_change_places(target, edges, most):
    n, ends = edges
    want = waited(n, ends, most)

    def run(program):
        g = graph(target, n, ends)
        g.points.add("dist", i64, fill=1 << 30)
        g.points[0].dist = 0
        lists = [morph.Collection(g.points) for _ in range(3)]
        lists[0].add(0)
        rounds = program(g, *lists, most)
        left = sorted(i for c in lists for i in host(c.items).tolist())
        return rounds, host(g.points.dist).tolist(), left

    assert both_ways(target, three, run) == (*want[:2], sorted(want[2] + want[3]))


@morph.kernel
def spread(p, changed):
    for t in p.outnbrs:
        atomic_min(t.label, p.label, changed)


@morph.kernel
def mark(p, share):
    p.share = share * f64(p.label + 2)


@morph.program
def labels(g, changed, source, far):
    """Flags, filters that see the program's scalars, rows and floats as arguments."""
    source.label = -1
    at = source.id
    least, rounds = far, 0
    if far > 0:
        least = -1
    changed.set()
    while changed.take():
        morph.foreach(g.points, spread, changed, where=lambda p: p.label >= least)
        rounds += 1
    share = 1.0 / rounds
    morph.foreach(g.points, mark, share, where=lambda p: p.label < 0 or p.id == at)
    return share


@tries(10)
@given(graphs(), st.integers(-3, 1), st.data())
def test_flags_filters_and_rows(target, edges, far, data):
    n, ends = edges
    source = data.draw(st.integers(0, n - 1))
    net = nx.DiGraph(ends)
    net.add_nodes_from(range(n))

    def run(program):
        g = graph(target, n, ends, symmetric=False)
        g.points.add("label", i32)
        g.points.label[:] = np.arange(n)
        g.points.add("share", f64)
        program(g, morph.Flag(g), g.points[source], far)
        return host(g.points.label).tolist(), host(g.points.share > 0).tolist()

    held = far == 0  # then the source is filtered out, and its label goes nowhere
    reached = {source} | (set() if held else nx.descendants(net, source))
    found, shared = both_ways(target, labels, run)
    assert [x == -1 for x in found] == shared == [p in reached for p in range(n)]


@morph.kernel
def grab(p, g, again, log):
    near = g.points.local(8)
    near.add(p)
    for t in p.nbrs:
        if t not in near:
            near.add(t)
    if single(near):
        for t in near:
            t.hits += 1
        log.add(p)
    else:
        again.add(p)


@morph.program
def all_win(g, work, again, log):
    rounds = 0
    while not work.empty:
        morph.foreach(work, grab, g, again, log)
        work, again = again, work
        again.clear()
        rounds += 1
    return rounds


@tries(8)
@given(graphs(most=10))
def test_claims_in_a_program(target, edges):
    """Local and global stores grow in the middle of a launch, and it goes on from there."""
    n, ends = edges
    near = [{p} | {b for a, b in ends if a == p} | {a for a, b in ends if b == p} for p in range(n)]

    def run(program):
        g = graph(target, n, ends)
        g.points.add("hits", i32)
        work, again, log = (morph.Collection(g.points) for _ in range(3))
        work.extend(np.arange(n))
        assert 1 <= program(g, work, again, log) <= n
        return host(g.points.hits).tolist(), sorted(host(log.items).tolist())

    want = [sum(p in s for s in near) for p in range(n)]
    assert both_ways(target, all_win, run) == (want, list(range(n)))


@morph.program
def value_of(t):
    return t[0].x


@pytest.mark.parametrize("kind", ["i4", "u8", "f4", "f8", "?"])
def test_a_result_is_a_python_scalar(target, kind):
    """Also where a program runs launch by launch, and reads a NumPy scalar."""
    t = table(target, x=np.array([3], kind))
    for run in (value_of, value_of.eager, value_of.alone):
        result = run(t)
        assert result == t[0].x and type(result) is type(np.dtype(kind).type().item())


@morph.kernel
def add_to_all(r, by):
    r.x += by


@morph.program
def add_of_first(t, n):
    while n > 0:
        morph.foreach(t, add_to_all, t[0].v[1])
        n -= 1


def test_an_element_of_a_vector_is_an_argument(target):
    """A number, also where a program runs launch by launch."""
    for run in (add_of_first, add_of_first.eager):
        t = table(target, x=np.array([1, 2]), v=np.array([[3, 4], [5, 6]]))
        run(t, 2)
        assert host(t.x).tolist() == [9, 10]


@morph.kernel
def divide(r, rows, level):
    if r.size > 1:
        rows.new(size=r.size // 2, level=level + 1)
        rows.new(size=r.size - r.size // 2, level=level + 1)
        r.delete()


@morph.program
def halve(rows, steps):
    level = 0
    while level < steps:
        morph.foreach(rows, divide, rows, level, where=lambda r: r.level == level)
        level += 1
    return len(rows)


@tries(6)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_tables_grow_and_rows_are_used_again_in_a_program(target, sizes):
    def run(program):
        t = morph.Table("rows", target, size=i64, level=i64)
        t.extend(size=sizes)
        program(t, 7)
        return sorted(host(t.size)[host(t.alive)].tolist())

    assert both_ways(target, halve, run) == [1] * sum(sizes)


@morph.kernel
def step_out(p, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.dist + 1) > p.dist + 1:
            following.add(t)


@morph.program
def deep(current, following, depth):
    while not current.empty:
        if depth > 0:
            before = depth  # known on one of two paths to what follows
            depth = before + 1
        if depth >= 0:
            while not current.empty:
                morph.foreach(current, step_out, following)
                current, following = following, current
                following.clear()
    return depth


@morph.program
def by_one_thread_each(current, following):
    while not current.empty:
        morph.foreach(current, step_out, following, balance="thread")
        current, following = following, current
        following.clear()


@pytest.mark.unchecked
def test_texts_for_one_thread():
    """Each step is compiled once; a kernel without atomics only where one thread runs it."""
    n, found = 2000, []
    for program, more in ((deep, (i32(0),)), (by_one_thread_each, ())):
        g = graph("cpu", n, [(i, (7 * i + k) % n) for i in range(n) for k in range(3)])
        g.points.add("dist", i32, fill=n)
        g.points[0].dist = 0
        lists = [morph.Collection(g.points) for _ in range(2)]
        lists[0].add(g.points[0])
        program(*lists, *more)
        found.append(g.points.dist[:].tolist())
        assert program.source().count("foreach current: ") == 1
    assert found[0] == found[1]
    assert deep.source().count("_dist.nonatomic(t)") == 1
    assert ".nonatomic(" not in by_one_thread_each.source()
