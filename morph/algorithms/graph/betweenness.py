"""Betweenness centrality: the share of shortest paths that pass through each point.

Paths by numbers of edges: Brandes' algorithm, one source after another (Brandes 2001; Unnikrishnan
et al., Falcon, figures 34 and 35).  Forwards, level by level, shortest paths are counted, and of
each point how many edges lead to the next level.  Backwards, from points where none does, each
gives its predecessors their part of what it carries, and is followed by those that have got all of
theirs.  Both sweeps go by worklists: O(n + m) for a source.  A sample of sources estimates the rest
(Brandes, Pich 2007).

A grid of 1000 x 1000 has more shortest paths than float64 can count.  From the first source where
that is seen, a count is a float from 2**-256 to 2**256 and how often it is to be multiplied by
2**512: ratios of counts are then as exact as before.

Paths by weights: `betweenness_weighted.py`.
"""

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
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_add, atomic_min, atomic_sub, f64, i32

INFINITY = 2**31 - 1
MOST = np.finfo(np.float64).max
LARGE = 2.0**256  # a scaled count is smaller than this
UNIT = 2.0**-512  # what a scale of one less is multiplied by


class Betweenness(NamedTuple):
    """Result of `betweenness`: ``centrality``, shape (n,), float64, and the ``sources`` used."""

    centrality: Any
    sources: Any


@kernel
def reset(p):
    p.dist = INFINITY
    p.paths = 0.0
    p.carried = 0.0


@kernel
def expand(p, level, then, leaves, lost):
    if p.paths > MOST:
        lost.set()
    ahead = 0
    for t in p.outnbrs:
        before = atomic_min(t.dist, level)
        if before >= level:
            atomic_add(t.paths, p.paths)
            ahead += 1
        if before > level:
            then.add(t)
    p.ahead = i32(ahead)
    if ahead == 0:
        leaves.add(p)


@program
def search(g, now, then, leaves, lost, level, source):
    foreach(g.points, reset)
    source.dist = 0
    source.paths = 1.0
    reached = 0
    while not now.empty:
        level += 1
        reached += len(now)
        foreach(now, expand, level, then, leaves, lost)
        now, then = then, now
        then.clear()
    if lost.take():
        reached = -1
    return reached


@kernel
def give(p, then, ends):
    if p.dist > 0:
        p.share += p.carried + ends
    for t in p.innbrs:
        if t.dist + 1 == p.dist:
            atomic_add(t.carried, t.paths / p.paths * (1.0 + p.carried))
            if atomic_sub(t.ahead, 1) == 1:
                then.add(t)


@program
def carry(now, then, source, reached, ends):
    source.share = source.share + ends * (reached - 1)
    while not now.empty:
        foreach(now, give, then, ends)
        now, then = then, now
        then.clear()


@kernel
def reset_scaled(p):
    p.dist = INFINITY
    p.paths = 0.0
    p.scale = i32(0)
    p.carried = 0.0


@kernel
def find_next(p, level, then, leaves):
    ahead = 0
    for t in p.outnbrs:
        before = atomic_min(t.dist, level)
        if before >= level:
            ahead += 1
        if before > level:
            then.add(t)
    p.ahead = i32(ahead)
    if ahead == 0:
        leaves.add(p)


@kernel
def count_scaled(p, level):
    """Add up the counts of the level before; what is 2**512 times smaller than another is lost."""
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


@program
def search_scaled(g, now, then, leaves, level, source):
    foreach(g.points, reset_scaled)
    source.dist = 0
    source.paths = 1.0
    reached = 0
    while not now.empty:
        level += 1
        reached += len(now)
        foreach(now, find_next, level, then, leaves)
        foreach(then, count_scaled, level)
        now, then = then, now
        then.clear()
    return reached


@kernel
def give_scaled(p, then, ends):
    if p.dist > 0:
        p.share += p.carried + ends
    for t in p.innbrs:
        if t.dist + 1 == p.dist:
            part = t.paths / p.paths
            apart = p.scale - t.scale  # 0 or more: a predecessor has no more paths
            while apart > 0 and part > 0.0:
                part *= UNIT
                apart -= 1
            atomic_add(t.carried, part * (1.0 + p.carried))
            if atomic_sub(t.ahead, 1) == 1:
                then.add(t)


