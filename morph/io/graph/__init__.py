"""Graph files, snapshots and journals.

Imports ``io.text``, ``data``, ``graph`` and ``updates``.
"""
