"""Checkers of truss numbers and k-trusses."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.language.arguments import integer
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
    given = arcs.host(number, "number")
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
    low, high, keys, first, which = _pairs(arcs, ~loop)
    at = np.flatnonzero(~loop)  # position of each edge that is no loop
    found = truss[at[first]]
    refuse(
        truss[at] != found[which],
        lambda k: (
            f"{arcs.edge(at[k])}, has the truss number {truss[at[k]]}, but a parallel edge has"
            f" {found[which[k]]}"
        ),
    )
    support, sides = _triangles(arcs.n, low, high, keys, found)

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


def k_truss(graph: Graph, edges: Any, k: int) -> None:
    """Check the edges of a k-truss, see `morph.k_truss`.

    Edges in less than ``k - 2`` triangles of the remaining edges are removed until there are none:
    the others must be the given ones.

    Parameters
    ----------
    graph : Graph
    edges : array of int, shape (count,)
        Distinct ids of edges.
    k : int

    Raises
    ------
    WrongAnswer
        Naming an edge.
    """
    arcs = Arcs(graph)
    ids = arcs.host(edges, "edges")
    if ids.dtype.kind not in "iu" or ids.ndim != 1 or len(np.unique(ids)) < len(ids):
        raise WrongAnswer("the edges are not distinct ids")
    k = integer(k, "k")
    if len(strange := np.setdiff1d(ids, arcs.id)):
        raise WrongAnswer(f"edge {strange[0]} is not an edge of the graph")
    apart = arcs.src != arcs.dst
    low, high, keys, _, which = _pairs(arcs, apart)
    support, sides = _triangles(arcs.n, low, high, keys, np.zeros(len(keys), np.int64))
    level = min(k, len(keys) + 3) - 1  # of edges that are removed
    left = _peeled(np.full(len(keys), level), support, sides) if k > 2 else np.ones(len(keys), bool)
    wanted = np.zeros(len(arcs.id), bool)
    wanted[apart] = left[which]
    given = np.isin(arcs.id, ids)
    refuse(given & ~wanted, lambda i: f"{arcs.edge(i)}, is given, but is not in the {k}-truss")
    refuse(wanted & ~given, lambda i: f"{arcs.edge(i)}, is in the {k}-truss, but is not given")


def _pairs(arcs: Arcs, apart: Any) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Group the edges that are not loops, those ``apart``, by pairs of ends.

    Returns
    -------
    low, high : array of int64, shape (m,)
        The ranks of both ends of each pair, by degree; sorted by ``low``, then ``high``.
    keys : array of int64, shape (m,)
        A number of each pair.
    first, which : array of int64
        The first edge of each pair; the pair of each edge.
    """
    degree = np.bincount(arcs.src, minlength=arcs.n) + np.bincount(arcs.dst, minlength=arcs.n)
    rank = np.argsort(np.argsort(degree, kind="stable"))  # fewer wedges at the end of lower rank
    src, dst = rank[arcs.src[apart]], rank[arcs.dst[apart]]
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    keys, first, which = np.unique(
        low * max(arcs.n, 1) + high, return_index=True, return_inverse=True
    )
    return low[first], high[first], keys, first, which


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
