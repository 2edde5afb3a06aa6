"""``morph sat``, ``morph generate ksat`` and ``morph check FILE.cnf ANSWER``."""

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner
from limits import SLOWER
from sat import full

from morph import Formula, generate, io, validate
from morph.cli import common, main

# there is no model, but nothing short of a complete solver tells it
UNKNOWN = "p cnf 3 8\n" + "".join(f"{a} {b} {c} 0\n" for a, b, c in full(3).lists())


def morph(*args):
    return CliRunner().invoke(main, [str(a) for a in args], prog_name="morph")


@pytest.fixture
def cnf(tmp_path):
    path = tmp_path / "a.cnf"
    assert morph("generate", "ksat", 3, 300, 3.5, "--seed", 4, "-o", path).exit_code == 0
    return path


def test_satisfiable(cnf, tmp_path):
    result = morph("sat", cnf, "--seed", 3, "--device", "cpu")
    assert result.exit_code == 10 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert {line[:2] for line in lines} == {"c ", "s ", "v "}
    assert [line for line in lines if line[0] == "s"] == ["s SATISFIABLE"]
    words = " ".join(line[2:] for line in lines if line[0] == "v").split()
    assert [abs(int(w)) for w in words] == [*range(1, 301), 0]
    assert any("300 variables, 1,050 clauses" in line for line in lines)
    assert morph("sat", cnf, "--seed", 3, "--device", "cpu").stdout.splitlines()[-9:] == lines[-9:]
    in_parts = morph("sat", cnf, "--seed", 3, "--device", "cpu,cpu")
    assert in_parts.stdout.splitlines()[-9:] == lines[-9:] and "cpu,cpu" in in_parts.stdout
    answer = tmp_path / "a.out"
    answer.write_text(result.stdout)
    check = morph("check", cnf, answer)
    assert (check.exit_code, check.stdout) == (0, "SATISFIABLE: the answer is right\n")


def test_standard_input(cnf):
    def run(text):
        args = ["sat", "-", "--seed", "3", "--device", "cpu"]
        return CliRunner().invoke(main, args, input=text, prog_name="morph")

    lines = run(cnf.read_bytes()).stdout.splitlines()
    assert lines[1] == "c standard input: 300 variables, 1,050 clauses"
    assert lines[-9:] == morph("sat", cnf, "--seed", 3, "--device", "cpu").stdout.splitlines()[-9:]
    wrong = run(b"p cnf 3 1\n1 y 0\n")
    assert wrong.exit_code == 2 and "standard input:2: expected a literal" in wrong.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common.sys, "stdin", None)
        with pytest.raises(common.BadInput, match="standard input is closed"):
            common.standard_input()


def test_json(cnf):
    options = ["--method", "decimation", "-O", "fraction=0.05", "--max-rounds", 9]
    result = morph("sat", cnf, "--json", "--time", 1000, "--device", "cpu", *options)
    report = json.loads(result.stdout)
    assert (
        result.exit_code == 10 and report["status"] == "SATISFIABLE" and report["clauses"] == 1050
    )
    assert report["sweeps"] == sum(r["sweeps"] for r in report["rounds"])
    assert {"read", "sweeps", "beliefs", "check"} <= set(report["times"])
    model = np.array(report["model"]) > 0
    assert validate.satisfied(io.read_cnf(cnf), model).all()


