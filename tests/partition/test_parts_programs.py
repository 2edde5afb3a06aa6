"""Programs on a partitioned graph give the results of one device."""

import gc
import re
import signal
import weakref
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits import SLOWER
from pretend import pretended

import morph
from morph.partition.execution import PartitionedLaunch
from morph.partition.persistent import PersistentProgram
from morph.partition.routes import Routes
from morph.prelude import (
    atomic_add,
    atomic_max,
    atomic_min,
    atomic_or,
    barrier,
    bool_,
    f64,
    i32,
    i64,
    single,
    vector,
)  # fmt: skip

FAR = 2**30


@morph.kernel
def relax(p, g, changed):
    p.updated = False
    for t in p.outnbrs:
        atomic_min(t.dist, p.dist + g.weight(p, t), changed)


@morph.kernel
def mark(p):
    p.updated = p.dist < p.before
    p.before = p.dist


@morph.program
def shortest_paths(g, changed):
    while changed.take():
        morph.foreach(g.points, relax, g, changed, where=lambda p: p.updated)
        morph.foreach(g.points, mark)


def paths(g):
    g.points.add("dist", i64, fill=2**62)
    g.points.add("before", i64, fill=2**62)
    g.points.add("updated", bool_)
    g.points[0].dist, g.points[0].updated = 0, True
    changed = morph.Flag(g)
    changed.set()
    shortest_paths(g, changed)
    return g.points.dist


@morph.kernel
def visit(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            t.from_id = 1  # race: all write the same
            following.add(t)


@morph.program
def bfs_program(g, now, following):
    level = i32(0)
    while not now.empty:
        level += 1
        morph.foreach(now, visit, level, following)
        now, following = following, now
        following.clear()
    return level


def bfs(g):
    g.points.add("dist", i32, fill=FAR)
    g.points.add("from_id", i32)
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    g.points[0].dist = 0
    now.add(0)
    levels = bfs_program(g, now, following)
    return g.points.dist, g.points.from_id, levels


@morph.kernel
def start(p, g):
    p.rank = 1.0 / len(g.points)
    p.given = p.rank / max(p.out_degree, 1)


@morph.kernel
def share(p):
    p.given = p.rank / max(p.out_degree, 1)


@morph.kernel
def pull(p, g, loose, damping):
    total = 0.0
    for t in p.innbrs:
        total += t.given
    p.rank = (1.0 - damping + damping * loose) / len(g.points) + damping * total


@morph.kernel
def leak(p, sums):
    atomic_add(sums.loose, p.rank)


@morph.program
def ranks(g, sums, rounds):
    morph.foreach(g.points, start, g)
    k = 0
    while k < rounds:
        sums.loose = 0.0
        morph.foreach(g.points, leak, sums, where=lambda p: p.out_degree == 0)
        morph.foreach(g.points, pull, g, sums.loose, 0.85)
        morph.foreach(g.points, share)
        k += 1


def pagerank(g):
    g.points.add("rank", f64)
    g.points.add("given", f64)
    ranks(g, morph.Scalars(g, loose=0.0), 10)
    return g.points.rank


@morph.kernel
def own_label(p):
    p.label = p.id


@morph.kernel
def lower(p, changed):
    for t in p.outnbrs:
        atomic_min(t.label, p.label, changed)
        atomic_min(p.label, t.label, changed)


@morph.program
def label(g, changed):
    morph.foreach(g.points, own_label)
    changed.set()
    while changed.take():
        morph.foreach(g.points, lower, changed)


def components(g):
    g.points.add("label", i32)
    label(g, morph.Flag(g))
    return g.points.label


@morph.kernel
def count_neighbours(p):
    p.left = p.out_degree
    p.core = -1


@morph.kernel
def peel(p, k):
    p.core = k
    for t in p.outnbrs:
        if t.core < 0:
            atomic_add(t.left, -1)


@morph.kernel
def choose(p, k, chosen, counts):
    if p.core < 0 and p.left <= k:
        chosen.add(p)
    elif p.core < 0:
        atomic_add(counts.remaining, 1)


@morph.program
def peel_all(g, chosen, counts):
    morph.foreach(g.points, count_neighbours)
    k = i64(0)
    counts.remaining = 1
    while counts.remaining > 0 or not chosen.empty:
        counts.remaining = 0
        chosen.clear()
        morph.foreach(g.points, choose, k, chosen, counts)
        if chosen.empty:
            k += 1
        else:
            morph.foreach(chosen, peel, k)


def cores(g):
    g.points.add("left", i64)
    g.points.add("core", i64)
    peel_all(g, morph.Collection(g.points), morph.Scalars(g, remaining=0))
    return g.points.core


@morph.kernel
def invite(p, best):
    for e in p.outedges:
        atomic_max(e.dst.seen, e.weight)
        atomic_add(e.dst.count, 1)
        atomic_or(e.dst.bits, 1 << (p.id % 8))
        if e.weight > 4:
            atomic_max(best.weight, e.weight)


def reductions(g):
    for name in ("seen", "count", "bits"):
        g.points.add(name, i64)
    best = morph.Scalars(g, weight=0)
    morph.foreach(g.points, invite, best)
    return g.points.seen, g.points.count, g.points.bits, best.weight


PROGRAMS = [paths, bfs, components, cores, reductions]


def values(found):
    return [np.array(x) for x in (found if isinstance(found, tuple) else (found,))]


def check(program, g, devices, by="range", exact=True):
    wanted = values(program(g.copy()))
    for found in (values(program(morph.partition(g, devices, by=by))),):
        for a, b in zip(found, wanted, strict=True):
            if exact:
                assert np.array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-12)


