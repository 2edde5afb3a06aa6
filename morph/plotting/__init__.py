"""Pictures by matplotlib.

Imports ``mesh`` and ``io.text``.
"""
