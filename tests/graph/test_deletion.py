"""Deletion: edges of deleted points are deleted; rows with live references are not reused."""

from __future__ import annotations

import os
import random

import deletion_model
import numpy as np
import pytest
from deletion_model import History, Wrong
from graphs import solve
from pretend import pretended
from targets import host

import morph
from morph import Collection, Graph, Ref, Set, Table, foreach, io, kernel, program
from morph import reduce as total
from morph.algorithms.registry import ROWS
from morph.data.store import COMMITTED, HEAD, TAIL
from morph.graph import deletion
from morph.prelude import atomic_add, i32, i64, single
from morph.testing import fail_allocation, item_order, team
from morph.validate import WrongAnswer, index

HISTORIES = int(os.environ.get("MORPH_HISTORIES", "0"))  # of each target; by default a few seconds


@kernel
def drop(p):
    p.delete()


@kernel
def remove(r):
    r.delete()


@kernel
def contract(p, g):
    three = g.points.local(3)
    three.add(p)
    length = 0
    for t in p.nbrs:
        three.add(t)
        length += g.weight(p, t)
    if single(three):
        g.edges.new(three[1], three[2], length)
        g.edges.new(three[2], three[1], length)
        p.delete()


@kernel
def link(x, g):
    g.edges.new(x.a, x.b, 7)


@kernel
def churn(e, g):
    """Reuse a row, and delete it and the old one."""
    f = g.edges.new(g.points[0], g.points[1], 2)
    if e.weight == 1:
        f.delete()
    e.delete()


@kernel
def overwrite(e, g):
    """Reuse two rows, and delete so many that the ring has not the first any more."""
    g.edges.new(g.points[0], g.points[1], 2)
    f = g.edges.new(g.points[0], g.points[2], 2)
    f.delete()
    e.delete()
    g.points[1].delete()


@kernel
def bring(p, g):
    if p.id == 0:
        g.edges.new(g.points[1], g.points[2], 5)
        for q in g.points:
            if q.id == 2:
                q.delete()


@kernel
def touch(p):
    atomic_add(p.hits, 1)


@kernel
def move(e, to):
    e.dst = to


def ring(target, n=4, **options):
    """A directed cycle with weights 1, 2, ..."""
    at = np.arange(n)
    return Graph.from_edges(at, (at + 1) % n, weight=at + 1, device=target, **options)


# --- incident edges ------------------------------------------------------------------------------


def test_a_new_point_has_no_edges_of_the_one_whose_row_it_reuses(target):
    g = Graph.from_edges([0, 1, 2], [1, 2, 0], device=target)
    g.points[1].delete()
    assert g.points.new() == 1
    assert host(morph.bfs(g).distance).tolist() == [0, -1, -1]
    assert g.edges.live == 1


def test_the_contract_of_the_readme(target):
    road = Graph.from_edges([0, 1], [1, 2], weight=[4, 3], symmetrize=True, device=target)
    foreach(road.points, contract, road, where=lambda p: p.degree == 2)
    assert road.points.live == 2 and road.weight(0, 2) == 7
    assert road.edges.live == 2 and total(road.edges.weight, "sum") == 14
    assert road.degree().tolist() == [1, 0, 1]


