"""Checkers of PageRank and betweenness."""

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
    dangling: Any = None,
    weighted: bool = False,
) -> None:
    """Check ranks: none is negative, their sum is 1, and one more power iteration changes little.

    The L1 distance to the exact ranks is at most the L1 change of one iteration divided by
    ``1 - damping``.  Cost: one iteration, O(n + m).

    Parameters
    ----------
    graph : Graph
    rank : array of float, shape (n,)
    damping, personalization, dangling, weighted
        As in `morph.pagerank`.
    tolerance : float
        Largest accepted change of one iteration, in the L1 norm.

    Raises
    ------
    WrongAnswer
        Naming the vertex whose rank changes most.
    """
    arcs = Arcs(graph)
    found = np.where(arcs.alive, arcs.values(rank, "rank", "f").astype(np.float64), 0.0)
    refuse(~(found >= 0), lambda v: f"{arcs.vertex(v)} has the rank {found[v]}")
    if arcs.alive.any() and not abs(found.sum() - 1) <= tolerance:
        raise WrongAnswer(f"the ranks have the sum {found.sum()}, which is not 1")
    jump, sink = (
        _distribution(graph, arcs, personalization if given is None else given)
        for given in (None, dangling)
    )
    weight = arcs.weight.astype(np.float64) if weighted else np.ones(len(arcs.src))
    out = np.bincount(arcs.src, weight, arcs.n)
    ends = out == 0
    given = np.where(ends, 0.0, found / np.where(ends, 1.0, out))
    pulled = np.bincount(arcs.dst, given[arcs.src] * weight, arcs.n)
    again = damping * (pulled + found[ends].sum() * sink) + (1 - damping) * jump
    change = abs(again - found)
    if not change.sum() <= tolerance:
        v = int(change.argmax())
        raise WrongAnswer(
            f"{arcs.vertex(v)} has the rank {found[v]}, which one more iteration makes {again[v]};"
            f" all ranks change by {change.sum():.3g} in sum"
        )


def _distribution(graph: Graph, arcs: Arcs, given: Any) -> Floats:
    """Relative probabilities of the live points, with sum 1."""
    values = arcs.alive.astype(np.float64)
    if given is not None:
        values *= np.asarray(graph.device.to_host(given), np.float64)
    values /= max(values.sum(), np.finfo(float).tiny)
    return values


