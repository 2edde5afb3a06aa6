"""Programs that change points and edges and traverse the rebuilt adjacency in one launch."""

from __future__ import annotations

import contextlib
import runpy
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sm90 import compile_one
from targets import host

import morph
from morph.compiler.codegen.unit import entry, prelude_of, source
from morph.prelude import atomic_add, bool_, i64
from morph.testing import fail_allocation, team

DEVICES = ["python", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
EXAMPLES = Path(__file__).parents[2] / "examples"
contract_all = runpy.run_path(str(EXAMPLES / "contract.py"))["contract_all"]
on_each_device = pytest.mark.parametrize("target", DEVICES)  # Hypothesis takes no fixture


@morph.kernel
def peel(e, least, again):
    u, v = e.src, e.dst
    common = 0
    for t in u.outnbrs:
        if t in v.outnbrs:
            common += 1
    if common < least:
        e.delete()
        again.set()


@morph.program
def truss(g, k, again):
    rounds = 0
    while again.take():
        morph.foreach(g.edges, peel, k - 2, again)
        rounds += 1
    return rounds


def raised(g):
    flag = morph.Flag(g)
    flag.set()
    return flag


def edges_of(g):
    """Source, destination and weight of the live edges, sorted, ends by their tags."""
    tag = host(g.points.tag[:]) if "tag" in g.points.columns else np.arange(len(g.points))
    src, dst, weight = map(host, g.edge_list())
    return sorted(zip(tag[src].tolist(), tag[dst].tolist(), weight.tolist(), strict=True))


def network(ends, weight, device, directed=False):
    src, dst = np.array(ends, np.int32).reshape(-1, 2).T.copy()
    return morph.Graph.from_edges(
        src, dst, weight=weight, symmetrize=True, directed=directed, device=device
    )


@st.composite
def roads(draw):
    """Edges of a simple graph with bends: towns and, between them, paths."""
    towns = draw(st.integers(2, 5))
    pairs = [(u, v) for u in range(towns) for v in range(u)]
    ends, n = [], towns
    for u, v in draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1)):
        bends = draw(st.integers(0, 5))
        path = [u, *range(n, n + bends), v]
        ends += zip(path, path[1:], strict=False)
        n += bends
    return ends, draw(st.lists(st.integers(1, 9), min_size=len(ends), max_size=len(ends)))


@on_each_device
@pytest.mark.parametrize("directed", [False, True])
@given(given=roads())
def test_contraction_keeps_distances(target, directed, given):
    ends, weight = given
    g = network(ends, np.array(weight, np.int64), target, directed)
    g.points.add("old", bool_)
    with team(2):
        contract_all(g, raised(g))
    morph.validate.index(g)
    left = nx.DiGraph()
    left.add_nodes_from(range(len(g.points)))
    for u, v, w in edges_of(g):  # of parallel edges the shortest
        left.add_edge(u, v, weight=min(w, left.get_edge_data(u, v, {"weight": w})["weight"]))
    before = nx.Graph()
    before.add_nodes_from(range(len(g.points)))
    before.add_weighted_edges_from((u, v, w) for (u, v), w in zip(ends, weight, strict=True))
    alive = np.flatnonzero(host(g.points.alive)) if g.points.deletes else range(len(g.points))
    wanted = dict(nx.all_pairs_dijkstra_path_length(before))
    found = dict(nx.all_pairs_dijkstra_path_length(left))
    for u in alive:
        assert found[u] == {v: far for v, far in wanted[u].items() if v in alive}
    out = host(g.adjacency()[0])
    neighbours = [set(left.successors(u)) for u in alive]
    assert all(out[u + 1] - out[u] != 2 or len(neighbours[k]) < 2 for k, u in enumerate(alive))


simple = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda e: e[0] < e[1]),
                 min_size=1)  # fmt: skip


@on_each_device
@given(ends=simple, k=st.integers(2, 5))
def test_peeling_gives_the_truss(target, ends, k):
    g = network(sorted(ends), np.ones(len(ends), np.int64), target)
    with team(2):
        truss(g, k, raised(g))
    morph.validate.index(g)
    whole = nx.k_truss(nx.Graph(sorted(ends)), k)
    assert {(u, v) for u, v, _ in edges_of(g) if u < v} == {tuple(sorted(e)) for e in whole.edges}
    assert g.edges.live == 2 * whole.number_of_edges()