@pytest.mark.parametrize("how", ["row", "table", "apply", "kernel"])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("built", [(), ("out",), ("in",), ("out", "in")], ids=str)
def test_every_observer_agrees(target, how, directed, built, tmp_path):
    src, dst = np.array([0, 1, 2, 3, 1, 4, 4]), np.array([1, 2, 3, 0, 1, 0, 2])
    g = Graph.from_edges(src, dst, weight=np.arange(1, 8), symmetrize=not directed, device=target)
    g.edges.add("hits", i32)
    for direction in built:
        g.adjacency(direction)
    if how == "row":
        g.points[1].delete()
        g.points[3].delete()
    elif how == "table":
        g.points.delete([3, 1])
    elif how == "apply":
        assert host(g.apply(delete_points=[1, 3]).points).tolist() == [1, 3]
    else:
        foreach(g.points, drop, where=lambda p: p.id == 1 or p.id == 3)
    left = [(4, 0, 6), (4, 2, 7)] + ([] if directed else [(0, 4, 6), (2, 4, 7)])
    weights = sorted(w for *_, w in left)
    assert g.edges.live == len(left) == len(list(g.edges)) and g.points.live == 3
    assert sorted((e.src.id, e.dst.id, int(e.weight)) for e in g.edges) == sorted(left)
    assert total(g.edges.weight, "sum") == sum(weights)
    foreach(g.edges, touch)
    assert total(g.edges.hits, "sum") == len(left)
    assert sorted(zip(*(host(a).tolist() for a in g.edge_list()), strict=True)) == sorted(left)
    assert sorted(host(g.csr()[2]).tolist()) == weights
    assert host(g.degree(direction="in")).sum() == len(left) and g.edge(0, 1) is None
    index(g)
    morph.io.write_graph(g, tmp_path / "g.gr")
    read = morph.io.read_graph(tmp_path / "g.gr")
    assert sorted(host(read.edges.weight).tolist()) == weights
    io.write_snapshot(tmp_path / "g.morph", g)
    for other in (io.read_snapshot(tmp_path / "g.morph", target), g.snapshot(), g.to("cpu")):
        assert other.edges.live == len(left) and other.points.live == 3
        other.points.new()
        assert host(morph.bfs(other, 4).distance).tolist() == [1, -1, 1, -1, 0]
    done = g.apply(deletes=([4], [0]))
    assert done.absent == 0 and g.edges.live == len(left) - (1 if directed else 2)
    g.compact()
    assert len(g.points) == 3 and len(g.edges) == g.edges.live
    index(g)


def test_algorithms_after_points_are_deleted(target):
    """Each sees what it sees of a graph made of the rest."""
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 12, (2, 40))
    src, dst = src[src != dst], dst[src != dst]
    pairs = np.unique(np.sort(np.stack([src, dst]), axis=0), axis=1)
    weight = rng.integers(1, 9, pairs.shape[1])
    g = Graph.from_edges(*pairs, weight=weight, n=12, symmetrize=True, device=target)
    foreach(g.points, drop, where=lambda p: p.id % 5 == 1)
    assert sorted(g.points.new().id for _ in range(3)) == [1, 6, 11]
    kept = (pairs % 5 != 1).all(axis=0)
    # interpreted, so that the algorithms are not compiled for graphs without deleted points, too
    rest = {"weight": weight[kept], "n": 12, "symmetrize": True, "device": "python"}
    h = Graph.from_edges(*pairs[:, kept], **rest)
    for row in ROWS:
        one, other = (solve(row, row.suited(x)) for x in (g, h))
        for field in one._fields:
            if field in ("edges", "predecessor"):  # ids of edges; one of several that are right
                continue
            if field == "points" and row.name.startswith("max-"):  # likewise
                continue
            a, b = host(getattr(one, field)), host(getattr(other, field))
            if field in row.of_edges.split():  # deleted edges aside
                a, b = (np.sort(x[x >= 0]) for x in (a, b))
            same = a == b if a.dtype == object else np.allclose(a, b, equal_nan=True)
            assert same, row.name


def test_dynamic_answers_follow_deleted_points(target):
    g = ring(target, 6)
    paths = morph.DynamicSSSP(g, 0)
    g.points.delete(3)
    assert np.isinf(host(paths.distance).astype(float)[4:]).all() or (
        host(paths.distance)[4:].tolist() == host(morph.sssp(g).distance)[4:].tolist()
    )
    foreach(g.points, drop, where=lambda p: p.id == 2)
    assert host(paths.distance).tolist() == host(morph.sssp(g).distance).tolist()
    paths.apply(inserts=([1], [4], [1]))
    assert host(paths.distance).tolist() == host(morph.sssp(g).distance).tolist()


def test_edges_to_points_that_the_launch_deletes_go_too(target):
    g = ring(target, 3)
    foreach(g.points, bring, g)
    assert g.points.live == 2 and g.edges.live == 1
    index(g)


def test_edges_that_kernels_put_at_deleted_points(target):
    g = ring(target, 4)
    g.edges.resize(40)
    asked = g.add_table("asked", a=Ref("points"), b=Ref("points"))
    asked.new(a=0, b=1)
    asked.new(a=2, b=3)
    g.points.delete(1)
    assert g.edges.live == 2
    foreach(asked, link, g)  # in a launch that deletes nothing
    assert sorted(host(g.edges.weight.array)[host(g.edges.ids())].tolist()) == [3, 4, 7]
    foreach(g.edges, move, g.points[1], where=lambda e: e.weight == 7)
    assert g.edges.live == 2
    index(g)


