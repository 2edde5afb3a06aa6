"""Input, output and progress of the mesh commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import click
import numpy as np

from morph.algorithms.triangulation.triangulate import triangulate
from morph.cli.common import BadInput, Line, bad_input, check_plot, check_writable, progress_on
from morph.io import read_mesh, read_pslg, write_mesh
from morph.io.mesh.formats import format_of, format_of_file
from morph.io.mesh.pslgs import file_base
from morph.mesh import Mesh, Pslg
from morph.mesh.quality import Quality
from morph.plotting.mesh import KINDS, VECTOR_LIMIT, write_figure
from morph.runtime.device import Device

SIZES = ("points", "triangles", "segments")
# arguments that messages of `morph.triangulate` suggest, and the corresponding options
OPTIONS = {
    "hull=True": "--hull",
    'crossing="split"': "--crossing split",
    'duplicates="merge"': "--duplicates merge",
}


def finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Reject nan and infinities."""
    if value is not None and not np.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", param=parameter)
    return value


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select output files."""
    for option in (
        click.option(
            "--color",
            type=click.Choice(KINDS),
            help="Quantity shown by --plot: the smallest angle, area or region of each triangle, or"
            " the density of triangles; default: density above 20,000 triangles, else angle.",
        ),
        click.option(
            "--plot",
            type=click.Path(),
            metavar="FILE",
            help="Draw the mesh: .png, .svg, .pdf and more, by matplotlib.",
        ),
        click.option(
            "-j", "--jettison", is_flag=True, help="Drop vertices that are in no triangle."
        ),
        click.option(
            "-v",
            "--voronoi",
            is_flag=True,
            help="Also write OUT.v.node and OUT.v.edge: the Voronoi diagram.",
        ),
        click.option("-e", "--edges", is_flag=True, help="Also write OUT.edge: the edges."),
        click.option(
            "-n",
            "--neigh",
            is_flag=True,
            help="Also write OUT.neigh: the neighbours of each triangle.",
        ),
        click.option(
            "--order2", is_flag=True, help="Write second-order elements: 6 nodes per triangle."
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(),
            metavar="OUT",
            help="Write OUT.node, OUT.ele and OUT.poly; with the suffix of another format, such as"
            " OUT.msh or OUT.vtu, that file.  Without -o only the statistics are printed.",
        ),
    ):
        command = option(command)
    return command


def triangulation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of triangulation."""
    for option in (
        click.option(
            "--repair",
            is_flag=True,
            help="Repair files: merge duplicate vertices, drop duplicate segments, reorient"
            " clockwise triangles.",
        ),
        click.option(
            "--duplicates",
            type=click.Choice(["refuse", "merge"]),
            help="Vertices with equal coordinates: an error (the default), or merged.",
        ),
        click.option(
            "--crossing",
            type=click.Choice(["refuse", "split"]),
            help="Crossing segments: an error (the default), or split at the intersection.",
        ),
        click.option(
            "-c",
            "--hull",
            is_flag=True,
            help="Triangulate the convex hull, including concavities of the boundary.",
        ),
    ):
        command = option(command)
    return command


class Outputs(NamedTuple):
    """Values of `output_options`."""

    output: str | None
    plot: str | None
    color: str | None
    order2: bool
    neigh: bool
    edges: bool
    voronoi: bool
    jettison: bool


class Input(NamedTuple):
    """Values of `triangulation_options`."""

    hull: bool
    crossing: str | None
    duplicates: str | None
    repair: bool

    def named(self) -> dict[str, Any]:
        """Return the options that are set, as arguments of `morph.triangulate`."""
        chosen = {"hull": self.hull or None, "crossing": self.crossing,
                  "duplicates": self.duplicates}  # fmt: skip
        return {name: value for name, value in chosen.items() if value is not None}


