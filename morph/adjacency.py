"""The index from points to their edges, for NumPy and CuPy alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.device import Array, Device
from morph.table import Table
from morph.values import check_ids

PART = 1 << 20  # keys looked at together

Index = tuple[Array, Array | None]
"""Offsets by point (int64), and edge ids (int32), None if entry k is edge k."""


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
    starts = range(0, keys.size - 1, PART)
    return all(bool((keys[k + 1 : k + PART + 1] >= keys[k : k + PART][: keys.size - 1 - k]).all())
               for k in starts)  # fmt: skip


def count_keys(xp: Any, keys: Array, n: int, unlike: Array | None = None) -> Array:
    """Count each of 0 to ``n - 1`` among ``keys``, which are all below ``n``; shape (n,), int64.

    Keys equal to what stands at their place in ``unlike`` are left out.
    """
    part = max(PART, keys.size // 16, n // 4)  # bincount() widens what it counts: not all at once
    total = xp.zeros(n, np.int64)
    for start in range(0, keys.size, part):
        some = keys[start : start + part]
        if unlike is not None:
            some = some[some != unlike[start : start + part]]
        if some.size:
            total += xp.bincount(some.astype(np.int64), minlength=n)
    return total


def offsets_of(device: Device, keys: Array, n: int, capacity: int) -> Array:
    """Count ``keys`` below ``n`` into offsets, shape (capacity + 1,), int64.

    The offsets beyond ``n`` are the number of keys, so that a point made by a kernel has no edges
    until the index is built anew.
    """
    xp = device.xp
    offsets = xp.full(max(capacity, n) + 1, keys.size, np.int64)
    offsets[0] = 0
    xp.cumsum(count_keys(xp, keys, n), out=offsets[1 : n + 1])
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


class Adjacency:
    """The out- and in-index of a graph's edges, each built when first asked for.

    Dead edges, and edges at dead points or at none, are not in it.

    Attributes
    ----------
    sorted_by : str or None
        The column of edges that orders each point's out-edges, before their ids.
    """

    __slots__ = ("_built", "edges", "points", "sorted_by")

    def __init__(self, points: Table, edges: Table) -> None:
        self.points = points
        self.edges = edges
        self.sorted_by: str | None = None
        self._built: dict[str, Index] = {}

    def clear(self) -> None:
        """Have everything built anew."""
        self._built.clear()

    def sort_by(self, column: str | None) -> None:
        """Order out-edges by a column from now on."""
        self.sorted_by = column
        self._built.pop("out", None)

    def set_out(self, offsets: Array) -> None:
        """Take the out-index of edges that lie in order: entry k is edge k."""
        self._built["out"] = self._padded(offsets), None

    def copy_from(self, other: Adjacency) -> None:
        """Copy what another graph's index has, whose rows are the same."""
        copy = self.points.device.copy
        self.sorted_by = other.sorted_by
        for direction, (offsets, ids) in other._built.items():
            self._built[direction] = copy(offsets), None if ids is None else copy(ids)

    def index(self, direction: str) -> Index:
        """Give one index; its offsets are there for the whole capacity of the points.

        Raises
        ------
        ValueError
            If there is no such direction, or an edge has an end that is not a point.
        """
        if direction not in ("out", "in"):
            raise ValueError(f"direction {direction!r}: expected 'out' or 'in'")
        offsets, ids = self._built.get(direction) or self._build(direction)
        self._built[direction] = built = self._padded(offsets), ids
        return built

    def _build(self, direction: str) -> Index:
        edges, device = self.edges, self.edges.device
        ids = self._valid()
        near = edges.columns["src" if direction == "out" else "dst"].array
        with device.active():
            by = None
            if direction == "out" and self.sorted_by in edges.columns:
                by = edges.columns[self.sorted_by].array[ids]
            n, capacity = len(self.points), self.points.capacity
            return group(device, near[ids], ids, n, capacity, by)

    def _valid(self) -> Array:
        """Ids of the live edges between live points, ascending, int64."""
        points, edges, xp = self.points, self.edges, self.edges.device.xp
        with edges.device.active():
            ids = edges.ids()
            ends = [edges.columns[c].array[: len(edges)] for c in ("src", "dst")]
            for column, end in zip(("src", "dst"), ends, strict=True):
                check_ids(end[ids], len(points), f"edges.{column}", "points", lowest=-1)
            ids = ids[xp.minimum(*(end[ids] for end in ends)) >= 0]
            if points.deletes:
                alive = points.alive
                for end in ends:
                    ids = ids[alive[end[ids]]]
            return ids

    def _padded(self, offsets: Array) -> Array:
        """Give offsets for the whole capacity of the points."""
        n, size = len(self.points), self.points.capacity + 1
        if offsets.size == size:
            return offsets
        with self.points.device.active():
            longer = self.points.device.xp.full(size, int(offsets[n]), np.int64)
            longer[: n + 1] = offsets[: n + 1]
        return longer
