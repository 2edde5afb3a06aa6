"""Sorting and filtering of whole tables and collections on the host, and sorting in programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from morph.data.collection import Collection
from morph.data.column import ColumnView
from morph.data.sorting import order_of
from morph.data.table import Table
from morph.data.versions import exclusive
from morph.language.arguments import boolean, check_type
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel, program
from morph.operators.values import values_of
from morph.prelude import i32, i64
from morph.runtime.device import Array

WIDTH = 32  # elements that an item sorts, or merges, sequentially


class Sort(NamedTuple):
    """A column to sort by in a program, and memory for the order; made by `sort_space`."""

    key: Any
    value: Any  # a function of a key: the number to compare
    places: Any  # a table with as many rows as the column's table, and four columns
    order: Any  # the sorted ids
    keys: Any  # their keys
    spare: Any  # a second buffer of each
    spare_keys: Any


@func
def same(x):
    """Return the number: the key is compared itself."""
    return x


@func
def id_of(row):
    """Return the id of a row, -1 for None."""
    return row.id


@func
def is_less(x, y):
    """Whether a number is less than another one; NaN is the largest."""
    return x < y or (y != y and x == x)


@kernel
def sort_part(r, key, value, keys, order, n):
    """Sort `WIDTH` rows by insertion."""
    begin = i64(r.id) * WIDTH
    for i in range(begin, min(begin + WIDTH, n)):
        x = value(key[i])
        k = i
        while k > begin and is_less(x, keys[k - 1]):
            keys[k] = keys[k - 1]
            order[k] = order[k - 1]
            k -= 1
        keys[k] = x
        order[k] = i32(i)


@kernel
def merge_part(r, keys, order, merged_keys, merged, run, n):
    """Compute `WIDTH` elements of two merged runs; a search finds their begin in each run."""
    begin = i64(r.id) * WIDTH
    first = begin // (2 * run) * (2 * run)
    middle = min(first + run, n)
    last = min(middle + run, n)
    before = begin - first  # elements, `low` of which are of the first run
    low, high = max(before - (last - middle), 0), min(before, middle - first)
    while low < high:
        i = (low + high) // 2
        if is_less(keys[middle + before - 1 - i], keys[first + i]):
            high = i
        else:
            low = i + 1
    i = first + low
    j = middle + before - low
    for k in range(begin, min(begin + WIDTH, n)):
        second = i >= middle or (j < last and is_less(keys[j], keys[i]))
        at = j if second else i
        merged_keys[k] = keys[at]
        merged[k] = order[at]
        if second:
            j += 1
        else:
            i += 1


@program
def sort_first(s, n):
    """Sort the ids of the first ``n`` rows, at most those of ``s.places``, as `sort_order` does."""
    run = WIDTH
    parts = (n + WIDTH - 1) // WIDTH
    foreach(s.places[:parts], sort_part, s.key, s.value, s.keys, s.order, n)
    while run < n:
        foreach(s.places[:parts], merge_part, s.keys, s.order, s.spare_keys, s.spare, run, n)
        foreach(s.places[:parts], merge_part, s.spare_keys, s.spare, s.keys, s.order, 2 * run, n)
        run *= 4


@program
def sort_order(s):
    """Sort the ids of a table's rows in ``s.order`` by a column, stably; ``s`` is a `Sort`.

    It sorts the rows that existed at `sort_space`, including deleted ones; NaN is the largest key,
    and references are ordered by id.  It is a merge sort: ``O(n * log(n))`` work for ``n`` rows.
    """
    sort_first(s, min(len(s.places), len(s.key)))


def sort_space(column: ColumnView) -> Sort:
    """Allocate the memory of `sort_order` for a column."""
    check_type(column, "column", "ColumnView")
    kind = column.dtype
    places = Table("places", column.store.device, order=i32, spare=i32, keys=kind, spare_keys=kind)
    places.extend(len(column))
    value = id_of if column.column.ref else same
    buffers = places.order, places.keys, places.spare, places.spare_keys
    return Sort(column, value, places, *buffers)


@kernel
def mark(p, marks):
    """Mark a row, or the position of an entry."""
    marks[p.id].x = True  # race: all write the same


def argsort(keys: Any, *, descending: bool = False) -> Array:
    """Return the rows in the order of their keys; the sort is stable.

    Parameters
    ----------
    keys : ColumnView or array
        A scalar column, as in ``g.points.x``, or numbers; deleted rows are excluded.  NaN is the
        largest.
    descending : bool
        The largest first.

    Returns
    -------
    array of int64, shape (live,)
        On the device of the keys: ids of rows, or positions in a collection or array.
    """
    descending = boolean(descending, "descending")
    where, values, rows = values_of(keys)
    with where.active():
        order = _order(where.xp, values, descending)
        return order if rows is None else rows[order]


def _order(xp: Any, values: Array, descending: bool) -> Array:
    if not descending:
        return order_of(xp, values)
    return (len(values) - 1 - order_of(xp, values[::-1]))[::-1]


def sort(store: Table | Collection, by: Any, *, descending: bool = False) -> None:
    """Sort the rows of a table, or the entries of a collection, stably.

    The ids of a table's rows change, and all references to them in its graph are renumbered.
    Deleted rows are removed, as by `Table.compact`.

    Parameters
    ----------
    store : Table or Collection
    by : str or array, shape (len(store),)
        Name of a scalar column, or a key for each row or entry, as in
        ``sort(items, g.points.x[items.items])``.
    descending : bool
        The largest first.

    Raises
    ------
    TypeError
        If ``store`` is neither a table nor a collection of one device.
    ValueError
        If there is no such column, or not one key for each row.
    """
    descending = boolean(descending, "descending")
    if not isinstance(store, Table | Collection):
        hint = "; argsort takes arrays" if hasattr(store, "dtype") else ""
        raise TypeError(f"sort takes a table or collection on one device, not {shown(store)}{hint}")
    _sort(store, by, descending)


@exclusive
def _sort(store: Table | Collection, by: Any, descending: bool) -> None:
    if isinstance(by, str) and by not in store.columns:
        raise ValueError(store.no_column(by))
    if not isinstance(by, str) and np.ndim(by) == 0:
        raise TypeError(f"by is the name of a column or an array of keys, not {shown(by)}")
    if not isinstance(by, str) and len(by) != len(store):
        raise ValueError(f"{store.name} has {len(store)} rows, but there are {len(by)} keys")
    column = ColumnView(store, store.columns[by]) if isinstance(by, str) else by
    keys = column.array if isinstance(column, ColumnView) else store.device.asarray(by)
    if keys.ndim != 1:
        raise ValueError(f"{store.name} is sorted by one value a row, not of shape {keys.shape}")
    with store.device.active():
        order = _order(store.device.xp, keys, descending)
        if isinstance(store, Collection):
            store._reorder(order)
        else:
            store._renumber(order[store.alive[order]] if store.deletes else order)


def compact(items: Table | Collection, where: Callable[[Any], Any] | Any) -> Collection:
    """Collect the items for which a condition is true, in their order.

    Parameters
    ----------
    items : Table or Collection
        For a table, its live rows.
    where : lambda, Function, or array of bool, shape (len(items),)
        A condition of a row, or entry with columns, as in `foreach`; or a mask.

    Returns
    -------
    Collection
        A collection of the same rows; for a collection, with all its columns.
    """
    if not isinstance(items, Table | Collection):
        raise TypeError(f"compact takes a table or collection on one device, not {shown(items)}")
    return _compact(items, where)


@exclusive
def _compact(items: Table | Collection, where: Any) -> Collection:
    device, (first, last) = items.device, items.span()
    if callable(where):
        plain = isinstance(items, Collection) and [*items.columns] == ["item"]
        listed = items.table if plain else None
        if plain and listed is None:
            raise ValueError(f"the items of {items.name} are not rows: give a mask")
        marks = Table("marks", device, x=np.bool_)
        marks.extend(last if listed is None else len(listed))
        foreach(items, mark, marks, where=where)
        held = marks.x.array
        with device.active():
            held = held[first:] if listed is None else held[items.items]
    else:
        held = device.asarray(where)
        if held.shape != (last - first,) or held.dtype != np.bool_:
            raise ValueError(f"a mask of {items.name} has {last - first} booleans")
    with device.active():
        if isinstance(items, Table):
            held = held & items.alive
            kept = Collection(items)
            kept.extend(device.xp.flatnonzero(held))
            return kept
        kept = items._like()
        kept.extend(**{n: c.array[first:last][held] for n, c in items.columns.items()})
        return kept
