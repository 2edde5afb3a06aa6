"""The results of decimation, round by round."""

from __future__ import annotations

from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.sat.factors import BINS
from morph.algorithms.sat.marginals import PER_OCTAVE, Marginals
from morph.data.formula import Formula

HISTOGRAM = 20  # bins of equal width


class Round(NamedTuple):
    """One round of `decimate`, `backtrack`, `reinforce` or `believe`.

    Attributes
    ----------
    sweeps : int
        Of survey propagation.
    free, clauses : int
        How many there were.
    bias : float
        Mean weight of a variable's likelier value.
    histogram : tuple of int
        Free variables by bias, in 20 bins from 0 to 1.
    complexity : float
        Sigma, in nats for each variable of the whole formula.
    fraction : float
        Part of all variables that was to be fixed.
    chosen, implied : int
        Variables fixed by bias, and by unit propagation.
    released : int
        Variables that were unfixed.
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
    released: int = 0


class Decimation(NamedTuple):
    """Result of `decimate`, `backtrack`, `reinforce` and `believe`.

    Attributes
    ----------
    assignment : array, shape (n,), int8
        1 and 0 for true and false, -1 for the variables that are still free.
    rest : Formula, or DividedFormula of a divided one
        The residual formula, over the free variables alone.
    variables : array, shape (rest.variables,), int32
        Which variable (from 0) each of the rest's is.
    status : str
        ``"paramagnetic"``: surveys are trivial, the rest is for local search; ``"satisfied"``: no
        clause is left; ``"unsatisfiable"``: unit propagation alone refutes the formula;
        ``"contradiction"`` or ``"unconverged"``: however few were fixed; ``"astray"``: the
        complexity is below zero; ``"rounds"`` or ``"time"``: the limit was reached;
        ``"reinforced"``: all variables have a value, which may break clauses.
    rounds : list of Round
    rollbacks : int
        Rounds and choices rolled back.
    seconds : dict of str to float
        By phase.
    likely : array, shape (rest.variables,), bool, or None
        The likelier value of the rest's variables, where `believe` has found one.
    """

    assignment: Any
    rest: Formula
    variables: Any
    status: str
    rounds: list[Round]
    rollbacks: int
    seconds: dict[str, float]
    likely: Any = None


class Clock:
    """Seconds by phase, and a time limit."""

    def __init__(self, most: float = float("inf")) -> None:
        self.seconds: dict[str, float] = {}
        self.last = perf_counter()
        self.end = self.last + most

    def to(self, phase: str) -> None:
        """Count the time since the last call for a phase."""
        now = perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.last
        self.last = now

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return perf_counter() > self.end


@cache
def _places() -> Any:
    """The bin of equal width of each bin of `Marginals.counts`."""
    bins = np.arange(BINS)
    bias = 1 - 2.0 ** -((bins + 0.5) / PER_OCTAVE) * (bins > 0)
    bias[0] = 0
    return np.minimum((bias * HISTOGRAM).astype(int), HISTOGRAM - 1)


def histogram(seen: Marginals) -> tuple[int, ...]:
    """Give the variables by bias, in bins of equal width."""
    return tuple(np.bincount(_places(), seen.counts, HISTOGRAM).astype(int).tolist())


def refuted(n: int, clock: Clock) -> Decimation:
    """Give the result for a formula that unit propagation refutes."""
    empty = Formula(n, np.zeros(2, np.int64), np.empty(0, np.int32))
    free = np.arange(n, dtype=np.int32)
    return Decimation(np.full(n, -1, np.int8), empty, free, "unsatisfiable", [], 0, clock.seconds)
