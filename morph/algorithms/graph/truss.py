"""Truss numbers (k-truss decomposition), by parallel peeling of edges.

A k-truss is a subgraph each of whose edges is in k - 2 of its triangles; the truss number of an
edge is the largest k of a k-truss with the edge (Cohen 2008).  The support of an edge, its number
of triangles, is counted first: vertices are ranked by degree, and each triangle is found at its
edge of lowest ranks.  Then edges are peeled in rounds (Kabir, Madduri, PKT, 2017): a round deletes
all edges whose support has decreased to the level.  The first deleted edge destroys a triangle; of
two edges deleted in the same round, the one of lower number decrements the support of the third.
Whenever half of the edges are deleted, their arcs are removed from the rows, which thus remain
sorted and short.  The neighbours of one end are looked up in the row of the other end by binary
search: O(sum of min(degree u, degree v) over edges * log) at most.  One launch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import of_graph_on_one_device
from morph.algorithms.graph.simple import degrees, end_of, find, ranked_pairs, sorted_rows
from morph.data.collection import Collection
from morph.data.conversion import as_integer
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_max, atomic_min, atomic_sub, i32, i64

INFINITY = 2**31 - 1
PACK = 2  # rows are packed when a fraction 1 / PACK of the edges is deleted
SOON = 15  # levels beyond the next one whose edges are in a worklist; initially fewer


class TrussNumber(NamedTuple):
    """Result of `truss_number`: ``number``, shape (m,), int32, and ``largest``, an int."""

    number: Any
    largest: int


class KTruss(NamedTuple):
    """Result of `k_truss`: ``edges``, the ids in it, ascending, int64."""

    edges: Any


class Rows(NamedTuple):
    """A simple graph: the rows of its vertices; both arcs of a pair have the pair's number.

    The remaining arcs of a vertex's row are at its last ``size`` positions.
    """

    graph: Any
    pairs: Any
    ends: Any  # column of arcs: the number of the neighbour
    pair: Any  # column of arcs: the pair


@kernel
def count(a, rows):
    """Find the triangles of this arc whose third vertex has a higher rank than both ends."""
    u, v = a.src, a.dst
    near, far, skip, begin = u, v, i64(a.id) + 1 - u.first, v.first + v.below
    if u.out_degree - skip > v.out_degree - v.below:
        near, far, skip, begin = v, u, i64(v.below), i64(a.id) + 1
    end, found = end_of(far), i32(0)
    for b in near.outedges[skip:]:
        at = find(rows.ends, b.end, begin, end)
        if at < end and rows.ends[at] == b.end:
            atomic_add(b.pair.support, 1)
            atomic_add(rows.pair[at].support, 1)
            found += 1
    if found > 0:
        atomic_add(a.pair.support, found)


@kernel
def start(e, k, soon, rest):
    if e.support == 0:
        e.round = 0
        e.number = 2
    else:
        rest.add(e)
        if e.support <= k:
            soon.add(e)


@kernel
def bounds(e, supports):
    atomic_min(supports.least, e.support)
    atomic_max(supports.most, e.support)


@kernel
def split(e, limit, soon, rest):
    if e.support <= limit:
        soon.add(e)
    else:
        rest.add(e)


@kernel
def fall(e, round, falling):
    if atomic_min(e.round, i32(round)) > round:  # the list may contain it twice
        falling.add(e)


@func
def lower(e, k, limit, round, falling, soon):
    before = atomic_sub(e.support, 1)
    if before == k + 1:
        atomic_min(e.round, i32(round + 1))
        falling.add(e)
    elif before == limit + 1:
        soon.add(e)


@kernel
def drop(e, rows, k, limit, round, falling, soon):
    near, far = e.low, e.high
    if near.size > far.size:
        near, far = far, near
    e.number = i32(k + 2)
    end = end_of(far)
    begin = end - far.size
    skip = i64(near.out_degree)
    if e.support > 0:
        skip -= near.size
    for b in near.outedges[skip:]:
        f = b.pair
        if f.round >= round:
            at = find(rows.ends, b.end, begin, end)
            if at < end and rows.ends[at] == b.end:
                g = rows.pair[at]
                if g.round > round:
                    if f.round > round or e.id < f.id:
                        lower(g, k, limit, round, falling, soon)
                if f.round > round:
                    if g.round > round or (g.round == round and e.id < g.id):
                        lower(f, k, limit, round, falling, soon)


@kernel
def pack(p, rows):
    """Remove the arcs of deleted edges; moves the others to the end of the row."""
    at = end_of(p)
    begin, i = at - p.size, at
    while i > begin:
        i -= 1
        if rows.pair[i].round == INFINITY:
            at -= 1
            rows.ends[at] = rows.ends[i]
            rows.pair[at] = rows.pair[i]
    p.size = i32(end_of(p) - at)


@program
def peel(k, last, rows, left, rest, soon, falling, then):
    supports = Scalars(left, least=i32(INFINITY), most=i32(-1))
    foreach(rows.graph.edges, count, rows, where=lambda a: a.src.id < a.dst.id)
    foreach(rows.pairs, start, k, soon, left)
    foreach(rows.graph.points, pack, rows, where=lambda p: p.size > 0)
    size, deleted, round = len(left), 0, 1
    limit, more = k, 1
    while k <= last:
        while k <= limit:
            foreach(
                soon, fall, round, falling, where=lambda e: e.round == INFINITY and e.support <= k
            )
            while not falling.empty:
                foreach(falling, drop, rows, k, limit, round, then, soon)
                deleted += len(falling)
                round += 1
                falling, then = then, falling
                then.clear()
            k += 1
            if PACK * deleted > size:
                size -= deleted
                deleted = 0
                foreach(rows.graph.points, pack, rows, where=lambda p: p.size > 0)
        soon.clear()
        if k <= last:
            supports.least = INFINITY
            supports.most = -1
            foreach(left, bounds, supports, where=lambda e: e.round == INFINITY)
            if supports.most < 0:
                break
            k = max(k, i64(supports.least))  # skip empty levels
            limit = min(k + more, min(last, i64(supports.most)))
            more = min(2 * more + 1, SOON)
            foreach(left, split, limit, soon, rest, where=lambda e: e.round == INFINITY)
            left, rest = rest, left
            rest.clear()


@kernel
def find_pair(e, rank, rows):
    """Assign the number of its pair to an edge."""
    u, v = rows.graph.points[rank[e.src]], rank[e.dst]
    if u.id != v:
        e.pair = rows.pair[find(rows.ends, v, u.first, end_of(u))].id


def _rows(graph: Graph, low: Any, high: Any) -> Rows:
    """Make the rows of these pairs of vertices."""
    made, m = sorted_rows(graph, len(graph.points), low, high), len(low)
    pairs = made.add_table(
        "pairs", low=Ref("points"), high=Ref("points"), support=i32, round=i32, number=i32
    )
    pairs.extend(low=low, high=high, support=0, round=INFINITY, number=-1)
    made.points.add("size", i32)
    made.points.size[:] = made.degree()
    made.edges.add("pair", Ref("pairs"))
    if made.edge_order is not None:
        made.edges.pair.array[:] = made.edge_order % m
    return Rows(made, pairs, made.edges.end, made.edges.pair)


def _peel(graph: Graph, first: int, last: int) -> tuple[Any, Any]:
    """Delete edges from level ``first`` to ``last``.

    Returns
    -------
    number, pair : array of int32
        The truss number of each pair of vertices, -1 if it was not deleted; the pair of each edge,
        -1 for deleted edges and self-loops.
    """
    with graph.device.active():
        order, *pairs = ranked_pairs(graph, degrees(graph))
        rows = _rows(graph, *pairs)
    columns: Any = {"pair": (i32, -1)}
    ranks: Any = {"rank": (i32, -1)}
    with graph.edges.temporary_columns(**columns), graph.points.temporary_columns(**ranks):
        with graph.device.active():
            graph.points.rank.array[order] = graph.device.xp.arange(len(order), dtype=np.int32)
        foreach(graph.edges, find_pair, graph.points.rank, rows)
        (pair,) = graph.device.copies(graph.edges.pair.array)
    if last >= 0:
        m = len(rows.pairs)
        lists = [Collection(rows.pairs, capacity=k) for k in (m, m, m + m // 4, m, m)]
        peel(i64(first), i64(last), rows, *lists)
    return rows.pairs.number.array, pair


@of_graph_on_one_device
def truss_number(graph: Graph) -> TrussNumber:
    """Compute the truss number of every edge, ignoring edge directions.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Parallel edges, and both arcs of an edge, count once and have equal numbers.

    Returns
    -------
    TrussNumber
        ``number``, shape (m,), int32, on the graph's device, indexed by edge id: the largest k such
        that the edge is in a k-truss, at least 2; -1 for deleted edges and self-loops.
        ``largest``, the largest number, 0 if there is none.
    """
    number, pair = _peel(graph, 0, len(graph.edges))
    with graph.device.active():
        xp = graph.device.xp
        number = xp.where(pair >= 0, number[pair] if number.size else -1, -1).astype(np.int32)
        return TrussNumber(number, max(int(number.max()), 0) if number.size else 0)


@of_graph_on_one_device
def k_truss(graph: Graph, k: int) -> KTruss:
    """Find the k-truss: the largest set of edges each in at least ``k - 2`` of its triangles.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        As in `truss_number`.
    k : int

    Returns
    -------
    KTruss
        ``edges``, shape (count,), int64, on the graph's device, without self-loops.

    Raises
    ------
    TypeError
        If ``k`` is not an integer.
    ValueError
        If ``k`` is negative.
    """
    if (k := as_integer(k, "k")) < 0:
        raise ValueError(f"k is 0 or more, not {k}")
    last = min(k - 3, len(graph.edges))  # no support is larger
    number, pair = _peel(graph, last, last)
    with graph.device.active():
        ids = graph.device.xp.flatnonzero(pair >= 0)
        return KTruss(ids[number[pair[ids]] < 0])
