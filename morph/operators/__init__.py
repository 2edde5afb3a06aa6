"""Building blocks of algorithms: reduce, scan, sort, compact, advance, filter, ordered worklists.

Imports ``prelude``, ``runtime``, ``data`` and ``launch``.
"""
