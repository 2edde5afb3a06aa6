"""Checks of arguments; an error names the argument and its value."""

from __future__ import annotations

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
