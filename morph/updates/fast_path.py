"""The fast path of batches: one launch, without copies from the device.

The changes are copied to the device, and validated and deduplicated by its kernels (`resolve`).
Batches that the fast path cannot validate take the slow path on the host (`batch`, `named`,
`changes`), which raises the errors, and counts the changes of edges that do not exist.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from morph.data.reclaim import referred
from morph.data.store import BUDGET, CAPACITY, COMMITTED, COUNT, HEAD, TAIL
from morph.graph.applied import Applied
from morph.graph.gapped import (
    ALL,
    DELETED,
    INSERTED,
    LOOP,
    REPEATED,
    UPDATED,
    Counts,
    EdgeIds,
    Single,
)
from morph.language.dtypes import ID_LIMIT
from morph.runtime.backend import Write
from morph.runtime.device import Array, Device, is_host
from morph.updates.batch import none
from morph.updates.edge_ids import allocate, shrink
from morph.updates.kept import Kept
from morph.updates.recognition import FastBatch, Part
from morph.updates.resolve import (
    EDGES_DELETED,
    LOOPS_COUNTED,
    NONNEGATIVE,
    POINTS_DELETED,
    REFERRED,
    UNDIRECTED,
    WRITES_EDGES,
)

if TYPE_CHECKING:
    from morph.data.table import Table
    from morph.graph import Graph

pack_counters = struct.Struct("=8q").pack_into
STAGED = 1 << 16  # changes that go from the host to a GPU by one launch


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
    edges, new = g.edges, batch.parts[2]
    if batch.counts[0]:
        edges.allow_deletes()
        edges.reserve_ring(batch.counts[0] * (1 if g.directed else 2))
    loops = staged_loops(g, batch) if loops is None else loops
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
    if code == -LOOP and new is not None:
        return carry_out(g, batch, nonnegative, then, loops_of(new))
    return None


def is_staged(batch: FastBatch) -> bool:
    """Whether all arrays of a batch lie on the host, and go to a GPU by one launch."""
    here = all(is_host(a) for p in batch.parts for a in p or () if a is not None)
    return here and sum(batch.counts) <= STAGED


def staged_loops(g: Graph, batch: FastBatch) -> Array | None:
    """Count the loops among edges to insert on the host; None if there are none, or no need."""
    new = batch.parts[2]
    if new is None or g.directed or not is_staged(batch) or not (new[0] == new[1]).any():
        return None
    return loops_of(new)


def loops_of(inserts: Part) -> Array:
    """Count the loops among edges to insert up to each, int32."""
    return (inserts[0] == inserts[1]).astype(np.int32).cumsum(dtype=np.int32)


def _prepare(g: Graph, batch: FastBatch, nonnegative: bool, loops: Array | None) -> Reserved:
    """Reserve memory for a batch, and copy it to where its launch reads it."""
    edges, index = g.edges, g._adjacency
    deleted, updated, inserted = batch.counts
    given, undirected = deleted + updated + inserted, not g.directed
    fresh = inserted + inserted * undirected - (0 if loops is None else int(loops[-1]))
    back = None
    if undirected:
        back = g._pairs if g._pairs is not None else g.reverses()
    reused = allocate(edges, fresh)[1] if fresh else 0
    before: list[int] = edges._host_meta.tolist()
    if ordered := ordered_below(g, before[COUNT], reused) if fresh else 0:
        g.track_recycled()
    if back is not None and fresh and back.size < before[COUNT] + fresh - reused:
        back = _longer_reverses(g)
    counts = Counts(given, deleted, updated, fresh, batch.by)
    table = index.table_for(2 * given if undirected else given)
    single = _single(table, batch) if given == 1 else None
    if single is None or loops is not None:
        fill_in(table, batch, loops)
    flags = flags_of(g) | (nonnegative * NONNEGATIVE)
    flags |= LOOPS_COUNTED * (loops is not None)
    flags |= REFERRED * (not deleted or referred(edges))
    ids = EdgeIds(*edge_ids(g.points._host_meta.item(COUNT), before, reused, ordered))
    return Reserved(table, counts, ids, back, flags, single, before)


def edge_ids(points: int, before: list[int], reused: int, ordered: int) -> tuple[int, ...]:
    """Return the fields of a batch's `EdgeIds`, from the counters of the edges' table before it."""
    head, committed = before[HEAD], before[COMMITTED]
    first = head if head < committed else committed
    return points, before[COUNT], reused, first, before[TAIL], ordered


def reusable_within(before: list[int], capacity: int, fresh: int) -> int:
    """Return how many of ``fresh`` new edges reuse ids, if the table may not exceed ``capacity``.

    None do while unused rows suffice.
    """
    if before[COUNT] + fresh <= capacity:
        return 0
    return min(max(before[COMMITTED] - before[HEAD], 0), fresh)


def ordered_below(g: Graph, first: int, reused: int) -> int:
    """Return 0, or, if a batch may reuse ids of edges with an `edge_order`, the number of these.

    ``first`` is the first unused id, ``reused`` the number of recycled ones.
    """
    return g._made if (reused or first < g._made) and g.edges.deletes else 0


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
    deleted, fresh, reused = counts[0], run.counts.arcs, ids.reused
    out, spared, single, absent = g._adjacency.left_out() if repeated else (0, 0, 0, 0)
    if not edges.device.on_host and (fresh or deleted):  # else the program wrote them
        arcs = deleted - spared + (0 if g.directed else deleted - single)
        count(edges, run.before, fresh - reused, reused, arcs, bool(run.flags & REFERRED))
    kept = Kept(g, run.table, counts, repeated, ids.edges, reused, fresh)
    done = applied(g, kept, none(g.device), int(out < sum(counts)))
    done.absent, done.repeated = absent, out - absent
    if moved and (fresh or deleted):
        g.moved()
    return done


def count(
    edges: Table, before: list[int], new: int, reused: int, deleted: int, referred: bool
) -> None:  # fmt: skip
    """Update the host's counters, from those ``before`` a batch, as its program has."""
    # less time than an assignment of the list
    pack_counters(edges._host_meta.data, 0, *counted(before, new, reused, deleted, referred))


