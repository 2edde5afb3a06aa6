"""The parsed definition of a decorated function, before specialisation."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType
from typing import Any

from morph.language.errors import reject
from morph.language.intrinsics import name_of, static
from morph.language.source import Source, read
from morph.language.weak import WeakMap


def static_params(function: Any) -> tuple[int, ...]:
    """The positions of a function's parameters that are annotated ``static``."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    notes = (function.__annotations__.get(n) for n in names)
    return tuple(i for i, note in enumerate(notes) if _is_static(note, function.__globals__))


def _is_static(annotation: Any, names: dict[str, Any]) -> bool:
    """Whether an annotation is `static`; annotations may be strings."""
    if not isinstance(annotation, str):
        return annotation is static
    return annotation.rpartition(".")[2] == "static" or names.get(annotation) is static


@dataclass(frozen=True, eq=False)
class Definition:
    """A ``kernel``, ``func``, ``program`` or ``where``: its source, and C++ if written by hand."""

    kind: str
    source: Source
    cpp: str | None = None
    part: int | None = None  # index of a part of a kernel divided by `barrier()`

    def __post_init__(self) -> None:
        if self.kind == "kernel" and not self.source.params:
            pos = self.source.pos(self.source.tree)
            reject(f"{self.name!r} has no parameter", pos, "the first one of a kernel is its item")

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.source.name

    @cached_property
    def stored(self) -> frozenset[str]:
        """The names that some statement assigns."""
        names = (n for n in ast.walk(self.source.tree) if isinstance(n, ast.Name))
        return frozenset(n.id for n in names if isinstance(n.ctx, ast.Store))

    @cached_property
    def barriers(self) -> tuple[ast.Call, ...]:
        """The calls of ``barrier()`` at the top level of a kernel."""
        if self.kind != "kernel":
            return ()
        body = getattr(self.source.tree, "body", ())
        calls = (s.value for s in body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call))
        return tuple(c for c in calls if name_of(self.source.named(c.func)) == "barrier")

    @cached_property
    def parts(self) -> tuple[Definition, ...]:
        """The parts of a kernel divided by ``barrier()``; none for other kernels."""
        if self.part is not None or not self.barriers:
            return ()
        return tuple(replace(self, part=i) for i in range(len(self.barriers) + 1))

    def takes(self, count: int) -> bool:
        """Whether it can be called with ``count`` arguments."""
        least = len(self.source.params)
        return count >= least if self.source.more else count == least

    def number(self, first: int = 0) -> str:
        """The number of arguments for the parameters from ``first`` on, for a message."""
        return f"{'at least ' if self.source.more else ''}{len(self.source.params) - first}"


def definition_of(obj: Any) -> Definition | None:
    """The definition of a decorated function, or None."""
    found = getattr(obj, "definition", None)
    return found if isinstance(found, Definition) else None


_filters: WeakMap[CodeType, Definition] = WeakMap()


def filter_of(where: Any) -> Definition:
    """The definition of a filter; parsed once for each place in the text."""
    if made := definition_of(where):
        return made
    code = where.__code__
    found = _filters.get(code)
    if found is None:
        found = _filters.setdefault(code, Definition("where", read(where)))
    if found.source.function is not where:
        found = replace(found, source=replace(found.source, function=where))
    return found
