"""Building blocks of algorithms: reductions, advance, filter, ordered worklists.

Imports ``prelude``, ``data`` and ``launch``.
"""
