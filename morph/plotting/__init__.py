"""Plots of meshes and of decimations by matplotlib; fine meshes are rasterised.

Imports ``language``, ``mesh`` and ``io.text``.
"""
