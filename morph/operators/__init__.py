"""What algorithms are made of: reductions, advance, filter, ordered worklists.

Imports ``prelude``, ``data`` and ``launch``.
"""
