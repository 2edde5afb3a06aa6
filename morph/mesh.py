"""Triangle meshes on the host: plain NumPy arrays, with their quality and their picture."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from morph.verify import Violation, violations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

_CHUNK = 1 << 18  # triangles measured at once
WORD_BITS = 63  # of a packed, signed sort key


class MeshError(ValueError):
    """Arrays that make no mesh, or a mesh that breaks its invariants.

    Attributes
    ----------
    violations : list of Violation
        Every invariant that is broken.
    """

    def __init__(self, found: list[Violation]) -> None:
        super().__init__(found)
        self.violations = found

    def __str__(self) -> str:
        return "; ".join(f"{v.name}: {v.message}" for v in self.violations)


@dataclass(frozen=True)
class Quality:
    """What a mesh is worth.

    Attributes
    ----------
    points, triangles, segments : int
        Sizes.
    min_angle, max_angle : float
        Over all corners, in degrees; nan without triangles.
    area : float
        Of all triangles together, in squared units of the coordinates.
    min_area, max_area : float
        Of one triangle; nan without triangles.
    histogram : tuple of 18 int
        Number of angles in [0, 10), [10, 20), ... [170, 180] degrees.
    """

    points: int
    triangles: int
    segments: int
    min_angle: float
    max_angle: float
    area: float
    min_area: float
    max_area: float
    histogram: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them; None stands for nan."""
        values = asdict(self)
        values["histogram"] = list(self.histogram)
        return {k: None if v != v else v for k, v in values.items()}


def _empty(*shape: int, dtype: Any = np.int32) -> Callable[[], NDArray[Any]]:
    return lambda: np.empty(shape, dtype)


