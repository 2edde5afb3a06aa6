"""Delaunay refinement of meshes.

Imports public names and ``algorithms.triangulation``.
"""
