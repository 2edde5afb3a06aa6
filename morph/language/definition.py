"""What a decorator keeps of a function until it is specialised."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

from morph.language.intrinsics import static
from morph.language.source import Source, read


def static_params(function: Any) -> tuple[int, ...]:
    """The positions of a function's parameters that are annotated ``static``."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    notes = (function.__annotations__.get(n) for n in names)
    return tuple(i for i, note in enumerate(notes) if _is_static(note, function.__globals__))


def _is_static(annotation: Any, names: dict[str, Any]) -> bool:
    """Whether an annotation is `static`; annotations may be kept as text."""
    if not isinstance(annotation, str):
        return annotation is static
    return annotation.rpartition(".")[2] == "static" or names.get(annotation) is static


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A ``kernel``, ``func``, ``program`` or ``where``: its source, and C++ if written by hand."""

    kind: str
    source: Source
    cpp: str | None = None

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.source.name

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        least = len(self.source.params)
        return count >= least if self.source.more else count == least

    def number(self, first: int = 0) -> str:
        """The number of arguments that it takes from parameter ``first`` on, for a message."""
        return f"{'at least ' if self.source.more else ''}{len(self.source.params) - first}"


def definition_of(obj: Any) -> Definition | None:
    """The definition behind a decorated function."""
    found = getattr(obj, "definition", None)
    return found if isinstance(found, Definition) else None


_filters: weakref.WeakKeyDictionary[Any, Definition] = weakref.WeakKeyDictionary()


def filter_of(where: Any) -> Definition:
    """The definition of a filter; parsed once for all lambdas of one place in the text."""
    if made := definition_of(where):
        return made
    code = where.__code__
    if code not in _filters:
        _filters[code] = Definition("where", read(where))
    found = _filters[code]
    if found.source.function is not where:
        found = replace(found, source=replace(found.source, function=where))
    return found
