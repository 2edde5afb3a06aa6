"""`solve`: simplification, a search for a model of each part that it leaves, and a check."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from morph import validate
from morph.algorithms.sat.cadical import available
from morph.algorithms.sat.divided import DividedSearch
from morph.algorithms.sat.options import METHODS, OPTIONS, check
from morph.algorithms.sat.rounds import Round
from morph.algorithms.sat.search import (
    EMPTY,
    RESERVE,
    SATISFIABLE,
    UNKNOWN,
    UNSATISFIABLE,
    ModelSearch,
    Progress,
    Settings,
    build_seconds,
)
from morph.algorithms.sat.simplify import Part, Simplified, simplify
from morph.algorithms.sat.statistics import Statistics
from morph.data.formula import Formula, read_cnf
from morph.language.arguments import boolean, check_callable, check_number, integer
from morph.language.messages import shown
from morph.launch.ahead import compile_ahead
from morph.partition.formula import DividedFormula
from morph.partition.group import DeviceGroup, RankGroup
from morph.partition.ranks import Ranks
from morph.partition.transport import on_all, refuse_different
from morph.runtime.device import Device
from morph.runtime.device import device as device_of
from morph.runtime.toolchain import OutOfTime, deadline, time_left

SMALL, SAMPLE, DENSE = 1000, 1 << 16, 4  # variables; clauses in the sample; literals a variable
INCOMPLETE = "surveys and local search are incomplete, and cannot show that there is no model"


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of `solve`.

    Attributes
    ----------
    status : str
        ``"SATISFIABLE"``: there is a model, which was checked; ``"UNSATISFIABLE"``: unit
        propagation ends in an empty clause, clauses of two literals contradict one another, or
        CaDiCaL has refuted the formula; ``"UNKNOWN"``.
    reason : str
        The reason of the status.
    model : (n,) bool array or None
        Whether variable ``v`` is true, at ``v - 1``.  If the status is ``"UNKNOWN"``, the
        assignment that left the fewest clauses unsatisfied; None if it is ``"UNSATISFIABLE"``.
    unsatisfied : int
        Clauses that ``model`` leaves unsatisfied.
    unsatisfied_clauses : (unsatisfied,) int array
        Which these are, from 0.
    cycle : list of int
        Literals x, ..., -x, ..., x, each of which implies the next by a clause of two literals
        (`morph.validate.implications` checks the cycle), if such clauses refute the formula.
    simplified : int
        Variables that `simplify` has assigned; ``components`` is the number of components left.
    attempts : int
        Decimations tried.
    rounds : list of Round
        Of the last attempt's decimation.
    stopped : str
        The status with which that decimation ended, as in `decimate`; empty if there was none.
    rollbacks : int
        Rounds of that decimation that were rolled back, or repeated in smaller steps.
    left : int
        Variables that decimation left to belief propagation and local search; clauses are in
        ``left_clauses``.
    believed : list of Round
        Rounds of belief propagation on these variables.
    walked : int
        Variables that beliefs left to local search; clauses are in ``walked_clauses``.
    flips, steps : int
        Of the last attempt's local search.
    seconds : dict of str to float
        By phase, of all attempts.
    """

    status: str
    reason: str
    model: NDArray[np.bool_] | None
    unsatisfied: int
    unsatisfied_clauses: NDArray[np.int64] = field(repr=False)
    cycle: list[int] = field(repr=False)
    simplified: int
    components: int
    attempts: int
    rounds: list[Round] = field(repr=False)
    stopped: str
    rollbacks: int
    left: int
    left_clauses: int
    believed: list[Round] = field(repr=False)
    walked: int
    walked_clauses: int
    flips: int
    steps: int
    seconds: dict[str, float]


