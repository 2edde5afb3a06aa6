"""Planar straight-line graphs: points and segments that bound or cross a domain."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.language.hooks import Hook
from morph.language.messages import shortened, shown
from morph.mesh.arrays import array_of, as_array, as_indices, first_number
from morph.mesh.interop import from_geo, from_triangle, library_of
from morph.runtime.device import device, is_host

read_pslg: Hook[Pslg] = Hook()  # io
write_pslg: Hook[None] = Hook()  # io

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def _empty(*shape: int, dtype: Any) -> Callable[[], NDArray[Any]]:
    return lambda: np.empty(shape, dtype)


class RepairWarning(UserWarning):
    """Input was repaired; the message describes the first case and the number of cases."""


@dataclass(eq=False)
class Pslg:
    """A planar straight-line graph, the input of `morph.triangulate`.

    Segments may touch, overlap and cross one another, and pass through points; points may be
    duplicates.  Only ``points`` is required; CuPy arrays are copied to the host.

    Parameters
    ----------
    points : (n, 2) float64 array
        Finite.
    segments : (s, 2) int32 array
        Edges that the triangulation must contain, as rows of ``points``; the ends differ.
    segment_markers : (s,) int32 array
        0 by default.
    point_markers : (n,) int32 array
        0 by default.
    point_attributes : (n, k) float64 array
    holes : (h, 2) float64 array
        A point in each hole.
    regions : (r, 4) float64 array
        ``x, y, attribute, maximum area`` of each region; no limit if the area is not positive or
        omitted.
    base : int
        Number of the first point in files: 0 or 1.  Indices in arrays always begin at 0.

    Raises
    ------
    ValueError
        If a shape or dtype is wrong, an index is out of range, a segment joins a point to itself, a
        number is not finite, or ``base`` is neither 0 nor 1.
    """

    points: Floats
    segments: Ints = field(default_factory=_empty(0, 2, dtype=np.int32))
    segment_markers: Ints = field(default_factory=_empty(0, dtype=np.int32), repr=False)
    point_markers: Ints = field(default_factory=_empty(0, dtype=np.int32), repr=False)
    point_attributes: Floats = field(default_factory=_empty(0, 0, dtype=np.float64), repr=False)
    holes: Floats = field(default_factory=_empty(0, 2, dtype=np.float64), repr=False)
    regions: Floats = field(default_factory=_empty(0, 4, dtype=np.float64), repr=False)
    base: int = 0

    def __post_init__(self) -> None:
        self.points = _finite("points", self.points, 2)
        n = len(self.points)
        self.segments = as_indices("segments", _host("segments", self.segments), 2, n, np)
        self._check_lengths()
        self.segment_markers = _markers("segment_markers", self.segment_markers, len(self.segments))
        self.point_markers = _markers("point_markers", self.point_markers, n)
        attributes = _host("point_attributes", self.point_attributes)
        attributes = attributes if attributes.size else np.empty((n, 0))
        shape: tuple[int | str, ...] = (n, "any")
        self.point_attributes = as_array("point_attributes", attributes, np.float64, shape, np)
        self.holes = _finite("holes", self.holes, 2)
        regions = _host("regions", self.regions)
        if regions.ndim == 2 and regions.shape[1] == 3:
            regions = np.column_stack([regions, np.full(len(regions), -1.0)])
        self.regions = _finite("regions", regions, 4)
        self.base = first_number(self.base)

    def _check_lengths(self) -> None:
        """Reject segments from a point to itself."""
        equal = self.segments[:, 0] == self.segments[:, 1]
        if equal.any():
            row = int(equal.argmax())
            ends = self.segments[row].tolist()
            raise ValueError(f"segments[{row}] = {ends}: a segment joins two different points")

    @classmethod
    def of(cls, source: Any, **others: Any) -> Pslg:
        """Convert an object of another library, or read a file; a `Pslg` is returned unchanged.

        Parameters
        ----------
        source : Pslg, path, dict, object with ``__geo_interface__``, or (n, 2) array of points
            Dicts are those of Triangle's Python wrapper, whose triangles are ignored.  Geometries
            of Shapely, series and frames of GeoPandas and mappings of GeoJSON are converted to
            points and segments: every line and every boundary of a polygon.  A bounded face that no
            polygon covers gets a hole.  A third coordinate is dropped.
        **others : array
            Further arguments of the constructor, if the source is an array of points, or a dict or
            geometry with points only.

        Raises
        ------
        ImportError
            If ``source`` has a ``__geo_interface__`` and Shapely is not installed.
        TypeError
            If ``source`` is an object of another kind.
        ValueError
            If a polygon is invalid, an argument is given twice, or as by the constructor.
        FormatError, OSError
            If a file cannot be read.
        """
        if isinstance(source, str | os.PathLike):
            source = cls.read(source)
        held = None if isinstance(source, Pslg) else _arrays_of(source)
        if others and (held is None or len(held) > 1):
            name, kind = next(iter(others)), shortened(type(source).__name__, 40)
            raise ValueError(f"{name} is given twice: the source is a {kind}, which holds {name}")
        return source if held is None else cls(**held, **others)

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], repair: bool = False, duplicates: str = "refuse"
    ) -> Pslg:
        """Read a ``.poly`` or a ``.node`` file.  See `morph.io.read_pslg`."""
        return read_pslg(path, repair, duplicates)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.poly`` file.  See `morph.io.write_pslg`."""
        write_pslg(self, path)


_ARRAYS = "__getitem__", "__array__", "__cuda_array_interface__", "__dlpack__"  # one of an array


def _arrays_of(source: Any) -> dict[str, Any]:
    """Convert an object of another library, or an array of points, to arguments."""
    library = library_of(source)
    if library == "geo":
        return from_geo(source)
    if library == "triangle":
        return from_triangle(source, triangles=False)
    if not any(hasattr(source, name) for name in _ARRAYS):
        raise TypeError(
            "source is an array of points, a mesh, a Pslg, a path, a dict of Triangle or an object"
            f" with __geo_interface__, not {shown(source, 40)}"
        )
    return {"points": source}


def _host(name: str, values: Any) -> NDArray[Any]:
    array: NDArray[Any] = array_of(
        name, values if is_host(values) else device("cpu").to_host(values), np
    )
    return array


def _finite(name: str, values: Any, width: int) -> Floats:
    """Return rows of finite numbers; only the maximum area of a region may be non-finite."""
    array: Floats = as_array(name, _host(name, values), np.float64, ("any", width), np)
    with np.errstate(over="ignore", invalid="ignore"):
        total = array[:, :3].sum()
    if not np.isfinite(total):  # else all terms are finite; large ones may overflow
        good = np.isfinite(array[:, :3]).all(axis=1)
        if not good.all():
            row = int(good.argmin())
            raise ValueError(f"{name}[{row}] = {array[row].tolist()}: a number is not finite")
    return array


def _markers(name: str, values: Any, rows: int) -> Ints:
    array = _host(name, values)
    array = array if array.size else np.zeros(rows, np.int32)
    markers: Ints = as_array(name, array, np.int32, (rows,), np)
    return markers
