"""Incremental repair of distances, levels or component labels after a batch of edge changes.

Every vertex v has a value: the least of ``start(v)`` and of ``value(u) + cost(e)`` over the edges e
from u to v.  Distances, BFS levels and labels of components are such values (fixed points of a
monotone relaxation).  The u that gives the value is the predecessor of v; the predecessors form a
forest.  After a batch of changes

- *invalidate*: vertices whose tree edge was deleted or became heavier are invalidated, and then
  their subtrees, found through the out-edges of invalidated vertices;
- *recompute*: an invalidated vertex takes the least value that its in-neighbours give;
- *relax*: vertices with a lower value, from there or by a new or cheaper edge, relax their
  out-edges, in the order of values (near-far, as in `sssp`);
- *set parents*: vertices that changed find a predecessor, first among in-neighbours of lesser
  value, then, along edges of cost 0, among those of equal value that have a predecessor: so no
  cycle arises.

The method is that of Ramalingam and Reps (J. Algorithms 1996), with a shortest-path tree as in
Frigioni et al. (J. Algorithms 2000).  Work: the edges of the vertices that change or are below an
invalidated tree edge, independent of the size of the graph.  One launch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.graph.applied import Applied
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.bucket_queue import Visit, run_in_order, run_until_empty
from morph.prelude import atomic_add, atomic_cas, atomic_exch, atomic_min, i32, i64

DELETED, UPDATED, INSERTED = Applied.DELETED, Applied.UPDATED, Applied.INSERTED
ABOVE = 2**32  # result = ABOVE * (4 * rounds + overflow) + entries of the log
# Result of a repair, in the launch of a batch or in one behind it, if the batch was refused, still
# lacks memory, or (without `Batch.partial`) was applied only in part.
NOT_APPLIED = Applied.NOT_APPLIED
REPEATED = Applied.REPEATED
NONE = 2**31 - 1  # the predecessor of a vertex whose parent is not set yet


class Problem(NamedTuple):
    """The values to repair and how edges change them, as a bundle."""

    graph: Any
    tree: Any  # a row for each point: ``value``, ``predecessor``, ``old_value``
    cost: Any  # func: the cost of an edge
    start: Any  # func: the value of a vertex without in-edges
    infinity: Any  # the value of unreachable vertices
    most: Any  # the largest finite value
    log: Any  # changed vertices, with their predecessor before the batch
    pause_at: int  # entries of the log after which `repair` returns, to be resumed
    orphans: Any  # vertices with no possible parent of lesser value
    state: Any  # one row: the state of the queue, and of the batch
    overflowed: Any  # flag: a sum overflowed or exceeded `most`


class Batch(NamedTuple):
    """A batch of changes, and the limits of its repair."""

    changes: Any  # see `Applied.rows`
    report: Any  # of `updates.in_place.change`, which applies the batch; read if ``stamp`` >= 0
    rows: int  # the number of valid rows in ``changes``
    phase: int  # 0, or the phase that the previous call returned
    recompute_at: int  # entries of the log after which recomputing all values costs less
    number: int  # of the batch; written to ``state`` when its repair begins
    stamp: int  # of the batch, compared with the report; -1: the batch is known to be applied
    # also repair if changes were skipped that repeat an edge, or name none (-REPEATED)
    partial: bool
    invalidates: bool  # whether edges are deleted or have new weights
    relaxes: bool  # whether edges are inserted or have new weights
    # the bucket for the ends of these edges: `near`, which takes fewer steps, if they are few
    bucket: Any


@kernel
def invalidate_end(c, problem, now):
    """Invalidate the end of a tree edge that was deleted or became heavier."""
    u, v = problem.tree[c.end[0]], problem.tree[c.end[1]]
    dearer = True
    if c.outcome == UPDATED:
        dearer = problem.cost(problem.graph.edges[c.edge]) > problem.cost(c)
    if dearer and v.predecessor == u.id and u.value + problem.cost(c) == v.value:
        if atomic_cas(v.predecessor, u.id, NONE) == u.id:
            now.add(v)
            problem.log.add(v, predecessor=u.id, value=v.value)


@kernel
def invalidate_children(v, problem, following, recompute_at):
    if problem.state[0].invalid > recompute_at:  # all values will be recomputed from scratch
        return
    p = problem.graph.points[v.id]
    v.value = problem.start(v, problem.infinity)
    atomic_add(problem.state[0].invalid, i64(1))
    for t in p.outnbrs:
        child = problem.tree[t.id]
        if child.predecessor == p.id:
            if atomic_cas(child.predecessor, p.id, NONE) == p.id:
                following.add(child)
                problem.log.add(child, predecessor=p.id, value=child.value)


@kernel
def recompute(entry, problem, far):
    """Set an invalidated vertex to the least value over its in-edges."""
    v = entry.item
    p = problem.graph.points[v.id]
    least = problem.start(v, problem.infinity)
    for t in p.innbrs:
        near = problem.tree[t.id].value
        if near <= problem.most:
            d = near + problem.cost(problem.graph.edge(p, t))
            if d > problem.most or d < near:
                problem.overflowed.set()
            else:
                least = min(least, d)
    if least < problem.infinity:
        # race: neighbours read the old or the new upper bound; `relax` lowers what is too large
        v.value = least
        far.add(v, key=least)
        atomic_min(problem.state[0].least, least)


@kernel
def relax_changed(c, problem, bucket):
    """Relax an edge that was inserted, or whose weight was set."""
    u, v = problem.tree[c.end[0]], problem.tree[c.end[1]]
    near = u.value
    if near <= problem.most:
        d = near + problem.cost(problem.graph.edges[c.edge])
        if d > problem.most or d < near:
            problem.overflowed.set()
        elif atomic_min(v.value, d) > d:
            if v.predecessor != NONE:
                before = atomic_exch(v.predecessor, NONE)
                if before != NONE:
                    problem.log.add(v, predecessor=before, value=d)
            bucket.add(v, key=d)
            atomic_min(problem.state[0].least, d)


@kernel
def relax(entry, problem, limit, near, far):
    value = entry.key
    p = problem.graph.points[entry.item.id]
    for t in p.outnbrs:
        d = value + problem.cost(problem.graph.edge(p, t))
        if d > problem.most or d < value:  # d < value: the sum overflowed
            problem.overflowed.set()
        elif atomic_min(problem.tree[t.id].value, d) > d:
            if problem.tree[t.id].predecessor != NONE:
                before = atomic_exch(problem.tree[t.id].predecessor, NONE)
                if before != NONE:
                    problem.log.add(problem.tree[t.id], predecessor=before, value=d)
            if d <= limit:
                near.add(problem.tree[t.id], key=d)
            else:
                far.add(problem.tree[t.id], key=d)


@func
def is_current(entry):
    return entry.key == entry.item.value


@program
def log_is_long(problem, near, limit):
    return len(problem.log) > problem.pause_at


@kernel
def set_parent(entry, problem):
    v = entry.item
    p = problem.graph.points[v.id]
    value = v.value
    before = i32(NONE)
    for t in p.innbrs:
        near = problem.tree[t.id].value
        if near < value and near + problem.cost(problem.graph.edge(p, t)) == value:
            before = min(before, t.id)
    entry.value = v.old_value  # for rolling back
    if value == problem.start(v, problem.infinity):
        v.predecessor = -1
    elif before < NONE:
        v.predecessor = before
    else:
        problem.orphans.add(v)


@kernel
def set_equal_parent(v, problem, now):
    p = problem.graph.points[v.id]
    value = v.value
    before = i32(NONE)
    for t in p.innbrs:
        parent = problem.tree[t.id]
        if parent.value == value and value + problem.cost(problem.graph.edge(p, t)) == value:
            if parent.predecessor != NONE:
                before = min(before, t.id)
    if before < NONE:
        # race: a neighbour that still reads NONE gets its parent in `set_children_of_equal`
        v.predecessor = before
        now.add(v)


@kernel
def set_children_of_equal(v, problem, following):
    p = problem.graph.points[v.id]
    value = v.value
    for t in p.outnbrs:
        child = problem.tree[t.id]
        if child.value == value and value + problem.cost(problem.graph.edge(p, t)) == value:
            if atomic_cas(child.predecessor, NONE, p.id) == NONE:
                following.add(child)


@program
def set_parents(problem, now, following):
    """Set the predecessors of all vertices in the log."""
    foreach(problem.log, set_parent, problem)
    while not problem.orphans.empty:
        foreach(problem.orphans, set_equal_parent, problem, now)
        problem.orphans.clear()
        run_until_empty(now, following, set_children_of_equal, problem)


@kernel
def record_value(entry):
    entry.item.old_value = entry.item.value


@program
def set_limit(problem, phase):
    """Set the first bucket's limit, unless an earlier call has begun to run the buckets."""
    if phase < 2:
        problem.state[0].limit = problem.state[0].least


