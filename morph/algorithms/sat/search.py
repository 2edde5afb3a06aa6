"""The search for a model of one formula: local search, CaDiCaL, decimation, local search."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from morph import validate
from morph.algorithms.sat.beliefs import believe
from morph.algorithms.sat.cadical import available, cadical
from morph.algorithms.sat.decimation import decimate
from morph.algorithms.sat.fields import backtrack, reinforce
from morph.algorithms.sat.probsat import walksat
from morph.algorithms.sat.rounds import Decimation, Round
from morph.data.formula import Formula
from morph.runtime.device import Device
from morph.runtime.toolchain import OutOfTime, deadline

SATISFIABLE, UNSATISFIABLE, UNKNOWN = "SATISFIABLE", "UNSATISFIABLE", "UNKNOWN"
ATTEMPTS = 4  # without a limit of time
SEQUENCE: tuple[tuple[Callable[..., Decimation], dict[str, Any]], ...] = (
    (decimate, {"undo": 1}), (decimate, {"fraction": 0.01, "undo": 2}),
    (backtrack, {"fraction": 0.02}),
    (backtrack, {"fraction": 0.01, "ratio": 0.8}), (decimate, {"fraction": 0.004}), (reinforce, {}),
)  # fmt: skip
FLIPS, FLIPS_EACH = 10_000_000, 100  # of a long local search: in all, and more for each variable
# local search and CaDiCaL in turn before decimation: (flips, conflicts); FLIPS_EACH is added
FIRST = (500_000, 20_000), (2_000_000, 100_000), (FLIPS, 1_000_000)
REST_EACH, ALL_EACH = 2, 4  # flips a variable of a short one: of the rest, of the whole formula
FEW, FEW_OF = 10, 2000  # unsatisfied clauses, or one for so many variables: worth a long search
# Upper bound of the seconds a literal to make the tables of a formula, which is uninterruptible:
# on the host, and the updates that the device makes
BUILD, UPDATES = 1e-8, 0.6
RESERVE = 0.2  # part of the time that is reserved for the last local search
FIRST_SHARE, COMPLETE_SHARE = 0.4, 0.5  # of the time before that, for local search and CaDiCaL
# Beliefs of fewer literals run on one GPU (an estimate); bytes of memory for a literal (estimated)
SINGLE_GPU_LITERALS, LITERAL_BYTES = 1 << 28, 100
EMPTY = "unit propagation ends in an empty clause"
METHODS: dict[str, Callable[..., Decimation]] = {
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


class Call(Protocol):
    """The call of `solve` that a search belongs to."""

    settings: Settings
    seconds: dict[str, float]
    found: dict[str, Any]

    def spend(self, phase: str, started: float) -> None:
        """Add the time since ``started`` to a phase."""


def build_seconds(where: Device, formula: Formula) -> float:
    """Bound the time to make the tables of a formula."""
    return (BUILD + UPDATES / where.throughput) * formula.literals.size


def random_values(variables: int, seed: int) -> NDArray[np.bool_]:
    """Return random values for variables."""
    drawn: NDArray[np.bool_] = np.random.PCG64(seed).random_raw(variables) >> 63 != 0
    return drawn


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


class Search(Reporter):
    """The search for a model of one formula; `model` is the best assignment so far."""

    model: NDArray[np.bool_]

    def __init__(self, formula: Formula, call: Call, limited: bool, tries_first: bool) -> None:
        self.formula, self.call = formula, call
        self.limited, self.tries_first = limited, tries_first
        self.settings = call.settings
        self.seed, self.where = self.settings.seed, self.settings.where
        self.max_rounds = 0 if self.settings.method == "search" else self.settings.max_rounds
        self.found = call.found
        self.unsatisfied, self.attempts = formula.clauses + 1, 0

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
            self.found["attempts"] = self.attempts
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
        self.found |= {"walked": formula.variables, "walked_clauses": formula.clauses}
        self.found |= {"flips": 0, "steps": 0}
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
        self.call.spend("CaDiCaL", started)
        if found:
            self._keep(model, self._check(model))
        return found is False

    def _attempt(self, k: int) -> tuple[Any, int]:
        """Decimate, search, check; return the assignment (None: refuted), its unsatisfied count."""
        formula, seed = self.formula, (self.seed + k * 0x9E3779B9) % 2**32
        assignment = np.zeros(formula.variables, bool)
        rest, names = formula, slice(None)  # of all variables
        if self.max_rounds:
            done = self._decimated(k, seed)
            assignment, rest, names = done.assignment == 1, done.rest, done.variables
        if not self.max_rounds or done.status == "unsatisfiable":
            started = monotonic()
            refuted = validate.refuted(formula)
            self.call.spend("refutation", started)
            if refuted:
                return None, 0
        self.found |= {"left": rest.variables, "left_clauses": rest.clauses}
        self.found |= {"flips": 0, "steps": 0, "believed": [], "walked": rest.variables}
        self.found["walked_clauses"] = rest.clauses
        early = k < ATTEMPTS - 1  # the next method may be quicker than a long search now
        if not self.max_rounds:
            most = self.settings.options.get("max_flips", self._long())
            return self._improve(assignment, [(rest, None, most)], formula.clauses, seed)
        if done.status == "astray" and early:
            return assignment, self._check(assignment)
        if rest.clauses and self._left() > 0:
            assignment[names] = self._believe(rest, seed)
        short, every = REST_EACH * rest.variables, ALL_EACH * formula.variables
        searches = [(rest, names, short)]
        if done.status in ("paramagnetic", "rounds"):
            searches += [(formula, slice(None), every), (rest, names, self._long())]
            return self._improve(assignment, searches, formula.clauses, seed)
        every = max(every, self._long() >> max(ATTEMPTS - 1 - k, 0))  # the rest may have no model
        most = max(FEW, formula.variables // FEW_OF) if early else formula.clauses
        return self._improve(assignment, [*searches, (formula, slice(None), every)], most, seed)

    def _decimated(self, k: int, seed: int) -> Decimation:
        """Decimate by the method that the user chose, or by that of the k-th attempt."""
        decimation: Callable[..., Decimation]
        decimation, options = SEQUENCE[k % len(SEQUENCE)]
        if self.settings.method != "auto":
            decimation, options = METHODS[self.settings.method], self.settings.options
        if decimation is not reinforce:
            options = {"max_rounds": self.max_rounds, "progress": self._round, **options}
        self._report("decimation", {"attempt": k + 1, "variables": self.formula.variables})
        where: Any = self.settings.devices if decimation is decimate else self.where
        done = decimation(self.formula, seed, where, max_seconds=self._left(), **options)
        seconds = self.call.seconds
        for phase, spent in done.seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + spent
        self.found |= {"rounds": done.rounds, "rollbacks": done.rollbacks}
        self.found["stopped"] = done.status
        return done

    def _improve(
        self, model: Any, searches: list[tuple[Formula, Any, int]], most: int, seed: int
    ) -> tuple[Any, int]:
        """Run local searches in turn, each from the best assignment so far; at least the first.

        A search is a formula, the places of its variables in ``model`` (None: all, from random
        values) and a number of flips.  Stops when more than ``most`` clauses are unsatisfied.
        Returns the assignment and the number of clauses that it leaves unsatisfied.
        """
        fewest: Any = None
        for part, where, flips in searches:
            if fewest is not None and (fewest > most or self._left() <= self._build(part)):
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
        """The number of flips of a long search."""
        return FLIPS + FLIPS_EACH * self.formula.variables

    def _devices(self, rest: Formula) -> list[Device]:
        """The devices for beliefs: the first GPU alone where several would take longer."""
        devices, where, size = self.settings.devices, self.settings.where, rest.literals.size
        alone = not where.on_host and size < SINGLE_GPU_LITERALS
        return devices[:1] if alone and LITERAL_BYTES * size < (where.free() or 0) else devices

    def _believe(self, rest: Formula, seed: int) -> Any:
        """Return values by belief propagation and a short search; random ones if that fails."""
        self._report("beliefs", {"variables": rest.variables, "clauses": rest.clauses})
        started = monotonic()
        done = believe(
            rest, seed, self._devices(rest),
            lossy=True, max_seconds=self._left(), progress=self._belief,
        )  # fmt: skip
        self.call.spend("beliefs", started)
        if done.status == "unsatisfiable":  # of the rest only: surveys fixed wrong values
            return random_values(rest.variables, seed)
        self.found["believed"] = done.rounds
        self.found |= {"walked": done.rest.variables, "walked_clauses": done.rest.clauses}
        model, last = done.assignment == 1, done.likely
        if done.rest.clauses:
            last = self._search(done.rest, last, seed, done.rest.variables)
        model[done.variables] = last
        return model

    def _search(self, formula: Formula, model: Any, seed: int, flips: int) -> Any:
        started = monotonic()
        self._report("search", {"variables": formula.variables, "clauses": formula.clauses})
        if self._left() < self._build(formula):
            given = None if model is None else np.asarray(model) != 0
            return random_values(formula.variables, seed) if given is None else given
        time = max(self._left(), 0) if self.limited else None
        walk = walksat(
            formula, model, seed, max_flips=flips,
            time=time, device=self.where, progress=self._walked,
        )  # fmt: skip
        for name, count in (("flips", walk.flips), ("steps", walk.steps)):
            self.found[name] = self.found.get(name, 0) + count
        self.call.spend("search", started)
        return walk.model

    def _check(self, model: Any) -> int:
        started = monotonic()
        held = validate.satisfied(self.formula, model)
        self.call.spend("check", started)
        return int(held.size - held.sum())

    def _build(self, formula: Formula) -> float:
        """Give the seconds to keep for the tables of a formula, if there is a limit of time."""
        return build_seconds(self.where, formula) if self.limited else float("-inf")

    def _left(self) -> float:
        return float(self.until - monotonic())

    def _walked(self, flips: int, unsatisfied: int) -> None:
        self._report("search", {"flips": flips, "unsatisfied": unsatisfied})
