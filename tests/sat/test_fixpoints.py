"""`survey.surveys` and `survey.beliefs` against plain NumPy, brute force, and other targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import pretended
from surveys import cleaned, formulas, models, swept, tree, weights
from targets import everywhere, tries

from morph import Formula, generate, survey

CLOSE = 2e-5  # messages are kept in steps of 2^-20 bits, and by float32


class Plain:
    """Survey propagation of k-SAT without repeated variables in a clause, by arrays of float64."""

    def __init__(self, formula, rho):
        self.rho, self.n = rho, formula.variables
        width = int(formula.offsets[1])
        self.literals = formula.literals.reshape(-1, width)
        self.v, self.negated = np.abs(self.literals) - 1, self.literals < 0

    def logs(self, eta):
        """Sums of log(1 - eta) by variable, of clauses that want it true, and false."""
        x = np.log1p(-eta)
        return [np.bincount(self.v[s], x[s], self.n) for s in (~self.negated, self.negated)]

    def warnings(self, eta):
        plus, minus = self.logs(eta)
        same = np.where(self.negated, minus[self.v], plus[self.v]) - np.log1p(-eta)
        opposite = np.where(self.negated, plus[self.v], minus[self.v])
        u = (1 - self.rho * np.exp(opposite)) * np.exp(same)
        s = (1 - self.rho * np.exp(same)) * np.exp(opposite)
        return u, s, self.rho * np.exp(same + opposite)

    def sweep(self, eta):
        u, s, free = self.warnings(eta)
        w = u / (u + s + free)
        new = np.empty_like(w)
        for k in range(w.shape[1]):
            new[:, k] = np.delete(w, k, axis=1).prod(axis=1)
        return new

    def weights(self, eta):
        plus, minus = map(np.exp, self.logs(eta))
        w = np.stack([(1 - self.rho * plus) * minus, (1 - self.rho * minus) * plus,
                      self.rho * plus * minus])  # fmt: skip
        return w / w.sum(0)

    def complexity(self, eta):
        """As Braunstein, Mezard and Zecchina have it: clauses less (degree - 1) variables."""
        u, s, free = self.warnings(eta)
        clauses = np.log((u + s + free).prod(axis=1) - u.prod(axis=1)).sum()
        plus, minus = map(np.exp, self.logs(eta))
        degree = np.bincount(self.v.ravel(), minlength=self.n)
        return clauses - ((degree - 1) * np.log(plus + minus - self.rho * plus * minus)).sum()


@pytest.mark.parametrize(
    ("k", "n", "ratio", "rho"),
    [(3, 4000, 4.2, 1.0), (3, 3000, 4.0, 1.0), (3, 4000, 3.5, 0.0), (3, 4000, 3.0, 0.5),
     (4, 2000, 9.5, 1.0)],
)  # fmt: skip
def test_a_fixed_point_is_one_of_plain_numpy(k, n, ratio, rho):
    formula = generate.random_ksat(k, n, ratio, seed=2)
    found = survey.surveys(formula, 1, "cpu", rho=rho, tolerance=1e-4, history=False)
    plain = Plain(formula, rho)
    eta = found.messages.reshape(-1, k)
    assert found.converged and 5 < found.sweeps < 1000
    assert abs(plain.sweep(eta) - eta).max() < 3e-4
    assert abs(plain.weights(eta) - [found.positive, found.negative, found.free]).max() < 1e-9
    exact = eta
    for _ in range(60):
        exact = plain.sweep(exact)
    assert abs(plain.complexity(exact) - found.complexity) / n < 1e-6
    assert abs(exact - eta).max() < 1e-2
    if rho == 1:
        assert eta.max() > 0.5  # not the trivial fixed point


def test_complexity_falls_with_the_ratio_and_ends_near_4_267():
    """It vanishes at the threshold of 3-SAT (Mertens, Mezard, Zecchina 2006), up to n ** -1/2."""
    densities = []
    for ratio in (4.0, 4.2, 4.25, 4.3):
        of = [
            survey.surveys(generate.random_ksat(3, 10_000, ratio, s), 1, "cpu", history=False)
            for s in range(2)
        ]
        assert all(x.converged for x in of)
        densities.append(np.mean([x.complexity for x in of]) / 10_000)
    assert densities == sorted(densities, reverse=True)
    zero = 4.25 + 0.05 * densities[2] / (densities[2] - densities[3])
    assert abs(zero - 4.267) < 0.02


@tries(20)
@given(formulas(longest=4, least=1), st.sampled_from([1.0, 0.0, 0.6]), st.data())
def test_one_sweep_of_any_formula_from_given_messages(target, formula, rho, data):
    size = formula.literals.size
    start = np.array(data.draw(st.lists(st.floats(0, 0.9), min_size=size, max_size=size)))
    clauses = cleaned(formula)
    owner = np.repeat(np.arange(formula.clauses), np.diff(formula.offsets))
    before = {}
    for k in range(size):
        c, x = int(owner[k]), int(formula.literals[k])
        start[k] = before.setdefault((c, abs(x) - 1), start[k])  # one message for repeated ones
        if c not in clauses:
            del before[c, abs(x) - 1]
    runs = everywhere(target, lambda: survey.surveys(
        formula, 1, target, rho=rho, start=start, max_sweeps=1))  # fmt: skip
    found = runs[0]
    for other in runs:
        assert np.array_equal(other.messages, found.messages, equal_nan=True)
        assert other.complexity == found.complexity and other.history == found.history
    wanted = swept(clauses, before, rho)
    for k in range(size):
        c, v = int(owner[k]), abs(int(formula.literals[k])) - 1
        if c in clauses:
            assert abs(found.messages[k] - min(wanted[c, v], 1 - 2.0**-22)) < CLOSE
        else:
            assert np.isnan(found.messages[k])
    eta = {(int(c), abs(int(x)) - 1): float(e)
           for c, x, e in zip(owner, formula.literals, found.messages, strict=True)}  # fmt: skip
    for v in range(formula.variables):
        true, false = weights(clauses, eta, rho, v)
        assert abs(found.positive[v] - true) < CLOSE and abs(found.negative[v] - false) < CLOSE
        assert abs(found.free[v] - (1 - true - false)) < CLOSE


@pytest.mark.parametrize("seed", range(4))
def test_beliefs_are_exact_on_trees(target, seed):
    formula = tree(np.random.default_rng(seed), 3 if target == "python" else 5, 4)
    found = survey.beliefs(formula, seed, target, tolerance=1e-6)
    all_of = np.array(list(models(formula)))
    assert found.converged and len(found.history) == found.sweeps
    assert abs(found.marginals - all_of.mean(0)).max() < CLOSE
    assert abs(found.entropy - np.log(len(all_of))) < 1e-4


def test_history_warm_start_and_the_same_bits():
    formula = generate.random_ksat(3, 1000, 4.1, 3)
    found = survey.surveys(formula, 1, "cpu")
    quick = survey.surveys(formula, 1, "cpu", history=False)
    assert found.messages.tolist() == quick.messages.tolist() and quick.history == []
    assert (found.sweeps, found.complexity) == (quick.sweeps, quick.complexity)
    assert len(found.history) == found.sweeps and found.history[0].change > 0.5
    assert found.history[-1].change <= 1e-3
    assert abs(found.history[-1].complexity - found.complexity) < 1
    again = survey.surveys(formula, 7, "cpu", start=found.messages)
    assert again.converged and again.sweeps <= 2
    assert abs(again.messages - found.messages).max() < 2e-3
    half = survey.surveys(formula, 1, "cpu", max_sweeps=10)
    rest = survey.surveys(formula, 1, "cpu", start=half.messages)
    assert not half.converged and half.sweeps + rest.sweeps == found.sweeps
    assert rest.messages.tolist() == found.messages.tolist()
    assert [*half.history, *rest.history] == found.history
    other = survey.surveys(formula, 2, "cpu")
    assert other.messages.tolist() != found.messages.tolist()
    held = survey.surveys(formula, 1, "cpu", inertia=0.5)
    assert held.converged and abs(held.messages - found.messages).max() < 0.05


def test_arrays_of_a_gpu_are_not_mixed_with_those_of_the_host(monkeypatch):
    formula, there = generate.random_ksat(3, 200, 4.1, 3), pretended(monkeypatch)
    found, want = (survey.surveys(formula, 1, where) for where in (there, "cpu"))
    assert found.messages.tolist() == want.messages.tolist() and found.history == want.history
    assert found.complexity == want.complexity
    again = survey.surveys(formula, 1, there, start=found.messages, history=False)
    assert again.converged and again.sweeps <= 2
    assert survey.solve(formula, 1, device=there).status == "SATISFIABLE"


def test_what_has_no_messages():
    found = survey.surveys([], device="cpu")
    assert found.converged and found.complexity == 0 and found.messages.shape == (0,)
    found = survey.beliefs(Formula.of([[1, -1]], 3), device="cpu")
    assert found.marginals.tolist() == [0.5] * 3 and np.isnan(found.messages).all()
    assert found.entropy == pytest.approx(3 * np.log(2))
    hub = Formula.of([[1, v] for v in range(2, 3000)])
    found = survey.beliefs(hub, device="cpu", tolerance=1e-6)
    assert found.marginals[0] == pytest.approx(1, abs=1e-6)
    assert found.marginals[1] == pytest.approx(0.5, abs=1e-3)


def test_wrong_arguments():
    for options, message in (
        ({"rho": 2}, "rho = 2"), ({"tolerance": 0}, "tolerance = 0"), ({"seed": -1}, "seed = -1"),
        ({"max_sweeps": -1}, "max_sweeps = -1"),
        ({"inertia": 1}, "inertia = 1"), ({"start": [0.5]}, r"start has shape \(1,\)"),
        ({"start": [0.5, 1.5]}, r"start\[1\] = 1.5"), ({"start": ["a", "b"]}, "type <U1"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            survey.surveys([[1, 2]], device="cpu", **options)
    for options in ({"max_sweeps": 1.5}, {"seed": True}):
        with pytest.raises(TypeError, match=f"{next(iter(options))} is an integer"):
            survey.surveys([[1, 2]], device="cpu", **options)
    with pytest.raises(ValueError, match=r"clause 1 \(counted from 0\) is empty"):
        survey.beliefs([[1], []], device="cpu")
