"""What the caller asks of a refined mesh, checked and brought to the form that kernels read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from morph.algorithms.refinement.cavity import BUCKETS
from morph.algorithms.triangulation.options import choice, integer, number
from morph.algorithms.triangulation.tables import segment_of_sides
from morph.algorithms.triangulation.triangulate import triangulate
from morph.data.collection import Set
from morph.data.table import Table
from morph.language.dtypes import Ref, vec
from morph.language.messages import shown
from morph.launch.foreach import foreach, kernel
from morph.mesh import Mesh
from morph.mesh.arrays import real_array
from morph.prelude import atomic_max, f64, i32, i64, orient2d
from morph.runtime.device import Device

MAX_ANGLE = 34.0
PROVEN_ANGLE = 26.45  # up to here, refinement is proven to end (Miller, Pav, Walkington 2003)
STRICT_ANGLE = 30.0  # above it the order matters: 3 to 10 % fewer triangles on a GPU
SMALL = 10_000  # triangles of a mesh whose points may be graded as a coast: order is cheap there
MANY_SEGMENTS = 16  # one for so many triangles: the order in which they are mended matters
FEW_BUCKETS = 24  # enough for points without segments, and each costs a look at what waits
BOUNDARIES = ("split", "keep-hull", "keep-all")
UNLIMITED = 1 << 62
HUGE = 1e150  # instead of an infinite size, which cannot be interpolated

Floats = NDArray[np.float64]
SizeField = Callable[[Floats], ArrayLike]


def bounds(mesh: Mesh) -> Floats:
    """Return the lowest and the highest coordinates, shape (2, 2), on the host."""
    where = mesh.device
    with where.active():
        x, y = mesh.points[:, 0], mesh.points[:, 1]  # one by one: NumPy is many times as fast then
        ends = where.xp.stack([x.min(), y.min(), x.max(), y.max()]).reshape(2, 2)
        return np.asarray(where.to_host(ends))


def scale_of(mesh: Mesh) -> float:
    """Return the power of two that brings coordinates to where their fourth powers are numbers.

    Products by it are exact, so a mesh is refined alike at 1e-100 and at 1.

    Raises
    ------
    ValueError
        If coordinates are beyond 1e140, or nothing is as large as 1e-140, or the smallest of them
        would lose digits.
    """
    box = bounds(mesh)
    most, extent = float(np.abs(box).max()), float((box[1] - box[0]).max())
    if not (extent >= 1e-140 and most <= 1e140):
        raise ValueError(
            f"coordinates up to {most:g}, {extent:g} apart: refinement needs them within 1e140,"
            " and at least 1e-140 apart"
        )
    if 2.0**-40 < extent and most < 2.0**40:
        return 1.0
    scale = 2.0 ** -math.frexp(most)[1]
    if not bool((mesh.points * scale / scale == mesh.points).all()):
        raise ValueError(f"coordinates up to {most:g} and others near 0 do not fit one scale")
    return scale


def parameters_of(
    mesh: Mesh,
    min_angle: float,
    max_area: float,
    boundary: str,
    max_points: int | None,
    scale: float,
    where: Device,
    conforming: bool = False,
    limited: bool = False,
    sized: bool = False,
) -> Table:
    """Make the row of numbers that kernels compare with; an option not used is no column."""
    cosine = math.cos(math.radians(min_angle))
    cos2 = cosine**2 if min_angle else 2.0
    box = bounds(mesh) * scale
    extent = box[1] - box[0]
    area = float(extent.prod()) / len(mesh.triangles)
    columns: dict[str, Any] = {
        # min_angle = 0 asks nothing, however the cosine of a flat angle is rounded
        "cos2": cos2,
        "proven": max(cos2, math.cos(math.radians(PROVEN_ANGLE)) ** 2),
        "area": max_area * scale * scale,
        "reach": 0.475 * math.sqrt((1 + cosine) / max(1 - cosine, 1e-9)),
        "floor": float(extent.max() * 2.0**-128) ** 2,  # fourth powers of lengths are numbers
        "scale": 0.5 / max(area, 1e-300),
        # a point from which a segment is seen so cannot have angles as asked at its ends
        "lens": math.cos(math.radians(2 * min_angle)) ** 2,
    }
    # coasts: their features differ by many octaves, and most triangles lie beside a segment
    many = MANY_SEGMENTS * len(mesh.segments) > len(mesh.triangles)
    small = len(mesh.triangles) < SMALL and math.isinf(max_area) and not (limited or sized)
    segments_first = min_angle > STRICT_ANGLE or many or small
    types: dict[str, Any] = dict.fromkeys(columns, f64)
    for name, wanted, kind, value in (
        ("bucket", True, i32, -1),
        ("first_bucket", True, i32, 0 if segments_first else BUCKETS - FEW_BUCKETS),
        ("segments_first", segments_first, i32, 1),
        ("has_limits", limited, i32, 1),
        ("has_sizes", sized, i32, 1),
        ("conforming", conforming, i32, 1),
        ("keep_hull", boundary == "keep-hull", i32, 1),
        ("keep_all", boundary == "keep-all", i32, 1),
        ("points_left", max_points is not None, i64, max_points),
    ):
        if wanted:
            types[name], columns[name] = kind, value
    parameters = Table("parameters", where, **types)
    parameters.new(**columns)
    return parameters


def check_options(min_angle: float, boundary: str, max_points: int | None) -> None:
    """Refuse options out of range.

    Raises
    ------
    ValueError
    """
    if not 0 <= number("min_angle", min_angle) <= MAX_ANGLE:
        raise ValueError(f"min_angle is from 0 to {MAX_ANGLE:g} degrees, not {shown(min_angle)}")
    choice("boundary", boundary, BOUNDARIES)
    if max_points is not None and not 0 <= integer("max_points", max_points) < UNLIMITED:
        raise ValueError(f"max_points must be 0 or more, not {shown(max_points)}")


def area_limits(
    mesh: Mesh, max_area: float | str | ArrayLike | None, where: Device
) -> tuple[float, Floats | None]:
    """Split ``max_area`` into one number for all triangles and, if there are, a limit for each.

    Raises
    ------
    ValueError
        If a number is not positive, an array has not one entry for each triangle, or a name
        is not ``"regions"``.
    """
    if max_area is None:
        return math.inf, None
    if isinstance(max_area, str):
        if max_area != "regions":
            raise ValueError(f"max_area is a number, an array or 'regions', not {shown(max_area)}")
        return math.inf, region_limits(mesh, where)
    limits = real_array("max_area", max_area)
    if limits.ndim == 0:
        if not limits > 0:
            raise ValueError(f"max_area must be positive, not {shown(max_area)}")
        return float(limits), None
    if limits.shape != (len(mesh.triangles),):
        raise ValueError(
            f"max_area must have shape ({len(mesh.triangles)},), one a triangle, got {limits.shape}"
        )
    return math.inf, np.where(limits > 0, limits, math.inf)  # nan and <= 0: no limit


@kernel
def join(t, parts):
    """Unite a triangle with those behind its open sides."""
    for k in range(3):
        if t.open[k] is not None:
            parts.union(t, t.open[k])


@kernel
def find_region_points(t, places, points):
    """Note for each place a triangle that holds it."""
    a, b, c = points[t.corner[0]], points[t.corner[1]], points[t.corner[2]]
    for p in places:
        if (
            orient2d(a.xy, b.xy, p.xy) >= 0
            and orient2d(b.xy, c.xy, p.xy) >= 0
            and orient2d(c.xy, a.xy, p.xy) >= 0
        ):
            atomic_max(p.within, t.id)


def regions_of(mesh: Mesh, where: Device) -> NDArray[np.int64]:
    """Give the row in ``mesh.regions`` that each triangle belongs to, or -1.

    A region is all that no segment separates from its point; of two points in one, the later
    counts, and a point outside of the mesh has no effect.
    """
    rows = np.full(len(mesh.triangles), -1, np.int64)
    if not len(mesh.regions):
        return rows
    mesh = mesh.to("cpu")
    points = Table("corners", where, xy=vec(f64, 2))
    points.extend(xy=mesh.points)
    cells = Table("cells", where, corner=Ref("corners")[3], open=Ref("cells")[3])
    places = Table("places", where, xy=vec(f64, 2), within=i32)
    cells.extend(
        corner=mesh.triangles, open=np.where(segment_of_sides(mesh) < 0, mesh.neighbors, -1)
    )
    places.extend(xy=mesh.regions[:, :2], within=np.full(len(mesh.regions), -1, np.int32))
    parts = Set(cells)
    foreach(cells, join, parts)
    foreach(cells, find_region_points, places, points)
    label = where.to_host(parts.labels())
    for row, t in enumerate(where.to_host(places.within.array).tolist()):
        if t >= 0:
            rows[label == label[t]] = row
    return rows


def region_limits(mesh: Mesh, where: Device) -> Floats:
    """Give each triangle the area limit of its region; inf if it has none."""
    wanted = np.asarray(mesh.device.to_host(mesh.regions))[:, 3]
    limits = np.append(np.where(wanted > 0, wanted, math.inf), math.inf)  # the last is row -1
    return np.asarray(limits[regions_of(mesh, where)])


def sizes_at_points(mesh: Mesh, size: SizeField | ArrayLike | None) -> Floats | None:
    """Return the edge length wanted at each input point.

    Raises
    ------
    ValueError
        If there is not one number for each point, or one is not positive.
    """
    if size is None:
        return None
    points = mesh.device.to_host(mesh.points)
    if callable(size):
        return field_values(size, points)
    sizes = real_array("size", size)
    if sizes.ndim == 0:
        sizes = np.full(len(points), sizes)
    return _positive(sizes, points, "size")


def field_values(field: SizeField, points: Floats) -> Floats:
    """Ask a size field for its values at ``points``, shape (k, 2), on the host."""
    values = real_array("size(points)", field(points.copy()))
    return _positive(values, points, "size(points)")


def _positive(values: Floats, points: Floats, what: str) -> Floats:
    if values.shape != (len(points),):
        raise ValueError(f"{what} must have shape ({len(points)},), got {values.shape}")
    wrong = ~(values > 0)
    if wrong.any():
        row = int(wrong.argmax())
        x, y = points[row].tolist()
        raise ValueError(f"{what} must be positive, not {values[row]} at ({x:g}, {y:g})")
    return values


def as_mesh(source: Any, where: Device) -> Mesh:
    """Return a mesh as it is, read one from a file, or triangulate what is none yet."""
    if isinstance(source, Mesh):
        return source
    if isinstance(source, str | os.PathLike):
        base, suffix = os.path.splitext(os.fspath(source))
        if suffix not in (".node", ".ele", ".poly"):
            base += suffix
        if os.path.exists(base + ".ele"):
            return Mesh.read(base)
        known = any(os.path.exists(base + suffix) for suffix in (".node", ".poly"))
        if os.path.isfile(source) and base == os.fspath(source) and not known:
            return Mesh.read(source)  # a file of another format
    made: Mesh = triangulate(source, device=where)
    return made
