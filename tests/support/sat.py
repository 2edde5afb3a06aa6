"""Small formulas for tests, and their models by brute force."""

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


def flat(n: int, seed: int) -> Formula:
    """Three colours for a random graph that has a colouring, nearly as dense as can be."""
    rng = np.random.default_rng(seed)
    colour = rng.permutation(n) % 3
    edges: set[tuple[int, int]] = set()
    while len(edges) < int(2.3 * n):
        a, b = sorted(rng.integers(0, n, 2).tolist())
        if colour[a] != colour[b]:
            edges.add((a, b))
    name = lambda v, c: 3 * v + c + 1  # noqa: E731
    rows = [[name(v, c) for c in range(3)] for v in range(n)]
    rows += [[-name(v, a), -name(v, b)] for v in range(n) for a, b in ((0, 1), (0, 2), (1, 2))]
    rows += [[-name(a, c), -name(b, c)] for a, b in sorted(edges) for c in range(3)]
    return Formula.of(rows, 3 * n)


def queens(n: int) -> Formula:
    """Queens on a board, one in each row and column, none on another's diagonal."""
    grid = np.arange(1, n * n + 1).reshape(n, n)
    rows = [*grid.tolist(), *grid.T.tolist()]
    diagonals = [d.diagonal(k) for d in (grid, grid[:, ::-1]) for k in range(1 - n, n)]
    lines = [*grid, *grid.T, *diagonals]
    rows += [[-a, -b] for x in lines for i, a in enumerate(x.tolist()) for b in x.tolist()[:i]]
    return Formula.of(rows, n * n)


def pigeons(holes: int) -> Formula:
    """One pigeon too many: no model, and no short proof by resolution."""
    name = np.arange(1, holes * (holes + 1) + 1).reshape(holes + 1, holes)
    rows = name.tolist()
    for hole in name.T.tolist():
        rows += [[-a, -b] for i, a in enumerate(hole) for b in hole[:i]]
    return Formula.of(rows)


def full(n: int) -> Formula:
    """All clauses over n variables: no model."""
    return Formula.of(
        [[v if s else -v for v, s in enumerate(signs, 1)] for signs in product((0, 1), repeat=n)]
    )


def parity(n: int, seed: int = 0) -> Formula:
    """The sum of n bits, taken in two orders, is even and odd: no model."""
    rng, rows, names = np.random.default_rng(seed), [], n
    for last in (-1, 1):
        bits = (rng.permutation(n) + 1).tolist()
        total = bits[0]
        for bit in bits[1:]:
            names += 1
            for signs in product((1, -1), repeat=3):
                if np.prod(signs) == 1:
                    rows.append([s * x for s, x in zip(signs, (-total, -bit, -names), strict=True)])
            total = names
        rows.append([last * total])
    return Formula.of(rows, names)
