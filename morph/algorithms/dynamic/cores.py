"""Dynamic core numbers: exact after every batch of edge insertions and deletions.

Values l are *supported* if every vertex v has l(v) neighbours of value l(v) or more; core numbers
are the greatest supported values.  A batch has two phases, on the graph with all its changes:

- *fall*: a vertex with fewer than l(v) neighbours of value l(v) or more is lowered by 1, until
  there is none: the values are then the greatest supported ones below the old ones (the local
  algorithm of Montresor, De Pellegrini, Miorandi, IEEE TPDS 2013).  It begins at the ends of
  deleted edges.
- *rise*, in rounds that raise values by 1 or not at all: candidates are reached from the sources
  of the round along vertices of equal value c that have more than c neighbours of value c or more
  (Sariyuce et al., PVLDB 2013); candidates that c + 1 would not support are then peeled off, and
  the others rise.  Sources are the lower ends of inserted edges, then the vertices that rose in
  the round before.

The values stay supported, so they are core numbers at most.  Suppose that some vertex ends below
its core number, take such vertices of the least value c, and of those whose core number exceeds c a
component C.  When a vertex of C rose to c, or a neighbour of C from c to c + 1, or, if neither
happened, when an inserted edge or a fall met C, for the last time, then in the next round (of a
neighbour: the same) all of C was reached and c + 1 supported it: so it rose, a contradiction.
Without any of these C would have been in the (c + 1)-core before the batch.

Work: the edges at the candidates and at the vertices that fall.  One launch a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.dynamic.following import Maintained
from morph.algorithms.dynamic.repair import ABOVE
from morph.algorithms.graph.arguments import as_graph
from morph.algorithms.graph.cores import core_number
from morph.data.collection import Collection
from morph.data.table import Table
from morph.data.versions import exclusive
from morph.graph.applied import Applied
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_cas, atomic_sub, i32
from morph.runtime.arrays import count_true

DELETED, INSERTED = Applied.DELETED, Applied.INSERTED


class Cores(NamedTuple):
    """The values to repair, and worklists, as a bundle."""

    graph: Any
    values: Any  # a row for each point: ``core``, ``support``, ``queued``
    visited: Any  # the candidates of a round
    falling: Any
    then: Any  # those that fall next


class Batch(NamedTuple):
    """A batch of changes, and the limit of its repair."""

    changes: Any  # see `Applied.rows`
    rows: int  # the number of valid rows in ``changes``
    most: int  # vertices that may be counted; above that, recomputing all values costs less


@func
def enqueue(v, queue):
    if v.queued == 0 and atomic_cas(v.queued, 0, 1) == 0:
        queue.add(v)


@kernel
def change(c, values, queue):
    """Enqueue the ends of a changed edge whose value it may support: the lower one, or both."""
    u, v = values[c.end[0]], values[c.end[1]]
    if u.core <= v.core:
        enqueue(u, queue)
    if v.core <= u.core:
        enqueue(v, queue)


@kernel
def count_support(v, cores):
    level, support = v.core, i32(0)
    for t in cores.graph.points[v.id].nbrs:
        if t.id != v.id and cores.values[t.id].core >= level:
            support += 1
    v.support = support


@kernel
def lower(v, cores, queue):
    """Lower an unsupported vertex; it and those that it supported are counted again."""
    level = v.core
    # race: a neighbour that falls in this step is counted again anyway
    v.core = level - 1
    enqueue(v, queue)
    for t in cores.graph.points[v.id].nbrs:
        # race: as above
        if cores.values[t.id].core == level:
            enqueue(cores.values[t.id], queue)


@kernel
def dequeue(v):
    v.queued = 0


@program
def fall(cores, now, following, most):
    """Lower values until all are supported; returns ``ABOVE * rounds`` and the vertices counted."""
    rounds, work = 0, 0
    while not now.empty and work <= most:
        work += len(now)
        rounds += 1
        foreach(now, count_support, cores)
        foreach(now, dequeue)
        foreach(now, lower, cores, following, where=lambda v: v.support < v.core)
        now, following = following, now
        following.clear()
    return ABOVE * rounds + work


@kernel
def reach(v, cores, queue):
    """Visit a candidate; if it may rise, enqueue its neighbours of equal value."""
    level = v.core
    cores.visited.add(v)
    if v.support <= level:
        cores.falling.add(v)
    else:
        for t in cores.graph.points[v.id].nbrs:
            if cores.values[t.id].core == level:
                enqueue(cores.values[t.id], queue)


@kernel
def peel_candidate(v, cores, then):
    """Take the support of a candidate that cannot rise from its neighbours of equal value."""
    level = v.core
    for t in cores.graph.points[v.id].nbrs:
        near = cores.values[t.id]
        if t.id != v.id and near.core == level and near.queued == 1:
            if atomic_sub(near.support, 1) == level + 1:
                then.add(near)


@kernel
def rise(v, queue):
    v.queued = 0
    if v.support > v.core:
        v.core += 1
        v.queued = 1
        queue.add(v)


@program
def find_candidates(cores, now, following, most):
    """Visit the candidates of a round; returns as `fall`."""
    rounds, work = 0, 0
    while not now.empty and work <= most:
        work += len(now)
        rounds += 1
        foreach(now, count_support, cores)
        foreach(now, reach, cores, following)
        now, following = following, now
        following.clear()
    return ABOVE * rounds + work


@program
def peel_candidates(cores, falling, then):
    rounds = 0
    while not falling.empty:
        foreach(falling, peel_candidate, cores, then)
        falling, then = then, falling
        then.clear()
        rounds += 1
    return rounds


@program
def repair(cores, batch, now, following):
    """Repair the values after a batch.

    Returns ``ABOVE * rounds`` and the vertices counted.  If these are more than ``batch.most``, the
    values are not right: recompute them.
    """
    count, most = batch.rows, batch.most
    foreach(batch.changes, change, cores.values, now,
            where=lambda c: c.id < count and c.outcome == DELETED)  # fmt: skip
    done = fall(cores, now, following, most)
    if done % ABOVE > most:
        return done
    now.clear()
    following.clear()
    foreach(batch.changes, change, cores.values, now,
            where=lambda c: c.id < count and c.outcome == INSERTED)  # fmt: skip
    while not now.empty:
        cores.visited.clear()
        cores.falling.clear()
        cores.then.clear()
        found = find_candidates(cores, now, following, most - done % ABOVE)
        done += found
        if done % ABOVE > most:
            return done
        rounds = peel_candidates(cores, cores.falling, cores.then)
        done += ABOVE * rounds
        now.clear()
        following.clear()
        foreach(cores.visited, rise, now)
    return done


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
        Fraction of all points: if more are counted, all values are recomputed.  By default 0.2.

    Raises
    ------
    TypeError
        If the graph is in parts.

    Notes
    -----
    In an `Update`, ``affected`` are the points whose neighbours were counted, as often as they
    were; an inserted edge may make candidates of all points of one core number.
    """

    share = 0.2
    _rolls_back = False

    def __init__(self, graph: Any) -> None:
        self.graph = graph = as_graph(graph)
        self._lock = graph._lock
        self._table: Any = Table("cores", graph.device, core=i32, support=i32, queued=i32)
        lists = [Collection(self._table) for _ in range(5)]
        self._now, self._following, *more = lists
        self._cores = Cores(graph, self._table, *more)
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
        most = int(self.share * len(self._table))
        if count > 8 * most:
            return self._recompute(0)
        rounds, work = divmod(
            repair(self._cores, Batch(changes, count, most), self._now, self._following), ABOVE
        )
        if work > most:
            return self._recompute(rounds)
        self._put_back()
        return "repaired", work, rounds

    def _recompute(self, rounds: int) -> tuple[str, int, int]:
        self._put_back()
        self._seen = -1  # until all is written
        table, graph = self._table, self.graph
        found = core_number(graph).core
        with graph.device.active():
            more = len(found) - len(table)
            if more > 0:
                table.extend(more)
            found = graph.device.xp.maximum(found, 0)  # deleted points have no neighbours
            core = table.core.array[: len(found)]  # `Graph.compact` leaves more rows
            affected = count_true(core != found)
            core[:] = found
            table.queued.array[:] = 0
        return "recomputed", affected, rounds

    def _put_back(self) -> None:
        """Clear the worklists: values are recomputed after a batch that failed."""
        for c in (self._now, self._following, *self._cores[2:]):
            c.clear()
