"""Models of formulas: simplification, survey propagation, decimation, local search.

Imports public names, ``validate`` and ``runtime.toolchain`` (its deadline).
"""
