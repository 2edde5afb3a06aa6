"""Shortest paths with non-negative weights from one or several sources, by delta-stepping.

Near-far, delta-stepping with two buckets (Davidson, Baxter, Garland, Owens, IPDPS 2014): a vertex
whose tentative distance fell is enqueued, in ``near`` if the distance is at most a limit, else in
``far``.  The out-edges of near vertices are relaxed until ``near`` is empty; then all distances up
to the limit are final, and the limit grows by delta.  An entry holds the distance at which it was
enqueued.  An entry is stale, and is dropped, if the distance of its vertex has fallen since; so a
vertex is expanded once per distance.  Delta is 32 times the mean weight over the mean degree: a
small delta approaches Dijkstra's order, a large one that of Bellman and Ford.  Below the limit
relaxation is label-correcting: a thread that lowers a distance may expand its vertex at once
(``ahead``).

In dense graphs most edges are heavy: they lead beyond the limit.  There `dense_phase` comes first,
with a smaller delta.  Its buckets relax only light edges; heavy edges are relaxed when their source
is settled (Meyer, Sanders, J. Algorithms 2003), so that expanding a vertex too early reads the
weight of a heavy edge, but not the distance of its target.  Heavy edges are relaxed by push from
the settled vertices, or, if weights are symmetric and the unsettled vertices have fewer than twice
as many edges, by pull into these (Chakaravarthy et al., IPDPS 2014).  Near-far continues when less
than a 16th of the edges are left.

Work: O(n + m), and the edges of vertices that are expanded more than once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.costs import EDGES, Weights, hopes, measured
from morph.algorithms.graph.temporary import live_edges, of_graph, source_ids, workspace
from morph.data.collection import Collection, Flag
from morph.data.conversion import number, truth
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_cas, atomic_min, i32, i64

NONE = 2**31 - 1  # no predecessor yet; the infinity of 32-bit distances
DENSE = 8  # the mean degree from which `dense_phase` runs first
STEP = 4  # its delta is the mean weight times this over the mean degree (near-far: EDGES)
FEW = 16  # it ends when the unsettled vertices have less than a 16th of the edges
WIDE = 8  # then the delta of near-far is this many times as large
BUCKETS = 32  # `dense_phase` runs at most this many buckets
NOWHERE = np.zeros(0, np.int32)  # no targets


class Sssp(NamedTuple):
    """Result of `sssp`: ``distance`` and ``predecessor`` (int32, or None), shape (n,)."""

    distance: Any
    predecessor: Any


@kernel
def relax(entry, g, limit, most, then, far, lost):
    p, before = entry.item, entry.dist
    for t in p.outnbrs:
        d = before + g.weight(p, t)
        if d > most or d < before:  # d < before: the sum overflowed
            lost.set()
        elif atomic_min(t.dist, d) > d:
            if d <= limit:
                then.add(t, dist=d)
            else:
                far.add(t, dist=d)


@kernel
def split(entry, limit, near, rest, cell):
    if entry.dist <= limit:
        near.add(entry.item, dist=entry.dist)
    else:
        rest.add(entry.item, dist=entry.dist)
        atomic_min(cell[0].least, entry.dist)


@kernel
def check_target(t, limit, unsettled):
    if t.dist > limit:
        unsettled.set()


@kernel
def relax_light(entry, g, limit, then, lost):
    p, before = entry.item, entry.dist
    for t in p.outnbrs:
        d = before + g.weight(p, t)
        if d <= limit:
            if d < before:
                lost.set()
            elif atomic_min(t.dist, d) > d:
                then.add(t, dist=d)


@kernel
def push_heavy(p, g, limit, most, lost):
    before = p.dist
    for t in p.outnbrs:
        d = before + g.weight(p, t)
        if d > most or d < before:
            lost.set()
        elif d > limit:
            atomic_min(t.dist, d)


@kernel
def pull_heavy(p, g, limit, most, lost):
    least = p.dist
    for t in p.outnbrs:
        before = t.dist
        if before <= limit:
            d = before + g.weight(p, t)
            if d > most or d < before:
                lost.set()
            else:
                least = min(least, d)
    p.dist = least  # race: neighbours read the old or the new upper bound


@kernel
def count(cell, g, limit):
    left = i64(0)
    for p in g.points:
        if p.dist > limit:
            left += i64(p.out_degree)
    cell.left = left


@kernel
def nearest(p, cell):
    atomic_min(cell[0].least, p.dist)


@kernel
def fill_buckets(p, limit, near, far):
    if p.dist <= limit:
        near.add(p, dist=p.dist)
    else:
        far.add(p, dist=p.dist)


class Search(NamedTuple):
    """The arguments of a search other than its worklists, as a bundle."""

    graph: Any
    cell: Any  # one row of reduction accumulators
    targets: Any  # vertices; the search stops when all of these are settled
    unsettled: Any  # flag: a target is not settled
    lost: Any  # flag: a distance overflowed or exceeded `most`
    delta: Any  # the growth of the limit
    most: Any  # the largest distance allowed: of the type, or the cutoff


@program
def dense_phase(s, near, then, far, step, buckets, both):
    """Delta-stepping until few edges are left; returns the limit with which near-far continues."""
    left, low, limit = i64(len(s.graph.edges)), step, step
    first = True
    while buckets > 0 and not near.empty:
        while not near.empty:
            foreach(near, relax_light, s.graph, limit, then, s.lost,
                    where=lambda entry: entry.dist == entry.item.dist)  # fmt: skip
            near, then = then, near
            then.clear()
        before = left
        foreach(s.cell, count, s.graph, limit)
        left = s.cell[0].left
        if both and left < (before - left) * 2:
            foreach(s.graph.points, pull_heavy, s.graph, limit, s.most, s.lost,
                    where=lambda p: p.dist > limit)  # fmt: skip
        else:
            foreach(s.graph.points, push_heavy, s.graph, limit, s.most, s.lost,
                    where=lambda p: p.dist <= limit and (first or p.dist > low))  # fmt: skip
        low, first, most = limit, False, s.most
        s.cell[0].least = most
        foreach(s.graph.points, nearest, s.cell, where=lambda p: p.dist > low and p.dist <= most)
        buckets -= 1
        reach = most
        if left * FEW < len(s.graph.edges):
            buckets = i64(0)
        if buckets == 0:
            step = s.delta
        limit = max(s.cell[0].least, min(s.cell[0].least, most - step) + step)
        if buckets > 0:
            reach = limit
        foreach(s.graph.points, fill_buckets, limit, near, far,
                where=lambda p: p.dist > low and p.dist <= reach)  # fmt: skip
    return limit


@program
def search(s, near, then, far, rest, limit):
    """Near-far; returns the limit up to which all distances are final."""
    while True:
        while not near.empty:
            foreach(near, relax, s.graph, limit, s.most, then, far, s.lost, ahead=then,
                    where=lambda entry: entry.dist == entry.item.dist)  # fmt: skip
            near, then = then, near
            then.clear()
        if far.empty:
            return s.most
        if not s.targets.empty:
            foreach(s.targets, check_target, limit, s.unsettled)
            if not s.unsettled.take():
                return limit
        limit = max(limit, min(limit, s.most - s.delta) + s.delta)
        s.cell[0].least = s.most
        foreach(far, split, limit, near, rest, s.cell,
                where=lambda entry: entry.dist == entry.item.dist)  # fmt: skip
        far, rest = rest, far
        rest.clear()
        if near.empty:
            limit = s.cell[0].least


@kernel
def set_parent(p, g):
    for t in p.outnbrs:
        if p.dist < t.dist and p.dist + g.weight(p, t) == t.dist:
            atomic_min(t.predecessor, p.id)


@kernel
def set_equal_parent(p, g, then):
    for t in p.outnbrs:
        if p.dist == t.dist and p.dist + g.weight(p, t) == t.dist:
            if atomic_cas(t.predecessor, NONE, p.id) == NONE:
                then.add(t)


@program
def set_equal_parents(g, now, then):
    while not now.empty:
        foreach(now, set_equal_parent, g, then, ahead=then)
        now, then = then, now
        then.clear()


@of_graph
def sssp(
    graph: Graph,
    source: Any = 0,
    *,
    targets: Any = None,
    cutoff: float | None = None,
    predecessors: bool = False,
) -> Sssp:
    """Find the length of a shortest path from ``source`` to every point.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
        On any device, with edge weights of any real type, 1 if it has none; out-edges are followed.
    source : int or array of int
        Id of a vertex, or of several: distances are those from the nearest source.
    targets : int or array of int, optional
        Stop when the distances of these vertices are final.  Vertices that are not settled by then
        count as unreachable.
    cutoff : number, optional
        Vertices farther than this count as unreachable.
    predecessors : bool
        Whether to find ``predecessor``, which takes one more pass over the edges.

    Returns
    -------
    Sssp
        On the graph's device, shape (n,).  ``distance``: int64 for integer weights, float32 for
        float16, else of the weights' type; unreachable is the largest int64, or infinity.
        ``predecessor``, int32: the parent in a shortest-path tree, -1 at sources and unreachable
        vertices; None unless ``predecessors``.

    Raises
    ------
    TypeError
        If a source or target is not an integer, or ``cutoff`` not a number.
    ValueError
        If a source or target is not a vertex, or a weight is negative or NaN.
    OverflowError
        If the distance of a reachable vertex does not fit its type.
    """
    predecessors = truth(predecessors, "predecessors")
    starts = source_ids(graph, source)
    goals = NOWHERE if targets is None else source_ids(graph, targets, "target")
    if cutoff is not None:
        number(cutoff, "cutoff")
    if cutoff is not None and not cutoff >= 0:
        raise ValueError(f"cutoff is a number from 0 on, not {cutoff}")
    if "weight" not in graph.edges.columns:
        return _hops(graph, starts, cutoff, predecessors)
    weights = measured(graph)
    given = graph, starts, goals, cutoff, predecessors
    if weights[1] == np.int64 and hopes(graph, weights[2]):  # half the memory
        found = _solved(*given, weights._replace(dtype=np.dtype(np.int32)), hope=True)
        if found is not None:
            return found
    done = _solved(*given, weights)
    assert done is not None
    return done


def _hops(graph: Graph, starts: Any, cutoff: float | None, predecessors: bool) -> Sssp:
    """Solve with unit weights, by `bfs`; targets are ignored, all vertices are settled."""
    found = bfs(graph, starts, cutoff=None if cutoff is None else int(min(cutoff, NONE)))
    with graph.device.active():
        far = np.int64(np.iinfo(np.int64).max)
        distance = graph.device.xp.where(found.distance < 0, far, found.distance.astype(np.int64))
    return Sssp(distance, found.predecessor if predecessors else None)


def _solved(
    graph: Graph, starts: Any, goals: Any, cutoff: float | None, predecessors: bool,
    weights: Weights, hope: bool = False,
) -> Sssp | None:  # fmt: skip
    """Solve with one type of distances; returns None if ``hope`` and they do not fit."""
    weight, dtype, delta, equal = weights
    real = dtype.kind == "f"
    far = np.inf if real else int(np.iinfo(dtype).max)
    most = float(np.finfo(dtype).max) if real else far - 1
    cuts = cutoff is not None and (not hope or cutoff < most)
    if cutoff is not None:
        most = min(most, cutoff if real else int(min(cutoff, most)))
    dense = len(graph.edges) >= max(DENSE * len(graph.points), 1) and not len(goals)
    names: dict[str, Any] = {"dist": (dtype, far)}
    if predecessors:
        names["predecessor"] = (i32, NONE)
    edges = None if weight is None else {"weight": (dtype, 0)}

    def make() -> list[Any]:
        n, cell = len(graph.points), Table("cell", graph.device, least=dtype, left=i64)
        cell.extend(1)
        lists = [Collection(graph.points, capacity=n, dist=dtype) for _ in range(4)]
        return [*lists, cell, Collection(graph.points), Flag(graph), Flag(graph)]

    with workspace(graph, "sssp", make, edges, starts, {"dist": 0}, **names) as objects:
        if weight is not None:
            graph.edges.weight[:] = weight
        *lists, cell, aims, unsettled, lost = objects
        if len(goals):
            aims.extend(goals)
        limits = delta * STEP / EDGES, delta * WIDE if dense else delta
        step, delta = (dtype.type(min(d if real else int(d), most)) for d in limits)
        limit, last = delta, dtype.type(most)
        work = Search(graph, cell, aims, unsettled, lost, delta, last)
        if dense:
            both = equal and not graph.directed
            limit = dense_phase(work, *lists[:3], step, i64(BUCKETS), both)
            if lists[0].empty:  # the worklists were swapped there
                lists[:2] = lists[1::-1]
        limit = search(work, *lists, dtype.type(limit))
        dist = graph.points.dist.array
        with graph.device.active():
            if limit < last:  # stopped at the targets: larger distances are not final
                dist[dist > limit] = far
            elif lost.take() and not cuts:
                if hope:
                    return None
                _refuse_overflow(graph, dist < far)
        predecessor = _predecessors(graph, starts, far) if predecessors else None
        with graph.device.active():
            return Sssp(_widened(graph.device.xp, dist), predecessor)


def _refuse_overflow(graph: Graph, reached: Any) -> None:
    """Raise an error if an edge leads from a reached vertex to one not reached."""
    pick = live_edges(graph)
    src, dst = graph.edges.src.array[pick], graph.edges.dst.array[pick]
    weight = graph.edges.weight.array[pick]
    beyond = graph.device.xp.flatnonzero(reached[src] & ~reached[dst] & (weight < np.inf))
    if beyond.size:
        k = int(beyond[0])
        raise OverflowError(
            f"the distance of vertex {int(dst[k])}, reached from vertex {int(src[k])}, is too"
            f" large for {graph.points.dist.dtype}"
        )


def _predecessors(graph: Graph, starts: Any, far: Any) -> Any:
    """Return the parent of each vertex in a shortest-path tree, from final distances."""
    xp, points = graph.device.xp, graph.points
    points.predecessor[starts] = -1
    foreach(points, set_parent, graph, where=lambda p: p.dist < far)
    found, dist = points.predecessor.array, points.dist.array
    with graph.device.active():
        if bool(((found == NONE) & (dist < far)).any()):  # reached by zero-weight edges only
            now, then = Collection(points), Collection(points)
            now.extend(xp.flatnonzero((found != NONE) & (dist < far)))
            set_equal_parents(graph, now, then)
        return xp.where((found == NONE) | (dist == far), -1, found)  # a sum may equal `far`


def _widened(xp: Any, dist: Any) -> Any:
    """Return a copy of the distances in the type of the result."""
    if dist.dtype != np.int32:
        return dist.copy()
    return xp.where(dist == NONE, np.int64(np.iinfo(np.int64).max), dist)
