"""Marginals of the variables and complexity of the formula, from converged surveys.

A variable's weights are those of being forced to true, to false, or not at all: ``W+ = (1 - rho P+)
P-``, ``W- = (1 - rho P-) P+``, ``W0 = rho P+ P-`` over their sum Z.  Its bias is ``|W+ - W-|``.
Biases are counted in bins of ``-log2(1 - bias)``, which are narrow near 1: the variables of largest
bias are selected by a threshold, without a sort.

The complexity, the logarithm of the number of clusters of solutions (of solutions, for belief
propagation), is that of Bethe's approximation: ``sum of log Z over variables + sum of (1 - length)
log(1 - product of warnings) over clauses``, which equals the usual form at a fixed point, where the
product of a clause's warnings is that of one warning and its survey.  All sums are of integers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.sat.factors import (
    BIAS,
    BINS,
    BITS,
    CERTAIN,
    CLASHES,
    FACTORS,
    LEAST_BITS,
    Factors,
    hash_pair,
)
from morph.algorithms.sat.literals import has_literal, literal
from morph.algorithms.sat.residual import CHOSEN
from morph.algorithms.sat.surveys import LEAST, warning
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_or, exp2, f32, i32, i64, log2, prefetch, u32

PER_OCTAVE = 170.0  # bins
FINE = 2.0**20  # units of a sum


class Marginals(NamedTuple):
    """The result of `marginals`.

    ``bias`` is the mean of ``max(W+, W-)``; ``counts``, shape (4096,), how many variables have a
    bias b with ``-log2(1 - b) * 170`` in a bin; ``complexity``, in nats, of the whole formula;
    ``contradictions``, the variables that are certain to be both.
    """

    bias: float
    counts: Any
    complexity: float
    contradictions: int


@func
def weigh(sums, rho, unit):
    """Weights of true and false, their sum with that of neither, and its scale in units."""
    least = min(sums.x, sums.y)
    plus, minus = exp2(f32(least - sums.x) * unit), exp2(f32(least - sums.y) * unit)
    true = minus * (f32(1) - rho * exp2(f32(-sums.x) * unit))
    false = plus * (f32(1) - rho * exp2(f32(-sums.y) * unit))
    return true, false, true + false + rho * (plus * exp2(f32(-sums.y) * unit)), least


@func
def bin_of(bias):
    return min(i32(-log2(max(f32(1) - bias, f32(2.0**-24))) * f32(PER_OCTAVE)), BINS - 1)


@func
def above(p, bin, share, seed):
    """Whether a variable lies above a bin, or in it and in a random ``share``, in 2**-24."""
    if p.choice >> 1 == bin:
        return hash_pair(p.origin, bin, seed) >> u32(8) < share
    return p.choice >> 1 > bin


@kernel
def sum_variables(total, g, sums, rho, unit):
    """Take the bin and sign of every variable, and the sums over variables."""
    bias, bits, least, clashes = i64(0), i64(0), i64(0), i64(0)
    for p in g.points:
        true, false, z, shift = weigh(sums[p.id].by_sign, rho, unit)
        bin = bin_of(abs(true - false) / z)
        p.choice = 2 * bin + i32(1 if true > false else 0)
        if bin > 0:
            atomic_add(g.bins[bin].count, 1)
        bias += i64(max(true, false) / z * f32(FINE))
        bits += i64(log2(z) * f32(FINE))
        least += i64(shift)
        if p.certain == 3:
            clashes += 1
        p.certain = 0
    total.sums[BIAS] = bias
    total.sums[BITS] = bits
    total.sums[LEAST_BITS] = least
    total.sums[CLASHES] = clashes


@kernel
def sum_clauses(total, g, sums, rho, unit, certain, ahead):
    """Take the clauses' part of the complexity; mark the variables that are certain, by value."""
    bits = i64(0)
    for c in g.clauses:
        s = 0
        while ahead > 0 and has_literal(g, c.id + ahead, s):
            prefetch(sums[literal(g, c.id + ahead, s).variable.id].by_sign)
            s += 1
        product, s = f32(1), 0
        while has_literal(g, c.id, s):
            e = literal(g, c.id, s)
            product *= warning(sums[e.variable.id].by_sign, e.message, rho, unit)
            if (~e.message if e.message < 0 else e.message) >= certain:
                atomic_or(e.variable.certain, i32(2 if e.message < 0 else 1))
            s += 1
        bits += i64(log2(max(f32(1) - product, f32(LEAST))) * f32(FINE)) * (1 - s)
    total.sums[FACTORS] = bits


@kernel
def clear(b):
    b.count = 0


@program
def observe_clauses(total, g, sums, rho, unit, certain, ahead):
    foreach(g.bins, clear)
    foreach(total, sum_clauses, g, sums, rho, unit, certain, ahead)


@program
def observe_variables(total, g, sums, rho, unit):
    foreach(total, sum_variables, g, sums, rho, unit)


@program
def observe(total, g, sums, rho, unit, certain, ahead):
    observe_clauses(total, g, sums, rho, unit, certain, ahead)
    observe_variables(total, g, sums, rho, unit)


@kernel
def choose(p, bin, share, seed, report):
    """Give its likelier value to a variable above a bin, and to a share of those in it."""
    p.value = -1
    if above(p, bin, share, seed):
        p.value = p.choice & 1
        atomic_add(report[CHOSEN].count, 1)


@program
def choose_some(g, report, bin, share, seed):
    """Choose variables: a small share of many equal ones may be none, so then more of them."""
    report[CHOSEN].count = 0
    while report[CHOSEN].count == 0 and share > 0:
        foreach(g.points, choose, bin, share, seed, report)
        share = min(8 * share, 2**24) if share < 2**24 else 0


def marginals(f: Factors, rho: float = 1.0) -> Marginals:
    """Return the marginals of all variables by their messages."""
    g, n = f.graph, len(f.graph.points)
    for part in f.parts:
        if "bins" not in part.graph.tables:
            part.graph.add_table("bins", count=i32).extend(BINS)
    if not f.divided:
        observe(f.totals, g, *_rule(f, rho), *_limit(f))
    else:
        f.each(lambda x: observe_clauses(x.totals, x.graph, *_rule(x, rho), *_limit(x)))
        f.combine(lambda part: part.graph.points.certain.array, "or")
        f.each(lambda x: observe_variables(x.totals, x.graph, *_rule(x, rho)))
    found = f.gather(lambda part: np.array(part.totals.sums))
    counts = np.array(g.device.to_host(g.bins.count.array), np.int64)
    counts[0] = n - counts.sum()
    sums = found[0].tolist()
    factors = sum(int(x[FACTORS]) for x in found)
    bits = (sums[BITS] + factors) / FINE - sums[LEAST_BITS] / f.scale
    return Marginals(sums[BIAS] / FINE / max(n, 1), counts, bits * np.log(2), sums[CLASHES])


def _limit(f: Factors) -> tuple[int, int]:
    return CERTAIN * f.scale, f.ahead


def _rule(f: Factors, rho: float) -> tuple[Any, ...]:
    return f.sums[0], np.float32(rho), np.float32(1 / f.scale)


def threshold(counts: Any, wanted: int) -> tuple[int, int]:
    """Give the bin above which fewer than ``wanted`` lie; 2**24 times the share of it to take."""
    above = np.cumsum(counts[::-1])[::-1]  # in this bin or above
    bin = int(np.flatnonzero(above >= min(wanted, int(above[0])))[-1])
    more = wanted - (int(above[bin + 1]) if bin + 1 < BINS else 0)
    return bin, min(-(-more * 2**24 // max(int(counts[bin]), 1)), 2**24)