def test_the_host_refuses_edges_at_deleted_points(target):
    g = ring(target, 4)
    g.points.delete(1)
    before = [host(c.array[: len(g.edges)]).tolist() for c in g.edges.columns.values()]
    live, changes = g.edges.live, g.changes
    e = g.edges[2]
    for attempt, where in (
        (lambda: g.edges.new(0, 1, 5), r"edges.dst = 1 is a deleted point"),
        (lambda: g.edges.new(g.points[1], 0), r"edges.src = 1 is a deleted point"),
        (lambda: g.edges.extend(src=[0, 2], dst=[2, 1]), r"edges.dst\[1\] = 1 is a deleted point"),
        (lambda: setattr(e, "dst", 1), r"edges.dst = 1 is a deleted point"),
        (lambda: g.edges.src.__setitem__([3, 2], [0, 1]), r"edges.src\[1\] = 1 is a deleted"),
        (lambda: g.edges.src.__setitem__(slice(None), 1), r"edges.src\[\d\] = 1 is a deleted"),
        (lambda: g.apply(inserts=([0], [1], [3])), r"inserts.dst\[0\] = 1 is a deleted point"),
    ):
        with pytest.raises(ValueError, match=where):
            attempt()
    assert before == [host(c.array[: len(g.edges)]).tolist() for c in g.edges.columns.values()]
    assert g.edges.live == live == 2 and g.changes == changes
    g.edges.src[:] = host(g.edges.src)  # deleted edges still have their ends
    assert g.edges.live == 2
    index(g)


def test_programs_give_what_launches_give(target):
    """Edges of deleted points go between the steps of a program, too."""

    @program
    def twice(g, seen):
        foreach(g.points, drop, where=lambda p: p.id == 1)
        foreach(g.edges, touch)
        return 3

    @program
    def link_all(g, asked):
        foreach(asked, link, g)
        foreach(g.edges, touch)

    for run in (twice, twice.eager):
        g = ring(target)
        g.edges.add("hits", i32)
        assert run(g, Collection(g.points)) == 3
        assert g.edges.live == 2 and total(g.edges.hits, "sum") == 2
    for deleted in (False, True):
        g = ring(target)
        g.edges.add("hits", i32)
        asked = g.add_table("asked", a=Ref("points"), b=Ref("points"))
        asked.new(a=0, b=1)
        if deleted:
            g.points.delete(1)
        link_all(g, asked)
        assert g.edges.live == total(g.edges.hits, "sum") == (2 if deleted else 5)
        index(g)


@pytest.mark.unchecked
def test_a_program_that_deletes_edges_alone_stays_one_launch(target):
    @program
    def prune(g):
        foreach(g.edges, remove, where=lambda e: e.weight > 2)

    g = ring(target)
    prune(g)
    assert g.edges.live == 2 and bool(prune.launches) == (target != "python")


@pytest.mark.unchecked
def test_a_launch_that_fails_takes_edges_along():
    @kernel
    def fail(p, g):
        if p.id == 1:
            p.delete()
        else:
            g.points[p.id + 100].level = 1

    for seed in range(4):
        g = ring("python", 3)
        g.points.add("level", i64)
        g.points.allow_deletes()
        with item_order(seed), pytest.raises(IndexError):
            foreach(g.points, fail, g)
        assert g.edges.live == (3 if g.points.live == 3 else 1)
        index(g)
        assert g.points.new() == (3 if g.points.live == 4 else 1)


def test_all_edges_are_reused_and_deleted_in_one_launch(target):
    """The ring of deleted rows holds each row once, and so forgets which were reused."""
    g = Graph.from_edges([0] * 16, [1] * 16, weight=[1] * 16, device=target)
    g.edges.delete(range(1, 16))
    g.edges.weight[0] = 2
    assert g.edges.capacity == 16
    foreach(g.edges, churn, g)
    assert g.edges.live == 1
    g.edges.weight[:] = 1
    for _ in range(40):
        foreach(g.edges, churn, g)
        assert g.edges.live == 0
        g.edges.new(0, 1, 1)
    foreach(g.points, drop, where=lambda p: p.id == 1)
    assert g.edges.live == 0


