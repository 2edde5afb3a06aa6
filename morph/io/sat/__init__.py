"""Formulas in DIMACS CNF, and the answers of solvers.

Imports ``io.text``, ``language`` and ``data``.
"""
