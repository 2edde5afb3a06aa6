"""Units, pure literals, components and 2-SAT, against brute force; and the check of refutations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sat import brute, clause_lists, refutes
from targets import everywhere, tries

from morph import Formula, generate, validate
from morph.algorithms.sat.simplify import simplify
from morph.validate import WrongAnswer, satisfied


def plain(s):
    parts = [(p.formula.variables, p.formula.lists(), p.variables.tolist()) for p in s.parts]
    return s.model.tolist(), parts, s.refuted, s.cycle, s.fixed, s.components


@tries(25)
@given(clause_lists(most=7, clauses=16))
def test_what_is_left_has_a_model_if_the_formula_has_one(target, formula):
    runs = everywhere(target, lambda: simplify(formula, target))
    s = runs[0]
    assert all(plain(x) == plain(s) for x in runs)
    assert s.refuted == refutes(formula)
    if s.refuted or s.cycle:
        assert brute(formula) is None
        if s.cycle:
            validate.implications(formula, s.cycle)
        return
    model, found = s.model.copy(), True
    for part, names in s.parts:
        there = brute(part)
        found = found and there is not None
        model[names] = False if there is None else there
        assert min(map(len, part.lists())) >= 2 and max(map(len, part.lists())) >= 3
        used = {x for c in part.lists() for x in c}
        assert used == {-x for x in used} and {abs(x) for x in used} == set(
            range(1, part.variables + 1)
        )  # no pure literal is left, and every variable occurs
    assert found == (brute(formula) is not None)
    assert satisfied(formula, model).all() or not found
    assert s.fixed + sum(p.formula.variables for p in s.parts) == formula.variables


@tries(30)
@given(
    st.lists(
        st.lists(st.sampled_from([1, -1, 2, -2, 3, -3, 4, -4]), min_size=1, max_size=2), max_size=14
    )
)
def test_two_literals_a_clause_are_decided(target, rows):
    formula = Formula.of(rows, 4)
    s = simplify(formula, target)
    assert not s.parts
    if s.refuted:
        assert refutes(formula)
    elif s.cycle:
        assert brute(formula) is None
        validate.implications(formula, s.cycle)
    else:
        assert satisfied(formula, s.model).all()


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.3, 2.0])
def test_random_2_sat(ratio):
    formula = generate.random_ksat(2, 30_000, ratio, 3)
    s = simplify(formula)
    assert not s.parts
    if s.cycle:
        validate.implications(formula, s.cycle)
    else:
        assert satisfied(formula, s.model).all()
    assert bool(s.cycle) == (ratio > 1)


def test_long_chains_take_linear_time():
    n = 300_000
    i = np.arange(1, n)
    chain = np.stack([-i, i + 1], axis=1)
    rows = Formula(n, np.append(0, np.arange(1, 2 * n, 2)), np.append(1, chain.ravel()))
    assert simplify(rows).model.all()  # sweeps over all clauses would take hours
    broken = Formula(n, np.append(rows.offsets, 2 * n), np.append(rows.literals, -n))
    assert simplify(broken).refuted and validate.refuted(broken) and not validate.refuted(rows)
    ring = Formula.of(np.concatenate([chain, [[-n, -1], [1, n]]]))
    s = simplify(ring)
    assert s.cycle == [] and satisfied(ring, s.model).all()
    ring = Formula.of(np.concatenate([chain, [[-n, -1], [1, 2], [1, -2]]]))
    s = simplify(ring)
    assert s.cycle and len(s.cycle) > n // 2
    validate.implications(ring, s.cycle)


def test_variables_that_do_not_occur_take_no_memory():
    n = 10**8
    few = generate.random_ksat(3, 300, 4.0, 1)
    formula = Formula(n, few.offsets, few.literals * 300_000)
    tracemalloc.start()
    s = simplify(formula)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n + 2**23  # the model, which the system gives memory for when it is written to
    assert s.fixed + sum(p.formula.variables for p in s.parts) == n
    assert s.fixed >= n - 300 and all((p.variables % 300_000 == 299_999).all() for p in s.parts)


def test_components_are_split_by_size():
    cube = [[a * 1, b * 2, c * 3] for a in (1, -1) for b in (1, -1) for c in (1, -1)][1:]
    shift = lambda rows, k: [[x + k if x > 0 else x - k for x in c] for c in rows]  # noqa: E731
    large = generate.random_ksat(3, 200, 4.0, 1).lists()
    pairs = [[701, 702], [-701, 702], [701, -702]]
    formula = Formula.of([*cube, *shift(large, 50), *shift(cube, 300), *pairs])
    s = simplify(formula)
    assert s.components >= 3
    assert [p.formula.variables for p in s.parts][0] == 6  # small ones are solved together
    assert {1, 2, 3, 301, 302, 303} == {int(v) + 1 for v in s.parts[0].variables}
    assert s.parts[-1].formula.variables > 150 and s.model[[700, 701]].all()


def test_implications_are_checked():
    rows = [[-1, 2], [-2, -1], [1, 3], [-3, 1], [4, 5, 6], [7], [-7, -4, 8]]
    formula = Formula.of(rows)
    validate.implications(formula, [1, 2, -1, 3, 1])
    validate.implications(
        Formula.of([[9], [-9, -1, 2], [-2, -1], [1, 3], [-3, 1]]), [1, 2, -1, 3, 1]
    )
    validate.implications(Formula.of([[1], [-1]]), [1, -1, 1])
    for cycle, message in (
        ([], "a cycle"), ([1, 2, -1], "a cycle"), ([1, 2, 3, 1], "a cycle"),
        ([1, -1, 3, 1], "1 does not imply -1"), ([1, 2, -1, 1], "-1 does not imply 1"),
        ([4, -5, -4, 4], "4 does not imply -5"), ([4, 8, -4, 8, 4], "8 does not imply -4"),
        ([1, 99, -1, 3, 1], "literal 99 of the cycle is in no clause"),
        ([1, 0, -1, 3, 1], "literal 0"),
    ):  # fmt: skip
        with pytest.raises(WrongAnswer, match=message):
            validate.implications(formula, cycle)
