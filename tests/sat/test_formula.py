"""Formulas of other objects, random formulas, and the checker of models."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sat import brute, clause_lists, refutes

import morph
from morph import Formula, generate
from morph.runtime.cpu.device import HostDevice
from morph.validate import WrongAnswer, model, refuted, satisfied


def test_a_formula_of_what_holds_clauses(tmp_path):
    clauses = [[1, -2], [], [3, 3, -3]]
    f = Formula.of(clauses)
    assert (f.variables, f.clauses, len(f.literals)) == (3, 3, 5)
    assert f.offsets.tolist() == [0, 2, 2, 5] and f.lists() == clauses
    assert (f.offsets.dtype, f.literals.dtype) == (np.int64, np.int32)
    same = [
        Formula(3, [0, 2, 2, 5], np.array([1, -2, 3, 3, -3], np.int64)),
        Formula.of((np.array([0, 2, 2, 5], np.uint8), np.array([1, -2, 3, 3, -3], np.int8))),
        Formula.of(iter([(1, -2), (), np.array([3, 3, -3])])),
        Formula.of(f),
    ]
    assert all(g == f for g in same) and Formula.of(f) is f
    assert Formula.of(f, 7).variables == 7 and Formula.of(f, 7) != f and f != 3
    assert Formula.of(np.array([[1, 2], [-1, -2]])).lists() == [[1, 2], [-1, -2]]
    assert Formula.of([]).lists() == [] and Formula.of([[]]).variables == 0
    morph.io.write_cnf(f, tmp_path / "a.cnf")
    assert Formula.of(str(tmp_path / "a.cnf")) == Formula.of(tmp_path / "a.cnf") == f
    assert "3 variables, 3 clauses" in repr(f)


def test_a_formula_of_pysat():
    formula = pytest.importorskip("pysat.formula")
    found = Formula.of(formula.CNF(from_clauses=[[1, -4], [2]]))
    assert found.variables == 4 and found.lists() == [[1, -4], [2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Formula.of([[1, 0]]), "literal 0 of clause 0"),
        (lambda: Formula.of([[1], [2, -3]], 2), r"literal -3 of clause 1 .*: expected -2 to 2"),
        (lambda: Formula.of([[1]], 0), "expected none, as there are no variables"),
        (lambda: Formula.of([[2**40]]), "variables = 1099511627776: expected 0 to 2147483647"),
        (lambda: Formula.of([[2**70]]), "literal 1180591620717411303424"),
        (lambda: Formula(2, [0, 2, 1, 2], [1, 2]), r"offsets\[2\] = 1 is less"),
        (lambda: Formula(2, [0, 1], [1, 2]), "offsets end at 1, but there are 2 literals"),
        (lambda: Formula(2, [1, 2], [1, 2]), "offsets must begin with 0"),
        (lambda: Formula(2, [], []), "offsets must begin with 0"),
        (lambda: Formula(2, [[0, 1]], [1]), r"offsets must have shape \(k,\)"),
        (lambda: Formula(-1, [0], []), "variables = -1"),
    ],
)
def test_what_is_no_formula(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Formula.of([[1.5]]), "a literal is an integer, not 1.5"),
        (lambda: Formula.of([[True]]), "a literal is an integer, not True"),
        (lambda: Formula.of([[1], [None]]), "a literal is an integer, not None"),
        (lambda: Formula.of([[1, np.True_]]), "a literal is an integer, not np.True_"),
        (lambda: Formula.of([1, 2]), "a formula is made of"),
        (lambda: Formula.of(3), "not of int"),
        (lambda: Formula(1, [0, 1], [1.0]), "literals must hold integers, got float64"),
        (lambda: Formula("2", [0], []), "variables is an integer, not '2'"),
    ],
)
def test_what_holds_no_integers(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@given(st.integers(1, 6), st.integers(0, 5), st.floats(0, 4), st.integers(0, 99))
def test_random_clauses_have_different_variables(k, more, ratio, seed):
    f = generate.random_ksat(k, k + more, ratio, seed)
    assert f.clauses == round(ratio * (k + more)) and f.variables == k + more
    assert all(len({abs(x) for x in clause}) == k == len(clause) for clause in f.lists())
    assert f == generate.random_ksat(k, k + more, ratio, seed)


def test_random_clauses_are_all_equally_likely():
    f = generate.random_ksat(3, 5, 8000, 1)
    kinds = np.sort(f.literals.reshape(-1, 3), axis=1) @ np.array([400, 20, 1])
    _, count = np.unique(kinds, return_counts=True)
    assert count.size == 80 and abs(count / 500 - 1).max() < 0.2
    sums = {3: 4286575957, 5: 1892521916}
    for k, want in sums.items():  # others have measured on these
        f = generate.random_ksat(k, 20_000, 4.2, seed=7)
        assert zlib.crc32(f.literals.astype("<i4").tobytes()) == want


def test_random_ksat_is_refused_for_want_of_memory(monkeypatch):
    monkeypatch.setattr(HostDevice, "free", lambda self: 10**8)
    said = r"a formula of 42000000 3-clauses takes up to 0\.84 GB .* 0\.1 GB free"
    with pytest.raises(MemoryError, match=said):
        generate.random_ksat(3, 10**7, 4.2)


def test_random_ksat_refuses():
    for given_, message in (
        ((3, 2, 1.0), "k = 3: expected 1 to n = 2"),
        ((0, 2, 1.0), "k = 0"),
        ((3, 9, -1), "ratio = -1: expected 0 or more"),
        ((3, 2**31 - 1, 2), "at most 2.31 - 1 clauses"),
        ((3, 9, 1, -1), "seed = -1"),
    ):
        with pytest.raises(ValueError, match=message):
            generate.random_ksat(*given_)
    assert generate.random_ksat(3, 0, 4.2).clauses == 0


@given(clause_lists(), st.integers(0, 2**6 - 1))
def test_clauses_that_a_model_satisfies(formula, bits):
    truth = np.array([bits >> v & 1 == 1 for v in range(formula.variables)], bool)
    want = [any(truth[abs(x) - 1] == (x > 0) for x in clause) for clause in formula.lists()]
    assert satisfied(formula, truth).tolist() == want
    assert satisfied(formula, truth.astype(np.int8)).tolist() == want
    if all(want):
        model(formula, truth)
    else:
        with pytest.raises(WrongAnswer, match=f"clause {want.index(False) + 1} is not satisfied"):
            model(formula, truth)


def test_corrupted_models_are_reported():
    f = generate.random_ksat(3, 50, 3, 2)
    truth = np.array(brute_force_free(f))
    model(f, truth)
    alone = {  # a variable whose literal is the only true one of some clause
        abs(x[0]) - 1
        for c in f.lists()
        if len(x := [v for v in c if truth[abs(v) - 1] == (v > 0)]) == 1
    }
    for v in range(50):
        wrong = truth.copy()
        wrong[v] ^= True
        assert satisfied(f, wrong).all() == (v not in alone)
    for wrong, message in (
        (truth[1:], r"shape \(49,\)"),
        (truth * 2.0, "type float64"),
        (truth.astype(int) * 2, "other numbers than 0 and 1"),
    ):
        with pytest.raises(WrongAnswer, match=message):
            model(f, wrong)


def brute_force_free(f):
    solver = pytest.importorskip("pysat.solvers")
    with solver.Solver("cadical153", bootstrap_with=f.lists()) as s:
        assert s.solve()
        true = set(s.get_model())
    return [v in true for v in range(1, f.variables + 1)]


@given(clause_lists())
def test_refutations(formula):
    assert refuted(formula) == refutes(formula)
    if refuted(formula):
        assert brute(formula) is None


def test_variables_that_occur_are_found_and_checked_alike():
    rng = np.random.default_rng(1)
    literals = rng.integers(1, 40, 300) * rng.choice([-1, 1], 300)
    near = Formula(40, np.arange(0, 301, 3), literals)
    far = Formula(40 * 10**4, near.offsets, literals * 10**4)
    names = sorted(set(np.abs(literals).tolist()))
    assert near.occurring().tolist() == names
    assert far.occurring().tolist() == [v * 10**4 for v in names]
    truth = rng.random(40) < 0.5
    wide = np.zeros(far.variables, bool)
    wide[np.arange(1, 41) * 10**4 - 1] = truth
    held = satisfied(near, truth)
    assert 0 < held.sum() < 100
    assert satisfied(far, wide).tolist() == held.tolist()
    assert satisfied(far, wide.astype(np.int8)).tolist() == held.tolist()
    assert Formula.of([], 3).occurring().tolist() == []
