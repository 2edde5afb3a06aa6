"""A maximal independent set, by random priorities in rounds.

Luby (1986) in the form of Blelloch, Fineman, Shun (SPAA 2012): each vertex has one random priority,
and the result is that of the greedy algorithm which processes the vertices by priority.  A round
selects every undecided vertex that precedes all its undecided neighbours, and excludes the
neighbours of selected vertices.  A vertex stops at the first neighbour that precedes it and
continues there in the next round, so that its adjacency is read once.  One launch.
Work: O(n + m), plus the undecided vertices of each round; O(log n) rounds with high probability
(Fischer, Noever, SODA 2018).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import checked_seed, of_graph_on_one_device, results
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_max, i32, i64, random_u32, u32, u64

UNDECIDED = 0
EXCLUDED = 1
SELECTED = 2


class IndependentSet(NamedTuple):
    """Result of `maximal_independent_set`: ``selected``, shape (n,), bool, and ``size``, an int."""

    selected: Any
    size: int


@kernel
def draw(p, seed):
    p.priority = random_u32(seed, p.id)


@func
def before(t, p):
    """Whether vertex ``t`` precedes ``p`` in the order of priorities; irreflexive."""
    return t.priority < p.priority or (t.priority == p.priority and t.id < p.id)


@kernel
def find_blocker(p, rest, chosen):
    at, blocked = p.at, False
    for t in p.nbrs[at:]:
        if t.state == UNDECIDED and before(t, p):
            blocked = True
            break
        at += 1
    if blocked:
        p.at = at
        rest.add(p)
    else:
        chosen.add(p)


@kernel
def select(p):
    p.state = i32(SELECTED)
    for t in p.nbrs:
        if t != p:
            atomic_max(t.state, i32(EXCLUDED))


@program
def choose(g, seed, left, rest, chosen):
    found = Scalars(g, size=0)
    foreach(g.points, draw, seed)
    foreach(g.points, find_blocker, left, chosen)
    while not chosen.empty:
        foreach(chosen, select)
        found.size += len(chosen)
        chosen.clear()
        foreach(left, find_blocker, rest, chosen, where=lambda p: p.state == UNDECIDED)
        left, rest = rest, left
        rest.clear()
    return found.size


@of_graph_on_one_device
def maximal_independent_set(graph: Graph, seed: int = 0) -> IndependentSet:
    """Find a maximal set of points without edges between them.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions and self-loops are ignored.
    seed : int, default 0
        Seed of the priorities, 0 or more.  The result depends only on the edges and the seed; it is
        the same on all devices and for any number of threads.

    Returns
    -------
    IndependentSet
        ``selected``, shape (n,), bool, on the graph's device, false for deleted points; ``size``,
        the number of selected points.

    Raises
    ------
    TypeError
        If ``seed`` is not an integer.
    ValueError
        If ``seed`` is negative.
    """
    seed = checked_seed(seed)
    n = len(graph.points)

    def make() -> list[Any]:
        return [Collection(graph.points, capacity=n) for _ in range(3)]

    columns: dict[str, Any] = {"priority": (u32, 0), "state": (i32, 0), "at": (i64, 0)}
    with workspace(graph, "independent", make, **columns) as lists:
        size = choose(graph, u64(seed % 2**64), *lists)
        (state,) = results(graph, "state")
    with graph.device.active():
        return IndependentSet(state == SELECTED, size)
