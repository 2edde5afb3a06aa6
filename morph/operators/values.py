"""Operands of the operators of the host: the live values of a column, or an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.data.column import ColumnView
from morph.data.table import Table
from morph.language.messages import shown
from morph.runtime.arrays import imported, is_host, listed, refuse_masked
from morph.runtime.device import Array, Device, device_of


def values_of(x: Any, vectors: bool = False) -> tuple[Device, Array, Array | None]:
    """Return the device of a column or an array, its live values, and their rows.

    Rows are None if all are live, and for an array.  Vector values raise a `ValueError` unless
    ``vectors`` is true.
    """
    rows = None
    if isinstance(x, ColumnView):
        where, found = x.store.device, x.array
        if isinstance(x.store, Table) and x.store.deletes:
            rows = x.store.ids()
            with where.active():
                found = found[rows]
    else:
        refuse_masked(x, "array")
        given, x = x, imported(x)
        where = device_of(x)
        found = where.asarray(np.asarray(listed(x, "array")) if is_host(x) else x)
        if found.dtype.kind == "O" and not found.ndim:
            raise TypeError(
                f"an operator takes a column or an array of numbers, not {shown(given)}"
            )
    if found.ndim != 1 and not vectors:
        raise ValueError(f"an operator takes one value a row, not an array of shape {found.shape}")
    return where, found, rows