def test_a_reused_edge_that_the_ring_has_forgotten(target):
    g = Graph.from_edges([0] * 16, [1] * 16, weight=[1] * 16, n=3, device=target)
    g.edges.delete(range(1, 16))
    g.adjacency("out"), g.adjacency("in")
    assert g.edges.hidden("free").size == 16
    foreach(g.edges, overwrite, g)
    assert g.points.live == 2 and g.edges.live == 0


def test_nothing_is_built_again_when_nothing_was_deleted(target):
    g = ring(target)
    g.adjacency("out"), g.adjacency("in")
    g.points.allow_deletes()
    foreach(g.points, drop, where=lambda p: p.id > 99)
    version, changes = g.version, g.changes
    foreach(g.points, drop, where=lambda p: p.id > 99)
    assert (g.version, g.changes) == (version, changes) and g._adjacency._built.keys() == {
        "out", "in"
    }  # fmt: skip


def test_rows_with_room_stay_when_points_are_deleted(target):
    g = Graph.from_edges(*np.random.default_rng(1).integers(0, 30, (2, 200)), device=target)
    g.adjacency("out"), g.adjacency("in")
    g.apply(inserts=([0], [1]))
    rows = dict(g._adjacency._gapped)
    assert g.gapped
    for p in range(0, 30, 3):
        g.points[p].delete()
        index(g)
    assert g.gapped and g._adjacency._gapped == rows
    assert g.points.new() == 0 and host(g.degree())[0] == 0


@pytest.mark.parametrize("how", ["host", "kernel"])
def test_reverses_and_the_order_of_rows_follow(target, how):
    src, dst = np.array([0, 0, 0, 1, 2]), np.array([1, 2, 3, 2, 3])
    weight = np.array([5, 1, 3, 2, 4])
    g = Graph.from_edges(src, dst, weight=weight, symmetrize=True, device=target)
    g.reverses()
    g.sort_edges("weight")
    assert [int(e.weight) for e in map(g.edges.row, ids_at(g, 0))] == [1, 3, 5]
    if how == "host":
        g.points.delete(2)
    else:
        foreach(g.points, drop, where=lambda p: p.id == 2)
    assert [int(e.weight) for e in map(g.edges.row, ids_at(g, 0))] == [3, 5]
    assert not g.out_identity
    back, alive = host(g.reverses()), host(g.edges.alive)
    assert (back[~alive] == -1).all() and (back[back[alive]] == np.flatnonzero(alive)).all()
    index(g)
    with pytest.raises(ValueError, match="rows are deleted"):
        g.points.truncate(1)


def ids_at(g, point):
    offsets, ids = map(host, g.adjacency("out"))
    return ids[offsets[point] : offsets[point + 1]].tolist()


# --- references ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["column", "vector", "own", "edge", "item", "column of a list",
                                  "set", "representative"])  # fmt: skip
def test_a_row_with_a_live_reference_is_not_reused(target, what):
    g = ring(target, 8)
    g.points.add("tag", i64)
    g.points.tag[:] = np.arange(8)
    table, kept = g.points, None
    if what in ("column", "vector"):
        t = g.add_table("things", p=Ref("points")[2] if what == "vector" else Ref("points"))
        kept = t.new([3, -1] if what == "vector" else 3)
    elif what == "own":
        g.points.add("next", Ref("points"))
        g.points[0].next = 3
    elif what == "edge":
        table, t = g.edges, g.add_table("things", e=Ref("edges"))
        kept = t.new(3)
    elif what == "item":
        kept = Collection(g.points)
        kept.add(3)
    elif what == "column of a list":
        kept = Collection(g.edges, by=Ref("points"))
        kept.add(0, by=3)
    else:
        kept = Set(g.points)
        kept.union(*((3, 5) if what == "representative" else (2, 3)))
    table.delete([3, 4])
    new = [table.new().id for _ in range(40)]
    assert 3 not in new and 4 in new and table.is_dead(3)
    if what == "set":
        assert kept.find(3) == 2
    if what == "representative":
        assert kept.find(5) == 3 and host(kept.labels())[5] == 3
    g.compact()
    if what in ("column", "edge"):
        assert (kept.p if what == "column" else kept.e) is None
    elif what in ("item", "column of a list"):
        assert len(kept) == (what != "item") and all(x.by is None for x in kept)
    elif what == "representative":
        assert kept.find(4) == 4


