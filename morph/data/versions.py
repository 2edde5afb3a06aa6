"""Modification counters: a cached fact about an object is valid while its version is unchanged.

A launch caches addresses of some ten objects.  `latest.epoch` changes whenever any object is new or
has another version, so a launch compares one number, and versions only if this has changed.
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
    """The modification counter of all objects together."""

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = 0


latest = Latest()


def renew(x: Any, version: int | None = None) -> None:
    """Give an object a new version, or the one of an earlier state that is restored."""
    moved()  # before, too: an interrupt may come in between
    x.version = next(_numbers) if version is None else version
    moved()  # threads that compared versions meanwhile have seen the old one


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
