"""Options of refinement, checked and converted to the form that kernels read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from morph.algorithms.refinement.quality import BUCKETS, DIGITS
from morph.algorithms.triangulation.exterior import unite
from morph.algorithms.triangulation.kept import KeptObjects
from morph.algorithms.triangulation.scaling import bounds
from morph.algorithms.triangulation.tables import to_tables
from morph.algorithms.triangulation.triangulate import triangulate
from morph.data.collection import Set
from morph.data.table import Table
from morph.language.arguments import boolean, check_choice, check_number, integer
from morph.language.dtypes import vec
from morph.language.messages import shown
from morph.launch.foreach import foreach, kernel
from morph.mesh import Mesh
from morph.mesh.arrays import real_array
from morph.prelude import atomic_max, f64, i32, i64, orient2d
from morph.runtime.device import Device

if TYPE_CHECKING:
    from morph.data.row import Row

MAX_ANGLE = 34.0
LEAST_WIDE = 180 - 2 * MAX_ANGLE  # a larger angle makes another one smaller than MAX_ANGLE
LEAST_RATIO = 0.5 / math.sin(math.radians(MAX_ANGLE))
PROVEN_ANGLE = 26.45  # up to here, refinement is proven to end (Miller, Pav, Walkington 2003)
# Encroached segments come first if the angle in degrees exceeds SEGMENTS_FIRST_ANGLE (1 to 2 %
# fewer triangles, but a quarter more time on a GPU, as rounds are small); in meshes of fewer than
# SMALL triangles without size limits, which may be graded like a coast; and with fewer than
# MANY_SEGMENTS triangles per segment.
SEGMENTS_FIRST_ANGLE = {"cuda": MAX_ANGLE, "cpu": 30.0, "python": 30.0}
SMALL = 10_000
MANY_SEGMENTS = 16
FEW_BUCKETS = 24  # enough otherwise, and each costs a pass over the waiting triangles
BOUNDARIES = ("split", "keep-hull", "keep-all")
# the next bucket becomes active when fewer triangles are active than the first number and than one
# in so many (the second) of those that wait: more would conflict, fewer leave a GPU idle
MOST_ACTIVE = {"cuda": (16000, 8), "cpu": (2000, 64), "python": (2000, 64)}
SEGMENTS_PORTION = 256  # the portion where segments come first
DEFERRAL_THRESHOLD = 512  # in deterministic rounds of more items some wait, see `is_preceded`
UNLIMITED = 1 << 62
HUGE = 1e150  # instead of an infinite size, which cannot be interpolated

Floats = NDArray[np.float64]
SizeField = Callable[[Floats], ArrayLike]


@dataclass(frozen=True)
class Request:
    """The requirements of a mesh, checked.

    The first ones are options of `refine`, see `request_of`; the others depend on its input.

    Attributes
    ----------
    max_angle : float
        In degrees; 180 is no limit.
    max_area : float
        Of all triangles; infinite if not limited, or if each has a limit (``has_limits``).
    has_limits, has_sizes : bool
        Whether the tables have the columns ``inputs.limit`` and ``points.wanted``.
    has_border : bool
        Whether the tables have a part of the mesh.
    """

    min_angle: float
    max_angle: float = 180.0
    boundary: str = "split"
    max_points: int | None = None
    conforming: bool = False
    deterministic: bool = False
    max_area: float = math.inf
    has_limits: bool = False
    has_sizes: bool = False
    has_border: bool = False

    @property
    def is_common(self) -> bool:
        """Whether only the smallest angle and one largest area are required."""
        return self == Request(self.min_angle, max_area=self.max_area)

    @property
    def lens_angle(self) -> float:
        """The angle of a segment's lens, which has all points that make an angle miss its limit."""
        return max(self.min_angle, (180 - self.max_angle) / 2)


