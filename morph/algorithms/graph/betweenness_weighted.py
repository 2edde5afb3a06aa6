"""Betweenness by weights: counts of shortest paths from a source, and dependencies.

`sssp` computes the distances.  An edge is tight if the distance of its target equals that of its
source plus its weight; shortest paths consist of tight edges, which form no cycle as weights are
positive.  A point is visited when all its tight in-edges come from visited points, so that the
counts of its predecessors are final.  In reverse order, each point gathers the dependencies of its
tight out-edges.  All sums are pulled: there are no atomics on floating-point numbers.  Counts are
scaled, as in `betweenness`.  O(n + m) per source, in addition to `sssp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges
from morph.algorithms.graph.path_counts import LARGE, UNIT, scaled_down
from morph.algorithms.graph.sssp import sssp
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.labels import VertexIds, name_of
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_sub, f64, i32, i64


class Work(NamedTuple):
    """The objects of a search, as a bundle."""

    graph: Any
    levels: Any  # table: offset of each level in the order of visits
    unreachable: Any  # the distance of unreachable points
    no_tight_edge: Any  # flag: a reached point has no tight edge to it


@func
def is_tight(u, e, v):
    return u.distance < v.distance and u.distance + e.length == v.distance


@func
def scaled_part(u, v):
    """Return the number of paths to ``u`` divided by the number of paths to ``v``."""
    return scaled_down(u.paths / v.paths, v.scale - u.scale)  # `u` is a predecessor of `v`


@kernel
def start(p, unreachable, no_tight_edge):
    waiting = i32(0)
    for e in p.inedges:
        if is_tight(e.src, e, p):
            waiting += 1
    p.waiting = waiting
    p.paths = 0.0
    p.scale = i32(0)
    p.dependency = 0.0
    if waiting == 0 and p.distance > 0 and p.distance < unreachable:
        no_tight_edge.set()


@kernel
def visit(p, order, then):
    for e in p.outedges:
        t = e.dst
        if is_tight(p, e, t):
            if atomic_sub(t.waiting, 1) == 1:
                then.add(t)
    order.add(p)


@kernel
def find_scale(p):
    scale = i32(0)
    for e in p.inedges:
        if is_tight(e.src, e, p):
            scale = max(scale, e.src.scale)
    p.scale = scale


@kernel
def count(p):
    """Add the counts of predecessors; terms 2**512 times smaller than others are lost."""
    scale, total = p.scale, 0.0
    for e in p.inedges:
        t = e.src
        if is_tight(t, e, p):
            if t.scale == scale:
                total += t.paths
            elif t.scale + 1 == scale:
                total += t.paths * UNIT
    if total >= LARGE:
        total *= UNIT
        p.scale = i32(scale + 1)
    p.paths = total


@kernel
def gather(p, ends):
    total = 0.0
    for e in p.outedges:
        t = e.dst
        if is_tight(p, e, t):
            total += scaled_part(p, t) * (1.0 + t.dependency)
    p.dependency = total
    if p.distance > 0:
        p.share += total + ends


@program
def sweep_from(w, now, then, order, source, ends):
    """Return False if a reached point has no tight edge to it."""
    foreach(w.graph.points, start, w.unreachable, w.no_tight_edge)
    if w.no_tight_edge.take():
        return False
    source.paths = 1.0
    level = 0
    while not now.empty:
        w.levels[level].begin = len(order)
        level += 1
        foreach(now, visit, order, then)
        foreach(then, find_scale)
        foreach(then, count)
        now, then = then, now
        then.clear()
    end = len(order)
    source.share = source.share + ends * (end - 1)
    while level > 0:
        level -= 1
        begin = w.levels[level].begin
        foreach(order[begin:end], gather, ends)
        end = begin
    return True


def positive_lengths(graph: Graph) -> Any:
    """Return the weights in the dtype of distances; NaN replaces infinity, to exclude the edge.

    Raises
    ------
    ValueError
        If a weight is not positive.
    """
    with graph.device.active():
        weight, xp = graph.edges.weight[:], graph.device.xp
        live = live_edges(graph)
        bad = xp.flatnonzero(~(weight[live] > 0))
        if bad.size:
            u, v, w = (getattr(graph.edges, c)[live][bad[0]] for c in ("src", "dst", "weight"))
            u, v = name_of(graph, u), name_of(graph, v)
            raise ValueError(
                f"betweenness needs weights above 0, but the edge from {u} to {v} has {w}"
            )
        if weight.dtype.kind == "f":
            length = weight.astype(np.result_type(weight.dtype, np.float32))
            return xp.where(xp.isinf(length), length.dtype.type(np.nan), length)
        if weight.dtype == np.uint64:
            weight = xp.minimum(weight, np.uint64(np.iinfo(np.int64).max))
        return weight.astype(np.int64)


def sweep_by_weights(
    graph: Graph, sources: list[int], ends: float, each: Callable[[bool], Any] | None
) -> None:
    """Add the dependencies for each source; calls ``each(True)`` after each source."""
    length, n = positive_lengths(graph), len(graph.points)
    real, dtype = length.dtype.kind == "f", length.dtype
    unreachable = dtype.type(np.inf if real else np.iinfo(dtype).max)
    levels = Table("levels", graph, begin=i64)
    levels.extend(n + 1)
    work = Work(graph, levels, unreachable, Flag(graph))
    now, then, order = lists = [Collection(graph.points, capacity=n) for _ in range(3)]
    with graph.edges.temporary_columns(length=(dtype, 0)), graph.points.temporary_columns(
        distance=(dtype, 0), waiting=(i32, 0), scale=(i32, 0)
    ):  # fmt: skip
        graph.edges.length[:] = length
        for s in sources:
            graph.points.distance[:] = sssp(graph, VertexIds(np.array([s]))).distance
            for c in lists:
                c.clear()
            now.add(s)
            source = graph.points[s]
            if not sweep_from(work, now, then, order, source, f64(ends)):
                raise ValueError(
                    f"weights too far apart: from source {name_of(graph, s)}, an edge to a"
                    f" vertex does not lengthen the path to it in {dtype}"
                )
            if each is not None:
                each(True)