@st.composite
def divided_graphs(draw, devices=("cpu", "python")):
    n = draw(st.integers(1, 12))
    m = draw(st.integers(0, 30))
    ends = st.lists(st.integers(0, n - 1), min_size=m, max_size=m)
    weight = np.array(draw(st.lists(st.integers(1, 9), min_size=m, max_size=m)), np.int64)
    src, dst = np.array(draw(ends), np.int64), np.array(draw(ends), np.int64)
    directed = draw(st.booleans())
    g = morph.Graph.from_edges(src, dst, weight=weight, n=n, directed=directed, device="cpu")
    parts = draw(st.integers(1, 4))
    owners = st.lists(st.integers(0, parts - 1), min_size=n, max_size=n)
    by = draw(st.sampled_from(["range", "degree"]) | owners)
    return g, [draw(st.sampled_from(devices))] * parts, by


@pytest.mark.parametrize("program", PROGRAMS)
@given(divided=divided_graphs())
def test_programs_on_parts(program, divided):
    check(program, *divided)


@given(divided=divided_graphs())
def test_pagerank_on_parts(divided):
    check(pagerank, *divided, exact=False)


def rmat():
    g = morph.generate.rmat(9, seed=3, device="cpu")
    weight = np.random.default_rng(4).integers(1, 9, len(g.edges))
    return morph.Graph.from_edges(
        g.edges.src[:], g.edges.dst[:], weight=weight, n=len(g.points), device="cpu"
    )


def devices_of(names):
    try:
        return [morph.device(name) for name in names.split()]
    except morph.runtime.device.DeviceError as error:
        pytest.skip(str(error))


@morph.kernel
def forget(p):
    p.dist = FAR


def test_mirrors_that_bound_offers_are_not_spread_between_steps():
    parts = morph.partition(small_graph(), ["cpu"] * 3)
    parts.points.add("dist", i32, fill=FAR)
    parts.points.add("from_id", i32)
    following = morph.Collection(parts.points)

    def spreads(step, *args):
        with mock.patch.object(Routes, "spread", autospec=True, side_effect=Routes.spread) as found:
            morph.foreach(parts.points, step, *args)
        return found.call_count

    visited = visit, i32(5), following
    assert spreads(*visited) == 0 and "dist" in parts.stale
    assert spreads(*visited) == 0  # mirrors have what was offered
    assert spreads(forget) == 0 and spreads(*visited) == 1  # some owners have more again
    with mock.patch.object(PartitionedLaunch, "_deliver", side_effect=MemoryError):
        with pytest.raises(MemoryError):
            spreads(visit, i32(3), following)
    assert spreads(visit, i32(3), following) == 1  # mirrors have offers that were not delivered
    dist = parts.points.dist[:]
    degree = np.bincount(parts.edges.dst[:], minlength=len(dist))
    assert np.array_equal(dist, np.where(degree > 0, 3, FAR))


