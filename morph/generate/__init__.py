"""Generators of random graphs, grids and random k-SAT formulas for benchmarks and tests.

Imports ``language``, ``runtime``, ``data``, ``graph``, ``launch`` and ``partition``.
"""

from morph.generate.formulas import random_ksat
from morph.generate.graphs import GRAPH500, GTGRAPH, geometric, grid, rmat, uniform

__all__ = ["GRAPH500", "GTGRAPH", "geometric", "grid", "random_ksat", "rmat", "uniform"]
