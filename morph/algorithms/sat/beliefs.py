"""Decimation by belief propagation of the formula that survey propagation leaves.

Where surveys are trivial no variable is frozen, but local search from random values takes long:
clauses of two literals form chains.  Beliefs, the marginals over all models, give good values at
once (Braunstein, Mezard, Zecchina 2005, end with them too): a few sweeps from trivial messages,
with inertia 0.5 since they need not converge; a part of the variables, those of the largest bias,
get their likelier value; unit propagation runs to its end; the residual formula is compacted.
After a contradiction fewer variables are fixed.  It ends with no clause left, or with a few clauses
for a local search from the likelier values.  A round costs O(literals left) for each sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morph.algorithms.sat.decimation import Options, Run
from morph.algorithms.sat.factors import Contradiction
from morph.algorithms.sat.marginals import Marginals, marginals
from morph.algorithms.sat.options import check, check_limits
from morph.algorithms.sat.parts import formula_of
from morph.algorithms.sat.rounds import Decimation, Round, refuted
from morph.algorithms.sat.surveys import converge
from morph.data.formula import Formula
from morph.language.arguments import boolean
from morph.partition.formula import DividedFormula

MOST_ROUNDS, FRACTION, SWEEPS = 100, 0.1, 20  # defaults
TOLERANCE, INERTIA = 0.02, 0.5
FIRST = 3  # times as many sweeps in the first round
PATIENCE = 2  # contradictions in a round, after which a clause may break
LEAST_PART = 1 / 8  # of the fraction: the least that such a round leaves


def believe(
    formula: Formula | DividedFormula,
    seed: int = 0,
    device: Any = None,
    max_rounds: int = MOST_ROUNDS,
    *,
    fraction: float = FRACTION,
    sweeps: int = SWEEPS,
    lossy: bool = False,
    max_seconds: float = float("inf"),
    progress: Callable[[Round], None] | None = None,
) -> Decimation:
    """Fix variables by belief propagation until no clause is left, or no more can be fixed.

    Parameters
    ----------
    formula : Formula, DividedFormula, or an argument of `Formula.of`
        One whose surveys are trivial.
    seed : int
        The same seed gives the same answer, on any device.
    device : str, Device or list of these, optional
        As of `decimate`.
    max_rounds : int
    fraction : float
        Of all variables, fixed in a round at most.
    sweeps : int
        In a round, at most; in the first three times as many.
    lossy : bool
        Where contradictions persist though fewer are fixed, let clauses break: they are in no rest.
    max_seconds : float
        Stop after this; looked at between launches, which take a fraction of a second.
    progress : callable, optional
        Called after each round with its record.

    Returns
    -------
    Decimation
        Its ``status`` is never ``"paramagnetic"``, ``"unconverged"`` or ``"astray"``; ``likely`` is
        set, and the complexity of its rounds is the entropy.  A lossy one may be so though the
        formula has no model.

    Raises
    ------
    ValueError
        If ``fraction`` is not from 0 (excluded) to 1.
    """
    formula = formula_of(formula)
    check(fraction=fraction)
    seed = check_limits(seed, max_seconds, progress, max_rounds=max_rounds, sweeps=sweeps)
    lossy = boolean(lossy, "lossy")
    options = Options(fraction, TOLERANCE, sweeps, rho=0.0)
    run = Run(formula, seed, device, options, max_seconds)
    run.first = None
    try:
        run.begin()
    except Contradiction:
        return refuted(formula.variables, run.clock)
    return _fix_all(run, max_rounds, lossy, progress)


def continued(
    run: Run,
    seed: int,
    devices: Any,
    max_seconds: float,
    progress: Callable[[Round], None] | None,
) -> Decimation:
    """Do as `believe`, lossy, on the residual formula of a run; the result has all variables."""
    options = Options(FRACTION, TOLERANCE, SWEEPS, rho=0.0)
    return _fix_all(run.resume(seed, options, max_seconds, devices), MOST_ROUNDS, True, progress)


def _fix_all(
    run: Run, max_rounds: int, lossy: bool, progress: Callable[[Round], None] | None
) -> Decimation:
    """Fix variables until no clause is left, or no more can be fixed."""
    status, measured = "rounds", False
    while len(run.rounds) < max_rounds:
        if run.now.count_clauses() == 0:
            status = "satisfied"
            break
        if run.clock.late:
            status = "time"
            break
        measured = not _round(run, PATIENCE if lossy else None)
        if measured:
            status = "contradiction"
            break
        if progress is not None:
            progress(run.rounds[-1])
    if not measured and run.now.count_clauses():
        _measure(run)
    return run.result(status, run.where.to_host(run.now.graph.points.choice.array) & 1 == 1)


def _measure(run: Run) -> tuple[int, Marginals]:
    """Sweep; gives how often, and the marginals."""
    most = run.options.max_sweeps if run.rounds else FIRST * run.options.max_sweeps
    made, _ = converge(run.now, TOLERANCE, most, 0.0, INERTIA, run.clock.end)
    run.clock.to("sweeps")
    seen = marginals(run.now, 0.0)
    run.clock.to("marginals")
    return made, seen


def _round(run: Run, patience: int | None) -> bool:
    """Fix more variables; gives whether any could be fixed."""
    made, seen = _measure(run)
    before = run.rollbacks
    biased = int(seen.counts[1:].sum())  # the others need not be chosen
    chosen = run.fix(seen, biased, patience)
    run.clock.to("units")
    if chosen:
        run.end_round(made, seen, chosen)
        if run.rollbacks - before == patience:
            run.fraction = max(run.fraction, run.options.fraction * LEAST_PART)
    return chosen > 0
