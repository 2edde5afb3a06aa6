"""Compiled-in globals and captured values, and checks that they are unchanged."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from morph.language.evaluation import evaluated


class Globals:
    """Compiled-in globals of one module; one call compares all of them.

    The call executes a function with the module's globals, as CPython caches such accesses.
    """

    def __init__(self, home: dict[str, Any]) -> None:
        self.home, self.names, self.values = home, list[str](), list[Any]()
        self._same: Callable[[], bool] | None = None

    def add(self, name: str, value: Any) -> None:
        """Add a global."""
        self.names.append(name)
        self.values.append(value)
        self._same = None

    def unchanged(self) -> bool:
        """Whether all globals have their compiled-in values."""
        if self._same is None:
            given = ", ".join(f"value_{i}_=values_[{i}]" for i in range(len(self.names)))
            same = " and ".join(f"{n} is value_{i}_" for i, n in enumerate(self.names))
            known = {"values_": self.values}
            self._same = evaluated(f"lambda {given}: {same}", self.home, known)
        try:
            return self._same()
        except (NameError, AttributeError):
            return False


class Dependencies:
    """A unit is valid while all ``checks`` hold."""

    def __init__(self) -> None:
        self.checks: list[Callable[[], bool]] = []
        self.names: list[tuple[str, str]] = []  # of globals: module and name
        self.recordable = True  # whether all values are globals, or of closures
        self._keys: set[Any] = set()
        self._modules: dict[int, Globals] = {}

    def add(
        self, current: Callable[[], Any], value: Any, key: Any = None,
        home: dict[str, Any] | None = None, closed: bool = False,
    ) -> None:  # fmt: skip
        """Make the unit valid only while ``current()`` returns this same value.

        A value with a ``key`` is added once, as each launch compares all values.  The key ends with
        a name in ``home``, or with such a name and an attribute, ``"name.attribute"``.  A
        ``closed`` value is captured in the closure of a function.
        """
        if key is not None:
            if key in self._keys:
                return
            self._keys.add(key)
            if home is not None and key[1].partition(".")[0] in home:
                if id(home) not in self._modules:
                    self._modules[id(home)] = names = Globals(home)
                    self.checks.append(names.unchanged)
                self._modules[id(home)].add(key[1], value)
                self.names.append((str(home.get("__name__")), key[1]))
                return
        self.recordable &= closed
        try:
            weak = weakref.ref(value)
        except TypeError:
            self.checks.append(lambda: current() is value)
        else:
            self.checks.append(lambda: current() is weak())
