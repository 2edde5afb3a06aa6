"""Translates Python's syntax tree to the IR: types, specialisation, programs.

Imports ``language``, ``compiler.ir`` and ``compiler.passes``.
"""
