"""Checks of arguments; an error names the argument and its value."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from morph.language.messages import shown


def boolean(x: Any, name: str) -> bool:
    """Return an argument that is True or False, or 1 or 0.

    Raises
    ------
    TypeError
        If it is not.
    """
    if not isinstance(x, int | np.integer | np.bool_) or x not in (0, 1):
        raise TypeError(f"{name} is True or False, not {shown(x)}")
    return bool(x)


def check_callable(x: Any, name: str) -> None:
    """Refuse an argument that is neither None nor can be called.

    Raises
    ------
    TypeError
        If it is not.
    """
    if x is not None and not callable(x):
        raise TypeError(f"{name} is a function, not {shown(x)}")


def string(x: Any, name: str) -> str:
    """Return an argument that is a string, such as the name of a column.

    Raises
    ------
    TypeError
        If it is not.
    """
    if not isinstance(x, str):
        raise TypeError(f"{name} is a string, not {shown(x)}")
    return x


def check_name(x: Any, name: str) -> None:
    """Refuse an argument that cannot be the name of a column or attribute.

    Raises
    ------
    TypeError
        If it is not.
    """
    try:
        hash(x)
    except TypeError:
        raise TypeError(f"{name} is the name of a column or attribute, not {shown(x)}") from None


def check_type(x: Any, name: str, *kinds: str) -> None:
    """Refuse an argument whose class, and its bases, have none of these names.

    Raises
    ------
    TypeError
        If it is not.
    """
    if not any(c.__name__ in kinds for c in type(x).__mro__):
        raise TypeError(f"{name} is a {' or '.join(kinds)}, not {shown(x)}")


def check_number(x: Any, name: str) -> None:
    """Refuse an argument that is not a real number.

    Raises
    ------
    TypeError
        If it is not.
    ValueError
        If it is an integer that is larger than all float64 numbers.
    """
    number = isinstance(x, int | float | np.integer | np.floating)
    if isinstance(x, bool | np.timedelta64) or not number:  # NumPy's durations are integers
        raise TypeError(f"{name} is a number, not {shown(x)}")
    if isinstance(x, int) and abs(x).bit_length() > 1023:
        raise ValueError(f"{name} = {shown(x)}: a number is below 2^1023")


def integer(x: Any, name: str) -> int:
    """Return an argument that is an integer.

    Raises
    ------
    TypeError
        If it is not.
    """
    if x.__class__ is int:
        return x
    if not isinstance(x, bool) and hasattr(x, "__index__"):
        with suppress(TypeError):  # raised by an array
            return int(x.__index__())
    raise TypeError(f"{name} is an integer, not {shown(x)}")


def check_choice(x: Any, name: str, known: Sequence[str]) -> None:
    """Refuse an argument that is none of the known strings.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    if not isinstance(x, str) or x not in known:
        names = " or ".join(map(repr, known)) if len(known) == 2 else f"one of {', '.join(known)}"
        raise ValueError(f"{name} is {names}, not {shown(x)}")
