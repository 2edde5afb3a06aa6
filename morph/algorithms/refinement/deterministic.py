"""Deterministic refinement: the same bytes for any number of threads and on a GPU.

Row numbers and positions in worklists depend on the timing of threads.  So points and triangles
have deterministic ids, ``stable_id``, which follow from the input alone, and the items of a round
have the order of their triangles' ids.  A round ranks its items by a bitmap: each item sets the
bit of its triangle's id, and its rank is the number of bits before it.  The items are processed in
slices of a fixed size, the items of which claim their cavities at once: their positions in the
slice decide which items win (deterministic reservations, Blelloch et al. 2012).  The id of a new
point is the first id of the round plus the rank of the item that created the point; those of the
triangles that it adds are two times this number, and one more.  In the end rows are sorted by the
ids of points (`rows_of`).

The program `run_rounds` executes all rounds, on all devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from morph.algorithms.refinement.kernels import NOT_LISTED, WORDS, run_rounds
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
DEFERRAL_THRESHOLD = 512  # in rounds of more items some are deferred, see `is_preceded`
LEAST = 4096  # rows of a first allocation


class DeterministicRounds:
    """Deterministic ids of points and triangles, and the tables of the rounds of one refinement."""

    def __init__(self, g: Graph, params: Row) -> None:
        self.g, self.params = g, params
        params.deferral_threshold = DEFERRAL_THRESHOLD
        n, m, entry = len(g.points), len(g.triangles), {"stamp": Ref(g.points), "bucket": i8}
        g.points.add("stable_id", i64)
        g.triangles.add("stable_id", i32)
        g.triangles.add("listed", i8, fill=NOT_LISTED)  # the bucket of its item in this round
        entry = {"item": Ref(g.triangles), **entry}
        g.add_table("ranked", **entry, pack=tuple(entry))
        g.add_table("sliced", **entry, stable_id=i64)
        g.sliced.extend(SLICE)
        g.add_table("bitmap", bits=vec(u64, WORDS), count=i32)
        self._grow(max(LEAST, m // 8))
        g.bitmap.extend(m // 64)
        self.counts = scan_space(g.bitmap.count)
        with g.device.active():
            xp = g.device.xp
            g.points.stable_id[:] = xp.arange(n)
            # by their first edges: the result does not depend on the order of the input's triangles
            edge = g.triangles.node.array[:, :2].astype(np.int64)
            ids = xp.empty(m, np.int32)
            ids[argsort(edge[:, 0] << n.bit_length() | edge[:, 1])] = xp.arange(m, dtype=np.int32)
            g.triangles.stable_id[:] = ids

    def _grow(self, items: int) -> None:
        """Provide rows and bits for a round of ``items`` items, and for more rounds."""
        ranked, bitmap = self.g.ranked, self.g.bitmap
        if items > len(ranked):
            ranked.extend(2 * items - len(ranked))
        parts = 2 * (int(self.params.next_id) + items) // (64 * WORDS) + 1
        if parts > len(bitmap):
            bitmap.extend(2 * parts - len(bitmap))

    def run(
        self, active: Collection, following: Collection, waiting: Collection, urgent: Flag,
        turns: int,
    ) -> int:  # fmt: skip
        """The same as `run_rounds`, with capacity for the items of each round."""
        rounds = 0
        while True:
            self._reserve(active, following, waiting)
            args = (active, following, waiting, self.counts, urgent, self.params, turns - rounds)
            done = int(run_rounds(self.g, *args))
            rounds += done
            if done % 2:
                active, following = following, active
            finished = active.empty and self.params.bucket == BUCKETS - 1
            if finished or rounds == turns or not self._left():
                return rounds

    def _left(self) -> bool:
        """Whether a point may be added."""
        return "points_left" not in self.params.table.columns or self.params.points_left > 0

    def _reserve(self, active: Collection, following: Collection, waiting: Collection) -> None:
        """Reserve capacity for all rows of a round, so that none is re-executed after the others.

        A point adds two triangles at most; the triangles that points replace are all different.
        """
        g, params, n = self.g, self.params, 2 * max(len(active), DEFERRAL_THRESHOLD)
        points, triangles, rounds = g.points, g.triangles, (active, following)
        self._grow(len(active))
        rows = len(triangles) + 2 * n
        needs = [(points, len(points) + n), (triangles, rows)]
        for store, least in needs + [(work, len(work) + rows + n) for work in (*rounds, waiting)]:
            if store.capacity < least:
                store.grow(least)
        # an item or triangle has one entry at most
        work = min(work.capacity for work in rounds) - len(triangles)
        spare = (triangles.capacity - len(triangles)) // 2
        params.item_capacity = min(points.capacity, len(points) + min(spare, work // 3))
        params.waiting_capacity = waiting.capacity
