"""Constrained Delaunay triangulation.

Imports public names only.
"""