def solve(
    cnf: Any,
    seed: int = 0,
    *,
    time: float | None = None,
    device: str | Device | Sequence[str | Device] | None = None,
    max_rounds: int = 1000,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    complete: bool | None = None,
    progress: Progress | None = None,
    comm: Any = None,
) -> Solution:
    """Look for a model of a formula; made for large random k-SAT near its threshold.

    Parameters
    ----------
    cnf : path, clauses, (offsets, literals) or Formula
        As `morph.Formula.of` takes it.
    seed : int
        0 to 2^32 - 1.  The same seed gives the same model, unless the time runs out.
    time : float, optional
        Seconds after which to give up, checked between launches.  The last fifth is reserved for
        local search from the best assignment so far.  The time includes compiling.  Without a limit
        `solve` gives up after four attempts: decimation, decimation in smaller steps, and twice
        decimation with backtracking.
    device : str, Device or list of these, optional
        See `morph.set_device` for the default.  Of several devices each has a range of the clauses,
        and all variables, in decimation and belief propagation; or one device has several parts.
        All else takes the first device alone: local search, and the methods ``"backtracking"`` and
        ``"reinforcement"``.  The model is that of one device, except with ``comm``.
    max_rounds : int
        Largest number of rounds of one decimation; 0: no decimation, only local search.
    method : str
        ``"decimation"``, ``"backtracking"``, ``"reinforcement"`` (`decimate`, `backtrack`,
        `reinforce`, with beliefs and local search for the rest) or ``"search"`` (`walksat`
        alone).  ``"auto"``: formulas of at most 1000 variables, and those with clauses of several
        lengths, of two literals or with few of them a variable, are tried by local search first,
        then by CaDiCaL; then, and for all other formulas, the other methods are tried in turn.
    options : mapping, optional
        Keyword arguments of the method's function, by name: ``fraction``, ``tolerance``,
        ``max_sweeps``, ``undo``, ``rho``, ``least_complexity``; ``ratio``; ``intensity``,
        ``decay``; ``max_flips``.  None for ``"auto"``.
    complete : bool, optional
        Whether ``"auto"`` may use CaDiCaL; by default if python-sat is installed (``pip install
        morph-engine[sat]``).  If true, python-sat must be installed, and CaDiCaL is tried on every
        formula that local search has not solved; without a time limit it gives up after a million
        conflicts.
    progress : callable, optional
        Called at intervals with ``"decimation"``, ``"beliefs"``, ``"search"`` or ``"CaDiCaL"``
        and a dict of numbers by name.
    comm : mpi4py.MPI.Comm, optional
        All ranks make the same call, and each processes a range of the clauses, on ``device``, or
        on its item of a list; ``time`` has to be None.  A path is read in shares, and a divided
        formula (of `morph.generate.random_ksat` or `morph.io.read_cnf` with ``comm``) stays
        divided.  With ``"auto"`` decimation is tried four times; ranks do not search locally
        among all clauses as one device does, so the model may be another.  The first rank alone
        solves formulas unlike random k-SAT, and all formulas with other methods or if ``complete``
        is true.

    Returns
    -------
    Solution
        A model is given only after `morph.validate.satisfied` has found no clause without a true
        literal, and ``"UNSATISFIABLE"`` only if `morph.validate.refuted` or
        `morph.validate.implications` agrees, or if CaDiCaL has refuted the formula.

    Raises
    ------
    ValueError, TypeError
        If an argument is wrong, or differs between ranks; the text names the argument.
    FormatError, OSError
        If a file cannot be read.
    ImportError
        If ``complete`` is true, and python-sat is not installed.
    PartError
        If another rank of ``comm`` has failed, or the ranks execute different operations.

    References
    ----------
    A. Braunstein, M. Mezard, R. Zecchina: Survey propagation: an algorithm for satisfiability.
    Random Structures & Algorithms 27, 2005.
    """
    started = monotonic()

    def checked() -> Settings:
        _check_time(time, comm)
        return _settings(seed, method, options, max_rounds, complete, progress)

    if comm is not None:
        ranks = Ranks(comm, "solve a formula")
        settings = on_all(ranks, checked)
        return _solve_on_ranks(cnf, RankGroup(ranks, device, "auto"), settings)
    settings = checked()._replace(devices=list(DeviceGroup(device, "auto").devices))
    end = float("inf") if time is None else started + time
    return _SolveCall(Formula.of(cnf), settings, end).solve()


def _check_time(time: Any, comm: Any) -> None:
    """Check the argument ``time`` of `solve`."""
    if time is None:
        return
    if comm is not None:
        raise ValueError("time is not for ranks, whose clocks differ")
    check_number(time, "time")
    if not time > 0:
        raise ValueError(f"time = {time}: expected more than 0 seconds")


def _settings(
    seed: Any, method: Any, options: Any, max_rounds: Any, complete: Any, progress: Any
) -> Settings:
    """Check arguments of `solve`; the devices are not set."""
    for name, value in (("seed", seed), ("max_rounds", max_rounds)):
        if not 0 <= integer(value, name) < 2**32:
            raise ValueError(f"{name} = {shown(value)}: expected an integer from 0 to 2^32 - 1")
    check_callable(progress, "progress")
    chosen = check_method(method, {} if options is None else options, complete)
    complete = None if complete is None else bool(complete)
    return Settings(int(seed), [], method, chosen, int(max_rounds), complete, progress)


