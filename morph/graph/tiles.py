"""Entries of the adjacency in the order of their other ends, tile by tile.

A sum over the neighbours of each point reads a column at random places.  If the column exceeds the
cache of a GPU, most of these reads are transfers from memory.  Therefore the rows are divided into
*tiles*, whose sums fit the shared memory of a block, and the entries of a tile are ordered by their
other ends: all blocks read the column from its begin to its end at about the same time, so that
the currently read section of the column is in the cache.  See kernels/schedule/tiles.h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.compiler.ir.layout import TILE_ROWS
from morph.runtime.device import Array, Device

TILED = "tiled"  # key in `Graph.kept`: versions of the graph before and in `sums_by_tiles`
VALUE = 8  # bytes that are read at the other end of an entry
UNEVEN = 4.0  # largest ratio of the mean of squared degrees to the square of their mean
SAMPLE = 4096  # entries that are tested for the distance of their ends
NEED = 32  # bytes of temporary memory for each entry during the sort
FAR_BITS, PLACE_BITS = 31, 16  # of a sort key: the other end, the row; above, the tile


class Tiles(NamedTuple):
    """The entries of all tiles.

    Attributes
    ----------
    tile : array of int64, shape (count + 3,)
        Rows of a tile; number of tiles; the first entry of each tile, and the end.
    far : array of int32, shape (m,)
        The other end of each entry.
    place : array of uint16, shape (m,)
        The row of each entry in the tile.
    """

    tile: Array
    far: Array
    place: Array


def tiles_of(device: Device, offsets: Array, near: Array, far: Array) -> Tiles | None:
    """Divide the adjacency into tiles; None if that would not be faster.

    Parameters
    ----------
    offsets : array of int64, shape (n + 1,)
    near, far : array of int32, shape (m,)
        The point of each entry, ascending, and its other end.
    """
    xp, n, m = device.xp, offsets.size - 1, far.size
    if not device.tiles or n * VALUE <= device.cache_bytes or m < n:
        return None
    with device.active():
        if not (_is_even(offsets, m) and _is_far(xp, near, far, device.cache_bytes)):
            return None
        free = device.free()
        if free is not None and free < NEED * m:
            return None
        rounds = -(-n // (device.tiles * TILE_ROWS))
        rows = -(-n // (device.tiles * rounds))
        count = -(-n // rows)
        if count >> 63 - FAR_BITS - PLACE_BITS - 1:  # a key would have more than 63 bits
            return None
        key = (near // rows).astype(np.int64) << FAR_BITS + PLACE_BITS
        key |= far.astype(np.int64) << PLACE_BITS
        key |= near % rows
        key.sort()
        tile = xp.empty(count + 3, np.int64)
        tile[0], tile[1] = rows, count
        tile[2:] = xp.searchsorted(key, xp.arange(count + 1) << FAR_BITS + PLACE_BITS)
        place = (key & (1 << PLACE_BITS) - 1).astype(np.uint16)
        key >>= PLACE_BITS
        key &= (1 << FAR_BITS) - 1
        return Tiles(tile, key.astype(np.int32), place)


def _is_even(offsets: Array, m: int) -> bool:
    """Whether degrees are even; otherwise most reads are of few points, which stay cached."""
    degree = (offsets[1:] - offsets[:-1]).astype(np.float64)
    return bool(float((degree * degree).sum()) * degree.size <= UNEVEN * float(m) ** 2)


def _is_far(xp: Any, near: Array, far: Array, cache_bytes: int) -> bool:
    """Whether the distance of the ends of most entries exceeds the cache."""
    step = max(far.size // SAMPLE, 1)
    apart = xp.abs(far[::step].astype(np.int64) - near[::step]) * (2 * VALUE) > cache_bytes
    return bool(float(apart.astype(np.float64).mean()) > 0.5)
