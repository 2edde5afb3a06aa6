"""Typed columns in growable memory on a device; tables, collections, sets, flags, formulas.

Imports ``language``, ``compiler.ir.layout`` and ``runtime``.
"""
