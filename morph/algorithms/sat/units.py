"""Unit propagation: a clause with one free and no true literal fixes the variable of that literal.

All clauses in parallel, in sweeps until no variable is fixed or a clause is broken.  The implied
values do not depend on the order, nor does whether there is a contradiction.  O(literals) a sweep;
random formulas take a few.  After a contradiction `force_units` goes on, in steps that do not
depend on the order either: a variable that clauses need with both values gets its likelier one.
"""

from __future__ import annotations

from morph.algorithms.sat.factors import Factors
from morph.algorithms.sat.literals import has_literal, literal
from morph.data.collection import Flag
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_cas, atomic_or, i32


@func
def free_literals(c, g):
    """The number of free literals of a clause, and the variable and value of the last of them.

    2 for a clause with a true literal, as for one with more free ones: it implies nothing.
    """
    free, s = 0, 0
    last, wanted = g.points[0], i32(0)
    while has_literal(g, c.id, s):
        e = literal(g, c.id, s)
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
    free, last, wanted = free_literals(c, g)
    if free == 0:
        broken.set()
    elif free == 1:
        was = atomic_cas(last.value, -1, wanted)
        if was < 0:
            fixed.set()
        elif was != wanted:
            broken.set()


@program
def propagate(g, fixed, broken):
    sweeps = 0
    while fixed.take():
        foreach(g.clauses, infer, g, fixed, broken)
        sweeps += 1
        if broken.raised:
            break
    return sweeps


def propagate_units(f: Factors) -> tuple[int, bool]:
    """Fix all that the ``value`` of the points and unit clauses imply.

    Returns
    -------
    sweeps : int
    consistent : bool
        False if a clause is broken; values are then meaningless.
    """
    sweeps, agreed = 0, False
    f.each(lambda part: part.broken.clear())

    if f.runs_programs:
        f.each(lambda part: part.fixed.set())
        sweeps = int(f.run(lambda _: propagate, lambda p: (p.graph, p.fixed, p.broken)))
        return sweeps, not f.raised(_broken)

    def run(part: Factors) -> None:
        nonlocal sweeps
        part.fixed.set()
        sweeps += int(propagate(part.graph, part.fixed, part.broken))

    while not agreed:
        f.each(run)
        if f.raised(_broken):
            return sweeps, False
        agreed, opposed = f.agree_on_values()
        if opposed:
            return sweeps, False
    return sweeps, True


def _broken(f: Factors) -> Flag:
    return f.broken


@kernel
def request(c, g):
    free, last, wanted = free_literals(c, g)
    if free == 1:
        atomic_or(last.certain, 2 - wanted)


@kernel
def grant(p, fixed):
    if p.certain != 0:
        p.value = i32(p.choice & 1 if p.certain == 3 else p.certain & 1)
        p.certain = 0
        fixed.set()


@program
def force(g, fixed):
    while fixed.take():
        foreach(g.clauses, request, g)
        foreach(g.points, grant, fixed)


def force_units(f: Factors) -> None:
    """Fix implied variables, step by step, although clauses break: these keep no literal."""
    if f.runs_programs:
        f.each(lambda part: part.fixed.set())
        f.run(lambda _: force, lambda p: (p.graph, p.fixed))
        return

    def require(part: Factors) -> None:
        part.fixed.clear()
        foreach(part.graph.clauses, request, part.graph)

    again = True
    while again:
        f.each(require)
        f.combine(lambda part: part.graph.points.certain.array, "or")
        f.each(lambda part: foreach(part.graph.points, grant, part.fixed))
        again = f.raised(lambda part: part.fixed)
