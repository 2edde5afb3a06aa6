"""Checkers of shortest paths (distances, trees and single paths), by the rules of Graph500.

Distances are lower bounds if no edge from u to v has ``distance[v] > distance[u] + weight``.
Distances are attained if every reached vertex except the sources has a predecessor with equality,
and the chain of predecessors ends at a source.  Without predecessors, the checkers search for such
tight edges.  O(n + m), plus O(n log n) to detect cycles of predecessors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.graph.labels import VertexIds
from morph.language.arguments import check_number
from morph.language.messages import shown
from morph.validate.arcs import Arcs, Ints, WrongAnswer, grouped, refuse, rows

Bools = NDArray[np.bool_]


def bfs(
    graph: Graph,
    distance: Any,
    predecessor: Any = None,
    *,
    source: Any = 0,
    cutoff: int | None = None,
    rows: bool = False,
) -> None:
    """Check BFS levels, and the BFS tree if predecessors are given.

    Parameters
    ----------
    graph : Graph
    distance : array of int, shape (n,), or (k, n) if ``rows``
        -1 if unreachable.
    predecessor : array of int, optional
        Of the same shape.
    source, cutoff, rows
        As in `morph.bfs`.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    if rows:
        for d, p, start in _rows(distance, predecessor, Arcs(graph).listed(source)):
            bfs(graph, d, p, source=VertexIds(start[None]), cutoff=cutoff)
        return
    arcs = Arcs(graph)
    found = arcs.values(distance, "distance").astype(np.int64)
    refuse(found < -1, lambda v: f"{arcs.vertex(v)} has the distance {found[v]}")
    typed = found, found >= 0, np.ones(len(arcs.src), np.int64)
    _check(arcs, typed, predecessor, source, cutoff)


def sssp(
    graph: Graph,
    distance: Any,
    predecessor: Any = None,
    *,
    source: Any = 0,
    cutoff: float | None = None,
    tolerance: float = 0.0,
    rows: bool = False,
) -> None:
    """Check shortest-path distances, and the shortest-path tree if predecessors are given.

    Parameters
    ----------
    graph : Graph
        With the weights that were used.
    distance : array, shape (n,), or (k, n) if ``rows``
        Unreachable points have the largest value of the dtype, or infinity.
    predecessor : array of int, optional
        Of the same shape.
    source, cutoff, rows
        As in `morph.sssp`.  A result with ``targets`` is not complete, and cannot be checked.
    tolerance : float
        The relative rounding error allowed for floating-point distances.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    if rows:
        for d, p, start in _rows(distance, predecessor, Arcs(graph).listed(source)):
            sssp(graph, d, p, source=VertexIds(start[None]), cutoff=cutoff, tolerance=tolerance)
        return
    arcs = Arcs(graph)
    refuse(~(arcs.weight >= 0), lambda k: f"{arcs.edge(k)}, has the weight {arcs.weight[k]}")
    found, reached, weight = _typed(arcs, distance)
    refuse(arcs.alive & ~(found >= 0), lambda v: f"{arcs.vertex(v)} has the distance {found[v]}")
    _check(arcs, (found, reached, weight), predecessor, source, cutoff, tolerance)


def bellman_ford(
    graph: Graph, distance: Any, predecessor: Any = None, *, source: Any = 0,
    tolerance: float = 0.0,
) -> None:  # fmt: skip
    """Check shortest-path distances where weights may be negative, and the tree if it is given.

    Parameters
    ----------
    graph : Graph
        With the weights that were used.
    distance, predecessor, tolerance
        As in `sssp`.
    source
        As in `morph.bellman_ford`.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    refuse(np.isnan(arcs.weight), lambda k: f"{arcs.edge(k)}, has the weight {arcs.weight[k]}")
    found, reached, weight = _typed(arcs, distance)
    refuse(arcs.alive & np.isnan(found), lambda v: f"{arcs.vertex(v)} has the distance {found[v]}")
    starts = arcs.sources(source)
    refuse(
        ~(reached[starts] & (found[starts] <= 0)),
        lambda k: f"source {arcs.name(starts[k])} is at {found[starts[k]]}",
    )
    roots = starts[found[starts] == 0]  # negative paths may lead from one source to another
    if len(starts) and not len(roots):
        raise WrongAnswer("no source is at distance 0")
    typed = found, reached, weight
    _check(arcs, typed, predecessor, VertexIds(roots), None, tolerance, negative=True)


