"""Variables that are held by a field, and can be let go again, for what decimation cannot solve.

A field is a message that no clause sends.  One of 40 bits is as good as a value: a clause that it
satisfies warns nobody else, one that it breaks goes on without that literal.  But the clauses still
say how much the variable is needed as it is, so one that was fixed wrongly shows.

`backtrack` is that of Marino, Parisi, Ricci-Tersenghi (Nature Communications 2016): each round
fixes the variables of the largest bias, and lets go those that are fixed against their surveys the
most; it reaches ratios nearer to the threshold.  `reinforce` (Chavas, Furtlehner, Mezard, Zecchina
2005) fixes nothing: with a rate that rises, each variable gets a field towards its likelier value,
until all agree.  Nothing is compacted, so a sweep always costs O(literals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.sat.decimation import PARAMAGNETIC, check_limits, check_options
from morph.algorithms.sat.factors import (
    BINS,
    Contradiction,
    Factors,
    factor_graph,
    mixed,
    reduced,
    rest_of,
)
from morph.algorithms.sat.marginals import FINE, PER_OCTAVE, Marginals, clear, threshold, weigh
from morph.algorithms.sat.rounds import Clock, Decimation, Round, histogram, refuted
from morph.algorithms.sat.surveys import ADD, CLEAR, LEAST, READ, converge, persist
from morph.algorithms.sat.units import propagate_units
from morph.data.conversion import number
from morph.data.formula import Formula
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, kernel
from morph.prelude import atomic_add, f32, i32, i64, log2, u32, vector
from morph.runtime.device import device as device_of

HELD = 40  # bits; the scale leaves room for them, see `factors`
PATIENCE = 8  # rounds without convergence, one after the other


def _kernels(turn: int) -> Any:
    read, add, restart = READ[turn], ADD[turn], CLEAR[(turn + 1) % 3]

    @kernel
    def judge(whole, g, rho, unit):
        """The bias of the free, and how well those that were chosen stand, by the clauses alone."""
        bias, free = i64(0), i64(0)
        for p in g.points:
            sums = read(p)
            own = vector(sums.x - p.field[0], sums.y - p.field[1])
            true, false, z, shift = weigh(own, rho, unit)
            lead = (true - false) / z
            if p.value < 0:
                odds = -log2(max(f32(1) - abs(lead), f32(2.0**-24)))
                bin = min(i32(odds * f32(PER_OCTAVE)), BINS - 1)
                p.choice = 2 * bin + i32(1 if true > false else 0)
                atomic_add(g.bins[bin].count, 1)
                bias += i64(max(true, false) / z * f32(FINE))
                free += 1
            elif p.decided >= 0:
                stands = lead if p.decided == 1 else -lead
                p.choice = 2 * i32((f32(1) - stands) * f32((BINS - 1) / 2))
                atomic_add(g.doubts[p.choice >> 1].count, 1)
        whole.bias = bias
        whole.free = free

    @kernel
    def hold(p, strength):
        """Set the field by the value, in the sums that are read next, and those written next."""
        plus = strength if p.value == 1 else i32(0)
        minus = strength if p.value == 0 else i32(0)
        add(p, 0, plus - p.field[0])
        add(p, 1, minus - p.field[1])
        p.field[0] = plus
        p.field[1] = minus
        restart(p, p.field)

    @kernel
    def lean(p, rho, unit, scale, intensity, rate, salt):
        """Towards the likelier value, with a probability; note that value."""
        true, false, z, shift = weigh(read(p), rho, unit)
        p.value = i32(1 if true > false else 0)
        if true == false:
            p.value = i32(mixed(p.origin, 1, salt) & u32(1))
        if mixed(p.origin, 7, salt) >> u32(8) < rate:
            most = f32(1) - intensity * max(true, false) / z
            strength = i32(f32(0.5) - log2(max(most, f32(LEAST))) * scale)
            plus = strength if p.value == 1 else i32(0)
            minus = strength - plus
            add(p, 0, plus - p.field[0])
            add(p, 1, minus - p.field[1])
            p.field[0] = plus
            p.field[1] = minus
        restart(p, p.field)

    return judge, hold, lean


KERNELS = [_kernels(turn) for turn in range(3)]


@kernel
def decide(p, bin, part, salt, step):
    """Fix the free variables above a bin of bias, and a part of those in it."""
    taken = p.choice >> 1 > bin
    if p.choice >> 1 == bin:
        taken = mixed(p.origin, bin, salt) >> u32(8) < part
    if p.value < 0 and taken:
        p.decided = p.choice & 1
        p.step = i32(step)


@kernel
def release(p, bin, part, salt):
    """Let go those whose doubts lie above a bin, and a part of those in it."""
    taken = p.choice >> 1 > bin
    if p.choice >> 1 == bin:
        taken = mixed(p.origin, bin, salt) >> u32(8) < part
    if p.decided >= 0 and taken:
        p.decided = -1


@kernel
def withdraw(p, step):
    if p.step == step:
        p.decided = -1
        p.step = -1


@kernel
def settle(p):
    p.value = p.decided


@kernel
def unsatisfied(c, g, broken):
    s = 0
    while s < len(g.slots) and c.id < g.slots[s].count:
        e = g.entries[g.slots[s].first + c.id]
        if (e.variable.value == 1) == (e.message >= 0):
            return
        s += 1
    broken.set()


def _held(formula: Formula, where: Any, seed: int) -> Factors:
    """A factor graph whose variables have fields."""
    f = factor_graph(formula, where, seed)
    g = f.graph
    g.points.add("field", vec(f.sums, 2))
    g.points.add("decided", i32, fill=-1)
    g.points.add("step", i32, fill=-1)
    for name in ("bins", "doubts"):
        g.add_table(name, count=i32).extend(BINS)
    g.add_table("wholes", bias=i64, free=i64).extend(1)
    return f


def backtrack(
    formula: Formula,
    seed: int = 0,
    device: Any = "cpu",
    max_rounds: int = 2000,
    *,
    fraction: float = 0.02,
    ratio: float = 0.5,
    tolerance: float = 0.01,
    max_sweeps: int = 200,
    rho: float = 1.0,
    max_seconds: float = float("inf"),
    progress: Callable[[Round], None] | None = None,
) -> Decimation:
    """Fix variables by survey propagation, and let go those that turn out wrong.

    Parameters
    ----------
    formula, seed, device, max_rounds, fraction, tolerance, max_sweeps, rho, max_seconds, progress
        As in `decimate`.
    ratio : float
        How many variables are let go for each that is fixed, from 0 to less than 1.

    Returns
    -------
    Decimation
        The complexity of its rounds is not a number: it is not taken here.

    Raises
    ------
    ValueError
        As by `decimate`, and if ``ratio`` is not from 0 to less than 1.
    """
    formula = Formula.of(formula)
    check_options(fraction, tolerance, rho)
    seed = check_limits(seed, max_seconds, progress, max_rounds=max_rounds, max_sweeps=max_sweeps)
    number(ratio, "ratio")
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio is from 0 to less than 1, not {ratio}")
    clock, where, n = Clock(max_seconds), device_of(device), formula.variables
    rounds: list[Round] = []
    rollbacks, stuck, calm, part, status = 0, 0, 0, fraction, "rounds"
    try:
        f = _held(formula, where, seed)
        if not propagate_units(f)[1]:
            raise Contradiction("unit propagation breaks a clause")
    except Contradiction:
        return refuted(n, clock)
    points, clauses = f.graph.points, f.graph.clauses
    _hold(f)
    clock.to("build")
    while len(rounds) < max_rounds:
        if len(clauses) == 0:
            status = "satisfied"
            break
        sweeps, converged, calm = persist(f, tolerance, max_sweeps, rho, calm, clock.end)
        clock.to("sweeps")
        if clock.late:
            status = "time"
            break
        seen, doubts = _judge(f, rho)
        clock.to("marginals")
        stuck = 0 if converged else stuck + 1
        if converged and seen.bias < PARAMAGNETIC:
            status = "paramagnetic"
            break
        if stuck > PATIENCE:
            status = "unconverged"
            break
        salt = np.uint32((seed + 131 * len(rounds)) % 2**32)
        free, decided, chosen, let_go = int(seen.counts.sum()), int(doubts.sum()), 0, 0
        wanted = round((ratio if converged else 1.0) * part * n)
        if wanted and decided > wanted:  # those let go are free, but not judged as such: not fixed
            bin, share = threshold(doubts, wanted)
            foreach(points, release, bin, np.uint32(share), salt)
            let_go = wanted
        if converged:
            bin, share = threshold(seen.counts, max(1, round(part * n)))
            foreach(points, decide, bin, np.uint32(share), salt, len(rounds))
            chosen = max(1, round(part * n))
        foreach(points, settle)
        consistent = propagate_units(f)[1]
        if not consistent:  # withdraw this round's choices; what was let go stays free
            foreach(points, withdraw, len(rounds))
            foreach(points, settle)
            consistent = propagate_units(f)[1]
            rollbacks += 1
            chosen, part = 0, part / 2
        else:
            part = min(fraction, part * 1.4)
        _hold(f)
        clock.to("units")
        if not consistent or part < fraction / 128 or part * n < 0.5:
            status = "contradiction"
            break
        facts = seen.bias, histogram(seen), float("nan"), part, chosen, 0, let_go
        rounds.append(Round(sweeps, free, len(clauses), *facts))
        if progress is not None:
            progress(rounds[-1])
    into = f.like()
    reduced(f, into)
    rest, names = rest_of(into)
    assignment = where.to_host(points.value.array).astype(np.int8)
    clock.to("rest")
    return Decimation(assignment, rest, names, status, rounds, rollbacks, clock.seconds)


def reinforce(
    formula: Formula,
    seed: int = 0,
    device: Any = "cpu",
    max_sweeps: int = 1000,
    *,
    intensity: float = 0.7,
    decay: float = 0.999,
    rho: float = 1.0,
    max_seconds: float = float("inf"),
) -> Decimation:
    """Let surveys and fields settle together on an assignment.

    Parameters
    ----------
    formula, seed, device, rho, max_seconds
        As in `decimate`.
    max_sweeps : int
    intensity : float
        Of a field, from 0 to 1: its survey is this times the weight of the likelier value.
    decay : float
        In sweep t a variable's field is set anew with probability ``1 - decay ** t``.

    Returns
    -------
    Decimation
        With status ``"satisfied"`` or ``"reinforced"``, all variables having a value, and
        ``rest`` being empty.
    """
    formula = Formula.of(formula)
    check_options(1.0, 0.5, rho)
    seed = check_limits(seed, max_seconds, max_sweeps=max_sweeps)
    number(intensity, "intensity")
    number(decay, "decay")
    if not (0 < intensity < 1 and 0 < decay < 1):
        raise ValueError(f"intensity {intensity} and decay {decay} must lie between 0 and 1")
    clock, where, n = Clock(max_seconds), device_of(device), formula.variables
    try:
        f = _held(formula, where, seed)
    except Contradiction:
        return refuted(n, clock)
    clock.to("build")
    g, status, done = f.graph, "reinforced", 0
    numbers = [np.float32(x) for x in (rho, 1 / f.scale, f.scale, intensity)]
    for done in range(1, max_sweeps + 1):
        converge(f, 0.5, 1, rho)
        rate = np.uint32((1 - decay**done) * 2**24)
        foreach(g.points, KERNELS[f.turn][2], *numbers, rate, np.uint32((seed + done) % 2**32))
        if done % 10 == 0 or done == max_sweeps:
            f.broken.clear()
            foreach(g.clauses, unsatisfied, g, f.broken)
            if not f.broken:
                status = "satisfied"
                break
        if clock.late:
            break
    clock.to("sweeps")
    assignment = where.to_host(g.points.value.array).astype(np.int8)
    empty = Formula(0, np.zeros(1, np.int64), np.empty(0, np.int32))
    facts = float("nan"), (), float("nan"), 0.0, n, 0
    rounds = [Round(done, n, len(g.clauses), *facts)]
    return Decimation(assignment, empty, np.empty(0, np.int32), status, rounds, 0, clock.seconds)


def _hold(f: Factors) -> None:
    foreach(f.graph.points, KERNELS[f.turn][1], np.int32(HELD * f.scale))


def _judge(f: Factors, rho: float) -> tuple[Marginals, Any]:
    """Biases of the free variables, doubts of the chosen ones."""
    g, host = f.graph, f.graph.device.to_host
    foreach(g.bins, clear)
    foreach(g.doubts, clear)
    foreach(g.wholes, KERNELS[f.turn][0], g, np.float32(rho), np.float32(1 / f.scale))
    counts, doubts = (host(t.count.array).astype(np.int64) for t in (g.bins, g.doubts))
    bias = int(g.wholes[0].bias) / FINE / max(int(g.wholes[0].free), 1)
    return Marginals(bias, counts, float("nan"), 0), doubts
