"""Constrained Delaunay triangulation, and the tables that hold a mesh.

Imports public names and one function of ``algorithms.refinement``, which imports this package.
"""
