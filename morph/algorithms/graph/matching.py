"""A maximal matching, of random edges or of heavy ones, by locally dominant edges.

Each vertex points to the free neighbour of its first edge in a total order of the edges, and two
vertices that point to each other are matched (Preis, STACS 1999; Manne, Bisseling, 2007). So the
result is that of the greedy algorithm that processes the edges in this order. The order is random,
by a hash of the ends (Blelloch, Fineman, Shun, SPAA 2012), or, with weights, by descending weight,
ties by the hash; then the weight is at least half of the maximum. A vertex selects another
candidate only when its candidate has been matched, and each matched vertex notifies its neighbours
once. One launch.
Work: O(n + m), plus the adjacency of a vertex for each new candidate. O(log n) rounds with high
probability in random order (Fischer, Noever, SODA 2018); up to n / 2 if weights increase along a
path, where the time of a round is proportional to the edges of the vertices with new candidates.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import (
    checked_seed,
    live_edges,
    of_graph_on_one_device,
    results,
)
from morph.algorithms.graph.costs import has_equal_reverses
from morph.algorithms.graph.mst import exact_sum
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.sorting import sort_words
from morph.graph import Graph
from morph.language.arguments import boolean
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.hashing import mix64, unmix64
from morph.prelude import atomic_cas, atomic_min, i32, i64, static, u64
from morph.runtime.arrays import any_true

NONE = -1
LAST = 2**63 - 1


class Matching(NamedTuple):
    """Result of `matching`: ``partner``, shape (n,), int32, ``edges``, ``size`` and ``weight``."""

    partner: Any
    edges: Any
    size: int
    weight: Any


@func
def hash_of(p, t, seed):
    """Return the position of a pair in the random order; injective, as `mix64` is bijective."""
    low, high = min(p.id, t.id), max(p.id, t.id)
    return mix64((u64(low) << 32 | u64(high)) ^ mix64(seed))


@func
def other_end(p, hashed, seed):
    """Return the other vertex of a pair of `hash_of`."""
    pair = unmix64(hashed) ^ mix64(seed)
    low, high = i32(pair >> 32), i32(pair & 0xFFFFFFFF)
    return high if low == p.id else low


@kernel
def point_to_first(p, seed):
    free, best = i32(0), u64(0)
    for t in p.nbrs:  # shared: it has only reductions, so the neighbour follows from its hash
        if t != p and t.partner < 0:
            free += 1
            best = max(best, hash_of(p, t, seed))
    p.candidate = other_end(p, best, seed) if free > 0 else i32(NONE)


@kernel
def find_edge(p, g):
    """Find the smallest id of the edges to the partner."""
    edge, partner = i64(LAST), g.points[p.partner]
    for e in p.edges:
        if e.src == partner or e.dst == partner:
            edge = min(edge, i64(e.id))
    low = p if p.id < p.partner else partner
    atomic_min(low.edge, edge)


@func
def comes_before(w, key, edge, heaviest, best, first):
    """Whether an edge precedes another edge: by weight, hash of the ends, and id."""
    if w != heaviest:
        return w > heaviest
    return key > best or (key == best and edge < first)


@kernel
def point_to_heaviest(p, seed, zero, both: static):
    """Find the heaviest edge of positive weight to a free neighbour.

    With ``both``, arcs to the vertex count, too; otherwise they are as heavy as their reverses.
    """
    heaviest, best, to, edge = zero, u64(0), i32(NONE), i64(NONE)
    for e in p.outedges:
        w = zero + e.weight
        if w > 0 and w >= heaviest and e.dst != p and e.dst.partner < 0:
            key = hash_of(p, e.dst, seed)
            if comes_before(w, key, i64(e.id), heaviest, best, edge):
                heaviest, best, to, edge = w, key, i32(e.dst.id), i64(e.id)
    if both:
        for e in p.inedges:
            w = zero + e.weight
            if w > 0 and w >= heaviest and e.src != p and e.src.partner < 0:
                key = hash_of(p, e.src, seed)
                if comes_before(w, key, i64(e.id), heaviest, best, edge):
                    heaviest, best, to, edge = w, key, i32(e.src.id), i64(e.id)
    p.candidate = to
    p.edge = edge


@kernel
def match(p, g, matched):
    t = g.points[p.candidate]
    if t.candidate == p.id:
        low = p if p.id < t.id else t
        high = t if p.id < t.id else p
        if atomic_cas(low.partner, i32(NONE), i32(high.id)) == NONE:  # else the other vertex did
            high.partner = i32(low.id)
            low.edge = min(low.edge, high.edge)
            matched.add(low)
            matched.add(high)


@kernel
def release(p, again):
    for t in p.nbrs:
        if t.partner < 0 and t.candidate == p.id:
            if atomic_cas(t.candidate, i32(p.id), i32(NONE)) == p.id:  # once for parallel edges
                again.add(t)


@program
def find_candidates(items, seed, zero, heavy: static, both: static):
    if heavy:
        foreach(items, point_to_heaviest, seed, zero, both)
    else:
        foreach(items, point_to_first, seed)


@program
def match_rounds(g, seed, zero, heavy: static, both: static, again, matched):
    """Return the number of matched vertices."""
    found = Scalars(g, size=0)
    find_candidates(g.points, seed, zero, heavy, both)
    foreach(g.points, match, g, matched, where=lambda p: p.candidate >= 0)
    while not matched.empty:
        found.size += len(matched)
        foreach(matched, release, again)
        matched.clear()
        find_candidates(again, seed, zero, heavy, both)
        foreach(again, match, g, matched, where=lambda p: p.candidate >= 0)
        again.clear()
    if not heavy:
        foreach(g.points, find_edge, g, where=lambda p: p.partner >= 0)
    return found.size


def _zero(graph: Graph) -> Any:
    """Check the weights; returns a 0 of their dtype.

    Raises
    ------
    ValueError
        If a weight is NaN.
    """
    dtype = np.dtype(graph.edges.weight.dtype)
    if dtype.kind == "f":
        live = graph.edges.weight.array[live_edges(graph)]
        if any_true(live != live):
            raise ValueError("matching needs weights that are not NaN")
    return np.result_type(dtype, np.int8 if dtype.kind == "b" else dtype).type(0)


@of_graph_on_one_device
def matching(graph: Graph, weighted: bool = False, seed: int = 0) -> Matching:
    """Find a maximal matching: a set of edges without common ends, to which none can be added.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions and self-loops are ignored.
    weighted : bool, default False
        Prefer heavy edges: the total weight is at least half of the maximum.  Weights are of any
        real type, by default 1; edges without positive weight are excluded.  If False, the order of
        edges is random, and the number of edges is at least half of the maximum.
    seed : int, default 0
        Seed of the random order of edges (of equal weight), 0 or more.  The result depends only on
        the arguments; it is the same on all devices and for any number of threads.

    Returns
    -------
    Matching
        ``partner``, shape (n,), int32, on the graph's device: the matched point, or -1.  ``edges``,
        shape (size,), ascending int64 ids: of parallel edges, and of the arcs of both directions,
        the heaviest if ``weighted``, ties by the smallest id.  ``size``, the number of edges.
        ``weight``, their total weight, a Python int or float; the number of edges if not
        ``weighted``.

    Raises
    ------
    TypeError
        If ``seed`` is not an integer.
    ValueError
        If ``seed`` is negative, or a weight is NaN.

    Notes
    -----
    Weights that increase along a path of k edges take k / 2 sequential rounds.
    """
    weighted = boolean(weighted, "weighted")
    seed, n = checked_seed(seed), len(graph.points)
    heavy = weighted and "weight" in graph.edges.columns
    zero = _zero(graph) if heavy else i32(0)
    both = heavy and not has_equal_reverses(graph)

    def make() -> list[Any]:
        return [Collection(graph.points, capacity=n) for _ in range(2)]

    columns: dict[str, Any] = {"partner": (i32, NONE), "candidate": (i32, NONE)}
    columns["edge"] = i64, LAST
    with workspace(graph, "matching", make, **columns) as lists:
        key = u64(seed % 2**64)
        size = int(match_rounds(graph, key, zero, heavy, both, *lists)) // 2
        partner, edge = results(graph, "partner", "edge")
    with graph.device.active():
        edges = edge[partner > graph.device.xp.arange(n)]
        sort_words(edges)
        weight = exact_sum(graph.edges.weight.array[edges]) if heavy else size
        return Matching(partner, edges, size, weight)
