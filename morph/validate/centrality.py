"""Checkers of PageRank and of betweenness."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.validate.arcs import Arcs, Ints, WrongAnswer, refuse, rows

Floats = NDArray[np.float64]


def pagerank(
    graph: Graph,
    rank: Any,
    damping: float = 0.85,
    tolerance: float = 1e-9,
    *,
    personalization: Any = None,
    weighted: bool = False,
) -> None:
    """Check ranks: none is negative, their sum is 1, and one more iteration changes little.

    The distance to the true ranks is at most the change over ``1 - damping``.  One iteration:
    O(n + m).

    Parameters
    ----------
    graph : Graph
    rank : array of float, shape (n,)
    damping, personalization, weighted
        As in `morph.pagerank`.
    tolerance : float
        The change allowed, in sum.

    Raises
    ------
    WrongAnswer
        Naming the vertex that changes most.
    """
    arcs = Arcs(graph)
    found = np.where(arcs.alive, arcs.values(rank, "rank", "f").astype(np.float64), 0.0)
    refuse(~(found >= 0), lambda v: f"vertex {v} has the rank {found[v]}")
    if arcs.alive.any() and not abs(found.sum() - 1) <= tolerance:
        raise WrongAnswer(f"the ranks have the sum {found.sum()}, which is not 1")
    jump = arcs.alive.astype(np.float64)
    if personalization is not None:
        jump *= np.asarray(graph.device.to_host(personalization), np.float64)
    jump /= max(jump.sum(), np.finfo(float).tiny)
    weight = arcs.weight.astype(np.float64) if weighted else np.ones(len(arcs.src))
    out = np.bincount(arcs.src, weight, arcs.n)
    dangling = out == 0
    given = np.where(dangling, 0.0, found / np.where(dangling, 1.0, out))
    pulled = np.bincount(arcs.dst, given[arcs.src] * weight, arcs.n)
    again = damping * pulled + (1 - damping + damping * found[dangling].sum()) * jump
    change = abs(again - found)
    if not change.sum() <= tolerance:
        v = int(change.argmax())
        raise WrongAnswer(
            f"vertex {v} has the rank {found[v]}, which one more iteration makes {again[v]}; all"
            f" ranks change by {change.sum():.3g} in sum"
        )


def betweenness(
    graph: Graph,
    centrality: Any,
    sources: Any = None,
    *,
    normalized: bool = True,
    endpoints: bool = False,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> None:
    """Check betweenness centralities by sums that hold whatever numbers the points are given.

    Give the points random numbers.  The sum of number times betweenness is that, over all pairs of
    a source and a point, of the mean over their shortest paths of the numbers on the way.  (With
    all numbers 1 it is the sum of distance less one.)  These means come from one sweep forwards
    for a source, with nothing to carry back: O(n + m) for each.  A wrong answer passes only by an
    accident of rounding.

    Parameters
    ----------
    graph : Graph
    centrality : array of float, shape (n,)
    sources : array of int, optional
        Those that were used, if not all points.
    normalized, endpoints
        As in `morph.betweenness`.
    tolerance : float
        Relative to the sum.

    Raises
    ------
    WrongAnswer
        Naming the vertex, if one alone is wrong.
    """
    arcs = Arcs(graph)
    found = arcs.values(centrality, "centrality", "f").astype(np.float64)
    starts = np.flatnonzero(arcs.alive) if sources is None else arcs.sources(sources)
    scale = _scale(arcs, starts, graph.directed, normalized, endpoints)
    known = arcs.alive & ~np.isnan(scale)  # the value of a single source is unknown
    found = found / scale
    refuse(known & ~(found >= 0), lambda v: f"vertex {v} has the betweenness {found[v]}")
    numbers = np.where(known, np.random.default_rng(seed).uniform(1, 2, arcs.n), 0.0)
    probes = np.stack([numbers, numbers * np.arange(arcs.n)])
    want = np.zeros(2)
    for s in starts.tolist():
        want += _sweep(arcs, s, probes, endpoints)
    error = probes @ np.where(known, found, 0.0) - want
    if (abs(error) > tolerance * (1 + abs(want))).any():
        at = error[1] / error[0] if error[0] else np.nan
        v = round(at) if np.isfinite(at) and abs(at - round(at)) < 1e-3 else -1
        who = f"vertex {v} is wrong" if 0 <= v < arcs.n else "several vertices are wrong"
        off = f"{error[0]:.3g} beside {want[0]:.3g}"
        raise WrongAnswer(f"betweenness, summed with random numbers, is off by {off}: {who}")


def _scale(arcs: Arcs, starts: Ints, directed: bool, normalized: bool, endpoints: bool) -> Floats:
    """Factor of the sums over the sources, for each point."""
    live, k = int(arcs.alive.sum()), len(starts)
    passes = live if endpoints else live - 1
    if passes < 2 or not k:
        return np.ones(arcs.n)
    pairs = passes * (passes - 1.0)
    whole = 1.0 if normalized else pairs / (1 if directed else 2)
    used = np.full(arcs.n, float(k))
    if not endpoints:
        used[starts] -= 1  # a source is on none of its own paths
    used[used == 0] = np.nan
    return whole / pairs * passes / used


def _sweep(arcs: Arcs, source: int, probes: Floats, endpoints: bool) -> Floats:
    """Sum, over all points, of the mean of each probe between the source and them."""
    distance = np.full(arcs.n, -1)
    distance[source] = 0
    # of a point's paths, which may be more than float64 can count: paths * 2**power
    paths, power, mean = np.zeros(arcs.n), np.zeros(arcs.n, np.int64), np.zeros((2, arcs.n))
    paths[source] = 1.0
    front, total, level, reached = np.array([source]), np.zeros(2), 0, 0
    while front.size:
        level += 1
        at = rows(arcs.offsets, front)
        tail, head = arcs.src[at], arcs.dst[at]
        distance[head[distance[head] < 0]] = level
        ahead = distance[head] == level
        tail, head = tail[ahead], head[ahead]
        front, place = np.unique(head, return_inverse=True)
        largest = np.full(len(front), np.iinfo(np.int64).min)
        np.maximum.at(largest, place, power[tail])
        share = np.ldexp(paths[tail], np.maximum(power[tail] - largest[place], -(2**20)))
        sums = np.bincount(place, share, len(front))
        for k in (0, 1):
            inside = mean[k, tail] + (probes[k, tail] if level > 1 else 0.0)
            mean[k, front] = np.bincount(place, share * inside, len(front)) / sums
        paths[front], more = np.frexp(sums)
        power[front] = largest + more
        total += mean[:, front].sum(axis=1)
        if endpoints:
            total += probes[:, front].sum(axis=1)
            reached += len(front)
    return total + probes[:, source] * reached
