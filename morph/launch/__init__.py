"""Decorators and ``foreach``: from a call to a launch, with specialisation and overflow handling.

Imports ``language``, ``compiler``, ``runtime``, ``data`` and ``graph``.
"""