@morph.kernel
def offer(p, improved):
    for t in p.outnbrs:
        if atomic_min(t.dist, -p.id) > -p.id:
            improved.add(t)


@morph.kernel
def offer_twice(p, improved):
    for t in p.outnbrs:
        if atomic_min(t.dist, -p.id) > -p.id:
            improved.add(t)
        if atomic_min(t.dist, -2 * p.id) > -2 * p.id:
            improved.add(t)


@morph.program
def offers(g, improved):
    morph.foreach(g.points, offer, improved)


@morph.program
def two_offers(g, improved):
    morph.foreach(g.points, offer_twice, improved)


@pytest.mark.parametrize("program, sent", [(offers, 1), (two_offers, 61)])
def test_only_the_best_offer_of_a_part_to_a_row_is_sent(program, sent):
    # points 0 to 59, of the first part, have an edge to the last point, of the second part
    g = morph.Graph.from_edges(np.arange(60), np.full(60, 119), n=120, directed=True)
    parts = morph.partition(g, ["cpu"] * 2)
    parts.points.add("dist", i32, fill=FAR)
    improved = morph.Collection(parts.points)
    program(parts, improved)
    assert parts.points.dist[119] == -59 * (1 if program is offers else 2)
    assert len(improved) == sent and set(improved.items) == {119}


@morph.kernel
def spread_offers(p):
    for t in p.outnbrs:
        if atomic_min(t.dist, p.id) > p.id:
            atomic_add(t.count, 1)


@morph.program
def rounds_of_offers(g, rounds):
    done = 0
    while done < rounds:
        morph.foreach(g.points, spread_offers)
        done += 1


def test_inboxes_grow_to_the_largest_region():
    # all edges lead from the last part to the first, which has many rows; the others get nothing
    n = 3000
    g = morph.Graph.from_edges(np.arange(2000, n), np.arange(1000), n=n, directed=True)
    parts = morph.partition(g, ["cpu"] * 3)
    for name, fill in (("dist", FAR), ("count", 0)):
        parts.points.add(name, i32, fill=fill)
    rounds_of_offers(parts, 2)
    assert np.array_equal(parts.points.dist[:1000], np.arange(2000, n))
    assert (parts.points.count[:1000] == 1).all() and (parts.points.count[1000:] == 0).all()


@morph.kernel
def offer_by_weights(p, improved):
    for e in p.outedges:
        if atomic_min(e.dst.dist, -e.weight) > -e.weight:
            improved.add(e.dst)
        if atomic_min(e.dst.dist, -2 * e.weight) > -2 * e.weight:
            improved.add(e.dst)


@morph.program
def offers_by_weights(g, improved):
    morph.foreach(g.points, offer_by_weights, improved)


def test_inboxes_of_parts_of_unequal_sizes_grow_alike(monkeypatch):
    """The places of a sender follow from the capacity of its own inbox."""
    seen, write = [], PersistentProgram._write

    def noted(program, graph):
        inboxes = [program._objects(box.inbox) for box in program.program.boxes]
        seen.append({x.capacity for x in inboxes[0]})
        assert all(len({x.capacity for x in of_parts}) == 1 for of_parts in inboxes)
        write(program, graph)

    monkeypatch.setattr(PersistentProgram, "_write", noted)
    # the last part has 200 times as many points, and sends many messages about one point
    n, weight = 20_200, np.arange(1, 101, dtype=np.int32)
    ends = n - 1 - np.arange(100) % 2, np.zeros(100, int)
    g = morph.Graph.from_edges(*ends, weight=weight, n=n, directed=True)
    parts = morph.partition(g, ["cpu"] * 3, by=np.repeat([0, 1, 2], [100, 100, 20_000]))
    parts.points.add("dist", i32, fill=FAR)
    improved = morph.Collection(parts.points)
    offers_by_weights(parts, improved)
    assert parts.points.dist[0] == -200 and set(improved.items) == {0}
    assert len(seen) > 1 and max(seen[-1]) > max(seen[0])


