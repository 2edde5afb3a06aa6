"""Options of the methods that decide formulas: names, types and ranges, and their check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from morph.language.arguments import check_callable, check_number, integer
from morph.language.messages import shown


class Option(NamedTuple):
    """The type of an option, and the values that it may have."""

    kind: type[int] | type[float]
    expected: str
    accepts: Callable[[Any], bool]


OPEN = Option(float, "a number between 0 and 1", lambda x: 0 < x < 1)
CLOSED = Option(float, "a number from 0 to 1", lambda x: 0 <= x <= 1)
BELOW_1 = Option(float, "a number from 0 to less than 1", lambda x: 0 <= x < 1)
COUNT = Option(int, "an integer from 0 to 2^32 - 1", lambda x: 0 <= x < 2**32)
NUMBER = Option(float, "a number", lambda x: x == x)
OPTIONS: dict[str, Option] = {
    "fraction": Option(float, "a number above 0 and at most 1", lambda x: 0 < x <= 1),
    "tolerance": OPEN,
    "rho": CLOSED,
    "inertia": BELOW_1,
    "ratio": BELOW_1,
    "intensity": OPEN,
    "decay": OPEN,
    "least_complexity": NUMBER,
    "max_seconds": NUMBER,
    "max_rounds": COUNT,
    "max_sweeps": COUNT,
    "sweeps": COUNT,
    "undo": COUNT,
    "max_flips": Option(int, "an integer from 0 to 2^62", lambda x: 0 <= x <= 2**62),
}
METHODS: dict[str, tuple[str, ...]] = {
    "auto": (),
    "decimation": ("fraction", "tolerance", "max_sweeps", "undo", "rho", "least_complexity"),
    "backtracking": ("fraction", "ratio", "tolerance", "max_sweeps", "rho"),
    "reinforcement": ("intensity", "decay", "max_sweeps", "rho"),
    "search": ("max_flips",),
}


def check(**given: Any) -> None:
    """Refuse values of options by name.

    Raises
    ------
    TypeError, ValueError
        Naming the option.
    """
    for name, value in given.items():
        option = OPTIONS[name]
        (integer if option.kind is int else check_number)(value, name)
        if not option.accepts(value):
            raise ValueError(f"{name} = {shown(value)}: expected {option.expected}")


def check_limits(seed: Any, max_seconds: Any, progress: Any = None, **counts: Any) -> int:
    """Refuse limits out of their range; return the seed.

    Raises
    ------
    TypeError, ValueError
        Naming the argument.
    """
    check(max_seconds=max_seconds, **counts)
    check_callable(progress, "progress")
    return integer(seed, "seed")
