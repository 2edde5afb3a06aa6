"""Shortest paths with weights that may be negative: Bellman-Ford, on a worklist.

In each round, the vertices whose distance decreased in the previous round relax their out-edges
with their current distances, so a decrease in a round counts in the same round.  A vertex of the
worklist is skipped if its edges were already relaxed with its distance.  The distances at the end
do not depend on the order; predecessors are then found by a breadth-first search of the edges
whose weight is exactly the difference of the distances, so neither depends on the device or the
number of threads.

A cycle of predecessors has negative weight, and arises within ``n`` rounds if the sources reach a
cycle of negative weight (Cherkassky, Goldberg, Math. Programming 1999).  Each decrease stores its
predecessor, and cycles of these are searched for after 16, 64 ... rounds.  As threads may
store predecessors in another order than distances, only a cycle whose weight is negative counts.
If there is one, or after ``n`` rounds, the search starts again with deterministic rounds, which
relax with the distances from the start of the round, and so always report the same cycle.
Work: O(n m) at most; O(n + m) times a few rounds on most graphs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import as_graph, live_edges, of_graph, results, source_ids
from morph.algorithms.graph.cycles import NO_PREDECESSOR, NegativeCycle, find_cycle, refuse_cycle
from morph.algorithms.graph.sssp import refuse_overflow, sssp
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.graph import Graph
from morph.graph.labels import VertexIds, name_of
from morph.language.arguments import boolean
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_max, atomic_min, i32, i64
from morph.runtime.arrays import any_true

UNVISITED = 2**62  # not visited yet
CHECKED = 16  # rounds until the first search for a cycle; then GROWTH times as many
GROWTH = 4  # deterministic rounds: 2
FEW = 1024  # vertices of a worklist that one block of a GPU relaxes


class BellmanFord(NamedTuple):
    """Result of `bellman_ford`: ``distance`` and ``predecessor`` (int32, or None), shape (n,)."""

    distance: Any
    predecessor: Any


@kernel
def relax(p, g, round, then):
    before = p.dist
    if before != p.start:
        p.start = before
        for t in p.outnbrs:
            d = before + g.weight(p, t)
            if atomic_min(t.dist, d) > d:
                t.predecessor = p.id  # race: another vertex may have decreased the distance
                if atomic_max(t.round, round) < round:
                    then.add(t)


@program
def run_rounds(g, now, then, round, last, least, most):
    """Relax with current distances; ``start``: the distance that was relaxed last.

    End if the worklist has fewer than ``least`` vertices, or more than ``most``.
    """
    while round < last and len(now) >= least and len(now) <= most:
        round += 1
        foreach(now, relax, g, round, then)
        now, then = then, now
        then.clear()
    return round


@kernel
def relax_from_start(p, g, round, then):
    before = p.start
    for t in p.outnbrs:
        d = before + g.weight(p, t)
        if atomic_min(t.dist, d) > d:
            if atomic_max(t.round, round) < round:
                t.predecessor = NO_PREDECESSOR
                then.add(t)


@kernel
def set_parent(p, g, round):
    for t in p.outnbrs:
        if t.round == round and p.start + g.weight(p, t) == t.dist:
            atomic_min(t.predecessor, p.id)


@kernel
def end_round(p):
    p.start = p.dist


@program
def run_deterministic_rounds(g, now, then, round, last):
    """Relax with the distances from the start of each round, and set all predecessors."""
    while round < last and not now.empty:
        round += 1
        foreach(now, relax_from_start, g, round, then)
        foreach(now, set_parent, g, round)
        foreach(then, end_round)
        now, then = then, now
        then.clear()
    return round


@kernel
def find_children(p, g, round, then):
    """Visit the targets of edges that shortest paths may use; the least predecessor wins."""
    for t in p.outnbrs:
        if p.dist + g.weight(p, t) == t.dist:
            if t.round > round:
                if atomic_min(t.round, round + 1) > round + 1:
                    then.add(t)
                atomic_min(t.predecessor, p.id)


@program
def find_predecessors(g, now, then):
    round = i64(0)
    while not now.empty:
        foreach(now, find_children, g, round, then)
        now, then = then, now
        then.clear()
        round += 1


@of_graph
def bellman_ford(graph: Graph, source: Any = 0, *, predecessors: bool = False) -> BellmanFord:
    """Find shortest paths from ``source`` to every point, with weights that may be negative.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device, with edge weights of any real type, by default 1; paths follow out-edges.
        Partitioned graphs only if no weight is negative.
    source : int or array of int
        Id or label of a vertex, or several: distances are the minimum over the sources.
    predecessors : bool
        Whether to compute ``predecessor``.

    Returns
    -------
    BellmanFord
        As in `sssp`, which is used if no weight is negative.  One of several sources may have a
        negative distance, and then has a predecessor.

    Raises
    ------
    NegativeCycle
        If a source reaches a cycle of negative weight; a `ValueError` with its ``vertices`` and
        ``edges``.  Sums of floating-point weights are rounded in the order of the path.
    TypeError
        If a source is not an integer, or the graph is partitioned and has negative weights.
    ValueError
        If a source is not a vertex, or a weight is NaN or minus infinity.
    OverflowError
        If distances might not fit int64, or a distance overflows its floating-point type.
    """
    predecessors = boolean(predecessors, "predecessors")
    starts = source_ids(graph, source)
    least = _least_weight(graph)
    if least >= 0:
        return BellmanFord(*sssp(graph, VertexIds(starts), predecessors=predecessors))
    as_graph(graph)
    kind = graph.edges.columns["weight"].dtype
    dtype = np.dtype(np.int64) if kind.kind in "iu" else np.result_type(kind, np.float32)
    infinity = np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)

    def make() -> list[Any]:
        return [Collection(graph.points, capacity=len(graph.points)) for _ in range(2)]

    columns = {"dist": (dtype, infinity), "start": (dtype, infinity), "round": (i64, 0)}
    columns["predecessor"] = i32, -1
    with workspace(graph, "bellman_ford", make, None, starts, {"dist": 0}, **columns) as lists:
        found = _solve(graph, lists, least) and not (dtype.kind == "f" and _has_infinite(graph))
        if not found or (predecessors and not _find_predecessors(graph, lists, starts, infinity)):
            _solve_deterministically(graph, lists, starts, infinity)
        if dtype.kind == "f":
            _refuse_infinite(graph, infinity)
        distance, predecessor = results(graph, "dist", "predecessor")
        return BellmanFord(distance, predecessor if predecessors else None)


def _least_weight(graph: Graph) -> Any:
    """Return the least weight; rejects weights whose sums are undefined or may overflow."""
    if "weight" not in graph.edges.columns or not graph.edges.live:
        return 1
    live = live_edges(graph)
    with graph.device.active():
        weight = graph.edges.weight[live]
        least, most = weight.min().item(), weight.max().item()
        if not least > -np.inf or most != most:
            k = int((~(weight > -np.inf)).argmax())
            u, v = (name_of(graph, end[live][k]) for end in (graph.edges.src, graph.edges.dst))
            raise ValueError(
                "bellman_ford needs weights that are neither NaN nor -inf, but the edge from"
                f" {u} to {v} has {weight[k]}"
            )
    if weight.dtype.kind in "iu" and least < 0:
        most, n = max(-least, most), len(graph.points)
        if most * (2 * n + CHECKED) >= 2**62:
            raise OverflowError(f"weights of {most} on {n} vertices: sums may not fit int64")
    return least


def _solve(graph: Graph, lists: list[Any], least: Any) -> bool:
    """Relax until no distance decreases; returns False if there may be a negative cycle.

    On a CPU by one thread: of several, each relaxes distances that others then decrease, so that
    2 to 16 threads relax two to four times as many vertices.
    """
    now, then = lists
    done, last, n, few = i64(0), CHECKED, len(graph.points), True
    limit, most = n + 1, n if graph.device.on_host else FEW
    if isinstance(least, int):  # a round lowers distances by at most n times the least weight
        limit = min(limit, 2**62 // (n * -least))
    while not now.empty:
        run, sizes = (run_rounds.alone, (1, most)) if few else (run_rounds, (most // 2, n))
        done = run(graph, now, then, i64(done), i64(min(last, limit)), *map(i64, sizes))
        if now.empty:
            now, then = then, now
        few = len(now) <= most if few else len(now) < most // 2
        if done >= min(last, limit):
            if not now.empty and (done >= limit or _has_negative_cycle(graph)):
                return False
            last *= GROWTH
    return True


def _has_negative_cycle(graph: Graph) -> bool:
    found = find_cycle(graph, graph.points.predecessor[:])
    if found is None:
        return False
    with graph.device.active():
        weight = graph.device.to_host(graph.edges.weight[found[1]])
    return bool(sum(weight.tolist()) < 0)


def _find_predecessors(graph: Graph, lists: list[Any], starts: Any, infinity: Any) -> bool:
    """Set predecessors from distances; returns False if rounding left a vertex without one."""
    points, (now, then) = graph.points, lists
    with graph.device.active():
        xp = graph.device.xp
        starts = xp.asarray(starts)
        roots = starts[points.dist[:][starts] == 0]
        points.predecessor[:] = NO_PREDECESSOR
        points.round[:] = UNVISITED
        points.round[roots] = 0
        for each in lists:
            each.clear()
        now.extend(roots)
        find_predecessors(graph, now, then)
        points.predecessor[roots] = -1
        parent, reached = points.predecessor[:], points.dist[:] < infinity
        if any_true(reached & (parent == NO_PREDECESSOR)):
            return False
        points.predecessor[:] = xp.where(reached, parent, -1)
    return True


def _solve_deterministically(graph: Graph, lists: list[Any], starts: Any, infinity: Any) -> None:
    """Relax in rounds from the sources, until no distance decreases or a cycle arises."""
    points, (now, then) = graph.points, lists
    with graph.device.active():
        for name, value in (("dist", infinity), ("start", 0), ("round", 0), ("predecessor", -1)):
            getattr(points, name)[:] = value
        points.dist[graph.device.xp.asarray(starts)] = 0
    for each in lists:
        each.clear()
    now.extend(starts)
    done, last = i64(0), CHECKED
    while not now.empty:
        done = run_deterministic_rounds(graph, now, then, i64(done), i64(last))
        if now.empty:
            now, then = then, now
        if not now.empty:
            refuse_cycle(graph, graph.points.predecessor[:], NegativeCycle)
        last *= 2


def _has_infinite(graph: Graph) -> bool:
    """Whether a distance is minus infinity."""
    with graph.device.active():
        return any_true(graph.points.dist[:] == -np.inf)


def _refuse_infinite(graph: Graph, infinity: Any) -> None:
    """Raise an error if a sum of finite weights became infinite."""
    if _has_infinite(graph):
        with graph.device.active():
            below = graph.device.xp.flatnonzero(graph.points.dist[:] == -np.inf)
        refuse_cycle(graph, graph.points.predecessor[:], NegativeCycle)
        v, dtype = name_of(graph, below[0]), graph.points.dist.dtype
        raise OverflowError(f"the distance of vertex {v} is too small for {dtype}")
    refuse_overflow(graph, infinity)
