"""Collections of points or edges of a partitioned graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from morph.data.collection import Collection
from morph.data.conversion import bind, cast, prepare, raw
from morph.data.layout import Column
from morph.partition.parts import DIVIDED, HostArray
from morph.partition.views import OnParts, PartitionedRow, observed, refuse_name, spec_of_part
from morph.runtime.arrays import any_true, to_host


class PartitionedCollection(OnParts):
    """A collection of points or edges of a partitioned graph: each part has its own items.

    Made by ``Collection(parts.points, ...)``.  Items are in order of parts.  Iteration and
    `items` give global ids.
    """

    kind: ClassVar[str] = "collection"
    __slots__ = ("__weakref__", "_copies", "_known", "graph", "table")

    def __init__(self, table: Any, **options: Any) -> None:
        self.table, self.graph = table, table.graph
        if options.get("device") is not None:
            raise ValueError("a collection of a partitioned table lies where the parts do")
        self._copies: list[Collection | None] = [None] * len(self.graph.parts)
        self.set_length(0)
        for k in self.graph.here:
            own = {refuse_name("a collection", x): spec_of_part(s, k) for x, s in options.items()}
            if isinstance(capacity := own.get("capacity"), int) and len(table):
                rows = len(table.local(k))  # capacity for all rows: for those of the part
                own["capacity"] = min(capacity, rows * max(capacity, len(table)) // len(table))
            self._copies[k] = Collection(table.local(k), **own)
        self.graph.register(self)
        self._begin("make")

    def _begin(self, operation: str, *facts: Any) -> None:
        """State the next operation on the collection, see `Transport.begin`."""
        self.graph.transport.begin(operation, "a collection of", self.table.name, *facts)

    @property
    def columns(self) -> dict[str, Column]:
        """The columns by name; their arrays are those of one part."""
        found: dict[str, Column] = self.local(self.graph.here[0]).columns
        return found

    def add(self, *values: Any, **columns: Any) -> None:
        """Append one item, see `Collection.add`."""
        given = bind(self.local(self.graph.here[0]), values, columns)
        self.extend(given.pop("item", None), 1, **given)

    def extend(self, items: Any = None, n: int | None = None, **columns: Any) -> None:
        """Append many items, see `Collection.extend`, each on the part that owns its row."""
        if items is None:
            raise TypeError("an item of a partitioned collection is a row: give `items`")
        store = self.local(self.graph.here[0])
        given = {"item": items, **columns}
        known = {name: c.ref for name, c in store.columns.items() if c.ref in DIVIDED}
        global_ids = {name: self._global(name, given.pop(name)) for name in known if name in given}
        if n is None:
            n = max((int(a.size) for a in global_ids.values() if a.ndim), default=None)
        n, checked = prepare(store, n, given)
        for name, a in global_ids.items():
            if a.ndim and a.shape != (n,):
                raise ValueError(f"{store.name}.{name} has {a.size} values for {n} rows")
        rows = np.broadcast_to(global_ids.pop("item"), (n,))
        if any_true(rows < 0):
            raise ValueError("an item of a partitioned collection is a row, not None")
        self._begin("add to", rows)
        inner = {name: (c.size,) if c.size else () for name, c in store.columns.items()}
        pieces = []
        for k in self.graph.here:
            own = self.table._share(k).own_rows(rows)
            at = np.flatnonzero(own >= 0)
            values = {
                name: a[at] if a.ndim > len(inner[name]) else a for name, a in checked.items()
            }
            for name, ids in global_ids.items():
                picked = np.broadcast_to(ids, (n, *inner[name]))[at]
                values[name] = self._target(known[name])._local_ids(k, picked, f"collection.{name}")
            pieces.append((k, own[at], values))
        length = self._length()
        self.set_length(None)
        for k, items, values in pieces:
            if items.size:
                self.local(k).extend(items, items.size, **values)
        self.set_length(None if length is None else length + n)

    def extend_live(self) -> None:
        """Append all live rows of the table, see `Collection.extend_live`."""
        self.extend(self.table.ids())

    def _target(self, ref: str) -> Any:
        return self.graph.tables[ref]

    def _global(self, name: str, value: Any) -> HostArray:
        """Check the references to points or edges of new items."""
        column = self.columns[name]
        target: Any = self._target(str(column.ref))
        where = f"collection.{name}"
        return to_host(cast(raw(value, column, target, where), column, len(target), where))

    def clear(self) -> None:
        """Remove every item; the memory is kept."""
        self._begin("clear")
        for k in self.graph.here:
            self.local(k).clear()
        self.set_length(0)

    def set_length(self, length: int | None) -> None:
        """Store the number of items of all parts, None if it is unknown."""
        self._known = self.graph.changes, length

    def _length(self) -> int | None:
        """Return the stored number of items, None if it is unknown.

        It is if edges have changed, since items may have been removed with them, or within a
        checkpoint, which may write other items.
        """
        changes, length = self._known
        if self.graph.recorder is not None:
            self.set_length(None)
            return None
        return length if changes == self.graph.changes else None

    @observed
    def __len__(self) -> int:
        self._begin("length of")
        length, transport = self._length(), self.graph.transport
        if length is None or len(transport.here) == transport.size:
            length = sum(self.graph.gather(lambda k: len(self.local(k))))
            self.set_length(length)
        return length

    @property
    def empty(self) -> bool:
        """Whether there is nothing to take."""
        return len(self) == 0

    @property
    def items(self) -> HostArray:
        """The global ids of the rows not yet taken, shape (len,), int32: a copy."""
        return self._read("item")

    @observed
    def _read(self, name: str) -> HostArray:
        """Copy a column to the host, in order of parts."""

        def piece(k: int) -> HostArray:
            made: Collection = self.local(k)
            values = made.device.to_host(getattr(made, name).array)
            ref = made.columns[name].ref
            if ref in DIVIDED:
                values = self.graph.tables[ref]._share(k).global_ids(values)
            return values.astype(made.columns[name].dtype)

        self._begin("read", name)
        return np.concatenate(self.graph.gather(piece))

    def __getattr__(self, name: str) -> HostArray:
        if name.startswith("_") or name not in self.columns:
            raise AttributeError(self.local(self.graph.here[0]).no_column(name))
        return self._read(name)

    def __iter__(self) -> Iterator[PartitionedRow]:
        return (PartitionedRow(self.table, i) for i in self.items.tolist())

    def __repr__(self) -> str:
        places = ", ".join(d.name for d in self.graph.devices)
        return f"<Collection of {len(self)} {self.table.name} on {places}>"
