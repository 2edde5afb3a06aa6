"""``morph sat``, ``morph generate ksat`` and ``morph check FILE.cnf ANSWER``."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from morph import io, validate
from morph.cli import common, main

UNKNOWN = "p cnf 2 4\n1 2 0\n-1 2 0\n1 -2 0\n-1 -2 0\n"  # there is no model, but no unit to tell it


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
    result = morph("sat", cnf, "--json", "--time", 60, "--max-rounds", 9, "--device", "cpu")
    report = json.loads(result.stdout)
    assert (
        result.exit_code == 10 and report["status"] == "SATISFIABLE" and report["clauses"] == 1050
    )
    assert report["sweeps"] == sum(r["sweeps"] for r in report["rounds"])
    assert {"read", "sweeps", "search", "check"} <= set(report["times"])
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
    path.write_text(UNKNOWN)
    for options in ([], ["--max-rounds", 0]):
        result = morph("sat", path, "--time", 0.2, "--device", "cpu", *options)
        *_, reason, status = result.stdout.splitlines()
        assert (result.exit_code, status) == (0, "s UNKNOWN")
        assert reason == "c time is up: 1 of 4 clauses are left unsatisfied"
    report = json.loads(morph("sat", path, "--time", 0.2, "--device", "cpu", "--json").stdout)
    assert report["model"] is None and report["reason"].startswith("time is up")
    unjudged = morph("check", path, answer)
    assert unjudged.exit_code == 2 and "unit propagation alone does not show" in unjudged.stderr
    answer.write_text("s UNKNOWN\n")
    assert "there is nothing to check" in morph("check", path, answer).stderr


def test_wrong_answers_are_told(cnf, tmp_path):
    answer = tmp_path / "a.out"
    answer.write_text("s SATISFIABLE\nv 1 0\n")
    result = morph("check", cnf, answer, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1 and not report["good"] and report["unset"] == 299
    assert "is not satisfied" in report["message"]
    assert "299 variables not told were taken as false" in morph("check", cnf, answer).stdout
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
        (["a.cnf", "--plot", "none/p.png"], "--plot: there is no directory"),
        (["a.cnf", "--strict"], "the header tells of 3 clauses, there are 1"),
        (["b.cnf"], "b.cnf:2: expected a literal"),
    ],
)
def test_what_cannot_be_used(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.cnf").write_text("p cnf 3 3\n1 0\n")
    (tmp_path / "b.cnf").write_text("p cnf 3 1\n1 y 0\n")
    result = morph("sat", *options)
    assert result.exit_code == 2 and result.stdout == "" and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("morph: ")


def test_more_variables_than_are_possible(tmp_path):
    (tmp_path / "a.cnf").write_text(f"p cnf {2**31 - 1} 1\n1 0\n")
    result = morph("sat", tmp_path / "a.cnf", "--device", "cpu")
    assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("\n") == 1
    assert "a.cnf: Formula(2147483647 variables" in result.stderr


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


def test_progress_is_for_terminals(tmp_path):
    pty = pytest.importorskip("pty")
    (tmp_path / "u.cnf").write_text(UNKNOWN)
    command = [sys.executable, "-m", "morph", "sat", tmp_path / "u.cnf", "--time", "0.7",
               "--device", "cpu"]  # fmt: skip
    ours, theirs = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    assert done.returncode == 0 and b"s UNKNOWN" in done.stdout
    assert "decimation: " in shown and "search: 2 variables, 4 clauses" in shown
    assert subprocess.run(command, capture_output=True).stderr == b""
