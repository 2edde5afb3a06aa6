"""Fast parsing and formatting of tables of numbers: ``numbers.cpp``, compiled, on all cores.

Without a compiler, and for irregular input, NumPy is used with the same results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.runtime.threads import in_threads
from morph.runtime.toolchain.library import HostLibrary

LEAST = 1 << 21  # smaller inputs are not worth a second of compilation
_WIDEST = 26  # characters of a number and a blank

_REAL, _INT64, _INTEGRAL_REAL, _INT32 = range(4)  # `Kind` of numbers.cpp

_POINTER = ctypes.c_void_p


LIBRARY = HostLibrary(
    Path(__file__).with_name("numbers.cpp"),
    {
        "morph_part": "",
        "morph_rows": "",
        "morph_writes": "",
        "morph_lines": "piiip",
        "morph_parse": "piiipiipppwp",
        "morph_ragged": "piiippp",
        "morph_arcs": "piipp",
        "morph_format": "iiiippppsiipp",
        "morph_write_ragged": "iippipipppp",
        "morph_join": "ippp",
    },
)


def library(*defines: str) -> Any:
    """Return the compiled library, or None if it cannot be compiled.

    ``MORPH_PLAIN`` among ``defines`` avoids the C++ standard library.
    """
    return LIBRARY.load(*defines)


def parse(
    data: Any,
    pos: int,
    rows: int | None,
    groups: Sequence[Sequence[bool]],
    end: int | None = None,
    letter: bytes = b"",
    narrow: bool = False,
    into: Sequence[NDArray[Any]] | None = None,
) -> tuple[list[NDArray[Any]], int] | None:
    """Read lines of numbers.

    Parameters
    ----------
    data : bytes, bytearray or mmap
        Text without comments.
    pos : int
        Offset of the first line.
    rows : int or None
        Number of non-blank lines; None for all.
    groups : sequence of sequence of bool
        Consecutive columns that make one array each: whether each column contains integers.
    end : int, optional
        End offset of the last line; ``rows`` is then an upper bound.
    letter : bytes
        A letter that begins each line, followed by a blank.
    narrow : bool
        Read integers of 32 bits; larger ones are irregular.
    into : sequence of (at least ``rows``, columns) array, optional
        The arrays to fill, of the dtypes below.

    Returns
    -------
    values : list of (rows, columns) array
        For each group: int64 or int32 if all its columns are integers, else float64.
    pos : int
        End offset of the last line.

    Returns None if the text is short or irregular, or there is no compiler.
    """
    length = (len(data) if end is None else end) - pos
    if len(data) < LEAST or length <= 0 or rows == 0:  # the last part of a long text may be short
        return None
    made = library()
    if made is None:
        return None
    begin = np.frombuffer(data, np.uint8).ctypes.data + pos
    parts = -(-length // made.morph_part())
    counts = np.empty(parts, np.int64)
    counted = counts.ctypes.data
    in_threads(lambda k, end: made.morph_lines(begin, length, k, end, counted), parts)
    total = int(counts.sum())
    rows = total if rows is None else rows
    rows = rows if end is None else min(rows, total)
    if rows > total or rows == 0:
        return None
    values = arrays(rows, groups, narrow) if into is None else [a[:rows] for a in into]
    columns = [
        (_kind(integer, a.dtype), a[:, k])
        for group, a in zip(groups, values, strict=True)
        for k, integer in enumerate(group)
    ]
    out = (_POINTER * len(columns))(*(column.ctypes.data for _, column in columns))
    kinds = np.array([kind for kind, _ in columns], np.uint8)
    strides = np.array([column.strides[0] for _, column in columns], np.int64)
    first = np.cumsum(counts) - counts
    behind = np.zeros(parts, np.int64)
    starts, ends = first.ctypes.data, behind.ctypes.data
    of_kinds, steps = kinds.ctypes.data, strides.ctypes.data
    irregular: list[int] = []

    def read(k: int, end: int) -> None:
        if not irregular and made.morph_parse(
            begin, length, k, end, starts, rows, len(columns), of_kinds, out, steps,
            ord(letter or b"\0"), ends,
        ):  # fmt: skip
            irregular.append(k)

    in_threads(read, parts)
    return None if irregular else (values, pos + int(behind.max()))


def arrays(rows: int, groups: Sequence[Sequence[bool]], narrow: bool) -> list[NDArray[Any]]:
    """Allocate the arrays that `parse` returns."""
    integers = np.int32 if narrow else np.int64
    return [np.empty((rows, len(g)), integers if all(g) else np.float64) for g in groups]


def _kind(integer: bool, dtype: np.dtype[Any]) -> int:
    """Return the `Kind` of a column in numbers.cpp."""
    if dtype.kind == "f":
        return _INTEGRAL_REAL if integer else _REAL
    return _INT32 if dtype.itemsize == 4 else _INT64


def lines(columns: Sequence[NDArray[Any]], widths: Sequence[int], prefix: bytes) -> Any:
    """Format the rows of a table.

    Parameters
    ----------
    columns : sequence of (n,) int64 or float64 arrays
    widths : sequence of int
        Minimum width of integers; 0 for doubles.
    prefix : bytes
        Begins each line.

    Returns
    -------
    bytes-like, or None
        Same text as `morph.io.text.rows.format_rows`; None if there is no compiler, or its library
        cannot format doubles.
    """
    rows = len(columns[0])
    made = library()
    reals = [c for c in columns if c.dtype.kind == "f"]
    if made is None or (reals and not made.morph_writes()):
        return None
    if not all(np.isfinite(c).all() for c in reals):
        return None
    data = (_POINTER * len(columns))(*(c.ctypes.data for c in columns))
    strides = np.array([c.strides[0] for c in columns], np.int64)
    integral = np.array([c.dtype.kind != "f" for c in columns], np.uint8)
    wide = np.array(widths, np.int32)
    row_bytes = len(prefix) + _WIDEST * len(columns)
    size = made.morph_rows()
    parts = -(-rows // size)
    lengths = np.empty(parts, np.int64)
    place = np.arange(parts) * (size * row_bytes)
    out = np.empty(rows * row_bytes, np.uint8)
    steps, whole, padded = strides.ctypes.data, integral.ctypes.data, wide.ctypes.data
    written, to = lengths.ctypes.data, out.ctypes.data

    def write(k: int, end: int) -> None:
        made.morph_format(
            rows, k, end, len(columns), data, steps, whole, padded, prefix, len(prefix), row_bytes,
            written, to,
        )  # fmt: skip

    in_threads(write, parts)
    return out[: made.morph_join(parts, place.ctypes.data, lengths.ctypes.data, to)].data


def ragged(
    data: Any, start: int, stop: int
) -> tuple[list[NDArray[np.int32]], NDArray[np.int32]] | None:
    """Read lines of any number of integers; lines that begin with ``%`` are left out.

    Parameters
    ----------
    data : bytes or mmap
    start, stop : int
        Offsets of the first line, and of the end of the last one.

    Returns
    -------
    numbers : list of int32 array
        The integers, in pieces of whole lines.
    words : int32 array
        How many integers each line has.

    Returns None if an integer does not fit 32 bits or is irregular, or there is no compiler.
    """
    length = stop - start
    made = library() if length else None
    if made is None:
        return None
    begin = np.frombuffer(data, np.uint8).ctypes.data + start
    parts = -(-length // made.morph_part())
    read, words = np.empty(length // 2 + 2, np.int32), np.empty(length + 1, np.int32)
    sizes = np.empty((parts, 2), np.int64)
    pointers = read.ctypes.data, words.ctypes.data, sizes.ctypes.data
    irregular: list[int] = []

    def scan(k: int, end: int) -> None:
        if not irregular and made.morph_ragged(begin, length, k, end, *pointers):
            irregular.append(k)

    in_threads(scan, parts)
    if irregular:
        return None
    starts = [0] * parts  # of the first line of each part
    for k in range(1, parts):
        found = data.find(b"\n", start + k * made.morph_part() - 1, stop)
        starts[k] = length if found < 0 else found + 1 - start
    numbers = [read[(at + 1) // 2 :][: sizes[k, 0]] for k, at in enumerate(starts)]
    return numbers, np.concatenate([words[at:][: sizes[k, 1]] for k, at in enumerate(starts)])


def split_arcs(
    pieces: Sequence[NDArray[np.int32]], n: int, ends: NDArray[np.int32], weights: Any
) -> bool:
    """Split the numbers of `ragged` into ends of arcs, from 0, and weights; they are filled.

    Parameters
    ----------
    pieces : sequence of int32 array
        An end, from 1, for each arc, and, with ``weights``, the arc's weight.
    n : int
        Number of vertices.
    ends, weights : int32 array
        Without weights None.

    Returns
    -------
    bool
        Whether all ends are vertices.
    """
    made, each = library(), 1 if weights is None else 2
    first = np.cumsum([0] + [len(x) // each for x in pieces])
    wrong: list[int] = []

    def split(k: int, end: int) -> None:
        for i in range(k, end):
            place = slice(first[i], first[i + 1])
            of_arcs = None if weights is None else weights[place].ctypes.data
            arcs = len(pieces[i]) // each
            if not made.morph_arcs(
                pieces[i].ctypes.data, arcs, n, ends[place].ctypes.data, of_arcs
            ):
                wrong.append(i)

    in_threads(split, len(pieces))
    return not wrong


def ragged_lines(
    offsets: NDArray[np.int64], leads: NDArray[np.int64], entries: Sequence[NDArray[np.int64]]
) -> Any:
    """Format a line for each row: its leads, then the numbers of its entries.

    Parameters
    ----------
    offsets : (n + 1,) int64 array
        Of the entries of each row, from 0.
    leads : (n, k) int64 array
    entries : sequence of (m,) int64 arrays

    Returns
    -------
    bytes-like, or None
        None if there is no compiler.  No number may be negative.
    """
    made = library()
    if made is None:
        return None
    rows, lead = leads.shape
    largest = max((int(a.max()) for a in (leads, *entries) if a.size), default=0)
    width = len(str(largest)) + 1  # characters of a number and a blank
    before = lead * np.arange(rows + 1) + len(entries) * offsets  # numbers
    step = max(int(before[-1]) // made.morph_rows(), 1)
    cut = np.searchsorted(before, np.linspace(0, before[-1], step + 1).astype(np.int64))
    cut[0], cut[-1] = 0, rows
    place = width * before[cut] + cut
    out, lengths = np.empty(int(place[-1]), np.uint8), np.empty(step, np.int64)
    columns = (_POINTER * len(entries))(*(a.ctypes.data for a in entries))
    pointers = cut.ctypes.data, offsets.ctypes.data, leads.ctypes.data
    behind = place.ctypes.data, lengths.ctypes.data, out.ctypes.data

    def write(k: int, end: int) -> None:
        cuts, of_rows, of_leads = pointers
        made.morph_write_ragged(
            k, end, cuts, of_rows, lead, of_leads, len(entries), columns, *behind
        )

    in_threads(write, step)
    return out[: made.morph_join(step, *behind)].data
