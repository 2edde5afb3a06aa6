"""Modification counters: a cached fact about an object is valid while its version is unchanged.

A launch caches the addresses of about ten objects.  `latest.epoch` changes with each new object or
version, so a launch compares one number, and the versions only if this number has changed.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, NoReturn, TypeVar, cast

from morph.language.weak import WeakObjects

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
    advance_epoch()  # also before, in case an interrupt comes in between
    x.version = next(_numbers) if version is None else version
    advance_epoch()  # other threads may have compared the old version in between


def advance_epoch() -> None:
    """Set `latest.epoch` to a new number: an object is new, or has a new version."""
    latest.epoch = next(_numbers)


class Lock(RLock):  # type: ignore[misc]
    """The reentrant lock of a graph, or of a table outside of graphs."""

    __slots__ = ()


class LostLock(RLock):  # type: ignore[misc]
    """A lock that another thread held when this process was forked: no thread here releases it."""

    __slots__ = ()

    def acquire(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: the graph may be in the middle of a change."""
        raise RuntimeError(
            "another thread was using this graph or table when this process was forked: it cannot "
            "be used here; pass a copy, or start processes by 'spawn'"
        )

    __enter__ = acquire


_locks: WeakObjects[Lock] = WeakObjects()


def new_lock() -> Lock:
    """Return a lock for a graph or a table."""
    lock = Lock()
    _locks.add(lock)
    return lock


def _forked() -> None:
    """Mark the locks that threads of the parent process hold, which would never be released."""
    for lock in _locks:
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock.__class__ = LostLock  # type: ignore[assignment]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def exclusive(method: F) -> F:
    """Make a method hold the lock of its object, which is that of its graph, if it has one.

    The lock is reentrant.
    """

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(F, locked)
