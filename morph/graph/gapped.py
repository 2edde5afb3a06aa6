"""Dynamic adjacency lists (CSR with gaps), which batches of edge changes update in place.

Each point has a row of entries in one arena: `size` entries from `begin` on, with capacity for
`extent`.  Rows have no tombstones: a deletion moves the row's last entries to the gaps.  A row
that exceeds its capacity is moved to the end of the arena.  Its old entries are then unused, like
the spare capacity of rows that shrink; when the arena is full, all rows are rebuilt.  An entry has
the edge and its other end, so a sweep reads memory in order.  The kernels that change rows are in
`updates.in_place`; `kernels/storage/graph.h` reads rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.compiler.ir.layout import GAPPED_ROW
from morph.data.layout import Column, Place
from morph.data.store import COUNT
from morph.data.table import Table
from morph.language.dtypes import ID_LIMIT, vec
from morph.runtime.device import Array, Device, is_host

DELETED, UPDATED, INSERTED = 1, 2, 3  # the outcome of a change
# The phase at which the program of a batch begins: all; the index, if edges are known by id; the
# inserts, after a full arena was enlarged.
ALL, INDEX, INSERTS = 0, 1, 2
# Minus this is the result of a batch: with an invalid change; with changes that repeat an edge, or
# name an edge that does not exist; with loops that have to be counted.
INVALID, REPEATED, LOOP = 1, 2, 3
# Result of a repair, in the launch of a batch or in one behind it, if the batch was refused, still
# lacks memory, or (without `Batch.partial`) was applied only in part.
NOT_APPLIED = -(2**62)

# number of unused entries at the end of a new arena: its rows >> SLACK, at least LEAST; with 4
# random inserts and deletes take up to 7 % longer, as rows are rebuilt twice as often
SLACK, LEAST = 3, 1 << 12
WORK = ("extent", "position", "inserted", "deleted")  # the last three are 0 except during a batch


class Side(NamedTuple):
    """One direction of an index, for kernels: the tables of `GappedRows`."""

    rows: Table
    entries: Table
    places: Table
    arena: Table


class Sides(NamedTuple):
    """The directions of an index, for kernels: two `Side`, or one and a placeholder.

    The fields are flat, as each launch checks the types of nested bundles.
    """

    rows: Table
    entries: Table
    places: Table
    arena: Table
    rows2: Table
    entries2: Table
    places2: Table
    arena2: Table
    limit: int  # the capacity of the arena, in entries
    limit2: int
    sides: int  # number of directions


class Tables(NamedTuple):
    """The tables that kernels of a batch write in addition to the index."""

    batch: Table  # see `batch_table`
    arcs: Table  # see `arc_view`
    report: Table  # see `Adjacency`
    mask: int  # the capacity of the ring of deleted edges, minus 1


class Counts(NamedTuple):
    """The number of changes of each kind in a batch."""

    given: int  # changes; reverses add as many rows to its table
    deletes: int
    updates: int
    arcs: int  # inserts, including reverses
    by_ends: int  # the kinds that are named by ends: DELETED, UPDATED


class EdgeIds(NamedTuple):
    """Counters of the tables of points and edges, and the ids of new edges."""

    points: int
    edges: int  # the first unused id
    reused: int  # number of recycled ids, which are used first
    head: int  # of the ring of recycled ids
    tail: int
    # ids below this have an input position (`Graph.edge_order`), which they lose when they are
    # reused; 0: none
    ordered: int


class Single(NamedTuple):
    """The stamp of a batch, and its change, if it is a single one: an id or two ends, a weight."""

    stamp: int
    a: int
    b: int
    weight: Any


class GappedRows:
    """One direction of the adjacency index, as rows with spare capacity.

    Attributes
    ----------
    rows : Table
        For each point, a record of its row, and a record of counters for the kernels that change
        it.
    entries : Table
        ``edge`` and ``end``, the point at the other end.
    places : Table
        For each edge, its position in its row, or -1.
    arena : Table
        One row: ``top``, the first unused entry.
    """

    __slots__ = ("arena", "device", "entries", "places", "rows")

    def __init__(
        self, device: Device, points: int, edges: int, places: Table | None = None
    ) -> None:
        self.device, narrow = device, np.int32
        self.rows = Table("rows", device, points, (GAPPED_ROW, WORK), begin=narrow, size=narrow,
                          extent=narrow, position=narrow, inserted=narrow,
                          deleted=narrow)  # fmt: skip
        self.entries = Table("entries", device, 0, edge=narrow, end=narrow)
        self.places = Table("places", device, edges, at=narrow) if places is None else places
        self.arena = Table("arena", device, 1, top=np.int64)
        for table in (self.rows, self.places, self.arena):
            fill(table)

    @classmethod
    def of(
        cls, offsets: Array, ids: Array | None, near: Array, far: Array, device: Device,
        points: int, edges: int,
    ) -> GappedRows | None:  # fmt: skip
        """Make rows with spare capacity from CSR: entry k is edge ``ids[k]``, or edge k.

        Parameters
        ----------
        offsets, ids
            See `Graph.adjacency`.
        near, far : array
            Both ends of edges, by id.
        points, edges : int
            Capacities.

        Returns
        -------
        GappedRows or None
            None if the number of entries exceeds 32-bit ids.
        """
        xp = device.xp
        with device.active():
            size = offsets[1:] - offsets[:-1]
            extent = entries_to_reserve(size)
            if int(extent.sum()) + LEAST > ID_LIMIT:
                return None
            made = cls(device, points, edges)
            begin = made._place_rows(size, extent)
            at = made.places.columns["at"].array
            at[:] = -1
            edge, end = (made.entries.columns[c].array for c in ("edge", "end"))
            shift, m = begin - offsets[:-1], int(offsets[-1])
            part = device.bulk
            for first in range(0, m, part):
                k = xp.arange(first, min(first + part, m))
                e = k if ids is None else ids[first : first + part]
                owner = near[e]
                at[e] = k - offsets[owner]
                k = k + shift[owner]
                edge[k] = e
                end[k] = far[e]
        return made

    def grow(self, capacity: int) -> None:
        """Enlarge the arena to ``capacity`` entries."""
        self.entries.resize(capacity)
        fill(self.entries)

    def rebuilt(self) -> GappedRows:
        """Return contiguous rows of the same sizes, in the order of their points, without entries.

        `in_place.copy_entries` copies these.
        """
        size, old = (self.rows.columns[c].array for c in ("size", "extent"))
        with self.device.active():
            made = GappedRows(self.device, self.rows.capacity, 0, self.places)
            made._place_rows(size, entries_to_reserve(size, old))
        return made

    def _place_rows(self, size: Array, extent: Array) -> Array:
        """Lay out rows contiguously, with unused capacity behind; return their begins."""
        begin, total = extent.cumsum(dtype=np.int64) - extent, int(extent.sum(dtype=np.int64))
        for name, a in (("begin", begin), ("size", size), ("extent", extent)):
            self.rows.columns[name].array[: size.size] = a
        self.grow(min(total + max(total >> SLACK, LEAST), ID_LIMIT))
        self.arena.columns["top"].array[:1] = total
        return begin

    def cover(self, points: int, edges: int) -> bool:
        """Enlarge the tables for some points and edges; return whether addresses have changed."""
        moved = False
        for table, count in ((self.rows, points), (self.places, edges)):
            if len(table) < count:  # also after an interrupt in `fill`
                table.resize(max(count, table.capacity))
                fill(table)
                moved |= table is self.rows
        return moved

    def packed(self, n: int) -> tuple[Array, Array]:
        """Return offsets, shape (capacity of rows + 1,), int64; edge ids, shape (m,), int32."""
        xp, device = self.device.xp, self.device
        with device.active():
            rows = self.rows.columns
            size, begin = (rows[c].array.astype(np.int64) for c in ("size", "begin"))
            offsets = device.zeros(size.size + 1, np.int64)
            xp.cumsum(size, out=offsets[1:])
            m = int(offsets[n])
            ids = device.empty(m, np.int32)
            edge, shift = self.entries.columns["edge"].array, begin - offsets[:-1]
            part = device.bulk
            for first in range(0, m, part):
                k = xp.arange(first, min(first + part, m))
                owner = xp.searchsorted(offsets[1:], k, side="right")
                ids[first : first + part] = edge[k + shift[owner]]
            return offsets, ids

    def entries_at(self, points: Array) -> Array:
        """Edges of some points, shape (sum of degrees,), int32."""
        xp, rows = self.device.xp, self.rows.columns
        size, begin = (rows[c].array[points].astype(np.int64) for c in ("size", "begin"))
        ends = xp.cumsum(size)
        k = xp.arange(int(ends[-1]) if ends.size else 0)
        if not k.size:
            return self.device.zeros(0, np.int32)
        owner = xp.searchsorted(ends, k, side="right")
        found = self.entries.columns["edge"].array[k + (begin - ends + size)[owner]]
        return found

    def shares(self) -> tuple[int, int]:
        """Return the used length of the arena, now and after a rebuild of the rows."""
        with self.device.active():
            rows = self.rows.columns
            need = entries_to_reserve(*(rows[c].array for c in ("size", "extent"))).sum(
                dtype=np.int64
            )
            return self.top, int(need)

    @property
    def top(self) -> int:
        """The number of entries before the arena's unused end."""
        with self.device.active():
            return int(self.arena.columns["top"].array[0])

    @property
    def limit(self) -> int:
        """The capacity of the arena, in entries."""
        return self.entries.capacity

    def side(self) -> Side:
        """The tables as one argument of kernels."""
        return Side(self.rows, self.entries, self.places, self.arena)


