"""Checkers of weakly and strongly connected components and minimum spanning forests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph import Graph
from morph.validate.arcs import Arcs, Ints, WrongAnswer, grouped, parts, refuse, rows


def connected_components(graph: Graph, label: Any) -> None:
    """Check the labels of weakly connected components.

    The two ends of an edge have equal labels, a label is the smallest point with that label, and
    the points of a label are connected.  Labels contain no certificate of the last property, so
    components are recomputed: O(m log n) at most.

    Parameters
    ----------
    graph : Graph
    label : array of int, shape (n,)

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    found = _labels(arcs, label)
    refuse(
        found[arcs.src] != found[arcs.dst],
        lambda k: f"{arcs.edge(k)}, joins the labels {found[arcs.src[k]]} and {found[arcs.dst[k]]}",
    )
    root = parts(arcs.n, arcs.src, arcs.dst)
    refuse(
        arcs.alive & (root != found),
        lambda v: f"{arcs.vertex(v)} has the label {found[v]}, but is not connected with it",
    )


def _labels(arcs: Arcs, label: Any) -> np.ndarray[Any, Any]:
    """Return labels, each of which is at most its vertex."""
    found = arcs.values(label, "label").astype(np.int64)
    refuse(
        arcs.alive & ((found < 0) | (found > np.arange(arcs.n))),
        lambda v: f"{arcs.vertex(v)} has the label {found[v]}, which is no vertex up to {v}",
    )
    return found


def strongly_connected_components(graph: Graph, label: Any) -> None:
    """Check the labels of strongly connected components.

    A label is the smallest point with that label.  Within a label, this point reaches all points
    and all points reach it; the edges between different labels form no cycle.  O(n + m).

    Parameters
    ----------
    graph : Graph
    label : array of int, shape (n,)

    Raises
    ------
    WrongAnswer
        Naming a vertex or an edge.
    """
    arcs = Arcs(graph)
    found = _labels(arcs, label)
    roots = np.unique(found[arcs.alive])
    refuse(
        found[roots] != roots,
        lambda k: f"label {roots[k]} is of other vertices, but not of {arcs.vertex(roots[k])}",
    )
    same = found[arcs.src] == found[arcs.dst]
    ends = arcs.src[same], arcs.dst[same]
    for (src, dst), missing in ((ends, "no path from"), (ends[::-1], "no path to")):
        refuse(
            arcs.alive & ~_reached(arcs.n, src, dst, roots),
            lambda v, missing=missing: (
                f"{arcs.vertex(v)} has the label {found[v]}, but {missing} it within the component"
            ),
        )
    src, dst = found[arcs.src[~same]], found[arcs.dst[~same]]
    left = _on_cycles(arcs.n, src, dst)
    if left.size:
        raise WrongAnswer(f"{arcs.edge(np.flatnonzero(~same)[left[0]])}, is on a cycle of labels")


def _reached(n: int, src: Ints, dst: Ints, roots: Ints) -> NDArray[np.bool_]:
    """Return which points are reachable from the roots, shape (n,)."""
    offsets, targets = grouped(n, src, dst)
    seen = np.zeros(n, bool)
    front = roots
    while front.size:
        seen[front] = True
        found = targets[rows(offsets, front)]
        front = np.unique(found[~seen[found]])
    return seen


def _on_cycles(n: int, src: Ints, dst: Ints) -> Ints:
    """Return the edges that remain when points without in-edges are removed repeatedly."""
    offsets, edges = grouped(n, src, np.arange(len(src)))
    into = np.bincount(dst, minlength=n)
    left = np.ones(len(src), bool)
    front = np.flatnonzero(into == 0)
    while front.size:
        removed = edges[rows(offsets, front)]
        left[removed] = False
        points, count = np.unique(dst[removed], return_counts=True)
        into[points] -= count
        front = points[into[points] == 0]
    return np.flatnonzero(left)


