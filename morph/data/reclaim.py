"""Recycling of deleted rows that no reference denotes.

A table's deleted rows are in a ring.  Rows from HEAD to COMMITTED may be recycled; rows from
COMMITTED to TAIL are quarantined.  If no column, collection or set can refer to the table, all rows
are released from quarantine at once.  Otherwise they stay in it until the table would have to grow:
then a mark phase finds the quarantined rows that references denote, and releases the others.  The
cost of mark phases is thus amortised like that of growth.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from morph.data.layout import Column
from morph.data.protocols import TableLike
from morph.data.store import COMMITTED, HEAD, TAIL
from morph.data.versions import latest
from morph.runtime.device import Array

SHARE = 4  # a table also grows if less than 1 / SHARE of its capacity was released


def referred(table: TableLike) -> bool:
    """Whether a column, collection or set may refer to rows of a table.

    The ends of edges do not count, as edges of deleted points are deleted.
    """
    epoch = latest.epoch  # changes with each new object or column
    if table._known[0] != epoch:
        found = bool(len(table.dependents)) or next(_columns(table), None) is not None
        table._known = epoch, found
    return table._known[1]


def _columns(table: TableLike) -> Iterator[tuple[TableLike, Column]]:
    """The reference columns of the graph's tables that refer to a table."""
    tables = [table] if table.graph is None else table.graph.tables.values()
    for t in tables:
        ends = ("src", "dst") if t.graph is not None and t.name == "edges" else ()
        for c in t.columns.values():
            if c.ref == table.name and c.name not in ends:
                yield t, c


def reusable(table: TableLike) -> int:
    """The number of deleted rows that may be recycled now."""
    counters: list[int] = table._host_meta.tolist()
    return max(counters[COMMITTED] - counters[HEAD], 0)


def release(table: TableLike) -> None:
    """Release all quarantined rows if no reference to the table is possible."""
    counters = table._host_meta
    if counters[TAIL] > counters[COMMITTED] and not referred(table):
        table._publish_counters()


def reclaim(table: TableLike) -> int:
    """Release the quarantined rows that no reference denotes; return their number.

    References are those of live rows, of entries not yet taken, and of sets with several members.
    """
    counters = table._host_meta
    first, last = int(counters[COMMITTED]), table._quarantined_to()
    if first >= last:
        return 0
    if table.graph is not None:
        table.graph.kept.clear()  # the entries of the lists of workspaces are not used again
    table._known = -1, False  # collections and sets may have been dropped
    released = last - first
    with table.device.active():
        if referred(table):
            ring = table.ring
            at = table.device.xp.arange(first, last) & (ring.size - 1)
            ids = ring[at]
            held = _marks(table)[ids]
            ring[at] = table.device.xp.concatenate([ids[~held], ids[held]])
            released -= int(held.sum())
    counters[COMMITTED] += released
    table._publish_counters()
    return released


def _marks(table: TableLike) -> Array:
    """Mask of the rows that references denote, shape (len(table),), bool."""
    marks = table.device.zeros(max(len(table), 1), np.bool_)
    for t, c in _columns(table):
        # during `then` of `Graph.apply`, edges deleted by the batch may be restored
        undone = t.graph is not None and t.graph.undoable
        _mark(marks, c.array[: len(t)] if undone else c.array[: len(t)][t.alive])
    for dependent in table.dependents:
        for ids in dependent._references(table):
            _mark(marks, ids)
    return marks


def _mark(marks: Array, ids: Array) -> None:
    ids = ids.reshape(-1)
    marks[ids[(ids >= 0) & (ids < marks.size)]] = True  # ids of truncated rows are out of range
