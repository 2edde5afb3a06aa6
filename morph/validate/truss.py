"""Checker of truss numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.validate.arcs import Arcs, Ints, WrongAnswer, grouped, refuse, rows

PIECE = 1 << 22  # wedges (paths of two edges) tested at once


def truss_number(graph: Graph, number: Any) -> None:
    """Check truss numbers, with edges as in `morph.truss_number`.

    Upper bound: every edge of truss number k is in k - 2 triangles whose edges have truss numbers
    of at least k.  Lower bound: for each k, the edges of truss number k can be peeled, i.e. edges
    in at most k - 2 remaining triangles can be removed until none is left.  All values of k are
    checked at once, in time and memory proportional to the number of triangles.

    Parameters
    ----------
    graph : Graph
    number : array of int, shape (m,)
        Indexed by edge id; values of deleted edges are ignored.

    Raises
    ------
    WrongAnswer
        Naming an edge.
    """
    arcs = Arcs(graph)
    given = np.asarray(graph.device.to_host(number))
    if given.shape != (len(graph.edges),) or given.dtype.kind not in "iu":
        raise WrongAnswer(
            f"number has shape {given.shape} and type {given.dtype}, for a graph of"
            f" {len(graph.edges)} edges"
        )
    truss = given[arcs.id].astype(np.int64)
    loop = arcs.src == arcs.dst
    refuse(
        np.where(loop, truss != -1, truss < 2),
        lambda k: f"{arcs.edge(k)}, has the truss number {truss[k]}",
    )
    degree = np.bincount(arcs.src, minlength=arcs.n) + np.bincount(arcs.dst, minlength=arcs.n)
    rank = np.argsort(np.argsort(degree, kind="stable"))  # fewer wedges at the end of lower rank
    src, dst = rank[arcs.src[~loop]], rank[arcs.dst[~loop]]
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    keys, first, which = np.unique(
        low * max(arcs.n, 1) + high, return_index=True, return_inverse=True
    )
    at = np.flatnonzero(~loop)  # position of each edge that is no loop
    found = truss[at[first]]
    refuse(
        truss[at] != found[which],
        lambda k: (
            f"{arcs.edge(at[k])}, has the truss number {truss[at[k]]}, but a parallel edge has"
            f" {found[which[k]]}"
        ),
    )
    support, sides = _triangles(arcs.n, low[first], high[first], keys, found)

    def named(k: int) -> str:
        return f"{arcs.edge(at[first[k]])}, has the truss number {found[k]}"

    refuse(
        support < found - 2,
        lambda k: (
            f"{named(k)}, but is in {support[k]} triangles of edges of that number or more only"
        ),
    )
    left = _peeled(found, support, sides)
    refuse(left, lambda k: f"{named(k)}, but is in a truss of more")


def _triangles(n: int, low: Ints, high: Ints, keys: Ints, found: Ints) -> tuple[Ints, Ints]:
    """Count, for each pair, the triangles whose pairs have at least its truss number.

    Returns
    -------
    support : array of int64, shape (m,)
    sides : array of int64, shape (count, 3)
        The pairs of each triangle in which the least truss number occurs at least twice.
    """
    support, kept = np.zeros(len(low), np.int64), [np.zeros((0, 3), np.int64)]
    offsets = np.searchsorted(low, np.arange(n + 1))  # pairs are sorted by their lower ends
    wedges = offsets[low + 1] - np.arange(len(low)) - 1  # with the later pairs of the same row
    ends = np.cumsum(wedges)
    begin = 0
    while begin < len(low):
        done = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, done + PIECE, "right")), begin + 1)
        count = wedges[begin:end]
        one = np.repeat(np.arange(begin, end), count)
        two = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(count) - count, count)
        closing = high[one] * n + high[two]
        three = np.minimum(np.searchsorted(keys, closing), len(keys) - 1)
        closed = keys[three] == closing
        sides = np.stack([one, two, three], axis=1)[closed]
        numbers = found[sides]
        equal = numbers == numbers.min(axis=1, keepdims=True)
        np.add.at(support, sides[equal], 1)
        kept.append(sides[equal.sum(axis=1) > 1])
        begin = end
    return support, np.concatenate(kept)


def _peeled(found: Ints, support: Ints, sides: Ints) -> Any:
    """Peel pairs of truss number k in at most k - 2 triangles; returns which remain."""
    triangles = np.repeat(np.arange(len(sides)), 3)
    offsets, of = grouped(len(found), sides.ravel(), triangles)
    least = found[sides].min(axis=1) if len(sides) else np.zeros(0, np.int64)
    whole, left, support = np.ones(len(sides), bool), np.ones(len(found), bool), support.copy()
    front = np.flatnonzero(support <= found - 2)
    while front.size:
        left[front] = False
        hit = np.unique(of[rows(offsets, front)])
        # only the removal of a pair with the least truss number destroys a triangle
        hit = hit[whole[hit] & (~left[sides[hit]] & (found[sides[hit]] == least[hit, None])).any(1)]
        whole[hit] = False
        others = sides[hit]
        fewer = others[left[others] & (found[others] == least[hit, None])]
        np.subtract.at(support, fewer, 1)
        fewer = np.unique(fewer)
        front = fewer[support[fewer] <= found[fewer] - 2]
    return left
