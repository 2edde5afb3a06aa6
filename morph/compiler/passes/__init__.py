"""Analyses of the IR: work sharing, liveness, buffers that are swapped.

Imports ``language`` and ``compiler.ir``.
"""
