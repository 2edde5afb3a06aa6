"""Analyses of the IR, and the `plan` that they make: every decision about a unit's text.

Imports ``language`` and ``compiler.ir``.
"""
