"""Survey propagation and belief propagation on a factor graph, in fixed-point logarithms.

Clause a sends each variable i the survey eta(a, i), the probability that all other variables of the
clause are forced to violate it, so that i must satisfy it (Mezard, Parisi, Zecchina, Science 2002;
Braunstein, Mezard, Zecchina 2005).  With P+ and P- the products of 1 - eta over the variable's
other clauses, by the sign of i in them, the warning of i to a clause that holds i unnegated is
``(1 - rho P-) P+ / ((1 - rho P-) P+ + P-)``, and eta is the product of the warnings of the other
variables.  ``rho = 1`` is survey propagation, ``rho = 0`` belief propagation, and the values
between them give the family of Maneva, Mossel, Wainwright (2007).

A message is stored as ``-log2(1 - eta)`` in fixed point, an integer.  Products become sums of
integers: exact in any order, without division by zero or underflow, whatever the degree.  `exp2`
and `log2` have the same bits everywhere, so all devices and numbers of threads agree to the bit.  A
sweep reads one table of sums, adds to a second, and clears a third for the next sweep; then the
three exchange their roles.  A sweep takes one barrier and O(literals).
"""

from __future__ import annotations

from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.sat.factors import CERTAIN, Factors, sums_of
from morph.algorithms.sat.literals import has_literal, literal
from morph.data.collection import Flag
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, exp2, f32, i32, i64, log2, prefetch, vector

IN_REGISTERS = 8  # literals of a clause; the sweep of longer clauses reads each literal twice
LEAST = 2.0**-CERTAIN
INERTIA = 0.0, 0.5, 0.75  # of messages: the next one is tried where the last did not converge


class Rule(NamedTuple):
    """The update rule of messages, as one argument of kernels."""

    rho: Any
    unit: Any  # bits in one unit of a message
    scale: Any  # units in one bit
    tolerance: Any
    inertia: Any
    least: Any  # units: a message that would change by no more stays as it is


@func
def warning(sums, message, rho, unit):
    """The probability that a variable is forced to violate the clause of a message."""
    negated = message >> 31  # all ones or none: a branch would be unpredictable
    swap = (sums.x ^ sums.y) & negated
    same, opposite = sums.x ^ swap, sums.y ^ swap
    forced = f32(1) - rho * exp2(f32(-opposite) * unit)
    return forced / (forced + exp2(f32(same - (message ^ negated) - opposite) * unit))


@func
def exceeds(old, new, rule):
    """Whether a survey has changed by more than the tolerance, by an upper bound of the change."""
    step = f32(abs(new - old)) * rule.unit  # in bits; 2 ** x - 1 <= x from 0 to 1
    if step <= rule.tolerance:
        return False
    least = -min(old, new) if step > f32(1) else -new
    return min(step, f32(1)) * exp2(f32(least) * rule.unit) > rule.tolerance


@func
def send(entry, message, sums, eta, changed, rule):
    """Replace a message by that of a survey; gives whether one has changed beyond the tolerance."""
    negated = message >> 31
    old = message ^ negated
    new = i32(f32(0.5) - log2(max(f32(1) - eta, f32(LEAST))) * rule.scale)
    new += i32(f32(old - new) * rule.inertia)
    new = new if abs(new - old) > rule.least else old  # no branch: it would be unpredictable
    if new != old:
        changed = changed or exceeds(old, new, rule)
    entry.message = new ^ negated
    if new != 0:
        atomic_add(sums.by_sign[-negated], new)
    return changed


@func
def clear(c, g, sums):
    """Set a clause's share of the sums to the fields of their variables, or to zero."""
    k, n = i64(c.id), len(g.points)
    while k < n:
        if hasattr(g.points[k], "field"):
            sums[k].by_sign = g.points[k].field
        else:
            sums[k].by_sign[0] = 0
            sums[k].by_sign[1] = 0
        k += len(g.clauses)


