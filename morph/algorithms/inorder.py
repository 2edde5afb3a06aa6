"""Refinement in an order that no device decides: the same bytes for any number of threads.

What a row is numbered, and where in a list an item stands, depends on which thread came first.  So
points are known by their birth and items by an order of their own; both follow from the input
alone.  A round sorts its items and takes them in slices of a fixed size, the items of which claim
together: places in the sorted slice decide who wins (deterministic reservations, Blelloch et al.
2012).  A new point's birth is the place of the item that made it, and an item's order is that birth
and its place in the fan around it.  In the end rows are put in the order of births (`rows_of`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.algorithms.cavity import LEVELS
from morph.algorithms.mending import mend_one
from morph.data.collect import Collection
from morph.data.dtypes import Ref
from morph.graph import Graph
from morph.kernel import foreach
from morph.prelude import i8, i64

if TYPE_CHECKING:
    from morph.data.row import Row

ENTRY = ("item", "apex", "level", "order")  # the columns of an entry of a worklist
SLICE = 8192  # items that claim together: a GPU has to have as many threads at once


class Births:
    """The births of points and the slices of worklists, of one refinement."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.next = len(g.points)
        g.points.add("birth", i64)
        g.points.birth[:] = g.device.xp.arange(self.next)
        kinds: dict[str, Any] = {"apex": Ref(g.points), "level": i8, "order": i64, "birth": i64}
        self.slice = Collection(g.triangles, capacity=SLICE, **kinds)

    def number(self, work: Collection) -> None:
        """Order the items of a list whose triangles are all there still, by their first edges."""
        g, xp = self.g, self.g.device.xp
        with g.device.active():
            birth = g.points.birth.array[g.triangles.node.array[work.items][:, :2]]
            place = xp.empty(len(work), np.int64)
            place[xp.lexsort(xp.stack([birth[:, 1], birth[:, 0]]))] = xp.arange(len(work))
            work.order[:] = place  # less than any order of a new point's item

    def mend(
        self, near: Collection, again: Collection, far: Collection, goal: Row,
        few: tuple[int, int, int], turns: int,
    ) -> int:  # fmt: skip
        """Do what `morph.algorithms.mending.mend` does, round by round from the host."""
        rounds, level = 0, int(goal.level)
        most, part, least = few
        while rounds < turns and (len(near) or level < LEVELS - 1) and _affordable(goal):
            enough = min(most, max(len(far) // part, least))
            if len(near) < enough and level < LEVELS - 1:
                level = self._promote(far, near, enough, level)
            self._round(near, again, far, goal, level)
            near, again = again, near
            again.clear()
            rounds += 1
        goal.level = level
        return rounds

    def _promote(self, far: Collection, near: Collection, enough: int, level: int) -> int:
        """Append items of the next levels to ``near`` until it is large enough; return the last."""
        g, xp = self.g, self.g.device.xp
        with g.device.active():
            levels = far.level.array
            waiting = xp.bincount(levels, minlength=LEVELS)
            total = len(near) + g.device.to_host(waiting)[level + 1 :].cumsum()
            due = level + 1 + min(int(total.searchsorted(enough)), len(total) - 1)
            rows = xp.flatnonzero((levels > level) & (levels <= due))
            columns = {name: far.columns[name].array for name in ENTRY}
            near.extend(**{name: a[rows] for name, a in columns.items()})
        return due

    def _round(
        self, near: Collection, again: Collection, far: Collection, goal: Row, level: int
    ) -> None:
        """Mend what is near, slice by slice; what cannot be paid for goes on to ``again``."""
        g, xp, part = self.g, self.g.device.xp, self.slice
        columns = {name: near.columns[name].array for name in ENTRY}
        with g.device.active():
            columns = {name: a[: len(near)] for name, a in columns.items()}
            apex = g.triangles.node.array[columns["item"]][:, 0]
            there = xp.flatnonzero(apex == columns["apex"])
            there = there[xp.argsort(columns["order"][there])]
            urgent = columns["level"][there] == 0
            if "strict" in goal.table.columns and bool(urgent.any()):
                later, there = there[~urgent], there[urgent]
                again.extend(**{name: a[later] for name, a in columns.items()})
        most = min(SLICE, _affordable(goal))
        # items made together lie together, and what is next to one often mends it: slices that are
        # spread over the list would conflict less, but make more triangles
        for first in range(0, len(there), most):
            those = there[first : first + most]
            if len(those) > _affordable(goal):
                rest = there[first:]
                again.extend(**{name: a[rest] for name, a in columns.items()})
                return
            self._make_room(again, far, len(those))
            part.clear()
            births = xp.arange(self.next, self.next + len(those))
            part.extend(**{name: a[those] for name, a in columns.items()}, birth=births)
            foreach(part, mend_one, g, level, again, far, goal, together=True)
            self.next += len(those)

    def _make_room(self, again: Collection, far: Collection, n: int) -> None:
        """Have room for all that n items can make: none may have to run again after the others.

        A point adds two triangles at most; the triangles that points replace are all different.
        """
        points, triangles = self.g.points, self.g.triangles
        rows = len(triangles) + 2 * n
        needs = [(points, len(points) + n), (triangles, rows)]
        for store, least in needs + [(work, len(work) + rows + n) for work in (again, far)]:
            if store.capacity < least:
                store.grow(least)


def _affordable(goal: Row) -> int:
    """How many points the budget has left: all items of a slice can pay, whoever comes first."""
    return max(int(goal.left), 0) if "left" in goal.table.columns else SLICE
