"""Checker of matchings."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.graph import Graph
from morph.language.arguments import boolean, check_number
from morph.validate.arcs import Arcs, WrongAnswer, refuse


def matching(graph: Graph, partner: Any, edges: Any, weight: Any, weighted: bool = False) -> None:
    """Check a maximal matching; directions and self-loops are ignored.

    An edge joins each matched point with its partner, and each other edge has a matched end.  With
    weights, each edge of positive weight has an end that is matched by an edge at least as heavy:
    this proves a 1/2-approximation of the maximum weight.  O(n + m log m).

    Parameters
    ----------
    graph : Graph
    partner : array of int, shape (n,)
        -1 for unmatched points.
    edges : array of int, shape (size,)
        Ids, ascending.
    weight : number
        Total weight; the number of edges if not ``weighted``.
    weighted : bool, default False

    Raises
    ------
    WrongAnswer
        Naming an edge or a vertex.
    """
    arcs = Arcs(graph)
    to = arcs.values(partner, "partner").astype(np.int64)
    matched = arcs.alive & (to != -1)
    vertices = np.arange(arcs.n)
    wrong = matched & ((to < 0) | (to >= arcs.n) | (to == vertices))
    refuse(wrong, lambda v: f"{arcs.vertex(v)} has the partner {to[v]}")
    wrong = matched.copy()
    wrong[matched] = ~arcs.alive[to[matched]] | (to[to[matched]] != vertices[matched])
    refuse(wrong, lambda v: f"{arcs.vertex(v)} has the partner {to[v]}, which has another one")
    at = _positions(arcs, edges)
    src, dst = arcs.src[at], arcs.dst[at]
    refuse(to[src] != dst, lambda k: f"{arcs.edge(at[k])}, does not join partners")
    count = np.bincount(src, minlength=arcs.n) + np.bincount(dst, minlength=arcs.n)
    refuse(matched & (count != 1), lambda v: f"{arcs.vertex(v)} is matched by {count[v]} edges")
    apart = arcs.src != arcs.dst
    if boolean(weighted, "weighted"):
        w = arcs.weight
        refuse(~(w[at] > 0), lambda k: f"{arcs.edge(at[k])}, has the weight {w[at[k]]}")
        best = np.zeros(arcs.n, w.dtype)
        best[src] = best[dst] = w[at]
        loose = apart & (w > 0) & (w > best[arcs.src]) & (w > best[arcs.dst])
        refuse(loose, lambda k: f"{arcs.edge(k)}, is heavier than the edges of the matching there")
        total = float(w[at].sum(dtype=np.float64))
    else:
        loose = apart & ~matched[arcs.src] & ~matched[arcs.dst]
        refuse(loose, lambda k: f"{arcs.edge(k)}, joins two vertices without partners")
        total = float(len(at))
    check_number(weight, "weight")
    given = float(weight)
    if not np.isclose(given, total, rtol=1e-9, atol=0):
        raise WrongAnswer(f"the weight is {total}, not {given}")


def _positions(arcs: Arcs, edges: Any) -> Any:
    """Return the positions of edges among the arcs.

    Raises
    ------
    WrongAnswer
        If they are not ascending ids of edges.
    """
    ids = arcs.host(edges, "edges")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise WrongAnswer(f"edges has shape {ids.shape} and type {ids.dtype}")
    refuse(ids[1:] <= ids[:-1], lambda k: f"edge {ids[k + 1]} comes after edge {ids[k]}")
    order = np.argsort(arcs.id)
    at = np.searchsorted(arcs.id[order], ids)
    known = at < len(order)
    known[known] = arcs.id[order[at[known]]] == ids[known]
    refuse(~known, lambda k: f"edge {ids[k]} is not in the graph")
    return order[at]
