"""`morph.survey.Solver` beside PySAT's solvers, and formulas to and from PySAT."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from targets import examples

import morph
from morph.survey import Solver

LITERAL = st.integers(1, 5).flatmap(lambda v: st.sampled_from([v, -v]))
CLAUSES = st.lists(st.lists(LITERAL, min_size=1, max_size=3), max_size=12)


@settings(max_examples=examples(25), deadline=None)
@given(CLAUSES, st.lists(LITERAL, max_size=2))
def test_answers_are_those_of_pysat(clauses, assumptions):
    peers = pytest.importorskip("pysat.solvers")
    with peers.Solver("cadical195", bootstrap_with=clauses) as peer:
        wanted = peer.solve(assumptions=assumptions)
    with Solver(bootstrap_with=clauses[:3], device="cpu") as found:
        for clause in clauses[3:]:
            found.add_clause(clause)
        assert found.get_model() is None and found.get_status() is None
        assert found.nof_clauses() == len(clauses)
        assert found.solve(assumptions=assumptions) is wanted is found.get_status()
        model = found.get_model()
        assert (model is not None) == wanted
        if wanted:
            true = set(model)
            assert [abs(x) for x in model] == list(range(1, len(model) + 1))
            assert all(true & set(clause) for clause in clauses) and true >= set(assumptions)
        assert found.nof_clauses() == len(clauses)  # assumptions are not kept
    assert found.nof_clauses() == 0


def test_formulas_of_pysat_both_ways():
    pysat = pytest.importorskip("pysat.formula")
    cnf = pysat.CNF(from_clauses=[[1, -2], [2, 3], [-1]])
    formula = morph.Formula.of(cnf)
    back = formula.to_pysat()
    assert isinstance(back, pysat.CNF)
    assert back.clauses == cnf.clauses and back.nv == 3
    wide = morph.Formula.of([[1]], variables=7)
    assert wide.to_pysat().nv == 7 and morph.Formula.of(wide.to_pysat()) == wide
    assert morph.Formula.of([]).to_pysat().nv == 0
    with Solver(bootstrap_with=cnf, device="cpu") as solver:
        assert solver.solve() and solver.get_model() == [-1, -2, 3]
    plus = pysat.CNFPlus()
    plus.append([1, 2])
    plus.append([[1, 2], 1], is_atmost=True)
    with pytest.raises(ValueError, match="cardinality constraints"):
        morph.Formula.of(plus)
    weighted = pysat.WCNF()
    weighted.append([1, 2], weight=3)
    with pytest.raises(TypeError, match="a formula is made of"):
        morph.Formula.of(weighted)


def test_models_are_enumerated():
    pytest.importorskip("pysat.solvers")
    solver = Solver([[1, 2], [-1, -2], [3]], device="cpu")
    assert sorted(solver.enum_models()) == [[-1, 2, 3], [1, -2, 3]]
    assert list(solver.enum_models([1])) == [[1, -2, 3]]
    solver.append_formula([[-3, 4]])
    solver.add_clause([-4, 5])
    assert solver.nof_vars() == 5 and solver.nof_clauses() == 5
    assert len(list(solver.enum_models())) == 2
    assert list(Solver(device="cpu").enum_models()) == [[]]
    assert list(Solver([[]], device="cpu").enum_models()) == []


def test_what_a_solver_refuses():
    solver = Solver([[1, 2]], device="cpu")
    for wrong, error in (([0], ValueError), ([1.5], TypeError), (3, TypeError), ("ab", TypeError)):
        with pytest.raises(error):
            solver.add_clause(wrong)
        with pytest.raises(error):
            solver.solve(assumptions=wrong)
    assert solver.nof_clauses() == 1 and solver.solve()


@pytest.mark.parametrize("given", [None, 5])
def test_what_is_no_list_of_literals_is_named(given):
    solver = Solver([[1, 2]], device="cpu")
    said = f"expected an iterable of literals, not {given}"
    with pytest.raises(TypeError, match=f"clause: {said}"):
        solver.add_clause(given)
    with pytest.raises(TypeError, match=f"assumptions: {said}"):
        solver.solve(given)
    with pytest.raises(TypeError, match=f"assumptions: {said}"):
        next(solver.enum_models(given))
    assert solver.nof_clauses() == 1
