"""Minimum spanning forest, by Boruvka's algorithm on a concurrent union-find.

In each round every component finds its lightest edge to another component, and these edges are
united.  Ties are broken by the smallest edge id (an atomic minimum of weight and id in one 64-bit
word, or of two words if the weight has more than 32 bits or is a float), so the result does not
depend on the order of execution.  If each edge is stored as two arcs of equal weight, only the arc
from the smaller vertex id is read: it also has the smaller arc id, so the other one never wins.
Edges inside a component leave the worklist (Unnikrishnan et al., Falcon, figures 51 to 54).  If
there are many edges, the lightest few per vertex are processed first: most others are then inside a
component, and are filtered out (Osipov, Sanders, Singler, Filter-Kruskal, ALENEX 2009).  The
lightest edges of a large sparse graph with random ends are also processed first: otherwise most
edges would join different components up to the last round, and be read in all rounds.  At
most log2 n rounds of O(n + m), mostly O(m) in all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.graph.arguments import live_edges, of_graph, results_device
from morph.algorithms.graph.costs import has_equal_reverses
from morph.algorithms.graph.workspace import workspace
from morph.data.collection import Flag, Set
from morph.graph import Graph
from morph.launch.foreach import foreach, func, kernel, program
from morph.partition.graph import PartitionedGraph
from morph.prelude import atomic_min, bool_, i32, i64
from morph.runtime.arrays import all_true, any_true
from morph.runtime.device import Device

NONE = 2**31 - 1  # no edge is picked
FIRST_EDGES = 3  # edges per vertex that are processed first, if there are at least twice as many
SAMPLE = 10000
SPARSE = 3  # edges per vertex from which on the lightest of random edges are processed first
LIGHTEST = 0.375  # ... which are this share of them
# points from which on: their sets are then larger than a cache
RANDOM_POINTS, RANDOM_POINTS_ON_GPU = 1 << 18, 1 << 23
APART = 8  # ends of random edges: half of them are more than an eighth of all points apart
DISTINCT = 0.975  # ... and of those of a sample at least this share are distinct
# arcs from which it is tested whether each has a reverse
SYMMETRY_ARCS, SYMMETRY_ARCS_ON_GPU = 1 << 15, 1 << 23


class Mst(NamedTuple):
    """Result of `mst`: ``edges`` (ids), their total ``weight``, the number of ``components``."""

    edges: Any
    weight: Any
    components: int


class Search(NamedTuple):
    """The search for the lightest edges."""

    find: Any  # `find_lightest` or `find_lightest_once`
    together: bool  # whether weight and id are compared as one word


@func
def lower_lightest(p, a, b, e):
    """Lower the lightest edges of components a and b to at most e; p stays open if they differ."""
    if a != b:
        p.open = True
        if hasattr(p, "lightest"):
            atomic_min(a.lightest, e.weight)
            atomic_min(b.lightest, e.weight)
        else:
            key = (i64(e.weight) << 32) + e.id
            atomic_min(a.picked, key)
            atomic_min(b.picked, key)


@kernel
def find_lightest(p, sets, low, high):
    a = sets.find(p)
    p.open = False
    for e in p.outedges:
        if e.weight >= low and e.weight <= high:
            lower_lightest(p, a, sets.find(e.dst), e)


@kernel
def find_lightest_once(p, sets, low, high):
    """As `find_lightest`, but of two arcs of equal weight read only that from the smaller id."""
    a = sets.find(p)
    p.open = False
    for e in p.outedges:
        t = e.dst  # loaded together with the weight
        if e.weight >= low and e.weight <= high and p.id < t.id:
            lower_lightest(p, a, sets.find(t), e)


@kernel
def pick(p, sets, low, high):
    if hasattr(p, "lightest"):
        a = sets.find(p)
        for e in p.outedges:
            if e.weight >= low and e.weight <= high:
                b = sets.find(e.dst)
                if a != b:
                    if e.weight == a.lightest:
                        atomic_min(a.picked, e.id)
                    if e.weight == b.lightest:
                        atomic_min(b.picked, e.id)


@kernel
def join(p, g, sets, most, none, joined):
    e = g.edges[i64(p.picked) & 0xFFFFFFFF]
    p.picked = none
    if hasattr(p, "lightest"):
        p.lightest = most
    if sets.union(e.src, e.dst):
        e.in_tree = True
        joined.set()


@kernel
def reopen(p):
    p.open = True


@program
def boruvka(g, sets, joined, low, high, most, none, search):
    foreach(g.points, reopen)
    joined.set()
    while joined.take():
        foreach(g.points, search.find, sets, low, high, where=lambda p: p.open)
        if not search.together:
            foreach(g.points, pick, sets, low, high, where=lambda p: p.open)
        foreach(g.points, join, g, sets, most, none, joined, where=lambda p: p.picked < none)


def _edges_in_order(where: Device, n: int, columns: dict[str, Any]) -> Graph:
    """Make a graph whose edges have the order of the arrays: their ids decide between equals."""
    g = Graph(where)
    g.points.extend(n)
    if "weight" in columns:
        g.edges.add("weight", columns["weight"].dtype)
    g.edges.extend(**columns)
    return g


def _in_parts(graph: PartitionedGraph) -> Mst:
    """Find the forest of the edges that are in the forests of parts, all other edges left out.

    An edge that is the last one of a cycle in the order of weights and ids is in no forest.
    """
    names = [name for name in ("src", "dst", "weight") if name in graph.edges.columns]
    n, found = len(graph.points), {}

    def find(k: int) -> None:
        g, share = graph.local(k), graph.edges._share(k)
        rows = share.own if isinstance(share.own, slice) else g.device.asarray(share.own)
        with g.device.active():
            ends: dict[str, Any] = {name: g.edges.columns[name].array[rows] for name in names}
        # without copies of other parts' edges and deleted ones, in order of global ids
        if len(g.edges) != share.owned or share.own_at is not None:
            g = _edges_in_order(g.device, len(g.points), ends)
        picked = mst(g).edges
        with g.device.active():
            kept = {name: g.device.to_host(a[picked]) for name, a in ends.items()}
            picked = g.device.to_host(picked)
        for name in ("src", "dst"):
            kept[name] = graph.points._share(k).global_ids(kept[name])
        ids = share.ids
        found[k] = share.global_ids(picked) if isinstance(ids, slice) else ids[picked], kept

    graph.each_part(find)
    ids, kept = zip(*graph.gather(found.__getitem__), strict=True)
    edges = np.concatenate(ids)
    order = np.argsort(edges)
    arrays: dict[str, Any] = {
        name: np.concatenate([x[name] for x in kept])[order] for name in names
    }
    where = graph.devices[graph.here[0]]
    whole = mst(_edges_in_order(where, n, arrays))
    to = results_device(graph)
    with to.active():
        return whole._replace(edges=to.asarray(edges[order])[to.asarray(whole.edges)])


@of_graph
def mst(graph: Graph) -> Mst:
    """Find a minimum spanning forest.

    Parameters
    ----------
    graph : Graph, or an argument of `Graph.of`
        On any device, with edge weights of any real type, 1 if it has none.  Edges count as
        undirected, whether they are held once or in both directions.

    Returns
    -------
    Mst
        ``edges``, int64 ids, ascending: of two edges of one weight, that of the smaller id counts
        as the lighter; ``weight``, a Python int or float; ``components``, counting single points.

    Raises
    ------
    ValueError
        If a weight is NaN.
    """
    if isinstance(graph, PartitionedGraph):
        return _in_parts(graph)
    weighted = "weight" in graph.edges.columns
    dtype = np.dtype(graph.edges.weight.dtype if weighted else np.int32)
    if dtype.kind == "f":
        live = graph.edges.weight.array[live_edges(graph)]
        if any_true(live != live):
            raise ValueError("mst needs weights that are not NaN")
    least, most = _limits(dtype)
    together = np.result_type(dtype, np.int32) == np.int32  # weight and id in one word
    once = together and _holds_edges_twice(graph)
    search = Search(find_lightest_once if once else find_lightest, together)
    none = i64(2**63 - 1) if together else i32(NONE)
    points: dict[str, Any] = {"picked": (type(none), none), "open": (bool_, True)}
    if not together:
        points["lightest"] = dtype, most
    edge: dict[str, Any] = {"in_tree": (bool_, False)}
    if not weighted:
        edge["weight"] = i32, 1

    def make() -> list[Any]:
        return [Set(graph.points), Flag(graph)]

    with workspace(graph, "mst", make, edge, **points) as (sets, joined), graph.device.active():
        for low, high in _bands(graph, least, most):
            boruvka(graph, sets, joined, low, high, most, none, search)
        edges = graph.device.xp.flatnonzero(graph.edges.in_tree.array)
        total = exact_sum(graph.edges.weight.array[edges])
    return Mst(edges, total, graph.points.live - len(edges))


def exact_sum(weight: Any) -> Any:
    """Add up weights exactly if they are integers, however large."""
    if weight.dtype.kind != "f" and weight.dtype.itemsize <= 4 and weight.size <= 2**30:
        return int(weight.sum(dtype=np.int64))
    whole = weight.sum(dtype=np.float64).item()
    if weight.dtype.kind == "f":
        return whole
    return int(weight.sum(dtype=np.int64)) if abs(whole) < 2**62 else sum(weight.tolist())


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Give the least and the largest number of a type."""
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    if dtype.kind == "b":
        return dtype.type(False), dtype.type(True)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