def divided(cnf: Any, ranks: Ranks) -> DividedFormula:
    """Convert the argument of `solve` to a formula that is divided among ranks.

    Raises
    ------
    ValueError
        If the formula differs between the ranks, or is divided among others.
    """
    if isinstance(cnf, str | os.PathLike):
        cnf = read_cnf(cnf, comm=ranks.comm)
    if not isinstance(cnf, DividedFormula):
        return DividedFormula.of(ranks, on_all(ranks, lambda: Formula.of(cnf)))
    if cnf.ranks.size != ranks.size:
        raise ValueError(f"{cnf!r} is divided among other ranks than the {ranks.size} of comm")
    return cnf


def _solve_on_ranks(cnf: Any, group: RankGroup, settings: Settings) -> Solution:
    """Look for a model on all ranks, or on the first alone."""
    settings = settings._replace(devices=[group.devices[group.here.start]])
    names = "seed", "method", "options", "max_rounds", "complete"
    own = [getattr(settings, name) for name in names]
    for name, *values in zip(names, *group.gather({group.here.start: own}), strict=True):
        refuse_different(f"the argument {name}", values)
    formula = divided(cnf, group.ranks)
    together = settings.method in ("auto", "decimation") and not settings.complete
    if not (together and _is_regular(formula) and settings.max_rounds):
        whole = formula.on_first_rank()
        return group.on_first(  # type: ignore[no-any-return]
            lambda: _SolveCall(cast(Formula, whole), settings, float("inf")).solve()
        )
    search = DividedSearch(formula, group, settings)
    status, reason = search.solve()
    model, failed = None if status == UNSATISFIABLE else search.model, search.failed
    if status == UNKNOWN:
        reason = f"{reason}: {failed.size} of {formula.clauses} clauses are left unsatisfied"
        reason = f"{reason}; {INCOMPLETE}"
    failed = failed[:0] if model is None else failed
    return Solution(status, reason, model, failed.size, failed, **vars(search.statistics))


def check_method(method: str, options: Mapping[str, Any], complete: bool | None) -> dict[str, Any]:
    """Check the arguments of `solve` about methods; return the options with their types."""
    if not isinstance(options, Mapping):
        raise TypeError(f"options is a mapping of names to numbers, not {shown(options)}")
    if complete is not None and boolean(complete, "complete") and not available():
        raise ImportError("complete = True needs python-sat: pip install morph-engine[sat]")
    if complete and method != "auto":
        raise ValueError(f"complete = True is for method 'auto', not {shown(method)}")
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method = {shown(method)}: expected {', '.join(METHODS)}")
    for name in options:
        if name not in METHODS[method]:
            known = ", ".join(METHODS[method]) or "none"
            raise ValueError(f"method {method!r} has no option {shown(name)}: expected {known}")
    check(**options)
    return {name: OPTIONS[name].kind(value) for name, value in options.items()}


