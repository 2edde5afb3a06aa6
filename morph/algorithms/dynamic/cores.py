"""Dynamic core numbers: exact after every batch of edge insertions and deletions.

Kept are core numbers l and *supports*: that of a vertex v is the number of its neighbours of value
l(v) or more (MCD of Sariyuce et al., PVLDB 2013).  Values are *supported* if no support is below
its value; core numbers are the greatest supported values.  A batch changes the supports of the
ends of its edges; then it has two phases, on the graph with all its changes:

- *fall*: a vertex with a support below its value is lowered by 1, until there is none: the values
  are then the greatest supported ones below the old ones (the local algorithm of Montresor, De
  Pellegrini, Miorandi, IEEE TPDS 2013).  Only lowered vertices scan their neighbours: for their
  new support, and to take theirs from neighbours of the old value.
- *rise*, in rounds that raise values by 1 or not at all: candidates are reached from the sources
  of the round along vertices of equal value c that have more than c neighbours of value c or more
  (Sariyuce et al.); candidates that c + 1 would not support are then peeled off, and the others
  rise.  Sources are the lower ends of inserted edges, then the vertices that rose in the round
  before.

The values stay supported, so they are core numbers at most.  Suppose that some vertex ends below
its core number, take such vertices of the least value c, and of those whose core number exceeds c a
component C.  When a vertex of C rose to c, or a neighbour of C from c to c + 1, or, if neither
happened, when an inserted edge or a fall met C, for the last time, then in the next round (of a
neighbour: the same) all of C was reached and c + 1 supported it: so it rose, a contradiction.
Without any of these C would have been in the (c + 1)-core before the batch.

Work: the edges at the candidates and at the vertices that fall.  One launch a batch; if the repair
takes long, all values are recomputed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.dynamic.following import Maintained
from morph.algorithms.dynamic.repair import ABOVE
from morph.algorithms.graph.arguments import as_graph
from morph.algorithms.graph.cores import core_number
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.data.versions import exclusive
from morph.graph.applied import Applied
from morph.launch.ahead import compile_ahead
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_cas, atomic_sub, i32, i64
from morph.runtime.arrays import count_true

DELETED, INSERTED = Applied.DELETED, Applied.INSERTED
POINT = 8  # edges whose scan takes as long as a point
STEP, STEP_GPU = 64, 1 << 19  # edges whose scan takes as long as a step
SHARE, SHARE_GPU = 0.3, 1.0  # a CPU scans an edge in three times the time of `core_number`


class Cores(NamedTuple):
    """The values to repair, as a bundle."""

    graph: Any
    values: Any  # a row for each point: ``core``, ``support``, ``left``, ``queued``, ``stamp``
    totals: Any  # ``edges``: those that the repair has scanned, and `POINT` more for each point
    both: bool  # whether each edge changes the supports of both ends: else it has an arc back
    step_edges: int  # edges whose scan takes as long as a step


class Lists(NamedTuple):
    """Worklists of points, arguments of programs: swaps of a bundle's lists compile steps twice."""

    now: Any
    following: Any
    visited: Any  # the candidates of a round
    falling: Any  # those of them that cannot rise


class Batch(NamedTuple):
    """A batch of changes, and the limit of its repair."""

    changes: Any  # see `Applied.rows`
    rows: int  # the number of valid rows in ``changes``
    most: int  # edges, as counted in ``totals``, above which recomputing all values costs less
    step: int  # in which values changed last, of all batches before


@func
def enqueue(p, values, queue):
    v = values[p.id]
    if v.queued == 0 and atomic_cas(v.queued, 0, 1) == 0:
        queue.add(p)


@func
def change_support(u, v, by):
    if v.core >= u.core:
        atomic_add(u.support, by)


@kernel
def change_supports(c, cores):
    """Change the supports of the ends of a changed edge."""
    u, v = cores.values[c.end[0]], cores.values[c.end[1]]
    if u.id != v.id and (c.outcome == INSERTED or c.outcome == DELETED):
        by = i32(1) if c.outcome == INSERTED else i32(-1)
        change_support(u, v, by)
        if cores.both:
            change_support(v, u, by)


