"""Locks of the graphs that a launch uses: one thread at a time launches on a graph."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from morph.data.versions import new_lock


def lock_of(objects: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return the lock of the objects' graph, or the locks of several graphs in a fixed order."""
    graphs = [o if o.kind == "graph" else o.graph for o in objects]
    locks = {id(g._lock): g._lock for g in graphs if g is not None}
    if len(locks) < 2:
        return next(iter(locks.values()), None) or new_lock()
    return Locks([locks[k] for k in sorted(locks)])


class Locks:
    """Several locks, acquired in the given order."""

    def __init__(self, locks: list[Any]) -> None:
        self.locks = locks

    @classmethod
    def of(cls, locks: Iterable[Any]) -> Locks:
        """Several locks, some of which are of this class."""
        return cls([x for lock in locks for x in (lock.locks if isinstance(lock, cls) else [lock])])

    def __enter__(self) -> None:
        for taken, lock in enumerate(self.locks):
            try:
                lock.acquire()
            except BaseException:
                self._release(taken)
                raise

    def __exit__(self, *problem: object) -> None:
        self._release(len(self.locks))

    def _release(self, count: int) -> None:
        for lock in reversed(self.locks[:count]):
            lock.release()
