"""Common parts of community detection: merged edges, hash tables of communities, modularity.

All sums are integers and thus independent of the order: weights are scaled by a power of 2 such
that their sum is below 2**62.  Each vertex has a hash table of the communities of its neighbours,
with linear probing and a load factor of at most one half.  Up to `MANY` arcs the table is in shared
arrays, and on a GPU a thread, a warp or a block executes the vertex, depending on its degree.  The
tables of other vertices are in memory, two slots for each of their arcs.  The same memory has the
tables of groups of vertices that are merged into one: the arcs of the coarser graph.

Weights are not negative, so of the sums of a label so far the last is the largest.  So the largest
sum, and the largest gain, is found while the arcs are added.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel
from morph.operators.hashing import mix32, mix64
from morph.operators.sort import argsort
from morph.prelude import atomic_add, atomic_cas, bool_, i32, i64, static, u32, u64
from morph.runtime.arrays import any_true, count_true
from morph.runtime.device import Device

BITS = 61  # the sum of all weights is below 2**BITS, the sum over all arcs below 2**(BITS + 1)
GOLDEN = 2654435769  # 2^32 / golden ratio: multiplicative hashing (Fibonacci hashing)
PARTS = 4  # random parts of the vertices; a round evaluates the vertices of one part
COLUMNS: dict[str, Any] = {  # of vertices
    "label": i32, "first": i64, "first_arc": i64, "strength": i64, "total": i64, "active": i32,
    "best": i64, "wants": bool_,
}  # fmt: skip
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


class Arcs(NamedTuple):
    """Both arcs of each edge, in compressed rows: int64, int32 and int64."""

    offsets: Any
    dst: Any
    weight: Any


class Rows(NamedTuple):
    """A graph with both arcs of each pair, and the hash tables of its vertices.

    Attributes
    ----------
    graph : Graph
    slots : Table
        The hash tables in memory, a row of two slots for each arc of a vertex of `has_most`; all
        slots are empty between the steps that use them.
    degree : int
        The largest number of arcs of a vertex.
    """

    graph: Any
    slots: Any
    degree: Any


@kernel
def add_strength(p, found):
    """Add the weights of a vertex's arcs; count self-loops, and compare the arcs of each pair.

    The difference is 0 if the arcs of each pair have the same weights in both directions; otherwise
    it is 0 with a probability of 2**-64.
    """
    strength, loops, difference = i64(0), 0, u64(0)
    for a in p.outedges:
        low, high = min(p.id, a.dst.id), max(p.id, a.dst.id)
        word = mix64(mix64(u64(low) << u64(32) | u64(high)) ^ u64(a.weight))
        difference += word if p.id == low else ~word + u64(1)
        loops += i32(a.dst == p)
        strength += a.weight
    p.strength += strength
    if loops > 0:
        atomic_add(found.loops, loops)
    if difference != u64(0):
        atomic_add(found.difference, difference)


@func
def community_of(p, refining: static):
    """Return the community that a refinement divides; otherwise all vertices have the same."""
    if refining:
        return p.community
    return i32(0)


@func
def add_to_slots(slots, first, size, label, weight):
    """Add a weight to a hash table of ``size`` slots in memory; return the label's sum so far.

    A key is a label + 1.
    """
    at = i64(u32(label) * u32(GOLDEN)) * size >> 32
    held = atomic_cas(slots[first + (at >> 1)].key[at & 1], 0, label + 1)
    while held != 0 and held != label + 1:
        at = at + 1 if at + 1 < size else i64(0)
        held = atomic_cas(slots[first + (at >> 1)].key[at & 1], 0, label + 1)
    return atomic_add(slots[first + (at >> 1)].sum[at & 1], weight) + weight


@kernel
def contract(p, g, slots, count):
    """Add the weights of a vertex's arcs to other groups, in the table of its group.

    The vertex with the number ``p.label`` has the begin of the table, and the number of arcs.
    """
    root, group = g.points[p.label], p.number
    first, size = root.begin, i64(2) * min(root.arcs, i64(count))
    for a in p.outedges:
        if a.dst.number != group:
            add_to_slots(slots, first, size, a.dst.number, a.weight)


@func
def add_label(keys, sums, slots, label, weight):
    """Add a weight to a hash table of ``slots`` slots in shared arrays; return the sum so far.

    A key is a label + 1.  A small table is filled from its first slot on, without hashing.
    """
    at = i64(0) if len(keys) <= 2 * FEW else i64(u32(label) * u32(GOLDEN)) * slots >> 32
    held = atomic_cas(keys[at], 0, label + 1)
    while held != 0 and held != label + 1:
        at = at + 1 if at + 1 < slots else i64(0)
        held = atomic_cas(keys[at], 0, label + 1)
    return atomic_add(sums[at], weight) + weight


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
def clear(p, slots):
    """Empty the table of a vertex in memory."""
    for a in p.outedges:
        s = slots_of(p, a, slots)
        s.key[0] = i32(0)
        s.key[1] = i32(0)
        s.sum[0] = i64(0)
        s.sum[1] = i64(0)


@kernel
def unite(p, sets):
    """Unite a vertex with its neighbours of the same label."""
    for t in p.outnbrs:
        if t.id < p.id and t.label == p.label:
            sets.union(p, t)


@kernel
def take_root(p, sets):
    """Label a vertex by the smallest vertex of its set."""
    p.label = sets.find(p).id


@kernel
def add_to_community(p, g):
    atomic_add(g.points[p.label].total, p.strength)


@kernel
def add_inside(p, found):
    """Add the weights of a vertex's arcs within its community."""
    inside = i64(0)
    for a in p.outedges:
        if a.dst.label == p.label:
            inside += a.weight
    if inside != 0:
        atomic_add(found.inside, inside)


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
    least, most = weight.min(), weight.max()  # NaN if a weight is NaN
    if not (least >= 0 and most < np.inf):
        found = weight[int((~(weight >= 0) | (weight == np.inf)).argmax())]
        raise ValueError(f"communities need weights that are finite and not negative, not {found}")
    count = weight.size.bit_length()
    if weight.dtype.kind == "f":
        _, exponent = np.frexp(float(most))
        weight = weight.astype(np.float64)
        return xp.rint(xp.ldexp(weight, BITS - count - int(exponent))).astype(np.int64)
    shift = max(int(most).bit_length() + count - BITS, 0)
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


