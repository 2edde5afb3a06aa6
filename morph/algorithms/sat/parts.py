"""Divided factor graphs: each part has a range of the clauses, with literals, and all variables.

The parts lie in one process, or each on an MPI rank, whose steps are launches.

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

from morph.algorithms.sat.factors import (
    COMBINED,
    Contradiction,
    Factors,
    begin_messages,
    cleaned,
    factor_graph,
    fill_tables,
    refuse_large,
    scale_of,
    sums_of,
)
from morph.data.formula import Formula
from morph.partition.formula import DividedFormula, bounds_of, clauses_of
from morph.partition.group import DeviceGroup, RankGroup
from morph.runtime.arrays import any_true, bincount

Group = DeviceGroup | RankGroup


class DividedFactors(Factors):
    """A divided factor graph; its ``graph``, with all variables, is that of the first part."""

    def __init__(self, group: Group, parts: list[Factors]) -> None:
        self._group, self._parts = group, parts
        self.graph, self.totals = parts[0].graph, parts[0].totals
        self.scale, self.sum_type = parts[0].scale, parts[0].sum_type

    def longest(self) -> int:
        """Return the length of the longest clause of all parts."""
        return int(max(self.gather(lambda part: part.longest())))

    def count_clauses(self) -> int:
        """Return the number of clauses that are left in all parts."""
        return int(sum(self.gather(lambda part: part.count_clauses())))

    @property
    def parts(self) -> list[Factors]:
        """The factor graphs of this process that the clauses are divided among."""
        return self._parts

    @property
    def divided(self) -> bool:
        """True."""
        return True

    def gather(self, value: Callable[[Factors], Any]) -> list[Any]:
        """Return a value of each part, also of those of other processes."""
        values = map(value, self._parts)
        return self._group.gather(dict(zip(self._group.here, values, strict=True)))

    def like(self) -> DividedFactors:
        """Give tables of the same kind, without rows."""
        return DividedFactors(self._group, [f.like() for f in self._parts])

    def each(self, run: Callable[..., Any], *others: Factors) -> None:
        """Run a function for each part, and the same part of other graphs."""
        first = self._group.here.start
        self._group.each(lambda k: run(*(f.parts[k - first] for f in (self, *others))))

    @property
    def runs_programs(self) -> bool:
        """Whether `run` runs programs on all parts: each has clauses, and reaches the others."""
        if self._group.programs is None:
            return False
        return all(f.count_clauses() for f in self._parts)

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
        before = [f.graph.device.copy(_values(f)) for f in self._parts]
        self.combine(_values, "max")

        def differences(f: Factors) -> tuple[bool, bool]:
            old = before[self._parts.index(f)]
            with f.graph.device.active():
                differs = old != _values(f)
                return any_true(differs), any_true(differs & (old >= 0))

        changed, opposed = zip(*self.gather(differences), strict=True)
        return not any(changed), any(opposed)

    def rest(self, local: Formula) -> Any:
        """Return the residual formula, of which ranks have a range each."""
        group = self._group
        return DividedFormula(group.ranks, local) if isinstance(group, RankGroup) else local


def _values(f: Factors) -> Any:
    return f.graph.points.value.array


def formula_of(source: Any) -> Formula | DividedFormula:
    """Convert an object to a formula, unless it is a divided one."""
    return source if isinstance(source, DividedFormula) else Formula.of(source)


def group_of(formula: Formula | DividedFormula, device: Any) -> Group:
    """The devices that process a formula, of which the argument ``device`` names those to use."""
    if isinstance(formula, DividedFormula):
        return RankGroup(formula.ranks, device)
    return DeviceGroup(device)


def factors_on(
    formula: Formula | DividedFormula,
    group: Group,
    seed: int | None,
    scale: tuple[int, Any] | None = None,
) -> Factors:
    """Make the factor graph of a formula on one device, or in parts, see `factor_graph`.

    Raises
    ------
    Contradiction
        If a clause is empty.
    ValueError
        If a part has 2**31 literals or more, or the formula so many clauses.
    PartError
        If another rank has failed.
    """
    devices, here = group.devices, group.here
    if formula.clauses >= 2**31:
        raise ValueError(f"{formula!r} is too large: fewer than 2**31 clauses")
    if isinstance(formula, DividedFormula):
        shares, firsts = [formula.local], [formula.first]
    elif len(devices) == 1:
        return factor_graph(formula, devices[0], seed, scale)
    else:
        firsts = bounds_of(formula, len(devices))
        shares = [clauses_of(formula, *firsts[k : k + 2]) for k in here]
    found, counts = _cleaned(shares, group)
    group.all_reduce(counts, "add")
    scale = scale or scale_of(int(counts[0].max()))
    del counts
    made = DividedFactors(group, [Factors(devices[k], *scale) for k in here])

    def fill(k: int) -> None:
        at = k - here.start
        part = made.parts[at]
        fill_tables(part, shares[at], *found[at], devices[k])
        with part.graph.device.active():
            part.graph.clauses.origin.array[...] += firsts[at]
        begin_messages(part, seed)

    group.each(fill)
    made.combine(sums_of, "add")
    return made


def _cleaned(shares: list[Formula], group: Group) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Give the literals of each share, see `cleaned`, and their numbers by literal.

    Raises
    ------
    Contradiction
        In all processes, if a clause is empty.
    ValueError
        If a share is too large.
    PartError
        If that of another rank is.
    """
    found, counts = list[tuple[Any, Any]](), list[Any]()
    empty = dict.fromkeys(group.here, False)

    def clean() -> None:
        for k, share in zip(group.here, shares, strict=True):
            refuse_large(share)
            device = group.devices[k]
            with device.active():
                try:
                    clause, code, _ = cleaned(share, device)
                except Contradiction:
                    empty[k] = True
                    continue
                found.append((clause, code))
                counts.append(bincount(device.xp, code, max(2 * share.variables, 1)))

    group.on_all(clean)
    if any(group.gather(empty)):
        raise Contradiction("a clause is empty")
    return found, counts
