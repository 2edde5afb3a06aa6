"""The base class of partitioned and replicated tables: their columns as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from morph.data.layout import Column
from morph.data.table import Table
from morph.language.messages import shown
from morph.partition.parts import DIVIDED
from morph.partition.temporary import TemporaryColumnsOfParts
from morph.partition.views import (
    OnParts,
    PartitionedColumn,
    PartitionedRange,
    PartitionedRow,
    refuse_name,
    spec_of_part,
)


class TableBase(OnParts):
    """Base class of partitioned and replicated tables: columns as attributes.

    Attributes
    ----------
    name : str
    graph : PartitionedGraph
    """

    kind: ClassVar[str] = "table"
    name: str
    __slots__ = ("__weakref__", "graph", "name")

    def _read(self, name: str, key: Any) -> Any:
        """Read a column."""
        raise NotImplementedError

    def _write(self, name: str, key: Any, value: Any) -> None:
        """Write to a column."""
        raise NotImplementedError

    def _local_row(self, k: int, id: int) -> int:
        """Return the local id of a row in part k, or -1."""
        raise NotImplementedError

    def _own_range(self, k: int, start: int, stop: int) -> tuple[int, int]:
        """Return the first of part k's own rows among the rows of a range, and the one after."""
        raise NotImplementedError

    def _tables(self) -> list[Table]:
        return [self.local(k) for k in self.graph.here]

    @property
    def columns(self) -> dict[str, Column]:
        """The columns by name; their arrays are those of one part."""
        found: dict[str, Column] = self.local(self.graph.here[0]).columns
        return found

    def no_column(self, name: str) -> str:
        """Say that there is no such column, and which there are."""
        return self._tables()[0].no_column(name)

    def add(self, name: str, spec: Any, fill: Any = None) -> PartitionedColumn:
        """Add a column, see `Table.add`.

        Raises
        ------
        ValueError
            If the table is replicated and the column refers to points or edges, whose local ids
            differ between the parts; or if references in points or edges are to be filled.
        """
        self._check_new(name, spec, fill)
        for k in self.graph.here:
            self.local(k).add(name, spec_of_part(spec, k), fill)
        self._begin("add column", name, self.columns[name].dtype)
        return PartitionedColumn(self, name)

    def _begin(self, operation: str, column: str = "", *facts: Any) -> None:
        """State the next operation on the table, see `Transport.begin`."""
        self.graph.transport.begin(operation, f"{self.name}.{column}", *facts)

    def _check_new(self, name: str, spec: Any, fill: Any) -> None:
        refuse_name(self.name, name)
        refuse_divided(self.name, name, getattr(spec, "name", None))

    def drop(self, name: str) -> None:
        """Remove a column."""
        self._begin("drop", name)
        self._on_all(lambda t: t.drop(name))

    def rename(self, old: str, new: str) -> None:
        """Rename a column."""
        refuse_name(self.name, new)
        self._begin("rename", old, new)
        self._on_all(lambda t: t.rename(old, new))

    def pack(self, *groups: Any) -> None:
        """Choose another layout, see `Table.pack`."""
        self._begin("pack", "", groups)
        self._on_all(lambda t: t.pack(*groups))

    def temporary_columns(self, **specs: tuple[Any, Any]) -> TemporaryColumnsOfParts:
        """Return columns for a ``with`` block, see `Table.temporary_columns`."""
        return TemporaryColumnsOfParts(self, specs)

    def _hide(self, names: Iterable[str]) -> Any:
        """Prepare for temporary columns of some names; give what `_show` restores at their end."""
        return ()

    def _show(self, names: Iterable[str], hidden: Any) -> None:
        """Restore what is known of the columns that have these names again."""

    def _on_all(self, change: Callable[[Table], Any]) -> Any:
        """Change the table of each part; returns what the change of the first one does."""
        return [change(t) for t in self._tables()][0]

    def __getitem__(self, id: Any) -> Any:
        if isinstance(id, slice):
            return PartitionedRange(self, id)
        if not hasattr(id, "__index__"):
            raise TypeError(f"{self.name}[...] takes one row's id; index a column for many")
        row, count = id.__index__(), len(self)
        if not 0 <= row < count:
            raise IndexError(f"{self.name} has no row {shown(row)}: it has rows 0 to {count - 1}")
        return PartitionedRow(self, row)

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[PartitionedRow]:
        return (PartitionedRow(self, i) for i in range(len(self)))

    def __getattr__(self, name: str) -> PartitionedColumn:
        if name.startswith("_") or name in ("graph", "name") or name not in self.columns:
            raise AttributeError(name if name.startswith("_") else self.no_column(name))
        return PartitionedColumn(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            if name not in self.columns:
                raise AttributeError(self.no_column(name)) from None
            own = isinstance(value, PartitionedColumn) and value.name == name
            if not (own and value.table is self):  # `t.x += a` is done by now
                self._write(name, slice(None), value)

    def __repr__(self) -> str:
        columns = ", ".join(map(repr, self.columns.values()))
        kind, places = type(self).__name__, ", ".join(d.name for d in self.graph.devices)
        return f"<{kind} {self.name!r} of {len(self)} rows on {places}: {columns}>"


def refuse_divided(table: str, column: str, ref: Any) -> None:
    """Refuse a reference to points or edges in a table of which every part has a copy."""
    if ref in DIVIDED:
        raise ValueError(
            f"{table}.{column} refers to {ref}, whose rows are divided among the parts"
        )
