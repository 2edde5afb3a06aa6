"""Host values on their way into columns: conversion and checks, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from morph.data.column import ColumnView
from morph.data.layout import Column
from morph.data.protocols import StoreLike, TableLike
from morph.data.row import Row, as_id
from morph.language.dtypes import ID_LIMIT, NAMES, Spec
from morph.language.messages import shown
from morph.runtime.arrays import (
    Array,
    all_true,
    any_true,
    gpu_array,
    is_host,
    on_device_of,
    refuse_masked,
    refuse_rounded,
)
from morph.runtime.device import device_of

FEW_IDS = 1 << 12  # that are copied in order to be checked at once


def column_from(name: str, spec: Spec, fill: Any) -> Column:
    """Make a column; ``fill`` None is 0, or no row for a reference."""
    value = spec.dtype.type(-1 if spec.ref else 0)
    column = Column(name, spec.dtype, spec.size, spec.ref, value)
    if fill is None:
        if spec.size:
            column.fill = np.full(spec.size, value)
        return column
    where = f"fill of {shown(name)}"
    given = cast(raw(fill, column, spec.table, where), column, ID_LIMIT, where)
    shape = (spec.size,) if spec.size else ()
    if given.shape not in ((), shape):
        raise ValueError(f"{where}: has shape {given.shape}, a row holds {shape}")
    column.fill = given[()]
    if spec.size:
        column.fill = np.ascontiguousarray(np.broadcast_to(column.fill, (spec.size,)))
    return column


def raw(value: Any, column: Column, target: StoreLike | None, where: str) -> Array:
    """Convert an array-like object to an array on its device, rows to ids; check the type.

    Raises
    ------
    TypeError
        If the type cannot be stored in the column: complex numbers or objects, reals in integers,
        numbers other than 0 and 1 in booleans.
    """
    if isinstance(value, ColumnView):
        a = value.array
    elif not is_host(value):
        a = gpu_array(value)
    else:
        if column.ref and (value is None or isinstance(value, (Row, list, tuple))):
            value = _ids(value, target, where)
        refuse_masked(value, where)
        a = np.asarray(value)
        if a.dtype.kind in "fO" and column.dtype.kind in "iu":
            a = _big(value, a, column, where)
        elif a.dtype.kind == "f" == column.dtype.kind:
            refuse_rounded(a, where, column.dtype.type, value)
    kind, to = a.dtype.kind, column.dtype.kind
    fits = a.dtype.newbyteorder("=") in NAMES and (
        kind == to
        or to == "f"
        or (to in "iu" and kind in "iub" and not (column.ref and kind == "b"))
        or (to == "b" and kind in "iu" and all_true((a == 0) | (a == 1)))
    )
    if not fits and a.size:
        raise TypeError(f"{where}: cannot store {a.dtype} values as {column!r}")
    return a


def _big(value: Any, a: Array, column: Column, where: str) -> Array:
    """Convert Python integers above 2^63, which NumPy converts to reals or objects."""
    exact = np.asarray(value, object)
    if not all(type(v) is int for v in exact.flat):
        return a
    info = np.iinfo(column.dtype)
    for v in exact.flat:
        if not info.min <= v <= info.max and not column.ref:
            raise OverflowError(f"{where}: {shown(v)} does not fit {column!r}")
    return a if column.ref and a.size else exact.astype(column.dtype)


def _ids(value: Any, target: StoreLike | None, where: str) -> Any:
    """Replace rows and None in nested lists by ids."""
    if isinstance(value, (list, tuple)):
        if all(type(v) is int for v in value):
            return value
        return [_ids(v, target, where) for v in value]
    if isinstance(value, (Row, type(None))):
        return as_id(value, target, where)
    return value


def cast(a: Array, column: Column, rows: int, where: str) -> Array:
    """Convert to the column's type; references must be -1 or below ``rows``.

    Raises
    ------
    ValueError
        If a reference is out of range, or an integer would lose digits as a real.
    OverflowError
        If an integer does not fit, or a finite number would become infinite.
    """
    if column.ref:
        check_ids(a, rows, where, column.ref, lowest=-1)
    return _as_type(a, column, where)


def _as_type(a: Array, column: Column, where: str) -> Array:
    """Convert to the column's type, see `cast`; references have been checked."""
    if a.dtype == column.dtype:
        return a
    if column.ref:
        with on_device_of(a):
            return a.astype(column.dtype, copy=False)
    if column.dtype.kind == "f":
        refuse_rounded(a, where, column.dtype.type)
    with on_device_of(a):
        if column.dtype.kind in "iu" and a.size and not np.can_cast(a.dtype, column.dtype):
            info = np.iinfo(column.dtype)
            low, high = int(a.min()), int(a.max())
            if low < info.min or high > info.max:
                value = low if low < info.min else high
                raise OverflowError(f"{where}: {shown(value)} does not fit {column!r}")
        elif column.dtype.kind == "f" and a.size and not np.can_cast(a.dtype, column.dtype):
            return _real(a, column, where)
        return a.astype(column.dtype, copy=False)


