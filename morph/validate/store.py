"""Checker of a graph's adjacency index against its table of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.language.arguments import check_type
from morph.validate.arcs import WrongAnswer


def index(graph: Graph) -> None:
    """Check the adjacency of a graph, in both directions, against its table of edges.

    Each point's entries must be its live edges, each once; no live edge may lead to a deleted
    point.  In an undirected graph, each edge must have a distinct reverse edge of equal weight.

    Raises
    ------
    WrongAnswer
        Naming a point or an edge.
    """
    check_type(graph, "graph", "Graph")
    edges, n = graph.edges, len(graph.points)
    src, dst = (_host(graph, edges.columns[c].array[: len(edges)]) for c in ("src", "dst"))
    alive, points = _host(graph, edges.alive), np.append(_host(graph, graph.points.alive), False)
    present = np.flatnonzero(alive & points[src] & points[dst])
    for name, end in (("src", src), ("dst", dst)):
        for e in np.flatnonzero(alive & (end >= 0) & ~points[end])[:1]:
            raise WrongAnswer(f"edge {e}: its {name}, point {end[e]}, is deleted")
    for direction, near in (("out", src), ("in", dst)):
        offsets, ids = graph.adjacency(direction)
        rows = _host(graph, offsets)
        listed = np.arange(rows[-1]) if ids is None else _host(graph, ids).astype(np.int64)
        if rows.shape != (n + 1,) or rows[0] or (np.diff(rows) < 0).any():
            raise WrongAnswer(f"{direction}: the offsets do not rise from 0, one a point")
        if rows[-1] != listed.size:
            raise WrongAnswer(f"{direction}: {rows[-1]} entries by the offsets, {listed.size} ids")
        if listed.size and not 0 <= listed.min() <= listed.max() < len(edges):
            raise WrongAnswer(f"{direction}: an entry is no edge")
        at = np.repeat(np.arange(n), np.diff(rows))
        _same(direction, near, np.stack([at, listed]), np.stack([near[present], present]))
    if not graph.directed and graph._pairs is not None:
        _reverses(graph, _host(graph, graph.reverses()), src, dst, present)


def _same(direction: str, near: Any, found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Compare (point, edge) pairs."""
    found, expected = (a[:, np.lexsort(a[::-1])] for a in (found, expected))
    if found.shape == expected.shape and (found == expected).all():
        return
    least = min(found.shape[1], expected.shape[1])
    differing = np.flatnonzero((found[:, :least] != expected[:, :least]).any(axis=0))
    k = int(differing[0]) if differing.size else least
    has = f"edge {found[1, k]} at point {found[0, k]}" if k < found.shape[1] else "nothing"
    needs = f"edge {expected[1, k]} at point {expected[0, k]}"
    needs = needs if k < expected.shape[1] else "nothing"
    raise WrongAnswer(f"{direction}: the index has {has} where the edges have {needs}")


def _reverses(graph: Graph, back: NDArray[Any], src: Any, dst: Any, present: Any) -> None:
    weight = graph.edges.columns.get("weight")
    values = None if weight is None else _host(graph, weight.array[: len(graph.edges)])
    for e in present[~_leads_back(back, src, dst, values, present)][:1]:
        raise WrongAnswer(f"edge {e}: {back[e]} is not its reverse")


def _leads_back(back: Any, src: Any, dst: Any, values: Any, present: Any) -> Any:
    b = back[present]
    right = (b >= 0) & (back[b] == present) & (src[b] == dst[present]) & (dst[b] == src[present])
    right &= (src[present] != dst[present]) | (b == present)
    if values is None:
        return right
    one, two = values[b], values[present]
    like = (one == two) | (one != one) & (two != two)  # NaN equals NaN here
    return right & (like if like.ndim == 1 else like.all(axis=1))


def _host(graph: Graph, x: Any) -> NDArray[Any]:
    return np.asarray(graph.device.to_host(x))
