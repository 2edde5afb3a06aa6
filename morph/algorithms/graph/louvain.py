"""Communities of large modularity, by a parallel Louvain method, with connected communities.

Vertices move to the neighbouring community with the largest gain of modularity (Blondel, Guillaume,
Lambiotte, Lefebvre 2008), or form one of their own; then each community becomes a vertex of a
coarser graph, and so on.  A cycle of rounds evaluates the vertices in `PARTS` random parts; all
moves of a round are selected from the communities before it, by a hash table per vertex (like Naim,
Manne, Halappanavar, Tumeo, 2017).  A vertex is evaluated again if a neighbour has moved to another
community than its own (pruning: Ozaki, Tezuka, Inaba 2016; Traag, Waltman, van Eck 2019), and the
weights of all such moves since its evaluation exceed the margin by which its own community was
better.  A round that decreases the modularity is rolled back.  A cycle of too little gain doubles
the number of parts; a level ends after `HALVINGS` such cycles, so every run terminates.

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
    Rows,
    add_inside,
    add_label,
    add_to_community,
    add_to_slots,
    clear,
    communities,
    community_of,
    enlist,
    has_few,
    has_many,
    has_most,
    has_some,
    is_next,
    label_of,
    merged_groups,
    modularity_of,
    order_of,
    rows_of_arcs,
    rows_of_graph,
    slots_of,
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
    bool_,
    f64,
    i32,
    i64,
    shared,
    static,
    u64,
)

HALVINGS = 2  # how often a level halves the parts that move at once; then it ends
GAIN = 1e-4  # least gain of modularity of a cycle
RELATIVE_GAIN = 0.003  # least gain of a cycle, relative to that of the level
ITERATION_GAIN = 1e-4  # least gain of an iteration over all levels
UNIT = 2.0**60
LOWEST = -1e300  # below the gain of any move
NONE = -1
COLUMNS: dict[str, Any] = {  # of vertices
    "before": i32, "moved": i32, "most": f64, "margin": i64, "number": i32, "begin": i64,
    "arcs": i64,
}  # fmt: skip
REFINING: dict[str, Any] = {  # of vertices, for refinements
    "community": i32, "community_total": i64, "cut": i64, "least": i32, "joinable": bool_,
    "blocked": bool_, "stays": bool_,
}  # fmt: skip


class Weight(NamedTuple):
    """Factors of a level."""

    share: Any  # 1 / the total weight of arcs
    factor: Any  # resolution * share


@kernel
def begin(p):
    """Let the first cycle evaluate each vertex with neighbours."""
    p.active = i32(p.out_degree > 0)
    p.moved = -1
    p.total = 0


@func
def gain(p, weight, total, factor):
    """Return the gain of modularity of a vertex in a community, times half of the total weight."""
    return f64(weight) - factor * f64(p.strength) * f64(total)


@func
def decide(p, g, own, most, factor):
    """Return whether a vertex moves, and by how much other gains must rise before it does.

    ``own`` is the weight of its arcs to its community, ``most`` the largest gain of a move.  A
    community without a neighbour of the vertex has no gain.
    """
    stay = gain(p, own, g.points[p.label].total - p.strength, factor)
    return most > stay, i64(max(stay - max(most, 0.0), 0.0))


@func
def may_join(g, c, refining: static):
    """Whether vertices may join a community; a refinement excludes poorly connected ones."""
    if refining:
        return g.points[c].joinable
    return True


@func
def is_label_unused(p):
    """Whether no vertex has this one's number as label: it can form a community of its own."""
    return p.total == 0


@kernel
def find_best(p, g, seed, factor, size: static, refining: static):
    """Find the community of largest gain, by a table in shared arrays, if a move has a gain.

    Ties are broken by the random order of `order_of`.
    """
    keys = shared(i32, size)
    sums = shared(i64, size)
    slots, label, most, own, best = (
        i64(2) * p.out_degree, p.label, f64(LOWEST), i64(0), i64(NONE)
    )  # fmt: skip
    community = community_of(p, refining)
    for a in p.outedges:
        if community_of(a.dst, refining) == community:
            c, weight = a.dst.label, a.weight
            part = add_label(keys, sums, slots, c, weight)
            if c == label:
                own += weight
            elif may_join(g, c, refining):
                most = max(most, gain(p, part, g.points[c].total, factor))
    if most <= 0.0 and is_label_unused(p):
        most = f64(0)
        best = order_of(seed, p.id)
    wants, margin = decide(p, g, own, most, factor)
    if wants:
        for i in range(slots):
            c = keys[i] - 1
            if c >= 0 and c != label and may_join(g, c, refining):
                if gain(p, sums[i], g.points[c].total, factor) == most:
                    best = max(best, order_of(seed, c))
    p.best = best
    p.wants = wants
    p.margin = margin
    p.active = 0


