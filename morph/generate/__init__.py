"""Inputs to try things on: random graphs and grids, random k-SAT."""

from morph.generate.formulas import random_ksat
from morph.generate.graphs import GRAPH500, GTGRAPH, geometric, grid, rmat, uniform

__all__ = ["GRAPH500", "GTGRAPH", "geometric", "grid", "random_ksat", "rmat", "uniform"]
