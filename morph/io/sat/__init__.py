"""DIMACS CNF and the answers of solvers.

Imports ``io.text`` and ``data``.
"""
