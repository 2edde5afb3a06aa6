"""Shortest paths with non-negative weights from one or several sources, by delta-stepping.

Near-far, delta-stepping with two buckets (`morph.operators.bucket_queue`): the out-edges of the
vertices in the near bucket are relaxed until it is empty; then all distances up to the limit are
final, and the limit increases by delta.  The key of an entry is the distance at which it was
enqueued: an entry is stale, and is dropped, if the distance of its vertex has decreased since; so a
vertex is expanded once per distance.  Delta is 32 times the mean weight over the mean degree (half
of it on CPUs with few threads).  Below the limit, relaxation is label-correcting.

In dense graphs most edges are heavy, i.e. lead beyond the limit.  For these, `dense_phase` runs
first, with a smaller delta.  Its buckets relax only light edges; heavy edges are relaxed when their
source is settled (Meyer, Sanders, J. Algorithms 2003), so that expanding a vertex too early reads
the weight of a heavy edge, but not the distance of its target.  Heavy edges are pushed from the
settled vertices, or, if weights are symmetric and the unsettled vertices have fewer than twice as
many edges, pulled by the latter (Chakaravarthy et al., IPDPS 2014).  Near-far continues when less
than a 16th of the edges remain.
Work: O(n + m), plus the edges of vertices that are expanded more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import (
    batch_size,
    early_results,
    live_edges,
    of_graph,
    pieces,
    results,
    results_device,
    source_ids,
    source_rows,
    stacked,
    values,
)
from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.costs import (
    DELTA_SCALE,
    INFINITY,
    Weights,
    expected,
    likely_32_bits,
    measured,
)
from morph.algorithms.graph.cycles import NO_PREDECESSOR
from morph.algorithms.graph.many_sources import search_pairs
from morph.algorithms.graph.near_far import is_current, targets_settled
from morph.algorithms.graph.source_threads import paths_of_each, sources_at_once
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.labels import VertexIds, name_of
from morph.language.arguments import boolean, check_number
from morph.launch.ahead import compile_ahead
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.bucket_queue import BucketQueue, Visit, run_in_order, run_until_empty
from morph.partition.array import PartitionedArray
from morph.prelude import atomic_add, atomic_cas, atomic_min, i32, i64
from morph.runtime.device import Device
from morph.runtime.threads import get_num_threads

DENSE = 8  # the mean degree from which `dense_phase` runs first
DENSE_SCALE = 4  # its delta is the mean weight times this over the mean degree (else DELTA_SCALE)
DENSE_UNTIL = 16  # it ends when the unsettled vertices have less than a 16th of the edges
# On a CPU buckets are half as wide where steps then lack no work: in dense graphs of so many edges
# on several threads, and in others on so few threads.
MANY_EDGES, FEW_THREADS = 1 << 20, 2
# of a search by one thread, whose buckets have no barrier, in dense and in other graphs
THREAD_SCALE_DENSE, THREAD_SCALE = 2, 8
WIDE = 8  # then the delta of near-far is this many times as large
BUCKETS = 32  # `dense_phase` runs at most this many buckets
HOST_BATCH = 256  # sources of a batch on a CPU at least: pairs of more points leave its caches
NO_TARGETS = np.zeros(0, np.int32)


class Sssp(NamedTuple):
    """Result of `sssp`: ``distance`` and ``predecessor`` (int32, or None).

    Shape (n,), or (k, n) with ``rows``.
    """

    distance: Any
    predecessor: Any


class Search(NamedTuple):
    """The objects of a search, as a bundle."""

    graph: Any
    targets: Any  # vertices; the search stops when all of them are settled
    unsettled: Any  # flag: a target is not settled
    overflowed: Any  # flag: a distance overflowed or exceeded `most`
    most: Any  # the largest valid distance: of the dtype, or the cutoff


@kernel
def relax(entry, s, limit, near, far):
    p, before = entry.item, entry.key
    for t in p.outnbrs:
        d = before + s.graph.weight(p, t)
        if d > s.most or d < before:  # d < before: the sum overflowed
            s.overflowed.set()
        elif atomic_min(t.dist, d) > d:
            if d <= limit:
                near.add(t, key=d)
            else:
                far.add(t, key=d)


@program
def search(s, queue, limit):
    """Near-far; returns the limit up to which all distances are final.

    It is -1 if all are, except that one of them may have overflowed.
    """
    queue.state[0].limit = limit
    run_in_order(queue, Visit(relax, s, is_current, targets_settled))
    limit = queue.state[0].limit
    overflowed = s.overflowed.take()
    if overflowed and limit >= queue.largest:
        limit = limit - limit - 1
    return limit


@kernel
def relax_light(entry, s, limit, near):
    p, before = entry.item, entry.key
    for t in p.outnbrs:
        d = before + s.graph.weight(p, t)
        if d <= limit:
            if d < before:
                s.overflowed.set()
            elif atomic_min(t.dist, d) > d:
                near.add(t, key=d)


@program
def relax_bucket(s, near, next_near, limit):
    while not near.empty:
        foreach(near, relax_light, s, limit, next_near, where=is_current)
        near, next_near = next_near, near
        next_near.clear()


@kernel
def push_heavy(p, s, limit):
    before = p.dist
    for t in p.outnbrs:
        d = before + s.graph.weight(p, t)
        if d > s.most or d < before:
            s.overflowed.set()
        elif d > limit:
            atomic_min(t.dist, d)


@kernel
def pull_heavy(p, s, limit):
    least = p.dist
    for t in p.outnbrs:
        before = t.dist
        if before <= limit:
            d = before + s.graph.weight(p, t)
            if d > s.most or d < before:
                s.overflowed.set()
            else:
                least = min(least, d)
    atomic_min(p.dist, least)  # race: neighbours read the old or the new upper bound


@kernel
def count_edges(p, state):
    atomic_add(state[0].unsettled, i64(p.out_degree))


@kernel
def find_least(p, state):
    atomic_min(state[0].least, p.dist)


@kernel
def enqueue(p, bucket):
    bucket.add(p, key=p.dist)


@program
def dense_phase(s, queue, limit, buckets, pulls):
    """Delta-stepping until few edges remain; returns the limit of the near bucket."""
    step, low, most, left = limit, limit - limit - 1, s.most, i64(len(s.graph.edges))
    while buckets > 0 and not queue.near.empty:
        relax_bucket(s, queue.near, queue.next_near, limit)
        before = left
        queue.state[0].unsettled = 0
        foreach(s.graph.points, count_edges, queue.state, where=lambda p: p.dist > limit)
        left = queue.state[0].unsettled
        if pulls and left < (before - left) * 2:
            foreach(s.graph.points, pull_heavy, s, limit, where=lambda p: p.dist > limit)
        else:
            foreach(s.graph.points, push_heavy, s, limit,
                    where=lambda p: p.dist <= limit and p.dist > low)  # fmt: skip
        low = limit
        buckets = i64(0) if left * DENSE_UNTIL < len(s.graph.edges) else buckets - 1
        queue.state[0].least = most
        foreach(s.graph.points, find_least, queue.state,
                where=lambda p: p.dist > low and p.dist <= most)  # fmt: skip
        least = queue.state[0].least
        step = step if buckets > 0 else queue.delta
        limit = max(least, min(least, most - step) + step)
        foreach(s.graph.points, enqueue, queue.near,
                where=lambda p: p.dist > low and p.dist <= limit)  # fmt: skip
    foreach(s.graph.points, enqueue, queue.far,
            where=lambda p: p.dist > limit and p.dist <= most)  # fmt: skip
    return limit


@cache
def nearer_than(bound: float) -> Any:
    """Return the filter of the points whose distance is less."""

    @func
    def is_nearer(p):
        return p.dist < bound

    is_nearer.made_by = f"{__name__}:nearer_than", (bound,)
    return is_nearer


@kernel
def set_parent(p, g):
    for t in p.outnbrs:
        if p.dist < t.dist and p.dist + g.weight(p, t) == t.dist:
            atomic_min(t.predecessor, p.id)


@kernel
def set_equal_parent(p, g, following):
    for t in p.outnbrs:
        if p.dist == t.dist and p.dist + g.weight(p, t) == t.dist:
            if atomic_cas(t.predecessor, NO_PREDECESSOR, p.id) == NO_PREDECESSOR:
                following.add(t)


@kernel
def end_predecessor(p, most, missing):
    if p.dist > most:
        p.predecessor = -1  # a sum may equal the distance of unreachable vertices
    elif p.predecessor == NO_PREDECESSOR:
        missing.set()


@of_graph
def sssp(
    graph: Graph,
    source: Any = 0,
    *,
    targets: Any = None,
    cutoff: float | None = None,
    predecessors: bool = False,
    rows: bool = False,
) -> Sssp:
    """Compute the length of a shortest path from ``source`` to every point.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device, with edge weights of any real type, by default 1; paths follow out-edges.
    source : int or array of int
        Id or label of a vertex, or several: distances are from the nearest source, or, with
        ``rows``, from each source.
    targets : int or array of int, optional
        Stop when the distances of these vertices are final.  Vertices not settled by then count as
        unreachable.
    cutoff : number, optional
        Vertices at larger distances count as unreachable.
    predecessors : bool
        Whether to compute ``predecessor``, by one more pass over the edges.
    rows : bool
        Compute the distances from each of the ``k`` sources: row ``i`` is for ``source[i]``.

    Returns
    -------
    Sssp
        On the graph's device, shape (n,), or (k, n) with ``rows``; with parts, distances are a
        `PartitionedArray`, shape (n,).
        ``distance``: int64 for integer weights, float32 for float16, else the dtype of the weights;
        for unreachable vertices the largest int64, or infinity.
        ``predecessor``, int32: the parent in a shortest-path tree, -1 for sources and unreachable
        vertices; None unless ``predecessors``.

    Raises
    ------
    TypeError
        If a source or target is not an integer, or ``cutoff`` not a number.
    ValueError
        If a source or target is not a vertex, or a weight is negative or NaN.
    OverflowError
        If the distance of a reachable vertex overflows.
    """
    predecessors = boolean(predecessors, "predecessors")
    rows = boolean(rows, "rows")
    starts = (source_rows if rows else source_ids)(graph, source)
    target_ids = NO_TARGETS if targets is None else source_ids(graph, targets, "target")
    if cutoff is not None:
        check_number(cutoff, "cutoff")
    if cutoff is not None and not cutoff >= 0:
        raise ValueError(f"cutoff is a number from 0 on, not {cutoff}")
    if "weight" not in graph.edges.columns:
        return _hops(graph, starts, cutoff, predecessors, rows)
    if targets is None and cutoff is None and not rows:
        call = f"sssp {graph.edges.columns['weight'].dtype}" + " predecessors" * predecessors
        compile_ahead(call, graph.device, graph)
    given = graph, starts, target_ids, cutoff, predecessors
    solve = _solved_rows if rows else _solved
    weights, are_valid = expected(graph)
    try:
        found = _solved_with(weights, solve, given)
    except OverflowError:  # perhaps only as the weights have changed
        if are_valid():
            raise
    else:
        if are_valid():
            return found
    return _solved_with(measured(graph), solve, given)


def _solved_with(weights: Weights, solve: Callable[..., Sssp | None], given: Any) -> Sssp:
    """Solve with distances of 32 bits if these probably suffice, else with those of ``weights``."""
    if weights.dtype == np.int64 and likely_32_bits(given[0], weights.delta):  # half the memory
        found = solve(*given, weights._replace(dtype=np.dtype(np.int32)), speculative=True)
        if found is not None:
            return found
    done = solve(*given, weights)
    assert done is not None
    return done


def _hops(graph: Graph, starts: Any, cutoff: float | None, predecessors: bool, rows: bool) -> Sssp:
    """Solve with unit weights, by `bfs`; ignores targets and settles all vertices."""
    most = None if cutoff is None else int(min(cutoff, INFINITY))
    found = bfs(graph, VertexIds(starts), cutoff=most, rows=rows)
    distance = _with_infinity(results_device(graph), found.distance, -1)
    return Sssp(distance, found.predecessor if predecessors else None)


def _solved(
    graph: Graph, starts: Any, target_ids: Any, cutoff: float | None, predecessors: bool,
    weights: Weights, speculative: bool = False,
) -> Sssp | None:  # fmt: skip
    """Solve with one dtype of distances; with ``speculative``, returns None on overflow."""
    weight, dtype, delta, equal = weights
    infinity, most, cuts = _limits(dtype, cutoff, speculative)
    real = dtype.kind == "f"
    dense = len(graph.edges) >= max(DENSE * len(graph.points), 1) and not len(target_ids)
    names: dict[str, Any] = {"dist": (dtype, infinity)}
    if predecessors:
        names["predecessor"] = (i32, NO_PREDECESSOR)
    edges = None if weight is None else {"weight": (dtype, 0)}

    def make() -> list[Any]:
        n = len(graph.points)
        state = Table("state", graph, limit=dtype, least=dtype, unsettled=i64)
        state.extend(1)
        lists = [Collection(graph.points, capacity=n, key=dtype) for _ in range(4)]
        return [*lists, state, Collection(graph.points), Flag(graph), Flag(graph)]

    with workspace(graph, "sssp", make, edges, starts, {"dist": 0}, **names) as objects:
        if weight is not None:
            for g, a in zip(pieces(graph), weight, strict=True):
                g.edges.weight[:] = a
        *buckets, target_list, unsettled, overflowed = objects
        if len(target_ids):
            target_list.extend(target_ids)
        limits = _widths(graph, delta, dense)
        first, delta = (dtype.type(min(d if real else int(d), most)) for d in limits)
        last = dtype.type(most)
        queue = BucketQueue._make([*buckets, delta, last, False])
        work = Search(graph, target_list, unsettled, overflowed, last)
        limit = delta
        if dense:
            pulls = equal and not graph.directed
            limit = objects.run(dense_phase, work, queue, first, i64(BUCKETS), pulls)
            limit = dtype.type(limit)
        convert = _widened if dtype == np.int32 else None
        with early_results(graph, "dist", convert=convert) as copied:
            limit = objects.run(search, work, queue, limit)
        if limit < 0 and not cuts:
            if speculative:
                return None
            refuse_overflow(graph, infinity)
        stopped = 0 <= limit < last
        if stopped:  # stopped early at the targets: larger distances are not final
            for g in pieces(graph):
                with g.device.active():
                    dist = g.points.dist.array
                    dist[dist > limit] = infinity
        predecessor = _predecessors(graph, starts, infinity, last) if predecessors else None
        (distance,) = results(graph, "dist") if stopped else copied.arrays()
        return Sssp(_widened(results_device(graph), distance), predecessor)


def _widths(graph: Graph, delta: float, dense: bool) -> tuple[float, float]:
    """Return the widths of the buckets of `dense_phase` and of near-far."""
    first, second = delta * DENSE_SCALE / DELTA_SCALE, delta * WIDE if dense else delta
    if isinstance(graph, Graph) and graph.device.on_host:
        threads = get_num_threads()
        if dense and threads > 1 and len(graph.edges) >= MANY_EDGES:
            first /= 2
        if not dense and threads <= FEW_THREADS:
            second /= 2
    return first, second


def _limits(dtype: np.dtype[Any], cutoff: float | None, speculative: bool) -> tuple[Any, Any, bool]:
    """Return the distance of unreachable vertices, the largest valid one, and if it is a cutoff."""
    real = dtype.kind == "f"
    infinity = np.inf if real else int(np.iinfo(dtype).max)
    most = float(np.finfo(dtype).max) if real else infinity - 1
    if cutoff is None:
        return infinity, most, False
    limit = min(most, cutoff if real else int(min(cutoff, most)))
    return infinity, limit, not speculative or cutoff < most


def _solved_rows(
    graph: Graph, starts: Any, target_ids: Any, cutoff: float | None, predecessors: bool,
    weights: Weights, speculative: bool = False,
) -> Sssp | None:  # fmt: skip
    """Solve for each source, in batches that fill the device, like `_solved`."""
    infinity, most, cuts = _limits(weights.dtype, cutoff, speculative)
    by_thread = sources_at_once(graph, len(starts))
    wide = weights.delta
    if by_thread:
        dense = len(graph.edges) >= DENSE * len(graph.points)
        wide *= (THREAD_SCALE_DENSE if dense else THREAD_SCALE) / DELTA_SCALE
    delta = weights.dtype.type(min(wide, most)) or weights.dtype.type(1)
    limits = weights.dtype.type(infinity), weights.dtype.type(most), delta
    edges = {} if weights.weight is None else {"weight": (weights.dtype, 0)}
    batch, found = batch_size(graph), []
    if batch < HOST_BATCH and results_device(graph).on_host:
        batch = 1
    batch = by_thread or batch
    if not len(starts):
        none = _solved(graph, starts, target_ids, cutoff, predecessors, weights)
        return none and Sssp(*(None if a is None else a[None][:0] for a in none))
    for first in range(0, len(starts), batch):
        some = starts[first : first + batch]
        if batch > 1:
            solve = paths_of_each if by_thread else search_pairs
            with graph.edges.temporary_columns(**edges):
                if weights.weight is not None:
                    graph.edges.weight[:] = weights.weight[0]
                dist, parent, overflowed = solve(graph, some, target_ids, limits, predecessors)
            if not overflowed or cuts:
                with graph.device.active():
                    found.append(Sssp(_widened(graph.device, dist), parent))
                continue
        for start in some:  # also after an overflow in a batch: the error names the edge
            given = graph, start[None], target_ids, cutoff, predecessors, weights
            one = _solved(*given, speculative)
            if one is None:
                return None
            found.append(Sssp(*(None if a is None else a[None] for a in one)))
    distance = stacked(graph, [one.distance for one in found])
    return Sssp(distance, stacked(graph, [x.predecessor for x in found]) if predecessors else None)


def refuse_overflow(graph: Graph, infinity: Any) -> None:
    """Raise an error if an edge leads from a reached to an unreached vertex."""
    pick = live_edges(graph)
    with graph.device.active():
        reached = graph.points.dist[:] < infinity
        src, dst, weight = (getattr(graph.edges, c)[pick] for c in ("src", "dst", "weight"))
        beyond = graph.device.xp.flatnonzero(reached[src] & ~reached[dst] & (weight < np.inf))
    if beyond.size:
        k = int(beyond[0])
        start, to = name_of(graph, src[k]), name_of(graph, dst[k])
        raise OverflowError(
            f"the distance of vertex {to}, reached from vertex {start}, is too"
            f" large for {graph.points.dist.dtype}"
        )


def _predecessors(graph: Graph, starts: Any, infinity: Any, most: Any) -> Any:
    """Return the parent of each vertex in a shortest-path tree, from final distances."""
    xp, points, missing = results_device(graph).xp, graph.points, Flag(graph)
    points.predecessor[starts] = -1
    foreach(points, set_parent, graph, where=nearer_than(infinity))
    foreach(points, end_predecessor, most, missing)
    if missing.take():  # reached by zero-weight edges only
        now, then = Collection(points), Collection(points)
        with results_device(graph).active():
            reached = values(graph, "dist") < infinity
            now.extend(xp.flatnonzero((values(graph, "predecessor") != NO_PREDECESSOR) & reached))
        run_until_empty(now, then, set_equal_parent, graph)
    with results_device(graph).active():
        (found,) = results_device(graph).copies(values(graph, "predecessor"))
        if points.deletes:
            found[found == NO_PREDECESSOR] = -1
    return found


def _widened(where: Device, distance: Any) -> Any:
    """Return distances in the dtype of the result."""
    if isinstance(distance, PartitionedArray):
        return distance.map(_widened)
    return distance if distance.dtype != np.int32 else _with_infinity(where, distance, INFINITY)


def _with_infinity(where: Device, distance: Any, old: int) -> Any:
    """Return distances as int64, with the largest int64 in place of ``old``."""
    return where.replaced(distance, old, int(np.iinfo(np.int64).max), np.int64)
