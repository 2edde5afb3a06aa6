"""Inputs for benchmarks and tests: random graphs, grids, random k-SAT.

Imports ``language``, ``runtime``, ``data``, ``graph`` and ``launch``.
"""

from morph.generate.formulas import random_ksat
from morph.generate.graphs import GRAPH500, GTGRAPH, geometric, grid, rmat, uniform

__all__ = ["GRAPH500", "GTGRAPH", "geometric", "grid", "random_ksat", "rmat", "uniform"]
