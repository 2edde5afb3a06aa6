"""The ``morph`` command; bad input or a missing compiler ends it with exit code 2, Ctrl-C with 130.

Imports every public package, ``plotting``, ``survey`` and ``runtime``; nothing imports it.
"""

from __future__ import annotations

import os
import sys
import warnings
from time import monotonic
from typing import Any

import click

from morph import __version__
from morph.cli import checks, graphfiles, graphs, letters, meshes, sat, system
from morph.cli.common import process_age
from morph.language.messages import shortened


class Commands(click.Group):
    """A group whose failures are one line on stderr, and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit: 0 done, 1 failed, 2 bad input or setup, 130 interrupted."""
        kwargs["standalone_mode"] = False
        if not args and kwargs.get("args") is None:  # a process of its own: --time begins with it
            kwargs["obj"] = monotonic() - process_age()
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = super().main(*args, **kwargs)
            sys.stdout.flush()
        except (click.Abort, KeyboardInterrupt):
            click.echo("morph: interrupted", err=True)
            code = 130
        except BrokenPipeError:  # the reader of our output, such as head, has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 141
        except click.ClickException as error:
            code = _complain(error.format_message() + letters.advice(error), 2)
        except Exception as error:
            code = _explain(error)
        sys.exit(code if isinstance(code, int) else 0)


def _warn(
    message: Warning | str, category: object, filename: str, lineno: int,
    file: object = None, line: object = None,
) -> None:  # fmt: skip
    click.echo(shortened(f"morph: {message}"), err=True)


def _complain(message: str, code: int) -> int:
    click.echo(shortened("morph: " + " ".join(message.split())), err=True)
    return code


def _explain(error: Exception) -> int:
    """Say what went wrong; an error that is the engine's own fault is raised again."""
    from morph.io import FormatError  # noqa: PLC0415
    from morph.mesh import MeshError  # noqa: PLC0415
    from morph.runtime.device import DeviceError  # noqa: PLC0415
    from morph.runtime.toolchain import CompilerNotFound  # noqa: PLC0415

    if isinstance(error, OSError) and error.filename is not None:
        return _complain(f"{error.filename}: {error.strerror}", 2)
    if isinstance(error, FormatError | MeshError | DeviceError | OSError):
        return _complain(str(error), 2)
    if isinstance(error, CompilerNotFound):  # its message is help in several lines
        click.echo(f"morph: {error}", err=True)
        return 2
    if isinstance(error, ImportError) and error.name is None:  # an extra that is not installed
        return _complain(str(error), 1)
    if isinstance(error, MemoryError):
        return _complain(f"out of memory: {error}".removesuffix(": "), 1)
    raise error


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="morph")
@click.pass_context
def main(context: click.Context) -> None:
    """Graph algorithms that change their graph, on CPUs and GPUs.

    Vertices count from 0, whatever a file's own base.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


for _command in (
    meshes.triangulate,
    meshes.refine,
    checks.check,
    graphs.bfs,
    graphs.sssp,
    graphs.components,
    graphs.mst,
    graphs.pagerank,
    graphs.betweenness,
    graphs.core,
    graphs.triangles,
    sat.sat,
    graphfiles.generate,
    graphfiles.convert,
    system.info,
    system.cache,
):
    main.add_command(_command)
graphfiles.generate.add_command(sat.ksat)
