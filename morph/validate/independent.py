"""Checker of maximal independent sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.validate.arcs import Arcs, refuse


def maximal_independent_set(graph: Graph, selected: Any) -> None:
    """Check a maximal independent set; directions and self-loops are ignored.

    No edge joins two selected points, and each point that is not selected has a selected
    neighbour: O(n + m).

    Parameters
    ----------
    graph : Graph
    selected : array of bool, shape (n,)

    Raises
    ------
    WrongAnswer
        Naming an edge or a vertex.
    """
    arcs = Arcs(graph)
    chosen = arcs.values(selected, "selected", "b")
    src, dst = chosen[arcs.src], chosen[arcs.dst]
    refuse(
        src & dst & (arcs.src != arcs.dst),
        lambda k: f"{arcs.edge(k)}, joins two selected vertices",
    )
    covered = chosen.copy()
    covered[arcs.src[dst]] = True
    covered[arcs.dst[src]] = True
    refuse(
        arcs.alive & ~np.asarray(covered),
        lambda v: f"{arcs.vertex(v)} is not selected, but none of its neighbours is",
    )
