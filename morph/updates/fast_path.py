"""The fast path of batches: one launch, without copies from the device.

The changes are copied to the device, and validated and deduplicated by its kernels (`resolve`).
Batches that the fast path cannot validate take the slow path on the host (`batch`, `named`,
`changes`), which raises the errors, and counts the changes of edges that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from morph.data.column import ColumnView
from morph.data.layout import Column
from morph.data.reclaim import SHARE, reclaim, referred, reusable
from morph.data.store import BUDGET, CAPACITY, COMMITTED, COUNT, HEAD, TAIL
from morph.graph.applied import Applied
from morph.graph.gapped import ALL, DELETED, INSERTED, UPDATED, Counts, EdgeIds, Single, weight_of
from morph.language.dtypes import ID_LIMIT
from morph.runtime.device import Array, is_host
from morph.updates.batch import none, rounded
from morph.updates.resolve import (
    EDGES_DELETED,
    LOOP,
    LOOPS_COUNTED,
    NONNEGATIVE,
    POINTS_DELETED,
    REFERRED,
    REPEATED,
    SINGLE,
    UNDIRECTED,
    WRITES_EDGES,
)

if TYPE_CHECKING:
    from morph.data.table import Table
    from morph.graph import Graph

STAGED = 1 << 14  # changes that go to a GPU in one copy

Part = tuple[Array, Array | None, Array | None]
"""Ids, or ends; weights."""


class FastBatch(NamedTuple):
    """A batch whose arguments have forms that the fast path can validate on the device."""

    parts: tuple[Part | None, Part | None, Part | None]  # deletes, updates, inserts
    counts: tuple[int, int, int]
    by: int  # which are named by their ends: DELETED, UPDATED


def recognise(g: Graph, inserts: Any, deletes: Any, updates: Any) -> FastBatch | None:
    """Parse the arguments of `Graph.apply`; None if the slow path has to check them."""
    weight = g.edges.columns.get("weight")
    if weight is not None and weight_of(g.edges) is None:
        return None
    deleted = updated = inserted = None
    by = 0
    if deletes is not None:
        deleted = _ends(g, deletes) if type(deletes) is tuple else _one(g, deletes)
        if deleted is None:
            return None
        by |= DELETED if deleted[1] is not None else 0
    if updates is not None:
        if weight is None or type(updates) is not tuple or len(updates) not in (2, 3):
            return None
        updated = _ends(g, updates[:2]) if len(updates) == 3 else _one(g, updates[0])
        updated = _weighted(g, updated, updates[-1], weight)
        if updated is None:
            return None
        by |= UPDATED if updated[1] is not None else 0
    if inserts is not None:
        if type(inserts) is not tuple and isinstance(inserts, Mapping):
            if not {"src", "dst"} <= inserts.keys() <= {"src", "dst", "weight"}:
                return None
            inserts = tuple(inserts[c] for c in ("src", "dst", "weight") if c in inserts)
        if type(inserts) not in (tuple, list) or not 2 <= len(inserts) <= 2 + (weight is not None):
            return None
        inserted = _ends(g, inserts[:2])
        if weight is not None:
            given = inserts[2] if len(inserts) > 2 else weight.fill
            inserted = _weighted(g, inserted, given, weight, many=True)
        if inserted is None:
            return None
    counts = _count(deleted), _count(updated), _count(inserted)
    return FastBatch((deleted, updated, inserted), counts, by) if sum(counts) else None


def _count(part: Part | None) -> int:
    return 0 if part is None else int(part[0].size)


def _one(g: Graph, x: Any) -> Part | None:
    a = _integers(g, x)
    return None if a is None else (a, None, None)


def _ends(g: Graph, x: Any) -> Part | None:
    if len(x) != 2:
        return None
    a, b = _integers(g, x[0]), _integers(g, x[1])
    odd = a is None or b is None or a.size != b.size or is_host(a) != is_host(b)
    return None if odd else (a, b, None)


def _array(g: Graph, x: Any) -> Array:
    """One dimension, on the host or on the graph's device; None of anything else."""
    if type(x) is not np.ndarray:
        if isinstance(x, ColumnView):
            x = x.array
        elif isinstance(x, int | float | list | range | np.generic):
            x = np.asarray(x)
        if type(x) is not np.ndarray and type(x) is not g.device.xp.ndarray:
            return None
    return x if x.ndim == 1 else x.reshape(1) if x.ndim == 0 else None


def _integers(g: Graph, x: Any) -> Array:
    a = _array(g, x)
    return a if a is not None and a.dtype.kind in "iu" and a.dtype.isnative else None


