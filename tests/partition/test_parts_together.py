"""Programs that all parts execute together give the results of one device."""

import signal
from contextlib import contextmanager, nullcontext
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from targets import examples
from test_parts_programs import (
    FAR,
    PROGRAMS,
    ask,
    devices_of,
    divided_graphs,
    peel_all,
    reach,
    rmat,
    shortest_paths,
    small_graph,
    values,
)

import morph
from morph.data.collection import Collection
from morph.partition.graph import PartitionedGraph
from morph.partition.routes import Routes
from morph.partition.shared import shared_by
from morph.prelude import (
    atomic_add,
    atomic_and,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    f32,
    f64,
    i32,
    i64,
    u64,
    vector,
)
from morph.runtime.device import Device


@contextmanager
def single_launches():
    """Programs run launch by launch."""

    with mock.patch.object(PartitionedGraph, "why_by_steps", lambda g: "a test wants it"):
        yield


def check(program, g, devices, by="range", exact=True):
    """Compare with one device, together and by single launches."""
    wanted = values(program(g.copy()))
    for how in (nullcontext(), single_launches()):
        with how:
            found = values(program(morph.partition(g, devices, by=by)))
        for a, b in zip(found, wanted, strict=True):
            if exact:
                assert np.array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-12)


# --- what programs exchange ----------------------------------------------------------------------


@morph.program
def reach_all(g, now, following):
    level = i32(0)
    while not now.empty:
        level += 1
        morph.foreach(now, reach, level, following)
        now, following = following, now
        following.clear()
    return level


@morph.kernel
def visit(p, level, following):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            following.add(t)


@morph.program
def visit_all(g, now, following):
    level = i32(0)
    while not now.empty:
        level += 1
        morph.foreach(now, visit, level, following)
        now, following = following, now
        following.clear()


@morph.kernel
def farther(p):
    p.dist = p.dist + 1


def test_columns_changed_by_offers_alone_are_not_copied_before_the_next_program():
    wanted, parts = small_graph(), morph.partition(small_graph(), ["cpu"] * 3)
    spread = mock.Mock(side_effect=Routes.spread)
    with mock.patch.object(Routes, "spread", lambda routes, name: spread(routes, name)):
        for g in (wanted, parts):
            g.points.add("dist", i32, fill=FAR)
        for source in (0, 5, 9):
            for g in (wanted, parts):
                if source == 9:
                    morph.foreach(g.points, farther)  # mirrors may be too near now
                g.points[source].dist = 0
                now, following = morph.Collection(g.points), morph.Collection(g.points)
                now.add(g.points[source])
                visit_all(g, now, following)
            assert np.array_equal(parts.points.dist[:], wanted.points.dist[:])
            copied = [call.args[1] for call in spread.call_args_list]
            assert copied == (["dist"] if source == 9 else [])


@morph.kernel
def offer_and_flag(p, changed):
    for t in p.outnbrs:
        atomic_min(t.dist, p.offer, changed)


@morph.program
def offer_once(g, changed):
    morph.foreach(g.points, offer_and_flag, changed)


def test_flags_of_offers_are_those_of_one_device():
    rng = np.random.default_rng(0)
    for _ in range(12):
        ends, offers, found = rng.integers(0, 8, (2, 20)), rng.integers(0, 50, (4, 8)), []
        for parts in (1, 3):
            g = morph.Graph.from_edges(*ends, n=8, device="cpu")
            g = g if parts == 1 else morph.partition(g, ["cpu"] * parts)
            g.points.add("dist", i32, fill=99), g.points.add("offer", i32)
            flags = []
            for values_of_points in offers:
                g.points.offer[:] = values_of_points
                changed = morph.Flag(g)
                offer_once(g, changed)
                flags.append(changed.take())
            found.append((flags, g.points.dist[:].tolist()))
        assert found[0] == found[1]


def tree(g):
    """Points and vectors travel with messages."""
    g.points.add("dist", i32, fill=FAR)
    g.points.add("parent", morph.Ref("points"))
    g.points.add("at", morph.vec(f64, 2))
    g.points[0].dist = 0
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    now.add(0)
    levels = reach_all(g, now, following)
    dist, parent = g.points.dist[:], g.points.parent[:]
    found = (dist < FAR) & (dist > 0)
    assert (dist[parent[found]] + 1 == dist[found]).all()
    return dist, g.points.at, levels


