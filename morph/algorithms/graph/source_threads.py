"""Searches from many sources on a CPU, each of them by one thread: no barriers, and no atomics.

An item is a source; the threads take the items from a queue.  `search_hops` is a breadth-first
search, `search_paths` near-far, of which each vertex is in a bucket at most once.  The distances
of source ``i`` are the rows from ``i * n`` on of a table of pairs.  The lists of a search lie in
rows of ``lists``, which searches use one after another, so that these rows remain in the caches.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.checked import is_checked
from morph.launch.foreach import available_threads, foreach, func, kernel
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_cas, i32, i64, static, u8
from morph.runtime.threads import get_num_threads

MOST_ROWS = 1 << 26  # pairs of a batch, and rows of the lists of all threads
ALONE = 1 << 16  # points beyond which a single thread takes the steps of `bfs`, which prefetch
MOST_EDGES = 1 << 22  # of a graph: a search takes less than .2 s, in which no signal ends it
MOST_LISTS = 256  # the most threads of a launch
DENSE = 14  # as in `edge_map`
FEW = 4  # a pull looks at all vertices: a level of fewer edges than a quarter of these pushes
NEAR, FAR = 1, 2  # bits of a vertex that is in a bucket


class Searches(NamedTuple):
    """The objects of the searches, as a bundle."""

    graph: Any
    pairs: Any  # table with n rows per source
    claimed: Any  # table: whether a search uses the lists of this number
    lists: Any  # table with n rows per thread
    targets: Any  # table of vertices; a search stops when their distances are final
    overflowed: Any  # flag: a distance overflowed or exceeded `most`


@func
def claim_lists(claimed):
    """Return the number of lists that no other search uses."""
    for k in range(len(claimed)):
        if atomic_cas(claimed[k].used, 0, 1) == 0:
            return k
    return -1  # not reached: there are as many as threads


@func
def release_lists(claimed, own):
    atomic_cas(claimed[own].used, 1, 0)


@func
def push_hops(s, first, base, begin, end, level):
    """Visit the neighbours of a level; return the end of the next one, and its out-edges."""
    edges = i64(0)
    for k in range(begin, end):
        p = s.graph.points[s.lists[base + k].near]
        for t in p.outnbrs:
            pair = s.pairs[first + t.id]
            if pair.dist < 0:
                pair.dist = level
                pair.predecessor = p.id
                s.lists[base + end].near = t.id
                end += 1
                edges += t.out_degree
    return end, edges


@func
def pull_hops(s, first, base, end, level):
    """Find a neighbour in the previous level for each vertex without a distance."""
    edges = i64(0)
    for v in range(len(s.graph.points)):
        p = s.graph.points[v]
        pair = s.pairs[first + p.id]
        if pair.dist < 0:
            for t in p.outnbrs:
                if s.pairs[first + t.id].dist == level - 1:
                    pair.dist = level
                    pair.predecessor = t.id
                    s.lists[base + end].near = p.id
                    end += 1
                    edges += p.out_degree
                    break
    return end, edges


@func
def for_each_level(s, first, base, push, pull, most, dense, pulls: static):
    """Expand the source, the only entry of the list, level by level; return the list's end.

    ``push`` and ``pull`` append the vertices of the next level, and return the list's end and the
    out-edges of what they append.  A level pulls if ``dense`` times the edges of the previous one
    exceed those of the vertices without a distance.
    """
    begin, end, level = 0, 1, i32(0)
    left, edges = i64(len(s.graph.edges)), i64(0)
    while begin < end and level < most:
        level += 1
        left -= edges
        before = end
        if pulls and edges * dense > left and edges * FEW > len(s.graph.points):
            end, edges = pull(s, first, base, end, level)
        else:
            end, edges = push(s, first, base, begin, end, level)
        begin = before
    return end


@kernel
def search_hops(start, s, most, pulls: static):
    n = i32(len(s.graph.points))
    own = claim_lists(s.claimed)
    first, base = start.number * n, own * n
    for v in range(n):
        s.pairs[first + v].dist = -1
        s.pairs[first + v].predecessor = -1
    s.pairs[first + start.source].dist = 0
    s.lists[base].near = start.source
    for_each_level(s, first, base, push_hops, pull_hops, most, DENSE, pulls)
    release_lists(s.claimed, own)


@func
def next_bucket(s, base, count, low, limit, most):
    """Move vertices from the far to the near bucket; return the sizes of both, and the least key.

    Vertices at distances up to ``low`` are final: they have been in the near bucket since.
    """
    moved, kept, least = 0, 0, most
    for k in range(count):
        v = s.lists[base + k].far
        d = s.lists[base + v].dist
        if d <= low:
            s.lists[base + v].marks = u8(0)
        elif d <= limit:
            s.lists[base + v].marks = u8(NEAR)
            s.lists[base + moved].near = v
            moved += 1
        else:
            s.lists[base + kept].far = v
            kept += 1
            least = min(least, d)
    return moved, kept, least


@func
def all_settled(s, base, limit):
    """Whether there are targets, and the distances of all of them are final."""
    for k in range(len(s.targets)):
        if s.lists[base + s.targets[k].vertex].dist > limit:
            return False
    return len(s.targets) > 0


@func
def store_paths(s, first, base, n, limit, infinity, unreached, parents: static):
    """Store the distances up to the limit, and the parents."""
    for v in range(n):
        d = s.lists[base + v].dist
        found = d <= limit and d != infinity
        s.pairs[first + v].distance = d if found else unreached
        if parents:
            s.pairs[first + v].predecessor = s.lists[base + v].predecessor if found else i32(-1)


@kernel
def search_paths(start, s, delta, infinity, most, unreached, parents: static):
    n = i32(len(s.graph.points))
    own = claim_lists(s.claimed)
    base, source = own * n, start.source
    for v in range(n):
        s.lists[base + v].dist = infinity
        s.lists[base + v].marks = u8(0)
    s.lists[base + source].dist = delta - delta
    s.lists[base + source].predecessor = -1
    s.lists[base].near = source
    limit, head, near, far = delta, 0, 1, 0
    while near > 0:
        p = s.graph.points[s.lists[base + head].near]
        head = head + 1 if head + 1 < n else 0
        near -= 1
        s.lists[base + p.id].marks = s.lists[base + p.id].marks & u8(FAR)
        before = s.lists[base + p.id].dist
        for t in p.outnbrs:
            d = before + s.graph.weight(p, t)
            to = s.lists[base + t.id]
            if d > most or d < before:  # d < before: the sum overflowed
                s.overflowed.set()
            elif d < to.dist:
                to.dist = d
                if parents:
                    to.predecessor = p.id
                if d <= limit:
                    if to.marks & u8(NEAR) == u8(0):
                        to.marks |= u8(NEAR)
                        end = head + near if head + near < n else head + near - n
                        s.lists[base + end].near = t.id
                        near += 1
                elif to.marks & u8(FAR) == u8(0):
                    to.marks |= u8(FAR)
                    s.lists[base + far].far = t.id
                    far += 1
            elif parents:
                if d == to.dist and before < d:
                    to.predecessor = min(to.predecessor, p.id)
        if near == 0:
            if all_settled(s, base, limit):
                far = 0
            low, least = limit, limit
            while near == 0 and far > 0:  # twice, if the next bucket is empty
                limit = max(least, min(least, most - delta) + delta)
                near, far, least = next_bucket(s, base, far, low, limit, most)
                head = 0
    # without a vertex left, all distances are final
    ended = limit if len(s.targets) > 0 else most
    store_paths(s, start.number * n, base, n, ended, infinity, unreached, parents)
    release_lists(s.claimed, own)


def sources_at_once(graph: Graph | PartitionedGraph, count: int) -> int:
    """Return from how many of the sources to search at once, a thread each; 0 if from none."""
    if isinstance(graph, PartitionedGraph) or not graph.device.on_host:
        return 0
    if is_checked():  # it takes lists that one search claims after another for a race
        return 0
    n, threads = max(len(graph.points), 1), get_num_threads()
    if 2 * count < threads or threads * n > MOST_ROWS or len(graph.edges) > MOST_EDGES:
        return 0
    if n > ALONE and available_threads() == 1:
        return 0
    return MOST_ROWS // n


def tables_of(
    graph: Graph, count: int, columns: dict[str, Any], lists: dict[str, Any]
) -> tuple[Table, Table, Table]:
    """Make the tables of searches: n rows for each of ``count`` sources; for the threads' lists."""
    n, threads = len(graph.points), min(count, MOST_LISTS)  # others may raise the limit
    found = [_table(graph, "pairs", count * n, columns), Table("claimed", graph.device, used=i32)]
    found[1].extend(threads)
    return found[0], found[1], _table(graph, "lists", threads * n, lists)