def short_sweep(longest: int, sum_type: Any, prefetched: int) -> Any:
    """Make the kernel of a sweep over clauses of at most ``longest`` literals."""

    class constant:  # an attribute of a class is compiled in, wherever the kernel runs
        width = longest
        ahead = prefetched

    @kernel
    def sweep_short(c, g, now, after, spare, unconverged, rule):
        clear(c, g, spare)
        for s in range(constant.width if constant.ahead > 0 else 0):
            if c.id + constant.ahead < g.slots[s].count:
                v = literal(g, c.id + constant.ahead, s).variable.id
                prefetch(now[v].by_sign)
                prefetch(after[v].by_sign)
        # loads apart from arithmetic, so that those of all literals overlap
        at, variable = vector(i32, constant.width), vector(i32, constant.width)
        message = vector(i32, constant.width)
        for s in range(constant.width):
            at[s] = -1
            if c.id < g.slots[s].count:
                e = literal(g, c.id, s)
                at[s], variable[s], message[s] = e.id, e.variable.id, e.message
        plus, minus = vector(sum_type, constant.width), vector(sum_type, constant.width)
        for s in range(constant.width):
            if at[s] >= 0:
                sums = now[variable[s]].by_sign
                plus[s], minus[s] = sums.x, sums.y
        warnings, behind = vector(f32, constant.width), vector(f32, constant.width)
        product = f32(1)
        for s in range(constant.width - 1, -1, -1):
            warnings[s] = f32(1)
            if at[s] >= 0:
                sums = vector(plus[s], minus[s])
                warnings[s] = warning(sums, message[s], rule.rho, rule.unit)
            behind[s] = product
            product *= warnings[s]
        product, changed = f32(1), False
        if constant.ahead > 0:  # once one has changed, no other is compared
            changed = unconverged.raised  # on a GPU all threads would read one word
        for s in range(constant.width):
            if at[s] >= 0:
                e, to = g.entries[at[s]], after[variable[s]]
                changed = send(e, message[s], to, product * behind[s], changed, rule)
            product *= warnings[s]
        if changed:
            unconverged.set()

    return sweep_short


def long_sweep(prefetched: int) -> Any:
    """Make the kernel of a sweep over clauses of any length."""

    class constant:
        ahead = prefetched

    @kernel
    def sweep_long(c, g, now, after, spare, unconverged, rule):
        clear(c, g, spare)
        product, zeros, s = f32(1), 0, 0
        while has_literal(g, c.id, s):
            e = literal(g, c.id, s)
            warned = warning(now[e.variable.id].by_sign, e.message, rule.rho, rule.unit)
            if warned < f32(2.0**-60):
                zeros += 1
            else:
                product *= warned
            s += 1
        changed, s = False, 0
        if constant.ahead > 0:
            changed = unconverged.raised
        while has_literal(g, c.id, s):
            e = literal(g, c.id, s)
            v, message, eta = e.variable.id, e.message, f32(0)
            warned = warning(now[v].by_sign, message, rule.rho, rule.unit)
            if warned < f32(2.0**-60):
                if zeros == 1:
                    eta = product
            elif zeros == 0:
                eta = product / warned
            changed = send(e, message, after[v], eta, changed, rule)
            s += 1
        if changed:
            unconverged.set()

    return sweep_long


@cache
def propagation(width: int, sum_type: Any, ahead: int) -> Any:
    """Make the program that sweeps until all messages have converged."""
    short = width <= IN_REGISTERS
    sweep = short_sweep(width, sum_type, ahead) if short else long_sweep(ahead)

    @program
    def propagate(g, now, after, spare, unconverged, rule, most):
        sweeps = 0
        while sweeps < most:
            if not unconverged.take():
                break
            foreach(g.clauses, sweep, g, now, after, spare, unconverged, rule)
            now, after, spare = after, spare, now
            sweeps += 1
        return sweeps

    propagate.made_by = f"{__name__}:propagation", (width, sum_type, ahead)
    return propagate


