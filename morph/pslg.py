"""Planar straight-line graphs: points and segments that bound or cross a domain."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def _empty(*shape: int, dtype: Any) -> Callable[[], NDArray[Any]]:
    return lambda: np.empty(shape, dtype)


@dataclass(eq=False)
class Pslg:
    """A planar straight-line graph, the input of `morph.triangulate`.

    Segments may touch, overlap and cross one another, and pass through points; points may repeat.
    Only ``points`` must be given; CuPy's arrays are copied to the host.

    Parameters
    ----------
    points : (n, 2) float64 array
        Finite.
    segments : (s, 2) int32 array
        Edges that the triangulation must contain, as rows of ``points``; the ends differ.
    segment_markers : (s,) int32 array
        0 unless given.
    point_markers : (n,) int32 array
        0 unless given.
    point_attributes : (n, k) float64 array
    holes : (h, 2) float64 array
        A point in each hole.
    regions : (r, 4) float64 array
        ``x, y, attribute, maximum area`` of each region; no limit of the area if it is not
        positive, or left out.
    base : int
        Number of the first point in files: 0 or 1.  Arrays count from 0 whatever it is.

    Raises
    ------
    ValueError
        If a shape is wrong, an index names no point, a segment joins a point to itself, or a number
        is not finite.
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
        self.points = _numbers("points", self.points, 2)
        n = len(self.points)
        self.segments = _segments(self.segments, n)
        self.segment_markers = _markers("segment_markers", self.segment_markers, len(self.segments))
        self.point_markers = _markers("point_markers", self.point_markers, n)
        attributes = _host(self.point_attributes)
        if attributes.size == 0:
            attributes = np.empty((n, 0))
        if attributes.ndim != 2 or len(attributes) != n:
            raise ValueError(f"point_attributes must have shape ({n}, any), got {attributes.shape}")
        self.point_attributes = _floats("point_attributes", attributes)
        self.holes = _numbers("holes", self.holes, 2)
        regions = _host(self.regions)
        if regions.ndim == 2 and regions.shape[1] == 3:
            regions = np.column_stack([regions, np.full(len(regions), -1.0)])
        self.regions = _numbers("regions", regions, 4)
        if self.base not in (0, 1):
            raise ValueError(f"base is 0 or 1, not {self.base}")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Pslg:
        """Read a ``.poly`` or a ``.node`` file.  See `morph.io.read_pslg`."""
        from morph.io import read_pslg  # noqa: PLC0415

        return read_pslg(path)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.poly`` file.  See `morph.io.write_pslg`."""
        from morph.io import write_pslg  # noqa: PLC0415

        write_pslg(self, path)


def _host(values: Any) -> NDArray[Any]:
    return np.asarray(values.get() if hasattr(values, "get") else values)


def _floats(name: str, values: NDArray[Any]) -> Floats:
    if values.size and values.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {values.dtype}")
    return np.ascontiguousarray(values, np.float64)


def _numbers(name: str, values: Any, width: int) -> Floats:
    """An array of rows of finite numbers."""
    array = _host(values)
    if array.size == 0:
        array = np.empty((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (any, {width}), got {array.shape}")
    array = _floats(name, array)
    good = np.isfinite(array[:, : min(width, 3)]).all(axis=1)
    if not good.all():
        row = int(good.argmin())
        raise ValueError(f"{name}[{row}] = {array[row].tolist()}: a number is not finite")
    return array


def _segments(values: Any, n: int) -> Ints:
    array = _host(values)
    if array.size == 0:
        array = np.empty((0, 2), np.int32)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"segments must have shape (any, 2), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"segments must hold integers, got {array.dtype}")
    bad = ((array < 0) | (array >= n)).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        shown = array[row].tolist()
        raise ValueError(f"segments[{row}] = {shown}: an index must be in 0..{n - 1}")
    bad = array[:, 0] == array[:, 1]
    if bad.any():
        row = int(bad.argmax())
        shown = array[row].tolist()
        raise ValueError(f"segments[{row}] = {shown}: a segment joins two different points")
    return np.ascontiguousarray(array, np.int32)


def _markers(name: str, values: Any, rows: int) -> Ints:
    array = _host(values)
    if array.size == 0:
        array = np.zeros(rows, np.int32)
    if array.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got {array.dtype}")
    wide = (array < -(2**31)) | (array >= 2**31)
    if wide.any():
        row = int(wide.argmax())
        raise ValueError(f"{name}[{row}] = {int(array[row])} does not fit 32 bits")
    return np.ascontiguousarray(array, np.int32)
