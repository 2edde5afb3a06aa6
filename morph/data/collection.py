"""Collections (worklists), disjoint sets and flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from morph.compiler.ir.layout import GLOBAL
from morph.data.compaction import carry_out, squeeze, translate
from morph.data.conversion import bind, prepare
from morph.data.layout import Column, Record
from morph.data.pickles import reduced
from morph.data.row import Row, RowRange, as_id
from morph.data.store import BUDGET, CAPACITY, COUNT, HEAD, Store, groups_of
from morph.data.table import Table
from morph.data.versions import advance_epoch, exclusive, renew
from morph.language.dtypes import Ref, vec
from morph.language.intrinsics import scalar_of
from morph.language.messages import shown
from morph.runtime.arrays import all_true
from morph.runtime.backend import IOTA
from morph.runtime.device import Array, Device, device_for

SHORT = 1 << 20  # minimum growth, in entries, of a list that is full in a launch;
SHORT_BYTES = 1 << 24  # limited to these bytes if there are many columns, but at least 1/16
EXPECTED_BYTES = 1 << 25  # maximum of `expect_growth`


class Collection(Store):
    """A growable list of rows of a table, or of numbers; a worklist for kernels.

    Parameters
    ----------
    table : Table or scalar type, optional
        The items are rows of this table, or numbers of this type, in column ``item``.  Without it
        an entry has only the other columns.
    capacity : int
        Initial capacity in entries; a full collection grows.
    device : str or Device, optional
        By default the device of the tables that it refers to, else see `morph.set_device`.
    name : str
        For messages.
    pack : sequence, optional
        Columns to interleave in memory, see `pack`.
    **columns
        Types by name, as in `Table`; references are made with ``Ref(table)``.

    Notes
    -----
    Kernels take items from the front and add at the end.  Two worklists are swapped as Python
    swaps: ``now, then = then, now``.  An entry of a deleted row is kept until
    `compact`; the row is not recycled before.
    """

    kind: ClassVar[str] = "collection"
    __slots__ = ("_targets", "graph", "table")

    def __new__(cls, table: Any = None, **options: Any) -> Any:
        """Make a collection; for rows of a partitioned table, one on each part."""
        on_parts = getattr(type(table), "on_parts", None)
        return object.__new__(cls) if on_parts is None else on_parts(table, cls, **options)

    def __init__(
        self,
        table: Table | Any = None,
        *,
        capacity: int = 0,
        device: str | Device | None = None,
        name: str = "collection",
        pack: Iterable[Any] | None = None,
        **columns: Any,
    ) -> None:
        if scalar_of(table) is not None:
            table, columns = None, {"item": table, **columns}
        if table is not None and not isinstance(table, Table):
            raise TypeError(
                f"a collection is of rows of a table or of numbers, not of {shown(table)}"
            )
        targets = [] if table is None else [table]
        targets += [s.table for s in columns.values() if isinstance(s, Ref) and s.table is not None]
        graphs = {id(t.graph or t) for t in targets}
        if len(graphs) > 1:
            raise ValueError("a collection refers to tables of one graph only")
        self.table = table
        self.graph: Any = targets[0].graph if targets else None
        self._targets: dict[str, Table] = {t.name: t for t in targets}
        where = device_for(device, *targets)
        if targets and where != targets[0].device:
            raise ValueError(f"the collection's table is on {targets[0].device.name}, not {where}")
        super().__init__(name, where, capacity)
        if targets:
            self._lock = targets[0]._lock
        if table is not None:
            columns = {"item": Ref(table), **columns}
        self.add_columns({n: (t, None) for n, t in columns.items()}, groups_of(pack or ()))

    @exclusive
    def add(self, *values: Any, **columns: Any) -> None:
        """Append one entry: values in column order (the item first) or by name, or the fill.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If a value does not fit its column.  The collection is unchanged then.
        """
        _, checked = prepare(self, 1, bind(self, values, columns))
        self._append(1, checked)

    @exclusive
    def extend(self, items: Any = None, n: int | None = None, **columns: Any) -> None:
        """Append many entries.

        Parameters
        ----------
        items : array of int, shape (n,), optional
            Rows of the table.
        n : int, optional
            The number of entries; by default the length of the arrays.
        **columns
            Column values, shape (n,) or (n, size), or one entry's value for all.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If lengths differ or values do not fit.  The collection is unchanged then.
        """
        if items is not None:
            columns = {"item": items, **columns}
        count, checked = prepare(self, n, columns)
        self._append(count, checked)

    @exclusive
    def extend_live(self) -> None:
        """Append the ids of all live rows of the table that the collection refers to.

        Faster than ``extend(table.ids())`` if no row has been deleted.

        Raises
        ------
        TypeError
            If the collection holds numbers.
        """
        table = self.table
        if table is None:
            raise TypeError("extend_live needs a collection of rows, not of numbers")
        if table.deletes or len(self.columns) > 1 or self._host_meta.item(COUNT):
            self.extend(table.ids())
            return
        n = len(table)
        self._ensure_capacity(n)
        self.device.put((self.columns["item"].array[:n], IOTA))
        self.have(n)
        self._send_counters()

    def _extend_capacity(self, more: int) -> None:
        # growth in a launch costs another launch: lists of rows grow in few steps to their table
        rows = 0 if self.table is None else len(self.table)
        each = sum(c.dtype.itemsize * max(c.size, 1) for c in self.columns.values())
        short = max(min(SHORT, SHORT_BYTES // max(each, 1)), SHORT // 16)
        quick = max(min(short, rows), min(16 * self.capacity, max(short, rows)))
        self.grow(max(self.capacity + more, quick))

    def expect_growth(self) -> None:
        """Grow a list of rows on a GPU before a launch of all parts, in which growth is slow."""
        rows = 0 if self.device.on_host or self.table is None else len(self.table)
        each = sum(c.dtype.itemsize * max(c.size, 1) for c in self.columns.values())
        if self.capacity < (wanted := min(rows, EXPECTED_BYTES // max(each, 1))):
            self.resize(wanted)

    def _append(self, n: int, checked: Mapping[str, Array]) -> None:
        _, last = self.span()
        self._ensure_capacity(last + n)
        after = self._host_meta.copy()
        after[COUNT] += n
        self._derive_counters(after)
        with self.device.active():
            self._write(last, n, checked, self._counter_writes(after))
        self._host_meta[:] = after  # atomically: an interrupt must not leave a wrong BUDGET

    @exclusive
    def clear(self) -> None:
        """Remove all entries; the memory is kept."""
        if writes := self.cleared():
            self.device.put(*writes)

    def cleared(self) -> list[tuple[Any, Any]]:
        """Clear the host's counters; return the writes for `Device.put` that clear a GPU's."""
        if self.device.on_host:
            counters = self.meta
            counters[COUNT] = counters[HEAD] = 0
            counters[BUDGET] = self.capacity
            return []
        return self._counter_writes(self.have(0))

    @exclusive
    def _drop(self, last: int) -> None:
        """Remove the entries before position ``last``."""
        if last == self.span()[1]:
            self.clear()
            return
        self._host_meta[HEAD] = last
        self._publish_counters()

    def have(self, n: int, in_all: int | None = None) -> np.ndarray[Any, Any]:
        """Set the host's counters to ``n`` entries; return them, to be written to the device.

        The device's counters are not fetched.  ``in_all`` is the number of entries on all parts, if
        the collection belongs to one part of a graph.
        """
        made: Any = self.meta if self.device.on_host else np.zeros(8, np.int64)
        capacity = self.capacity
        made[COUNT], made[HEAD], made[CAPACITY], made[BUDGET] = n, 0, capacity, capacity - n
        if in_all is not None:
            made[GLOBAL] = in_all
        object.__setattr__(self, "_host_counters", made)  # `Store.__setattr__` is for columns
        return made  # type: ignore[no-any-return]

    @property
    def empty(self) -> bool:
        """Whether there is no entry to take."""
        return len(self) == 0

    @property
    def items(self) -> Array:
        """The rows not yet taken, shape (len,), int32, without a copy.

        Raises
        ------
        AttributeError
            If the collection has no table.
        """
        return self.__getattr__("item").array

    def span(self) -> tuple[int, int]:
        """The positions of the first entry not yet taken, and after the last entry."""
        counters = self._host_meta
        count = counters.item(COUNT)
        return min(counters.item(HEAD), count), count

    def __reduce__(self) -> Any:
        return reduced(self)

    def __iter__(self) -> Iterator[Row]:
        """The items, rows of the table or numbers; entries if there are other columns."""
        if list(self.columns) == ["item"]:
            table, items = self.table, self.device.to_host(self.items)
            return iter(items) if table is None else (Row(table, i) for i in items.tolist())
        return (Row(self, i) for i in range(*self.span()))

    def __getitem__(self, i: int | slice) -> Any:
        """The ``i``-th entry not yet taken, as in iteration; for a slice, several."""
        if isinstance(i, slice):
            return RowRange(self, i)
        first, last = self.span()
        if not 0 <= i < last - first:
            raise IndexError(f"{self.name} has {last - first} entries, not one at {i}")
        entry = Row(self, first + i)
        return entry.item if list(self.columns) == ["item"] else entry

    def target(self, column: Column) -> Table | None:
        """The table that a reference column refers to; None if it is not known."""
        if self.graph is not None:
            found: Table | None = self.graph.tables.get(column.ref or "")
            return found
        return self._targets.get(column.ref or "")

    def _check_ref(self, ref: str | None, table: Any, where: str) -> None:
        known = self.graph.tables if self.graph is not None else self._targets
        if ref is not None and (ref not in known or known[ref] is not (table or known[ref])):
            raise ValueError(f"{where}: no table {shown(ref)} here; say Ref(table)")

    def _derive_counters(self, counters: np.ndarray[Any, Any]) -> None:
        counters[HEAD] = min(counters[HEAD], counters[COUNT])
        counters[BUDGET] = counters[CAPACITY] - counters[COUNT]

    def add_columns(
        self, specs: Mapping[str, tuple[Any, Any]], groups: Iterable[Iterable[str]] = ()
    ) -> None:
        """Add columns, see `Store.add_columns`, and register the collection at their targets."""
        super().add_columns(specs, groups)
        for name in specs:
            if (target := self.target(self.columns[name])) is not None:
                target.dependents.add(self)

    def _table_resized(self, capacity: int) -> None:
        """Do nothing: the entries do not depend on the capacity of a table that they refer to."""

    def _references(self, table: Table) -> Iterator[Array]:
        """The references to a table in the entries not yet taken."""
        first, last = self.span()
        for c in self.columns.values():
            if c.ref and self.target(c) is table:
                yield c.array[first:last]

    def _renumbered(self, maps: Mapping[Any, Array]) -> Any:
        """Prepare for rows of tables to be renumbered; returns the function that does it.

        Entries whose ``item`` was deleted are removed; other references to dead rows become -1.
        """
        first, last = self.span()
        xp = self.device.xp
        moved = {
            c.name: translate(xp, c.array[first:last], maps[t])
            for c in self.columns.values()
            if c.ref and (t := self.target(c)) in maps
        }
        keep = xp.arange(first, last)
        if self.table in maps:
            kept = moved["item"] >= 0
            keep = keep[kept]
            moved = {name: a[kept] for name, a in moved.items()}
        return partial(self._replace, squeeze(self, keep, moved), int(keep.size))

    def _replace(self, records: list[Record], count: int) -> None:
        """Replace the memory by new records with these entries."""
        self._records = records
        self._bind_columns(records, self.columns.values())
        self._host_meta[HEAD] = 0
        self._host_meta[COUNT] = count
        self._publish_counters()
        self._changed()

    @exclusive
    def _reorder(self, order: Array) -> None:
        """Reorder all entries; ``order``, shape (len,), has their current positions."""
        with self.device.active():
            self._keep(order + self.span()[0])

    @exclusive
    def _keep(self, positions: Array) -> None:
        """Keep only the entries at some positions, in this order."""
        with self.device.active():
            records = squeeze(self, positions, {})
        carry_out([partial(self._replace, records, int(positions.size))])

    def _like(self) -> Collection:
        """Return a collection of the same rows and columns without entries."""
        specs: dict[str, Any] = {}
        for c in self.columns.values():
            spec = Ref(self.target(c) or str(c.ref)) if c.ref else c.dtype
            specs[c.name] = (spec[c.size] if c.ref else vec(spec, c.size)) if c.size else spec
        if self.table is not None:
            del specs["item"]
        made = Collection(self.table, device=self.device, name=self.name, **specs)
        for name, c in self.columns.items():
            made.columns[name].fill = c.fill
        return made


Collection.reserved = frozenset(n for n in (*dir(Collection), *dir(Row)) if not n.startswith("_"))


class Set:
    """Disjoint sets of the rows of a table, initially one for each row.

    The representative of a set is its smallest row.  Kernels call ``find`` and ``union`` too.
    Each call on the host synchronises with the GPU; `labels` returns all representatives at once.

    Parameters
    ----------
    table : Table
        New rows of the table are singletons.  A deleted row stays in its set, and is not recycled
        while the set has other members.
    """

    kind: ClassVar[str] = "set"
    __slots__ = (
        "__weakref__", "_lock", "_parent", "columns", "device", "graph", "name", "table", "version",
    )  # fmt: skip

    def __init__(self, table: Table) -> None:
        if not isinstance(table, Table):
            on_parts = getattr(type(table), "on_parts", None)
            hint = " (in parts: connect rows by labels)" if on_parts is not None else ""
            raise TypeError(f"a set is of rows of a table, not of {shown(table)}{hint}")
        self.table = table
        self.graph = table.graph
        self.device = table.device
        self.name = f"set of {table.name}"
        self._lock = table._lock
        self.columns: dict[str, Column] = {}
        self.version = 0
        self._parent = self._singletons(table.capacity)
        table.dependents.add(self)
        advance_epoch()

    def _singletons(self, capacity: int) -> Array:
        with self.device.active():
            return self.device.xp.arange(max(capacity, 1), dtype=np.int32)

    def _row(self, row: Any) -> int:
        id = as_id(row, self.table, self.name)
        if not 0 <= id < len(self.table):
            rows = f"{self.table.name} ({len(self.table)} rows)"
            raise ValueError(f"{self.name} = {shown(id)} is not a row of {rows}")
        return id

    @exclusive
    def find(self, row: Any) -> Row:
        """Return the representative of ``row`` (an id or a `Row`): the smallest row of its set."""
        parent = self._parent
        id = self._row(row)
        while (up := int(parent[id])) != id:
            id = up
        return Row(self.table, id)

    @exclusive
    def union(self, a: Any, b: Any) -> bool:
        """Unite the sets of two rows; true if they were disjoint."""
        low, high = sorted((self.find(a).id, self.find(b).id))
        with self.device.active():
            self._parent[high] = low
        return low != high

    @exclusive
    def reset(self) -> None:
        """Make each row a singleton."""
        self.device.put(*self.cleared())

    def cleared(self) -> list[tuple[Any, Any]]:
        """Return the writes, for `Device.put`, of `reset`."""
        return [(self._parent, IOTA)]

    @exclusive
    def labels(self) -> Array:
        """Return the representative of each row, shape (len(table),), int32."""
        parent = self._parent[: len(self.table)]
        with self.device.active():
            while True:
                above = parent[parent]
                if all_true(above == parent):
                    return above
                parent = above

    def address(self, kind: str, column: str = "") -> int:
        """Return the device address of ``parent`` (i32, shape (capacity,)) at this `version`."""
        if kind != "parent":
            raise ValueError(f"a set has no {shown(kind)} array")
        return self.device.pointer(self._parent)

    def touched(self) -> None:
        """Do nothing: the host has no copy of the sets."""

    def _publish_counters(self) -> None:
        """Do nothing: there are no counters."""

    def _references(self, table: Table) -> Iterator[Array]:
        """The rows in sets with several members."""
        label = self.labels()
        with self.device.active():
            joined = self.device.xp.flatnonzero(label != self.device.xp.arange(label.size))
            yield joined
            yield label[joined]

    @exclusive
    def _table_resized(self, capacity: int) -> None:
        """Resize to the table's capacity; new rows are singletons."""
        if capacity > self._parent.size:
            parent = self._singletons(capacity)
            with self.device.active():
                parent[: self._parent.size] = self._parent
            self._parent = parent
            renew(self)

    def _renumbered(self, maps: Mapping[Any, Array]) -> Any:
        """Prepare for the table's rows to be renumbered; returns the function that does it."""
        xp = self.device.xp
        new_id = maps[self.table]
        old_id = xp.flatnonzero(new_id >= 0)
        label, new_id = self.labels()[old_id], new_id[old_id]
        smallest = xp.full(len(self.table), np.iinfo(np.int32).max, np.int32)
        xp.minimum.at(smallest, label, new_id)
        parent = self._singletons(self._parent.size)
        parent[new_id] = smallest[label]

        def commit() -> None:
            self._parent = parent
            renew(self)

        return commit

    def __reduce__(self) -> Any:
        return reduced(self)

    def __repr__(self) -> str:
        return f"<Set of {self.table.name}, {len(self.table)} rows on {self.device.name}>"