@pytest.mark.parametrize("end", ["drop it", "overwrite it", "delete the row", "take it", "reset"])
def test_a_row_is_reused_when_the_last_reference_is_gone(target, end):
    t = Table("t", target, up=Ref("t"))
    t.extend(8)
    t.up[0] = 5
    kept = Collection(t) if end == "take it" else Set(t) if end == "reset" else None
    if end == "take it":
        kept.add(5)
    elif end == "reset":
        kept.union(5, 6)
    if kept is not None:
        t.up[0] = -1
    t.delete(5)
    assert t.new() == 8 and t.capacity == 16
    if end == "drop it":
        t.drop("up")
    elif end == "overwrite it":
        t.up[0] = 1
    elif end == "delete the row":
        t.delete(0)
    elif end == "take it":
        out = Table("out", target, x=i64)
        out.extend(1)
        foreach(out, take_one, kept)
    else:
        kept.reset()
    assert 5 in [t.new().id for _ in range(8)]


@kernel
def take_one(r, list):
    p = list.take()
    if p is not None:
        r.x = p.id


@kernel
def renew(r, t):
    """Delete a row and make another that refers to what it referred to."""
    t.new(up=r.up, tag=r.tag)
    r.delete()


def test_kernels_do_not_reuse_what_is_referred_to(target):
    t = Table("t", target, up=Ref("t"), tag=i64)
    t.extend(6, tag=np.arange(6))
    t.up[:] = 0
    t.delete(0)
    for _ in range(30):
        foreach(t, renew, t)
        assert t.live == 5 and sorted(host(t.tag)[host(t.ids())].tolist()) == [1, 2, 3, 4, 5]
        assert host(t.up)[host(t.ids())].tolist() == [0] * 5 and host(t.tag)[0] == 0
    assert t.capacity <= 64  # rows are reused, and the table does not grow for ever


def test_tables_that_nothing_refers_to_reuse_rows_at_once(target):
    t = Table("t", target, tag=i64)
    t.extend(4)
    for k in range(20):
        t.delete(k % 4)
        assert t.new() == k % 4
    assert len(t) == t.capacity == 4
    for _ in range(20):
        foreach(t, drop, where=lambda r: r.id == 2)
        assert t.new() == 2
    assert len(t) == t.capacity == 4


def test_streams_of_batches_reuse_edges(target):
    """Where edges are referred to, too: memory is bounded by what is alive and what is denoted."""
    for referred in (False, True):
        g = ring(target, 50)
        g.adjacency("out"), g.adjacency("in")
        kept = Collection(g.edges) if referred else None
        if kept is not None:
            kept.add(7)
        for k in range(60):
            done = g.apply(deletes=(np.arange(8, 12), np.arange(9, 13)))
            g.apply(inserts=(np.arange(8, 12), np.arange(9, 13), [k] * 4))
            assert done.deleted.size == 4
            if k == 3:
                g.edges.delete(7)
        assert g.edges.live == 49 and g.edges.capacity <= (100 if referred else 70)
        assert g.edges.is_dead(7) or not referred
        index(g)


def test_snapshots_keep_what_may_be_reused(target, tmp_path):
    g = ring(target, 8)
    t = g.add_table("things", p=Ref("points"))
    t.new(3)
    g.points.delete([3, 4])
    io.write_snapshot(tmp_path / "g", g)
    h = io.read_snapshot(tmp_path / "g", target)
    for word in (HEAD, COMMITTED, TAIL):
        assert h.points._host_meta[word] == g.points._host_meta[word]
    assert [g.points.new().id for _ in range(20)] == [h.points.new().id for _ in range(20)]
    assert h.points.is_dead(3) and h.things[0].p == 3


def test_a_journal_gives_the_same_ids_without_the_collections_of_before(target, tmp_path):
    g = ring(target, 12)
    g.adjacency("out")
    rng, kept = np.random.default_rng(4), Collection(g.edges)
    with io.Journal(tmp_path / "g", g) as journal:
        for k in range(60):
            if k % 7 == 3 and kept is not None:
                kept.clear()
                kept.extend(rng.choice(host(g.edges.ids()), 3))
            if k == 40:
                kept = None
            ids = rng.choice(host(g.edges.ids()), 4, replace=False)
            ends = rng.integers(0, 12, (2, 4))
            journal.apply(inserts=(*ends, [k] * 4), deletes=ids)
            if k % 9 == 0:
                journal.apply(updates=(host(g.edges.ids())[:1], [99]))
    with io.Journal(tmp_path / "g", device=target) as journal:
        h = journal.graph
        assert host(h.edges.ids()).tolist() == host(g.edges.ids()).tolist()
        for name in ("src", "dst", "weight"):
            a, b = (host(x.edges.columns[name].array)[host(x.edges.ids())] for x in (g, h))
            assert a.tolist() == b.tolist()
        index(h)


