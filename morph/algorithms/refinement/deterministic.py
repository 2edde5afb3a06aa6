"""Deterministic refinement: the same bytes for any number of threads and on a GPU.

Row numbers and positions in worklists depend on the timing of threads.  So points have a
deterministic id, ``stable_id``, and items a deterministic order; both follow from the input alone.
A round sorts its items and processes them in slices of a fixed size, the items of which claim
their cavities at once: their positions in the sorted slice decide which items win (deterministic
reservations, Blelloch et al. 2012).  The id of a new point follows from the position of the item
that created the point, and the order of an item is that id and the item's place in the fan around
the point.  In the end rows are sorted by these ids (`rows_of`).

On a CPU the program `run_rounds` sorts and slices the rounds.  On a GPU it runs small rounds, and
counts for each item how many have a lesser order; larger rounds are sorted and sliced by the host.
Items of larger rounds that are near ones that precede them are deferred
(`kernels.defer_conflicting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.algorithms.refinement.kernels import refine_triangle, run_rounds
from morph.algorithms.refinement.parameters import UNLIMITED
from morph.algorithms.refinement.quality import BUCKETS
from morph.data.collection import Collection, Flag
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach
from morph.operators.sort import argsort, sort_space
from morph.prelude import i8, i32, i64
from morph.runtime.arrays import any_true, bincount

if TYPE_CHECKING:
    from morph.data.row import Row

ENTRY = ("item", "stamp", "bucket", "order")  # the columns of an entry of a worklist
SLICE = 8192  # items that claim at once: all their threads must be resident on a GPU
# Largest round that a GPU's program sorts; in larger rounds conflicting items are deferred first.
ROUND_LIMIT = 512


class DeterministicRounds:
    """Deterministic ids of points, and slices of worklists, of one refinement."""

    def __init__(self, g: Graph, params: Row) -> None:
        self.g, self.params = g, params
        self.sorts_in_program = "listed" in params.table.columns
        self.selected: Any
        g.points.add("stable_id", i64)
        g.points.stable_id[:] = g.device.xp.arange(len(g.points))
        kinds: dict[str, Any] = {"stamp": Ref(g.points), "bucket": i8, "order": i64}
        extra: dict[str, Any] = {"stable_id": i64}
        self.slice = Collection(g.triangles, capacity=SLICE, **kinds, **extra)
        entry = {"item": Ref(g.triangles), **kinds}
        if self.sorts_in_program:
            g.add_table("ranked", **entry, key=i64, pack=tuple(entry))
            self._rank_rows(max(ROUND_LIMIT, len(g.triangles) // 4))
            g.triangles.add("entry", i32)
            params.deferral_threshold = ROUND_LIMIT
            g.add_table("sliced", **entry, **extra)
            g.sliced.extend(SLICE)
        else:
            self.selected = Collection(g.triangles, capacity=ROUND_LIMIT, **kinds)
            g.add_table("ranked", capacity=ROUND_LIMIT, **entry, **extra)
            g.ranked.extend(ROUND_LIMIT)

    def _rank_rows(self, n: int) -> None:
        """Let the program sort rounds of up to ``n`` items."""
        self.g.ranked.extend(n - len(self.g.ranked))
        self.selected = sort_space(self.g.ranked.key)

    def sort(self, work: Collection) -> None:
        """Order the items of a list, all of whose triangles exist, by their first edges."""
        g, xp = self.g, self.g.device.xp
        with g.device.active():
            rank = xp.empty(len(g.points), np.int64)
            rank[xp.argsort(g.points.stable_id.array)] = xp.arange(len(rank))
            edge = rank[g.triangles.node.array[work.items][:, :2]]
            position = xp.empty(len(work), np.int64)
            position[argsort(edge[:, 0] << len(rank).bit_length() | edge[:, 1])] = xp.arange(
                len(work)
            )
            work.order[:] = position  # less than the order of every item of a new point

    def run(
        self, active: Collection, following: Collection, waiting: Collection, urgent: Flag,
        turns: int,
    ) -> int:  # fmt: skip
        """The same as `run_rounds`, with rounds run from the host that the program cannot run."""
        rounds, params = 0, self.params
        while rounds < turns and (len(active) or params.bucket < BUCKETS - 1) and self._left():
            most = UNLIMITED if self.sorts_in_program else ROUND_LIMIT
            if len(active) <= most:
                done = self._run_program(active, following, waiting, urgent, turns - rounds)
                rounds += done
                if done % 2:
                    active, following = following, active
                if rounds == turns or len(active) <= min(most, self._left()) or not self._left():
                    continue  # no item or point is left, or tables have to grow
            self._activate(waiting, active)
            self._round(active, following, waiting)
            active, following = following, active
            following.clear()
            rounds += 1
        return rounds

    def _left(self) -> int:
        """The number of points that may be added."""
        has = "points_left" in self.params.table.columns
        return max(int(self.params.points_left), 0) if has else UNLIMITED

    def _run_program(
        self, active: Collection, following: Collection, waiting: Collection, urgent: Flag,
        turns: int,
    ) -> int:  # fmt: skip
        """Run `run_rounds`, with capacity for at least one round of the items in ``active``."""
        g, params = self.g, self.params
        if self.sorts_in_program and len(active) > len(g.ranked):
            self._rank_rows(2 * len(active))
        self._reserve((active, following, waiting), len(active), spare=ROUND_LIMIT)
        points, triangles = g.points, g.triangles
        # an item adds at most a point and two triangles; an item or triangle has one entry at most
        rows = triangles.capacity - len(triangles)
        work = min(active.capacity, following.capacity) - len(triangles)
        items = min(points.capacity - len(points), rows // 2, work // 3)
        params.item_capacity = items + (len(points) if self.sorts_in_program else 0)
        params.waiting_capacity = waiting.capacity
        args = (active, following, waiting, self.selected, urgent, params, turns)
        return int(run_rounds(g, *args))

    def _activate(self, waiting: Collection, active: Collection) -> None:
        """Append items of the next buckets to ``active`` until it has enough."""
        g, xp, params, bucket = self.g, self.g.device.xp, self.params, int(self.params.bucket)
        few = min(params.most, max(len(waiting) // params.portion, params.least))
        if len(active) >= few or bucket == BUCKETS - 1:
            return
        with g.device.active():
            buckets = waiting.bucket.array
            counts = g.device.to_host(bincount(xp, buckets, BUCKETS))
            total = len(active) + counts[bucket + 1 :].cumsum()
            last = bucket + 1 + min(int(total.searchsorted(few)), len(total) - 1)
            rows = xp.flatnonzero((buckets > bucket) & (buckets <= last))
            columns = {name: waiting.columns[name].array[: len(waiting)] for name in ENTRY}
            active.extend(**{name: a[rows] for name, a in columns.items()})
        params.bucket = last

    def _round(self, active: Collection, following: Collection, waiting: Collection) -> None:
        """Refine the active items by slices; items beyond the last point are deferred."""
        g, xp, part, params = self.g, self.g.device.xp, self.slice, self.params
        columns = {name: active.columns[name].array for name in ENTRY}
        with g.device.active():
            columns = {name: a[: len(active)] for name, a in columns.items()}
            stamp = g.triangles.node.array[columns["item"]][:, 0]
            rows = xp.flatnonzero(stamp == columns["stamp"])
            urgent = columns["bucket"][rows] == 0
            if "segments_first" in params.table.columns and any_true(urgent):
                later, rows = rows[~urgent], rows[urgent]
                following.extend(**{name: a[later] for name, a in columns.items()})
            if len(active) > ROUND_LIMIT:
                conflicting = self._conflicting(**{name: a[rows] for name, a in columns.items()})
                later, rows = rows[conflicting], rows[~conflicting]
                following.extend(**{name: a[later] for name, a in columns.items()})
            rows = rows[xp.argsort(columns["order"][rows])]
        size, next_id, bucket = min(SLICE, self._left()), int(params.next_id), int(params.bucket)
        # items created together are adjacent, and refining one often removes the next: slices
        # spread over the list would conflict less, but make more triangles
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size]
            if len(chosen) > self._left():
                with g.device.active():
                    rest = rows[first:]
                    following.extend(**{name: a[rest] for name, a in columns.items()})
                return
            self._reserve((following, waiting), len(chosen))
            part.clear()
            with g.device.active():
                ids = xp.arange(next_id, next_id + len(chosen))
                part.extend(**{name: a[chosen] for name, a in columns.items()}, stable_id=ids)
            foreach(
                part, refine_triangle, g, bucket, following, waiting, params,
                where=lambda i: i.item.node[0] == i.stamp, together=True,
            )  # fmt: skip
            next_id += len(chosen)
            params.next_id = next_id

    def _conflicting(self, item: Any, bucket: Any, order: Any, **_: Any) -> Any:
        """Whether each item is deferred, see `kernels.defer_conflicting`."""
        xp, opposite, m = self.g.device.xp, self.g.triangles.opposite.array, len(self.g.triangles)
        rank = xp.empty(len(item), np.int64)
        rank[xp.lexsort(xp.stack([order, bucket]))] = xp.arange(len(item))
        least = xp.full(m + 1, len(item))  # the last is behind segments
        least[item] = rank
        near = [xp.where(edge >= 0, edge >> 2, m) for edge in opposite[item].T]
        for t in near[:3]:
            sides = opposite[xp.minimum(t, m - 1)].T
            near += [xp.where((edge >= 0) & (t < m), edge >> 2, m) for edge in sides]
        return xp.stack([least[t] for t in near]).min(axis=0) < rank

    def _reserve(self, works: tuple[Collection, ...], n: int, spare: int = 0) -> None:
        """Reserve capacity for all rows of n items, so that none is re-executed after the others.

        A point adds two triangles at most; the triangles that points replace are all different.
        The lists and points also get capacity for ``spare`` more items.
        """
        points, triangles = self.g.points, self.g.triangles
        rows, spare = len(triangles) + 2 * n, 3 * spare
        needs = [(points, len(points) + n + spare), (triangles, rows)]
        for store, least in needs + [(work, len(work) + rows + n + spare) for work in works]:
            if store.capacity < least:
                store.grow(least)
