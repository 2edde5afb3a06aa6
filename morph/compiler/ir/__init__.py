"""The intermediate representation: nodes, argument layout, checked sites.

Imports ``language``.
"""
