"""From Python's syntax tree to the IR: types, specialisation, reservations, programs.

Imports ``language``, ``compiler.ir`` and ``compiler.passes``.
"""
