"""Passes over the IR: reservations, inlining, work sharing, barriers, conflicts, the `plan`.

Imports ``language`` and ``compiler.ir``.
"""
