"""An interrupt at any place where Python runs signal handlers leaves tables that are consistent.

CPython runs handlers after calls, when a function begins, and at jumps back.  A trace function
raises KeyboardInterrupt at the k-th such place in the package, for many k.
"""

import os
import sys

import numpy as np
import pytest
from interrupting import FOLDER, Interrupts
from targets import host

from morph import Collection, Graph, Ref, Set, foreach, kernel, validate
from morph.data.store import BUDGET, COMMITTED, HEAD
from morph.launch.scratch import scratch
from morph.prelude import i32

FILES = ("device", "cpu/device", "cuda/device", "cuda/small_copies", "transfer")
NAMES = ("data", "graph", "updates", "launch/launcher.py", *(f"runtime/{f}.py" for f in FILES))
MOST = 20 if os.environ.get("CI") else 50  # interrupts of an operation
PLACES = tuple(os.path.join(FOLDER, name) for name in NAMES)


class World:
    """A graph, with references to its rows, some of which are deleted."""

    def __init__(self, loose):
        n = 12
        self.g = g = Graph.from_edges(
            np.arange(n), (np.arange(n) + 1) % n, weight=np.arange(n) + 100, n=n
        )
        g.adjacency("out"), g.adjacency("in")
        g.points.add("tag", i32)
        g.points.tag[:] = np.arange(n)
        g.add_table("things", p=Ref("points"), e=Ref("edges")).extend(3, p=[1, 2, 3], e=[1, 2, -1])
        if loose:
            g.apply(inserts=([0], [5], [50]))
        self.list = Collection(g.points, edge=Ref(g.edges))
        self.list.extend([1, 2, 6], edge=[1, 2, -1])
        self.sets = Set(g.points)
        self.sets.union(1, 2)

    def check(self):
        """Weight 100 + k is that of the edge from tag k to tag k + 1, wherever these are."""
        g = self.g
        locks = (g._lock, scratch(g.device).lock)
        assert not any(lock._is_owned() for lock in locks), "other threads would wait for ever"
        validate.index(g)
        for table in g.tables.values():
            assert table.live == len(table.ids()) and len(table) <= table.capacity
            counters = table._host_meta
            free = counters[COMMITTED] - counters[HEAD] + table.capacity - len(table)
            assert counters[BUDGET] == free
        ids = host(g.edges.ids())
        src, dst, weight = (host(g.edges.columns[c].array)[ids] for c in ("src", "dst", "weight"))
        tag, alive = host(g.points.tag), host(g.points.alive)
        assert alive[src].all() and alive[dst].all()
        ours = (weight >= 100) & (weight < 112)
        assert (tag[src[ours]] == weight[ours] - 100).all()
        assert (tag[dst[ours]] == (weight[ours] - 99) % 12).all()

    def go_on(self):
        """What comes next works on the host and in kernels."""
        g, live = self.g, self.g.edges.live
        first, last = (int(host(g.points.ids())[k]) for k in (0, -1))
        done = g.apply(inserts=([first], [last], [77]))
        assert g.edges.live == live + 1
        g.apply(deletes=done.inserted)
        self.check()
        points = g.points.live
        new = [g.points.new(tag=1000 + k) for k in range(3)]
        self.check()
        foreach(g.points, drop, where=lambda p: p.tag >= 1000)
        assert g.points.live == points and all(row.dead for row in new)
        self.check()
        g.compact()
        self.check()


@kernel
def drop(p):
    p.delete()


@kernel
def grow(p, g):
    q = g.points.new()
    g.edges.new(p, q, i32(5))
    if p.id % 5 == 2:
        p.delete()


@kernel
def cut(e):
    if e.id % 3 == 1:
        e.delete()


def delete_one(world):
    world.g.points.delete([7])


OPERATIONS = {
    "a new point": lambda w: w.g.points.new(tag=50),
    "points": lambda w: w.g.points.extend(40),
    "a new edge": lambda w: w.g.edges.new(1, 2, 30),
    "edges": lambda w: w.g.edges.extend(src=[1, 2], dst=[4, 5], weight=[30, 31]),
    "deleted points": lambda w: w.g.points.delete([4, 7]),
    "deleted edges": lambda w: w.g.edges.delete([4, 7]),
    "compact": lambda w: w.g.compact(),
    "compact points": lambda w: w.g.points.compact(),
    "compact edges": lambda w: w.g.edges.compact(),
    "a batch": lambda w: w.g.apply(inserts=([1], [5], [30]), deletes=[4], delete_points=[8]),
    "deletes": lambda w: w.g.apply(deletes=[4]),
    "an entry": lambda w: w.list.add(5, 3),
    "kernel: points": lambda w: foreach(w.g.points, drop, where=lambda p: p.id % 4 == 3),
    "kernel: both": lambda w: foreach(w.g.points, grow, w.g),
    "kernel: edges": lambda w: foreach(w.g.edges, cut),
}
PREPARED = {"compact": delete_one, "compact points": delete_one,
            "compact edges": lambda w: w.g.edges.delete([5])}  # fmt: skip


@pytest.mark.unchecked
@pytest.mark.skipif(sys.implementation.name != "cpython", reason="instructions of CPython")
@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_tables_are_consistent(name, loose):
    def prepared():
        world = World(loose)
        PREPARED.get(name, lambda w: None)(world)
        return world

    Interrupts(PLACES).run(OPERATIONS[name], prepared())  # what is made once
    whole = Interrupts(PLACES)
    assert not whole.run(OPERATIONS[name], prepared())
    assert whole.count > 50
    for k in range(1, whole.count + 1, max(whole.count // MOST, 1)):
        world = prepared()
        Interrupts(PLACES, k).run(OPERATIONS[name], world)
        try:
            world.check()
            world.go_on()
        except BaseException as error:
            raise AssertionError(f"after an interrupt at place {k} of {whole.count}") from error
