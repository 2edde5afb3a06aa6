"""Columns of a store: their place in memory, reading and writing them from the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.device import Array, Device, is_host
from morph.dtypes import ID_LIMIT, NAMES, Spec
from morph.row import Refs, Row, as_id

if TYPE_CHECKING:
    from morph.store import Store

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
    buffer: Array = None

    def view(self, device: Device, column: Column, buffer: Array) -> Array:
        """Give ``column`` as it lies in ``buffer``, over the whole capacity."""
        rows = buffer.size // self.stride
        offset = self.offsets[self.names.index(column.name)]
        shape, strides = ((rows, column.size),) * 2 if column.size else ((rows,),) * 2
        strides = (self.stride, column.dtype.itemsize)[: len(shape)]
        return device.strided(buffer, offset, shape, column.dtype, strides)


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
    return Record(tuple(c.name for c in order), tuple(offsets), stride, packed=True)


def column_from(name: str, spec: Spec, fill: Any, owner: Store | None = None) -> Column:
    """Make a column; ``fill`` None is 0, or no row for a reference."""
    column = Column(name, spec.dtype, spec.size, spec.ref, spec.dtype.type(-1 if spec.ref else 0))
    if fill is not None:
        where = f"fill of {name!r}"
        value = cast(raw(fill, column, spec.table, where), column, ID_LIMIT, where)
        shape = (spec.size,) if spec.size else ()
        if value.shape not in ((), shape):
            raise ValueError(f"{where}: has shape {value.shape}, a row holds {shape}")
        column.fill = value[()]
    if spec.size:
        column.fill = np.ascontiguousarray(np.broadcast_to(column.fill, (spec.size,)))
    return column


def raw(value: Any, column: Column, target: Store | None, where: str) -> Array:
    """Give anything array-like as an array where it lies, rows as their ids; types checked.

    Raises
    ------
    TypeError
        If the values cannot be stored in the column without loss of meaning: complex or objects
        anywhere, reals among integers, numbers other than 0 and 1 among booleans.
    """
    if isinstance(value, ColumnView):
        a = value.array
    elif not is_host(value):
        a = value if hasattr(value, "get") else __import__("cupy").asarray(value)
    else:
        if column.ref and (value is None or isinstance(value, (Row, list, tuple))):
            value = _ids(value, target, where)
        a = np.asarray(value)
    kind, to = a.dtype.kind, column.dtype.kind
    fits = a.dtype.newbyteorder("=") in NAMES and (
        kind == to
        or to == "f"
        or (to in "iu" and kind in "iub" and not (column.ref and kind == "b"))
        or (to == "b" and kind in "iu" and bool(((a == 0) | (a == 1)).all()))
    )
    if not fits and a.size:
        raise TypeError(f"{where}: cannot store {a.dtype} values as {column!r}")
    return a


def _ids(value: Any, target: Store | None, where: str) -> Any:
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
        If a reference is out of range.
    OverflowError
        If an integer does not fit.
    """
    if column.ref:
        check_ids(a, rows, where, column.ref, lowest=-1)
    elif column.dtype.kind in "iu" and a.size and not np.can_cast(a.dtype, column.dtype):
        info = np.iinfo(column.dtype)
        low, high = int(a.min()), int(a.max())
        if low < info.min or high > info.max:
            value = low if low < info.min else high
            raise OverflowError(f"{where}: {value} does not fit {column!r}")
    return a.astype(column.dtype, copy=False)


def check_ids(a: Array, rows: int, where: str, table: str, lowest: int = 0) -> None:
    """Require ``lowest <= a < rows``; the error names the first offender and its position."""
    if a.size == 0 or (int(a.min()) >= lowest and int(a.max()) < rows):
        return
    if a.ndim == 0:
        raise ValueError(f"{where} = {int(a)} is not a row of {table} ({rows} rows)")
    bad = ((a < lowest) | (a >= rows)).nonzero()
    at = tuple(int(axis[0]) for axis in bad)
    position = ", ".join(map(str, at))
    raise ValueError(f"{where}[{position}] = {int(a[at])} is not a row of {table} ({rows} rows)")


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
        return self.column.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), self.column.size) if self.column.size else (len(self),)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return len(self) * max(self.column.size, 1)

    def __len__(self) -> int:
        first, last = self.store.span()
        return last - first

    def __getitem__(self, key: Any) -> Any:
        got = self.array[self._key(key)]
        return got if getattr(got, "ndim", 0) else self.store.device.to_host(got)[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.store.assign(self.column, self._key(key), value, self.array)

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


def read(store: Store, column: Column, row: int) -> Any:
    """One row's value: a NumPy scalar, a view of a vector, or references as rows."""
    if column.ref and column.size:
        return Refs(store, column, row)
    value = column.array[row]
    return value if column.size else store.device.to_host(value)[()]
