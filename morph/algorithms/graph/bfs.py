"""Breadth-first search: direction-optimising, asynchronous on high-diameter graphs.

A level is a step of `edge_map`, which selects the direction.  If every edge is stored as two arcs
and the frontier has many edges, each unvisited vertex searches for a neighbour in the frontier.

High-diameter graphs have small levels, whose time is dominated by barriers.  On these, up to 32
levels are relaxed asynchronously (label correction, ``ahead``) until all their distances are exact;
the vertices of the last level are the next frontier.  If predecessors are then inconsistent, a
final pass over the edges recomputes them.  One launch.  Work: O(n + m), with dense levels often
less than m.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import (
    batch_size,
    early_results,
    of_graph,
    results_device,
    source_ids,
    source_rows,
    stacked,
)
from morph.algorithms.graph.many_sources import WORD, search_levels
from morph.algorithms.graph.source_threads import hops_of_each, sources_at_once
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.labels import VertexIds
from morph.language.arguments import boolean, check_number
from morph.launch.ahead import compile_ahead
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.edge_map import EdgeMap, edge_map, edge_mapping
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_min, i32, static, u8, u32

INFINITY = 2**32 - 1  # as a signed integer -1, the result for unreachable vertices
LONGEST = 2**31 - 1  # an upper bound of the distances
DEEP = 32  # beyond this level, frontiers of at most a 32nd (WIDE) of all vertices
WIDE = 32  # are expanded asynchronously,
AT_ONCE = 32  # this many levels between barriers
SMALL = 4  # sources share searches if a batch to fill the device has at least this many words


class Bfs(NamedTuple):
    """Result of `bfs`: ``distance`` and ``predecessor``, int32; ``levels``, an int.

    Shape (n,), or (k, n) with ``rows``.
    """

    distance: Any
    predecessor: Any
    levels: int


@func
def visit(p, t, level):
    """Lower the distance of ``t`` to ``level`` if it is larger."""
    if atomic_min(t.dist, level) > level:
        # race: the last writer may not have the least distance, see `check_parent`
        t.predecessor = p.id
        return True
    return False


@func
def assign(p, t, level):
    t.dist = level
    t.predecessor = p.id
    return True


@func
def is_farther(t, level):
    return t.dist > level


@kernel
def relax(p, limit, then, far, conflict, notes: static):
    """Relax the edges of a vertex; with ``notes``, ``conflict`` notes one that is lowered again."""
    level = p.dist + 1
    for t in p.outnbrs:
        before = atomic_min(t.dist, level)
        if before > level:
            t.predecessor = p.id  # race: as in `visit`
            if notes:
                if before < INFINITY:
                    conflict.set()
            if level < limit:
                then.add(t)
            else:
                far.add(t)


@kernel
def check_parent(p, g, conflict):
    if p.dist > DEEP and p.dist < INFINITY:
        if g.points[p.predecessor].dist + 1 != p.dist:
            conflict.set()


@kernel
def set_parent(p):
    for t in p.outnbrs:
        if t.dist == p.dist + 1:
            t.predecessor = p.id  # race: any neighbour in the previous level is valid


@program
def search(s, now, then, far, conflict, cutoff, notes: static):
    """Search from ``now``; if no distance is lowered twice, as in order, all parents are right."""
    level, size = u32(0), len(now)
    while level < cutoff and size > 0:
        if level >= DEEP and size * WIDE <= len(s.graph.points) and not now.empty:
            level = min(level, cutoff - AT_ONCE) + AT_ONCE
            while not now.empty:
                foreach(now, relax, level, then, far, conflict, notes, ahead=then)
                now, then = then, now
                then.clear()
            now, far = far, now
            size = len(now)
        else:
            level += 1
            size = edge_map(s, now, then, size, level)
            now, then = then, now
    if level > DEEP:
        doubtful = True
        if notes:
            doubtful = conflict.take()
        if doubtful:
            foreach(s.graph.points, check_parent, s.graph, conflict)
            if conflict.take():
                foreach(s.graph.points, set_parent,
                        where=lambda p: p.dist >= DEEP and p.dist < INFINITY)  # fmt: skip
    return level


@program
def search_by_levels(s, now, then, cutoff):
    """Expand one level per step: for partitioned graphs, which exchange messages after a step."""
    level, size = u32(0), len(now)
    while level < cutoff and size > 0:
        level += 1
        size = edge_map(s, now, then, size, level)
        now, then = then, now
    return level


def level_map(graph: Graph, state: Table | None = None) -> EdgeMap:
    """Make the edge map that expands a level; it marks points in their column ``active``.

    With parts, only `atomic_min` changes distances, so that mirrors retain received values.
    """
    marks, once = graph.points.active, None if isinstance(graph, PartitionedGraph) else assign
    return edge_mapping(graph, visit, is_farther, assign=once, once=True, state=state, marks=marks)


@of_graph
def bfs(graph: Graph, source: Any = 0, *, cutoff: int | None = None, rows: bool = False) -> Bfs:
    """Compute the number of edges from ``source`` to every point.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device; paths follow out-edges.
    source : int or array of int
        Id or label of a vertex, or several: distances are from the nearest source, or, with
        ``rows``, from each source.
    cutoff : int, optional
        Vertices at larger distances count as unreachable.
    rows : bool
        Compute the distances from each of the ``k`` sources: row ``i`` is for ``source[i]``.

    Returns
    -------
    Bfs
        Int32, shape (n,), on the graph's device (with parts, a `PartitionedArray`); or (k, n) with
        ``rows``.  ``distance``: -1 if unreachable; ``predecessor``: the parent in a BFS tree, -1
        for sources and unreachable vertices; ``levels``: the number of expanded levels.

    Raises
    ------
    TypeError
        If a source is not an integer, ``cutoff`` not a number, or ``rows`` not a bool.
    ValueError
        If a source is not a vertex, or ``cutoff`` is negative.
    """
    rows = boolean(rows, "rows")
    starts = (source_rows if rows else source_ids)(graph, source)
    if cutoff is not None:
        check_number(cutoff, "cutoff")
    if cutoff is not None and not cutoff >= 0:
        raise ValueError(f"cutoff is a number from 0 on, not {cutoff}")
    most = u32(LONGEST if cutoff is None else min(cutoff, LONGEST))
    if rows:
        return _rows(graph, starts, most)
    n = len(graph.points)
    compile_ahead("bfs", graph.device, graph)

    def make() -> list[Any]:
        lists = [Collection(graph.points, capacity=n) for _ in range(3)]
        return [*lists, Flag(graph), level_map(graph).state]

    columns = {"dist": (u32, INFINITY), "active": (u8, 0), "predecessor": (i32, -1)}
    with workspace(graph, "bfs", make, None, starts, {"dist": 0}, **columns) as objects:
        now, then, far, conflict, state = objects
        levels_of = objects.once(level_map, graph, state)
        with early_results(graph, "dist", "predecessor") as found:
            if isinstance(graph, PartitionedGraph):
                levels = objects.run(search_by_levels, levels_of, now, then, most)
            else:
                # a GPU, whose warps lower many distances again, always checks the parents
                notes = int(graph.device.on_host)
                levels = objects.run(search, levels_of, now, then, far, conflict, most, notes)
        distance, predecessor = found.arrays()
        distance = distance.view(np.int32)
        if levels > DEEP:  # some were expanded asynchronously
            with results_device(graph).active():
                levels = min(int(distance.max()) + 1, int(most))
        return Bfs(distance, predecessor, levels)


def _rows(graph: Graph, starts: Any, most: Any) -> Bfs:
    """Search from each of several sources, in batches if those fill the device."""
    if not len(starts):
        none = bfs(graph, VertexIds(starts))
        return Bfs(none.distance[None][:0], none.predecessor[None][:0], 0)
    by_thread = sources_at_once(graph, len(starts))
    if by_thread:
        blocks = range(0, len(starts), by_thread)
        found = [Bfs(*hops_of_each(graph, starts[i : i + by_thread], most)) for i in blocks]
    elif batch_size(graph) < SMALL * WORD:
        alone = (bfs(graph, VertexIds(start[None]), cutoff=most) for start in starts)
        found = [Bfs(d[None], p[None], levels) for d, p, levels in alone]
    else:
        blocks = range(0, len(starts), WORD)
        found = [Bfs(*search_levels(graph, starts[i : i + WORD], most)) for i in blocks]
    distances, predecessors, levels = zip(*found, strict=True)
    return Bfs(stacked(graph, distances), stacked(graph, predecessors), max(levels))
