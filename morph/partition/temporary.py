"""Temporary columns of a partitioned table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from morph.data.temporary import TemporaryColumns, detach
from morph.partition.views import refuse_name


class TemporaryColumnsOfParts:
    """Columns of a partitioned table within a ``with`` block, see `TemporaryColumns`.

    Parameters
    ----------
    table : PartitionedTable or ReplicatedTable
    specs : mapping of str to (dtype, fill)
        By column name.

    Attributes
    ----------
    parts : list of TemporaryColumns
        Those of the parts of this process.
    """

    def __init__(self, table: Any, specs: Mapping[str, tuple[Any, Any]]) -> None:
        self.table, self.names = table, [refuse_name(table.name, name) for name in specs]
        self.parts: list[TemporaryColumns] = [t.temporary_columns(**specs) for t in table._tables()]
        self.hidden: Any = None  # what the table knows of the user's columns of these names

    def fits(self) -> bool:
        """Whether the columns can be attached again on all parts: no table has changed since."""
        found = self.table.graph.gather(lambda k: self.part(k).fits())
        return all(found)

    def part(self, k: int) -> TemporaryColumns:
        """Return the columns of part k."""
        first: int = self.table.graph.here[0]
        return self.parts[k - first]

    @property
    def is_attached(self) -> bool:
        """Whether a part has the columns."""
        return self.hidden is not None

    def __enter__(self) -> None:
        self.hidden = self._hide()
        try:
            for x in self.parts:
                x.__enter__()
        except BaseException:
            self.__exit__()
            raise

    add = __enter__

    def attach(self) -> None:
        """Attach the columns again, with their last contents."""
        self.hidden = self._hide()
        for x in self.parts:
            x.attach()

    def _hide(self) -> Any:
        self.table._begin("temporary columns", ",".join(self.names))
        return self.table._hide(self.names)

    def __exit__(self, *problem: object) -> None:
        hidden = self.hidden
        try:
            detach(self.parts)
        finally:
            if hidden is not None:
                self.table._show(self.names, hidden)
            self.hidden = None  # at last: an interrupted exit runs again