@kernel
def enqueue_unsupported(c, cores, queue):
    for k in range(2):
        p = cores.graph.points[c.end[k]]
        if cores.values[p.id].support < cores.values[p.id].core:
            enqueue(p, cores.values, queue)


@kernel
def enqueue_lower(c, cores, queue):
    """Enqueue the ends of an inserted edge that may rise: the lower one, or both."""
    p, q = cores.graph.points[c.end[0]], cores.graph.points[c.end[1]]
    first, second = cores.values[p.id].core, cores.values[q.id].core
    if first <= second:
        enqueue(p, cores.values, queue)
    if second <= first:
        enqueue(q, cores.values, queue)


@kernel
def count_support(p, cores):
    level, support = cores.values[p.id].core, i32(0)
    for t in p.nbrs:
        if t != p and cores.values[t.id].core >= level:
            support += 1
    cores.values[p.id].support = support


@kernel
def lower(p, cores, step, following):
    """Lower an unsupported vertex; it stays in the worklist, as it may have to fall further."""
    v = cores.values[p.id]
    v.queued = 0
    if v.support < v.core:
        v.core -= 1
        v.stamp = step
        atomic_add(cores.totals.edges, p.degree + POINT)
        following.add(p)


@kernel
def rise(p, cores, step, queue):
    v = cores.values[p.id]
    v.queued = 0
    if v.left > v.core:
        v.core += 1
        v.stamp = step
        v.queued = 1
        queue.add(p)


@kernel
def recount(p, cores, falls, step, unsupported):
    """Count the support of a vertex whose value changed; it takes or gives that of neighbours."""
    v = cores.values[p.id]
    if v.stamp != step:
        return
    level, support = v.core, i32(0)
    upper, by = (level + 1, i32(-1)) if falls else (level, i32(1))  # the upper one of both values
    for t in p.nbrs:
        near = cores.values[t.id]
        if t != p and near.core >= level:
            support += 1
        if near.core == upper and near.stamp != step:
            if atomic_add(near.support, by) == upper and falls:
                unsupported.add(t)
    v.support = support


@kernel
def visit(p, cores, peels, visited, falling, queue):
    """Visit a candidate; if it may rise, enqueue its neighbours of equal value.

    With ``peels`` it cannot: take its support from them, and enqueue those that then cannot either.
    """
    v = cores.values[p.id]
    level = v.core
    if not peels:
        v.left = v.support
        visited.add(p)
        atomic_add(cores.totals.edges, p.degree + POINT)
        if v.support <= level:
            falling.add(p)
            return
    for t in p.nbrs:
        near = cores.values[t.id]
        if t != p and near.core == level:
            if peels:
                if near.queued == 1 and atomic_sub(near.left, 1) == level + 1:
                    queue.add(t)
            elif near.queued == 0 and atomic_cas(near.queued, 0, 1) == 0:
                queue.add(t)


@program
def find_risers(cores, now, following, visited, falling, most):
    """Visit the candidates of a round, then peel off those that cannot rise; returns the steps.

    It ends early if these take longer than ``most``.
    """
    steps, peels = 0, False
    while not now.empty and cores.totals.edges + steps * cores.step_edges <= most:
        foreach(now, visit, cores, peels, visited, falling, following)
        now, following = following, now
        following.clear()
        steps += 1
        if now.empty and not peels:
            peels = True
            now, falling = falling, now
    return steps


@program
def repair(cores, batch, now, following, visited, falling):
    """Repair the values after a batch.

    Returns ``ABOVE * steps`` and the vertices that fell or were candidates; -1 less that if this
    takes long: then the values are not right, and must be recomputed.  Kernels of falls and rises
    are the same, as each has a loop over edges, which takes seconds to compile for a GPU.
    """
    count, steps, work, falls = batch.rows, 0, 0, True
    cores.totals.edges = 0
    foreach(batch.changes, change_supports, cores, where=lambda c: c.id < count)
    foreach(batch.changes, enqueue_unsupported, cores, now,
            where=lambda c: c.id < count and c.outcome == DELETED)  # fmt: skip
    while falls or not now.empty:
        steps += 1
        if falls:
            foreach(now, lower, cores, batch.step + steps, following)
            work += len(following)
        else:
            visited.clear()
            falling.clear()
            most = batch.most - steps * cores.step_edges
            taken = find_risers(cores, now, following, visited, falling, most)
            steps += taken
            work += len(visited)
            now.clear()
            following.clear()
        if cores.totals.edges + steps * cores.step_edges > batch.most:
            return -1 - (ABOVE * steps + work)
        if not falls:
            foreach(visited, rise, cores, batch.step + steps, now)
        foreach(now, recount, cores, falls, batch.step + steps, following)
        if falls:
            now, following = following, now
            following.clear()
            if now.empty:
                falls = False
                foreach(batch.changes, enqueue_lower, cores, now,
                        where=lambda c: c.id < count and c.outcome == INSERTED)  # fmt: skip
    return ABOVE * steps + work