@kernel
def find_gain(p, g, slots, factor, refining: static):
    """Find the largest gain of a move, by a table in memory."""
    first, size, community = p.first, i64(2) * p.out_degree, community_of(p, refining)
    label, most, own = p.label, f64(LOWEST), i64(0)
    for a in p.outedges:
        if community_of(a.dst, refining) == community:
            c, weight = a.dst.label, a.weight
            part = add_to_slots(slots, first, size, c, weight)
            if c == label:
                own += weight
            elif may_join(g, c, refining):
                most = max(most, gain(p, part, g.points[c].total, factor))
    if most <= 0.0 and is_label_unused(p):
        most = f64(0)
    p.most = most
    p.wants, p.margin = decide(p, g, own, most, factor)
    p.active = 0


@kernel
def choose(p, g, slots, seed, factor, refining: static):
    """Find the community of largest gain; ties are broken by `order_of`."""
    label, most, best = p.label, p.most, i64(NONE)
    if most <= 0.0 and is_label_unused(p):
        best = order_of(seed, p.id)
    for a in p.outedges:
        s = slots_of(p, a, slots)
        for k in range(2):
            c = s.key[k] - 1
            if c >= 0 and c != label and may_join(g, c, refining):
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
    """Return to the community before the move; a later round evaluates the vertex again."""
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
    """Add the change by a move; activate neighbours that it may cause to move, too.

    These are in other communities (Traag et al. 2019), and the moves of their neighbours since
    their evaluation add up to more than their margin.
    """
    change = i64(0)
    for a in p.outedges:
        t = a.dst
        change += change_by(a, p, t, round)
        if t.label != p.label:
            loss = a.weight if t.label != p.before else 2 * a.weight
            if atomic_sub(t.margin, loss) < loss:
                t.active = 1  # race: all write the same
    if change != 0:
        atomic_add(found.inside, change)


@kernel
def subtract_change(p, found, round):
    """Subtract the change by a move that will be undone."""
    change = i64(0)
    for a in p.outedges:
        change += change_by(a, p, a.dst, round)
    if change != 0:
        atomic_sub(found.inside, change)


@kernel
def add_square(p, found, share):
    """Add the square of a community's fraction of the total weight."""
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
def clear_group(p):
    """Reset the totals of the group whose root is this vertex."""
    p.total = 0
    p.arcs = 0


@kernel
def add_to_group(p, g):
    """Add a vertex to the totals of its group."""
    root = g.points[p.label]
    atomic_add(root.total, p.strength)
    atomic_add(root.arcs, i64(p.out_degree))


@kernel
def restore(found):
    """Restore the modularity before the round."""
    found.value = found.before


@program
def measure(g, found, weight):
    foreach(g.points, add_square, found, weight.share, where=lambda p: p.total > 0)
    foreach(found, evaluate, weight)


@program
def find_moves(now, g, slots, degree, seed, factor, refining: static):
    """Find the best move of each vertex; with ``refining`` within its community."""
    foreach(now, find_best, g, seed, factor, 2 * FEW, refining, where=has_few, balance="thread")
    if degree > FEW:
        foreach(now, find_best, g, seed, factor, 2 * SOME, refining, where=has_some, balance="warp")
    if degree > SOME:
        foreach(
            now, find_best, g, seed, factor, 2 * MANY, refining, where=has_many, balance="block"
        )
    if degree > MANY:
        foreach(now, find_gain, g, slots, factor, refining, where=has_most)
        foreach(
            now, choose, g, slots, seed, factor, refining, where=lambda p: has_most(p) and p.wants
        )
        foreach(now, clear, slots, where=has_most)


@program
def improve(g, slots, degree, sets, seed, weight, now):
    """Move vertices between communities while the modularity increases; return by how much."""
    found = Scalars(g, inside=0, squares=0, value=0.0, before=0.0)
    foreach(g.points, begin)
    foreach(g.points, add_to_community, g)
    foreach(g.points, add_inside, found)
    measure(g, found, weight)
    first = found.value
    round, cycle, halvings, parts, factor = 0, 0, 0, PARTS, weight.factor
    while halvings < HALVINGS:
        start, end = found.value, round + parts
        while round < end:
            part = end - round - 1
            foreach(g.points, enlist, now, where=lambda p: is_next(p, seed, cycle, part, parts))
            if not now.empty:
                find_moves(now, g, slots, degree, seed, factor, 0)
                foreach(now, move, g, round, where=lambda p: p.wants)
                foreach(now, add_change, found, round, where=lambda p: p.wants)
                measure(g, found, weight)
                if found.value < found.before:
                    foreach(now, subtract_change, found, round, where=lambda p: p.wants)
                    foreach(now, undo, g, where=lambda p: p.wants)
                    foreach(found, restore)
                now.clear()
            round += 1
        gained = found.value - start  # start + GAIN may be start
        if not (gained >= GAIN and gained >= RELATIVE_GAIN * (found.value - first)):
            halvings += 1
            parts *= 2
        cycle += 1
    foreach(g.points, unite, sets)
    foreach(g.points, take_root, sets)
    foreach(g.points, clear_group)
    foreach(g.points, add_to_group, g)
    return found.value - first


