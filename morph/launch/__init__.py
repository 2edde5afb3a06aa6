"""Decorators, ``foreach`` and ``sections``: binds calls, launches them, grows full stores.

Imports ``language``, ``compiler``, ``runtime``, ``data`` and ``graph``.
"""
