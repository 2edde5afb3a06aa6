"""Numbers and clauses parsed from and formatted as text; compressed files, atomic replacement.

Imports ``language``, ``runtime.threads`` and ``runtime.toolchain``.
"""