def _weighted(
    g: Graph, part: Part | None, x: Any, column: Column, many: bool = False
) -> Part | None:
    """Weights, as the column has them: one for each, or, if ``many``, a number for all."""
    if part is None or (a := _array(g, x)) is None:
        return None
    if a.size != part[0].size and not (many and isinstance(x, int | float | np.generic)):
        return None
    if not many and is_host(a) != is_host(part[0]):
        return None
    if a.dtype == column.dtype and not (a.dtype.kind == "f" and isinstance(x, list)):
        return part[0], part[1], a
    if not (is_host(a) and a.dtype.isnative and a.dtype.kind in "iuf"):
        return None
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            b = a.astype(column.dtype)
        fine = np.isfinite(b).all()
        if a.dtype.kind != "f" or isinstance(x, list):
            fine = fine and not rounded(a, b, x)
    else:
        b = a.astype(column.dtype) if a.dtype.kind in "iu" else a
        fine = b is not a and (np.can_cast(a.dtype, b.dtype) or (b == a).all())
    return (part[0], part[1], b) if fine else None


# --- one batch -----------------------------------------------------------------------------------


class Reserved(NamedTuple):
    """A batch whose memory is reserved: the arguments of its launch."""

    table: Table
    counts: Counts
    ids: EdgeIds
    back: Array | None
    flags: int
    single: Single | None
    before: list[int]  # counters of the edges' table


def carry_out(
    g: Graph, batch: FastBatch, nonnegative: bool, then: Callable[[Applied], object] | None,
    loops: Array | None = None,
) -> Applied | None:  # fmt: skip
    """Apply a batch to a graph whose index is gapped; None, with nothing changed, if it cannot.

    ``loops`` counts those among the edges to insert, of a graph that is not directed, up to each.
    """
    edges = g.edges
    if batch.counts[0]:
        edges.allow_deletes()
    capacity = edges.capacity
    try:
        run = _prepare(g, batch, nonnegative, loops)
    except BaseException:
        shrink(edges, capacity)
        raise
    table, counts, ids, back, flags, single, before = run
    moves = g._adjacency.moves
    try:
        code = g._adjacency.change(table, counts, ids, back, ALL, flags, single)
        if code in (0, -REPEATED):
            done = publish(g, batch.counts, run, code == -REPEATED, g._adjacency.moves != moves)
            if counts.arcs and len(edges.columns) > 2 + ("weight" in edges.columns):
                _fill_others(edges, ids, counts.arcs, done)
            if then is not None:
                then(done)
            return done
    except BaseException:
        put_back(g, table, before, batch.counts, back)
        shrink(edges, capacity)
        raise
    shrink(edges, capacity)
    if code == -LOOP and batch.parts[2] is not None:
        src, dst, _ = batch.parts[2]
        loops = (src == dst).astype(np.int32).cumsum(dtype=np.int32)
        return carry_out(g, batch, nonnegative, then, loops)
    return None


def _prepare(g: Graph, batch: FastBatch, nonnegative: bool, loops: Array | None) -> Reserved:
    """Reserve memory for a batch, and copy it to where its launch reads it."""
    edges, index = g.edges, g._adjacency
    deleted, updated, inserted = batch.counts
    given, undirected = deleted + updated + inserted, not g.directed
    fresh = inserted + inserted * undirected - (0 if loops is None else int(loops[-1]))
    back = None
    if undirected:
        back = g._pairs if g._pairs is not None else g.reverses()
    again = places(edges, fresh)[1] if fresh else 0
    before: list[int] = edges._host_meta.tolist()
    if back is not None and fresh and back.size < before[COUNT] + fresh - again:
        back = _longer_reverses(g)
    counts = Counts(given, deleted, updated, fresh, batch.by)
    table = index.table_for(2 * given if undirected else given)
    single = _single(table, batch) if given == 1 else None
    if single is None:
        _fill_in(table, batch)
    if loops is not None:
        table.columns["at"].array[deleted + updated : given, 1] = g.device.asarray(loops)
    flags = flags_of(g) | (nonnegative * NONNEGATIVE)
    flags |= (LOOPS_COUNTED * (loops is not None)) | (SINGLE * (single is not None))
    flags |= REFERRED * (not deleted or referred(edges))
    ids = EdgeIds(
        g.points._host_meta.item(COUNT), before[COUNT], again,
        min(before[HEAD], before[COMMITTED]), before[TAIL],
    )  # fmt: skip
    return Reserved(table, counts, ids, back, flags, single, before)


