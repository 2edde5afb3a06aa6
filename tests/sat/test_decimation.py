"""Decimation: partial assignments can be completed, are equal on every target, are retracted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from surveys import consistent, formulas, messages, models, plain, units
from targets import everywhere, host, tries

import morph.algorithms.sat.decimation as module
from morph.algorithms.sat import surveys
from morph.algorithms.sat.beliefs import believe
from morph.algorithms.sat.decimation import decimate
from morph.algorithms.sat.factors import factor_graph, reduced, rest_of
from morph.data.formula import Formula
from morph.generate import random_ksat
from morph.runtime.device import device
from morph.validate import satisfied


@tries(20)
@given(formulas(longest=4), st.integers(0, 3), st.sampled_from([0.1, 0.5, 1.0]))
def test_any_formula(target, formula, seed, fraction):
    def run():
        return decimate(formula, seed, target, 6, fraction=fraction, max_sweeps=40)

    found = run()
    if found.status == "unsatisfiable":
        assert units(formula) is None and (found.assignment == -1).all()
        assert next(models(found.rest), None) is None
    else:
        assert units(formula) is not None
        consistent(formula, found)
        assert (found.status == "satisfied") == (found.rest.clauses == 0) or len(found.rounds) == 6


def test_the_same_everywhere(target):
    formula = random_ksat(3, 20, 3.5, seed=2)

    def run(where=target):
        return plain(decimate(formula, 7, where, 3, fraction=0.1, tolerance=0.2, rho=0.5))

    known = run("cpu")
    assert len(known[4]) >= 2
    assert all(found == known for found in everywhere(target, run))


def test_seeds_differ():
    formula = random_ksat(3, 300, 4.1, seed=2)
    one, same, other = (decimate(formula, seed, max_sweeps=200) for seed in (1, 1, 2))
    assert plain(one) == plain(same) and plain(one) != plain(other)
    consistent(formula, one)
    consistent(formula, other)


def test_to_the_paramagnetic_rest():
    formula = random_ksat(3, 3000, 4.1, seed=1)
    found = decimate(formula, 1)
    consistent(formula, found)
    assert found.status == "paramagnetic" and 500 < found.rest.variables < 2900
    assert all(r.complexity > 0 for r in found.rounds[:4])
    for a, b in zip(found.rounds, found.rounds[1:], strict=False):
        assert a.free - a.chosen - a.implied == b.free and sum(a.histogram) == a.free
    assert found.seconds["sweeps"] > 0


def test_belief_propagation_decimates_too():
    formula = random_ksat(3, 400, 3.5, seed=1)
    found = decimate(formula, 1, max_rounds=3, rho=0.0, fraction=0.02)
    consistent(formula, found)
    assert len(found.rounds) == 3 and found.rounds[0].complexity > 0.1  # entropy, not complexity


def test_contradictions_halve_the_fraction():
    formula = random_ksat(3, 300, 4.25, seed=1)
    found = decimate(formula, 1, max_rounds=2, fraction=1.0, max_sweeps=300)
    assert found.rollbacks > 0 and found.rounds[0].fraction < 1
    consistent(formula, found)


def test_a_round_is_taken_back(monkeypatch):
    formula = random_ksat(3, 300, 4.1, seed=4)
    undisturbed = decimate(formula, 1, max_rounds=2)
    assert len(undisturbed.rounds) == 2
    calls, converge = [], surveys.converge

    def failing(f, *args):
        calls.append(len(f.graph.points))
        sweeps, done = converge(f, *args)
        return sweeps, done and len(calls) not in (2, 3, 4)  # in the second round, held back too

    monkeypatch.setattr(surveys, "converge", failing)
    found = decimate(formula, 1, max_rounds=2)
    assert found.rollbacks == 1 and calls[1] == calls[2] == calls[3] < calls[0]
    assert found.rounds[0].fraction == 0.015 and found.rounds[0].free == 300
    consistent(formula, found)


def test_below_zero_surveys_have_gone_astray(monkeypatch):
    formula = random_ksat(3, 300, 4.1, seed=4)
    marginals = module.marginals

    def reported(nats):
        values = iter([1.0, nats, 1.0])
        monkeypatch.setattr(
            module, "marginals", lambda *x: marginals(*x)._replace(complexity=next(values))
        )

    for nats, options, status in (
        (-10.1, {}, "astray"), (-9.9, {}, "rounds"), (-30.1, {"least_complexity": -0.1}, "astray"),
        (-29.9, {"least_complexity": -0.1}, "rounds"), (-99.0, {"rho": 0.99}, "rounds"),
    ):  # fmt: skip
        reported(nats)
        found = decimate(formula, 1, max_rounds=3, **options)
        assert found.status == status and len(found.rounds) == (1 if status == "astray" else 3)
        consistent(formula, found)


def test_the_tolerance_rises_as_the_formula_shrinks(monkeypatch):
    formula = random_ksat(3, 3000, 4.1, seed=1)
    patiently, seen = module.converge_patiently, []

    def noted(f, tolerance, *args):
        seen.append((tolerance, f.count_clauses(), args[-1]))
        return patiently(f, tolerance, *args)

    monkeypatch.setattr(module, "converge_patiently", noted)
    decimate(formula, 1)  # a small formula
    assert len(seen) > 10 and {(tolerance, least) for tolerance, _, least in seen} == {(0.03, 0.0)}
    seen.clear()
    monkeypatch.setattr(module, "LARGE", formula.variables)
    decimate(formula, 1)
    assert len(seen) > 10 and seen[0][0] == 0.05 and seen[-1][0] > 0.07
    for tolerance, clauses, least in seen:
        late = clauses < module.LATE * formula.clauses
        assert least == (module.LEAST_CHANGE if late else 0.0) < tolerance
        assert tolerance == min(0.05 * (formula.clauses / clauses) ** 0.5, module.HIGHEST)
    for options, constant in (
        ({"tolerance": 0.06}, 0.06), ({"fraction": 0.01}, 0.01), ({"rho": 0.5}, 0.05),
    ):  # fmt: skip
        seen.clear()
        decimate(formula, 1, max_rounds=2, **options)
        assert [(tolerance, least) for tolerance, _, least in seen] == [(constant, 0.0)] * 2


def test_never_convergent(monkeypatch):
    formula = random_ksat(3, 100, 4.0, seed=4)
    tolerances = []

    def failing(f, tolerance, *args):
        tolerances.append(tolerance)
        return 1, False

    monkeypatch.setattr(surveys, "converge", failing)
    found = decimate(formula, 1)
    assert found.status == "unconverged" and found.rounds == [] and max(tolerances) == 0.05
    assert (found.assignment == -1).all()
    consistent(formula, found)


def test_compaction_keeps_messages(target):
    formula = Formula.of([[1, 2, 3], [-1, 4, 5], [2, -4], [-2, -5, 3, 1], [5, 6]], 7)
    f = factor_graph(formula, device(target), 1)
    before = messages(f)
    f.graph.points.value[:] = [1, -1, -1, -1, -1, -1, -1]  # the first is true
    into = f.like()
    reduced(f, into)
    rest, names = rest_of(into)
    assert names.tolist() == [1, 2, 3, 4, 5, 6]
    assert sorted(map(sorted, rest.lists())) == sorted(map(sorted, [[3, 4], [1, -3], [4, 5]]))
    kept = messages(into)
    assert kept == {key: eta for key, eta in before.items() if key[0] in (1, 2, 4) and key[1]}
    sums = host(into.sums[0].by_sign)
    assert sums.sum() == sum(round(-np.log2(1 - x) * f.scale) for x in kept.values())


def test_residual_graphs_are_in_order(target):
    """Clauses by length, the longest first, else as before; over six chunks of rows."""
    formula = random_ksat(4, 40, 4.5, seed=2)
    f = factor_graph(formula, device(target), None)
    g = f.like()
    assert f.space.chunks == 6 and len(f.graph.clauses) == 180
    drawn = np.random.default_rng(1)
    for most in (0.3, 0.0, 0.6, 1.0):  # and none left
        n, lengths = len(f.graph.points), np.zeros(len(f.graph.clauses), int)
        values = np.where(drawn.random(n) < most, drawn.integers(0, 2, n), -1)
        f.graph.points.value[:] = values
        first, counts = host(f.graph.slots.first), host(f.graph.slots.count)
        variable, negated = host(f.graph.entries.variable), host(f.graph.entries.message) < 0
        true = np.zeros(lengths.size, bool)
        for a, m in zip(first, counts, strict=True):
            value = values[variable[a : a + m]]
            lengths[:m] += value < 0
            true[:m] |= (value >= 0) & ((value == 1) != negated[a : a + m])
        lengths[true] = 0
        kept = np.flatnonzero(lengths)
        kept = kept[np.argsort(-lengths[kept], kind="stable")]
        origins, names = host(f.graph.clauses.origin)[kept], host(f.graph.points.origin)
        reduced(f, g)
        assert host(g.graph.clauses.origin).tolist() == origins.tolist()
        assert host(g.graph.points.origin).tolist() == names[values < 0].tolist()
        assert host(g.graph.points.value).tolist() == [-1] * int((values < 0).sum())
        longest = int(lengths.max(initial=0))
        assert host(g.graph.slots.count).tolist() == [
            int((lengths > k).sum()) for k in range(longest)
        ]
        f, g = g, f
    assert f.count_clauses() == len(f.graph.points) == 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"fraction": 0.0}, "fraction = 0.0: expected a number above 0 and at most 1"),
        ({"tolerance": 1.0}, "tolerance = 1.0: expected a number between 0 and 1"),
        ({"rho": -0.5}, "rho = -0.5: expected a number from 0 to 1"),
    ],
)
def test_refused(given, text):
    with pytest.raises(ValueError, match=text):
        decimate(Formula.of([[1, 2]]), **given)


def test_limits():
    formula = random_ksat(3, 300, 4.1, seed=4)
    assert decimate(formula, 1, max_rounds=0).status == "rounds"
    assert decimate(formula, 1, max_seconds=-1.0).status == "time"
    nothing = decimate(Formula.of([], 3), 1)
    assert nothing.status == "satisfied" and nothing.rest.variables == 3
    assert decimate(Formula.of([], 0), 1).assignment.shape == (0,)


def test_certain_of_both_is_taken_back(monkeypatch):
    formula = random_ksat(3, 300, 4.1, seed=4)
    calls, marginals = [], module.marginals

    def clashing(f, rho):
        calls.append(len(f.graph.points))
        return marginals(f, rho)._replace(contradictions=int(len(calls) == 2))

    monkeypatch.setattr(module, "marginals", clashing)
    found = decimate(formula, 1, max_rounds=2)
    assert found.rollbacks == 1 and calls[:3] == [300, calls[1], 300] and calls[1] < 300
    consistent(formula, found)
    calls[:] = [0]
    assert decimate(formula, 1).status == "contradiction"


@tries(12)
@given(formulas(longest=4), st.integers(0, 3), st.sampled_from([0.1, 1.0]), st.booleans())
def test_beliefs_of_any_formula(target, formula, seed, fraction, lossy):
    def run():
        return believe(formula, seed, target, 5, fraction=fraction, lossy=lossy)

    runs = everywhere(target, run)
    found = runs[0]
    assert all(plain(x) == plain(found) for x in runs)
    if found.status == "unsatisfiable":
        assert units(formula) is None
        return
    if not lossy:
        consistent(formula, found)
    assert found.likely.dtype == bool and found.likely.shape == (found.rest.variables,)
    assert all(x.likely.tolist() == found.likely.tolist() for x in runs)
    assert found.status in ("satisfied", "contradiction", "rounds")


def test_beliefs_leave_no_clause():
    formula = random_ksat(3, 2000, 3.8, seed=1)
    found = believe(formula, 1)
    consistent(formula, found)
    assert found.rest.clauses == 0 and found.status == "satisfied"
    assert all(a.free > b.free for a, b in zip(found.rounds, found.rounds[1:], strict=False))
    assert believe(formula, 1, max_seconds=0).status == "time"
    with pytest.raises(ValueError, match="fraction"):
        believe(formula, fraction=0)


def test_clauses_that_break_are_dropped(target):
    """No model: beliefs come to two units that contradict one another, and go on."""
    formula = Formula.of([[1, 2], [1, -2], [-1, 2], [-1, -2], [1, 3], [1, 4], [2, 5]], 5)

    def run(where=target):
        return believe(formula, 1, where, fraction=0.2, lossy=True)

    known = run("cpu")
    assert known.rollbacks and known.status in ("satisfied", "contradiction")
    truth = known.assignment == 1
    truth[known.variables] = known.likely
    assert (~satisfied(formula, truth)).sum() == 1
    assert known.rest.clauses == 0
    assert all(plain(found) == plain(known) for found in everywhere(target, run))
    assert believe(formula, 1, fraction=0.2).status == "contradiction"


def test_a_unit_said_twice_is_a_unit():
    for clause in ([1], [1, 1]):
        run = module.Run(
            Formula.of([clause, [-1, 2, 3]], 4), 1, device("cpu"), module.Options(0.1, 0.1, 9, 1.0)
        )
        run.begin()
        assert len(run.now.graph.points) == 3 and len(run.now.graph.clauses) == 1
        assert run.answers.value.array.tolist() == [1, -1, -1, -1]


def test_somebody_is_chosen_where_all_are_alike():
    formula = random_ksat(3, 50, 1.0, 2)
    for seed in range(8):
        run = module.Run(formula, seed, device("cpu"), module.Options(0.1, 0.1, 9, 0.0))
        run.first = None
        run.begin()
        alike = np.zeros(4096, np.int64)
        alike[0] = 50
        run.now.graph.points.choice[:] = 0
        assert run.fix(module.marginals(run.now, 0.0)._replace(counts=alike), 1) > 0
        assert run.rollbacks == 0
