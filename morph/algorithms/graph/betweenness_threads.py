"""Betweenness of many sources on a CPU, each of them by one thread, as in `source_threads`.

A search counts the paths in the order of its levels, and gathers dependencies in reverse order, as
`betweenness.sweep` does, but without atomics.  Each source has a row of dependencies; the rows are
added in the order of the sources, so that the sums do not depend on the number of threads.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.path_counts import MOST
from morph.algorithms.graph.source_threads import (
    claim_lists,
    for_each_level,
    for_each_source,
    release_lists,
    tables_of,
)
from morph.data.collection import Flag
from morph.graph import Graph
from morph.launch.foreach import func, kernel
from morph.prelude import f64, i32, i64, static

DENSE = 2  # a level pulls if the previous one has over half of the edges of unvisited points


class Counts(NamedTuple):
    """The objects of the searches, as a bundle."""

    graph: Any
    pairs: Any  # table with n rows per source: dependencies
    claimed: Any  # table: whether a search uses the lists of this number
    lists: Any  # table with n rows per thread
    overflowed: Any  # flag: a count exceeds `MOST`


@func
def push_counts(s, _first, base, begin, end, level):
    """Add the counts of a level to those of the next one; return its end, and its out-edges."""
    edges, last = i64(0), end
    for k in range(begin, last):
        p = s.graph.points[s.lists[base + k].order]
        paths = s.lists[base + p.id].paths
        for t in p.outnbrs:
            to = s.lists[base + t.id]
            if to.dist < 0:
                to.dist = level
                to.paths = paths
                s.lists[base + end].order = t.id
                end += 1
                edges += t.out_degree
            elif to.dist == level:
                to.paths += paths
    return end, edges


@func
def pull_counts(s, _first, base, end, level):
    """Add up the counts of the previous level for each point without a distance."""
    edges = i64(0)
    for v in range(len(s.graph.points)):
        p = s.graph.points[v]
        own = s.lists[base + v]
        if own.dist < 0:
            total = 0.0
            for t in p.outnbrs:
                if s.lists[base + t.id].dist == level - 1:
                    total += s.lists[base + t.id].paths
            if total > 0.0:
                own.dist = level
                own.paths = total
                s.lists[base + end].order = p.id
                end += 1
                edges += p.out_degree
    return end, edges


@kernel
def count_paths(start, s, ends, pulls: static):
    n = i32(len(s.graph.points))
    own = claim_lists(s.claimed)
    first, base = start.number * n, own * n
    for v in range(n):
        s.lists[base + v].dist = -1
        s.pairs[first + v].dependency = 0.0
    s.lists[base + start.source].dist = 0
    s.lists[base + start.source].paths = 1.0
    s.lists[base].order = start.source
    end = for_each_level(s, first, base, push_counts, pull_counts, n, DENSE, pulls)
    for k in range(end):
        p = s.graph.points[s.lists[base + end - 1 - k].order]
        paths, level, total = s.lists[base + p.id].paths, s.lists[base + p.id].dist, 0.0
        for t in p.outnbrs:
            if s.lists[base + t.id].dist == level + 1:
                total += s.lists[base + t.id].part
        if paths > MOST:
            s.overflowed.set()
        total *= paths
        s.lists[base + p.id].part = (1.0 + total) / paths
        s.pairs[first + p.id].dependency = total + ends if level > 0 else ends * f64(end - 1)
    release_lists(s.claimed, own)


def dependencies_of_each(graph: Graph, sources: Any, ends: float) -> Any:
    """Return the sum of the dependencies for some sources, (n,); None if a count overflowed."""
    lists = {"order": i32, "dist": i32, "paths": f64, "part": f64}
    pairs, claimed, scratch = tables_of(graph, len(sources), {"dependency": f64}, lists)
    work = Counts(graph, pairs, claimed, scratch, Flag(graph))
    starts, pulls = np.asarray(sources, np.int32), int(not graph.directed)
    for_each_source(graph, starts, count_paths, work, float(ends), pulls)
    if work.overflowed.take():
        return None
    return pairs.dependency[:].reshape(len(sources), -1).sum(axis=0)
