"""Sorts edges by source, with little more memory than the resulting graph.

Large lists are sorted in `GROUPS` groups of consecutive sources, one after the other, each directly
into its output range, so that the temporary memory of a sort is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from morph.data.sorting import sort_words
from morph.graph.adjacency import PART, count_keys
from morph.runtime.device import Array, Device, require_free

GROUPS = 16
LEAST = 1 << 21  # minimum of edges for sorting in groups
_NO_GROUP = 255


@dataclass(slots=True)
class Rows:
    """Edges sorted by source: arrays that a graph may use without a copy.

    Attributes
    ----------
    offsets : array of int64, shape (n + 1,)
    src : array of int32, shape (m,), or None
        None: a graph computes its sources from the offsets, when these are used first.
    dst : array of int32, shape (m,)
    weight : array, shape (m,), or None
    order : array of int32, shape (m,), or None
        The input position of each edge; None if the order is that of the input.
    """

    offsets: Array
    src: Array
    dst: Array
    weight: Array | None
    order: Array | None = None

    def on(self, device: Device) -> Rows:
        """Return the rows as arrays on a device; arrays that lie there are not copied."""
        arrays = (self.offsets, self.src, self.dst, self.weight, self.order)
        return Rows(*(None if x is None else device.asarray(x) for x in arrays))

    def columns(self) -> dict[str, Array]:
        """The columns of the table of edges; ``src`` only if the sources are known."""
        found = {"src": self.src, "dst": self.dst, "weight": self.weight}
        return {name: a for name, a in found.items() if a is not None}


def bytes_needed(n: int, m: int, weight: Any = None, arranged: bool = True) -> int:
    """Maximum bytes for making a graph, besides its input; see `Graph.bytes_needed`."""
    width = 0 if weight is None else np.dtype(weight).itemsize
    held = 8 * (n + 1) + m * (8 + width + (0 if arranged else 4))
    return held + held // (8 if arranged else 2) + 32 * n  # points are counted, edges sorted


def require_memory(
    device: Device, n: int, m: int, weight: Any, arranged: bool, kept: int = 0
) -> None:
    """Refuse a graph that exceeds the free memory, before memory is allocated.

    ``kept`` of its bytes are already allocated.

    Raises
    ------
    MemoryError
        With the sizes, and the needed and free memory.
    """
    needed = bytes_needed(n, m, weight, arranged) - kept
    require_free(device, needed, f"a graph of {n} points and {m} edges")


def keeps(device: Device, given: Any, a: Array, dtype: Any, keep: bool) -> bool:
    """Whether `contiguous` would return ``a`` without a copy."""
    host, dtype = device.on_host, np.dtype(dtype)
    fresh = isinstance(given, (list, tuple, range)) or (not host and isinstance(given, np.ndarray))
    fits = a.dtype == dtype and a.flags.c_contiguous
    # kernels change a byte by its word, which might exceed a narrow array
    sound = dtype.itemsize >= 4 and not (host and not (a.flags.writeable and a.flags.aligned))
    return bool((keep or fresh) and fits and sound)


def contiguous(
    device: Device, given: Any, a: Array, dtype: Any, keep: bool, taken: Array = None
) -> Array:
    """Return ``a`` in contiguous, private memory; without a copy if it is known to be private.

    Parameters
    ----------
    given : object
        The argument that ``a`` was made of, whose memory ``a`` may share.
    keep : bool
        Whether the memory of the argument may be used.
    taken : array, optional
        Memory that is already in use.
    """
    if keeps(device, given, a, dtype, keep):
        if taken is None or not device.xp.may_share_memory(a, taken):
            return a
    mine = empty(device, a.size, dtype)
    with device.active():
        mine[:] = a
    return mine


def empty(device: Device, size: int, dtype: Any) -> Array:
    """Allocate an array that begins on a cache line, as columns do."""
    with device.active():
        return device.buffer(size * np.dtype(dtype).itemsize).view(dtype)


def offsets_from(device: Device, counts: Array) -> Array:
    """Sum counts, shape (n,), into offsets, shape (n + 1,), int64."""
    with device.active():
        offsets = device.zeros(counts.size + 1, np.int64)
        device.xp.cumsum(counts, out=offsets[1:])
        return offsets


def sources_from(device: Device, offsets: Array, m: int, first: int = 0) -> Array:
    """Return the source of each edge of a graph in CSR form.

    Parameters
    ----------
    device : Device
    offsets : (n + 1,) int array
        Checked offsets of the rows, on the device.
    m : int
        The number of edges.
    first : int
        The number of the first row.

    Returns
    -------
    (m,) int32 array
    """
    xp, n = device.xp, offsets.size - 1
    out = empty(device, m, np.int32)
    with device.active():
        if device.on_host:
            part = max(PART, m // GROUPS)
            cuts = np.searchsorted(offsets, np.arange(0, m + part, part), "left")
            for lo, hi in zip(cuts[:-1], cuts[1:], strict=True):
                hi = min(int(hi), n)
                degree = offsets[lo + 1 : hi + 1] - offsets[lo:hi]
                out[offsets[lo] : offsets[hi]] = np.repeat(
                    np.arange(first + lo, first + hi, dtype=np.int32), degree
                )
            return out
        # CuPy's repeat() takes no counts, and it compiles other kernels for arrays of 2^31 bytes
        starts = xp.arange(0, m + device.bulk, device.bulk)
        places = device.to_host(xp.searchsorted(offsets[:-1], starts)).tolist()
        for start, (lo, hi) in zip(range(0, m, device.bulk), pairwise(places), strict=False):
            part, last = out[start : start + device.bulk], out[max(start - 1, 0) : start].sum()
            begin = offsets[lo:hi]
            rows = xp.flatnonzero(offsets[lo + 1 : hi + 1] > begin)
            steps = rows + (first + lo)
            steps[1:] -= rows[:-1] + (first + lo)
            steps[:1] -= last
            part[begin[rows] - start] = steps
            part[:1] += last
            xp.cumsum(part, out=part)
        return out


def arrange(
    device: Device, src: Array, dst: Array, weight: Array | None, n: int, both: bool
) -> Rows:
    """Sort checked edges by source, stably.

    ``both`` adds the reverse of each edge that is not a loop, after all edges of the input.
    """
    xp = device.xp
    with device.active():
        counts = count_keys(xp, src, n)
        if both:
            counts += count_keys(xp, dst, n, unlike=src)
        offsets = offsets_from(device, counts)
        m = int(offsets[-1])
        rows = Rows(
            offsets,
            empty(device, m, np.int32),
            empty(device, m, np.int32),
            None if weight is None else empty(device, m, weight.dtype),
            empty(device, m, np.int32),
        )
        if m < LEAST:
            back = xp.flatnonzero(src != dst) if both else None
            _place(xp, rows, src, dst, weight, None, back, 0)
            return rows
        targets = xp.arange(1, GROUPS, dtype=np.int64) * (m // GROUPS)
        large = xp.flatnonzero(counts > m // GROUPS)  # each becomes a separate group
        found = (xp.searchsorted(offsets[1:], targets, side="left") + 1, large, large + 1)
        between = device.to_host(xp.concatenate(found)).tolist()
        cuts = sorted({0, n, *between})  # first points of groups, and the end
        table = xp.empty(n, np.uint8)  # group of each point
        for k in range(len(cuts) - 1):
            table[cuts[k] : cuts[k + 1]] = k
        group, behind = table[src], table[dst] if both else None
        if behind is not None:
            behind[src == dst] = _NO_GROUP
        alone = set(device.to_host(large).tolist())
        for k, lo in enumerate(cuts[:-1]):
            if lo in alone:
                ends = [(group, dst)] if behind is None else [(group, dst), (behind, src)]
                _place_one_point(xp, rows, ends, weight, k, lo)
                continue
            forward = xp.flatnonzero(group == k)
            back = None if behind is None else xp.flatnonzero(behind == k)
            _place(xp, rows, src, dst, weight, forward, back, int(offsets[lo]))
        return rows


def _place_one_point(
    xp: Any, rows: Rows, ends: list[tuple[Array, Array]], weight: Array | None, k: int, point: int
) -> None:
    """Copy the edges of one point, which are group ``k``, to their output range, in order."""
    first = int(rows.offsets[point])
    for group, far in ends:
        for start in range(0, group.size, PART):
            at = xp.flatnonzero(group[start : start + PART] == k) + start
            place = slice(first, first + at.size)
            rows.src[place] = point
            rows.dst[place] = far[at]
            if rows.weight is not None and weight is not None:
                rows.weight[place] = weight[at]
            assert rows.order is not None
            rows.order[place] = at
            first += at.size


def _place(
    xp: Any, rows: Rows, src: Array, dst: Array, weight: Array | None,
    forward: Array | None, back: Array | None, start: int,
) -> None:  # fmt: skip
    """Sort some edges, or all, and the reverses of others, into the output from ``start`` on."""
    near, far = src if forward is None else src[forward], dst if forward is None else dst[forward]
    near, far = near.astype(np.int32, copy=False), far.astype(np.int32, copy=False)
    at = forward
    if back is not None:
        at = xp.arange(src.size) if at is None else at
        near = xp.concatenate([near, dst[back].astype(np.int32)])
        far = xp.concatenate([far, src[back].astype(np.int32)])
        at = xp.concatenate([at, back])
    place = slice(start, start + near.size)
    order = near.astype(np.int64) << 32  # one sort of (source, position): faster than argsort
    order |= xp.arange(near.size, dtype=np.int64)
    sort_words(order, 32)
    rows.src[place] = order >> 32
    order &= 0xFFFFFFFF
    rows.dst[place] = far[order]
    at = order if at is None else at[order]
    assert rows.order is not None
    rows.order[place] = at
    if rows.weight is not None and weight is not None:
        rows.weight[place] = weight[at]
