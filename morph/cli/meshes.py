"""``morph refine`` and ``morph check``."""

from __future__ import annotations

import importlib.util
import sys
import time

import click
import numpy as np

from morph.cli.common import (
    BadInput,
    check_writable,
    device_of,
    device_option,
    in_words,
    json_option,
    print_report,
    times_of,
)


def _finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not np.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", param=parameter)
    return value


class _Progress:
    """One line on the terminal, rewritten after each round; silent in a pipe."""

    def __init__(self) -> None:
        self.shown = 0.0
        self.width = 0

    def __call__(self, rounds: int, bad: int, triangles: int) -> None:
        now = time.monotonic()
        if now - self.shown > 0.1:
            self.shown = now
            self._write(f"round {rounds}: {bad:,} bad of {triangles:,} triangles")

    def _write(self, text: str) -> None:
        click.echo("\r" + text.ljust(self.width), nl=False, err=True)
        self.width = len(text)

    def clear(self) -> None:
        """Leave an empty line behind."""
        if self.width:
            self._write("")
            click.echo("\r", nl=False, err=True)


@click.command()
@click.argument("mesh_in", metavar="IN")
@click.option(
    "-q",
    "--min-angle",
    type=click.FloatRange(0, 34),
    callback=_finite,
    required=True,
    metavar="DEGREES",
    help="Smallest angle wanted, up to 34 degrees.",
)
@click.option(
    "-a",
    "--max-area",
    type=click.FloatRange(0, min_open=True),
    callback=_finite,
    metavar="AREA",
    help="Largest triangle wanted, in squared units of the coordinates.",
)
@click.option("-o", "--output", metavar="OUT", help="Write OUT.node, OUT.ele and OUT.poly.")
@click.option("--plot", metavar="PNG", help="Draw the refined mesh.")
@device_option
@json_option
def refine(
    mesh_in: str,
    min_angle: float,
    max_area: float | None,
    output: str | None,
    plot: str | None,
    spec: str,
    as_json: bool,
) -> None:
    """Refine the mesh IN (a base name, or its .node, .ele or .poly file)."""
    from morph.algorithms.refine import refine_with_report  # noqa: PLC0415
    from morph.io import read_mesh, write_mesh  # noqa: PLC0415
    from morph.kernel import timing  # noqa: PLC0415
    from morph.mesh import MeshError  # noqa: PLC0415

    where = device_of(spec)
    check_writable("-o", output)
    check_writable("--plot", plot)
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise BadInput("--plot needs matplotlib: pip install matplotlib")
    mesh = read_mesh(mesh_in)
    progress = _Progress() if sys.stderr.isatty() else None
    try:
        with timing() as spent:
            done = refine_with_report(
                mesh, min_angle=min_angle, max_area=max_area, device=where, progress=progress
            )
    except MeshError as error:
        raise BadInput(f"{mesh_in}: {error}") from error
    out = done.mesh
    if progress is not None:
        progress.clear()
    if output is not None:
        out.base = mesh.base
        write_mesh(out, output)
    if plot is not None:
        out.plot(plot)
    quality, times = out.quality(), times_of(spent)
    sizes = ("points", "triangles", "segments")
    report = {
        "input": {name: len(getattr(mesh, name)) for name in sizes},
        "output": {name: len(getattr(out, name)) for name in sizes},
        "quality": quality.to_dict(),
        "rounds": done.rounds,
        "unmet": done.unmet,
        "times": times,
        "device": where.name,
    }
    lines = [
        f"{len(mesh.triangles):,} triangles became {quality.triangles:,},"
        f" {len(mesh.points):,} points {quality.points:,}",
        f"angles {quality.min_angle:.2f} to {quality.max_angle:.2f} degrees, area {quality.area:g}",
        f"{where.name}: {in_words(times)}",
    ]
    lines += [f"{n:,} triangles are not as asked: {reason}" for reason, n in done.unmet.items()]
    print_report(report, as_json, lines)


@click.command()
@click.argument("mesh_in", metavar="MESH")
@json_option
def check(mesh_in: str, as_json: bool) -> None:
    """Check every invariant of a mesh, in exact arithmetic; exit code 1 if one is broken."""
    from morph.io import read_mesh  # noqa: PLC0415

    mesh = read_mesh(mesh_in)
    found, quality = mesh.violations(), mesh.quality()
    report = {
        "good": not found,
        "violations": [{"name": v.name, "message": v.message, "count": len(v.ids)} for v in found],
        "quality": quality.to_dict(),
    }
    lines = [f"{v.name}: {v.message}" for v in found] or ["the mesh is good"]
    lines.append(
        f"{quality.points:,} points, {quality.triangles:,} triangles, {len(mesh.segments):,}"
        f" segments, angles {quality.min_angle:.2f} to {quality.max_angle:.2f} degrees"
    )
    print_report(report, as_json, lines)
    if found:
        raise click.exceptions.Exit(1)
