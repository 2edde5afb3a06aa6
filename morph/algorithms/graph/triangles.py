"""Triangle counting, by intersecting the rows of a degree-ordered graph.

Vertices are ranked by descending degree, and every edge becomes an arc to its end of lower rank, so
that no row has more than sqrt(2 m) arcs.  A triangle of ranks u > v > w is found once, at the arc
u -> v: w is in the rows of both (Chiba, Nishizeki 1985; Schank, Wagner 2005).  The row of u is read
up to v, which minimises the number of entries: sum of d(u)^2 / 2.  For v of high degree, the row of
v is a bitmap in shared memory, and an item is v with some of its in-arcs; a second shared array
counts the triangles at each w in the row.  For other v, and in sparse graphs, both rows are merged.
O(m^1.5) at most, after a sort of the arcs.

If all rows of the graph itself are short and sorted, they are merged as they are, by id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import (
    early_results,
    live_edges,
    of_graph,
    results,
    results_device,
)
from morph.algorithms.graph.workspace import SHORT_ROWS, TRIANGLES, workspace
from morph.data.collection import Collection, Flag
from morph.data.scalars import Scalars
from morph.data.sorting import sort_words
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.sort import argsort
from morph.partition.graph import PartitionedGraph
from morph.prelude import (
    atomic_add,
    atomic_max,
    atomic_or,
    bool_,
    i32,
    i64,
    popcount,
    shared,
    u32,
)
from morph.runtime.arrays import count_each
from morph.runtime.device import Device

MERGED_DEGREE = 8  # mean out-degree up to which all rows are merged
BITMAP_RANKS = 1 << 16  # a bitmap has a bit for each of the first ranks
WORDS = BITMAP_RANKS // 32
MIN_ARCS = 16  # a vertex with fewer in-arcs gets no bitmap
SHORT_ROW = 64  # rows of at most so many arcs are merged without an orientation by degree
ITEM_ARCS, ITEM_ROW = 1024, 1024  # in-arcs of v, and arcs in its row, per item
LOW_32_BITS = 2**32 - 1
MAX_KEPT_ARCS = 1 << 26  # largest number of arcs for which a graph caches the tables
SLACK = 1 << 21  # unused capacity that threads of a GPU reserve


class TriangleCount(NamedTuple):
    """Result of `triangle_count`: ``triangles``, shape (n,), int64, at each point; ``total``."""

    triangles: Any
    total: int


@kernel
def pack(p, rank, keys, directed):
    """List the arcs to lower ranks; if ``directed``, arcs to higher ranks are reversed."""
    a = rank[p.id]
    for t in p.outnbrs:
        b = rank[t.id]
        if a > b:
            keys.add(i64(a) << 32 | i64(b))
        elif directed and a < b:
            keys.add(i64(b) << 32 | i64(a))


@kernel
def unpack(e, corners, arcs, found):
    """Write the ends of an arc, and the first arc of its tail's row; arcs are sorted by key."""
    tail, head, before = e.key >> 32, e.key & LOW_32_BITS, i64(-1)
    if e.id > 0:
        before = arcs[e.id - 1].key >> 32
        if arcs[e.id - 1].key == e.key:
            atomic_add(found.duplicates, 1)
    e.tail, e.head, e.entering = corners[tail], corners[head], head << 32 | i64(e.id)
    for i in range(before + 1, tail + 1):
        corners[i].first = e.id


@func
def is_counted(u):
    """Whether triangles whose highest-ranked corner is u are counted: on a part, if it owns u."""
    if hasattr(u, "own"):
        return u.own
    return True


@func
def is_merged(e):
    return is_counted(e.tail) and not e.head.has_bitmap


@kernel
def merge(e, corners, arcs, head):
    """Intersect the row of u up to v with the row of v; each common entry is a triangle."""
    u, v = e.tail, e.head
    i, j, last, end = u.first, v.first, e.id, corners[v.id + 1].first
    found = i32(0)
    while i < last and j < end:
        a, b = head[i], head[j]
        if a == b:
            atomic_add(a.triangles, 1)
            found += 1
            if hasattr(e, "support"):
                atomic_add(arcs[i].support, 1)
                atomic_add(arcs[j].support, 1)
        if a.id <= b.id:
            i += 1
        if b.id <= a.id:
            j += 1
    if found > 0:
        atomic_add(u.triangles, found)
        atomic_add(v.triangles, found)
        if hasattr(e, "support"):
            atomic_add(e.support, found)


@kernel
def check_rows(e, edges, fails):
    """Look for a row that is not sorted, or has more than `SHORT_ROW` arcs."""
    src, at = e.src, e.id
    if at > 0:
        if edges[at - 1].src == src and edges[at - 1].dst.id >= e.dst.id:
            fails.set()
    if at >= SHORT_ROW:
        if edges[at - SHORT_ROW].src == src:
            fails.set()


