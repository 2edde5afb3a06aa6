"""Values from outside of functions that were compiled in, and whether they are the same still."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any


class Globals:
    """Globals of one module that were compiled in: one call compares all of them."""

    def __init__(self, home: dict[str, Any]) -> None:
        self.home, self.names, self.values = home, list[str](), list[Any]()
        self.now: Callable[[Any], Any] = tuple

    def add(self, name: str, value: Any) -> None:
        """Note one more."""
        self.names.append(name)
        self.values.append(value)
        # of a single one, itemgetter would give no tuple
        self.now = itemgetter(*self.names, self.names[0])

    def hold(self) -> bool:
        """Whether all have their values still."""
        try:
            return all(map(is_, self.now(self.home), self.values))
        except KeyError:
            return False


class Dependencies:
    """A unit is valid while all ``checks`` hold."""

    def __init__(self) -> None:
        self.checks: list[Callable[[], bool]] = []
        self._keys: set[Any] = set()
        self._modules: dict[int, Globals] = {}

    def add(
        self, again: Callable[[], Any], value: Any, key: Any = None,
        home: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Note that the unit is valid only while ``again()`` gives this same value.

        A value with a ``key`` is noted once: every launch compares all of them.  ``home`` has the
        value under the name that ends the key.
        """
        if key is not None:
            if key in self._keys:
                return
            self._keys.add(key)
            if home is not None and key[1] in home:
                if id(home) not in self._modules:
                    self._modules[id(home)] = names = Globals(home)
                    self.checks.append(names.hold)
                self._modules[id(home)].add(key[1], value)
                return
        try:
            weak = weakref.ref(value)
        except TypeError:
            self.checks.append(lambda: again() is value)
        else:
            self.checks.append(lambda: again() is weak())
