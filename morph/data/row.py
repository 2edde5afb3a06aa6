"""Rows as Python objects: an integer with its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from morph.data.layout import Column
from morph.data.protocols import StoreLike
from morph.language.messages import shown
from morph.runtime.device import is_host


class Row:
    """Row ``id`` of a table (or entry of a collection): its columns are attributes.

    A scalar reference is read as a `Row` or None; a vector is read as a view of the table's memory:
    a NumPy array or, on a GPU, `Elements`, with its first values also as ``x``, ``y`` and ``z``.
    Rows of points have ``outnbrs``, ``innbrs``, ``nbrs``, ``outedges``, ``inedges``, ``edges``,
    lists of rows as in loops of kernels, and ``out_degree``, ``in_degree``, ``degree``; rows of
    edges have ``nbr1``, ``nbr2``, ``nbrs``.  A row can be used as an integer and equals its id.
    It does not prevent that a deleted row is recycled: it then denotes the new row with that id.
    """

    __slots__ = ("id", "table")

    table: StoreLike
    id: int

    def __init__(self, table: StoreLike, id: int) -> None:
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "id", id)

    def __getattr__(self, name: str) -> Any:
        column = self.table.columns.get(name)
        if column is not None:
            return read(self.table, column, self.id)
        graph = getattr(self.table, "graph", None)
        found = graph.around(self, name) if graph is not None else None
        if found is None:
            raise AttributeError(self.table.no_column(name))
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        column = self.table.columns.get(name)
        if column is None:
            raise AttributeError(self.table.no_column(name))
        self.table.assign(column, self.id, value)

    @property
    def dead(self) -> bool:
        """Whether the row is deleted."""
        return self.table.is_dead(self.id)

    def delete(self) -> None:
        """Delete the row; deleting a dead row does nothing."""
        self.table.delete(self.id)

    def __reduce__(self) -> Any:
        return Row, (self.table, self.id)

    def __index__(self) -> int:
        return self.id

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row):
            return self.id == other.id and self.table is other.table
        if isinstance(other, (int, np.integer)):
            return self.id == int(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"{self.table.name}[{self.id}]"


class RowRange:
    """Consecutive rows of a table, or entries of a collection: ``table[start:stop]``."""

    __slots__ = ("start", "stop", "store")

    def __init__(self, store: Any, rows: slice) -> None:
        self.store = store
        self.start, self.stop, step = rows.indices(len(store))
        if step != 1:
            raise ValueError(f"{store.name}: rows of a slice are consecutive, so its step is 1")

    def __len__(self) -> int:
        return max(self.stop - self.start, 0)

    def __iter__(self) -> Iterator[Any]:
        """The live rows, or the items of a collection."""
        first = self.store.span()[0]
        for i in range(self.start, self.stop):
            if not self.store.is_dead(first + i):
                yield self.store[i]

    def __repr__(self) -> str:
        return f"{self.store.name}[{self.start}:{self.stop}]"


def _coordinate(j: int) -> property:
    def read(vector: Any) -> Any:
        if j >= len(vector):
            raise AttributeError(f"a vector of {len(vector)} values has no {'xyz'[j]!r}")
        return vector[j]

    def write(vector: Any, value: Any) -> None:
        vector[j] = value

    return property(read, write)


class Coordinates:
    """The names of the first three values of a vector."""

    __slots__ = ()
    x, y, z = map(_coordinate, range(3))


class HostElements(Coordinates, np.ndarray[Any, Any]):
    """A view of one row of a vector column in host memory."""

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


class Vector:
    """One row of a vector column."""

    __slots__ = ("_column", "_id", "_table")

    def __init__(self, table: StoreLike, column: Column, id: int) -> None:
        self._table = table
        self._column = column
        self._id = id

    def __reduce__(self) -> Any:
        return _vector_of, (type(self), self._table, self._column.name, self._id)

    def __len__(self) -> int:
        return self._column.size

    def __setitem__(self, j: Any, value: Any) -> None:
        self._table.assign(self._column, (self._id, j), value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._table.device.to_host(self._column.array[self._id]), dtype, copy=copy)


class Refs(Vector):
    """The references of one row in a vector column; reads give a `Row` or None."""

    __slots__ = ()

    def __getitem__(self, j: int) -> Row | None:
        row: Row | None = as_row(self._table, self._column, self._column.array[self._id, j])
        return row

    def __iter__(self) -> Iterator[Row | None]:
        return (as_row(self._table, self._column, i) for i in self.__array__())

    def __eq__(self, other: object) -> bool:
        try:
            return list(self) == list(other)  # type: ignore[call-overload,no-any-return]
        except TypeError:
            return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self))})"


class Elements(Vector, Coordinates, NDArrayOperatorsMixin):
    """The numbers of one row in a vector column of a GPU; reads give NumPy scalars and arrays.

    Elements of a CuPy array would be arrays, whose values change with the column.
    """

    __slots__ = ()

    def __getitem__(self, j: Any) -> Any:
        return self.__array__()[j]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__array__())

    def __getattr__(self, name: str) -> Any:
        """An attribute of the NumPy array, such as ``dtype`` or ``tolist``."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__array__(), name)

    def get(self) -> np.ndarray[Any, Any]:
        """Copy to the host, as CuPy arrays do."""
        return self.__array__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute on the host; a result that is stored in the vector is written to the column."""
        given = [np.asarray(x) if isinstance(x, Elements) else x for x in inputs]
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(np.array(x) if isinstance(x, Elements) else x for x in out)
        result = getattr(ufunc, method)(*given, **options)
        if out is not None and isinstance(out[0], Elements):
            out[0][:] = result
            return out[0]
        return result

    def __repr__(self) -> str:
        return repr(self.__array__())

    def __str__(self) -> str:
        return str(self.__array__())


def _vector_of(kind: type[Vector], store: StoreLike, column: str, id: int) -> Vector:
    return kind(store, store.columns[column], id)


def read(store: StoreLike, column: Column, row: int) -> Any:
    """The value of one row: a NumPy scalar, a view of a vector, or references as rows."""
    if column.ref:
        return Refs(store, column, row) if column.size else as_row(store, column, column.array[row])
    value = column.array[row]
    if not column.size:
        return store.device.to_host(value)[()]
    return value.view(HostElements) if is_host(value) else Elements(store, column, row)


def as_row(store: StoreLike, column: Column, id: Any) -> Any:
    """The value of a reference: None, a `Row`, or the id if its table is not known."""
    id = int(id)
    if id < 0:
        return None
    target = store.target(column)
    return id if target is None else Row(target, id)


def as_id(value: Any, target: StoreLike | None, where: str) -> int:
    """Return the id of a `Row`, None or integer.

    Raises
    ------
    TypeError
        If it is another object, or a row of another table.
    """
    if value is None:
        return -1
    if isinstance(value, Row):
        if target is not None and value.table is not target:
            raise TypeError(f"{where}: {shown(value)} is not a row of {shown(target)}")
        return value.id
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"{where}: expected a row or its id, not {shown(value)}")
