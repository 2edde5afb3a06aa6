"""Morph: graph algorithms that change their graph, in parallel on a GPU or on a CPU's cores."""

from morph import start  # noqa: F401 - a GPU starts while the rest is imported

# isort: split
import logging

from morph import providers
from morph.language.imports import attach
from morph.partition.partition import partition  # noqa: F401 - else the subpackage has the name

__version__ = "0.2.0"
LAZY_MODULES = ("generate", "io", "survey", "validate", "worklists")

# a public name, or a module of `LAZY_MODULES`, is imported when it is first used
__getattr__, __dir__, _names = attach(__name__, __file__)
__all__ = [name for name in _names if name not in LAZY_MODULES]
providers.bind()
logging.getLogger(__name__).addHandler(logging.NullHandler())  # the program decides
