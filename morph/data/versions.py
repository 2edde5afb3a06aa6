"""Modification counters: a cached fact about an object is valid while its version is unchanged.

A launch caches the addresses of about ten objects.  `latest.epoch` changes with each new object or
version, so a launch compares one number, and the versions only if this number has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_numbers = count(1)  # unique, so that a restored state can have its old version


class Outdated(Exception):
    """Another thread has changed objects after the lookup of the launch for them."""


class Latest:
    """The modification counter of all objects."""

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = 0


latest = Latest()


def renew(x: Any, version: int | None = None) -> None:
    """Set the version of an object to a new one, or to that of a restored state."""
    moved()  # also before, in case an interrupt comes in between
    x.version = next(_numbers) if version is None else version
    moved()  # other threads may have compared the old version in between


def moved() -> None:
    """Change the epoch: an object is new, or has a new version."""
    latest.epoch = next(_numbers)


def exclusive(method: F) -> F:
    """Make a method hold the lock of its object, which is that of its graph, if it has one.

    The lock is reentrant.
    """

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(F, locked)
