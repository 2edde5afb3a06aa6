"""The edges of a graph file as arrays, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text.scanner import Block

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
    np.cumsum(np.bincount(src, minlength=edges.n), out=offsets[1:])
    return offsets, dst, weight


def arcs_of(edges: EdgeArrays) -> tuple[Any, Any, Any]:
    """Return the arcs of undirected edges: the edges, then the reverses, except of self-loops."""
    src, dst, weight = edges.src, edges.dst, edges.weight
    back = np.flatnonzero(src != dst)
    weight = None if weight is None else np.concatenate([weight, weight[back]])
    return np.concatenate([src, dst[back]]), np.concatenate([dst, src[back]]), weight


def gathered(
    blocks: Iterable[Block], base: int, n: int | None, integral: bool = True
) -> tuple[Any, Any, Any]:
    """Check and narrow lines of two vertex numbers, from ``base`` on, and an optional weight.

    Parameters
    ----------
    blocks : iterable of Block
        With two or three columns, consumed block by block.
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
        got = len(block.values)
        left = block.scanner.rows_left(block.start, got)
        for column, values in zip(ends, vertices(block, (0, 1), base, n), strict=True):
            column.add(values, left)
        for k in range(2, block.values.shape[1]):
            weight.add(narrow(block.values[:, k]), left)
    none = np.empty(0, np.int32 if integral else np.float64)
    return ends[0].finish(none), ends[1].finish(none), weight.finish(none)


class Growing:
    """An array that is filled part by part; the expected size is allocated at once.

    Parameters
    ----------
    dtype : dtype, optional
        By default that of the first part; a part with a wider dtype widens the array.
    """

    def __init__(self, dtype: np.dtype[Any] | None) -> None:
        self.dtype = dtype
        self.array: NDArray[Any] | None = None
        self.size = 0

    def add(self, values: NDArray[Any], left: int) -> None:
        """Append values; ``left`` more are expected."""
        dtype = np.result_type(values.dtype, self.dtype or values.dtype)
        end = self.size + len(values)
        if self.array is None:
            self.array = np.empty(end + left + left // 64, dtype)
        elif dtype != self.array.dtype:
            self.array = self.array.astype(dtype)
        if end > len(self.array):
            self.array.resize(end + left + left // 64 + end // 16, refcheck=False)
        self.dtype = dtype
        self.array[self.size : end] = values
        self.size = end

    def finish(self, none: NDArray[Any]) -> NDArray[Any]:
        """Return the appended values, or ``none`` if there are none; ends the use."""
        if self.array is None:
            return none if self.dtype is None else none.astype(self.dtype)
        self.array.resize(self.size, refcheck=False)
        return self.array


def vertices(block: Block, columns: tuple[int, int], base: int, n: int | None) -> Any:
    """Check two columns of vertex numbers; return them as int32, counting from 0.

    ``n`` is the number of vertices, or None if the file does not contain it.
    """
    last = (MAX_VERTICES if n is None else n) + base - 1
    for k in columns:
        values = block.values[:, k]
        wrong = (values < base) | (values > last)
        if wrong.any():
            row = int(wrong.argmax())
            found = f"vertex {int(values[row])} is out of range"
            block.fail(row, f"{found}: vertices are {base} to {last}")
    return tuple((block.values[:, k] - base).astype(np.int32) for k in columns)


def narrow(weight: NDArray[Any]) -> NDArray[Any]:
    """Convert integers to int32 if all fit; other weights are unchanged."""
    if weight.dtype == np.int64:
        low, high = int(weight.min(initial=0)), int(weight.max(initial=0))
        return weight.astype(np.int32) if low >= -(2**31) and high < 2**31 else weight.copy()
    return np.ascontiguousarray(weight)
