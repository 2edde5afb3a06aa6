"""Ids of the edges that a batch inserts: ids never used, or those of deleted edges."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.data.reclaim import SHARE, reclaim, referred, reusable
from morph.data.store import COMMITTED, COUNT, HEAD, TAIL
from morph.language.dtypes import ID_LIMIT

if TYPE_CHECKING:
    from morph.data.table import Table

LARGE = 1 << 20  # number of edges from which on unused capacity is kept small


def allocate(edges: Table, count: int) -> tuple[int, int]:
    """Reserve ids for new edges: unused ones while capacity suffices, else reused ones.

    Returns
    -------
    first : int
        The first unused id.
    reused : int
        Number of ids of deleted edges, the oldest in their ring, that are taken first.
    """
    counters: list[int] = edges._host_meta.tolist()
    first, reused, few_free = counters[COUNT], 0, False
    if first + count > edges.capacity:
        if first + count - reusable(edges) > edges.capacity and edges.deletes:
            few_free = reclaim(edges) < edges.capacity // SHARE and referred(edges)
        reused = min(reusable(edges), count)
    rows = first + count - reused
    if rows > edges.capacity or few_free:
        edges.resize(max(rows, min(edges.capacity + spare_rows(edges) + 16, ID_LIMIT)))
    return first, reused


def spare_rows(edges: Table) -> int:
    """Return by how many rows a table grows: by a quarter, or less if it takes much memory.

    A large graph gets a sixteenth, and doubles what it has grown by while it keeps growing.
    """
    capacity = edges.capacity
    least = capacity >> (4 if capacity >= LARGE else 2)
    grown: int = capacity - edges.graph._made
    return min(max(least, grown), capacity >> 2)


def use_next(edges: Table, ids: np.ndarray[Any, Any]) -> None:
    """Make the next batch use these ids for its edges: ids of deleted edges, or unused ones.

    Collections and sets decide on which ids are reused, and they may have changed since.
    """
    counters, wanted = edges._host_meta, edges.device.asarray(ids[ids < len(edges)])
    reused, head = int(wanted.size), min(int(counters[HEAD]), int(counters[COMMITTED]))
    rows = len(edges) + int(ids.size) - reused
    if reused or rows > edges.capacity:  # ids are reused when no other capacity is left
        edges.resize(rows)
        counters = edges._host_meta
    if edges.deletes:
        xp, ring = edges.device.xp, edges.ring
        with edges.device.active():
            at = xp.arange(head, int(counters[TAIL])) & (ring.size - 1)
            others = ring[at]
            ring[at] = xp.concatenate([wanted, others[~xp.isin(others, wanted)]])
        counters[COMMITTED] = head + reused
        edges._send_counters()


def shrink(edges: Table, capacity: int) -> None:
    """Undo the growth for a batch without effect: later ids depend on the capacity."""
    if edges.capacity != capacity:
        with suppress(MemoryError):
            edges.resize(capacity)
