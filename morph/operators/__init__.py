"""What algorithms are made of: reductions, advance, filter, ordered worklists.

Imports ``language``, ``data`` and ``launch``.
"""
