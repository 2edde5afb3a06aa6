"""``morph triangulate`` and ``morph refine``."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import click
import numpy as np

from morph.algorithms.refinement.parameters import LEAST_RATIO, region_limits, regions_of
from morph.algorithms.refinement.refine import Refined, refine_with_report
from morph.algorithms.triangulation.canonical import canonical
from morph.cli.common import (
    BadInput,
    bad_input,
    device_of,
    device_option,
    devices_of,
    examples,
    format_times,
    json_option,
    parts_option,
    print_report,
    progress_on,
    taken,
    times_of,
)
from morph.cli.meshfiles import (
    Input,
    Outputs,
    Progress,
    check_outputs,
    finite,
    has_triangles,
    output_options,
    read_graph,
    read_triangles,
    shape_lines,
    sizes_of,
    triangulated,
    triangulation_options,
    write_outputs,
)
from morph.cli.numbers import Integer, Number
from morph.cli.parts import refuse_ranks
from morph.io import read_area
from morph.io.mesh.pslgs import file_base
from morph.launch.foreach import timing
from morph.mesh import Mesh
from morph.runtime.device import Device

OWN = "own"  # -a without a value: limits from the files of IN


class Degrees(Number):
    """An angle; reports switches of Triangle that are appended to ``-q``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the angle."""
        try:
            return super().convert(float(value), param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a number; letters stand apart: -q30 -a0.1", param, ctx)


@click.command(
    epilog=examples(
        "morph triangulate coast.poly -o coast",
        "morph triangulate coast.poly --crossing split -o coast.vtu --plot coast.png",
    )
)
@click.argument("mesh_in", type=click.Path(), metavar="IN")
@triangulation_options
@output_options
@device_option
@json_option
def triangulate(mesh_in: str, spec: str, as_json: bool, **options: Any) -> None:
    """Triangulate IN: a .poly file (points, segments, holes, regions) or a .node file (points).

    Files of other formats (.msh, .vtu and more) are written by meshio.  The switches are those of
    Triangle.  Messages number points and segments from 0.
    """
    where = device_of(spec)
    files, settings = taken(Outputs, options), taken(Input, options)
    check_outputs(files)
    graph = read_graph(mesh_in, settings)
    with timing() as spent:
        mesh = triangulated(mesh_in, graph, settings, where)
    if files.jettison:
        mesh = mesh.compact()
    write_outputs(mesh, files)
    quality, times = mesh.quality(), times_of(spent)
    report = {
        "input": sizes_of(graph),
        "output": sizes_of(mesh),
        "quality": quality.to_dict(),
        "times": times,
        "device": where.name,
    }
    lines = [
        f"{len(graph.points):,} points, {len(graph.segments):,} segments became"
        f" {quality.triangles:,} triangles over {quality.points:,} points",
        f"angles {quality.min_angle:.2f} to {quality.max_angle:.2f} degrees, area {quality.area:g}",
        f"{where.name}: {format_times(times)}",
    ]
    print_report(report, as_json, lines)


@click.command(
    epilog=examples(
        "morph refine coast.poly -q 30 -a 0.5 -o fine",
        "morph refine coast.poly --size 0.1 --conforming -o fine.vtu",
        "morph refine fine -a -o finer      (by the areas in fine.area)",
    )
)
@click.argument("mesh_in", type=click.Path(), metavar="IN")
@click.option(
    "-q",
    "--min-angle",
    type=Degrees(0, 34),
    callback=finite,
    is_flag=False,
    flag_value=20.0,
    default=20.0,
    show_default=True,
    metavar="[DEGREES]",
    help="Lower limit of angles, in degrees; -q without a number is -q 20.",
)
@click.option(
    "--max-angle",
    type=Degrees(112, 180),
    callback=finite,
    metavar="DEGREES",
    help="Upper limit of angles, in degrees; by default only -q limits angles.",
)
@click.option(
    "--max-radius-edge", type=Number(LEAST_RATIO), callback=finite, metavar="RATIO",
    help="Upper limit of the ratio of circumradius to shortest edge, equivalent to the smallest"
    " angle arcsin(1 / (2 RATIO)). The stricter limit of this and -q applies.",
)  # fmt: skip
@click.option(
    "-a",
    "--max-area",
    "areas",
    multiple=True,
    is_flag=False,
    flag_value=OWN,
    metavar="[AREA]",
    help="Upper limit of triangle areas, in squared units of the coordinates; without a number, the"
    " limits of IN.area, or of the regions in IN.poly. Repeatable: the least limit applies.",
)
@click.option(
    "-u",
    "--size",
    metavar="LENGTH|FILE",
    help="Upper limit of edge lengths, in units of the coordinates: a number, or a .npy or text"
    " file with one number for each vertex.",
)
@click.option(
    "-A",
    "--attributes",
    is_flag=True,
    help="Assign the attributes of regions in IN.poly to triangles, instead of those in IN.ele.",
)
@click.option(
    "-Y",
    "--keep-boundary",
    "keep",
    count=True,
    help="Insert no points on the boundary; twice (-YY), on no segment.",
)
@click.option(
    "-S",
    "--max-points",
    type=Integer(0),
    metavar="N",
    help="Insert at most N points; by default there is no limit.",
)
@click.option(
    "-D",
    "--conforming",
    is_flag=True,
    help="Conforming Delaunay: no vertex in the diametral circle of a segment.",
)
@click.option(
    "--deterministic",
    is_flag=True,
    help="Make the same mesh, to the last byte, with any number of threads and on a GPU.",
)
@click.option("-p", "--poly", is_flag=True, help="Triangulate IN again, even if it has triangles.")
@triangulation_options
@output_options
@click.option(
    "--report", "long", is_flag=True, help="Also print areas, edges, aspect ratios and angles."
)
@parts_option
@click.option("--mpi", is_flag=True, hidden=True, expose_value=False, callback=refuse_ranks)
@json_option
def refine(
    mesh_in: str, poly: bool, long: bool, spec: str, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Refine the mesh IN until its angles, areas and edges satisfy the limits.

    IN is a base name, or its .node, .ele or .poly file; without an .ele file it is triangulated
    first.  Files of other formats (.msh, .vtu and more) are read by meshio.  The default limit of
    angles is 20 degrees; -q 0 removes it.  The switches are those of Triangle.
    """
    devices = devices_of(spec)
    where, names = devices[0], ",".join(d.name for d in devices)
    files, given = taken(Outputs, options), taken(Input, options)
    targets = taken(Targets, options)  # the remaining options are arguments of `morph.refine`
    check_outputs(files)
    areas = [_area(text) for text in targets.areas]
    with timing() as spent:
        mesh = _mesh_of(mesh_in, poly, given, options["deterministic"], where)
        options["max_area"] = _limits(mesh_in, mesh, areas, poly, where)
        if targets.size is not None:
            options["size"] = _sizes(targets.size, len(mesh.points))
        options["boundary"] = ("split", "keep-hull", "keep-all")[min(targets.keep, 2)]
        if targets.attributes:
            _take_attributes(mesh_in, mesh, where)
        done = _refined(mesh_in, mesh, devices, options)
    out = done.mesh.compact() if files.jettison else done.mesh
    write_outputs(out, files)
    quality, times = out.quality(), times_of(spent)
    report = {
        "input": sizes_of(mesh),
        "output": sizes_of(out),
        "quality": quality.to_dict(),
        "rounds": done.rounds,
        "added": done.added,
        "unmet": done.unmet,
        "times": times,
        "device": names,
    }
    lines = [
        f"{len(mesh.triangles):,} triangles became {quality.triangles:,},"
        f" {len(mesh.points):,} points {quality.points:,}",
        f"angles {quality.min_angle:.2f} to {quality.max_angle:.2f} degrees, area {quality.area:g}",
        f"{names}: {format_times(times)}",
    ]
    if long:
        lines += [f"{done.rounds} rounds", *shape_lines(quality)]
    lines += [f"limits not met: {n:,} triangles ({reason})" for reason, n in done.unmet.items()]
    print_report(report, as_json, lines)


