"""Reductions over a column, by a built-in operation or a function, and rows of extreme values."""

from __future__ import annotations

from typing import Any

from morph.data.column import ColumnView
from morph.data.row import Row
from morph.data.table import Table
from morph.language.messages import shown
from morph.launch.foreach import Function, foreach, kernel, program
from morph.launch.slots import in_parts
from morph.operators.values import values_of

NO_ROW = 2**31 - 1
REDUCTIONS = ("sum", "prod", "min", "max", "any", "all")


@kernel
def fold(r: Any, values: Any, f: Any, half: Any) -> None:
    """Combine a value of the first half with the value ``half`` rows later."""
    if r.id < half and r.id + half < len(values):
        r.x = f(r.x, values[r.id + half].x)


def check_operator(op: Any) -> None:
    """Refuse an argument that is neither the name of a reduction nor a `func`.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(op, str) and op not in REDUCTIONS:
        raise ValueError(f"op: no reduction {shown(op)}; there are {', '.join(REDUCTIONS)}")
    if not isinstance(op, str | Function):
        raise TypeError(f"op is the name of a reduction or a func, not {shown(op)}")


def reduce(column: Any, op: str | Function) -> Any:
    """Combine the values of a column over the live rows.

    Parameters
    ----------
    column : ColumnView or array
        A column, as in ``g.points.x``, or numbers; a function takes only scalar columns.
    op : {"sum", "prod", "min", "max", "any", "all"} or Function
        An operation, or an associative, commutative ``@func`` of two values, with their type.

    Returns
    -------
    scalar, or array of shape (size,) for a vector column
        A NumPy scalar, of NumPy's result type: sums of small integers are int64.  A function
        combines in the same order on every device.

    Raises
    ------
    ValueError
        If ``op`` is unknown, or the column is empty and ``op`` has no neutral element.
    """
    check_operator(op)
    where, live, _ = values_of(column, vectors=isinstance(op, str))
    n = len(live)
    if isinstance(op, str):
        if n == 0 and op in ("min", "max"):
            raise ValueError(f"the {op} of {_name(column)} over no rows")
        with where.active():
            return where.to_host(getattr(live, op)(axis=0))[()]
    if n == 0:
        raise ValueError(f"{column!r} is empty, and {shown(op)} has no neutral element")
    while n > 1:
        half = -(-n // 2)
        values = Table("values", where, capacity=n, x=live.dtype)
        values.extend(x=live[:n])
        foreach(values, fold, values, op, half)
        live, n = values.x.array, half
    return where.to_host(live[:1])[0]


@kernel
def least(found: Any, rows: Any, value: Any, *more: Any) -> None:
    """Set ``found.value`` to the minimum with ``value(row, *more)``."""
    low = found.value
    for r in rows:
        low = min(low, value(r, *more))
    found.value = low


@kernel
def largest(found: Any, rows: Any, value: Any, *more: Any) -> None:
    """Set ``found.value`` to the maximum with ``value(row, *more)``."""
    high = found.value
    for r in rows:
        high = max(high, value(r, *more))
    found.value = high


@kernel
def first_of_value(found: Any, rows: Any, value: Any, *more: Any) -> None:
    """Set ``found.row_id`` to the first row whose value is ``found.value``."""
    extreme, first = found.value, found.row_id
    for r in rows:
        first = min(first, r.id if value(r, *more) == extreme else NO_ROW)
    found.row_id = first


@program
def find_least(found: Any, rows: Any, value: Any, *more: Any) -> None:
    """Find the first row with the smallest ``value(row, *more)``, in a program.

    ``found`` is `Scalars` with ``value``, initially larger than all values, and ``row_id``, which
    receives the id of the row, or `NO_ROW` if there are no rows.
    """
    found.row_id = NO_ROW
    foreach(found, least, rows, value, *more)
    foreach(found, first_of_value, rows, value, *more)


@program
def find_largest(found: Any, rows: Any, value: Any, *more: Any) -> None:
    """Like `find_least` for the largest value; ``found.value`` is initially below all values."""
    found.row_id = NO_ROW
    foreach(found, largest, rows, value, *more)
    foreach(found, first_of_value, rows, value, *more)


def argmin(column: Any) -> Any:
    """Return the first live row with the smallest value in a column.

    Parameters
    ----------
    column : ColumnView or array
        A scalar column, as in ``g.points.x``, or numbers.  NaN is smaller than all numbers.

    Returns
    -------
    Row, or int for an array
        The other columns are its attributes: ``morph.argmin(g.points.x).y``.

    Raises
    ------
    ValueError
        If there are no rows.
    """
    return _extreme(column, "argmin")


def argmax(column: Any) -> Any:
    """Return the first live row with the largest value in a column; NaN is the largest."""
    return _extreme(column, "argmax")


def _extreme(column: Any, op: str) -> Any:
    where, live, rows = values_of(column)
    if len(live) == 0:
        raise ValueError(f"the {op} of {_name(column)} over no rows")
    with where.active():
        found = getattr(live, op)()
        found = int(where.to_host(found if rows is None else rows[found]))
    if in_parts(column):
        return column.table[found]
    if not isinstance(column, ColumnView):
        return found
    return Row(column.store, column.store.span()[0] + found)


def _name(column: Any) -> str:
    named = isinstance(column, ColumnView)
    return f"{column.store.name}.{column.column.name}" if named else "an array"
