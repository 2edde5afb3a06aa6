"""Graphs of other libraries, recognised by the modules of their types, without imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np

from morph.graph.edgelist import numbers_of
from morph.language.messages import shown
from morph.runtime.arrays import (
    Array,
    all_true,
    any_true,
    array_module,
    bincount,
    refuse_rounded,
)

TABLES = "DataFrame", "Table", "RecordBatch"


class EdgeData(NamedTuple):
    """Edges of another library's graph.

    Attributes
    ----------
    src, dst : array, shape (m,)
    weight : array, shape (m,), or None
        None if no edge has a weight.
    n : int or None
        Number of points; if None, one more than the largest id.
    labels : list or None
        The labels of the points, unless they are the numbers of the points.
    """

    src: Array
    dst: Array
    weight: Array | None
    n: int | None
    labels: list[Any] | None


def library_of(graph: Any) -> str | None:
    """Name the library of a graph object: ``scipy`` (also CuPy's sparse), networkx, igraph.

    ``table`` stands for tables of pandas, polars and Arrow.
    """
    for kind in type(graph).__mro__:
        name, *rest = kind.__module__.split(".")
        if name in ("pandas", "polars", "pyarrow") and kind.__name__ in TABLES:
            return "table"
        if name in ("networkx", "igraph"):
            return name
        if name in ("scipy", "cupyx") and "sparse" in rest and hasattr(graph, "tocsr"):
            return "scipy"
    return None


def is_symmetric(csr: Any, weight: bool) -> bool:
    """Whether a square matrix of compressed rows equals its transpose, entry by entry.

    Counts of rows and columns are compared first, as they differ for most asymmetric matrices.
    The order of duplicate entries is significant.
    """
    n = csr.shape[0]
    counts = csr.indptr[1:] - csr.indptr[:-1]
    xp = array_module(csr.indptr)
    columns = csr.indices
    if columns.size and not (int(columns.min()) >= 0 and int(columns.max()) < n):
        return False  # the construction of the graph raises an error
    if not all_true(bincount(xp, columns, n) == counts):
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
    """Return sources and destinations of a NetworkX graph's adjacency, by source.

    An undirected edge occurs twice, a loop once; all parallel edges are included.
    """
    rows = _networkx_rows(graph)
    n = len(rows)
    counts = np.fromiter(map(len, rows), np.int64, n)
    flat: Any = chain.from_iterable(rows)
    place = None
    if list(index) != list(range(n)):  # otherwise the nodes are the numbers of the points
        place = _places(index)
        if place is None:
            flat = map(index.__getitem__, flat)
    dst = np.fromiter(flat, np.int64, int(counts.sum()))
    if place is not None:
        dst = place[dst]
    src = np.repeat(np.arange(n), counts)
    if graph.is_multigraph():
        parallel = np.fromiter((len(keys) for r in rows for keys in r.values()), np.int64, dst.size)
        src, dst = np.repeat(src, parallel), np.repeat(dst, parallel)
    return src, dst


def _places(index: Mapping[Any, int]) -> Array | None:
    """Return the point of each number, if the nodes are integers that are not large, else None."""
    if set(map(type, index)) != {int} or min(index) < 0 or max(index) > 8 * len(index):
        return None
    place = np.zeros(max(index) + 1, np.int64)
    place[np.fromiter(index, np.int64, len(index))] = np.fromiter(index.values(), np.int64)
    return place


def _networkx_rows(graph: Any) -> list[dict[Any, Any]]:
    """Return the adjacency; as dicts for a view, as lengths of filtered views may be wrong."""
    rows = [near for _, near in graph.adjacency()]
    if all(isinstance(near, dict) for near in rows):
        return rows
    if graph.is_multigraph():
        return [{v: dict(keys) for v, keys in near.items()} for near in rows]
    return [dict(near) for near in rows]


def networkx_values(graph: Any, attribute: Any, default: Any, kept: Any = None) -> list[Any]:
    """Return an attribute of the arcs of `networkx_arcs`, or of those in ``kept``."""
    data: Any = chain.from_iterable(near.values() for near in _networkx_rows(graph))
    if graph.is_multigraph():
        data = chain.from_iterable(keys.values() for keys in data)
    if kept is not None:
        data = compress(data, kept.tolist())
    return [d.get(attribute, default) for d in data]


def networkx_edges(graph: Any, weight: str | None) -> EdgeData:
    """Return the edges of a NetworkX graph."""
    index = {node: i for i, node in enumerate(graph)}
    src, dst = networkx_arcs(graph, index)
    kept = None if graph.is_directed() else src <= dst  # in the order of `graph.edges`
    if kept is not None:
        src, dst = src[kept], dst[kept]
    found = [] if weight is None else networkx_values(graph, weight, None, kept)

    def name(k: int) -> str:
        u, v = list(graph.edges())[k]
        return " ".join((shown(weight, 35), "of the edge from", shown(u, 35), "to", shown(v, 35)))

    nodes = list(index)
    labels = None if nodes == list(range(len(nodes))) else nodes
    return EdgeData(src, dst, _weights(found, name), len(nodes), labels)


def igraph_edges(graph: Any, weight: str | None) -> EdgeData:
    """Return the edges of an igraph graph; its vertices' names are labels if no two are equal."""
    src, dst = np.fromiter(chain.from_iterable(graph.get_edgelist()), np.int64).reshape(-1, 2).T
    found = graph.es[weight] if weight is not None and weight in graph.es.attributes() else []

    def name(k: int) -> str:
        return f"{shown(weight)} of edge {k}, from {src[k]} to {dst[k]},"

    names = graph.vs["name"] if "name" in graph.vs.attributes() else [None]
    labels = None if None in names or not _distinct(names) else names
    return EdgeData(src, dst, _weights(found, name), int(graph.vcount()), labels)


def _distinct(names: list[Any]) -> bool:
    try:
        return len(set(names)) == len(names)
    except TypeError:  # a name is not hashable
        return False


def table_edges(table: Any, source: str, target: str, weight: str | None, labels: bool) -> EdgeData:
    """Return the edges that are the rows of a table of pandas, polars or Arrow.

    Raises
    ------
    TypeError, ValueError
        If the table has no such columns, or an end is neither an integer nor a label, or missing.
    """
    arrow = hasattr(type(table), "column_names")
    names = list(table.column_names if arrow else table.columns)
    for role, column in (("source", source), ("target", target)):
        if column not in names:
            raise ValueError(f"{role}={shown(column)}: the table has columns {shown(names)}")
    ends = [np.asarray(table[column]) for column in (source, target)]
    for column, a in zip((source, target), ends, strict=True):
        if a.ndim != 1:
            raise ValueError(f"the table has {a.shape[-1]} columns {shown(column)}")
        if a.size and a.dtype.kind not in "iuOUT":
            held = f"column {shown(column)} holds {a.dtype}"
            raise TypeError(f"{held}: expected integers or strings, none missing")
    has_weight = weight in names and ends[0].size  # an empty column may have any type
    values = _numbers(table[weight], f"column {shown(weight)}") if has_weight else None
    if not labels and all(a.dtype.kind in "iu" or not a.size for a in ends):
        return EdgeData(ends[0], ends[1], values, None, None)
    index: dict[Any, int] = {}
    by_row = chain.from_iterable(zip(*(a.tolist() for a in ends), strict=True))
    ids = np.fromiter((index.setdefault(x, len(index)) for x in by_row), np.int64)
    for x, p in index.items():
        if _missing(x):
            row, end = divmod(int(np.flatnonzero(ids == p)[0]), 2)
            raise ValueError(f"{(source, target)[end]}[{row}] is missing")
    return EdgeData(ids[::2], ids[1::2], values, len(index), list(index))


def _numbers(column: Any, name: str) -> Array:
    """Return a column as an array; refuse integers that lose digits beside missing values, NaN."""
    values = np.asarray(column)
    if values.dtype.kind == "f" and any_true(abs(values) >= 2**53):
        given = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
        refuse_rounded(values, name, values.dtype.type, given)
    return values


def _missing(x: Any) -> bool:
    nan = isinstance(x, float) and x != x
    return x is None or nan or type(x).__name__ in ("NAType", "NaTType")


def _weights(found: list[Any], name: Callable[[int], str]) -> Array | None:
    """Make an array of weights, with 1 for missing ones; None if all are missing."""
    if all(w is None for w in found):
        return None
    return numbers_of([1 if w is None else w for w in found], name)
