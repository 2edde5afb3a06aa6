"""Deterministic refinement: the same bytes for any number of threads and on a GPU.

Row numbers and positions in worklists depend on the timing of threads.  So points have a
deterministic id, their birth, and items a deterministic order; both follow from the input alone.  A
round sorts its items and processes them in slices of a fixed size, the items of which claim
together: their places in the sorted slice decide which items win (deterministic reservations,
Blelloch et al. 2012).  The birth of a new point is the place of the item that created the point,
and the order of an item is that birth and the item's place in the fan around the point.  In the
end rows are sorted by births (`rows_of`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.algorithms.refinement.cavity import BUCKETS
from morph.algorithms.refinement.kernels import (
    activate,
    defer,
    enqueue,
    refine_triangle,
    signal_urgent,
)
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import i8, i32, i64

if TYPE_CHECKING:
    from morph.data.row import Row

ENTRY = ("item", "stamp", "bucket", "order")  # the columns of an entry of a worklist
SLICE = 8192  # items that claim together: all their threads must be resident on a GPU
SMALL = 512  # items of a round that a program sorts by rank; larger rounds run from the host


@kernel
def select(item, selected):
    enqueue(selected, item.item, item.stamp, item.bucket, item.order)


@kernel
def copy_by_rank(item, selected, ranked, first):
    """Copy an item to the row of ``seats`` at its rank; its new point's birth is first + rank."""
    rank = i64(0)
    for other in selected:
        if other.order < item.order:
            rank += 1
    row = ranked[rank]
    row.item = item.item
    row.stamp = item.stamp
    row.bucket = item.bucket
    row.order = item.order
    row.stable_id = first + rank


