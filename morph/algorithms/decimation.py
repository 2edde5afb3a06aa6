"""Survey-inspired decimation: fix the most biased variables, simplify, and go on with the rest.

Mezard, Zecchina (2002), in rounds: surveys converge; a fraction of the variables, those of the
largest bias, get their likelier value; unit propagation runs to its end; what is left is written
anew.  When the surveys are (nearly) trivial, local search can solve the rest.  If unit propagation
meets a contradiction, fewer are fixed; if the surveys do not converge, the last round is taken
back.  A round costs O(literals left) a sweep.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.factors import Contradiction, Factors, factor_graph, reduced, resum, rest_of
from morph.algorithms.marginals import Marginals, choose, marginals, threshold
from morph.algorithms.surveys import converge
from morph.algorithms.units import propagate_units
from morph.device import device as device_of
from morph.formula import Formula
from morph.kernel import foreach

PARAMAGNETIC = 0.02  # mean weight of being forced, below which surveys are trivial
HISTOGRAM = 20  # bins of equal width, for people


class Round(NamedTuple):
    """One round of `decimate`.

    Attributes
    ----------
    sweeps : int
        Of survey propagation.
    free, clauses : int
        How many there were.
    bias : float
        Mean weight of a variable's likelier value.
    histogram : tuple of int
        Variables by bias, in 20 bins from 0 to 1.
    complexity : float
        Sigma, in nats a variable of the whole formula.
    fraction : float
        What part of all variables was to be fixed.
    chosen, implied : int
        Variables fixed by bias, and by unit propagation.
    """

    sweeps: int
    free: int
    clauses: int
    bias: float
    histogram: tuple[int, ...]
    complexity: float
    fraction: float
    chosen: int
    implied: int


class Decimation(NamedTuple):
    """Result of `decimate`.

    Attributes
    ----------
    assignment : array, shape (n,), int8
        1 and 0 for true and false, -1 for the variables that are still free.
    rest : Formula
        What is left to satisfy, over the free variables alone.
    variables : array, shape (rest.variables,), int32
        Which variable (from 0) each of the rest's is.
    status : str
        ``"paramagnetic"``: surveys are trivial, the rest is for local search; ``"satisfied"``: no
        clause is left; ``"unsatisfiable"``: unit propagation alone refutes the formula;
        ``"contradiction"`` or ``"unconverged"``: however few were fixed; ``"rounds"`` or
        ``"time"``: the limit was reached.
    rounds : list of Round
    rollbacks : int
    seconds : dict of str to float
        By phase.
    """

    assignment: Any
    rest: Formula
    variables: Any
    status: str
    rounds: list[Round]
    rollbacks: int
    seconds: dict[str, float]


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.last = self.start = perf_counter()

    def to(self, phase: str) -> None:
        now = perf_counter()
        self.spent[phase] = self.spent.get(phase, 0.0) + now - self.last
        self.last = now


def decimate(
    formula: Formula,
    seed: int = 0,
    device: Any = "cpu",
    max_rounds: int = 1000,
    *,
    fraction: float = 0.04,
    tolerance: float = 0.01,
    max_sweeps: int = 1000,
    rho: float = 1.0,
    max_seconds: float = float("inf"),
) -> Decimation:
    """Fix variables by survey propagation until what is left is easy.

    Parameters
    ----------
    formula : Formula
    seed : int
        The same seed gives the same answer, on any device.
    device : str or Device
    max_rounds : int
    fraction : float
        Of all variables, fixed in a round at most.
    tolerance : float
        Surveys have converged when none changes by more.
    max_sweeps : int
        In a round.
    rho : float
        1 for survey propagation, 0 for belief propagation.
    max_seconds : float
        Stop after the round that ends later than this.

    Returns
    -------
    Decimation

    Raises
    ------
    ValueError
        If ``fraction`` or ``tolerance`` is not above 0 or ``rho`` is not from 0 to 1.
    """
    if not (0 < fraction <= 1 and 0 < tolerance < 1 and 0 <= rho <= 1):
        raise ValueError(
            f"fraction {fraction} and tolerance {tolerance} must lie above 0, rho {rho} in [0, 1]"
        )
    clock, where = _Clock(), device_of(device)
    n = formula.variables
    assignment = where.full(n, -1, np.int8)
    rounds: list[Round] = []
    try:
        now = factor_graph(formula, where, seed)
        before = now.like()
        clock.to("build")
        _, consistent = propagate_units(now)
        if not consistent:
            raise Contradiction("unit propagation breaks a clause")
    except Contradiction:
        nothing = Formula(n, np.zeros(2, np.int64), np.empty(0, np.int32))
        free = np.arange(n, dtype=np.int32)
        host = where.to_host(assignment)
        return Decimation(host, nothing, free, "unsatisfiable", rounds, 0, clock.spent)
    now, before = _advance(now, before, assignment)
    clock.to("units")
    part, rollbacks, can_undo, status = fraction, 0, False, "rounds"
    while len(rounds) < max_rounds:
        g = now.graph
        if len(g.clauses) == 0:
            status = "satisfied"
            break
        if perf_counter() - clock.start > max_seconds:
            status = "time"
            break
        sweeps, converged = converge(now, tolerance, max_sweeps, rho)
        if not converged:
            more, converged = converge(now, tolerance, max_sweeps, rho, inertia=0.5)
            sweeps += more
        clock.to("sweeps")
        if not converged:
            if not can_undo or part < fraction / 32:
                status = "unconverged"
                break
            now, before = before, now
            _forget(now, assignment)
            rounds.pop()
            can_undo, part = False, part / 2
            rollbacks += 1
            seen = marginals(now, rho)
        else:
            seen = marginals(now, rho)
        clock.to("marginals")
        if seen.bias < PARAMAGNETIC:
            status = "paramagnetic"
            break
        while True:
            bin, share = threshold(seen.counts, max(1, round(part * n)))
            foreach(g.points if g is now.graph else now.graph.points, choose, now.graph, bin,
                    np.uint32(share), np.uint32((seed + 131 * len(rounds)) % 2**32))
            with where.active():
                chosen = int((now.graph.points.value.array >= 0).sum())
            _, consistent = propagate_units(now)
            if consistent:
                break
            rollbacks += 1
            part /= 2
            if part < fraction / 128 or part * n < 1:
                break
        clock.to("units")
        if not consistent:
            status = "contradiction"
            break
        free, m = len(now.graph.points), len(now.graph.clauses)
        used = part
        now, before = _advance(now, before, assignment)
        implied = free - chosen - len(now.graph.points)
        clock.to("compaction")
        rounds.append(
            Round(sweeps, free, m, seen.bias, _histogram(seen), seen.complexity / n, used, chosen,
                  implied)
        )
        can_undo, part = True, min(fraction, part * 1.4)
    rest, names = rest_of(now)
    host = where.to_host(assignment)
    clock.to("rest")
    return Decimation(host, rest, names, status, rounds, rollbacks, clock.spent)


def _advance(now: Factors, before: Factors, assignment: Any) -> tuple[Factors, Factors]:
    """Write down what is fixed, and go on with what is left; ``before`` is overwritten."""
    points = now.graph.points
    with now.graph.device.active():
        fixed = points.value.array >= 0
        assignment[points.origin.array[fixed]] = points.value.array[fixed]
    reduced(now, before)
    return before, now


def _forget(now: Factors, assignment: Any) -> None:
    """Make all variables free again."""
    points = now.graph.points
    with now.graph.device.active():
        points.value[:] = -1
        assignment[points.origin.array] = -1


def _histogram(seen: Marginals) -> tuple[int, ...]:
    bias = 1 - 2.0 ** -((np.arange(len(seen.counts)) + 0.5) / 170)
    bias[0] = 0
    bins = np.minimum((bias * HISTOGRAM).astype(int), HISTOGRAM - 1)
    return tuple(np.bincount(bins, seen.counts, HISTOGRAM).astype(int).tolist())


__all__ = ["Decimation", "Round", "decimate", "resum"]