def parameters_of(
    mesh: Mesh, asked: Request, scale: float, where: Device, box: Any = None,
    kept: KeptObjects | None = None,
) -> Table:  # fmt: skip
    """Make the row of limits that kernels compare with; unused options have no column.

    ``box`` is that of `bounds`, if it is known; ``kept`` may have a table of these columns.
    """
    cosine = math.cos(math.radians(asked.min_angle))
    # min_angle = 0 is no limit, however the cosine of a flat angle is rounded
    cos2 = cosine**2 if asked.min_angle else 2.0
    low, high = (bounds(mesh) if box is None else box) * scale
    extent = high - low
    area = float(extent.prod()) / len(mesh.triangles)
    reach = 0.475 * math.sqrt((1 + cosine) / max(1 - cosine, 1e-9))
    floor = float(extent.max() * 2.0**-128) ** 2  # fourth powers of lengths are numbers
    unit = float(max(abs(low).max(), abs(high).max())) * DIGITS  # last place
    columns: dict[str, Any] = {
        "cos2": cos2,
        "proven": max(cos2, math.cos(math.radians(PROVEN_ANGLE)) ** 2),
        "area": asked.max_area * scale * scale,
        "resolution": 1.0625 * max(unit * unit, floor),
        "reach": reach,
        "middle": (reach * reach - 0.25) / (2.0 * reach),  # see `last_in_petal`
        "floor": floor,
        "scale": 0.5 / max(area, 1e-300),
        # a point in the lens of a segment makes an angle miss its limit, there or at an end
        "lens": math.cos(math.radians(2 * asked.lens_angle)) ** 2,
    }
    if asked.max_angle < 180:
        wide = math.cos(math.radians(asked.max_angle)) ** 2
        columns["wide"] = wide
        columns["proven_wide"] = max(wide, math.cos(math.radians(2 * PROVEN_ANGLE)) ** 2)
    types: dict[str, Any] = dict.fromkeys(columns, f64)
    kind = "cpu" if asked.deterministic else where.kind
    segments_first, (most, portion) = puts_segments_first(mesh, asked, kind), MOST_ACTIVE[kind]
    for name, wanted, spec, value in (
        ("bucket", True, i32, -1),
        ("excused", True, i32, 0),  # whether a triangle was given up though it misses a limit
        ("first_bucket", True, i32, 0 if segments_first else BUCKETS - FEW_BUCKETS),
        ("most", True, i64, most),
        ("portion", True, i64, SEGMENTS_PORTION if segments_first else portion),
        ("least", True, i64, 1 if segments_first else 64),
        ("segments_first", segments_first, i32, 1),
        ("has_limits", asked.has_limits, i32, 1),
        ("has_sizes", asked.has_sizes, i32, 1),
        ("conforming", asked.conforming, i32, 1),
        ("has_border", asked.has_border, i32, 1),
        ("keep_hull", asked.boundary == "keep-hull", i32, 1),
        ("keep_all", asked.boundary == "keep-all", i32, 1),
        ("points_left", asked.max_points is not None, i64, asked.max_points),
        # the id of the next point; the number of points, and of entries of ``waiting``, for which
        # stores have capacity
        ("next_id", asked.deterministic, i64, len(mesh.points)),
        ("item_capacity", asked.deterministic, i64, 0),
        ("waiting_capacity", asked.deterministic, i64, 0),
        ("deferral_threshold", asked.deterministic, i64, DEFERRAL_THRESHOLD),
    ):
        if wanted:
            types[name], columns[name] = spec, value
    if kept is None:
        parameters = Table("parameters", where, **types)
    else:
        parameters = kept.table(" ".join(("parameters", *types)), **types)
    parameters.new(**columns)
    return parameters


def has_points(params: Row) -> bool:
    """Whether a point may still be added."""
    return "points_left" not in params.table.columns or bool(params.points_left > 0)


def puts_segments_first(mesh: Mesh, asked: Request, kind: str) -> bool:
    """Whether encroached segments are split before all else, and the order is finer.

    In coasts, features differ by many octaves, and most triangles lie beside a segment.
    """
    unlimited = math.isinf(asked.max_area) and not (asked.has_limits or asked.has_sizes)
    small = len(mesh.triangles) < SMALL and unlimited
    many = MANY_SEGMENTS * len(mesh.segments) > len(mesh.triangles)
    return asked.lens_angle > SEGMENTS_FIRST_ANGLE[kind] or many or small


