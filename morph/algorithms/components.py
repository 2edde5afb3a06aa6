"""Weakly connected components: which points hang together, whatever the direction of the edges.

Afforest (Sutton, Ben-Nun, Barak, IPDPS 2018) on a concurrent union-find whose representatives are
the smallest ids.  Two edges of each point join most of what hangs together.  The largest component
found so, judged by a sample, then need not look at its other edges: where edges are held both ways,
one that leaves it is met from its other end.  About O(n + m), and often little more than O(n).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.scratch import workspace
from morph.collect import Set
from morph.graph import Graph
from morph.kernel import foreach, kernel
from morph.prelude import i32

FIRST = 2  # edges of each point that are looked at before the largest component is guessed
SAMPLE = 1024


class Components(NamedTuple):
    """Result of `connected_components`: ``label``, shape (n,), int32, and ``components``, an int.

    A component's label is the smallest of its points.
    """

    label: Any
    components: int


@kernel
def link(p, sets, k):
    for t in p.outnbrs[k:]:
        sets.union(p, t)
        break


@kernel
def link_others(p, sets):
    for t in p.outnbrs[FIRST:]:
        sets.union(p, t)


@kernel
def mark(p, sets):
    p.label = sets.find(p).id


def connected_components(graph: Graph) -> Components:
    """Find the connected components, edges counting both ways.

    Parameters
    ----------
    graph : Graph
        On any device.

    Returns
    -------
    Components
        ``label``, shape (n,), int32, on the graph's device: the smallest point that a point is
        connected with, -1 for deleted points; ``components``, how many there are.
    """
    xp, n = graph.device.xp, len(graph.points)
    with workspace(graph, "components", lambda: [Set(graph.points)], label=(i32, -1)) as (sets,):
        for k in range(FIRST):
            foreach(graph.points, link, sets, k)
        foreach(graph.points, mark, sets)
        largest = -1
        if not graph.directed and n:  # else an edge is met from its source only
            with graph.device.active():
                at = xp.asarray(np.random.default_rng(0).integers(0, n, SAMPLE))
                seen = graph.device.to_host(graph.points.label.array[at])
            labels, times = np.unique(seen, return_counts=True)
            largest = int(labels[times.argmax()])
        foreach(graph.points, link_others, sets, where=lambda p: p.label != largest)
        foreach(graph.points, mark, sets)
        label = graph.points.label[:].copy()
    with graph.device.active():
        return Components(label, int((label == xp.arange(n)).sum()))
