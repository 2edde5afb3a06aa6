"""Help texts as a newcomer reads them, their examples, and completion in shells."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

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


def test_limits() -> None:
    assert [Integer(2, 5)._describe_range(), Integer(0)._describe_range()] == [
        "2 to 5",
        "0 or more",
    ]
    assert Integer(max=10**6)._describe_range() == "at most 1,000,000"
    assert Number(0.25, min_open=True)._describe_range() == "above 0.25"
    done = CliRunner().invoke(main, ["sat", "f.cnf", "--time", "0"])
    assert "0.0 is not in the range x>0." in done.stderr


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        (["bfs"], "--so", "--source"),
        (["generate"], "rm", "rmat"),
        (["triangulate"], "--cro", "--crossing"),
        (["triangulate", "--crossing"], "s", "split"),
        ([], "tri", "triangulate"),
    ],
)
def test_completion(words: list[str], begun: str, offered: str) -> None:
    found = BashComplete(main, {}, "morph", "_MORPH_COMPLETE").get_completions(words, begun)
    assert offered in [item.value for item in found]


def test_files_are_completed() -> None:
    found = BashComplete(main, {}, "morph", "_MORPH_COMPLETE").get_completions(["bfs"], "g")
    assert [item.type for item in found] == ["file"]