def _real(a: Array, column: Column, where: str) -> Array:
    """Convert to a float of less range; refuse finite numbers that become infinite."""
    with np.errstate(over="ignore"):
        made = a.astype(column.dtype)
    if bool(abs(made).max() == np.inf) or any_true(made != made):  # with NaN the maximum is NaN
        beyond = (abs(made) == np.inf) & (abs(a) != np.inf)
        if any_true(beyond):
            value = a[beyond].reshape(-1)[:1]
            raise OverflowError(f"{where}: {value[0].item()} does not fit {column!r}")
    return made


def check_ids(a: Array, rows: int, where: str, table: str, lowest: int = 0) -> None:
    """Require ``lowest <= a < rows``; the error names the first invalid id and its position."""
    if a.size == 0:
        return
    with on_device_of(a):
        _check_range(a, rows, where, table, lowest)


class IdCheck(NamedTuple):
    """The arguments of `check_ids`."""

    a: Array
    rows: int
    where: str
    table: str
    lowest: int = 0


def check_all_ids(checks: Sequence[IdCheck]) -> None:
    """Check several arrays of ids as `check_ids` does; those of a GPU by one wait."""
    there = [c for c in checks if not is_host(c.a) and c.a.size]
    if len(there) > 1 and len({device_of(c.a) for c in there}) == 1:
        ends = device_of(there[0].a).extremes(*(c.a for c in there))
        if all(
            low >= c.lowest and high < c.rows for (low, high), c in zip(ends, there, strict=True)
        ):
            checks = [c for c in checks if is_host(c.a)]
    for c in checks:
        check_ids(*c)


def _check_range(a: Array, rows: int, where: str, table: str, lowest: int) -> None:
    quick = lowest == 0 or (lowest == -1 and a.ndim and a.size <= FEW_IDS)
    if quick and is_host(a) and a.dtype.kind == "i" and a.dtype.isnative and a.itemsize >= 4:
        # negative ids are large as unsigned integers; beyond the last number is the least one
        above = a - a.dtype.type(lowest) if lowest else a
        if int(above.view(f"u{a.dtype.itemsize}").max()) < rows - lowest:
            return
    else:
        ((low, high),) = device_of(a).extremes(a)
        if low >= lowest and high < rows:
            return
    if a.ndim == 0:
        raise ValueError(f"{where} = {int(a)} is not a row of {table} ({rows} rows)")
    signed = a.astype(np.int64)  # unsigned ids do not compare with -1; huge ones become negative
    bad = ((signed < lowest) | (signed >= rows)).nonzero()
    at = tuple(int(axis[0]) for axis in bad)
    position = ", ".join(map(str, at))
    raise ValueError(f"{where}[{position}] = {int(a[at])} is not a row of {table} ({rows} rows)")


def check_alive(target: TableLike, a: Array, where: str, unless: Array | None = None) -> None:
    """Refuse ids of deleted rows, except where ``unless`` holds; -1 is no row.

    Raises
    ------
    ValueError
        Names the first deleted row and its position.
    """
    if not target.deletes or not a.size:
        return
    lost = (a >= 0) & (target.hidden("dead")[a] != 0)
    if unless is not None:
        lost = lost & ~unless
    if any_true(lost):
        k = int(lost.argmax())
        at = f"[{k}]" if lost.ndim else ""
        raise ValueError(f"{where}{at} = {int(a.reshape(-1)[k % a.size])} is a deleted point")


