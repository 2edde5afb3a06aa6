"""Checkers of BFS and SSSP results (distances and shortest-path trees), by the rules of Graph500.

A distance is a lower bound if no edge from u to v has ``distance[v] > distance[u] + weight``.  A
distance is attained if every reached vertex but the sources has a predecessor for which this is an
equality, and the chain of predecessors ends at a source.  Without predecessors, such edges are
searched for.  O(n + m), and O(n log n) more to detect cycles of predecessors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.validate.arcs import Arcs, Ints, WrongAnswer, grouped, refuse, rows

Bools = NDArray[np.bool_]


def bfs(
    graph: Graph,
    distance: Any,
    predecessor: Any = None,
    *,
    source: Any = 0,
    cutoff: int | None = None,
) -> None:
    """Check BFS levels, and the BFS tree if predecessors are given.

    Parameters
    ----------
    graph : Graph
    distance : array of int, shape (n,)
        -1 if unreachable.
    predecessor : array of int, shape (n,), optional
    source, cutoff
        As in `morph.bfs`.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    found = arcs.values(distance, "distance").astype(np.int64)
    refuse(found < -1, lambda v: f"vertex {v} has the distance {found[v]}")
    _check(arcs, found, found >= 0, np.ones(len(arcs.src), np.int64), predecessor, source, cutoff)


def sssp(
    graph: Graph,
    distance: Any,
    predecessor: Any = None,
    *,
    source: Any = 0,
    cutoff: float | None = None,
    tolerance: float = 0.0,
) -> None:
    """Check shortest-path distances, and the shortest-path tree if predecessors are given.

    Parameters
    ----------
    graph : Graph
        With the weights that were used.
    distance : array, shape (n,)
        If unreachable, the largest number of its type, or infinity.
    predecessor : array of int, shape (n,), optional
    source, cutoff
        As in `morph.sssp`.  A result with ``targets`` is not complete, and cannot be checked.
    tolerance : float
        The relative rounding error allowed for floating-point distances.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    found = arcs.values(distance, "distance", "iuf")
    weight = arcs.weight
    refuse(~(weight >= 0), lambda k: f"{arcs.edge(k)}, has the weight {weight[k]}")
    if found.dtype.kind == "f":
        reached = found < np.inf
        weight = weight.astype(found.dtype)
    else:
        reached = found < np.iinfo(found.dtype).max
        largest = np.iinfo(np.int64).max
        found, weight = (
            x.astype(np.int64) if x.dtype != np.uint64 else np.minimum(x, largest).astype(np.int64)
            for x in (found, weight)
        )
    refuse(arcs.alive & ~(found >= 0), lambda v: f"vertex {v} has the distance {found[v]}")
    _check(arcs, found, reached, weight, predecessor, source, cutoff, tolerance)


def _check(
    arcs: Arcs,
    found: NDArray[Any],
    reached: Bools,
    weight: NDArray[Any],
    predecessor: Any,
    source: Any,
    cutoff: float | None,
    tolerance: float = 0.0,
) -> None:
    starts, src, dst = arcs.sources(source), arcs.src, arcs.dst
    is_start = np.zeros(arcs.n, bool)
    is_start[starts] = True
    reached = reached & arcs.alive
    refuse(is_start & ~(reached & (found == 0)), lambda v: f"source {v} is not at distance 0")
    if cutoff is not None:
        beyond = reached & (found > cutoff)
        refuse(beyond, lambda v: f"vertex {v}, at {found[v]}, lies beyond the cut-off {cutoff}")
    known = np.flatnonzero(reached[src])
    if found.dtype.kind == "f":
        through = found[src[known]] + weight[known]
        slack = found[dst[known]] - through
        allowed = tolerance * np.where(reached[dst[known]], found[dst[known]], 0)
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
    refuse(missed, lambda k: f"{arcs.edge(known[k])}, leads on, but {dst[known[k]]} is unreachable")
    refuse(
        shorter,
        lambda k: (
            f"{arcs.edge(known[k])}, is a shorter way: {dst[known[k]]} is at"
            f" {found[dst[known[k]]]}, {src[known[k]]} at {found[src[known[k]]]}"
        ),
    )
    tight_src, tight_dst = src[known[tight]], dst[known[tight]]
    needy = reached & ~is_start
    if predecessor is None:
        _require_reasons(arcs, found, needy, is_start, tight_src, tight_dst)
    else:
        before = arcs.values(predecessor, "predecessor").astype(np.int64)
        _require_chains(arcs, before, needy, tight_src, tight_dst)


def _require_reasons(
    arcs: Arcs, found: NDArray[Any], needy: Bools, settled: Bools, src: Ints, dst: Ints
) -> None:
    """Require that every reached vertex has a path of tight edges from a source."""
    settled = settled.copy()
    rises = found[src] < found[dst]
    settled[dst[rises]] = True
    flat = ~rises & ~settled[dst]
    if flat.any():  # reached by zero-weight edges only: by a breadth-first search
        offsets, heads = grouped(arcs.n, src[flat], dst[flat])
        front = np.flatnonzero(settled)
        while front.size:
            after = heads[rows(offsets, front)]
            front = np.unique(after[~settled[after]])
            settled[front] = True
    refuse(
        needy & ~settled,
        lambda v: f"vertex {v} is at {found[v]}, but no path of that length leads to it",
    )


def _require_chains(arcs: Arcs, before: Ints, needy: Bools, src: Ints, dst: Ints) -> None:
    """Require that the edge from each predecessor is tight, and that predecessors form no cycle."""
    idle = arcs.alive & ~needy & (before != -1)
    refuse(
        idle, lambda v: f"vertex {v} is a source or unreachable, but has predecessor {before[v]}"
    )
    refuse(
        needy & ((before < 0) | (before >= arcs.n)),
        lambda v: f"vertex {v} has predecessor {before[v]}, which is not a vertex",
    )
    joined = np.zeros(arcs.n, bool)
    joined[dst[before[dst] == src]] = True
    refuse(
        needy & ~joined,
        lambda v: (
            f"vertex {v} has predecessor {before[v]}, but no edge from there is as long as the"
            " distances say"
        ),
    )
    jump = np.where(needy, before, np.arange(arcs.n))
    for _ in range(arcs.n.bit_length()):
        jump = jump[jump]
    refuse(needy[jump] & needy, lambda v: f"the predecessors of vertex {v} lead round in a circle")


__all__ = ["WrongAnswer", "bfs", "sssp"]
