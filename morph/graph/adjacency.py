"""The adjacency index: CSR, or gapped rows, of out- and in-edges; NumPy or CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from morph.data.conversion import check_ids
from morph.data.sorting import stable_order
from morph.data.table import Table
from morph.data.versions import latest
from morph.graph.gapped import (
    ALL,
    DELETED,
    INDEX,
    INSERTED,
    INSERTS,
    SLACK,
    Counts,
    EdgeIds,
    GappedRows,
    Sides,
    Single,
    Tables,
    arc_view,
    batch_table,
    load,
    set_rows,
    weight_of,
)
from morph.graph.rebuild import RebuiltRows
from morph.graph.tiles import Tiles, tiles_of
from morph.language.arguments import string
from morph.language.dtypes import ID_LIMIT, vec
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.runtime.arrays import all_true, count_each
from morph.runtime.device import Array, Device

change: Hook[int] = Hook()  # provided by updates.in_place
change_one: Hook[int] = Hook()
copy_entries: Hook[None] = Hook()  # updates.in_place

PART = 1 << 20  # keys processed at once
# the report of `updates.in_place.change` on a batch
REPORT: dict[str, Any] = {
    "reason": np.int64,
    "stamp": np.int64,
    "repeated": np.int64,
    "rounds": np.int64,
    "result": np.int64,
    "left_out": vec(np.int64, 4),  # see `updates.resolve.resolve_batch`
    "short": vec(np.int64, 2),  # of each arena, the number of entries that it lacks
}
NO_IDS = EdgeIds(0, 0, 0, 0, 0, 0)  # no edges are inserted


def no_reader() -> None:
    """Return None, like a dead weak reference."""


Index = tuple[Array, Array | None]
"""Offsets by point (int64), and edge ids (int32), None if entry k is edge k."""


def is_sorted(keys: Array) -> bool:
    """Whether ``keys`` are non-decreasing."""
    starts = range(0, keys.size - 1, PART)
    return all(all_true(keys[k + 1 : k + PART + 1] >= keys[k : k + PART][: keys.size - 1 - k])
               for k in starts)  # fmt: skip


def count_keys(xp: Any, keys: Array, n: int, unlike: Array | None = None) -> Array:
    """Count the occurrences of each key below ``n``, shape (n,), int64.

    A key that is equal to the element of ``unlike`` at its position is not counted.
    """
    part = max(PART, keys.size // 16, n // 4)  # in parts, as NumPy converts keys to int64
    total = xp.zeros(n, np.int64)
    for start in range(0, keys.size, part):
        some = keys[start : start + part]
        if unlike is not None:
            some = some[some != unlike[start : start + part]]
        if some.size:
            total += count_each(xp, some.astype(np.int64), n)
    return total


def offsets_of(device: Device, keys: Array, n: int, capacity: int) -> Array:
    """Count ``keys`` below ``n`` into offsets, shape (capacity + 1,), int64.

    The offsets beyond ``n`` are the number of keys, so that a point allocated by a kernel has no
    edges until the index is rebuilt.
    """
    xp = device.xp
    offsets = xp.full(max(capacity, n) + 1, keys.size, np.int64)
    offsets[0] = 0
    xp.cumsum(count_keys(xp, keys, n), out=offsets[1 : n + 1])
    return offsets


def group(
    device: Device, keys: Array, ids: Array, n: int, capacity: int, by: Array | None = None
) -> tuple[Array, Array]:
    """Group edges ``ids`` by their points ``keys``, ordered by ``by``, then by id.

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
            ids = ids[stable_order(device.xp, keys, 31)]
        return offsets, ids.astype(np.int32)


class Bound(NamedTuple):
    """The arguments of a batch's program, cached."""

    epoch: int  # `morph.data.versions.latest` before it was looked up
    table: Table | None
    back: Array | None
    tables: Tables | None = None
    sides: Sides | None = None
    no_single: Single = Single(0, 0, 0, 0)


