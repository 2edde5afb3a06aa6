"""Common parts of community detection: merged edges, hash tables of communities, modularity.

All sums are integers and thus independent of the order: weights are scaled by a power of 2 such
that their sum is below 2**62.  Each vertex has a hash table of the communities of its neighbours,
with linear probing and a load factor of at most one half.  Up to `MANY` arcs the table is in shared
arrays, and on a GPU a thread, a warp or a block executes the vertex, depending on its degree.  The
tables of other vertices are in memory, two slots for each of their arcs.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel
from morph.operators.hashing import mix32, mix64
from morph.operators.sort import argsort
from morph.prelude import atomic_add, atomic_cas, bool_, i32, i64, static, u32, u64
from morph.runtime.arrays import all_true, any_true, count_true
from morph.runtime.device import Device

BITS = 61  # the sum of all weights is below 2**BITS, the sum over all arcs below 2**(BITS + 1)
GOLDEN = 2654435769  # 2^32 / golden ratio: multiplicative hashing (Fibonacci hashing)
PARTS = 4  # random parts of the vertices; a round evaluates the vertices of one part
FEW, SOME, MANY = 8, 64, 1024  # arcs whose labels fit shared arrays of twice as many slots


class Communities(NamedTuple):
    """A division into communities.

    Attributes
    ----------
    label : array of int32, shape (n,)
        The smallest point of each point's community, -1 for deleted points.
    modularity : float
    number : int
        Number of communities, including singletons.
    """

    label: Any
    modularity: float
    number: int


class Pairs(NamedTuple):
    """Edges that are no self-loops: ``low < high``, int32, and their weights, int64."""

    low: Any
    high: Any
    weight: Any


class Rows(NamedTuple):
    """A graph with both arcs of each pair, and the hash tables of its vertices.

    Attributes
    ----------
    graph : Graph
    slots : Table
        The hash tables in memory, a row of two slots for each arc of a vertex of `has_most`.
    degree : int
        The largest number of arcs of a vertex.
    """

    graph: Any
    slots: Any
    degree: Any


@kernel
def add_arc(a):
    atomic_add(a.src.strength, a.weight)


@func
def community_of(p, refining: static):
    """Return the community that a refinement divides; otherwise all vertices have the same."""
    if refining:
        return p.community
    return i32(0)


@kernel
def tabulate(p, slots, refining: static):
    """Add the weights of a vertex's arcs by the labels of their targets, in a table in memory."""
    first, size, community = p.first, i64(2) * p.out_degree, community_of(p, refining)
    for a in p.outedges:
        if community_of(a.dst, refining) == community:
            label = a.dst.label
            at = i64(u32(label) * u32(GOLDEN)) * size >> 32
            held = atomic_cas(slots[first + (at >> 1)].key[at & 1], 0, label + 1)
            while held != 0 and held != label + 1:
                at = at + 1 if at + 1 < size else i64(0)
                held = atomic_cas(slots[first + (at >> 1)].key[at & 1], 0, label + 1)
            atomic_add(slots[first + (at >> 1)].sum[at & 1], a.weight)


@func
def add_label(keys, sums, slots, label, weight):
    """Add a weight to a hash table of ``slots`` slots in shared arrays; a key is a label + 1.

    A small table is filled from its first slot on, without hashing.
    """
    at = i64(0) if len(keys) <= 2 * FEW else i64(u32(label) * u32(GOLDEN)) * slots >> 32
    held = atomic_cas(keys[at], 0, label + 1)
    while held != 0 and held != label + 1:
        at = at + 1 if at + 1 < slots else i64(0)
        held = atomic_cas(keys[at], 0, label + 1)
    atomic_add(sums[at], weight)


@func
def has_few(p):
    return p.out_degree <= FEW


@func
def has_some(p):
    return FEW < p.out_degree <= SOME


@func
def has_many(p):
    return SOME < p.out_degree <= MANY


