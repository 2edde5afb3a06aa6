"""Triangle counting, by intersecting the rows of a degree-ordered graph.

Vertices are renumbered by degree, and every edge is directed to the end of higher degree, so that
no vertex has more than sqrt(2 m) out-edges.  A triangle u -> v, u -> w, v -> w is found once: w is
in the rows of both u and v (Chiba, Nishizeki 1985; Schank, Wagner 2005).  Of the sorted row of u
only the part after v is intersected.  Short rows are merged; otherwise the shorter row is looked up
in the longer one, which is hashed, with linear probing.  O(m^1.5) at most, after a sort of the
edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges, of_graph, results, results_device
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel
from morph.operators.sort import argsort
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_add, atomic_cas, bool_, exponent, f64, i32, i64, u32
from morph.runtime.arrays import bincount
from morph.runtime.device import Device

SHORT = 8  # the mean out-degree up to which rows are merged
GOLDEN = 2654435769  # 2^32 / golden ratio: multiplicative hashing (Fibonacci hashing)


class TriangleCount(NamedTuple):
    """Result of `triangle_count`: ``triangles``, shape (n,), int64, at each point; ``total``."""

    triangles: Any
    total: int


@func
def bits(p):
    """Give the size of p's part of the slots as a power of 2: a quarter to a half is taken."""
    return u32(exponent(f64(4 * p.out_degree)))


@func
def home(x, bits):
    """Give where to look for x first."""
    return (u32(x.id) * u32(GOLDEN)) >> (u32(32) - bits)


@kernel
def insert(e, slots):
    size = bits(e.src)
    at, last = home(e.dst, size), (u32(1) << size) - 1
    while atomic_cas(slots[4 * e.src.first + at].holds, None, e.dst) is not None:
        at = (at + 1) & last


@kernel
def merge(e, h):
    """Go through what is left of the row of u behind v and the row of v at once."""
    u, v = e.src, e.dst
    i, j = i64(e.id) + 1, v.first
    last, end = u.first + u.out_degree, v.first + v.out_degree
    found = i32(0)
    while i < last and j < end:
        a, b = h.edges[i].dst, h.edges[j].dst
        if a == b:
            atomic_add(a.triangles, 1)
            found += 1
        if a.id <= b.id:
            i += 1
        if b.id <= a.id:
            j += 1
    if found > 0:
        atomic_add(u.triangles, found)
        atomic_add(v.triangles, found)


@kernel
def close(e, slots):
    """Look up what is left of the row of u behind v in that of v, or v's in u's."""
    u, v = e.src, e.dst
    skip = i64(e.id) + 1 - u.first
    near, far = u, v
    if u.out_degree - skip > v.out_degree:
        near, far, skip = v, u, 0
    first, size, found = 4 * far.first, bits(far), i32(0)
    last = (u32(1) << size) - 1
    for w in near.outnbrs[skip:]:
        at = home(w, size)
        x = slots[first + at].holds
        while x is not None and x != w:
            at = (at + 1) & last
            x = slots[first + at].holds
        if x == w:
            atomic_add(w.triangles, 1)
            found += 1
    if found > 0:
        atomic_add(u.triangles, found)
        atomic_add(v.triangles, found)


@kernel
def set_order(p):
    p.order = (i64(p.degree) << 32) + p.id


@func
def starts_at_own(e):
    return e.src.own


def _turned(device: Device, n: int, a: Any, b: Any) -> Graph:
    """Make the simple graph of the edges from ``a`` to ``b``, of int32, for which ``a < b``."""
    later = a < b
    keys = a[later].astype(np.int64) << 32 | b[later]
    keys.sort()
    first = device.xp.ones(keys.size, bool)
    first[1:] = keys[1:] != keys[:-1]
    keys = keys[first]
    turned = Graph.from_edges(
        (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32), n=n, device=device
    )
    offsets, _ = turned.adjacency("out")
    turned.points.add("first", i64)
    turned.points.first[:] = offsets[:-1]
    turned.points.add("triangles", i64, fill=0)
    return turned


def _ranks(device: Device, degree: Any) -> tuple[Any, Any]:
    """Give the points in order of a key, and the rank of each, int32."""
    order = argsort(degree)
    rank = device.xp.empty(order.size, np.int32)
    rank[order] = device.xp.arange(order.size, dtype=np.int32)
    return order, rank


def _count(turned: Graph, where: Any = None) -> None:
    """Count the triangles by their first edges, all or those for which ``where`` is true."""
    if len(turned.edges) <= SHORT * len(turned.points):
        foreach(turned.edges, merge, turned, where=where)
    else:
        slots = turned.add_table("slots", holds=Ref("points"))
        slots.extend(4 * len(turned.edges))
        foreach(turned.edges, insert, slots)
        foreach(turned.edges, close, slots, where=where)


def _in_parts(graph: PartitionedGraph) -> TriangleCount:
    """Count on parts: those with rows of the mirrors count the triangles whose least point is own.

    A part gets the rows of its mirrors from their owners, the points by degree and id.
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
    """Give the edges of part k from own points to later ones, as local ids, each once."""
    g, owned = graph.local(k), graph.points._share(k).owned
    with g.device.active():
        pick, order = live_edges(g), g.points.order.array
        src, dst = g.edges.src.array[pick], g.edges.dst.array[pick]
        turn = order[src] > order[dst]
        u, v = g.device.xp.where(turn, dst, src), g.device.xp.where(turn, src, dst)
        keep = (u < owned) & (u != v)
        keys = g.device.xp.unique(u[keep].astype(np.int64) << 32 | v[keep])
        return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def _sent_rows(graph: PartitionedGraph, k: int, u: Any, v: Any) -> list[list[Any]]:
    """Give each part the edges from those of part k's points that it mirrors, in its order."""
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
    """Count the triangles of part k whose least point is its own, at all of its points."""
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
        order, rank = _ranks(device, g.points.order.array)
        u, v = (rank[device.xp.concatenate(x)] for x in (sources, targets))
        turned = _turned(device, n, u, v)
        turned.points.add("own", bool_)
        turned.points.own.array[:] = order < share.owned
    _count(turned, starts_at_own)
    with device.active():
        g.points.triangles.array[order] = turned.points.triangles.array


@of_graph
def triangle_count(graph: Graph) -> TriangleCount:
    """Count the triangles at every point and in all, ignoring edge directions.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
        On any device.  Parallel edges, and both arcs of an edge, count once; edges from a point to
        itself do not count.

    Returns
    -------
    TriangleCount
        ``triangles``, shape (n,), int64, on the graph's device: how many have this point as a
        corner; ``total``, a third of their sum.
    """
    if isinstance(graph, PartitionedGraph):
        return _in_parts(graph)
    xp, n = graph.device.xp, len(graph.points)
    pick = live_edges(graph)
    with graph.device.active():
        src, dst = graph.edges.src.array[pick], graph.edges.dst.array[pick]
        degree = graph.degree()
        if graph.directed:
            degree = degree + bincount(xp, dst, n)
        order, rank = _ranks(graph.device, degree)
        a, b = rank[src], rank[dst]
        if graph.directed:
            a, b = xp.minimum(a, b), xp.maximum(a, b)
        turned = _turned(graph.device, n, a, b)
    _count(turned)
    with graph.device.active():
        triangles = graph.device.xp.empty(len(graph.points), np.int64)
        triangles[order] = turned.points.triangles.array
        return TriangleCount(triangles, int(triangles.sum()) // 3)
