"""Graphs of 2^31 edges or more, whose kernels have 64-bit edge ids: simulated by small ones."""

from contextlib import contextmanager

import numpy as np
import pytest
from targets import everywhere, host

import morph
from morph import Ref, generate
from morph.data.store import Store
from morph.prelude import atomic_add, atomic_max, atomic_min, i64, single


@contextmanager
def wide():
    """Edges count as more than references can denote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_wide", property(lambda s: s.name == "edges" and s.capacity > 0))
        yield


def a_graph(target, **options):
    return generate.rmat(5, 6, weight=(1, 9), seed=2, device=target, **options)


@morph.kernel
def walks(p, g):
    for e in p.outedges:
        p.sum_ += e.id * 3 + e.weight
        for d in e.nbr1:
            p.sum_ += d.id
    for t in p.outnbrs[1:]:
        p.total += g.weight(p, t)
        atomic_min(t.least, g.edge(p, t).id)
    for t in reversed(p.outnbrs):
        if t.id > 3:
            p.sum_ += 5
            break
    if g.edge(p, g.points[0]) is not None:
        p.found = g.edge(p, g.points[0]).id


@morph.kernel
def mark_edges(e, g):
    e.mark = e.src.id - e.dst.id + e.id
    atomic_add(g.points[0].total, e.mark)


@morph.kernel
def loop_over_edges(p, g):
    for e in g.edges:
        if e.dst == p:
            p.total += e.id


@morph.program
def both(g):
    morph.foreach(g.points, walks, g)
    morph.foreach(g.edges, mark_edges, g)
    morph.foreach(g.points, loop_over_edges, g)


def columns_of(target):
    g = a_graph(target)
    for name in ("sum_", "total", "least", "found"):
        g.points.add(name, i64, fill=1000 if name == "least" else 0)
    g.edges.add("mark", i64)
    both(g)
    return [host(getattr(g.points, c)[:]).tolist() for c in ("sum_", "total", "least", "found")] + [
        host(g.edges.mark[:]).tolist()
    ]


@pytest.mark.parametrize("target", ["cpu", "python", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_programs(target):
    (expected, *_) = everywhere("cpu", lambda: columns_of("cpu"))
    with wide():
        for found in everywhere(target, lambda: columns_of(target)):
            assert found == expected
        with morph.checked():
            assert columns_of(target) == expected


def results(target):
    g = a_graph(target)
    found = [f(g) for f in (morph.bfs, morph.sssp, morph.pagerank, morph.core_number)]
    return [host(x[0]).tolist() for x in found]


@morph.kernel
def weigh(p, e):
    p.sum_ += e.weight + e.id


def test_an_edge_as_an_argument():
    with wide():
        g = a_graph("cpu")
        g.points.add("sum_", i64)
        morph.foreach(g.points, weigh, g.edges[7])
        assert (g.points.sum_[:] == g.edges.weight[7] + 7).all()


@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_algorithms(target):
    expected = results("cpu")
    with wide():
        found = results(target)
    assert found[:2] + found[3:] == expected[:2] + expected[3:]
    assert np.allclose(found[2], expected[2], rtol=1e-12)


def test_the_text_has_wide_numbers_of_edges_alone():
    g = a_graph("cpu")
    g.points.add("sum_", i64)
    morph.foreach(g.points, copied)
    plain = copied.source()
    with wide():
        h = a_graph("cpu")
        h.points.add("sum_", i64)
        morph.foreach(h.points, copied)
        text = copied.source()
    assert "i64 e" in text and "i64 e" not in plain and "i32 p" in text


@morph.kernel
def copied(p):
    for e in p.outedges:
        p.sum_ += e.id


@morph.kernel
def delete(e):
    e.delete()


@morph.kernel
def lock(e):
    if single(e):
        e.weight += 1


@morph.kernel
def claim(e, g):
    ends = g.points.local(2)
    ends.add(e.src)
    ends.add(e.dst)
    if single(ends):
        e.weight += 1


@morph.kernel
def insert(p, g):
    g.edges.new(p, p)


@morph.kernel
def count_beyond(p, g, found):
    for e in p.outedges:
        if e.id >= 2**31:
            atomic_add(found[0].number, 1)
            atomic_max(found[0].largest, e.id)


@pytest.mark.gpu
def test_a_graph_that_is_so_large():
    free, _ = morph.device("cuda").xp.cuda.runtime.memGetInfo()
    if free < 90e9:
        pytest.skip("needs 83 GB of GPU memory: run it alone")
    g = generate.rmat(27, device="cuda")
    xp, n, m, part = g.device.xp, len(g.points), len(g.edges), 1 << 27
    src, dst, offsets = g.edges.src.array, g.edges.dst.array, g.adjacency()[0]
    assert m > 2**31 and int(offsets[-1]) == m
    for start in range(0, m - 1, part):
        keys = src[start : start + part + 1].astype(np.int64) << 32 | dst[start : start + part + 1]
        assert (keys[1:] > keys[:-1]).all()
    found = morph.Table("found", "cuda", number=i64, largest=i64)
    found.extend(1)
    morph.foreach(g.points, count_beyond, g, found)
    assert (int(found.number[0]), int(found.largest[0])) == (m - 2**31, m - 1)

    distance, rank = morph.bfs(g).distance, morph.pagerank(g).rank
    nearest, got = xp.full(n, 2**30, np.int32), xp.zeros(n)
    share = rank / xp.maximum(g.degree(), 1)
    for start in range(0, m, part):
        u, v = src[start : start + part], dst[start : start + part]
        assert ((distance[u] < 0) == (distance[v] < 0)).all()
        assert (abs(distance[u] - distance[v]) <= 1).all()
        xp.minimum.at(nearest, u, xp.where(distance[v] < 0, 2**30, distance[v]))
        xp.add.at(got, v, share[u])
    reached = distance > 0
    assert (nearest[reached] == distance[reached] - 1).all()
    lost = rank[g.degree() == 0].sum() / n
    assert float(abs(0.15 / n + 0.85 * (got + lost) - rank).sum()) < 1e-5


def test_refused():
    with wide():
        g = a_graph("cpu")
        with pytest.raises(ValueError, match="edges has .* rows: at most 2147483647 rows are poss"):
            g.apply(deletes=[0])
        for call in (
            lambda: g.points[0].delete(),
            lambda: g.edges.new(src=0, dst=1),
            lambda: g.sort_edges(),
            lambda: g.compact(),
            lambda: morph.foreach(g.edges, delete),
            lambda: morph.foreach(g.points, insert, g),
        ):
            with pytest.raises(ValueError, match="at most 2147483647 rows are possible"):
                call()
        with pytest.raises(ValueError, match="are possible with locks or deletion"):
            morph.foreach(g.edges, lock)
        with pytest.raises(ValueError, match="are possible in kernels with single.collection"):
            morph.foreach(g.edges, claim, g)
        with pytest.raises(ValueError, match="are possible where collection.item refers to them"):
            morph.foreach(morph.Collection(g.edges), copied)
        g.points.add("edge", Ref("edges"))
        with pytest.raises(ValueError, match="are possible where points.edge refers to them"):
            morph.foreach(g.points, copied)
        directed = a_graph("cpu", directed=True)
        with pytest.raises(ValueError, match="are possible in an index of in-edges"):
            directed.adjacency("in")
