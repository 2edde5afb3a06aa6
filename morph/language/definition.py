"""What a decorator keeps of a function until it is specialised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from morph.language.source import Source


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


def definition_of(obj: Any) -> Definition | None:
    """The definition behind a decorated function."""
    found = getattr(obj, "definition", None)
    return found if isinstance(found, Definition) else None
