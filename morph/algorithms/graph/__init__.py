"""Graph algorithms: traversal, shortest paths, components, spanning forests, centrality.

Imports public names only.
"""
