"""Memory layout of the columns of a store: separate arrays, or records of several columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from morph.language.dtypes import NAMES
from morph.runtime.device import Array, Device

SECTOR = 32  # bytes of a memory sector of a GPU
_computing = RLock()  # held while the memory of a record is computed


class Place:
    """Where the values of a column are.  Most launches need the address only, so no array is made.

    Attributes
    ----------
    address : int
        Of the first value.
    """

    __slots__ = ("_array", "_buffer", "_device", "_offset", "_rows", "address")

    def __init__(self, device: Device, buffer: Array, base: int, offset: int, rows: int) -> None:
        self._device, self._buffer, self._offset, self._rows = device, buffer, offset, rows
        self.address = base + offset
        self._array: Array = None

    @classmethod
    def of(cls, device: Device, array: Array) -> Place:
        """The place of an array that is the memory of a column."""
        place = cls(device, array, device.pointer(array), 0, len(array))
        place._array = array
        return place

    def view(self, column: Column) -> Array:
        """The memory as an array of a column's rows."""
        if self._array is None:
            self._array = strided_rows(
                self._device, column, self._buffer, self._offset, column.stride, self._rows
            )
        return self._array


class LazyPlace(Place):
    """The place of a column whose record may have no memory yet."""

    __slots__ = ("_record",)

    def __init__(self, device: Device, record: Record, rows: int) -> None:
        self._device, self._record, self._offset, self._rows = device, record, 0, rows
        self._array: Array = None

    @property
    def address(self) -> int:  # type: ignore[override]
        """The address of the first value."""
        return self._device.pointer(self._record.buffer)

    def view(self, column: Column) -> Array:
        """The memory as an array of a column's rows."""
        self._buffer = self._record.buffer
        return super().view(column)


def strided_rows(
    device: Device, column: Column, buffer: Array, offset: int, stride: int, rows: int
) -> Array:  # fmt: skip
    """View bytes as the rows of a column."""
    shape = (rows, column.size) if column.size else (rows,)
    strides = (stride, column.dtype.itemsize)[: len(shape)]
    return device.strided(buffer, offset, shape, column.dtype, strides)


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
        The value of new rows.
    stride : int
        Bytes from one row to the next.
    place : Place or None
        The memory; growth replaces it.
    """

    name: str
    dtype: np.dtype[Any]
    size: int
    ref: str | None
    fill: Any
    stride: int = 0
    place: Place | None = None

    @property
    def array(self) -> Array:
        """The memory as an array, shape (capacity,) or (capacity, size)."""
        return None if self.place is None else self.place.view(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the values in one row."""
        return max(self.size, 1) * int(self.dtype.itemsize)

    def __repr__(self) -> str:
        kind = f"Ref({self.ref!r})" if self.ref else NAMES[self.dtype]
        return f"{self.name}: {kind}" + (f"[{self.size}]" if self.size else "")


@dataclass(slots=True, eq=False)
class Record:
    """Memory of one column, or of several interleaved columns.

    Attributes
    ----------
    spare : int
        The offset of 8 unused bytes, or -1.
    memory : array of uint8, or function that returns an array
        The function is called when `buffer` is used first.
    """

    names: tuple[str, ...]
    offsets: tuple[int, ...]
    stride: int
    packed: bool
    spare: int = -1
    memory: Array | Callable[[], Array] = None

    @property
    def is_computed(self) -> bool:
        """Whether the memory exists."""
        return not callable(self.memory)

    @property
    def buffer(self) -> Array:
        """The memory as bytes."""
        if callable(self.memory):
            with _computing:
                if callable(self.memory):  # else another thread has computed it
                    self.memory = self.memory().view(np.uint8)
        return self.memory

    @buffer.setter
    def buffer(self, memory: Array) -> None:
        self.memory = memory

    def view(self, device: Device, column: Column, buffer: Array) -> Array:
        """Return a view of ``column`` in ``buffer``, over the whole capacity."""
        rows = buffer.size // self.stride
        offset = self.offset(column.name)
        return strided_rows(device, column, buffer, offset, self.stride, rows)

    def offset(self, name: str) -> int:
        """The offset of column ``name`` in a row, in bytes."""
        return self.offsets[self.names.index(name)]

    def spares(self, device: Device, buffer: Array) -> Array:
        """Return the unused 8 bytes of each row in ``buffer`` as an array of uint64."""
        rows = buffer.size // self.stride
        return device.strided(buffer, self.spare, (rows,), np.dtype(np.uint64), (self.stride,))


def record(columns: Sequence[Column], packed: bool) -> Record:
    """Lay out a record of one or more columns.

    A record's values are aligned to their size; the record is rounded up to a power of two, or
    above 32 bytes to whole sectors, so that no row of up to 32 bytes straddles two sectors.
    """
    if not packed:
        (column,) = columns
        return Record((column.name,), (0,), column.nbytes, packed=False)
    order = sorted(columns, key=lambda c: -c.dtype.itemsize)  # widest first: no padding in between
    offsets, end = [], 0
    for c in order:
        offsets.append(end)
        end += c.nbytes
    stride = 1 << (end - 1).bit_length() if end <= SECTOR else -(-end // SECTOR) * SECTOR
    spare = -(-end // 8) * 8
    if spare + 8 > stride:
        spare = -1
    return Record(tuple(c.name for c in order), tuple(offsets), stride, packed=True, spare=spare)