def johnson(
    graph: Graph, distance: Any, predecessor: Any = None, *, sources: Any = None,
    tolerance: float = 0.0,
) -> None:  # fmt: skip
    """Check shortest-path distances from each of several sources; weights may be negative.

    Parameters
    ----------
    graph : Graph
        With the weights that were used.
    distance : array, shape (k, n)
        As in `sssp`.
    predecessor : array of int, shape (k, n), optional
    sources
        As in `morph.johnson`.
    tolerance : float
        The rounding error allowed for floating-point distances, relative to the largest distance
        or weight.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    starts = np.flatnonzero(arcs.alive) if sources is None else arcs.listed(sources)
    for row, before, start in _rows(distance, predecessor, starts):
        found, reached, weight = _typed(arcs, row)
        refuse(arcs.alive & np.isnan(found), lambda v, d=found: f"{arcs.vertex(v)} is at {d[v]}")
        largest = np.concatenate([abs(found), abs(weight)])
        floor = float(largest[np.isfinite(largest)].max(initial=0))
        typed = found, reached, weight
        source = VertexIds(start[None])
        _check(arcs, typed, before, source, None, tolerance, negative=True, floor=floor)


def _typed(arcs: Arcs, distance: Any) -> tuple[NDArray[Any], Bools, NDArray[Any]]:
    """Return distances, whether each vertex is reached, and weights in the same dtype."""
    found, weight = arcs.values(distance, "distance", "iuf"), arcs.weight
    if found.dtype.kind == "f":
        return found, found < np.inf, weight.astype(found.dtype)
    reached = found < np.iinfo(found.dtype).max
    largest = np.iinfo(np.int64).max
    found, weight = (
        x.astype(np.int64) if x.dtype != np.uint64 else np.minimum(x, largest).astype(np.int64)
        for x in (found, weight)
    )
    return found, reached, weight


def path(graph: Graph, vertices: Any, edges: Any, length: Any = None) -> None:
    """Check that edges lead from each vertex of a path to the next.

    Parameters
    ----------
    graph : Graph
    vertices : array of ids or labels, shape (k + 1,)
    edges : array of int, shape (k,)
        Ids of the edges.
    length : number, optional
        The sum of the weights, added in the order of the path.

    Raises
    ------
    WrongAnswer
        Naming an edge.
    """
    arcs = Arcs(graph)
    at, ids = arcs.listed(vertices), arcs.host(edges, "edges")
    if at.ndim != 1 or ids.shape != (len(at) - 1,):
        raise WrongAnswer(f"edges has shape {ids.shape}, vertices {at.shape}")
    if ids.size and ids.dtype.kind not in "iu":
        raise WrongAnswer(f"edges has type {ids.dtype}")
    where = np.full(len(graph.edges), -1)
    where[arcs.id] = np.arange(len(arcs.id))
    refuse((ids < 0) | (ids >= len(where)), lambda k: f"edge {ids[k]} does not exist")
    k = where[ids]
    wrong = (k < 0) | (arcs.src[k] != at[:-1]) | (arcs.dst[k] != at[1:])

    def named(i: int) -> str:
        u, v = map(arcs.name, at[i : i + 2])
        return f"edge {ids[i]} does not lead from {u} to {v}"

    refuse(wrong, named)
    weight = arcs.weight[k]
    total = np.add.accumulate(weight)[-1] if weight.dtype.kind == "f" and len(k) else None
    total = sum(weight.tolist()) if total is None else total
    if length is None:
        return
    check_number(length, "length")
    if total != length:
        raise WrongAnswer(f"the path has the length {total}, not {shown(length)}")


def _rows(distance: Any, predecessor: Any, source: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each row of distances and of predecessors with its source."""
    starts = np.asarray(source).ravel()
    for name, x in (("distance", distance), ("predecessor", predecessor)):
        count = len(x) if hasattr(x, "__len__") and getattr(x, "ndim", None) != 0 else 0
        if count != len(starts) and not (x is None and name == "predecessor"):
            raise WrongAnswer(f"{name} has {count} rows, for {len(starts)} sources")
    yield from zip(
        distance, [None] * len(starts) if predecessor is None else predecessor, starts, strict=True
    )