# --- any change, by hashes of what does not depend on the device ----------------------------------


@morph.func
def mix(a, b):
    return ((a * 2654435761 + b * 40503 + 977) >> 5) % 1009


@morph.kernel
def see(p, g, stamp):
    """Sum up what the adjacency has at a point."""
    seen = 31 * p.out_degree + 37 * p.in_degree
    for t in p.outnbrs:
        seen += mix(t.tag, g.weight(p, t)) + 41 * t.in_degree
    for t in p.innbrs:
        seen += 43 * mix(t.tag, stamp)
    p.seen = p.seen * 7 + seen


@morph.kernel
def cut(e, stamp):
    if mix(e.weight, stamp) % 5 == 0:
        e.delete()


@morph.kernel
def join(p, g, stamp, limit):
    """Create edges at some points: to the far end of their edges, and parallel ones."""
    for t in p.outnbrs:
        w = mix(t.tag * 1009 + p.tag, stamp)
        if w % limit == 0:
            g.edges.new(t, p, w)


@morph.kernel
def split(p, g, stamp):
    """One point makes another, with edges to its own neighbours."""
    q = g.points.new(tag=1000 + stamp)
    for t in p.outnbrs:
        g.edges.new(q, t, mix(t.tag, stamp))
    g.edges.new(p, q, stamp)


@morph.kernel
def die(p, stamp):
    if mix(p.tag, stamp) % 7 == 0:
        p.delete()


@morph.program
def change(g, rounds):
    stamp = 0
    while stamp < rounds:
        morph.foreach(g.points, see, g, stamp)
        morph.foreach(g.edges, cut, stamp)
        morph.foreach(g.points, join, g, stamp, 3)
        morph.foreach(g.points, see, g, stamp)
        morph.foreach(g.points, split, g, stamp, where=lambda p: p.tag == stamp)
        morph.foreach(g.points, die, stamp)
        stamp += 1
    morph.foreach(g.points, see, g, stamp)


def changing(ends, device, pack=False, directed=True):
    src, dst = np.array(ends, np.int32).reshape(-1, 2).T.copy()
    g = morph.Graph.from_edges(
        src, dst, n=12, weight=np.arange(src.size), device=device, directed=directed
    )
    if pack:
        g.edges.pack("src", "dst", "weight")
    g.points.add("tag", i64)
    g.points.tag[:] = np.arange(12)
    g.points.add("seen", i64)
    return g


def state(g):
    morph.validate.index(g)
    ids = host(g.points.ids())
    tag, seen = (host(c[:])[ids].tolist() for c in (g.points.tag, g.points.seen))
    return sorted(zip(tag, seen, strict=True)), edges_of(g)


arcs = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40)


@on_each_device
@given(ends=arcs, rounds=st.integers(1, 5), threads=st.integers(1, 3), pack=st.booleans())
def test_any_change(target, ends, rounds, threads, pack):
    with team(1):
        wanted = changing(ends, "cpu")
        change.eager(wanted, rounds)
    with team(threads):
        g = changing(ends, target, pack)
        change(g, rounds)
    assert state(g) == state(wanted)
    with team(1):
        change.eager(wanted, 2)
    with team(threads):
        change(g, 2)  # in the arrays of the first launch
    assert state(g) == state(wanted)


ENDS = [(int(a), int(b)) for a, b in np.random.default_rng(3).integers(0, 12, (30, 2))]


def test_rows_are_in_order_of_ids(target):
    with team(3):
        g = changing(ENDS, target)
        change(g, 3)
    for direction in ("out", "in"):
        offsets, ids = map(host, g.adjacency(direction))
        near = host((g.edges.src if direction == "out" else g.edges.dst)[:])
        alive = host(g.edges.ids())
        keep = alive[np.argsort(near[alive], kind="stable")]
        assert ids.tolist() == keep.tolist()
        count = np.bincount(near[alive], minlength=len(g.points))
        assert np.diff(offsets).tolist() == count.tolist()