def test_unsatisfiable_and_unknown(tmp_path):
    path = tmp_path / "b.cnf"
    path.write_text("p cnf 2 3\n1 2 0\n-1 0\n-2 0\n")
    result = morph("sat", path, "--device", "cpu")
    assert result.exit_code == 20 and result.stdout.splitlines()[-1] == "s UNSATISFIABLE"
    answer = tmp_path / "b.out"
    answer.write_text(result.stdout)
    assert morph("check", path, answer).stdout == "UNSATISFIABLE: the answer is right\n"
    path.write_text("p cnf 3 4\n1 -3 0\n-1 -3 0\n3 2 0\n3 -2 0\n")
    result = morph("sat", path, "--device", "cpu")
    assert result.exit_code == 20 and "c clauses of two literals imply" in result.stdout
    assert morph("check", path, answer).stdout == "UNSATISFIABLE: the answer is right\n"
    path.write_text(UNKNOWN)
    limits = ["--time", 0.5, "--device", "cpu"]
    for options in (["--no-complete"], ["--max-rounds", 0], ["--method", "backtracking"]):
        result = morph("sat", path, *limits, *options)
        assert result.stdout, (result.exception, result.stderr)
        *_, reason, status = result.stdout.splitlines()
        assert (result.exit_code, status) == (0, "s UNKNOWN")
        assert reason.startswith("c time is up: 1 of 8 clauses are left unsatisfied; surveys and")
    report = json.loads(morph("sat", path, *limits, "--no-complete", "--json").stdout)
    assert report["model"] is None and report["reason"].startswith("time is up")
    [failed] = report["unsatisfied_clauses"]
    assert [-x for x in report["best"]] == io.read_cnf(path).lists()[failed]
    pytest.importorskip("pysat")
    result = morph("sat", path, "--complete", "--device", "cpu")
    assert result.exit_code == 20 and "c CaDiCaL has refuted the formula" in result.stdout
    undecided = morph("check", path, answer)
    assert undecided.exit_code == 2 and "unit propagation alone does not show" in undecided.stderr
    answer.write_text("s UNKNOWN\n")
    assert "there is nothing to check" in morph("check", path, answer).stderr