class Targets(NamedTuple):
    """Options of `refine` that `morph.refine` takes in another form, or not at all."""

    areas: tuple[str, ...]
    size: str | None
    attributes: bool
    keep: int


def _mesh_of(path: str, poly: bool, given: Input, deterministic: bool, where: Device) -> Mesh:
    """Read the triangles of IN, or triangulate it."""
    if not poly and has_triangles(path):
        for name in given.named():
            raise BadInput(f"--{name}: {path} has triangles; -p triangulates again")
        return read_triangles(path, given.repair)
    mesh = triangulated(path, read_graph(path, given), given, where)
    mesh.triangle_attributes = np.empty((len(mesh.triangles), 0))  # region attributes only with -A
    if not deterministic:
        return mesh
    with bad_input(f"{path}: "):
        return canonical(mesh, where)


def _refined(
    path: str, mesh: Mesh, devices: list[Device], arguments: dict[str, Any]
) -> Refined:  # fmt: skip
    """Refine a mesh and show the progress."""
    with bad_input(f"{path}: "), progress_on(Progress) as line:
        return refine_with_report(
            mesh, **arguments, device=devices if len(devices) > 1 else devices[0],
            progress=None if line is None else line.round,
        )  # fmt: skip


def _area(text: str) -> float | str:
    """Read one value of ``-a``."""
    if text == OWN:
        return OWN
    try:
        area = float(text)
    except ValueError:
        raise BadInput(f"--max-area: {text!r} is not a number") from None
    if not 0 < area < math.inf:
        raise BadInput(f"--max-area: {text} is not a positive, finite number")
    return area