@pytest.mark.gpu
@pytest.mark.parametrize("program", [*PROGRAMS, pagerank])
@pytest.mark.parametrize("names", ["cuda cuda", "cuda cpu cuda", "cuda:0 cuda:1", "cuda:1 cpu"])
def test_programs_on_gpus(program, names):
    for by in ("range", "degree"):
        check(program, rmat(), devices_of(names), by, exact=program is not pagerank)


@pytest.mark.parametrize("program", [*PROGRAMS, pagerank])
def test_programs_on_a_device_and_the_host(program, monkeypatch):
    there = pretended(monkeypatch)
    for devices in ([there, there], [there, "python", there]):  # not the CPU, which runs `there`
        check(program, small_graph(), devices, exact=program is not pagerank)


# --- what the exchanges are for ------------------------------------------------------------------


def small_graph(directed=True):
    rng = np.random.default_rng(3)
    ends, weight = rng.integers(0, 40, (2, 100)), rng.integers(1, 9, 100)
    return morph.Graph.from_edges(*ends, weight=weight, n=40, directed=directed, device="cpu")


@morph.kernel
def reach(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            t.parent = p  # race: any parent of this level is right
            t.at = p.at + vector(1.0, 0.5)  # race: equal for all of them
            following.add(t)


@pytest.mark.parametrize("devices", [["cpu"] * 3, ["python"] * 2])
@pytest.mark.parametrize("directed", [True, False])
def test_points_and_vectors_travel_with_messages(devices, directed):
    g = morph.partition(small_graph(directed), devices)
    g.points.add("dist", i32, fill=FAR)
    g.points.add("parent", morph.Ref("points"))
    g.points.add("at", morph.vec(f64, 2))
    g.points[0].dist = level = 0
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    now.add(0)
    while not now.empty:
        level += 1
        morph.foreach(now, reach, i32(level), following)
        now, following = following, now
        following.clear()
    whole = g.to("cpu")
    dist, parent = g.points.dist[:], g.points.parent[:]
    assert np.array_equal(dist, bfs(small_graph(directed))[0][:])
    found = (dist < FAR) & (dist > 0)
    edges = set(zip(whole.edges.src[:].tolist(), whole.edges.dst[:].tolist(), strict=True))
    assert found.any() and (dist[parent[found]] + 1 == dist[found]).all()
    assert {*zip(parent[found].tolist(), np.flatnonzero(found).tolist(), strict=True)} <= edges
    assert np.array_equal(g.points.at[:][found], np.outer(dist[found], [1.0, 0.5]))
    assert "messages0" in reach.source() and "reach_at_owner0" in reach.source()


@morph.kernel
def ask(p):
    for t in p.outnbrs:
        if single(t):
            t.chosen = p.id


def test_one_item_of_all_parts_locks_a_row():
    g = morph.partition(small_graph(), ["cpu"] * 3)
    g.points.add("chosen", i32, fill=-1)
    morph.foreach(g.points, ask)
    src, dst, chosen = g.edges.src[:], g.edges.dst[:], g.points.chosen[:]
    edges = set(zip(src.tolist(), dst.tolist(), strict=True))
    assert {(c, t) for t, c in enumerate(chosen.tolist()) if c >= 0} <= edges
    assert np.array_equal(np.flatnonzero(chosen >= 0), np.unique(dst))


@morph.kernel
def total_rank(s, g):
    found, least = 0.0, 10**6
    for p in g.points:
        found += p.rank
        least = min(least, p.left)
    s.loose = found
    s.least = least


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "python", "cpu"]])
def test_loops_over_all_points_give_the_sum_of_all_parts(devices):
    g = morph.partition(small_graph(), devices)
    g.points.add("rank", f64)
    g.points.add("left", i64)
    g.points.rank[:] = np.arange(40)
    g.points.left[:] = 50 - np.arange(40)
    s = morph.Scalars(g, loose=0.0, least=0)
    morph.foreach(s, total_rank, g)
    assert (s.loose, s.least) == (780, 11)
    assert [s.local(k).least for k in range(len(devices))] == [11] * len(devices)


