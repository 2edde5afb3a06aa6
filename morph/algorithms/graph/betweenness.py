"""Betweenness centrality: the fraction of shortest paths that pass through each point.

Unweighted paths: Brandes' algorithm, one source after another (Brandes 2001; Unnikrishnan et al.,
Falcon, figures 34 and 35).  The forward sweep counts, level by level, shortest paths and the edges
of each point to the next level.  The backward sweep accumulates dependencies: it begins at points
without such edges, adds the contribution of each point to its predecessors, and continues with the
predecessors that have all contributions.  Both sweeps use worklists: O(n + m) per source.  A sample
of sources yields an estimate (Brandes, Pich 2007).

The number of shortest paths in a grid of 1000 x 1000 overflows float64.  From the first source with
an overflow on, counts are scaled: a float from 2**-256 to 2**256 and an exponent of 2**512, so that
ratios of counts have the same precision.

Paths by weights: `betweenness_weighted.py`.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import (
    as_graph,
    checked_seed,
    of_graph,
    results,
    results_device,
    source_ids,
)
from morph.algorithms.graph.betweenness_weighted import sweep_by_weights
from morph.data.collection import Collection, Flag
from morph.data.conversion import truth
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_add, atomic_min, f64, i32, i64, static

INFINITY = 2**31 - 1
MOST = 2.0**1000  # a larger count is scaled; the reciprocals of others have full precision
LARGE = 2.0**256  # a scaled count is smaller than this
UNIT = 2.0**-512  # factor of a count whose scale is smaller by 1


class Betweenness(NamedTuple):
    """Result of `betweenness`: ``centrality``, shape (n,), float64, and the ``sources`` used."""

    centrality: Any
    sources: Any


@kernel
def reset(p, scaled: static):
    p.dist = INFINITY
    p.paths = 0.0
    if scaled:
        p.scale = i32(0)


@kernel
def begin(p):
    p.dist = 0
    p.paths = 1.0


@kernel
def expand(p, level, then, lost):
    if p.paths > MOST:
        lost.set()
    for t in p.outnbrs:
        before = atomic_min(t.dist, level)
        if before >= level:
            atomic_add(t.paths, p.paths)
        if before > level:
            then.add(t)


@kernel
def find_next(p, level, then):
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            then.add(t)


@kernel
def count_scaled(p, level):
    """Add the counts of the previous level; terms 2**512 times smaller than others are lost."""
    total, scale = 0.0, i32(0)
    for t in p.innbrs:
        if t.dist + 1 == level:
            paths = t.paths
            if t.scale > scale:
                total = total * UNIT if t.scale == scale + 1 else 0.0
                scale = t.scale
            elif t.scale < scale:
                paths = paths * UNIT if t.scale + 1 == scale else 0.0
            total += paths
            if total >= LARGE:
                total *= UNIT
                scale += 1
    p.paths = total
    p.scale = scale


@kernel
def gather(p, next_level, reached, ends, scaled: static):
    """Add the dependencies on the points of the next level, of which each has stored its part."""
    total = 0.0
    for t in p.outnbrs:
        if t.dist == next_level:
            part = t.part
            if scaled:
                apart = t.scale - p.scale  # at least 0: a predecessor has at most as many paths
                while apart > 0 and part > 0.0:
                    part *= UNIT
                    apart -= 1
            total += part
    total *= p.paths
    p.carried = total
    p.part = (1.0 + total) / p.paths
    if p.dist > 0:
        p.share += total + ends
    else:
        p.share += ends * (reached - 1)


@program
def sweep(g, levels, order, lost, ends, scaled: static):
    """Add the dependencies for one source, in ``order``; return False if a count overflowed."""
    foreach(g.points, reset, scaled)
    foreach(order, begin)
    level, first, end = i32(0), 0, len(order)
    while first < end:
        levels[level].first = first
        level += 1
        if scaled:
            foreach(order[first:end], find_next, level, order)
            foreach(order[end:], count_scaled, level)
        else:
            foreach(order[first:end], expand, level, order, lost)
        first = end
        end = len(order)
    if lost.take():
        return False
    reached = end
    while level > 0:
        first = levels[level - 1].first
        foreach(order[first:end], gather, level, reached, ends, scaled)
        level -= 1
        end = first
    return True


@program
def sweep_in_parts(g, now, then, lost, ends, scaled: static):
    """As `sweep`; selects the points of a level by their distances."""
    foreach(g.points, reset, scaled)
    foreach(now, begin)
    level, reached = i32(0), 0
    while not now.empty:
        level += 1
        reached += len(now)
        if scaled:
            foreach(now, find_next, level, then)
            foreach(then, count_scaled, level)
        else:
            foreach(now, expand, level, then, lost)
        now, then = then, now
        then.clear()
    if lost.take():
        return False
    while level > 0:
        foreach(g.points, gather, level, reached, ends, scaled, where=lambda p: p.dist + 1 == level)
        level -= 1
    return True


@of_graph
def betweenness(
    graph: Graph,
    sources: Any = None,
    *,
    weighted: bool = False,
    normalized: bool = True,
    endpoints: bool = False,
    seed: int = 0,
) -> Betweenness:
    """Compute the betweenness centrality of every point.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device; paths follow out-edges.  Parallel edges belong to different paths.
        Partitioned graphs only without ``weighted``.
    sources : int or array of int, optional
        Number of sources to draw with ``seed``, or ids of the sources; the result is scaled to all
        points.  By default all points, which is exact.
    weighted : bool
        Use weights, by default 1, as lengths of edges, else 1.  Sums of integers are exact; sums of
        other weights are rounded from the source on, in the dtype of `sssp`'s distances, and paths
        tie if these sums are equal.  An edge that does not change the sum is on no path.
    normalized : bool
        Divide by the number of pairs of other points; else the paths of each pair have a total of
        1, and unless ``graph.directed`` each unordered pair counts once.
    endpoints : bool
        Whether paths also pass through their ends.
    seed : int

    Returns
    -------
    Betweenness
        ``centrality``, shape (n,), float64, on the graph's device, as in NetworkX; NaN at a single
        source.  ``sources``, shape (k,), int64.

    Raises
    ------
    TypeError
        If a source or the seed is not an integer, or a flag is neither True nor False; or with
        ``weighted`` for a partitioned graph.
    ValueError
        If a source is not a point, the sample is larger than the graph, the seed is negative, or,
        with ``weighted``, a weight is not positive, or so small that no edge to some point
        lengthens a path.
    OverflowError
        With ``weighted``, if a distance overflows.
    """
    normalized, endpoints = truth(normalized, "normalized"), truth(endpoints, "endpoints")
    weighted = truth(weighted, "weighted")
    chosen = chosen_sources(graph, sources, seed)
    with carriers(graph, chosen, float(endpoints), weighted):
        (share,) = results(graph, "share")
    with results_device(graph).active():
        share *= _scale(graph, chosen, endpoints, normalized)
    return Betweenness(share, chosen.astype(np.int64))


def chosen_sources(graph: Graph, sources: Any, seed: Any) -> Any:
    """Return the ids of the given or drawn sources, see `betweenness`."""
    seed = checked_seed(seed)
    live = graph.device.to_host(graph.points.ids())
    if sources is None:
        return live
    if isinstance(sources, (int, np.integer)) and not isinstance(sources, bool):
        if not 0 < sources <= len(live):
            raise ValueError(f"a sample of {sources} sources: the graph has {len(live)} points")
        return np.sort(np.random.default_rng(seed).choice(live, sources, replace=False))
    return source_ids(graph, sources)


@contextmanager
def carriers(
    graph: Graph, sources: Any, ends: float, weighted: bool, each: Callable[[bool], Any] = bool
) -> Iterator[None]:
    """Add the dependencies of the points for each source to the column ``share``.

    Calls ``each(scaled)`` after each source, when the columns ``dist`` or ``distance``, ``paths``,
    ``carried`` and, if ``scaled``, ``scale`` have the values for this source.
    """
    by_weights = weighted and "weight" in graph.edges.columns
    if by_weights:
        as_graph(graph)
    names: dict[str, Any] = {"paths": (f64, 0), "carried": (f64, 0), "share": (f64, 0)}
    if not by_weights:
        names |= {"dist": (i32, INFINITY), "part": (f64, 0)}
    with graph.points.temporary_columns(**names), ExitStack() as added:
        if by_weights:
            sweep_by_weights(graph, sources.tolist(), ends, each)
        else:
            _sweep(graph, sources.tolist(), ends, added, each)
        yield


def _sweep(
    graph: Graph, sources: list[int], ends: float, added: ExitStack, each: Callable[[bool], Any]
) -> None:
    """Add the dependencies for each source; adds the column for scales when counts overflow."""
    n, lost, scaled = len(graph.points), Flag(graph), False
    lists = [Collection(graph.points, capacity=n)]
    if in_parts := isinstance(graph, PartitionedGraph):
        lists.append(Collection(graph.points, capacity=n))
    else:
        levels = Table("levels", graph, first=i64)
        levels.extend(n + 1)

    def solve(s: int) -> Any:
        for c in lists:
            c.clear()
        lists[0].add(s)
        given = lost, ends, int(scaled)
        if in_parts:
            return sweep_in_parts(graph, *lists, *given)
        return sweep(graph, levels, *lists, *given)

    for s in sources:
        if not solve(s):
            added.enter_context(graph.points.temporary_columns(scale=(i32, 0)))
            scaled = True
            solve(s)
        each(scaled)


def _scale(graph: Graph, sources: Any, endpoints: bool, normalized: bool) -> Any:
    """Return the factor of the sums over ``sources``: a number, or an array with one per point.

    Without ``endpoints``, a source is on no path from itself, so it has one source fewer.
    """
    xp, live, k = results_device(graph).xp, graph.points.live, len(sources)
    others = live if endpoints else live - 1  # possible ends of a path through a point
    if others < 2 or k == 0:
        return 1.0
    whole = 1 / (others - 1) if normalized else others / (1 if graph.directed else 2)
    if endpoints or k == live:
        return whole / (k if endpoints else k - 1)
    scale = xp.full(len(graph.points), whole / k)
    scale[xp.asarray(sources)] = whole / (k - 1) if k > 1 else np.nan
    return scale
