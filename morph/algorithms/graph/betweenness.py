"""Betweenness centrality: the fraction of shortest paths that pass through each point.

Unweighted paths: Brandes' algorithm, one source after another (Brandes 2001; Unnikrishnan et al.,
Falcon, figures 34 and 35).  The forward sweep counts shortest paths level by level, and lists the
points in the order of their levels.  A level pushes its counts by atomics, or, if it has many of
the edges that remain and each edge is stored as two arcs, the other points pull them.  The backward
sweep takes the levels in reverse order: a point adds up the dependencies of its successors, each of
which has stored (1 + dependency) / paths, so there are no atomics.  O(n + m) per source.  A sample
of sources yields an estimate (Brandes, Pich 2007).

From the first source with a count that overflows on, counts are scaled, see `path_counts.py`.

Partitioned graphs, and on a GPU many sources of a graph of high diameter: `betweenness_batch.py`.
Paths by weights: `betweenness_weighted.py`.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import (
    as_graph,
    checked_seed,
    lists_vertices,
    of_graph,
    results,
    results_device,
    source_ids,
)
from morph.algorithms.graph.betweenness_batch import max_width, sweep_batches
from morph.algorithms.graph.betweenness_threads import dependencies_of_each
from morph.algorithms.graph.betweenness_weighted import sweep_by_weights
from morph.algorithms.graph.bfs import bfs
from morph.algorithms.graph.path_counts import MOST, add_scaled, scaled_down
from morph.algorithms.graph.source_threads import sources_at_once
from morph.algorithms.graph.workspace import Objects, workspace
from morph.data.collection import Collection, Flag
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.labels import VertexIds
from morph.language.arguments import boolean
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_add, atomic_min, f64, i32, i64, static
from morph.runtime.threads import get_num_threads

INFINITY = 2**31 - 1
MANY_SOURCES = 16  # from so many on, on a GPU, they are processed in batches
MANY_LEVELS = 100  # if the graph has more levels, from the first source: steps with little work
AT_ONCE = 256  # sources whose dependencies are kept until they are added, a row each
SPARSE = 256  # a level with less than a 256th of all points pushes; its edges are not counted
DENSE = 2  # the next level pulls if the level has over half of the edges of unvisited points


class Work(NamedTuple):
    """The objects of `sweep`, as a bundle."""

    graph: Any
    levels: Any  # table: offset of each level in the order of visits
    state: Any  # the number of edges of a level
    overflowed: Any  # flag: a count exceeds `MOST`
    pull: Any  # kernel: pull or pull_none
    pulls: bool  # whether a level may pull


@lists_vertices("sources")
class Betweenness(NamedTuple):
    """Result of `betweenness`: ``centrality``, shape (n,), float64, and the ``sources`` used.

    ``sources``: ids, int64, or labels, see `Graph.labels`.
    """

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


@func
def store_end(w, level, end):
    """Store where the next level begins in the order of visits; all items pass the same ``end``."""
    if w.levels[level].first != end:
        w.levels[level].first = end  # race: all write the same


@kernel
def expand(p, level, end, w, then):
    store_end(w, level, end)
    if p.paths > MOST:
        w.overflowed.set()
    for t in p.outnbrs:
        before = atomic_min(t.dist, level)
        if before >= level:
            atomic_add(t.paths, p.paths)
        if before > level:
            then.add(t)


@kernel
def pull(p, level, end, w, then):
    """Add up the counts of the neighbours in the previous level, for a point not visited yet."""
    total = 0.0
    for t in p.innbrs:
        if t.dist < level:
            total += t.paths
    if total > 0.0:
        p.dist = level  # race: neither value is less than `level`
        p.paths = total
        then.add(p)
        store_end(w, level, end)
        if total > MOST:
            w.overflowed.set()


@kernel
def pull_none(p, level, end, w, then):
    """A placeholder for directed graphs, so that no index of in-edges is built."""


@kernel
def count_edges(p, state):
    atomic_add(state.edges, i64(p.out_degree))


@kernel
def find_next(p, level, end, w, then):
    store_end(w, level, end)
    for t in p.outnbrs:
        if atomic_min(t.dist, level) > level:
            then.add(t)


@kernel
def count_scaled(p, level):
    """Add the counts of the previous level."""
    total, scale = 0.0, i32(0)
    for t in p.innbrs:
        if t.dist + 1 == level:
            total, scale = add_scaled(total, scale, t.paths, t.scale)
    p.paths = total
    p.scale = scale


@kernel
def gather(p, next_level, reached, ends, scaled: static):
    """Add the parts that the successors of a point, in the next level, have stored."""
    paths, share, total = p.paths, p.share, 0.0  # loaded before the loop, whose loads depend on it
    for t in p.outnbrs:
        if t.dist == next_level:
            part = t.part
            if scaled:  # the scale of a predecessor is at most as large
                part = scaled_down(part, t.scale - p.scale)
            total += part
    total *= paths
    p.dependency = total
    p.part = (1.0 + total) / paths
    p.share = share + (total + ends if next_level > 1 else ends * (reached - 1))


@program
def sweep(w, order, ends, scaled: static):
    """Add the dependencies for one source, in ``order``; return False if a count overflowed."""
    foreach(w.graph.points, reset, scaled)
    foreach(order, begin)
    level, first, end, left = i32(0), 0, len(order), i64(len(w.graph.edges))
    while first < end:
        level += 1
        if scaled:
            foreach(order[first:end], find_next, level, end, w, order)
            foreach(order[end:], count_scaled, level)
        else:
            edges = i64(0)
            if w.pulls and (end - first) * SPARSE > len(w.graph.points):
                w.state.edges = 0
                foreach(order[first:end], count_edges, w.state)
                edges = w.state.edges
                left -= edges
            if edges * DENSE > left:
                foreach(w.graph.points, w.pull, level, end, w, order,
                        where=lambda p: p.dist > level)  # fmt: skip
            else:
                foreach(order[first:end], expand, level, end, w, order)
        first = end
        end = len(order)
    if w.overflowed.take():
        return False
    reached = end
    first = w.levels[level - 1].first
    while level > 0:
        level -= 1
        before = w.levels[max(level - 1, 0)].first  # loaded while the level is processed
        foreach(order[first:end], gather, level + 1, reached, ends, scaled)
        end = first
        first = before
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
        Number of sources to draw with ``seed``, or ids or labels of the sources, in a list if they
        are numbers; the result is scaled to all points.  By default all points, which is exact.
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
    normalized, endpoints = boolean(normalized, "normalized"), boolean(endpoints, "endpoints")
    weighted = boolean(weighted, "weighted")
    chosen = chosen_sources(graph, sources, seed)
    scale, own = _scales(graph, len(chosen), endpoints, normalized)
    scale = own if len(chosen) == graph.points.live else scale
    with dependencies(graph, chosen, float(endpoints), weighted):
        if own != scale:
            graph.points.share[chosen] = graph.points.share[chosen] * (own / scale)
        (share,) = results(graph, "share")
    with results_device(graph).active():
        share = share * scale
    return Betweenness(share, chosen.astype(np.int64))


def chosen_sources(graph: Graph, sources: Any, seed: Any) -> Any:
    """Return the ids of the given or drawn sources, see `betweenness`."""
    seed = checked_seed(seed)
    live = graph.device.to_host(graph.points.ids())
    if sources is None:
        return live
    if isinstance(sources, (int, np.integer)) and not isinstance(sources, bool):
        if not 0 < sources <= len(live):
            count = shown(sources)
            raise ValueError(f"a sample of {count} sources: the graph has {len(live)} points")
        return np.sort(np.random.default_rng(seed).choice(live, sources, replace=False))
    return source_ids(graph, sources)


@contextmanager
def dependencies(
    graph: Graph, sources: Any, ends: float, weighted: bool,
    each: Callable[[bool], Any] | None = None,
) -> Iterator[None]:  # fmt: skip
    """Add the dependencies of the points for each source to the column ``share``.

    Parameters
    ----------
    graph : Graph or PartitionedGraph
    sources : (k,) int array
    ends : float
        1 if paths also pass through their ends, else 0.
    weighted : bool
        Whether to use weights of edges, if the graph has some.
    each : callable, optional
        ``each(scaled)`` is called after each source, when the columns ``dist`` (with weights
        ``distance``), ``paths`` and ``dependency`` of the points that the source reaches have the
        values for this source; if ``scaled``, also ``scale``.

    Yields
    ------
    None
        While the graph has the columns.
    """
    by_weights = weighted and "weight" in graph.edges.columns
    if by_weights:
        as_graph(graph)
    names: dict[str, Any] = {"paths": (f64, 0), "dependency": (f64, 0), "share": (f64, 0)}
    with ExitStack() as added:
        in_batches = each is None and not by_weights and _takes_batches(graph, sources)
        if in_batches:
            sweep_batches(graph, sources.tolist(), ends, added)
        elif by_weights:
            added.enter_context(graph.points.temporary_columns(**names))
            sweep_by_weights(graph, sources.tolist(), ends, each)
        else:
            names |= {"dist": (i32, INFINITY), "part": (f64, 0)}
            make = partial(_objects, graph)
            left = sources.tolist()
            objects = added.enter_context(workspace(graph, "betweenness", make, **names))
            if each is None:
                left = _sweep_by_threads(graph, left, ends)
            _sweep(graph, objects, left, ends, added, each)
        yield


def _takes_batches(graph: Graph, sources: Any) -> bool:
    """Whether to process batches of sources: of partitioned graphs; on a GPU, at high diameter."""
    if isinstance(graph, PartitionedGraph):
        return True
    fits = max_width(len(graph.points)) >= MANY_SOURCES
    if graph.device.on_host or len(sources) < MANY_SOURCES or not fits:
        return False
    return bfs(graph, VertexIds(sources[:1])).levels > MANY_LEVELS


def _sweep_by_threads(graph: Graph, sources: list[int], ends: float) -> list[int]:
    """Add the dependencies for sources by a thread each; return the sources that are left."""
    alone = get_num_threads() == 1  # then the sweep is faster on large graphs
    at_once = 0 if alone else min(sources_at_once(graph, len(sources)), AT_ONCE)
    while at_once and sources:
        total = dependencies_of_each(graph, sources[:at_once], ends)
        if total is None:
            break
        graph.points.share[:] += total
        sources = sources[at_once:]
    return sources


def _objects(graph: Graph) -> list[Any]:
    """Make the objects of `sweep`."""
    n = len(graph.points)
    # spare capacity, so that warps still reserve slots in advance when the list is nearly complete
    order = Collection(graph.points, capacity=2 * n)
    levels = Table("levels", graph, first=i64)
    levels.extend(n + 1)
    return [Flag(graph), order, levels, Scalars(graph, edges=0)]


def _work(graph: Graph, overflowed: Flag, levels: Table, state: Scalars) -> Work:
    """Make the bundle of `sweep`; levels pull if the graph has both arcs of each edge."""
    pulls = not graph.directed
    return Work(graph, levels, state, overflowed, pull if pulls else pull_none, pulls)


def _sweep(
    graph: Graph, objects: Objects, sources: list[int], ends: float, added: ExitStack,
    each: Callable[[bool], Any] | None,
) -> None:  # fmt: skip
    """Add the dependencies for each source; ``added`` gets the column for scales on overflow."""
    overflowed, order, levels, state = objects
    work = objects.once(_work, graph, overflowed, levels, state)

    def run(s: int, scaled: bool) -> Any:
        order.clear()
        order.add(s)
        call = sweep if scaled else partial(objects.run, sweep)
        return call(work, order, ends, int(scaled))

    scaled = False
    for s in sources:
        if not scaled and not run(s, False):
            scaled = True
            added.enter_context(graph.points.temporary_columns(scale=(i32, 0)))
        if scaled:
            run(s, True)
        if each is not None:
            each(scaled)


def _scales(graph: Graph, k: int, endpoints: bool, normalized: bool) -> tuple[float, float]:
    """Return the factors of the sums over ``k`` sources, of other points and of the sources.

    Without ``endpoints``, a source is on no path from itself, so it has one source fewer.
    """
    live = graph.points.live
    others = live if endpoints else live - 1  # possible ends of a path through a point
    if others < 2 or k == 0:
        return 1.0, 1.0
    whole = 1 / (others - 1) if normalized else others / (1 if graph.directed else 2)
    fewer = k if endpoints else k - 1
    return whole / k, whole / fewer if fewer else np.nan
