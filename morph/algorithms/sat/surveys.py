"""Survey propagation and belief propagation on a factor graph, in fixed-point logarithms.

A clause sends each of its variables the survey eta: how likely it is that all its other variables
are forced to break it, so that this one must not (Mezard, Parisi, Zecchina, Science 2002;
Braunstein, Mezard, Zecchina 2005).  With P+ and P- the products of 1 - eta over a variable's other
clauses, by the sign in them, the warning of a variable to a clause that it satisfies with + is
``(1 - rho P-) P+ / ((1 - rho P-) P+ + P-)``, and eta the product of the others' warnings.  ``rho =
1`` is survey propagation, ``rho = 0`` belief propagation, and what lies between is the family of
Maneva, Mossel, Wainwright (2007).

A message is kept as ``-log2(1 - eta)`` in fixed point: an integer.  So products become sums of
integers: exact, in any order, with nothing to divide by zero or to underflow, whatever the degree.
`exp2` and `log2` have the same bits everywhere, so all devices and numbers of threads agree to the
bit.  A sweep reads one column of sums, adds to a second, and clears a third for the next sweep: one
barrier each, O(literals).
"""

from __future__ import annotations

from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from morph.algorithms.sat.factors import CERTAIN, Factors
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, exp2, f32, i32, i64, log2, prefetch, vector

IN_REGISTERS = 8  # literals of a clause; longer ones are gone through twice
LEAST = 2.0**-CERTAIN
INERTIA = 0.0, 0.5, 0.75  # of messages, one after the other, as long as they do not converge


@func
def sums_a(p):
    return p.sums_a


@func
def sums_b(p):
    return p.sums_b


@func
def sums_c(p):
    return p.sums_c


@func
def add_a(p, sign, x):
    atomic_add(p.sums_a[sign], x)


@func
def add_b(p, sign, x):
    atomic_add(p.sums_b[sign], x)


@func
def add_c(p, sign, x):
    atomic_add(p.sums_c[sign], x)


@func
def clear_a(p, zeros):
    if hasattr(p, "field"):
        p.sums_a = p.field
    else:
        p.sums_a = zeros


@func
def clear_b(p, zeros):
    if hasattr(p, "field"):
        p.sums_b = p.field
    else:
        p.sums_b = zeros


@func
def clear_c(p, zeros):
    if hasattr(p, "field"):
        p.sums_c = p.field
    else:
        p.sums_c = zeros


@func
def fetch_a(p):
    prefetch(p.sums_a)


@func
def fetch_b(p):
    prefetch(p.sums_b)


@func
def fetch_c(p):
    prefetch(p.sums_c)


FETCH = fetch_a, fetch_b, fetch_c
READ, ADD, CLEAR = (sums_a, sums_b, sums_c), (add_a, add_b, add_c), (clear_a, clear_b, clear_c)


@func
def warning(plus, minus, message, rho, unit):
    """How likely a variable is forced to break the clause of a message."""
    negated = message >> 31  # all ones or none: no branch, whose way nobody could foretell
    swap = (plus ^ minus) & negated
    same, opposite = plus ^ swap, minus ^ swap
    forced = f32(1) - rho * exp2(f32(-opposite) * unit)
    return forced / (forced + exp2(f32(same - (message ^ negated) - opposite) * unit))


@func
def answer(eta, own, scale, inertia):
    """The new message for a survey, held back towards the old one."""
    new = i32(f32(0.5) - log2(max(f32(1) - eta, f32(LEAST))) * scale)
    return new + i32(f32(own - new) * inertia)


@func
def strayed(own, new, unit, tolerance):
    """Whether a survey has changed by more than the tolerance, judged by an upper bound."""
    step = f32(abs(new - own)) * unit  # in bits; 2 ** x - 1 <= x from 0 to 1
    if step <= tolerance:
        return False
    return (
        min(step, f32(1)) * exp2(f32(-min(own, new) if step > f32(1) else -new) * unit) > tolerance
    )


