"""Edge map: apply a function to the edges out of a frontier, and collect the next frontier.

After Ligra (Shun, Blelloch, PPoPP 2013).  A step takes one of two directions.  *Push*, from a
sparse frontier: its vertices, in a worklist, update the targets of their out-edges.  *Pull*, from a
dense frontier: each vertex that may still be updated scans its in-edges for sources in the
frontier, which are marked by a byte; no worklist is built.  A step pulls if the frontier has over a
`DENSE`-th of the edges of these vertices (Beamer, Asanovic, Patterson, SC 2012): see `edge_map`.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple
from weakref import ref

from morph.data.table import Table
from morph.language.arguments import check_type
from morph.language.weak import WeakMap
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_add, i64, single, u8

DENSE = 14  # pull if the frontier has over a 14th of the edges that may be updated
SPARSE = 256  # a frontier of fewer than a 256th of all vertices always pushes,
LARGE = 1 << 24  # but none of more than LARGE / SPARSE vertices, as few may have most edges
LAST = 126  # the largest number of a dense step; then the numbering restarts
NUMBER = 127  # the bits of a mark that hold a number
AGAIN = 128  # the bit of a vertex in the frontiers of this step and of the previous one


class EdgeMap(NamedTuple):
    """The arguments of `edge_map` besides its two worklists, as a bundle made by `edge_mapping`.

    The vertices of a frontier are in a worklist, or, if a dense step found them, marked in the
    column ``marks`` with the number of the step that expands them.
    """

    graph: Any
    state: Any  # a table of one row, see `_state`
    marks: Any  # a column of the points, used only by this mapping
    update: Any  # functions, see `edge_mapping`
    assign: Any
    wanted: Any
    push: Any  # kernels: push_first or push_all, pull_first, pull_all or pull_none
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
def pull_first(p, state, marks, step, assign, args):
    source = None
    for t in p.innbrs:
        if marks[t] == step:
            source = t
            break
    if source is not None:
        if assign(source, p, args):
            marks[p] = step + u8(1)  # race: neither value is `step`
            atomic_add(state[0].points, 1)
            atomic_add(state[0].edges, p.out_degree)


@kernel
def pull_all(p, state, marks, step, assign, args):
    added, following = 0, step + u8(1)
    for t in p.innbrs:
        # race: `marks[t]` passes the test before and after it is changed in this step
        if marks[t] & u8(NUMBER) == step or marks[t] == following + u8(AGAIN):
            if assign(t, p, args):
                added = max(added, 1)
    if added > 0:
        marks[p] = following + u8(AGAIN) if marks[p] & u8(NUMBER) == step else following
        atomic_add(state[0].points, 1)
        atomic_add(state[0].edges, p.out_degree)


@kernel
def pull_none(p, state, marks, step, assign, args):
    """A placeholder if no step pulls, so that no index of in-edges is built."""


@kernel
def mark(p, state, marks, step):
    marks[p] = step  # race: duplicates write the same
    atomic_add(state[0].edges, p.out_degree)


@kernel
def unmark(p, marks):
    marks[p] = u8(0)


@kernel
def list_marked(p, into):
    into.add(p)


@program
def unmark_all(s):
    foreach(s.graph.points, unmark, s.marks)
    s.state[0].step = 0


@program
def mark_frontier(s, now):
    """Mark the vertices of a worklist with the number of the next step; count their out-edges."""
    if s.state[0].step > LAST // 2:  # to have numbers for the next dense steps
        unmark_all(s)
    step = s.state[0].step + 1
    s.state[0].edges = 0
    s.state[0].step = step
    foreach(now, mark, s.state, s.marks, u8(step))


@program
def as_list(s, now):
    """Add the vertices of a dense frontier to the worklist."""
    if now.empty:
        step = u8(s.state[0].step)
        foreach(s.graph.points, list_marked, now, where=lambda p: s.marks[p] & u8(NUMBER) == step)


@program
def edge_map(s, now, then, size, args):
    """Update the targets of the edges out of a frontier; return the size of the next frontier.

    Parameters
    ----------
    s : EdgeMap
    now : collection of points
        The frontier; empty if the previous step was dense and has marked it in ``s.marks``.
        Empty afterwards.
    then : collection of points
        Receives the next frontier if the step pushes; empty if it pulls.
    size : int
        Size of the frontier.
    args : number, object or bundle
        Passed to the functions of ``s``.
    """
    if not then.empty:  # a test takes no barrier
        then.clear()
    if s.pulls and size * SPARSE > min(len(s.graph.points), LARGE):
        left = s.state[0].left
        if not now.empty:
            mark_frontier(s, now)
            left = i64(len(s.graph.edges))
        edges, step = s.state[0].edges, s.state[0].step
        if s.once:
            left -= edges
        if edges * DENSE > left and step <= LAST:
            now.clear()
            s.state[0].left = left
            s.state[0].points = 0
            s.state[0].edges = 0
            s.state[0].step = step + 1
            foreach(s.graph.points, s.pull, s.state, s.marks, u8(step), s.assign, args,
                    where=lambda p: s.wanted(p, args))  # fmt: skip
            return s.state[0].points
    if size > 0:
        as_list(s, now)
    foreach(now, s.push, s.update, s.wanted, args, then)
    now.clear()
    return len(then)


def _state(graph: Any) -> Table:
    """Make the row in which `edge_map` describes a frontier.

    Columns: the number of the dense ``step``; the number of ``points`` in the next frontier, and of
    their out-``edges``; the number of edges (``left``) to vertices that may be updated.
    """
    table = Table("state", graph, step=i64, points=i64, edges=i64, left=i64)
    table.extend(1)
    return table


# by table of points: the columns of marks by name, each with the state of its mapping
_marked: WeakMap[Table, dict[str, tuple[ref[Table], Any]]] = WeakMap()


def _marks(points: Table, state: Table) -> Any:
    """Find the column of marks of the mapping of ``state``; else reuse or add a column."""
    owners = _marked.setdefault(points, {})
    for k in count(1):
        name = f"active_{k}" if k > 1 else "active"
        owner, column = owners.get(name, (None, None))
        if name not in points.columns:
            points.add(name, u8)
        elif owner is None or points.columns[name] is not column:
            continue  # a column of the user
        elif owner() is state:
            break
        elif owner() is None:
            getattr(points, name)[:] = 0
        else:
            continue
        owners[name] = ref(state), points.columns[name]
        break
    return getattr(points, name)


def edge_mapping(
    graph: Any, update: Any, wanted: Any, *, assign: Any = None, once: bool = False,
    pull: bool | None = None, state: Table | None = None, marks: Any = None,
) -> EdgeMap:  # fmt: skip
    """Make the bundle for `edge_map`, and a column of the points for its marks.

    The column is ``active``, or, if the points have a column of this name or another mapping of the
    graph is in use, ``active_2`` and so on.

    Parameters
    ----------
    graph : Graph
    update : func
        ``update(p, t, args)``, for the edges from a vertex ``p`` of the frontier to a vertex ``t``
        that is ``wanted``: changes ``t`` by atomics; true if ``t`` enters the next frontier (with
        ``once``: true for only one edge to ``t``).
    wanted : func
        ``wanted(t, args)``: whether an update may change ``t``.
    assign : func, optional
        Like ``update`` without atomics: in a dense step one thread processes all edges to ``t``.
    once : bool
        Whether the first update of a vertex is the only one: ``wanted`` is then false for it, so
        that a dense step stops at the first edge.  Otherwise a vertex may get several updates, and
        still enters the next frontier once.
    pull : bool, optional
        Whether steps may pull; by default if each edge is stored as two arcs.  In a directed graph
        a pull needs the index of in-edges.
    state : Table, optional
        The ``state`` of an earlier `EdgeMap`, for reuse.
    marks : column of the points, optional
        A column of `u8` with zeros, or the ``marks`` of that `EdgeMap`, instead of a new column.
    """
    check_type(graph, "graph", "Graph", "PartitionedGraph")
    state = _state(graph) if state is None else state
    marks = _marks(graph.points, state) if marks is None else marks
    if pull is None:
        pull = not graph.directed
    kernels = (push_first, pull_first) if once else (push_all, pull_all)
    kernels = kernels if pull else (kernels[0], pull_none)
    return EdgeMap(graph, state, marks, update, assign or update, wanted, *kernels, pull, once)
