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
ROUND, ROUND_GPU = 64, 1 << 17  # edges whose scan takes as long as the steps of a round
SHARE, SHARE_GPU = 0.3, 1.0  # a GPU scans an edge in half the time that `core_number` takes for it


class Cores(NamedTuple):
    """The values to repair, and worklists, as a bundle."""

    graph: Any
    values: Any  # a row for each point: ``core``, ``support``, ``left``, ``queued``, ``fell``
    totals: Any  # ``edges``: those that the repair has scanned, and `POINT` more for each point
    visited: Any  # the candidates of a round
    falling: Any
    then: Any  # those that fall next
    both: bool  # whether each edge changes the supports of both ends: else it has an arc back
    round_edges: int  # edges whose scan takes as long as the steps of a round


class Batch(NamedTuple):
    """A batch of changes, and the limit of its repair."""

    changes: Any  # see `Applied.rows`
    rows: int  # the number of valid rows in ``changes``
    most: int  # edges, as counted in ``totals``, above which recomputing all values costs less
    step: int  # of falls, in all batches before


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
def lower(p, cores, step):
    v = cores.values[p.id]
    v.core -= 1
    v.fell = step
    v.queued = 0
    atomic_add(cores.totals.edges, p.degree + POINT)


@kernel
def remove_support(p, cores, step, following):
    """Count the support of a vertex that fell; neighbours of its old value lose it."""
    level, support = cores.values[p.id].core, i32(0)
    for t in p.nbrs:
        near = cores.values[t.id]
        if t != p and near.core >= level:
            support += 1
        if near.core == level + 1 and near.fell != step:
            if atomic_sub(near.support, 1) == level + 1:
                following.add(t)
    cores.values[p.id].support = support
    if support < level:
        following.add(p)


@program
def fall(cores, now, following, first, most):
    """Lower values until all are supported; returns ``ABOVE * rounds`` and how many fell."""
    rounds, work = 0, 0
    while not now.empty and cores.totals.edges + rounds * cores.round_edges <= most:
        rounds, work = rounds + 1, work + len(now)
        foreach(now, lower, cores, first + rounds)
        foreach(now, remove_support, cores, first + rounds, following)
        now, following = following, now
        following.clear()
    return ABOVE * rounds + work


@kernel
def reach(p, cores, queue):
    """Visit a candidate; if it may rise, enqueue its neighbours of equal value."""
    v = cores.values[p.id]
    level = v.core
    v.left = v.support
    cores.visited.add(p)
    atomic_add(cores.totals.edges, p.degree + POINT)
    if v.support <= level:
        cores.falling.add(p)
        return
    for t in p.nbrs:
        near = cores.values[t.id]
        if near.core == level and near.queued == 0:
            if atomic_cas(near.queued, 0, 1) == 0:
                queue.add(t)


@kernel
def peel_candidate(p, cores, then):
    """Take the support of a candidate that cannot rise from its neighbours of equal value."""
    level = cores.values[p.id].core
    for t in p.nbrs:
        near = cores.values[t.id]
        if t != p and near.core == level and near.queued == 1:
            if atomic_sub(near.left, 1) == level + 1:
                then.add(t)


@kernel
def rise(p, values, queue):
    v = values[p.id]
    v.queued = 0
    if v.left > v.core:
        v.core += 1
        v.queued = 1
        queue.add(p)


@kernel
def give_support(p, cores):
    """Count the support of a vertex that rose; other neighbours of its new value get it."""
    level, support = cores.values[p.id].core, i32(0)
    for t in p.nbrs:
        near = cores.values[t.id]
        if t != p and near.core >= level:
            support += 1
            if near.core == level and near.queued == 0:
                atomic_add(near.support, 1)
    cores.values[p.id].support = support


@program
def find_candidates(cores, now, following, most):
    """Visit the candidates of a round; returns ``ABOVE * rounds`` and how many there are."""
    rounds, work = 0, 0
    while not now.empty and cores.totals.edges + rounds * cores.round_edges <= most:
        rounds, work = rounds + 1, work + len(now)
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

    Returns ``ABOVE * rounds`` and the vertices that fell or were candidates; -1 less that if this
    takes long: then the values are not right, and must be recomputed.
    """
    count, most = batch.rows, batch.most
    cores.totals.edges = 0
    foreach(batch.changes, change_supports, cores, where=lambda c: c.id < count)
    foreach(batch.changes, enqueue_unsupported, cores, now,
            where=lambda c: c.id < count and c.outcome == DELETED)  # fmt: skip
    done = fall(cores, now, following, batch.step, most)
    most -= done // ABOVE * cores.round_edges
    if cores.totals.edges > most:
        return -1 - done
    foreach(batch.changes, enqueue_lower, cores, now,
            where=lambda c: c.id < count and c.outcome == INSERTED)  # fmt: skip
    while not now.empty:
        cores.visited.clear()
        cores.falling.clear()
        cores.then.clear()
        found = find_candidates(cores, now, following, most)
        done += found
        most -= found // ABOVE * cores.round_edges
        if cores.totals.edges > most:
            return -1 - done
        rounds = peel_candidates(cores, cores.falling, cores.then)
        done += ABOVE * rounds
        most -= rounds * cores.round_edges
        now.clear()
        following.clear()
        foreach(cores.visited, rise, cores.values, now)
        foreach(now, give_support, cores)
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
        Fraction of all edges: if more are scanned, all values are recomputed.  By default 0.3, on a
        GPU 1.

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
            "cores", graph.device, core=i32, support=i32, left=i32, queued=i32, fell=i64
        )
        # lists of points, whose edges threads share
        lists = [Collection(graph.points) for _ in range(5)]
        self._now, self._following, visited, falling, then = lists
        on_host = graph.device.on_host
        self.share = SHARE if on_host else SHARE_GPU
        rounds = ROUND if on_host else ROUND_GPU
        totals = Scalars(graph, edges=0)
        self._cores = Cores(
            graph, self._table, totals, visited, falling, then, graph.directed, rounds
        )
        self._steps = 0
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
        most = int(self.share * (POINT * len(self._table) + len(self.graph.edges)))
        if count > most:
            return self._recompute(0)
        batch = Batch(changes, count, most, self._steps)
        done = repair(self._cores, batch, self._now, self._following)
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
        foreach(graph.points, count_support, self._cores)
        return "recomputed", affected, rounds

    def _put_back(self) -> None:
        """Clear the worklists: values are recomputed after a batch that failed."""
        for c in (self._now, self._following, *self._cores[3:6]):
            c.clear()
