"""Analyses of the IR: reservations, work sharing, liveness, swapped buffers.

Imports ``language`` and ``compiler.ir``.
"""