def betweenness(
    graph: Graph,
    centrality: Any,
    sources: Any = None,
    *,
    weighted: bool = False,
    normalized: bool = True,
    endpoints: bool = False,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> None:
    """Check betweenness centralities by random weighted sums (a Freivalds-type check).

    Each point gets a random number.  The sum over the points of number times betweenness equals
    the sum over all pairs of a source and a point of the mean, over their shortest paths, of the
    sum of the numbers at the inner points.  (With all numbers 1, it is the sum of distance minus
    one.)  These means need one forward sweep for each source and no backward accumulation:
    O(n + m) each.  The probability that a wrong result passes is negligible.

    Parameters
    ----------
    graph : Graph
    centrality : array of float, shape (n,)
    sources : array of ids or labels, optional
        The sources that were used, if not all points.
    weighted, normalized, endpoints
        As in `morph.betweenness`.
    tolerance : float
        Relative to the sum.

    Raises
    ------
    WrongAnswer
        Naming the vertex, if exactly one value is wrong.
    """
    arcs = Arcs(graph)
    found = arcs.values(centrality, "centrality", "f").astype(np.float64)
    starts = np.flatnonzero(arcs.alive) if sources is None else arcs.sources(sources)
    scale = _scale(arcs, starts, graph.directed, normalized, endpoints)
    known = arcs.alive & ~np.isnan(scale)  # the value of a single source is unknown
    found = found / scale
    refuse(known & ~(found >= 0), lambda v: f"{arcs.vertex(v)} has the betweenness {found[v]}")
    numbers = np.where(known, np.random.default_rng(seed).uniform(1, 2, arcs.n), 0.0)
    probes = np.stack([numbers, numbers * np.arange(arcs.n)])
    lengths = _lengths(arcs, weighted)
    expected = np.zeros(2)
    for s in starts.tolist():
        expected += _sweep(arcs, s, lengths, probes, np.zeros((2, len(arcs.src))), endpoints)
    error = probes @ np.where(known, found, 0.0) - expected
    if (abs(error) > tolerance * (1 + abs(expected))).any():
        v = _suspect(error, arcs.n)
        culprit = f"{arcs.vertex(v)} is wrong" if v >= 0 else "several vertices are wrong"
        off = f"{error[0]:.3g} beside {expected[0]:.3g}"
        raise WrongAnswer(f"betweenness, summed with random numbers, is off by {off}: {culprit}")


def edge_betweenness(
    graph: Graph,
    centrality: Any,
    sources: Any = None,
    *,
    weighted: bool = False,
    normalized: bool = True,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> None:
    """Check betweenness centralities of edges by random weighted sums, as `betweenness`.

    Parallel edges of equal length, and both arcs of an edge of an undirected graph, must have the
    same value; they get the same random number.

    Parameters
    ----------
    graph : Graph
    centrality : array of float, shape (m,)
        Values of deleted edges are ignored.
    sources : array of ids or labels, optional
        The sources that were used, if not all points.
    weighted, normalized
        As in `morph.edge_betweenness`.
    tolerance : float
        Relative to the sum.

    Raises
    ------
    WrongAnswer
        Naming the edge, if exactly one value is wrong.
    """
    arcs = Arcs(graph)
    by_id = arcs.host(centrality, "centrality")
    if by_id.shape != (len(graph.edges),) or by_id.dtype.kind != "f":
        raise WrongAnswer(
            f"centrality has shape {by_id.shape} and type {by_id.dtype}, for a graph of"
            f" {len(graph.edges)} edges"
        )
    starts = np.flatnonzero(arcs.alive) if sources is None else arcs.sources(sources)
    found, n = by_id[arcs.id].astype(np.float64), int(arcs.alive.sum())
    refuse(~(found >= 0), lambda k: f"{arcs.edge(k)}, has the betweenness {found[k]}")
    if n > 1 and len(starts):
        pairs = n if not normalized and graph.directed else n / 2 if not normalized else 1 / (n - 1)
        found *= len(starts) / pairs
    lengths = _lengths(arcs, weighted)
    ends = arcs.src, arcs.dst
    if not graph.directed:
        ends = np.minimum(*ends), np.maximum(*ends)
    order = np.lexsort((lengths, *ends))
    new = np.zeros(len(order), bool)  # first edge of each class of equivalent edges
    for x in (lengths, *ends):
        new[1:] |= x[order[1:]] != x[order[:-1]]
    kind = np.empty(len(order), np.int64)
    kind[order] = np.cumsum(new)
    first = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    same = np.empty_like(first)
    same[order] = first
    refuse(
        ~(abs(found - found[same]) <= tolerance * (1 + abs(found))),
        lambda k: f"{arcs.edge(k)}, has not the betweenness of {arcs.edge(same[k])}",
    )
    numbers = np.random.default_rng(seed).uniform(1, 2, len(order) + 1)[kind]
    probes = np.stack([numbers, numbers * same])
    expected = np.zeros(2)
    for s in starts.tolist():
        expected += _sweep(arcs, s, lengths, np.zeros((2, arcs.n)), probes, False)
    expected *= 1 if graph.directed else 2
    error = probes @ found - expected
    if (abs(error) > tolerance * (1 + abs(expected))).any():
        k = _suspect(error, len(order))
        culprit = f"{arcs.edge(k)}, is wrong" if k >= 0 else "several edges are wrong"
        off = f"{error[0]:.3g} beside {expected[0]:.3g}"
        raise WrongAnswer(f"betweenness, summed with random numbers, is off by {off}: {culprit}")


def _suspect(error: Floats, count: int) -> int:
    """Return the index of the only wrong value, from the errors of two sums; -1 if several."""
    at = error[1] / error[0] if error[0] else np.nan
    k = round(at) if np.isfinite(at) and abs(at - round(at)) < 1e-3 else -1
    return k if 0 <= k < count else -1


def _lengths(arcs: Arcs, weighted: bool) -> NDArray[Any]:
    """Return the lengths of edges in the dtype of distances."""
    weight = arcs.weight
    if not weighted:
        return np.ones(len(weight), np.int64)
    if weight.dtype.kind == "f":
        return weight.astype(np.result_type(weight.dtype, np.float32))
    if weight.dtype == np.uint64:
        weight = np.minimum(weight, np.uint64(np.iinfo(np.int64).max))
    return weight.astype(np.int64)


def _scale(arcs: Arcs, starts: Ints, directed: bool, normalized: bool, endpoints: bool) -> Floats:
    """Return the normalisation factor of each point's sum over the sources."""
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


def _distances(arcs: Arcs, source: int, lengths: NDArray[Any]) -> NDArray[Any]:
    """Return the distances from a source, by Bellman-Ford rounds over a frontier."""
    far = np.inf if lengths.dtype.kind == "f" else np.iinfo(np.int64).max
    distance = np.full(arcs.n, far, lengths.dtype)
    distance[source] = 0
    front = np.array([source])
    while front.size:
        at = rows(arcs.offsets, front)
        head, reach = arcs.dst[at], distance[arcs.src[at]] + lengths[at]
        nearer = reach < distance[head]
        if reach.dtype.kind == "i":
            nearer &= reach >= 0  # else the sum overflowed
        np.minimum.at(distance, head[nearer], reach[nearer])
        front = np.unique(head[nearer])
    return distance


def _by_levels(arcs: Arcs, source: int, lengths: NDArray[Any]) -> list[Ints]:
    """Return the edges of shortest paths, grouped by topological level of their heads."""
    distance = _distances(arcs, source, lengths)
    far = np.inf if lengths.dtype.kind == "f" else np.iinfo(np.int64).max
    near, ends = distance[arcs.src], distance[arcs.dst]
    at = np.flatnonzero((near < ends) & (ends < far) & (near + lengths == ends))
    offsets = np.zeros(arcs.n + 1, np.int64)
    np.cumsum(np.bincount(arcs.src[at], minlength=arcs.n), out=offsets[1:])
    waiting = np.bincount(arcs.dst[at], minlength=arcs.n)
    level, depth, front = np.zeros(arcs.n, np.int64), 0, np.array([source])
    while front.size:
        level[front] = depth
        depth += 1
        heads = arcs.dst[at[rows(offsets, front)]]
        np.subtract.at(waiting, heads, 1)
        front = np.unique(heads[waiting[heads] == 0])
    at = at[np.argsort(level[arcs.dst[at]], kind="stable")]
    return np.split(at, np.flatnonzero(np.diff(level[arcs.dst[at]])) + 1) if at.size else []


def _sweep(
    arcs: Arcs, source: int, lengths: NDArray[Any], probes: Floats, on_edges: Floats,
    endpoints: bool,
) -> Floats:  # fmt: skip
    """Return, for each probe, the sum over all points of its mean on shortest paths to them."""
    # numbers of paths exceed the range of float64: paths * 2**power
    paths, power, mean = np.zeros(arcs.n), np.zeros(arcs.n, np.int64), np.zeros((2, arcs.n))
    paths[source] = 1.0
    total, reached = np.zeros(2), 0
    within = probes.copy()
    within[:, source] = 0.0
    for at in _by_levels(arcs, source, lengths):
        tail, head = arcs.src[at], arcs.dst[at]
        front, place = np.unique(head, return_inverse=True)
        largest = np.full(len(front), np.iinfo(np.int64).min)
        np.maximum.at(largest, place, power[tail])
        share = np.ldexp(paths[tail], np.maximum(power[tail] - largest[place], -(2**20)))
        sums = np.bincount(place, share, len(front))
        for k in (0, 1):
            inside = mean[k, tail] + within[k, tail] + on_edges[k, at]
            mean[k, front] = np.bincount(place, share * inside, len(front)) / sums
        paths[front], more = np.frexp(sums)
        power[front] = largest + more
        total += mean[:, front].sum(axis=1)
        if endpoints:
            total += probes[:, front].sum(axis=1)
            reached += len(front)
    return total + probes[:, source] * reached
