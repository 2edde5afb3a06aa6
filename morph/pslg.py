"""Planar straight-line graphs: points and segments that bound or cross a domain."""

from __future__ import annotations

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

    Parameters
    ----------
    points : (n, 2) float64 array
    segments : (s, 2) int32 array
        Edges that the triangulation must contain, as rows of ``points``.
    segment_markers : (s,) int32 array
        1 unless given.
    point_markers : (n,) int32 array
        0 unless given.
    point_attributes : (n, k) float64 array
    holes : (h, 2) float64 array
        A point in each hole.
    regions : (r, 4) float64 array
        ``x, y, attribute, maximum area`` of each region.
    base : int
        Number of the first point in files: 0 or 1.  Arrays count from 0 whatever it is.
    """

    points: Floats
    segments: Ints = field(default_factory=_empty(0, 2, dtype=np.int32))
    segment_markers: Ints = field(default_factory=_empty(0, dtype=np.int32), repr=False)
    point_markers: Ints = field(default_factory=_empty(0, dtype=np.int32), repr=False)
    point_attributes: Floats = field(default_factory=_empty(0, 0, dtype=np.float64), repr=False)
    holes: Floats = field(default_factory=_empty(0, 2, dtype=np.float64), repr=False)
    regions: Floats = field(default_factory=_empty(0, 4, dtype=np.float64), repr=False)
    base: int = 0
