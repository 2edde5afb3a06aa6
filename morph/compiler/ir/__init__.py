"""The intermediate representation: nodes, checked sites, layout of the argument block.

Imports ``language``.
"""