def entries_to_reserve(size: Array, old: Array | None = None) -> Array:
    """Return the capacities of rows when they are rebuilt, from sizes and old capacities."""
    extent: Array = size + (size >> 3) + 2 * (size > 0)
    if old is None:
        return extent
    return np.maximum(extent, np.minimum(old, size + (size >> 1) + 4))


def fill(table: Table) -> None:
    """Set the number of rows of a table to its capacity."""
    table._host_meta[COUNT] = table.capacity
    table._publish_counters()


def batch_table(device: Device, capacity: int, weight: Any) -> Table:
    """Make the table of a batch, one row per change.

    Input: ``a`` and ``b``, the id of an edge or its two ends, and ``given``, its weight.  Output:
    ``edge``, ``end``, ``weight``, the old weight (if ``weight`` is a type), and ``outcome``.  The
    other columns are temporary values of the kernels.
    """
    two, one, wide = vec(np.int32, 2), np.int32, np.int64
    found, weights = ["end", "rank", "edge", "outcome"], {}
    if weight is not None:
        found.append("weight")
        weights = {"given": weight, "weight": weight}
    made = Table("batch", device, capacity, (found, ("keep", "far", "at")), a=wide, b=wide,
                 end=two, rank=two, edge=one, outcome=one, keep=two, far=two, at=two,
                 **weights)  # fmt: skip
    fill(made)
    return made