@cache
def sweep(longest: int, turn: int, kind: Any, far_ahead: int) -> Any:
    """The kernel of a sweep: clauses of at most so many literals, or of any number if 0."""
    read, add, clear = READ[turn], ADD[(turn + 1) % 3], CLEAR[(turn + 2) % 3]
    fetch, fetch_next = FETCH[turn], FETCH[(turn + 1) % 3]

    class short:  # an attribute of a class is compiled in, wherever the kernel runs
        width = longest
        ahead = far_ahead

    @kernel
    def sweep_short(c, g, n, m, moving, rho, unit, scale, tolerance, inertia):
        k = i64(c.id)
        while k < n:
            clear(g.points[k], vector(kind, 2))
            k += m
        for s in range(short.width if short.ahead > 0 else 0):
            if c.id + short.ahead < g.slots[s].count:
                later = g.entries[g.slots[s].first + c.id + short.ahead].variable
                fetch(later)
                fetch_next(later)
        # loads apart from arithmetic, so that those of all literals are under way together
        at, held, who = vector(i32, short.width), vector(i32, short.width), vector(i32, short.width)
        for s in range(short.width):
            at[s] = -1
            if c.id < g.slots[s].count:
                e = g.entries[g.slots[s].first + c.id]
                at[s], who[s], held[s] = e.id, e.variable.id, e.message
        plus, minus = vector(kind, short.width), vector(kind, short.width)
        for s in range(short.width):
            if at[s] >= 0:
                sums = read(g.points[who[s]])
                plus[s], minus[s] = sums.x, sums.y
        toward, after = vector(f32, short.width), vector(f32, short.width)
        for s in range(short.width):
            toward[s] = f32(1)
            if at[s] >= 0:
                toward[s] = warning(plus[s], minus[s], held[s], rho, unit)
        rest = f32(1)
        for s in range(short.width - 1, -1, -1):
            after[s] = rest
            rest *= toward[s]
        before, far = f32(1), False
        if short.ahead > 0:  # once one is known to have strayed, no other need be judged
            far = moving.raised  # on a GPU all would ask one word
        for s in range(short.width):
            if at[s] >= 0:
                negated = held[s] >> 31
                own = held[s] ^ negated
                new = answer(before * after[s], own, scale, inertia)
                if new != own:
                    far = far or strayed(own, new, unit, tolerance)
                    g.entries[at[s]].message = new ^ negated
                if new != 0:
                    add(g.points[who[s]], -negated, new)
            before *= toward[s]
        if far:
            moving.set()

    @kernel
    def sweep_long(c, g, n, m, moving, rho, unit, scale, tolerance, inertia):
        k = i64(c.id)
        while k < n:
            clear(g.points[k], vector(kind, 2))
            k += m
        product, zeros, s = f32(1), 0, 0
        while s < len(g.slots) and c.id < g.slots[s].count:
            e = g.entries[g.slots[s].first + c.id]
            message, sums = e.message, read(e.variable)
            toward = warning(sums.x, sums.y, message, rho, unit)
            if toward < f32(2.0**-60):
                zeros += 1
            else:
                product *= toward
            s += 1
        far, s = False, 0
        if short.ahead > 0:
            far = moving.raised
        while s < len(g.slots) and c.id < g.slots[s].count:
            e = g.entries[g.slots[s].first + c.id]
            held, sums = e.message, read(e.variable)
            toward = warning(sums.x, sums.y, held, rho, unit)
            eta = f32(0)
            if toward < f32(2.0**-60):
                if zeros == 1:
                    eta = product
            elif zeros == 0:
                eta = product / toward
            negated = held >> 31
            own = held ^ negated
            new = answer(eta, own, scale, inertia)
            if new != own:
                far = far or strayed(own, new, unit, tolerance)
                e.message = new ^ negated
            if new != 0:
                add(e.variable, -negated, new)
            s += 1
        if far:
            moving.set()

    return sweep_short if longest else sweep_long


@cache
def propagation(width: int, kind: Any, ahead: int = 0) -> Any:
    """The program that sweeps until all messages stay."""
    sweep_a, sweep_b, sweep_c = (sweep(width, turn, kind, ahead) for turn in range(3))

    @program
    def propagate(g, n, m, moving, rho, unit, scale, tolerance, inertia, turn, most):
        sweeps = 0
        while sweeps < most:
            if not moving.take():
                break
            if turn == 0:
                foreach(g.clauses, sweep_a, g, n, m, moving, rho, unit, scale, tolerance, inertia)
            elif turn == 1:
                foreach(g.clauses, sweep_b, g, n, m, moving, rho, unit, scale, tolerance, inertia)
            else:
                foreach(g.clauses, sweep_c, g, n, m, moving, rho, unit, scale, tolerance, inertia)
            turn = (turn + 1) % 3
            sweeps += 1
        return sweeps

    return propagate


def converge(
    f: Factors,
    tolerance: float,
    most: int,
    rho: float = 1.0,
    inertia: float = 0.0,
    end: float = float("inf"),
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
        How much of its change a message is held back, from 0 to less than 1.
    end : float
        When to give up, as `time.perf_counter` tells it.

    Returns
    -------
    sweeps : int
    converged : bool
        Whether ``most`` sweeps, and the time, sufficed.
    """
    g = f.graph
    n, m = len(g.points), len(g.clauses)
    if m == 0:
        return 0, True
    moving = f.moving
    moving.set()
    run = propagation(f.width if f.width <= IN_REGISTERS else 0, f.sums, f.ahead)
    unit, scale = np.float32(1 / f.scale), np.float32(f.scale)
    held = np.float32(tolerance * (1 - inertia)), np.float32(inertia)
    # between two looks at the clock
    at_once = most if end == float("inf") else g.device.throughput // len(g.entries) + 1
    sweeps, made, part = 0, 0, 0
    while made == part and sweeps < most and (not sweeps or perf_counter() < end):
        part = min(at_once, most - sweeps)
        made = int(run(g, n, m, moving, np.float32(rho), unit, scale, *held, f.turn, part))
        f.turn = (f.turn + made) % 3
        sweeps += made
    return sweeps, not moving


def persist(
    f: Factors, tolerance: float, most: int, rho: float, calm: int, end: float
) -> tuple[int, bool, int]:
    """Sweep until surveys converge, held back more and more, from a level of `INERTIA` on.

    Returns
    -------
    sweeps : int
        Of each level at most ``most / (1 - inertia)``.
    converged : bool
    calm : int
        The level at which they converged: what is left of a formula oscillates, too.
    """
    total = 0
    for level in range(calm, len(INERTIA)):
        limit = round(most / (1 - INERTIA[level]))
        sweeps, done = converge(f, tolerance, limit, rho, INERTIA[level], end)
        total += sweeps
        if done or perf_counter() > end:
            return total, done, level
    return total, False, calm