def mst(graph: Graph, edges: Any) -> None:
    """Check a minimum spanning forest.

    Its edges form no cycle and span each component.  By the cycle property, it is minimum if no
    other edge is lighter than the heaviest edge on the forest's path between its ends.  That edge
    is computed from the Boruvka tree of the forest (King 1997): O(n log n + m log n) at most,
    usually close to O(n + m).

    Parameters
    ----------
    graph : Graph
        With the weights that were used.
    edges : array of int
        Ids of the edges of the forest.

    Raises
    ------
    WrongAnswer
        Naming an edge.
    """
    arcs = Arcs(graph)
    chosen = arcs.host(edges, "edges").ravel()
    if chosen.size and chosen.dtype.kind not in "iu":
        raise WrongAnswer(f"edges has type {chosen.dtype}: ids are integers")
    place = np.full(len(graph.edges), -1)
    place[arcs.id] = np.arange(len(arcs.id))
    wrong = (chosen < 0) | (chosen >= len(place))
    refuse(wrong, lambda k: f"edge {chosen[k]} is not an edge of the graph")
    at = place[chosen.astype(np.int64)]
    refuse(at < 0, lambda k: f"edge {chosen[k]} is not an edge of the graph: it was deleted")
    twice = np.bincount(at, minlength=len(arcs.id)) > 1
    refuse(twice, lambda k: f"{arcs.edge(k)}, is in the forest twice")
    src, dst, weight = arcs.src, arcs.dst, arcs.weight
    root = parts(arcs.n, src[at], dst[at])
    if arcs.n - len(np.unique(root)) < len(at):
        _name_circle(arcs, at)
    refuse(
        root[src] != root[dst],
        lambda k: f"{arcs.edge(k)}, joins two parts that the forest does not",
    )
    heaviest = _heaviest_between(arcs.n, src[at], dst[at], weight[at], src, dst)
    order = np.argsort(weight[at], kind="stable")  # `heaviest` has positions in this order
    apart = heaviest >= 0
    lighter = np.zeros(len(src), bool)
    lighter[apart] = weight[apart] < weight[at][order[heaviest[apart]]]
    refuse(
        lighter,
        lambda k: (
            f"{arcs.edge(k)}, of weight {weight[k]}, is lighter than the forest's"
            f" {arcs.edge(at[order[heaviest[k]]])}, of weight {weight[at[order[heaviest[k]]]]}, in"
            " whose place it could be"
        ),
    )


def _name_circle(arcs: Arcs, at: Ints) -> None:
    """Report an edge that closes a cycle: the last one of the shortest prefix with a cycle."""
    low, high = 0, len(at)  # the first `low` edges are a forest, the first `high` are not
    while high - low > 1:
        half = (low + high) // 2
        root = parts(arcs.n, arcs.src[at[:half]], arcs.dst[at[:half]])
        if arcs.n - len(np.unique(root)) < half:
            high = half
        else:
            low = half
    raise WrongAnswer(f"{arcs.edge(int(at[low]))}, closes a circle of edges of the forest")


def _heaviest_between(n: int, src: Ints, dst: Ints, weight: NDArray[Any], u: Ints, v: Ints) -> Ints:
    """Find the heaviest edge on a forest's path from each u to v.

    Boruvka's method on the forest: in each level every tree selects its lightest edge to another
    tree.  The result is the heaviest edge selected on the two paths of the Boruvka tree from u and
    v to their lowest common ancestor.

    Returns
    -------
    array of int64, shape (len(u),)
        Its position in the order of weights; -1 where u is v.
    """
    order = np.argsort(weight, kind="stable")
    src, dst, rank = src[order], dst[order], np.arange(len(order))
    heaviest, open_ = np.full(len(u), -1), np.flatnonzero(u != v)
    u, v = u[open_], v[open_]
    while open_.size:
        taken = np.full(n, len(order))
        for end in (src, dst):
            np.minimum.at(taken, end, rank)
        best = np.maximum(taken[u], taken[v])  # defined for both, as u and v are in one tree
        heaviest[open_] = np.maximum(heaviest[open_], best)
        joins = np.unique(taken[taken < len(order)])
        at = np.searchsorted(rank, joins)
        root = parts(n, src[at], dst[at])
        names, root = np.unique(root, return_inverse=True)
        n, src, dst = len(names), root[src], root[dst]
        apart = src != dst
        src, dst, rank = src[apart], dst[apart], rank[apart]
        u, v = root[u], root[v]
        apart = u != v
        open_, u, v = open_[apart], u[apart], v[apart]
    return heaviest