def _improved(
    rows: Rows, label: Any, weight: Weight, seed: int, refine: Any
) -> tuple[Any, Any, float]:
    """Move the vertices of a level between communities.

    Returns
    -------
    label : (n,) int32 array
        The new labels.
    group : (n,) int32 array
        Labels of the groups of vertices to merge: the subcommunities of a refinement, otherwise the
        communities.
    gain : float
        By how much the modularity has increased.
    """
    g, n = rows.graph, len(label)
    g.points.label.array[:n] = label
    now, key = Collection(g.points, capacity=n), u64(seed % 2**64)
    gained = float(improve(*rows, Set(g.points), key, weight, now))
    label = group = g.points.label.array[:n]
    if refine is not None:
        refine(*rows, key, weight.factor, now)
        label = g.points.community.array[:n]
    return label, group, gained


def _levels(
    finest: Rows, label: Any, resolution: float, seed: int, least: float, refine: Any
) -> tuple[Any, float]:
    """Move vertices between communities, then merge groups of vertices, level by level.

    Parameters
    ----------
    finest : Rows
        The first level; another call can use it again.
    label : (n,) int32 array
        The communities before the first move.
    resolution : float
    seed : int
    least : float
        If the moves of the first level gain less, the levels end.
    refine : program or None
        Divides each community into the groups of vertices to merge.  The next level begins with the
        communities of this one.

    Returns
    -------
    label : (n,) int32 array
    modularity : float
        Minus infinity if the levels have ended early.
    """
    device, rows = finest.graph.device, finest
    columns = COLUMNS | (REFINING if refine else {})
    xp, first = device.xp, label
    share = 1 / max(int(rows.graph.points.strength.array[: len(label)].sum()), 1)
    weight = Weight(f64(share), f64(resolution * share))
    least_vertex = xp.arange(len(label), dtype=np.int32)  # of each vertex of the level
    community = least_vertex  # the vertex of the level, for each one of the first level
    while True:
        label, group, gained = _improved(rows, label, weight, seed, refine)
        if rows is finest and gained < least:
            return first, -math.inf
        roots = xp.flatnonzero(group == xp.arange(len(group)))  # the least vertex of each group
        if len(roots) == len(group):
            return least_vertex[community], modularity_of(rows, resolution)
        strength = rows.graph.points.total.array[roots]
        arcs, number = merged_groups(rows, group, roots)
        least_vertex, community = least_vertex[roots], number[community]
        label = number[label[roots]]
        rows = rows_of_arcs(device, arcs, columns, True, finest.slots)
        rows.graph.points.strength.array[: len(roots)] = strength


def find_communities(
    graph: Graph, resolution: float, seed: int, least: float, refine: Any = None
) -> Communities:
    """Repeat the levels, from the communities found, while this increases the modularity.

    Parameters
    ----------
    graph : Graph
    resolution : float
    seed : int
    least : float
        If the moves of the first level gain less, a repetition ends.
    refine : program, optional
        Divides each community into the groups of vertices that a level merges.

    Raises
    ------
    TypeError, ValueError
        If an argument or a weight is wrong.
    """
    check_number(resolution, "resolution")
    if not 0 <= resolution < math.inf:
        raise ValueError(f"resolution is finite and 0 or more, not {resolution}")
    seed = checked_seed(seed)
    device, gamma = graph.device, float(resolution)
    with device.active():
        finest = rows_of_graph(graph, COLUMNS | (REFINING if refine else {}), merges=True)
        label = device.xp.arange(len(graph.points), dtype=np.int32)
        label, value = _levels(finest, label, gamma, seed, -math.inf, refine)
        while True:
            before = value
            if refine is not None:
                seed += 1 << 32  # with the same seed the groups would be almost the same again
            found, modularity = _levels(finest, label, gamma, seed, least, refine)
            if modularity > before:
                label, value = found, modularity
            if not modularity - before >= ITERATION_GAIN:  # a difference, as in `improve`
                return communities(graph, label, value)


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
    return find_communities(graph, resolution, seed, ITERATION_GAIN)
