"""The checked mode: whether launches check every access; see docs/language.md."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

from morph.language.arguments import boolean

_ON: ContextVar[bool] = ContextVar(
    "checked", default=os.environ.get("MORPH_CHECK", "") not in ("", "0")
)
is_on = _ON.get  # `is_checked` without an argument, in less time


def is_checked(check: bool | None = None) -> bool:
    """Whether a launch is checked: by its argument, else the enclosing block, else MORPH_CHECK.

    Raises
    ------
    TypeError
        If ``check`` is neither None nor True or False.
    """
    return _ON.get() if check is None else boolean(check, "check")


@contextlib.contextmanager
def checked(on: bool = True) -> Iterator[None]:
    """Check every access of the kernels, programs and reductions that are launched inside.

    Parameters
    ----------
    on : bool
        False switches the checks off inside, also within a block that switches them on.

    Raises
    ------
    TypeError
        If ``on`` is not True or False.
    CheckError
        By a launch, if one of its items breaks a rule: an index out of range, a row that is None,
        deleted or nonexistent, ``pop()`` of an empty local collection, an integer overflow in an
        index, or a race: two items access one value in one step, one of them by a plain write.

    Notes
    -----
    Blocks nest; a block applies to its own thread (and task of ``asyncio``).  ``MORPH_CHECK=1`` in
    the environment checks everything.  A checked program runs launch by launch.
    """
    before = _ON.set(boolean(on, "on"))
    try:
        yield
    finally:
        _ON.reset(before)
