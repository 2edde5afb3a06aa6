"""Checkers that verify results on NumPy, independently of the algorithms; `WrongAnswer`.

Imports ``runtime``, ``data`` and ``graph``.
"""

from morph.validate.arcs import WrongAnswer
from morph.validate.centrality import betweenness, pagerank
from morph.validate.cliques import cliques, max_clique
from morph.validate.community import community
from morph.validate.forest import connected_components, mst, strongly_connected_components
from morph.validate.local import core_number, triangle_count
from morph.validate.order import topological_order
from morph.validate.paths import bellman_ford, bfs, johnson, path, sssp
from morph.validate.sat import implications, model, refuted, satisfied
from morph.validate.store import index
from morph.validate.truss import truss_number

__all__ = [
    "WrongAnswer", "bellman_ford", "betweenness", "bfs", "cliques", "community",
    "connected_components", "core_number", "implications", "index", "johnson", "max_clique",
    "model", "mst", "pagerank", "path", "refuted", "satisfied", "sssp",
    "strongly_connected_components", "topological_order", "triangle_count", "truss_number",
]  # fmt: skip