def check_outputs(files: Outputs) -> None:
    """Reject output that cannot be written, before any work is done."""
    output, plot = files.output, files.plot
    check_writable("-o", output)
    check_writable("--plot", plot)
    if output == "2":  # in Triangle, -o2 is the switch for second order
        raise BadInput("-o2: for elements of second order --order2, for files of this name -o ./2")
    single = output is not None and _is_single(output)
    for name in ("order2", "neigh", "edges", "voronoi", "jettison"):
        if getattr(files, name) and output is None:
            raise BadInput(f"--{name} says how files are written: it needs -o")
        if getattr(files, name) and single and name in ("neigh", "edges", "voronoi"):
            raise BadInput(f"--{name} is for Triangle's files, not for {output}")
    if files.color is not None and plot is None:
        raise BadInput("--color is of a picture: it needs --plot")
    check_plot(plot)


def _is_single(output: str) -> bool:
    """Return whether the mesh is written to this file alone; if so, require what writes it."""
    with bad_input("-o: "):
        row = format_of(output)
    if row is not None:
        row.require()
    return row is not None


def write_outputs(mesh: Mesh, files: Outputs) -> None:
    """Write the requested files; each set is written atomically."""
    if files.output is not None:
        extra = {"neighbors": files.neigh, "edges": files.edges, "voronoi": files.voronoi}
        with bad_input("-o: "):
            write_mesh(mesh, files.output, order=2 if files.order2 else 1, **extra)
    if files.plot is not None:
        usual = "density" if len(mesh.triangles) > VECTOR_LIMIT else "angle"
        write_figure(mesh.plot(color=files.color or usual), files.plot)


def has_triangles(path: str) -> bool:
    """Whether an ``.ele`` file with this name exists, or it is a mesh file of another format."""
    with bad_input():
        return os.path.exists(file_base(path) + ".ele") or format_of_file(path) is not None


def read_triangles(path: str, repair: bool) -> Mesh:
    """Read a mesh with its triangles."""
    with bad_input():
        return read_mesh(path, repair=repair)


def read_graph(path: str, settings: Input) -> Pslg:
    """Read the input of a triangulation: a ``.poly`` or ``.node`` file."""
    with bad_input():
        return read_pslg(
            path, settings.repair, "keep" if settings.duplicates == "merge" else "refuse"
        )


def triangulated(path: str, graph: Pslg, settings: Input, where: Device) -> Mesh:
    """Triangulate; errors in the input are reported with its name."""
    try:
        with progress_on(Progress) as line:
            show = None if line is None else line.phase
            mesh = triangulate(graph, **settings.named(), device=where, progress=show)
    except ValueError as error:
        message = str(error)
        for argument, option in OPTIONS.items():
            message = message.replace(argument, option)
        if graph.base == 1 and re.search(r"\b(points|segments) \d+ and|^\w+\[\d", message):
            message += " (counted from 0)"
        raise BadInput(f"{path}: {message}") from error
    mesh.base = graph.base
    return mesh


class Progress(Line):
    """Progress of a mesh."""

    def round(self, rounds: int, bad: int, triangles: int) -> None:
        """Show the progress of refinement."""
        self.write_throttled(f"round {rounds}: {bad:,} bad of {triangles:,} triangles")

    def phase(self, kind: str, many: int) -> None:
        """Show the size of the input of triangulation."""
        self.write(f"triangulating: {many:,} {kind if kind != 'domain' else 'triangles'}")


def sizes_of(mesh: Mesh | Pslg) -> dict[str, int]:
    """Return the numbers of points, triangles and segments."""
    return {name: len(getattr(mesh, name)) for name in SIZES if hasattr(mesh, name)}


def shape_lines(quality: Quality) -> list[str]:
    """Describe the quality of a mesh."""
    bars = [f"{10 * k:4}{n:12,}" for k, n in enumerate(quality.histogram)]
    return [
        f"area {quality.min_area:g} to {quality.max_area:g},"
        f" edges {quality.min_edge:g} to {quality.max_edge:g}",
        f"aspect ratio up to {quality.max_aspect:.4g},"
        f" radius by edge up to {quality.max_radius_edge:.4g}",
        "histogram of angles, by lower bin limit in degrees:",
        *(f"{left}    {right}" for left, right in zip(bars[:9], bars[9:], strict=True)),
    ]
