"""Decorators, ``foreach``, ``sections``: from a call to a launch; compilation, full stores.

Imports ``language``, ``compiler``, ``runtime``, ``data`` and ``graph``.
"""
