"""The intermediate representation: nodes and traits, checked sites, layouts of arrays.

Imports ``language``.
"""
