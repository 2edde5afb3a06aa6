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

from morph.algorithms.refinement.cavity import LEVELS
from morph.algorithms.refinement.kernels import look, mend_one, note, postpone, promote
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import i8, i32, i64

if TYPE_CHECKING:
    from morph.data.row import Row

ENTRY = ("item", "apex", "level", "order")  # the columns of an entry of a worklist
SLICE = 8192  # items that claim together: all their threads must be resident on a GPU
SMALL = 512  # items of a round that a program sorts by rank; larger rounds run from the host


@kernel
def choose(item, chosen):
    note(chosen, item.item, item.apex, item.level, item.order)


@kernel
def seat(item, chosen, seats, first):
    """Copy an item to the row of ``seats`` at its rank; its new point's birth is first + rank."""
    rank = i64(0)
    for other in chosen:
        if other.order < item.order:
            rank += 1
    row = seats[rank]
    row.item = item.item
    row.apex = item.apex
    row.level = item.level
    row.order = item.order
    row.birth = first + rank


@program
def mend_small(g, near, again, far, urgent, goal, chosen, seats, now, turns):
    """Run at most ``turns`` rounds of at most ``len(seats)`` items; return the number of rounds.

    Returns early before a round that has more items, for whose new rows the tables might lack
    capacity, or that might exceed the budget.
    """
    rounds = 0
    level, birth, tries = goal.level, now.birth, now.tries
    while rounds < turns and (not near.empty or level < LEVELS - 1):
        enough = min(now.most, max(len(far) // now.part, now.least))
        while len(near) < enough and level < LEVELS - 1:
            level = max(level + 1, goal.first)
            foreach(far, promote, near, where=lambda i: i.level == level)
        n = len(near)
        tries -= n
        if n > len(seats) or tries < 0 or len(far) + len(g.triangles) + 3 * n > now.waiting:
            break
        if hasattr(goal, "left"):
            if goal.left < n:
                break
        due = i32(LEVELS)
        if hasattr(goal, "strict"):
            foreach(near, look, urgent, where=lambda i: i.level == 0 and i.item.node[0] == i.apex)
            if urgent.take():
                due = i32(0)
                foreach(
                    near, postpone, again,
                    where=lambda i: i.level != 0 and i.item.node[0] == i.apex,
                )  # fmt: skip
        foreach(near, choose, chosen, where=lambda i: i.level <= due and i.item.node[0] == i.apex)
        foreach(chosen, seat, chosen, seats, birth)
        foreach(
            seats, mend_one, g, level, again, far, goal,
            where=lambda i: i.birth >= birth, together=True,
        )  # fmt: skip
        birth += len(chosen)
        chosen.clear()
        near, again = again, near
        again.clear()
        rounds += 1
    goal.level = level
    now.birth = birth
    return rounds


class Births:
    """The births of points and the slices of worklists, of one refinement."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        g.points.add("birth", i64)
        g.points.birth[:] = g.device.xp.arange(len(g.points))
        kinds: dict[str, Any] = {"apex": Ref(g.points), "level": i8, "order": i64}
        self.chosen = Collection(g.triangles, capacity=SMALL, **kinds)
        kinds |= {"birth": i64}
        self.slice = Collection(g.triangles, capacity=SLICE, **kinds)
        self.seats = g.add_table("seats", capacity=SMALL, item=Ref(g.triangles), **kinds)
        self.seats.extend(SMALL)
        # ``birth``: the next birth; ``tries``: number of items for which tables have capacity;
        # ``waiting``: capacity of the list ``far``; the rest: see `kernels.mend`
        names = ("birth", "tries", "waiting", "most", "part", "least")
        columns: dict[str, Any] = dict.fromkeys(names, i64)
        self.state = Table("state", g.device, **columns)
        self.state.new(birth=len(g.points))

    def number(self, work: Collection) -> None:
        """Order the items of a list, all of whose triangles exist, by their first edges."""
        g, xp = self.g, self.g.device.xp
        with g.device.active():
            rank = xp.empty(len(g.points), np.int64)
            rank[xp.argsort(g.points.birth.array)] = xp.arange(len(rank))
            edge = rank[g.triangles.node.array[work.items][:, :2]]
            place = xp.empty(len(work), np.int64)
            place[xp.argsort(edge[:, 0] << 32 | edge[:, 1])] = xp.arange(len(work))
            work.order[:] = place  # less than the order of every item of a new point

    def mend(
        self, near: Collection, again: Collection, far: Collection, goal: Row,
        few: tuple[int, int, int], turns: int, urgent: Flag,
    ) -> int:  # fmt: skip
        """The same as `kernels.mend`, with larger rounds run from the host."""
        rounds, now = 0, self.state[0]
        now.most, now.part, now.least = few
        while rounds < turns and (len(near) or goal.level < LEVELS - 1) and _affordable(goal):
            if len(near) <= SMALL:
                done = self._small_rounds(near, again, far, urgent, goal, turns - rounds)
                rounds += done
                if done % 2:
                    near, again = again, near
                if rounds == turns or len(near) <= min(SMALL, _affordable(goal)):
                    continue  # no item is left, or tables have to grow
            self._promote(far, near, goal)
            self._round(near, again, far, goal)
            near, again = again, near
            again.clear()
            rounds += 1
        return rounds

    def _small_rounds(
        self, near: Collection, again: Collection, far: Collection, urgent: Flag, goal: Row,
        turns: int,
    ) -> int:  # fmt: skip
        """Run `mend_small`, with capacity for at least one round of the items in ``near``."""
        g, now = self.g, self.state[0]
        self._make_room((near, again, far), len(near), spare=SMALL)
        points, triangles = g.points, g.triangles
        # an item adds at most a point and two triangles; an item or triangle has one entry at most
        rows = triangles.capacity - len(triangles)
        work = min(near.capacity, again.capacity) - len(triangles)
        now.tries = min(points.capacity - len(points), rows // 2, work // 3)
        now.waiting = far.capacity
        args = (near, again, far, urgent, goal, self.chosen, self.seats, now, turns)
        return int(mend_small(g, *args))

    def _promote(self, far: Collection, near: Collection, goal: Row) -> None:
        """Append items of the next levels to ``near`` until it has enough."""
        g, xp, now, level = self.g, self.g.device.xp, self.state[0], int(goal.level)
        enough = min(now.most, max(len(far) // now.part, now.least))
        if len(near) >= enough or level == LEVELS - 1:
            return
        with g.device.active():
            levels = far.level.array
            waiting = g.device.to_host(xp.bincount(levels, minlength=LEVELS))
            total = len(near) + waiting[level + 1 :].cumsum()
            due = level + 1 + min(int(total.searchsorted(enough)), len(total) - 1)
            rows = xp.flatnonzero((levels > level) & (levels <= due))
            near.extend(**{name: far.columns[name].array[: len(far)][rows] for name in ENTRY})
        goal.level = due

    def _round(self, near: Collection, again: Collection, far: Collection, goal: Row) -> None:
        """Refine the items in ``near`` by slices; items beyond the budget go to ``again``."""
        g, xp, part, now = self.g, self.g.device.xp, self.slice, self.state[0]
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
        most, birth, level = min(SLICE, _affordable(goal)), int(now.birth), int(goal.level)
        # items created together are adjacent, and refining one often removes the next: slices
        # spread over the list would conflict less, but make more triangles
        for first in range(0, len(there), most):
            those = there[first : first + most]
            if len(those) > _affordable(goal):
                rest = there[first:]
                again.extend(**{name: a[rest] for name, a in columns.items()})
                return
            self._make_room((again, far), len(those))
            part.clear()
            births = xp.arange(birth, birth + len(those))
            part.extend(**{name: a[those] for name, a in columns.items()}, birth=births)
            foreach(part, mend_one, g, level, again, far, goal, together=True)
            birth += len(those)
            now.birth = birth

    def _make_room(self, works: tuple[Collection, ...], n: int, spare: int = 0) -> None:
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


def _affordable(goal: Row) -> int:
    """The number of points left in the budget, enough for all items of a slice in any order."""
    return max(int(goal.left), 0) if "left" in goal.table.columns else SLICE
