"""Compiles the description of a unit once for all devices, as its unit depends on none.

In the product each device compiles it, since most processes have one; tests have several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import morph
from morph.launch import binding, common_units
from morph.launch.compiled import Parsed

MOST = 512  # units that are kept, those used last


def install(most: int = MOST) -> None:
    """Replace the compilation of units in this process."""
    made = partial(once, binding.compile_unit, {}, most)
    binding.compile_unit = common_units.compile_unit = made


def once(
    function: Any, known: dict[Any, tuple[Parsed, Callable[[], bool]]], most: int,
    description: Any, slots: Any,
) -> Parsed:  # fmt: skip
    """Compile a unit, unless it is known and depends on no captured object."""
    key = replace(description, device=morph.device("cpu")).key
    found = known.pop(key, None)
    if found is not None and found[1]():
        known[key] = found  # now the last one
        return found[0]
    before = dict(slots.objects)
    made = function(description, slots)
    if not slots.captured and slots.objects == before:
        checks = made.dependencies.checks
        known[key] = made, lambda: all(is_equal() for is_equal in checks)
        for first in list(known)[:-most]:  # other threads may compile, too
            known.pop(first, None)
    return made
