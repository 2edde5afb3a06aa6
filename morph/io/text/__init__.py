"""Numbers and clauses parsed from and formatted as text; compressed files, atomic replacement.

Imports ``language`` and ``runtime.toolchain``.
"""