def test_wrong_answers_are_reported(cnf, tmp_path):
    answer = tmp_path / "a.out"
    answer.write_text("s SATISFIABLE\nv 1 0\n")
    result = morph("check", cnf, answer, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1 and not report["good"] and report["unset"] == 299
    assert "is not satisfied" in report["message"]
    assert "299 variables without a value were assumed false" in morph("check", cnf, answer).stdout
    answer.write_text("s SATISFIABLE\nv 301 0\n")
    assert "the formula has 300 variables" in morph("check", cnf, answer).stderr
    assert morph("check", cnf, answer, "--as", "bfs").exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["none.cnf"], "none.cnf: No such file"),
        (["a.cnf", "--time", 0], "--time"),
        (["a.cnf", "--time", "nan"], "--time"),
        (["a.cnf", "--seed", -1], "--seed"),
        (["a.cnf", "--device", "tpu"], "--device"),
        (["a.cnf", "--device", "cpu,tpu"], "--device"),
        (["a.cnf", "--plot", "none/p.png"], "--plot: there is no directory"),
        (["a.cnf", "--plot", "p.png", "--method", "search"], "--plot is of decimation"),
        (["a.cnf", "--plot", "p.png", "--max-rounds", 0], "--plot is of decimation"),
        (["a.cnf", "--strict"], "the header declares 3 clauses, there are 1"),
        (["b.cnf"], "b.cnf:2: expected a literal"),
        (["c.cnf"], "c.cnf:2: expected a literal"),
        (["a.cnf", "--method", "walk"], "method = 'walk': expected auto, decimation"),
        (["a.cnf", "-O", "rho=1"], "method 'auto' has no option 'rho': expected none"),
        (["a.cnf", "--method", "search", "-O", "max_flips=many"], "expected NAME=NUMBER"),
        (
            ["a.cnf", "--method", "decimation", "-O", "fraction=2"],
            "fraction = 2: expected a number",
        ),
    ],
)
def test_what_cannot_be_used(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.cnf").write_text("p cnf 3 3\n1 0\n")
    (tmp_path / "b.cnf").write_text("p cnf 3 1\n1 y 0\n")
    (tmp_path / "c.cnf").write_text("1 2 0\n1 y 0\n")  # no header: a warning, but for the error
    result = morph("sat", *options)
    assert result.exit_code == 2 and result.stdout == "" and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("morph: ")


def test_variables_that_do_not_occur_are_left_out(tmp_path):
    path, answer = tmp_path / "a.cnf", tmp_path / "a.out"
    path.write_text(f"p cnf {2**31 - 1} 3\n1 -{2**31 - 1} 0\n-1 7 0\n5 0\n")
    result = morph("sat", path, "--device", "cpu")
    assert result.exit_code == 10 and result.stderr == ""
    words = " ".join(x[2:] for x in result.stdout.splitlines() if x[0] == "v").split()
    assert [abs(int(w)) for w in words] == [1, 5, 7, 2**31 - 1, 0]
    path.write_text("p cnf 1000000 3\n1 -999999 0\n-1 7 0\n5 0\n")
    answer.write_text(morph("sat", path, "--device", "cpu").stdout)
    assert morph("check", path, answer).stdout == "SATISFIABLE: the answer is right\n"


def test_time_includes_reading_and_the_start(tmp_path):
    path = tmp_path / "a.cnf"
    few = generate.random_ksat(3, 20_000, 4.6, 1)
    io.write_cnf(Formula(10**8, few.offsets, few.literals), path)
    command = [sys.executable, "-m", "morph", "sat", path, "--device", "cpu", "--time", "4"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("s UNKNOWN\n")
    assert 3 < time.monotonic() - started < 4.8 * SLOWER


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_standard_input(cnf, pack):
    def run(data):
        args = ["sat", "-", "--seed", "3", "--device", "cpu"]
        return CliRunner().invoke(main, args, input=data, prog_name="morph")

    lines = run(pack(cnf.read_bytes())).stdout.splitlines()
    assert lines[1] == "c standard input: 300 variables, 1,050 clauses"
    assert lines[-9:] == run(cnf.read_bytes()).stdout.splitlines()[-9:]
    broken = run(pack(cnf.read_bytes())[:-40])
    assert broken.exit_code == 2 and broken.stderr.startswith("morph: standard input: damaged .")
    assert broken.stderr.count("\n") == 1 and len(broken.stderr) < 200


def test_a_wrong_count_is_warned_of(tmp_path):
    (tmp_path / "a.cnf").write_text("p cnf 3 3\n1 0\n")
    result = morph("sat", tmp_path / "a.cnf", "--device", "cpu")
    assert result.exit_code == 10 and "morph: " in result.stderr and "a.cnf:1: " in result.stderr


def test_what_cannot_be_drawn(tmp_path):
    for given, message in (((3, 2, 1), "k = 3: expected 1 to n = 2"), ((3, 9, -1), "ratio = -1")):
        result = morph("generate", "ksat", "-o", tmp_path / "a.cnf", "--", *given)
        assert result.exit_code == 2 and message in result.stderr


def test_the_course_is_drawn(cnf, tmp_path):
    pytest.importorskip("matplotlib")
    for name, begin in (("p.png", b"\x89PNG"), ("p.svg", b"<?xml")):
        result = morph("sat", cnf, "--plot", tmp_path / name, "--device", "cpu")
        assert result.exit_code == 10 and (tmp_path / name).read_bytes().startswith(begin)
    result = morph("sat", cnf, "--plot", tmp_path / "p.foo", "--device", "cpu")  # before the search
    assert result.exit_code == 2 and "the suffix is one of " in result.stderr
    assert result.stdout == "" and result.stderr.count("\n") == 1


def test_progress_is_for_terminals(tmp_path):
    pty = pytest.importorskip("pty")
    (tmp_path / "u.cnf").write_text(UNKNOWN)
    command = [sys.executable, "-m", "morph", "sat", tmp_path / "u.cnf", "--no-complete",
               "--device", "cpu"]  # fmt: skip
    ours, theirs = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    assert done.returncode == 0 and b"s UNKNOWN" in done.stdout
    assert "decimation: " in shown and "search: 3 variables, 8 clauses" in shown
    assert subprocess.run([*command, "--time", "1"], capture_output=True).stderr == b""
