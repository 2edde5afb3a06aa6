"""Batches of edge changes: checked, resolved, applied in place by a program or on the host.

Imports ``prelude``, ``language``, ``runtime``, ``data``, ``graph`` and ``launch``.
"""
