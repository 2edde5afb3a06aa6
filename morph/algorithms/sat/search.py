"""The search for a model of one formula: local search, CaDiCaL, decimation, local search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph import validate
from morph.algorithms.sat.beliefs import believe, continued
from morph.algorithms.sat.cadical import available, cadical
from morph.algorithms.sat.decimation import REFUTED, Run, decimate, decimated, options_of
from morph.algorithms.sat.fields import backtrack, reinforce
from morph.algorithms.sat.probsat import (
    Tables,
    local_search,
    tables_in_background,
    unsatisfied,
)
from morph.algorithms.sat.rounds import Decimation, Round
from morph.algorithms.sat.statistics import Statistics
from morph.data.formula import Formula
from morph.runtime.device import Device
from morph.runtime.toolchain import OutOfTime, deadline

SATISFIABLE, UNSATISFIABLE, UNKNOWN = "SATISFIABLE", "UNSATISFIABLE", "UNKNOWN"
ATTEMPTS = 4  # without a limit of time
SEQUENCE: tuple[tuple[Callable[..., Decimation], dict[str, Any]], ...] = (
    (decimate, {"undo": 1}), (decimate, {"fraction": 0.02, "tolerance": 0.02, "undo": 1}),
    (backtrack, {"fraction": 0.02}),
    (backtrack, {"fraction": 0.01, "ratio": 0.8}), (decimate, {"fraction": 0.004}), (reinforce, {}),
)  # fmt: skip
FLIPS, FLIPS_EACH = 10_000_000, 100  # of a long local search: in all, and more for each variable
# local search and CaDiCaL in turn before decimation: (flips, conflicts); FLIPS_EACH is added
FIRST = (500_000, 20_000), (2_000_000, 100_000), (FLIPS, 1_000_000)
REST_EACH, ALL_EACH = 2, 4  # flips a variable of a short one: of the rest, of the whole formula
# unsatisfied clauses, or one for so many variables, that are worth a long search
NEAR_MODEL, NEAR_MODEL_OF = 10, 2000
# Upper bound of the seconds a literal to make the tables of a formula, which is uninterruptible:
# on the host, and the updates that the device makes
BUILD, UPDATES = 1e-8, 0.6
RESERVE = 0.2  # part of the time that is reserved for the last local search
FIRST_SHARE, COMPLETE_SHARE = 0.4, 0.5  # of the time before that, for local search and CaDiCaL
# Beliefs of fewer literals run on one GPU (an estimate); bytes of memory for a literal (estimated)
SINGLE_GPU_LITERALS, LITERAL_BYTES = 1 << 28, 100
EMPTY = "unit propagation ends in an empty clause"
FUNCTIONS: dict[str, Callable[..., Decimation]] = {  # of methods
    "decimation": decimate,
    "backtracking": backtrack,
    "reinforcement": reinforce,
}
Progress = Callable[[str, dict[str, Any]], None]


class Settings(NamedTuple):
    """The checked arguments of one call of `solve`."""

    seed: int
    devices: list[Device]
    method: str
    options: dict[str, Any]
    max_rounds: int
    complete: bool | None
    progress: Progress | None

    @property
    def where(self) -> Device:
        """The device of steps that are not divided."""
        return self.devices[0]

    @property
    def tries_first(self) -> bool:
        """Whether local search and CaDiCaL go before decimation."""
        return self.method == "auto" and (self.max_rounds > 0 or self.complete is True)


def build_seconds(where: Device, formula: Formula) -> float:
    """Bound the time to make the tables of a formula."""
    return (BUILD + UPDATES / where.throughput) * formula.literals.size


def random_values(variables: int, seed: int) -> NDArray[np.bool_]:
    """Return random values for variables."""
    drawn: NDArray[np.bool_] = np.random.PCG64(seed).random_raw(variables) >> 63 != 0
    return drawn


class Residual:
    """The residual formula of a decimation; its clauses are copied to the host only on demand.

    ``run`` is the decimation if beliefs can go on with its tables.
    """

    def __init__(self, run: Run | None, status: str, result: Decimation | None) -> None:
        self.run, self.status, self._result = run, status, result
        source: Run | Decimation
        if run is not None:
            self.variables = len(run.now.graph.points)
            self.clauses, self.seconds = run.now.count_clauses(), run.clock.seconds
            self.literals = sum(len(part.graph.entries) for part in run.now.parts)
            source = run
        else:
            assert result is not None
            self.variables, self.clauses = result.rest.variables, result.rest.clauses
            self.literals = result.rest.literals.size
            self.seconds, source = result.seconds, result
        self.rounds, self.rollbacks = source.rounds, source.rollbacks

    @classmethod
    def of_result(cls, result: Decimation) -> Residual:
        """Take the result of a decimation."""
        return cls(None, result.status, result)

    @classmethod
    def of_run(cls, run: Run, status: str) -> Residual:
        """Take a run; of one that refuted the formula, the result."""
        if status == REFUTED:
            return cls.of_result(run.result(status))
        return cls(run, status, None)

    def result(self) -> Decimation:
        """Return the result; its assignment has the values of a run that went on, too."""
        if self._result is None:
            assert self.run is not None
            self._result = self.run.result(self.status)
        return self._result


class Reporter:
    """A search that reports its progress to the function of its settings."""

    settings: Settings

    def _belief(self, done: Round) -> None:
        self._report("beliefs", {"free variables": done.free, "clauses": done.clauses})

    def _round(self, done: Round) -> None:
        self._report("decimation", {"free variables": done.free, "clauses": done.clauses,
                                    "sweeps": done.sweeps, "bias": float(done.bias)})  # fmt: skip

    def _report(self, stage: str, numbers: dict[str, Any]) -> None:
        if self.settings.progress is not None:
            self.settings.progress(stage, numbers)


class ModelSearch(Reporter):
    """The search for a model of one formula; `model` is the best assignment so far."""

    model: NDArray[np.bool_]

    def __init__(
        self, formula: Formula, settings: Settings, statistics: Statistics,
        limited: bool, tries_first: bool,
    ) -> None:  # fmt: skip
        self.formula, self.settings, self.statistics = formula, settings, statistics
        self.limited, self.tries_first = limited, tries_first
        self.seed, self.where = settings.seed, settings.where
        self.max_rounds = 0 if settings.method == "search" else settings.max_rounds
        self.unsatisfied, self.attempts = formula.clauses + 1, 0
        self.tables: Tables | None = None  # of all clauses, for local search on the host

    def solve(self, end: float) -> tuple[str, str]:
        """Try the methods in turn until ``end``, or resume doing so; return status and reason."""
        self.end, reason = end, ""
        self.until = end - RESERVE * (end - monotonic()) if self.limited else end
        with suppress(OutOfTime), deadline(self.until):
            if self.tries_first:
                self.tries_first = False
                reason = self._first()
            reason = reason or self._attempts()
        if reason:
            return UNSATISFIABLE, reason
        if self.unsatisfied > self.formula.clauses:  # the time was up before the first attempt
            model = random_values(self.formula.variables, self.seed)
            self._keep(model, self._check(model))
        if self.unsatisfied and self.limited:
            self.until = self.end
            with suppress(OutOfTime), deadline(self.until):
                self._search_from_best()
        if not self.unsatisfied:
            return SATISFIABLE, ""
        if not self.limited:
            return UNKNOWN, "no attempt succeeded"
        up = monotonic() >= self.end
        return UNKNOWN, "time is up" if up else "too little time is left for another attempt"

    def _attempts(self) -> str:
        """Try until the time is up, or ATTEMPTS times; return a reason if it is refuted."""
        while self.unsatisfied and self._left() > self._build(self.formula):
            model, failed = self._attempt(self.attempts)
            self.attempts += 1
            self.statistics.attempts = self.attempts
            if model is None:
                return EMPTY
            self._keep(model, failed)
            if not self.limited and self.attempts == ATTEMPTS:
                break
        return ""

    def _search_from_best(self) -> None:
        """Search locally from the best assignment so far until the time is up."""
        if self._left() > self._build(self.formula):
            seed = self.seed ^ 0x5DEECE66 ^ self.attempts
            model = self._search(self.formula, self.model, seed, 2**62)
            self._keep(model, self._check(model))

    def _keep(self, model: Any, failed: int) -> None:
        if failed < self.unsatisfied:
            self.model, self.unsatisfied = model, failed

    def _first(self) -> str:
        """Run local search and CaDiCaL in turn; return a reason if the formula is refuted."""
        formula, until = self.formula, self.until
        self.statistics.set_searched(formula.variables, formula.clauses)
        complete = self.settings.complete
        complete = available() if complete is None else complete
        for k, (flips, conflicts) in enumerate(FIRST if complete else FIRST[-1:]):
            self.until = monotonic() + FIRST_SHARE * self._left()
            flips += FLIPS_EACH * formula.variables
            model = self._search(formula, None, (self.seed + k) % 2**32, flips)
            self._keep(model, self._check(model))
            self.until = until
            if not self.unsatisfied or not complete or self._left() <= 0:
                break
            last = self.limited and k == len(FIRST) - 1
            if self._refuted(0 if last else conflicts):
                return "CaDiCaL has refuted the formula"
            if not self.unsatisfied:
                break
        return ""

    def _refuted(self, conflicts: int) -> bool:
        """Run CaDiCaL, limited by conflicts and time; return whether it refuted the formula."""
        started = monotonic()
        self._report(
            "CaDiCaL", {"variables": self.formula.variables, "clauses": self.formula.clauses}
        )
        seconds = COMPLETE_SHARE * max(self._left(), 0.0) if self.limited else None
        try:
            found, model = cadical(self.formula, conflicts, seconds)
        except ImportError:
            if self.settings.complete:
                raise
            return False
        self.statistics.spend("CaDiCaL", started)
        if found:
            self._keep(model, self._check(model))
        return found is False

    def _attempt(self, k: int) -> tuple[Any, int]:
        """Decimate, search, check; return the assignment (None: refuted), its unsatisfied count."""
        formula, seed = self.formula, (self.seed + k * 0x9E3779B9) % 2**32
        if not self.max_rounds:
            return self._search_alone(seed)
        residual = self._decimated(k, seed)
        if residual.status == REFUTED and self._refuted_by_units():
            return None, 0
        self.statistics.set_rest(residual.variables, residual.clauses)
        early = k < ATTEMPTS - 1  # the next method may be quicker than a long search now
        if residual.status == "astray" and early:
            assignment = residual.result().assignment == 1
            return assignment, self._check(assignment)
        if residual.clauses and self._left() > 0:
            assignment = self._believe(residual, seed)
        else:
            assignment = residual.result().assignment == 1
        most = formula.clauses
        if early and residual.status not in ("paramagnetic", "rounds"):
            most = max(NEAR_MODEL, formula.variables // NEAR_MODEL_OF)
        return self._improve(assignment, self._searches(residual, k), most, seed)

    def _search_alone(self, seed: int) -> tuple[Any, int]:
        """Search from random values, without decimation."""
        formula = self.formula
        if self._refuted_by_units():
            return None, 0
        self.statistics.set_rest(formula.variables, formula.clauses)
        most = self.settings.options.get("max_flips", self._long())
        model = self._search(formula, None, seed, most)
        return model, self._check(model)

    def _refuted_by_units(self) -> bool:
        """Check whether unit propagation refutes the formula."""
        started = monotonic()
        refuted = validate.refuted(self.formula)
        self.statistics.spend("refutation", started)
        return refuted

    def _searches(self, residual: Residual, k: int) -> Iterator[tuple[Formula, Any, int]]:
        """Yield the local searches of the k-th attempt, as `_improve` takes them."""
        started = monotonic()
        done, every = residual.result(), ALL_EACH * self.formula.variables
        self.statistics.spend("rest", started)
        yield done.rest, done.variables, REST_EACH * residual.variables
        if residual.status in ("paramagnetic", "rounds"):
            yield self.formula, slice(None), every
            yield done.rest, done.variables, self._long()
        else:  # the rest may have no model
            every = max(every, self._long() >> max(ATTEMPTS - 1 - k, 0))
            yield self.formula, slice(None), every

    def _decimated(self, k: int, seed: int) -> Residual:
        """Decimate by the method that the user chose, or by that of the k-th attempt."""
        method, options = SEQUENCE[k % len(SEQUENCE)]
        if self.settings.method != "auto":
            method, options = FUNCTIONS[self.settings.method], self.settings.options
        self._report("decimation", {"attempt": k + 1, "variables": self.formula.variables})
        self.tables = self.tables or tables_in_background(self.formula, self.where)
        limits: dict[str, Any] = {"max_seconds": self._left()}
        if method is not reinforce:
            limits |= {"max_rounds": self.max_rounds, "progress": self._round}
        if method is decimate:
            chosen = options_of(self.formula.variables, **options)
            residual = Residual.of_run(
                *decimated(self.formula, seed, self.settings.devices, options=chosen, **limits)
            )
        else:
            done = method(self.formula, seed, self.where, **limits, **options)
            residual = Residual.of_result(done)
        self.statistics.add_seconds(residual.seconds)
        self.statistics.set_decimation(residual.rounds, residual.rollbacks, residual.status)
        return residual

    def _improve(
        self, model: Any, searches: Iterable[tuple[Formula, Any, int]], most: int, seed: int
    ) -> tuple[Any, int]:
        """Run local searches in turn, each from the best assignment so far, until one succeeds.

        A search is a formula, the places of its variables in ``model`` and a number of flips.
        After the first one stops when more than ``most`` clauses are unsatisfied.
        Returns the assignment and the number of clauses that it leaves unsatisfied.
        """
        fewest, searched = self._check(model), False
        for part, where, flips in searches if fewest else ():
            if searched and (fewest > most or self._left() <= self._build(part)):
                break
            tried, searched = model.copy(), True
            tried[where] = self._search(part, model[where], seed, flips)
            left = self._check(tried)
            if left <= fewest:
                model, fewest = tried, left
            if not left:
                break
        return model, fewest

    def _long(self) -> int:
        """The number of flips of a long search."""
        return FLIPS + FLIPS_EACH * self.formula.variables

    def _devices(self, size: int) -> list[Device]:
        """The devices for beliefs: the first GPU alone where several would take longer."""
        devices, where = self.settings.devices, self.settings.where
        alone = len(devices) > 1 and not where.on_host and size < SINGLE_GPU_LITERALS
        return devices[:1] if alone and LITERAL_BYTES * size < (where.free() or 0) else devices

    def _believe(self, residual: Residual, seed: int) -> Any:
        """Return an assignment by belief propagation and a short search, or random values."""
        self._report("beliefs", {"variables": residual.variables, "clauses": residual.clauses})
        started = monotonic()
        if residual.run is not None:
            devices = self._devices(residual.literals)
            done = continued(residual.run, seed, devices, self._left(), self._belief)
        else:
            done = believe(
                residual.result().rest, seed, self.where,
                lossy=True, max_seconds=self._left(), progress=self._belief,
            )  # fmt: skip
        self.statistics.spend("beliefs", started)
        if done.status == REFUTED:  # of the rest only: surveys fixed wrong values
            model = random_values(residual.variables, seed)
        else:
            self.statistics.set_beliefs(done)
            model, last = done.assignment == 1, done.likely
            if done.rest.clauses:
                last = self._search(done.rest, last, seed, done.rest.variables)
            model[done.variables] = last
        if residual.run is not None:
            return model
        before = residual.result()
        assignment = before.assignment == 1
        assignment[before.variables] = model
        return assignment

    def _search(self, formula: Formula, model: Any, seed: int, flips: int) -> Any:
        started = monotonic()
        self._report("search", {"variables": formula.variables, "clauses": formula.clauses})
        if self._left() < self._build(formula):
            given = None if model is None else np.asarray(model) != 0
            return random_values(formula.variables, seed) if given is None else given
        time = max(self._left(), 0) if self.limited else None
        tables = self.tables if formula is self.formula else None
        walk = local_search(formula, model, seed, flips, time, self.where, self._walked, tables)
        self.statistics.add_search(walk.flips, walk.steps)
        self.statistics.spend("search", started)
        return walk.model

    def _check(self, model: Any) -> int:
        """Count the clauses that an assignment leaves unsatisfied; 0 only if the checker agrees."""
        started, left = monotonic(), 0
        if not self.where.on_host:
            left = unsatisfied(self.formula, model, self.where)
        if not left:
            held = validate.satisfied(self.formula, model)
            left = int(held.size - held.sum())
        self.statistics.spend("check", started)
        return left

    def _build(self, formula: Formula) -> float:
        """Give the seconds to keep for the tables of a formula, if there is a limit of time."""
        return build_seconds(self.where, formula) if self.limited else float("-inf")

    def _left(self) -> float:
        return float(self.until - monotonic())

    def _walked(self, flips: int, unsatisfied: int) -> None:
        self._report("search", {"flips": flips, "unsatisfied": unsatisfied})
