"""Comparison of a sparse matrix with its transpose, by ``transpose.cpp`` if it is large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.runtime.threads import get_num_threads, in_threads
from morph.runtime.toolchain.library import HostLibrary

LEAST = 1 << 21  # entries from which the library is used, though it takes 0.1 s to compile
LEAST_MADE = 1 << 13  # entries from which it is used if it is compiled already
_MOST_PARTS = 8  # each reads all entries

LIBRARY = HostLibrary(
    Path(__file__).with_name("transpose.cpp"), {"morph_is_transpose": "ipppiiiip"}
)


def is_transpose(
    offsets: NDArray[np.int64], dst: NDArray[np.int32], weight: NDArray[Any] | None
) -> bool | None:
    """Return whether a matrix of sorted rows equals its transpose; the order of duplicates matters.

    Returns None if NumPy is faster, as compilation takes longer than it saves, or there is no
    compiler.
    """
    library = LIBRARY.load_if_worthwhile(len(dst), LEAST, LEAST_MADE)
    if library is None or dst.dtype != np.int32 or not dst.flags.c_contiguous:
        return None
    kind, values = "", None
    if weight is not None:
        kind, values = weight.dtype.kind, weight.ctypes.data
        known = kind in "biu" or kind == "f" and weight.itemsize in (4, 8)
        if not known or not weight.dtype.isnative or not weight.flags.c_contiguous:
            return None
    size, n = 0 if weight is None else weight.itemsize, len(offsets) - 1
    parts = min(get_num_threads(), _MOST_PARTS)
    cut = np.searchsorted(offsets, np.linspace(0, len(dst), parts + 1).astype(np.int64))
    cut[0], cut[-1] = 0, n
    cursor = np.empty(n, np.int64)
    matrix = n, offsets.ctypes.data, dst.ctypes.data, values, size, kind == "f"
    at = cursor.ctypes.data
    differ: list[int] = []

    def compare(k: int, end: int) -> None:
        if not library.morph_is_transpose(*matrix, int(cut[k]), int(cut[end]), at):
            differ.append(k)

    in_threads(compare, parts, reads_all=True)
    return not differ