@morph.kernel
def count_in(p):
    for t in p.outnbrs:
        if atomic_add(t.count, 1) == 0:
            atomic_max(t.first, p.id)


@morph.program
def count_twice(g):
    morph.foreach(g.points, count_in)
    morph.foreach(g.points, count_in)


def test_programs_and_single_launches_share_boxes():
    counts = []
    for g in (rmat(), morph.partition(rmat(), ["cpu", "cpu"])):
        g.points.add("count", i32), g.points.add("first", i32, fill=-1)
        for _ in range(2):
            count_twice(g), morph.foreach(g.points, count_in)
        counts.append(np.array(g.points.count[:]))
    assert np.array_equal(*counts)
    assert not any(map(len, shared_by(g)._boxes.values()))


@morph.kernel
def measure(p, s):
    atomic_add(s.sum, p.id)
    atomic_add(s.weight, 0.25 * p.id)
    atomic_min(s.least, f32(p.id) - 3)
    atomic_max(s.most, p.id)
    atomic_or(s.bits, u64(1) << u64(p.id % 64))
    atomic_and(s.every, u64(p.id) | 1)
    atomic_add(s.both[p.id % 2], 1)
    if p.id == 3:
        s.third = p.id


@morph.program
def measure_all(g, s, rounds):
    k = 0
    while k < rounds:
        morph.foreach(g.points, measure, s)
        k += 1
    return s.sum * rounds


def totals(g):
    s = morph.Scalars(
        g, sum=5, weight=0.5, least=np.float32(9), most=-1, bits=np.uint64(0),
        every=np.uint64(2**64 - 1), both=np.zeros(2, np.int64), third=-1,
    )  # fmt: skip
    result = measure_all(g, s, 3)
    return (result, *(getattr(s, n) for n in ("sum", "least", "most", "bits", "every", "third")),
            s.weight, s.both)  # fmt: skip


@morph.kernel
def offer(p):
    for t in p.outnbrs:
        atomic_min(t.near, i32(p.id))
        atomic_max(t.far, f32(p.id) / 4)
        atomic_or(t.bits, u64(1) << u64(p.id % 64))
        atomic_add(t.sum, 0.5 * p.id)
        atomic_add(t.pair[1], p.id)


@morph.kernel
def look(p):
    p.seen = 0.0
    for t in p.outnbrs:
        p.seen += t.sum + t.far + t.near


@morph.program
def offer_twice(g):
    morph.foreach(g.points, offer)
    morph.foreach(g.points, look)
    morph.foreach(g.points, offer, where=lambda p: p.id % 3 == 0)
    morph.foreach(g.points, look)


def columns(g):
    """Combined columns of several types, read by other steps."""
    g.points.add("near", i32, fill=10**6)
    for name, kind in {"far": f32, "bits": u64, "sum": f64, "seen": f64}.items():
        g.points.add(name, kind)
    g.points.add("pair", morph.vec(i64, 2))
    offer_twice(g)
    return tuple(getattr(g.points, n) for n in ("near", "far", "bits", "sum", "seen", "pair"))


@morph.kernel
def give(p):
    for e in p.outedges:
        e.value = 2 * e.weight + p.id


@morph.kernel
def choose_third(p, some):
    if p.id % 3 == 0:
        some.add(p)


@morph.kernel
def give_more(p):
    for e in p.outedges:
        e.value += p.id


@morph.kernel
def receive(p):
    p.total = 0
    for e in p.inedges:
        p.total += e.value


@morph.program
def along_edges(g, some):
    morph.foreach(g.points, give)
    morph.foreach(g.points, receive)
    morph.foreach(g.points, choose_third, some)
    morph.foreach(some, give_more)
    morph.foreach(g.points, receive)


def edges(g):
    """Copies of edges from other parts."""
    g.edges.add("value", i64)
    g.points.add("total", i64)
    if not g.directed:
        return (0,)
    along_edges(g, morph.Collection(g.points))
    return (g.points.total,)


@morph.kernel
def lucky(p):
    p.chosen = i32(p.chosen >= 0)


@morph.program
def ask_all(g):
    morph.foreach(g.points, ask)
    morph.foreach(g.points, lucky)


def locks(g):
    """Rows are locked once for all parts."""
    g.points.add("chosen", i32, fill=-1)
    ask_all(g)
    return (g.points.chosen,)