@func
def has_most(p):
    """Whether a vertex has its hash table in memory."""
    return p.out_degree > MANY


@func
def is_next(p, seed, cycle, part, parts):
    """Whether a vertex is active and in a part of the vertices; each cycle has other parts."""
    return p.active > 0 and word_of(p.id, seed, cycle + 1) % u32(parts) == u32(part)


@kernel
def enlist(p, now):
    now.add(p)


@func
def word_of(v, seed, round):
    """Return a random word of a vertex, which differs from those of all others in a round."""
    return mix32(u32(v) ^ u32(mix64(seed + u64(round) * 0x9E3779B97F4A7C15)))


@func
def order_of(seed, label):
    """Return a key that orders labels at random, and whose low bits are the label."""
    return i64(word_of(label, seed, 0) >> u32(1)) << 32 | i64(label)


@func
def label_of(order):
    return i32(order & 0x7FFFFFFF)


@func
def slots_of(p, a, slots):
    """Return the row of slots of an arc of ``p``."""
    return slots[p.first + a.id - p.first_arc]


@kernel
def clear(s):
    for k in range(2):
        s.key[k] = i32(0)
        s.sum[k] = i64(0)


@kernel
def unite(a, sets):
    """Unite the ends of an arc if they have the same label."""
    if a.src.label == a.dst.label:
        sets.union(a.src, a.dst)


@kernel
def take_root(p, sets):
    """Label a vertex by the smallest vertex of its set."""
    p.label = sets.find(p).id


@kernel
def clear_total(p):
    p.total = 0


@kernel
def add_to_community(p, g):
    atomic_add(g.points[p.label].total, p.strength)


@kernel
def add_inside(a, found):
    if a.src.label == a.dst.label:
        atomic_add(found.inside, a.weight)


def integer_weights(graph: Graph, pick: Any) -> Any:
    """Return the weights of some edges as integers, scaled by a power of 2.

    Parameters
    ----------
    graph : Graph
    pick : slice or int array
        The edges, see `live_edges`.

    Returns
    -------
    (k,) int64 array

    Raises
    ------
    ValueError
        If a weight is negative or not finite.
    """
    xp = graph.device.xp
    if "weight" not in graph.edges.columns:
        return xp.ones(len(graph.edges), np.int64)[pick]
    weight = graph.edges.weight.array[: len(graph.edges)][pick]
    if not weight.size:
        return weight.astype(np.int64)
    real = weight.dtype.kind == "f"
    wrong = ~(weight >= 0) | (weight == np.inf) if real else weight < 0
    if not all_true(~wrong):
        found = weight[int(wrong.argmax())]
        raise ValueError(f"communities need weights that are finite and not negative, not {found}")
    count = weight.size.bit_length()
    if real:
        weight = weight.astype(np.float64)
        _, exponent = np.frexp(float(weight.max()))
        return xp.rint(xp.ldexp(weight, BITS - count - int(exponent))).astype(np.int64)
    shift = max(int(weight.max()).bit_length() + count - BITS, 0)
    return (weight >> shift if shift else weight).astype(np.int64)


def merged(xp: Any, a: Any, b: Any, weight: Any) -> Pairs:
    """Return each pair of the points ``a`` and ``b``, shape (k,), once, with its total weight."""
    low, high = xp.minimum(a, b).astype(np.int64), xp.maximum(a, b)
    width = int(high.max()).bit_length() if high.size else 0
    keys = low << width | high
    order = argsort(keys)
    keys, sums = keys[order], xp.cumsum(weight[order])
    last = xp.ones(keys.size, bool)
    last[:-1] = keys[1:] != keys[:-1]
    keys, sums = keys[last], sums[last]
    sums[1:] -= sums[:-1].copy()
    return Pairs((keys >> width).astype(np.int32), (keys & (1 << width) - 1).astype(np.int32), sums)