def rows_of_graph(graph: Graph, columns: Mapping[str, Any], merges: bool = False) -> Rows:
    """Return the rows of a graph: of an undirected one its own arcs, if it has no self-loops.

    Parameters
    ----------
    graph : Graph
    columns : mapping of str to type
        Further columns of the vertices.
    merges : bool
        Whether groups of vertices will be merged, by `merged_groups`.
    """
    device, n = graph.device, len(graph.points)
    if not (graph.directed or graph.gapped):
        offsets, ids = graph.adjacency("out")
        pick = slice(len(graph.edges)) if ids is None else ids
        dst = graph.edges.dst.array[: len(graph.edges)][pick]
        arcs = Arcs(offsets, device.xp.ascontiguousarray(dst), integer_weights(graph, pick))
        rows = rows_of_arcs(device, arcs, columns, merges)
        found = Scalars(rows.graph, loops=0, difference=u64(0))
        foreach(rows.graph.points, add_strength, found)
        if not found.loops and not found.difference:
            return rows
    pairs, twice = integer_pairs(graph)
    rows = rows_of_arcs(device, arcs_of_pairs(device, pairs, n), columns, merges)
    rows.graph.points.strength.array[:n] = twice
    foreach(rows.graph.points, add_strength, Scalars(rows.graph, loops=0, difference=u64(0)))
    return rows


def arcs_of_pairs(device: Device, pairs: Pairs, n: int) -> Arcs:
    """Return both arcs of each pair."""
    xp, (low, high, weight) = device.xp, pairs
    ends = xp.concatenate([low, high]), xp.concatenate([high, low])
    made = Graph.from_edges(*ends, xp.concatenate([weight, weight]), n, device=device)
    return Arcs(made.adjacency("out")[0], made.edges.dst.array, made.edges.weight.array)


