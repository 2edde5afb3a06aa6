"""Subgraphs of cores and trusses, with NetworkX's interface.

Arguments, results and errors are those of NetworkX's functions of the same names.  Decorators of
NetworkX reject multigraphs before these functions are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx

from morph.algorithms.graph.truss import k_truss as find_truss
from morph.networkx_backend.converted import Converted
from morph.networkx_backend.structure import core_number as find_cores

__all__ = ["k_core", "k_corona", "k_crust", "k_shell", "k_truss"]

Core = dict[Any, Any]


def _induced(
    G: Converted, core: Core | None, k: Any, below: int, keep: Callable[[Any, Any, Core], bool]
) -> Any:
    """Return the subgraph of the nodes to keep; ``k`` is by default the largest less ``below``."""
    if core is None:
        core = find_cores(G)
    if k is None:
        k = max(core.values()) - below
    return G.original.subgraph([v for v in core if keep(v, k, core)]).copy()


def k_core(G: Converted, k: Any = None, core_number: Core | None = None) -> Any:
    """Return the subgraph of the nodes with core numbers from ``k`` on, with all attributes."""
    return _induced(G, core_number, k, 0, lambda v, k, core: core[v] >= k)


def k_shell(G: Converted, k: Any = None, core_number: Core | None = None) -> Any:
    """Return the subgraph of the nodes with core number ``k``, with all attributes."""
    return _induced(G, core_number, k, 0, lambda v, k, core: core[v] == k)


def k_crust(G: Converted, k: Any = None, core_number: Core | None = None) -> Any:
    """Return the subgraph of the nodes with core numbers up to ``k``, with all attributes."""
    return _induced(G, core_number, k, 1, lambda v, k, core: core[v] <= k)


def k_corona(G: Converted, k: Any, core_number: Core | None = None) -> Any:
    """Return the subgraph of the nodes of the k-core with exactly ``k`` neighbors in the k-core."""
    near = G.original.adj
    return _induced(
        G, core_number, k, 0,
        lambda v, k, core: core[v] == k and k == sum(core[w] >= k for w in near[v]),
    )  # fmt: skip


def k_truss(G: Converted, k: Any) -> Any:
    """Return the subgraph of the edges in ``k - 2`` or more of its triangles."""
    G.require_no_loops()
    src, dst = G.arcs
    dropped = src < dst
    try:
        dropped[G.host(find_truss(G.graph(), k).edges)] = False
    except (TypeError, ValueError) as error:  # k is no integer, or negative
        raise NotImplementedError(str(error)) from error
    H = G.original.copy()
    ends = (G.nodes[x[dropped]].tolist() for x in (src, dst))
    H.remove_edges_from(zip(*ends, strict=True))
    H.remove_nodes_from(list(nx.isolates(H)))
    return H
