"""Checkers that verify results on NumPy, independently of the algorithms; `WrongAnswer`.

They take results as algorithms return them: vertices are ids or, if points have labels, labels.

Imports ``runtime``, ``data`` and ``graph``.  The checkers are listed here, as nothing
of the algorithms is imported; a test requires a checker for each row of the registry.
"""

from morph.validate.arcs import WrongAnswer
from morph.validate.centrality import betweenness, edge_betweenness, pagerank
from morph.validate.cliques import cliques, max_clique, max_k_plex
from morph.validate.colouring import colouring
from morph.validate.communities import label_propagation, leiden, louvain
from morph.validate.community import community
from morph.validate.densest import densest_subgraph
from morph.validate.flow import max_flow
from morph.validate.forest import connected_components, mst, strongly_connected_components
from morph.validate.independent import maximal_independent_set
from morph.validate.local import core_number, triangle_count
from morph.validate.location import find_simplex
from morph.validate.matching import matching
from morph.validate.order import topological_order
from morph.validate.paths import bellman_ford, bfs, johnson, path, sssp
from morph.validate.sat import implications, model, refuted, satisfied
from morph.validate.store import index
from morph.validate.truss import k_truss, truss_number

__all__ = [
    "WrongAnswer", "bellman_ford", "betweenness", "bfs", "cliques", "colouring", "community",
    "connected_components", "core_number", "densest_subgraph", "edge_betweenness",
    "find_simplex", "implications", "index", "johnson", "k_truss", "label_propagation", "leiden",
    "louvain", "matching", "max_clique", "max_flow", "max_k_plex", "maximal_independent_set",
    "model", "mst", "pagerank", "path", "refuted", "satisfied", "sssp",
    "strongly_connected_components", "topological_order", "triangle_count", "truss_number",
]  # fmt: skip