def counted(before: list[int], new: int, reused: int, deleted: int, referred: bool) -> list[int]:
    """Return the counters of the edges' table behind a batch."""
    after = before.copy()
    after[COUNT] += new
    after[HEAD] = min(before[HEAD], before[COMMITTED]) + reused
    after[TAIL] += deleted
    if not referred:
        after[COMMITTED] = after[TAIL]
    after[BUDGET] = after[COMMITTED] - after[HEAD] + after[CAPACITY] - after[COUNT]
    return after


def applied(g: Graph, kept: Kept, points: Array, changes: int = 1) -> Applied:
    """Return the changes of a launch; ``kept`` makes their arrays on demand."""
    done = described(g, kept, points, changes)
    announce(g, done, kept)
    return done


def described(g: Graph, kept: Kept, points: Array, changes: int = 1) -> Applied:
    """Return the changes of a launch that may not have ended yet; see `announce`."""
    done, since = Applied.__new__(Applied), g.changes
    done._graph, done._given, done._present, done._since = g, int(kept.counts[2]), -1, since
    done.points, done.absent, done.repeated, done._batch = points, 0, 0, kept
    done._changes = since + changes
    return done


def announce(g: Graph, done: Applied, kept: Kept) -> None:
    """Note that the changes of `described` have been made."""
    g._adjacency.latest, counts = ref(kept), kept.counts
    if counts[0] or counts[2]:
        g.out_identity = False
    g.changes = done._changes


def _fill_others(edges: Table, ids: EdgeIds, count: int, done: Applied) -> None:
    """Fill the columns of new edges that the launch does not write."""
    for name, column in edges.columns.items():
        if name not in ("src", "dst", "weight"):
            at = done.inserted if ids.reused else slice(ids.edges, ids.edges + count)
            column.array[at] = edges._fill_value(column)


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
        return Single(0, first, second, weight[0])
    given = table.columns.get("given")
    return Single(0, first, second, 0 if given is None else given.dtype.type(0))


def fill_in(table: Table, batch: FastBatch, loops: Array | None) -> None:
    """Write down what was given, and the number of ``loops`` up to each insert."""
    device, at, writes = table.device, 0, list[Write]()
    columns = [table.columns[c].array for c in ("a", "b", "given") if c in table.columns]
    at_once = device.on_host or is_staged(batch)
    for part in batch.parts:
        if part is not None:
            end = at + part[0].size
            for column, a in zip(columns, part, strict=False):
                if a is not None:
                    writes.append((column[at:end], _written(a, column, device, at_once)))
            at = end
    if loops is not None:
        before = table.columns["at"].array[at - loops.size : at, 1]
        writes.append((before, _written(loops, before, device, at_once)))
    device.put(*writes)


def _written(a: Array, column: Array, device: Device, at_once: bool) -> Any:
    """Values that `Backend.put` takes for a column: of its dtype, or int32 for int64."""
    if a.dtype != column.dtype and not (a.dtype == np.int32 and column.dtype == np.int64):
        a = a.astype(column.dtype)
    if is_host(a):
        return a[0] if a.size == 1 else a if at_once else device.asarray(a)
    return device.asarray(a)


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
