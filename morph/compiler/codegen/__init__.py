"""Prints an analysed unit as C++.

Imports ``language``, ``compiler.ir`` and ``compiler.passes``.
"""