@kernel
def merge_rows(e, edges, rows, found):
    """Intersect the rest of the row of u behind v with the row of v."""
    u, v = e.src, e.dst
    if u.id < v.id:
        i, last = i64(e.id) + 1, rows[u.id + 1].first
        j, end = rows[v.id].first, rows[v.id + 1].first
        count = i32(0)
        while i < last and j < end:
            a, b = edges[i].dst, edges[j].dst
            if a == b:
                atomic_add(a.triangles, 1)
                count += 1
            if a.id <= b.id:
                i += 1
            if b.id <= a.id:
                j += 1
        if count > 0:
            atomic_add(u.triangles, count)
            atomic_add(v.triangles, count)
            atomic_add(found.total, count)


@program
def merge_all_rows(g, rows):
    found = Scalars(g, total=0)
    foreach(g.edges, merge_rows, g.edges, rows, found)
    return found.total


@kernel
def look_up(lookup, corners, arcs):
    """Look up the rows of the tails u of some arcs u -> v, each up to v, in a bitmap of v's row."""
    v = lookup.corner
    begin, end = lookup.begin, min(lookup.begin + ITEM_ROW, corners[v.id + 1].first)
    bits = shared(u32, WORDS)
    last_place = shared(i32, WORDS)
    found = shared(i32, ITEM_ROW)
    for i in range(begin, end):
        w = arcs[i].head.id
        atomic_or(bits[w >> 5], u32(1) << u32(w & 31))
        atomic_max(last_place[w >> 5], i32(i - begin))  # position of the word's last w in the row
    total = 0
    for k in range(lookup.first, lookup.last):
        arc, closed = i32(arcs[k].entering & LOW_32_BITS), i32(0)
        u = arcs[arc].tail
        if is_counted(u):
            for j in range(u.first, arc):
                w = arcs[j].head.id
                above = bits[w >> 5] >> u32(w & 31)
                if above & u32(1) != u32(0):
                    atomic_add(found[last_place[w >> 5] + 1 - popcount(above)], 1)
                    closed += 1
                    if hasattr(arcs[j], "support"):
                        atomic_add(arcs[j].support, 1)
            if closed > 0:
                atomic_add(u.triangles, closed)
                if hasattr(arcs[arc], "support"):
                    atomic_add(arcs[arc].support, closed)
            total += closed
    for i in range(begin, end):
        if found[i - begin] > 0:
            atomic_add(arcs[i].head.triangles, found[i - begin])
            if hasattr(arcs[i], "support"):
                atomic_add(arcs[i].support, found[i - begin])
    if total > 0:
        atomic_add(v.triangles, total)


@kernel
def set_order(p):
    p.order = (i64(p.degree) << 32) + p.id


def _order(device: Device, key: Any) -> tuple[Any, Any]:
    """Return the points by descending key, and the rank of each, int32."""
    order = argsort(key)[::-1]
    rank = device.xp.empty(order.size, np.int32)
    rank[order] = device.xp.arange(order.size, dtype=np.int32)
    return order, rank


class Tables(NamedTuple):
    """The tables of a call.  The graph caches them, without arcs, for the next call."""

    ranks: Table  # by vertex
    keys: Collection  # arcs, ``tail << 32 | head``
    corners: Table  # vertices by rank, plus one row; `first` is the first arc of the row
    arcs: Table  # by tail, then by head; `entering` is ``head << 32 | arc``, sorted by `_parts`
    lookups: Table  # items of `look_up`
    found: Scalars


def make_tables(device: Device, keys: int = 0, supports: bool = False) -> Tables:
    """Make empty tables, and a list of keys with some capacity.

    With ``supports`` the triangles of each arc are counted, too.
    """
    columns: dict[str, Any] = {"support": i32} if supports else {}
    corners = Table("corners", device, first=i32, triangles=i64, has_bitmap=bool_)
    to = Ref(corners)
    return Tables(
        Table("ranks", device, rank=i32),
        Collection(i64, capacity=keys, device=device),
        corners,
        Table("arcs", device, key=i64, entering=i64, tail=to, head=to, **columns),
        Table("lookups", device, corner=to, begin=i32, first=i32, last=i32),
        Scalars(corners, duplicates=i64(0)),
    )


