"""The insertion order of points: rounds of doubling size, each along a Hilbert curve (BRIO).

Points are sorted along a Hilbert curve (by the ranks of their coordinates where many have the same
cell).  Of each two neighbours in that order a random one is inserted in the last round; the other,
its *parent*, in an earlier one.  The parents are paired in the same way, and so on.  So the points
up to any round are an evenly distributed random sample (Amenta, Choi, Rote, Incremental
constructions con BRIO, 2003), and near each point is one that was inserted before, at which a walk
can begin.

O(n) but for sorting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.data.table import Table
from morph.launch.foreach import foreach, func, kernel
from morph.operators.hashing import mix64
from morph.operators.sort import argsort
from morph.prelude import f64, i32, i64, u64
from morph.runtime.arrays import count_true

BITS = 32  # of a cell's number along each axis
FULL = 2**BITS - 1
# Up to this many points the host sorts the leading key bits and the row in one 64-bit word.
PACKED_SORT_LIMIT = 2**21


@func
def with_zero_bits(x):
    """The bits of x, each followed by a zero."""
    x = (x | (x << 16)) & 0x0000FFFF0000FFFF
    x = (x | (x << 8)) & 0x00FF00FF00FF00FF
    x = (x | (x << 4)) & 0x0F0F0F0F0F0F0F0F
    x = (x | (x << 2)) & 0x3333333333333333
    return (x | (x << 1)) & 0x5555555555555555


@func
def hilbert(x, y):
    """Return the position of a cell on the Hilbert curve, by a prefix scan of its orientations."""
    a = x ^ y
    b = FULL ^ a
    c = FULL ^ (x | y)
    d = x & (y ^ FULL)
    e, f = a | (b >> 1), (a >> 1) ^ a
    g, h = ((c >> 1) ^ (b & (d >> 1))) ^ c, ((a & (c >> 1)) ^ (d >> 1)) ^ d
    s = u64(2)
    while s < BITS:
        a, b, c, d = e, f, g, h
        e = (a & (a >> s)) ^ (b & (b >> s))
        f = (a & (b >> s)) ^ (b & ((a ^ b) >> s))
        g = g ^ (a & (c >> s)) ^ (b & (d >> s))
        h = h ^ (b & (c >> s)) ^ ((a ^ b) & (d >> s))
        s = s * 2
    a, b = g ^ (g >> 1), h ^ (h >> 1)
    low = x ^ y
    high = b | (FULL ^ (low | a))
    return (with_zero_bits(high) << 1) | with_zero_bits(low)


@kernel
def find_key(p, left, bottom, width, height):
    x = (0.5 * p.xy.x - left) / width * FULL
    y = (0.5 * p.xy.y - bottom) / height * FULL
    p.key = hilbert(u64(x), u64(y))


def hilbert_keys(points: Table, box: Any = None) -> Any:
    """Positions on the curve, shape (n,), uint64, of points with ``xy`` and ``key``.

    The curve fills ``box``, the least and the largest coordinates; by default those of the points.
    """
    device, xy = points.device, points.xy.array
    corners = zip(*box, strict=True) if box is not None else device.extremes(xy[:, 0], xy[:, 1])
    # halves, so that no difference overflows
    ends = [(0.5 * float(low), 0.5 * float(high)) for low, high in corners]
    foreach(points, find_key, *(a for a, _ in ends), *(b - a or 1.0 for a, b in ends))
    return points.key.array


def hilbert_order(points: Table) -> Any:
    """Sort points along a Hilbert curve.

    Parameters
    ----------
    points : Table
        With ``xy``, finite, and no column ``key``; at least one row.

    Returns
    -------
    (n,) int64 array of the device
        Their rows.
    """
    points.add("key", u64)
    order = order_by_keys(points)
    points.drop("key")
    return order


def order_by_keys(points: Table) -> Any:
    """Sort points that have a column ``key`` along a Hilbert curve, see `hilbert_order`."""
    xp = points.device.xp
    with points.device.active():
        keys = hilbert_keys(points)
        if xp is np and len(keys) <= PACKED_SORT_LIMIT:
            keys = (keys >> (len(keys).bit_length() + 1)).astype(np.int64)
            order = argsort(keys)
        else:
            order = xp.argsort(keys)
        keys = xp.take(keys, order)
        if count_true(keys[1:] == keys[:-1]) > len(order) // 8:
            xy = points.xy.array
            ranked = Table("ranks", points.device, xy=(f64, 2), key=u64)
            ranked.extend(
                xy=xp.stack([xp.searchsorted(xp.sort(c), c) for c in xy.T], axis=1).astype(float)
            )
            order = xp.argsort(hilbert_keys(ranked))
    return order


@func
def survivors(n, level):
    """The number of points inserted before the last ``level`` rounds."""
    return (n + (i64(1) << level) - 1) >> level


@func
def random_bit(level, pair):
    """A random bit: which point of a pair is inserted earlier."""
    return i64(mix64(u64(level) << 32 | u64(pair)) & 1)


@func
def place_on_curve(n, level, at):
    """The place on the curve of point ``at`` of those inserted before the last ``level`` rounds."""
    while level > 0:
        level -= 1
        if 2 * at + 1 < survivors(n, level):
            at = 2 * at + random_bit(level, at)
        else:
            at = 2 * at  # the last one, alone
    return i32(at)


@kernel
def draw(entry, points, n):
    """Find the point at a place of the order of ``n`` points along a curve, and its parent.

    The points of a round are those in consecutive places, their numbers ascending.  The parent is a
    near one on the curve that is in an earlier round, of the first point itself.
    """
    level = i64(0)
    while i64(entry) < survivors(n, level + 1) and survivors(n, level) > 1:
        level += 1
    if survivors(n, level) == 1:
        first = place_on_curve(n, level, i64(0))
        entry.point = first
        points[first].parent = points[first]
    else:
        pair = i64(entry) - survivors(n, level + 1)
        kept = 2 * pair + random_bit(level, pair)
        point = place_on_curve(n, level, 4 * pair + 1 - kept)
        entry.point = point
        points[point].parent = points[place_on_curve(n, level, kept)]


def insertion_rounds(n: int) -> list[int]:
    """The end of each round in the order of `draw`: 1, and then about twice as many as before."""
    ends = [n]
    while ends[-1] > 1:
        ends.append((ends[-1] + 1) // 2)
    return ends[::-1]


def strided_blocks(items: Any, width: int, stride: int) -> Any:
    """Reorder a list so that each ``width`` items in turn come from ``width * stride`` neighbours.

    Parameters
    ----------
    items : (n,) NumPy array
    width, stride : int
        Positive.

    Returns
    -------
    (n,) array
        Blocks of ``width * stride`` stay together; from each every ``stride``-th is taken in turn.
    """
    even_part = len(items) // (width * stride) * (width * stride)
    blocks = items[:even_part].reshape(-1, width, stride).transpose(0, 2, 1).ravel()
    remaining = items[even_part:]
    turns = -(-len(remaining) // width)
    return np.concatenate([blocks, *(remaining[i::turns] for i in range(turns))])
