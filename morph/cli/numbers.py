"""Option types for numbers within limits; help texts show the limits in words."""

from __future__ import annotations

import math
from typing import Any

import click


def limits(least: float | None, most: float | None, exclusive: bool = False) -> str:
    """Describe limits in words; ``exclusive`` excludes the lower limit."""
    low, high = (None if x is None else _shown(x) for x in (least, most))
    if high is None:
        return f"above {low}" if exclusive else f"{low} or more"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _shown(x: float) -> str:
    return f"{x:,.4g}" if x % 1 else f"{x:,.0f}"


class Integer(click.IntRange):
    """An integer."""

    name = "integer"

    def _describe_range(self) -> str:
        return limits(self.min, self.max, self.min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number; errors show the limits as inequalities, like `click`."""
        return click.IntRange(self.min, self.max).convert(value, param, ctx)


class Number(click.FloatRange):
    """A number."""

    name = "number"

    def _describe_range(self) -> str:
        return limits(self.min, self.max, self.min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number; errors show the limits as inequalities, like `click`."""
        plain = click.FloatRange(self.min, self.max, min_open=self.min_open)
        found = plain.convert(value, param, ctx)
        if math.isnan(found):  # it is within all limits of `click`
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found
