"""From Python's syntax tree to the IR: checking, specialisation, programs.

Imports ``language`` and ``compiler.ir``, ``compiler.passes``.
"""
