"""Prefix sums, of any associative operation, on the host and as steps of a program.

A program also selects rows by a prefix sum of the condition (`compact_rows`).

A scan of ``n`` values has three levels with parts of about ``n ** (1 / 3)`` values: items scan
parts of the values, then parts of the totals of these parts; one item scans the totals of these;
finally each value is combined with the total of all values before its part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from morph.data.column import ColumnView
from morph.data.table import Table
from morph.language.arguments import boolean, check_type
from morph.language.messages import shown
from morph.launch.foreach import Function, foreach, func, kernel, program
from morph.operators.reduce import check_operator
from morph.operators.values import values_of
from morph.runtime.device import Array, Device


@func
def smaller(a, b):
    """Return the smaller of two values."""
    return min(a, b)


@func
def larger(a, b):
    """Return the larger of two values."""
    return max(a, b)


FUNCTIONS = {"min": smaller, "all": smaller, "max": larger, "any": larger}


class Scan(NamedTuple):
    """A column to scan in a program, and memory for its partial results; made by `scan_space`."""

    rows: Any  # its table
    x: Any
    totals: Any  # of parts of the column, then of parts of these
    partial: Any  # the column of `totals`
    width: int  # of a part


@func
def scan_range(x, begin, end, f):
    """Scan the values from ``begin`` to ``end`` in place, sequentially, and return the last."""
    total = x[begin]
    for i in range(begin + 1, end):
        total = f(total, x[i])
        x[i] = total
    return total


@kernel
def scan_part(t, x, count, first, width, f):
    """Scan a part of the values; the last is the total of the part."""
    begin = (t.id - first) * width
    t.x = scan_range(x, begin, min(begin + width, count), f)


@kernel
def scan_last(t, x, end, f):
    """Scan the totals of parts of totals, sequentially."""
    scan_range(x, t.id, end, f)


@kernel
def add_before(r, x, partial, parts, width, f):
    """Combine a value with the total of all values before its part."""
    part = r.id // width
    if part > 0:
        before = partial[part - 1]
        above = (part - 1) // width
        if above > 0:
            before = f(partial[parts + above - 1], before)
        x[r] = f(before, x[r])


@program
def scan_first(s, n, f):
    """Scan the values of the first ``n`` rows, at most all, as `scan_column` does."""
    width = s.width
    parts = (n + width - 1) // width
    end = parts + (parts + width - 1) // width
    while end > len(s.totals):  # rows were added since `scan_space`
        width *= 2
        parts = (n + width - 1) // width
        end = parts + (parts + width - 1) // width
    foreach(s.totals[:parts], scan_part, s.x, n, 0, width, f)
    foreach(s.totals[parts:end], scan_part, s.partial, parts, parts, width, f)
    foreach(s.totals[parts : min(parts + 1, end)], scan_last, s.partial, end, f)
    foreach(s.rows[:n], add_before, s.x, s.partial, parts, width, f)


@program
def scan_column(s, f):
    """Scan a column in place, including the values of deleted rows; ``s`` is a `Scan`."""
    scan_first(s, len(s.rows), f)


def scan_space(column: ColumnView) -> Scan:
    """Allocate the memory of `scan_column`; it remains valid if the table grows."""
    check_type(column, "column", "ColumnView")
    n, width = max(column.store.capacity, 1), 16
    while width**3 < n:
        width *= 2
    parts = -(-n // width)
    totals = Table("totals", column.store.device, x=column.dtype)
    totals.extend(parts + -(-parts // width))
    return Scan(column.store, column, totals, totals.x, width)


class Compact(NamedTuple):
    """A table whose rows a program selects, and memory; made by `compact_space`."""

    rows: Any
    order: Any  # the ids of the rows that are selected, in order
    places: Any  # its table, with as many rows as `rows`
    counts: Scan  # of the number of selected rows up to each row


@func
def plus(a, b):
    """Add two values."""
    return a + b


@kernel
def clear_count(r):
    """Select no row."""
    r.count = 0


@kernel
def select(r, count, wanted, *more):
    """Select a row if ``wanted(row, *more)`` is true."""
    if wanted(r, *more):
        count[r.id] = 1


@kernel
def enter(r, order):
    """Write the id of a selected row to the position given by its count."""
    before = 0
    if r.id > 0:
        before = order[r.id - 1].count
    if r.count > before:
        order[before].order = r.id


@program
def compact_rows(s, wanted, *more):
    """Write the ids of the live rows for which ``wanted(row, *more)`` is true to ``s.order``.

    The ids are in increasing order; the result is their number.  ``s`` is a `Compact`; rows added
    after `compact_space` are excluded.
    """
    n = len(s.places)
    foreach(s.places, clear_count)
    foreach(s.rows[:n], select, s.counts.x, wanted, *more)
    scan_column(s.counts, plus)
    foreach(s.places, enter, s.places)
    found = 0
    if n > 0:
        found = s.places[n - 1].count
    return found


def compact_space(rows: Table) -> Compact:
    """Allocate the memory of `compact_rows` for a table."""
    check_type(rows, "rows", "Table")
    places = Table("places", rows.device, order=np.int32, count=np.int32)
    places.extend(len(rows))
    return Compact(rows, places.order, places, scan_space(places.count))


def scan(column: Any, op: str | Function = "sum", *, exclusive: bool = False) -> Array:
    """Combine each value with all values before it.

    Parameters
    ----------
    column : ColumnView or array
        A scalar column, as in ``g.points.x``, or numbers; deleted rows are excluded.
    op : {"sum", "prod", "min", "max", "any", "all"} or Function
        An operation, or an associative ``@func`` of two values, with their type.
    exclusive : bool
        Exclude the value of each row itself: the first row has the neutral element.

    Returns
    -------
    array, shape (len(column),)
        On the device of the column, of the result type of `reduce`; 0 for deleted rows.

    Raises
    ------
    ValueError
        If ``op`` is unknown, if the values are not numbers, or if ``op`` is a function, which has
        no neutral element, and ``exclusive`` is true.
    """
    exclusive = boolean(exclusive, "exclusive")
    where, values, rows = values_of(column)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"a scan takes numbers, not an array of {values.dtype}")
    check_operator(op)
    if exclusive and not isinstance(op, str):
        raise ValueError(f"{shown(op)} has no neutral element, so its scan is not exclusive")
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
        by_row = where.zeros(len(column), found.dtype)
        by_row[rows] = found
        return by_row


def _scanned(where: Device, values: Array, f: Function) -> Array:
    """Scan an array by a function."""
    rows = Table("values", where, capacity=len(values), x=values.dtype)
    rows.extend(x=values)
    scan_column(scan_space(rows.x), f)
    return rows.x.array


def _neutral(op: str, dtype: Any) -> Any:
    """Return the neutral element of an operation."""
    if op in ("sum", "prod", "any", "all"):
        return op in ("prod", "all")
    if dtype.kind == "f":
        return np.inf if op == "min" else -np.inf
    if dtype.kind == "b":
        return op == "min"
    info = np.iinfo(dtype)
    return info.max if op == "min" else info.min
