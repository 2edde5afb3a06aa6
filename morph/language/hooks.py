"""Functions that a layer calls and a higher layer provides, such as the reader behind `Mesh.read`.

The layer declares a hook; `morph.providers` names its provider, whose module is imported at the
first call.
"""

from __future__ import annotations

import importlib
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Hook(Generic[Result]):
    """A function that a higher layer provides."""

    __slots__ = ("function", "module", "names")

    def __init__(self) -> None:
        self.module = self.function = ""
        self.names: dict[str, Any] | None = None  # of the module, once it is imported

    def bind(self, provider: str) -> None:
        """Name the provider: ``"module:function"``."""
        self.module, _, self.function = provider.partition(":")

    def __call__(self, *args: Any, **options: Any) -> Result:
        """Call the provider."""
        if self.names is None:
            self.names = vars(importlib.import_module(self.module))
        result: Result = self.names[self.function](*args, **options)
        return result
