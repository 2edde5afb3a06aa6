"""Unit propagation: clauses whose literals are all false but one fix that one's variable.

All clauses at once, again and again until nothing is fixed any more, or a clause is broken.  What
follows does not depend on the order, nor whether it is contradictory.  O(literals) a sweep; random
formulas take a few.  Where it is, `force_units` goes on all the same, in steps that do not depend
on the order either: a variable that is wanted to be both gets its likelier value.
"""

from __future__ import annotations

from morph.algorithms.sat.factors import Factors
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_cas, atomic_or, i32


@func
def left_of(c, g):
    """How many literals of a clause are free, and the last of these: its variable, what it asks.

    Of a clause that holds a true one 2, as of one with more: nothing follows from it.
    """
    free, s = 0, 0
    last, wanted = g.points[0], i32(0)
    while s < len(g.slots) and c.id < g.slots[s].count:
        e = g.entries[g.slots[s].first + c.id]
        v = e.variable
        value = v.value
        if value < 0:
            free += 1
            last = v
            wanted = i32(1 if e.message >= 0 else 0)
        elif (value == 1) == (e.message >= 0):
            return 2, last, wanted
        s += 1
    return free, last, wanted


@kernel
def infer(c, g, fixed, broken):
    free, last, wanted = left_of(c, g)
    if free == 0:
        broken.set()
    elif free == 1:
        was = atomic_cas(last.value, -1, wanted)
        if was < 0:
            fixed.set()
        elif was != wanted:
            broken.set()


@program
def close(g, fixed, broken):
    sweeps = 0
    while fixed.take():
        foreach(g.clauses, infer, g, fixed, broken)
        sweeps += 1
    return sweeps


def propagate_units(f: Factors) -> tuple[int, bool]:
    """Fix all that follows from the ``value`` of the points and from unit clauses.

    Returns
    -------
    sweeps : int
    consistent : bool
        False if a clause is broken; values are then of no use.
    """
    g = f.graph
    fixed, broken = f.fixed, f.broken
    fixed.set()
    broken.clear()
    sweeps = int(close(g, fixed, broken))
    return sweeps, not broken


@kernel
def want(c, g):
    free, last, wanted = left_of(c, g)
    if free == 1:
        atomic_or(last.certain, 2 - wanted)


@kernel
def grant(p, fixed):
    if p.certain != 0:
        p.value = i32(p.choice & 1 if p.certain == 3 else p.certain & 1)
        p.certain = 0
        fixed.set()


@program
def close_all(g, fixed):
    while fixed.take():
        foreach(g.clauses, want, g)
        foreach(g.points, grant, fixed)


def force_units(f: Factors) -> None:
    """Fix what follows, step by step, though clauses break: they keep no literal."""
    f.fixed.set()
    close_all(f.graph, f.fixed)
