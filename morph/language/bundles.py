"""Bundles: named tuples as arguments, each field of which is a parameter of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from morph.language.evaluation import evaluated

Flatten = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def is_bundle(kind: type) -> bool:
    """Whether objects of a type are named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def flat(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with the fields of bundles in the places of these, at all depths."""
    found: list[Any] = []
    for a in args:
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            found += flat(a)
        else:
            found.append(a)
    return tuple(found)


def flattener(types: Sequence[type]) -> Flatten:
    """Give what puts fields in the places of bundles, at one depth, of arguments of some types."""
    parts = (f"*a[{i}], " if is_bundle(t) else f"a[{i}], " for i, t in enumerate(types))
    made: Flatten = evaluated(f"lambda a: ({''.join(parts)})", {})
    return made


def flat_names(names: Sequence[str], args: Sequence[Any]) -> tuple[str, ...]:
    """The names of the parameters that ``flat(args)`` are given to."""
    found: list[str] = []
    for name, a in zip(names, args, strict=True):
        if is_bundle(type(a)):
            found += flat_names([field_name(name, f) for f in a._fields], a)
        else:
            found.append(name)
    return tuple(found)


def more_fields(name: str, count: int) -> tuple[str, ...]:
    """The fields of the bundle that a parameter ``*name`` is, of so many arguments."""
    return tuple(f"{name.strip('_') or 'more'}{i}" for i in range(count))


def own_name(name: str) -> str:
    """The name of a parameter, or of the field that it holds."""
    if not name.endswith("_") or name.endswith("__"):
        return name
    return name[:-1].rpartition("__")[2].lstrip("0123456789")


def field_name(name: str, field: str) -> str:
    """The name of the parameter that holds a field; it ends in one underscore, as no other does.

    The number of underscores at the end of ``field`` stands before it, if there are any.
    """
    stem = field.rstrip("_")
    return f"{name}__{len(field) - len(stem) or ''}{stem}_"