@program
def repair(problem, batch, now, following, queue):
    """Repair the values after a batch.

    Returns ``ABOVE * (4 * rounds + overflow) + entries``: ``overflow`` is 1 if a sum was too large,
    ``entries`` is the length of the log.  If the log exceeds ``problem.pause_at``, returns ``-4 *
    rounds - phase`` instead: call again with that ``batch.phase`` (1 or 2) and a larger limit.  If
    the log exceeds ``batch.recompute_at``, returns ``-4 * rounds - 3``: recompute all values.
    Returns ``NOT_APPLIED`` if the report has another stamp than ``batch.stamp``, or a result other
    than 0 (with ``batch.partial``: other than 0 and ``-REPEATED``).
    """
    rounds, count, recompute_at = 0, batch.rows, batch.recompute_at
    if batch.stamp >= 0:
        if batch.report[0].stamp != batch.stamp:
            return NOT_APPLIED
        result = batch.report[0].result
        if result != 0 and not (batch.partial and result == -REPEATED):
            return NOT_APPLIED
    if batch.phase == 0:
        problem.log.clear()
        problem.state[0].ready = 0
        problem.state[0].batch = batch.number
        problem.state[0].invalid = 0
        problem.state[0].least = problem.infinity
        if batch.invalidates:
            foreach(batch.changes, invalidate_end, problem, now,
                    where=lambda c: c.id < count
                    and (c.outcome == DELETED or c.outcome == UPDATED))  # fmt: skip
    if batch.phase < 2:
        while not now.empty:
            foreach(now, invalidate_children, problem, following, recompute_at, ahead=following)
            now, following = following, now
            following.clear()
            rounds += 1
            if len(problem.log) > recompute_at or problem.state[0].invalid > recompute_at:
                return -4 * rounds - 3
            if len(problem.log) > problem.pause_at:
                return -4 * rounds - 1
        if not problem.log.empty:
            foreach(problem.log, recompute, problem, queue.far)
        if batch.relaxes:
            foreach(batch.changes, relax_changed, problem, batch.bucket,
                    where=lambda c: c.id < count and c.outcome > DELETED)  # fmt: skip
    if not problem.log.empty:  # else no value changes, and no entry waits
        set_limit(problem, batch.phase)
        steps = run_in_order(queue, Visit(relax, problem, is_current, log_is_long))
        rounds += steps
        if len(problem.log) > problem.pause_at:
            return -4 * rounds - 2
        set_parents(problem, now, following)
        problem.state[0].ready = 1
        foreach(problem.log, record_value)
    if problem.overflowed.take():
        return (4 * rounds + 1) * ABOVE + len(problem.log)
    return 4 * rounds * ABOVE + len(problem.log)
