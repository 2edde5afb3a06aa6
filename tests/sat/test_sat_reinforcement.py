"""Backtracking and reinforcement: sound, equal on every target, and able to unfix variables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from surveys import cleaned, consistent, formulas, messages, plain, swept, units
from targets import everywhere, host, tries

import morph.algorithms.sat.fields as module
from morph.algorithms.sat.fields import backtrack, fix_values, reinforce, with_fields
from morph.algorithms.sat.surveys import converge
from morph.data.formula import Formula
from morph.generate import random_ksat
from morph.runtime.device import device


@tries(12)
@given(formulas(longest=4), st.integers(0, 3), st.sampled_from([0.0, 0.5]))
def test_any_formula(target, formula, seed, ratio):
    found = backtrack(formula, seed, target, 5, fraction=0.3, ratio=ratio, max_sweeps=20)
    if found.status == "unsatisfiable":
        assert units(formula) is None
    elif found.status != "contradiction":
        consistent(formula, found)


def test_the_same_everywhere(target):
    formula = random_ksat(3, 12, 3.5, seed=2)

    def run(where=target):
        done = backtrack(formula, 7, where, 3, fraction=0.1, tolerance=0.3, rho=0.5)
        rounds = [r._replace(complexity=0.0) for r in done.rounds]
        again = reinforce(formula, 7, where, 10)
        return plain(done._replace(rounds=rounds)), again.assignment.tolist(), again.status

    known = run("cpu")
    assert all(found == known for found in everywhere(target, run))


def test_some_are_let_go():
    formula = random_ksat(3, 1000, 4.15, seed=1)
    found = backtrack(formula, 1, max_rounds=12)
    consistent(formula, found)
    assert sum(r.released for r in found.rounds) > 50
    assert found.rounds[0].bias > 0.1 and len(found.rounds) == 12


def test_to_the_end():
    formula = random_ksat(3, 1000, 4.0, seed=1)
    found = backtrack(formula, 1)
    consistent(formula, found)
    assert found.status == "paramagnetic" and found.rest.variables > 100


def test_a_field_is_as_good_as_a_value(target):
    """Surveys of held variables are those of the clauses without what they decide."""
    formula = Formula.of([[1, 2, 3], [-1, 4, 5], [2, -4, 3], [-2, -5, 3], [4, 5, 2], [1, 3]], 5)
    f = with_fields(formula, device(target), 3)
    f.graph.points.value[:] = [1, -1, -1, -1, 0]
    fix_values(f)
    converge(f, 1e-9, 25)
    found = messages(f)
    left = {1: [4], 2: [2, 3, -4], 4: [2, 4]}  # what the values leave of the clauses
    eta = swept(left, {(c, abs(x) - 1): 0.5 for c, row in left.items() for x in row}, 1.0, 25)
    for key, value in eta.items():
        assert abs(found[key] - value) < 1e-5
    for c in (0, 3, 5):  # satisfied: no further warnings
        assert all(found[c, abs(x) - 1] < 1e-5 for x in cleaned(formula)[c] if abs(x) not in (1, 5))
    f.graph.points.value[:] = -1
    fix_values(f)
    total = host(f.sums[0].by_sign).sum()
    assert total == sum(round(-np.log2(1 - x) * f.scale) for x in messages(f).values())


def test_reinforcement_solves():
    formula = random_ksat(3, 300, 3.6, seed=1)
    found = reinforce(formula, 1, rho=0.0)  # surveys are trivial here, beliefs are not
    assert found.status == "satisfied"
    truth = found.assignment == 1
    assert all(any(truth[abs(x) - 1] == (x > 0) for x in row) for row in formula.lists())
    assert set(found.assignment.tolist()) == {0, 1} and found.rest.variables == 0


def test_contradictory_choices_are_withdrawn(monkeypatch):
    formula = random_ksat(3, 200, 4.2, seed=2)
    calls, propagate = [], module.propagate_units

    def failing(f):
        calls.append(len(calls))
        return propagate(f)[0], len(calls) != 3  # the start, a round, and the next round's choices

    monkeypatch.setattr(module, "propagate_units", failing)
    found = backtrack(formula, 1, max_rounds=4, tolerance=0.2)
    assert found.rollbacks == 1 and found.rounds[1].chosen == 0
    consistent(formula, found)


@pytest.mark.parametrize("of", [backtrack, reinforce])
def test_refuted_and_trivial(of):
    assert of(Formula.of([[1, 2], []]), 1).status == "unsatisfiable"
    assert of(Formula.of([], 3), 1).status == "satisfied"


def test_refused():
    formula = Formula.of([[1, 2]])
    with pytest.raises(ValueError, match="ratio = 1.0: expected a number from 0 to less than 1"):
        backtrack(formula, ratio=1.0)
    with pytest.raises(ValueError, match="intensity = 2.0: expected a number between 0 and 1"):
        reinforce(formula, intensity=2.0)
