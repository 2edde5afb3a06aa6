"""Reductions over a column: the built-in ones, and any associative function of the language."""

from __future__ import annotations

from typing import Any

from morph.data.collection import reduce_column
from morph.data.column import ColumnView
from morph.data.table import Table
from morph.launch.foreach import Function, foreach, kernel


@kernel
def fold(r: Any, values: Any, f: Any, half: Any) -> None:
    """Combine a value of the first half with the one that stands as far into the second."""
    if r.id < half and r.id + half < len(values):
        r.x = f(r.x, values[r.id + half].x)


def reduce(column: ColumnView, op: str | Function) -> Any:
    """Combine the values of a column over the live rows.

    Parameters
    ----------
    column : ColumnView
        A scalar column, as in ``g.points.x``.
    op : {"sum", "prod", "min", "max", "any", "all"} or Function
        Or a ``@func`` of two values, associative and commutative, that gives one of their type.

    Returns
    -------
    scalar
        A NumPy scalar.  A function combines in the same order on every device.

    Raises
    ------
    ValueError
        If the column is empty and ``op`` has no neutral element.
    """
    if isinstance(op, str):
        return reduce_column(column, op)
    store = column.store
    live = column.array[store.alive] if isinstance(store, Table) and store.deletes else column.array
    n = len(live)
    if n == 0:
        raise ValueError(f"{column!r} is empty, and {op!r} has no neutral element")
    while n > 1:
        half = -(-n // 2)
        values = Table("values", store.device, capacity=n, x=column.dtype)
        values.extend(x=live[:n])
        foreach(values, fold, values, op, half)
        live, n = values.x.array, half
    return store.device.to_host(live[:1])[0]