@program
def run_small_rounds(g, active, following, waiting, urgent, params, selected, ranked, now, turns):
    """Run at most ``turns`` rounds of at most ``len(seats)`` items; return the number of rounds.

    Returns early before a round that has more items, for whose new rows the tables might lack
    capacity, or that might exceed the budget.
    """
    rounds = 0
    bucket, stable_id, tries = params.bucket, now.stable_id, now.tries
    while rounds < turns and (not active.empty or bucket < BUCKETS - 1):
        enough = min(now.most, max(len(waiting) // now.part, now.least))
        while len(active) < enough and bucket < BUCKETS - 1:
            bucket = max(bucket + 1, params.first_bucket)
            foreach(waiting, activate, active, where=lambda i: i.bucket == bucket)
        n = len(active)
        tries -= n
        if n > len(ranked) or tries < 0 or len(waiting) + len(g.triangles) + 3 * n > now.waiting:
            break
        if hasattr(params, "points_left"):
            if params.points_left < n:
                break
        due = i32(BUCKETS)
        if hasattr(params, "segments_first"):
            foreach(
                active,
                signal_urgent,
                urgent,
                where=lambda i: i.bucket == 0 and i.item.node[0] == i.stamp,
            )
            if urgent.take():
                due = i32(0)
                foreach(
                    active, defer, following,
                    where=lambda i: i.bucket != 0 and i.item.node[0] == i.stamp,
                )  # fmt: skip
        foreach(
            active, select, selected, where=lambda i: i.bucket <= due and i.item.node[0] == i.stamp
        )
        foreach(selected, copy_by_rank, selected, ranked, stable_id)
        foreach(
            ranked, refine_triangle, g, bucket, following, waiting, params,
            where=lambda i: i.stable_id >= stable_id, together=True,
        )  # fmt: skip
        stable_id += len(selected)
        selected.clear()
        active, following = following, active
        following.clear()
        rounds += 1
    params.bucket = bucket
    now.stable_id = stable_id
    return rounds


class DeterministicRounds:
    """The births of points and the slices of worklists, of one refinement."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        g.points.add("stable_id", i64)
        g.points.stable_id[:] = g.device.xp.arange(len(g.points))
        kinds: dict[str, Any] = {"stamp": Ref(g.points), "bucket": i8, "order": i64}
        self.selected = Collection(g.triangles, capacity=SMALL, **kinds)
        kinds |= {"stable_id": i64}
        self.slice = Collection(g.triangles, capacity=SLICE, **kinds)
        self.ranked = g.add_table("ranked", capacity=SMALL, item=Ref(g.triangles), **kinds)
        self.ranked.extend(SMALL)
        # ``birth``: the next birth; ``tries``: number of items for which tables have capacity;
        # ``waiting``: capacity of the list ``far``; the rest: see `kernels.mend`
        names = ("stable_id", "tries", "waiting", "most", "part", "least")
        columns: dict[str, Any] = dict.fromkeys(names, i64)
        self.state = Table("state", g.device, **columns)
        self.state.new(stable_id=len(g.points))

    def number(self, work: Collection) -> None:
        """Order the items of a list, all of whose triangles exist, by their first edges."""
        g, xp = self.g, self.g.device.xp
        with g.device.active():
            rank = xp.empty(len(g.points), np.int64)
            rank[xp.argsort(g.points.stable_id.array)] = xp.arange(len(rank))
            edge = rank[g.triangles.node.array[work.items][:, :2]]
            place = xp.empty(len(work), np.int64)
            place[xp.argsort(edge[:, 0] << 32 | edge[:, 1])] = xp.arange(len(work))
            work.order[:] = place  # less than the order of every item of a new point

    def run_rounds(
        self, active: Collection, following: Collection, waiting: Collection, params: Row,
        few: tuple[int, int, int], turns: int, urgent: Flag,
    ) -> int:  # fmt: skip
        """The same as `kernels.mend`, with larger rounds run from the host."""
        rounds, now = 0, self.state[0]
        now.most, now.part, now.least = few
        while (
            rounds < turns and (len(active) or params.bucket < BUCKETS - 1) and _points_left(params)
        ):
            if len(active) <= SMALL:
                done = self._small_rounds(
                    active, following, waiting, urgent, params, turns - rounds
                )
                rounds += done
                if done % 2:
                    active, following = following, active
                if rounds == turns or len(active) <= min(SMALL, _points_left(params)):
                    continue  # no item is left, or tables have to grow
            self._activate(waiting, active, params)
            self._round(active, following, waiting, params)
            active, following = following, active
            following.clear()
            rounds += 1
        return rounds

    def _small_rounds(
        self, active: Collection, following: Collection, waiting: Collection, urgent: Flag, params: Row,
        turns: int,
    ) -> int:  # fmt: skip
        """Run `mend_small`, with capacity for at least one round of the items in ``near``."""
        g, now = self.g, self.state[0]
        self._reserve((active, following, waiting), len(active), spare=SMALL)
        points, triangles = g.points, g.triangles
        # an item adds at most a point and two triangles; an item or triangle has one entry at most
        rows = triangles.capacity - len(triangles)
        work = min(active.capacity, following.capacity) - len(triangles)
        now.tries = min(points.capacity - len(points), rows // 2, work // 3)
        now.waiting = waiting.capacity
        args = (active, following, waiting, urgent, params, self.selected, self.ranked, now, turns)
        return int(run_small_rounds(g, *args))

    def _activate(self, waiting: Collection, active: Collection, params: Row) -> None:
        """Append items of the next levels to ``near`` until it has enough."""
        g, xp, now, bucket = self.g, self.g.device.xp, self.state[0], int(params.bucket)
        enough = min(now.most, max(len(waiting) // now.part, now.least))
        if len(active) >= enough or bucket == BUCKETS - 1:
            return
        with g.device.active():
            buckets = waiting.bucket.array
            counts = g.device.to_host(xp.bincount(buckets, minlength=BUCKETS))
            total = len(active) + counts[bucket + 1 :].cumsum()
            due = bucket + 1 + min(int(total.searchsorted(enough)), len(total) - 1)
            rows = xp.flatnonzero((buckets > bucket) & (buckets <= due))
            active.extend(
                **{name: waiting.columns[name].array[: len(waiting)][rows] for name in ENTRY}
            )
        params.bucket = due

    def _round(
        self, active: Collection, following: Collection, waiting: Collection, params: Row
    ) -> None:
        """Refine the items in ``near`` by slices; items beyond the budget go to ``again``."""
        g, xp, part, now = self.g, self.g.device.xp, self.slice, self.state[0]
        columns = {name: active.columns[name].array for name in ENTRY}
        with g.device.active():
            columns = {name: a[: len(active)] for name, a in columns.items()}
            stamp = g.triangles.node.array[columns["item"]][:, 0]
            there = xp.flatnonzero(stamp == columns["stamp"])
            there = there[xp.argsort(columns["order"][there])]
            urgent = columns["bucket"][there] == 0
            if "segments_first" in params.table.columns and bool(urgent.any()):
                later, there = there[~urgent], there[urgent]
                following.extend(**{name: a[later] for name, a in columns.items()})
        most, stable_id, bucket = (
            min(SLICE, _points_left(params)),
            int(now.stable_id),
            int(params.bucket),
        )
        # items created together are adjacent, and refining one often removes the next: slices
        # spread over the list would conflict less, but make more triangles
        for first in range(0, len(there), most):
            those = there[first : first + most]
            if len(those) > _points_left(params):
                rest = there[first:]
                following.extend(**{name: a[rest] for name, a in columns.items()})
                return
            self._reserve((following, waiting), len(those))
            part.clear()
            stable_ids = xp.arange(stable_id, stable_id + len(those))
            part.extend(**{name: a[those] for name, a in columns.items()}, stable_id=stable_ids)
            foreach(part, refine_triangle, g, bucket, following, waiting, params, together=True)
            stable_id += len(those)
            now.stable_id = stable_id

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


def _points_left(params: Row) -> int:
    """The number of points left in the budget, enough for all items of a slice in any order."""
    return max(int(params.points_left), 0) if "points_left" in params.table.columns else SLICE
