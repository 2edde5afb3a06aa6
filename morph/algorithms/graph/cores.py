"""Core numbers (k-core decomposition), by parallel peeling.

The k-core is what remains when vertices of degree below k are deleted until there are none; the
core number of a vertex is the largest k whose core contains it (Seidman 1983).  Peeling, level by
level (Matula, Beck 1983; Dasari, Desh, Zubair, ParK, 2014): a deleted vertex lowers the degrees of
its neighbours, and a neighbour whose degree falls to the level is deleted next.  Vertices of the
next levels are in a worklist of their own, see `peeling.py`; empty levels are skipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import lists_vertices, of_graph, results, results_device
from morph.algorithms.graph.peeling import INFINITY, SOON, find_range, split
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.language.arguments import integer
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_min, atomic_sub, i32, i64


class CoreNumber(NamedTuple):
    """Result of `core_number`: ``core``, shape (n,), int32, and ``largest``, an int."""

    core: Any
    largest: int


@lists_vertices("points")
class KCore(NamedTuple):
    """Result of `k_core`: ``points``, ascending ids, int64, or labels, see `Graph.labels`."""

    points: Any


@kernel
def count(p, degrees):
    """Set ``remaining`` to the neighbours of a vertex, itself excluded."""
    loops = i32(0)
    for t in p.nbrs:
        if t == p:
            loops += 1
    p.remaining = i32(p.degree) - loops
    atomic_min(degrees.least, p.remaining)


@kernel
def enqueue(p, falling):
    """Schedule a vertex to be deleted at this level."""
    falling.add(p)


@kernel
def drop(p, k, limit, falling, soon):
    """Delete a vertex at level k; neighbours that have no more than k neighbours left follow."""
    p.core = i32(k)
    for t in p.nbrs:
        if t.remaining > k:
            before = atomic_sub(t.remaining, 1)
            if before == k + 1:
                falling.add(t)
            elif before == limit + 1:
                soon.add(t)


@program
def peel(g, k, last, left, rest, soon, falling, then):
    degrees = Scalars(g, least=i32(INFINITY), most=i32(-1))
    foreach(g.points, count, degrees)
    k = max(k, i64(degrees.least))  # lower levels are empty
    limit, more = k, 1  # at first `soon` and `left` both contain all vertices
    while k <= last:
        while k <= limit:
            # listed first, since a step over `soon`, to which it adds, would not be asynchronous
            foreach(soon, enqueue, falling, where=lambda p: p.core < 0 and p.remaining <= k)
            while not falling.empty:  # asynchronous steps have already deleted some of these
                foreach(falling, drop, k, limit, then, soon, ahead=then, where=lambda p: p.core < 0)
                falling, then = then, falling
                then.clear()
            k += 1
        soon.clear()
        if k <= last:
            degrees.least = INFINITY
            degrees.most = -1
            foreach(left, find_range, degrees, where=lambda p: p.core < 0)
            if degrees.most < 0:
                break
            k = max(k, i64(degrees.least))  # skip empty levels
            limit = min(k + more, min(last, i64(degrees.most)))
            more = min(2 * more + 1, SOON)
            foreach(left, split, limit, soon, rest, where=lambda p: p.core < 0)
            left, rest = rest, left
            rest.clear()


def _peel(graph: Graph, first: int, last: int) -> Any:
    """Delete points at the levels ``first`` to ``last``; return the level of each, else -1."""
    n = len(graph.points)

    def make() -> list[Any]:
        capacities = (n, n, n + n // 4, n, n)  # `soon` has spare slots, which threads cache
        return [Collection(graph.points, capacity=k) for k in capacities]

    with workspace(graph, "cores", make, remaining=(i32, 0), core=(i32, -1)) as objects:
        left, _, soon, *_ = objects
        left.extend_live()
        soon.extend_live()
        objects.run(peel, graph, i64(first), i64(last), *objects)
        return results(graph, "core")[0]


@of_graph
def core_number(graph: Graph) -> CoreNumber:
    """Find the core number of every point, ignoring edge directions.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device.  Each of several parallel edges counts; edges from a point to itself do not.
        If ``graph.directed``, the degree of a point is the sum of its in- and out-degrees, as in
        NetworkX: a graph with each edge as two arcs must be ``symmetric``, or each counts twice.

    Returns
    -------
    CoreNumber
        ``core``, shape (n,), int32, on the graph's device, -1 for deleted points; with parts a
        `PartitionedArray`.  ``largest``, the largest core number, 0 without points.
    """
    core = _peel(graph, 0, 2 * len(graph.edges))
    with results_device(graph).active():
        return CoreNumber(core, max(int(core.max()), 0) if core.size else 0)


@of_graph
def k_core(graph: Graph, k: int) -> KCore:
    """Find the k-core: the largest set of points with ``k`` or more edges each to points in it.

    Parameters
    ----------
    graph : Graph
        As in `core_number`.
    k : int

    Returns
    -------
    KCore
        ``points``, shape (count,), int64, on the graph's device; labels are on the host.

    Raises
    ------
    TypeError
        If ``k`` is not an integer.
    ValueError
        If it is negative.
    """
    if (k := integer(k, "k")) < 0:
        raise ValueError(f"k is 0 or more, not {k}")
    last = min(k - 1, 2 * len(graph.edges))  # no degree is larger
    core = _peel(graph, last, last)
    with results_device(graph).active():
        ids = results_device(graph).asarray(graph.points.ids())
        return KCore(ids[core[ids] < 0])
