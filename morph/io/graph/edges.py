"""The edges of a graph file as arrays, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.graph.adjacency import count_keys
from morph.graph.reverses import have_reverses
from morph.io.text.growing import Growing
from morph.io.text.scanner import Block
from morph.runtime.device import device

MAX_VERTICES = 2**31 - 1


@dataclass(frozen=True)
class EdgeArrays:
    """The edges of a file, in its order.

    Attributes
    ----------
    src, dst : (m,) int32 array
        Ends, counting from 0.
    weight : (m,) array or None
        int32, int64 if some weight needs it, float32 or float64.
    n : int
        Number of vertices.
    undirected : bool
        True if, by the format, each edge stands for both arcs.
    symmetric : bool
        True if every arc has its reverse, by the format or by comparison of a saved matrix.
    points : dict of str to (n,) or (n, k) array
        Vertex data: METIS has ``weight`` and ``size``.
    """

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    weight: NDArray[Any] | None
    n: int
    undirected: bool = False
    symmetric: bool = False
    points: Mapping[str, NDArray[Any]] = field(default_factory=dict)


Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any] | None]
"""Offsets, shape (n + 1,), ends and weights of compressed rows."""


def compressed_rows(edges: EdgeArrays) -> Rows:
    """Sort the arcs by source, stably; self-loops are not duplicated."""
    src, dst, weight = edges.src, edges.dst, edges.weight
    if edges.undirected:
        src, dst, weight = arcs_of(edges)
    if (src[1:] < src[:-1]).any():
        order = np.argsort(src, kind="stable")
        dst, weight = dst[order], None if weight is None else weight[order]
    offsets = np.zeros(edges.n + 1, np.int64)
    np.cumsum(count_keys(np, src, edges.n), out=offsets[1:])
    return offsets, dst, weight


def arcs_of(edges: EdgeArrays) -> tuple[Any, Any, Any]:
    """Return the arcs of undirected edges: the edges, then the reverses, except of self-loops."""
    src, dst, weight = edges.src, edges.dst, edges.weight
    back = np.flatnonzero(src != dst)
    weight = None if weight is None else np.concatenate([weight, weight[back]])
    return np.concatenate([src, dst[back]]), np.concatenate([dst, src[back]]), weight


def is_symmetric(
    src: NDArray[np.int32], dst: NDArray[np.int32], weight: NDArray[Any] | None
) -> bool:
    """Return whether a matrix has as many entries (u, v) as (v, u), of equal values."""
    if weight is not None and weight.dtype.kind == "f" and np.isnan(weight).any():
        return False  # a NaN equals no other
    return have_reverses(device("cpu"), src, dst, weight)


def gathered(
    blocks: Iterable[Block], base: int, n: int | None, integral: bool = True
) -> tuple[Any, Any, Any]:
    """Check and narrow lines of two vertex numbers, from ``base`` on, and an optional weight.

    Parameters
    ----------
    blocks : iterable of Block
        With two or three parts of one column, consumed block by block.
    n : int or None
        Number of vertices; None if the file does not contain it.
    integral : bool
        Whether weights are integers.

    Returns
    -------
    src, dst : (m,) int32 array
        Counting from 0.
    weight : (m,) array
        int32 if they fit, else int64 or float64; empty without weights.
    """
    ends = [Growing(np.dtype(np.int32)), Growing(np.dtype(np.int32))]
    weight = Growing(None)
    for block in blocks:
        left = block.scanner.rows_left(block.start, len(block.values))
        for column, values in zip(ends, vertices(block, base, n), strict=True):
            column.add(values, left)
        for part in block.parts[2:]:
            weight.add(narrow(part[:, 0]), left)
    none = np.empty(0, np.int32 if integral else np.float64)
    return ends[0].finish(none), ends[1].finish(none), weight.finish(none)


def vertices(block: Block, base: int, n: int | None) -> list[NDArray[np.int32]]:
    """Check the first two parts, of vertex numbers; return them as int32, counting from 0.

    ``n`` is the number of vertices, or None if the file does not contain it.
    """
    last = (MAX_VERTICES if n is None else n) + base - 1
    columns = [part[:, 0] for part in block.parts[:2]]
    for values in columns:
        if len(values) and (values.min() < base or values.max() > last):
            row = int(((values < base) | (values > last)).argmax())
            found = f"vertex {int(values[row])} is out of range"
            block.fail(row, f"{found}: vertices are {base} to {last}")
    return [(values - base if base else values).astype(np.int32, copy=False) for values in columns]


def narrow(weight: NDArray[Any]) -> NDArray[Any]:
    """Convert integers to int32 if all fit; other weights are unchanged."""
    if weight.dtype == np.int64:
        low, high = int(weight.min(initial=0)), int(weight.max(initial=0))
        return weight.astype(np.int32) if low >= -(2**31) and high < 2**31 else weight.copy()
    return np.ascontiguousarray(weight)