@morph.program
def twice(g, now, following):
    first = reach_all(g, now, following)
    morph.foreach(g.points, start_again, now)
    second = reach_all(g, now, following)
    return first * 100 + second


@morph.kernel
def start_again(p, now):
    p.dist = 2**30
    if p.id == 2:
        p.dist = 0
        now.add(p)


def nested(g):
    """A program that calls programs, which swap collections."""
    g.points.add("dist", i32, fill=FAR)
    g.points.add("parent", morph.Ref("points"))
    g.points.add("at", morph.vec(f64, 2))
    g.points[0].dist = 0
    now, following = morph.Collection(g.points), morph.Collection(g.points)
    now.add(0)
    return g.points.dist, twice(g, now, following)


@morph.kernel
def begin(p):
    p.label = p.id
    p.left = 3
    p.at = vector(0.0, 0.0)


@morph.kernel
def look_around(p, changed):
    p.next = p.label
    for t in p.outnbrs:
        p.next = min(p.next, t.label)
    if p.next < p.label:
        changed.add(p)


@morph.kernel
def take_next(p, level):
    p.label = p.next
    p.at = vector(f64(p.label), f64(level))


@morph.kernel
def count_down(p, now):
    for t in p.outnbrs:
        if atomic_sub(t.left, 1) == 1:
            now.add(t)


@morph.kernel
def add_up(p):
    for t in p.outnbrs:
        p.total += t.left
        p.seen += t.at[0] + t.at[1]


@morph.kernel
def double(p):
    p.at = vector(2 * p.at[0], p.at[1])


@morph.program
def by_worklists(g, changed, now):
    morph.foreach(g.points, begin)
    level = i32(0)
    morph.foreach(g.points, look_around, changed)
    while not changed.empty:
        level += 1
        now.clear()
        morph.foreach(changed, take_next, level)
        morph.foreach(changed, count_down, now)
        morph.foreach(now, add_up)
        if level == 2:
            morph.foreach(g.points, double)
        changed.clear()
        morph.foreach(g.points, look_around, changed)
    morph.foreach(g.points, add_up)


def worklists(g):
    """Steps over worklists send what they change to mirrors, other steps all rows."""
    for name, kind in {"label": i32, "next": i32, "left": i32, "total": i64, "seen": f64}.items():
        g.points.add(name, kind)
    g.points.add("at", morph.vec(f64, 2))
    changed, now = morph.Collection(g.points), morph.Collection(g.points)
    by_worklists(g, changed, now)
    g.points.left[:5] = 7  # mirrors get it from the host
    changed.extend(range(0, len(g.points), 3))
    now.clear()
    by_worklists(g, changed, now)
    return tuple(getattr(g.points, n) for n in ("label", "left", "total", "seen", "at"))


OTHERS = [tree, totals, columns, edges, locks, nested, worklists]


@pytest.mark.parametrize("program", OTHERS)
@settings(max_examples=examples(8))
@given(divided=divided_graphs(devices=("cpu",)))
def test_parts_execute_programs_together(program, divided):
    check(program, *divided)


@pytest.mark.parametrize("program", [*PROGRAMS, *OTHERS])
def test_larger_graphs(program):
    check(program, rmat(), ["cpu"] * 3, "degree")


# --- what is too small grows, and errors ---------------------------------------------------------


@settings(max_examples=examples(6))
@given(capacity=st.integers(0, 3), directed=st.booleans())
def test_collections_grow_in_the_middle_of_a_program(capacity, directed):
    made = Collection.__init__

    def small(self, *args, **columns):
        made(self, *args, **(columns | {"capacity": capacity}))

    with mock.patch.object(Collection, "__init__", small):
        check(tree, small_graph(directed), ["cpu"] * 3)


def program_of(g):
    for name in ("dist", "before"):
        g.points.add(name, i64, fill=2**62)
    g.points.add("updated", morph.prelude.bool_)
    changed = morph.Flag(g)
    changed.set()
    return lambda: shortest_paths(g, changed)


def test_the_source_says_how_a_program_runs():
    run = program_of(morph.partition(small_graph(), ["cpu"] * 2))
    run()
    text = shortest_paths.source()
    assert "one launch of each part" in text and "combine_mirrors<Min, 1>" in text
    assert "combined by min" in text
    for devices, why in {
        ("cpu", "python"): "a part is interpreted",
        ("cpu",) * 9: "more than 8 parts",
    }.items():
        program_of(morph.partition(small_graph(), list(devices)))()
        assert why in shortest_paths.source()