def converted(store: StoreLike, column: Column, value: Any) -> Array:
    """Check ``value``, and convert it to an array of the column's type on its device."""
    where = f"{store.name}.{column.name}"
    target = store.target(column) if column.ref else None
    return cast(raw(value, column, target, where), column, reference_limit(target), where)


def bind(store: StoreLike, values: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Match one row's positional values with columns in order, and its named ones by name."""
    if len(values) > len(store.columns):
        raise TypeError(f"{store.name} has {len(store.columns)} columns, not {len(values)}")
    bound = dict(zip(store.columns, values, strict=False))
    for name, value in named.items():
        if name not in store.columns:
            raise TypeError(store.no_column(name))
        if name in bound:
            raise TypeError(f"column {shown(name)} of {store.name} is given twice")
        bound[name] = value
    for name, value in bound.items():
        if isinstance(value, (list, tuple)) and not store.columns[name].size:
            raise ValueError(f"{store.name}.{name} holds one value a row, not {shown(value)}")
    return bound


def prepare(
    store: StoreLike, n: int | None, given: Mapping[str, Any], fresh: int | None = None
) -> tuple[int, dict[str, Array]]:
    """Check and convert the columns of ``n`` rows (None: the length of the arrays).

    ``fresh`` of the rows (None: all) have new ids, which references may use.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If columns are unknown, lengths differ, or values do not fit.
    """
    arrays, lengths, out = {}, {}, {}
    for name, value in given.items():
        if name not in store.columns:
            raise TypeError(store.no_column(name))
        column = store.columns[name]
        if (found := _unchecked_number(value, column)) is not None:
            out[name] = found
            continue
        where = f"{store.name}.{name}"
        a = raw(value, column, store.target(column) if column.ref else None, where)
        inner = (column.size,) if column.size else ()
        if a.shape == (0,):
            a = a.reshape(0, *inner)
        if a.ndim and a.shape != inner and a.shape[1:] != inner:
            raise ValueError(f"{where}: shape {a.shape} does not end in {inner}")
        if a.ndim > len(inner):
            lengths[name] = int(a.shape[0])
        arrays[name] = a
    if n is None:
        if not lengths:
            raise TypeError(f"{store.name}: give the number of rows, or an array of them")
        n = next(iter(lengths.values()))
    if n < 0:
        raise ValueError(f"{store.name}: {n} rows cannot be added")
    for name, length in lengths.items():
        if length != n:
            raise ValueError(f"{store.name}.{name} has {length} values for {shown(n)} rows")
    if arrays:
        out |= _converted_all(store, arrays, n if fresh is None else fresh)
    return n, out


def _converted_all(store: StoreLike, arrays: Mapping[str, Array], fresh: int) -> dict[str, Array]:
    """Check ranges, of references together, and convert; references may use ``fresh`` new rows."""
    checks = []
    for name, a in arrays.items():
        if ref := store.columns[name].ref:
            target = store.target(store.columns[name])
            rows = reference_limit(target) + (fresh if target is store else 0)
            checks.append(IdCheck(a, rows, f"{store.name}.{name}", ref, -1))
    if checks:
        check_all_ids(checks)
    return {n: _as_type(a, store.columns[n], f"{store.name}.{n}") for n, a in arrays.items()}


def _unchecked_number(value: Any, column: Column) -> Any:
    """A Python number in a column's type, where no check is needed; else None."""
    kind, dtype = type(value), column.dtype
    if column.ref or kind not in (int, float):
        return None
    if dtype.kind == "f":
        fits = dtype.itemsize == 8 and (kind is float or abs(value) < 1 << 53)
    else:
        fits = dtype.kind in "iu" and kind is int and 0 <= value < 1 << 8 * dtype.itemsize - 1
    return dtype.type(value) if fits else None


def reference_limit(target: TableLike | None) -> int:
    """Number of rows that references may denote."""
    return ID_LIMIT if target is None else len(target)
