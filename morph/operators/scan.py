"""Prefix totals, of any associative operation, on the host and as steps of a program.

A scan of ``n`` values has three levels of about ``n ** (1 / 3)`` values each (reduce then scan):
each item scans a part of the values, then one of the totals of parts, then one item the totals of
these; at last each value takes what comes before its part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.data.table import Table
from morph.launch.foreach import Function, foreach, func, kernel, program
from morph.operators.reduce import REDUCTIONS
from morph.operators.values import values_of
from morph.runtime.device import Array, Device


@func
def smaller(a, b):
    """Give the lesser of two values."""
    return min(a, b)


@func
def larger(a, b):
    """Give the greater of two values."""
    return max(a, b)


FUNCTIONS = {"min": smaller, "all": smaller, "max": larger, "any": larger}


@func
def scan_range(values, begin, end, f):
    """Scan some values in place, one after another, and give the last."""
    x = values[begin].x
    for i in range(begin + 1, end):
        x = f(x, values[i].x)
        values[i].x = x
    return x


@kernel
def scan_part(s, values, n, width, f):
    """Scan a part of the values; its sum is that of the item."""
    begin = s.id * width
    s.x = scan_range(values, begin, min(begin + width, n), f)


@kernel
def scan_totals(s, totals, parts, width, f):
    """Scan a part of the totals of parts."""
    begin = (s.id - parts) * width
    s.x = scan_range(totals, begin, min(begin + width, parts), f)


@kernel
def scan_last(s, totals, parts, f):
    """Scan the totals of parts of totals."""
    scan_range(totals, parts, len(totals), f)


@kernel
def add_before(r, totals, parts, width, f):
    """Combine a value with all those before its part."""
    part = r.id // width
    if part > 0:
        before = totals[part - 1].x
        above = (part - 1) // width
        if above > 0:
            before = f(totals[parts + above - 1].x, before)
        r.x = f(before, r.x)


@program
def scan_rows(values, totals, parts, width, f):
    """Scan the column ``x`` of all rows in place; see `scan_sizes`."""
    foreach(totals, scan_part, values, len(values), width, f, where=lambda s: s.id < parts)
    foreach(totals, scan_totals, totals, parts, width, f, where=lambda s: s.id >= parts)
    foreach(totals, scan_last, totals, parts, f, where=lambda s: s.id == parts)
    foreach(values, add_before, totals, parts, width, f)


def scan_sizes(n: int) -> tuple[int, int, int]:
    """Give the rows of ``totals``, those of the first level, and the width of a part."""
    width = 16
    while width**3 < n:
        width *= 2
    parts = -(-n // width)
    return parts + -(-parts // width), parts, width


def scan(column: Any, op: str | Function = "sum", *, exclusive: bool = False) -> Array:
    """Combine each value with those before it.

    Parameters
    ----------
    column : ColumnView or array
        A scalar column, as in ``g.points.x``, or numbers; deleted rows are left out.
    op : {"sum", "prod", "min", "max", "any", "all"} or Function
        Or an associative ``@func`` of two values that gives one of their type.
    exclusive : bool
        Leave each row's own value out: row 0 has the neutral element.

    Returns
    -------
    array, shape (len(column),)
        On the device of the column, of the type that `reduce` gives; 0 for deleted rows.

    Raises
    ------
    ValueError
        If ``op`` is unknown, or if it is a function and ``exclusive``: it has no neutral element.
    """
    where, values, rows = values_of(column)
    if isinstance(op, str) and op not in REDUCTIONS:
        raise ValueError(f"no reduction {op!r}; there are {', '.join(REDUCTIONS)}")
    if exclusive and not isinstance(op, str):
        raise ValueError(f"{op!r} has no neutral element, so its scan is not exclusive")
    f = FUNCTIONS.get(op) if isinstance(op, str) else op
    with where.active():
        if f is None:
            dtype = getattr(values[:0], str(op))().dtype
            add_up = where.xp.cumsum if op == "sum" else where.xp.cumprod
            found = add_up(values, dtype=dtype)
        else:
            found = _scanned(where, values != 0 if op in ("any", "all") else values, f)
        if exclusive:
            found[1:] = found[:-1].copy()
            found[:1] = _neutral(str(op), found.dtype)
        if rows is None:
            return found
        spread = where.zeros(len(column), found.dtype)
        spread[rows] = found
        return spread


def _scanned(where: Device, values: Array, f: Function) -> Array:
    """Scan an array by a function."""
    n = len(values)
    if n == 0:
        return values.copy()
    rows = Table("values", where, capacity=n, x=values.dtype)
    rows.extend(x=values)
    size, parts, width = scan_sizes(n)
    totals = Table("totals", where, capacity=size, x=values.dtype)
    totals.extend(size)
    scan_rows(rows, totals, parts, width, f)
    return rows.x.array


def _neutral(op: str, dtype: Any) -> Any:
    """Give the value that changes no other."""
    if op in ("sum", "prod", "any", "all"):
        return op in ("prod", "all")
    if dtype.kind == "f":
        return np.inf if op == "min" else -np.inf
    if dtype.kind == "b":
        return op == "min"
    info = np.iinfo(dtype)
    return info.max if op == "min" else info.min
