"""Sets and maps of weak references whose callbacks run no Python code.

CPython calls signal handlers between instructions of Python code, also within the callback of a
weak reference, and drops the exception that a callback raises.  The callbacks of `weakref.WeakSet`
and `weakref.WeakKeyDictionary` are Python code, so a Ctrl-C during one of these would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


class WeakObjects(Generic[K]):
    """A set of hashable objects; membership does not keep an object alive."""

    __slots__ = ("_most", "_refs")

    def __init__(self) -> None:
        self._refs: set[ref[K]] = set()
        self._most = 16  # number of references above which `add` removes the dead ones

    def add(self, x: K) -> None:
        """Add an object."""
        self._refs.add(ref(x))
        if len(self._refs) > self._most:
            self._refs.difference_update([r for r in self._refs.copy() if r() is None])
            self._most = max(16, 2 * len(self._refs))

    def __iter__(self) -> Iterator[K]:
        return iter([x for r in self._refs.copy() if (x := r()) is not None])

    def __len__(self) -> int:
        return sum(r() is not None for r in self._refs.copy())

    def __contains__(self, x: object) -> bool:
        return ref(x) in self._refs


class WeakMap(Generic[K, V]):
    """A map of hashable objects that the map does not keep alive.

    When a key is deallocated, its value is removed.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[ref[K], V] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it has none."""
        return self._values.get(ref(key))

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of a key, which is ``value`` if it had none."""
        return self._values.setdefault(ref(key, self._values.pop), value)

    def items(self) -> list[tuple[K, V]]:
        """Return the keys that still exist and their values, in the order of insertion."""
        return [(x, v) for r, v in self._values.copy().items() if (x := r()) is not None]
