"""Graph algorithms.

Imports public names only.
"""
