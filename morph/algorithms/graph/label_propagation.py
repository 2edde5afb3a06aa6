"""Communities by label propagation, in rounds.

Each vertex starts with a unique label, and adopts the label of largest total weight among its
neighbours (Raghavan, Albert, Kumara, Physical Review E 2007); ties are broken by an order drawn
from the seed.  All decisions of a round use the labels from before the round.  A vertex is
evaluated again if a neighbour has adopted another label than its own.  The first rounds evaluate
one of `PARTS` random parts of the vertices after the other, in the order of the vertices.  In later
rounds a vertex keeps its label unless another has more weight, and moves only if it precedes, in a
random order of the round, all neighbours that can move; as no two neighbours move, every move
increases the weight of edges between equal labels.  This weight is an integer and bounded, so the
rounds end (a parallel form of the semi-synchronous rounds of Cordasco, Gargano, 2010, without a
colouring).

At the end, labels whose vertices are not connected are divided into connected components; the label
of a vertex still has the largest weight among its neighbours.  One launch.  The time of a round is
proportional to the edges of vertices that it evaluates; the first rounds also scan all vertices.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from morph.algorithms.graph.arguments import checked_seed, of_graph_on_one_device
from morph.algorithms.graph.communities import (
    FEW,
    MANY,
    PARTS,
    SOME,
    Communities,
    add_inside,
    add_label,
    add_to_community,
    add_to_slots,
    clear,
    communities,
    enlist,
    has_few,
    has_many,
    has_most,
    has_some,
    is_next,
    label_of,
    modularity,
    order_of,
    rows_of_graph,
    slots_of,
    take_root,
    unite,
    weight_of_arcs,
    word_of,
)
from morph.data.collection import Collection, Set
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_max, bool_, i32, i64, shared, static, u64

FIRST = 4 * PARTS  # rounds that evaluate parts, in which neighbours may move at the same time
NONE = -1


@kernel
def begin(p):
    p.label = p.id
    p.active = i32(p.out_degree > 0)


@func
def wants_to_move(p, round, most, own, best):
    """Whether a vertex moves; in the first rounds also to a label of equal weight."""
    return most > own if round >= FIRST else most > 0 and label_of(best) != p.label


@kernel
def find_label(p, seed, round, size: static):
    """Find the label of largest weight among the neighbours, by a table in shared arrays.

    Ties are broken by the random order of `order_of`.
    """
    keys = shared(i32, size)
    sums = shared(i64, size)
    slots, label, most, own, best = i64(2) * p.out_degree, p.label, i64(0), i64(0), i64(NONE)
    for a in p.outedges:
        most = max(most, add_label(keys, sums, slots, a.dst.label, a.weight))
        if a.dst.label == label:
            own += a.weight
    if round < FIRST or most > own:
        for i in range(slots):
            if sums[i] == most and keys[i] != 0:
                best = max(best, order_of(seed, keys[i] - 1))
    p.best = best
    p.wants = wants_to_move(p, round, most, own, best)
    p.blocked = False
    p.active = 0


@kernel
def find_most(p, slots):
    """Find the largest weight of a label among the neighbours, and that of the own label."""
    first, size, label, most, own = p.first, i64(2) * p.out_degree, p.label, i64(0), i64(0)
    for a in p.outedges:
        most = max(most, add_to_slots(slots, first, size, a.dst.label, a.weight))
        if a.dst.label == label:
            own += a.weight
    p.most = most
    p.own = own
    p.blocked = False
    p.active = 0


@kernel
def choose(p, slots, seed, round):
    """Find the label of largest weight; ties are broken by `order_of`."""
    most, best = p.most, i64(NONE)
    for a in p.outedges:
        s = slots_of(p, a, slots)
        for k in range(2):
            if s.key[k] != 0 and s.sum[k] == most:
                best = max(best, order_of(seed, s.key[k] - 1))
    p.best = best
    p.wants = wants_to_move(p, round, most, p.own, best)


@func
def precedes(t, p, seed, round):
    """Whether vertex ``t`` precedes ``p`` in the order of a round."""
    return word_of(t.id, seed, round) < word_of(p.id, seed, round)


@kernel
def find_blocker(p, seed, round):
    for t in p.outnbrs:
        if t.wants and precedes(t, p, seed, round):
            p.blocked = True


@kernel
def move(p):
    p.label = label_of(p.best)


@kernel
def spread(p):
    """Activate the neighbours of a vertex that moved whose labels differ from its new label."""
    p.wants = False
    for t in p.outnbrs:
        if t.label != p.label:
            t.active = 1  # race: all write the same


@kernel
def move_apart(p, then):
    """Adopt the best label unless blocked; enqueue other neighbours, or the blocked vertex."""
    if p.blocked:
        if atomic_max(p.active, 1) == 0:
            then.add(p)
    else:
        label = label_of(p.best)
        p.label = label
        p.wants = False
        for t in p.outnbrs:
            if t.label != label:  # no neighbour moves
                if atomic_max(t.active, 1) == 0:
                    then.add(t)


@program
def propagate(g, slots, degree, sets, seed, now, then):
    found = Scalars(g, inside=0)
    foreach(g.points, begin)
    round = 0
    while round <= FIRST or not now.empty:
        if round < FIRST:
            foreach(
                g.points,
                enlist,
                now,
                where=lambda p: is_next(p, seed, round // PARTS, round % PARTS, PARTS),
            )
        elif round == FIRST:
            foreach(g.points, enlist, now, where=lambda p: p.active > 0)
        foreach(now, find_label, seed, round, 2 * FEW, where=has_few, balance="thread")
        if degree > FEW:
            foreach(now, find_label, seed, round, 2 * SOME, where=has_some, balance="warp")
        if degree > SOME:
            foreach(now, find_label, seed, round, 2 * MANY, where=has_many, balance="block")
        if degree > MANY:
            foreach(now, find_most, slots, where=has_most)
            foreach(now, choose, slots, seed, round, where=has_most)
            foreach(now, clear, slots, where=has_most)
        if round < FIRST:
            foreach(now, move, where=lambda p: p.wants)
            foreach(now, spread, where=lambda p: p.wants)
        else:
            foreach(now, find_blocker, seed, round, where=lambda p: p.wants)
            foreach(now, move_apart, then, where=lambda p: p.wants)
        now, then = then, now
        then.clear()
        round += 1
    foreach(g.points, unite, sets)
    foreach(g.points, take_root, sets)
    foreach(g.points, add_to_community, g)
    foreach(g.points, add_inside, found)
    return found.inside


@of_graph_on_one_device
def label_propagation(graph: Graph, seed: int = 0) -> Communities:
    """Find communities by label propagation.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device, with finite non-negative edge weights, by default 1.  Directions are ignored;
        the weights of parallel edges, and of both directions, are added.  Self-loops count in the
        modularity only.
    seed : int, default 0
        Seed of the random decisions, 0 or more.  The result depends only on the graph and the seed;
        it is the same on all devices and for any number of threads.

    Returns
    -------
    Communities
        ``label``, shape (n,), int32, on the graph's device: the smallest point of each point's
        community, -1 for deleted points.  Communities are connected, and no point has a larger edge
        weight to another community than to its own.  ``modularity``, a float; 0 if the total weight
        is 0.  ``number``, the number of communities.

    Raises
    ------
    TypeError
        If ``seed`` is not an integer.
    ValueError
        If ``seed`` is negative, or a weight is negative or not finite.

    Notes
    -----
    Weights are rounded to multiples of a power of 2, at most 2**-59 times the largest weight times
    the number of edges.
    """
    seed = checked_seed(seed)
    with graph.device.active():
        rows = rows_of_graph(graph, {"most": i64, "own": i64, "blocked": bool_})
        points, n = rows.graph.points, len(graph.points)
        lists = [Collection(points, capacity=n) for _ in range(2)]
        key = u64((seed + 1) % 2**64)  # 1 by default: it separates two joined triangles
        inside = propagate(*rows, Set(points), key, *lists)
        total = graph.device.to_host(points.total.array[:n])
        inside += int(total.sum()) - weight_of_arcs(rows)  # self-loops
        label = points.label.array[:n]
        return communities(graph, label, modularity(int(inside), total))
