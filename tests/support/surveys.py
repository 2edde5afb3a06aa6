"""Survey propagation in float64, each product computed separately: the reference of the sweeps."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from morph.algorithms.sat.factors import Factors
from morph.data.formula import Formula


def formulas(most_variables=7, longest=10, most_clauses=12, least=0):
    """Formulas with repeated and opposite literals, units, empty clauses, idle variables."""

    def of(n):
        literal = st.integers(1, n).flatmap(lambda v: st.sampled_from([v, -v]))
        clause = st.lists(literal, min_size=least, max_size=longest)
        clauses = st.lists(clause, max_size=most_clauses)
        return clauses.map(lambda rows: Formula.of(rows, n))

    return st.integers(1, most_variables).flatmap(of)


def cleaned(formula):
    """Clauses that are not always true, by number, each literal once."""
    sets = {c: set(row) for c, row in enumerate(formula.lists())}
    return {c: sorted(s, key=abs) for c, s in sets.items() if not any(-x in s for x in s)}


def messages(f: Factors) -> dict[tuple[int, int], float]:
    """Surveys by clause and variable of the original formula."""
    g, host = f.graph, f.graph.device.to_host
    own, variable = host(g.entries.message.array), host(g.entries.variable.array)
    counts, first = host(g.slots.count.array), host(g.slots.first.array)
    clause = np.arange(len(own)) - first[np.repeat(np.arange(len(counts)), counts)]
    names = host(g.clauses.origin.array)[clause], host(g.points.origin.array)[variable]
    eta = 1 - 2.0 ** -(np.where(own < 0, ~own, own) / f.scale)
    return {(int(c), int(v)): float(x) for c, v, x in zip(*names, eta, strict=True)}


def swept(clauses, eta, rho, sweeps=1, only=None):
    """Surveys after some sweeps, of all clauses or only of some."""
    at: dict[int, list[tuple[int, bool]]] = {}
    for c, row in clauses.items():
        for x in row:
            at.setdefault(abs(x) - 1, []).append((c, x < 0))
    for _ in range(sweeps):
        new = {}
        for c in clauses if only is None else only:
            row, warning = clauses[c], {}
            for x in row:
                same = opposite = 1.0
                for d, negated in at[abs(x) - 1]:
                    if d != c and negated == (x < 0):
                        same *= 1 - eta[d, abs(x) - 1]
                    elif d != c:
                        opposite *= 1 - eta[d, abs(x) - 1]
                forced = (1 - rho * opposite) * same
                warning[x] = forced / (forced + opposite)
            for x in row:
                new[c, abs(x) - 1] = float(np.prod([warning[y] for y in row if y != x]))
        eta = new
    return eta


def weights(clauses, eta, rho, v):
    """How likely variable v is to be forced to true, and to false."""
    plus = minus = 1.0
    for c, row in clauses.items():
        if v + 1 in row:
            plus *= 1 - eta[c, v]
        elif -v - 1 in row:
            minus *= 1 - eta[c, v]
    true, false, both = (1 - rho * plus) * minus, (1 - rho * minus) * plus, rho * plus * minus
    return true / (true + false + both), false / (true + false + both)


def models(formula):
    """All assignments that satisfy a formula."""
    rows = formula.lists()
    for values in product((False, True), repeat=formula.variables):
        if all(any(values[abs(x) - 1] == (x > 0) for x in row) for row in rows):
            yield values


def units(formula):
    """What unit propagation gives: values by variable, or None if it breaks a clause."""
    values: dict[int, bool] = {}
    while True:
        found = None
        for row in formula.lists():
            if any(values.get(abs(x)) == (x > 0) for x in row):
                continue
            free = {x for x in row if abs(x) not in values}
            if not free:
                return None
            if len(free) == 1:
                found = free.pop()
        if found is None:
            return values
        values[abs(found)] = found > 0


def tree(rng, clauses, longest):
    """A formula whose factor graph is a tree: a clause shares one variable with those before."""
    n, rows = 1, []
    for _ in range(clauses):
        k = int(rng.integers(2, longest + 1))
        names = [int(rng.integers(1, n + 1)), *range(n + 1, n + k)]
        n += k - 1
        rows.append([x if rng.random() < 0.5 else -x for x in names])
    return Formula.of(rows, n)


def plain(d):
    """All of a result but the times, to be compared."""
    rest = d.rest.variables, d.rest.lists()
    return d.assignment.tolist(), rest, d.variables.tolist(), d.status, d.rounds, d.rollbacks


def consistent(formula, d):
    """What is fixed and what is left make up the formula."""
    free = np.flatnonzero(d.assignment < 0)
    assert d.variables.tolist() == free.tolist()
    left = []
    for row in formula.lists():
        fixed = [x for x in row if d.assignment[abs(x) - 1] >= 0]
        if any((d.assignment[abs(x) - 1] == 1) == (x > 0) for x in fixed):
            continue
        places = {int(v) + 1: k + 1 for k, v in enumerate(free)}
        row = {places[abs(x)] * (1 if x > 0 else -1) for x in row if x not in fixed}
        if not any(-x in row for x in row):
            left.append(tuple(sorted(row)))
    assert sorted(tuple(sorted(row)) for row in d.rest.lists()) == sorted(left)