class Adjacency:
    """The out- and in-index of a graph's edges, each built on demand.

    They exclude dead edges, and edges with an end that is a dead point or None.

    Attributes
    ----------
    sorted_by : str or None
        The column of edges that orders each point's out-edges, before their ids.
    gapped : bool
        Whether rows have spare capacity, so that batches change them in place; then `index`
        returns a copy.
    complete : bool
        Whether the index has all live edges, and no deleted point has edges.
    """

    __slots__ = (
        "_arcs", "_arcs_of", "_back", "_batches", "_bound", "_built", "_gapped", "_left_out",
        "_none", "_rebuilt", "_recycled", "_report", "_tiles", "complete", "edges", "gapped",
        "kept", "latest", "many", "many_at", "moves", "points", "single_at", "singles",
        "sorted_by", "stamp",
    )  # fmt: skip

    def __init__(self, points: Table, edges: Table) -> None:
        self.points = points
        self.edges = edges
        self.sorted_by: str | None = None
        self._built: dict[str, Index] = {}
        self._tiles: dict[str, tuple[Index, Tiles | None]] = {}  # with their index
        self.gapped = False
        self.complete = True
        self._gapped: dict[str, GappedRows] = {}
        self._batches: dict[Any, Table] = {}
        self._arcs: Table | None = None
        self._arcs_of: tuple[Any, ...] = ()
        self._back: Array | None = None
        self._recycled: Array | None = None  # `Graph.recycled`
        self._report: Table | None = None
        # (stamp, numbers) of the batch whose report was read last
        self._left_out: tuple[int, list[int]] = -1, []
        self._none: GappedRows | None = None
        self._rebuilt: RebuiltRows | None = None
        self._bound = Bound(-1, None, None)
        # returns the reader of the latest batch, or None
        self.latest: Callable[[], Any] = no_reader
        # readers of earlier batches, by the table that still holds their records
        self.kept: dict[Table, Callable[[], Any]] = {}
        self.moves = 0  # counts reallocations of the entries of gapped rows
        self.stamp = 0  # of the batch that lies in a table of batches
        # `updates.single.SingleChanges`, if made and valid; the second has a table of its own, for
        # batches while the result of the latest one is in use
        self.singles: tuple[Any, Any] = None, None
        # `Graph.versions` after the latest batch of one change
        self.single_at: tuple[Any, ...] = ()
        # `updates.many.ManyChanges`, by whether a batch has more rows than a block has threads
        self.many: dict[bool, Any] = {}
        # `Graph.versions` after the latest such batch, by the same key
        self.many_at: dict[bool, tuple[Any, ...]] = {}

    @property
    def has_out(self) -> bool:
        """Whether there are gapped rows of out-edges."""
        return "out" in self._gapped

    @property
    def built(self) -> bool:
        """Whether there is an index."""
        return bool(self._built or self._gapped)

    @property
    def used(self) -> bool:
        """Whether launches may have the addresses of an index, or of rows that they rebuild."""
        return self.built or self._rebuilt is not None

    def clear(self) -> None:
        """Invalidate the index: it is rebuilt at the next use."""
        self._built.clear()
        self._tiles.clear()
        self._gapped.clear()
        self.gapped = False

    def sort_by(self, column: str | None) -> None:
        """Order out-edges by a column from now on."""
        self.sorted_by = column
        if self.gapped:
            self.clear()
        self._built.pop("out", None)

    def set_out(self, offsets: Array) -> None:
        """Set the out-index of all edges, which are sorted: entry k is edge k."""
        self.complete = True
        self._built["out"] = self._padded(offsets), None

    def copy_from(self, other: Adjacency) -> None:
        """Copy the index of another graph with the same rows."""
        copy = self.points.device.copy
        self.sorted_by = other.sorted_by
        for direction, (offsets, ids) in other._built.items() if not other.gapped else ():
            self._built[direction] = copy(offsets), None if ids is None else copy(ids)

    def index(self, direction: str) -> Index:
        """Return one index; its offsets cover the whole capacity of the points.

        Raises
        ------
        ValueError
            If there is no such direction, or an edge has an end that is not a point.
        """
        if string(direction, "direction") not in ("out", "in"):
            raise ValueError(f"direction {shown(direction)}: expected 'out' or 'in'")
        found = self._built.get(direction)
        if found is None and self.gapped:
            found = self.rows(direction).packed(len(self.points))
        offsets, ids = found or self._build(direction)
        self._built[direction] = built = self._padded(offsets), ids
        return built

    def tiles(self, direction: str) -> Tiles | None:
        """Return the tiles of a direction; None if they would not be faster."""
        if self.gapped or not self.points.device.tiles:
            self._tiles.clear()
            return None
        offsets, ids = self.index(direction)
        index, found = self._tiles.get(direction, ((None, None), None))
        if index[0] is not offsets or index[1] is not ids:
            ends = [self.edges.columns[c].array for c in ("src", "dst")]
            device, picked = self.points.device, slice(len(self.edges)) if ids is None else ids
            with device.active():
                near, far = (end[picked] for end in (ends if direction == "out" else ends[::-1]))
            found = tiles_of(device, offsets[: len(self.points) + 1], near, far)
            self._tiles[direction] = (offsets, ids), found
        return found

    def at(self, direction: str, point: int) -> Array:
        """Return the ids of a point's edges, in order; for gapped rows in time linear in these."""
        device = self.points.device
        with device.active():
            if self.gapped and direction in ("out", "in"):
                return self.rows(direction).entries_at(device.asarray([point]))
            offsets, ids = self.index(direction)
            first, last = int(offsets[point]), int(offsets[point + 1])
            return device.xp.arange(first, last) if ids is None else ids[first:last]

    def at_points(self, points: Array, back: Array | None, build: bool) -> Array | None:
        """Return the edges of some points, with duplicates; None if a needed index is not built.

        ``back`` has the reverses of edges, if each has one.  Gapped rows are kept, so it is worth
        building those of the other direction.
        """
        rows = [d for d in ("out", "in") if d in (self._gapped if self.gapped else self._built)]
        if back is not None and "out" in rows:
            rows = ["out"]
        elif self.gapped and build:
            rows = ["out", "in"]
        elif len(rows) < 2:
            return None
        found = [self._entries_at(d, points) for d in rows]
        found.append(found[0][:0] if back is None else back[found[0]])
        return self.points.device.xp.concatenate(found)

    def edges_from(self, points: Array) -> Array:
        """Return the edges from some points, in their order."""
        if not self.gapped:
            self.index("out")
        return self._entries_at("out", points)

    def _entries_at(self, direction: str, points: Array) -> Array:
        """Edges of some points in one direction, shape (sum of degrees,), int32."""
        if self.gapped:
            return self.rows(direction).entries_at(points)
        xp, (offsets, ids) = self.points.device.xp, self._built[direction]
        first, size = offsets[points], offsets[points + 1] - offsets[points]
        ends = xp.cumsum(size)
        k = xp.arange(int(ends[-1]) if ends.size else 0)
        k = k + (first - ends + size)[xp.searchsorted(ends, k, side="right")] if k.size else k
        return k.astype(np.int32) if ids is None else ids[k]

    # --- rows that launches rebuild --------------------------------------------------------------

    def pack(self) -> None:
        """Convert to packed rows, with an array of the ids of their edges."""
        if self.gapped:
            self.clear()
        offsets, ids = self.index("out")
        if ids is None:
            self.edges._refuse_wide("in a graph that kernels change")
            xp = self.points.device.xp
            with self.points.device.active():
                self._built["out"] = offsets, xp.arange(int(offsets[-1]), dtype=np.int32)

    def begin_rebuilds(self, directions: Iterable[str], running: bool = False) -> None:
        """Prepare for a launch that rebuilds rows; ``running`` if tables have grown during it."""
        if self._rebuilt is None:
            self._rebuilt = RebuiltRows(self.points, self.edges)
        if running:
            self._rebuilt.cover()
            self._built |= self._rebuilt.rows()
            return
        self.pack()
        built = {d: self.index(d) for d in directions}
        self._rebuilt.begin(built)
        _, ids = next(iter(built.values()))
        assert ids is not None  # by `pack`
        self._built |= self._rebuilt.rows(ids.size)

    def end_rebuilds(self) -> None:
        """Install the rows that a launch has rebuilt; invalidate the other direction."""
        rebuilt = self.rebuilt_rows()
        with self.points.device.active():
            count = int(next(iter(rebuilt.index.values()))[0][-1])
        self._built.clear()
        self._built |= rebuilt.rows(count)
        self.complete = count == self.edges.live

    def trim_rebuilt(self) -> None:
        """Truncate rows that a launch has enlarged, but not rebuilt."""
        for direction, (offsets, ids) in self.rebuilt_rows().index.items():
            known = self._built.get(direction)
            if known is not None and known[1] is not None and known[1].size == ids.size:
                with self.points.device.active():
                    self._built[direction] = offsets, ids[: int(offsets[-1])]

    def rebuilt_rows(self) -> RebuiltRows:
        """The arrays of the current launch."""
        assert self._rebuilt is not None
        return self._rebuilt

    # --- gapped rows ------------------------------------------------------------------------------

    def loosen(self) -> bool:
        """Convert CSR to gapped rows, atomically; return whether it was possible."""
        if self.gapped or self.sorted_by is not None:
            return self.gapped
        made = {d: self._gapped_rows(d) for d in self._built}
        if not made or None in made.values():
            return False
        self._gapped = {d: rows for d, rows in made.items() if rows is not None}
        self.gapped = True
        self._built.clear()
        return True

    def rows(self, direction: str) -> GappedRows:
        """Return the gapped rows of a direction, built if needed, for all points and edges."""
        found = self._gapped.get(direction)
        if found is None:
            self._built[direction] = self._build(direction)
            found = self._gapped_rows(direction)
            if found is None:
                raise MemoryError("the index with room would have more than 2^31 entries")
            self._gapped[direction] = found
        found.cover(self.points.capacity, self.edges.capacity)
        return found

    def insert(self, ids: Array, src: Array, dst: Array) -> bool:
        """Insert edges into gapped rows in place; return whether addresses have changed."""
        if not self._gapped:
            return False
        before, count = self.moves, int(ids.size)
        table = self._known(INSERTED, ids, src, dst)
        self.change(table, Counts(count, 0, 0, 0, 0), NO_IDS, None, INDEX)
        return self.moves != before

    def remove(self, ids: Array, src: Array, dst: Array) -> None:
        """Remove edges from gapped rows in place."""
        if self._gapped:
            table, count = self._known(DELETED, ids, src, dst), int(ids.size)
            self.change(table, Counts(count, count, 0, 0, 0), NO_IDS, None, INDEX)

    def change(
        self, table: Table, counts: Counts, ids: EdgeIds, back: Array | None,
        part: int = ALL, flags: int = 0, single: Single | None = None,
    ) -> int:  # fmt: skip
        """Run `updates.in_place.change`, and enlarge the arena until the inserts fit.

        Parameters
        ----------
        table : Table
            The result of `table_for`, filled.
        counts : Counts
        ids : EdgeIds
        back : array or None
            The reverse of each edge.
        part, flags : int
            See `updates.in_place.change`.
        single : Single, optional
            The change, if it is a single one that is not in the table.

        Returns
        -------
        int
            0; -2 if some edges were named twice (see `left_out`); other negative values are reasons
            why the graph is unchanged.
        """
        self.stamp += 1
        tables, sides, no_single = self.arguments(table, back)
        given = (no_single if single is None else single)._replace(stamp=self.stamp)
        args = tables, sides, counts, ids, flags, part, given
        short = change(*args, False) if single is None else change_one(*args)
        return self.finish(short, table, counts, ids, back, flags, single is not None)

    def finish(
        self, short: int, table: Table, counts: Counts, ids: EdgeIds, back: Array | None,
        flags: int, one: bool = False,
    ) -> int:  # fmt: skip
        """Enlarge the arena and repeat the inserts while their program returns ``short`` > 0."""
        while short > 0:
            lacking = self._read_report()["short"]
            for direction, entries in zip(self._directions(), lacking, strict=False):
                if entries > 0:
                    self._enlarge(direction, entries)
            tables, sides, no_single = self.arguments(table, back)
            args = tables, sides, counts, ids, flags, INSERTS, no_single._replace(stamp=self.stamp)
            short = change_one(*args) if one else change(*args, False)
        self._built.clear()
        return short

    def arguments(self, table: Table, back: Array | None) -> tuple[Tables, Sides, Single]:
        """The object arguments of `updates.in_place.change`, and a placeholder for ``single``."""
        bound = self._bound
        if bound.epoch != latest.epoch or bound.table is not table or bound.back is not back:
            bound = self._bound = self._bind(table, back)
        assert bound.tables is not None and bound.sides is not None
        return bound.tables, bound.sides, bound.no_single

    def _bind(self, table: Table, back: Array | None) -> Bound:
        """The arguments of `updates.in_place.change`, cached while all versions are unchanged."""
        epoch = latest.epoch
        ring = self.edges.ring.size if self.edges.deletes else 1
        tables = Tables(table, self.arcs(back), self.report(), ring - 1)
        weight = table.columns.get("given")
        no_single = Single(0, 0, 0, 0 if weight is None else weight.dtype.type(0))
        return Bound(epoch, table, back, tables, self._sides(), no_single)

    def report(self) -> Table:
        """The report of the program of a batch, one row."""
        if self._report is None:
            # packed, so that one copy reads it
            made = Table("report", self.points.device, 0, [tuple(REPORT)], **REPORT)
            made.extend(1)
            self._report = made
        return self._report

    def arcs(self, back: Array | None) -> Table:
        """The columns of edges that kernels of batches write, see `gapped.arc_view`."""
        now, recycled = (self.edges.version, self.points.version), self.edges.graph.recycled
        same = self._arcs_of == now and self._back is back and self._recycled is recycled
        if self._arcs is None or not same:
            self._arcs = arc_view(self.edges, self.points, back, recycled)
            self._arcs_of, self._back, self._recycled = now, back, recycled
        return self._arcs

    def began(self) -> bool:
        """Whether the latest batch has begun to change the graph."""
        return self._report is not None and int(self._report.stamp[0]) == self.stamp

    def result(self) -> int:
        """The result of the program of the latest batch; -1 if it changed nothing."""
        found = self._read_report()
        return found["result"][0] if found["stamp"][0] == self.stamp else -1

    def _read_report(self) -> dict[str, list[int]]:
        """Copy the report of the latest batch to the host."""
        rec = self.report()._records[0]
        words = self.points.device.to_host(rec.buffer[: rec.stride]).view(np.int64).tolist()
        starts = [o // 8 for o in (*rec.offsets, rec.stride)]
        found = {n: words[starts[k] : starts[k + 1]] for k, n in enumerate(rec.names)}
        self._left_out = self.stamp, found["left_out"][: REPORT["left_out"].size]
        return found

    def left_out(self) -> list[int]:
        """The numbers of changes that the latest batch skipped, see `updates.resolve`."""
        if self._left_out[0] != self.stamp:
            self._read_report()
        return self._left_out[1]

    def refresh(self) -> None:
        """Invalidate copies of gapped rows, which have changed."""
        if self.gapped:
            self._built.clear()

    def _directions(self) -> list[str]:
        """The directions that have gapped rows, in the order of `Sides`."""
        return [d for d in ("out", "in") if d in self._gapped]

    def _sides(self) -> Sides:
        """The rows of both directions; empty rows stand for a direction that is not used."""
        if self._none is None:
            self._none = GappedRows(self.points.device, 1, 1)
        sides = [self.rows(d) for d in self._directions()]
        one, two = (*sides, self._none)[:2]
        return Sides(*one.side(), *two.side(), one.limit, two.limit, len(sides))

    def _known(self, outcome: int, ids: Array, src: Any, dst: Any) -> Table:
        """A batch table of edges with known ids."""
        table, turned = self.table_for(int(ids.size)), "out" not in self._gapped
        load(table, outcome, ids, *((dst, src) if turned else (src, dst)))
        return table

    def table_for(self, count: int, report: bool = False, second: bool = False) -> Table:
        """Return a batch table for ``count`` edges; its capacity sets the threads of a launch.

        With ``report`` the table is for the report on a batch, not for a batch to be applied.
        ``second``: a second table, for a batch while the result of the latest one is in use.
        """
        weight = weight_of(self.edges)
        small = self.points.device.serial_items
        key = count > small, None if weight is None else weight.dtype, report, second
        table = self._batches.get(key)
        if table is None:
            for other in [k for k in self._batches if k[1] != key[1]]:
                self.kept.pop(self._batches.pop(other), None)
            capacity = 0 if key[0] else small
            self._batches[key] = table = batch_table(self.points.device, capacity, key[1])
        if not report:
            self.begin_batch(table)
        set_rows(table, count)
        return table

    def begin_batch(self, table: Table) -> None:
        """Begin a batch in a table.

        Increment the stamp, note which table holds the latest batch's records, and copy the records
        that this table holds if an `Applied` still needs them.
        """
        self.stamp += 1
        latest = self.latest()
        if latest is not None:
            if latest.table is table:
                latest.save()
            else:
                self.kept[latest.table] = ref(latest)
            self.latest = no_reader
        if self.kept and (before := self.kept.pop(table, no_reader)()) is not None:
            before.save()

    def is_free(self, table: Table) -> bool:
        """Whether no `Applied` needs what a batch table holds."""
        latest = self.latest()
        if latest is not None and latest.table is table:
            return False
        return not self.kept or self.kept.get(table, no_reader)() is None

    def _enlarge(self, direction: str, short: int) -> None:
        """Add capacity to an arena: rebuild the rows, or, if that has just been done, grow it.

        Either copies all entries once, but a rebuild also removes unused entries, and gives each
        row spare capacity, so that few rows move.
        """
        self.moves += 1
        rows = self._gapped[direction]
        top, need = rows.shares()
        if need != top:
            self._gapped[direction] = rows.rebuilt()
            copy_entries(rows.side(), self._gapped[direction].side(), need)
            return
        if rows.limit == ID_LIMIT:
            raise MemoryError("the index with room would have more than 2^31 entries")
        rows.grow(min(rows.limit + max(rows.limit >> SLACK, short), ID_LIMIT))

    def _gapped_rows(self, direction: str) -> GappedRows | None:
        """The built index of a direction, as rows with spare capacity."""
        offsets, ids = self._built[direction]
        columns, names = self.edges.columns, ("src", "dst")
        near, far = (columns[c].array for c in (names if direction == "out" else names[::-1]))
        capacities = self.points.capacity, self.edges.capacity
        n = len(self.points)
        return GappedRows.of(offsets[: n + 1], ids, near, far, self.points.device, *capacities)

    def _build(self, direction: str) -> Index:
        self.edges._refuse_wide("in an index of in-edges")
        edges, device = self.edges, self.edges.device
        ids = self._valid()
        self.complete = ids.size == edges.live
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
        """Return offsets for the whole capacity of the points."""
        n, size = len(self.points), self.points.capacity + 1
        if offsets.size == size:
            return offsets
        with self.points.device.active():
            longer = self.points.device.xp.full(size, int(offsets[n]), np.int64)
            longer[: n + 1] = offsets[: n + 1]
        return longer
