"""Survey and belief propagation against float64, brute force, and other targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from surveys import cleaned, formulas, messages, models, swept, tree, units, weights
from targets import everywhere, host, tries

from morph.algorithms.sat.factors import CERTAIN, Contradiction, factor_graph, scale_of
from morph.algorithms.sat.marginals import BINS, marginals, threshold
from morph.algorithms.sat.surveys import converge, converge_patiently
from morph.algorithms.sat.units import propagate_units
from morph.data.formula import Formula
from morph.generate import random_ksat
from morph.runtime.device import device

TOLERANCE = 2.0**-20  # of a survey, after one sweep from the same messages


def agrees(f, clauses, rho, sweeps):
    for _ in range(sweeps):
        before = messages(f)
        converge(f, 1e-9, 1, rho)
        after, wanted = messages(f), swept(clauses, before, rho)
        assert after.keys() == wanted.keys()
        for key, eta in wanted.items():
            assert abs(after[key] - min(eta, 1 - 2.0**-CERTAIN)) < TOLERANCE


@pytest.mark.parametrize(("k", "n", "ratio"), [(2, 12, 1.0), (3, 12, 4.2), (5, 8, 4.0)])
@pytest.mark.parametrize("rho", [1.0, 0.0, 0.5])
def test_sweeps(target, k, n, ratio, rho):
    formula = random_ksat(k, n, ratio, seed=k)
    f = factor_graph(formula, device(target), 3)
    agrees(f, cleaned(formula), rho, 3)


@tries(12)
@given(formulas(least=1), st.sampled_from([1.0, 0.0, 0.7]))
def test_sweeps_of_any_formula(target, formula, rho):
    agrees(factor_graph(formula, device(target), 3), cleaned(formula), rho, 2)


def test_all_targets_and_threads_agree_to_the_bit(target):
    formula = random_ksat(3, 25, 4.2, seed=5)

    def run(where=target):
        f = factor_graph(formula, device(where), 3)
        sweeps = converge(f, 1e-3, 10)
        seen = marginals(f)
        points = f.graph.points
        return (
            sweeps,
            messages(f),
            seen.bias,
            seen.complexity,
            seen.counts.tolist(),
            host(points.choice).tolist(),
        )

    known = run("cpu")
    assert all(found == known for found in everywhere(target, run))


def test_small_changes_of_messages_are_left_out(target):
    formula = random_ksat(3, 25, 4.2, seed=5)
    exact, f = (factor_graph(formula, device(target), 3) for _ in range(2))
    before = messages(f)
    converge(exact, 0.2, 1)
    converge(f, 0.2, 1, least=0.1)
    changed, found = messages(exact), messages(f)
    steps = {key: abs(np.log2((1 - changed[key]) / (1 - eta))) for key, eta in before.items()}
    kept = {key for key, step in steps.items() if step < 0.1 - 1e-5}
    assert kept and kept != set(steps)
    for key in steps:
        assert found[key] == (before if key in kept else changed)[key]
    sums = host(f.sums[0].by_sign)
    assert sums.sum() == sum(round(-np.log2(1 - x) * f.scale) for x in found.values())


def test_the_clock_is_looked_at_between_launches(monkeypatch):
    formula = random_ksat(3, 200, 4.2, seed=5)
    whole, parts = (factor_graph(formula, device("cpu"), 3) for _ in range(2))
    monkeypatch.setattr(type(device("cpu")), "throughput", 7 * formula.literals.size)
    assert converge(whole, 0.01, 400) == converge(parts, 0.01, 400, end=1e300)
    assert messages(whole) == messages(parts)
    late = factor_graph(formula, device("cpu"), 3)
    assert converge(late, 0.01, 400, end=0.0) == (8, False)
    assert converge_patiently(late, 0.01, 400, 1.0, 1, 0.0) == (8, False, 1)


@pytest.mark.parametrize("seed", range(3))
def test_beliefs_are_exact_on_trees(seed):
    rng = np.random.default_rng(seed)
    formula = tree(rng, 5, 4)
    f = factor_graph(formula, device("cpu"), seed)
    assert converge(f, 1e-7, 100, rho=0.0)[1]
    found = np.array(list(models(formula)))
    eta, clauses = messages(f), cleaned(formula)
    for v in range(formula.variables):
        true, false = weights(clauses, eta, 0.0, v)
        assert abs(true - found[:, v].mean()) < 1e-5 and abs(true + false - 1) < 1e-12
    seen = marginals(f, 0.0)
    assert abs(seen.complexity - np.log(len(found))) < 1e-4
    expected = np.maximum(found.mean(0), 1 - found.mean(0)).mean()
    assert abs(seen.bias - expected) < 1e-5


def test_a_fixed_point_is_that_of_float64():
    formula = random_ksat(3, 150, 4.2, seed=3)
    f, clauses = factor_graph(formula, device("cpu"), 1), cleaned(formula)
    assert converge(f, 1e-5, 2000)[1]
    found = messages(f)
    eta = swept(clauses, found, 1.0, 40)
    assert max(abs(eta[key] - found[key]) for key in eta) < 1e-3
    assert np.mean(list(found.values())) > 0.01  # not the trivial one
    seen, n = marginals(f), formula.variables
    sides = np.array([weights(clauses, eta, 1.0, v) for v in range(n)])
    assert abs(seen.bias - sides.max(1).mean()) < 1e-3
    assert (host(f.graph.points.choice) & 1 == (sides[:, 0] > sides[:, 1]))[
        np.abs(sides[:, 0] - sides[:, 1]) > 0.01
    ].all()
    assert abs(seen.complexity - complexity(clauses, eta, n)) < 0.05


def complexity(clauses, eta, n):
    """Sigma as Braunstein, Mezard, Zecchina have it: clauses less (degree - 1) variables."""
    degree, sides, total = np.zeros(n), np.ones((n, 2)), 0.0
    for c, row in clauses.items():
        for x in row:
            degree[abs(x) - 1] += 1
            sides[abs(x) - 1, int(x < 0)] *= 1 - eta[c, abs(x) - 1]
    for c, row in clauses.items():
        forced = all_of = 1.0
        for x in row:
            v = abs(x) - 1
            same = sides[v, int(x < 0)] / (1 - eta[c, v])
            opposite = sides[v, int(x > 0)]
            u, s = (1 - opposite) * same, (1 - same) * opposite
            forced *= u
            all_of *= u + s + same * opposite
        total += np.log(all_of - forced)
    plus, minus = sides.T
    return total - ((degree - 1) * np.log(plus + minus - plus * minus)).sum()


def test_hundreds_of_clauses_at_a_variable():
    """Near the threshold of K = 6 products of float32 vanish, and surveys with them."""
    formula = random_ksat(6, 300, 43.4, seed=1)
    f = factor_graph(formula, device("cpu"), 1)
    assert f.scale < 2**20  # the sums would not fit
    _, converged = converge(f, 0.003, 300)
    seen = marginals(f)
    assert converged and seen.bias > 0.2 and seen.contradictions == 0
    before = messages(f)
    converge(f, 1e-9, 1)
    after, sample = messages(f), list(before)[:: len(before) // 40]
    wanted = swept(cleaned(formula), before, 1.0, only={c for c, _ in sample})
    assert max(abs(after[key] - wanted[key]) for key in sample) < 2.0**-16


def test_a_hub_needs_wide_sums(target):
    hub = 12 if target == "python" else 1500
    rows = [[1, v] for v in range(2, hub + 2)] + [[-1, 2], [-1, 3]]
    formula = Formula.of(rows, hub + 1)
    f = factor_graph(formula, device(target), 1)
    assert (f.sum_type is np.int64) == (hub > 1488)
    agrees(f, cleaned(formula), 1.0, 1)
    assert scale_of(1)[0] == 2**20


@tries(25)
@given(formulas())
def test_units(target, formula):
    wanted = units(formula)

    def run():
        try:
            f = factor_graph(formula, device(target), 1)
        except Contradiction:
            return None
        if not propagate_units(f)[1]:
            return None
        value = host(f.graph.points.value)
        return {v + 1: bool(value[v]) for v in range(formula.variables) if value[v] >= 0}

    assert all(found == wanted for found in everywhere(target, run))


def test_certain_of_both_is_a_contradiction(target):
    formula = Formula.of([[1], [-1], [1, 2]], 2)
    f = factor_graph(formula, device(target), 1)
    converge(f, 1e-6, 10)
    assert marginals(f).contradictions == 1
    assert not propagate_units(f)[1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30).filter(any), st.data())
def test_threshold(some, data):
    counts = np.zeros(BINS, np.int64)
    counts[: len(some)] = some
    wanted = data.draw(st.integers(1, int(counts.sum())))
    bin, share = threshold(counts, wanted)
    above = int(counts[bin + 1 :].sum())
    assert above < wanted <= above + counts[bin]
    assert 0 < share <= 2**24 and abs(share / 2**24 - (wanted - above) / counts[bin]) < 1e-6
