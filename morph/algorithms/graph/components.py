"""Weakly connected components, by Afforest on a concurrent union-find.

Afforest (Sutton, Ben-Nun, Barak, IPDPS 2018); the representative of a set is its smallest id.
Uniting the first two edges of each vertex connects most of each component.  The largest component
so far, estimated from a sample, then skips its other edges: if every edge is stored as two arcs,
an edge that leaves this component is processed at its other end.  One launch.  About O(n + m),
often little more than O(n).  Partitioned graphs use label propagation: O(m) per step; the number of
steps is the largest distance from the least vertex of a component.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.arguments import early_results, of_graph
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Flag, Set
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.launch.foreach import foreach, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_add, atomic_max, atomic_min, i32, i64, u64

FIRST = 2  # edges of each vertex that are united before the largest component is estimated
SAMPLE = 1024  # sampled vertices for this estimate, and counters: a power of two
SMALL, SMALL_SAMPLE = 8192, 64  # the same for graphs of at most SMALL vertices
SALT = 0x9E3779B97F4A7C15
ABOVE = 2**32  # packs a count and a label: count * ABOVE + label


class Components(NamedTuple):
    """Result of `connected_components`: ``label``, shape (n,), int32, and ``components``, an int.

    A component's label is the smallest of its points.
    """

    label: Any
    components: int


@kernel
def link(p, sets):
    k = 0
    for t in p.outnbrs:
        sets.union(p, t)
        k += 1
        if k == FIRST:
            break


@kernel
def link_others(p, sets):
    for t in p.outnbrs[FIRST:]:
        sets.union(p, t)


@kernel
def mark(p, sets):
    p.label = sets.find(p).id


@kernel
def mark_and_count(p, sets, votes, mask):
    root = sets.find(p).id
    p.label = root
    if root == p.id:
        atomic_add(votes[root & mask].roots, 1)


@kernel
def forget(v):
    v.count = 0
    v.roots = 0


@kernel
def vote(v, g, votes, mask):
    """Count a pseudo-random point for its label; few labels share a counter."""
    k = (u64(v.id) * u64(SALT) >> u64(20)) % u64(len(g.points))
    p = g.points[i64(k)]
    if not p.deleted:
        label = p.label
        atomic_add(votes[label & mask].count, 1)
        # race: any of the labels that share a counter is valid
        votes[label & mask].label = label


@kernel
def elect(v, found):
    atomic_max(found.largest, i64(v.count) * ABOVE + v.label)


@kernel
def add_up(v, found):
    if v.roots > 0:
        atomic_add(found.components, i64(v.roots))


@program
def join(g, sets, votes, both):
    found = Scalars(g, largest=0, components=0)
    mask = i32(len(votes) - 1)
    foreach(votes, forget)
    foreach(g.points, link, sets)
    largest = i64(-1)
    if both and len(g.points) > 0:  # otherwise an edge is processed at its source only
        foreach(g.points, mark, sets)
        foreach(votes, vote, g, votes, mask)
        foreach(votes, elect, found)
        largest = found.largest % ABOVE
        foreach(g.points, link_others, sets, where=lambda p: p.label != largest)
    else:
        foreach(g.points, link_others, sets)
    foreach(g.points, mark_and_count, sets, votes, mask)
    foreach(votes, add_up, found)
    return found.components


@kernel
def label_itself(p):
    p.label = p.id


@kernel
def take_least_label(p, changed):
    for t in p.outnbrs:
        atomic_min(t.label, p.label, changed)
        atomic_min(p.label, t.label, changed)


@kernel
def count_least(p, found):
    if p.label == p.id:
        atomic_add(found.components, 1)


@program
def propagate(g, changed, found):
    """Propagate the least labels: for partitioned graphs, which have no disjoint sets."""
    found.components = 0
    foreach(g.points, label_itself)
    changed.set()
    while changed.take():
        foreach(g.points, take_least_label, changed)
    foreach(g.points, count_least, found)


def _components_of_parts(graph: PartitionedGraph) -> Components:
    def make() -> list[Any]:
        return [Flag(graph), Scalars(graph, components=0)]

    with workspace(graph, "components", make, label=(i32, -1)) as (changed, found):
        with early_results(graph, "label") as copied:
            propagate(graph, changed, found)
        (label,) = copied.arrays()
        return Components(label, int(found.components))


@of_graph
def connected_components(graph: Graph) -> Components:
    """Compute the weakly connected components.

    Parameters
    ----------
    graph : Graph or PartitionedGraph, or an argument of `Graph.of`
        On any device.  With parts, labels propagate along one edge per step.

    Returns
    -------
    Components
        ``label``, shape (n,), int32, on the graph's device (with parts, a `PartitionedArray`): the
        smallest point of each point's component, -1 for deleted points; ``components``, the number
        of components.
    """
    if isinstance(graph, PartitionedGraph):
        return _components_of_parts(graph)

    def make() -> list[Any]:
        votes = Table("votes", graph.device, count=i32, label=i32, roots=i32)
        votes.extend(SAMPLE if len(graph.points) > SMALL else SMALL_SAMPLE)
        return [Set(graph.points), votes]

    with workspace(graph, "components", make, label=(i32, -1)) as objects:
        with early_results(graph, "label") as copied:
            components = objects.run(join, graph, *objects, not graph.directed)
        (label,) = copied.arrays()
        return Components(label, components)
