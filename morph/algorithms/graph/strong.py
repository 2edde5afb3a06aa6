"""Strongly connected components, by trimming, a search from a pivot, and colouring.

After Multistep (Slota, Rajamanickam, Madduri, IPDPS 2014).  Trimming: a point without in-edges or
without out-edges in the remaining graph is a component (McLendon et al. 2005).  Colouring: each
point receives the smallest colour of all points that reach it; a point that keeps its own colour is
the root of a component, which consists of the points of its colour that reach it (Orzan 2004).  In
the first round only one point of high degree, the pivot, has a colour, which finds the largest
component of most graphs in two searches (Fleischer, Hendrickson, Pinar 2000); later all points have
colours, hashes of id and round: for random hashes the expected number of rounds is logarithmic in
the length of the longest chain of components.  One launch.
Work: O(n + m) per round, on the remaining graph; colours may be propagated along long paths without
a result, so chains of 10**5 components take several times the time of Tarjan's algorithm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import early_results, of_graph_on_one_device
from morph.algorithms.graph.components import connected_components
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_max, atomic_min, atomic_sub, i32, i64, u32

NONE = 2**32 - 1  # colour of points without a colour, larger than all colours
DONE = 0  # colour of points in a component, smaller than all colours
WIDE = 16  # a pass over the remaining points replaces a worklist of more than a 16th of them
LEVELS = 8  # of the searches from the pivot that are steps, so that a pass may replace them
IDS = 2**31 - 1  # a mask: ids have 31 bits


class StrongComponents(NamedTuple):
    """Result of `strongly_connected_components`: ``label``, (n,), int32; ``components``, an int.

    A component's label is the smallest of its points.
    """

    label: Any
    components: int


@kernel
def set_degrees(p):
    p.outs = i32(p.out_degree)
    p.ins = i32(p.in_degree)


@kernel
def count_remaining(p):
    """Count the edges to and from other remaining points."""
    outs, ins = i32(0), i32(0)
    for t in p.outnbrs:
        if t.label < 0 and t != p:
            outs += 1
    for s in p.innbrs:
        if s.label < 0 and s != p:
            ins += 1
    p.outs = outs
    p.ins = ins


@kernel
def start_trimming(p, trimmed):
    if p.outs == 0 or p.ins == 0:
        p.label = p.id
        trimmed.add(p)


@kernel
def trim(p, then):
    """Remove a component of one point; neighbours that lose their last in- or out-edge follow."""
    for t in p.outnbrs:
        if atomic_sub(t.ins, 1) == 1:
            if atomic_max(t.label, t.id) < 0:
                then.add(t)
    for s in p.innbrs:
        if atomic_sub(s.outs, 1) == 1:
            if atomic_max(s.label, s.id) < 0:
                then.add(s)


@kernel
def list_remaining(p, remaining, pivot):
    if p.label < 0:
        p.colour = NONE
        remaining.add(p)
        atomic_max(pivot.best, (i64(min(p.outs, p.ins)) << 32) + p.id)
    else:
        p.colour = DONE


@func
def colour_of(v, iteration):
    """Return the colour of a point in a round: a permutation of the ids, plus 1."""
    x = (u32(v) + u32(iteration) * u32(0x9E3779B1)) & u32(IDS)
    x = x ^ (x >> u32(15))  # each step permutes the numbers of 31 bits
    x = (x * u32(0x85EBCA6B)) & u32(IDS)
    x = x ^ (x >> u32(13))
    x = (x * u32(0xC2B2AE35)) & u32(IDS)
    return (x ^ (x >> u32(16))) + u32(1)


@kernel
def colour(p, iteration, pivot, now):
    """Assign the colour of a point to itself; in the first round only for the pivot."""
    if iteration > 0 or p.id == pivot.best % 2**32:
        p.colour = colour_of(p.id, iteration)
        now.add(p)


@kernel
def spread_colour(p, then):
    for t in p.outnbrs:
        if t.colour > p.colour:
            if atomic_min(t.colour, p.colour) > p.colour:
                then.add(t)


@kernel
def take_colour(p, then):
    """Adopt the colour of a neighbour, when there is only one colour."""
    for s in p.innbrs:
        if s.colour != NONE and s.colour != DONE:
            p.colour = s.colour
            then.add(p)
            break


@kernel
def find_root(p, iteration, now):
    if p.colour == colour_of(p.id, iteration):
        p.label = p.id
        now.add(p)


@kernel
def pass_label(p, then):
    """Push the label of a component to in-neighbours of the same colour."""
    for s in p.innbrs:
        if s.colour == p.colour:
            if atomic_max(s.label, p.label) < 0:
                then.add(s)


@kernel
def take_label(p, then):
    """Adopt the label of an out-neighbour of the same colour."""
    for t in p.outnbrs:
        if t.colour == p.colour and t.label >= 0:
            p.label = t.label  # race: all points of this colour have the root's label
            then.add(p)
            break


@kernel
def find_least(p, g):
    if g.points[p.label].least > p.id:
        atomic_min(g.points[p.label].least, p.id)


@kernel
def take_least(p, g, found):
    p.label = g.points[p.label].least
    if p.label == p.id:
        atomic_add(found.components, 1)


@program
def drain(now, then, step):
    while not now.empty:
        foreach(now, step, then, ahead=then)
        now, then = then, now
        then.clear()


@program
def find_components(g, remaining, next_remaining, now, then):
    pivot = Scalars(g, best=i64(-1))
    found = Scalars(g, components=0)
    foreach(g.points, set_degrees)
    foreach(g.points, start_trimming, now)
    drain(now, then, trim)
    foreach(g.points, list_remaining, remaining, pivot)
    iteration = 0
    while not remaining.empty:
        foreach(remaining, colour, iteration, pivot, now)
        steps = 0
        while not now.empty:
            if iteration == 0 and len(now) * WIDE > len(remaining):
                foreach(remaining, take_colour, then, where=lambda p: p.colour == NONE)
            elif iteration == 0 and steps < LEVELS:
                foreach(now, spread_colour, then)
            else:
                foreach(now, spread_colour, then, ahead=then)
            steps += 1
            now, then = then, now
            then.clear()
        foreach(remaining, find_root, iteration, now)
        steps = 0
        while not now.empty:
            if len(now) * WIDE > len(remaining):
                foreach(
                    remaining, take_label, then, where=lambda p: p.label < 0 and p.colour != NONE
                )
            elif iteration == 0 and steps < LEVELS:
                foreach(now, pass_label, then)
            else:
                foreach(now, pass_label, then, ahead=then)
            steps += 1
            now, then = then, now
            then.clear()
        foreach(remaining, count_remaining, where=lambda p: p.label < 0)
        foreach(remaining, start_trimming, now, where=lambda p: p.label < 0)
        drain(now, then, trim)
        foreach(remaining, list_remaining, next_remaining, pivot)
        remaining, next_remaining = next_remaining, remaining
        next_remaining.clear()
        iteration += 1
    foreach(g.points, find_least, g)
    foreach(g.points, take_least, g, found)
    return found.components


@of_graph_on_one_device
def strongly_connected_components(graph: Graph) -> StrongComponents:
    """Compute the strongly connected components: maximal sets of mutually reachable points.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  For an undirected graph, these are the connected components.

    Returns
    -------
    StrongComponents
        ``label``, shape (n,), int32, on the graph's device: the smallest point of each point's
        component, -1 for deleted points; ``components``, the number of components.
    """
    if not graph.directed:
        return StrongComponents(*connected_components(graph))
    n = len(graph.points)

    def make() -> list[Any]:
        return [Collection(graph.points, capacity=n) for _ in range(4)]

    counts: dict[str, Any] = {"ins": (i32, 0), "outs": (i32, 0), "least": (i32, 2**31 - 1)}
    with workspace(graph, "strong", make, label=(i32, -1), colour=(u32, NONE), **counts) as lists:
        with early_results(graph, "label") as copied:
            components = find_components(graph, *lists)
        (label,) = copied.arrays()
        return StrongComponents(label, components)
