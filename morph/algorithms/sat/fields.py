"""Variables fixed by fields, which can be unfixed again, for formulas that decimation cannot solve.

A field is a message that no clause sends.  A field of 40 bits acts as a value: a clause that the
value satisfies sends zero surveys, a clause in which the literal is false goes on without the
literal.  The clauses still send surveys to the variable, so a wrong value is detected.

`backtrack` is that of Marino, Parisi, Ricci-Tersenghi (Nature Communications 2016): each round
fixes the variables of the largest bias, and unfixes those whose values contradict their surveys the
most; it reaches ratios nearer to the threshold.  `reinforce` (Chavas, Furtlehner, Mezard, Zecchina
2005) fixes nothing: at a rising rate, each variable gets a field towards its likelier value, until
all agree.  Nothing is compacted, so a sweep always costs O(literals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.sat.decimation import PARAMAGNETIC
from morph.algorithms.sat.factors import (
    BIAS,
    BINS,
    FREE,
    Contradiction,
    Factors,
    factor_graph,
    hash_pair,
    reduced,
    rest_of,
)
from morph.algorithms.sat.literals import has_literal, literal
from morph.algorithms.sat.marginals import (
    FINE,
    Marginals,
    above,
    bin_of,
    clear,
    threshold,
    weigh,
)
from morph.algorithms.sat.options import check, check_limits
from morph.algorithms.sat.rounds import Clock, Decimation, Round, histogram, refuted
from morph.algorithms.sat.surveys import LEAST, converge, converge_patiently, rule_of
from morph.algorithms.sat.units import propagate_units
from morph.data.formula import Formula
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import atomic_add, f32, i32, i64, log2, u32, vector
from morph.runtime.device import device_for

FIXED = 40  # bits of the field of a fixed variable; the scale leaves room for them, see `factors`
PATIENCE = 8  # rounds without convergence, one after the other


@kernel
def measure(total, g, sums, rho, unit):
    """Bin the bias of free variables, and how far chosen ones oppose their clauses' surveys."""
    bias, free = i64(0), i64(0)
    for p in g.points:
        of = sums[p.id].by_sign
        own = vector(of.x - p.field[0], of.y - p.field[1])
        true, false, z, shift = weigh(own, rho, unit)
        lead = (true - false) / z
        if p.value < 0:
            bin = bin_of(abs(lead))
            p.choice = 2 * bin + i32(1 if true > false else 0)
            atomic_add(g.bins[bin].count, 1)
            bias += i64(max(true, false) / z * f32(FINE))
            free += 1
        elif p.decided >= 0:
            agreement = lead if p.decided == 1 else -lead
            p.choice = 2 * i32((f32(1) - agreement) * f32((BINS - 1) / 2))
            atomic_add(g.contradictions[p.choice >> 1].count, 1)
    total.sums[BIAS] = bias
    total.sums[FREE] = free


@func
def set_field(p, now, strength):
    """Give the field of a variable by its value, and change its sums accordingly."""
    plus = strength if p.value == 1 else i32(0)
    minus = strength if p.value == 0 else i32(0)
    atomic_add(now[p.id].by_sign[0], plus - p.field[0])
    atomic_add(now[p.id].by_sign[1], minus - p.field[1])
    p.field[0] = plus
    p.field[1] = minus


@kernel
def fix(p, now, after, strength):
    """Set the field by the value, in the sums that are read next, and those written next."""
    set_field(p, now, strength)
    after[p.id].by_sign = p.field


@kernel
def reinforce_field(p, now, after, rule, intensity, rate, salt):
    """Record the likelier value, and with a probability set the field towards it."""
    true, false, z, shift = weigh(now[p.id].by_sign, rule.rho, rule.unit)
    p.value = i32(1 if true > false else 0)
    if true == false:
        p.value = i32(hash_pair(p.origin, 1, salt) & u32(1))
    if hash_pair(p.origin, 7, salt) >> u32(8) < rate:
        most = f32(1) - intensity * max(true, false) / z
        set_field(p, now, i32(f32(0.5) - log2(max(most, f32(LEAST))) * rule.scale))
    after[p.id].by_sign = p.field


