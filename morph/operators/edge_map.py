"""Edge map: apply a function to the edges out of a frontier, and collect the next frontier.

After Ligra (Shun, Blelloch, PPoPP 2013).  A step takes one of two directions.  *Push*, from a
sparse frontier: its vertices, in a worklist, update the targets of their out-edges.  *Pull*, from a
dense frontier: each vertex that still wants an update scans its in-edges for sources in the
frontier, which are marked by a byte; no worklist is built.  A step pulls if the frontier has over a
`DENSE`-th of the edges of the vertices that want an update (Beamer, Asanovic, Patterson, SC 2012).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from morph.data.table import Table
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_add, i64, single, u8

DENSE = 14  # pull if the frontier has over a 14th of the edges that may be updated
SPARSE = 256  # a frontier of fewer than a 256th of all vertices always pushes
LAST = 126  # the largest number of a dense step; then the numbers begin again
NUMBER = 127  # the bits of a mark that hold a number
AGAIN = 128  # the bit of a vertex that is in the frontiers of this step and of the one before


class EdgeMap(NamedTuple):
    """What `edge_map` works with beside two worklists, as a bundle; `edge_mapping` makes it.

    The vertices of a frontier are in a worklist, or, if a dense step found them, marked in the
    column ``active`` with the number of the step that they are for; then the worklist is empty.
    """

    graph: Any
    state: Any  # a table of one row
    update: Any  # functions
    assign: Any
    wanted: Any
    push: Any  # kernels
    pull: Any
    pulls: bool  # whether a step may pull
    once: bool  # whether a vertex gets one update


@kernel
def push_first(p, update, wanted, args, then):
    for t in p.outnbrs:
        if wanted(t, args):
            if update(p, t, args):
                then.add(t)


@kernel
def push_all(p, update, wanted, args, then):
    for t in p.outnbrs:
        if wanted(t, args):
            if update(p, t, args):
                if single(t):
                    then.add(t)


@kernel
def pull_first(p, state, step, assign, args):
    source = None
    for t in p.innbrs:
        if t.active == step:
            source = t
            break
    if source is not None:
        if assign(source, p, args):
            p.active = step + u8(1)  # race: neither value is `step`
            atomic_add(state[0].points, 1)
            atomic_add(state[0].edges, p.out_degree)


@kernel
def pull_all(p, state, step, assign, args):
    added, following = 0, step + u8(1)
    for t in p.innbrs:
        # race: the value before and the one after pass the test alike
        if t.active & u8(NUMBER) == step or t.active == following + u8(AGAIN):
            if assign(t, p, args):
                added = max(added, 1)
    if added > 0:
        p.active = following + u8(AGAIN) if p.active & u8(NUMBER) == step else following
        atomic_add(state[0].points, 1)
        atomic_add(state[0].edges, p.out_degree)


@kernel
def pull_none(p, state, step, assign, args):
    """For graphs in which no step pulls, so that they need no index of in-edges."""


@kernel
def mark(p, state, step):
    p.active = step  # race: duplicates write the same
    atomic_add(state[0].edges, p.out_degree)


@kernel
def unmark(p):
    p.active = u8(0)


@kernel
def list_marked(p, into):
    into.add(p)


@program
def unmark_all(s):
    foreach(s.graph.points, unmark)
    s.state[0].step = 0


@program
def is_dense(s, now):
    """Mark the vertices of the worklist; returns whether the next step is to pull."""
    left = s.state[0].left
    if not now.empty:
        if s.state[0].step >= LAST:
            unmark_all(s)
        left = i64(len(s.graph.edges))
        s.state[0].edges = 0
        s.state[0].step = s.state[0].step + 1
        foreach(now, mark, s.state, u8(s.state[0].step))
    elif s.state[0].step >= LAST:
        return False
    if s.once:
        left -= s.state[0].edges
    s.state[0].left = left
    return s.state[0].edges * DENSE > left


@program
def as_list(s, now):
    """Put the vertices of a dense frontier into the worklist."""
    if now.empty:
        step = u8(s.state[0].step)
        foreach(s.graph.points, list_marked, now, where=lambda p: p.active & u8(NUMBER) == step)


@program
def edge_map(s, now, then, size, args):
    """Map the edges out of a frontier to the next frontier; returns the size of that.

    Parameters
    ----------
    s : EdgeMap
    now : collection of points
        The frontier; empty if the step before has left it dense.
    then : collection of points
        Receives the next frontier, or remains empty if that is dense.
    size : int
        Of the frontier.
    args : number, object or bundle
        For the functions.
    """
    then.clear()
    dense = False
    if s.pulls and size * SPARSE > len(s.graph.points):
        dense = is_dense(s, now)
    if not dense:
        if size > 0:
            as_list(s, now)
        foreach(now, s.push, s.update, s.wanted, args, then)
        return len(then)
    now.clear()
    step = s.state[0].step
    s.state[0].points = 0
    s.state[0].edges = 0
    foreach(s.graph.points, s.pull, s.state, u8(step), s.assign, args,
            where=lambda p: s.wanted(p, args))  # fmt: skip
    s.state[0].step = step + 1
    return s.state[0].points


def _state(graph: Any) -> Table:
    """Make the row with what `edge_map` knows of a frontier.

    Columns: the number of the dense ``step``, the ``points`` of the frontier that it has found, the
    out-``edges`` of that, and edges ``left`` to vertices that may still want an update.
    """
    table = Table("state", graph.device, step=i64, points=i64, edges=i64, left=i64)
    table.extend(1)
    return table


def edge_mapping(
    graph: Any, update: Any, wanted: Any, *, assign: Any = None, once: bool = False,
    pull: bool | None = None, state: Table | None = None,
) -> EdgeMap:  # fmt: skip
    """Make what `edge_map` works with, and the column ``active`` of the points.

    Parameters
    ----------
    graph : Graph
    update : func
        ``update(p, t, args)``, for the edges from a vertex ``p`` of the frontier to a vertex ``t``
        that is wanted: changes ``t`` by atomics; true if ``t`` enters the next frontier, with
        ``once`` for one edge only.
    wanted : func
        ``wanted(t, args)``: whether an update may change ``t``.
    assign : func, optional
        The same as ``update`` without atomics: in a dense step one thread has all edges to ``t``.
    once : bool
        Whether the first update of a vertex is the only one: ``wanted`` is then false for it, so
        that a dense step stops at the first edge.  Else a vertex enters the next frontier once,
        however many updates it gets.
    pull : bool, optional
        Whether steps may pull; by default if each edge is stored as two arcs.  In a directed graph
        this takes the index of in-edges.
    state : Table, optional
        That of an earlier result, to be used again.
    """
    if "active" not in graph.points.columns:
        graph.points.add("active", u8)
    elif state is None:  # marks of an earlier mapping
        graph.points.active[:] = 0
    state = _state(graph) if state is None else state
    pull = not graph.directed if pull is None else pull
    kernels = (push_first, pull_first) if once else (push_all, pull_all)
    kernels = kernels if pull else (kernels[0], pull_none)
    return EdgeMap(graph, state, update, assign or update, wanted, *kernels, pull, once)
