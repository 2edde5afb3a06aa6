"""Versions: what somebody knows of an object holds while its version is the same.

A launch knows addresses of some ten objects.  It need not ask each of them again: `latest.epoch`
is another whenever any object is new or has another version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_numbers = count(1)  # so that a state that comes back can have its version again


class Outdated(Exception):
    """A launch was found for objects that another thread has changed since."""


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


def exclusive(method: F) -> F:
    """Have a method hold its object's lock: all objects of one graph share the graph's.

    A thread that holds the lock may take it again.
    """

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(F, locked)