@dataclass(eq=False)
class Mesh:
    """A planar triangle mesh with constrained edges.

    Only ``points`` and ``triangles`` must be given; what is missing (or empty) is worked out.
    Every edge at the hull is a segment: those that ``segments`` lacks are added behind it.

    Parameters
    ----------
    points : (n, 2) float64 array
    triangles : (m, 3) int32 array
        Corners, counter-clockwise, as rows of ``points``.
    neighbors : (m, 3) int32 array
        The triangle across the edge opposite corner k; -1 at the hull.
    segments : (s, 2) int32 array
        Constrained edges.
    segment_markers : (s,) int32 array
        1 at the hull, 0 inside, unless given.
    point_markers : (n,) int32 array
        1 for points of the hull, 0 for others, unless given.
    point_attributes : (n, k) float64 array
    triangle_attributes : (m, k) float64 array
    holes : (h, 2) float64 array
        A point in each hole, which a ``.poly`` file names.
    regions : (r, 4) float64 array
        ``x, y, attribute, maximum area`` of each region, which a ``.poly`` file names.
    base : int
        Number of the first vertex in files: 0 or 1.  Arrays count from 0 whatever it is.

    Raises
    ------
    ValueError
        If a shape is wrong, or an index names no row.
    MeshError
        If several triangles lie on one side of an edge.
    """

    points: Floats
    triangles: Ints
    neighbors: Ints = field(default_factory=_empty(0, 3), repr=False)
    segments: Ints = field(default_factory=_empty(0, 2), repr=False)
    segment_markers: Ints = field(default_factory=_empty(0), repr=False)
    point_markers: Ints = field(default_factory=_empty(0), repr=False)
    point_attributes: Floats = field(default_factory=_empty(0, 0, dtype=np.float64), repr=False)
    triangle_attributes: Floats = field(default_factory=_empty(0, 0, dtype=np.float64), repr=False)
    holes: Floats = field(default_factory=_empty(0, 2, dtype=np.float64), repr=False)
    regions: Floats = field(default_factory=_empty(0, 4, dtype=np.float64), repr=False)
    base: int = 0

    def __post_init__(self) -> None:
        self.points = _shaped("points", self.points, np.float64, 2)
        n = len(self.points)
        self.triangles = _indices("triangles", self.triangles, 3, n)
        m = len(self.triangles)
        self.segments = _indices("segments", self.segments, 2, n)
        if m and len(self.neighbors) == 0:
            self.neighbors = find_neighbors(self.triangles, n)
        self.neighbors = _indices("neighbors", self.neighbors, 3, m, low=-1)
        if len(self.neighbors) != m:
            raise ValueError(f"neighbors has {len(self.neighbors)} rows for {m} triangles")
        self._complete_segments()
        if len(self.point_markers) == 0:
            self.point_markers = np.zeros(n, np.int32)
            self.point_markers[_hull(self)] = 1
        self.point_markers = _per_row("point_markers", self.point_markers, n, np.int32)
        self.point_attributes = _attributes("point_attributes", self.point_attributes, n)
        self.triangle_attributes = _attributes("triangle_attributes", self.triangle_attributes, m)
        self.holes = _shaped("holes", self.holes, np.float64, 2)
        self.regions = _shaped("regions", self.regions, np.float64, 4)

    def _complete_segments(self) -> None:
        """Make every hull edge a segment, and every segment marked."""
        n, given = len(self.points), len(self.segments)
        hull = _hull(self)
        keys = edge_keys(hull[:, 0], hull[:, 1], n)
        known = edge_keys(self.segments[:, 0], self.segments[:, 1], n)
        if given and len(self.segment_markers) == 0:
            self.segment_markers = np.isin(known, keys).astype(np.int32)
        markers = _per_row("segment_markers", self.segment_markers, given, np.int32)
        missing = hull[~np.isin(keys, known)]
        self.segments = np.concatenate([self.segments, missing])
        self.segment_markers = np.concatenate([markers, np.ones(len(missing), np.int32)])

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Mesh:
        """Read a mesh from ``.node``, ``.ele`` and, if there is one, ``.poly``.

        See `morph.io.read_mesh`.
        """
        from morph.io import read_mesh  # noqa: PLC0415

        return read_mesh(path)

    def write(self, base: str | os.PathLike[str]) -> None:
        """Write ``base.node``, ``base.ele`` and ``base.poly``.  See `morph.io.write_mesh`."""
        from morph.io import write_mesh  # noqa: PLC0415

        write_mesh(self, base)

    def quality(self) -> Quality:
        """Measure angles and areas; one pass over the triangles."""
        bins = np.zeros(18, np.int64)
        angles: list[float] = []
        areas: list[float] = []
        total = 0.0
        for start in range(0, len(self.triangles), _CHUNK):
            corners = np.take(self.points, self.triangles[start : start + _CHUNK], axis=0)
            x, y = corners[:, :, 0], corners[:, :, 1]
            for k in range(3):
                ux, uy = (v[:, (k + 1) % 3] - v[:, k] for v in (x, y))
                wx, wy = (v[:, (k + 2) % 3] - v[:, k] for v in (x, y))
                cross = ux * wy - uy * wx
                angle = np.degrees(np.arctan2(cross, ux * wx + uy * wy))
                bins += np.histogram(angle, 18, (0.0, 180.0))[0]
                angles += [float(angle.min()), float(angle.max())]
            area = cross / 2
            total += float(area.sum())
            areas += [float(area.min()), float(area.max())]
        nothing = [float("nan")]
        return Quality(
            points=len(self.points),
            triangles=len(self.triangles),
            segments=len(self.segments),
            min_angle=min(angles or nothing),
            max_angle=max(angles or nothing),
            area=total,
            min_area=min(areas or nothing),
            max_area=max(areas or nothing),
            histogram=tuple(bins.tolist()),
        )

    def violations(self) -> list[Violation]:
        """List the invariants that the mesh breaks.  See `morph.verify.violations`."""
        return violations(self)

    def check(self) -> None:
        """Raise `MeshError`, naming every broken invariant, unless the mesh is good.

        The verifier shares no code with the refiner, and decides in exact arithmetic.
        """
        found = violations(self)
        if found:
            raise MeshError(found)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the mesh, its triangles coloured by their smallest angle.

        Parameters
        ----------
        path : path-like, optional
            Where to save the picture; the suffix chooses the format.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from morph.io.plot import draw  # noqa: PLC0415

        figure = draw(self)
        if path is not None:
            figure.savefig(Path(path), dpi=200)
        return figure


def edge_keys(a: Ints, b: Ints, n: int) -> NDArray[np.int64]:
    """Name the undirected edges between points ``a`` and ``b`` of ``n`` by one integer each."""
    keys: NDArray[np.int64] = np.minimum(a, b).astype(np.int64) * n + np.maximum(a, b)
    return keys


