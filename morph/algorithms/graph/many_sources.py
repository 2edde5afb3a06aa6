"""Distances from many sources at once: a matrix with one row per source.

On small graphs, or on large devices, the launch and barriers dominate the time of a search from one
source.  Here a batch of sources shares each step.

`search_levels`, without weights, stores one bit per source in a word of each vertex (MS-BFS: Then
et al., PVLDB 2014): a vertex that several searches reach in the same level passes all their bits
to a neighbour by one access.  `search_pairs`, with weights, is near-far over a table of *pairs* of
a source and a vertex, in which the pair of source ``i`` and vertex ``v`` is row ``i * n + v``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.cycles import NO_PREDECESSOR
from morph.algorithms.graph.near_far import is_current, targets_settled
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.operators.bucket_queue import Visit, bucket_queue, run_in_order, run_until_empty
from morph.prelude import atomic_cas, atomic_min, atomic_or, ctz, i32, u32, u64
from morph.runtime.arrays import any_true

WORD = 64  # searches that share a word of bits


class Pairs(NamedTuple):
    """The objects of `search_pairs`, as a bundle."""

    graph: Any
    pairs: Any  # table with n rows per source
    targets: Any  # pairs; the search stops when all of them are settled
    unsettled: Any  # flag: a target is not settled
    overflowed: Any  # flag: a distance overflowed or exceeded `most`
    most: Any  # the largest valid distance


@kernel
def relax_pair(entry, s, limit, near, far):
    before = entry.key
    p = s.graph.points[entry.item.id % len(s.graph.points)]
    first = entry.item.id - p.id
    for t in p.outnbrs:
        d = before + s.graph.weight(p, t)
        if d > s.most or d < before:  # d < before: the sum overflowed
            s.overflowed.set()
        else:
            pair = s.pairs[first + t.id]
            if atomic_min(pair.dist, d) > d:
                if d <= limit:
                    near.add(pair, key=d)
                else:
                    far.add(pair, key=d)


@program
def run_pairs(s, queue, limit):
    """Near-far; returns the limit up to which all distances are final."""
    queue.state[0].limit = limit
    run_in_order(queue, Visit(relax_pair, s, is_current, targets_settled))
    return queue.state[0].limit


@kernel
def set_parent(pair, s):
    p = s.graph.points[pair.id % len(s.graph.points)]
    first = pair.id - p.id
    for t in p.outnbrs:
        other = s.pairs[first + t.id]
        if pair.dist < other.dist and pair.dist + s.graph.weight(p, t) == other.dist:
            atomic_min(other.predecessor, p.id)


@kernel
def set_equal_parent(pair, s, following):
    p = s.graph.points[pair.id % len(s.graph.points)]
    first = pair.id - p.id
    for t in p.outnbrs:
        other = s.pairs[first + t.id]
        if pair.dist == other.dist and pair.dist + s.graph.weight(p, t) == other.dist:
            if atomic_cas(other.predecessor, NO_PREDECESSOR, p.id) == NO_PREDECESSOR:
                following.add(other)


def search_pairs(
    graph: Graph, starts: Any, targets: Any, limits: tuple[Any, Any, Any], predecessors: bool
) -> tuple[Any, Any, bool]:
    """Find shortest paths from each of several sources; the graph's weights are the lengths.

    Parameters
    ----------
    graph : Graph
    starts, targets : array of int32
    limits : tuple of scalars
        In the dtype of distances: the distance of unreachable vertices, the largest valid distance,
        and the width of a bucket.
    predecessors : bool

    Returns
    -------
    distance, predecessor : array, shape (k, n)
        Views of the table of pairs; predecessor is None unless requested.
    overflowed : bool
        Whether a sum exceeded the largest valid distance.
    """
    (infinity, most, delta), n, k = limits, len(graph.points), len(starts)
    columns = {"dist": infinity.dtype} | ({"predecessor": i32} if predecessors else {})
    pairs = Table("pairs", graph.device, **columns)
    pairs.extend(k * n)
    pairs.dist[:] = infinity
    queue = bucket_queue(pairs, infinity.dtype, delta, largest=most, capacity=k * n)
    rows = np.arange(k, dtype=np.int32) * n
    sources = rows + starts
    pairs.dist[sources] = 0
    queue.near.extend(sources, key=np.zeros(k, infinity.dtype))
    ends = Collection(pairs)
    if len(targets):
        ends.extend((rows[:, None] + targets).ravel())
    work = Pairs(graph, pairs, ends, Flag(graph), Flag(graph), most)
    limit = infinity.dtype.type(run_pairs(work, queue, delta))
    with graph.device.active():
        distance = pairs.dist[:]
        if limit < most:  # stopped early at the targets: larger distances are not final
            distance[distance > limit] = infinity
        parent = _parents(work, sources, infinity) if predecessors else None
        return distance.reshape(k, n), parent, work.overflowed.take()


def _parents(s: Pairs, sources: Any, infinity: Any) -> Any:
    """Return the parents in the shortest-path trees, from final distances."""
    xp, pairs, n = s.graph.device.xp, s.pairs, len(s.graph.points)
    pairs.predecessor[:] = NO_PREDECESSOR
    pairs.predecessor[sources] = -1
    foreach(pairs, set_parent, s, where=lambda pair: pair.dist < infinity)
    found, reached = pairs.predecessor[:], pairs.dist[:] < infinity
    if any_true((found == NO_PREDECESSOR) & reached):  # reached by zero-weight edges only
        now, then = Collection(pairs), Collection(pairs)
        now.extend(xp.flatnonzero((found != NO_PREDECESSOR) & reached))
        run_until_empty(now, then, set_equal_parent, s)
        found = pairs.predecessor[:]
    found = xp.where((found == NO_PREDECESSOR) | ~reached, -1, found)  # a sum may be `infinity`
    return found.reshape(-1, n)


@kernel
def pass_bits(p, pairs, n, then):
    bits = p.front
    for t in p.outnbrs:
        fresh = bits & ~t.seen
        if fresh != u64(0):
            before = atomic_or(t.coming, fresh)
            if before == u64(0):
                then.add(t)
            fresh = fresh & ~before
            while fresh != u64(0):  # the first edge of this level becomes the edge of the tree
                pairs[i32(ctz(fresh)) * n + t.id].predecessor = p.id
                fresh = fresh & (fresh - u64(1))


@kernel
def take_bits(p, pairs, n, level):
    fresh = p.coming
    p.coming = u64(0)
    p.front = fresh
    p.seen = p.seen | fresh
    while fresh != u64(0):
        pairs[i32(ctz(fresh)) * n + p.id].dist = level
        fresh = fresh & (fresh - u64(1))


@program
def run_levels(pairs, n, now, then, cutoff):
    level = u32(0)
    while level < cutoff and not now.empty:
        level += 1
        foreach(now, pass_bits, pairs, n, then)
        foreach(then, take_bits, pairs, n, level)
        now, then = then, now
        then.clear()
    return level


def search_levels(graph: Graph, starts: Any, cutoff: Any) -> tuple[Any, Any, int]:
    """Compute the numbers of edges from each of at most `WORD` sources.

    Returns
    -------
    distance, predecessor : array of int32, shape (k, n)
        -1 if unreachable; views of a table.
    levels : int
        Number of expanded levels.
    """
    n, k = len(graph.points), len(starts)
    pairs = Table("pairs", graph.device, dist=u32, predecessor=i32)
    pairs.extend(k * n)
    pairs.dist[:] = 2**32 - 1
    pairs.predecessor[:] = -1
    bits = np.zeros(n, np.uint64)
    np.bitwise_or.at(bits, starts, np.uint64(1) << np.arange(k, dtype=np.uint64))
    pairs.dist[np.arange(k, dtype=np.int32) * n + starts] = 0
    none = (u64, 0)
    with graph.points.temporary_columns(seen=none, front=none, coming=none):
        graph.points.seen[:] = bits
        graph.points.front[:] = bits
        now, then = (Collection(graph.points, capacity=n) for _ in range(2))
        now.extend(np.unique(starts))
        levels = int(run_levels(pairs, i32(n), now, then, cutoff))
    with graph.device.active():
        found = pairs.dist[:].view(np.int32), pairs.predecessor[:]
    return found[0].reshape(k, n), found[1].reshape(k, n), levels