@pytest.mark.unchecked
def test_it_is_one_launch():
    g = changing(ENDS, "cpu")
    change(g, 3)
    assert "rebuild_adjacency(a, t, a.g_rebuild)" in change.source()
    launches = morph.launch.scratch.scratch(g.device).launches
    change(g, 1)
    assert morph.launch.scratch.scratch(g.device).launches == launches + 1


@pytest.mark.nvrtc
@pytest.mark.unchecked
def test_it_compiles_for_sm_90():
    change(changing(ENDS, "cpu"), 1)
    unit = next(iter(change.launches.values())).compiled.unit
    assert compile_one(prelude_of(unit) + source(unit), entry(unit))


def test_every_allocation_can_fail(target):
    with team(2):
        wanted = changing(ENDS, target)
        change(wanted, 2)
        for n in range(1, 1000):
            g = changing(ENDS, target)
            with fail_allocation(n, target) as fault:
                change(g, 2)
            assert state(g) == state(wanted), n
            if not fault.fired:
                break
        else:
            raise AssertionError("it never ends")


@pytest.mark.parametrize("before", ["apply", "sort", "points", "compact", "nothing"])
def test_whatever_the_adjacency_was(target, before):
    def prepared(device):
        g = changing(ENDS, device)
        if before == "apply":
            g.adjacency()
            g.apply(inserts=([0, 3], [5, 5], [100, 101]), deletes=[2, 7])
            assert g.gapped
        elif before == "sort":
            g.sort_edges("weight")
        elif before == "points":
            g.points[3].delete()
        elif before == "compact":
            g.edges[5].delete()
            g.compact()
        return g

    wanted, g = prepared("cpu"), prepared(target)
    change.eager(wanted, 3)
    change(g, 3)
    assert state(g) == state(wanted)
    for x in (wanted, g):  # the host goes on from there
        x.edges[int(host(x.edges.ids())[0])].delete()
        x.edges.new(int(host(x.points.ids())[0]), int(host(x.points.ids())[1]), 5)
        morph.validate.index(x)

    morph.validate.index(g)


def test_reuse_keeps_the_tables_small(target):
    """Each round replaces all edges; rows deleted before the last rebuild are used again."""

    @morph.kernel
    def renew(e, g):
        g.edges.new(e.dst, e.src, e.weight)
        e.delete()

    @morph.kernel
    def count(p, total):
        for _t in p.outnbrs:
            atomic_add(total[0].n, 1)

    @morph.program
    def turn(g, total, rounds):
        while rounds > 0:
            morph.foreach(g.edges, renew, g)
            morph.foreach(g.points, count, total)
            rounds -= 1

    rounds = 20 if target == "python" else 200
    g, total = changing(ENDS, target), morph.Table("total", target, n=i64)
    total.extend(1)
    before = edges_of(g)
    turn(g, total, rounds)
    assert int(total.n[0]) == rounds * len(ENDS)
    assert g.edges.capacity < 20 * len(ENDS)
    morph.validate.index(g)
    assert edges_of(g) == before


def test_edges_at_points_deleted_before(target):
    """An edge that a step creates at a point deleted in an earlier one is deleted."""

    @morph.kernel
    def attach(p, g):
        if p.id == 1:
            g.edges.new(p, g.points[0], 5)
            g.edges.new(g.points[2], p, 6)

    @morph.kernel
    def remove(p):
        if p.id == 0:
            p.delete()

    @morph.kernel
    def measure(p):
        p.seen = p.out_degree

    @morph.program
    def both(g):
        morph.foreach(g.points, remove)
        morph.foreach(g.points, attach, g)
        morph.foreach(g.points, measure)

    g = changing([(0, 1), (1, 2)], target)
    both(g)
    assert g.edges.live == 2 and host(g.points.seen[:])[1:4].tolist() == [1, 1, 0]
    morph.validate.index(g)


