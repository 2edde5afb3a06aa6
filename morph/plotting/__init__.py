"""Plots of meshes and of the course of a decimation by matplotlib; fine meshes as pixels.

Imports ``language``, ``mesh`` and ``io.text``.
"""
