"""Temporary columns of a table, attached for each call of an algorithm, always in the same memory.

Adding a column costs an allocation and invalidates the launches that are bound to the table.
Detached columns keep their memory; if the table has not changed otherwise, attaching them again
restores the table's former version, so that those launches are valid again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from morph.data.protocols import TableLike
from morph.data.versions import renew


class TemporaryColumns:
    """Columns of a table within a ``with`` block; they shadow the user's columns of these names.

    Parameters
    ----------
    table : Table
    specs : mapping of str to (dtype, fill)
        By column name.
    """

    def __init__(self, table: TableLike, specs: Mapping[str, tuple[Any, Any]]) -> None:
        self.table, self.specs = table, dict(specs)
        self.columns: dict[str, Any] = {}
        self.records: list[Any] = []
        self.shadowed: list[tuple[str, str]] = []
        # the table's version and fills, with these columns and without them
        self.attached = self.detached = (0, None)

    def fits(self) -> bool:
        """Whether the columns can be attached again: the table has not changed since."""
        return bool(self.columns) and self.table.version == self.detached[0]

    @property
    def is_attached(self) -> bool:
        """Whether the table has the columns."""
        now = self.table.columns
        return bool(self.columns) and all(now.get(n) is c for n, c in self.columns.items())

    def __enter__(self) -> None:
        if self.fits():
            self.attach()
            self.table.device.put(*self.writes())
        else:
            self.add()

    def attach(self) -> None:
        """Attach the columns again, with their last contents."""
        table = self.table
        self.detached = table.version, table._fills
        table._records += self.records
        table.columns.update(self.columns)
        table._fills = self.attached[1]
        renew(table, self.attached[0])

    def writes(self) -> list[tuple[Any, Any]]:
        """The writes, for `Device.put`, that set the columns to their fills."""
        first, last = self.table.span()
        return [(self.columns[name].array[first:last], f) for name, (_, f) in self.specs.items()]

    def add(self) -> None:
        """Allocate the columns."""
        table, self.columns, self.records, self.shadowed = self.table, {}, [], []
        self.detached = table.version, table._fills
        try:
            for name, (dtype, fill) in self.specs.items():
                if name in table.columns:
                    other = name + "_"
                    while other in table.columns:
                        other += "_"
                    self.shadowed.append((other, name))
                    table.rename(name, other)
                self.columns[name] = None  # from here on a column of this name is temporary
                table.add_column(name, dtype, fill)
                self.columns[name] = table.columns[name]
        except BaseException:
            self._remove()
            raise
        self.attached = table.version, None
        names = set(self.columns)
        self.records = [r for r in table._records if names & set(r.names)]

    def __exit__(self, *problem: object) -> None:
        table = self.table
        if table.version == self.attached[0] and not self.shadowed:
            self.attached = table.version, table._fills
            for name in self.columns:
                table.columns.pop(name, None)
            ours = set(map(id, self.records))
            table._records = [r for r in table._records if id(r) not in ours]
            table._fills = self.detached[1]
            renew(table, self.detached[0])
            return
        self._remove()

    def _remove(self) -> None:
        """Drop those of the columns that the table has."""
        table = self.table
        for name in self.columns.keys() & table.columns.keys():
            table.drop(name)
        self.columns, self.records = {}, []  # the names are those of the user's columns now
        for other, name in self.shadowed:
            if other in table.columns:
                table.rename(other, name)


def detach(columns: Iterable[Any]) -> None:
    """Detach those temporary columns that are attached, see `run_all`."""
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
