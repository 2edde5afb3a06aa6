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

from morph.algorithms.graph.temporary import live_edges, of_graph
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel
from morph.operators.sort import argsort
from morph.prelude import atomic_add, atomic_cas, exponent, f64, i32, i64, u32

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


def _turned(graph: Graph) -> tuple[Graph, Any]:
    """Give the simple graph with edges turned to the later point by degree, and who is who.

    Points are numbered by degree there; the array gives the old id of each.
    """
    xp, n = graph.device.xp, len(graph.points)
    pick = live_edges(graph)
    with graph.device.active():
        src, dst = graph.edges.src.array[pick], graph.edges.dst.array[pick]
        degree = graph.degree()
        if graph.directed:
            degree = degree + xp.bincount(dst, minlength=n)
        order = argsort(degree)
        rank = xp.empty(n, np.int32)
        rank[order] = xp.arange(n, dtype=np.int32)
        a, b = rank[src], rank[dst]
        if graph.directed:
            a, b = xp.minimum(a, b), xp.maximum(a, b)
        later = a < b
        keys = a[later].astype(np.int64) << 32 | b[later]
        keys.sort()
        first = xp.ones(keys.size, bool)
        first[1:] = keys[1:] != keys[:-1]
        keys = keys[first]
        turned = Graph.from_edges(
            (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32), n=n,
            device=graph.device,
        )  # fmt: skip
        offsets, _ = turned.adjacency("out")
        turned.points.add("first", i64)
        turned.points.first[:] = offsets[:-1]
        return turned, order


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
    turned, order = _turned(graph)
    turned.points.add("triangles", i64, fill=0)
    if len(turned.edges) <= SHORT * len(turned.points):
        foreach(turned.edges, merge, turned)
    else:
        slots = turned.add_table("slots", holds=Ref("points"))
        slots.extend(4 * len(turned.edges))
        foreach(turned.edges, insert, slots)
        foreach(turned.edges, close, slots)
    with graph.device.active():
        triangles = graph.device.xp.empty(len(graph.points), np.int64)
        triangles[order] = turned.points.triangles.array
        return TriangleCount(triangles, int(triangles.sum()) // 3)