def arc_view(
    graph_edges: Table, points: Table, back: Array | None, recycled: Array | None
) -> Table:  # fmt: skip
    """A table over the memory of the edges' table, which kernels of batches write directly.

    It has ``src``, ``dst``, ``weight``, ``died``, ``back`` (the reverse) and ``recycled`` (see
    `Graph.recycled`) by edge; ``ring``, the ring of dead edges; ``lost``, the dead points;
    ``word``, the counters.  A missing array is replaced by one of one row.
    """
    device, edges = graph_edges.device, graph_edges
    made = Table("arcs", device)
    arrays = {c: (edges.columns[c].array, edges.columns[c].stride) for c in ("src", "dst")}
    arrays["word"] = edges.meta, 8
    weight = weight_of(edges)
    if weight is not None:
        arrays["weight"] = weight.array, weight.stride
    nothing = device.zeros(1, np.int32)
    unset = device.zeros(1, np.uint8)
    dead, lost = (t.hidden("dead") if t.deletes else unset for t in (edges, points))
    free = edges.ring if edges.deletes else nothing
    for name, a in (("died", dead), ("lost", lost), ("ring", free),
                    ("back", nothing if back is None else back),
                    ("recycled", unset if recycled is None else recycled)):  # fmt: skip
        arrays[name] = a, a.dtype.itemsize
    for name, (a, stride) in arrays.items():
        made.columns[name] = Column(
            name, a.dtype, 0, None, a.dtype.type(0), stride, Place.of(device, a)
        )
    made.capacity = ID_LIMIT
    fill(made)
    made._changed()
    return made


def weight_of(edges: Table) -> Column | None:
    """The column of weights, if it exists and has numbers."""
    weight = edges.columns.get("weight")
    if weight is None or weight.size or weight.ref or weight.dtype.kind not in "iuf":
        return None
    return weight


def set_rows(table: Table, count: int) -> None:
    """Set the number of rows of a batch; on a GPU it is always the capacity."""
    if table.capacity < count:
        table._host_meta[COUNT] = 0
        try:
            table.resize(max(count, 16))
        finally:  # the old number if memory runs out
            fill(table)
    if table.device.on_host:
        table.meta[COUNT] = count


def load(table: Table, outcome: int, ids: Array, near: Any, far: Any) -> None:
    """Write edges with known ids to a batch table, all with one outcome."""
    count = int(ids.size)
    set_rows(table, count)
    with table.device.active():
        if not table.device.on_host and all(map(is_host, (ids, near, far))):
            rec = table._records[0]
            row = np.zeros((count, rec.stride // 4), np.int32)
            edge, end, what = (rec.offset(c) // 4 for c in ("edge", "end", "outcome"))
            row[:, edge], row[:, end], row[:, end + 1], row[:, what] = ids, near, far, outcome
            rec.buffer[: row.nbytes].set(row.reshape(-1).view(np.uint8))
        else:
            asarray, columns = table.device.asarray, table.columns
            columns["edge"].array[:count] = asarray(ids)
            columns["outcome"].array[:count] = outcome
            both = columns["end"].array
            both[:count, 0] = asarray(near)
            both[:count, 1] = asarray(far)