def test_without_access_to_the_memory_of_other_parts_a_program_runs_by_steps():
    one, parts = small_graph(), morph.partition(small_graph(), ["cpu"] * 3)
    program_of(one)()
    with mock.patch.object(Device, "reach", lambda *_: False):
        program_of(parts)()
        assert "a part cannot access the memory of another" in shortest_paths.source()
    assert np.array_equal(parts.points.dist[:], one.points.dist[:])


@morph.kernel
def count(p, s):
    atomic_add(s.n, 1)


@morph.program
def forever(g, s):
    s.n = 0
    while s.n >= 0:
        s.n = 0
        morph.foreach(g.points, count, s)
    return s.n


def test_an_interrupt_ends_all_parts():
    g = morph.partition(small_graph(), ["cpu"] * 3)
    s = morph.Scalars(g, n=0)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
        with pytest.raises(KeyboardInterrupt):
            forever(g, s)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    check(totals, small_graph(), ["cpu"] * 3)


def test_values_of_mirrors_after_a_program():
    g = morph.partition(small_graph(), ["cpu"] * 2)
    program_of(g)()
    assert g.stale == {"before", "dist", "updated"}
    h = morph.partition(small_graph(), ["cpu"] * 2)
    for name in ("left", "core"):
        h.points.add(name, i64)
    peel_all(h, morph.Collection(h.points), morph.Scalars(h, remaining=0))
    assert h.stale == {"left"}


@morph.kernel
def raise_value(p):
    p.value += 1


@morph.kernel
def add_values(p):
    for t in p.outnbrs:
        p.total += t.value


@morph.program
def raise_listed(g, some):
    morph.foreach(some, raise_value)
    morph.foreach(g.points, add_values)


def test_a_step_over_a_worklist_sends_what_it_has_changed():
    at, lost = np.arange(600), 100
    g = morph.partition(morph.Graph.from_edges(at, 599 - at, device="cpu"), ["cpu"] * 2)
    g.points.add("value", i32), g.points.add("total", i64)
    some, groups = morph.Collection(g.points), np.zeros(600, bool)
    for changed in ([3, 599], [64, 66, 410]):
        some.clear()
        some.extend(changed)
        for k in range(2):  # what a mirror lost shows whether its row is sent
            g.local(k).points.value[300:] = lost
        raise_listed(g, some)
        assert "by groups of 8" in raise_listed.source()
        groups[:] = False
        for row in changed:
            groups[row - row % 300 % 8 :][:8] = True
        groups[300:304] |= groups[300]  # a group ends with its part
        value = g.points.value[:]
        for k, mirrored in enumerate((slice(300, 600), slice(300))):
            wanted = np.where(groups, value, lost)[mirrored]
            assert np.array_equal(g.local(k).points.value[300:], wanted)


@morph.kernel
def offer_where_degree(p, following):
    for t in p.outnbrs:
        if t.degree > p.least:
            if atomic_min(t.dist, p.offered) > p.offered:
                following.add(t)


@morph.kernel
def offer_always(p):
    for t in p.outnbrs:
        atomic_min(t.dist, p.late)


@morph.program
def offer_conditionally(g, following):
    morph.foreach(g.points, offer_where_degree, following)
    morph.foreach(g.points, offer_always)


def refused_offers(g):
    g.points.add("dist", i32, fill=100)
    g.points.add("late", i32, fill=100)
    g.points.add("offered", i32)
    g.points.add("least", i32)
    g.points.offered[:2], g.points.least[:2] = [1, 5], [10, 0]
    following = morph.Collection(g.points)
    offer_conditionally(g, following)
    return g.points.dist, np.unique(following.items)


def test_an_offer_that_the_owner_refuses_does_not_hide_others():
    g = morph.Graph.from_edges([0, 1, 2, 3], [2, 2, 3, 2], n=4)
    check(refused_offers, g, ["cpu", "cpu"])


@pytest.mark.gpu
@pytest.mark.parametrize("program", [*PROGRAMS, *OTHERS])
@pytest.mark.parametrize("names", ["cuda:0 cuda:1", "cuda:0 cuda:1 cuda:2 cuda:3"])
def test_gpus_execute_programs_together(program, names):
    for by in ("range", "degree"):
        check(program, rmat(), devices_of(names), by)
