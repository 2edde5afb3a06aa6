"""Numbers and clauses out of text and into it, files replaced atomically.

Imports ``data`` and ``runtime.toolchain``.
"""
