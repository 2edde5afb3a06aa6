"""Whether an answer is right, told by other means than those that found it.

Each checker takes a graph or a formula and the arrays of an answer, from Morph or from elsewhere,
on any device; it runs on NumPy on the host, shares nothing with the algorithms, and raises
`WrongAnswer`, naming a vertex, an edge or a clause, at the first rule that is broken.
"""

from morph.validate.arcs import WrongAnswer
from morph.validate.centrality import betweenness, pagerank
from morph.validate.forest import connected_components, mst
from morph.validate.local import core_number, triangle_count
from morph.validate.paths import bfs, sssp
from morph.validate.sat import implications, model, refuted, satisfied
from morph.validate.store import index

__all__ = [
    "WrongAnswer", "betweenness", "bfs", "connected_components", "core_number", "implications",
    "index", "model", "mst", "pagerank", "refuted", "satisfied", "sssp", "triangle_count",
]  # fmt: skip
