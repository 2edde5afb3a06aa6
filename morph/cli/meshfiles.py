"""Shared by the mesh commands: reading input, writing output, progress."""

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
from morph.io.mesh.bridges import import_meshio
from morph.io.mesh.formats import is_foreign, is_foreign_file
from morph.io.mesh.pslgs import file_base
from morph.mesh import Mesh, Pslg
from morph.mesh.quality import Quality
from morph.plotting.mesh import FEW, KINDS, write_figure
from morph.runtime.device import Device

SIZES = ("points", "triangles", "segments")
# arguments that messages of `morph.triangulate` advise, and the options that stand for them
OPTIONS = {
    "hull=True": "--hull",
    'crossing="split"': "--crossing split",
    'duplicates="merge"': "--duplicates merge",
}


def finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse nan and infinities."""
    if value is not None and not np.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", param=parameter)
    return value


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select output files."""
    for option in (
        click.option(
            "--color",
            type=click.Choice(KINDS),
            help="Colours of --plot: the smallest angle, area or region of each triangle, or the"
            " density of triangles; by default density for more than 20,000 triangles, else angle.",
        ),
        click.option(
            "--plot",
            type=click.Path(),
            metavar="FILE",
            help="Draw the mesh: .png, .svg, .pdf and more, by matplotlib.",
        ),
        click.option(
            "-j", "--jettison", is_flag=True, help="Leave out vertices that are in no triangle."
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
            "--order2", is_flag=True, help="Write elements of second order: 6 nodes a triangle."
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(),
            metavar="OUT",
            help="Write OUT.node, OUT.ele and OUT.poly; with the suffix of another format, as"
            " OUT.msh or OUT.vtu, that file.  Without -o the mesh is measured only.",
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
            help="Repair files: merge duplicate vertices, drop duplicate segments, turn clockwise"
            " triangles.",
        ),
        click.option(
            "--duplicates",
            type=click.Choice(["refuse", "merge"]),
            help="Vertices in one place: an error (the default), or merge them into one.",
        ),
        click.option(
            "--crossing",
            type=click.Choice(["refuse", "split"]),
            help="Segments that cross: an error (the default), or split them there.",
        ),
        click.option(
            "-c",
            "--hull",
            is_flag=True,
            help="Triangulate the whole convex hull, concavities of the boundary included.",
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
        """Return the arguments of `morph.triangulate`."""
        asked = {"hull": self.hull or None, "crossing": self.crossing,
                 "duplicates": self.duplicates}  # fmt: skip
        return {name: value for name, value in asked.items() if value is not None}


def check_outputs(files: Outputs) -> None:
    """Refuse output that cannot be written before any work is done."""
    output, plot = files.output, files.plot
    check_writable("-o", output)
    check_writable("--plot", plot)
    if output == "2":  # in Triangle, -o2 asks for second order
        raise BadInput("-o2: for elements of second order --order2, for files of this name -o ./2")
    foreign = output is not None and _is_foreign(output)
    for name in ("order2", "neigh", "edges", "voronoi", "jettison"):
        if getattr(files, name) and output is None:
            raise BadInput(f"--{name} says how files are written: it needs -o")
        if getattr(files, name) and foreign and name in ("neigh", "edges", "voronoi"):
            raise BadInput(f"--{name} is for Triangle's files, not for {output}")
    if files.color is not None and plot is None:
        raise BadInput("--color is of a picture: it needs --plot")
    check_plot(plot)


def _is_foreign(output: str) -> bool:
    """Whether meshio writes a file of this name; it must be there then."""
    with bad_input("-o: "):
        foreign = is_foreign(output)
    if foreign:
        import_meshio()
    return foreign


def write_outputs(mesh: Mesh, files: Outputs) -> None:
    """Write the files asked for; each set appears whole or not at all."""
    if files.output is not None:
        extra = {"neighbors": files.neigh, "edges": files.edges, "voronoi": files.voronoi}
        with bad_input("-o: "):
            write_mesh(mesh, files.output, order=2 if files.order2 else 1, **extra)
    if files.plot is not None:
        usual = "density" if len(mesh.triangles) > FEW else "angle"
        write_figure(mesh.plot(color=files.color or usual), files.plot)


def has_triangles(path: str) -> bool:
    """Whether there is an ``.ele`` file of this name, or it is a mesh file of another format."""
    with bad_input():
        return os.path.exists(file_base(path) + ".ele") or is_foreign_file(path)


def read_triangles(path: str, repair: bool) -> Mesh:
    """Read a mesh with its triangles."""
    with bad_input():
        return read_mesh(path, repair=repair)


def read_graph(path: str, asked: Input) -> Pslg:
    """Read the input of a triangulation: a ``.poly`` or ``.node`` file."""
    with bad_input():
        return read_pslg(path, asked.repair, "keep" if asked.duplicates == "merge" else "refuse")


def triangulated(path: str, graph: Pslg, asked: Input, where: Device) -> Mesh:
    """Triangulate; errors in the input are reported with its name."""
    try:
        with progress_on(Progress) as line:
            told = None if line is None else line.phase
            mesh = triangulate(graph, **asked.named(), device=where, progress=told)
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
        """Show how far refinement is."""
        self.write_throttled(f"round {rounds}: {bad:,} bad of {triangles:,} triangles")

    def phase(self, noun: str, many: int) -> None:
        """Show the size of the input of triangulation."""
        self.write(f"triangulating: {many:,} {noun if noun != 'domain' else 'triangles'}")


def sizes_of(mesh: Mesh | Pslg) -> dict[str, int]:
    """Return how many points, triangles and segments there are."""
    return {name: len(getattr(mesh, name)) for name in SIZES if hasattr(mesh, name)}


def shape_lines(quality: Quality) -> list[str]:
    """Describe the quality of a mesh."""
    bars = [f"{10 * k:4}{n:12,}" for k, n in enumerate(quality.histogram)]
    return [
        f"area {quality.min_area:g} to {quality.max_area:g},"
        f" edges {quality.min_edge:g} to {quality.max_edge:g}",
        f"aspect ratio up to {quality.max_aspect:.4g},"
        f" radius by edge up to {quality.max_radius_edge:.4g}",
        "angles, from so many degrees on:",
        *(f"{left}    {right}" for left, right in zip(bars[:9], bars[9:], strict=True)),
    ]
