"""Core numbers of changing graphs: against plain Python and NetworkX after every batch."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from batches import interrupted
from hypothesis import given
from hypothesis import strategies as st
from limits import stride
from targets import host, tries

import morph
from morph.algorithms.dynamic import cores, following
from morph.testing import fail_allocation, team

POINTS = 9
ends = st.integers(0, POINTS - 1)
pairs = st.lists(st.tuples(ends, ends), max_size=30)
BATCHES = st.lists(st.tuples(pairs, st.lists(st.integers(0, 99), max_size=20), st.none() | ends),
                   min_size=1, max_size=6)  # fmt: skip


def peeled(edges, alive):
    """Delete a vertex of least degree after the other; parallel edges count, loops do not."""
    left, core, level = set(np.flatnonzero(alive).tolist()), np.full(len(alive), -1), 0
    edges = [(u, v) for u, v in edges if u != v]
    while left:
        degree = dict.fromkeys(left, 0)
        for u, v in edges:
            if u in left and v in left:
                degree[u] += 1
                degree[v] += 1
        v = min(left, key=degree.__getitem__)
        core[v] = level = max(level, degree[v])
        left.remove(v)
    return core


def edges_of(g):
    src, dst = (host(a) for a in g.edge_list()[:2])
    keep = np.ones(len(src), bool) if g.directed else src <= dst
    return list(zip(src[keep].tolist(), dst[keep].tolist(), strict=True))


def supports(edges, core):
    """How many neighbours of its value or more a vertex has."""
    found = [0] * len(core)
    for u, v in edges:
        found[u] += u != v and core[v] >= core[u]
        found[v] += u != v and core[u] >= core[v]
    return found


def compare(dynamic):
    g = dynamic.graph
    edges, alive = edges_of(g), host(g.points.alive)
    want = peeled(edges, alive)
    assert host(dynamic.core).tolist() == want.tolist()
    assert dynamic.largest == max(want.max(initial=0), 0)
    held = host(dynamic._table.support)[: len(alive)]
    assert held[alive].tolist() == np.array(supports(edges, want), int)[alive].tolist()
    if not g.directed and len(set(edges)) == len(edges):
        held = nx.Graph([(u, v) for u, v in edges if u != v])
        assert all(want[v] == k for v, k in nx.core_number(held).items())


def as_arrays(found):
    src, dst = np.array(found, np.int64).reshape(-1, 2).T
    return src, dst


def follow(target, directed, edges, batches, share):
    src, dst = as_arrays(edges)
    g = morph.Graph.from_edges(src, dst, n=POINTS, symmetrize=not directed, device=target)
    dynamic = morph.DynamicCores(g)
    dynamic.share = share
    compare(dynamic)
    for inserts, deletes, point in batches:
        alive = host(g.points.alive).copy()
        more = {}
        if point is not None:
            more["delete_points"] = np.array([point])
            alive[point] = False
        ids = np.flatnonzero(host(g.edges.alive))
        inserts = [(u, v) for u, v in inserts if alive[u] and alive[v]]
        gone = ids[np.array(deletes, int) % len(ids)] if ids.size else ids
        done = dynamic.apply(as_arrays(inserts), gone, **more)
        assert share == 0.0 or done.decision == "repaired"
        compare(dynamic)


@pytest.mark.parametrize("directed", [False, True])
def test_after_every_batch(target, directed):
    """Deletions and insertions at once, of few points: values fall and rise by several."""

    @tries({"python": 8, "cpu": 36, "cuda": 60}[target])
    @given(pairs, BATCHES, st.sampled_from([1e9, 1e9, 0.0]))
    def check(edges, batches, share):
        with team(3):
            follow(target, directed, edges, batches, share if target != "python" else 1e9)

    check()


def test_a_long_history():
    """Cliques come and go in a sparse graph: deep rises and falls, in one batch."""
    rng, n = np.random.default_rng(3), 60
    g = morph.Graph.from_edges(*rng.integers(0, n, (2, 90)), n=n, symmetrize=True, device="cpu")
    dynamic = morph.DynamicCores(g)
    dynamic.share, kept, deep = 1e9, [], 0
    for _ in range(60):
        members = rng.choice(n, int(rng.integers(2, 12)), replace=False)
        src, dst = (members[k] for k in np.triu_indices(len(members), 1))
        gone = kept.pop(int(rng.integers(len(kept)))) if len(kept) > 3 else None
        before = host(dynamic.core)
        done = dynamic.apply((src, dst), gone)
        kept.append(host(done.applied.inserted)[: len(src)])
        assert done.decision == "repaired" and done.rounds > 0
        compare(dynamic)
        deep += int(np.abs(host(dynamic.core) - before).max() > 3)
    assert deep > 10


def start(target="cpu"):
    g = morph.Graph.from_edges(*np.triu_indices(6, 1), n=12, symmetrize=True, device=target)
    dynamic = morph.DynamicCores(g)
    dynamic.share = 1e9
    return g, dynamic


BATCH = {
    "inserts": ([6, 6, 7, 0, 1, 2, 5], [7, 8, 8, 6, 6, 6, 11]),
    "deletes": ([0, 1, 2], [1, 2, 3]),
}


def test_all_of_a_batch_or_nothing():
    """A batch that is refused, or stopped anywhere, leaves the core numbers of its graph."""
    g, dynamic = start()
    before = host(dynamic.core).tolist()
    with pytest.raises(ValueError, match="12"):
        dynamic.apply(([0], [12]))
    assert host(dynamic.core).tolist() == before
    n = 1
    while True:
        g, dynamic = start()
        error = (KeyboardInterrupt, MemoryError)[n % 2]
        change = lambda d=dynamic: d.apply(**BATCH)  # noqa: E731
        if not interrupted(change, n, error, (following, cores)):
            break
        assert len(edges_of(g)) in (15, 19)
        compare(dynamic)
        n += 1
    assert n > 10 and len(edges_of(g)) == 19


def test_a_batch_after_one_that_failed():
    """Its steps have the same numbers: a point that fell at one has not fallen at the other."""
    n = 1
    while True:
        two_triangles = ([0, 0, 1, 0, 0, 3], [1, 2, 2, 3, 4, 4])
        g = morph.Graph.from_edges(*two_triangles, n=5, symmetrize=True, device="cpu")
        dynamic = morph.DynamicCores(g)
        dynamic.share = 1e9
        change = lambda d=dynamic: d.apply(deletes=([0, 0, 0], [1, 2, 3]))  # noqa: E731
        if not interrupted(change, n, MemoryError, (cores,)):
            break
        compare(dynamic)
        dynamic.apply(deletes=([1], [2]))
        compare(dynamic)
        n += 1
    assert n > 5


def test_every_allocation_fails_once(target):
    if target == "python":
        pytest.skip("the interpreter allocates nothing that fails")
    g, dynamic = start(target)
    dynamic.apply(**BATCH)
    want, n, fired = host(dynamic.core).tolist(), 1, True
    while fired:
        g, dynamic = start(target)
        with fail_allocation(n, target) as fault:
            dynamic.apply(**BATCH)
        fired = fault.fired
        assert host(dynamic.core).tolist() == want
        n += 1 + n // stride(target)
    assert n > 10


def test_lists_stay_small_if_allocations_are_refused(target):
    """A refusal says nothing of the rows that are needed: it grows a list by one row."""
    if target == "python":
        pytest.skip("the interpreter allocates nothing that fails")
    (_, dynamic), (_, unrefused) = start(target), start(target)
    for n in range(1, 13):
        with fail_allocation(n, target):
            dynamic.apply(**BATCH)
        compare(dynamic)
        unrefused.apply(**BATCH)
    for x, y in zip(dynamic._lists, unrefused._lists, strict=True):  # a GPU needs more rows
        assert x.capacity < 2 * y.capacity + 1000


def test_changes_by_other_means(target):
    g, dynamic = start(target)
    done = g.apply(([6, 7], [7, 8]))
    assert dynamic.update(done).decision == "repaired"
    compare(dynamic)
    g.apply(deletes=[0])
    compare(dynamic)
    with pytest.raises(ValueError, match="another graph"):
        dynamic.update(start(target)[0].apply(deletes=[0]))
    g.points.extend(2)
    assert host(dynamic.core)[-2:].tolist() == [0, 0]
    dynamic.apply(([12, 13, 0], [13, 0, 12]), delete_points=[3])
    compare(dynamic)
    g.compact()
    dynamic.apply(([1], [12]))
    compare(dynamic)
    assert dynamic.core.size == 13


def test_no_points_no_edges_and_weights():
    assert morph.DynamicCores(morph.Graph.from_edges([], [], n=0)).largest == 0
    weight = [-1.0, np.nan]
    g = morph.Graph.from_edges([0, 1], [1, 2], weight=weight, symmetrize=True, n=3)
    dynamic = morph.DynamicCores(g)
    dynamic.apply(([2], [0], [-np.inf]))
    assert dynamic.core.tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="on one device, not a partitioned graph"):
        morph.DynamicCores(morph.partition(g, ["cpu"] * 2))