@morph.kernel
def set_value(p, c):
    p.value = c * p.id


def test_mirrors_are_spread_when_they_are_stale_only(monkeypatch):
    g = morph.partition(small_graph(), ["cpu"] * 2)
    for name in ("value", "result"):
        g.points.add(name, i64)
    spread = []
    kept = type(g.routes).spread
    monkeypatch.setattr(type(g.routes), "spread", lambda r, n: (spread.append(n), kept(r, n)))
    for k in (1, 2, 3):
        if k < 3:
            morph.foreach(g.points, set_value, k)
            assert g.stale == {"value", "result"} - ({"result"} if k == 1 else set())
        morph.foreach(g.points, sum_of_values)
        wanted = np.zeros(40, np.int64)
        np.add.at(wanted, g.edges.src[:], min(k, 2) * g.edges.dst[:].astype(np.int64))
        assert np.array_equal(g.points.result[:], wanted)
    assert spread == ["value", "value"]


@morph.kernel
def sum_of_values(p):
    p.result = 0
    for t in p.outnbrs:
        p.result += t.value


@morph.kernel
def in_two_parts(p):
    p.value = p.id
    barrier()
    total = 0
    for t in p.outnbrs:
        total += t.value
    p.result = total


def test_options_of_foreach():
    g = morph.partition(small_graph(), ["cpu"] * 2)
    for name in ("value", "result"):
        g.points.add(name, i64)
    limit = 7
    morph.foreach(g.points, set_value, 3, where=lambda p: p.id < limit)
    assert g.points.value[:].tolist() == [*range(0, 21, 3), *[0] * 33]
    with morph.sections():
        morph.foreach(g.points, set_value, 2)
    assert g.points.value[:].tolist() == [*range(0, 80, 2)]
    for balance in ("thread", "warp", "grid"):
        morph.foreach(g.points, sum_of_values, balance=balance)
    with morph.checked():
        morph.foreach(g.points, in_two_parts)
    wanted = np.zeros(40, np.int64)
    np.add.at(wanted, g.edges.src[:], g.edges.dst[:].astype(np.int64))
    assert np.array_equal(g.points.result[:], wanted)


class Chosen(NamedTuple):
    mask: Any
    limits: Any


def test_filters_that_capture_objects_in_parts():
    """Each part has its own; numbers, and the objects of a later call, may be others."""
    g = small_graph()
    for graph in (g, morph.partition(g, ["cpu", "python", "cpu"], by=np.arange(40) % 3)):
        for name in ("value", "odd", "low"):
            graph.points.add(name, i64)
        graph.points.odd = np.arange(40) % 2
        graph.points.low = np.arange(40) < 5
        limits = morph.Table("limits", graph, upper=i64)
        limits.extend(upper=[30])
        for name, least in (("odd", 0), ("odd", 10), ("low", 2)):
            chosen = Chosen(getattr(graph.points, name), limits)

            def where(p):
                return chosen.mask[p] > 0 and p.id >= least and p.id < chosen.limits[0].upper

            graph.points.value = 0
            morph.foreach(graph.points, set_value, 1, where=where)
            mask = getattr(graph.points, name)[:] > 0
            ids = np.arange(40)
            wanted = np.where(mask & (ids >= least) & (ids < 30), ids, 0)
            assert np.array_equal(graph.points.value[:], wanted), (name, least)
    other, row = morph.partition(g, ["cpu"] * 2), graph.points[0]
    with pytest.raises(TypeError, match="one partitioned graph, not of several"):
        morph.foreach(other.points, set_value, 1, where=lambda p: chosen.mask[p] > 0)
    with pytest.raises(TypeError, match="takes no row of a partitioned table: pass its id"):
        morph.foreach(graph.points, set_value, 1, where=lambda p: p.id < row.value)


