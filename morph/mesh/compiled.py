"""Compiled passes over large meshes (``triangles.cpp``), on free cores.

They find neighbours and orientations of triangles, and repeated points.

Each function returns None where NumPy is faster, as compilation takes longer than it saves, or
where there is no compiler.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from morph.runtime.threads import in_threads
from morph.runtime.toolchain.library import HostLibrary

LEAST = 1 << 20  # rows from which the library is used, though it takes 0.2 s to compile
LEAST_MADE = 1 << 12  # rows from which it is used if it is compiled already
_BLOCK = 1 << 13  # half-edges paired at once: their table fits the cache
_MOST_BLOCKS = 1 << 10
_LARGEST = 2**31 - 1

LIBRARY = HostLibrary(
    Path(__file__).with_name("triangles.cpp"),
    {
        "morph_part": "",
        "morph_count": "piiiiip",
        "morph_distribute": "piiiiipp",
        "morph_pair": "pppiip",
        "morph_orient": "pipppiiiip",
        "morph_repeats": "piiipi",
    },
)


def paired(triangles: NDArray[np.int32], n: int) -> NDArray[np.int32] | None:
    """Return the triangle across each edge, see `find_neighbors`; None also for invalid meshes."""
    m = len(triangles)
    library = LIBRARY.load_if_worthwhile(m, LEAST, LEAST_MADE) if 3 * m <= _LARGEST else None
    if library is None or triangles.dtype != np.int32 or not triangles.flags.c_contiguous:
        return None
    if int(triangles.min()) < 0 or int(triangles.max()) >= n:
        return None
    shift = 0
    while (n - 1) >> shift >= min(3 * m // _BLOCK + 1, _MOST_BLOCKS):
        shift += 1
    parts, blocks = -(-m // library.morph_part()), ((n - 1) >> shift) + 1
    counts, corners = np.empty((parts, blocks), np.int64), triangles.ctypes.data
    at = counts.ctypes.data
    in_threads(lambda k, end: library.morph_count(corners, m, k, end, shift, blocks, at), parts)
    start = np.zeros(blocks + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=start[1:])
    counts[1:] = np.cumsum(counts[:-1], axis=0)  # becomes the places of the blocks in each part
    counts[0] = 0
    counts += start[:-1]
    half = np.empty(3 * m, np.int32)
    listed = half.ctypes.data
    in_threads(
        lambda k, end: library.morph_distribute(corners, m, k, end, shift, blocks, at, listed),
        parts,
    )
    neighbors = np.full((m, 3), -1, np.int32)
    first, out = start.ctypes.data, neighbors.ctypes.data
    failed: list[int] = []

    def pair(k: int, end: int) -> None:
        if not failed and library.morph_pair(corners, listed, first, k, end, out):
            failed.append(k)

    in_threads(pair, blocks)
    return None if failed else neighbors


def oriented(
    points: NDArray[np.float64], a: NDArray[np.int32], b: NDArray[np.int32], c: NDArray[np.int32]
) -> NDArray[np.int8] | None:
    """Return the signs of the areas of triangles; 2 where double precision does not decide."""
    m = len(a)
    library = LIBRARY.load_if_worthwhile(m, LEAST, LEAST_MADE)
    corners = a, b, c
    if library is None or any(x.dtype != np.int32 or x.strides != a.strides for x in corners):
        return None
    if points.dtype != np.float64 or not points.flags.c_contiguous or a.strides[0] % 4:
        return None
    out = np.empty(m, np.int8)
    of = *(x.ctypes.data for x in corners), a.strides[0] // 4, m
    xy, n, to = points.ctypes.data, len(points), out.ctypes.data
    in_threads(
        lambda k, end: library.morph_orient(xy, n, *of, k, end, to), -(-m // library.morph_part())
    )
    return out


def has_repeated(points: NDArray[np.float64]) -> bool | None:
    """Return whether two points have the same coordinates; a point with a NaN equals no other."""
    n = len(points)
    library = LIBRARY.load_if_worthwhile(n, LEAST, LEAST_MADE) if n <= _LARGEST else None
    if library is None or points.dtype != np.float64 or not points.flags.c_contiguous:
        return None
    bits = (n + n // 2).bit_length()
    table = np.zeros(1 << bits, np.int32)
    xy, known = points.ctypes.data, table.ctypes.data
    found: list[int] = []

    def compare(k: int, end: int) -> None:
        if not found and library.morph_repeats(xy, n, k, end, known, bits):
            found.append(k)

    in_threads(compare, -(-n // library.morph_part()))
    return bool(found)
