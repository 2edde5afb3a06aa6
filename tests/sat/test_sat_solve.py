"""`survey.solve` beside its methods: time limits, simplification, CaDiCaL, options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from limits import SLOWER
from sat import flat, full, parity, pigeons, queens

import morph
from morph import Formula, generate, survey
from morph.algorithms.sat import cadical, decimation, search, solver
from morph.algorithms.sat.simplify import simplify
from morph.runtime.toolchain import OutOfTime, cpu, deadline, time_left
from morph.validate import implications, satisfied


def model_of(formula, **options):
    found = survey.solve(formula, 1, **options)
    assert found.status == "SATISFIABLE", found.reason
    assert satisfied(formula, found.model).all() and found.unsatisfied == 0
    return found


@pytest.mark.parametrize(
    "formula",
    [
        flat(200, 1),
        pytest.param(flat(1000, 1), marks=pytest.mark.unchecked),  # checked, it takes a minute
        queens(30),
        generate.random_ksat(2, 20_000, 0.9, 1),
    ],
    ids=["flat200", "flat1000", "queens30", "2-SAT"],
)
@pytest.mark.parametrize("complete", [True, False])
def test_structured_formulas_are_not_left_to_surveys(formula, complete):
    """Decimation alone used the time up; local search had none left."""
    # far more time than it takes: a busy machine that also compiles must not reach surveys
    found = model_of(formula, device="cpu", time=600.0, complete=complete)
    assert not found.rounds and found.attempts == 0


def test_local_search_goes_on_from_the_best_model_when_decimation_has_used_its_time(monkeypatch):
    formula = generate.random_ksat(3, 3000, 3.9, 1)
    calls, made, passed = [], search.local_search, 0.0

    def slow(formula, seed, device, max_seconds, **options):
        nonlocal passed
        passed += max_seconds
        return decimation.decimate(formula, seed, device, max_seconds=0.0)

    def walk(formula, model, seed, flips, time, *others):
        calls.append((model, time))
        return made(formula, model, seed, flips, time, *others)

    monkeypatch.setattr(search, "SEQUENCE", ((slow, {}),))
    monkeypatch.setattr(search, "local_search", walk)
    monkeypatch.setattr(search, "monotonic", lambda: time.monotonic() + passed)
    found = model_of(formula, device="cpu", time=1000.0)
    assert found.flips > 0 and calls[-1][0] is not None and calls[-1][1] > 20


def test_unknown_gives_the_best_model():
    formula = generate.random_ksat(3, 2000, 6.0, 1)
    found = survey.solve(formula, 1, device="cpu", method="search", options={"max_flips": 200_000})
    held = satisfied(formula, found.model)
    assert found.status == "UNKNOWN" and 0 < found.unsatisfied < 1000  # of 1,500 at random
    assert found.unsatisfied_clauses.tolist() == np.flatnonzero(~held).tolist()
    assert f"{found.unsatisfied} of 12000 clauses are left unsatisfied" in found.reason
    assert "cannot show that there is no model" in found.reason


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_2_sat_on_every_target(target, ratio):
    formula = generate.random_ksat(2, 12 if target == "python" else 5000, ratio, 5)
    found = survey.solve(formula, device=target)
    assert found.flips == 0 and found.attempts == 0
    if found.status == "SATISFIABLE":
        assert satisfied(formula, found.model).all()
    else:
        assert found.status == "UNSATISFIABLE" and found.model is None
        x = abs(found.cycle[0])
        assert f"imply -{x} from {x} and {x} from -{x}" in found.reason
        implications(formula, found.cycle)
    if target != "python":
        assert (found.status == "SATISFIABLE") == (ratio < 1)


def test_parts_are_solved_one_by_one():
    far = 10**8
    rows = [*flat(60, 2).lists(), *[[x + far // 2 if x > 0 else x - far // 2 for x in c]
            for c in generate.random_ksat(3, 200, 4.0, 1).lists()], [far]]  # fmt: skip
    formula = Formula.of(rows)
    found = model_of(formula, device="cpu", time=600.0)
    assert found.components >= 2 and found.model[far - 1] and found.simplified > far - 400
    broken = Formula.of([*rows, *[[x + 1000 if x > 0 else x - 1000 for x in c]
                                  for c in full(3).lists()]])  # fmt: skip
    pytest.importorskip("pysat")
    assert survey.solve(broken, device="cpu").status == "UNSATISFIABLE"


@pytest.mark.parametrize(
    "formula", [full(3), full(10), pigeons(7), parity(12)], ids=["full3", "full10", "php7", "par12"]
)
def test_cadical_refutes_small_formulas(formula, monkeypatch):
    pytest.importorskip("pysat")
    monkeypatch.setattr(search, "FIRST", ((10_000, 20_000), (10_000, 10**6)))
    for limit in (None, 1000.0):
        found = survey.solve(formula, device="cpu", time=limit)
        assert found.status == "UNSATISFIABLE" and found.model is None
        assert found.reason == "CaDiCaL has refuted the formula"
    found = survey.solve(formula, device="cpu", time=0.5, complete=False)
    assert found.status == "UNKNOWN" and found.unsatisfied >= 1


def test_without_python_sat(monkeypatch):
    monkeypatch.setattr(cadical.importlib.util, "find_spec", lambda name: None)
    found = survey.solve(full(3), device="cpu", time=0.5)
    assert found.status == "UNKNOWN" and "python-sat, the extra sat" in found.reason
    with pytest.raises(ImportError, match=r"morph-engine\[sat\]"):
        survey.solve(full(3), device="cpu", complete=True)
    with pytest.raises(ImportError, match=r"morph-engine\[sat\]"):
        cadical.cadical(full(3))


def test_other_packages_named_pysat_and_broken_ones(tmp_path):
    """`pip install pysat` installs a package for satellites; a library of python-sat may lack."""
    (tmp_path / "pysat").mkdir()
    (tmp_path / "pysat" / "__init__.py").write_text("")
    text = """
        from morph import survey
        from morph.algorithms.sat import search
        from sat import full
        search.FIRST, search.FLIPS = ((100, 100),), 100
        for complete in (None, True):
            try:
                found = survey.solve(full(3), device="python", complete=complete)
                print(found.status, found.reason)
            except ImportError as error:
                print(error)
    """
    path = os.pathsep.join([str(tmp_path), os.path.dirname(__file__), *sys.path])
    for broken in (False, True):
        if broken:
            text_of_module = "raise ImportError('no libpysolvers: ' + 'x' * 999)"
            (tmp_path / "pysat" / "solvers.py").write_text(text_of_module)
        said = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        assert said[0].startswith("UNKNOWN ") and "gave up" not in said[0]
        assert ("python-sat, the extra sat" in said[0]) == (not broken)
        assert ("cannot be imported: no libpysolvers" if broken else "[sat]") in said[1]
        assert len(said[1]) <= 200


def test_cadical_keeps_to_its_limits():
    pytest.importorskip("pysat")
    started = time.monotonic()
    assert cadical.cadical(pigeons(12), seconds=0.7) == (None, None)
    assert time.monotonic() - started < 2 * SLOWER
    assert cadical.cadical(pigeons(9), conflicts=10) == (None, None)
    formula = generate.random_ksat(3, 100, 4.0, 1)
    known, model = cadical.cadical(Formula(10**6, formula.offsets, formula.literals))
    assert known and model.shape == (10**6,)
    assert satisfied(formula, model[:100]).all()
    assert cadical.cadical(Formula.of([[1], [], [2]]))[0] is False
    assert cadical.cadical(Formula.of([], 3))[0] is True


INTERRUPTED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
sys.path.insert(0, {tests!r})
from sat import pigeons
from morph.algorithms.sat.cadical import cadical
print("begun", flush=True)
try:
    cadical(pigeons(13))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has them")
def test_ctrl_c_ends_cadical():
    pytest.importorskip("pysat")
    text = INTERRUPTED.format(tests=os.path.dirname(__file__))
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"begun\n"
        time.sleep(1.5)
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        try:
            assert child.stdout.readline() == b"interrupted\n"
            assert time.monotonic() - started < 0.3 * SLOWER
            assert child.wait() == 0
        finally:
            child.kill()


@pytest.fixture(scope="module")
def compiled():
    """Every method of the solver has its kernels."""
    survey.solve(generate.random_ksat(3, 20_000, 4.26, 1), device="cpu", time=5.0)


@pytest.mark.parametrize(("ratio", "limit"), [(4.26, 1.5), (5.0, 1.0)], ids=["near", "above"])
def test_time_is_kept(compiled, ratio, limit):
    formula = generate.random_ksat(3, 20_000, ratio, 1)
    started = time.monotonic()
    found = survey.solve(formula, 1, device="cpu", time=limit)
    spent = time.monotonic() - started
    assert found.status == "UNKNOWN" or spent < limit
    assert spent < (1.1 * limit + 0.3) * SLOWER


@pytest.mark.unchecked  # checked, a launch takes longer
def test_time_is_kept_whatever_the_header_says():
    few = generate.random_ksat(3, 10_000, 5.0, 1)
    formula = Formula(10**8, few.offsets, few.literals)
    started = time.monotonic()
    found = survey.solve(formula, device="cpu", time=2.0)
    assert time.monotonic() - started < 3 * SLOWER
    assert found.status == "UNKNOWN" and found.model.shape == (10**8,)
    assert found.unsatisfied < few.clauses / 7  # an eighth at random


def test_nothing_is_begun_that_cannot_end_in_time(monkeypatch):
    monkeypatch.setattr(search, "BUILD", 1.0)
    formula = generate.random_ksat(3, 2000, 4.0, 1)
    found = survey.solve(formula, device="cpu", time=2.0)
    assert found.status == "UNKNOWN" and found.attempts == 0 and found.flips == 0
    assert found.model.any() and not found.model.all()


def long_formula(n=600_000, seed=0):
    """Clauses of two to four literals: a formula that is simplified, which takes seconds."""
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(rng.integers(2, 5, 3 * n)))
    signs = rng.choice([-1, 1], offsets[-1])
    return Formula(n, offsets, rng.integers(1, n + 1, offsets[-1]) * signs)


def test_simplification_keeps_to_the_time(monkeypatch):
    formula = long_formula()
    survey.solve(long_formula(100), device="cpu", time=1000.0)  # all is compiled
    for updates, limit in ((search.UPDATES, 0.4), (0.0, 0.4)):  # too long; begun and given up
        monkeypatch.setattr(search, "UPDATES", updates)
        used = time.process_time()
        found = survey.solve(formula, device="cpu", time=limit, complete=False, method="search")
        assert time.process_time() - used < 1.2 * SLOWER
        assert found.status == "UNKNOWN" and found.simplified == 0
        assert found.unsatisfied_clauses.size == found.unsatisfied
        assert found.reason.startswith(("time is up", "too little time is left for another"))
    with pytest.raises(OutOfTime, match="no time is left to simplify"), deadline(0.0):
        simplify(formula, check=lambda: time_left("simplify"))


def test_compilers_are_stopped_when_time_is_up(tmp_path, monkeypatch):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    formula = full(3)
    started = time.monotonic()
    found = survey.solve(formula, device="cpu", time=0.2, complete=False)
    assert time.monotonic() - started < SLOWER and found.status == "UNKNOWN"
    slow = "\n".join(
        f"template<int N> struct A{i} {{ static constexpr long v = A{i}<N-1>::v + N; }};"
        f"template<> struct A{i}<0> {{ static constexpr long v = 0; }};"
        f"long f{i}() {{ return A{i}<800>::v; }}"
        for i in range(200)
    )
    started = time.monotonic()
    with pytest.raises(OutOfTime), deadline(time.monotonic() + 0.3):
        cpu.build(slow)
    assert time.monotonic() - started < SLOWER
    with pytest.raises(OutOfTime, match="no time is left to compile k"), deadline(0.0):
        cpu.build("extern int a;", name="k")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("decimation", {"fraction": 0.1, "tolerance": 0.1, "max_sweeps": 100, "undo": 2}),
        ("decimation", {"rho": 0.5, "least_complexity": -1.0}),
        ("backtracking", {"fraction": 0.05, "ratio": 0.3}),
        ("reinforcement", {"intensity": 0.8, "decay": 0.99, "max_sweeps": 500}),
        ("search", {"max_flips": 10_000_000}),
    ],
)
def test_methods_and_their_options(method, options, monkeypatch):
    formula, given = generate.random_ksat(3, 1500, 3.9, 1), []
    for name in ("decimation", "backtracking"):
        function = search.FUNCTIONS[name]

        def watched(*args, function=function, name=name, **options):
            given.append((name, options))
            return function(*args, **options)

        monkeypatch.setitem(search.FUNCTIONS, name, watched)
    found = model_of(formula, device="cpu", method=method, options=options)
    if method == "search":
        assert not given and 0 < found.flips <= options["max_flips"] + 10**6
    else:
        assert {name for name, _ in given} <= {method} and found.rounds
        assert given or method == "reinforcement" and found.stopped == "satisfied"
        assert all(options.items() <= reported.items() for _, reported in given)
    assert set(survey.METHODS) == {"auto", "search", *search.FUNCTIONS}


def test_options_are_checked_first(tmp_path):
    for options, message in (
        ({"method": "walk"}, "method = 'walk': expected auto, decimation"),
        ({"method": "search", "options": {"rho": 1.0}}, "'search' has no option 'rho': expected"),
        ({"options": {"rho": 1.0}}, "'auto' has no option 'rho': expected none"),
        ({"method": "decimation", "options": {"fraction": 0}}, "fraction = 0: expected a number"),
        ({"method": "decimation", "options": {"fraction": "1"}}, "fraction is a number, not '1'"),
        ({"method": "decimation", "options": {"undo": 1.5}}, "undo is an integer, not 1.5"),
        ({"method": "decimation", "options": {"undo": True}}, "undo is an integer, not True"),
        ({"method": "backtracking", "options": {"ratio": 1.0}}, "ratio = 1.0: expected a number"),
        ({"method": "reinforcement", "options": {"decay": 1}}, "decay = 1: expected a number betw"),
        ({"method": "search", "options": {"max_flips": -1}}, "max_flips = -1"),
        ({"method": "search", "complete": True}, "complete = True is for method 'auto'"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, ImportError), match=message):
            survey.solve(tmp_path / "nowhere.cnf", device="cpu", **options)


def test_what_looks_random_is_decimated_first():
    regular = solver._is_regular
    assert regular(generate.random_ksat(3, 2000, 4.0, 1))
    assert not regular(generate.random_ksat(3, 1000, 4.0, 1))  # small
    assert not regular(generate.random_ksat(3, 2000, 1.0, 1))  # pure literals solve most of it
    assert not regular(generate.random_ksat(2, 9000, 2.5, 1))
    assert not regular(flat(2000, 1)) and not regular(queens(40))
    formula = generate.random_ksat(3, 2000, 4.0, 1)
    assert model_of(formula, device="cpu").rounds
    assert morph.survey.solve(formula, 1, device="cpu", time=1000.0).model.tolist() == (
        morph.survey.solve(formula, 1, device="cpu").model.tolist()
    )


def test_a_search_counts_flips_although_nothing_went_before(monkeypatch):
    """Time may be up before the first method begins; the reserved search runs all the same."""
    monkeypatch.setattr(search.ModelSearch, "_first", lambda self: "")
    monkeypatch.setattr(search.ModelSearch, "_attempts", lambda self: "")
    found = survey.solve(generate.random_ksat(3, 200, 3.5, 1), 1, device="cpu", time=1000)
    assert found.status == "SATISFIABLE" and found.flips > 0
