"""Small formulas for tests, and what is true of them by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from morph import Formula


@st.composite
def clause_lists(draw, most=6, clauses=14):
    """Formulas with duplicates, tautologies, units, empty clauses, variables that do not occur."""
    n = draw(st.integers(0, most))
    literal = st.integers(1, n).flatmap(lambda v: st.sampled_from([v, -v])) if n else st.nothing()
    sizes = st.sampled_from([1, 2, 2, 3, 3, 3, 4, 6])
    clause = (
        sizes.flatmap(lambda k: st.lists(literal, min_size=k, max_size=k)) if n else st.just([])
    )
    found = draw(st.lists(clause, max_size=clauses))
    if draw(st.integers(0, 9)) == 0:
        found.insert(draw(st.integers(0, len(found))), [])
    return Formula.of(found, n)


def brute(formula: Formula) -> np.ndarray | None:
    """A model, if there is one."""
    clauses = formula.lists()
    for truth in product([False, True], repeat=formula.variables):
        if all(any(truth[abs(x) - 1] == (x > 0) for x in c) for c in clauses):
            return np.array(truth, bool)
    return None


def refutes(formula: Formula) -> bool:
    """Whether unit propagation, one unit after the other, ends in an empty clause."""
    clauses = [set(c) for c in formula.lists()]
    while all(clauses):
        unit = next((x for c in clauses if len(c) == 1 for x in c), None)
        if unit is None:
            return False
        clauses = [c - {-unit} for c in clauses if unit not in c]
    return True
