"""Fast parsing and formatting of clauses: ``clauses.cpp``, compiled once, on all cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text.growing import Growing
from morph.io.text.scanner import PIECE, release
from morph.runtime.threads import in_threads
from morph.runtime.toolchain.library import HostLibrary

LEAST = 1 << 21  # bytes from which the library is used, though it takes a second to compile
LEAST_MADE = 1 << 15  # bytes from which it is used if it is compiled already

_FIELDS = 4  # numbers that describe a part

LIBRARY = HostLibrary(
    Path(__file__).with_name("clauses.cpp"),
    {
        "morph_part": "",
        "morph_clauses": "",
        "morph_scan": "piiiiwpp",
        "morph_gather": "piiipppppp",
        "morph_write": "iiipppp",
        "morph_join": "ippp",
    },
)


def is_worth(length: int) -> bool:
    """Whether a text of this many bytes is read faster by the library than by Python."""
    return LIBRARY.load_if_worthwhile(length, LEAST, LEAST_MADE) is not None


def library() -> Any:
    """Return the compiled library, or None if it cannot be compiled."""
    return LIBRARY.load()


def parse(
    data: Any, pos: int, variables: int, strict: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], int, int] | None:
    """Read clauses, in pieces of whole lines.

    Parameters
    ----------
    data : bytes or mmap
    pos : int
        Offset of the first line.
    variables : int
        The largest valid variable.
    strict : bool
        Comments must begin their line; ``%`` and plus signs are invalid.

    Returns
    -------
    offsets : (m + 1,) int64 array
    literals : (l,) int32 array
        Including literals after the last 0.
    stop : int
        Offset of a ``%``, which ends the text, or -1.
    invalid : int
        Offset of the first word that is neither a number nor a comment, or -1.

    Returns None if there is no compiler.
    """
    made = library()
    if made is None:
        return None
    all_offsets, all_literals = Growing(np.dtype(np.int64)), Growing(np.dtype(np.int32))
    all_offsets.add(np.zeros(1, np.int64), 0)
    stop = invalid = -1
    start = pos
    while start < len(data) and stop < 0 and invalid < 0:
        end = data.find(b"\n", start + PIECE) + 1 or len(data)
        offsets, literals, stop, invalid = _piece(made, data, start, end, variables, strict)
        release(data, start, end)
        left = len(data) - end
        all_offsets.add(offsets + all_literals.size, left * len(offsets) // (end - start))
        all_literals.add(literals, left * len(literals) // (end - start))
        start = end
    none = np.empty(0, np.int32)
    return all_offsets.finish(none), all_literals.finish(none), stop, invalid


def _piece(
    made: Any, data: Any, pos: int, end: int, variables: int, strict: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], int, int]:
    """Read the lines between two offsets like `parse`; the first offset, 0, is left out."""
    length = end - pos
    begin = np.frombuffer(data, np.uint8).ctypes.data + pos
    parts = -(-length // made.morph_part())
    found = np.empty(length // 2 + 2, np.int32)
    parts_info = np.zeros((parts, _FIELDS), np.int64)
    pointers = found.ctypes.data, parts_info.ctypes.data
    in_threads(
        lambda k, to: made.morph_scan(begin, length, k, to, variables, strict, *pointers), parts
    )
    ends = np.flatnonzero((parts_info[:, 2:] >= 0).any(axis=1))
    stop = invalid = -1
    if ends.size:
        parts_info = parts_info[: ends[0] + 1]
        stop, invalid = (int(x) + pos if x >= 0 else -1 for x in parts_info[-1, 2:])
    parts_info = np.ascontiguousarray(parts_info)
    zeros, count = parts_info[:, 1], parts_info[:, 0] - parts_info[:, 1]
    at, clause = np.cumsum(count) - count, np.cumsum(zeros) - zeros
    literals = np.empty(int(count.sum()), np.int32)
    offsets = np.zeros(int(zeros.sum()) + 1, np.int64)
    arrays = found, parts_info, at, clause, literals, offsets
    where = [array.ctypes.data for array in arrays]
    in_threads(lambda k, to: made.morph_gather(begin, length, k, to, *where), len(parts_info))
    return offsets[1:], literals, stop, invalid


def lines(offsets: NDArray[np.int64], literals: NDArray[np.int32]) -> Any:
    """Format clauses, one per line; bytes-like, or None if there is no compiler."""
    made = library()
    if made is None:
        return None
    clauses = len(offsets) - 1
    out = np.empty(12 * len(literals) + 2 * clauses, np.uint8)
    parts = -(-clauses // made.morph_clauses())
    lengths = np.empty(parts, np.int64)
    where = [array.ctypes.data for array in (offsets, literals, lengths, out)]
    in_threads(lambda k, end: made.morph_write(clauses, k, end, *where), parts)
    return out[: made.morph_join(parts, where[0], *where[2:])].data