def _number(x: Any, name: str) -> Any:
    """Return a real number, also that of an array without dimensions; `TypeError` for all else."""
    value = x.item() if getattr(x, "ndim", None) == 0 else x
    check_number(value, name)
    return value


def angle_bounds(
    min_angle: float, max_angle: float | None, max_radius_edge: float | None
) -> tuple[float, float]:
    """Give the least and the largest angle that are asked for, in degrees.

    A triangle's ratio of circumradius to shortest edge is 1 / (2 sin(smallest angle)).

    Raises
    ------
    ValueError
        If a bound is out of range.
    """
    if not 0 <= _number(min_angle, "min_angle") <= MAX_ANGLE:
        raise ValueError(f"min_angle is from 0 to {MAX_ANGLE:g} degrees, not {shown(min_angle)}")
    least, most = float(min_angle), 180.0
    if max_angle is not None:
        if not LEAST_WIDE <= _number(max_angle, "max_angle") <= 180:
            bounds = f"{LEAST_WIDE:g} to 180 degrees"
            raise ValueError(f"max_angle is from {bounds}, not {shown(max_angle)}")
        most = float(max_angle)
    if max_radius_edge is not None:
        if not LEAST_RATIO <= _number(max_radius_edge, "max_radius_edge"):
            angle = f"{LEAST_RATIO:.4f}, which is a smallest angle of {MAX_ANGLE:g} degrees"
            raise ValueError(f"max_radius_edge is at least {angle}, not {shown(max_radius_edge)}")
        least = max(least, math.degrees(math.asin(0.5 / max_radius_edge)))
    return least, most


def request_of(
    min_angle: float,
    max_angle: float | None,
    max_radius_edge: float | None,
    boundary: str,
    max_points: int | None,
    conforming: bool,
    deterministic: bool,
) -> Request:
    """Check the options of `refine` that do not depend on its input.

    Raises
    ------
    ValueError, TypeError
        Naming the option.
    """
    least, most = angle_bounds(min_angle, max_angle, max_radius_edge)
    check_choice(boundary, "boundary", BOUNDARIES)
    if max_points is not None:
        max_points = integer(max_points, "max_points")
        if not 0 <= max_points < UNLIMITED:
            bounds = "0 or more" if max_points < 0 else "below 2**62"
            raise ValueError(f"max_points must be {bounds}, not {shown(max_points)}")
    return Request(
        least, most, boundary, max_points,
        conforming=boolean(conforming, "conforming"),
        deterministic=boolean(deterministic, "deterministic"),
    )  # fmt: skip


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
def find_containing(t, seeds):
    """Write the row of a triangle to each seed that it contains."""
    a, b, c = t.node
    for p in seeds:
        if (
            orient2d(a.xy, b.xy, p.xy) >= 0
            and orient2d(b.xy, c.xy, p.xy) >= 0
            and orient2d(c.xy, a.xy, p.xy) >= 0
        ):
            atomic_max(p.triangle, t.id)


def regions_of(mesh: Mesh, where: Device) -> NDArray[np.int64]:
    """Give the row in ``mesh.regions`` that each triangle belongs to, or -1.

    A region is the part of the mesh that no segment separates from its seed; of two seeds in a
    part, the later one counts, and a seed outside of the mesh has no effect.
    """
    rows = np.full(len(mesh.triangles), -1, np.int64)
    if not len(mesh.regions):
        return rows
    g = to_tables(mesh, where)
    seeds = Table("seeds", where, xy=vec(f64, 2), triangle=i32)
    seeds.extend(len(mesh.regions), xy=mesh.regions[:, :2], triangle=-1)
    parts = Set(g.triangles)
    foreach(g.triangles, unite, g, parts)
    foreach(g.triangles, find_containing, seeds)
    label = where.to_host(parts.labels())
    for row, t in enumerate(where.to_host(seeds.triangle.array).tolist()):
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
    """Evaluate a size field at ``points``, shape (k, 2), on the host."""
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
    """Return a mesh as it is, read one from a file, or triangulate other sources."""
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
    elif Mesh.accepts(source):
        return Mesh.of(source)
    made: Mesh = triangulate(source, device=where)
    return made
