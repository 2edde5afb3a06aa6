"""Kernels and algorithms on graphs changed by batches, against new graphs of their edges."""

import threading

import numpy as np
import pytest
from batches import Model
from targets import everywhere, host

import morph
from morph import validate
from morph.prelude import atomic_add, i32, i64
from morph.updates import changes

TARGETS = ["python", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def in_place(monkeypatch):
    monkeypatch.setattr(changes, "SHARE", 0)


def pair(target, n=30, m=200, directed=True, seed=0):
    """A changed graph, and one made of the edges that it has."""
    rng = np.random.default_rng(seed)

    def ends(k):
        return (rng.integers(0, n, k) * rng.integers(0, 2, k)).astype(np.int32)

    g = morph.Graph.from_edges(
        ends(m), ends(m), weight=rng.integers(1, 9, m).astype(np.int32), n=n,
        directed=directed, device=target,
    )  # fmt: skip
    g.adjacency("out")
    if directed:
        g.adjacency("in")
    for _ in range(2):
        ids = g.device.to_host(g.edges.ids())
        more = ends(m // 2), ends(m // 2), rng.integers(1, 9, m // 2).astype(np.int32)
        g.apply(more, rng.choice(ids, m // 4, replace=False))
    assert g.gapped
    src, dst, weight = (host(a) for a in g.edge_list())
    h = morph.Graph.from_edges(src, dst, weight=weight, n=n, symmetric=not directed, device=target)
    return g, h


@morph.kernel
def look(p, g):
    for t in p.outnbrs:
        p.reach += i64(t.id) * g.weight(p, t)
    for t in p.innbrs:
        p.reach += 3 * t.id
        atomic_add(t.given, 1)
    for t in p.nbrs:
        p.reach += 5 * t.id
    for e in p.outedges:
        p.reach += 7 * e.weight + i64(e.dst.id)
    for e in p.inedges:
        p.reach += 11 * e.weight + i64(e.src.id)
    if g.edge(p, g.points[0]) is not None:
        p.found = True
    p.reach += 13 * p.out_degree + 17 * p.in_degree


@morph.kernel
def skip(p):
    count = i32(0)
    for _t in reversed(p.outnbrs)[1:]:
        count += 1
    p.given = count


@morph.kernel
def pull(p, g):
    total = i64(0)
    for t in p.innbrs:
        total += t.id
    p.reach = total
    p.given = i32(p.in_degree)


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_see_the_edges(target):
    def run():
        found = []
        for g in pair(target):
            for name, kind in (("reach", i64), ("given", i32), ("found", np.bool_)):
                g.points.add(name, kind)
            columns = [g.points.reach, g.points.given, g.points.found]
            morph.foreach(g.points, look, g)
            found.append([host(c).tolist() for c in columns])
            morph.foreach(g.points, skip)
            morph.foreach(g.points, pull, g, balance="grid")
            found[-1] += [host(c).tolist() for c in columns]
        assert found[0] == found[1]

    everywhere(target, run)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("directed", [True, False])
def test_algorithms_are_right(target, directed):
    g, h = pair(target, directed=directed)
    levels, paths, ranks = morph.bfs(g, 0), morph.sssp(g, 0), morph.pagerank(g)
    validate.bfs(g, levels.distance)
    validate.sssp(g, paths.distance)
    validate.pagerank(g, ranks.rank, tolerance=1e-8)
    assert host(levels.distance).tolist() == host(morph.bfs(h, 0).distance).tolist()
    assert host(paths.distance).tolist() == host(morph.sssp(h, 0).distance).tolist()
    if not directed:
        validate.connected_components(g, morph.connected_components(g).label)


@pytest.mark.parametrize("target", TARGETS[:2])
def test_kernels_that_change_edges_themselves(target):
    @morph.kernel
    def bend(e, g):
        if e.weight > 5:
            e.delete()
        elif e.weight > 3:
            g.edges.new(e.dst, e.src, weight=1)

    g, _ = pair(target, 9, 24)
    morph.foreach(g.edges, bend, g)
    validate.index(g)
    g.apply(([1, 2], [2, 1], [1, 1]), (3, 4))
    validate.index(g)
    assert g.gapped


@pytest.mark.parametrize("target", TARGETS[1:])
def test_points_that_come(target):
    g, _ = pair(target, 9, 24)
    first = g.points.extend(40)
    assert g.gapped and first == 9
    g.apply(([first, 3, first + 39], [4, first + 39, first], [1, 1, 1]))
    validate.index(g)
    g.apply(delete_points=[first, 3])
    validate.index(g)
    assert int(g.points.new()) in (3, first) and g.gapped  # again; it has no edges
    validate.index(g)
    g.points.delete(5)  # its edges live, but are in no row, until it comes back
    validate.index(g)
    g.apply(([0], [1], [1]), [0])
    for _ in range(2):
        assert g.points.new() in (3, 5, first)
        validate.index(g)
    assert int(morph.bfs(g, first + 39).distance[first + 39]) == 0


def test_a_graph_that_is_copied_or_sorted_or_compacted():
    g, _ = pair("cpu", 9, 24)
    copy = g.snapshot()
    before = Model(g).edges
    g.apply(deletes=g.edges.ids()[:5])
    assert Model(copy).edges == before
    validate.index(copy)
    copy.sort_edges("weight")
    copy.apply(([1], [2], [0]))
    assert not copy.gapped and copy.edge(1, 2).weight == 0
    assert sum(g.degree(p) for p in range(9)) == g.edges.live == int(g.degree().sum())
    g.sort_edges("weight")
    assert not g.gapped
    validate.index(g)
    g.sort_edges(None)
    g.adjacency("out"), g.apply(([1, 0], [2, 2], [0, 7]))
    kept = list(zip(*(a.tolist() for a in g.edge_list()), strict=True))
    assert g.gapped and (1, 2, g.edge(1, 2).weight) in kept
    g.compact()
    now = [g.edges.src.array, g.edges.dst.array, g.edges.weight.array]
    assert list(zip(*(a.tolist() for a in now), strict=True)) == sorted(kept, key=lambda e: e[0])
    assert g.out_identity and not g.gapped
    validate.index(g)


@pytest.mark.parametrize("target", TARGETS)
def test_a_reader_keeps_the_version_that_it_holds(target):
    """While batches are applied, too: from the thread that does it and from another."""
    g, _ = pair(target, 9, 24)
    rng = np.random.default_rng(1)

    def answers(reader):
        found = [morph.bfs(reader, 0).distance, morph.sssp(reader, 0).distance]
        found += [*reader.edge_list(), *reader.adjacency("in")]
        return [host(a).tolist() for a in found], host(reader.degree()).tolist()

    for _ in range(2):
        readers = [g.snapshot(), g.snapshot()]
        want, same, stop = answers(readers[0]), [], threading.Event()

        def read(want=want, same=same, reader=readers[1]):
            same.append(answers(reader) == want)

        def go_on(read=read, stop=stop):
            while not stop.is_set():
                read()

        other = threading.Thread(target=go_on if target == "cpu" else read)
        other.start()
        for k in range(6):
            ids = rng.choice(host(g.edges.ids()), 3, replace=False).astype(np.int32)
            g.apply((*rng.integers(0, 4, (2, 30)), 1), ids[:2], (ids[2:], [k]),
                    then=lambda _, want=want, same=same, reader=readers[0]:
                    same.append(answers(reader) == want))  # fmt: skip
        stop.set()
        other.join()
        g.apply(delete_points=[len(host(g.points.ids())) - 1])
        g.compact()
        assert len(same) >= 7 and all(same) and answers(readers[0]) == want
        validate.index(readers[0])


def test_what_is_written_in_the_callback_of_a_batch_stays():
    """All but the weights that the batch has set."""
    g, _ = pair("cpu", 9, 24)
    a, b = g.edges.ids()[:2].tolist()
    old = g.edges.weight[:].tolist()

    def writes(applied):
        g.edges.weight[[a, b]] = 77
        raise MemoryError

    with pytest.raises(MemoryError):
        g.apply(updates=([a], [50]), then=writes)
    old[b] = 77
    assert g.edges.weight[:].tolist() == old
    g.apply(updates=([a], [50]), then=lambda _: g.edges.weight.__setitem__(b, 3))
    assert (g.edges.weight[a], g.edges.weight[b]) == (50, 3)
    validate.index(g)


@morph.kernel
def follow(p):
    for t in p.outnbrs:
        p.reach += t.id + 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_known_launch_notices_how_rows_are_held(target):
    """Packed with ids, gapped, packed again: the same launch, whatever batch came before."""
    g = morph.Graph.from_edges([0, 0, 1, 2, 2], [1, 2, 2, 0, 3], n=4, device=target)
    g.points.add("reach", i64)

    def reached():
        g.points.reach[:] = 0
        morph.foreach(g.points, follow)
        return host(g.points.reach).tolist()

    assert reached() == [5, 3, 5, 0]
    g.edges[1].delete()
    for gone in (0, 3):  # twice: the compiler's input is compared, then known
        g.edges[gone].delete()
        reached()
    assert reached() == [0, 3, 4, 0]
    g.apply(([3, 3], [0, 1]))
    assert g.gapped
    assert reached() == [0, 3, 4, 3]
    g.compact()
    assert not g.gapped
    assert reached() == [0, 3, 4, 3]
