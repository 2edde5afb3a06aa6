"""Functions called by name; the first call imports their module.

A layer declares a hook for a function of a higher layer (the reader of `Mesh.read`), which
`morph.providers` binds; or for a function of the same layer that ``import morph`` need not load,
such as the compiler or the class of a device, which the declaration names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from morph.language.imports import import_uninterrupted

Result = TypeVar("Result")


class Hook(Generic[Result]):
    """A function named ``"module:function"``."""

    __slots__ = ("function", "module", "names")

    def __init__(self, provider: str = "") -> None:
        self.names: dict[str, Any] | None = None  # of the module, once it is imported
        self.bind(provider)

    def bind(self, provider: str) -> None:
        """Name the provider: ``"module:function"``."""
        self.module, _, self.function = provider.partition(":")

    def provider(self) -> Callable[..., Result]:
        """Return the provider, looked up in its module."""
        module = import_uninterrupted(self.module)
        found: Callable[..., Result] = getattr(module, self.function)  # which may import it
        self.names = vars(module)
        return found

    def __call__(self, *args: Any, **options: Any) -> Result:
        """Call the provider."""
        if self.names is None:
            return self.provider()(*args, **options)
        result: Result = self.names[self.function](*args, **options)
        return result
