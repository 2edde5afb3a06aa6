"""Dynamic PageRank: within a tolerance of `morph.pagerank` after every batch of edge changes.

Kept are values y and residuals r of the linear system ``r(v) = b + d * (sum of y(u) / deg(u) over
edges u -> v) - y(v)``, where d is the damping, ``deg`` the out-degree, and b any positive number,
the same for all points.  Where r is 0, y is a multiple of PageRank, of any graph: the rank of
dangling points (without out-edges), which jumps anywhere, multiplies y by a number.  So no value
depends on the number of points, nor on what all of them hold.

- An edge u -> v that is inserted or deleted: y(u) becomes ``deg(u) * c``, where c is the
  contribution of u along an edge before, and r(u) what that takes from it.  Its other neighbours
  thus get what they got; r(v) grows or falls by ``d * c`` (Zhang, Lofgren, Goel, KDD 2016; Ohsaka,
  Maehara, Kawarabayashi, KDD 2015).
- A *push* of v adds r(v) to y(v), and gives ``d * r(v) / deg(v)`` to the residual of each
  out-neighbour (Andersen, Chung, Lang, FOCS 2006).  It takes ``(1 - d) |r(v)|`` or more from the
  norm, the sum of |r|.
- An *iteration* pulls along the in-edges of all points, as in `morph.pagerank`, with the b for
  which the residuals have sum 0.  If the norm falls slowly, iterations of undirected graphs, whose
  eigenvalues are real and between -d and d, are accelerated (Chebyshev's semi-iterative method:
  Golub, Varga 1961).
- A *shift* adds a number to b, and so to every residual.  It makes their sum 0.

Error: with residuals of sum 0, i.e. less their mean, the ranks ``y / sum(y)`` are off by ``sum |r -
mean| / ((1 - d) * sum(y))`` at most, in sum.  That is at most ``(sum |r| + |sum r|) / ((1 - d) *
sum(y))``, and these three sums are kept up to date by every change of y and r.

A batch pushes from its changes on (`push_frontier`), first those points that have the most to give
for an edge (Gauss-Southwell), as long as that lowers the norm faster than iterations would.  If
that does not suffice, `converge` measures all residuals, and either pushes the points with large
ones, if they are few, or iterates.
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
from morph.launch.ahead import compile_ahead
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_cas, atomic_exch, f64, i32
from morph.runtime.arrays import count_true

DELETED, INSERTED = Applied.DELETED, Applied.INSERTED
ROUNDING = 2.0**-50  # of a value: residuals below that are rounding
PUSHES = 64  # a point, after which all is recomputed, so that rounding errors cannot add up
LEAST = 0.4  # of the aimed norm: an even share of that for each edge is too small to be pushed
LOW = 0.5  # of the norm that is tolerated: the aim of pushes after a search in all points
GAIN = 0.7  # factor by which pushes along `share` of the edges must lower the norm
FALL = 64.0  # by so much iterations lower the norm before few points with large ones are searched
LEVEL = 1.0  # of the mean residual for an edge: points with less are not pushed
FEW = 16  # points that have less than one in so many edges are pushed
POINT = 8  # edges along which pushes take as long as the choice of a point
ROUND, ROUND_GPU = 64.0, 2.0**18  # edges along which pushes take as long as the steps of a round
ROUNDS = 8  # of pushes from a search in all points, at least: if they are too long, iterate
UNKNOWN = 1e300  # a norm, until it is computed
SLOW = 0.9  # after pushes that lower the norm by less than this factor, iterate
FAST = 0.6  # the factor of an iteration above which iterations are accelerated
LAST = -1.0  # in place of the weight of the next iteration: there is none


class Ranks(NamedTuple):
    """The values to repair, as a bundle."""

    graph: Any
    values: Any  # a row for each point: see `DynamicPageRank._table`
    totals: Any  # see `TOTALS`
    damping: float
    tolerated: float  # norm, for a sum of values of 1
    radius: float  # bound of the eigenvalues of an iteration, if they are real, else 0
    share: float  # see `DynamicPageRank`
    round_edges: float  # edges along which pushes take as long as the steps of a round


TOTALS = {
    "base": 0.0,  # b
    "sum": 0.0,  # of the values
    "residual": 0.0,  # sum of the residuals
    "norm": 0.0,  # sum of their absolute values
    "centred": 0.0,  # the same less their mean
    "dangling": 0.0,  # sum of the values of points without out-edges
    "edges": 0,  # of points with large residuals, and one more for each point
    "active": 0,  # the same of points to be pushed next
}


class Size(NamedTuple):
    """Numbers of the graph, as a bundle."""

    live: int  # points, at least 1
    edges: int  # and one more for each point


class Batch(NamedTuple):
    """A batch of changes, as a bundle."""

    changes: Any  # see `Applied.rows`
    rows: int  # the number of valid rows in ``changes``
    fewer: bool  # whether points were deleted


@func
def is_large(v, limit, edges):
    return abs(v.residual) > limit * edges + ROUNDING * abs(v.value)


@func
def enqueue(v, queue):
    if v.queued == 0 and atomic_cas(v.queued, 0, 1) == 0:
        queue.add(v)


@func
def change_residual(v, amount, ranks):
    """Add to a residual, and to the norm what that changes."""
    before = atomic_add(v.residual, amount)
    atomic_add(ranks.totals.norm, abs(before + amount) - abs(before))


# --- changes of edges ----------------------------------------------------------------------------


@func
def is_edge(c):
    return c.outcome == DELETED or c.outcome == INSERTED


@kernel
def count_change(c, ranks, changed):
    u = ranks.values[c.end[0]]
    if c.outcome == INSERTED:
        atomic_add(u.degree_change, 1)
    else:
        atomic_add(u.degree_change, -1)
    enqueue(u, changed)


@kernel
def keep_contribution(v, ranks):
    """Change a value such that the contribution of its point along an edge stays the same."""
    now = ranks.graph.points[v.id].out_degree
    before = now - v.degree_change
    v.degree_change = 0
    v.queued = 0
    v.contribution = 0.0
    if before > 0:
        v.contribution = v.value / before
        if now > 0:
            kept = v.contribution * now
            fallen = v.value - kept
            v.value = kept
            change_residual(v, fallen, ranks)
            atomic_add(ranks.totals.sum, -fallen)
            atomic_add(ranks.totals.residual, fallen)
    elif now > 0:
        v.contribution = v.value / now


@kernel
def give_change(c, ranks, frontier):
    amount = ranks.damping * ranks.values[c.end[0]].contribution
    if c.outcome == DELETED:
        amount = -amount
    v = ranks.values[c.end[1]]
    change_residual(v, amount, ranks)
    atomic_add(ranks.totals.residual, amount)
    enqueue(v, frontier)


@kernel
def enqueue_again(v, frontier):
    enqueue(v, frontier)


@kernel
def unmark(v):
    v.queued = 0


@kernel
def add_up(p, ranks):
    v = ranks.values[p.id]
    atomic_add(ranks.totals.sum, v.value)
    atomic_add(ranks.totals.residual, v.residual)
    atomic_add(ranks.totals.norm, abs(v.residual))


@program
def change_residuals(ranks, batch, changed, frontier):
    """Change the residuals after a batch; ``frontier`` gets the points with changed ones."""
    count = batch.rows
    foreach(batch.changes, count_change, ranks, changed,
            where=lambda c: c.id < count and is_edge(c))  # fmt: skip
    foreach(changed, keep_contribution, ranks)
    foreach(batch.changes, give_change, ranks, frontier,
            where=lambda c: c.id < count and is_edge(c))  # fmt: skip
    foreach(changed, enqueue_again, frontier)
    changed.clear()
    if batch.fewer:  # those in the list may be among them
        foreach(frontier, unmark)
        frontier.clear()
        ranks.totals.sum, ranks.totals.residual, ranks.totals.norm = 0.0, 0.0, 0.0
        foreach(ranks.graph.points, add_up, ranks)


# --- pushes from a list --------------------------------------------------------------------------


@kernel
def choose(v, ranks, least, level, deferred, active):
    """Choose a point to be pushed now, when the level has fallen, or not at all."""
    edges = ranks.graph.points[v.id].out_degree + 1
    v.queued = 0
    if is_large(v, least, edges):
        if abs(v.residual) > level * edges:
            atomic_add(ranks.totals.active, edges)
            active.add(v)
        else:
            v.queued = 1
            atomic_add(ranks.totals.edges, edges)
            deferred.add(v)


@func
def take_residual(v, degree, ranks):
    """Add a residual to its value; returns what a push gives to each out-neighbour.

    What the value rounds off stays in the residual.
    """
    before = atomic_exch(v.residual, 0.0)
    after = v.value + before
    taken = after - v.value
    v.value = after
    atomic_add(ranks.totals.norm, -abs(before))
    if taken != before:
        change_residual(v, before - taken, ranks)
    atomic_add(ranks.totals.sum, taken)
    kept = ranks.damping if degree > 0 else 0.0
    atomic_add(ranks.totals.residual, (kept - 1.0) * taken)
    return ranks.damping * taken / max(degree, 1)


@kernel
def push(v, ranks, frontier):
    p = ranks.graph.points[v.id]
    amount = take_residual(v, p.out_degree, ranks)
    for t in p.outnbrs:
        x = ranks.values[t.id]
        before = atomic_add(x.residual, amount)
        atomic_add(ranks.totals.norm, abs(before + amount) - abs(before))
        if x.queued == 0 and atomic_cas(x.queued, 0, 1) == 0:
            frontier.add(x)


@program
def push_frontier(ranks, size, aim, frontier, deferred, active):
    """Push the points of a list, and those that have large residuals then.

    Ends when the norm is low, when no large residuals are known, or when it takes long.  All lists
    are empty then.  Returns ``ABOVE * rounds`` and the points pushed.
    """
    rounds, pushed, work, edges, visited = 0, 0, 0.0, 0, 0
    least, level = LEAST * ranks.tolerated * ranks.totals.sum / size.edges, UNKNOWN
    limit = ranks.share * size.edges
    before, until = ranks.totals.norm, limit
    ranks.totals.edges = 0
    going = (ranks.totals.norm + abs(ranks.totals.residual)
             > aim * ranks.tolerated * ranks.totals.sum)  # fmt: skip
    while going:
        while going and not frontier.empty:
            ranks.totals.active, visited = 0, len(frontier)
            foreach(frontier, choose, ranks, least, level, deferred, active)
            frontier.clear()
            edges = ranks.totals.active + POINT * visited
            work += edges + ranks.round_edges
            if edges <= limit:
                rounds, pushed = rounds + 1, pushed + len(active)
                foreach(active, push, ranks, frontier)
                if work > until and ranks.totals.norm <= GAIN * before:
                    before, until = ranks.totals.norm, work + limit
            active.clear()
            going = (work <= until and ranks.totals.norm + abs(ranks.totals.residual)
                     > aim * ranks.tolerated * ranks.totals.sum)  # fmt: skip
        going = going and not deferred.empty
        level = min(level / 2, ranks.totals.norm / max(ranks.totals.edges, 1))
        level = max(level, least)
        ranks.totals.edges = 0
        frontier, deferred = deferred, frontier
    foreach(frontier, unmark)
    foreach(deferred, unmark)
    frontier.clear()
    deferred.clear()
    return ABOVE * rounds + pushed


# --- iterations over all points ------------------------------------------------------------------


@func
def write_contribution(p, degree, value, to, ranks):
    """Write the contribution along an edge, and add up the values of points without edges."""
    to[p.id] = value / max(degree, 1)
    if degree == 0:
        atomic_add(ranks.totals.dangling, value)


@kernel
def apply_residual(p, ranks, current, scale):
    """Add a residual to its value, from which the iterations begin."""
    v = ranks.values[p.id]
    value = (v.value + v.residual) * scale
    atomic_add(ranks.totals.sum, value)
    write_contribution(p, p.out_degree, value, current, ranks)


@kernel
def pull(p, ranks, current, other, base, weight):
    """Compute a contribution from the current ones; ``other`` has those before, and gets it."""
    total = 0.0
    for t in p.innbrs:
        total += current[t.id]
    degree = p.out_degree
    value = base + ranks.damping * total
    atomic_add(ranks.totals.norm, abs(value - current[p.id] * max(degree, 1)))
    previous = other[p.id] * max(degree, 1)
    write_contribution(p, degree, value + (weight - 1.0) * (value - previous), other, ranks)


@kernel
def set_value(p, ranks, current, other):
    v = ranks.values[p.id]
    edges = max(p.out_degree, 1)
    v.value = current[p.id] * edges
    v.residual = other[p.id] * edges - v.value
    atomic_add(ranks.totals.sum, v.value)
    atomic_add(ranks.totals.residual, v.residual)
    atomic_add(ranks.totals.norm, abs(v.residual))


@program
def iterate_once(ranks, size, current, other, weight):
    """Iterate with the base for which the residuals have sum 0."""
    jumping = (1.0 - ranks.damping) * ranks.totals.sum + ranks.damping * ranks.totals.dangling
    ranks.totals.base = jumping / size.live
    ranks.totals.dangling, ranks.totals.norm = 0.0, 0.0
    foreach(ranks.graph.points, pull, ranks, current, other, ranks.totals.base, weight)


@program
def set_values(ranks, current, other):
    """End with the current values; those after them less these are the residuals."""
    ranks.totals.sum, ranks.totals.residual, ranks.totals.norm = 0.0, 0.0, 0.0
    foreach(ranks.graph.points, set_value, ranks, current, other)


@program
def next_weight(ranks, radius, weight, previous, norm, before, until):
    """Choose the weight of the next iteration after one with ``weight``, or `LAST`.

    ``norm`` is that of the values that the iteration before made, with the weight ``previous``.
    The last iteration has weight 1, as its values less those before are the residuals.
    """
    if norm <= until or (norm >= before and previous == 1.0):  # rounding keeps it from falling
        if weight == 1.0:
            return LAST
        return 1.0
    if norm >= before or norm * FAST <= until or (weight == 1.0 and norm <= FAST * before):
        return 1.0
    if weight == 1.0:
        return 1.0 / (1.0 - radius * radius / 2)
    return 1.0 / (1.0 - radius * radius * weight / 4)


@program
def iterate(ranks, size, current, other, scale, until):
    """Iterate from the values times ``scale``, until the norm is tolerated, or at most ``until``.

    Returns how often.
    """
    rounds, norm, before = 0, UNKNOWN, UNKNOWN
    weight, previous, following, radius = 1.0, 1.0, 1.0, ranks.radius
    ranks.totals.sum, ranks.totals.dangling = 0.0, 0.0
    foreach(ranks.graph.points, apply_residual, ranks, current, scale)
    until = max(until, ranks.tolerated * ranks.totals.sum)
    # both halves, as a swap of columns would compile most blocks of `converge` twice: 10 s, not 7
    while True:
        iterate_once(ranks, size, current, other, weight)
        rounds, before, norm = rounds + 1, norm, ranks.totals.norm
        radius = 0.0 if norm >= before else radius  # so that the norm falls, or this ends
        following = next_weight(ranks, radius, weight, previous, norm, before, until)
        if following == LAST:
            set_values(ranks, current, other)
            break
        previous, weight = weight, following
        iterate_once(ranks, size, other, current, weight)
        rounds, before, norm = rounds + 1, norm, ranks.totals.norm
        radius = 0.0 if norm >= before else radius  # so that the norm falls, or this ends
        following = next_weight(ranks, radius, weight, previous, norm, before, until)
        if following == LAST:
            set_values(ranks, other, current)
            break
        previous, weight = weight, following
    return rounds


# --- both ----------------------------------------------------------------------------------------


@kernel
def measure(p, ranks, mean, level):
    v = ranks.values[p.id]
    edges = p.out_degree + 1
    atomic_add(ranks.totals.centred, abs(v.residual - mean))
    atomic_add(ranks.totals.edges, edges if is_large(v, level, edges) else 0)


@kernel
def shift(p, ranks, mean):
    ranks.values[p.id].residual -= mean


@kernel
def enqueue_large(p, ranks, level, frontier):
    v = ranks.values[p.id]
    if is_large(v, level, p.out_degree + 1):
        enqueue(v, frontier)


@program
def converge(ranks, size, scale, until, frontier, deferred, active):
    """Push the points of a list, then iterate or push until the norm is tolerated.

    With ``until`` of 0 or more, iterate first, from the values times ``scale``, until the norm is
    that or less.
    Returns ``ABOVE * rounds`` and the points pushed; -1 less that if there were iterations.
    """
    done, iterations, pulled, aim = 0, 0, 0, 1.0
    before, level, mean = UNKNOWN, 0.0, 0.0
    iterating = until >= 0.0
    while True:
        if iterating:
            pulled = iterate(ranks, size, ranks.values.contribution,
                             ranks.values.next_contribution, scale, until)  # fmt: skip
            done, iterations, aim = done + ABOVE * pulled, iterations + pulled, 1.0
        else:
            pulled = push_frontier(ranks, size, aim, frontier, deferred, active)
            done += pulled
        if (ranks.totals.norm + abs(ranks.totals.residual)
                <= aim * ranks.tolerated * ranks.totals.sum):  # fmt: skip
            break
        mean, level = ranks.totals.residual / size.live, LEVEL * ranks.totals.norm / size.edges
        ranks.totals.centred, ranks.totals.edges = 0.0, 0
        foreach(ranks.graph.points, measure, ranks, mean, level)
        norm = ranks.totals.centred
        if norm <= ranks.tolerated * ranks.totals.sum or (iterating and norm >= before):
            if ranks.totals.norm + abs(ranks.totals.residual) > ranks.tolerated * ranks.totals.sum:
                foreach(ranks.graph.points, shift, ranks, mean)
                ranks.totals.base -= mean
                ranks.totals.norm, ranks.totals.residual = norm, 0.0
            break
        iterating = (ranks.totals.edges * FEW >= size.edges or norm > SLOW * before
                     or ROUNDS * ranks.round_edges > ranks.share * size.edges)  # fmt: skip
        scale, until, before, done, aim = 1.0, norm / FALL, norm, done + ABOVE, LOW
        if not iterating:
            foreach(ranks.graph.points, enqueue_large, ranks, level, frontier)
    if iterations > 0:
        return -1 - done
    return done


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
        Largest error of the ranks in sum, 1e-12 or more; rounding adds some ``1e-16 / (1 -
        damping)**2``.

    Attributes
    ----------
    graph : Graph
    damping, tolerance : float
    share : float
        Fraction of all edges: pushing near the changes stops if pushes along so many edges lower
        the sum of the residuals by less than 30 percent.  By default 0.2.

    Raises
    ------
    TypeError
        If the graph is partitioned, or an argument is no number.
    ValueError
        If ``damping`` or ``tolerance`` is out of range.

    Notes
    -----
    The change of one edge reaches all points if the tolerance is far below the rank that the edge
    carries.  Then a repair iterates over all points, from the old ranks, which takes fewer
    iterations than `morph.pagerank`.  The ranks depend on the history of the graph and on the order
    in which threads add, but less than by the tolerance.  In an `Update`, ``decision`` is
    "recomputed" if the ranks of all points were iterated; ``affected`` is the number of pushes, or,
    if the old ranks could not be repaired, that of the ranks that changed.
    """

    share = 0.2
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
        compile_ahead("DynamicPageRank", graph.device, graph)
        self._table: Any = Table(
            "ranks", graph.device, pack=("value", "residual", "queued", "degree_change"),
            value=f64, residual=f64, contribution=f64, next_contribution=f64, queued=i32,
            degree_change=i32,
        )  # fmt: skip
        self._lists = tuple(Collection(self._table) for _ in range(3))
        totals = Scalars(graph, **TOTALS)
        self._ranks = Ranks(
            graph, self._table, totals, self.damping, self.tolerance * (1 - self.damping),
            0.0 if graph.directed else self.damping, self.share, 0.0,
        )  # fmt: skip
        self._pushes, self._count = 0, 0
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
        points = self.graph.points
        if self._pushes > PUSHES * len(points):
            return self._recompute(0)
        batch = Batch(changes, count, self._count != points.live)
        ranks, size = self._numbers()
        change_residuals(ranks, batch, self._lists[1], self._lists[0])
        done = converge(ranks, size, 1.0, -1.0, *self._lists)
        rounds, pushed = divmod(max(done, -1 - done), ABOVE)
        self._pushes += pushed + count
        self._count = points.live
        return "repaired" if done >= 0 else "recomputed", pushed, rounds

    def _numbers(self) -> tuple[Ranks, Size]:
        """Give the bundles of the programs."""
        points, edges = self.graph.points, self.graph.edges
        on_host = self.graph.device.on_host
        ranks = self._ranks._replace(
            share=float(self.share), round_edges=ROUND if on_host else ROUND_GPU
        )  # fmt: skip
        return ranks, Size(max(points.live, 1), max(len(points) + edges.live, 1))

    def _recompute(self, rounds: int) -> tuple[str, int, int]:
        self._put_back()
        self._seen = -1  # until all is written
        table, graph = self._table, self.graph
        base = float(self._ranks.totals.base)
        with graph.device.active():
            more = len(graph.points) - len(table)
            if more > 0:
                table.extend(more, value=1.0)
            before = table.value.array.copy()
        # the first time all residuals are large: iterate to the end
        scale, until = ((1 - self.damping) / base, UNKNOWN) if base > 0 else (1.0, 0.0)
        done = converge(*self._numbers(), scale, until, *self._lists)
        self._pushes, self._count = 0, graph.points.live
        with graph.device.active():
            affected = count_true(before != table.value.array)
        return "recomputed", affected, max(done, -1 - done) // ABOVE

    def _put_back(self) -> None:
        """Clear the worklists and their marks, after pushes that were interrupted."""
        for c in self._lists:
            c.clear()
        with self.graph.device.active():
            for name in ("degree_change", "queued"):
                self._table.columns[name].array[:] = 0
