"""Edge lists from outside: their checks, and what other libraries' graphs give."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.device import Array, Device
from morph.dtypes import ID_LIMIT
from morph.values import check_ids


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


def csr_sources(device: Device, offsets: Any, m: int) -> tuple[Array, int]:
    """Give the source of each of the ``m`` entries of compressed rows, and the number of rows.

    Raises
    ------
    ValueError
        If the offsets do not rise from 0 to ``m``.
    """
    xp = device.xp
    with device.active():
        offsets = device.asarray(offsets)
        if offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
            raise ValueError("offsets: expected integers, one more than there are points")
        offsets = offsets.astype(np.int64)
        rises = bool((offsets[1:] >= offsets[:-1]).all())
        if int(offsets[0]) or int(offsets[-1]) != m or not rises:
            raise ValueError(f"offsets: expected to rise from 0 to the {m} edges")
        n = offsets.size - 1
        # repeat() of CuPy takes no array of counts: count the rows begun up to each entry.
        return xp.cumsum(xp.bincount(offsets[1:n], minlength=m)[:m]), n


def networkx_edges(graph: Any, weight: str | None) -> tuple[Array, Array, Array | None, int]:
    """Give source, destination, weight (None if no edge has one) and the number of nodes."""
    index = {node: i for i, node in enumerate(graph)}
    ends = [(index[u], index[v]) for u, v in graph.edges()]
    src, dst = np.array(ends, np.int64).reshape(-1, 2).T
    found = [] if weight is None else [w for *_, w in graph.edges(data=weight)]
    if all(w is None for w in found):
        return src, dst, None, len(index)
    return src, dst, np.array([1 if w is None else w for w in found]), len(index)
