"""Monotone repair: the least values of a graph brought up to date after some of its edges changed.

Of every point v a value is kept that is the least of ``start(v)`` and ``value(u) + cost(e)`` over
the edges e from u to v, and the u that gave it, its predecessor: distances, levels, and labels of
components are such values.  The predecessors form a tree.  After a batch of changes

- *cut*: who hangs on an edge that is gone, or costs more, is undone, and *walk*: so is all that
  hangs below, found through the out-edges of what is undone;
- *pull*: what is undone takes the best that its other in-neighbours offer;
- *push*: whoever got a lower value, there or by a new or cheaper edge, offers it to its
  out-neighbours, in the order of values (near-far, as in `sssp`);
- *attach*: who changed finds its predecessor anew, first among those of lesser value, then,
  where edges cost nothing, among those of equal value that hang already: so no circle arises.

The pattern is Ramalingam and Reps' (J. Algorithms 1996), by trees as Frigioni et al. have it (J.
Algorithms 2000).  Work: the points that change or hang below a cut, and their edges; nothing is
proportional to the graph.  One launch.
"""

from __future__ import annotations

from morph.graph.applied import Applied
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_add, atomic_cas, atomic_exch, atomic_min, i32, i64

GONE, NAMED, INSERTED = Applied.GONE, Applied.NAMED, Applied.INSERTED
ABOVE = 2**32  # what is told beside the length of a list is a multiple of it
NONE = 2**31 - 1  # the predecessor of a point that has changed, until it is attached


@kernel
def cut(c, g, tree, cost, now, log):
    u, v = tree[c.end[0]], tree[c.end[1]]
    dearer = True
    if c.fate == NAMED:
        dearer = cost(g.edges[c.edge]) > cost(c)
    if dearer and v.predecessor == u.id and u.value + cost(c) == v.value:
        if atomic_cas(v.predecessor, u.id, NONE) == u.id:
            now.add(v)
            log.add(v, predecessor=u.id, value=v.value)


@kernel
def walk(v, g, tree, start, far, then, log, cell, enough):
    if cell[0].walked > enough:  # all of these are in the log, so all is computed anew
        return
    p = g.points[v.id]
    v.value = start(v, far)
    atomic_add(cell[0].walked, i64(1))
    for t in p.outnbrs:
        child = tree[t.id]
        if child.predecessor == p.id:
            if atomic_cas(child.predecessor, p.id, NONE) == p.id:
                then.add(child)
                log.add(child, predecessor=p.id, value=child.value)


@kernel
def pull(entry, g, tree, cost, start, far, most, later, cell, lost):
    v = entry.item
    p = g.points[v.id]
    least = start(v, far)
    for t in p.innbrs:
        near = tree[t.id].value
        if near <= most:
            d = near + cost(g.edge(p, t))
            if d > most or d < near:
                lost.set()
            else:
                least = min(least, d)
    if least < far:
        # race: before it and after a neighbour reads a bound of v; `push` lowers what is too large
        v.value = least
        later.add(v, value=least)
        atomic_min(cell[0].least, least)


@kernel
def offer(c, g, tree, cost, most, later, log, cell, lost):
    u, v = tree[c.end[0]], tree[c.end[1]]
    near = u.value
    if near <= most:
        d = near + cost(g.edges[c.edge])
        if d > most or d < near:
            lost.set()
        elif atomic_min(v.value, d) > d:
            if v.predecessor != NONE:
                before = atomic_exch(v.predecessor, NONE)
                if before != NONE:
                    log.add(v, predecessor=before, value=d)
            later.add(v, value=d)
            atomic_min(cell[0].least, d)


@kernel
def split(entry, limit, near, rest, cell):
    if entry.value <= limit:
        near.add(entry.item, value=entry.value)
    else:
        rest.add(entry.item, value=entry.value)
        atomic_min(cell[0].least, entry.value)


@kernel
def push(entry, g, tree, cost, limit, most, then, later, log, lost):
    near = entry.value
    p = g.points[entry.item.id]
    for t in p.outnbrs:
        d = near + cost(g.edge(p, t))
        if d > most or d < near:  # what wraps around is beyond all limits
            lost.set()
        elif atomic_min(tree[t.id].value, d) > d:
            if tree[t.id].predecessor != NONE:
                before = atomic_exch(tree[t.id].predecessor, NONE)
                if before != NONE:
                    log.add(tree[t.id], predecessor=before, value=d)
            if d <= limit:
                then.add(tree[t.id], value=d)
            else:
                later.add(tree[t.id], value=d)


