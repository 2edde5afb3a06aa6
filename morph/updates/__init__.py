"""Batches of edge changes: checked, resolved, applied by a program or on the host.

Imports ``graph``, ``launch`` and below.
"""
