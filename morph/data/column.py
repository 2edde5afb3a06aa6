"""Columns of a store, as accessed by the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.data.layout import Column
from morph.data.protocols import StoreLike
from morph.data.row import Row
from morph.runtime.arrays import refuse_masked
from morph.runtime.backend import PUT_VALUES
from morph.runtime.device import Array, is_host


def is_few(key: Any) -> bool:
    """Whether a key is an array of a few ids, on the host."""
    plain = type(key) is np.ndarray and key.ndim == 1 and key.size <= PUT_VALUES
    return plain and key.dtype.kind in "iu"


def few_places(array: Array, key: Any) -> list[Array] | None:
    """Return the elements that a key selects, if these are few, or contiguous."""
    if isinstance(key, slice):
        return [array[key]]
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        key = np.array([key])
    if not is_few(key) or array.ndim != 1:
        return None
    n, places = len(array), []
    for k in key.tolist():
        if not -n <= k < n:
            raise IndexError(f"index {k} is out of bounds for a column of {n} rows")
        k %= n
        places.append(array[k : k + 1])
    return places


class ColumnView(NDArrayOperatorsMixin):
    """A view of a column over the allocated rows, including dead ones.

    It is read and written like an array, supports arithmetic, and `array` is its memory without a
    copy.  The view looks up the memory at each use.  An array that was taken from it does not: when
    the table has grown, or was compacted or packed, the array refers to the old memory, and writes
    to it do not change the column.
    """

    __slots__ = ("column", "store")

    def __init__(self, store: StoreLike, column: Column) -> None:
        self.store = store
        self.column = column

    @property
    def array(self) -> Array:
        """The memory, shape (len,) or (len, size), without a copy: a NumPy or CuPy array."""
        first, last = self.store.span()
        return self.column.array[first:last]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of one value."""
        return self.column.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(len,), or (len, size) for vectors."""
        return (len(self), self.column.size) if self.column.size else (len(self),)

    @property
    def ndim(self) -> int:
        """1, or 2 for vectors."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of values; each component of a vector counts."""
        return len(self) * max(self.column.size, 1)

    def __reduce__(self) -> Any:
        return _view_of, (self.store, self.column.name)

    def __len__(self) -> int:
        first, last = self.store.span()
        return last - first

    def __getitem__(self, key: Any) -> Any:
        got = self.array[self._key(key)]
        return got if getattr(got, "ndim", 0) else self.store.device.to_host(got)[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.store.assign(self.column, key if is_few(key) else self._key(key), value, self.array)

    def _key(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return tuple(map(self._key, key))
        if isinstance(key, ColumnView):
            key = key.array
        if isinstance(key, Row):
            return key.id - self.store.span()[0]
        if isinstance(key, list) and not key:
            key = np.zeros(0, np.int64)  # an empty list has no integer type of its own
        is_array = isinstance(key, (list, np.ndarray)) or hasattr(key, "__cuda_array_interface__")
        if not is_array:
            return key
        refuse_masked(key, f"indices of {self.store.name}.{self.column.name}")
        return self.store.device.asarray(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__array__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the values as a NumPy array: a view on the host, a copy from a GPU."""
        if copy is False and not is_host(self.column.array):
            raise ValueError("a column on a GPU is not a NumPy array without a copy")
        return np.array(self.store.device.to_host(self.array), dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__cuda_array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x.array if isinstance(x, ColumnView) else x for x in inputs]
        outs = options.get("out", ())
        if any(isinstance(x, ColumnView) for x in outs):
            for x in outs:  # `view += values` writes the column, with all checks
                if isinstance(x, ColumnView) and x.column.ref:
                    return NotImplemented
            options["out"] = tuple(x.array if isinstance(x, ColumnView) else x for x in outs)
        result = getattr(ufunc, method)(*plain, **options)
        return outs[0] if len(outs) == 1 else result

    def __repr__(self) -> str:
        return f"{self.store.name}.{self.column!r} {self.__array__()!r}"


def _view_of(store: StoreLike, column: str) -> ColumnView:
    return ColumnView(store, store.columns[column])
