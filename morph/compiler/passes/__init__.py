"""Analyses of the IR, and what follows from them: reservations, work sharing, the `plan`.

Imports ``language`` and ``compiler.ir``.
"""