def integer_pairs(graph: Graph) -> tuple[Pairs, Any]:
    """Return the pairs of adjacent points, and twice the weight of self-loops, (n,) int64.

    Weights are integers, and directions ignored.  The two arcs of an edge of an undirected graph
    count once; its parallel edges are not merged.
    """
    xp, m, pick = graph.device.xp, len(graph.edges), live_edges(graph)
    weight = integer_weights(graph, pick)
    src, dst = graph.edges.src.array[:m][pick], graph.edges.dst.array[:m][pick]
    loops, twice = src == dst, xp.zeros(len(graph.points), np.int64)
    if any_true(loops):
        of = merged(xp, src[loops], src[loops], weight[loops])
        twice[of.low] = 2 * of.weight
    apart = ~loops if graph.directed else src < dst
    ends = src[apart], dst[apart], weight[apart]
    return merged(xp, *ends) if graph.directed else Pairs(*ends), twice


def rows_of_graph(graph: Graph, **columns: Any) -> tuple[Rows, Pairs]:
    """Return `rows_of_pairs` of a graph, and the pairs."""
    pairs, twice = integer_pairs(graph)
    rows = rows_of_pairs(graph.device, pairs, twice, **columns)
    foreach(rows.graph.edges, add_arc)
    return rows, pairs


def rows_of_pairs(device: Device, pairs: Pairs, strength: Any, **columns: Any) -> Rows:
    """Make the graph with both arcs of these pairs, and the hash tables.

    ``strength``, (n,) int64, is the total weight of each vertex, in which self-loops count twice.
    ``columns`` are further columns of the vertices, by name.
    """
    xp, n = device.xp, len(strength)
    low, high, weight = pairs
    ends = xp.concatenate([low, high]), xp.concatenate([high, low])
    made = Graph.from_edges(*ends, weight=xp.concatenate([weight, weight]), n=n, device=device)
    columns |= {
        "label": i32, "first": i64, "first_arc": i64, "strength": i64, "total": i64, "active": i32,
        "best": i64, "wants": bool_,
    }  # fmt: skip
    made.points.add_columns({name: (dtype, None) for name, dtype in columns.items()})
    offsets = made.adjacency("out")[0]
    degree = offsets[1:] - offsets[:-1]
    largest = int(degree.max()) if n else 0
    in_memory = xp.where(degree > MANY, degree, 0)
    made.points.first_arc.array[:n] = offsets[:-1]
    made.points.first.array[:n] = xp.cumsum(in_memory) - in_memory
    made.points.strength.array[:n] = strength
    slots = Table("slots", device, key=vec(i32, 2), sum=vec(i64, 2))
    slots.extend(int(in_memory.sum()) if largest > MANY else 0)
    return Rows(made, slots, largest)


def modularity(inside: int, total: Any, resolution: float = 1.0) -> float:
    """Return the modularity of a partition into communities.

    Parameters
    ----------
    inside : int
        Total weight of arcs within communities (twice the weight of edges).
    total : array of int64, on the host
        Total strength of the vertices of each community.
    resolution : float
    """
    whole = int(total.sum())
    if not whole:
        return 0.0
    share = total / whole
    squares = float(np.square(share).sum())  # `share @ share` would start the threads of BLAS
    return inside / whole - resolution * squares


def modularity_of(device: Device, pairs: Pairs, strength: Any, resolution: float) -> float:
    """Return the modularity of the partition into single vertices, of these strengths."""
    total = np.asarray(device.to_host(strength))
    return modularity(int(total.sum()) - 2 * int(pairs.weight.sum()), total, resolution)


def communities(graph: Graph, label: Any, value: float) -> Communities:
    """Return the result for given labels and modularity."""
    if graph.points.deletes:
        label[~graph.points.alive[: len(label)]] = -1
    number = count_true(label == graph.device.xp.arange(len(label)))
    return Communities(label, value, number)
