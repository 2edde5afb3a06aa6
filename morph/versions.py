"""Versions: what somebody knows of an object holds while its version is the same.

A launch knows addresses of some ten objects.  It need not ask each of them again: `latest.epoch`
is another whenever any object is new or has another version.
"""

from __future__ import annotations

from itertools import count

_numbers = count(1)  # so that a state that comes back can have its version again


class Latest:
    """What is so of all objects."""

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = 0


latest = Latest()


def fresh() -> int:
    """Give a version that nothing has had."""
    return next(_numbers)


def moved() -> None:
    """Note that an object is new or has another version by now: after it has, not before."""
    latest.epoch = next(_numbers)
