"""Checker of colourings."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.validate.arcs import Arcs, refuse


def colouring(graph: Graph, color: Any) -> None:
    """Check a greedy colouring; directions and self-loops are ignored.

    Colours are at least 0, the two ends of an edge have different colours, and each point has the
    smallest colour that none of its neighbours has among the lower ones: a point of colour k has
    neighbours of all colours below k.

    Parameters
    ----------
    graph : Graph
    color : array of int, shape (n,)

    Raises
    ------
    WrongAnswer
        Naming an edge or a vertex.
    """
    arcs = Arcs(graph)
    found = arcs.values(color, "color").astype(np.int64)
    refuse(arcs.alive & (found < 0), lambda v: f"{arcs.vertex(v)} has the colour {found[v]}")
    apart = arcs.src != arcs.dst
    refuse(
        apart & (found[arcs.src] == found[arcs.dst]),
        lambda k: f"{arcs.edge(k)}, joins two vertices of colour {found[arcs.src[k]]}",
    )
    src, dst = arcs.src[apart], arcs.dst[apart]
    src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    lower = found[dst] < found[src]
    pairs = np.unique(np.stack([src[lower], found[dst[lower]]]), axis=1)
    count = np.bincount(pairs[0], minlength=arcs.n)
    refuse(
        arcs.alive & (count != found),
        lambda v: (
            f"{arcs.vertex(v)} has the colour {found[v]}, but its neighbours only {count[v]} below"
            " it"
        ),
    )
