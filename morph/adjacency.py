"""The index from points to edges, and the checks of edge lists, for NumPy and CuPy alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.column import check_ids
from morph.device import Array, Device
from morph.dtypes import ID_LIMIT


def order_by(xp: Any, keys: Array) -> Array:
    """Give the stable order that sorts ``keys`` (>= 0, below 2^31); shape (m,), int64.

    One sort of (key, position) words: on both libraries faster than a stable ``argsort``.
    """
    words = keys.astype(np.int64) << 32
    words |= xp.arange(keys.size, dtype=np.int64)
    words.sort()
    words &= 0xFFFFFFFF
    return words


def is_sorted(keys: Array) -> bool:
    """Whether ``keys`` never decrease."""
    return keys.size < 2 or bool((keys[1:] >= keys[:-1]).all())


def offsets_of(device: Device, keys: Array, n: int, capacity: int) -> Array:
    """Count ``keys`` below ``n`` into offsets, shape (capacity + 1,), int64.

    The offsets beyond ``n`` are the number of keys, so that a point made by a kernel has no edges
    until the index is built anew.
    """
    xp = device.xp
    offsets = xp.full(max(capacity, n) + 1, keys.size, np.int64)
    offsets[0] = 0
    xp.cumsum(xp.bincount(keys, minlength=n)[:n], out=offsets[1 : n + 1])
    return offsets


def group(
    device: Device, keys: Array, ids: Array, n: int, capacity: int, by: Array | None = None
) -> tuple[Array, Array]:
    """Group edges ``ids`` by their points ``keys``, in order of ``by``, then of id.

    Returns
    -------
    offsets : array, shape (capacity + 1,), int64
    edges : array, shape (len(ids),), int32
    """
    with device.active():
        offsets = offsets_of(device, keys, n, capacity)
        if by is not None:
            first = device.xp.argsort(by, kind="stable")
            keys, ids = keys[first], ids[first]
        if not is_sorted(keys):
            ids = ids[order_by(device.xp, keys)]
        return offsets, ids.astype(np.int32)


def id_array(device: Device, x: Any, where: str) -> Array:
    """Give point ids as an array of integers on ``device``, shape (m,).

    Raises
    ------
    TypeError, ValueError
        If they are not integers, not one-dimensional, or 2^31 or more.
    """
    a = device.asarray(x)
    if a.ndim != 1:
        raise ValueError(f"{where} has shape {a.shape}: expected one dimension")
    if a.size == 0:
        return a.astype(np.int32)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{where} holds {a.dtype}: expected integers")
    if a.size > ID_LIMIT:
        raise ValueError(f"{where} has {a.size} edges: at most 2^31 - 1 are possible")
    return a


def checked_edges(
    device: Device, src: Any, dst: Any, weight: Any, n: int | None
) -> tuple[Array, Array, Array | None, int]:
    """Check an edge list and bring it to the device, its ids as int32.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the position and the value at fault.
    """
    with device.active():
        src, dst = id_array(device, src, "src"), id_array(device, dst, "dst")
        if src.size != dst.size:
            raise ValueError(
                f"src has {src.size} values and dst {dst.size}: expected equal lengths"
            )
        if weight is not None:
            weight = device.asarray(weight)
            if weight.shape != src.shape:
                raise ValueError(f"weight has shape {weight.shape} for {src.size} edges")
        if n is None:
            rows = max((int(a.max()) + 1 for a in (src, dst) if a.size), default=0)
            rows = min(max(rows, 0), ID_LIMIT)
        else:
            rows = int(n)
            if not 0 <= rows <= ID_LIMIT:
                raise ValueError(f"n = {rows}: expected 0 to 2^31 - 1 points")
        check_ids(src, rows, "src", "points")
        check_ids(dst, rows, "dst", "points")
        return src.astype(np.int32), dst.astype(np.int32), weight, rows


def with_reverse(
    device: Device, src: Array, dst: Array, weight: Array | None
) -> tuple[Array, Array, Array | None, Array]:
    """Add the reverse of every edge that is not a loop; also gives each arc's input position."""
    xp = device.xp
    with device.active():
        back = xp.flatnonzero(src != dst)
        at = xp.concatenate([xp.arange(src.size), back])
        arcs = xp.concatenate([src, dst[back]]), xp.concatenate([dst, src[back]])
        return *arcs, None if weight is None else weight[at], at


def require_symmetric(device: Device, src: Array, dst: Array, n: int) -> None:
    """Check that points have as many edges in as out: cheap, and it finds one-way lists.

    Raises
    ------
    ValueError
        If a point has not.
    """
    xp = device.xp
    with device.active():
        out, into = (xp.bincount(a, minlength=n) for a in (src, dst))
        odd = xp.flatnonzero(out != into)
        if odd.size:
            p = int(odd[0])
            raise ValueError(
                f"symmetric=True, but point {p} has {int(out[p])} edges out and {int(into[p])} in; "
                "symmetrize=True adds the reverse edges"
            )
