"""One step of decimation: variables are chosen and fixed, and their values propagated."""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.sat.factors import Factors
from morph.algorithms.sat.marginals import choose_some
from morph.algorithms.sat.residual import CHOSEN, SIZES, arrange, sizes_of
from morph.algorithms.sat.units import force, force_units, propagate, propagate_units
from morph.data.table import Table
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import i8

NONE, BROKEN, ARRANGED = 0, 1, 2


class Results(NamedTuple):
    """The objects that `fix` writes, apart from the graph, as one argument."""

    fixed: Any
    broken: Any
    answers: Any


@kernel
def record(p, answers):
    if p.value >= 0:
        answers[p.origin].value = i8(p.value)


@program
def fix(g, space, results, bin, share, seed, lossy):
    """Choose variables, propagate units; then, unless a clause breaks, record and arrange."""
    choose_some(g, space.report, bin, share, seed)
    if space.report[CHOSEN].count == 0:
        return NONE
    results.fixed.set()
    results.broken.clear()
    if lossy:
        force(g, results.fixed)
    else:
        propagate(g, results.fixed, results.broken)
    if results.broken.raised:
        return BROKEN
    foreach(g.points, record, results.answers)
    arrange(g, space)
    return ARRANGED


def fix_units(f: Factors, answers: Table, taken: tuple[Any, ...], lossy: bool) -> tuple[int, bool]:
    """Fix the variables above a bin, a share of those in it, and what unit propagation implies.

    Parameters
    ----------
    f : Factors
    answers : Table
        Gets the values, by the variables' origins, unless a clause is broken.
    taken : tuple
        The bin, 2**24 times the share, and a seed.
    lossy : bool
        Let clauses break.

    Returns
    -------
    chosen : int
        Number of variables chosen; 1 on one device if a clause is broken.
    consistent : bool
        False if no variable was chosen, or if a clause is broken and ``lossy`` is false; values are
        meaningless if a clause is broken.
    """
    g, space = f.graph, f.parts[0].space
    assert space is not None
    if not f.divided:
        f.left = None
        status = int(fix(g, space, Results(f.fixed, f.broken, answers), *taken, lossy))
        if status != ARRANGED:
            return int(status == BROKEN), False
        report = g.device.to_host(space.report.count.array).tolist()
        f.left = sizes_of(report[SIZES:], f.longest())
        return report[CHOSEN], True

    def choose(part: Factors) -> None:
        assert part.space is not None
        choose_some(part.graph, part.space.report, *taken)

    f.each(choose)
    chosen = int(space.report.count[CHOSEN])
    consistent = chosen > 0
    if chosen and lossy:
        force_units(f)
    elif chosen:
        consistent = propagate_units(f)[1]
    if consistent:
        foreach(g.points, record, answers)
    return chosen, consistent
