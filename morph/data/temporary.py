"""Columns that a table has for a time, again and again, in the same memory.

Adding a column costs an allocation, and a launch bound before no longer fits.  Columns that are
put aside, and taken back when nothing else has changed, leave the table just as it was, its
version included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from morph.data.protocols import TableLike
from morph.data.versions import renew


class Lent:
    """Columns of a table for the time of a ``with`` block; the user's of these names step aside.

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
        self.aside: list[tuple[str, str]] = []
        self.there = self.gone = (0, None)  # the table's version and fills, with them and without

    def fits(self) -> bool:
        """Whether the columns can be taken back: nothing has changed since."""
        return bool(self.columns) and self.table.version == self.gone[0]

    @property
    def there_now(self) -> bool:
        """Whether the table has them."""
        now = self.table.columns
        return bool(self.columns) and all(now.get(n) is c for n, c in self.columns.items())

    def __enter__(self) -> None:
        if self.fits():
            self.take_back()
            self.table.device.put(*self.writes())
        else:
            self.add()

    def take_back(self) -> None:
        """Have the columns again, whatever they hold by now."""
        table = self.table
        self.gone = table.version, table._fills
        table._records += self.records
        table.columns.update(self.columns)
        table._fills = self.there[1]
        renew(table, self.there[0])

    def writes(self) -> list[tuple[Any, Any]]:
        """What is to be written so that they are anew, as `Device.put` has it."""
        first, last = self.table.span()
        return [(self.columns[name].array[first:last], f) for name, (_, f) in self.specs.items()]

    def add(self) -> None:
        """Have columns in memory of their own."""
        table, self.columns, self.records, self.aside = self.table, {}, [], []
        self.gone = table.version, table._fills
        try:
            for name, (dtype, fill) in self.specs.items():
                if name in table.columns:
                    other = name + "_"
                    while other in table.columns:
                        other += "_"
                    self.aside.append((other, name))
                    table.rename(name, other)
                self.columns[name] = None  # from here on whoever has the name is lent
                table.add_column(name, dtype, fill)
                self.columns[name] = table.columns[name]
        except BaseException:
            self._remove()
            raise
        self.there = table.version, None
        names = set(self.columns)
        self.records = [r for r in table._records if names & set(r.names)]

    def __exit__(self, *problem: object) -> None:
        table = self.table
        if table.version == self.there[0] and not self.aside:
            self.there = table.version, table._fills
            for name in self.columns:
                del table.columns[name]
            others = len(table._records) - len(self.records)
            table._records = table._records[:others]  # nothing came after them
            table._fills = self.gone[1]
            renew(table, self.gone[0])
            return
        self._remove()

    def _remove(self) -> None:
        """Take the columns out of the table, as far as they are there."""
        table = self.table
        for name in self.columns.keys() & table.columns.keys():
            table.drop(name)
        for other, name in self.aside:
            if other in table.columns:
                table.rename(other, name)
        self.columns, self.records = {}, []
