"""PageRank by pulling along in-edges.

``rank(v) = (1 - d) / n + d * (sum of rank(u) / outdegree(u) over edges u -> v + dangling / n)``,
where ``dangling`` is the rank of the points without out-edges (Page, Brin, Motwani, Winograd 1999;
Unnikrishnan et al., Falcon, figure 33).  Each iteration reads every in-edge once: O(n + m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.scratch import columns
from morph.graph import Graph
from morph.kernel import foreach, kernel
from morph.prelude import f64
from morph.reduce import reduce


class PageRank(NamedTuple):
    """Result of `pagerank`: ``rank``, shape (n,), float64, of sum 1; ``iterations``; ``error``."""

    rank: Any
    iterations: int
    error: float


@kernel
def share(p):
    p.given = 0.0
    p.loose = p.rank
    if p.out_degree > 0:
        p.given = p.rank / p.out_degree
        p.loose = 0.0


@kernel
def pull(p, base, damping):
    total = 0.0
    for t in p.innbrs:
        total += t.given
    rank = base + damping * total
    p.moved = abs(rank - p.rank)
    p.rank = rank


def pagerank(
    graph: Graph, damping: float = 0.85, tolerance: float = 1e-9, iterations: int = 100
) -> PageRank:
    """Rank the points by the links into them.

    Parameters
    ----------
    graph : Graph
        On any device; weights are not used.
    damping : float
        Probability of following a link, from 0 to 1.
    tolerance : float
        Stop when the ranks change by less than this in sum.
    iterations : int
        Stop after this many.

    Returns
    -------
    PageRank

    Raises
    ------
    ValueError
        If ``damping`` is outside 0 to 1, ``tolerance`` is negative, or ``iterations`` below 1.
    """
    if not 0 <= damping <= 1:
        raise ValueError(f"damping is from 0 to 1, not {damping}")
    if tolerance < 0 or iterations < 1:
        raise ValueError(f"tolerance {tolerance} and iterations {iterations} must be positive")
    n, g = graph.points.live, graph
    start = 1.0 / max(n, 1)
    with columns(g.points, rank=(f64, start), given=(f64, 0), loose=(f64, 0), moved=(f64, 0)):
        error, done = 0.0, 0
        while done < iterations and (done == 0 or error >= tolerance):
            foreach(g.points, share)
            base = (1 - damping + damping * float(reduce(g.points.loose, "sum"))) / max(n, 1)
            foreach(g.points, pull, base, damping)
            error = float(reduce(g.points.moved, "sum"))
            done += 1
        return PageRank(g.points.rank[:].copy(), done, error)
