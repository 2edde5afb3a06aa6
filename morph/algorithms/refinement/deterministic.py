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
cavities (`is_preceded`).  The program `run_rounds` executes all rounds, on all devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.algorithms.refinement.kernels import NO_ITEM, WORDS, run_rounds
from morph.algorithms.refinement.parameters import has_points
from morph.algorithms.refinement.quality import BUCKETS
from morph.data.collection import Collection, Flag
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.operators.scan import scan_space
from morph.operators.sort import argsort
from morph.prelude import i8, i32, i64, u64

if TYPE_CHECKING:
    from morph.data.row import Row

SLICE = 8192  # items that claim at once: all their threads must be resident on a GPU
SPARE = 1024  # items for which there is capacity from the beginning
PARTS = 2**31 // (64 * WORDS)  # rows of the bitmap: the ids of triangles have 31 bits


class DeterministicRounds:
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

    def run(
        self, active: Collection, following: Collection, waiting: Collection, urgent: Flag,
        turns: int,
    ) -> int:  # fmt: skip
        """The same as `run_rounds`, with capacity for the items of each round."""
        rounds, params = 0, self.params
        while True:
            self._reserve(active, following, waiting)
            args = (active, following, waiting, self.counts, urgent, params, turns - rounds)
            done = int(run_rounds(self.g, *args))
            rounds += done
            if done % 2:
                active, following = following, active
            finished = active.empty and params.bucket == BUCKETS - 1
            if finished or rounds == turns or not has_points(params):
                return rounds

    def _reserve(self, active: Collection, following: Collection, waiting: Collection) -> None:
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
