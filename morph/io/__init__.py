"""Reads and writes files of meshes, graphs and formulas, and converts other packages' meshes.

Its packages are ``io.text``, ``io.graph``, ``io.mesh`` and ``io.sat``; `__init__.pyi` names the
module of each public name, which is imported when the name is first used.
"""

from morph.language.imports import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
