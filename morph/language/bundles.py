"""Bundles: named tuples as arguments, each field of which is a parameter of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def is_bundle(kind: type) -> bool:
    """Whether objects of a type are named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def flat(args: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments with the fields of bundles in the places of these, at all depths."""
    found: list[Any] = []
    for a in args:
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            found += flat(a)
        else:
            found.append(a)
    return tuple(found)


def flat_names(names: Sequence[str], args: Sequence[Any]) -> tuple[str, ...]:
    """The names of the parameters that ``flat(args)`` are given to."""
    found: list[str] = []
    for name, a in zip(names, args, strict=True):
        if is_bundle(type(a)):
            found += flat_names([field_name(name, f) for f in a._fields], a)
        else:
            found.append(name)
    return tuple(found)


def field_name(name: str, field: str) -> str:
    """The name of the parameter that holds a field: no name of a user ends in one underscore."""
    return f"{name}__{field}_"
