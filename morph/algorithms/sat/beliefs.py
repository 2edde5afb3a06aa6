"""What surveys leave, decimated by belief propagation: nearly all of it, and values for the others.

Where surveys are trivial no variable is frozen, but flipping at random takes long to find what fits
together: clauses of two literals chain up.  Beliefs, the marginals over all models, tell it at once
(Braunstein, Mezard, Zecchina 2005, end with them too): from trivial messages a few sweeps, held
back by half since they need not converge; a part of the variables, those of the largest bias, get
their likelier value; unit propagation runs to its end; what is left is written anew.  After a
contradiction fewer are fixed.  It ends with no clause left, or a handful that local search mends
from the likelier values.  A round costs O(literals left) for each sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morph.algorithms.sat.decimation import Run, check_limits, check_options
from morph.algorithms.sat.factors import Contradiction, rest_of
from morph.algorithms.sat.marginals import marginals
from morph.algorithms.sat.rounds import Decimation, Round, histogram, refuted
from morph.algorithms.sat.surveys import converge
from morph.data.conversion import truth
from morph.data.formula import Formula
from morph.runtime.device import device as device_of

TOLERANCE, INERTIA = 0.02, 0.5
FIRST = 3  # times as many sweeps in the first round
PATIENCE = 2  # contradictions in a round, after which a clause may break
LEAST_PART = 1 / 8  # of the fraction, from which such a round starts anew


def believe(
    formula: Formula,
    seed: int = 0,
    device: Any = "cpu",
    max_rounds: int = 100,
    *,
    fraction: float = 0.1,
    sweeps: int = 20,
    lossy: bool = False,
    max_seconds: float = float("inf"),
    progress: Callable[[Round], None] | None = None,
) -> Decimation:
    """Fix variables by belief propagation until no clause is left, or no more can be fixed.

    Parameters
    ----------
    formula : Formula, or what `Formula.of` takes
        One whose surveys are trivial.
    seed : int
        The same seed gives the same answer, on any device.
    device : str or Device
    max_rounds : int
    fraction : float
        Of all variables, fixed in a round at most.
    sweeps : int
        In a round, at most; in the first three times as many.
    lossy : bool
        Where contradictions go on though fewer are fixed, let clauses break: they are in no rest.
    max_seconds : float
        Stop after this; looked at between launches, which take a fraction of a second.
    progress : callable, optional
        Called after each round with what there is to say of it.

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
    formula = Formula.of(formula)
    check_options(fraction, TOLERANCE, 0.0)
    seed = check_limits(seed, max_seconds, progress, max_rounds=max_rounds, sweeps=sweeps)
    lossy = truth(lossy, "lossy")
    run = Run(formula, seed, device_of(device), fraction, TOLERANCE, sweeps, 0.0, max_seconds)
    run.first = None
    try:
        run.begin()
    except Contradiction:
        return refuted(formula.variables, run.clock)
    status, judged = "rounds", False
    while len(run.rounds) < max_rounds:
        if len(run.now.graph.clauses) == 0:
            status = "satisfied"
            break
        if run.clock.late:
            status = "time"
            break
        done, chosen = _round(run, PATIENCE if lossy else None)
        judged = not chosen
        if judged:
            status = "contradiction"
            break
        if progress is not None:
            progress(done)
    if not judged and len(run.now.graph.clauses):
        _judge(run)
    likely = run.where.to_host(run.now.graph.points.choice.array) & 1 == 1
    rest, names = rest_of(run.now)
    assignment = run.where.to_host(run.answers.value.array).copy()
    run.clock.to("rest")
    return Decimation(
        assignment, rest, names, status, run.rounds, run.rollbacks, run.clock.seconds, likely
    )


def _judge(run: Run) -> tuple[int, Any]:
    """Sweep and judge; gives the sweeps and the marginals."""
    most = run.max_sweeps if run.rounds else FIRST * run.max_sweeps
    made, _ = converge(run.now, TOLERANCE, most, 0.0, INERTIA, run.clock.end)
    run.clock.to("sweeps")
    seen = marginals(run.now, 0.0)
    run.clock.to("marginals")
    return made, seen


def _round(run: Run, patience: int | None) -> tuple[Round, int]:
    """Fix some more; gives what there is to say, and how many were chosen: 0 if none can be."""
    n = run.formula.variables
    free, m = len(run.now.graph.points), len(run.now.graph.clauses)
    made, seen = _judge(run)
    before = run.rollbacks
    biased = int(seen.counts[1:].sum())  # the others need not be chosen
    chosen = run.fix(seen, biased, patience)
    run.clock.to("units")
    part = run.part
    if chosen:
        run.advance()
    run.clock.to("compaction")
    implied = free - chosen - len(run.now.graph.points) if chosen else 0
    facts = seen.bias, histogram(seen), seen.complexity / max(n, 1), part, chosen, implied
    done = Round(made, free, m, *facts)
    if chosen:
        run.rounds.append(done)
        run.part = min(run.fraction, run.part * 1.4)
        if run.rollbacks - before == patience:
            run.part = max(run.part, run.fraction * LEAST_PART)
    return done, chosen
