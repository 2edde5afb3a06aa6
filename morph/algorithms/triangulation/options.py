"""Options of triangulation and refinement, checked before any work is done."""

from __future__ import annotations

import numbers
from typing import Any

from morph.language.messages import shown


def number(name: str, value: Any) -> Any:
    """Return a real number, of Python's, NumPy's or CuPy's types.

    Raises
    ------
    ValueError
        If the value is none: text, a complex number, a truth value, an array.
    """
    scalar = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(scalar, bool) or not isinstance(scalar, numbers.Real):
        raise ValueError(f"{name} is a number, not {shown(value)}")
    return scalar


def integer(name: str, value: Any) -> int:
    """Return an integer; `ValueError` if the value is none."""
    scalar = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(scalar, bool) or not isinstance(scalar, numbers.Integral):
        raise ValueError(f"{name} is an integer, not {shown(value)}")
    return int(scalar)


def boolean(name: str, value: Any) -> bool:
    """Return True or False; `ValueError` if the value is neither."""
    scalar = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(scalar, int) or scalar not in (0, 1):
        raise ValueError(f"{name} is True or False, not {shown(value)}")
    return bool(scalar)


def choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Return one of the known names; `ValueError` for all else."""
    if not isinstance(value, str) or value not in known:
        names = " or ".join(map(repr, known)) if len(known) == 2 else f"one of {', '.join(known)}"
        raise ValueError(f"{name} is {names}, not {shown(value)}")
    return value


def function(name: str, value: Any) -> Any:
    """Return a callable or None; `ValueError` for all else."""
    if value is not None and not callable(value):
        raise ValueError(f"{name} is a function, not {shown(value)}")
    return value
