"""Edges as every graph file gives them: arrays in the file's own order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text import Block

MAX_VERTICES = 2**31 - 1


@dataclass(frozen=True)
class EdgeArrays:
    """The edges of a file, in its order.

    Attributes
    ----------
    src, dst : (m,) int32 array
        Ends, counting from 0.
    weight : (m,) array or None
        int32, or int64 if some weight needs it, or float64.
    n : int
        Number of vertices.
    undirected : bool
        True if the format says that an edge stands for both arcs.
    """

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    weight: NDArray[Any] | None
    n: int
    undirected: bool = False


def vertices(block: Block, columns: tuple[int, int], base: int, n: int | None) -> Any:
    """Check two columns of vertex numbers; return them as int32, counting from 0.

    ``n`` is the number of vertices, or None if the file does not say.
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
    """Integers as int32 where they fit; others as they are."""
    if weight.dtype == np.int64:
        low, high = int(weight.min(initial=0)), int(weight.max(initial=0))
        return weight.astype(np.int32) if low >= -(2**31) and high < 2**31 else weight.copy()
    return np.ascontiguousarray(weight)