@kernel
def decide(p, bin, share, salt, step):
    """Fix the free variables above a bin of bias, and a share of those in it."""
    if p.value < 0 and above(p, bin, share, salt):
        p.decided = p.choice & 1
        p.step = i32(step)


@kernel
def unfix(p, bin, share, salt):
    """Unfix the variables above a bin of contradiction, and a share of those in it."""
    if p.decided >= 0 and above(p, bin, share, salt):
        p.decided = -1


@kernel
def roll_back(p, step):
    if p.step == step:
        p.decided = -1
        p.step = -1


@kernel
def assign(p):
    p.value = p.decided


@kernel
def unsatisfied(c, g, broken):
    s = 0
    while has_literal(g, c.id, s):
        e = literal(g, c.id, s)
        if (e.variable.value == 1) == (e.message >= 0):
            return
        s += 1
    broken.set()


def with_fields(formula: Formula, where: Any, seed: int) -> Factors:
    """Make a factor graph whose variables have fields."""
    f = factor_graph(formula, where, seed)
    g = f.graph
    g.points.add("field", vec(f.sum_type, 2))
    g.points.add("decided", i32, fill=-1)
    g.points.add("step", i32, fill=-1)
    for name in ("bins", "contradictions"):
        g.add_table(name, count=i32).extend(BINS)
    return f


