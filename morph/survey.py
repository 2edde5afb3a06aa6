"""Models of large random formulas: survey propagation, then local search, then a check.

`solve` decimates a formula by survey propagation (`decimate`), what is left by belief propagation
(`believe`), looks for a model of the last of it (`walksat`), and checks the model against the
formula as it was given.  If that fails, it does so again in smaller steps, and with variables that
can be let go (`backtrack`, `reinforce`).  Each attempt may search twice as long as the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph import validate
from morph.algorithms.beliefs import believe
from morph.algorithms.decimation import decimate
from morph.algorithms.fields import backtrack, reinforce
from morph.algorithms.rounds import Decimation, Round
from morph.algorithms.walksat import Walk, walksat
from morph.data.device import Device
from morph.data.device import device as device_of
from morph.formula import Formula

__all__ = [
    "Decimation", "Round", "Solution", "Walk", "backtrack", "believe", "decimate", "reinforce",
    "solve", "walksat",
]  # fmt: skip

SATISFIABLE, UNSATISFIABLE, UNKNOWN = "SATISFIABLE", "UNSATISFIABLE", "UNKNOWN"
ATTEMPTS = 4  # without a limit of time
WAYS: tuple[tuple[Callable[..., Decimation], dict[str, Any]], ...] = (
    (decimate, {"undo": 1}), (decimate, {"fraction": 0.01, "undo": 2}),
    (backtrack, {"fraction": 0.02}),
    (backtrack, {"fraction": 0.01, "ratio": 0.8}), (decimate, {"fraction": 0.004}), (reinforce, {}),
)  # fmt: skip
FLIPS, FLIPS_EACH = 10_000_000, 100  # of a long local search: and so many more for each variable
REST_EACH, ALL_EACH = 2, 4  # of a short one: of what surveys leave, and of the whole formula
FEW, FEW_OF = 10, 2000  # clauses left, or one for so many variables: else the next way is quicker
Progress = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class Solution:
    """What `solve` found.

    Attributes
    ----------
    status : str
        ``"SATISFIABLE"``: there is a model, which was checked; ``"UNSATISFIABLE"``: unit
        propagation ends in an empty clause; ``"UNKNOWN"``.
    reason : str
        Why the status is what it is.
    model : (n,) bool array or None
        Whether variable ``v`` is true, at ``v - 1``.
    unsatisfied : int
        Clauses that the best model tried left unsatisfied.
    attempts : int
        Decimations tried.
    rounds : list of Round
        Of the last attempt's decimation.
    stopped : str
        Why it ended, as `decimate` tells; empty if there was none.
    rollbacks : int
        Rounds of it that were taken back, or tried again with less.
    left : int
        Variables that it left to beliefs and local search, and ``left_clauses``.
    believed : list of Round
        Rounds of belief propagation on these.
    walked : int
        Variables that beliefs left to local search, and ``walked_clauses``.
    flips, steps : int
        Of the last attempt's local search.
    seconds : dict of str to float
        By phase, of all attempts.
    """

    status: str
    reason: str
    model: NDArray[np.bool_] | None
    unsatisfied: int
    attempts: int = 0
    rounds: list[Round] = field(default_factory=list, repr=False)
    stopped: str = ""
    rollbacks: int = 0
    left: int = 0
    left_clauses: int = 0
    believed: list[Round] = field(default_factory=list, repr=False)
    walked: int = 0
    walked_clauses: int = 0
    flips: int = 0
    steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def solve(
    cnf: Any,
    seed: int = 0,
    *,
    time: float | None = None,
    device: str | Device = "auto",
    max_rounds: int = 1000,
    progress: Progress | None = None,
) -> Solution:
    """Look for a model of a formula; made for large random k-SAT near its threshold.

    Parameters
    ----------
    cnf : path, clauses, (offsets, literals) or Formula
        As `morph.Formula.of` takes it.
    seed : int
        0 or more.  The same gives the same model, unless time runs out.
    time : float, optional
        Seconds after which to give up, looked at between launches.  Without it, after four
        attempts: decimation, in smaller steps, by backtracking, by more of it.
    device : str or Device
    max_rounds : int
        Of one decimation; with 0 there is local search alone.
    progress : callable, optional
        Called with ``"decimation"``, ``"beliefs"`` or ``"search"`` and numbers by name, now and
        then.

    Returns
    -------
    Solution
        A model is given only after `morph.validate.satisfied` has found no clause without a true
        literal, and ``"UNSATISFIABLE"`` only if `morph.validate.refuted` agrees.

    Raises
    ------
    ValueError, TypeError
        If an argument is wrong; names it.
    FormatError, OSError
        If a file cannot be read.

    References
    ----------
    A. Braunstein, M. Mezard, R. Zecchina: Survey propagation: an algorithm for satisfiability.
    Random Structures & Algorithms 27, 2005.
    """
    where = device_of(device)
    if time is not None and not time > 0:
        raise ValueError(f"time = {time}: expected more than 0 seconds")
    for name, value, least in (("seed", seed, 0), ("max_rounds", max_rounds, 0)):
        if not isinstance(value, int | np.integer) or not least <= value < 2**32:
            raise ValueError(f"{name} = {value!r}: expected an integer from {least} to 2^32 - 1")
    return _Solver(Formula.of(cnf), int(seed), time, where, int(max_rounds), progress).solve()


class _Solver:
    """One call of `solve`."""

    def __init__(
        self,
        formula: Formula,
        seed: int,
        time: float | None,
        where: Device,
        max_rounds: int,
        progress: Progress | None,
    ) -> None:
        self.formula, self.seed, self.where = formula, seed, where
        self.max_rounds, self.progress = max_rounds, progress
        self.limited = time is not None
        self.end = monotonic() + (float("inf") if time is None else time)
        self.seconds: dict[str, float] = {}
        self.found: dict[str, Any] = {}

    def solve(self) -> Solution:
        """Try one way after the other."""
        attempts, unsatisfied = 0, self.formula.clauses
        while not attempts or monotonic() < self.end and (self.limited or attempts < ATTEMPTS):
            model, failed = self._attempt(attempts)
            attempts, unsatisfied = attempts + 1, min(unsatisfied, failed)
            self.found["attempts"] = attempts
            if model is None:
                return self._answer(UNSATISFIABLE, "unit propagation ends in an empty clause")
            if not failed:
                reason = "every clause of the formula holds a true literal"
                return self._answer(SATISFIABLE, reason, model)
        tried = "time is up" if monotonic() >= self.end else "no attempt succeeded"
        reason = f"{tried}: {unsatisfied} of {self.formula.clauses} clauses are left unsatisfied"
        return self._answer(UNKNOWN, reason, None, unsatisfied)

    def _attempt(self, k: int) -> tuple[Any, int]:
        """Decimate, search, check; gives a model, None if there is none, and what it fails."""
        formula, seed = self.formula, (self.seed + k * 0x9E3779B9) % 2**32
        assignment = np.zeros(formula.variables, bool)
        rest, names = formula, slice(None)  # of all variables
        if self.max_rounds:
            way, options = WAYS[k % len(WAYS)]
            if way is not reinforce:
                options = {"max_rounds": self.max_rounds, "progress": self._round, **options}
            self._say("decimation", {"attempt": k + 1, "variables": formula.variables})
            done = way(formula, seed, self.where, max_seconds=self._left(), **options)
            for phase, spent in done.seconds.items():
                self._spend(phase, spent)
            self.found |= {"rounds": done.rounds, "rollbacks": done.rollbacks}
            self.found["stopped"] = done.status
            assignment, rest, names = done.assignment == 1, done.rest, done.variables
        if not self.max_rounds or done.status == "unsatisfiable":
            started = monotonic()
            refuted = validate.refuted(formula)
            self._spend("refutation", monotonic() - started)
            if refuted:
                return None, 0
        self.found |= {"left": rest.variables, "left_clauses": rest.clauses}
        self.found |= {"flips": 0, "steps": 0, "believed": [], "walked": rest.variables}
        self.found["walked_clauses"] = rest.clauses
        early = k < ATTEMPTS - 1  # the next way may take less than to mend what this one leaves
        if not self.max_rounds:
            return self._mend(assignment, [(rest, None, self._long())], formula.clauses, seed)
        if done.status == "astray" and early:
            return assignment, self._check(assignment)
        if rest.clauses and self._left() > 0:
            assignment[names] = self._believe(rest, seed)
        short, every = REST_EACH * rest.variables, ALL_EACH * formula.variables
        searches = [(rest, names, short)]
        if done.status in ("paramagnetic", "rounds"):
            searches += [(formula, slice(None), every), (rest, names, self._long())]
            return self._mend(assignment, searches, formula.clauses, seed)
        every = max(every, self._long() >> max(ATTEMPTS - 1 - k, 0))  # the rest may have no model
        most = max(FEW, formula.variables // FEW_OF) if early else formula.clauses
        return self._mend(assignment, [*searches, (formula, slice(None), every)], most, seed)

    def _mend(
        self, model: Any, searches: list[tuple[Formula, Any, int]], most: int, seed: int
    ) -> tuple[Any, int]:
        """Search part after part of the formula, from the best model; at least the first.

        A part is a formula, whose variables these are (None: begin at random), and how many flips.
        More than so many clauses left unsatisfied are given up.  Gives what they are.
        """
        fewest: Any = None
        for part, where, flips in searches:
            if fewest is not None and (fewest > most or self._left() <= 0):
                break
            tried, start = model.copy(), None if where is None else model[where]
            tried[slice(None) if where is None else where] = self._search(part, start, seed, flips)
            left = self._check(tried)
            if not left:
                return tried, 0
            fewest = self._check(model) if fewest is None else fewest
            if left <= fewest:
                model, fewest = tried, left
        return model, fewest

    def _long(self) -> int:
        """How many flips a long search may make."""
        return FLIPS + FLIPS_EACH * self.formula.variables

    def _believe(self, rest: Formula, seed: int) -> Any:
        """Give what beliefs say, mended by a short search; if they are refuted, random values."""
        self._say("beliefs", {"variables": rest.variables, "clauses": rest.clauses})
        started = monotonic()
        done = believe(
            rest, seed, self.where, lossy=True, max_seconds=self._left(), progress=self._belief
        )
        self._spend("beliefs", monotonic() - started)
        if done.status == "unsatisfiable":  # surveys have led astray: the whole formula may not be
            return np.random.PCG64(seed).random_raw(rest.variables) >> np.uint64(63)
        self.found["believed"] = done.rounds
        self.found |= {"walked": done.rest.variables, "walked_clauses": done.rest.clauses}
        model, last = done.assignment == 1, done.likely
        if done.rest.clauses:
            last = self._search(done.rest, last, seed, done.rest.variables)
        model[done.variables] = last
        return model

    def _search(self, formula: Formula, model: Any, seed: int, flips: int) -> Any:
        started = monotonic()
        self._say("search", {"variables": formula.variables, "clauses": formula.clauses})
        walk = walksat(
            formula, model, seed, max_flips=flips,
            time=max(self._left(), 0), device=self.where, progress=self._tell,
        )  # fmt: skip
        self.found["flips"] += walk.flips
        self.found["steps"] += walk.steps
        self._spend("search", monotonic() - started)
        return walk.model

    def _check(self, model: Any) -> int:
        started = monotonic()
        held = validate.satisfied(self.formula, model)
        self._spend("check", monotonic() - started)
        return int(held.size - held.sum())

    def _left(self) -> float:
        return self.end - monotonic()

    def _spend(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def _tell(self, flips: int, unsatisfied: int) -> None:
        self._say("search", {"flips": flips, "unsatisfied": unsatisfied})

    def _belief(self, done: Round) -> None:
        self._say("beliefs", {"free variables": done.free, "clauses": done.clauses})

    def _round(self, done: Round) -> None:
        self._say("decimation", {"free variables": done.free, "clauses": done.clauses,
                                 "sweeps": done.sweeps, "bias": float(done.bias)})  # fmt: skip

    def _say(self, stage: str, numbers: dict[str, Any]) -> None:
        if self.progress is not None:
            self.progress(stage, numbers)

    def _answer(self, status: str, reason: str, model: Any = None, failed: int = 0) -> Solution:
        return Solution(status, reason, model, failed, seconds=self.seconds, **self.found)