# --- errors --------------------------------------------------------------------------------------


@morph.kernel
def divided_by_itself(p, x):
    p.value = x[p.id * 3]


@morph.kernel
def takes_any(p, x):
    p.value = 1


@morph.kernel
def takes_all(p, g):
    for t in p.outnbrs:
        for u in t.outnbrs:
            p.value += u.value


@morph.program
def two_steps_away(g):
    morph.foreach(g.points, takes_all, g)


def test_arguments_that_do_not_suit_are_refused():
    g, h = small_graph(), morph.partition(small_graph(), ["cpu"] * 2)
    h.points.add("value", i64)
    with pytest.raises(TypeError, match="no slice of the points of parts: use a filter"):
        morph.foreach(h.points[1:3], set_value, 1)
    for x in (g, g.points.id if hasattr(g.points, "id") else g.edges.weight, morph.Flag(g)):
        with pytest.raises(TypeError, match="is on cpu, but the launch is on <PartitionedGraph"):
            morph.foreach(h.points, takes_any, x)
    with pytest.raises(TypeError, match="is on cpu, but the launch is on <PartitionedGraph"):
        morph.foreach(g.points, takes_any, h)
    with pytest.raises(TypeError, match="takes_any takes no row of a partitioned table"):
        morph.foreach(h.points, takes_any, h.points[3])
    with pytest.raises(TypeError, match="objects of one partitioned graph, not of several"):
        morph.foreach(h.points, takes_any, morph.partition(g, ["cpu"]))
    with pytest.raises(morph.LanguageError, match="until_empty takes a collection"):
        morph.foreach(h.points, set_value, 1, until_empty=True)
    with pytest.raises(morph.LanguageError, match="edges of the other end"):
        two_steps_away(h)
    assert not h.points.value[:].any()


captured = morph.Scalars("cpu", x=1)


@morph.kernel
def captures(p):
    p.value = captured.x


def test_an_object_of_one_device_is_not_captured():
    h = morph.partition(small_graph(), ["cpu"] * 2)
    h.points.add("value", i64)
    with pytest.raises(TypeError, match="'scalars' of 1 rows.* but the launch is on <Part"):
        morph.foreach(h.points, captures)


numbers = np.arange(100) ** 2
numbers.flags.writeable = False


@morph.kernel
def squares(p):
    p.value = numbers[p.id]


def test_constant_arrays_are_captured():
    h = morph.partition(small_graph(), ["cpu"] * 2)
    h.points.add("value", i64)
    morph.foreach(h.points, squares)
    assert np.array_equal(h.points.value[:], numbers[:40])


def test_an_error_of_one_part_is_raised_when_all_have_ended():
    h = morph.partition(small_graph(), ["cpu", "cpu"])
    h.points.add("value", i64, fill=-1)
    x = morph.Table("x", h, x=i64)
    x.extend(3 * 20)
    with morph.checked(), pytest.raises(morph.CheckError, match="60") as caught:
        morph.foreach(h.points, divided_by_itself, x.x)
    assert "(item points[2" in caught.value.problem  # its id, of 20 to 29, in the whole graph
    assert caught.value.__notes__ == ["on part 1, by whose numbers edges are named"]
    assert not h.points.value[:20].any() and (h.points.value[20:] == -1).any()
    assert "value" in h.stale


@morph.kernel
def link(p):
    for t in p.outnbrs:
        for u in p.outnbrs:
            if atomic_max(t.value, u.id) < u.id:
                t.link = u