def _table(graph: Graph, name: str, rows: int, columns: dict[str, Any]) -> Table:
    """Make a table of unwritten memory: the threads write it, and share its page faults."""
    table = Table(name, graph.device, **columns)
    table.adopt(rows, {c: np.empty(rows, dtype) for c, dtype in columns.items()})
    return table


def for_each_source(graph: Graph, starts: Any, search: Any, *args: Any) -> None:
    """Run a kernel for each source, with its number; a launch takes few enough to end soon.

    A search is one item, and signals wait until the items of a launch have ended.
    """
    size = len(graph.points) + len(graph.edges)
    at_once = max(MOST_EDGES // max(size, 1), 1) * available_threads()
    queue = Collection(device=graph.device, number=i32, source=i32)
    for first in range(0, len(starts), at_once):
        some = starts[first : first + at_once]
        numbers = np.arange(first, first + len(some), dtype=np.int32)
        queue.extend(number=numbers, source=some)
        foreach(queue, search, *args, until_empty=True)


def _searches(
    graph: Graph, starts: Any, targets: Any, columns: dict[str, Any], lists: dict[str, Any]
) -> Searches:
    """Make the objects of searches from sources."""
    ends = Table("targets", graph.device, vertex=i32)
    ends.extend(vertex=np.asarray(targets, np.int32))
    return Searches(graph, *tables_of(graph, len(starts), columns, lists), ends, Flag(graph))


def hops_of_each(graph: Graph, starts: Any, most: Any) -> tuple[Any, Any, int]:
    """Compute the numbers of edges from each source, see `many_sources.search_levels`."""
    columns = {"dist": i32, "predecessor": i32}
    work = _searches(graph, starts, (), columns, {"near": i32})
    for_each_source(graph, starts, search_hops, work, i32(most), int(not graph.directed))
    shape = len(starts), -1
    distance, parents = work.pairs.dist[:].reshape(shape), work.pairs.predecessor[:].reshape(shape)
    return distance, parents, min(int(distance.max(initial=0)) + 1, int(most))


def paths_of_each(
    graph: Graph, starts: Any, targets: Any, limits: tuple[Any, Any, Any], predecessors: bool
) -> tuple[Any, Any, bool]:
    """Find shortest paths from each of several sources, see `many_sources.search_pairs`.

    Distances of integers are int64, of unreachable vertices the largest one.
    """
    (infinity, most, delta), shape = limits, (len(starts), -1)
    whole = infinity.dtype.kind == "i"
    unreached = np.int64(np.iinfo(np.int64).max) if whole else infinity
    columns = {"distance": unreached.dtype} | ({"predecessor": i32} if predecessors else {})
    lists = {"near": i32, "far": i32, "marks": u8, "dist": infinity.dtype, "predecessor": i32}
    work = _searches(graph, starts, targets, columns, lists)
    numbers = delta, infinity, most, unreached, int(predecessors)
    for_each_source(graph, starts, search_paths, work, *numbers)
    parents = work.pairs.predecessor[:].reshape(shape) if predecessors else None
    return work.pairs.distance[:].reshape(shape), parents, work.overflowed.take()
