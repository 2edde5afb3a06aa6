"""Formulas in DIMACS CNF, and the output of solvers.

Imports ``io.text``, ``language`` and ``data``.
"""