def _orient(t: Tables, device: Device, n: int, keys: Any) -> None:
    """Sort the arcs ``tail << 32 | head``, where ``tail > head``, into rows."""
    sort_words(keys)
    m, xp = keys.size, device.xp
    corners = {"first": xp.full(n + 1, m, np.int32), "triangles": xp.zeros(n + 1, np.int64)}
    t.corners.adopt(n + 1, corners | {"has_bitmap": xp.zeros(n + 1, bool)})
    columns = {name: xp.zeros(m, x.dtype) for name, x in t.arcs.columns.items()}
    t.arcs.adopt(m, columns | {"key": keys})
    foreach(t.arcs, unpack, t.corners, t.arcs, t.found)
    if t.found.duplicates:
        t.found.duplicates = 0
        kept = xp.ones(m, bool)
        kept[1:] = keys[1:] != keys[:-1]
        _orient(t, device, n, keys[kept])


def capacity_for(graph: Graph) -> int:
    """Return the capacity of the list of keys that `list_arcs` fills."""
    most = len(graph.edges) if graph.directed else len(graph.edges) // 2
    return most + min(most, SLACK)


def list_arcs(graph: Graph, t: Tables) -> Any:
    """List the arcs to lower ranks, each once; return the points by rank."""
    device, n = graph.device, len(graph.points)
    degree = graph.degree()
    if graph.directed:
        degree = degree + count_each(device.xp, graph.edges.dst.array[live_edges(graph)], n)
    order, rank = _order(device, degree)
    t.ranks.adopt(n, {"rank": rank})
    t.keys.clear()
    foreach(graph.points, pack, t.ranks.rank, t.keys, graph.directed)
    _orient(t, device, n, t.keys.items)
    return order