def _is_regular(formula: Formula | DividedFormula) -> bool:
    """Whether a formula looks like random k-SAT: large, dense, clauses of one length above 2.

    Of a large formula only a sample of the clauses is examined, the same on ranks.
    """
    if isinstance(formula, DividedFormula):
        local, first, size = formula.local, formula.first, formula.size
    else:
        local, first, size = formula, 0, formula.literals.size
    if formula.variables <= SMALL or size < DENSE * formula.variables:
        return False
    step = max(formula.clauses // SAMPLE, 1)
    clause, at = np.arange(-first % step, local.clauses, step), local.offsets
    sizes = at[clause + 1] - at[clause]
    ends = [int(sizes.min()), int(sizes.max())] if sizes.size else []
    if isinstance(formula, DividedFormula):
        ends = [n for some in formula.ranks.gather({formula.ranks.rank: ends}) for n in some]
    return min(ends) == max(ends) > 2


class _SolveCall:
    """One call of `solve`: simplification, then a search for each remaining part."""

    def __init__(self, formula: Formula, settings: Settings, end: float) -> None:
        self.formula, self.settings, self.end = formula, settings, end
        self.regular = _is_regular(formula)
        self.statistics = Statistics()

    def solve(self) -> Solution:
        """Simplify, solve the parts, and check the model of the whole."""
        if self.settings.method == "auto" and len(self.settings.devices) == 1:
            compile_ahead("solve regular" if self.regular else "solve", self.settings.devices[0])
        formula, plan = self.formula, self._simplified()
        if plan.refuted or plan.cycle:
            return self._refuted(plan)
        parts, model = plan.parts, plan.model
        limited = self.end < float("inf")
        searches = [
            ModelSearch(p.formula, self.settings, self.statistics, limited, self._first(p.formula))
            for p in parts
        ]
        refuted, reason = self._run(searches)
        if limited and reason and not refuted:  # in the time that other parts left
            refuted, reason = self._run([s for s in searches if s.unsatisfied])
        if refuted:
            return self._answer(UNSATISFIABLE, reason, None)
        for search, part in zip(searches, parts, strict=True):
            model[part.variables] = search.model
        checked = len(parts) == 1 and parts[0].formula is formula and not searches[0].unsatisfied
        failed = np.empty(0, np.int64) if checked else self._failed(model)
        if not failed.size:
            return self._answer(
                SATISFIABLE, "every clause of the formula holds a true literal", model
            )
        reason = f"{reason}: {failed.size} of {formula.clauses} clauses are left unsatisfied"
        advice = "" if available() else "; python-sat, the extra sat, adds a solver that can"
        advice = "; CaDiCaL gave up" if "CaDiCaL" in self.statistics.seconds else advice
        return self._answer(UNKNOWN, f"{reason}; {INCOMPLETE}{advice}", model, failed)

    def _first(self, formula: Formula) -> bool:
        """Whether local search and CaDiCaL are tried before decimation."""
        always = self.settings.complete is True
        regular = self.regular if formula is self.formula else _is_regular(formula)
        return self.settings.tries_first and (always or not regular)

    def _run(self, searches: list[ModelSearch]) -> tuple[bool, str]:
        """Run searches; return whether one refuted its formula, and why it did or one failed."""
        given_up = ""
        sizes = [search.formula.literals.size for search in searches]
        for k, search in enumerate(searches):
            left, alone = self.end - monotonic(), len(searches) - k
            share = sizes[k] / max(sum(sizes[k:]), 1) / 2 + 1 / alone / 2  # by size and by number
            status, reason = search.solve(self.end if alone == 1 else monotonic() + share * left)
            if status == UNSATISFIABLE:
                return True, reason
            given_up = given_up or reason
        return False, given_up

    def _simplified(self) -> Simplified:
        """Simplify the formula, unless it is regular or the time runs out."""
        started, formula = monotonic(), self.formula
        model = np.zeros(formula.variables, bool)
        plan = Simplified(model, [Part(formula, slice(None))], False, [], 0, 1)
        where = self.settings.where
        host = where if where.on_host else device_of("cpu")
        usable = (1 - RESERVE) * (self.end - started)
        if self.regular or build_seconds(host, formula) > usable:
            return plan
        with suppress(OutOfTime), deadline(started + usable):
            plan = simplify(formula, self.settings.where, lambda: time_left("simplify"))
        self.statistics.spend("simplification", started)
        self.statistics.simplified, self.statistics.components = plan.fixed, plan.components
        return plan

    def _refuted(self, plan: Simplified) -> Solution:
        """Check a refutation by simplification, and return the solution."""
        started = monotonic()
        if plan.cycle:
            validate.implications(self.formula, plan.cycle)
            x = abs(plan.cycle[0])
            reason = f"clauses of two literals imply {-x} from {x} and {x} from {-x}"
        elif validate.refuted(self.formula):
            reason = EMPTY
        else:
            raise validate.WrongAnswer(
                "simplification refutes a formula, unit propagation does not"
            )
        self.statistics.spend("refutation", started)
        self.statistics.cycle = plan.cycle
        return self._answer(UNSATISFIABLE, reason, None)

    def _failed(self, model: Any) -> Any:
        """Return the clauses that an assignment does not satisfy."""
        started = monotonic()
        held = validate.satisfied(self.formula, model)
        self.statistics.spend("check", started)
        return np.flatnonzero(~held)

    def _answer(self, status: str, reason: str, model: Any, failed: Any = ()) -> Solution:
        which = np.array(failed, np.int64)
        return Solution(status, reason, model, which.size, which, **vars(self.statistics))
