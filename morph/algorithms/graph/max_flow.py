"""Maximum flow and minimum cut, by synchronous push-relabel.

A vertex has a height, a lower bound of its distance to the target in the residual network, and an
excess, which it pushes along residual arcs to vertices one level lower (Goldberg, Tarjan 1988).  A
pulse has up to two steps: all active vertices push; then those with remaining excess are relabelled
to one more than the height of their lowest residual neighbour (after Baumstark, Blelloch, Shun, ESA
2015).  Heights are double-buffered: pushes read ``raised``, and the second step reads ``height``.
So is received flow: ``gain`` has two elements, and a pulse adds to one and pushes the other.  So
heights are constant in each step, only one of an arc and its reverse carries flow in it, and the
result depends neither on the device nor on the number of threads.

Global relabelling: a breadth-first search from the target replaces heights by exact distances when
the work since the last search reaches the work of a search.  The work is the number of arcs read to
raise heights, plus a constant per pulse, as few vertices rise in most pulses.  Vertices that do not
reach the target then have height `INFINITY`, and are not active.  The gap heuristic would find some
of them earlier, but saves few pulses.

Flow is pushed in two phases.  In the first phase the target is the sink; at its end, the vertices
that do not reach the sink are the source side of a minimum cut, the one with most vertices.  In the
second phase the target is the source, to which the remaining excess is returned.

The network has an arc for each edge, and a reverse arc unless an edge of opposite direction, such
as the other arc of an undirected edge, serves as the reverse.  Edges into the source and out of the
sink have capacity 0; other capacities are limited to 1 more than an upper bound of the flow, to
avoid overflow.  O(n^2 m) work in the worst case, in one launch.

Sums of floating-point numbers depend on their order, so flows would depend on the number of
threads, and excess might remain for ever that no arc can carry.  Real capacities are therefore
rounded down to multiples of a power of two, so small that the largest possible flow is just below
2**61 of these.  Then all is computed in integers.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges, of_graph_on_one_device, vertex_id
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.graph import Graph
from morph.graph.labels import name_of
from morph.language.dtypes import Ref, vec
from morph.language.messages import shown
from morph.launch.foreach import foreach, kernel, program
from morph.launch.sections import sections
from morph.operators.sort import argsort
from morph.prelude import atomic_add, atomic_min, bool_, i32, i64
from morph.runtime.arrays import all_true, any_true

INFINITY = 2**31 - 1
LIMIT = 2**62 - 1  # flows are smaller, so that the sum of an arc and its reverse fits int64
NETWORK = "max_flow"  # key of `Graph.kept`
FLOW_BITS = 61  # of the largest possible flow, if capacities are real
VISIT = 6  # work per vertex, in arcs
PULSE = 1000  # work per pulse, mostly of its barriers
# from level DEEP on, a frontier of at most 1 / WIDE of the vertices expands AT_ONCE levels at once
DEEP, WIDE, AT_ONCE = 16, 100, 32
FEW = 1024  # active vertices that one thread of a CPU or one block of a GPU pushes
DONE, OUTDATED, RESIZED = 0, 1, 2  # outcome of `run_pulses`: no vertex is active; see there


class Flow(NamedTuple):
    """Result of `max_flow`.

    ``value``, an int; ``flow``, shape (m,), int64, per edge; ``cut``, shape (n,), bool, the source
    side of a minimum cut.  If capacities are real, ``value`` is a float, ``flow`` float64.
    """

    value: float
    flow: Any
    cut: Any


class Pulses(NamedTuple):
    """The side of the first pulse, and the range of the number of active vertices."""

    side: int
    least: int
    most: int


@kernel
def reset_height(p, target, now):
    """Begin a search from the target: all other vertices have no height."""
    p.height = i32(INFINITY)
    p.current = 0
    if p.id == target:
        p.height = 0
        now.add(p)


@kernel
def saturate(p):
    """Push flow along all residual arcs of the source, up to their capacities."""
    for a in p.outedges:
        atomic_add(a.back.residual, a.residual)
        atomic_add(a.dst.excess, a.residual)
        a.residual = i64(0)


@kernel
def lower_heights(p, limit, then, far):
    """Lower the heights of vertices that can push to this one to one more than its height.

    They are added to ``then``, or to ``far`` if this height is the limit.
    """
    height = p.height + 1
    for a in p.outedges:
        t = a.dst
        if t.height > height and a.back.residual > 0:
            if atomic_min(t.height, height) > height:
                if height < limit:
                    then.add(t)
                else:
                    far.add(t)


@kernel
def activate(p, active):
    """End a search: add received flow to the excess; list vertices with excess and a height."""
    p.raised = p.height
    p.excess += p.gain[0] + p.gain[1]
    p.gain[0] = 0
    p.gain[1] = 0
    if p.excess > 0 and p.height > 0 and p.height < INFINITY:
        active.add(p)


@kernel
def push(p, target, side, then, kept):
    """Push excess to lower vertices, from the arc of the last push on.

    Vertices that had received nothing are added to ``then``, those with remaining excess to
    ``kept``.
    """
    x, k, lower = p.excess + p.gain[1 - side], p.current, p.raised - 1
    p.gain[1 - side] = 0
    for a in p.outedges[k:]:
        t = a.dst
        if t.raised == lower and a.residual > 0:
            moved = min(x, a.residual)
            a.residual -= moved
            a.back.residual += moved
            if atomic_add(t.gain[side], moved) == 0 and t.id != target:
                then.add(t)
            x -= moved
            if x == 0:
                break
        k += 1
    p.excess = x
    p.current = k
    if x > 0:
        kept.add(p)


@kernel
def find_height(p, side, then, state):
    """Relabel a vertex to one more than the height of its lowest residual neighbour."""
    low = i32(INFINITY - 1)
    for a in p.outedges:
        if a.residual > 0:
            low = min(low, a.dst.height)
    p.raised = low + 1
    p.current = 0
    if p.raised < INFINITY and p.gain[side] == 0:  # else `push` has listed it
        then.add(p)
    atomic_add(state.work, i64(p.out_degree) + VISIT)


@kernel
def publish_height(p):
    """Make the height of `find_height` that which the next `find_height` reads."""
    p.height = p.raised


@program
def relabel(g, target, now, then, far, active):
    """Set heights to distances to the target; list the vertices with excess that reach it."""
    foreach(g.points, reset_height, target, now)
    limit = i32(0)
    while not now.empty:
        deep = limit >= DEEP and len(now) * WIDE <= len(g.points)
        limit += i32(AT_ONCE) if deep else i32(1)
        while not now.empty:
            foreach(now, lower_heights, limit, then, far, ahead=then)
            now, then = then, now
            then.clear()
        now, far = far, now
    foreach(g.points, activate, active)


@program
def find_heights(g, start, target, active, then, kept, risen, state):
    """Begin to push towards the target; if ``start`` is a vertex, saturate its arcs before."""
    if start >= 0:
        foreach(g.points, saturate, where=lambda p: p.id == start)
    state.work = 0
    active.clear()
    risen.clear()
    relabel(g, target, then, kept, risen, active)


@program
def run_pulses(g, target, active, then, kept, risen, state, pulses):
    """Push while heights are up to date and the number of active vertices is in a range.

    Return twice `DONE`, `OUTDATED` or `RESIZED`, and 1 more if the last pulse was of side 0; then
    ``active`` and ``then`` have changed places, and ``kept`` and ``risen``.
    """
    outdated, side = False, i64(pulses.side)
    while not outdated and len(active) >= pulses.least and len(active) <= pulses.most:
        with sections():
            foreach(active, push, target, side, then, kept)
            foreach(risen, publish_height)
        active.clear()
        risen.clear()
        if not kept.empty:
            foreach(kept, find_height, side, then, state)
        active, then = then, active
        kept, risen = risen, kept
        side = 1 - side
        state.work += PULSE
        outdated = state.work > state.most
    outcome = RESIZED
    if active.empty:
        outcome = DONE
    elif outdated:
        outcome = OUTDATED
    return 2 * outcome + side


@kernel
def mark(p, unused):
    """Mark the source side; list the vertices whose excess must return to the source."""
    p.cut = p.height == INFINITY
    if p.cut and p.excess > 0:
        unused.add(p)


@program
def divide(g, sink, active, then, kept, risen):
    """Mark the cut; list the vertices with unused excess; return the value of the flow."""
    risen.clear()
    relabel(g, sink, then, kept, risen, active)
    active.clear()
    foreach(g.points, mark, active)
    value = g.points[sink].excess
    g.points[sink].excess = i64(0)
    return value


def _route(net: Graph, start: int, target: int, lists: list[Any], state: Any) -> None:
    """Push excess until no active vertex reaches the target; few active vertices by one block."""
    lists, few = list(lists), True
    side, outcome = 0, OUTDATED
    while outcome != DONE:
        if outcome == OUTDATED:
            find_heights(net, i64(start), i64(target), *lists, state)
            start = -1
        run, sizes = (run_pulses.alone, (1, FEW)) if few else (run_pulses, (FEW // 2, INFINITY))
        found = int(run(net, i64(target), *lists, state, Pulses(side, *sizes)))
        outcome = found // 2
        if side != found % 2:
            active, then, kept, risen = lists
            lists, side = [then, active, risen, kept], found % 2
        if outcome == RESIZED:
            few = not few


def find_flow(net: Graph, source: int, sink: int, lists: list[Any], state: Any) -> int:
    """Find a maximum flow and a minimum cut; return the value of the flow."""
    _route(net, source, sink, lists, state)
    value = int(divide(net, i64(sink), *lists))
    if not lists[0].empty:
        _route(net, -1, source, lists, state)
    return value


def _capacities(graph: Graph, name: str, pick: Any) -> Any:
    """Return the capacities of the edges ``pick`` (a slice, or ids), shape (k,).

    They are int64, or float64 if the column is real, and 1 if it is ``"weight"`` and the graph has
    none.

    Raises
    ------
    TypeError, ValueError
        If they are not real numbers, or one is negative or NaN.
    """
    xp, columns = graph.device.xp, graph.edges.columns
    if not isinstance(name, str):
        raise TypeError(f"capacity is the name of a column of edges, not {shown(name)}")
    if name not in columns:
        if name != "weight":
            raise ValueError(f"capacity = {shown(name)}: edges have no such column")
        return xp.ones(len(graph.edges), np.int64)[pick]
    kind = columns[name].dtype
    if columns[name].array.ndim != 1 or columns[name].ref is not None:
        raise TypeError(f"capacities are numbers, but column {shown(name)} is not of numbers")
    if kind.kind not in "biuf":
        raise TypeError(f"capacities are real numbers, but column {shown(name)} is of {kind}")
    capacity = columns[name].array[: len(graph.edges)][pick]
    if kind.kind in "if" and not all_true(capacity >= 0):
        k = int((~(capacity >= 0)).argmax())
        u, v = (name_of(graph, getattr(graph.edges, c).array[pick][k]) for c in ("src", "dst"))
        raise ValueError(f"a capacity is 0 or more, but the edge from {u} to {v} has {capacity[k]}")
    if kind == np.uint64:
        capacity = xp.minimum(capacity, np.uint64(2**63 - 1))
    return capacity.astype(np.float64 if kind.kind == "f" else np.int64)


def _total(capacity: Any) -> int:
    """Return the sum as a Python integer."""
    return (int((capacity >> 32).sum()) << 32) + int((capacity & 0xFFFFFFFF).sum())


def _reverses(xp: Any, n: int, src: Any, dst: Any) -> Any:
    """Pair edges with edges of the opposite direction, parallel edges in order.

    Returns
    -------
    array of int64
        The position of each edge's partner, or -1.
    """
    keys = xp.minimum(src, dst).astype(np.int64) * (2 * n)
    keys += 2 * xp.maximum(src, dst).astype(np.int64) + (src > dst)
    order = argsort(keys)
    keys = keys[order]
    down = xp.flatnonzero(keys & 1)
    if all_true(keys[1:] != keys[:-1]):  # no parallel edges
        mate = down - 1
        paired = keys[mate] == keys[down] - 1
    else:
        behind = xp.searchsorted(keys, keys[down])  # end of the upward edges of these ends
        mate = xp.searchsorted(keys, keys[down] - 1) + down - behind
        paired = mate < behind
    up, down = order[mate[paired]], order[down[paired]]
    reverse = xp.full(src.size, -1, np.int64)
    reverse[up], reverse[down] = down, up
    return reverse


class _Network(NamedTuple):
    """The residual network of a graph, kept for the next call unless the graph changes."""

    net: Graph
    edges: Any  # ids of the graph's edges that are arcs, or a slice
    ends: tuple[Any, Any]  # of these
    arcs: Any  # ids of their arcs, or a slice
    lists: list[Any]  # of vertices


def _network(graph: Graph, pick: Any) -> _Network:
    """Make the residual network of the edges ``pick`` (a slice, or ids), without capacities."""
    xp, n, m = graph.device.xp, len(graph.points), len(graph.edges)
    ends = [getattr(graph.edges, c).array[:m][pick] for c in ("src", "dst")]
    loops = ends[0] == ends[1]
    if any_true(loops):
        keep = xp.flatnonzero(~loops)
        ends = [e[keep] for e in ends]
        pick = keep if isinstance(pick, slice) else pick[keep]
    src, dst = ends
    m = len(src)
    back = _reverses(xp, n, src, dst)
    alone = xp.flatnonzero(back < 0)
    if alone.size:
        src, dst = xp.concatenate([src, dst[alone]]), xp.concatenate([dst, src[alone]])
        back[alone] = xp.arange(m, len(src))
        back = xp.concatenate([back, alone])
    if len(src) > INFINITY:
        raise ValueError(f"{len(src)} arcs of edges and their reverses, of {INFINITY} at most")
    net = Graph.from_edges(src, dst, n=n, device=graph.device)
    for name in ("height", "raised", "current"):
        net.points.add(name, i32)
    for name, dtype in (("excess", i64), ("gain", vec(i64, 2)), ("cut", bool_)):
        net.points.add(name, dtype)
    net.edges.add("residual", i64)
    net.edges.add("back", Ref("edges"))
    arcs, order = slice(m), net.edge_order
    if order is not None:
        arcs = xp.empty(len(src), np.int64)
        arcs[order] = xp.arange(len(src))
        back, arcs = arcs[back[order]], arcs[:m]
    net.edges.back.array[: len(src)] = back
    lists = [Collection(net.points, capacity=n) for _ in range(4)]
    return _Network(net, pick, (ends[0], ends[1]), arcs, lists)


class _Units(NamedTuple):
    """Real capacities as numbers of units of ``2**-bits``, rounded down."""

    capacity: Any  # int64
    bits: int
    most: float  # a flow of more is infinite


def _in_units(xp: Any, source: int, sink: int, edges: Any, capacity: Any) -> _Units:
    """Find the unit of real capacities.

    An infinite capacity becomes one that only a path of infinite capacities can use up.

    Raises
    ------
    OverflowError
        If sums of capacities overflow.
    """
    src, dst = edges
    out = capacity[(src == source) & (dst != source)]
    with np.errstate(over="ignore"):
        limit = min(float(out.sum()), float(capacity[(dst == sink) & (src != sink)].sum()))
        if limit == math.inf:
            limit = float(capacity[capacity < math.inf].sum())
        total = float(xp.minimum(out, limit).sum())
    if total == math.inf:
        raise OverflowError("the sum of the capacities overflows float64: divide them")
    if total == 0:  # no flow, but the cut needs the arcs
        return _Units((capacity > 0).astype(np.int64), 0, 0.0)
    bits = FLOW_BITS - math.frexp(total)[1]
    capacity = xp.minimum(capacity, min(1.5 * limit, sys.float_info.max))
    return _Units(xp.floor(xp.ldexp(capacity, bits)).astype(np.int64), bits, 1.25 * limit)


def _useful(graph: Graph, source: int, sink: int, edges: Any, capacity: Any) -> Any:
    """Limit capacities to at most 1 more than the largest possible flow; 0 for useless edges.

    Raises
    ------
    OverflowError
        If the flow out of the source may overflow.
    """
    xp, (src, dst) = graph.device.xp, edges
    capacity = xp.where((dst == source) | (src == sink), 0, capacity)
    most = min(_total(capacity[dst == sink]), LIMIT)
    total = _total(xp.minimum(capacity[src == source], most + 1))
    if total >= LIMIT:
        u, v = name_of(graph, source), name_of(graph, sink)
        raise OverflowError(
            f"the edges from {u} and those to {v} have capacities for a flow of {LIMIT} or more: it"
            " may not fit int64"
        )
    return xp.minimum(capacity, total + 1)  # an edge of this capacity is in no minimum cut


def _solve(graph: Graph, source: int, sink: int, name: str) -> Flow:
    """Find the flow whose capacities are the column of this name."""
    xp, n, m = graph.device.xp, len(graph.points), len(graph.edges)
    pick = live_edges(graph)
    capacity = _capacities(graph, name, pick)
    changes, made = graph.kept.pop(NETWORK, (-1, None))  # removed while in use
    if changes != graph.changes:
        made = _network(graph, pick)
    net, edges, ends, arcs, lists = made
    if len(ends[0]) < len(capacity):  # without loops
        capacity = _capacities(graph, name, edges)
    units = None
    if capacity.dtype.kind == "f":
        units = _in_units(xp, source, sink, ends, capacity)
        capacity = units.capacity
    capacity = _useful(graph, source, sink, ends, capacity)
    residual = net.edges.residual.array[: len(net.edges)]
    if len(capacity) < len(residual):
        residual[:] = 0
    residual[arcs] = capacity
    net.points.excess[:] = 0
    net.points.gain[:] = 0
    work = VISIT * n + len(net.edges)
    value = find_flow(net, source, sink, lists, Scalars(net, work=0, most=work))
    flow = xp.zeros(m, np.int64)
    flow[edges] = xp.maximum(capacity - residual[arcs], 0)
    cut = net.points.cut.array[:n].astype(bool)
    cut[~graph.points.alive] = False
    graph.kept[NETWORK] = graph.changes, made
    if units is None:
        return Flow(value, flow, cut)
    real = math.ldexp(value, -units.bits)
    if real > units.most:
        u, v = name_of(graph, source), name_of(graph, sink)
        raise OverflowError(f"a path of infinite capacities leads from {u} to {v}")
    return Flow(real, xp.ldexp(flow.astype(np.float64), -units.bits), cut)


@of_graph_on_one_device
def max_flow(graph: Graph, source: int, sink: int, *, capacity: str = "weight") -> Flow:
    """Compute a maximum flow from ``source`` to ``sink``, and a minimum cut between them.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device.  Each edge carries flow along its direction, up to its capacity; an edge of
        an undirected graph (``directed=False``) in either direction.
    source, sink : int
        Ids or labels of two vertices.
    capacity : str
        Column of the edges with their capacities: integers or real numbers, 0 or more.  With
        ``"weight"`` and no weights, all capacities are 1.

    Returns
    -------
    Flow
        ``value``, an int, exact: the flow from ``source`` to ``sink``.  ``flow``, shape (m,),
        int64, indexed by edge id: 0 or more, 0 for deleted edges and self-loops; an undirected edge
        without parallel edges has flow on at most one of its two arcs.  ``cut``, shape (n,), bool:
        the points that do not reach the sink in the residual network; the total capacity of edges
        from them to the other points is ``value``.  Of all minimum cuts, this one has the most
        points on the source side.  Arrays are on the graph's device.  The result does not depend on
        the number of threads.

        If the column is real, ``value`` is a float and ``flow`` float64.  The result is that of
        capacities rounded down to multiples of a power of two, which is at most 2**-60 of the sum
        of capacities out of ``source``, each limited to the flow that can leave ``source`` or enter
        ``sink``, or, if both are infinite, to the sum of all finite capacities.  So no flow exceeds
        its capacity, and the capacity of the cut exceeds ``value`` by less than this power of two
        for each edge of the cut; it is exact if all capacities are multiples of it.  Flows and
        ``value`` are rounded to float64 at the end.

    Raises
    ------
    TypeError
        If capacities are not real numbers, or a vertex is not an integer.
    ValueError
        If a capacity is negative or NaN, there is no such column, ``source`` or ``sink`` is not a
        vertex, or they are equal.
    OverflowError
        If the capacities of the edges from ``source``, each limited to the total capacity into
        ``sink``, have a sum of 2**62 - 1 or more; if a path has infinite capacity, or sums of real
        capacities overflow float64.
    """
    start, end = vertex_id(graph, source, "source"), vertex_id(graph, sink, "sink")
    if start == end:
        raise ValueError(f"source and sink are one vertex, {start}")
    with graph.device.active():
        return _solve(graph, start, end, capacity)
