"""Factor graphs in parts: each has a range of the clauses with their literals, and all variables.

A part executes the steps of one device on its own clauses.  Then the parts combine what they have
found of the variables: sums of messages by addition, values that unit propagation implies, marks of
certain variables; part k combines the k-th range of the variables, and sends the result to all.
The sweeps of a round, and unit propagation, are one launch of each part, in which the parts combine
their columns at crossings (`morph.partition.copies`), unless a part has no clauses, or cannot
access the memory of the others: then each step is a launch.  Messages and sums are integers, so the
result has the bits of one device, whatever the parts.

Memory of a part: 8 bytes for each of its literals, 12 for each clause, 44 for each variable of the
formula, twice.  Of a random formula a quarter of the clauses contains nearly all variables: copies
of those alone would save nothing.  A sweep sends 16 bytes a variable from and to each part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.sat.factors import (
    COMBINED,
    Factors,
    begin_messages,
    cleaned,
    factor_graph,
    fill_tables,
    refuse_large,
    scale_of,
    sums_of,
)
from morph.data.collection import Flag
from morph.data.formula import Formula
from morph.partition.group import DeviceGroup
from morph.runtime.arrays import any_true, bincount


class DividedFactors(Factors):
    """A factor graph in parts; its ``graph``, with all variables, is that of the first part."""

    def __init__(self, group: DeviceGroup, parts: list[Factors]) -> None:
        self._group, self._parts = group, parts
        self.graph, self.totals = parts[0].graph, parts[0].totals
        self.scale, self.sum_type = parts[0].scale, parts[0].sum_type

    @property
    def width(self) -> int:
        """The length of the longest clause."""
        return max(f.width for f in self._parts)

    @property
    def clauses(self) -> int:
        """The number of clauses that are left."""
        return sum(f.clauses for f in self._parts)

    @property
    def parts(self) -> list[Factors]:
        """The factor graphs that the clauses are divided among."""
        return self._parts

    def like(self) -> DividedFactors:
        """Give tables of the same kind, without rows."""
        return DividedFactors(self._group, [f.like() for f in self._parts])

    def each(self, run: Callable[..., Any], *others: Factors) -> None:
        """Run a function for each part, and the same part of other graphs."""
        self._group.each(lambda k: run(*(f.parts[k] for f in (self, *others))))

    def raised(self, flag: Callable[[Factors], Flag]) -> bool:
        """Whether a part has raised a flag."""
        return any(bool(flag(f)) for f in self._parts)

    @property
    def runs_programs(self) -> bool:
        """Whether `run` runs programs on all parts: each has clauses, and reaches the others."""
        return self._group.programs is not None and all(f.clauses for f in self._parts)

    def run(self, choose: Callable[[Factors], Any], args: Callable[[Factors], Any]) -> Any:
        """Run a program of each part in one launch of each, in which they combine columns."""
        found = self._group.programs
        assert found is not None
        programs = [choose(f) for f in self._parts]
        return found.run(programs, [args(f) for f in self._parts], COMBINED)

    def combine(self, column: Callable[[Factors], Any], op: str) -> None:
        """Give all parts the combination of their values of a column of the variables."""
        self._group.all_reduce([column(f) for f in self._parts], op)

    def agree_on_values(self) -> tuple[bool, bool]:
        """Give all parts the values that any of them has fixed, see `Factors`."""
        values = [f.graph.points.value.array for f in self._parts]
        before = [d.copy(a) for d, a in zip(self._group.devices, values, strict=True)]
        self.combine(lambda f: f.graph.points.value.array, "max")
        agreed, opposed = True, False
        for d, old, new in zip(self._group.devices, before, values, strict=True):
            with d.active():
                differs = old != new
                agreed = agreed and not any_true(differs)
                opposed = opposed or any_true(differs & (old >= 0))
        return agreed, opposed


def factors_on(formula: Formula, group: DeviceGroup, seed: int | None) -> Factors:
    """Make the factor graph of a formula on one device, or in parts, see `factor_graph`.

    Raises
    ------
    Contradiction
        If a clause is empty.
    ValueError
        If a part has 2**31 literals or more, or the formula so many clauses.
    """
    devices = group.devices
    if len(devices) == 1:
        return factor_graph(formula, devices[0], seed)
    if formula.clauses >= 2**31:
        raise ValueError(f"{formula!r} is too large: at most 2**31 clauses")
    bounds = _bounds(formula, len(devices))
    shares = [_range(formula, a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    found, counts = [], []
    for share, d in zip(shares, devices, strict=True):
        refuse_large(share)
        with d.active():
            clause, code, _ = cleaned(share, d)
            found.append((clause, code))
            counts.append(bincount(d.xp, code, max(2 * formula.variables, 1)))
    group.all_reduce(counts, "add")
    degree = int(counts[0].max()) if formula.literals.size else 1
    del counts
    made = DividedFactors(group, [Factors(d, *scale_of(degree)) for d in devices])

    def fill(k: int) -> None:
        part = made.parts[k]
        fill_tables(part, shares[k], *found[k], devices[k])
        with part.graph.device.active():
            part.graph.clauses.origin.array[...] += bounds[k]
        begin_messages(part, seed)

    group.each(fill)
    made.combine(sums_of, "add")
    return made


def _bounds(formula: Formula, parts: int) -> list[int]:
    """Divide the clauses into ranges with equally many literals."""
    wanted = [formula.literals.size * k // parts for k in range(1, parts)]
    inner = np.searchsorted(formula.offsets, wanted).tolist() if formula.clauses else wanted
    return [0, *inner, formula.clauses]


def _range(formula: Formula, first: int, last: int) -> Formula:
    """The clauses of a range, over all variables."""
    at = formula.offsets[first : last + 1]
    return Formula(formula.variables, at - at[0], formula.literals[at[0] : at[-1]])