def _divide(t: Tables, device: Device) -> None:
    """Make the items of `look_up`, in order of the rank of v."""
    corners, heads, entering = t.corners, t.arcs.head.array, t.arcs.entering.array
    xp, limit = device.xp, min(BITMAP_RANKS, len(corners) - 1)
    if len(corners) > 16 * BITMAP_RANKS:  # many arcs may lead to ranks without a bit
        selected = entering[heads < limit]
        sort_words(selected)
        entering[: selected.size] = selected
        entering = entering[: selected.size]
    else:
        sort_words(entering)
    first_entering = xp.searchsorted(entering, xp.arange(limit + 1) << 32)
    entering_arcs, row_length = xp.diff(first_entering), xp.diff(corners.first.array[: limit + 1])
    chunks = (entering_arcs + ITEM_ARCS - 1) // ITEM_ARCS
    count = xp.where(
        entering_arcs < MIN_ARCS, 0, chunks * ((row_length + ITEM_ROW - 1) // ITEM_ROW)
    )
    corners.has_bitmap.array[:limit] = count > 0
    item_end = xp.cumsum(count)
    k = xp.arange(int(item_end[-1]))
    v = xp.searchsorted(item_end, k, side="right")
    k -= (item_end - count)[v]
    begin = corners.first.array[v] + k // chunks[v] * ITEM_ROW
    first = first_entering[v] + k % chunks[v] * ITEM_ARCS
    last = xp.minimum(first + ITEM_ARCS, first_entering[v + 1])
    arrays = {"corner": v, "begin": begin, "first": first, "last": last}
    t.lookups.adopt(v.size, {name: x.astype(np.int32) for name, x in arrays.items()})


def count_triangles(t: Tables, device: Device) -> Any:
    """Count the triangles at each corner; on a part, only those of `is_counted`."""
    n = len(t.corners) - 1
    dense, only_own = len(t.arcs) > MERGED_DEGREE * n, hasattr(t.corners, "own")
    if dense:
        _divide(t, device)
        foreach(t.lookups, look_up, t.corners, t.arcs, balance="block")
    test = is_merged if dense or only_own else None
    foreach(t.arcs, merge, t.corners, t.arcs, t.arcs.head, where=test)
    return t.corners.triangles.array[:n]


def _short_rows(graph: Graph) -> Table | None:
    """Return the offsets of the graph's rows if these are short and sorted by head, else None."""
    sparse = 0 < len(graph.edges) <= 2 * MERGED_DEGREE * len(graph.points)
    changes = graph.gapped or graph.edges.deletes or graph.points.deletes
    if graph.directed or changes or not (sparse and graph.out_identity):
        return None
    rows: Table | None
    known, rows = graph.kept.get(SHORT_ROWS, (None, None))
    if known != graph.changes:
        fails, rows = Flag(graph), None
        foreach(graph.edges, check_rows, graph.edges, fails)
        if not fails.take():
            rows = Table("rows", graph.device, first=i64)
            rows.adopt(len(graph.points) + 1, {"first": graph.adjacency()[0]})
        graph.kept[SHORT_ROWS] = graph.changes, rows
    return rows


def _in_parts(graph: PartitionedGraph) -> TriangleCount:
    """Count triangles on parts: a part counts the triangles whose least point, by degree, it owns.

    A part receives the rows of its mirrors from the owners.
    """
    columns: dict[str, Any] = {"order": (i64, 0), "triangles": (i64, 0)}
    with graph.points.temporary_columns(**columns):
        foreach(graph.points, set_order)
        graph.points._refresh("order")
        own = {k: _own_rows(graph, k) for k in graph.here}
        received = graph.transport.exchange({k: _sent_rows(graph, k, *own[k]) for k in own})
        graph.each_part(lambda k: _count_part(graph, k, *own[k], received[k]))
        graph.points._routes.combine("triangles", "add")
        (triangles,) = results(graph, "triangles")
        with results_device(graph).active():
            return TriangleCount(triangles, int(triangles.sum()) // 3)


def _own_rows(graph: PartitionedGraph, k: int) -> tuple[Any, Any]:
    """Return the distinct edges of part k from owned points to larger ones, as local ids."""
    g, owned = graph.local(k), graph.points._share(k).owned
    with g.device.active():
        pick, order = live_edges(g), g.points.order.array
        src, dst = g.edges.src.array[pick], g.edges.dst.array[pick]
        swap = order[src] > order[dst]
        u, v = g.device.xp.where(swap, dst, src), g.device.xp.where(swap, src, dst)
        keep = (u < owned) & (u != v)
        keys = g.device.xp.unique(u[keep].astype(np.int64) << 32 | v[keep])
        return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def _sent_rows(graph: PartitionedGraph, k: int, u: Any, v: Any) -> list[list[Any]]:
    """Return, for each part, the edges of those points of part k that it mirrors, in its order."""
    g, found = graph.local(k), []
    with g.device.active():
        ids = g.points.global_id.array
        for rows in graph.points._routes.sent[k]:
            position = g.device.xp.full(len(g.points), -1, np.int32)
            position[rows] = g.device.xp.arange(rows.size, dtype=np.int32)
            at = position[u]
            found.append([at[at >= 0], ids[v[at >= 0]]])
    return found


def _count_part(graph: PartitionedGraph, k: int, u: Any, v: Any, received: Any) -> None:
    """Count, at all points of part k, the triangles whose least point it owns."""
    g, share = graph.local(k), graph.points._share(k)
    device, n = g.device, len(g.points)
    with device.active():
        sources, targets = [u], [v]
        for mirrors, (at, ids) in zip(graph.points._routes.mirrors(k), received, strict=True):
            rows = share.rows(device.to_host(ids))
            known = rows >= 0  # a triangle's points are neighbours of its least one
            targets.append(device.asarray(rows[known].astype(np.int32)))
            at = device.asarray(at)[device.asarray(known)]
            found = at + mirrors.start if isinstance(mirrors, slice) else mirrors[at]
            sources.append(found.astype(np.int32))
        order, rank = _order(device, g.points.order.array)
        u, v = (rank[device.xp.concatenate(x)] for x in (sources, targets))
        tables = make_tables(device)
        _orient(tables, device, n, (u.astype(np.int64) << 32 | v)[u > v])
        tables.corners.add("own", bool_)
        tables.corners.own.array[:n] = order < share.owned
        g.points.triangles.array[order] = count_triangles(tables, device)


@of_graph
def triangle_count(graph: Graph) -> TriangleCount:
    """Count the triangles at every point, and their total, ignoring edge directions.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Parallel edges, and both arcs of an edge, count once; self-loops are
        ignored.

    Returns
    -------
    TriangleCount
        ``triangles``, shape (n,), int64, on the graph's device: the number of triangles with this
        corner; ``total``, a third of their sum.
    """
    if isinstance(graph, PartitionedGraph):
        return _in_parts(graph)
    if (rows := _short_rows(graph)) is not None:
        with workspace(graph, "triangles", list, triangles=(i64, 0)):
            with early_results(graph, "triangles") as copied:
                total = merge_all_rows(graph, rows)
            (triangles,) = copied.arrays()
            return TriangleCount(triangles, total)
    device, n, m = graph.device, len(graph.points), len(graph.edges)
    with device.active():
        t = graph.kept.pop(TRIANGLES, None) or make_tables(device, capacity_for(graph))
        order = list_arcs(graph, t)
        triangles = device.xp.empty(n, np.int64)
        triangles[order] = count_triangles(t, device)
        total = int(triangles.sum()) // 3
        if m <= MAX_KEPT_ARCS:
            t.arcs.adopt(
                1, {c: device.xp.empty(1, x.array.dtype) for c, x in t.arcs.columns.items()}
            )
            graph.kept[TRIANGLES] = t
        return TriangleCount(triangles, total)
