"""Temporary columns of a table, attached in each call of an algorithm, with the same memory.

Adding a column costs an allocation and invalidates the launches that are bound to the table.
Detached columns keep their memory; if the table has not changed otherwise, attaching them again
restores the table's previous version, so that the launches are valid again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from morph.data.protocols import TableLike
from morph.data.versions import renew

set_attribute = object.__setattr__  # without the slower `Store.__setattr__`, which handles columns


class State(NamedTuple):
    """The columns of a table at a version, for restoring: names, records and fills."""

    version: int
    fills: Any
    columns: dict[str, Any]
    records: tuple[tuple[Any, tuple[str, ...]], ...]

    @classmethod
    def of(cls, table: TableLike) -> State:
        """Record the state of a table."""
        records = tuple((r, r.names) for r in table._records)
        return cls(table.version, table._fills, dict(table.columns), records)

    def restore(self, table: TableLike, renamed: bool) -> None:
        """Restore this state and version of a table, whose memory is unchanged.

        ``renamed`` is whether names of columns may have changed since.
        """
        set_attribute(table, "columns", self.columns.copy())
        if renamed:
            for name, column in self.columns.items():
                column.name = name
            for record, names in self.records:
                record.names = names
        set_attribute(table, "_records", [record for record, _ in self.records])
        set_attribute(table, "_fills", self.fills)
        renew(table, self.version)


class TemporaryColumns:
    """Columns of a table in a ``with`` block; they shadow the user's columns of these names.

    Parameters
    ----------
    table : Table
    specs : mapping of str to (dtype, fill)
        By column name.  With the fill None a new column is zero, and later uses keep its contents.
    """

    def __init__(self, table: TableLike, specs: Mapping[str, tuple[Any, Any]]) -> None:
        self.table, self.specs = table, dict(specs)
        self.columns: dict[str, Any] = {}
        self.shadowed: list[tuple[str, str]] = []
        # the table with these columns, and without them
        self.attached = self.detached = State(0, None, {}, ())

    def fits(self) -> bool:
        """Whether the columns can be attached again, as the table has not changed."""
        return bool(self.columns) and self.table.version == self.detached.version

    @property
    def is_attached(self) -> bool:
        """Whether the table has the columns."""
        if not self.columns or self.table.version == self.attached.version:
            return bool(self.columns)
        now = self.table.columns
        return all(now.get(n) is c for n, c in self.columns.items())

    def __enter__(self) -> None:
        if self.fits():
            self.attach()
            self.table.device.put(*self.writes())
        else:
            self.add()

    def attach(self) -> None:
        """Attach the columns again, with their last contents."""
        if self.detached.fills is not self.table._fills:
            self.detached = self.detached._replace(fills=self.table._fills)
        self.attached.restore(self.table, bool(self.shadowed))

    def writes(self) -> list[tuple[Any, Any]]:
        """The writes, for `Device.put`, that set the columns to their fills."""
        first, last = self.table.span()
        fills = ((name, f) for name, (_, f) in self.specs.items() if f is not None)
        return [(self.columns[name].array[first:last], f) for name, f in fills]

    def add(self) -> None:
        """Allocate the columns."""
        table, self.columns, self.shadowed = self.table, {}, []
        self.detached = State.of(table)
        try:
            for name in [n for n in self.specs if n in table.columns]:
                other = name + "_"
                while other in table.columns:
                    other += "_"
                self.shadowed.append((other, name))
                table.rename(name, other)
            self.columns = dict.fromkeys(self.specs)  # columns of these names are temporary now
            table.add_columns(self.specs)
            self.columns = {name: table.columns[name] for name in self.specs}
        except BaseException:
            self._remove()
            raise
        self.attached = State.of(table)

    def __exit__(self, *problem: object) -> None:
        table = self.table
        if table.version == self.attached.version:
            if self.attached.fills is not table._fills:
                self.attached = self.attached._replace(fills=table._fills)
            self.detached.restore(table, bool(self.shadowed))
        else:
            self._remove()

    def _remove(self) -> None:
        """Drop the columns that the table has."""
        table = self.table
        for name in self.columns.keys() & table.columns.keys():
            table.drop(name)
        self.columns = {}  # the names now denote the user's columns
        for other, name in self.shadowed:
            if other in table.columns:
                table.rename(other, name)


def detach(columns: Iterable[Any]) -> None:
    """Detach the temporary columns that are attached, see `run_all`."""
    run_all([x.__exit__ for x in columns if x.is_attached])


def run_all(steps: list[Callable[[], object]]) -> None:
    """Run all steps, the last first, and remove them; an interrupt is raised when all have run.

    A step that is interrupted runs again.
    """
    interrupt = None
    while steps:
        try:
            steps[-1]()
            steps.pop()
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
