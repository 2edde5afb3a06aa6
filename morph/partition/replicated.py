"""Tables, numbers and flags of which every part has one of its own, most of them copies."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from morph.data.row import Row
from morph.data.table import Table
from morph.partition.columns import TableBase
from morph.partition.views import OnParts, PartitionedColumn, PartitionedRow, observed


class ReplicatedTable(TableBase):
    """A table outside the points and edges: every part has a copy, all equal between launches."""

    __slots__ = ("_copies",)

    def __init__(self, graph: Any, name: str, copies: list[Table | None]) -> None:
        self.graph, self.name, self._copies = graph, name, copies
        graph.register(self)

    def __len__(self) -> int:
        return len(self._tables()[0])

    def _local_row(self, k: int, id: int) -> int:
        """Return the local id of a row, which is its id."""
        return id

    def _has_row(self, id: int) -> bool:
        """Rows of these tables are not deleted."""
        return True

    def _own_range(self, k: int, start: int, stop: int) -> tuple[int, int]:
        """Return the range itself."""
        return start, stop

    @observed
    def _read(self, name: str, key: Any) -> Any:
        """Copy values of a column to the host."""
        table = self._tables()[0]
        key = key.id if isinstance(key, Row) else key
        return np.array(table.device.to_host(getattr(table, name)[key]))[()]

    def _write(self, name: str, key: Any, value: Any) -> None:
        """Write to a column of all copies."""
        key = key.id if isinstance(key, Row) else key
        value = value.__array__() if isinstance(value, PartitionedColumn) else value
        self._begin("write", name, value, key)
        for table in self._tables():
            getattr(table, name)[key] = value

    def make_equal(self) -> None:
        """Set all copies of this process to the values of its first, after a failed launch."""
        first, *others = self._tables()
        for name, column in first.columns.items():
            values = first.device.to_host(column.array[: len(first)])
            for table in others:
                with table.device.active():
                    table.columns[name].array[: len(table)] = table.device.asarray(values)

    def new(self, *values: Any, **named: Any) -> PartitionedRow:
        """Return a new row, see `Table.new`."""
        self._begin("add a row to")
        return PartitionedRow(self, self._on_all(lambda t: t.new(*values, **named)).id)

    def extend(self, n: int | None = None, **arrays: Any) -> int:
        """Append rows, see `Table.extend`."""
        self._begin("add rows to")
        first: int = self._on_all(lambda t: t.extend(n, **arrays))
        return first


class TableOfParts(OnParts):
    """A table of which each part has its own rows, whose numbers are those of the part."""

    kind: ClassVar[str] = "table"
    __slots__ = ("__weakref__", "_copies", "graph")

    def __init__(self, graph: Any, tables: dict[int, Table]) -> None:
        self.graph, self._copies = graph, tables


class ReplicatedScalars(PartitionedRow):
    """Named numbers of which every part has a copy; made by ``Scalars(parts, ...)``."""

    __slots__ = ("_copies",)

    def __init__(self, graph: Any, copies: list[Any]) -> None:
        tables = [None if s is None else s.table for s in copies]
        super().__init__(ReplicatedTable(graph, "scalars", tables), 0)
        object.__setattr__(self, "_copies", copies)

    def local(self, k: int) -> Any:
        """Return the numbers of part k."""
        return self._copies[k]

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)}" for name in self.table.columns)
        return f"<Scalars on parts: {', '.join(values)}>"


class ReplicatedFlag(OnParts):
    """A flag of which every part has a copy; made by ``Flag(parts)``."""

    kind: ClassVar[str] = "flag"
    __slots__ = ("__weakref__", "_copies", "graph")

    def __init__(self, graph: Any, copies: list[Any]) -> None:
        self.graph, self._copies = graph, copies
        graph.register(self)

    @observed
    def __bool__(self) -> bool:
        return bool(self._copies[self.graph.here[0]])

    @property
    def raised(self) -> bool:
        """Whether the flag is raised."""
        return bool(self)

    def take(self) -> bool:
        """Read the flag and lower it."""
        raised = bool(self)
        if raised:
            self.clear()
        return raised

    def set(self) -> None:
        """Raise the flag."""
        self.graph.transport.begin("raise a flag")
        for k in self.graph.here:
            self._copies[k].set()

    def clear(self) -> None:
        """Lower the flag."""
        self.graph.transport.begin("lower a flag")
        for k in self.graph.here:
            self._copies[k].clear()

    def make_equal(self) -> None:
        """Raise the copies of this process if one is raised, after a launch has failed."""
        copies = [self._copies[k] for k in self.graph.here]
        if any(map(bool, copies)):
            for flag in copies:
                flag.set()

    def __repr__(self) -> str:
        return "<Flag on parts>"