def test_entries_of_deleted_rows_stay_entries(target):
    """A kernel runs for them, and sees them; `take` returns them."""

    @kernel
    def look(p, seen):
        seen[0].hits = seen[0].hits + (10 if p.deleted else 1)

    t = Table("t", target)
    t.extend(4)
    t.allow_deletes()
    seen, list = Table("seen", target, hits=i64), Collection(t)
    seen.extend(1)
    list.extend([1])
    t.delete(1)
    foreach(list, look, seen)
    assert seen.hits[0] == 10 and len(list) == 1 and host(list.items).tolist() == [1]
    t.compact()
    assert len(list) == 0


def test_the_order_of_the_input_is_forgotten_of_edges_that_are_reused(target):
    g = Graph.from_edges([1, 0], [0, 1], weight=[5, 6], device=target)
    assert host(g.edge_order).tolist() == [1, 0]
    g.edges.delete(0)
    assert g.edges.new(0, 1, 9) == 0
    assert host(g.edge_order).tolist() == [-1, 0]
    g.edges.delete(0)
    g.edges.compact()  # of edges alone
    assert host(g.edge_order).tolist() == [0] and g.edges.weight[0] == 5


def test_edges_at_deleted_points_are_wrong(target):
    g = ring(target)
    g.points.allow_deletes()
    index(g)
    g.points.hidden("dead")[2] = 1  # past all that takes edges along
    g.structure_changed()
    with pytest.raises(WrongAnswer, match="edge 2: its src, point 2, is deleted"):
        index(g)


# --- what a review found -------------------------------------------------------------------------


def test_a_batch_that_is_put_back_keeps_what_its_edges_refer_to(target):
    """`then` may create rows of other tables, while edges that may come back are deleted."""
    g = ring(target)
    t = g.add_table("things")
    t.extend(4)
    g.edges.add("thing", Ref("things"))
    g.edges.thing[1] = 3
    t.delete(3)

    def fail(applied):
        assert 3 not in [t.new().id for _ in range(40)]
        raise KeyError

    with pytest.raises(KeyError):
        g.apply(deletes=[1], then=fail)
    assert g.edges.live == 4 and g.edges[1].thing == 3 and g.edges[1].thing.dead


def test_references_of_deleted_rows_beyond_a_truncated_table(target):
    g = ring(target)
    t = g.add_table("things", up=Ref("things"))
    t.extend(8)
    g.edges.add("thing", Ref("things"))
    g.edges.thing[1] = 7
    g.edges.delete(1)
    t.truncate(4)
    t.delete(3)
    g.apply(deletes=[0], then=lambda applied: [t.new() for _ in range(20)])
    assert t.live == 23


@pytest.mark.unchecked
def test_programs_reuse_edges_that_they_have_deleted(target):
    """Memory does not grow with the number of steps."""

    @kernel
    def replace(e, g):
        g.edges.new(e.dst, e.src, e.weight)
        e.delete()

    @program
    def again(g, n):
        i = 0
        while i < n:
            foreach(g.edges, replace, g)
            i += 1

    g = ring(target, 8)
    g.adjacency("out"), g.adjacency("in")
    g.apply(inserts=([0], [2], [9]))  # from here on the index has room
    for n in (300, 1, 2, 3, 301):
        again(g, n)
        assert g.edges.live == 9 and g.edges.capacity <= 64
        assert total(g.edges.weight, "sum") == 45
        index(g)
    assert bool(again.launches) == (target != "python")
    assert g.edge(0, 1) is None and g.edge(1, 0).weight == 1 and g.edge(0, 7).weight == 8
    g.points.delete(0)
    assert g.edges.live == 6
    index(g)