def test_ends_that_move(target):
    """A program that walks edges whose ends it changes runs launch by launch."""

    @morph.kernel
    def turn_back(e):
        e.dst = e.src

    @morph.kernel
    def look(p):
        for _q in p.innbrs:
            p.seen += 1

    @morph.program
    def both(g):
        morph.foreach(g.edges, turn_back)
        morph.foreach(g.points, look)

    g = changing([(0, 1), (1, 1), (2, 1)], target)
    both(g)
    assert host(g.points.seen[:])[:3].tolist() == [1, 1, 1]
    with contextlib.suppress(ValueError):
        both.source()
        raise AssertionError("it was one launch")


@morph.program
def two_graphs(g, h):
    with morph.sections():
        morph.foreach(g.edges, cut, 1)
        morph.foreach(h.points, join, h, 1, 3)
    morph.foreach(g.points, see, g, 0)
    morph.foreach(h.points, see, h, 0)


@morph.program
def conflicting(g):
    with morph.sections():
        morph.foreach(g.edges, cut, 1)
        morph.foreach(g.points, die, 1)


def test_sections_that_change_two_graphs(target):
    wanted = changing(ENDS, "cpu"), changing(ENDS[::2], "cpu")
    two_graphs.eager(*wanted)
    with team(2):
        found = changing(ENDS, target), changing(ENDS[::2], target)
        two_graphs(*found)
    assert [state(g) for g in found] == [state(g) for g in wanted]
    with pytest.raises(morph.LanguageError, match="section 2 deletes from g.edges"):
        conflicting(changing(ENDS, target))  # a point takes its edges with it


def test_an_error_leaves_a_valid_graph(target, monkeypatch):
    """If memory runs out in a later step, the changes of the earlier ones stay, and are indexed."""
    g = changing(ENDS, target)
    monkeypatch.setattr(type(g.points), "_extend_capacity", refuse)
    with pytest.raises(MemoryError):
        change(g, 4)
    monkeypatch.undo()
    morph.validate.index(g)
    g.edges.new(int(host(g.points.ids())[0]), int(host(g.points.ids())[0]), 3)
    morph.validate.index(g)


def refuse(self, more):
    raise MemoryError("none is left")


@morph.kernel
def reserve_only(p, g, most):
    for t in p.outnbrs:
        if p.tag + t.tag > most:  # for no edge
            g.edges.new(t, p, 1)


@morph.program
def nothing_changes(g, most):
    morph.foreach(g.points, reserve_only, g, most)
    morph.foreach(g.points, see, g, 0)


def test_the_table_grows_but_nothing_changes(target):
    """Capacity is reserved for edges that are not created: the adjacency remains valid."""
    g = changing(ENDS, target)
    nothing_changes(g, 1000)
    morph.validate.index(g)
    g.compact()
    morph.validate.index(g)
    assert g.edge_order.size == len(ENDS)


@morph.kernel
def attach(p, g):
    q = g.points.new()
    g.edges.new(p, q, 1)
    g.edges.new(q, p, 1)


@morph.kernel
def add_neighbours(p, total):
    for t in p.outnbrs:
        atomic_add(total.n, (t.id + 1) * (p.id + 2))


@morph.kernel
def cut_light(e, least):
    if e.weight < least:
        e.delete()


@morph.kernel
def vanish(p):
    if p.degree == 0:
        p.delete()


@morph.program
def grow_twice(g, total):
    step = 0
    while step < 2:
        morph.foreach(g.points, vanish)
        morph.foreach(g.edges, cut_light, step)
        morph.foreach(g.points, attach, g)
        morph.foreach(g.points, add_neighbours, total)
        step += 1
    return total.n


def test_a_sorted_graph_before_one_in_order_of_ids():
    """On the first, packed, the program runs launch by launch; its unit is that of the second."""

    def graph():
        return morph.Graph.from_edges([0, 1], [1, 0], weight=np.array([1, 1]), device="cpu")

    g = graph()
    g.sort_edges("weight")
    for _ in range(2):
        grow_twice(g, morph.Scalars(g, n=0))
        g.compact()
    with team(1):  # ids of new points depend on the order of items
        g, other = graph(), graph()
        found = grow_twice(g, morph.Scalars(g, n=0))
        assert found == grow_twice.eager(other, morph.Scalars(other, n=0))
    morph.validate.index(g)
