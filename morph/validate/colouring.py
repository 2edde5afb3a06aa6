"""The checker of colourings."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.validate.arcs import Arcs, refuse


def colouring(graph: Graph, color: Any) -> None:
    """Check a colouring; directions, and edges from a point to itself, are ignored.

    Points have colours from 0 on, the ends of an edge different ones, and each point has the
    smallest colour that its neighbours leave: a point of colour k has neighbours of all below k.

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
    refuse(arcs.alive & (found < 0), lambda v: f"vertex {v} has the colour {found[v]}")
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
            f"vertex {v} has the colour {found[v]}, but its neighbours only {count[v]} below it"
        ),
    )
