"""Cliques, with NetworkX's interface.

Arguments, results and errors are those of NetworkX's functions of the same names; the order of
nodes, and the choice among several largest cliques, may differ.
"""

from __future__ import annotations

from typing import Any

from morph.algorithms.graph.cliques import max_clique
from morph.language.messages import shown
from morph.networkx_backend.converted import Converted

__all__ = ["max_weight_clique"]


def max_weight_clique(G: Converted, weight: Any = "weight") -> tuple[list[Any], int]:
    """Return the nodes of a largest clique, and their number, without weights."""
    if weight is not None:
        raise NotImplementedError(f"weight: {shown(weight)}: expected None")
    found = max_clique(G.graph())
    return G.nodes[found.points].tolist(), int(found.size)
