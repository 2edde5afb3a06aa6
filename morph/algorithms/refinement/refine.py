"""Delaunay refinement: add points to a triangulation until it satisfies limits of angles and sizes.

A bad triangle, one with a small angle, a large area or a long edge, is removed by inserting a point
as far from all vertices as a point that improves it can be (Erten, Ungor 2009): the *cavity*, all
triangles whose circumcircle contains the point, is replaced by a fan around it.  A segment is
encroached if a visible vertex is in its diametral lens; a point that would encroach on a segment,
or lies behind it, is not inserted, and the segment is split instead (Chew 1993; Shewchuk 2002): at
its middle or, next to an input vertex, on concentric shells of power-of-two radius, so that
refinement terminates at small input angles.  If the mesh is to be conforming Delaunay, the
diametral circle of a segment replaces its lens (Ruppert 1995).  Cavities are retriangulated in
parallel: an item claims its cavity with ``single`` and guards the neighbour triangles (Unnikrishnan
et al., Falcon, figures 37 to 39; claims as in Blelloch et al. 2012).

About 10 triangles are read for each one of the output; the number of rounds grows with the
logarithm of the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from morph.algorithms.refinement.kernels import REASONS
from morph.algorithms.refinement.parameters import (
    HUGE,
    Request,
    SizeField,
    area_limits,
    as_mesh,
    field_values,
    parameters_of,
    puts_segments_first,
    request_of,
    sizes_at_points,
)
from morph.algorithms.refinement.rounds import Progress as Progress
from morph.algorithms.refinement.rounds import refine_tables, refuse_defects
from morph.algorithms.triangulation.attributes import interpolated
from morph.algorithms.triangulation.canonical import canonical, least_first
from morph.algorithms.triangulation.kept import KeptObjects
from morph.algorithms.triangulation.reading import from_tables, rows_of_mesh
from morph.algorithms.triangulation.scaling import bounds, scale_of
from morph.algorithms.triangulation.tables import tables_name, to_tables
from morph.graph import Graph
from morph.language.arguments import check_callable
from morph.language.hooks import Hook
from morph.launch.ahead import compile_ahead
from morph.mesh import Mesh
from morph.runtime.device import Device, device_for
from morph.runtime.timing import counting

refine_parts: Hook[tuple[Mesh, int, list[int]]] = Hook(
    "morph.algorithms.refinement.parts:refine_parts"
)


class Refined(NamedTuple):
    """The result of refinement.

    Attributes
    ----------
    mesh : Mesh
    rounds : int
        Launches of all bad triangles at once.
    added : int
        Points added.
    unmet : dict of str to int
        Number of triangles that violate a limit, by reason; empty if there are none.
        ``"floor"``: the triangle is as small as the digits of the coordinates allow;
        ``"small input angle"``: two input segments meet at a small angle; ``"boundary kept"``: the
        point would encroach on a segment that may not be split; ``"no digits left"``: rounding
        moves the point out of the circumcircle; ``"budget"``: ``max_points`` was reached.
    """

    mesh: Mesh
    rounds: int
    added: int
    unmet: dict[str, int]


Devices = str | Device | Sequence[str | Device] | None


def refine(
    source: Any,
    min_angle: float = 20.0,
    max_area: float | str | ArrayLike | None = None,
    size: SizeField | ArrayLike | None = None,
    *,
    max_angle: float | None = None,
    max_radius_edge: float | None = None,
    boundary: str = "split",
    max_points: int | None = None,
    conforming: bool = False,
    deterministic: bool = False,
    device: Devices = None,
    progress: Progress | None = None,
) -> Mesh:
    """Refine a constrained Delaunay triangulation until its angles, areas and edges are good.

    Parameters
    ----------
    source : Mesh, Pslg, path, (n, 2) array, or object of another library
        A mesh is constrained Delaunay; its segments and hull are kept, split where needed.  A file
        with triangles and arguments of `Mesh.of` are meshes; all else is triangulated
        first, see `morph.triangulate`.
    min_angle : float
        In degrees, 0 to 34.  Above 26.45 the method is not proven to end, but does in practice;
        where two segments meet in less than 60 degrees, small angles may stay beside them.
    max_area : float, (m,) array or "regions", optional
        Largest area of a triangle, in squared units of the coordinates; or, for each input triangle
        (nan, 0 or less: any), of those whose middle lies in it; or that of its region, see `Mesh`.
    size : float, (n,) array or callable, optional
        Edge length wanted at each input point, and linear in between; or a function that gives it
        for points, ``(k, 2) -> (k,)``.  No edge is longer than the mean of the sizes at its ends.
    max_angle : float, optional
        In degrees, 112 to 180: no angle is larger, except beside small input angles.  In a
        triangle with an angle larger than A another angle is smaller than (180 - A) / 2, so
        ``min_angle=30`` implies ``max_angle=120``, but needs more triangles.
    max_radius_edge : float, optional
        Largest ratio of circumradius to shortest edge, 0.8942 or more.  A ratio B is equivalent to
        a smallest angle of arcsin(1 / (2 B)): 30 degrees for 1, 20.7 for the square root of 2.  The
        stricter one of this and ``min_angle`` applies.
    boundary : {"split", "keep-hull", "keep-all"}
        Which segments may get points: all, those inside, none.
    max_points : int, optional
        The largest number of added points; then refinement stops.
    conforming : bool
        Whether no vertex may lie in the diametral circle of a segment, so that the triangulation is
        Delaunay across segments, too, as with Triangle's ``-D``.  Otherwise a segment is split only
        if a visible vertex is so near that angles would violate the limits, which makes fewer
        triangles.
    deterministic : bool
        Whether the result is the same to the last byte for any number of threads and on a GPU, with
        its triangles in the same order; it takes up to twice as long.
    device : str or Device, or list of these, optional
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"python"``.  By default that of a mesh
        or points on a GPU, else see `morph.set_device`, else ``"auto"``.  Of a list, each refines a
        part of the mesh, which lies on the host; ``deterministic`` results depend on the number of
        devices.
    progress : callable, optional
        Called after each round with (rounds, bad triangles left, triangles); the rounds then run
        launch by launch.  On several devices a round is one of parts.

    Returns
    -------
    Mesh
        Points of the input first, new ones after; triangles and segments in no particular order.
        New points on a segment have its marker, others 0; at the hull, a marker 0 becomes 1.

    Raises
    ------
    ValueError
        If an option is out of range or of the wrong type, or coordinates are too large, too small
        or too close.
    MeshError
        If the mesh is not a constrained Delaunay triangulation.
    """
    options: dict[str, Any] = {"boundary": boundary, "max_points": max_points}
    options |= {"conforming": conforming, "deterministic": deterministic}
    options |= {"max_angle": max_angle, "max_radius_edge": max_radius_edge}
    options |= {"device": device, "progress": progress}
    return refine_with_report(source, min_angle, max_area, size, **options).mesh


def refine_with_report(
    source: Any,
    min_angle: float = 20.0,
    max_area: float | str | ArrayLike | None = None,
    size: SizeField | ArrayLike | None = None,
    *,
    max_angle: float | None = None,
    max_radius_edge: float | None = None,
    boundary: str = "split",
    max_points: int | None = None,
    conforming: bool = False,
    deterministic: bool = False,
    device: Devices = None,
    progress: Progress | None = None,
) -> Refined:
    """Refine as `refine` does; report the number of rounds and the limits that are not met.

    Returns
    -------
    Refined
    """
    asked = request_of(
        min_angle, max_angle, max_radius_edge, boundary, max_points, conforming, deterministic
    )  # fmt: skip
    check_callable(progress, "progress")
    devices = _devices(device, source)
    where = devices[0]
    mesh = as_mesh(source, where)
    if asked.deterministic and mesh is not source:
        mesh = canonical(mesh, where)
    area, limits = area_limits(mesh, max_area, where)
    sizes = sizes_at_points(mesh, size)
    if not len(mesh.triangles):
        return Refined(mesh, 0, 0, {})
    asked = replace(
        asked, max_area=area, has_limits=limits is not None, has_sizes=sizes is not None
    )  # fmt: skip

    def measured(part: Graph, scale: float, known: int) -> int:
        return _measure(part, mesh, size, sizes, scale, known)

    if asked.is_common:
        _compile_ahead(mesh, asked, devices)
    if len(devices) == 1:
        fine, rounds, left = _refined(mesh, asked, limits, sizes, where, measured, progress)
    else:
        host = mesh.to("cpu")
        fine, rounds, left = refine_parts(host, asked, limits, sizes, devices, measured, progress)
        fine = fine.to(mesh.device)
    unmet = {reason: n for reason, n in zip(REASONS, left, strict=True) if n}
    return Refined(fine, rounds, len(fine.points) - len(mesh.points), unmet)


def _compile_ahead(mesh: Mesh, asked: Request, devices: Sequence[Device]) -> None:
    """Begin to compile the units of a call that asks for a smallest angle, and a largest area."""
    if len(devices) == 1:
        segments_first = puts_segments_first(mesh, asked, devices[0].kind)
        compile_ahead("refine segments first" if segments_first else "refine", devices[0])
    elif math.isinf(asked.max_area):
        compile_ahead("refine parts", devices[0])


def _refined(
    mesh: Mesh, asked: Request, limits: Any, sizes: Any, where: Device,
    measure: Callable[[Graph, float, int], int], progress: Progress | None,
) -> tuple[Mesh, int, list[int]]:  # fmt: skip
    """Refine a mesh on one device."""
    with counting("transfer"):
        near = mesh.to(where.array_device(3 * len(mesh.triangles)))
        if asked.deterministic:
            near = least_first(near)
        box = bounds(near)
        scale = scale_of(near, box)
        g = to_tables(near, where, scale, limits, sizes, keep=not asked.deterministic)
    kept = KeptObjects.of(g)
    try:
        refuse_defects(g, mesh)
        params = parameters_of(near, asked, scale, where, box, kept)[0]
        rounds, left = refine_tables(g, params, progress, lambda known: measure(g, scale, known))
        with counting("transfer"):
            fine = from_tables(g, near, scale, mesh.device)
    except BaseException:
        g.dissolve()
        raise
    kept.release(tables_name(where))
    return fine, rounds, left


def _devices(device: Devices, source: Any) -> list[Device]:
    """Give the devices that refine."""
    if isinstance(device, str | Device) or not isinstance(device, Sequence):
        array = source.points if isinstance(source, Mesh) else source
        return [device_for(device, array, otherwise="auto")]
    if not device:
        raise ValueError("device is a list of no devices")
    return [device_for(d) for d in device]


def _measure(g: Graph, mesh: Mesh, size: Any, sizes: Any, scale: float, known: int) -> int:
    """Set the sizes wanted at points from ``known`` on; return the number of points."""
    n = len(g.points)
    if sizes is not None and known < n:
        rows = rows_of_mesh(g)
        device, host = rows.device, rows.device.to_host
        with device.active():
            point = device.xp.arange(n)[rows.point]
            xy = host(device.asarray(g.points.xy.array)[rows.point]) / scale
            origin = host(device.asarray(g.triangles.origin.array)[rows.triangle])
        if callable(size):
            new = field_values(size, xy[known:])
        else:
            old = sizes[:, None]
            new = interpolated(mesh.to("cpu"), old, xy, host(rows.node), origin, known)[:, 0]
        wanted = np.empty(n - known)
        wanted[host(point)[known:] - known] = np.minimum(new, HUGE) * scale
        g.points.wanted[known:] = wanted
    return n