def test_counters_of_host_and_device_agree_when_a_collection_goes(monkeypatch):
    """A batch that only inserts releases nothing, neither on the host nor on the device."""
    there = pretended(monkeypatch)
    g = ring(there, 16)
    g.adjacency("out")
    g.apply(deletes=[15])
    g.edges.resize(20)
    kept = Collection(g.edges)
    g.apply(deletes=[0, 1, 2, 3])
    del kept
    Table("other", there)
    for count in (1, 6, 2):
        g.apply(inserts=([5] * count, [6] * count, [50] * count))
        assert g.edges.device.to_host(g.edges.meta).tolist()[:6] == g.edges._host_meta.tolist()[:6]
    foreach(g.edges, remove, where=lambda e: e.weight == 16)
    assert g.edges.live == 11 + 9
    index(g)


@pytest.mark.parametrize("when", ["refused", "checkpoint"])
def test_a_journal_gives_the_same_ids_after(target, tmp_path, when):
    """After a refused batch, or a checkpoint, at which a collection decided on ids."""
    g = ring(target, 16)
    g.adjacency("out")
    kept = Collection(g.edges)
    kept.extend([0, 1, 2, 3])
    with io.Journal(tmp_path / "g", g) as journal:
        journal.apply(updates=([0], [1]))
        journal.apply(deletes=[0, 1, 2, 3, 4, 5])
        if when == "checkpoint":
            journal.apply(inserts=([7], [8], [70]))
        journal.checkpoint()
        if when == "refused":
            with pytest.raises(ValueError, match="negative weights"):
                journal.apply(inserts=([0], [1], [-5]), nonnegative=True)
        del kept
        count = 2 if when == "refused" else g.edges.capacity - len(g.edges) + 1
        journal.apply(inserts=([7] * count, [8] * count, [70] * count))
    with io.Journal(tmp_path / "g", device=target) as journal:
        assert host(journal.graph.edges.ids()).tolist() == host(g.edges.ids()).tolist()


@pytest.mark.parametrize("where", ["_created", "_lost", "incident", "_follow"])
@pytest.mark.parametrize("loose", [False, True])
def test_an_interrupt_while_edges_are_deleted(target, monkeypatch, where, loose):
    """The edges go all the same, and the next launches and batches work."""
    g = ring(target, 40)
    g.adjacency("out"), g.adjacency("in")
    if loose:
        g.apply(inserts=([0], [2], [9]))
    foreach(g.points, drop, where=lambda p: p.id == 10)

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(deletion, where, interrupt)
        try:
            foreach(g.points, drop, where=lambda p: p.id == 20)
        except KeyboardInterrupt:
            pass
        else:
            assert where == "_follow" and not loose
    assert g.points.live == 38 and g.edges.live == 36 + loose
    index(g)
    g.apply(deletes=[0])
    foreach(g.points, drop, where=lambda p: p.id == 30)
    assert g.points.live == 37 and g.edges.live == 33 + loose
    index(g)
    assert g.points.new() in (10, 20, 30)


def test_deletion_takes_no_names_from_the_user(target):
    """Public attributes of tables and graphs are no names for columns and tables."""
    names = ["held", "known", "bury", "make_room", "quarantined_to", "reordered", "forget_order"]
    g = ring(target)
    g.add_table("delete", **dict.fromkeys(names, i64)).new(held=3)
    assert g.tables["delete"].held[0] == 3
    for name in names:
        g.add_table(name)


# --- a model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_histories_against_a_model(target, part):
    count = HISTORIES // 4 or {"cpu": 150, "python": 40, "cuda": 150}[target]
    for seed in range(part * count, (part + 1) * count):
        deletion_model.run(seed, target)


def test_histories_with_several_threads():
    with team(3):
        for seed in range(100_000, 100_120):
            deletion_model.run(seed, "cpu")


def test_histories_where_the_host_keeps_apart_from_the_device(monkeypatch):
    there = pretended(monkeypatch)
    for seed in range(200_001, 200_121, 2):  # the others compact, by what this device has not
        deletion_model.run(seed, there)


def test_histories_in_which_allocations_fail(target):
    rng, fired = random.Random(7), 0
    for seed in range(300_000, 300_000 + (20 if target == "python" else 60)):
        with fail_allocation(rng.randint(1, 12), target) as fault:
            deletion_model.run(seed, target)
        fired += fault.fired
    assert fired > 5


def test_the_model_notices():
    """An edge that stays at a deleted point, and a reference to another row, are found."""
    history = History(5, "cpu")
    history.check()
    history.g.points.new(tag=1)
    with pytest.raises(Wrong, match="points"):
        history.check()
