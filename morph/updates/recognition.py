"""Arguments of `Graph.apply` that the fast path and batches of one change take."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from morph.data.column import ColumnView
from morph.data.layout import Column
from morph.graph.gapped import DELETED, INSERTED, UPDATED, weight_of
from morph.language.dtypes import ID_LIMIT
from morph.runtime.arrays import lost_integer
from morph.runtime.device import Array, is_host

if TYPE_CHECKING:
    from morph.graph import Graph

# by the itemsize of a float: integers up to this magnitude are exact; its largest finite value;
# by the type's character: the least and the largest integer that a column takes
EXACT = {2: 1 << 11, 4: 1 << 24, 8: 1 << 53}
INTEGERS = {c: (np.iinfo(c).min, np.iinfo(c).max) for c in "bhilqBHILQ"}
INTEGERS |= {c: (-EXACT[np.dtype(c).itemsize], EXACT[np.dtype(c).itemsize]) for c in "efd"}
LARGEST = {
    2: float(np.finfo(np.float16).max),
    4: float(np.finfo(np.float32).max),
    8: float(np.finfo(np.float64).max),
}
ONE = ((1,), ())  # shapes of arrays of one element that count as a number
Change = tuple[int, int, int, bool, Any]
"""Outcome; the edge's id and 0, or its ends; whether ends name an existing edge; weight or 0."""

Part = tuple[Array, Array | None, Array | None]
"""Ids, or ends; weights."""


class FastBatch(NamedTuple):
    """A batch whose arguments have forms that the fast path can validate on the device."""

    parts: tuple[Part | None, Part | None, Part | None]  # deletes, updates, inserts
    counts: tuple[int, int, int]
    by: int  # which are named by their ends: DELETED, UPDATED


def recognise(g: Graph, inserts: Any, deletes: Any, updates: Any) -> FastBatch | None:
    """Parse the arguments of `Graph.apply`; None if the slow path has to check them."""
    weight = g.edges.columns.get("weight")
    if weight is not None and weight_of(g.edges) is None:
        return None
    deleted = updated = inserted = None
    by = 0
    if deletes is not None:
        deleted = _ends(g, deletes) if type(deletes) is tuple else _one(g, deletes)
        if deleted is None:
            return None
        by |= DELETED if deleted[1] is not None else 0
    if updates is not None:
        if weight is None or type(updates) is not tuple or len(updates) not in (2, 3):
            return None
        updated = _ends(g, updates[:2]) if len(updates) == 3 else _one(g, updates[0])
        updated = _weighted(g, updated, updates[-1], weight)
        if updated is None:
            return None
        by |= UPDATED if updated[1] is not None else 0
    if inserts is not None:
        if type(inserts) is not tuple and isinstance(inserts, Mapping):
            if not {"src", "dst"} <= inserts.keys() <= {"src", "dst", "weight"}:
                return None
            inserts = tuple(inserts[c] for c in ("src", "dst", "weight") if c in inserts)
        if type(inserts) is not tuple or not 2 <= len(inserts) <= 2 + (weight is not None):
            return None
        inserted = _ends(g, inserts[:2])
        if weight is not None:
            given = inserts[2] if len(inserts) > 2 else weight.fill
            inserted = _weighted(g, inserted, given, weight, many=True)
        if inserted is None:
            return None
    counts = _count(deleted), _count(updated), _count(inserted)
    return FastBatch((deleted, updated, inserted), counts, by) if sum(counts) else None


def _count(part: Part | None) -> int:
    return 0 if part is None else int(part[0].size)


def _one(g: Graph, x: Any) -> Part | None:
    a = _integers(g, x)
    return None if a is None else (a, None, None)


def _ends(g: Graph, x: Any) -> Part | None:
    if len(x) != 2:
        return None
    a, b = _integers(g, x[0]), _integers(g, x[1])
    mismatched = a is None or b is None or a.size != b.size or is_host(a) != is_host(b)
    return None if mismatched else (a, b, None)


def _array(g: Graph, x: Any) -> Array:
    """One dimension, on the host or on the graph's device; None of anything else."""
    if type(x) is not ndarray:
        if isinstance(x, ColumnView):
            x = x.array
        elif isinstance(x, int | float | list | range | np.generic):
            try:
                x = np.asarray(x)
            except ValueError:  # rows of different lengths
                return None
        if type(x) is not ndarray and type(x) is not g.device.xp.ndarray:
            return None
    return x if x.ndim == 1 else x.reshape(1) if x.ndim == 0 else None


