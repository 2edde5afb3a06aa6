"""Delaunay refinement.

Imports public names and ``algorithms.triangulation``.
"""