def rows_of_arcs(
    device: Device, arcs: Arcs, columns: Mapping[str, Any], merges: bool, slots: Any = None
) -> Rows:
    """Make the graph of these arcs, and the hash tables.

    Parameters
    ----------
    device : Device
    arcs : Arcs
        The graph uses their memory.
    columns : mapping of str to type
        Further columns of the vertices.
    merges : bool
        See `rows_of_graph`.
    slots : Table, optional
        The hash tables of a finer graph, whose memory is used again.
    """
    offsets, dst, weight = arcs
    xp, n = device.xp, len(offsets) - 1
    made = Graph.from_csr(offsets, dst, weight, copy=False, device=device)
    made.points.add_columns({name: (dtype, None) for name, dtype in {**COLUMNS, **columns}.items()})
    degree = offsets[1:] - offsets[:-1]
    largest, size = int(degree.max()) if n else 0, 0
    if largest > MANY:
        in_memory = xp.where(degree > MANY, degree, 0)
        ends = xp.cumsum(in_memory)
        made.points.first_arc.array[:n] = offsets[:-1]
        made.points.first.array[:n] = ends - in_memory
        size = int(ends[-1])
    if slots is None:
        size = len(dst) if merges else size
        slots = Table("slots", device, key=vec(i32, 2), sum=vec(i64, 2))
        slots.adopt(
            size, {"key": xp.zeros(2 * size, np.int32), "sum": xp.zeros(2 * size, np.int64)}
        )
    return Rows(made, slots, largest)


def merged_groups(rows: Rows, group: Any, roots: Any) -> tuple[Arcs, Any]:
    """Merge the vertices of each group, and the arcs between each two groups.

    Parameters
    ----------
    rows : Rows
        With the columns ``number``, int32, and ``begin`` and ``arcs``, int64; ``arcs`` is the
        number of arcs of each group, at its root.
    group : (n,) int32 array
        The root of each vertex's group, also in the column ``label``.
    roots : (k,) int array
        The roots, ascending: vertices of the coarser graph.

    Returns
    -------
    arcs : Arcs
        Of the coarser graph, in any order in each row.
    number : (n,) int array
        The vertex of the coarser graph for each vertex.
    """
    xp, points, n, count = rows.graph.device.xp, rows.graph.points, len(group), len(roots)
    number = points.number.array[:n]
    number[roots] = xp.arange(count, dtype=np.int32)
    number[:] = number[group]
    size = xp.minimum(points.arcs.array[roots], count)
    ends = xp.cumsum(size)
    used = int(ends[-1])
    points.begin.array[roots] = ends - size
    foreach(points, contract, rows.graph, rows.slots, count)
    key = rows.slots.key.array[:used].reshape(-1)
    weight = rows.slots.sum.array[:used].reshape(-1)
    at = xp.flatnonzero(key != 0)
    offsets = xp.zeros(count + 1, np.int64)
    offsets[1:] = xp.searchsorted(at, 2 * ends)
    arcs = Arcs(offsets, key[at] - 1, weight[at])
    key[:], weight[:] = 0, 0
    return arcs, number


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


def modularity_of(rows: Rows, resolution: float) -> float:
    """Return the modularity of the partition into single vertices."""
    graph = rows.graph
    total = np.asarray(graph.device.to_host(graph.points.strength.array[: len(graph.points)]))
    return modularity(int(total.sum()) - weight_of_arcs(rows), total, resolution)


def weight_of_arcs(rows: Rows) -> int:
    """Return the total weight of the arcs: self-loops are not among them."""
    return int(rows.graph.edges.weight.array[: len(rows.graph.edges)].sum())


def communities(graph: Graph, label: Any, value: float) -> Communities:
    """Return the result for given labels and modularity."""
    if graph.points.deletes:
        label[~graph.points.alive[: len(label)]] = -1
    number = count_true(label == graph.device.xp.arange(len(label)))
    return Communities(label, value, number)
