"""Columns and arrays that algorithms keep on a graph for their next call."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from targets import host

import morph
from morph.algorithms.graph import bfs, mst, sssp
from morph.launch.launcher import Launch
from morph.prelude import i32
from morph.runtime.cpu.device import HostDevice

WHERE = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
FILL = {"dist": (i32, 7)}


def path(where, n=6):
    ids = np.arange(n - 1, dtype=np.int32)
    weight = np.ones(n - 1, np.int32)
    return morph.Graph.from_edges(ids, ids + 1, weight=weight, symmetrize=True, device=where)


def levels(g, source=0):
    ends = host(g.edges.src), host(g.edges.dst)
    n = len(g.points)
    m = csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    found = shortest_path(m, indices=source, unweighted=True)
    return np.where(np.isfinite(found), found, -1).astype(int).tolist()


@pytest.mark.parametrize("where", WHERE)
def test_columns_come_back_as_they_were(where):
    g = path(where)
    lent = g.points.temporary_columns(**FILL)
    assert not lent.fits()
    with lent:
        there = g.points.version
        address = g.points.address("column", "dist")
        g.points.dist[2] = 5
    gone = g.points.version
    assert "dist" not in g.points.columns and lent.fits()
    with lent:
        assert (g.points.version, g.points.address("column", "dist")) == (there, address)
        assert host(g.points.dist).tolist() == [7] * 6
    assert g.points.version == gone


@pytest.mark.parametrize("where", WHERE)
def test_columns_that_do_not_fit_are_replaced(where):
    g = path(where)
    lent = g.points.temporary_columns(**FILL)
    with lent:
        g.points.extend(20)  # they move
    assert not lent.fits() and "dist" not in g.points.columns
    with lent:
        assert host(g.points.dist).tolist() == [7] * 26
    g.points.add("dist", i32, fill=3)
    assert not lent.fits()
    with lent:
        assert host(g.points.dist).tolist() == [7] * 26
    assert host(g.points.dist).tolist() == [3] * 26


@pytest.mark.parametrize("where", WHERE)
def test_a_second_call_binds_nothing_again(where):
    g = path(where)
    for source in (0, 3, 0):
        found = morph.bfs(g, source)
        assert host(found.distance).tolist() == levels(g, source)
        launches = list(bfs.search.launches.values())
    morph.bfs(g, 1)
    assert list(bfs.search.launches.values()) == launches


@pytest.mark.parametrize("where", WHERE)
def test_columns_of_the_user_with_the_same_names_cost_no_binding(where, monkeypatch):
    g = path(where)
    g.points.add("dist", i32, fill=3)
    g.points.add("last", i32, fill=4)
    first = morph.bfs(g, 0)
    column, version, names = g.points.columns["dist"], g.points.version, [*g.points.columns]
    monkeypatch.setattr(Launch, "_write_objects", None)  # writes the addresses of a launch
    for source in (0, 2):
        assert host(morph.bfs(g, source).distance).tolist() == levels(g, source)
        assert g.points.columns["dist"] is column and column.name == "dist"
        assert (g.points.version, [*g.points.columns]) == (version, names)
        assert host(g.points.dist).tolist() == [3] * 6
    monkeypatch.undo()
    g.points.dist[:] = 5
    g.points.extend(1)  # the columns do not fit any more
    assert host(morph.bfs(g, 0).distance).tolist() == [*host(first.distance).tolist(), -1]
    assert host(g.points.dist).tolist() == [5] * 6 + [3] and [*g.points.columns] == names


@pytest.mark.parametrize("where", WHERE)
def test_what_is_kept_follows_a_graph_that_changes(where):
    g = path(where)
    solve = morph.bfs, morph.connected_components, morph.core_number
    for step in range(4):
        for f in solve:
            f(g), f(g)
        morph.sssp(g), morph.mst(g), morph.sssp(g)
        assert host(morph.bfs(g, 0).distance).tolist() == levels(g)
        assert "dist" not in g.points.columns or step > 2
        first = len(g.points)
        g.points.extend(3)
        ends = [0, first, first, first + 1]
        g.edges.extend(4, src=ends, dst=[ends[k ^ 1] for k in range(4)], weight=1)
        if step == 1:
            g.compact()
        if step == 2:
            g.points.add("dist", i32, fill=9)
    assert (host(g.points.dist)[:15] == 9).all()


@pytest.mark.parametrize("where", WHERE)
def test_a_call_that_fails_keeps_nothing(where):
    g = path(where)
    morph.bfs(g)
    with pytest.raises(ValueError, match="not a vertex"):
        morph.bfs(g, 99)
    with pytest.raises(ZeroDivisionError), g.points.temporary_columns(**FILL):
        raise ZeroDivisionError
    assert not g.points.columns
    assert host(morph.bfs(g, 5).distance).tolist() == [5, 4, 3, 2, 1, 0]


def test_what_is_kept_names_no_rows_that_are_gone():
    g = path("cpu")
    g.points.extend(6)
    morph.sssp(g, [0, 11], targets=[2, 11])
    g.points.truncate(6)
    g.points.delete([5])
    g.compact()
    assert len(g.points) == 5


@pytest.mark.parametrize("last", [0, 1, 2])
def test_columns_for_which_there_is_no_memory_leave_nothing(last, monkeypatch):
    g, buffer, calls = path("cpu"), HostDevice.buffer, []
    for name in ("dist", "step"):
        g.points.add(name, i32, fill=3)

    def full(device, nbytes):
        calls.append(nbytes)
        if len(calls) > last:
            raise MemoryError
        return buffer(device, nbytes)

    monkeypatch.setattr(HostDevice, "buffer", full)
    monkeypatch.setattr(sys.modules["morph.runtime.device"], "SHARED_BYTES", 0)  # one by one
    with pytest.raises(MemoryError):
        morph.bfs(g)
    calls.clear()
    with (
        pytest.raises(MemoryError),
        g.points.temporary_columns(dist=(i32, 1), other=(i32, 2), step=(i32, 4)),
    ):
        pass
    assert list(g.points.columns) == ["dist", "step"]
    assert (g.points.dist[0], g.points.step[5]) == (3, 3)


def test_threads_take_turns_on_a_graph():
    g, found = path("cpu"), []
    other = threading.Thread(target=lambda: found.append(morph.bfs(g, 5)))
    with g._lock, g.points.temporary_columns(**FILL):
        other.start()
        other.join(0.1)
        assert not found and list(g.points.columns) == ["dist"]
    other.join(600)
    assert found[0].distance.tolist() == [5, 4, 3, 2, 1, 0] and not g.points.columns


@pytest.mark.unchecked  # it quotes generated text
def test_rows_of_an_entry_that_wait():
    """An add whose index is not used is enqueued; a warp combines its adds."""
    morph.bfs(path("cpu"))
    made = bfs.search.source()
    assert "BATCHED = true" in made and "stage(a, it, it." in made
    assert "flush_buffer<" in made and "BLOCKS = 2 }" in made  # of a multiprocessor
    morph.sssp(path("cpu"))
    assert "i32 weight_preloaded_" in sssp.search.source()
    morph.mst(path("cpu"))
    assert "BLOCKS = 4 }" in mst.boruvka.source()