def flags_of(g: Graph) -> int:
    """Return the flags that all batches of a graph have, see `resolve`."""
    flags = WRITES_EDGES | (not g.directed) * UNDIRECTED
    return flags | (g.edges.deletes * EDGES_DELETED) | (g.points.deletes * POINTS_DELETED)


def _longer_reverses(g: Graph) -> Array:
    """Reverses with memory for as many edges as their table has."""
    longer, held = g.device.full(g.edges.capacity, -1, np.int32), g.reverses()
    longer[: held.size] = held
    g._pairs = longer
    return longer


def publish(
    g: Graph, counts: tuple[int, int, int], run: Reserved, repeated: bool, moved: bool
) -> Applied:
    """Update the graph's state after a launch, and return `Applied`; rows may have ``moved``."""
    edges, ids = g.edges, run.ids
    deleted, fresh, again = counts[0], run.counts.arcs, ids.reused
    out, spared, single, absent = g._adjacency.left_out() if repeated else (0, 0, 0, 0)
    if edges._host_meta is not edges.meta and (fresh or deleted):  # else the program wrote them
        after = run.before.copy()
        after[COUNT] += fresh - again
        after[HEAD] = ids.head + again
        after[TAIL] += deleted - spared + (0 if g.directed else deleted - single)
        if not run.flags & REFERRED:
            after[COMMITTED] = after[TAIL]
        after[BUDGET] = after[COMMITTED] - after[HEAD] + after[CAPACITY] - after[COUNT]
        edges._host_meta[:] = after
    kept = Kept(g, run.table, counts, repeated, ids.edges, again, fresh)
    done = applied(g, kept, none(g.device), int(out < sum(counts)))
    done.absent, done.repeated = absent, out - absent
    if moved and (fresh or deleted):
        g.moved()
    return done


def applied(g: Graph, kept: Kept, points: Array, changes: int = 1) -> Applied:
    """Return the changes of a launch; ``kept`` makes their arrays on demand."""
    done = Applied.__new__(Applied)
    done._graph, done._given, done._present, done._since = g, int(kept.counts[2]), -1, g.changes
    done.points, done.absent, done.repeated = points, 0, 0
    done._batch = kept
    g._adjacency.kept = ref(kept)
    if kept.again or kept.first < g._made:
        g._forget_order(done.inserted)
    if kept.fresh or kept.counts[0]:
        g.out_identity = False
    g.changes += changes
    done._changes = g.changes
    return done


def _fill_others(edges: Table, ids: EdgeIds, count: int, done: Applied) -> None:
    """Fill the columns of new edges that the launch does not write."""
    for name, column in edges.columns.items():
        if name not in ("src", "dst", "weight"):
            at = done.inserted if ids.reused else slice(ids.edges, ids.edges + count)
            column.array[at] = edges._fill_value(column)