class DynamicCores(Maintained):
    """Core numbers, kept exact while edges are inserted and deleted, ignoring edge directions.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On one device of any kind; degrees are those of `core_number`.  It is changed by `apply`.

    Attributes
    ----------
    graph : Graph
    share : float
        Fraction of the estimated work of recomputing all values, which is done if a repair takes
        more.  By default 0.3, on a GPU 1.

    Raises
    ------
    TypeError
        If the graph is partitioned.

    Notes
    -----
    In an `Update`, ``affected`` are the points that fell or were candidates, as often as they were;
    an inserted edge may make candidates of all points of one core number.
    """

    _rolls_back = False

    def __init__(self, graph: Any) -> None:
        self.graph = graph = as_graph(graph)
        self._lock = graph._lock
        compile_ahead("DynamicCores", graph.device, graph)
        self._table: Any = Table(
            "cores", graph.device, core=i32, support=i32, left=i32, queued=i32, stamp=i64
        )
        # lists of points, whose edges threads share
        self._lists = Lists(*(Collection(graph.points) for _ in range(4)))
        on_host = graph.device.on_host
        self.share = SHARE if on_host else SHARE_GPU
        step_edges = STEP if on_host else STEP_GPU
        totals = Scalars(graph, edges=0)
        self._cores = Cores(graph, self._table, totals, graph.directed, step_edges)
        self._steps, self._levels = 0, 0
        self.refresh()

    @property
    @exclusive
    def core(self) -> Any:
        """As in the result of `morph.core_number`: -1 for deleted points; a copy, shape (n,)."""
        self._follow_others()
        points = self.graph.points
        core = self._table.core.array[: len(points)]
        with self.graph.device.active():
            if points.deletes:
                return self.graph.device.xp.where(points.alive, core, i32(-1))
            return core.copy()

    @property
    def largest(self) -> int:
        """The largest core number, 0 if there are no points."""
        core = self.core
        with self.graph.device.active():
            return max(int(core.max()), 0) if core.size else 0

    def _repair(self, applied: Any) -> tuple[str, int, int]:
        changes, count = applied.rows()
        # recomputing takes a step or more for each core number
        work = len(self.graph.edges) + self._levels * self._cores.step_edges
        most = int(self.share * (work + POINT * len(self._table)))
        if count > most:
            return self._recompute(0)
        batch = Batch(changes, count, most, self._steps)
        done = repair(self._cores, batch, *self._lists)
        rounds, affected = divmod(max(done, -1 - done), ABOVE)
        self._steps += rounds
        if done < 0:
            return self._recompute(rounds)
        self._put_back()
        return "repaired", affected, rounds

    def _recompute(self, rounds: int) -> tuple[str, int, int]:
        self._put_back()
        self._seen = -1  # until all is written
        table, graph = self._table, self.graph
        found, self._levels = core_number(graph)
        with graph.device.active():
            more = len(found) - len(table)
            if more > 0:
                table.extend(more)
            found = graph.device.xp.maximum(found, 0)  # deleted points have no neighbours
            core = table.core.array[: len(found)]  # `Graph.compact` leaves more rows
            affected = count_true(core != found)
            core[:] = found
            table.queued.array[:] = 0
            table.stamp.array[:] = 0  # after a failed batch, the next one has the same steps
        foreach(graph.points, count_support, self._cores)
        return "recomputed", affected, rounds

    def _put_back(self) -> None:
        """Clear the worklists: values are recomputed after a batch that failed."""
        for c in self._lists:
            c.clear()
