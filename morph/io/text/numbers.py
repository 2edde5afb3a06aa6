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
        *(_POINTER, ctypes.c_int32, ctypes.c_int32, _POINTER),
    ]  # fmt: skip
    found.morph_parse.restype = _INT
    found.morph_format.argtypes = [
        _INT, _INT, *[_POINTER] * 4, ctypes.c_char_p, _INT, _INT, _POINTER, _POINTER,
    ]  # fmt: skip
    found.morph_format.restype = _INT
    return found


def parse(
    data: bytes | bytearray,
    pos: int,
    rows: int | None,
    integral: Sequence[bool],
    end: int | None = None,
    letter: bytes = b"",
) -> tuple[NDArray[Any], int] | None:
    """Read lines of numbers.

    Parameters
    ----------
    data : bytes or bytearray
        Text without comments.
    pos : int
        Offset of the first line.
    rows : int or None
        Number of non-blank lines; None for all.
    integral : sequence of bool
        Whether each column contains integers.
    end : int, optional
        End offset of the last line; ``rows`` is then an upper bound.
    letter : bytes
        A letter that begins each line, followed by a blank.

    Returns
    -------
    values : (rows, columns) array
        int64 if all columns are integers, else float64; columns are contiguous.
    pos : int
        End offset of the last line.

    Returns None if the text is short or irregular, or there is no compiler.
    """
    length = (len(data) if end is None else end) - pos
    if length < max(LEAST, 1) or rows == 0:
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
    flags = np.array(integral, np.uint8)
    values: NDArray[Any] = np.empty(
        (rows, len(integral)), np.int64 if all(integral) else np.float64, order="F"
    )
    first = np.cumsum(counts) - counts
    behind = made.morph_parse(
        begin, length, parts, first.ctypes.data, rows, len(integral),
        flags.ctypes.data, values.dtype.kind == "f", ord(letter or b"\0"), values.ctypes.data,
    )  # fmt: skip
    return None if behind < 0 else (values, pos + behind)


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
