"""Repairs by ``repair=True``, and their warnings.

Vertices with the same coordinates are merged into the first of them, clockwise triangles are
reoriented, triangles with a repeated corner, duplicate triangles and duplicate segments are
dropped.  Everything else remains an error, since its repair would be ambiguous.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from morph.io.text.scanner import Block
from morph.language.messages import shortened
from morph.mesh import RepairWarning as RepairWarning
from morph.mesh.mesh import Ints


def report(block: Block, rows: NDArray[np.int64], message: str) -> None:
    """Warn of repairs at ``rows`` of a block; the message is about the first."""
    more = f" (and {len(rows) - 1} more like it)" if len(rows) > 1 else ""
    where = f"{block.scanner.path}:{block.line(int(rows[0]))}"
    warnings.warn(shortened(f"{where}: {message}{more}"), RepairWarning, stacklevel=2)


def merged(pairs: NDArray[np.int64], count: int) -> tuple[NDArray[np.bool_], Ints]:
    """Merge later rows into earlier ones.

    Parameters
    ----------
    pairs : (k, 2) int64 array
        Earlier and later row, as `morph.mesh.validation.repeated_points` gives them.
    count : int
        Number of rows.

    Returns
    -------
    kept : (count,) bool array
        Rows that remain.
    rows : (count,) int32 array
        New index of each row.
    """
    first = np.arange(count)
    first[pairs[:, 1]] = pairs[:, 0]
    while (first[first] != first).any():
        first = first[first]
    kept = first == np.arange(count)
    return kept, (np.cumsum(kept) - 1).astype(np.int32)[first]


def first_twins(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find rows that equal an earlier row.

    Parameters
    ----------
    keys : (n,) or (n, k) int64 array

    Returns
    -------
    later, earlier : (d,) int64 arrays
        These rows in order, and the first row equal to each.
    """
    none = np.empty(0, np.int64)
    if len(keys) == 0:
        return none, none
    if keys.ndim == 1:
        ordered = np.sort(keys)  # much faster than an argsort
        if not (ordered[1:] == ordered[:-1]).any():
            return none, none
    columns = keys.reshape(len(keys), -1)
    order = np.lexsort(columns.T)  # stable: equal rows stay in order
    sorted_rows = columns[order]
    new = np.ones(len(keys), bool)
    new[1:] = (sorted_rows[1:] != sorted_rows[:-1]).any(axis=1)
    first = np.empty(len(keys), np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    later = np.flatnonzero(first != np.arange(len(keys)))
    return later, first[later]