def _holds_edges_twice(graph: Graph) -> bool:
    """Whether each arc has a reverse of equal weight, and arcs are sorted by source.

    False without a test if the test would take longer than it saves: for few edges, and on a CPU
    if the lightest edges are processed first.
    """
    on_host, m = graph.device.on_host, len(graph.edges)
    least = SYMMETRY_ARCS if on_host else SYMMETRY_ARCS_ON_GPU
    if m < least or (on_host and m > 2 * FIRST_EDGES * len(graph.points)):
        return False
    if not has_equal_reverses(graph):
        return False
    known, in_order = graph.kept.get("sources", (None, False))
    if known != graph.changes:
        src = graph.edges.src.array
        with graph.device.active():
            in_order = all_true(src[1:] >= src[:-1])
        graph.kept["sources"] = graph.changes, in_order
    return bool(in_order)


def _bands(graph: Graph, least: Any, most: Any) -> list[tuple[Any, Any]]:
    """Return the ranges of weights to process in turn; they may overlap at a weight."""
    weight, few = graph.edges.weight.array, FIRST_EDGES * len(graph.points)
    if weight.size <= 2 * few:
        if not _has_random_ends(graph):
            return [(least, most)]
        few = int(LIGHTEST * weight.size)
    with graph.device.active():
        sample = graph.device.to_host(weight[_sampled(graph)])
    k = SAMPLE * few // weight.size
    between = np.partition(sample, k)[k]
    if not least <= between <= most:  # the weight of a deleted edge, which may be NaN
        return [(least, most)]
    return [(least, between), (between, most)]


def _sampled(graph: Graph) -> Any:
    """Return ids of random edges, on the graph's device; the same ones while there are as many."""
    total = len(graph.edges)
    size, at = graph.kept.get("sample", (0, None))
    if size != total:
        at = graph.device.asarray(np.random.default_rng(0).integers(0, total, SAMPLE))
        graph.kept["sample"] = total, at
    return at


def _has_random_ends(graph: Graph) -> bool:
    """Whether a graph is large, and the ends of sampled edges are distant and mostly distinct."""
    n, on_host = len(graph.points), graph.device.on_host
    least = RANDOM_POINTS if on_host else RANDOM_POINTS_ON_GPU
    if n < least or len(graph.edges) < SPARSE * n:
        return False
    known, found = graph.kept.get("random ends", (None, False))
    if known != graph.changes:
        with graph.device.active():
            at = _sampled(graph)
            src, dst = (graph.device.to_host(graph.edges.columns[c].array[at])
                        for c in ("src", "dst"))  # fmt: skip
        distance = np.abs(src - dst)
        found = np.median(distance) * APART > n and np.unique(dst).size > DISTINCT * SAMPLE
        graph.kept["random ends"] = graph.changes, bool(found)
    return bool(found)
