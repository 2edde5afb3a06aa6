"""Protocols of stores and tables, for the modules below these: rows, views, checks, compaction.

`morph.data.store.Store` and `morph.data.table.Table` implement these protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from morph.data.layout import Column, Record
from morph.language.weak import WeakObjects
from morph.runtime.device import Array, Device


class StoreLike(Protocol):
    """A table or a collection."""

    kind: ClassVar[str]
    name: str
    device: Device
    capacity: int
    version: int
    columns: dict[str, Column]
    _records: list[Record]
    _fills: Array

    def __len__(self) -> int: ...

    @property
    def _host_meta(self) -> np.ndarray[Any, Any]:
        """The header counters on the host."""

    def span(self) -> tuple[int, int]:
        """The first allocated row, and the end."""

    def target(self, column: Column) -> TableLike | None:
        """The table that a reference column refers to; None if it is not known."""

    def no_column(self, name: str) -> str:
        """The message that there is no such column."""

    def assign(self, column: Column, key: Any, value: Any, array: Array = None) -> None:
        """Write values to elements of a column, after checking them."""

    def add_column(self, name: str, spec: Any, fill: Any = None) -> Any:
        """Add a column."""

    def add_columns(
        self, specs: Mapping[str, tuple[Any, Any]], groups: Iterable[Iterable[str]] = ()
    ) -> None:
        """Add columns with a type and a fill each; those of a group are packed."""

    def drop(self, name: str) -> None:
        """Remove a column."""

    def rename(self, old: str, new: str) -> None:
        """Rename a column; its memory is kept."""

    def hidden(self, kind: str) -> Array:
        """An array that only kernels access."""

    def _publish_counters(self) -> None:
        """Recompute the derived counters."""

    def is_dead(self, id: int) -> bool:
        """Whether a row is deleted."""

    def delete(self, ids: Any) -> None:
        """Delete rows."""


class TableLike(StoreLike, Protocol):
    """A table."""

    graph: Any
    deletes: bool
    dependents: WeakObjects[Any]
    _known: tuple[int, bool]

    @property
    def ring(self) -> Array:
        """The ring of deleted rows."""

    @property
    def alive(self) -> Array:
        """Which rows are not deleted, shape (len,), bool."""

    def ids(self) -> Array:
        """The rows that are not deleted, ascending."""

    def _quarantined_to(self, counters: Any = None) -> int: ...

    def _no_dead(self) -> dict[str, Array]: ...

    def _replace(self, records: list[Record], hidden: dict[str, Array], count: int) -> None: ...
