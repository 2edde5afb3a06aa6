"""Building blocks of algorithms: reduce, scan, sort, advance, filter, edge map, bucket queues.

Imports ``prelude``, ``runtime``, ``data`` and ``launch``.
"""
