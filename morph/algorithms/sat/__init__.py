"""Models of formulas: simplification, survey propagation, local search.

Imports public names, ``validate`` and ``runtime.toolchain``.
"""