def find_neighbors(triangles: Ints, n: int) -> Ints:
    """Find the triangle across each edge.

    The 3m half-edges are sorted by their two points, so that both sides of an edge meet.  A sort
    of packed 64-bit words is many times as fast as an argsort, but two points and an id do not
    fit one word; so: sort by the lower point, then by both with the place inside the first group.

    Parameters
    ----------
    triangles : (m, 3) int32 array
        Counter-clockwise corners.
    n : int
        Number of points.

    Returns
    -------
    (m, 3) int32 array
        Opposite corner k; -1 at the hull.

    Raises
    ------
    MeshError
        If an edge has several triangles on one side.
    """
    a, b = triangles[:, [1, 2, 0]].ravel(), triangles[:, [2, 0, 1]].ravel()
    low, high = np.minimum(a, b).astype(np.int64), np.maximum(a, b).astype(np.int64)
    half = np.arange(len(a), dtype=np.int64)
    point_bits, half_bits = max(n, 1).bit_length(), len(a).bit_length()

    degree = np.bincount(low, minlength=n)
    place_bits = int(degree.max(initial=0)).bit_length()
    if point_bits + max(half_bits, point_bits + place_bits) <= WORD_BITS:
        word = np.sort(low << half_bits | half)
        first = word & ((1 << half_bits) - 1)
        low = word >> half_bits
        begin = np.cumsum(degree) - degree
        word = low << point_bits | high[first]
        word <<= place_bits
        word |= half - begin[low]
        word.sort()
        key = word >> place_bits
        order = first[begin[key >> point_bits] + (word & ((1 << place_bits) - 1))]
    else:
        order = np.lexsort((high, low))
        key = low[order] * n + high[order]

    left = np.flatnonzero(key[1:] == key[:-1])
    one, two = order[left], order[left + 1]
    wrong = (a[one] < b[one]) == (a[two] < b[two])
    third = left[1:] == left[:-1] + 1
    if wrong.any() or third.any():
        # of three half-edges on one edge, two have the same direction
        wrong[1:] |= third
        _refuse_overlap(a, b, order, key, int(left[wrong.argmax()]))
    neighbors = np.full(len(a), -1, np.int32)
    neighbors[one] = two // 3
    neighbors[two] = one // 3
    return neighbors.reshape(-1, 3)


def _refuse_overlap(
    a: Ints, b: Ints, order: NDArray[np.int64], key: NDArray[np.int64], at: int
) -> NoReturn:
    """Name two triangles on one side of the edge ``key[at]``."""
    half = np.sort(order[key == key[at]])
    forward = a[half] < b[half]
    half = half[forward] if forward.sum() > 1 else half[~forward]
    s, t = (half[:2] // 3).tolist()
    edge = (int(a[half[0]]), int(b[half[0]]))
    message = f"triangles {s} and {t} lie on the same side of edge {edge}"
    raise MeshError([Violation("edge-use", message, np.array([s, t]))])


def _hull(mesh: Mesh) -> Ints:
    """Hull edges, the mesh at their left, shape ``(h, 2)``."""
    row, k = np.nonzero(mesh.neighbors < 0)
    ends = [mesh.triangles[row, (k + 1) % 3], mesh.triangles[row, (k + 2) % 3]]
    return np.stack(ends, axis=1)


def _shaped(name: str, values: Any, dtype: Any, width: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.reshape(0, width)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (any, {width}), got {array.shape}")
    return np.ascontiguousarray(array, dtype)


def _indices(name: str, values: Any, width: int, high: int, low: int = 0) -> Ints:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got {array.dtype}")
    array = array if array.size else array.astype(np.int32)
    if array.size:
        bad = (array < low) | (array >= high)
        if bad.any():
            row = int(np.argwhere(bad)[0, 0])
            found = array[row].tolist()
            raise ValueError(f"{name}[{row}] = {found}: an index must be in {low}..{high - 1}")
    return _shaped(name, array, np.int32, width)


def _per_row(name: str, values: Any, rows: int, dtype: Any) -> NDArray[Any]:
    array = np.ascontiguousarray(values, dtype)
    if array.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), got {array.shape}")
    return array


def _attributes(name: str, values: Any, rows: int) -> Floats:
    array = np.ascontiguousarray(values, np.float64)
    if array.size == 0:
        return np.empty((rows, 0))
    if array.ndim != 2 or len(array) != rows:
        raise ValueError(f"{name} must have shape ({rows}, any), got {array.shape}")
    return array
