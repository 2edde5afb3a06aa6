"""Matchings, with NetworkX's interface; of several maximal matchings, another may be found."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.algorithms.graph.matching import matching
from morph.networkx_backend.converted import Converted

__all__ = ["maximal_matching"]


def maximal_matching(G: Converted) -> set[tuple[Any, Any]]:
    """Return the edges of a maximal matching."""
    partner = G.host(matching(G.graph()).partner)
    first = np.flatnonzero(partner > np.arange(len(G)))  # each edge once
    ends = (G.nodes[points].tolist() for points in (first, partner[first]))
    return set(zip(*ends, strict=True))
