"""Simple graphs of ranked vertices, with sorted rows: distinct pairs, binary search."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.graph.arguments import live_edges
from morph.data.sorting import sort_words
from morph.graph import Graph
from morph.launch.foreach import func
from morph.operators.sort import argsort
from morph.runtime.arrays import count_each


@func
def end_of(p):
    return p.first + p.out_degree


@func
def find(ends, w, begin, end):
    """Return the first position in [begin, end) with a value of at least ``w``."""
    size = end - begin
    while size > 0:
        half = (size + 1) >> 1
        begin = begin + half if ends[begin + half - 1] < w else begin
        size -= half
    return begin


def live_ends(graph: Graph) -> tuple[Any, Any]:
    """Return the ends of the edges between live points."""
    pick, m = live_edges(graph), len(graph.edges)
    return graph.edges.src.array[:m][pick], graph.edges.dst.array[:m][pick]


def degrees(graph: Graph) -> Any:
    """Return the total degrees (out plus in) of all points."""
    xp, n = graph.device.xp, len(graph.points)
    src, dst = live_ends(graph)
    return count_each(xp, src, n) + count_each(xp, dst, n)


def ranked_pairs(graph: Graph, key: Any) -> tuple[Any, Any, Any]:
    """Return the order of vertices by a key, and the ascending pairs of ranks of adjacent vertices.

    Returns
    -------
    order : array of int64, shape (n,)
    low, high : array of int32
        Each pair once, ``low < high``.
    """
    xp, n = graph.device.xp, len(graph.points)
    src, dst = live_ends(graph)
    order = argsort(key)
    rank = xp.empty(n, np.int32)
    rank[order] = xp.arange(n, dtype=np.int32)
    a, b = rank[src], rank[dst]
    keys = xp.minimum(a, b).astype(np.int64) << 32 | xp.maximum(a, b)
    keys = keys[a != b if graph.directed else src < dst]
    sort_words(keys)
    first = xp.ones(keys.size, bool)
    first[1:] = keys[1:] != keys[:-1]
    keys = keys[first]
    return order, (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def sorted_rows(graph: Graph, n: int, low: Any, high: Any) -> Graph:
    """Make the undirected graph of these pairs.

    A row has the neighbours of lower rank, ascending, then those of higher rank.  Points have the
    columns ``first``, the first arc of the row, and ``below``, the number of neighbours of lower
    rank; arcs have ``end``, the target.
    """
    xp = graph.device.xp
    made = Graph.from_edges(high, low, n=n, directed=False, device=graph.device)
    for name, dtype, values in (
        ("first", np.int64, made.adjacency("out")[0][:-1]),
        ("below", np.int32, count_each(xp, high, n)),
    ):
        made.points.add(name, dtype)
        made.points.columns[name].array[:n] = values
    made.edges.add("end", np.int32)
    if len(made.edges):
        made.edges.end.array[:] = made.edges.dst.array
    return made
