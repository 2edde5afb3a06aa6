"""Truss numbers (k-truss decomposition), by parallel peeling of edges.

A k-truss is a subgraph each of whose edges is in k - 2 of its triangles; the truss number of an
edge is the largest k of a k-truss with the edge (Cohen 2008).  The support of an edge, its number
of triangles, is counted first, as in `triangles`.  Then edges are peeled in rounds (Kabir, Madduri,
PKT, 2017): a round deletes all edges whose support has decreased to the level.  The first deleted
edge destroys a triangle; of two edges deleted in the same round, the one of lower number decrements
the support of the third.  All threads share the neighbours of the end with the shorter row, and
look them up in the row of the other end.  Rows are in the order of hashed neighbours, and have a
Bloom filter of one hash; of each of its words the first arc is known, and the bits before that of a
neighbour lead to its arc.  Whenever half of the edges are deleted and at least `MIN_PACKED`
remain, their arcs are removed from the rows.  O(sum of min(degree u, degree v) over edges)
expected.  One launch, after the first counts.  Unless rows were packed, a graph of up to
`MAX_KEPT_EDGES` edges keeps them for the next call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import of_graph_on_one_device
from morph.algorithms.graph.peeling import INFINITY, SOON, find_range, split
from morph.algorithms.graph.triangles import (
    Tables,
    capacity_for,
    count_triangles,
    list_arcs,
    make_tables,
)
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.sorting import sort_words
from morph.graph import Graph
from morph.language.arguments import integer
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.launch.kept import KeptLaunches
from morph.operators.scan import plus, scan_column, scan_space
from morph.prelude import (
    atomic_min,
    atomic_or,
    atomic_sub,
    i32,
    i64,
    popcount,
    u32,
    u64,
)
from morph.runtime.device import Device

PACK = 2  # rows are packed when a fraction 1 / PACK of the edges is deleted
MIN_PACKED = 1 << 10  # remaining edges; packing the rows of fewer takes longer than it saves
TRUSSES = "trusses"  # key in `Graph.kept`
MAX_KEPT_EDGES = 1 << 20  # of a graph that keeps its rows for the next call
BITS = 8  # of a row's filter, for each arc
FACTOR = 0x9E3779B1  # of the hash of neighbours
ALONE = -2  # number of the pair of an edge that is in no triangle


class TrussNumber(NamedTuple):
    """Result of `truss_number`: ``number``, shape (m,), int32, and ``largest``, an int."""

    number: Any
    largest: int


class KTruss(NamedTuple):
    """Result of `k_truss`: ``edges``, the ids in it, ascending, int64."""

    edges: Any


class Rows(NamedTuple):
    """A simple graph, in rows that a Bloom filter indexes.

    The remaining arcs of a vertex's row are at its last ``size`` positions, in ascending order of
    hashed neighbours.  Both arcs of a pair have the pair's number.
    """

    graph: Any
    pairs: Any
    hashed: Any  # column of arcs: the hashed neighbour
    pair: Any  # column of arcs: the pair
    bits: Any  # column of words: the filters
    begin: Any  # column of words: the first arc with a bit in the word
    places: Any  # a `Scan` of the arcs
    moved: Any  # columns of arcs: the new rows, while they are packed
    moved_pair: Any


@func
def hash_of(v):
    """Return a permutation of the numbers of 32 bits."""
    return u32(v) * u32(FACTOR)


@func
def bit_of(first_bit, width, hashed):
    """Return the bit of a hashed neighbour in the filter of a row; monotone."""
    return first_bit + i64((u64(hashed) * u64(width)) >> u64(32))


@func
def is_set(bits, bit):
    return bits >> u32(bit & 31) & u32(1) != u32(0)


@func
def first_with(bits, begin, bit):
    """Return the first arc with a bit that is set, or an earlier one if several have one bit."""
    return i64(begin) + popcount(bits & ((u32(1) << u32(bit & 31)) - u32(1)))


@kernel
def enqueue(e, round, falling):
    """Schedule an edge to be deleted in this round."""
    if atomic_min(e.round, i32(round)) > round:  # the list may contain it twice
        falling.add(e)


@kernel
def drop(e, rows, k, limit, round, falling, soon):
    """Delete an edge at level k; lower the counts of the other edges, f and g, of its triangles."""
    near, far = e.low, e.high
    if near.size > far.size:
        near, far = far, near
    e.number = i32(k + 2)
    skip = i64(near.out_degree)
    if e.remaining > 0:
        skip -= near.size
    first_bit, width, end = far.first_bit, far.width, far.end
    for b in near.outedges[skip:]:
        f, hashed = b.pair, b.hashed  # loads that do not need each other's values are adjacent
        bit = bit_of(first_bit, width, hashed)
        word = rows.graph.words[bit >> 5]
        bits, begin = word.bits, word.begin
        if is_set(bits, bit):
            at = first_with(bits, begin, bit)
            of_f, there, g = f.round, rows.hashed[at], rows.pair[at]
            while there < hashed and at + 1 < end:
                at += 1
                there, g = rows.hashed[at], rows.pair[at]
            if there == hashed and of_f >= round:
                of_g, before_g, before_f = g.round, i32(-1), i32(-1)
                if of_g > round and (of_f > round or f.id > e.id):
                    before_g = atomic_sub(g.remaining, 1)
                if of_f > round and (of_g > round or (of_g == round and g.id > e.id)):
                    before_f = atomic_sub(f.remaining, 1)
                # written twice, as threads do not share a loop whose functions add to lists
                if before_g == k + 1:
                    atomic_min(g.round, i32(round + 1))
                    falling.add(g)
                elif before_g == limit + 1:
                    soon.add(g)
                if before_f == k + 1:
                    atomic_min(f.round, i32(round + 1))
                    falling.add(f)
                elif before_f == limit + 1:
                    soon.add(f)


@kernel
def mark(a, place):
    """Count 1 for an arc of a remaining edge."""
    remains = i32(0)
    if a.pair is not None:
        if a.pair.round == INFINITY:
            remains = i32(1)
    place[a] = remains


@kernel
def move(a, place, moved, moved_pair):
    """Copy a remaining arc to its new position."""
    here, before = place[a], i32(0)
    if a.id > 0:
        before = place[a.id - 1]
    if here > before:
        to = a.src.end - 1 - (place[a.src.end - 1] - here)
        moved[to] = a.hashed
        moved_pair[to] = a.pair


@kernel
def shorten(p, place):
    """Set the number of remaining arcs of a row that has some."""
    begin, before = p.end - p.out_degree, i32(0)
    if begin > 0:
        before = place[begin - 1]
    p.size = place[p.end - 1] - before
    p.width = BITS * i64(p.size)


@kernel
def replace(a, moved, moved_pair):
    a.pair = None
    if a.id >= a.src.end - a.src.size:
        a.hashed = moved[a]
        a.pair = moved_pair[a]


@kernel
def clear(word):
    word.bits = 0


@kernel
def enter(a, rows):
    """Enter an arc in the filter of its row."""
    p = a.src
    begin = p.end - p.size
    if a.id >= begin:
        bit, before = bit_of(p.first_bit, p.width, a.hashed), i64(-1)
        if a.id > begin:
            before = bit_of(p.first_bit, p.width, rows.hashed[a.id - 1])
        atomic_or(rows.bits[bit >> 5], u32(1) << u32(bit & 31))
        if before >> 5 != bit >> 5:
            rows.begin[bit >> 5] = a.id


@program
def make_filters(rows):
    foreach(rows.graph.words, clear)
    foreach(rows.graph.edges, enter, rows)


@program
def pack(rows):
    """Remove the arcs of deleted edges; move the others to the end of the row."""
    foreach(rows.graph.edges, mark, rows.places.x)
    scan_column(rows.places, plus)
    foreach(rows.graph.edges, move, rows.places.x, rows.moved, rows.moved_pair)
    foreach(rows.graph.points, shorten, rows.places.x, where=lambda p: p.size > 0)
    foreach(rows.graph.edges, replace, rows.moved, rows.moved_pair)
    make_filters(rows)


@kernel
def begin(e, left):
    e.remaining = e.triangles
    e.round = INFINITY
    e.number = -1
    left.add(e)


@program
def peel(k, last, rows, left, rest, soon, falling, then):
    """Delete edges from level ``k`` to ``last``; return how often rows were packed."""
    supports = Scalars(left, least=i32(INFINITY), most=i32(-1))
    left.clear()
    rest.clear()
    soon.clear()
    foreach(rows.pairs, begin, left)
    size, deleted, round, more, packed = len(left), 0, 1, 1, 0
    while k <= last:
        supports.least = INFINITY
        supports.most = -1
        foreach(left, find_range, supports, where=lambda e: e.round == INFINITY)
        if supports.most < 0:
            break
        k = max(k, i64(supports.least))  # skip empty levels
        limit = min(last, max(k, min(k + more, i64(supports.most))))  # k may be above last
        more = min(2 * more + 1, SOON)
        foreach(left, split, limit, soon, rest, where=lambda e: e.round == INFINITY)
        left, rest = rest, left
        rest.clear()
        while k <= limit:
            foreach(
                soon,
                enqueue,
                round,
                falling,
                where=lambda e: e.round == INFINITY and e.remaining <= k,
            )
            while not falling.empty:
                deleted += len(falling)
                foreach(falling, drop, rows, k, limit, round, then, soon)
                round += 1
                falling, then = then, falling
                then.clear()
            k += 1
            if PACK * deleted > size and size - deleted >= MIN_PACKED and k <= last:
                size -= deleted
                deleted = 0
                packed += 1
                pack(rows)
        soon.clear()
    return packed


@func
def arc_to(rows, p, v):
    """Return the arc of a row to a vertex; None if there is none."""
    hashed = hash_of(v)
    bit, found = bit_of(p.first_bit, p.width, hashed), None
    word = rows.graph.words[bit >> 5]
    if is_set(word.bits, bit):
        at = first_with(word.bits, word.begin, bit)
        while rows.hashed[at] < hashed and at + 1 < p.end:
            at += 1
        if rows.hashed[at] == hashed:
            found = rows.graph.edges[at]
    return found


@kernel
def assign_arcs(e, rows):
    """Assign a pair to both of its arcs."""
    arc_to(rows, e.low, e.high.id).pair = e
    arc_to(rows, e.high, e.low.id).pair = e


@kernel
def find_pair(e, rank, rows):
    """Assign the number of its pair to an edge, if the pair is in a triangle."""
    u, v = rows.graph.points[rank[e.src.id]], rank[e.dst.id]
    if u.id != v:
        e.pair = ALONE
        arc = arc_to(rows, u, v)
        if arc is not None:
            e.pair = arc.pair.id


def _rows(t: Tables, device: Device) -> Rows:
    """Make the rows of both ends of each arc in a triangle; these arcs become the pairs."""
    xp, n = device.xp, len(t.corners) - 1
    inside = xp.flatnonzero(t.arcs.support.array)
    tail, head, support = (x.array[inside] for x in (t.arcs.tail, t.arcs.head, t.arcs.support))
    keys = xp.concatenate([tail, head]).astype(np.int64) << 32
    keys |= xp.concatenate([head, tail]).astype(np.uint32) * np.uint32(FACTOR)
    sort_words(keys)
    offsets = xp.searchsorted(keys, xp.arange(n + 1) << 32)
    hashed = keys.astype(np.uint32)
    ends = (hashed * np.uint32(pow(FACTOR, -1, 2**32))).astype(np.int32)
    made = Graph.from_csr(offsets, ends, copy=False, device=device)
    pairs = made.add_table(
        "pairs", (("round", "remaining"), ("low", "high")), low=Ref("points"), high=Ref("points"),
        triangles=i32, remaining=i32, round=i32, number=i32,
    )  # fmt: skip
    pairs.extend(low=head, high=tail, triangles=support)
    words = made.add_table("words", ("bits", "begin"), bits=u32, begin=i32)
    words.extend((BITS * 2 * inside.size) // 32 + n)
    degree = xp.diff(offsets)
    first_bit = ((BITS * offsets[:-1] >> 5) + xp.arange(n)) << 5
    values = {"end": offsets[1:], "size": degree, "first_bit": first_bit, "width": BITS * degree}
    made.points.add_columns({x: (i32 if x == "size" else i64, None) for x in values}, (values,))
    for name, array in values.items():
        made.points.columns[name].array[:] = array
    arcs, to = made.edges, Ref("pairs")
    columns: dict[str, Any] = {
        "hashed": u32, "pair": to, "place": i32, "moved": u32, "moved_pair": to
    }  # fmt: skip
    arcs.add_columns({name: (dtype, None) for name, dtype in columns.items()})
    arcs.hashed.array[:] = hashed
    rows = Rows(
        made, pairs, arcs.hashed, arcs.pair, words.bits, words.begin, scan_space(arcs.place),
        arcs.moved, arcs.moved_pair,
    )  # fmt: skip
    make_filters(rows)
    foreach(pairs, assign_arcs, rows)
    return rows


class Peeling:
    """The rows and lists of a graph that is peeled.

    The graph caches them while it is unchanged, unless rows were packed.

    Attributes
    ----------
    changes : int
        The number of changes of the graph, see `Graph.changes`.
    rows : Rows
    lists : list of Collection
        As `peel` takes them.
    pair : array of int32, shape (m,)
        The pair of each edge, `ALONE` if it is in no triangle, -1 of deleted edges and self-loops.
    """

    def __init__(self, graph: Graph) -> None:
        device, self.changes = graph.device, graph.changes
        with device.active():
            t = make_tables(device, capacity_for(graph), supports=True)
            list_arcs(graph, t)
            count_triangles(t, device)
            self.rows = _rows(t, device)
        columns: Any = {"pair": (i32, -1)}
        with graph.edges.temporary_columns(**columns):
            foreach(graph.edges, find_pair, t.ranks.rank, self.rows)
            (self.pair,) = device.copies(graph.edges.pair.array)
        m = len(self.rows.pairs)
        sizes = (m, m, m + m // 4, m, m)
        self.lists = [Collection(self.rows.pairs, capacity=k) for k in sizes]
        self.run = KeptLaunches().run


def _peel(graph: Graph, first: int, last: int) -> tuple[Any, Any]:
    """Delete edges from level ``first`` to ``last``.

    Returns
    -------
    number : array of int32
        The truss number of each pair of vertices in a triangle, -1 if it was not deleted; invalid
        if ``last`` is 0.
    pair : array of int32
        See `Peeling`.
    """
    made, packed = graph.kept.pop(TRUSSES, None), 0
    if made is None or made.changes != graph.changes:
        made = Peeling(graph)
    if last > 0:
        packed = made.run(peel, i64(first), i64(last), made.rows, *made.lists)
    if not packed and len(graph.edges) <= MAX_KEPT_EDGES:
        graph.kept[TRUSSES] = made
    return made.rows.pairs.number.array, made.pair


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
        found = xp.where(pair == ALONE, 2, -1).astype(np.int32)
        inside = xp.flatnonzero(pair >= 0)
        found[inside] = number[pair[inside]]
        return TrussNumber(found, max(int(found.max()), 0) if found.size else 0)


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
    if (k := integer(k, "k")) < 0:
        raise ValueError(f"k is 0 or more, not {k}")
    last = min(k - 3, len(graph.edges))  # no support is larger
    number, pair = _peel(graph, last, last)
    with graph.device.active():
        ids = graph.device.xp.flatnonzero(pair >= 0 if k > 2 else pair != -1)
        return KTruss(ids[number[pair[ids]] < 0] if last > 0 else ids)
