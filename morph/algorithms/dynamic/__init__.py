"""Results that are updated when their graph changes: distances, levels, component labels.

Imports public names and ``algorithms.graph``.
"""