@kernel
def attach(entry, g, tree, cost, start, far, loose):
    v = entry.item
    p = g.points[v.id]
    value = v.value
    before = i32(NONE)
    for t in p.innbrs:
        near = tree[t.id].value
        if near < value and near + cost(g.edge(p, t)) == value:
            before = min(before, t.id)
    entry.value = v.kept  # to be put back from
    if value == start(v, far):
        v.predecessor = -1
    elif before < NONE:
        v.predecessor = before
    else:
        loose.add(v)


@kernel
def attach_equal(v, g, tree, cost, now):
    p = g.points[v.id]
    value = v.value
    before = i32(NONE)
    for t in p.innbrs:
        if tree[t.id].value == value and value + cost(g.edge(p, t)) == value:
            if tree[t.id].predecessor != NONE:
                before = min(before, t.id)
    if before < NONE:
        v.predecessor = before  # race: who reads NONE still is reached from v by `attach_on`
        now.add(v)


@kernel
def attach_on(v, g, tree, cost, then):
    p = g.points[v.id]
    value = v.value
    for t in p.outnbrs:
        if tree[t.id].value == value and value + cost(g.edge(p, t)) == value:
            if atomic_cas(tree[t.id].predecessor, NONE, p.id) == NONE:
                then.add(tree[t.id])


@kernel
def keep(entry):
    entry.item.kept = entry.item.value


@program
def repair(g, tree, changes, count, now, then, near, following, later, rest, log, loose, cell, lost,
           cost, start, far, most, delta, stage, patience, enough, batch):  # fmt: skip
    """Give 4 * rounds, and 1 more if a sum was too large; times 2^32; and the entries of the log.

    Or, below 0, -4 * rounds, less 1 or 2: what stage to begin with when called again, with more
    patience (log entries); less 3 if these are more than ``enough``, and it cannot go on.
    """
    rounds = 0
    if stage == 0:
        log.clear()
        cell[0].ready = 0
        cell[0].batch = batch
        cell[0].walked = 0
        foreach(changes, cut, g, tree, cost, now, log,
                where=lambda c: c.id < count and (c.fate == GONE or c.fate == NAMED))  # fmt: skip
    if stage < 2:
        while not now.empty:
            foreach(now, walk, g, tree, start, far, then, log, cell, enough, ahead=then)
            now, then = then, now
            then.clear()
            rounds += 1
            if len(log) > enough or cell[0].walked > enough:
                return -4 * rounds - 3
            if len(log) > patience:
                return -4 * rounds - 1
        cell[0].least = far
        foreach(log, pull, g, tree, cost, start, far, most, later, cell, lost)
        foreach(changes, offer, g, tree, cost, most, later, log, cell, lost,
                where=lambda c: c.id < count and c.fate > GONE)  # fmt: skip
        cell[0].limit = cell[0].least
    limit = cell[0].limit
    while not (near.empty and later.empty):
        if near.empty:
            limit = max(limit, min(limit, most - delta) + delta)
            cell[0].least = most
            foreach(later, split, limit, near, rest, cell,
                    where=lambda entry: entry.value == entry.item.value)  # fmt: skip
            later, rest = rest, later
            rest.clear()
            if near.empty:
                limit = cell[0].least
        while not near.empty:
            foreach(near, push, g, tree, cost, limit, most, following, later, log, lost,
                    ahead=following,
                    where=lambda entry: entry.value == entry.item.value)  # fmt: skip
            near, following = following, near
            following.clear()
            rounds += 1
            if len(log) > patience:
                cell[0].limit = limit
                return -4 * rounds - 2
    foreach(log, attach, g, tree, cost, start, far, loose)
    while not loose.empty:
        foreach(loose, attach_equal, g, tree, cost, now)
        loose.clear()
        while not now.empty:
            foreach(now, attach_on, g, tree, cost, then, ahead=then)
            now, then = then, now
            then.clear()
    cell[0].ready = 1
    foreach(log, keep)
    if lost.take():
        return (4 * rounds + 1) * ABOVE + len(log)
    return 4 * rounds * ABOVE + len(log)


@program
def hang(g, tree, log, now, then, loose, cost, start, far):
    """Find the predecessors of all that is in the log."""
    foreach(log, attach, g, tree, cost, start, far, loose)
    while not loose.empty:
        foreach(loose, attach_equal, g, tree, cost, now)
        loose.clear()
        while not now.empty:
            foreach(now, attach_on, g, tree, cost, then, ahead=then)
            now, then = then, now
            then.clear()
