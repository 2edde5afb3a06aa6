"""Conversion between `Applied` and the records that a batch leaves in its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.graph.applied import Applied
from morph.graph.gapped import DELETED, INSERTED, UPDATED
from morph.runtime.device import Array
from morph.updates.batch import none

if TYPE_CHECKING:
    from morph.data.table import Table
    from morph.graph import Graph


class Kept:
    """The source of the arrays of `Applied`: a batch's records, or a copy of them.

    Attributes
    ----------
    counts : (int, int, int)
        Deletes, updates, inserts.
    skipped : bool
        Whether some changes were left out, so that their records are not valid.
    first, fresh, reused : int
        The first new id of an edge, the number of inserted arcs, and how many of these reuse ids.
    raw, new : array or None
        Copies of the records and of the new weights.
    """

    __slots__ = (
        "__weakref__", "counts", "first", "fresh", "graph", "new", "raw", "reused", "skipped",
        "stamp", "table",
    )  # fmt: skip

    def __init__(
        self, g: Graph, table: Table, counts: tuple[int, int, int], skipped: bool, first: int,
        reused: int, fresh: int,
    ) -> None:  # fmt: skip
        self.graph, self.table, self.counts, self.skipped = g, table, counts, skipped
        self.first, self.reused, self.fresh = first, reused, fresh
        self.stamp = g._adjacency.stamp
        self.raw: Array = None
        self.new: Array = None

    @property
    def total(self) -> int:
        """Number of records."""
        return sum(self.counts) * (1 if self.graph.directed else 2)

    def save(self) -> None:
        """Copy the records before the next batch overwrites them."""
        total, counts, table = self.total, self.counts, self.table
        with self.graph.device.active():
            sources = {}
            if self.raw is None and (counts[0] or counts[1] or self.reused):
                rec = table._records[0]
                sources["raw"] = rec.buffer[: total * rec.stride]
            if self.new is None and counts[1]:
                sources["new"] = table.columns["given"].array[:total]
            if sources:
                for name, a in zip(sources, table.device.copies(*sources.values()), strict=True):
                    setattr(self, name, a)

    def fields(self) -> dict[str, Array]:
        """The arrays of `Applied`."""
        g, (deleted, updated, inserted) = self.graph, self.counts
        weight = self.table.columns.get("weight")  # the edges' may be another one by now
        with g._lock, g.device.active():  # another thread's batch may be about to overwrite them
            self.save()
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
            if self.reused:
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
        if self.skipped:  # where an edge was named twice
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
    attached, alive = xp.minimum(src, dst) >= 0, points.alive
    alive[dead] = True
    return attached & alive[src] & alive[dst]
