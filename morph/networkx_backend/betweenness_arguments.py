"""Arguments of betweenness of nodes and of edges: lengths of edges, and sampled sources."""

from __future__ import annotations

from typing import Any

from morph.graph import Graph
from morph.language.messages import shown
from morph.networkx_backend.converted import Converted, exact


def lengths_graph(G: Converted, weight: Any) -> Graph:
    """Return the graph without parallel edges, of which NetworkX counts the shortest, once.

    Raises
    ------
    NotImplementedError
        If a length is not positive, or so small that it may vanish in the sum of a path: Morph
        then omits the edge, NetworkX does not.
    """
    if weight is not None:
        lengths = exact(G.values(weight), len(G))
        if lengths.size:
            least, most = lengths.min().item(), lengths.max().item()
            vanishes = lengths.dtype.kind == "f" and least * 2.0**50 < most * len(G)
            if least <= 0 or vanishes:
                raise NotImplementedError(f"weight: {least} is not positive, or too small a length")
    return G.graph(weight, simple=True)


def sample(G: Converted, k: int | None, seed: Any) -> list[int] | None:
    """Return the points of ``k`` random nodes, drawn as by NetworkX; None for all."""
    if k is None:
        return None
    chosen = [G.index[v] for v in seed.sample(list(G), k)]
    if not chosen:
        raise NotImplementedError(f"k: {shown(k)} gives no sources")
    return chosen
