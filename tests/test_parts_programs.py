"""Programs on a graph in parts give the results of one device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morph
from morph.prelude import atomic_add, atomic_max, atomic_min, atomic_or, bool_, f64, i32, i64

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
