"""Graphs of other libraries, known by where their types come from: none is imported to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, compress
from typing import Any

import numpy as np

from morph.graph.edgelist import numbers_of
from morph.language.messages import shown
from morph.runtime.arrays import Array, all_true, array_module


def library_of(graph: Any) -> str | None:
    """Name the library a graph object is of: ``scipy`` (CuPy's sparse too), networkx, igraph."""
    for kind in type(graph).__mro__:
        name, *rest = kind.__module__.split(".")
        if name in ("networkx", "igraph"):
            return name
        if name in ("scipy", "cupyx") and "sparse" in rest and hasattr(graph, "tocsr"):
            return "scipy"
    return None


def is_symmetric(csr: Any, weight: bool) -> bool:
    """Whether a square matrix of compressed rows equals its transpose, entry by entry.

    Rows and columns are counted first, in which most that are not symmetric differ.  Of entries
    that are stored twice in one place the order counts.
    """
    n = csr.shape[0]
    counts = csr.indptr[1:] - csr.indptr[:-1]
    xp = array_module(csr.indptr)
    columns = csr.indices
    if columns.size and not (int(columns.min()) >= 0 and int(columns.max()) < n):
        return False  # what is wrong with it is said when the graph is made
    if not all_true(xp.bincount(columns, minlength=n) == counts):
        return False
    if not csr.has_sorted_indices:
        csr = csr.copy()
        csr.sort_indices()
    turned = csr.T.tocsr()
    if not turned.has_sorted_indices:
        turned.sort_indices()
    if turned.nnz != columns.size or not all_true(turned.indices == csr.indices):
        return False
    return not weight or all_true(turned.data == csr.data)


def networkx_arcs(graph: Any, index: Mapping[Any, int]) -> tuple[Array, Array]:
    """Give sources and destinations of a NetworkX graph's adjacency, by source.

    An undirected edge is there twice, a loop once, parallel edges are there each.
    """
    rows = [near for _, near in graph.adjacency()]
    n = len(rows)
    counts = np.fromiter(map(len, rows), np.int64, n)
    flat = map(index.__getitem__, chain.from_iterable(rows))
    dst = np.fromiter(flat, np.int64, int(counts.sum()))
    src = np.repeat(np.arange(n), counts)
    if graph.is_multigraph():
        parallel = np.fromiter((len(keys) for r in rows for keys in r.values()), np.int64, dst.size)
        src, dst = np.repeat(src, parallel), np.repeat(dst, parallel)
    return src, dst


def networkx_values(graph: Any, attribute: Any, default: Any) -> list[Any]:
    """Give an attribute of the edges in the order of `networkx_arcs`."""
    data = chain.from_iterable(near.values() for _, near in graph.adjacency())
    if graph.is_multigraph():
        data = chain.from_iterable(keys.values() for keys in data)
    return [d.get(attribute, default) for d in data]


def networkx_edges(graph: Any, weight: str | None) -> tuple[Array, Array, Array | None, int]:
    """Give source, destination, weight (None if no edge has one) and the number of nodes."""
    index = {node: i for i, node in enumerate(graph)}
    src, dst = networkx_arcs(graph, index)
    found = [] if weight is None else networkx_values(graph, weight, None)
    if not graph.is_directed():  # in the order of `graph.edges`
        kept = src <= dst
        src, dst = src[kept], dst[kept]
        found = list(compress(found, kept.tolist()))

    def name(k: int) -> str:
        u, v = list(graph.edges())[k]
        return f"{shown(weight)} of the edge from {shown(u)} to {shown(v)}"

    return src, dst, _weights(found, name), len(index)


def igraph_edges(graph: Any, weight: str | None) -> tuple[Array, Array, Array | None, int]:
    """Give the same of an igraph graph."""
    src, dst = np.fromiter(chain.from_iterable(graph.get_edgelist()), np.int64).reshape(-1, 2).T
    found = graph.es[weight] if weight is not None and weight in graph.es.attributes() else []

    def name(k: int) -> str:
        return f"{shown(weight)} of edge {k}, from {src[k]} to {dst[k]},"

    return src, dst, _weights(found, name), int(graph.vcount())


def _weights(found: list[Any], name: Callable[[int], str]) -> Array | None:
    """Make an array of the weights found, 1 where there is none; None if there is none at all."""
    if all(w is None for w in found):
        return None
    return numbers_of([1 if w is None else w for w in found], name)
