"""Minimum spanning forest, by Boruvka's method on a concurrent union-find.

Each round every component finds the weight of its lightest edge to another (atomic minimum), one
point of it alone picks an edge of that weight (``single``), and the picked edges join components.
Edges of a cycle among picked edges weigh the same, so the one that finds its ends joined already
is dropped rightly (Unnikrishnan et al., Falcon, figures 51 and 52).  At most log2 n rounds of
O(n + m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.scratch import columns
from morph.collect import Flag, Set
from morph.dtypes import Ref
from morph.graph import Graph
from morph.kernel import foreach, kernel, program
from morph.prelude import atomic_min, bool_, i32, single


class Mst(NamedTuple):
    """Result of `mst`: ``edges`` (ids), their total ``weight``, the number of ``components``."""

    edges: Any
    weight: Any
    components: int


@kernel
def reset(p, far):
    p.lightest = far
    p.picked = None
    p.lock = 0


@kernel
def find_lightest(p, g, sets):
    a = sets.find(p)
    for t in p.outnbrs:
        b = sets.find(t)
        if a != b:
            atomic_min(a.lightest, g.weight(p, t))
            atomic_min(b.lightest, g.weight(p, t))


@kernel
def pick(p, g, sets):
    a = sets.find(p)
    for t in p.outnbrs:
        b = sets.find(t)
        if a != b:
            if g.weight(p, t) == a.lightest:
                if single(a.lock):
                    a.picked = g.edge(p, t)
            if g.weight(p, t) == b.lightest:
                if single(b.lock):
                    b.picked = g.edge(p, t)


@kernel
def join(p, sets, changed):
    e = p.picked
    if e is not None and sets.union(e.src, e.dst):
        e.in_tree = True
        changed.set()


@program
def boruvka(g, sets, changed, far):
    changed.set()
    while changed.take():
        foreach(g.points, reset, far)
        foreach(g.points, find_lightest, g, sets)
        foreach(g.points, pick, g, sets)
        foreach(g.points, join, sets, changed)


def mst(graph: Graph) -> Mst:
    """Find a minimum spanning forest.

    Parameters
    ----------
    graph : Graph
        On any device, with edge weights of any real type.  Edges count as undirected, whether
        they are held once or in both directions.

    Returns
    -------
    Mst
        ``edges``, int64 ids, ascending; ``weight``, a Python int or float; ``components``, counting
        single points.

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN.
    """
    if "weight" not in graph.edges.columns:
        raise ValueError("mst needs edge weights: give weight= when the graph is made")
    weight = graph.edges.weight.array
    if weight.size and bool((weight != weight).any()):
        raise ValueError("mst needs weights that are not NaN")
    dtype = np.dtype(weight.dtype)
    most = np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max
    far = dtype.type(most)
    with (
        columns(graph.points, lightest=(dtype, far), lock=(i32, 0), picked=(Ref("edges"), None)),
        columns(graph.edges, in_tree=(bool_, False)),
    ):
        boruvka(graph, Set(graph.points), Flag(graph), far)
        edges = graph.device.xp.flatnonzero(graph.edges.in_tree.array)
    total = weight[edges].sum(dtype=np.float64 if dtype.kind == "f" else np.int64).item()
    return Mst(edges, total, graph.points.live - len(edges))
