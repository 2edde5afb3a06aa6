"""Algorithms that follow a changing graph.

Imports public names and ``algorithms.graph``.
"""
