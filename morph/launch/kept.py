"""Launches of programs that are kept for later calls with the same objects."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from morph.data.versions import Outdated
from morph.language.bundles import Flatten, flattener, is_bundle
from morph.launch.checked import is_checked
from morph.launch.foreach import Program, launch_for

NONE: tuple[None, list[Flatten]] = None, []


class KeptLaunches:
    """Launches of programs, for calls that differ only in numbers among their arguments.

    Such a call needs no look-up of its launch, on one device or on parts.
    """

    def __init__(self) -> None:
        self._launches: dict[Program, tuple[Any, list[Flatten]]] = {}

    def run(self, program: Program, *args: Any) -> Any:
        """Call a program; objects among the arguments must be those of its first call."""
        launch, flatten = self._launches.pop(program, NONE)
        if launch is not None and not is_checked() and launch.fits():
            given = args
            for f in flatten:
                given = f(given)
            with suppress(Outdated):
                result = launch.run(given, None)
                self._launches[program] = launch, flatten
                return result
        result = program(*args)
        self._keep(program, args)
        return result

    def _keep(self, program: Program, args: tuple[Any, ...]) -> None:
        """Keep the launch of a program, unless it executes as several launches."""
        fused = isinstance(program, Program) and not is_checked()  # not its method `eager`
        launch = launch_for(program, None, args, None)[0] if fused else None
        if launch is None:
            return
        flatten = list[Flatten]()
        while any(map(is_bundle, types := tuple(map(type, args)))):
            flatten.append(flattener(types))
            args = flatten[-1](args)
        self._launches[program] = launch, flatten
