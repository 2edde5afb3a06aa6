"""Mesh files: Triangle's formats, and others by meshio.

Imports ``io.text``, ``language`` and ``mesh``.
"""
