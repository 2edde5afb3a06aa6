"""`solve` on MPI ranks: decimation and beliefs on clauses that are divided among the ranks.

No rank has the whole formula: the first rank searches the residual formula of decimation, and each
rank checks a model by its own clauses.  Formulas that are not like random k-SAT are solved by the
first rank alone.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph import validate
from morph.algorithms.sat.beliefs import continued
from morph.algorithms.sat.decimation import Run, decimated, options_of
from morph.algorithms.sat.probsat import walksat
from morph.algorithms.sat.search import (
    EMPTY,
    FLIPS,
    FLIPS_EACH,
    REST_EACH,
    SATISFIABLE,
    UNKNOWN,
    UNSATISFIABLE,
    Reporter,
    Settings,
)
from morph.algorithms.sat.statistics import Statistics
from morph.data.formula import Formula
from morph.partition.formula import DividedFormula
from morph.partition.group import RankGroup

DECIMATIONS: tuple[dict[str, Any], ...] = (  # options of the attempts, as in `search.SEQUENCE`
    {"undo": 1}, {"fraction": 0.02, "tolerance": 0.02, "undo": 1}, {"fraction": 0.01, "undo": 2},
    {"fraction": 0.004},
)  # fmt: skip
Assignment = NDArray[np.bool_]


class DividedSearch(Reporter):
    """The search for a model of a divided formula.

    Parameters
    ----------
    formula : DividedFormula
    group : RankGroup
    settings : Settings

    Attributes
    ----------
    statistics : Statistics
    model : array of bool
        The best assignment so far, on all ranks.
    failed : int array
        The clauses that it leaves unsatisfied.
    """

    def __init__(self, formula: DividedFormula, group: RankGroup, settings: Settings) -> None:
        self.formula, self.group, self.settings = formula, group, settings
        self.where = group.devices[group.here.start]
        self.statistics = Statistics()
        self.model: Assignment = np.zeros(formula.variables, bool)
        self.failed = self._unsatisfied(self.model)

    def solve(self) -> tuple[str, str]:
        """Try until a model is found, or no attempt is left; return status and reason."""
        own = self.settings.method != "auto"
        for k, options in enumerate([self.settings.options] if own else DECIMATIONS):
            self.statistics.attempts = k + 1
            if self._attempt((self.settings.seed + k * 0x9E3779B9) % 2**32, options):
                return UNSATISFIABLE, EMPTY
            if not self.failed.size:
                return SATISFIABLE, "every clause of the formula holds a true literal"
        return UNKNOWN, "no attempt succeeded"

    def _attempt(self, seed: int, options: dict[str, Any]) -> bool:
        """Decimate, search and check; whether unit propagation has refuted the formula."""
        self._report("decimation", {"variables": self.formula.variables})
        run, status = decimated(
            self.formula, seed, self.group.devices, self.settings.max_rounds,
            options_of(self.formula.variables, **options), float("inf"), self._round,
        )  # fmt: skip
        done = run.result(status)
        self.statistics.add_seconds(done.seconds)
        self.statistics.set_decimation(done.rounds, done.rollbacks, done.status)
        if done.status == "unsatisfiable":
            formula = self.formula.on_first_rank()  # checked independently of the search
            refuted = self._timed("refutation", lambda: formula and validate.refuted(formula))
            if not refuted:
                raise validate.WrongAnswer("unit propagation on ranks refutes a formula alone")
            return True
        rest, model = done.rest, done.assignment == 1
        self.statistics.set_rest(rest.variables, rest.clauses)
        names = done.variables
        if rest.clauses:
            model = self._beliefs(run, rest, seed)
        self._keep(model)
        long = FLIPS + FLIPS_EACH * self.formula.variables
        early = done.status in ("paramagnetic", "rounds")
        for flips in (REST_EACH * rest.variables, long) if early else (REST_EACH * rest.variables,):
            if not self.failed.size or not rest.clauses:
                break
            model = self.model.copy() if early else model
            model[names] = self._walk(rest, model[names], seed, flips)
            self._keep(model)
        return False

    def _beliefs(self, run: Run, rest: Any, seed: int) -> Assignment:
        """Values of all variables by belief propagation and a short search."""
        self._report("beliefs", {"variables": rest.variables, "clauses": rest.clauses})
        started = monotonic()
        done = continued(run, seed, self.group.devices, float("inf"), self._belief)
        self.statistics.spend("beliefs", started)
        self.statistics.set_beliefs(done)
        model: Assignment = done.assignment == 1
        last = done.likely
        if done.rest.clauses:
            last = self._walk(done.rest, last, seed, done.rest.variables)
        model[done.variables] = last
        return model

    def _walk(self, part: Any, model: Any, seed: int, flips: int) -> Assignment:
        """Local search on the first rank, from a model that all ranks have."""
        self._report("search", {"variables": part.variables, "clauses": part.clauses})
        formula: Formula | None = part.on_first_rank()

        def walk() -> tuple[Any, int, int]:
            assert formula is not None
            found = walksat(formula, model, seed, max_flips=flips, device=self.where)
            return np.packbits(found.model), found.flips, found.steps

        bits, made, steps = self._timed("search", walk)
        self.statistics.add_search(made, steps)
        values: Assignment = np.unpackbits(bits, count=part.variables).astype(bool)
        return values

    def _timed(self, phase: str, run: Callable[[], Any]) -> Any:
        """Call a function on the first rank, and add its time to a phase."""
        started = monotonic()
        found = self.group.on_first(run)
        self.statistics.spend(phase, started)
        return found

    def _keep(self, model: Assignment) -> None:
        """Keep an assignment unless it leaves more clauses unsatisfied than the best so far."""
        failed = self._unsatisfied(model)
        if failed.size <= self.failed.size:
            self.model, self.failed = model, failed

    def _unsatisfied(self, model: Assignment) -> NDArray[np.int64]:
        """The clauses of all ranks without a true literal."""
        started = monotonic()
        held = validate.satisfied(self.formula.local, model)
        own = np.flatnonzero(~held) + self.formula.first
        found = self.group.gather({self.group.here.start: own.astype(np.int64)})
        self.statistics.spend("check", started)
        return np.concatenate(found)