def _integers(g: Graph, x: Any) -> Array:
    a = _array(g, x)
    return a if a is not None and a.dtype.kind in "iu" and a.dtype.isnative else None


def _weighted(
    g: Graph, part: Part | None, x: Any, column: Column, many: bool = False
) -> Part | None:
    """Weights, as the column has them: one for each, or, if ``many``, a number for all."""
    if part is None or (a := _array(g, x)) is None:
        return None
    if a.size != part[0].size and not (many and isinstance(x, int | float | np.generic)):
        return None
    if not many and is_host(a) != is_host(part[0]):
        return None
    if a.dtype == column.dtype and not (a.dtype.kind == "f" and isinstance(x, list)):
        return part[0], part[1], a
    if not (is_host(a) and a.dtype.isnative and a.dtype.kind in "iuf"):
        return None
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            b = a.astype(column.dtype)
        fine = np.isfinite(b).all()
        if a.dtype.kind != "f" or isinstance(x, list):
            fine = fine and lost_integer(a, b.dtype.type, x) is None
    else:
        b = a.astype(column.dtype) if a.dtype.kind in "iu" else a
        fine = b is not a and (np.can_cast(a.dtype, b.dtype) or (b == a).all())
    return (part[0], part[1], b) if fine else None


# --- one change ----------------------------------------------------------------------------------


def integer(x: Any) -> int | None:
    """The integer that an argument is, or that its only element is; None if it is another value."""
    if type(x) is ndarray:
        if x.shape not in ONE or x.dtype.kind not in "iu":
            return None
        x = x.item()
    elif type(x) is not int:
        if not isinstance(x, np.integer):
            return None
        x = x.item()
    return x if -ID_LIMIT <= x <= ID_LIMIT else None


def weight_in(x: Any, dtype: Any) -> Any:
    """A weight as a Python number; None if a column of the dtype cannot hold it exactly."""
    if type(x) is ndarray:
        own = x.dtype
        if x.shape not in ONE or own.kind not in "iuf":
            return None
        if own is dtype or own == dtype:
            return x.item()
        x = x.item()
    elif isinstance(x, np.integer | np.floating):
        x = x.item()
    if type(x) is int:
        low, high = INTEGERS[dtype.char]
        return x if low <= x <= high else None
    if type(x) is not float or dtype.kind != "f":
        return None
    return x if isfinite(x) and abs(x) <= LARGEST[dtype.itemsize] else None


def recognise_single(
    inserts: Any, deletes: Any, updates: Any, weight: Column | None
) -> Change | None:
    """The only change of a batch; None if there are several or none, or its form is unknown."""
    if inserts is not None:
        single = deletes is None and updates is None and type(inserts) is tuple
        return _insert(inserts, weight) if single else None
    b: int | None = 0
    if updates is not None:
        if deletes is not None or weight is None:
            return None
        if type(updates) is not tuple or not 2 <= len(updates) <= 3:
            return None
        a, given, by_ends = integer(updates[0]), weight_in(updates[-1], weight.dtype), False
        if len(updates) == 3:
            b, by_ends = integer(updates[1]), True
        if a is None or b is None or given is None:
            return None
        return UPDATED, a, b, by_ends, given
    if type(deletes) is not tuple:
        a = integer(deletes)
        return None if a is None else (DELETED, a, 0, False, 0)
    if len(deletes) != 2:
        return None
    a, b = integer(deletes[0]), integer(deletes[1])
    return None if a is None or b is None else (DELETED, a, b, True, 0)


def _insert(given: tuple[Any, ...], column: Column | None) -> Change | None:
    weight = 0
    if len(given) == 3 and column is not None:
        first, second, weight = given
        weight = weight_in(weight, column.dtype)
    elif len(given) == 2:
        first, second = given
        if column is not None:
            weight = weight_in(column.fill, column.dtype)
    else:
        return None
    a, b = integer(first), integer(second)
    return None if a is None or b is None or weight is None else (INSERTED, a, b, False, weight)
