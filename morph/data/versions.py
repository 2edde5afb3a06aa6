"""Versions: what somebody knows of an object holds while its version is the same.

A launch knows addresses of some ten objects.  It need not ask each of them again: `latest.epoch`
is another whenever any object is new or has another version.
"""

from __future__ import annotations

from itertools import count
from typing import Any

_numbers = count(1)  # so that a state that comes back can have its version again


class Latest:
    """What is so of all objects."""

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = 0


latest = Latest()


def renew(x: Any, version: int | None = None) -> None:
    """Give an object a version that nothing has had; or one that it had when it was just as now."""
    moved()  # lest an interrupt come in between
    x.version = next(_numbers) if version is None else version
    moved()  # whoever looked at the versions meanwhile saw the old one


def moved() -> None:
    """Note that an object is new, or has another version."""
    latest.epoch = next(_numbers)
