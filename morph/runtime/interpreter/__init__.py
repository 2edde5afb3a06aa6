"""The ``python`` device: interprets the IR item by item on NumPy arrays.

Imports ``language`` and ``compiler.ir``; independent of codegen.
"""
