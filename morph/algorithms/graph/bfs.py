"""Breadth-first search: direction-optimising, with several levels at once on deep graphs.

*Push* (top-down; Unnikrishnan et al., Falcon, figure 36): two worklists, the frontier and the next
one, are swapped; each vertex of the frontier lowers the distance of its neighbours by an atomic
minimum, and the first thread to lower a vertex enqueues it.  *Pull* (bottom-up; Beamer, Asanovic,
Patterson, SC 2012), if every edge is stored as two arcs and the frontier has many edges: each
unvisited vertex scans its neighbours for one in the frontier, and stops at the first.  Pull reads
one byte per vertex, and builds no worklist; the frontier is built when push resumes.

High-diameter graphs have small levels, whose time is that of the barriers.  There up to 32 levels
are relaxed asynchronously (label-correcting, ``ahead``), until the distances of all of them are
exact; the vertices of the last of them are the next frontier.  Predecessors may then be
inconsistent; if so, a last pass over the edges sets them.  One launch.  Work: O(n + m), with pull
often less than m.
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

FAR = 2**32 - 1  # infinity; as a signed integer -1, the result for unreachable vertices
NONE = 2**31 - 1  # longer than any shortest path
UNFOUND = 14  # pull if the frontier has over a 14th of the edges of unvisited vertices
SMALL = 256  # a frontier of fewer than a 256th of all vertices always pushes
DEEP = 32  # beyond this level, frontiers of at most a 32nd (WIDE) of all vertices
WIDE = 32  # are expanded asynchronously,
AT_ONCE = 32  # this many levels between barriers
UNSEEN = 255  # ``step`` of an unvisited vertex; of others the level, at most DEEP


class Search(NamedTuple):
    """The arguments of a search other than its worklists, as a bundle."""

    graph: Any
    found: Any  # one row: edges of the visited vertices; vertices visited by pull
    conflict: Any  # flag: a predecessor is not one level nearer
    both: bool  # whether every edge is stored as two arcs


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
        p.step = step  # race: the old and the new value fail the test above alike
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
            # race: the last writer may not be the one with the least level; see `check_parent`
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
            t.predecessor = p.id  # race: any neighbour one level nearer is valid


@program
def search(now, then, far, s, level, cutoff):
    known = 0  # edges of the vertices visited so far
    s.found[0].edges = 0
    s.found[0].points = 0  # visited by pull
    size, listed = len(now), True
    pulls, seen = False, False  # seen: `step` is up to date for all vertices
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
        Id of a vertex, or of several: distances are those from the nearest source.
    cutoff : int, optional
        Vertices farther than this count as unreachable.

    Returns
    -------
    Bfs
        On the graph's device, shape (n,), int32.  ``distance``: -1 if unreachable;
        ``predecessor``: the parent in a BFS tree, -1 at sources and unreachable vertices;
        ``levels``, how many levels were expanded.

    Raises
    ------
    TypeError
        If a source is not an integer, or ``cutoff`` not a number.
    ValueError
        If a source is not a vertex, or ``cutoff`` is negative.
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
        if levels > DEEP:  # some were expanded asynchronously
            with graph.device.active():
                levels = min(int(distance.max()) + 1, int(most))
        return Bfs(distance, predecessor, levels)
