"""The python device: the IR run item by item on NumPy's arrays.

Imports ``compiler.ir`` and ``data``.
"""
