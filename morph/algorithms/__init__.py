"""Algorithms written in Morph's language, a package for each field.

Imports public names; only ``sat`` imports more: ``validate`` and ``runtime.toolchain``.
"""
