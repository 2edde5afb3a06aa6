"""The ``morph`` command; exit code 2 for invalid input or a missing compiler, 130 for Ctrl-C.

Imports every public package, ``plotting``, ``survey`` and ``runtime``; nothing imports it.
"""

from __future__ import annotations

import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

import click

from morph import __version__, start
from morph.algorithms.registry import ALGORITHMS
from morph.cli import triangle_switches
from morph.cli.common import FullSummaries, Run, complain, examples, need_command, process_age
from morph.cli.interrupts import repeated_if_dropped
from morph.cli.logs import logged
from morph.cli.logs import verbose as verbose_now
from morph.language.messages import shortened

COMMANDS = {
    **{row.name: ("graphs:command_of", row.summary) for row in ALGORITHMS.values()},
    "cache": (
        "system:cache_command",
        "Show the cache of compiled kernels, or clear it; MORPH_CACHE moves it.",
    ),
    "check": (
        "checks:check",
        "Check a mesh in exact arithmetic, or an answer about a graph or a formula.",
    ),
    "community": (
        "communities:community_command",
        "Find a connected subgraph around a vertex, of bounded size and large minimum degree.",
    ),
    "convert": (
        "graphfiles:convert",
        "Write the graph of file IN to file OUT, in the format of its suffix.",
    ),
    "generate": ("graphfiles:generate_group", "Make a graph or a formula and write it."),
    "info": ("system:info", "Show versions, devices, compiler and cache."),
    "max-flow": (
        "flows:max_flow_command",
        "Find a maximum flow and a minimum cut between two vertices of GRAPH.",
    ),
    "refine": (
        "meshes:refine",
        "Refine the mesh IN until its angles, areas and edges satisfy the limits.",
    ),
    "sat": ("sat:sat", "Look for a model of a formula in DIMACS CNF; made for large random k-SAT."),
    "schema": (
        "system:schema",
        "Print the JSON Schema of the reports of --json.",
    ),
    "sssp": ("updates:sssp_command", ALGORITHMS["sssp"].summary),
    "triangulate": (
        "meshes:triangulate",
        "Triangulate IN: a .poly file (points, segments, holes, regions) or a .node file (points).",
    ),
    "warm": ("warm:warm", "Compile the kernels of algorithms in advance, for faster first calls."),
}
"""A command, or a function that makes one from its name, and the first sentence of its help.

A command's module is imported when the command is used.
"""


LOG = "Log compilations, launches and reallocations on standard error."


class Row(click.Command):
    """A row of `COMMANDS`, listed in place of its command."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.place = place

    def load(self) -> click.Command:
        """Import the command."""
        found: Any = _load(self.place)
        command: click.Command = found if isinstance(found, click.Command) else found(self.name)
        _take_global_options(command)
        return command


def _take_global_options(command: click.Command) -> None:
    """Let a command, and those of a group, take the options of `main`, too; -v has other uses."""
    if "verbose" not in [parameter.name for parameter in command.params]:
        click.option("--verbose", is_flag=True, expose_value=False, callback=_log, help=LOG)(
            command
        )
        click.version_option(__version__, prog_name="morph", hidden=True)(command)
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        _take_global_options(each)


def _log(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Log from here to the end of the command."""
    if wanted and not verbose_now():
        context.find_root().with_resource(logged())


def _load(place: str) -> Any:
    return pkgutil.resolve_name(f"morph.cli.{place}")


class Commands(FullSummaries):
    """A group that reports failures by one line on stderr and an exit code."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the requested command."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Row) else command, rest

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the options; some, such as ``--help``, print a text."""
        with _pipes_reported():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _pipes_reported():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit: 0 done, 1 failed, 2 bad input or setup, 130 interrupted."""
        kwargs["standalone_mode"] = False
        own = not args and kwargs.get("args") is None  # own process: --time includes its start
        run = kwargs.setdefault("obj", Run(monotonic() - (process_age() if own else 0), []))
        try:
            code = _exit_code(partial(super().main, *args, **kwargs), run.warnings)
        except BrokenPipeError:
            code = _end_output()
        status = code if isinstance(code, int) else 0
        if own:
            start.end(status)
        sys.exit(status)


class OutputClosed(Exception):
    """The program that reads the output has ended; click exits with 1 on a `BrokenPipeError`."""


@contextmanager
def _pipes_reported() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error


def _exit_code(command: Callable[[], Any], shown: list[str]) -> Any:
    """Run a command; explain a failure on stderr and return its exit code."""
    try:
        start.begin()
        with repeated_if_dropped(), warnings.catch_warnings():
            warnings.showwarning = partial(_warn, shown)
            code = command()
        if sys.stdout is not None:  # as it is where the caller has closed it
            sys.stdout.flush()
        return code
    except (click.Abort, KeyboardInterrupt):
        sys.last_type = KeyboardInterrupt  # as in other programs: nothing is compiled on after it
        click.echo("morph: interrupted", err=True)
        return 130
    except (BrokenPipeError, OutputClosed):
        return _end_output()
    except click.ClickException as error:
        return complain(error.format_message() + triangle_switches.advice(error), 2)
    except Exception as error:
        return _load("failures:explain")(error)


def _end_output() -> int:
    """Discard unwritten output, as the program that reads it, such as head, has ended."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None:
            continue
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 141  # as the shell reports a program that SIGPIPE ends


def _warn(
    shown: list[str], message: Warning | str, category: object, filename: str, lineno: int,
    file: object = None, line: object = None,
) -> None:  # fmt: skip
    shown.append(shortened(str(message)))
    click.echo(shortened(f"morph: {message}"), err=True)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "morph COMMAND --help                  options and examples of a command",
        "morph triangulate coast.poly -o coast",
        "morph bfs GRAPH.gr.gz --source 5 --json",
        "morph -v sat formula.cnf              with a log on standard error",
        'eval "$(_MORPH_COMPLETE=bash_source morph)"  completion by <Tab>',
    ),
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help=f"{LOG[:-1]}; --verbose also after COMMAND.",
)
@click.version_option(__version__, prog_name="morph")
@click.pass_context
def main(context: click.Context, verbose: bool) -> None:
    """Graph algorithms that change their graph, on CPUs and GPUs.

    Vertices are numbered from 0, independent of the base of files.
    """
    if verbose:
        context.with_resource(logged())
    need_command(context)


for _name, (_place, _summary) in COMMANDS.items():
    main.add_command(Row(_name, _place, _summary))
