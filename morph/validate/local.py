"""Checkers of core numbers and triangle counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.language.arguments import integer
from morph.language.messages import shown
from morph.validate.arcs import Arcs, Ints, WrongAnswer, grouped, refuse, rows


def core_number(graph: Graph, core: Any) -> None:
    """Check core numbers, with edges as in `morph.core_number`.

    Upper bound: every point of core number k has at least k edges to points of core number at
    least k.  Lower bound: for each k, the points of core number k can be peeled, i.e. points with
    at most k edges to the remaining points can be removed until none is left.  All values of k are
    checked at once: O(n + m).

    Parameters
    ----------
    graph : Graph
    core : array of int, shape (n,)

    Raises
    ------
    WrongAnswer
        Naming a vertex.
    """
    arcs = Arcs(graph)
    found = arcs.values(core, "core").astype(np.int64)
    refuse(arcs.alive & (found < 0), lambda v: f"{arcs.vertex(v)} has the core number {found[v]}")
    src, dst = arcs.src, arcs.dst
    if graph.directed:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    apart = src != dst
    src, dst = src[apart], dst[apart]
    support = np.bincount(src[found[dst] >= found[src]], minlength=arcs.n)
    refuse(
        arcs.alive & (support < found),
        lambda v: (
            f"{arcs.vertex(v)} has the core number {found[v]}, but only {support[v]} edges to"
            " vertices of that or more"
        ),
    )
    level = found[src] == found[dst]
    offsets, heads = grouped(arcs.n, src[level], dst[level])
    left, removed = support, ~arcs.alive
    front = np.flatnonzero(~removed & (left <= found))
    while front.size:
        removed[front] = True
        hit = heads[rows(offsets, front)]
        np.subtract.at(left, hit, 1)
        hit = np.unique(hit)
        front = hit[~removed[hit] & (left[hit] <= found[hit])]
    refuse(
        ~removed,
        lambda v: (
            f"{arcs.vertex(v)} has the core number {found[v]}, but lies in a part of which each has"
            " more edges than that"
        ),
    )


def triangle_count(
    graph: Graph, triangles: Any, total: int | None = None, *, sample: int = 256, seed: int = 0
) -> None:
    """Check the number of triangles at each point.

    The sum is three times the total, no count exceeds the number of pairs of neighbours, and the
    triangles at a sample of points are recounted from the edges among their neighbours.  A single
    wrong value is certain to be detected only if all points are in the sample, or if it changes
    the sum.

    Parameters
    ----------
    graph : Graph
    triangles : array of int, shape (n,)
    total : int, optional
    sample : int
        Number of points to recount, drawn with ``seed``.

    Raises
    ------
    WrongAnswer
        Naming a vertex, or the sum.
    """
    arcs = Arcs(graph)
    found = arcs.values(triangles, "triangles").astype(np.int64)
    offsets, heads = _neighbours(arcs)
    degree = offsets[1:] - offsets[:-1]
    most = degree * (degree - 1) // 2
    refuse(
        (found < 0) | (found > most),
        lambda v: f"{arcs.vertex(v)} has {found[v]} triangles, with {degree[v]} neighbours",
    )
    whole = int(found.sum())
    total = None if total is None else integer(total, "total")
    if whole % 3 or (total is not None and whole != 3 * total):
        of = "a multiple of 3" if total is None else f"three times {shown(total)}"
        raise WrongAnswer(f"triangles have the sum {whole}, which is not {of}")
    points = np.arange(arcs.n)
    if sample < arcs.n:
        points = np.random.default_rng(seed).choice(arcs.n, sample, replace=False)
    near = np.zeros(arcs.n, bool)
    for v in points.tolist():
        own = heads[offsets[v] : offsets[v + 1]]
        near[own] = True
        count = int(near[heads[rows(offsets, own)]].sum()) // 2
        near[own] = False
        if count != found[v]:
            raise WrongAnswer(
                f"{arcs.vertex(v)} has {found[v]} triangles, but {count} were counted there"
            )


def _neighbours(arcs: Arcs) -> tuple[Ints, Ints]:
    """Return the neighbours of each point, without repetition, as offsets and ids."""
    low, high = np.minimum(arcs.src, arcs.dst), np.maximum(arcs.src, arcs.dst)
    keys = np.sort((low * arcs.n + high)[low != high])
    keys = keys[np.r_[True, keys[1:] != keys[:-1]]] if keys.size else keys
    low, high = keys // max(arcs.n, 1), keys % max(arcs.n, 1)
    return grouped(arcs.n, np.concatenate([low, high]), np.concatenate([high, low]))
