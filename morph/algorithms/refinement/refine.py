"""Delaunay refinement: add points to a triangulation until it is as fine and as round as asked.

A bad triangle, one with a small angle, a large area or a long edge, is destroyed by inserting a
point as far from all vertices as one that improves it can be (Erten, Ungor 2009): the *cavity*, all
triangles whose circumcircle holds the point, is replaced by a fan around it.  A segment with a
visible vertex in its diametral lens is split first of all; a point that would encroach on one so
(or lie behind it) is not inserted, and the segment is split instead (Chew 1993; Shewchuk 2002), at
its middle or, next to an input vertex, on concentric shells of power-of-two radius, so that small
input angles end.  If the mesh is to be conforming Delaunay, the circle over a segment takes the
place of its lens (Ruppert 1995).  Cavities are refined in
parallel: an item claims its cavity with ``single`` and guards the ring around it
(Unnikrishnan et al., Falcon, figures 37 to 39; claims as in Blelloch et al. 2012).

Work is about 10 triangles read for each of the output; rounds grow with the logarithm of the size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from morph.algorithms.refinement.cavity import LEVELS
from morph.algorithms.refinement.deterministic import Births
from morph.algorithms.refinement.kernels import REASONS, find_bad, find_flaw, find_left, mend
from morph.algorithms.refinement.parameters import (
    FAR,
    SizeField,
    area_limits,
    asked,
    check_options,
    goals_of,
    scale_of,
    sizes_at_points,
    triangulated,
)
from morph.algorithms.triangulation.options import function, truth
from morph.algorithms.triangulation.tables import graph_of, interpolated, mesh_of, rows_of
from morph.algorithms.triangulation.ties import settled
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach
from morph.mesh import Mesh, MeshError, Pslg
from morph.prelude import i8, i32, i64
from morph.runtime.device import Device
from morph.runtime.device import device as device_of
from morph.runtime.timing import counting

if TYPE_CHECKING:
    from morph.data.row import Row


# so few bad triangles in work, or this part of all so far, that the next level is begun: more are
# in each other's way, and make more triangles; fewer leave a GPU idle
FEW, FEW_GPU = (2000, 64), (16000, 8)
STRICT = 256  # the part where the order is strict
MANY = 1 << 40  # rounds


class Refined(NamedTuple):
    """What refinement gave.

    Attributes
    ----------
    mesh : Mesh
    rounds : int
        Launches of all bad triangles at once.
    added : int
        Points added.
    unmet : dict of str to int
        How many triangles are not as asked, by reason; empty if all are.
        ``"floor"``: it is as fine as the coordinates' digits allow;
        ``"small input angle"``: two segments meet so; ``"boundary kept"``: a segment that may not
        be split is in the way; ``"no digits left"``: rounding would put the point outside of its
        own circle; ``"budget"``: there was no point left.
    """

    mesh: Mesh
    rounds: int
    added: int
    unmet: dict[str, int]


Source = Mesh | Pslg | str | os.PathLike[str] | ArrayLike
Progress = Callable[[int, int, int], None]


def refine(
    source: Source,
    min_angle: float = 20.0,
    max_area: float | str | ArrayLike | None = None,
    size: SizeField | ArrayLike | None = None,
    *,
    boundary: str = "split",
    max_points: int | None = None,
    conforming: bool = False,
    deterministic: bool = False,
    device: str | Device = "auto",
    progress: Progress | None = None,
) -> Mesh:
    """Refine a constrained Delaunay triangulation until its angles, areas and edges are good.

    Parameters
    ----------
    source : Mesh, Pslg, path or (n, 2) array
        A mesh is constrained Delaunay; its segments and hull are kept, split where needed.  A file
        with triangles is read as a mesh; all else is triangulated first, see `morph.triangulate`.
    min_angle : float
        In degrees, 0 to 34.  Above 20.7 the method is not proven to end, but does in practice;
        where two segments meet in less than 60 degrees, small angles may stay beside them.
    max_area : float, (m,) array or "regions", optional
        Largest area of a triangle, in squared units of the coordinates; or, for each input triangle
        (nan, 0 or less: any), of those whose middle lies in it; or that of its region, see `Mesh`.
    size : float, (n,) array or callable, optional
        Edge length wanted at each input point, and linear in between; or a function that gives it
        for points, ``(k, 2) -> (k,)``.  No edge is longer than the mean of the sizes at its ends.
    boundary : {"split", "keep-hull", "keep-all"}
        Which segments may get points: all, those inside, none.
    max_points : int, optional
        How many points may be added; the rest stays as it is.
    conforming : bool
        Whether no vertex may lie in the diametral circle of a segment, so that the triangulation is
        Delaunay across segments, too, as with Triangle's ``-D``.  Else a segment is split only
        where a vertex visible from it lies so near that angles would be smaller than asked, which
        makes fewer triangles.
    deterministic : bool
        Whether the result is the same to the last byte for any number of threads and on a GPU, its
        triangles sorted; it takes two to three times as long on a CPU.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"python"``.
    progress : callable, optional
        Called after each round with (rounds, bad triangles left, triangles); the rounds then run
        launch by launch.

    Returns
    -------
    Mesh
        Points of the input first, new ones after; triangles in no particular order.  New points on
        a segment have its marker, others 0; at the hull, a marker 0 becomes 1.

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
    options |= {"device": device, "progress": progress}
    return refine_with_report(source, min_angle, max_area, size, **options).mesh


