"""Dynamic PageRank: within a tolerance of `morph.pagerank` after every batch of edge changes.

Kept are y and r of ``r(v) = b + d * (sum of y(u) / deg(u) over edges u -> v) - y(v)``, where d is
the damping, ``deg`` the out-degree, and b any positive number, the same for all points.  Where r is
0, y is a multiple of PageRank, of any graph: the rank of points without out-edges, which jumps
anywhere, multiplies y by a number.  So no value depends on the number of points, nor on what all of
them hold.

- An edge u -> v that is inserted or deleted: y(u) becomes ``deg(u) * c``, where c is what u gave
  along an edge before, and r(u) what that takes from it.  Its other neighbours thus get what they
  got; r(v) grows or falls by ``d * c`` (Zhang, Lofgren, Goel, KDD 2016; Ohsaka, Maehara,
  Kawarabayashi, KDD 2015).
- A *push* of v adds r(v) to y(v), and gives ``d * r(v) / deg(v)`` to the residual of each
  out-neighbour (Andersen, Chung, Lang, FOCS 2006).  It takes ``(1 - d) |r(v)|`` or more from the
  sum of |r|.
- A *shift* adds a number to b, and so to every residual.  It makes their sum 0: otherwise the sum
  falls by the factor d only with each push of all points, however well the graph mixes.

Error: with residuals of sum 0, i.e. less their mean, the ranks ``y / sum(y)`` are off by ``sum |r -
mean| / ((1 - d) * sum(y))`` at most, in sum.  That is at most ``(sum |r| + |sum r|) / ((1 - d) *
sum(y))``, and these three sums are kept up to date by every change of y and r.

A batch pushes from its changes on (`push_near`), those points first that have the most to give for
an edge (Gauss-Southwell), as long as that lowers the sum faster than iterations over all points.
If that does not suffice, `improve_all` measures all residuals, and lists the points with large ones
if they are few, pushes them in the order of their ids, or iterates: as in `morph.pagerank`, from
in-edges, with the b for which the residuals have sum 0.  One launch a batch.
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
from morph.prelude import atomic_add, atomic_cas, atomic_exch, f64, i32
from morph.runtime.arrays import count_true
from morph.runtime.threads import get_num_threads

DELETED, INSERTED = Applied.DELETED, Applied.INSERTED
ROUNDING = 2.0**-50  # of a value: residuals below that are rounding
PUSHES = 64  # a point, after which all is recomputed, so that rounding errors cannot add up
LEAST = 0.4  # of what residuals may be in sum: an even share is too small to be pushed from a list
LOW = 0.5  # of what residuals may be in sum: the aim of pushes after a search in all points
GAIN = 0.7  # factor by which pushes from a list along `share` of the edges must lower the sum
FALL = 16.0  # by so much iterations lower the sum before few points with large ones are searched
LEVEL = 1.0  # of the mean residual for an edge: points with less are not pushed
EVEN = 1.5  # a shift is worth it if the sum of the residuals is above that of |r| over this
FEW = 16  # points that have less than one in so many edges are pushed from a list
DEAR, DEAR_LOCKED = 8.0, 16.0  # time of a push along an edge, in that of a pull; with CPU threads
POINT = 8  # edges along which pushes take as long as the choice of a point
ROUND, ROUND_GPU = 64.0, 2.0**18  # edges along which pushes take as long as a step
UNKNOWN = 1e300  # a sum, until it is computed
SLOW = 0.9  # after a round that lowers the sum by less than this factor all residuals are computed


class Ranks(NamedTuple):
    """The values to repair, as a bundle."""

    graph: Any
    values: Any  # a row for each point: ``value``, ``residual``, ``given``, ``more``, ``queued``
    totals: Any  # see `TOTALS`
    damping: float
    most: float  # of the sum of the values, which that of the residuals may reach
    share: float  # see `DynamicPageRank`
    dear: float  # time of a push along an edge, in that of a pull
    round_edges: float  # edges along which residuals are pushed in the time of a step


TOTALS = {
    "base": 0.0,  # b
    "sum": 0.0,  # of the values
    "net": 0.0,  # of the residuals
    "off": 0.0,  # of their absolute values
    "part": 0.0,  # of those of points in a list, or of the residuals less their mean
    "edges": 0,  # of points with large residuals, and one more for each point
    "picked": 0,  # of those to be pushed next, or of points with large residuals less the mean
    "pushed": 0,  # points
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
def is_large(v, residual, limit, edges):
    return abs(residual) > limit * edges + ROUNDING * abs(v.value)


@func
def enqueue(v, queue):
    if v.queued == 0 and atomic_cas(v.queued, 0, 1) == 0:
        queue.add(v)


@func
def change_residual(v, amount, ranks):
    """Add to a residual, and to the sum of the absolute ones what that changes."""
    before = atomic_add(v.residual, amount)
    atomic_add(ranks.totals.off, abs(before + amount) - abs(before))


@func
def take(v, degree, ranks):
    """Add a residual to its value; returns what a push gives to each out-neighbour.

    What the value rounds off stays in the residual.
    """
    before = atomic_exch(v.residual, 0.0)
    after = v.value + before
    taken = after - v.value
    v.value = after
    atomic_add(ranks.totals.off, -abs(before))
    if taken != before:
        change_residual(v, before - taken, ranks)
    atomic_add(ranks.totals.sum, taken)
    atomic_add(ranks.totals.pushed, 1)
    if degree > 0:
        atomic_add(ranks.totals.net, (ranks.damping - 1.0) * taken)
    else:
        atomic_add(ranks.totals.net, -taken)
    return ranks.damping * taken / max(degree, 1)


# --- changes of edges ----------------------------------------------------------------------------


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
    enqueue(u, changed)


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
            fallen = v.value - kept
            v.value = kept
            change_residual(v, fallen, ranks)
            atomic_add(ranks.totals.sum, -fallen)
            atomic_add(ranks.totals.net, fallen)
    elif now > 0:
        v.given = v.value / now


@kernel
def give_change(c, ranks, now):
    amount = ranks.damping * ranks.values[c.end[0]].given
    if c.outcome == DELETED:
        amount = -amount
    v = ranks.values[c.end[1]]
    change_residual(v, amount, ranks)
    atomic_add(ranks.totals.net, amount)
    enqueue(v, now)


@kernel
def enqueue_again(v, now):
    enqueue(v, now)


# --- pushes from a list --------------------------------------------------------------------------


@kernel
def choose(v, ranks, least, level, parked, chosen):
    """Choose a point to be pushed now, when the level has fallen, or not at all."""
    edges = ranks.graph.points[v.id].out_degree + 1
    v.queued = 0
    if is_large(v, v.residual, least, edges):
        if abs(v.residual) > level * edges:
            atomic_add(ranks.totals.picked, edges)
            chosen.add(v)
        else:
            v.queued = 1
            atomic_add(ranks.totals.part, abs(v.residual))
            atomic_add(ranks.totals.edges, edges)
            parked.add(v)


@kernel
def push(v, ranks, later):
    p = ranks.graph.points[v.id]
    amount = take(v, p.out_degree, ranks)
    for t in p.outnbrs:
        x = ranks.values[t.id]
        before = atomic_add(x.residual, amount)
        atomic_add(ranks.totals.off, abs(before + amount) - abs(before))
        if x.queued == 0 and atomic_cas(x.queued, 0, 1) == 0:
            later.add(x)


@kernel
def unmark(v):
    v.queued = 0


@program
def push_near(ranks, size, aim, now, parked, chosen):
    """Push the points of a list, and those that have large residuals then; returns the rounds.

    Ends when the residuals are small in sum, when no large ones are known, or when it takes long.
    All lists are empty then.
    """
    rounds, work, visited, edges, level = 0, 0.0, 0, 0, UNKNOWN
    least = LEAST * ranks.most * ranks.totals.sum / size.edges
    limit = ranks.share * size.edges
    before, until = ranks.totals.off, limit
    ranks.totals.part, ranks.totals.edges = 0.0, 0
    while (work <= until and ranks.totals.off + abs(ranks.totals.net)
           > aim * ranks.most * ranks.totals.sum):  # fmt: skip
        if now.empty:
            if parked.empty:
                break
            now, parked = parked, now
            level = min(level / 2, ranks.totals.part / max(ranks.totals.edges, 1))
            level = max(level, least)
            ranks.totals.part, ranks.totals.edges = 0.0, 0
        ranks.totals.picked, visited = 0, len(now)
        foreach(now, choose, ranks, least, level, parked, chosen)
        now.clear()
        edges = ranks.totals.picked + POINT * visited
        work += edges + ranks.round_edges
        if edges <= limit:
            foreach(chosen, push, ranks, now)
            rounds += 1
            if work > until and ranks.totals.off <= GAIN * before:
                before, until = ranks.totals.off, work + limit
        chosen.clear()
    foreach(now, unmark)
    foreach(parked, unmark)
    now.clear()
    parked.clear()
    return rounds


# --- all points ----------------------------------------------------------------------------------


@kernel
def add_up(p, ranks):
    v = ranks.values[p.id]
    atomic_add(ranks.totals.sum, v.value)
    atomic_add(ranks.totals.net, v.residual)
    atomic_add(ranks.totals.off, abs(v.residual))


@kernel
def measure(p, ranks, mean, level):
    v = ranks.values[p.id]
    edges = p.out_degree + 1
    atomic_add(ranks.totals.off, abs(v.residual))
    atomic_add(ranks.totals.part, abs(v.residual - mean))
    atomic_add(ranks.totals.edges, edges if is_large(v, v.residual, level, edges) else 0)
    atomic_add(ranks.totals.picked, edges if is_large(v, v.residual - mean, level, edges) else 0)


@kernel
def shift(p, ranks, mean):
    ranks.values[p.id].residual -= mean


@kernel
def enqueue_large(p, ranks, level, now):
    v = ranks.values[p.id]
    if is_large(v, v.residual, level, p.out_degree + 1):
        enqueue(v, now)


@kernel
def push_large(p, ranks, level):
    """Push a point with a large residual, to which other points may give at the same time."""
    v = ranks.values[p.id]
    if is_large(v, v.residual, level, p.out_degree + 1):
        amount = take(v, p.out_degree, ranks)
        for t in p.outnbrs:
            atomic_add(ranks.values[t.id].residual, amount)


@kernel
def start(p, ranks, scale):
    """Begin with a value of which the residual is unknown."""
    v = ranks.values[p.id]
    v.value = v.value * scale
    v.residual = 0.0


@func
def write_given(p, degree, value, given, ranks):
    """Write what the point gives along an edge; ``part`` is the sum over those without edges."""
    given[p.id] = value / max(degree, 1)
    if degree == 0:
        atomic_add(ranks.totals.part, value)


@kernel
def begin(p, ranks, given):
    v = ranks.values[p.id]
    value = v.value + v.residual
    atomic_add(ranks.totals.sum, value)
    write_given(p, p.out_degree, value, given, ranks)


@kernel
def pull(p, ranks, given, after, base):
    """Compute the value plus its residual."""
    total = 0.0
    for t in p.innbrs:
        total += given[t.id]
    degree = p.out_degree
    value = base + ranks.damping * total
    atomic_add(ranks.totals.off, abs(value - given[p.id] * max(degree, 1)))
    write_given(p, degree, value, after, ranks)


@kernel
def finish(p, ranks, given, after):
    v = ranks.values[p.id]
    edges = max(p.out_degree, 1)
    v.value = given[p.id] * edges
    v.residual = after[p.id] * edges - v.value
    atomic_add(ranks.totals.sum, v.value)
    atomic_add(ranks.totals.net, v.residual)
    atomic_add(ranks.totals.off, abs(v.residual))


@program
def pull_once(ranks, size, given, after):
    """Compute all values plus their residuals, with the base for which the latter have sum 0."""
    some = (1.0 - ranks.damping) * ranks.totals.sum + ranks.damping * ranks.totals.part
    ranks.totals.base = some / size.live
    ranks.totals.part, ranks.totals.off = 0.0, 0.0
    foreach(ranks.graph.points, pull, ranks, given, after, ranks.totals.base)


@program
def finish_all(ranks, given, after):
    ranks.totals.sum, ranks.totals.net, ranks.totals.off = 0.0, 0.0, 0.0
    foreach(ranks.graph.points, finish, ranks, given, after)


@program
def pull_all(ranks, size, until):
    """Iterate until the residuals are small, or at most ``until`` in sum; returns how often.

    Ends if rounding keeps their sum from falling, too.
    """
    rounds, before, now = 0, UNKNOWN, UNKNOWN
    ranks.totals.sum, ranks.totals.part = 0.0, 0.0
    foreach(ranks.graph.points, begin, ranks, ranks.values.given)
    until = max(until, ranks.most * ranks.totals.sum)
    while True:
        pull_once(ranks, size, ranks.values.given, ranks.values.after)
        rounds += 1
        before, now = now, ranks.totals.off
        if now <= until or now >= before:
            finish_all(ranks, ranks.values.given, ranks.values.after)
            break
        pull_once(ranks, size, ranks.values.after, ranks.values.given)
        rounds += 1
        before, now = now, ranks.totals.off
        if now <= until or now >= before:
            finish_all(ranks, ranks.values.after, ranks.values.given)
            break
    return rounds


@program
def shift_all(ranks, mean):
    """Make the sum of the residuals 0."""
    foreach(ranks.graph.points, shift, ranks, mean)
    ranks.totals.base -= mean
    ranks.totals.off, ranks.totals.net = ranks.totals.part, 0.0


@program
def improve_all(ranks, size, mean, level, slow, now):
    """List the points with large residuals, push them, or compute all residuals.

    Returns how often all were computed.
    """
    edges = ranks.totals.edges
    if edges * FEW < size.edges and not slow:
        foreach(ranks.graph.points, enqueue_large, ranks, level, now)
        return 0
    even = EVEN * abs(ranks.totals.net) > ranks.totals.off
    if even:
        edges = ranks.totals.picked
    if edges * ranks.dear >= size.edges or slow:
        done = pull_all(ranks, size, ranks.totals.part / FALL)
        return done
    if even:
        shift_all(ranks, mean)
    foreach(ranks.graph.points, push_large, ranks, level)
    ranks.totals.off = 2.0 * UNKNOWN
    return 0


@program
def converge(ranks, size, now, parked, chosen):
    """Push or iterate until the residuals are small in sum.

    Returns ``ABOVE * rounds`` and the points pushed; -1 less that if all residuals were computed.
    """
    rounds, pulls, pulled, aim = 0, 0, 0, 1.0
    before, mean = -1.0, 0.0
    ranks.totals.pushed = 0
    level = 0.0
    while True:
        done = push_near(ranks, size, aim, now, parked, chosen)
        rounds += done
        if ranks.totals.off + abs(ranks.totals.net) <= aim * ranks.most * ranks.totals.sum:
            break
        mean, level = ranks.totals.net / size.live, LEVEL * before / 2 / size.edges
        if ranks.totals.off < UNKNOWN:
            level = LEVEL * ranks.totals.off / size.edges
        ranks.totals.off, ranks.totals.part = 0.0, 0.0
        ranks.totals.edges, ranks.totals.picked = 0, 0
        foreach(ranks.graph.points, measure, ranks, mean, level)
        left = ranks.totals.part
        if left <= ranks.most * ranks.totals.sum or (pulled > 0 and left >= before):
            if ranks.totals.off + abs(ranks.totals.net) > ranks.most * ranks.totals.sum:
                shift_all(ranks, mean)
            break
        slow = before >= 0 and left > SLOW * before
        pulled = improve_all(ranks, size, mean, level, slow, now)
        rounds, pulls, aim = rounds + 1 + pulled, pulls + pulled, LOW
        if pulled > 0:
            aim = 1.0
        before = left
    if pulls > 0:
        return -1 - (ABOVE * rounds + ranks.totals.pushed)
    return ABOVE * rounds + ranks.totals.pushed


@program
def repair(ranks, size, batch, now, parked, chosen):
    """Repair the values after a batch; returns as `converge`."""
    count = batch.rows
    foreach(batch.changes, count_change, ranks, parked,
            where=lambda c: c.id < count and is_edge(c))  # fmt: skip
    foreach(parked, keep_given, ranks)
    foreach(batch.changes, give_change, ranks, now,
            where=lambda c: c.id < count and is_edge(c))  # fmt: skip
    foreach(parked, enqueue_again, now)
    parked.clear()
    if batch.fewer:  # those in the list may be among them
        foreach(now, unmark)
        now.clear()
        ranks.totals.sum, ranks.totals.net, ranks.totals.off = 0.0, 0.0, 0.0
        foreach(ranks.graph.points, add_up, ranks)
    return converge(ranks, size, now, parked, chosen)


@program
def recompute(ranks, size, scale, until, now, parked, chosen):
    """Compute all values from the old ones times a factor; returns as `converge`."""
    foreach(ranks.graph.points, start, ranks, scale)
    pull_all(ranks, size, until)
    return converge(ranks, size, now, parked, chosen)


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
        Fraction of all edges: pushing near the changes stops if pushes along so many edges lower
        the sum of the residuals by less than 30 percent.  By default 0.2.

    Raises
    ------
    TypeError
        If the graph is in parts, or an argument is no number.
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
        self._table: Any = Table(
            "ranks", graph.device, pack=("value", "residual", "queued", "more"),
            value=f64, residual=f64, given=f64, after=f64, queued=i32, more=i32,
        )  # fmt: skip
        self._lists = tuple(Collection(self._table) for _ in range(3))
        totals = Scalars(graph, **TOTALS)
        most = self.tolerance * (1 - self.damping)
        self._ranks = Ranks(graph, self._table, totals, self.damping, most, self.share, 0.0, 0.0)
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
        done = repair(*self._numbers(), batch, *self._lists)
        rounds, pushed = divmod(max(done, -1 - done), ABOVE)
        self._pushes += pushed + count
        self._count = points.live
        return "repaired" if done >= 0 else "recomputed", pushed, rounds

    def _numbers(self) -> tuple[Ranks, Size]:
        """Give the bundles of the programs."""
        points, edges = self.graph.points, self.graph.edges
        on_host = self.graph.device.on_host
        ranks = self._ranks._replace(
            share=float(self.share), round_edges=ROUND if on_host else ROUND_GPU,
            dear=DEAR_LOCKED if on_host and get_num_threads() > 1 else DEAR,
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
        done = recompute(*self._numbers(), scale, until, *self._lists)
        self._pushes, self._count = 0, graph.points.live
        with graph.device.active():
            affected = count_true(before != table.value.array)
        return "recomputed", affected, max(done, -1 - done) // ABOVE

    def _put_back(self) -> None:
        """Clear the worklists and their marks, after pushes that were interrupted."""
        for c in self._lists:
            c.clear()
        with self.graph.device.active():
            for name in ("more", "queued"):
                self._table.columns[name].array[:] = 0