def test_a_point_that_the_owner_does_not_know_is_named():
    g = morph.Graph.from_edges([0, 0], [1, 2], n=3, device="cpu")
    h = morph.partition(g, ["cpu"] * 3)
    h.points.add("value", i64)
    h.points.add("link", morph.Ref("points"))
    with pytest.raises(ValueError, match=r"part 1 executes a change .* uses point 2, of which it"):
        morph.foreach(h.points, link)


@pytest.mark.parametrize("devices", [["cpu", "cpu"], ["python", "cpu"]])
def test_an_interrupt_ends_the_launches(devices):
    h = morph.partition(small_graph(), devices)
    for name in ("value", "result"):
        h.points.add(name, i64)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5, 5 * SLOWER)  # again, if one falls into a callback
        with pytest.raises(KeyboardInterrupt):
            while True:
                morph.foreach(h.points, set_value, 3)
                morph.foreach(h.points, sum_of_values)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    morph.foreach(h.points, set_value, 1)
    assert np.array_equal(h.points.value[:], np.arange(40))


@morph.kernel
def follow(p):
    for t in p.outnbrs:
        p.value = t.value


@pytest.mark.parametrize("kind", ["cpu", "python", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_races_in_a_part_are_reported_by_ids_of_the_whole_graph(kind):
    g = morph.Graph.from_edges([6, 7], [7, 6], n=8, device="cpu")
    h = morph.partition(g, [kind] * 2)
    h.points.add("value", i64)
    with morph.checked(), pytest.raises(morph.CheckError) as caught:
        morph.foreach(h.points, follow, where=lambda p: p.id >= 4)
    assert set(re.findall(r"points\[(\d+)", caught.value.problem)) == {"6", "7"}


@morph.kernel
def add_row(r, n):
    r.x += n


@morph.kernel
def least(r, g):
    low = 100
    for p in g.points:
        low = min(low, p.value)
    r.x = low


@pytest.mark.parametrize("kind", ["cpu", "python", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_slices_of_tables_that_every_part_has(kind):
    h = morph.partition(small_graph(), [kind] * 3)
    h.points.add("value", i64)
    h.points.value[:] = np.arange(40, 0, -1)
    x = morph.Table("x", h, x=i64)
    x.extend(6)
    for first in range(3):  # the launch is kept, and given the numbers
        morph.foreach(x[first : 2 * first + 1], add_row, 10**first)
    assert x.x[:].tolist() == [1, 10, 110, 100, 100, 0]
    morph.foreach(x[4:], least, h)
    assert x.x[:].tolist() == [1, 10, 110, 100, 1, 1]


@morph.kernel
def count_up(p, n):
    p.value = 0
    for i in range(n):
        p.value = (p.value + i) % 1009


@pytest.mark.parametrize("devices", [["cpu", "python"], ["python", "cpu"]])
def test_an_interrupt_does_not_wait_for_a_part(devices):
    h = morph.partition(small_graph(), devices)
    h.points.add("value", i64)
    morph.foreach(h.points, count_up, 1)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            morph.foreach(h.points, count_up, 10**7)  # minutes, if it is not ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_launches_of_graphs_that_are_gone_are_not_kept_alive():
    g = morph.partition(small_graph(), ["cpu"] * 2)
    g.points.add("dist", i32, fill=FAR)
    following = morph.Collection(g.points)
    morph.foreach(g.points, visit_all, i32(3), following)
    assert len(following) == np.unique(g.edges.dst[:]).size
    gone = weakref.ref(g), weakref.ref(g.local(1))
    del g, following
    gc.collect()  # the partitioned graph
    gc.collect()  # its parts, which boxes for messages referred to
    assert gone[0]() is None and gone[1]() is None


@morph.kernel
def visit_all(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            following.add(t)


@given(divided=divided_graphs())
def test_components_of_the_library(divided):
    g, devices, by = divided
    parts = morph.partition(g, devices, by=by)
    wanted, found = morph.connected_components(g), morph.connected_components(parts)
    assert np.array_equal(found.label, wanted.label) and found.components == wanted.components
    assert "label" not in parts.points.columns
