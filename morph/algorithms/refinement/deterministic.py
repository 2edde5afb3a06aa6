"""Deterministic refinement: the same bytes for any number of threads and on a GPU.

Row numbers and positions in worklists depend on the timing of threads.  So points and triangles
have deterministic ids, ``stable_id``, which follow from the input alone, and the items of a round
have the order of their triangles' ids.  A round ranks its items by a bitmap: each item sets the
bit of its triangle's id, and its rank is the number of bits before it.  The items are processed in
slices of a fixed size, the items of which claim their cavities at once: their positions in the
slice decide which items win (deterministic reservations, Blelloch et al. 2012).  The id of a new
point is the first id of the round plus the rank of the item that created the point; those of the
triangles that it adds are two times this number, and one more.  In the end rows are sorted by the
ids (`rows_of_mesh`).

If a round has many items, those near one that precedes are deferred before they find their
cavities (`is_preceded`).  `rounds` runs the program of a round, `run_deterministic_round`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.algorithms.refinement.kernels import (
    NO_ITEM,
    copy_entry,
    enqueue,
    refine_triangle,
    write_entry,
)
from morph.data.collection import Collection
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.scan import plus, scan_first, scan_space
from morph.operators.sort import argsort
from morph.prelude import atomic_or, i8, i32, i64, popcount, u64

if TYPE_CHECKING:
    from morph.data.row import Row

WORDS = 8  # of 64 bits, in a row of the bitmap
SLICE = 8192  # items that claim at once: all their threads must be resident on a GPU
SPARE = 1024  # items for which there is capacity from the beginning
PARTS = 2**31 // (64 * WORDS)  # rows of the bitmap: the ids of triangles have 31 bits


class DeterministicTables:
    """Deterministic ids of points and triangles, and the tables of the rounds of one refinement."""

    def __init__(self, g: Graph, params: Row) -> None:
        self.g, self.params = g, params
        n, m, xp = len(g.points), len(g.triangles), g.device.xp
        entry: dict[str, Any] = {"item": Ref(g.triangles), "stamp": Ref(g.points), "bucket": i8}
        g.add_table("ranked", **entry, pack=tuple(entry))
        g.add_table("sliced", **entry, stable_id=i64)
        g.sliced.extend(SLICE)
        g.add_table("bitmap", bits=vec(u64, WORDS), count=i32)
        g.bitmap.limit_rows(PARTS)
        self._grow(max(SPARE, m // 8), 2 * n + 4 * m)
        self.counts = scan_space(g.bitmap.count)
        g.points.add("stable_id", i64)
        g.triangles.add("stable_id", i32)
        g.triangles.add("item_bucket", i8, fill=NO_ITEM)
        with g.device.active():
            g.points.stable_id[:] = xp.arange(n)
            # by the edges at their least points: the order of the input's triangles does not matter
            edge = g.triangles.node.array[:, :2].astype(np.int64)
            ids = xp.empty(m, np.int32)
            ids[argsort(edge[:, 0] << n.bit_length() | edge[:, 1])] = xp.arange(m, dtype=np.int32)
            g.triangles.stable_id[:] = ids

    def _grow(self, items: int, ids: int) -> None:
        """Provide at least rows for ``items`` items of a round, and bits for ``ids`` triangles."""
        g = self.g
        for table, rows in ((g.ranked, items), (g.bitmap, ids // (64 * WORDS) + 1)):
            if rows > len(table):
                table.extend(max(rows, min(2 * rows, PARTS)) - len(table))

    def reserve(self, active: Collection, following: Collection, waiting: Collection) -> None:
        """Reserve capacity for all rows of a round, so that none is re-executed after the others.

        A point adds two triangles at most; an item or triangle has one entry of a list at most.
        """
        g, params, lists = self.g, self.params, (active, following)
        points, triangles, n = g.points, g.triangles, len(active)
        rows = len(triangles) + 2 * n
        needs = [(points, len(points) + n), (triangles, rows), (waiting, len(waiting) + rows + n)]
        for store, least in needs + [(work, len(work) + rows + n) for work in lists]:
            if store.capacity < least:
                store.grow(least)
        self._grow(n, 2 * (int(params.next_id) + n))
        entries = min(work.capacity for work in lists) - len(triangles)
        items = min((triangles.capacity - len(triangles)) // 2, entries // 3)
        params.item_capacity = min(points.capacity, len(points) + items)
        params.waiting_capacity = waiting.capacity


# --- kernels --------------------------------------------------------------------------------------


@kernel
def write_bucket(item):
    """Write the bucket of an item to its triangle."""
    item.item.item_bucket = item.bucket


@func
def precedes(t, bucket, stable_id):
    """Whether triangle t has an item of this round that precedes the given one."""
    return t.item_bucket < bucket or (t.item_bucket == bucket and t.stable_id < stable_id)


@func
def is_preceded(g, t, bucket):
    """Whether a triangle at most two steps away has an item that precedes that of t.

    Both would claim the same triangles, nearly always.
    """
    found = False
    for k in range(3):
        edge = t.opposite[k]
        if edge >= 0 and not found:
            n = g.triangles[edge >> 2]
            found = precedes(n, bucket, t.stable_id)
            for j in range(1, 3):
                beyond = n.opposite[((edge & 3) + j) % 3]
                if beyond >= 0 and not found:
                    found = precedes(g.triangles[beyond >> 2], bucket, t.stable_id)
    return found


@kernel
def mark_item(item, g, following, defers):
    """Set the bit of an item's triangle; with ``defers``, defer an item that is preceded."""
    t = item.item
    if defers and is_preceded(g, t, item.bucket):
        enqueue(following, t, item.stamp, item.bucket)
    else:
        part, bit = g.bitmap[t.stable_id // (64 * WORDS)], u64(1) << u64(t.stable_id & 63)
        atomic_or(part.bits[(t.stable_id >> 6) & (WORDS - 1)], bit)


@kernel
def count_bits(part):
    """Count the bits of a row of the bitmap."""
    count = i32(0)
    for k in range(WORDS):
        count += i32(popcount(part.bits[k]))
    part.count = count


@kernel
def place_item(item, g):
    """Copy an item whose bit is set to row k of ``ranked``, where k bits are before its own."""
    t = item.item
    t.item_bucket = i8(NO_ITEM)
    number = t.stable_id // (64 * WORDS)
    last, bit = (t.stable_id >> 6) & (WORDS - 1), u64(1) << u64(t.stable_id & 63)
    part = g.bitmap[number]
    if part.bits[last] & bit != 0:
        rank = i32(popcount(part.bits[last] & (bit - 1)))
        for k in range(last):
            rank += i32(popcount(part.bits[k]))
        if number > 0:
            rank += g.bitmap[number - 1].count
        write_entry(g.ranked[rank], t, item.stamp, item.bucket)


@kernel
def copy_ranked(item, g, first, stable_id):
    """Copy an item to a row of ``sliced``; clear its bit, and others of the same word."""
    row, of_item = g.sliced[item.id - first], item.item.stable_id
    write_entry(row, item.item, item.stamp, item.bucket)
    row.stable_id = stable_id + item.id
    # race: the same value
    g.bitmap[of_item // (64 * WORDS)].bits[(of_item >> 6) & (WORDS - 1)] = u64(0)


@program
def run_deterministic_round(g, active, following, waiting, counts, bucket, last, params):
    """Run a deterministic round; ``counts`` is a `Scan` of the counts of ``g.bitmap``."""
    defers = len(active) > params.deferral_threshold
    if defers:
        foreach(
            active, write_bucket, where=lambda i: i.bucket <= last and i.item.node[0] == i.stamp
        )
    foreach(
        active, mark_item, g, following, defers,
        where=lambda i: i.bucket <= last and i.item.node[0] == i.stamp,
    )  # fmt: skip
    next_id = params.next_id
    parts = 2 * next_id // (64 * WORDS) + 1
    foreach(g.bitmap[:parts], count_bits)
    scan_first(counts, parts, plus)
    foreach(active, place_item, g, where=lambda i: i.bucket <= last and i.item.node[0] == i.stamp)
    first, count, end = i64(0), i64(g.bitmap[parts - 1].count), i64(0)
    while first < count:
        end = min(first + len(g.sliced), count)
        if hasattr(params, "points_left"):
            end = min(end, first + params.points_left)
            if first == end:
                break
        foreach(g.ranked[first:end], copy_ranked, g, first, next_id)
        foreach(
            g.sliced[: end - first], refine_triangle, g, bucket, following, waiting, params,
            where=lambda i: i.item.node[0] == i.stamp, together=True,
        )  # fmt: skip
        first = end
    if hasattr(params, "points_left"):
        foreach(g.ranked[first:count], copy_entry, following)
    params.next_id = next_id + count
