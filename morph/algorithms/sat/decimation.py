"""Survey-inspired decimation: fix the most biased variables, simplify, and go on with the rest.

Mezard, Zecchina (2002), in rounds: surveys converge; a fraction of the variables, those of the
largest bias, get their likelier value; unit propagation runs to its end; the residual formula is
compacted.  When the surveys are (nearly) trivial, local search can solve the residual formula.  If
unit propagation meets a contradiction, fewer variables are fixed; if the surveys do not converge,
even with inertia, the last round is rolled back and fewer variables are fixed.  When no more rounds
may be rolled back, surveys of a tolerance below 0.05 sweep again with a looser one, up to 0.05.  A
complexity below zero means that most likely no model is left: too many variables were fixed at
once, and decimation ends.  A round costs O(literals left) for each sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.sat.factors import (
    Contradiction,
    Factors,
    reduced,
    rest_of,
    trivial_messages,
)
from morph.algorithms.sat.fixing import fix_units, record
from morph.algorithms.sat.marginals import Marginals, marginals, threshold
from morph.algorithms.sat.options import check, check_limits
from morph.algorithms.sat.parts import factors_on, formula_of, group_of
from morph.algorithms.sat.rounds import Clock, Decimation, Round, histogram, refuted
from morph.algorithms.sat.surveys import converge_patiently
from morph.algorithms.sat.units import propagate_units
from morph.data.formula import Formula
from morph.data.table import Table
from morph.launch.foreach import foreach, kernel
from morph.partition.formula import DividedFormula
from morph.prelude import i8

PARAMAGNETIC = 0.02  # mean weight of being forced, below which noise decides
LEAST_PART = 1 / 128  # of the fraction: if that many break a clause, too, decimation ends
FRACTION, SWEEPS, UNDO, LEAST_COMPLEXITY = 0.03, 200, 4, -0.001  # defaults
LOOSEST = 0.05  # tolerance, unless a looser one is asked for
# The default tolerance of fewer variables than LARGE, whose complexity fluctuates more
LARGE, TIGHT = 100_000, 0.03
# That of others: LOOSEST, multiplied by (clauses / clauses left)**RISE, at most HIGHEST
RISE, HIGHEST = 0.5, 0.1
# below LATE of the clauses, messages that would change by at most LEAST_CHANGE bits stay, so that
# surveys do not fade away while variables are still biased
LATE, LEAST_CHANGE = 0.5, 0.003
REFUTED = "unsatisfiable"
SLACK = 10.0  # nats of complexity below zero that a small formula may have


@kernel
def forget(p, answers):
    p.value = -1
    answers[p.origin].value = i8(-1)


def decimate(
    formula: Formula | DividedFormula,
    seed: int = 0,
    device: Any = None,
    max_rounds: int = 1000,
    *,
    fraction: float = FRACTION,
    tolerance: float | None = None,
    max_sweeps: int = SWEEPS,
    undo: int = UNDO,
    rho: float = 1.0,
    least_complexity: float = LEAST_COMPLEXITY,
    max_seconds: float = float("inf"),
    progress: Callable[[Round], None] | None = None,
) -> Decimation:
    """Fix variables by survey propagation until the residual formula is easy.

    Parameters
    ----------
    formula : Formula, DividedFormula, or an argument of `Formula.of`
    seed : int
        The same seed gives the same answer, on any device.
    device : str, Device or list of these, optional
        See `morph.set_device` for the default.  Of several devices each has a range of the clauses,
        and all variables; or one device several parts.  With a `DividedFormula` the device of each
        rank, or one for all.
    max_rounds : int
    fraction : float
        Of all variables, fixed in a round at most.
    tolerance : float, optional
        Surveys have converged when none changes by more: by default 0.03, or from 100,000 variables
        on 0.05 at first, rising to 0.1 as the formula shrinks, but 0.01 with a fraction below 0.02.
        Looser ones take half the sweeps, but fail near the threshold, the more the fewer variables
        there are.
    max_sweeps : int
        In a round; then twice as many with inertia 0.5, and four times as many with 0.75.
    undo : int
        Rounds that are rolled back before decimation ends.
    rho : float
        1 for survey propagation, 0 for belief propagation.
    least_complexity : float
        Nats a variable of the formula, below which surveys (``rho = 1``) have gone astray, unless
        it is less than ten nats in all.
    max_seconds : float
        Stop after this; looked at between launches, which take a fraction of a second.
    progress : callable, optional
        Called after each round with its record.

    Returns
    -------
    Decimation

    Raises
    ------
    TypeError
        If an argument is of a wrong type.
    ValueError
        If ``fraction`` or ``tolerance`` is not from 0 (excluded) to 1, ``rho`` from 0 to 1, or a
        count from 0 to 2^32 - 1.
    """
    formula = formula_of(formula)
    options = options_of(
        formula.variables, fraction=fraction, tolerance=tolerance, max_sweeps=max_sweeps,
        undo=undo, rho=rho, least_complexity=least_complexity,
    )  # fmt: skip
    run, status = decimated(formula, seed, device, max_rounds, options, max_seconds, progress)
    return run.result(status)


def options_of(
    variables: int,
    *,
    fraction: float = FRACTION,
    tolerance: float | None = None,
    max_sweeps: int = SWEEPS,
    undo: int = UNDO,
    rho: float = 1.0,
    least_complexity: float = LEAST_COMPLEXITY,
) -> Options:
    """Check the options of `decimate` for a number of variables; the defaults are the same."""
    check(
        fraction=fraction, tolerance=0.5 if tolerance is None else tolerance, rho=rho,
        least_complexity=least_complexity, max_sweeps=max_sweeps, undo=undo,
    )  # fmt: skip
    coarse, large = fraction >= 0.02, variables >= LARGE
    adapts = tolerance is None and coarse and large and rho == 1
    if tolerance is None:
        tolerance = (LOOSEST if large else TIGHT) if coarse else 0.01
    least = min(least_complexity * variables, -SLACK) if rho == 1 else float("-inf")
    return Options(fraction, tolerance, max_sweeps, rho, undo, least, adapts)


def decimated(
    formula: Formula | DividedFormula,
    seed: int,
    device: Any,
    max_rounds: int,
    options: Options,
    max_seconds: float,
    progress: Callable[[Round], None] | None,
) -> tuple[Run, str]:
    """Decimate; return the run, with the residual formula on the device, and the status."""
    seed = check_limits(seed, max_seconds, progress, max_rounds=max_rounds)
    run = Run(formula, seed, device, options, max_seconds)
    try:
        run.begin()
    except Contradiction:
        return run, REFUTED
    status = "rounds"
    while len(run.rounds) < max_rounds:
        status = "time" if run.clock.late else run.round()
        if status:
            break
        status = "rounds"
        if progress is not None:
            progress(run.rounds[-1])
    return run, status


class Options(NamedTuple):
    """Parameters of `decimate` that its rounds read."""

    fraction: float
    tolerance: float
    max_sweeps: int
    rho: float
    undo: int = 0
    least: float = float("-inf")  # complexity
    adapts: bool = False  # whether the tolerance rises as the formula shrinks


def _has_units(f: Factors) -> bool:
    """Whether there are clauses of one literal, be it twice."""
    counts = [*f.graph.device.to_host(f.graph.slots.count.array)[:2], 0, 0]
    return bool(counts[0] > counts[1])


def _free(f: Factors) -> None:
    f.graph.points.value[:] = -1


class Run:
    """One decimation: the formula as it is now, and as it was before the last round."""

    now: Factors
    before: Factors

    def __init__(
        self, formula: Formula | DividedFormula, seed: int, where: Any, options: Options,
        max_seconds: float = float("inf"),
    ) -> None:  # fmt: skip
        self.formula, self.seed, self.group = formula, seed, group_of(formula, where)
        self.where = self.group.devices[self.group.here.start]
        self.options, self.fraction = options, options.fraction
        self.variables = formula.variables  # of the formula that the run began with
        self.kept: Factors | None = None  # tables that are not overwritten
        self.rounds: list[Round] = []
        self.rollbacks = 0
        self.undone = 0
        self.can_undo = False
        self.level = 0  # of inertia, at which the last surveys converged
        self.first: int | None = seed  # of the first messages, which are trivial without
        self.clock = Clock(max_seconds)
        self.answers = Table("answers", self.where)
        self.answers.add("value", i8, fill=-1)
        self.answers.extend(formula.variables)

    def begin(self) -> None:
        """Make the tables, and propagate unit clauses."""
        self.now = factors_on(self.formula, self.group, self.first)
        self.before = self.now.like()
        self.clock.to("build")
        units = any(self.now.gather(_has_units))
        if not propagate_units(self.now)[1]:
            raise Contradiction("unit propagation breaks a clause")
        if units:
            foreach(self.now.graph.points, record, self.answers)
            self.advance()
        self.clock.to("units")

    def round(self) -> str:
        """Fix more variables; gives the status with which decimation ends, or an empty one."""
        if self.now.count_clauses() == 0:
            return "satisfied"
        sweeps, converged = self._surveys()
        self.clock.to("sweeps")
        if not converged and self.clock.late:
            return "time"
        undoable = self.can_undo and self.undone < self.options.undo
        if not converged and not undoable:
            return "unconverged"
        seen = marginals(self.now, self.options.rho) if converged else None
        if seen is None or seen.contradictions:  # some variable is certain to be both
            if not undoable:
                return "contradiction"
            self._undo()
            sweeps, seen = 0, marginals(self.now, self.options.rho)
        self.clock.to("marginals")
        if seen.bias < PARAMAGNETIC:
            return "paramagnetic"
        if seen.complexity < self.options.least:
            return "astray"
        chosen = self.fix(seen)
        self.clock.to("units")
        if not chosen:
            return "contradiction"
        self.end_round(sweeps, seen, chosen)
        self.can_undo = True
        return ""

    def end_round(self, sweeps: int, seen: Marginals, chosen: int) -> None:
        """End a round: keep the residual formula, record the round, and fix more in the next."""
        free, m = len(self.now.graph.points), self.now.count_clauses()
        self.advance()
        self.clock.to("compaction")
        implied = free - chosen - len(self.now.graph.points)
        complexity = seen.complexity / self.variables
        facts = seen.bias, histogram(seen), complexity, self.fraction, chosen, implied
        self.rounds.append(Round(sweeps, free, m, *facts))
        self.fraction = min(self.options.fraction, self.fraction * 1.4)

    def result(self, status: str, likely: Any = None) -> Decimation:
        """Return the fixed variables and the residual formula."""
        if status == REFUTED:
            return refuted(self.formula.variables, self.clock)
        rest, names = rest_of(self.now)
        assignment = self.where.to_host(self.answers.value.array).copy()
        self.clock.to("rest")
        counts = self.rounds, self.rollbacks, self.clock.seconds
        return Decimation(assignment, rest, names, status, *counts, likely)

    def _surveys(self) -> tuple[int, bool]:
        """Converge with more and more inertia; if no round can be undone, up to `LOOSEST`."""
        options, total = self.options, 0
        tolerance, least = options.tolerance, 0.0
        if options.adapts:
            shrunk = self.formula.clauses / self.now.count_clauses()
            tolerance = min(tolerance * shrunk**RISE, HIGHEST)
            least = LEAST_CHANGE if shrunk * LATE > 1 else 0.0
        while True:
            sweeps, done, self.level = converge_patiently(
                self.now, tolerance, options.max_sweeps, options.rho, self.level, self.clock.end,
                least,
            )  # fmt: skip
            total += sweeps
            if done or self.clock.late:
                return total, done
            if self.can_undo and self.undone < options.undo or tolerance >= LOOSEST:
                return total, False
            tolerance = min(4 * tolerance, LOOSEST)

    def fix(self, seen: Marginals, most: float = float("inf"), patience: int | None = None) -> int:
        """Fix the most biased variables, and all that unit propagation implies; gives how many.

        After ``patience`` contradictions they are fixed although clauses break.
        """
        n = self.variables
        self.fraction = min(self.fraction, max(most, 1) / n)
        failed = 0
        while True:
            bin, share = threshold(seen.counts, max(1, round(self.fraction * n)))
            salt = np.uint32((self.seed + 131 * len(self.rounds) + 17 * self.undone) % 2**32)
            lossy = patience is not None and failed >= patience
            chosen, consistent = fix_units(self.now, self.answers, (bin, share, salt), lossy)
            if chosen and consistent:
                return chosen
            self.rollbacks += 1
            failed += 1
            self.fraction /= 2
            few = self.fraction < self.options.fraction * LEAST_PART or self.fraction * n < 0.5
            if few and failed > (patience or 0):
                self.now.each(_free)
                return 0

    def advance(self) -> None:
        """Go on with the formula that is left."""
        reduced(self.now, self.before)
        self.now, self.before = self.before, self.now
        if self.before is self.kept:
            self.before = self.now.like()

    def resume(self, seed: int, options: Options, max_seconds: float, devices: Any) -> Run:
        """Return a run on the formula that is left, from trivial messages; ``now`` keeps it.

        The devices in ``devices`` process a residual formula of several, to the same result.
        """
        run = copy(self)
        run.seed, run.options, run.fraction, run.level = seed, options, options.fraction, 0
        run.variables, run.kept = len(self.now.graph.points), self.now
        run.rounds, run.rollbacks, run.undone, run.can_undo = [], 0, 0, False
        run.clock = Clock(max_seconds)
        if self.now.divided:
            run._move(devices)
        else:
            self.now.each(trivial_messages)
        return run

    def _move(self, devices: Any) -> None:
        """Copy the formula that is left, and the values, to other devices."""
        now, values = self.now, self.where.to_host(self.answers.value.array)
        rest, names = rest_of(now)
        self.group = group_of(rest, devices)
        self.where = self.group.devices[self.group.here.start]
        self.now = factors_on(rest, self.group, None, (int(now.scale), now.sum_type))

        def name(part: Factors) -> None:
            part.graph.points.origin[:] = names

        self.now.each(name)
        self.before = self.now.like()
        self.answers = Table("answers", self.where)
        self.answers.add("value", i8)
        self.answers.extend(value=values)

    def _undo(self) -> None:
        """Roll the last round back, and fix fewer from now on."""
        self.now, self.before = self.before, self.now
        foreach(self.now.graph.points, forget, self.answers)
        self.now.each(_free)
        self.rounds.pop()
        self.fraction /= 2
        self.rollbacks += 1
        self.undone += 1
        self.can_undo = False


__all__ = ["Decimation", "Round", "decimate"]
