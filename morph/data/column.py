"""Columns of a store: their place in memory, reading and writing them from the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.data.row import Row
from morph.language.dtypes import NAMES
from morph.runtime.backend import FEW
from morph.runtime.device import Array, Device, is_host

if TYPE_CHECKING:
    from morph.data.store import Store

SECTOR = 32  # bytes the GPU fetches at once


@dataclass(slots=True, eq=False)
class Column:
    """One column of a store.

    Attributes
    ----------
    dtype : numpy.dtype
    size : int
        Values in a row; 0 for a scalar.
    ref : str or None
        Name of the table that the values refer to.
    fill : numpy scalar or array, shape () or (size,)
        What a new row holds.
    stride : int
        Bytes from one row to the next.
    array : array, shape (capacity,) or (capacity, size)
        The memory itself.  Growth replaces it: do not keep it.
    """

    name: str
    dtype: np.dtype[Any]
    size: int
    ref: str | None
    fill: Any
    stride: int = 0
    array: Array = None

    @property
    def nbytes(self) -> int:
        """Bytes of the values in one row."""
        return max(self.size, 1) * int(self.dtype.itemsize)

    def __repr__(self) -> str:
        kind = f"Ref({self.ref!r})" if self.ref else NAMES[self.dtype]
        return f"{self.name}: {kind}" + (f"[{self.size}]" if self.size else "")


@dataclass(slots=True, eq=False)
class Record:
    """Memory that holds one column, or several packed row by row."""

    names: tuple[str, ...]
    offsets: tuple[int, ...]
    stride: int
    packed: bool
    spare: int = -1  # where 8 bytes are left over, if there are
    buffer: Array = None

    def view(self, device: Device, column: Column, buffer: Array) -> Array:
        """Give ``column`` as it lies in ``buffer``, over the whole capacity."""
        rows = buffer.size // self.stride
        offset = self.offset(column.name)
        shape = (rows, column.size) if column.size else (rows,)
        strides = (self.stride, column.dtype.itemsize)[: len(shape)]
        return device.strided(buffer, offset, shape, column.dtype, strides)

    def offset(self, name: str) -> int:
        """How far behind the begin of a row column ``name`` lies."""
        return self.offsets[self.names.index(name)]

    def spares(self, device: Device, buffer: Array) -> Array:
        """Give what is left over in ``buffer``, as a word a row."""
        rows = buffer.size // self.stride
        return device.strided(buffer, self.spare, (rows,), np.dtype(np.uint64), (self.stride,))


def record(columns: Sequence[Column], packed: bool) -> Record:
    """Lay out columns: one alone, or several in a record.

    A record's values are aligned to their size; the record is rounded up to a power of two, or
    above 32 bytes to whole sectors, so that no row of up to 32 bytes straddles two sectors.
    """
    if not packed:
        (column,) = columns
        return Record((column.name,), (0,), column.nbytes, packed=False)
    order = sorted(columns, key=lambda c: -c.dtype.itemsize)  # widest first leaves no holes
    offsets, end = [], 0
    for c in order:
        offsets.append(end)
        end += c.nbytes
    stride = 1 << (end - 1).bit_length() if end <= SECTOR else -(-end // SECTOR) * SECTOR
    spare = -(-end // 8) * 8
    if spare + 8 > stride:
        spare = -1
    return Record(tuple(c.name for c in order), tuple(offsets), stride, packed=True, spare=spare)


def is_few(key: Any) -> bool:
    """Whether a key is an array of a few ids, on the host."""
    plain = type(key) is np.ndarray and key.ndim == 1 and key.size <= FEW
    return plain and key.dtype.kind in "iu"


def few_places(array: Array, key: Any) -> list[Array] | None:
    """Give the places that a key names, if these are few, or lie one after another."""
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
    """A column over the rows in use, dead ones too, always as they are now.

    Reads and writes like an array, takes part in arithmetic, and gives its memory without a copy
    as `array`.  Arrays taken from it keep the memory that they had: after the table grew, is
    compacted or packed anew they are old copies, and writing to them changes nothing.  The view
    itself looks the memory up at every use.
    """

    __slots__ = ("column", "store")

    def __init__(self, store: Store, column: Column) -> None:
        self.store = store
        self.column = column

    @property
    def array(self) -> Array:
        """The memory, shape (len,) or (len, size), without a copy: NumPy's or CuPy's."""
        first, last = self.store.span()
        return self.column.array[first:last]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of one value."""
        return self.column.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(len,), or (len, size) of vectors."""
        return (len(self), self.column.size) if self.column.size else (len(self),)

    @property
    def ndim(self) -> int:
        """1, or 2 of vectors."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many values, vectors counted by their parts."""
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
        is_array = isinstance(key, (list, np.ndarray)) or hasattr(key, "__cuda_array_interface__")
        return self.store.device.asarray(key) if is_array else key

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__array__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Give the values as a NumPy array: a view on the host, a copy of what lies on a GPU."""
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
            for x in outs:  # `view += values` writes the column, with the checks of any write
                if isinstance(x, ColumnView) and x.column.ref:
                    return NotImplemented
            options["out"] = tuple(x.array if isinstance(x, ColumnView) else x for x in outs)
        result = getattr(ufunc, method)(*plain, **options)
        return outs[0] if len(outs) == 1 else result

    def __repr__(self) -> str:
        return f"{self.store.name}.{self.column!r} {self.__array__()!r}"


def _view_of(store: Store, column: str) -> ColumnView:
    return ColumnView(store, store.columns[column])
