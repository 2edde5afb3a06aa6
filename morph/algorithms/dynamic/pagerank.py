"""Dynamic PageRank: within a tolerance of `morph.pagerank` after every batch of edge changes.

Kept are y and r of ``r(v) = 1 - d + d * (sum of y(u) / deg(u) over edges u -> v) - y(v)``, where
``deg`` is the out-degree.  Where r is 0, y is a multiple of PageRank, of any graph: the rank of
points without out-edges, which jumps anywhere, multiplies y by a number.  So no value depends on
the number of points, nor on what all of them hold.

- An edge u -> v that is inserted or deleted: y(u) becomes ``deg(u) * c``, where c is what u gave
  along an edge before, and r(u) what that takes from it.  Its other neighbours thus get what they
  got; r(v) grows or falls by ``d * c`` (Zhang, Lofgren, Goel, KDD 2016; Ohsaka, Maehara,
  Kawarabayashi, KDD 2015).
- A *push* of v adds r(v) to y(v), and gives ``d * r(v) / deg(v)`` to the residual of each
  out-neighbour (Andersen, Chung, Lang, FOCS 2006).  It takes ``(1 - d) |r(v)|`` or more from the
  sum of |r|.  Points are pushed, in rounds, until no residual exceeds the limit.

Error: y is off by ``R / (1 - d)`` at most, in sum, where R is the sum of |r|.  For the exact y* of
sum Y*, ``|y / Y - y* / Y*| <= 2 |y - y*| / Y`` in sum, so R may be ``tolerance * (1 - d) * Y / 2``.
The limit of a residual is in proportion to its point's edges, so that the sum stays below that.

Work: the edges of the points that are pushed.  One launch a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.dynamic.following import Maintained
from morph.algorithms.dynamic.repair import ABOVE
from morph.algorithms.graph.arguments import as_graph
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.data.versions import exclusive
from morph.graph.applied import Applied
from morph.language.arguments import check_number
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_cas, f64, i32, i64
from morph.runtime.arrays import count_true

DELETED, INSERTED = Applied.DELETED, Applied.INSERTED
ROUNDING = 2.0**-50  # of a value: residuals below that are rounding
PUSHES = 64  # a point, after which all is recomputed, so that rounding errors cannot add up
PART = 0.4  # of what residuals may be in sum, when all is recomputed: as much again is for pushes
SLACK = 1.25  # limits of residuals may be for a sum of values that is larger by this factor
GAIN = 2.0**20  # units of a gain are as many a 1: sums of integers do not slow each other down


class Ranks(NamedTuple):
    """The values to repair, as a bundle."""

    graph: Any
    values: Any  # a row for each point: ``value``, ``residual``, ``given``, ``more``, ``queued``
    totals: Any  # ``sum`` of the values, ``off`` of the residuals; ``gain``, ``edges`` of pushes
    damping: float
    share: float  # of the sum of the values, which that of the residuals may reach
    limit: float  # of a residual, for each edge of its point


class Batch(NamedTuple):
    """A batch of changes, and the limits of its repair."""

    changes: Any  # see `Applied.rows`
    rows: int  # the number of valid rows in ``changes``
    most: int  # edges to push along; above that, recomputing all values costs less
    least: float  # sum of the values for which the limit of residuals is right


@func
def is_far(v, residual, ranks):
    edges = ranks.graph.points[v.id].out_degree + 1
    return abs(residual) > ranks.limit * edges + ROUNDING * abs(v.value)


@func
def enqueue(v, ranks, queue):
    if v.queued == 0 and atomic_cas(v.queued, 0, 1) == 0:
        atomic_add(ranks.totals.edges, ranks.graph.points[v.id].out_degree + 1)
        queue.add(v)


@func
def give(v, amount, ranks, queue):
    """Add to a residual.  The last thread sees the sum, and enqueues the point if necessary."""
    if is_far(v, atomic_add(v.residual, amount) + amount, ranks):
        enqueue(v, ranks, queue)


@func
def set_value(v, after, ranks):
    """Change a value; its gain is rounded down."""
    atomic_add(ranks.totals.gain, i64((after - v.value) * GAIN) - 1)
    v.value = after


@func
def is_edge(c):
    return c.outcome == DELETED or c.outcome == INSERTED


@kernel
def count_change(c, ranks, changed):
    u = ranks.values[c.end[0]]
    if c.outcome == INSERTED:
        atomic_add(u.more, 1)
    else:
        atomic_add(u.more, -1)
    enqueue(u, ranks, changed)


@kernel
def keep_given(v, ranks):
    """Change a value such that what its point gives along an edge stays the same."""
    now = ranks.graph.points[v.id].out_degree
    before = now - v.more
    v.more = 0
    v.queued = 0
    v.given = 0.0
    if before > 0:
        v.given = v.value / before
        if now > 0:
            kept = v.given * now
            v.residual += v.value - kept
            set_value(v, kept, ranks)
    elif now > 0:
        v.given = v.value / now


@kernel
def give_change(c, ranks, queue):
    amount = ranks.damping * ranks.values[c.end[0]].given
    if c.outcome == DELETED:
        amount = -amount
    give(ranks.values[c.end[1]], amount, ranks, queue)


@kernel
def enqueue_far(p, ranks, queue):
    v = ranks.values[p.id]
    if is_far(v, v.residual, ranks):
        enqueue(v, ranks, queue)


@kernel
def take(v, ranks):
    """Add a residual to its value; what the value rounds off stays."""
    after = v.value + v.residual
    v.queued = 0
    v.given = after - v.value
    v.residual -= v.given
    set_value(v, after, ranks)


@kernel
def push(v, ranks, queue):
    p = ranks.graph.points[v.id]
    if p.out_degree > 0:
        amount = ranks.damping * v.given / p.out_degree
        for t in p.outnbrs:
            give(ranks.values[t.id], amount, ranks, queue)


@program
def push_far(ranks, most, now, following):
    """Push until no residual is far off, along ``most`` edges.

    Returns ``ABOVE * rounds`` and the points pushed; there are too many edges if ``totals.edges``
    exceeds ``most``.
    """
    rounds, pushed = 0, 0
    while not now.empty and ranks.totals.edges <= most:
        pushed += len(now)
        rounds += 1
        foreach(now, take, ranks)
        foreach(now, push, ranks, following)
        now, following = following, now
        following.clear()
    return ABOVE * rounds + pushed


@program
def repair(ranks, batch, now, following):
    """Repair the values after a batch.

    Returns as `push_far`, or -1 minus that: the values are not as near as they must be, recompute
    them.
    """
    count, most, least = batch.rows, batch.most, batch.least
    ranks.totals.edges = 0
    foreach(batch.changes, count_change, ranks, following,
            where=lambda c: c.id < count and is_edge(c))  # fmt: skip
    foreach(following, keep_given, ranks)
    foreach(batch.changes, give_change, ranks, now,
            where=lambda c: c.id < count and is_edge(c))  # fmt: skip
    foreach(following, enqueue_far, ranks, now)
    following.clear()
    done = push_far(ranks, most, now, following)
    if ranks.totals.edges > most or ranks.totals.sum + ranks.totals.gain / GAIN < least:
        return -1 - done
    return done


@kernel
def step(p, ranks):
    """Add the residual to the value; sum both."""
    v = ranks.values[p.id]
    after = v.value + v.residual
    atomic_add(ranks.totals.off, abs(v.residual))
    atomic_add(ranks.totals.sum, after)
    v.value = after
    v.given = after / max(p.out_degree, 1)
    v.queued = 0


@kernel
def pull_residual(p, ranks):
    total = 0.0
    for t in p.innbrs:
        total += ranks.values[t.id].given
    v = ranks.values[p.id]
    v.residual = 1.0 - ranks.damping + ranks.damping * total - v.value
    if is_far(v, v.residual, ranks):
        atomic_add(ranks.totals.edges, p.out_degree + 1)


@program
def iterate(ranks, most, now, following):
    """Iterate until the residuals are small in sum, and right; returns the iterations.

    Each makes their sum smaller by the factor ``damping`` or more, until it is rounding.  When
    few residuals are left that are far off, they are pushed.
    """
    damping, share = ranks.damping, ranks.share
    rounds, before, few = 0, 0.0, most // 4
    while rounds < 2 or (damping * ranks.totals.off > share * ranks.totals.sum
                         and (rounds < 3 or ranks.totals.off < before)):  # fmt: skip
        before = ranks.totals.off
        ranks.totals.off, ranks.totals.sum = 0.0, 0.0
        ranks.totals.gain, ranks.totals.edges = 0, 0
        foreach(ranks.graph.points, step, ranks)
        foreach(ranks.graph.points, pull_residual, ranks)
        rounds += 1
        if ranks.totals.edges <= few:
            ranks.totals.edges = 0
            foreach(ranks.graph.points, enqueue_far, ranks, now)
            push_far(ranks, most, now, following)
            if ranks.totals.edges <= most:
                return rounds
            now.clear()
            following.clear()
            few //= 4
    return rounds


class DynamicPageRank(Maintained):
    """PageRank, kept within a tolerance while edges are inserted and deleted.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On one device of any kind.  It is changed by `apply`.  Parallel edges count each; weights
        are ignored.
    damping : float
        Probability of following a link, from 0 to 0.999.
    tolerance : float
        Largest error of the ranks in sum, 1e-12 or more; rounding adds some ``1e-15 / (1 -
        damping)``.

    Attributes
    ----------
    graph : Graph
    damping, tolerance : float
    share : float
        Fraction of all edges: if residuals would be pushed along more of them, all values are
        recomputed, from the old ones.  By default 0.1.

    Raises
    ------
    TypeError
        If the graph is in parts, or an argument is no number.
    ValueError
        If ``damping`` or ``tolerance`` is out of range.

    Notes
    -----
    The change of one edge reaches all points if the tolerance is far below the rank that the edge
    carries.  So repairs take less time than `morph.pagerank` where batches are small for the
    tolerance and the graph.  The ranks depend on the history of the graph and on the order in which
    threads add, but less than by the tolerance.  In an `Update`, ``affected`` is the number of
    pushes.
    """

    share = 0.1
    _rolls_back = False

    def __init__(self, graph: Any, damping: float = 0.85, tolerance: float = 1e-6) -> None:
        check_number(damping, "damping")
        check_number(tolerance, "tolerance")
        if not 0 <= damping <= 0.999:
            raise ValueError(f"damping is from 0 to 0.999, not {damping}")
        if not 1e-12 <= tolerance < 1:
            raise ValueError(f"tolerance is from 1e-12 to 1, not {tolerance}")
        self.damping, self.tolerance = float(damping), float(tolerance)
        self.graph = graph = as_graph(graph)
        self._lock = graph._lock
        self._table: Any = Table(
            "ranks", graph.device, value=f64, residual=f64, given=f64, more=i32, queued=i32
        )
        self._now, self._following = Collection(self._table), Collection(self._table)
        totals = Scalars(graph, sum=0.0, off=0.0, gain=0, edges=0)
        most = self.tolerance * (1 - self.damping) / 2
        self._ranks = Ranks(graph, self._table, totals, self.damping, PART * most, 0.0)
        self._pushes, self._sum, self._size, self._count = 0, 0.0, 0, 0
        self.refresh()

    def _live(self, name: str, less: Any = 0.0) -> Any:
        """Give a column less a number for the points there are, 0 for deleted ones."""
        points = self.graph.points
        column = self._table.columns[name].array[: len(points)]
        return self.graph.device.xp.where(points.alive, column - less, 0.0)

    @property
    @exclusive
    def rank(self) -> Any:
        """As in the result of `morph.pagerank`: of sum 1, 0 for deleted points; a copy."""
        self._follow_others()
        with self.graph.device.active():
            value = self._live("value")
            return value / value.sum() if self.graph.points.live else value

    @property
    @exclusive
    def error(self) -> float:
        """A bound on the error of the ranks in sum, from the residuals (see the module)."""
        self._follow_others()
        with self.graph.device.active():
            residual, total = self._live("residual"), float(self._live("value").sum())
            live = max(self.graph.points.live, 1)
            off = self._live("residual", residual.sum() / live)
            return float(abs(off).sum()) / ((1 - self.damping) * max(total, 1e-300))

    def _repair(self, applied: Any) -> tuple[str, int, int]:
        changes, count = applied.rows()
        points, size = self.graph.points, self._edges_and_points()
        most = self._most(size)
        if 8 * count > most or self._pushes > PUSHES * len(points):
            return self._recompute(0)
        # the limits of residuals add up to more if there are more edges
        least = PART * self._sum * (SLACK + size / max(self._size, 1))
        least += (1 - self.damping) * (self._count - points.live)  # what deleted points still have
        batch = Batch(changes, count, most, least)
        done = repair(self._ranks, batch, self._now, self._following)
        rounds, pushed = divmod(max(done, -1 - done), ABOVE)
        if done < 0:
            return self._recompute(rounds)
        self._pushes += pushed
        return "repaired", pushed, rounds

    def _edges_and_points(self) -> int:
        return int(len(self.graph.points) + self.graph.edges.live)

    def _most(self, size: int) -> int:
        """Return the edges along which residuals are pushed, before all values are recomputed."""
        return int(min(self.share * size, ABOVE // 2))

    def _recompute(self, rounds: int) -> tuple[str, int, int]:
        self._put_back()
        self._seen = -1  # until all is written
        table, graph = self._table, self.graph
        with graph.device.active():
            more = len(graph.points) - len(table)
            if more > 0:
                table.extend(more, value=1.0)
            before = table.value.array.copy()
        self._iterate()
        self._put_back()
        with graph.device.active():
            return "recomputed", count_true(before != table.value.array), rounds

    def _iterate(self) -> None:
        """Compute all values, with limits of residuals by the sum that the values then have."""
        size, live = self._edges_and_points(), self.graph.points.live
        guess = max(self._sum, (1 - self.damping) * live)
        while True:
            limit = self._ranks.share * guess / max(size, 1)
            self._ranks = self._ranks._replace(limit=limit)
            iterate(self._ranks, self._most(size), self._now, self._following)
            totals = self._ranks.totals
            self._sum = float(totals.sum) + float(totals.gain) / GAIN
            if guess <= SLACK * self._sum:
                break
            guess = self._sum
        self._pushes, self._size, self._count = 0, size, live
        self._ranks = self._ranks._replace(limit=self._ranks.share * self._sum / max(size, 1))

    def _put_back(self) -> None:
        """Clear the worklists and their marks, after repairs and pushes that were given up."""
        self._now.clear()
        self._following.clear()
        with self.graph.device.active():
            for name in ("more", "queued"):
                self._table.columns[name].array[:] = 0
