"""A copy of a graph whose points are in order of their degrees, the largest first.

In graphs with few points of high degree most edges lead to these.  In the copy they are the first
points, so that what is read at the other ends of most edges fits the shared memory of a GPU's
block (see kernels/schedule/sweep.h), and adjacent rows have about the same length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.compiler.ir.layout import PREFIX_BYTES
from morph.graph.arrange import Rows, sources_from
from morph.graph.graph import Graph
from morph.runtime.device import Array

VALUE = 8  # bytes that are read at an end
PART = 0.3  # of all edges, which at least lead to points whose values fit shared memory
LEAST_EDGES = 1 << 21  # of graphs for which the copy pays
NEED = 40  # bytes of memory for each edge while they are copied


class ByDegree(NamedTuple):
    """A copy of a graph: its rows, ``order[k]`` is the id of point ``k`` in the graph itself."""

    graph: Graph
    order: Array


def by_degree(graph: Graph) -> ByDegree | None:
    """Return a copy by degree of an undirected graph, without its columns; the last one if current.

    None if a copy would not be faster.  The graph keeps the copy until its edges change.
    """
    if not graph.device.tiles or graph.directed or graph.gapped or graph.points.deletes:
        return None
    with graph._lock, graph.device.active():
        changes, found = graph.kept.get("by degree", (-1, None))
        if changes != graph.changes:
            found = _ordered(graph)
            graph.kept["by degree"] = graph.changes, found
        return found  # type: ignore[no-any-return]


def _ordered(graph: Graph) -> ByDegree | None:
    device, xp = graph.device, graph.device.xp
    offsets, ids = graph.adjacency("out")
    n, m = len(graph.points), int(offsets[-1])
    free = device.free()
    if m < LEAST_EDGES or (free is not None and free < NEED * m):
        return None
    degree = offsets[1:] - offsets[:-1]
    order = xp.argsort(-degree)
    of_copy = xp.zeros(n + 1, np.int64)
    xp.cumsum(degree[order], out=of_copy[1:])
    if float(of_copy[min(PREFIX_BYTES // VALUE, n)]) < PART * m:
        return None
    rank = xp.empty(n, np.int32)
    rank[order] = xp.arange(n, dtype=np.int32)
    src = sources_from(device, of_copy, m)
    entry = (offsets[:-1][order] - of_copy[:-1])[src]
    entry += xp.arange(m, dtype=np.int64)
    dst: Any = graph.edges.dst.array
    dst = rank[dst[entry if ids is None else ids[entry]]]
    made = Graph._of_rows(device, Rows(of_copy, src, dst, None), directed=False)
    made.by_degree = True
    return ByDegree(made, order)
