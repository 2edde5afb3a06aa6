"""Rows on the host: neighbours, edges, degrees, and the coordinates of vectors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from pretend import pretended

import morph
from morph.prelude import f64, i32, i64

EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0), (2, 0), (0, 1)]
WALKS = ["outnbrs", "innbrs", "nbrs", "outedges", "inedges", "edges"]


def graph(target, directed=True):
    src, dst = np.array(EDGES).T
    return morph.Graph.from_edges(
        src, dst, n=5, device=target, directed=directed, symmetrize=not directed
    )


@morph.kernel
def walk(p, log):
    for t in p.outnbrs:
        log.new(0, p.id, t.id)
    for t in p.innbrs:
        log.new(1, p.id, t.id)
    for t in p.nbrs:
        log.new(2, p.id, t.id)
    for e in p.outedges:
        log.new(3, p.id, e.id)
    for e in p.inedges:
        log.new(4, p.id, e.id)
    for e in p.edges:
        log.new(5, p.id, e.id)
    log.new(6, p.id, p.out_degree * 10000 + p.in_degree * 100 + p.degree)


@morph.kernel
def around(e, log):
    for d in e.nbr1:
        log.new(0, e.id, d.id)
    for d in e.nbr2:
        log.new(1, e.id, d.id)
    for d in e.nbrs:
        log.new(2, e.id, d.id)


def noted(log, kind, row):
    columns = (log.device.to_host(getattr(log, c).array).tolist() for c in ("what", "of", "found"))
    return sorted(x for k, r, x in zip(*columns, strict=True) if (k, r) == (kind, row))


@pytest.mark.parametrize("directed", [True, False])
def test_rows_have_what_kernels_see(target, directed):
    g = graph(target, directed)
    g.edges[1].delete()
    log = morph.Table("log", target, what=i32, of=i32, found=i64)
    morph.foreach(g.points, walk, log)
    for p in g.points:
        for kind, name in enumerate(WALKS):
            found = getattr(p, name)
            table = g.points if name.endswith("nbrs") else g.edges
            assert all(r.table is table for r in found)
            assert sorted(r.id for r in found) == noted(log, kind, p.id), (p, name)
        degrees = p.out_degree * 10000 + p.in_degree * 100 + p.degree
        assert [degrees] == noted(log, 6, p.id) and p.out_degree == g.degree(p)
    log = morph.Table("log", target, what=i32, of=i32, found=i64)
    morph.foreach(g.edges, around, log)
    for e in g.edges:
        for kind, name in enumerate(["nbr1", "nbr2", "nbrs"]):
            assert sorted(d.id for d in getattr(e, name)) == noted(log, kind, e.id)


def test_order_and_what_there_is_not():
    g = graph("cpu")
    g.add_table("others", of=i32)
    g.others.new(of=3)
    assert g.points[0].outnbrs == [1, 2, 1] and 2 in g.points[0].outnbrs
    assert g.points[2].innbrs == [0, 1] and g.points[4].nbrs == []
    for row, name in [(g.points[0], "nbr1"), (g.edges[0], "outnbrs"), (g.others[0], "degree")]:
        with pytest.raises(AttributeError, match="has no column"):
            getattr(row, name)
    g.points.add("degree", i32, fill=7)  # a column comes first
    assert g.points[0].degree == 7


def check_coordinates(device):
    t = morph.Table("t", device, xy=morph.vec(f64, 2), xyz=morph.vec(f64, 3), v=morph.vec(i32, 5))
    t.extend(2)
    row = t[1]
    row.xy.x, row.xy.y, row.xyz.z = 1.5, 2.5, 3.5
    row.v.y += 4
    assert t.device.to_host(t.xy.array).tolist() == [[0, 0], [1.5, 2.5]]
    assert (row.xy.x, row.xyz.z, row.v.x, row.v.y) == (1.5, 3.5, 0, 4)
    with pytest.raises(AttributeError, match="a vector of 2 values has no 'z'|no attribute 'z'"):
        row.xy.z  # noqa: B018
    assert not hasattr(row.xy, "z") and hasattr(row.v, "z")
    assert repr(row.xy) == repr(np.array([1.5, 2.5]))
    assert (np.asarray(row.xy) * 2).tolist() == [3, 5]


def test_coordinates(target):
    check_coordinates(target)


def test_coordinates_on_a_device(monkeypatch):
    check_coordinates(pretended(monkeypatch))


def test_a_vector_is_an_array_still():
    t = morph.Table("t", "cpu", xy=morph.vec(f64, 2))
    t.extend(xy=[[1.0, 2.0]])
    assert isinstance(t[0].xy, np.ndarray) and t[0].xy.base is not None
    assert pickle.loads(pickle.dumps(t[0].xy)).y == 2


@pytest.mark.parametrize("on", ["cpu", "pretended", "parts"])
def test_all_live_rows_are_appended(on, monkeypatch):
    def appended(g, wanted, *first):
        c = morph.Collection(g.points)
        c.extend(np.array(first, np.int64))
        for _ in range(2):  # the second time as a list that was cleared
            c.extend_live()
            assert sorted(np.asarray(morph.device("cpu").to_host(c.items)).tolist()) == wanted
            assert len(c) == len(wanted)
            c.clear()
            c.extend(np.array(first, np.int64))

    if on == "parts":
        return appended(morph.partition(graph("cpu"), ["cpu"] * 2), [0, 1, 2, 3, 4])
    g = graph(pretended(monkeypatch) if on == "pretended" else on)
    appended(g, [0, 1, 2, 3, 4])
    appended(g, [0, 1, 2, 2, 3, 4], 2)
    g.points.delete([1])
    appended(g, [0, 2, 3, 4])
    with_keys = morph.Collection(g.points, key=i64)
    with_keys.extend_live()
    assert with_keys.items.tolist() == [0, 2, 3, 4] and not with_keys.key[:].any()


@pytest.mark.parametrize("sources", [3, [3], [3, 0], np.arange(5)])
def test_sources_of_a_second_call(sources):
    g, fresh = graph("cpu"), graph("cpu")
    morph.bfs(g, 1)  # its columns and lists are used again
    found, right = morph.bfs(g, sources), morph.bfs(fresh, sources)
    assert found.distance.tolist() == right.distance.tolist()
    assert (found.distance[sources] == 0).all() and (found.predecessor[sources] == -1).all()