def _check(
    arcs: Arcs,
    typed: tuple[NDArray[Any], Bools, NDArray[Any]],
    predecessor: Any,
    source: Any,
    cutoff: float | None,
    tolerance: float = 0.0,
    negative: bool = False,
    floor: float = 0.0,
) -> None:
    """Check distances, reachability and weights, as `_typed` returns them.

    The tolerance is relative to a distance, or to ``floor`` if the distance is smaller.
    """
    (found, reached, weight), src, dst = typed, arcs.src, arcs.dst
    starts = arcs.sources(source)
    is_start = np.zeros(arcs.n, bool)
    is_start[starts] = True
    reached = reached & arcs.alive
    far = is_start & ~(reached & (found == 0))
    refuse(far, lambda v: f"source {arcs.name(v)} is not at distance 0")
    if cutoff is not None:
        check_number(cutoff, "cutoff")
        if found.dtype.kind != "f":  # beyond these limits all or no distances are
            cutoff = min(max(cutoff, -1), np.iinfo(np.int64).max)
        refuse(
            reached & (found > cutoff),
            lambda v: f"{arcs.vertex(v)}, at {found[v]}, lies beyond the cut-off {cutoff}",
        )
    known = np.flatnonzero(reached[src])
    if found.dtype.kind == "f":
        through = found[src[known]] + weight[known]
        slack = found[dst[known]] - through
        size = abs(np.where(reached[dst[known]], found[dst[known]], 0))
        allowed = tolerance * np.maximum(size, floor)
        shorter = reached[dst[known]] & (slack > allowed)
        missed = ~reached[dst[known]] & (through < np.inf)
        tight = reached[dst[known]] & (abs(slack) <= allowed)
        if cutoff is not None:
            missed &= through <= cutoff
    else:  # by differences, which do not overflow
        ahead = found[dst[known]] - found[src[known]]
        shorter = reached[dst[known]] & (ahead > weight[known])
        missed = ~reached[dst[known]]
        tight = reached[dst[known]] & (ahead == weight[known])
        if cutoff is not None:
            missed &= weight[known] <= cutoff - found[src[known]]

    def to(k: int) -> str:
        return arcs.name(dst[known[k]])

    refuse(missed, lambda k: f"{arcs.edge(known[k])}, leads on, but {to(k)} is unreachable")
    refuse(
        shorter,
        lambda k: (
            f"{arcs.edge(known[k])}, is a shorter way: {to(k)} is at"
            f" {found[dst[known[k]]]}, {arcs.name(src[known[k]])} at {found[src[known[k]]]}"
        ),
    )
    tight_src, tight_dst = src[known[tight]], dst[known[tight]]
    in_tree = reached & ~is_start
    if predecessor is None:
        rises = (found[tight_src] < found[tight_dst]) & (not negative)
        _require_reasons(arcs, found, in_tree, is_start, (tight_src, tight_dst, rises))
    else:
        before = arcs.values(predecessor, "predecessor").astype(np.int64)
        _require_chains(arcs, before, in_tree, tight_src, tight_dst)


def _require_reasons(
    arcs: Arcs, found: NDArray[Any], in_tree: Bools, settled: Bools, tight: tuple[Ints, Ints, Bools]
) -> None:
    """Require that every reached vertex has a path of tight edges from a source.

    A tight edge that ``rises`` to a larger distance, where no weight is negative, needs no path.
    """
    src, dst, rises = tight
    settled = settled.copy()
    settled[dst[rises]] = True
    flat = ~rises & ~settled[dst]
    if flat.any():  # reached by zero-weight or negative edges only: by a breadth-first search
        offsets, heads = grouped(arcs.n, src[flat], dst[flat])
        front = np.flatnonzero(settled)
        while front.size:
            after = heads[rows(offsets, front)]
            front = np.unique(after[~settled[after]])
            settled[front] = True
    refuse(
        in_tree & ~settled,
        lambda v: f"{arcs.vertex(v)} is at {found[v]}, but no path of that length leads to it",
    )


def _require_chains(arcs: Arcs, before: Ints, in_tree: Bools, src: Ints, dst: Ints) -> None:
    """Require that the edge from each predecessor is tight, and that predecessors form no cycle."""
    idle = arcs.alive & ~in_tree & (before != -1)
    refuse(
        idle,
        lambda v: f"{arcs.vertex(v)} is a source or unreachable, but has predecessor {before[v]}",
    )
    refuse(
        in_tree & ((before < 0) | (before >= arcs.n)),
        lambda v: f"{arcs.vertex(v)} has predecessor {before[v]}, which is not a vertex",
    )
    joined = np.zeros(arcs.n, bool)
    joined[dst[before[dst] == src]] = True
    refuse(
        in_tree & ~joined,
        lambda v: (
            f"{arcs.vertex(v)} has predecessor {before[v]}, but no edge from there is as long as"
            " the distances say"
        ),
    )
    jump = np.where(in_tree, before, np.arange(arcs.n))
    for _ in range(arcs.n.bit_length()):
        jump = jump[jump]
    refuse(
        in_tree[jump] & in_tree,
        lambda v: f"the predecessors of {arcs.vertex(v)} lead round in a circle",
    )


__all__ = ["WrongAnswer", "bellman_ford", "bfs", "johnson", "path", "sssp"]
