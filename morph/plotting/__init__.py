"""Plots of meshes and of the course of a decimation by matplotlib; PNG files of raster images.

Imports ``language``, ``mesh`` and ``io.text``.
"""
