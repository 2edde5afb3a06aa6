"""Formatting of tables of numbers: integers in columns, doubles in their shortest exact form.

Compiled code formats large tables; NumPy produces the same bytes for small tables and without a
compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.text import numbers

_ROWS = 1 << 17  # rows formatted at once


def format_rows(columns: Sequence[NDArray[Any]], prefix: bytes = b"") -> Iterator[Any]:
    """Yield the lines of a table.

    Integers are padded to the widest one of their column.  Doubles are written like ``repr``, so
    that reading restores the same bits.

    Parameters
    ----------
    columns : sequence of (n,) arrays
        Integer or floating point.
    prefix : bytes
        Begins each line.
    """
    rows = len(columns[0]) if columns else 0
    integers = all(c.dtype.kind in "iub" for c in columns)
    large = rows * len(columns) * 8 >= numbers.LEAST
    for start in range(0, rows, _ROWS):
        part = [c[start : start + _ROWS] for c in columns]
        made = _compiled_lines(part, prefix, integers) if large else None
        if made is None:
            made = _integer_lines(part, prefix) if integers else _mixed_lines(part, prefix)
        yield made


def _compiled_lines(columns: Sequence[NDArray[Any]], prefix: bytes, integers: bool) -> Any:
    if any(c.dtype == np.uint64 for c in columns):
        return None
    widths = [_width(c) if integers else 0 for c in columns]
    wide = [
        c.astype(np.int64 if c.dtype.kind in "iub" else np.float64, copy=False) for c in columns
    ]
    return numbers.lines(wide, widths, prefix)


def _width(values: NDArray[Any]) -> int:
    """Digits of the largest magnitude, plus 1 if any value is negative."""
    low, high = int(values.min()), int(values.max())
    return len(str(max(-low, high))) + (low < 0)


def _integer_lines(columns: Sequence[NDArray[Any]], prefix: bytes) -> bytes:
    rows = len(columns[0])
    blank = np.full((rows, 1), 32, np.uint8)
    pieces = [np.broadcast_to(np.frombuffer(prefix, np.uint8), (rows, len(prefix)))]
    for k, column in enumerate(columns):
        pieces += [blank, digits(column)] if k else [digits(column)]
    pieces.append(np.full((rows, 1), 10, np.uint8))
    return np.concatenate(pieces, axis=1).tobytes()


def digits(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Right-aligned decimal digits, shape ``(n, width)``."""
    unsigned = values.dtype.kind == "u"
    left = values.astype(np.uint64) if unsigned else np.abs(values.astype(np.int64)).view(np.uint64)
    negative = values < 0
    width = _width(values)
    if int(left.max()) < 2**31:
        left = left.astype(np.uint32)
    out = np.full((len(values), width), 32, np.uint8)
    for k in range(width - 1, -1, -1):
        tens = left // 10
        digit = (left - tens * 10 + 48).astype(np.uint8)
        if k < width - 1:
            minus = np.where(negative & (out[:, k + 1] >= 48), np.uint8(45), np.uint8(32))
            digit = np.where(left > 0, digit, minus)
        out[:, k] = digit
        left = tens
    return out


def _mixed_lines(columns: Sequence[NDArray[Any]], prefix: bytes) -> bytes:
    rows, width = len(columns[0]), len(columns)
    flat: list[Any] = [None] * (rows * width)
    for k, column in enumerate(columns):
        # a float32 keeps its value as a double; tolist gives Python numbers, whose repr is exact
        flat[k::width] = column.tolist()
    line = prefix.decode() + " ".join(["%r"] * width) + "\n"
    return ((line * rows) % tuple(flat)).encode()


def counted(rows: NDArray[Any], base: int) -> NDArray[np.int64]:
    """Row numbers from ``base`` on, as a column."""
    return np.arange(base, base + len(rows))


def check_finite(**arrays: NDArray[Any]) -> None:
    """Reject numbers that are not finite, which readers do not accept.

    Raises
    ------
    ValueError
        With the array's name and the first such number.
    """
    for name, values in arrays.items():
        wrong = ~np.isfinite(values)
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            place = "".join(f"[{k}]" for k in at)
            raise ValueError(f"{name}{place} is {values[at]}: files hold finite numbers only")
