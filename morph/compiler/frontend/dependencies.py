"""Values from outside of functions that were compiled in, and whether they are the same still."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from morph.language.evaluation import evaluated


class Globals:
    """Globals of one module that were compiled in: one call compares all of them.

    The call is a function of that module, since CPython caches its accesses to globals.
    """

    def __init__(self, home: dict[str, Any]) -> None:
        self.home, self.names, self.values = home, list[str](), list[Any]()
        self._same: Callable[[], bool] | None = None

    def add(self, name: str, value: Any) -> None:
        """Note one more."""
        self.names.append(name)
        self.values.append(value)
        self._same = None

    def unchanged(self) -> bool:
        """Whether all have their values still."""
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
        self.recordable = True  # all are globals, or of closures
        self._keys: set[Any] = set()
        self._modules: dict[int, Globals] = {}

    def add(
        self, again: Callable[[], Any], value: Any, key: Any = None,
        home: dict[str, Any] | None = None, closed: bool = False,
    ) -> None:  # fmt: skip
        """Note that the unit is valid only while ``again()`` gives this same value.

        A value with a ``key`` is noted once: every launch compares all of them.  The key ends with
        a name in ``home``, or with such a name and an attribute, ``"name.attribute"``.  A
        ``closed`` value is of the closure of a function.
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
            self.checks.append(lambda: again() is value)
        else:
            self.checks.append(lambda: again() is weak())
