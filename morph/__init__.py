"""Morph: graph algorithms that change their graph, in parallel on a GPU or on a CPU's cores."""

import logging

from morph import start  # noqa: F401 - before NumPy is imported

# isort: split
import lazy_loader

from morph import providers
from morph.language.imports import uninterrupted
from morph.partition.partition import partition  # noqa: F401 - else the subpackage has the name

__version__ = "0.2.0"
LAZY_MODULES = ("generate", "io", "survey", "validate", "worklists")

# `__init__.pyi` names the module of each public name
_import_name, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name not in LAZY_MODULES]
providers.bind()
logging.getLogger(__name__).addHandler(logging.NullHandler())  # the program decides


def __getattr__(name: str) -> object:
    """Import a public name, or a module of `LAZY_MODULES`, when it is first used."""
    if name not in _names:
        raise AttributeError(f"module 'morph' has no attribute {name!r}")
    found: object = uninterrupted(_import_name, name)
    globals()[name] = found
    return found
