"""Local search and `survey.solve` on every target, against brute force and a complete solver."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from sat import brute, clause_lists, full, refutes
from targets import everywhere, host, tries

import morph
from morph import Formula, generate, survey
from morph.algorithms.sat import flip_state, probsat, search
from morph.algorithms.sat.flip_state import FlipState
from morph.algorithms.sat.probsat import walksat
from morph.algorithms.sat.statistics import Statistics
from morph.testing import fail_allocation, team
from morph.validate import implications, satisfied


@pytest.fixture
def small(monkeypatch):
    """Few clauses are many: so that small formulas go through both parts of the search."""
    monkeypatch.setattr(flip_state, "ONE_THREAD", 4)
    monkeypatch.setattr(flip_state, "ALL_THREADS", 8)


@tries(15)
@given(clause_lists(), st.integers(0, 2**64 - 1))
def test_models_of_small_formulas(target, formula, seed):
    there = brute(formula)
    most = 2000 if target == "python" else 20_000
    runs = everywhere(target, lambda: walksat(formula, None, seed, max_flips=most, device=target))
    for found in runs:
        assert found.model.dtype == bool
        assert found.unsatisfied == (~satisfied(formula, found.model)).sum()
        assert (found.unsatisfied == 0) == (there is not None)
        assert found.flips == runs[0].flips and found.flips <= most + formula.clauses
        assert found.model.tolist() == runs[0].model.tolist()


def test_the_same_model_everywhere(target, small):
    formula = generate.random_ksat(3, 120, 3.4, 5)
    want = walksat(formula, seed=3, device="cpu")
    assert want.unsatisfied == 0 and want.steps > 0
    for found in everywhere(target, lambda: walksat(formula, seed=3, device=target)):
        assert found.model.tolist() == want.model.tolist() and found[1:] == want[1:]
    assert walksat(formula, seed=4, device="cpu").model.tolist() != want.model.tolist()


def test_a_limit_of_time_changes_no_flip(target, small, monkeypatch):
    monkeypatch.setattr(flip_state, "FLIPS", 1000)
    monkeypatch.setattr(flip_state, "WORK", 40_000)
    formula = generate.random_ksat(3, 60, 6.0, 5)  # no model
    most = 400 if target == "python" else 4000
    want = walksat(formula, seed=3, max_flips=most, device="cpu")
    assert want.steps > 0 and want.unsatisfied
    for found in everywhere(
        target, lambda: walksat(formula, seed=3, max_flips=most, time=1e6, device=target)
    ):
        assert found.model.tolist() == want.model.tolist() and found[1:] == want[1:]


def test_two_clauses_never_claim_alike():
    """Random claims of 31 bits: of seed 1, these two clauses had the same in the first step."""
    literals = np.full(28_007, 2)
    literals[[27_702, 28_006]] = 1
    search = FlipState(Formula(2, np.arange(28_008), literals), morph.device("cpu"))
    assert search.load(np.array([False, True])) == 2
    assert search.descend(1, 1, 1000)[0] == 1 and search.model().all()


@tries(8)
@given(clause_lists(most=12, clauses=60), st.integers(0, 99))
def test_what_is_kept_is_what_would_be_counted(target, formula, seed):
    where, start = morph.device(target), np.arange(formula.variables) % 2 == 1

    def kept(search):
        points = search.points
        return [host(points.state).tolist(), host(points.breaks).tolist()]

    def run():
        search, fresh = FlipState(formula, where), FlipState(formula, where)
        left = search.load(start)
        together = left > 0 and search.descend(seed, 1, 40)[0]
        if together:
            model = host(search.model())
            fresh.load(model)
            assert kept(search) == kept(fresh)
        left = search.load(start)
        if left and target != "cuda":
            search.list_unsatisfied(seed)
            flips, left = search.walk(50)
            assert flips <= 50
            assert left == fresh.load(host(search.model())) and kept(search) == kept(fresh)
            order, at = host(search.points.order), host(search.points.at)
            assert sorted(order[:left].tolist()) == sorted(fresh.now.items.tolist())
            assert at[order[:left]].tolist() == list(range(left))

    everywhere(target, run)


def test_lists_that_grow(target):
    """One variable in every clause: a flip makes most of them unsatisfied."""
    clauses = [[1, v, v + 1] for v in range(2, 90)] + [[-1, v] for v in range(2, 90)]
    formula = Formula.of(clauses)
    for found in everywhere(target, lambda: walksat(formula, np.zeros(90, bool), device=target)):
        assert found.unsatisfied == 0 and satisfied(formula, found.model).all()


def test_every_failed_allocation_is_mended(target, small):
    formula = generate.random_ksat(3, 30, 3.2, 2)
    want = walksat(formula, seed=1, device="cpu")
    assert want.steps and not want.unsatisfied
    n, fired = 0, True
    while fired:
        n += 1 if n < 12 else 17
        with team(2), fail_allocation(n, target) as fault:
            found = walksat(formula, seed=1, device=target)
        assert found.model.tolist() == want.model.tolist() and found[1:] == want[1:]
        fired = fault.fired
    assert n > 12


def test_long_clauses():
    for k, n, ratio in ((4, 400, 8), (5, 200, 16), (7, 100, 60)):
        formula = generate.random_ksat(k, n, ratio, 1)
        found = walksat(formula, device="cpu")
        assert found.unsatisfied == 0 and satisfied(formula, found.model).all()
    wide = Formula.of([list(range(1, 400)), [-v for v in range(1, 400)], [5]])
    assert walksat(wide, np.zeros(399, int), device="cpu").unsatisfied == 0
    with pytest.raises(ValueError, match="a clause of 70000 literals over 2147483647"):
        FlipState(Formula(2**31 - 1, [0, 70_000], np.ones(70_000, int)), morph.device("cpu"))


def test_when_to_give_up(monkeypatch):
    formula = Formula.of([[1, 2], [-1, 2], [1, -2], [-1, -2], []])
    found = walksat(formula, max_flips=100, device="cpu")
    assert (found.unsatisfied, found.flips) == (2, 100)
    assert walksat(formula, [True, False], time=0, device="cpu").model.tolist() == [True, False]
    reported, seconds = [], itertools.count()
    monkeypatch.setattr(probsat, "monotonic", lambda: next(seconds))
    found = walksat(formula, time=20, device="cpu", progress=lambda *x: reported.append(x))
    assert found.unsatisfied == 2 and reported and reported[-1][1] == 1
    assert walksat(Formula.of([]), device="cpu").unsatisfied == 0
    assert walksat(Formula.of([[]]), device="cpu").unsatisfied == 1
    for options, message in (
        ({"max_flips": -1}, "max_flips = -1"), ({"time": float("nan")}, "time = nan"),
        ({"model": [1]}, r"model has shape \(1,\), for 2"), ({"seed": -1}, "seed = -1"),
        ({"model": [0, 2]}, "model must hold bool"), ({"model": [0.0, 1]}, "model must hold bool"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            walksat(formula, device="cpu", **options)


@tries(12)
@given(clause_lists(most=9, clauses=30), st.integers(0, 3), st.booleans())
def test_solutions_of_small_formulas(formula, rounds, complete):
    solvers = pytest.importorskip("pysat.solvers")
    with solvers.Solver("cadical153", bootstrap_with=formula.lists()) as solver:
        there = solver.solve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FLIPS", 20_000)
        patch.setattr(search, "FIRST", ((5_000, 100), (20_000, 0)))
        found = survey.solve(formula, 1, device="cpu", max_rounds=rounds, complete=complete)
    if there:
        assert found.status == "SATISFIABLE" and satisfied(formula, found.model).all()
        return
    proved = refutes(formula) or found.cycle or complete and rounds
    assert found.status == ("UNSATISFIABLE" if proved else "UNKNOWN") and found.reason
    if found.status == "UNKNOWN":
        failed = np.flatnonzero(~satisfied(formula, found.model))
        assert failed.size and failed.tolist() == found.unsatisfied_clauses.tolist()
        assert found.unsatisfied == failed.size
    else:
        assert found.model is None
        if found.cycle:
            implications(formula, found.cycle)


def test_solutions_on_every_target(target):
    few = (Formula.of([[1, 2], [-1], [3, -2]]), [False, True, True])
    found = survey.solve(few[0], device=target)
    assert found.status == "SATISFIABLE" and found.model.tolist() == few[1]
    found = survey.solve([[1, 2], [-1], [-2]], device=target)
    assert found.status == "UNSATISFIABLE" and "empty clause" in found.reason


def test_solutions_of_random_formulas():
    formula = generate.random_ksat(3, 1500, 4.0, 3)
    reported = []
    found = survey.solve(formula, seed=0, device="cpu", progress=lambda *x: reported.append(x))
    assert found.status == "SATISFIABLE" and satisfied(formula, found.model).all()
    assert found.rounds and found.left < 1500 and found.stopped
    assert len(reported) > len(found.rounds) + len(found.believed) > len(found.rounds)
    assert {s for s, _ in reported} == {"decimation", "beliefs", "search"}
    assert {"sweeps", "search", "check"} <= set(found.seconds)
    again = survey.solve((formula.offsets, formula.literals), seed=0, device="cpu")
    assert again.model.tolist() == found.model.tolist()
    for cnf, status in (([], "SATISFIABLE"), ([[]], "UNSATISFIABLE"), ([[1, -1]], "SATISFIABLE")):
        assert survey.solve(cnf, device="cpu").status == status


def test_a_second_attempt_takes_smaller_steps():
    formula = generate.random_ksat(3, 1100, 4.2, 1)  # the first attempt fails
    found = survey.solve(formula, seed=1, device="cpu", complete=False)
    assert (found.status, found.attempts) == ("SATISFIABLE", 2)
    assert found.rounds[0].fraction == 0.02 and satisfied(formula, found.model).all()


def test_unknown_has_a_reason():
    clauses = full(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FLIPS", 1000)
        patch.setattr(search, "FIRST", ((1000, 1),))
        found = survey.solve(clauses, device="cpu", complete=False)
    assert (found.status, found.unsatisfied, found.attempts) == ("UNKNOWN", 1, 4)
    reason = "1 of 8 clauses are left unsatisfied; surveys and local search are incomplete"
    assert found.reason.startswith(
        f"no attempt succeeded: {reason}, and cannot show that there is no model"
    )
    found = survey.solve(clauses, device="cpu", time=0.3, complete=False)
    assert found.reason.startswith(f"time is up: {reason}") and found.unsatisfied == 1
    assert (
        found.unsatisfied_clauses.tolist()
        == np.flatnonzero(~satisfied(clauses, found.model)).tolist()
    )
    for options, message in (
        ({"time": 0}, "time = 0: expected more"), ({"seed": -1}, "seed = -1"),
        ({"seed": 2**32}, "seed = 4294967296"), ({"max_rounds": -1}, "max_rounds = -1"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            survey.solve(clauses, device="cpu", **options)


def test_a_very_long_clause_does_not_hold_up():
    """Each flip that it has looks at all its literals: so a launch makes fewer."""
    n = 2000
    i = np.arange(1, n + 1)
    pairs = np.stack([-i, i + n, -i, -i - n], axis=1).reshape(-1, 2).tolist()
    search = FlipState(Formula.of([i.tolist(), *pairs]), morph.device("cpu"))  # no model
    search.load(np.zeros(2 * n, bool))
    search.list_unsatisfied(1)
    flips, left = search.walk(flip_state.FLIPS)
    assert left and flips < flip_state.WORK / n * 6


def test_a_variable_in_very_many_clauses_does_not_hold_up():
    """A flip of it looks at all of them, and of clauses that claim it one has its way."""
    rng = np.random.default_rng(1)
    rest = rng.integers(2, 30, (20_000, 2)) * rng.choice([-1, 1], (20_000, 2))
    formula = Formula.of(np.column_stack([rng.choice([-1, 1], 20_000), rest]))  # no model, by far
    found = walksat(formula, seed=1, max_flips=200)
    assert found.unsatisfied > 0 and found.flips < 200
    reported = survey.solve(formula, 1, device="cpu", time=0.5, complete=False)
    assert (
        reported.status == "UNKNOWN" and "time is up" in reported.reason
    )  # after seconds, not minutes


def test_a_search_on_the_host_has_the_rows_that_a_device_has_sorted(monkeypatch):
    formula = morph.generate.random_ksat(3, 200, 4.0, 1)
    model = walksat(formula, device="cpu").model
    model[:5] ^= True  # few clauses are unsatisfied: one thread begins
    want = walksat(formula, model, device="cpu", seed=5)
    there = pretended(monkeypatch)
    found = walksat(formula, model, device=there, seed=5)
    assert found.unsatisfied == 0 and found.flips == want.flips > 0 and found.steps == 0
    assert found.model.tolist() == want.model.tolist()


def test_the_host_makes_tables_of_all_clauses_while_a_gpu_decimates(monkeypatch):
    formula = morph.generate.random_ksat(3, 2000, 4.1, 3)
    want = survey.solve(formula, 3, device="cpu", method="decimation")
    there, made = pretended(monkeypatch), []

    def noted(given, where):
        made.append(given)
        return probsat.tables_in_background(given, where)

    monkeypatch.setattr(search, "tables_in_background", noted)
    monkeypatch.setattr(probsat, "available_threads", lambda: 2)
    assert probsat.tables_in_background(formula, morph.device("cpu")) is None
    monkeypatch.setattr(probsat, "BACKGROUND", formula.literals.size)
    found = survey.solve(formula, 3, device=there, method="decimation")
    assert made == [formula] and found.model.tolist() == want.model.tolist()
    assert (found.flips, found.attempts) == (want.flips, want.attempts)


def test_a_gpu_counts_unsatisfied_clauses_and_the_checker_confirms_models(monkeypatch):
    formula = Formula.of([[1, 2], [-1, 3], [2, -3], [-2, -3, 1]], 3)
    there, checked = pretended(monkeypatch), []

    def noted(*args):
        checked.append(args)
        return satisfied(*args)

    monkeypatch.setattr(search.validate, "satisfied", noted)
    settings = search.Settings(0, [there], "auto", {}, 1000, None, None)
    model = np.array([True, True, True])
    it = search.ModelSearch(formula, settings, Statistics(), False, False)
    assert it._check(~model) == 1 and not checked
    assert it._check(model) == 0 and len(checked) == 1
    it.formula = Formula.of([[1, 2], [], [-3], []], 3)  # empty clauses count
    assert it._check(model) == 3 and len(checked) == 1
    assert walksat(it.formula, model, device=there, max_flips=0).unsatisfied == 3


def test_tables_that_cannot_be_made_in_the_background(monkeypatch):
    def fail(*args):
        raise MemoryError("no memory")

    monkeypatch.setattr(probsat, "FlipState", fail)
    monkeypatch.setattr(probsat, "available_threads", lambda: 2)
    tables = probsat.tables_in_background(Formula.of([[1]]), pretended(monkeypatch))
    for _ in range(2):
        with pytest.raises(MemoryError, match="no memory"):
            tables()
