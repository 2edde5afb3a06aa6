"""Bundles: named tuples as arguments; each field becomes a separate parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from morph.language.evaluation import evaluated

Flatten = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def is_bundle(kind: type) -> bool:
    """Whether objects of a type are named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def flat(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with bundles replaced by their fields, recursively."""
    found: list[Any] = []
    for a in args:
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            found += flat(a)
        else:
            found.append(a)
    return tuple(found)


def flattener(types: Sequence[type]) -> Flatten:
    """Return a function that replaces bundles by fields, not recursively, for some types."""
    parts = (f"*a[{i}], " if is_bundle(t) else f"a[{i}], " for i, t in enumerate(types))
    made: Flatten = evaluated(f"lambda a: ({''.join(parts)})", {})
    return made


def flat_names(names: Sequence[str], args: Sequence[Any]) -> tuple[str, ...]:
    """The names of the parameters of ``flat(args)``."""
    found: list[str] = []
    for name, a in zip(names, args, strict=True):
        if is_bundle(type(a)):
            found += flat_names([field_name(name, f) for f in a._fields], a)
        else:
            found.append(name)
    return tuple(found)


def more_fields(name: str, count: int) -> tuple[str, ...]:
    """The fields of the bundle of a parameter ``*name`` with ``count`` arguments."""
    return tuple(f"{name.strip('_') or 'more'}{i}" for i in range(count))


def own_name(name: str) -> str:
    """The name of a parameter, or of its field."""
    if not name.endswith("_") or name.endswith("__"):
        return name
    return name[:-1].rpartition("__")[2].lstrip("0123456789")


def field_name(name: str, field: str) -> str:
    """The name of the parameter for a field; only such names end in one underscore.

    It contains the number of trailing underscores of ``field``, if there are any.
    """
    stem = field.rstrip("_")
    return f"{name}__{len(field) - len(stem) or ''}{stem}_"
