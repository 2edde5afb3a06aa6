"""With the n-th allocation refused, for every n, a launch gives the same result."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from limits import stride
from refining import check_refined, square
from small import counters_hold
from targets import host, table
from test_targets_programs import all_win, grab, halve, three, waited
from test_targets_shared import arrive, colour, drain, spread
from test_targets_swaps import entries, filled, held, tided, tides, turn, turned, weighed
from test_targets_tables import branch, churn, contract, live, split, unfold

import morph
from morph.algorithms.triangulation import kept
from morph.data.store import Store
from morph.prelude import i64, local
from morph.testing import fail_allocation, team

MESHES = Path(__file__).parents[2] / "meshes"
RNG = np.random.default_rng(8)
N = 12
ENDS = sorted((int(a), int(b)) for a, b in RNG.integers(0, N, (20, 2)))


def graph(target):
    src, dst = np.array(ENDS, np.int32).T.copy()
    return morph.Graph.from_edges(src, dst, n=N, device=target)


# --- what runs: each gives what must not depend on where allocations failed ---------------------


def single_rows(target):
    t = morph.Table("rows", target, key=i64, left=i64, pair=morph.vec(np.float32, 2))
    t.extend(key=[3, 5, 8, 2], left=[2, 1, 0, 4])
    morph.foreach(t, split, t, where=lambda r: r.left >= 0)
    counters_hold(t)
    return live(t, "key", "left", "pair")


def rows_in_bulk(target):
    g = morph.Graph(target)
    g.add_table("rows", key=i64, left=i64, pair=morph.vec(np.float32, 2))
    g.add_table("links", of=morph.Ref("rows"), root=morph.Ref("rows"))
    g.rows.extend(key=[3, 5, 8, 2], left=[2, 1, 0, 4])
    morph.foreach(g.rows, unfold, g.rows, g.links, where=lambda r: r.left > 0)
    counters_hold(g.rows, g.links)
    key, of, root = host(g.rows.key), host(g.links.of), host(g.links.root)
    return Counter(zip(key[of].tolist(), root.tolist(), strict=True))


def rows_in_loops(target):
    t = morph.Table("rows", target, level=i64, mark=i64)
    t.new(0, 0)
    for _ in range(4):
        morph.foreach(t, branch, t, 4, where=lambda r: r.level < 4)
    counters_hold(t)
    return Counter(host(t.level).tolist())


def delete_and_reuse(target):
    t = morph.Table("rows", target, key=i64, left=i64)
    t.extend(key=[0, 1, 2, 3, 4, 5], left=np.arange(6))
    for step in range(5):
        morph.foreach(t, churn, t, step)
        counters_hold(t)
    return live(t, "left", "key")


def worklists(target):
    g = graph(target)
    g.points.add("dist", i64, fill=1 << 40)
    g.points.add("tree", morph.Ref("points"))
    g.points.add("length", np.float64)
    now, then = morph.Collection(g.points), morph.Collection(g.points)
    found = morph.Collection(g.points, by=morph.Ref(g.points), length=np.float64)
    now.add(0)
    g.points[0].dist = 0
    while not now.empty:
        morph.foreach(now, spread, g, found, morph.Flag(g))
        morph.foreach(found, arrive, then)
        found.clear()
        now, then = then, now
        then.clear()
        counters_hold(now, then, found)
    return host(g.points.dist).tolist()


def takes(target):
    points = morph.Table("points", target)
    points.extend(9)
    work, got = morph.Collection(points), morph.Collection(points)
    work.extend(np.arange(9))
    t = table(target, want=np.array([3, 0, 4, 1, 5]))
    morph.foreach(t, drain, work, got)
    counters_hold(work, got)
    return sorted(host(got.items).tolist()), len(work)


@morph.kernel
def pile(r):
    s = local(i64, 1)
    for i in range(r.x):
        s.add(i)
    total = i64(0)
    for v in s:
        total += v
    r.total = total


def local_collections(target):
    t = table(target, x=np.array([0, 1, 2, 7, 3]), total=np.zeros(5, np.int64))
    morph.foreach(t, pile)
    return host(t.total).tolist()


@morph.func
def path_of(r, t, path):
    """The rows that r leads to, itself first; how many they are."""
    at = r
    while at is not None:
        path.add(at)
        at = at.next
    return path.size


@morph.kernel
def follow(r, t):
    path = t.local(8)
    n = path_of(r, t, path)
    r.last = path[n - 1].key + path[0].key


def followed(target):
    t = table(target, key=np.arange(6) * 10, last=np.zeros(6, np.int64))
    t.add("next", morph.Ref(t))
    t.next[:] = np.array([3, 0, -1, 4, -1, 1], np.int32)
    morph.foreach(t, follow, t)
    return host(t.last).tolist()


def claims(target):
    g = graph(target)
    g.points.add("hits", np.int32)
    work, again, log = (morph.Collection(g.points) for _ in range(3))
    work.extend(np.arange(N))
    while not work.empty:
        morph.foreach(work, grab, g, again, log)
        counters_hold(again, log)
        work, again = again, work
        again.clear()
    return host(g.points.hits).tolist(), sorted(host(log.items).tolist())


def guarded_claims(target):
    g = graph(target)
    g.points.add("colour", i64, fill=-1)
    g.points.add("rank", i64)
    work, again = morph.Collection(g.points), morph.Collection(g.points)
    work.extend(np.arange(N))
    while not work.empty:
        morph.foreach(work, colour, g, again)
        work, again = again, work
        again.clear()
    got = host(g.points.colour)
    assert (got >= 0).all() and all(got[a] != got[b] for a, b in ENDS if a != b)


def contraction(target):
    g = graph(target)
    g.points.add("mass", i64, fill=1)
    g.points.add("step", i64)
    log = morph.Table("log", target, won=np.int32)
    log.extend(1)
    for step in (1, 2):
        morph.foreach(g.points, contract, g, step, log)
        counters_hold(g.points, g.edges)
        alive = host(g.points.alive)
        assert host(g.points.mass)[alive].sum() == N
        points, edges = read_ends(g)
        assert all(a in points and b in points for a, b in edges)


def read_ends(g):
    points = set(np.flatnonzero(host(g.points.alive)).tolist())
    alive = host(g.edges.alive)
    columns = (host(c)[alive].tolist() for c in (g.edges.src, g.edges.dst))
    return points, list(zip(*columns, strict=True))


def program_of_worklists(target):
    g = graph(target)
    g.points.add("dist", i64, fill=1 << 30)
    g.points[0].dist = 0
    lists = [morph.Collection(g.points) for _ in range(3)]
    lists[0].add(0)
    rounds = three(g, *lists, 1000)
    counters_hold(*lists)
    assert rounds == waited(N, ENDS, 1000)[0]
    return host(g.points.dist).tolist()


def program_of_claims(target):
    g = graph(target)
    g.points.add("hits", np.int32)
    work, again, log = (morph.Collection(g.points) for _ in range(3))
    work.extend(np.arange(N))
    all_win(g, work, again, log)
    counters_hold(work, again, log)
    return host(g.points.hits).tolist(), sorted(host(log.items).tolist())


def program_of_rows(target):
    t = morph.Table("rows", target, size=i64, level=i64)
    t.extend(size=[9, 4])
    halve(t, 5)
    counters_hold(t)
    return sorted(host(t.size)[host(t.alive)].tolist())


def program_of_two_pairs(target):
    t = morph.Table("points", target)
    t.extend(N)
    lists = filled(t, 4)
    total = tides(*lists, 7)
    counters_hold(*lists)
    assert (total, held(lists)) == tided(N, 7)


def program_of_three_in_a_circle(target):
    t = morph.Table("points", target)
    t.extend(N)
    lists = weighed(t, 3)
    total = turn(*lists, 5)
    counters_hold(*lists)
    assert (total, [sorted(entries(c)) for c in lists]) == turned(N, 5)


SCENES = [
    single_rows, rows_in_bulk, rows_in_loops, delete_and_reuse, worklists, takes,
    local_collections, followed, claims, guarded_claims, contraction, program_of_worklists,
    program_of_claims, program_of_rows, program_of_two_pairs, program_of_three_in_a_circle,
]  # fmt: skip


def every_fault(target, scene, most=10_000, step=1):
    """Run a scene with allocations failing in turn; give about how many there were."""
    want, n = scene(target), 1
    while n < most:
        with fail_allocation(n, target) as fault:
            got = scene(target)
        assert got == want, f"with allocation {n} failing"
        if not fault.fired:
            return n - 1
        n += step + n // stride(target)
    return most


@pytest.mark.parametrize("scene", SCENES, ids=lambda s: s.__name__)
def test_every_allocation_can_fail(target, scene):
    assert every_fault(target, scene) >= 3


def test_an_item_that_failed_goes_no_further():
    """What it collected is not whole: rows named by it may not exist."""
    followed("cpu")
    text = follow.source()
    assert "if (!path.add(at_, it, a.status)) return {};" in text
    assert re.search(r"n = path_of\(.*\);\s+if \(it\.failed\) return;", text)


def test_refinement_survives_every_fault(target):
    """The order of the triangles is free, so each result is checked independently."""
    mesh = square(0, 1)

    def refined(where):
        # a launch with kept tables would have larger local collections after each fault in one
        kept._kept.clear()
        check_refined(mesh, morph.refine(mesh, 20, max_area=0.2, device=where), 20)

    faults = every_fault(target, refined, step=1 if target != "python" else 3)
    assert faults > 30


def test_nothing_is_injected_by_default(target):
    with fail_allocation(10**6, target) as fault:
        rows_in_loops(target)
    assert not fault.fired
    with pytest.raises(ValueError, match="from 1"), fail_allocation(0, target):
        pass


@pytest.mark.parametrize("scene", SCENES, ids=lambda s: s.__name__)
def test_from_no_room_at_all(target, scene, monkeypatch):
    """Every store has room for just what is in it, and grows by one row at a time."""
    want = scene(target)
    by_one = {"grow": lambda s, minimum=0: s.resize(s.capacity + 1)}
    by_one["_ensure_capacity"] = lambda s, rows: s.resize(max(rows, s.capacity))
    for name, method in by_one.items():
        monkeypatch.setattr(Store, name, method)
    assert scene(target) == want
    if target == "cpu":
        with team(4):
            assert scene(target) == want
