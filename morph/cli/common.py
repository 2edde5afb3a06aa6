"""Options, errors and reports that are common to the commands."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import click

from morph import __version__
from morph.cli.logs import verbose
from morph.language.messages import shortened
from morph.runtime.device import Device, device, get_device
from morph.runtime.timing import Timing
from morph.runtime.toolchain.progress import Line as Line
from morph.runtime.toolchain.progress import on_terminal

Some = TypeVar("Some")


class Run(NamedTuple):
    """State of one invocation: `obj` of the outermost context of `click`.

    Attributes
    ----------
    started : float
        Start time of the process or command, by `time.monotonic`.
    warnings : list of str
    """

    started: float
    warnings: list[str]


def this_run() -> Run:
    """Return the `Run` of the current command."""
    run: Run = click.get_current_context().find_root().obj
    return run


class BadInput(click.ClickException):
    """Invalid input of the user: one line, exit code 2."""


def complain(message: str, code: int) -> int:
    """Write a message as one line on stderr, and return the exit code."""
    click.echo(shortened("morph: " + " ".join(message.split())), err=True)
    return code


def need_command(context: click.Context) -> None:
    """Write the help of a group on stderr, and end with exit code 2, if no command is given."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


@contextmanager
def bad_input(prefix: str = "", *others: type[Exception]) -> Iterator[None]:
    """Convert `ValueError`, and the types ``others``, to `BadInput` with a ``prefix``."""
    kinds: tuple[type[Exception], ...] = (ValueError, OverflowError, *others)
    try:
        yield
    except kinds as error:
        raise BadInput(f"{prefix}{error}") from error


def completing(*words: str) -> Callable[..., list[str]]:
    """Return a completion, in shells, of an option whose values are not a `click.Choice`."""
    return lambda context, option, begun: [word for word in words if word.startswith(begun)]


def device_option(command: Callable[..., Any], more: str = "") -> Callable[..., Any]:
    """Add ``--device`` to a command; ``more`` is added to its help."""
    return click.option(
        "--device",
        "spec",
        callback=_spec,
        show_default="MORPH_DEVICE, else auto",
        metavar="auto|cpu|cuda|cuda:N",
        shell_complete=completing("auto", "cpu", "cuda", "python"),
        help=f"Device to run on; auto selects a GPU if one is available.{more}",
    )(command)


def _spec(context: click.Context, option: click.Parameter, given: str | None) -> str:
    """Take the default device if ``--device`` is not given."""
    if given is not None:
        return given
    with bad_input():
        default = get_device()
    return "auto" if default is None else default.name


def parts_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--device`` to a command that takes several."""
    return device_option(command, "  With several, such as cuda:0,cuda:1, each has a part.")


class FullSummaries(click.Group):
    """A group whose help does not truncate the summaries of commands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, c.get_short_help_str(300)) for name, c in commands if c and not c.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def examples(*lines: str) -> str:
    """Return the end of a help text: example command lines, not rewrapped."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` to a command."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object, see `morph schema`, and nothing else.",
    )(command)


def devices_of(spec: str) -> list[Device]:
    """Return the devices that ``--device`` names, with commas between them."""
    return [device_of(name) for name in spec.split(",")]


def device_of(spec: str) -> Device:
    """Return the device that ``--device`` names."""
    try:
        return device(spec)
    except (TypeError, ValueError) as error:
        raise BadInput(f"--device: {error}") from error


def standard_input() -> BinaryIO:
    """Return standard input, which may be closed."""
    if sys.stdin is None:
        raise BadInput("standard input is closed")
    return sys.stdin.buffer


def process_age() -> float:
    """Return the seconds since this process started, on Linux; else 0."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return 0.0
    return age if 0 <= age < 60 else 0.0


def taken(kind: type[Some], options: dict[str, Any]) -> Some:
    """Remove the fields of a named tuple from the options of a command."""
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(*(options.pop(name) for name in fields))


def check_writable(option: str, path: str | None, suffixes: Sequence[str] = ()) -> None:
    """Reject paths that cannot be written, and other suffixes, before any work is done."""
    if path is None:
        return
    suffix = Path(path).suffix
    if suffix and suffixes and suffix not in suffixes:
        known = " or ".join(suffixes)
        raise BadInput(f"{option}: {path}: unknown suffix '{suffix}'; known are {known}")
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        return  # a device or a pipe, which is written to directly
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise BadInput(f"{option}: there is no directory {folder}")
    if not os.access(folder, os.W_OK):
        raise BadInput(f"{option}: the directory {folder} is not writable")
    if Path(path).is_dir():
        raise BadInput(f"{option}: {path} is a directory")


def check_plot(path: str | None) -> None:
    """Reject a plot that Matplotlib cannot write."""
    if path is None:
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise BadInput("--plot needs matplotlib: pip install matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415

    kinds = Figure().canvas.get_supported_filetypes()
    if (os.path.splitext(path)[1][1:].lower() or "png") not in kinds:
        raise BadInput(f"--plot: {path}: the suffix is one of {', '.join(sorted(kinds))}")


def times_of(timing: Timing) -> dict[str, float]:
    """Return seconds by phase."""
    return {name: round(getattr(timing, name), 6) for name in ("compile", "transfer", "run")}


def complete_report(report: dict[str, Any]) -> dict[str, Any]:
    """Add the fields common to the reports of all commands, see ``morph schema``."""
    contexts, context = list[str](), click.get_current_context()
    while context.parent is not None:
        contexts.insert(0, str(context.info_name))
        context = context.parent
    run = this_run()
    common: dict[str, Any] = {
        "command": " ".join(contexts), "version": __version__, "device": None, "input": {},
        "seconds": round(time.monotonic() - run.started, 6), "warnings": run.warnings,
    }  # fmt: skip
    return common | report


def print_report(report: dict[str, Any], as_json: bool, lines: list[str]) -> None:
    """Print the report as JSON, or the lines as text."""
    if as_json:
        click.echo(json.dumps(complete_report(report), allow_nan=False))
    else:
        click.echo("\n".join(lines))


def format_times(times: dict[str, float]) -> str:
    """Format seconds by phase as text."""
    return ", ".join(f"{name} {value:.3f} s" for name, value in times.items())


Shown = TypeVar("Shown", bound=Line)


@contextmanager
def progress_on(kind: type[Shown]) -> Iterator[Shown | None]:
    """Yield a progress line, cleared at the end; None without a terminal, or with a log."""
    if not on_terminal() or verbose():
        yield None
        return
    line = kind()
    try:
        yield line
    finally:
        line.clear()