def refine_with_report(
    source: Source,
    min_angle: float = 20.0,
    max_area: float | str | ArrayLike | None = None,
    size: SizeField | ArrayLike | None = None,
    *,
    boundary: str = "split",
    max_points: int | None = None,
    conforming: bool = False,
    deterministic: bool = False,
    device: str | Device = "auto",
    progress: Progress | None = None,
) -> Refined:
    """Refine as `refine` does, and tell how it went and what could not be met.

    Returns
    -------
    Refined
    """
    check_options(min_angle, boundary, max_points)
    min_angle, deterministic = float(min_angle), truth("deterministic", deterministic)
    conforming = truth("conforming", conforming)
    max_points = None if max_points is None else int(max_points)
    function("progress", progress)
    where = device_of(device)
    mesh = triangulated(source, where)
    if deterministic and mesh is not source:
        mesh = settled(mesh, where)
    area, limits = area_limits(mesh, max_area, where)
    sizes = sizes_at_points(mesh, size)
    if not len(mesh.triangles):
        return Refined(mesh, 0, 0, {})
    scale = scale_of(mesh)
    with counting("transfer"):
        g = graph_of(mesh, where, scale, limits, sizes)
    flaw = Flag(g)
    foreach(g.triangles, find_flaw, g, flaw)
    if flaw:
        mesh.check()  # says what is wrong
        raise MeshError(mesh.violations())
    options = {"limited": limits is not None, "sized": sizes is not None, "conforming": conforming}
    goal = goals_of(mesh, min_angle, area, boundary, max_points, scale, where, **options)[0]
    rounds, left = _mend(
        g, goal, deterministic, progress, lambda known: _measure(g, mesh, size, sizes, scale, known)
    )
    with counting("transfer"):
        fine = mesh_of(g, mesh, scale)
    unmet = {reason: n for reason, n in zip(REASONS, left, strict=True) if n}
    return Refined(fine, rounds, len(fine.points) - len(mesh.points), unmet)


def _mend(
    g: Graph,
    goal: Row,
    deterministic: bool,
    progress: Progress | None,
    measure: Callable[[int], int],
) -> tuple[int, list[int]]:
    """Refine until nothing is left that can be mended; return rounds, and what is left by reason.

    What was given up for what stood beside it is looked at again; so is all when sizes at new
    points, interpolated until then, are measured.
    """
    m = len(g.triangles)
    kinds: dict[str, Any] = {"apex": Ref(g.points), "level": i8}
    kinds |= {"order": i64} if deterministic else {}
    near, again, far = (Collection(g.triangles, capacity=c, **kinds) for c in (m, m, 2 * m))
    for work in (near, again):
        work.pack("item", "apex", "level")
    births, urgent = Births(g) if deterministic else None, Flag(g)
    counts = Table("counts", g.device, n=vec(i32, len(REASONS)))
    counts.new()
    rounds, known = 0, len(g.points)
    foreach(g.triangles, find_bad, far, g, goal)
    while True:
        most, part = FEW if deterministic or g.device.on_host else FEW_GPU
        least = 64
        if "strict" in goal.table.columns:
            part, least = STRICT, 1
        if births is not None:
            births.number(far)
        goal.level = -1
        while not (near.empty and goal.level == LEVELS - 1) and _affords(goal):
            turns = 1 if progress else MANY
            if births is not None:
                rounds += births.mend(near, again, far, goal, (most, part, least), turns, urgent)
            else:
                rounds += mend(g, near, again, far, urgent, goal, most, part, least, turns)
            if near.empty:
                near, again = again, near
            if progress is not None:
                progress(rounds, len(near) + _waiting(far, goal.level), len(g.triangles))
        known = measure(known)
        for work in (near, again, far):
            work.clear()
        counts.n[:] = 0
        foreach(g.triangles, find_left, g, far, counts[0], goal)
        if far.empty or not _affords(goal):
            left: list[int] = g.device.to_host(counts.n.array)[0].tolist()
            return rounds, left


def _waiting(far: Collection, level: int) -> int:
    """How many entries are not due yet."""
    return int((far.level.array > level).sum())


def _affords(goal: Row) -> bool:
    return "left" not in goal.table.columns or goal.left > 0


def _measure(g: Graph, mesh: Mesh, size: Any, sizes: Any, scale: float, known: int) -> int:
    """Set the sizes wanted at points from ``known`` on; return the number of points."""
    n = len(g.points)
    if sizes is not None and known < n:
        host, rows = g.device.to_host, rows_of(g)
        with g.device.active():
            point = g.device.xp.arange(n)[rows.point]
        xy = host(g.points.xy.array[rows.point]) / scale
        if callable(size):
            new = asked(size, xy[known:])
        else:
            origin = host(g.triangles.origin.array[rows.triangle])
            new = interpolated(mesh, sizes[:, None], xy, host(rows.node), origin)[known:, 0]
        wanted = np.empty(n - known)
        wanted[host(point)[known:] - known] = np.minimum(new, FAR) * scale
        g.points.wanted[known:] = wanted
    return n
