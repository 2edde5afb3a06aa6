"""PageRank by pulling along in-edges.

``rank(v) = (1 - d) * jump(v) + d * (sum of rank(u) * w(u, v) / w(u) over edges u -> v + dangling *
jump(v))``, where ``w(u)`` is the weight of all edges from u, ``dangling`` the rank of the points
where that is 0, and ``jump``, of sum 1, tells where a walker goes who follows no edge (Page, Brin,
Motwani, Winograd 1999; Unnikrishnan et al., Falcon, figure 33).  Each iteration reads every in-edge
once: O(n + m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.scratch import live_edges, workspace
from morph.graph import Graph
from morph.kernel import foreach, kernel, program
from morph.prelude import f64
from morph.table import Table


class PageRank(NamedTuple):
    """Result of `pagerank`: ``rank``, shape (n,), float64, of sum 1; ``iterations``; ``error``."""

    rank: Any
    iterations: int
    error: float


@kernel
def count(p):
    p.out = f64(p.out_degree)


@kernel
def weigh(p):
    total = 0.0
    for e in p.outedges:
        total += e.weight
    p.out = total


@kernel
def pull(p, base, damping):
    total = 0.0
    for t in p.innbrs:
        total += t.given
    rank = base * p.jump + damping * total
    p.moved = abs(rank - p.rank)
    p.rank = rank


@kernel
def pull_weighted(p, base, damping):
    total = 0.0
    for e in p.inedges:
        total += e.src.given * e.weight
    rank = base * p.jump + damping * total
    p.moved = abs(rank - p.rank)
    p.rank = rank


@kernel
def share(whole, g):
    """What each point gives along an edge; what those have who have none, and how far all moved."""
    loose, moved = 0.0, 0.0
    for p in g.points:
        moved += p.moved
        if p.out > 0.0:
            p.given = p.rank / p.out
        else:
            loose += p.rank
    whole.loose = loose
    whole.moved = moved


def _iterating(pull):
    @program
    def iterate(g, all, whole, damping, tolerance, most):
        foreach(all, share, g)
        done = 0
        while done < most and (done == 0 or whole.moved >= tolerance):
            foreach(g.points, pull, 1 - damping + damping * whole.loose, damping)
            foreach(all, share, g)
            done += 1
        return done

    return iterate


iterate, iterate_weighted = map(_iterating, (pull, pull_weighted))


def pagerank(
    graph: Graph,
    damping: float = 0.85,
    tolerance: float = 1e-9,
    iterations: int = 200,
    *,
    personalization: Any = None,
    weighted: bool = False,
) -> PageRank:
    """Rank the points by the links into them.

    Parameters
    ----------
    graph : Graph
        On any device.  Parallel edges count each.
    damping : float
        Probability of following a link, from 0 to 1.
    tolerance : float
        Stop when the ranks change by less than this in sum.
    iterations : int
        Stop after this many.
    personalization : array, shape (n,), optional
        Where a walker goes who follows no link, relative to the others; everywhere alike by
        default.
    weighted : bool
        Follow a link in proportion to its ``weight``, not all alike.

    Returns
    -------
    PageRank
        ``rank``, on the graph's device, 0 for deleted points; ``error``, the last change in sum:
        ``tolerance`` or more if the iterations did not suffice.

    Raises
    ------
    ValueError
        If ``damping`` is outside 0 to 1, ``tolerance`` is negative, ``iterations`` below 1, or if
        weights or ``personalization`` are missing, negative, not finite, or not one for each.
    """
    if not 0 <= damping <= 1:
        raise ValueError(f"damping is from 0 to 1, not {damping}")
    if not (tolerance >= 0 and iterations >= 1):
        raise ValueError(f"tolerance {tolerance} and iterations {iterations} must be positive")
    jump = _jump(graph, personalization)
    if weighted:
        _check_weights(graph)
    run = iterate_weighted if weighted else iterate

    def make() -> list[Any]:
        all = Table("all", graph.device, loose=f64, moved=f64)
        all.extend(1)
        return [all]

    alike = jump if isinstance(jump, float) else 0.0
    fills = {"rank": alike, "jump": alike, "out": 0.0, "given": 0.0, "moved": 0.0}
    points: dict[str, Any] = {name: (f64, fill) for name, fill in fills.items()}
    with workspace(graph, "pagerank", make, **points) as (all,):
        if not isinstance(jump, float):
            graph.points.jump[:] = graph.points.rank[:] = jump
        foreach(graph.points, weigh if weighted else count)
        done = run(graph, all, all[0], float(damping), float(tolerance), iterations)
        return PageRank(graph.points.rank[:].copy(), done, float(all[0].moved))


def _jump(graph: Graph, personalization: Any) -> Any:
    """Give where walkers jump, of sum 1 over the live points: shape (n,), or one number for all."""
    n, xp, live = len(graph.points), graph.device.xp, graph.points.live
    if personalization is None and live == n:
        return 1 / max(n, 1)
    with graph.device.active():
        jump = xp.ones(n)
        if personalization is not None:
            jump = graph.device.asarray(personalization).astype(np.float64)
            if jump.shape != (n,):
                raise ValueError(f"personalization has shape {jump.shape}, not ({n},)")
            if not bool(((jump >= 0) & (jump < np.inf)).all()):
                raise ValueError("personalization has a value that is negative or not finite")
        if graph.points.deletes:
            jump = xp.where(graph.points.alive, jump, 0.0)
        total = float(jump.sum())
        if personalization is not None and not 0 < total < np.inf:
            raise ValueError(f"personalization has the sum {total}, which must be positive")
        return jump / max(total, 1) if personalization is None else jump / total


def _check_weights(graph: Graph) -> None:
    if "weight" not in graph.edges.columns:
        raise ValueError("weighted=True needs edge weights: give weight= when the graph is made")
    with graph.device.active():
        weight = graph.edges.weight.array[live_edges(graph)]
        if not bool(((weight >= 0) & (weight < np.inf)).all()):
            raise ValueError("pagerank needs weights that are finite and not negative")
