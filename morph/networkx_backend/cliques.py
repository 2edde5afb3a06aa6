"""Cliques, with NetworkX's interface.

Arguments, results and errors are those of NetworkX's functions of the same names; the order of
cliques and of their nodes, and the choice among several largest cliques, may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from morph.algorithms.graph.cliques import cliques
from morph.algorithms.graph.cliques import max_clique as find_largest
from morph.language.messages import shown
from morph.networkx_backend.converted import Converted

__all__ = ["find_cliques", "max_weight_clique"]


def find_cliques(G: Converted, nodes: Any = None) -> Iterator[list[Any]]:
    """Generate the lists of nodes of the maximal cliques."""
    if nodes is not None:
        raise NotImplementedError(f"nodes: {shown(nodes)}: expected None")
    return (G.nodes[points].tolist() for points in cliques(G.graph()))


def max_weight_clique(G: Converted, weight: Any = "weight") -> tuple[list[Any], int]:
    """Return the nodes of a largest clique, and their number, without weights."""
    if weight is not None:
        raise NotImplementedError(f"weight: {shown(weight)}: expected None")
    found = find_largest(G.graph())
    return G.nodes[found.points].tolist(), int(found.size)