def _limits(path: str, mesh: Mesh, areas: list[float | str], poly: bool, where: Device) -> Any:
    """Return the least of all limits by ``-a``, as an argument of `morph.refine`."""
    numbers = [area for area in areas if not isinstance(area, str)]
    if len(numbers) == len(areas):
        return min(numbers, default=None)
    file = file_base(path) + ".area"
    if not poly and has_triangles(path) and os.path.exists(file):
        own = read_area(file, mesh)
        limits = np.where(own > 0, own, math.inf)
    elif len(mesh.regions):
        limits = region_limits(mesh, where)
    else:
        raise BadInput(
            f"-a without a number: there is no {file}, and no region in the file; a number follows"
            " it: -a 0.5"
        )
    return np.minimum(limits, min(numbers, default=math.inf))


def _sizes(text: str, n: int) -> Any:
    """Return a limit of edge lengths: a number, or an array of n numbers from a file."""
    try:
        return np.full(n, float(text))
    except ValueError:
        pass
    try:
        if text.endswith(".npy"):
            sizes = np.load(text, allow_pickle=False)
        else:
            sizes = np.loadtxt(text, np.float64, ndmin=1)
    except (ValueError, EOFError) as error:
        raise BadInput(f"--size: {text}: {error}") from error
    if sizes.shape != (n,) or sizes.dtype.kind not in "iuf":
        raise BadInput(
            f"--size: {text} holds {sizes.dtype} numbers of shape {sizes.shape}, not {n}, one for"
            " each vertex"
        )
    return sizes


def _take_attributes(path: str, mesh: Mesh, where: Device) -> None:
    """Assign region attributes to triangles as their only attribute; 0 outside all regions."""
    if not len(mesh.regions):
        raise BadInput(f"-A: there is no region in {path}")
    values = np.append(mesh.regions[:, 2], 0.0)  # the last value is for region -1
    mesh.triangle_attributes = values[regions_of(mesh, where)][:, None]
