"""Fast parsing and formatting of tables of numbers: ``numbers.cpp``, compiled, on all cores.

Without a compiler, and for irregular input, NumPy is used with the same results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.runtime.toolchain import BuildError, cpu

LEAST = 1 << 21  # smaller inputs are not worth a second of compilation
_WIDEST = 26  # characters of a number and a blank

_REAL, _INT64, _INTEGRAL_REAL, _INT32 = range(4)  # `Kind` of numbers.cpp

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64


def text() -> str:
    """Return the text of the library."""
    return Path(__file__).with_name("numbers.cpp").read_text(encoding="utf-8")


@cache
def library(*defines: str) -> Any:
    """Return the compiled library, or None if it cannot be compiled.

    ``MORPH_PLAIN`` among ``defines`` avoids the C++ standard library.
    """
    try:
        found = ctypes.CDLL(str(cpu.build(text(), name="numbers", defines=defines)))
    except (BuildError, OSError):
        return None
    found.morph_part.restype = _INT
    found.morph_lines.argtypes = [_POINTER, _INT, _INT, _POINTER]
    found.morph_lines.restype = None
    found.morph_parse.argtypes = [
        *(_POINTER, _INT, _INT, _POINTER, _INT, _INT),
        *(_POINTER, _POINTER, _POINTER, ctypes.c_int32),
    ]  # fmt: skip
    found.morph_parse.restype = _INT
    found.morph_format.argtypes = [
        _INT, _INT, *[_POINTER] * 4, ctypes.c_char_p, _INT, _INT, _POINTER, _POINTER,
    ]  # fmt: skip
    found.morph_format.restype = _INT
    return found


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
    made.morph_lines(begin, length, parts, counts.ctypes.data)
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
    behind = made.morph_parse(
        begin, length, parts, first.ctypes.data, rows, len(columns),
        kinds.ctypes.data, out, strides.ctypes.data, ord(letter or b"\0"),
    )  # fmt: skip
    return None if behind < 0 else (values, pos + behind)


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
    lengths = np.empty(rows, np.int64)  # an upper bound of the number of parts
    out = np.empty(rows * row_bytes, np.uint8)
    length = made.morph_format(
        rows, len(columns), data, strides.ctypes.data, integral.ctypes.data, wide.ctypes.data,
        prefix, len(prefix), row_bytes, lengths.ctypes.data, out.ctypes.data,
    )  # fmt: skip
    return out[:length].data
