"""Vertex colouring, by rounds in order of degree.

Jones, Plassmann (1993), with the vertices of largest degree first (Welsh, Powell 1967; Hasenplaugh,
Kaler, Schardl, Leiserson, SPAA 2014): the result is that of the greedy algorithm that processes the
vertices by descending degree, ties by a random priority, and assigns the smallest colour that no
neighbour has.  A round colours every vertex that precedes all its uncoloured neighbours.  A blocked
vertex stops at the first neighbour that precedes it and continues there in the next round.  At most
one colour more than the largest degree.  One launch.
Work: O(n + m), plus the blocked vertices of each round, plus a pass over the adjacency of a vertex
for each 64 colours that its neighbours exhaust; a clique of k vertices takes k rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import checked_seed, of_graph_on_one_device, results
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import ctz, i32, i64, random_u32, u32, u64

WINDOW = 64  # colours tested at once: bits of a word
ALL = 2**64 - 1


class Colouring(NamedTuple):
    """Result of `colouring`: ``color``, shape (n,), int32, and ``number`` of colours, an int."""

    color: Any
    number: int


@kernel
def draw(p, seed):
    p.priority = random_u32(seed, p.id)
    loops = i64(0)
    for t in p.nbrs:
        if t == p:
            loops += 1
    p.near = i64(p.degree) - loops


@func
def before(t, p):
    """Whether vertex ``t`` precedes ``p``; irreflexive."""
    if t.near != p.near:
        return t.near > p.near
    return t.priority < p.priority or (t.priority == p.priority and t.id < p.id)


@kernel
def find_blocker(p, rest, ready):
    at, blocked = p.at, False
    for t in p.nbrs[at:]:
        if t.color < 0 and before(t, p):
            blocked = True
            break
        at += 1
    if blocked:
        p.at = at
        rest.add(p)
    else:
        ready.add(p)


@kernel
def take_color(p):
    """Assign the smallest free colour; vertices of one round are not adjacent."""
    base, used = i32(0), u64(ALL)
    while used == u64(ALL):
        used = u64(0)
        for t in p.nbrs:
            if t != p:
                color = t.color - base
                if color >= 0 and color < WINDOW:
                    used = used | (u64(1) << u64(color))
        if used == u64(ALL):
            base += WINDOW
    p.color = base + i32(ctz(~used))


@program
def color_rounds(g, seed, left, rest, ready):
    foreach(g.points, draw, seed)
    foreach(g.points, find_blocker, left, ready)
    while not ready.empty:
        foreach(ready, take_color)
        ready.clear()
        foreach(left, find_blocker, rest, ready)
        left, rest = rest, left
        rest.clear()


@of_graph_on_one_device
def colouring(graph: Graph, seed: int = 0) -> Colouring:
    """Colour the points such that neighbours have different colours; uses few colours.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Directions and self-loops are ignored.  Each parallel edge counts in the
        degrees that order the points.
    seed : int, default 0
        Seed of the priorities of points of equal degree, 0 or more.  The result depends only on the
        edges and the seed; it is the same on all devices and for any number of threads.

    Returns
    -------
    Colouring
        ``color``, shape (n,), int32, on the graph's device, counted from 0, -1 for deleted points;
        ``number``, the number of colours, at most one more than the largest degree.

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

    columns: dict[str, Any] = {"priority": (u32, 0), "near": (i64, 0), "at": (i64, 0)}
    with workspace(graph, "colouring", make, color=(i32, -1), **columns) as lists:
        color_rounds(graph, u64(seed % 2**64), *lists)
        (color,) = results(graph, "color")
    with graph.device.active():
        return Colouring(color, int(color.max()) + 1 if color.size else 0)
