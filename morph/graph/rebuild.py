"""Arrays for programs that rebuild the adjacency in a launch, after steps that change it.

The algorithm is in `kernels/schedule/rebuild.h`.  The arrays have elements for the capacity of the
tables, so that a rebuild cannot run out of memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.compiler.ir.layout import Rebuild
from morph.data.table import Table
from morph.runtime.device import Array

WARPS = 1 << 14  # maximum of resident warps of a GPU, and of CPU threads
# Arrays with an element for each edge, used only during one rebuild.
TEMPORARY = {
    Rebuild.RANKS: np.int32,
    Rebuild.ENTRIES: np.int32,
    Rebuild.KEYS: np.uint64,
    Rebuild.MORE_KEYS: np.uint64,
}


class RebuiltRows:
    """The arrays with which launches rebuild the packed adjacency of a graph.

    Attributes
    ----------
    block : array of int64
        See `Rebuild`.
    index : dict
        The offsets and the ids of edges, by direction.
    """

    __slots__ = ("block", "counts", "edges", "index", "listed", "points", "temporary")

    def __init__(self, points: Table, edges: Table) -> None:
        self.points, self.edges, device = points, edges, points.device
        self.block = device.zeros(len(Rebuild), np.int64)
        self.counts = device.zeros(WARPS, np.int64)
        self.listed = device.zeros(1, np.uint8)
        self.index: dict[str, tuple[Array, Array]] = {}
        self.temporary: dict[Rebuild, Array] = {}

    def begin(self, built: dict[str, Any]) -> None:
        """Prepare for a launch that traverses these directions of the adjacency."""
        old, device = self.index, self.points.device
        self.index = {}
        with device.active():
            for direction, (offsets, ids) in built.items():
                known = old.get(direction)
                if known is None or known[0] is not offsets:
                    self.listed = device.zeros(max(self.edges.capacity, 1), np.uint8)
                    self.listed[ids] = 1
                else:
                    ids = known[1]
                self.index[direction] = offsets, ids
        self.cover()

    def rows(self, count: int | None = None) -> dict[str, Any]:
        """The adjacency of ``count`` edges; None: the whole arrays."""
        return {d: (offsets, ids[:count]) for d, (offsets, ids) in self.index.items()}

    def cover(self) -> None:
        """Enlarge the arrays to the capacity of the tables."""
        device, count = self.points.device, max(self.edges.capacity, 1)
        with device.active():
            for direction, (offsets, ids) in self.index.items():
                last = offsets[-1:]  # additional points have no edges
                offsets = self._longer(offsets, self.points.capacity + 1, last)
                self.index[direction] = offsets, self._longer(ids, count)
            self.listed = self._longer(self.listed, count)
            if not self.temporary or self.temporary[Rebuild.RANKS].size < count:
                self.temporary = {w: device.empty(count, t) for w, t in TEMPORARY.items()}
            self._write_addresses()

    def _longer(self, array: Array, size: int, value: Any = 0) -> Array:
        """The array with at least ``size`` elements; new ones are ``value``."""
        if array.size >= size:
            return array
        longer = self.points.device.empty(size, array.dtype)
        longer[: array.size] = array
        longer[array.size :] = value
        return longer

    def _write_addresses(self) -> None:
        points, edges, pointer = self.points, self.edges, self.points.device.pointer
        found = {
            Rebuild.POINTS: points.address("meta"),
            Rebuild.EDGES: edges.address("meta"),
            Rebuild.DEAD_POINTS: points.address("dead") if points.deletes else 0,
            Rebuild.DEAD_EDGES: edges.address("dead"),
            Rebuild.FREE_EDGES: edges.address("free"),
            Rebuild.SRC: edges.address("column", "src"),
            Rebuild.DST: edges.address("column", "dst"),
            Rebuild.SRC_STRIDE: edges.columns["src"].stride,
            Rebuild.DST_STRIDE: edges.columns["dst"].stride,
            Rebuild.OFFSETS: points.capacity + 1,
            Rebuild.LISTED: pointer(self.listed),
            Rebuild.COUNTS: pointer(self.counts),
            **{word: pointer(array) for word, array in self.temporary.items()},
        }
        ends = {"out": (Rebuild.OUT_OFFSET, Rebuild.OUT_EDGE),
                "in": (Rebuild.IN_OFFSET, Rebuild.IN_EDGE)}  # fmt: skip
        for direction, (offsets, ids) in self.index.items():
            found |= zip(ends[direction], (pointer(offsets), pointer(ids)), strict=True)
        first = Rebuild.POINTS  # elements before it are written by launches
        values = [found.get(word, 0) for word in list(Rebuild)[first : Rebuild.CHANGED]]
        self.block[first : Rebuild.CHANGED] = self.points.device.asarray(np.array(values, np.int64))

    def tails(self) -> tuple[int, int]:
        """The ends of the rings of deleted points and edges when rows were last rebuilt."""
        points, edges = self.points.device.to_host(self.block[: Rebuild.EDGES_COUNT]).tolist()
        return points, edges
