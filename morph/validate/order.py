"""Checker of topological orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.validate.arcs import Arcs, WrongAnswer, refuse


def topological_order(graph: Graph, order: Any, level: Any = None) -> None:
    """Check that every edge leads forwards in an order of the points, and the levels if given.

    Levels are correct if every edge leads to a higher level, and each point of positive level has
    an in-edge from the level below.  O(n + m).

    Parameters
    ----------
    graph : Graph
    order : array of ids or labels, shape (live,)
        Any topological order of the points.
    level : array of int, shape (n,), optional
        The number of edges on the longest path to each point.

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    points = arcs.listed(order)
    live = int(arcs.alive.sum())
    if points.shape != (live,) or points.dtype.kind not in "iu":
        raise WrongAnswer(
            f"order has shape {points.shape} and type {points.dtype}, for {live} vertices"
        )
    points = points.astype(np.int64)
    wrong = (points < 0) | (points >= arcs.n)
    refuse(wrong | ~arcs.alive[np.where(wrong, 0, points)], lambda k: f"{points[k]} is no vertex")
    place = np.full(arcs.n, -1)
    place[points] = np.arange(live)
    refuse(arcs.alive & (place < 0), lambda v: f"{arcs.vertex(v)} is missing from the order")
    refuse(place[arcs.src] >= place[arcs.dst], lambda k: f"{arcs.edge(k)}, leads back in the order")
    if level is not None:
        _check_levels(arcs, arcs.values(level, "level").astype(np.int64))


def _check_levels(arcs: Arcs, level: Any) -> None:
    """Check the lengths of longest paths in an acyclic graph."""
    refuse(arcs.alive & (level < 0), lambda v: f"{arcs.vertex(v)} has the level {level[v]}")
    rise = level[arcs.dst] - level[arcs.src]
    refuse(
        rise < 1,
        lambda k: f"{arcs.edge(k)}, joins the levels {level[arcs.src[k]]}, {level[arcs.dst[k]]}",
    )
    has_reason = level == 0
    has_reason[arcs.dst[rise == 1]] = True
    refuse(
        arcs.alive & ~has_reason,
        lambda v: f"{arcs.vertex(v)} has the level {level[v]}, but no edge from the level before",
    )


__all__ = ["WrongAnswer", "topological_order"]
