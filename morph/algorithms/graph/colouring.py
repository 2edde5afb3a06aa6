"""Vertex colouring, by rounds in order of degree.

Jones, Plassmann (1993), with the vertices of largest degree first (Welsh, Powell 1967; Hasenplaugh,
Kaler, Schardl, Leiserson, SPAA 2014): the result is that of the greedy algorithm that processes the
vertices by descending degree, ties by a random priority, and assigns the smallest colour that no
neighbour has.  A round colours the vertices whose preceding neighbours are all coloured.  A
coloured vertex marks its colour at its uncoloured neighbours, as a bit, and decrements their
numbers of uncoloured predecessors: all threads share long rows.  A vertex with k predecessors has
bits for k + 1 colours, the first `WINDOW` in a column and others in a table.  At most one colour
more than the largest degree.  One launch.
Work: O(n + m); a clique of k vertices takes k rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import checked_seed, of_graph_on_one_device, results
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_or, atomic_sub, ctz, i32, i64, random_u32, u64

WINDOW = 64  # bits of a word
ALL = 2**64 - 1


class Colouring(NamedTuple):
    """Result of `colouring`: ``color``, shape (n,), int32, and ``number`` of colours, an int."""

    color: Any
    number: int


@kernel
def clear(word):
    word.bits = 0


@kernel
def draw(p, seed):
    """Make the key of the order: more edges first, then smaller random numbers."""
    loops = i64(0)
    for t in p.nbrs:
        if t == p:
            loops += 1
    p.key = (i64(p.degree) - loops) << 32 | i64(~random_u32(seed, p.id))


@func
def before(t, p):
    """Whether vertex ``t`` precedes ``p``; irreflexive."""
    return t.key > p.key or (t.key == p.key and t.id < p.id)


@kernel
def count_predecessors(p, state, ready):
    """Count the predecessors, and reserve bits for their colours."""
    waiting = i32(0)
    for t in p.nbrs:
        if before(t, p):
            waiting += 1
    p.waiting = waiting
    p.further = waiting // WINDOW
    if waiting == 0:
        ready.add(p)
    if waiting >= WINDOW:
        p.first = atomic_add(state.words, i64(p.further))


@func
def free_color(p, words):
    """Return the smallest colour without a mark."""
    base, used, at = i32(0), p.used, i64(0)
    if used == u64(ALL):  # rarely, and the column is read only then
        at = p.first
    while used == u64(ALL):
        base += WINDOW
        used = words[at].bits
        at += 1
    return base + i32(ctz(~used))


@func
def mark(t, words, color):
    """Mark a colour, unless it is larger than the number of predecessors."""
    place, bit = color // WINDOW, u64(1) << u64(color % WINDOW)
    if place == 0:
        atomic_or(t.used, bit)
    elif place <= t.further:
        atomic_or(words[t.first + place - 1].bits, bit)


@kernel
def take_color(p, words, then):
    """Assign the smallest free colour; vertices of one round are not adjacent."""
    color = free_color(p, words)
    p.color = color
    for t in p.nbrs:
        if t.waiting > 0:
            mark(t, words, color)
            if atomic_sub(t.waiting, 1) == 1:
                then.add(t)


@program
def color_rounds(g, seed, words, ready, then):
    state = Scalars(g, words=i64(0))
    foreach(words, clear)
    foreach(g.points, draw, seed)
    foreach(g.points, count_predecessors, state, ready)
    while not ready.empty:
        foreach(ready, take_color, words, then)
        ready, then = then, ready
        then.clear()


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
        words = Table("colours", graph.device, bits=u64)
        return [words, *(Collection(graph.points, capacity=n) for _ in range(2))]

    columns: dict[str, Any] = {"key": (i64, 0), "used": (u64, 0), "first": (i64, 0)}
    columns |= {"waiting": (i32, 0), "further": (i32, 0)}
    with workspace(graph, "colouring", make, color=(i32, -1), **columns) as objects:
        words = objects[0]  # an edge has one predecessor, so m // 64 words suffice
        words.extend(max(len(graph.edges) // WINDOW + 1 - len(words), 0))
        color_rounds(graph, u64(seed % 2**64), *objects)
        (color,) = results(graph, "color")
    with graph.device.active():
        return Colouring(color, int(color.max()) + 1 if color.size else 0)
