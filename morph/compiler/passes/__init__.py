"""Analyses of the IR, and what follows from them: reservations, work sharing, plans.

Imports ``language`` and ``compiler.ir``.
"""