def backtrack(
    formula: Formula,
    seed: int = 0,
    device: Any = None,
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
    """Fix variables by survey propagation, and unfix those that contradict their surveys.

    Parameters
    ----------
    formula, seed, device, max_rounds, fraction, tolerance, max_sweeps, rho, max_seconds, progress
        As in `decimate`.
    ratio : float
        How many variables are unfixed for each that is fixed, from 0 to less than 1.

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
    check(fraction=fraction, ratio=ratio, tolerance=tolerance, rho=rho)
    seed = check_limits(seed, max_seconds, progress, max_rounds=max_rounds, max_sweeps=max_sweeps)
    clock, where, n = Clock(max_seconds), device_for(device), formula.variables
    rounds: list[Round] = []
    rollbacks, unconverged, level, part, status = 0, 0, 0, fraction, "rounds"
    try:
        f = with_fields(formula, where, seed)
        if not propagate_units(f)[1]:
            raise Contradiction("unit propagation breaks a clause")
    except Contradiction:
        return refuted(n, clock)
    fix_values(f)
    clock.to("build")
    while len(rounds) < max_rounds:
        if len(f.graph.clauses) == 0:
            status = "satisfied"
            break
        swept = converge_patiently(f, tolerance, max_sweeps, rho, level, clock.end)
        sweeps, converged, level = swept
        clock.to("sweeps")
        if clock.late:
            status = "time"
            break
        seen, contradictions = _measure(f, rho)
        clock.to("marginals")
        unconverged = 0 if converged else unconverged + 1
        if converged and seen.bias < PARAMAGNETIC:
            status = "paramagnetic"
            break
        if unconverged > PATIENCE:
            status = "unconverged"
            break
        free, chosen = int(seen.counts.sum()), max(1, round(part * n)) if converged else 0
        unfixed = round((ratio if converged else 1.0) * part * n)
        unfixed = unfixed if int(contradictions.sum()) > unfixed else 0
        wanted = (seen.counts, chosen), (contradictions, unfixed)
        failed, consistent = _change(f, *wanted, seed, len(rounds))
        rollbacks += failed
        chosen = 0 if failed else chosen
        part = part / 2 if failed else min(fraction, part * 1.4)
        fix_values(f)
        clock.to("units")
        if not consistent or part < fraction / 128 or part * n < 0.5:
            status = "contradiction"
            break
        facts = seen.bias, histogram(seen), float("nan"), part, chosen, 0, unfixed
        rounds.append(Round(sweeps, free, len(f.graph.clauses), *facts))
        if progress is not None:
            progress(rounds[-1])
    rest = f.like()
    reduced(f, rest)
    assignment = where.to_host(f.graph.points.value.array).astype(np.int8)
    left = rest_of(rest)
    clock.to("rest")
    return Decimation(assignment, *left, status, rounds, rollbacks, clock.seconds)


def _change(
    f: Factors, fixed: tuple[Any, int], unfixed: tuple[Any, int], seed: int, step: int
) -> tuple[bool, bool]:
    """Fix and unfix so many of the variables in some bins, and all that follows.

    Returns
    -------
    failed : bool
        Unit propagation broke a clause, and the variables that were fixed are free again.
    consistent : bool
        Unit propagation breaks no clause now.
    """
    points, salt = f.graph.points, np.uint32((seed + 131 * step) % 2**32)
    if unfixed[1]:  # they are free, but have no bias: they are not fixed in the same step
        bin, share = threshold(*unfixed)
        foreach(points, unfix, bin, np.uint32(share), salt)
    if fixed[1]:
        bin, share = threshold(*fixed)
        foreach(points, decide, bin, np.uint32(share), salt, step)
    foreach(points, assign)
    if propagate_units(f)[1]:
        return False, True
    foreach(points, roll_back, step)
    foreach(points, assign)
    return True, propagate_units(f)[1]


def reinforce(
    formula: Formula,
    seed: int = 0,
    device: Any = None,
    max_sweeps: int = 1000,
    *,
    intensity: float = 0.7,
    decay: float = 0.999,
    rho: float = 1.0,
    max_seconds: float = float("inf"),
) -> Decimation:
    """Let surveys and fields converge together to an assignment.

    Parameters
    ----------
    formula, seed, device, rho, max_seconds
        As in `decimate`.
    max_sweeps : int
    intensity : float
        Of a field, from 0 to 1: its survey is this times the weight of the likelier value.
    decay : float
        In sweep t a variable's field is replaced with probability ``1 - decay ** t``.

    Returns
    -------
    Decimation
        With status ``"satisfied"`` or ``"reinforced"``, all variables having a value, and
        ``rest`` being empty.
    """
    formula = Formula.of(formula)
    check(intensity=intensity, decay=decay, rho=rho)
    seed = check_limits(seed, max_seconds, max_sweeps=max_sweeps)
    clock, where, n = Clock(max_seconds), device_for(device), formula.variables
    try:
        f = with_fields(formula, where, seed)
    except Contradiction:
        return refuted(n, clock)
    clock.to("build")
    g, status, done = f.graph, "reinforced", 0
    rule = rule_of(f, rho, 0.5)
    for done in range(1, max_sweeps + 1):
        converge(f, 0.5, 1, rho)
        rate = np.uint32((1 - decay**done) * 2**24)
        changing = np.float32(intensity), rate, np.uint32((seed + done) % 2**32)
        foreach(g.points, reinforce_field, *f.sums[:2], rule, *changing)
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


def fix_values(f: Factors) -> None:
    """Give fixed variables the field of their value, and free ones none."""
    foreach(f.graph.points, fix, *f.sums[:2], np.int32(FIXED * f.scale))


def _measure(f: Factors, rho: float) -> tuple[Marginals, Any]:
    """Biases of the free variables, and how many chosen ones contradict their surveys, by bin."""
    g, host = f.graph, f.graph.device.to_host
    foreach(g.bins, clear)
    foreach(g.contradictions, clear)
    foreach(f.totals, measure, g, f.sums[0], np.float32(rho), np.float32(1 / f.scale))
    counts, opposed = (host(t.count.array).astype(np.int64) for t in (g.bins, g.contradictions))
    found = np.array(f.totals.sums).tolist()
    bias = found[BIAS] / FINE / max(found[FREE], 1)
    return Marginals(bias, counts, float("nan"), 0), opposed
