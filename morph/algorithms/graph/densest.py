"""Densest subgraph: the subgraph with the most edges per vertex.

Approximation (Charikar 2000, in the parallel form of Fang et al. 2019): vertices are ordered by
core number, then by degree, and the densest suffix of this order is selected.  The k-core of the
largest k is one of these suffixes; its density is at least k / 2, and no subgraph's exceeds k.

Exact, as a maximum flow on the graph itself (after Goldberg 1984): for a density of p / q, each
edge has q units, divided between its ends, and each vertex has capacity p.  If no vertex exceeds
its capacity, no subgraph is denser: p * vertices >= q * edges in each.  The excess of a vertex
moves along its edges to vertices below capacity, by push-relabel (Goldberg, Tarjan 1988) with exact
heights: a breadth-first search from the vertices below capacity yields the distances, then vertices
push their excess down in order of descending height.  At the end, let T be the set of vertices
without a path to a vertex below capacity.  An edge that leaves T has no units at its end in T, so
all units of the vertices in T, at least p each, belong to edges within T.  If a vertex has excess,
T is denser than p / q and contains every denser subgraph: the search continues in T with its
density (Dinkelbach 1967).  Otherwise T is the largest densest subgraph.

The initial density is that of the approximation, and only the k-core is searched for k the density
rounded up.  All numbers are integers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import lists_vertices, of_graph_on_one_device
from morph.algorithms.graph.cores import core_number
from morph.algorithms.graph.simple import degrees, ranked_pairs, sorted_rows
from morph.data.collection import Collection, Flag
from morph.graph import Graph
from morph.language.arguments import boolean
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_min, atomic_sub, i32, i64
from morph.runtime.arrays import count_true

INFINITY = 2**31 - 1


@lists_vertices("points")
class DensestSubgraph(NamedTuple):
    """Result of `densest_subgraph`: ``points`` and ``density``, a `Fraction`.

    ``points``: ascending ids, int64, or labels, see `Graph.labels`.
    """

    points: Any
    density: Fraction


@kernel
def reset(p, capacity):
    p.excess = -capacity


@kernel
def divide(e, units):
    """Assign half of the units to each end of an edge."""
    e.held = units >> 1
    atomic_add(e.low.excess, e.held)
    atomic_add(e.high.excess, units - e.held)


@func
def held_by(p, t, e, units):
    """Return the units of edge ``e`` at its end ``p``; ``t`` is the other end."""
    return e.held if p.id < t.id else units - e.held


@kernel
def find_unfilled(p, front):
    p.height = i32(INFINITY)
    if p.excess < 0:
        p.height = i32(0)
        front.add(p)


@kernel
def find_higher(p, height, units, then, top):
    """Find the vertices that can push units to this vertex; count those one level higher."""
    above = i32(0)
    for a in p.outedges:
        t = a.dst
        if t.height >= height and held_by(t, p, a.pair, units) > 0:
            before = atomic_min(t.height, i32(height))
            if before >= height:
                above += 1
            if before > height:
                then.add(t)
    p.above = above
    if above == 0:
        top.add(p)


@kernel
def push(p, units, then, moves):
    """Push the excess down; a vertex is enqueued when all higher neighbours have pushed."""
    for a in p.outedges:
        t, e = a.dst, a.pair
        if t.height + 1 == p.height:
            held = held_by(p, t, e, units)
            if held > 0:
                if p.excess > 0:
                    before = atomic_sub(p.excess, held)
                    moved = max(min(before, held), i64(0))
                    if moved < held:  # other threads process other edges of this vertex
                        atomic_add(p.excess, held - moved)
                    if moved > 0:
                        e.held += -moved if p.id < t.id else moved
                        atomic_add(t.excess, moved)
                        moves.set()
                if atomic_sub(t.above, 1) == 1:
                    then.add(t)


@program
def balance(g, pairs, units, capacity, front, then, top, moves):
    """Push excess until no path to free capacity is left; vertices of T have infinite height."""
    foreach(g.points, reset, capacity)
    foreach(pairs, divide, units)
    more = True
    while more:
        foreach(g.points, find_unfilled, front)
        height = 0
        while not front.empty:
            height += 1
            foreach(front, find_higher, height, units, then, top)
            front, then = then, front
            then.clear()
        while not top.empty:
            foreach(top, push, units, then, moves)
            top, then = then, top
            then.clear()
        more = moves.take()


def _overfull(graph: Graph, n: int, ends: tuple[Any, Any], density: Fraction) -> Any:
    """Return the set T for a density, as a mask of ``n`` vertices."""
    made = sorted_rows(graph, n, *ends)
    pairs = made.add_table("pairs", low=Ref("points"), high=Ref("points"), held=i64)
    pairs.extend(low=ends[0], high=ends[1], held=0)
    made.edges.add("pair", Ref("pairs"))
    made.edges.pair.array[:] = made.edge_order  # of both arcs: the pair's
    made.points.add("excess", i64)
    made.points.add("height", i32)
    made.points.add("above", i32)
    lists = [Collection(made.points, capacity=n) for _ in range(3)]
    capacity, units = density.numerator, density.denominator
    balance(made, pairs, i64(units), i64(capacity), *lists, Flag(made))
    return made.points.height.array[:n] == INFINITY


def _approximation(xp: Any, n: int, low: Any) -> tuple[int, Fraction]:
    """Return the start and density of the densest suffix, from the lower ends of all edges."""
    edges = len(low) - xp.searchsorted(low, xp.arange(n))
    points = xp.arange(n, 0, -1)
    first = 0
    while True:
        best = int(edges[first]), n - first
        gain = edges * best[1] - points * best[0]  # below 2**62
        denser = int(gain.argmax())
        if int(gain[denser]) == 0:
            return first, Fraction(*best)
        first = denser


def _densest(graph: Graph, exact: bool) -> DensestSubgraph:
    xp, n = graph.device.xp, len(graph.points)
    _, low, high = ranked_pairs(graph, xp.arange(n))
    if not len(low):
        return DensestSubgraph(xp.asarray(graph.points.ids(), np.int64), Fraction(0))
    simple = sorted_rows(graph, n, low, high)
    core = core_number(simple).core
    order, low, high = ranked_pairs(simple, core.astype(np.int64) << 32 | degrees(simple))
    first, density = _approximation(xp, n, low)
    if not exact:
        return DensestSubgraph(xp.sort(order[first:]).astype(np.int64), density)
    # a vertex of a densest subgraph has a degree in it of at least the density
    inside, found = core[order] >= -(-density.numerator // density.denominator), Fraction(-1)
    while True:
        number = xp.cumsum(inside) - 1
        within = inside[low] & inside[high]
        order = order[inside]
        low, high = (number[x[within]].astype(np.int32) for x in (low, high))
        if found == density:
            return DensestSubgraph(xp.sort(order).astype(np.int64), density)
        density = max(density, found)
        inside = _overfull(graph, len(order), (low, high), density)
        found = Fraction(count_true(inside[low] & inside[high]), count_true(inside))


@of_graph_on_one_device
def densest_subgraph(graph: Graph, *, exact: bool = True) -> DensestSubgraph:
    """Find the points of the densest subgraph, i.e. with the most edges per point.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions, weights, parallel edges and self-loops are ignored.
    exact : bool
        If False, return an approximation with at least half of the maximum density.

    Returns
    -------
    DensestSubgraph
        ``points``, shape (size,), int64, ascending, on the graph's device: if exact, the union of
        all densest subgraphs, which is densest, too; all points of a graph without edges.  Labels
        are on the host.
        ``density``, a `fractions.Fraction`: the number of edges among the points divided by the
        number of points; 0 without points.

    Raises
    ------
    TypeError
        If ``exact`` is not a bool.
    """
    exact = boolean(exact, "exact")
    with graph.device.active():
        return _densest(graph, exact)
