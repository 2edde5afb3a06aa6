"""Mesh files of Triangle and, by meshio, of others.

Imports ``io.text``, ``language`` and ``mesh``.
"""