def places(edges: Table, count: int) -> tuple[int, int]:
    """Where so many new rows come to lie: behind the others while capacity suffices.

    Returns
    -------
    first : int
        The first id never used.
    again : int
        How many take the place of dead rows, the oldest in their ring, before that.
    """
    counters: list[int] = edges._host_meta.tolist()
    first, again, few = counters[COUNT], 0, False
    if first + count > edges.capacity:
        if first + count - reusable(edges) > edges.capacity and edges.deletes:
            few = reclaim(edges) < edges.capacity // SHARE and referred(edges)
        again = min(reusable(edges), count)
    rows = first + count - again
    if rows > edges.capacity or few:  # by a quarter more, since edges are most of a graph
        edges.resize(max(rows, min(edges.capacity + edges.capacity // 4 + 16, ID_LIMIT)))
    return first, again


def place_next(edges: Table, ids: np.ndarray[Any, Any]) -> None:
    """Make the next batch use these ids for its edges: ids of deleted edges, or unused ones.

    Collections and sets decide on which ids are reused, and they may have changed since.
    """
    counters, wanted = edges._host_meta, edges.device.asarray(ids[ids < len(edges)])
    again, head = int(wanted.size), min(int(counters[HEAD]), int(counters[COMMITTED]))
    rows = len(edges) + int(ids.size) - again
    if again or rows > edges.capacity:  # ids are reused when no other capacity is left
        edges.resize(rows)
        counters = edges._host_meta
    if edges.deletes:
        xp, ring = edges.device.xp, edges.hidden("free")
        with edges.device.active():
            at = xp.arange(head, int(counters[TAIL])) & (ring.size - 1)
            others = ring[at]
            ring[at] = xp.concatenate([wanted, others[~xp.isin(others, wanted)]])
        counters[COMMITTED] = head + again
        edges._send_counters()


def shrink(edges: Table, capacity: int) -> None:
    """Undo the growth for a batch without effect: later ids depend on the capacity."""
    if edges.capacity != capacity:
        with suppress(MemoryError):
            edges.resize(capacity)


def _single(table: Table, batch: FastBatch) -> Single | None:
    """A single change, as arguments of the program; None if it lies on a GPU."""
    for part in batch.parts:
        if part is not None and part[0].size:
            a, b, weight = part
    for x in a, b, weight:
        if x is not None and type(x) is not np.ndarray:
            return None
    first, second = a.item(), 0 if b is None else b.item()
    if first > ID_LIMIT or second > ID_LIMIT:  # no id, nor perhaps a number that the program takes
        return None
    if weight is not None:
        return Single(first, second, weight[0])
    given = table.columns.get("given")
    return Single(first, second, 0 if given is None else given.dtype.type(0))


def _fill_in(table: Table, batch: FastBatch) -> None:
    """Write down what was given."""
    device, given = table.device, sum(batch.counts)
    names = [c for c in ("a", "b", "given") if c in table.columns]
    columns = [table.columns[c].array for c in names]
    staged = None
    if not device.on_host and given <= STAGED:
        if all(is_host(a) for p in batch.parts for a in p or () if a is not None):
            rec = table._records[2]  # of what is given, so that it goes there at once
            staged = np.zeros(given * rec.stride, np.uint8)
            columns = [np.ndarray(given, a.dtype, staged, rec.offset(c), rec.stride)
                       for c, a in zip(names, columns, strict=True)]  # fmt: skip
    at = 0
    for part in batch.parts:
        if part is not None:
            end = at + part[0].size
            for column, a in zip(columns, part, strict=False):
                if a is not None:
                    column[at:end] = a if staged is not None else device.asarray(a)
            at = end
    if staged is not None:
        rec.buffer[: staged.size].set(staged)


def put_back(
    g: Graph, table: Table, before: Any, counts: tuple[int, int, int], back: Array | None
) -> None:
    """Undo the changes that a batch has made to the table of edges, if any."""
    edges, index, xp = g.edges, g._adjacency, g.device.xp
    edges._host_meta[:] = before
    edges._host_meta[CAPACITY] = edges.capacity
    edges._publish_counters()
    if index.began():
        total = sum(counts) * (1 + (back is not None))
        edge, outcome = (table.columns[c].array[:total] for c in ("edge", "outcome"))
        deleted, updated, inserted = (
            edge[xp.flatnonzero(outcome == w)] for w in (DELETED, UPDATED, INSERTED)
        )
        if updated.size and "weight" in edges.columns:
            pick = xp.flatnonzero(outcome == UPDATED)
            edges.columns["weight"].array[updated] = table.columns["weight"].array[pick]
        if deleted.size:
            edges.hidden("dead")[deleted] = 0
        if inserted.size and edges.deletes:  # rows not in use are live, if they never were
            edges.hidden("dead")[inserted[inserted < before[COUNT]]] = 1
        if back is not None:
            back[inserted] = -1
            forth = xp.flatnonzero(outcome[: total // 2] == DELETED)
            again = edge[forth + total // 2]
            forth = edge[forth]
            again = xp.where(again < 0, forth, again)  # of loops
            back[forth], back[again] = again, forth
    g.structure_changed(back)


class Kept:
    """The source of the arrays of `Applied`: a batch's records, or a copy of them.

    Attributes
    ----------
    counts : (int, int, int)
        Deletes, updates, inserts.
    holes : bool
        Whether some changes were left out, so that their records are not valid.
    first, fresh, again : int
        The first new id of an edge, the number of inserted arcs, and how many of these reuse ids.
    total : int
        Number of records.
    raw, new : array or None
        Copies of the records and of the new weights.
    """

    __slots__ = (
        "__weakref__", "again", "counts", "first", "fresh", "graph", "holes", "new", "raw", "stamp",
        "table", "total",
    )  # fmt: skip

    def __init__(
        self, g: Graph, table: Table, counts: tuple[int, int, int], holes: bool, first: int,
        again: int, fresh: int,
    ) -> None:  # fmt: skip
        self.graph, self.table, self.counts, self.holes = g, table, counts, holes
        self.first, self.again, self.fresh = first, again, fresh
        self.total = sum(counts) * (1 if g.directed else 2)
        self.stamp = g._adjacency.stamp
        self.raw: Array = None
        self.new: Array = None

    def save(self) -> None:
        """Copy the records before the next batch overwrites them."""
        total, counts, table = self.total, self.counts, self.table
        with self.graph.device.active():
            if self.raw is None and (counts[0] or counts[1] or self.again):
                rec = table._records[0]
                self.raw = rec.buffer[: total * rec.stride].copy()
            if self.new is None and counts[1]:
                self.new = table.columns["given"].array[:total].copy()

    def fields(self) -> dict[str, Array]:
        """The arrays of `Applied`."""
        self.save()
        g, (deleted, updated, inserted) = self.graph, self.counts
        weight = self.table.columns.get("weight")  # the edges' may be another one by now
        with g.device.active():
            nothing, no_weight = none(g.device), None if weight is None else weight.array[:0]
            found = dict.fromkeys(("deleted", "deleted_src", "deleted_dst", "updated"), nothing)
            found |= dict.fromkeys(("deleted_weight", "old_weight", "new_weight"), no_weight)
            if deleted:
                ids = self._rows("edge", 0, deleted)
                order: Any = g.device.xp.argsort(ids)
                ends = self._rows("end", 0, deleted)[order]
                found |= {
                    "deleted": ids[order], "deleted_src": ends[:, 0], "deleted_dst": ends[:, 1]
                }  # fmt: skip
                if weight is not None:
                    found["deleted_weight"] = self._rows("weight", 0, deleted)[order]
            if updated:
                ids = self._rows("edge", deleted, updated)
                order = g.device.xp.argsort(ids)
                found["updated"] = ids[order]
                found["old_weight"] = self._rows("weight", deleted, updated)[order]
                found["new_weight"] = self._of(self.new, deleted, updated)[order]
            if self.again:
                ids = self._rows("edge", deleted + updated, inserted)
                found["inserted"] = ids[ids >= 0]
            else:
                last = self.first + self.fresh
                found["inserted"] = g.device.xp.arange(self.first, last, dtype=np.int32)
        return found

    def _rows(self, name: str, first: int, count: int) -> Array:
        """A column of some of the changes, then of the arcs back."""
        return self._of(self._view(name), first, count)

    def _view(self, name: str) -> Array:
        rec = self.table._records[0]
        return rec.view(self.graph.device, self.table.columns[name], self.raw)

    def _of(self, a: Array, first: int, count: int) -> Array:
        parts = [slice(first, first + count)]
        if not self.graph.directed:
            first += sum(self.counts)
            parts.append(slice(first, first + count))
        found = self.graph.device.xp.concatenate([a[part] for part in parts])
        if self.holes:  # where an edge was named twice
            outcome = self._view("outcome")
            found = found[self.graph.device.xp.concatenate([outcome[part] for part in parts]) != 0]
        return found


def rows_of(applied: Applied) -> tuple[Table, int]:
    """See `Applied.rows`."""
    g, kept = applied._graph, applied._batch
    assert g is not None
    if kept is not None and kept.stamp == g._adjacency.stamp and g.complete:
        return kept.table, kept.total
    columns, device = g.edges.columns, g.device
    ends = [columns[c].array for c in ("src", "dst")]
    with device.active():
        dead = applied.points  # whose edges were in the index
        deleted = _in_index(g, dead, applied.deleted_src, applied.deleted_dst)
        updated = _in_index(g, dead, *(a[applied.updated] for a in ends))
        parts = []
        for outcome, ids, pick, weight in (
            (DELETED, applied.deleted, deleted, applied.deleted_weight),
            (UPDATED, applied.updated, updated, applied.old_weight),
            (INSERTED, applied.inserted, slice(None), None),
        ):
            at = [a[ids][pick] for a in ends]
            if outcome == DELETED:  # their ids may have been reused
                at = [a[pick] for a in (applied.deleted_src, applied.deleted_dst)]
            parts.append((outcome, ids[pick], at, None if weight is None else weight[pick]))
        total, first = sum(int(p[1].size) for p in parts), 0
        table = g._adjacency.table_for(total, report=True)
        to = {name: c.array for name, c in table.columns.items()}
        for outcome, ids, at, weight in parts:
            last = first + int(ids.size)
            if last > first:
                to["outcome"][first:last], to["edge"][first:last] = outcome, ids
                to["end"][first:last, 0], to["end"][first:last, 1] = at
                if weight is not None and "weight" in to:
                    to["weight"][first:last] = weight
            first = last
    return table, total


def _in_index(g: Graph, dead: Array, src: Array, dst: Array) -> Any:
    """Select the edges that the index has, or had until the points ``dead`` were deleted."""
    if g.complete:
        return slice(None)
    points, xp = g.points, g.device.xp
    there, alive = xp.minimum(src, dst) >= 0, points.alive
    alive[dead] = True
    return there & alive[src] & alive[dst]