def converge(
    f: Factors,
    tolerance: float,
    most: int,
    rho: float = 1.0,
    inertia: float = 0.0,
    end: float = float("inf"),
    least: float = 0.0,
) -> tuple[int, bool]:
    """Sweep until no survey would change by more than ``tolerance``, were it not held back.

    Parameters
    ----------
    f : Factors
    tolerance : float
    most : int
        Sweeps.
    rho : float
        1 for surveys, 0 for beliefs.
    inertia : float
        The part of its change by which each message is held back, from 0 to less than 1.
    end : float
        When to give up, in seconds of `time.perf_counter`.
    least : float
        Bits: a message that would change by no more stays as it is; less than ``tolerance``.

    Returns
    -------
    sweeps : int
    converged : bool
        Whether ``most`` sweeps, and the time, sufficed.
    """
    if f.count_clauses() == 0:
        return 0, True
    f.each(lambda part: part.unconverged.set())
    tolerance, least = tolerance * (1 - inertia), least * (1 - inertia)
    rule = rule_of(f, rho, tolerance, inertia, least)
    # in one launch, between two readings of the clock; or parts are combined after each sweep
    at_once = most
    if not f.runs_programs:
        at_once = 1
    elif end < float("inf"):
        largest = max(len(part.graph.entries) for part in f.parts)
        at_once = f.graph.device.throughput // largest + 1
    sweeps, made, asked = 0, 0, 0
    while made == asked and sweeps < most and (not sweeps or perf_counter() < end):
        asked = min(at_once, most - sweeps)
        made = sweep(f, rule, asked)
        sweeps += made
    return sweeps, not f.raised(_unconverged)


def rule_of(
    f: Factors, rho: float, tolerance: float, inertia: float = 0.0, least: float = 0.0
) -> Rule:
    """Return the rule of messages with the units of a factor graph."""
    return Rule(
        np.float32(rho), np.float32(1 / f.scale), np.float32(f.scale), np.float32(tolerance),
        np.float32(inertia), np.int32(least * f.scale),
    )  # fmt: skip


def _unconverged(f: Factors) -> Flag:
    return f.unconverged


def _program(f: Factors) -> Any:
    return propagation(min(f.longest(), IN_REGISTERS + 1), f.sum_type, f.ahead)


def sweep(f: Factors, rule: Rule, most: int) -> int:
    """Sweep while messages change beyond the tolerance, step by step only once; give how often."""
    if f.runs_programs:
        made = int(f.run(_program, lambda p: (p.graph, *p.sums, p.unconverged, rule, most)))
        for part in f.parts:
            part.exchange(made)
        return made
    found = f.gather(lambda part: (bool(part.unconverged), part.longest()))
    raised, widths = zip(*found, strict=True)
    if not any(raised):
        return 0
    longest, made = min(max(widths), IN_REGISTERS + 1), 0

    def propagate(part: Factors) -> None:
        nonlocal made
        part.unconverged.set()
        if part.count_clauses() == 0:  # its sums are those of no messages
            part.unconverged.clear()
            part.sums[2].by_sign[:] = 0
            part.exchange(1)
            made = 1
            return
        # by one formula in all parts
        width = part.longest() if longest <= IN_REGISTERS else longest
        run = propagation(width, part.sum_type, part.ahead)
        made = int(run(part.graph, *part.sums, part.unconverged, rule, most))
        part.exchange(made)

    f.each(propagate)
    f.combine(sums_of, "add")
    return made


def converge_patiently(
    f: Factors,
    tolerance: float,
    most: int,
    rho: float,
    level: int,
    end: float,
    least: float = 0.0,
) -> tuple[int, bool, int]:
    """Sweep until surveys converge, with more and more inertia, from a level of `INERTIA` on.

    Returns
    -------
    sweeps : int
        At each level at most ``most / (1 - inertia)``.
    converged : bool
    level : int
        That at which they converged: surveys of the residual formula oscillate, too.
    """
    total = 0
    for k in range(level, len(INERTIA)):
        limit = round(most / (1 - INERTIA[k]))
        sweeps, done = converge(f, tolerance, limit, rho, INERTIA[k], end, least)
        total += sweeps
        if done or perf_counter() > end:
            return total, done, k
    return total, False, level
