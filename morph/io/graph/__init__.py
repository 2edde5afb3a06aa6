"""Graph files, edge updates, snapshots and journals.

Imports ``io.text``, ``language``, ``runtime``, ``data``, ``graph``, ``partition`` and ``updates``.
"""