class Flag:
    """A boolean on a device that kernels raise and the host (or a program) takes.

    Parameters
    ----------
    where : str, Device, Graph or Table, optional
        The device, or an object on it; see `morph.set_device` for the default.
    """

    kind: ClassVar[str] = "flag"
    __slots__ = ("__weakref__", "_buffers", "columns", "device", "graph", "name", "version")

    def __new__(cls, where: Any = None) -> Any:
        """Make a flag; for a partitioned graph, one on each part."""
        on_parts = getattr(type(where), "on_parts", None)
        return object.__new__(cls) if on_parts is None else on_parts(where, cls)

    def __init__(self, where: Any = None) -> None:
        self.device = device_for(getattr(where, "device", where))
        self.graph = None
        self.name = "flag"
        self.columns: dict[str, Column] = {}
        self.version = 0
        self._buffers = self.device.zeros(4, np.int32)  # the first; fused programs rotate 0 to 2
        advance_epoch()

    def __bool__(self) -> bool:
        """Whether the flag is raised; synchronises with the GPU."""
        return bool(self.device.to_host(self._buffers)[0])

    @property
    def raised(self) -> bool:
        """Whether the flag is raised; synchronises with the GPU."""
        return bool(self)

    def take(self) -> bool:
        """Read the flag and lower it; synchronises with the GPU."""
        raised = bool(self)
        if raised:
            self._put(0)
        return raised

    def set(self) -> None:
        """Raise the flag."""
        self._put(1)

    def clear(self) -> None:
        """Lower the flag."""
        self._put(0)

    def _put(self, value: int) -> None:
        self.device.put((self._buffers[:1], value))

    def address(self, kind: str, column: str = "") -> int:
        """Return the device address of the flag's four words (i32)."""
        if kind != "flag":
            raise ValueError(f"a flag has no {shown(kind)} array")
        return self.device.pointer(self._buffers)

    def touched(self) -> None:
        """Do nothing: the host has no copy of the flag."""

    def _publish_counters(self) -> None:
        """Do nothing: there are no counters."""

    def __reduce__(self) -> Any:
        return reduced(self)

    def __repr__(self) -> str:
        return f"<Flag on {self.device.name}>"
