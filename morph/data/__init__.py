"""Columns in growable memory on a device; tables, collections, sets, flags, scalars, formulas.

Imports ``language``, ``compiler.ir.layout`` and ``runtime``.
"""
