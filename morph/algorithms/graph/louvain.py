"""Communities of large modularity, by a parallel Louvain method, with connected communities.

Vertices move to the neighbouring community with the largest gain of modularity (Blondel, Guillaume,
Lambiotte, Lefebvre 2008); then each community becomes a vertex of a coarser graph, and so on.  A
cycle of rounds evaluates the vertices in `PARTS` random parts, one after the other; all moves of a
round are selected from the communities before the round, by a hash table per vertex (like Naim,
Manne, Halappanavar, Tumeo, 2017).  A vertex is evaluated again if a neighbour has moved to another
community than its own (pruning: Ozaki, Tezuka, Inaba 2016; Traag, Waltman, van Eck 2019).  A round
that decreases the modularity is rolled back.  A cycle of too little gain doubles the number of
parts; a level ends after `HALVINGS` such cycles, so every run terminates.

After each level, communities whose vertices are not connected are divided into connected
components, which never decreases the modularity (Sahu, GSP-Louvain, 2024).  When no level merges
communities any more, moves of the original vertices start from these communities, and the levels
are repeated as long as this increases the modularity by `ITERATION_GAIN`.

Sums of weights are integers, and squared fractions are in units of 2**-60, so the result is the
same on all devices.  One launch per level; a round takes O(n) for the modularity, and time
proportional to the arcs of the vertices that it evaluates.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import checked_seed, of_graph_on_one_device
from morph.algorithms.graph.communities import (
    FEW,
    MANY,
    PARTS,
    SOME,
    Communities,
    Pairs,
    Rows,
    add_inside,
    add_label,
    add_to_community,
    clear,
    clear_total,
    communities,
    enlist,
    has_few,
    has_many,
    has_most,
    has_some,
    is_next,
    label_of,
    merged,
    modularity_of,
    order_of,
    rows_of_graph,
    rows_of_pairs,
    slots_of,
    tabulate,
    take_root,
    unite,
)
from morph.data.collection import Collection, Set
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.language.arguments import check_number
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_sub,
    f64,
    i32,
    i64,
    shared,
    static,
    u64,
)

HALVINGS = 2  # how often a level halves the parts that move at once; then it ends
GAIN = 1e-4  # least gain of modularity of a cycle
ITERATION_GAIN = 1e-4  # least gain of an iteration over all levels
UNIT = 2.0**60
LOWEST = -1e300  # below the gain of any move
NONE = -1
COLUMNS: dict[str, Any] = {"before": i32, "moved": i32, "most": f64}  # of vertices


class Weight(NamedTuple):
    """Factors of a level."""

    share: Any  # 1 / the total weight of arcs
    factor: Any  # resolution * share


@kernel
def begin(p):
    p.active = i32(p.out_degree > 0)
    p.moved = -1
    p.total = 0


@func
def gain(p, weight, total, factor):
    """Return the gain of modularity of a vertex in a community, times half of the total weight."""
    return f64(weight) - factor * f64(p.strength) * f64(total)


@kernel
def find_best(p, g, seed, factor, size: static):
    """Find the community of largest gain, by a table in shared arrays, if the gain is positive.

    Ties are broken by the random order of `order_of`.
    """
    keys = shared(i32, size)
    sums = shared(i64, size)
    slots, label, most, own, best = (
        i64(2) * p.out_degree, p.label, f64(LOWEST), i64(0), i64(NONE)
    )  # fmt: skip
    for a in p.outedges:
        add_label(keys, sums, slots, a.dst.label, a.weight)
    for i in range(slots):
        c = keys[i] - 1
        if c == label:
            own += sums[i]
        elif c >= 0:
            most = max(most, gain(p, sums[i], g.points[c].total, factor))
    wants = most > gain(p, own, g.points[label].total - p.strength, factor)
    if wants:
        for i in range(slots):
            c = keys[i] - 1
            if c >= 0 and c != label:
                if gain(p, sums[i], g.points[c].total, factor) == most:
                    best = max(best, order_of(seed, c))
    p.best = best
    p.wants = wants
    p.active = 0


@kernel
def find_gain(p, g, slots, factor):
    """Find the largest gain of a move."""
    label, most, own = p.label, f64(LOWEST), i64(0)
    for a in p.outedges:
        s = slots_of(p, a, slots)
        for k in range(2):
            c = s.key[k] - 1
            if c == label:
                own += s.sum[k]
            elif c >= 0:
                most = max(most, gain(p, s.sum[k], g.points[c].total, factor))
    p.most = most
    p.wants = most > gain(p, own, g.points[label].total - p.strength, factor)
    p.active = 0


@kernel
def choose(p, g, slots, seed, factor):
    """Find the community of largest gain; ties are broken by `order_of`."""
    label, most, best = p.label, p.most, i64(NONE)
    for a in p.outedges:
        s = slots_of(p, a, slots)
        for k in range(2):
            c = s.key[k] - 1
            if c >= 0 and c != label:
                if gain(p, s.sum[k], g.points[c].total, factor) == most:
                    best = max(best, order_of(seed, c))
    p.best = best


@kernel
def move(p, g, round):
    """Join the best community."""
    before, label = p.label, label_of(p.best)
    p.before = before
    p.label = label
    p.moved = i32(round)
    atomic_sub(g.points[before].total, p.strength)
    atomic_add(g.points[label].total, p.strength)


@kernel
def undo(p, g):
    atomic_sub(g.points[p.label].total, p.strength)
    atomic_add(g.points[p.before].total, p.strength)
    p.label = p.before
    p.active = 1


@func
def change_by(a, p, t, round):
    """Return the change of the weight within communities by an arc of a vertex that moved."""
    moved = t.moved == round
    before = t.before if moved else t.label
    gained = i64(t.label == p.label) - i64(before == p.before)
    return gained * a.weight if moved else 2 * gained * a.weight  # else both arcs


@kernel
def add_change(p, found, round):
    """Add the change by a move; activate neighbours in other communities (Traag et al. 2019)."""
    change = i64(0)
    for a in p.outedges:
        t = a.dst
        change += change_by(a, p, t, round)
        if t.label != p.label:
            t.active = 1  # race: all write the same
    if change != 0:
        atomic_add(found.inside, change)


@kernel
def subtract_change(p, found, round):
    change = i64(0)
    for a in p.outedges:
        change += change_by(a, p, a.dst, round)
    if change != 0:
        atomic_sub(found.inside, change)


@kernel
def add_square(p, found, share):
    part = f64(p.total) * share
    atomic_add(found.squares, i64(part * part * UNIT))


@kernel
def evaluate(found, weight):
    """Return the modularity; the previous one is saved."""
    found.before = found.value
    inside = f64(found.inside) * weight.share
    found.value = inside - weight.factor / weight.share * (f64(found.squares) / UNIT)
    found.squares = 0


@kernel
def restore(found):
    found.value = found.before


@program
def measure(g, found, weight):
    foreach(g.points, add_square, found, weight.share, where=lambda p: p.total > 0)
    foreach(found, evaluate, weight)


@program
def find_moves(now, g, slots, degree, seed, factor):
    foreach(now, find_best, g, seed, factor, 2 * FEW, where=has_few, balance="thread")
    if degree > FEW:
        foreach(now, find_best, g, seed, factor, 2 * SOME, where=has_some, balance="warp")
    if degree > SOME:
        foreach(now, find_best, g, seed, factor, 2 * MANY, where=has_many, balance="block")
    if degree > MANY:
        foreach(now, tabulate, slots, where=has_most)
        foreach(now, find_gain, g, slots, factor, where=has_most)
        foreach(now, choose, g, slots, seed, factor, where=has_most)
        foreach(slots, clear)


@program
def improve(g, slots, degree, sets, seed, weight, now):
    """Move vertices between communities while the modularity increases; return by how much."""
    found = Scalars(g, inside=0, squares=0, value=0.0, before=0.0)
    foreach(g.points, begin)
    foreach(g.points, add_to_community, g)
    foreach(g.edges, add_inside, found)
    measure(g, found, weight)
    first = found.value
    round, cycle, halvings, parts, factor = 0, 0, 0, PARTS, weight.factor
    while halvings < HALVINGS:
        start, end = found.value, round + parts
        while round < end:
            part = end - round - 1
            foreach(g.points, enlist, now, where=lambda p: is_next(p, seed, cycle, part, parts))
            if not now.empty:
                find_moves(now, g, slots, degree, seed, factor)
                foreach(now, move, g, round, where=lambda p: p.wants)
                foreach(now, add_change, found, round, where=lambda p: p.wants)
                measure(g, found, weight)
                if found.value < found.before:
                    foreach(now, subtract_change, found, round, where=lambda p: p.wants)
                    foreach(now, undo, g, where=lambda p: p.wants)
                    foreach(found, restore)
                now.clear()
            round += 1
        if not found.value - start >= GAIN:  # where start + GAIN is start, too
            halvings += 1
            parts *= 2
        cycle += 1
    foreach(g.edges, unite, sets)
    foreach(g.points, take_root, sets)
    foreach(g.points, clear_total)
    foreach(g.points, add_to_community, g)
    return found.value - first


def _improved(rows: Rows, label: Any, resolution: float, seed: int) -> tuple[Any, float]:
    """Move the vertices of a level between communities.

    Returns
    -------
    label : (n,) int32 array
        The new labels.
    gain : float
        By how much the modularity has increased.
    """
    g, n = rows.graph, len(label)
    g.points.label.array[:n] = label
    share = 1 / max(int(g.points.strength.array[:n].sum()), 1)
    weight = Weight(f64(share), f64(resolution * share))
    now = Collection(g.points, capacity=n)
    gained = improve(*rows, Set(g.points), u64(seed % 2**64), weight, now)
    return g.points.label.array[:n], float(gained)


def _levels(
    finest: Rows, pairs: Pairs, label: Any, resolution: float, seed: int, least: float
) -> tuple[Any, float]:
    """Move vertices between communities, then merge each community, level by level.

    Parameters
    ----------
    finest : Rows
        The first level; another call can use it again.
    pairs : Pairs
        The edges of the first level.
    label : (n,) int32 array
        The communities before the first move.
    resolution : float
    seed : int
    least : float
        If the moves of the first level gain less, the levels end.

    Returns
    -------
    label : (n,) int32 array
    modularity : float
        Minus infinity if the levels have ended early.
    """
    device, rows = finest.graph.device, finest
    least_vertex: Any = None  # of each community
    community: Any = None  # of each vertex of the first level
    xp, (part, gained) = device.xp, _improved(finest, label, resolution, seed)
    if gained < least:
        return label, -math.inf
    while True:
        is_root = part == xp.arange(len(part))  # the least vertex of a community is its label
        roots, number_of = part[is_root], (xp.cumsum(is_root) - 1)[part]
        strength = rows.graph.points.total.array[roots]
        if community is not None and len(roots) == len(part):
            return least_vertex[community], modularity_of(device, pairs, strength, resolution)
        if community is None:
            least_vertex, community = roots, number_of
        else:
            least_vertex, community = least_vertex[roots], number_of[community]
        low, high = number_of[pairs.low], number_of[pairs.high]
        apart = low != high
        pairs = merged(xp, low[apart], high[apart], pairs.weight[apart])
        labels = xp.arange(len(roots), dtype=np.int32)
        rows = rows_of_pairs(device, pairs, strength, **COLUMNS)
        part, _ = _improved(rows, labels, resolution, seed)


@of_graph_on_one_device
def louvain(graph: Graph, resolution: float = 1.0, seed: int = 0) -> Communities:
    """Find connected communities of large modularity by the Louvain method.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device, with finite non-negative edge weights, by default 1.  Directions are ignored;
        the weights of parallel edges, and of both directions, are added.
    resolution : float
        Resolution of the modularity, 0 or more: larger values yield smaller communities.
    seed : int, default 0
        Seed of the random decisions, 0 or more.  The result depends only on the graph and the
        arguments; it is the same on all devices and for any number of threads.

    Returns
    -------
    Communities
        ``label``, shape (n,), int32, on the graph's device: the smallest point of each point's
        community, -1 for deleted points; ``modularity``, a float; 0 if the total weight is 0;
        ``number``, the number of communities.  Communities are connected.

    Raises
    ------
    TypeError
        If ``resolution`` is not a number or ``seed`` not an integer.
    ValueError
        If ``resolution`` or a weight is negative or not finite, or ``seed`` is negative.

    Notes
    -----
    Weights are rounded to multiples of a power of 2, at most 2**-59 times the largest weight times
    the number of edges.
    """
    check_number(resolution, "resolution")
    if not 0 <= resolution < math.inf:
        raise ValueError(f"resolution is finite and 0 or more, not {resolution}")
    seed = checked_seed(seed)
    device, gamma = graph.device, float(resolution)
    with device.active():
        finest, pairs = rows_of_graph(graph, **COLUMNS)
        label = device.xp.arange(len(graph.points), dtype=np.int32)
        label, value = _levels(finest, pairs, label, gamma, seed, -math.inf)
        while True:
            before = value
            found, modularity = _levels(finest, pairs, label, gamma, seed, ITERATION_GAIN)
            if modularity > before:
                label, value = found, modularity
            if not modularity - before >= ITERATION_GAIN:  # as in `improve`
                return communities(graph, label, value)
