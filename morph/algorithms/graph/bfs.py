"""Breadth-first search: the number of edges on a shortest path from a source to every point.

Level by level on two worklists that are swapped: the points of a level lower those of their
neighbours that are farther, and whoever lowers a point first adds it to the next level
(Unnikrishnan et al., Falcon, figure 36).  Where edges are held both ways and the level has many of
them, the points not yet found look for a neighbour in it instead, and stop at the first (Beamer,
Asanovic, Patterson, SC 2012); they look at a byte a point, and nobody is listed until points push
again.  A deep graph has small levels, and each would wait for the one
before: there several are run at once, in any order (``ahead``), until all up to the last of them
are exact; what was added to that one is the next worklist.  Where predecessors do not fit then, a
last pass over the edges finds them.  One launch for all of it.  Work O(n + m), often less than m.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.temporary import of_graph, source_ids, workspace
from morph.data.collection import Collection, Flag
from morph.data.conversion import number
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_add, atomic_min, i32, i64, u8, u32

FAR = 2**32 - 1  # read as a signed number -1, which the result says
NONE = 2**31 - 1  # no path has as many edges
UNFOUND = 14  # points not yet found look themselves if the level has a 14th of their edges
SMALL = 256  # a level of fewer than a 256th of all points does not ask for its edges
DEEP = 32  # levels that are run one by one; then only those are
WIDE = 32  # that have more than a 32nd of all points, and of others
AT_ONCE = 32  # as many run at once
UNSEEN = 255  # the byte of a point that is not found; else its level, up to DEEP


class Search(NamedTuple):
    """What a search works with beside its worklists, as one argument."""

    graph: Any
    found: Any  # one row: how many edges, and how many points that looked themselves
    conflict: Any  # raised if a parent is none
    both: bool  # whether the graph holds edges both ways


class Bfs(NamedTuple):
    """Result of `bfs`: ``distance`` and ``predecessor``, shape (n,), int32; ``levels``, an int."""

    distance: Any
    predecessor: Any
    levels: int


@kernel
def push(p, level, step, then, found):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            t.predecessor = p.id
            t.step = step
            then.add(t)
            atomic_add(found[0].edges, t.out_degree)


@kernel
def pull(p, level, step, found):
    before = None
    for t in p.outnbrs:
        if t.step < step:
            before = t
            break
    if before is not None:
        p.dist = level
        p.step = step  # race: to those that read it now, `step` and "not reached" mean the same
        p.predecessor = before.id
        atomic_add(found[0].points, 1)
        atomic_add(found[0].edges, p.out_degree)


@kernel
def build_frontier(p, now):
    now.add(p)


@kernel
def mark_visited(p):
    p.step = u8(0)


@kernel
def lower(p, limit, then, far):
    level = p.dist + 1
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            # race: the last writer may not be the last to lower it; `check_parent` finds these
            t.predecessor = p.id
            if level < limit:
                then.add(t)
            else:
                far.add(t)


@kernel
def check_parent(p, g, conflict):
    if g.points[p.predecessor].dist + 1 != p.dist:
        conflict.set()


@kernel
def attach(p):
    for t in p.outnbrs:
        if t.dist == p.dist + 1:
            t.predecessor = p.id  # race: any neighbour that is one step nearer will do


@program
def search(now, then, far, s, level, cutoff):
    known = 0  # edges of the points found, before this level and with it
    s.found[0].edges = 0
    s.found[0].points = 0  # those that looked themselves
    size, listed = len(now), True
    pulls, seen = False, False  # seen: all bytes tell who is found
    while level < cutoff and size > 0:
        level += 1
        step = u8(min(level, DEEP))
        if not seen:
            pulls = False
            if s.both and size * SMALL > len(s.graph.points):
                before, known = known, s.found[0].edges
                pulls = (known - before) * UNFOUND > len(s.graph.edges) - known
            if pulls and level > DEEP and size * WIDE > len(s.graph.points):
                foreach(s.graph.points, mark_visited, where=lambda p: p.dist < level)
                seen = True
                level -= 1
                continue
        if pulls and (seen or level <= DEEP):
            seen = False
            now.clear()
            size = s.found[0].points
            foreach(s.graph.points, pull, level, step, s.found, where=lambda p: p.step == UNSEEN)
            size = s.found[0].points - size
            listed = False
            continue
        if not listed:
            foreach(s.graph.points, build_frontier, now, where=lambda p: p.dist == level - 1)
            listed = True
        if level > DEEP and size * WIDE <= len(s.graph.points):
            level = min(level - 1, cutoff - AT_ONCE) + AT_ONCE
            while not now.empty:
                foreach(now, lower, level, then, far, ahead=then)
                now, then = then, now
                then.clear()
            now, far = far, now
        else:
            foreach(now, push, level, step, then, s.found)
            now, then = then, now
            then.clear()
        size = len(now)
    if level > DEEP:
        foreach(s.graph.points, check_parent, s.graph, s.conflict,
                where=lambda p: p.dist > DEEP and p.dist < FAR)  # fmt: skip
        if s.conflict.take():
            foreach(s.graph.points, attach, where=lambda p: p.dist >= DEEP and p.dist < FAR)
    return level


@of_graph
def bfs(graph: Graph, source: Any = 0, *, cutoff: int | None = None) -> Bfs:
    """Find the number of edges from ``source`` to every point.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
        On any device; out-edges are followed.
    source : int or array of int
        Id of a point.  Of several, a distance is that to the nearest.
    cutoff : int, optional
        Points farther than this count as unreachable.

    Returns
    -------
    Bfs
        On the graph's device, shape (n,), int32.  ``distance``: -1 where there is no path;
        ``predecessor``: the point before on one of the shortest paths, -1 at sources and where
        there is no path; ``levels``, how many levels were expanded.

    Raises
    ------
    TypeError
        If a source is not an integer, or ``cutoff`` not a number.
    ValueError
        If a source is not a point, or ``cutoff`` is negative.
    """
    starts, n = source_ids(graph, source), len(graph.points)
    if cutoff is not None:
        number(cutoff, "cutoff")
    if cutoff is not None and not cutoff >= 0:
        raise ValueError(f"cutoff is a number from 0 on, not {cutoff}")
    most = u32(NONE if cutoff is None else min(cutoff, NONE))

    def make() -> list[Any]:
        lists = [Collection(graph.points, capacity=n) for _ in range(3)]
        found = Table("found", graph.device, edges=i64, points=i64, capacity=1)
        found.extend(1)
        return [*lists, found, Flag(graph)]

    columns = {"dist": (u32, FAR), "step": (u8, UNSEEN), "predecessor": (i32, -1)}
    zero = {"dist": 0, "step": 0}
    with workspace(graph, "bfs", make, None, starts, zero, **columns) as objects:
        *lists, found, conflict = objects
        work = Search(graph, found, conflict, not graph.directed)
        levels = search(*lists, work, u32(0), most)
        own = graph.points.columns
        distance, predecessor = graph.device.copies(
            own["dist"].array[:n].view(np.int32), own["predecessor"].array[:n]
        )
        if levels > DEEP:  # some were run at once
            with graph.device.active():
                levels = min(int(distance.max()) + 1, int(most))
        return Bfs(distance, predecessor, levels)
