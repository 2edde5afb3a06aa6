"""Typed columns in growable memory on a device; tables, collections, sets, flags, formulas.

Imports ``language`` and ``runtime``.
"""
