"""Rows and columns of partitioned tables, as the host sees them: by global ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.data.column import ColumnView
from morph.data.layout import Column
from morph.data.row import HostElements, Row, RowRange
from morph.language.dtypes import ID_LIMIT, Ref
from morph.partition.parts import HostArray

RESERVED = ("local", "on_parts")  # beside the names that every table and collection reserves
F = TypeVar("F", bound=Callable[..., Any])


def observed(read: F) -> F:
    """Wrap a method such that a `checkpoint` records the value that it reads for the host."""

    @wraps(read)
    def run(self: Any, *args: Any) -> Any:
        recorder = self.graph.recorder
        return read(self, *args) if recorder is None else recorder.value(lambda: read(self, *args))

    return run  # type: ignore[return-value]


def refuse_copies() -> NoReturn:
    """Raise an error if a partitioned graph, or an object of one, is to be copied or pickled."""
    raise TypeError(
        "a partitioned graph cannot be copied or pickled: parts.to(device) gives a graph that can"
    )


class OnParts:
    """An object that consists of one object on each part of a graph."""

    __slots__ = ()
    graph: Any
    _copies: Any  # the objects by part, None for a part in another process

    def __reduce__(self) -> Any:
        refuse_copies()

    def local(self, k: int) -> Any:
        """Return the object of part k."""
        found = self._copies[k]
        if found is None:
            raise ValueError(f"part {k} lies in another process")
        return found

    def on_parts(self, kind: Any, *args: Any, **options: Any) -> Any:
        """Make a flag, numbers or a table on each part."""
        return self.graph.on_parts(kind, *args, **options)


class PartitionedRow(Row):
    """One row of a partitioned or replicated table, by its global id.

    Columns are attributes; a vector is read as a copy, which cannot be written.
    """

    __slots__ = ()
    table: Any

    def __init__(self, table: Any, id: int) -> None:
        super().__init__(table, id)

    def __getattr__(self, name: str) -> Any:
        if name not in self.table.columns:
            raise AttributeError(self.table.no_column(name) + _hint_of_edges(name))
        value = self.table._read(name, self.id)
        column = self.table.columns[name]
        if column.ref:
            target = self.table.graph.tables.get(column.ref, range(ID_LIMIT))
            rows = [None if i < 0 else target[int(i)] for i in np.atleast_1d(value)]
            return tuple(rows) if column.size else rows[0]
        if column.size:
            value.flags.writeable = False
            return value.view(HostElements)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.table.columns:
            raise AttributeError(self.table.no_column(name))
        self.table._write(name, self.id, value)

    @property
    def dead(self) -> bool:
        """Whether the row is deleted."""
        return not self.table._has_row(self.id)

    def local(self, k: int) -> Row | None:
        """Return the row of part k, or None if this part has no copy of it."""
        row = self.table._local_row(k, self.id)
        return None if row < 0 else Row(self.table.local(k), row)


def _hint_of_edges(name: str) -> str:
    """The hint of the error for reading edges or neighbours of a row in parts."""
    around = name.endswith(("nbrs", "edges", "degree", "nbr1", "nbr2"))
    return "; its edges: parts.to(device), or a kernel" if around else ""


class PartitionedRange(RowRange):
    """Consecutive rows of a partitioned table: ``parts.points[start:stop]``."""

    __slots__ = ()

    def __iter__(self) -> Iterator[PartitionedRow]:
        return (self.store[i] for i in range(self.start, self.stop))

    def local(self, k: int) -> Any:
        """Return the slice of the part's own rows that belong to this one."""
        first, last = self.store._own_range(k, self.start, self.stop)
        return self.store.local(k)[first:last]


class PartitionedColumn(NDArrayOperatorsMixin):
    """A column of a partitioned or replicated table; reads and writes like a NumPy array.

    All reads are copies.
    """

    __slots__ = ("name", "table")

    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name

    def local(self, k: int) -> ColumnView:
        """Return the column of part k, mirrors included."""
        found: ColumnView = getattr(self.table.local(k), self.name)
        return found

    @property
    def column(self) -> Column:
        """The column's description."""
        found: Column = self.table.columns[self.name]
        return found

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of one value."""
        return self.column.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(len,), or (len, size) of vectors."""
        return (len(self.table), self.column.size) if self.column.size else (len(self.table),)

    @property
    def ndim(self) -> int:
        """1, or 2 of vectors."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of values; a vector counts once for each component."""
        return len(self) * max(self.column.size, 1)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, key: Any) -> Any:
        return self.table._read(self.name, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.table._write(self.name, key, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__array__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """Copy the values to the host, in order of global ids."""
        if copy is False:
            raise ValueError("a partitioned column is not a NumPy array without a copy")
        return np.asarray(self.table._read(self.name, slice(None)), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        outs = options.get("out", ())
        if any(isinstance(x, PartitionedColumn) for x in outs):
            made = self.__array_ufunc__(ufunc, method, *inputs, **{**options, "out": ()})
            outs[0][:] = made
            return outs[0]
        if not outs:
            options.pop("out", None)
        arrays = [np.asarray(x) if isinstance(x, PartitionedColumn) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __repr__(self) -> str:
        return f"{self.table.name}.{self.column!r} {self.__array__()!r}"


def refuse_name(table: str, column: str) -> str:
    """Refuse the name of a column that has another meaning on tables, rows or items in parts."""
    if column in RESERVED:
        raise ValueError(f"column {column!r} of {table}: this name has another meaning on parts")
    return column


def spec_of_part(spec: Any, k: int) -> Any:
    """Return a column's type for part k: references to partitioned tables are to the part's."""
    if isinstance(spec, Ref) and isinstance(spec.table, OnParts):
        return Ref(spec.table.local(k), spec.size)
    return spec