@program
def carry_scaled(now, then, source, reached, ends):
    source.share = source.share + ends * (reached - 1)
    while not now.empty:
        foreach(now, give_scaled, then, ends)
        now, then = then, now
        then.clear()


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
    """Find the betweenness centrality of every point.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device; edges are followed outwards.  Of parallel edges each makes a path of its own.
        In parts only without ``weighted``.
    sources : int or array of int, optional
        Start only from so many points, drawn with ``seed``, or from these, and scale the result to
        all; by default from all points, which is exact.
    weighted : bool
        The length of an edge is its weight, 1 if there are none; else it is 1.  Integers are added
        up exactly, other weights from the source on, rounded to the type of `sssp`'s distances:
        paths tie if these sums are equal.  An edge that does not change the sum is on no path.
    normalized : bool
        Divide by the number of pairs of other points; else give the number of paths, those of a
        pair adding up to 1, and both directions of an edge counting once unless ``graph.directed``.
    endpoints : bool
        A path passes through its ends, too.
    seed : int

    Returns
    -------
    Betweenness
        ``centrality``, shape (n,), float64, on the graph's device, as in NetworkX; NaN at the only
        source there is.  ``sources``, shape (k,), int64.

    Raises
    ------
    TypeError
        If a source or the seed is not an integer, or a flag neither True nor False; or if
        ``weighted``, of a graph in parts.
    ValueError
        If a source is not a point, a sample larger than the graph is asked for, the seed is
        negative, or, if ``weighted``, a weight is not above 0, or so small that none of the edges
        to a point lengthens a path.
    OverflowError
        If ``weighted``, and a distance does not fit the type.
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
    """Return the ids of the sources that are asked for, or drawn; as `betweenness`."""
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
    """Add up in the column ``share`` what the points carry for each source.

    After each source ``each(scaled)`` is called, where the columns ``dist`` or ``distance``,
    ``paths``, ``carried`` and, if ``scaled``, ``scale`` are those of the source.
    """
    by_weights = weighted and "weight" in graph.edges.columns
    if by_weights:
        as_graph(graph)
    names: dict[str, Any] = {"paths": (f64, 0), "carried": (f64, 0), "share": (f64, 0)}
    if not by_weights:
        names |= {"dist": (i32, INFINITY), "ahead": (i32, 0)}
    with graph.points.temporary_columns(**names), ExitStack() as added:
        if by_weights:
            sweep_by_weights(graph, sources.tolist(), ends, each)
        else:
            _sweep(graph, sources.tolist(), ends, added, each)
        yield


def _sweep(
    graph: Graph, sources: list[int], ends: float, added: ExitStack, each: Callable[[bool], Any]
) -> None:
    """Add up what the points carry for each source; a column is added where counts need scales."""
    n, lost, scaled = len(graph.points), Flag(graph), False
    now, then, leaves = lists = [Collection(graph.points, capacity=n) for _ in range(3)]

    def begin(s: int) -> Any:
        for c in lists:
            c.clear()
        now.add(s)
        return graph.points[s]

    for s in sources:
        source, reached = begin(s), -1
        if not scaled:
            reached = search(graph, now, then, leaves, lost, i32(0), source)
        if reached < 0:
            if not scaled:
                added.enter_context(graph.points.temporary_columns(scale=(i32, 0)))
            scaled, source = True, begin(s)
            reached = search_scaled(graph, now, then, leaves, i32(0), source)
        then.clear()
        (carry_scaled if scaled else carry)(leaves, then, source, reached, ends)
        each(scaled)


def _scale(graph: Graph, sources: Any, endpoints: bool, normalized: bool) -> Any:
    """What the sums over ``sources`` are to be multiplied by: a number, or an array of them.

    A source is on no path from itself unless its ends count: it has one source fewer.
    """
    xp, live, k = results_device(graph).xp, graph.points.live, len(sources)
    others = live if endpoints else live - 1  # points that can be the end of a path through one
    if others < 2 or k == 0:
        return 1.0
    whole = 1 / (others - 1) if normalized else others / (1 if graph.directed else 2)
    if endpoints or k == live:
        return whole / (k if endpoints else k - 1)
    scale = xp.full(len(graph.points), whole / k)
    scale[xp.asarray(sources)] = whole / (k - 1) if k > 1 else np.nan
    return scale
