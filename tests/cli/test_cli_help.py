"""Help texts, their examples, and completion in shells."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from morph import __version__, generate
from morph.cli import COMMANDS, main
from morph.cli.numbers import Integer, Number

KINDS = "uniform rmat grid geometric ksat".split()
NAMES = ["", *COMMANDS, *(f"generate {kind}" for kind in KINDS)]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Find the command of a line, and its arguments."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        context = click.Context(command, info_name="morph")
        name, found, words = command.resolve_command(context, words)
        assert found is not None, name
        command = found
    return command, words


@pytest.mark.parametrize("name", NAMES)
def test_texts(name: str) -> None:
    text = CliRunner().invoke(main, [*name.split(), "--help"]).stdout
    assert "Examples:" in text
    assert not re.search(r"RANGE|INTEGER|FLOAT|TEXT|<=|x[<>]|\d\.\d{5}|\(0\)", text), text
    for parameter in command_of(name.split())[0].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help and parameter.help.rstrip().endswith((".", "]")), parameter.name


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_commands(name: str) -> None:
    text = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=200).stdout
    lines = [line.strip() for line in text.partition("Examples:\n")[2].splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(re.split(r"  | > ", line)[0])
        if words[0] == "morph" and "COMMAND" not in words:
            verbose = words[1] == "-v"
            command, rest = command_of(words[1 + verbose :])
            command.make_context(command.name, rest)


@pytest.mark.parametrize("name", ["generate", *(f"generate {kind}" for kind in KINDS)])
def test_examples_of_generators_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=200).stdout
    lines = [line.strip() for line in text.partition("Examples:\n")[2].splitlines()]
    for line in lines:
        line = re.sub(r" (\d)\d\d+\b", r" \g<1>0", line.replace("rmat 16", "rmat 6"))  # smaller
        words = shlex.split(line)
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0 and Path(words[words.index("-o") + 1]).exists(), (line, done)


def test_a_group_without_a_command() -> None:
    for words in [], ["generate"]:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2 and not done.stdout
        assert done.stderr.startswith("Usage: ") and "Examples:" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("uniform 9 9 -o a.gr", "-o: a.gr: a .gr file needs integer weights"),
        ("geometric 9 --degree 2 --length -o a.gr", "-o: a.gr: a .gr file needs integer weights"),
        ("grid 9 9 --weight -2 2 -o a.graph", "-o: a.graph: a .graph file holds positive integers"),
        ("uniform 9 9 --weight 1 2.5 -o a.egr", "-o: a.egr: an .egr file holds weights that are"),
        ("uniform 9 9 --weight 5 1 -o a.gr", "weight = (5, 1): expected low <= high"),
    ],
)
def test_weights_are_checked_before_edges_are_drawn(
    words: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in "uniform", "geometric":
        monkeypatch.setattr(generate, kind, lambda **_: pytest.fail("drawn"))
    done = CliRunner().invoke(main, ["generate", *words.split()])
    assert done.exit_code == 2 and done.stderr.startswith(f"morph: {problem}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["info", "refine", "sssp", "generate grid"])
def test_global_options_after_the_command(name: str) -> None:
    for _ in range(2):
        done = CliRunner().invoke(main, [*name.split(), "--version"])
        assert (done.exit_code, done.output) == (0, f"morph, version {__version__}\n")
        names = [p.name for p in command_of(name.split())[0].params]
        assert names.count("verbose") == names.count("version") == 1


def test_verbose_after_the_command(tmp_path: Path) -> None:
    out = str(tmp_path / "a.el")
    logs = []
    for words in (
        ["--verbose", "generate", "grid", "3", "3"], ["generate", "grid", "3", "3", "--verbose"],
        ["generate", "--verbose", "grid", "3", "3"],
        ["-v", "generate", "grid", "3", "3", "--verbose"],
    ):  # fmt: skip
        done = CliRunner().invoke(main, [*words, "-o", out])
        assert done.exit_code == 0, done.output
        logs.append([line.split(":")[0] for line in done.stderr.splitlines()])
    assert "morph.memory" in logs[0] and all(x == logs[0] for x in logs[1:])
    assert not CliRunner().invoke(main, ["generate", "grid", "3", "3", "-o", out]).stderr


def test_limits() -> None:
    assert [Integer(2, 5)._describe_range(), Integer(0)._describe_range()] == [
        "2 to 5",
        "0 or more",
    ]
    assert Integer(max=10**6)._describe_range() == "at most 1,000,000"
    assert Number(0.25, min_open=True)._describe_range() == "above 0.25"
    done = CliRunner().invoke(main, ["sat", "f.cnf", "--time", "0"])
    assert "0.0 is not in the range x>0." in done.stderr
    done = CliRunner().invoke(main, ["pagerank", "missing.gr", "--damping", "nan"])
    assert "Invalid value for '--damping': 'nan' is not a number." in done.stderr


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        (["bfs"], "--so", "--source"),
        (["generate"], "rm", "rmat"),
        (["triangulate"], "--cro", "--crossing"),
        (["triangulate", "--crossing"], "s", "split"),
        ([], "tri", "triangulate"),
        (["sat", "--method"], "dec", "decimation"),
        (["bfs", "--device"], "cp", "cpu"),
        (["warm", "bfs"], "tri", "triangulate"),
        (["convert", "--from"], "me", "metis"),
        (["convert", "--weight-type"], "fl", "float32"),
        (["generate", "rmat", "--format"], "m", "mtx"),
    ],
)
def test_completion(words: list[str], begun: str, offered: str) -> None:
    found = BashComplete(main, {}, "morph", "_MORPH_COMPLETE").get_completions(words, begun)
    assert offered in [item.value for item in found]


def test_files_are_completed() -> None:
    found = BashComplete(main, {}, "morph", "_MORPH_COMPLETE").get_completions(["bfs"], "g")
    assert [item.type for item in found] == ["file"]
