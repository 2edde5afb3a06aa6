"""Tables: growable columns with deletion, reuse of deleted rows, and compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, ClassVar, overload

import numpy as np

from morph.data.column import ColumnView
from morph.data.compaction import compact, prepared
from morph.data.conversion import bind, check_alive, check_ids, converted, prepare
from morph.data.layout import Column, Record
from morph.data.pickles import reduced
from morph.data.reclaim import SHARE, reclaim, referred, release
from morph.data.row import Row, RowRange, as_id
from morph.data.store import BUDGET, CAPACITY, COMMITTED, COUNT, HEAD, TAIL, Store, groups_of
from morph.data.temporary import TemporaryColumns
from morph.data.versions import exclusive
from morph.language.arguments import integer
from morph.language.messages import shown
from morph.language.weak import WeakObjects
from morph.runtime.arrays import refuse_masked
from morph.runtime.device import Array, Device, device_for

# number of places of a new ring of deleted rows: the table's capacity >> RING, at least LEAST_RING
RING, LEAST_RING = 4, 1 << 10


class Table(Store):
    """A growable struct-of-arrays store on one device.

    Parameters
    ----------
    name : str
    device : str, Device, Graph or Table, optional
        The device, see `morph.device`, or an object on it; `morph.set_device` for the default.
    capacity : int
        Initial capacity in rows; a full table grows.
    pack : iterable of str, or of groups of them
        Columns to interleave in one record, see `pack`.
    **columns
        Column types by name: a NumPy type, ``vec(type, n)``, ``(type, n)``, ``Ref(table)`` or
        ``Ref(table)[n]``.

    Attributes
    ----------
    graph : Graph or None
        The graph the table belongs to.
    deletes : bool
        Whether rows may be dead: true from the first deletion, or `allow_deletes`, on.

    Notes
    -----
    ``table.x`` is column ``x`` over the allocated rows, ``table[i]`` is row ``i``, ``table[i:j]``
    are rows for a `foreach` or a loop, and iteration yields the live rows.  A deleted row keeps its
    id until `new` (of the host or of a kernel) recycles it, or `compact` renumbers the rows.  A row
    is not recycled while a live reference denotes it: a reference column of a live row, an entry of
    a collection, or a set in which the row is no singleton.  `Row` objects and integers are ids,
    not references.  Growth replaces the device memory of a table; see `ColumnView` for arrays that
    were taken before.
    """

    kind: ClassVar[str] = "table"
    __slots__ = ("_held", "_known", "_ring_is_full", "_targets", "deletes", "dependents", "graph")

    def __new__(cls, name: str = "", device: Any = None, *args: Any, **columns: Any) -> Any:
        """Make a table; for a partitioned graph, a copy on each part."""
        on_parts = getattr(type(device), "on_parts", None)
        return (
            object.__new__(cls)
            if on_parts is None
            else on_parts(device, cls, name, *args, **columns)
        )

    def __init__(
        self,
        name: str,
        device: Any = None,
        capacity: int = 0,
        pack: Iterable[Any] | None = None,
        **columns: Any,
    ) -> None:
        self.deletes = False
        self.graph: Any = None  # the Graph that it belongs to
        # During a launch: TAIL of the ring before the launch.  Rows that the launch deletes are not
        # recycled in it, as its adjacency still refers to them.
        self._held: int | None = None
        # Whether the ring has the size that kernels compute from the capacity; see `ring`.
        self._ring_is_full = False
        self._known = -1, False  # `latest.epoch`, and the result of `referred` at that time
        # Collections, sets, and tables outside its graph that refer to the rows.
        self.dependents: WeakObjects[Any] = WeakObjects()
        self._targets: dict[str, Table] = {}  # other tables that a table outside graphs refers to
        super().__init__(name, device_for(getattr(device, "device", device)), capacity)
        if columns or pack:
            self.add_columns({n: (t, None) for n, t in columns.items()}, groups_of(pack or ()))

    def add(self, name: str, spec: Any, fill: Any = None) -> ColumnView:
        """Add a column.

        Parameters
        ----------
        name : str
        spec : type, (type, n), Vec or Ref
            The type: ``f64``, ``vec(f64, 2)``, ``Ref("points")``, ``Ref("points")[3]``.
        fill : scalar or sequence, optional
            The value of existing and new rows until they are written; by default 0, or None for a
            reference.

        Raises
        ------
        TypeError
            If the type is not one of NumPy's boolean, integer or real types of at most 64 bits.
        ValueError
            If the name is in use or not an identifier.
        """
        return self.add_column(name, spec, fill)

    def temporary_columns(self, **specs: tuple[Any, Any]) -> TemporaryColumns:
        """Return columns for a ``with`` block; they shadow other columns of these names.

        Each entry of the block uses the same memory, and sets the columns to their fills.

        Parameters
        ----------
        **specs : (dtype, fill)
            By column name.
        """
        return TemporaryColumns(self, specs)

    # --- rows ------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, id: int) -> Row: ...
    @overload
    def __getitem__(self, id: slice) -> RowRange: ...
    def __getitem__(self, id: Any) -> Any:
        if isinstance(id, slice):
            return RowRange(self, id)
        if not hasattr(id, "__index__"):
            raise TypeError(f"{self.name}[...] takes one row's id; index a column for many")
        return self.row(id.__index__())

    def __len__(self) -> int:
        count: int = self._host_meta.item(COUNT)
        return count

    def __iter__(self) -> Iterator[Row]:
        return (Row(self, i) for i in self.device.to_host(self.ids()).tolist())

    @property
    def live(self) -> int:
        """Number of rows that are not deleted."""
        w = self._host_meta
        return int(w[COUNT] - (w[TAIL] - min(w[HEAD], w[COMMITTED])))

    @property
    def alive(self) -> Array:
        """Mask of the live rows, shape (len,), bool."""
        if not self.deletes:
            return self.device.full(len(self), True, np.bool_)
        with self.device.active():
            return self.hidden("dead")[: len(self)] == 0

    def ids(self) -> Array:
        """Return the ids of the live rows, shape (live,), int64, ascending."""
        xp = self.device.xp
        with self.device.active():
            return xp.flatnonzero(self.alive) if self.deletes else xp.arange(len(self))

    def is_dead(self, id: int) -> bool:
        """Whether a row is deleted."""
        return self.deletes and bool(self.hidden("dead")[id])

    @exclusive
    def new(self, *values: Any, **named: Any) -> Row:
        """Allocate a row: a recycled one if possible, else at the end.

        Parameters
        ----------
        *values, **named
            Values of columns in order, and by name; the others get their fill.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If a value does not fit its column.  The table is unchanged then.
        """
        self._may_change()
        given = bind(self, values, named)
        again = self._reuses()
        _, checked = prepare(self, 1, given, fresh=0 if again else 1)
        self._check_ends(checked)
        if not again and len(self) == self.capacity:
            self._extend_capacity(1)
            if again := self._reuses():
                _, checked = prepare(self, 1, given, fresh=0)
        counters, after = self._host_meta, self._host_meta.copy()
        after[HEAD if again else COUNT] += 1
        self._derive_counters(after)
        with self.device.active():
            id = int(counters[COUNT])
            if again:
                ring, dead = self.ring, self.hidden("dead")
                id = int(ring[int(counters[HEAD]) & (ring.size - 1)])
            self._write(id, 1, checked)
            if again and self.graph is not None and self.name == "edges":
                self.graph._forget_order(id)
            self.changed(appended=not again or (self.graph is not None and self.graph.complete))
            if again:
                dead[id] = 0
            counters[:] = after  # no signal handler runs between this line and the previous one
        self._send_counters()
        return Row(self, id)

    @exclusive
    def extend(self, n: int | None = None, **arrays: Any) -> int:
        """Append rows, and return the id of the first.

        Parameters
        ----------
        n : int, optional
            The number of rows; by default the length of the arrays.
        **arrays
            Column values: shape (n,) or (n, size), or one row's value for all.  Other columns get
            their fill.  References may denote the new rows.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If the lengths differ, or values do not fit their column.  The table is unchanged then.
        """
        self._may_change()
        n, checked = prepare(self, None if n is None else integer(n, "n"), arrays)
        self._check_ends(checked)
        first = len(self)
        self._ensure_capacity(first + n)
        after = self._host_meta.copy()
        after[COUNT] += n
        self._derive_counters(after)
        self.changed(appended=True)  # first: an interrupt must not leave an old index
        with self.device.active():
            self._write(first, n, checked, self._counter_writes(after))
        self._host_meta[:] = after
        return first

    @exclusive
    def adopt(self, n: int, arrays: Mapping[str, Array | Callable[[], Array]]) -> None:
        """Use arrays, one for each column, contiguous and checked, as the memory of ``n`` rows.

        A function in place of an array returns the array, when the column is used first.
        The table must have no rows, and no packed columns.
        """
        for rec in self._records if n else ():
            given = arrays[rec.names[0]]
            rec.buffer = given if callable(given) else given.view(np.uint8)
        self.capacity = n
        self._bind_columns(self._records, self.columns.values())
        self._hidden = {}
        self._host_meta[COUNT] = self._host_meta[CAPACITY] = n
        self._publish_counters()
        self._changed()
        self.changed()

    def assign(self, column: Column, key: Any, value: Any, array: Array = None) -> None:
        """Write to a column, see `Store.assign`; new ends of edges invalidate the adjacency.

        The ends of live edges must not be deleted points (ValueError).
        """
        if column.name not in ("src", "dst"):
            super().assign(column, key, value, array)
            return
        with self._lock:
            self._may_change()
            value = self._live_ends(column, key, value)
            super().assign(column, key, value, array)
            if self.name == "edges":
                self.changed()

    @exclusive
    def allow_deletes(self) -> None:
        """Enable deletion: kernels then test for each row whether it is dead."""
        if not self.deletes:
            dead = self._hidden_array("dead", self.capacity)
            free = self._ring(max(self.capacity >> RING, LEAST_RING))
            self._hidden.update(dead=dead, free=free)
            self._changed()  # first: also an interrupt must invalidate launches without tests
            self.deletes = True
            self._changed()

    @exclusive
    def delete(self, ids: Any) -> None:
        """Delete rows; rows that are already dead are ignored.

        Edges of an undirected graph are deleted with their reverses.

        Parameters
        ----------
        ids : int, Row, sequence or array of these, or array of bool of length ``len(table)``

        Raises
        ------
        ValueError
            If an id is not allocated.  Nothing is deleted then.
        """
        refuse_masked(ids, "ids")
        self._may_change()
        xp, count = self.device.xp, len(self)
        if isinstance(ids, (Row, int)):
            ids = [ids]
        if isinstance(ids, (list, tuple, set, frozenset)) and not _bools(ids):
            ids = np.array([as_id(i, self, "ids") for i in ids])
        with self.device.active():
            a = self.device.asarray(ids)
            if a.dtype.kind == "b":
                if a.shape != (count,):
                    raise ValueError(f"a mask of {self.name} has {count} values, not {a.shape}")
                a = xp.flatnonzero(a)
            elif a.dtype.kind not in "iu" and a.size:
                raise TypeError(f"rows to delete are ids or a mask, not {a.dtype}")
            check_ids(a, count, "ids", self.name)
            a = xp.sort(a.reshape(-1).astype(np.int64))
            first = a >= 0
            first[1:] = a[1:] != a[:-1]  # unique() would import half of NumPy for a single row
            a = a[first]
            if self.deletes:
                a = a[self.hidden("dead")[a] == 0]
            if not a.size:
                return
            if self.graph is not None and self.name in ("points", "edges"):
                self.graph._delete(**{self.name: a})
            else:
                self._tombstone(a)

    def _tombstone(self, ids: Array) -> None:
        """Mark live rows as deleted; the ids are distinct."""
        self.allow_deletes()
        self.reserve_ring(ids.size)
        dead, ring, counters = self.hidden("dead"), self.ring, self._host_meta
        tail = int(counters[TAIL])
        at = self.device.xp.arange(tail, tail + ids.size) & (ring.size - 1)
        ring[at] = ids.astype(np.int32, copy=False)
        after = counters.copy()
        after[TAIL] += ids.size
        self._derive_counters(after)
        dead[ids] = 1
        counters[:] = after  # no signal handler runs between this line and the previous one
        self._send_counters()

    @exclusive
    def truncate(self, n: int) -> None:
        """Remove the rows from ``n`` on; no reference to them may exist.

        Raises
        ------
        ValueError
            If ``n`` is not from 0 to the number of rows, or a row is deleted.
        """
        self._may_change()
        rows = len(self)
        if not 0 <= n <= rows:
            raise ValueError(f"{self.name}: there are {rows} rows, not {n}")
        if self.deletes and self.live < rows:
            raise ValueError(f"{self.name}: rows are deleted, so compact it")
        if n == rows:
            return
        self._host_meta[COUNT] = n
        self._publish_counters()
        self.changed()

    def _may_change(self) -> None:
        if self.graph is not None and self.name in ("points", "edges"):
            self.graph.may_change()

    def changed(self, appended: bool = False) -> None:
        """Notify the graph that rows were added or deleted; ``appended``: only added at the end."""
        if self.graph is not None and self.name == "points":
            self.graph.points_changed(appended)
        elif self.graph is not None and self.name == "edges":
            self.graph.structure_changed()

    @exclusive
    def compact(self) -> None:
        """Remove the dead rows, and renumber all references to this table in its graph.

        Rows keep their order.  References to dead rows become -1; items of collections that are
        dead rows are removed; sets keep the components of the live rows.
        """
        self._renumber(self.ids())

    @exclusive
    def _renumber(self, rows: Array) -> None:
        """Keep some live rows, in the given order, as `compact` does."""
        g = self.graph
        if g is not None:
            g.may_change()
        order = g._input_positions(rows) if g is not None and self is g.edges else None

        def follow() -> None:
            self.changed()
            if g is not None and self is g.edges:
                g._reordered(order)

        tables = g.tables.values() if g is not None else [self]
        compact([self], tables, follow, {self: rows})

    def like(self, device: str | Device | None = None) -> Table:
        """Return an empty table with the same name, columns and layout, outside of graphs."""
        other = Table(self.name, self.device if device is None else device)
        other._take_columns(self)
        return other

    @exclusive
    def to(self, device: str | Device) -> Table:
        """Return a copy on a device (also on this one), outside of graphs."""
        other = self.like(device)
        other._take_rows(self)
        return other

    def __copy__(self) -> Table:
        copy = self.to(self.device)
        copy.__setstate__(self._targets)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        if self.graph is not None:  # references to it must denote the table of the graph's copy
            found: Table = deepcopy(self.graph, memo).tables[self.name]
            return found
        memo[id(self)] = copy = self.to(self.device)
        copy.__setstate__(deepcopy(self._targets, memo))
        return copy

    def __reduce__(self) -> Any:
        return reduced(self)

    def __setstate__(self, targets: Mapping[str, Table]) -> None:
        for table in targets.values():
            self._refer_to(table)

    # --- internals -------------------------------------------------------------------------------

    def _take_columns(self, other: Table) -> None:
        """Copy columns and layout of ``other`` to an empty table."""
        columns = other.columns.values()
        self.add_columns(
            {
                c.name: ((c.dtype, c.size) if c.size else c.dtype, c.fill)
                for c in columns
                if c.name not in self.columns
            }
        )
        for c in columns:
            self.columns[c.name].ref = c.ref
            self.columns[c.name].fill = c.fill
        self.pack(*other.packs)
        if other.deletes:
            self.allow_deletes()

    def _take_rows(self, other: Table) -> None:
        """Copy the rows of ``other``, which has the same columns and layout."""
        self.resize(other.capacity)
        by_names = {r.names: r for r in other._records}
        with self.device.active():
            for rec in self._records:
                used = len(other) * rec.stride
                rec.buffer[:used] = self.device.asarray(by_names[rec.names].buffer[:used])
            if other.deletes:
                self.hidden("dead")[:] = self.device.asarray(other.hidden("dead"))
                self._set_ring(self.device.copy(other.ring))
        self._host_meta[:] = other._host_meta  # deleted rows are kept, as references may follow
        self._send_counters()

    def target(self, column: Column) -> Table | None:
        """The table that a reference column refers to; None if it is not known."""
        if self.graph is not None:
            found: Table | None = self.graph.tables.get(column.ref or "")
            return found
        return self if column.ref == self.name else self._targets.get(column.ref or "")

    def _check_ref(self, ref: str | None, table: Any, where: str) -> None:
        tables = self.graph.tables if self.graph is not None else {}
        if table is None or table is self or tables.get(ref or "") is table:
            return
        if self.graph is not None:
            raise ValueError(f"{where}: {shown(table)} is not a table of the same graph")
        if table.device != self.device:
            raise ValueError(
                f"{where}: {shown(table)} is on {table.device.name}, not on {self.device.name}"
            )
        if ref == self.name or self._targets.get(table.name, table) is not table:
            raise ValueError(f"{where}: two tables are named {shown(ref)}")
        self._refer_to(table)

    def _refer_to(self, table: Table) -> None:
        """Register as a dependent of a table; tables that refer to each other share a lock."""
        connected = {*_connected(self), *_connected(table)}
        graphs = {id(x.graph): x.graph for x in connected if x.graph is not None}
        if len(graphs) > 1:
            raise ValueError(f"{self.name} refers to tables of one graph only")
        lock = next(iter(graphs.values()))._lock if graphs else table._lock
        for x in connected:
            x._lock = lock
        self._targets[table.name] = table
        table.dependents.add(self)

    def _table_resized(self, capacity: int) -> None:
        """Do nothing: the rows do not depend on the capacity of a table that they refer to."""

    def _references(self, table: Table) -> Iterator[Array]:
        """The references to another table in the live rows."""
        for c in self.columns.values():
            if c.ref and self.target(c) is table:
                yield c.array[: len(self)][self.alive]

    def _renumbered(self, maps: Mapping[Any, Array]) -> Any:
        """Prepare for rows of other tables to be renumbered; returns the function that does it."""
        return prepared(self, None, maps)

    def _derive_counters(self, counters: Any) -> None:
        committed = counters.item(COMMITTED)  # Python's numbers take less time than NumPy's
        head, free = counters.item(HEAD), counters.item(CAPACITY) - counters.item(COUNT)
        if head > committed:
            counters[HEAD] = head = committed
        if counters.item(TAIL) > committed and not referred(self):
            counters[COMMITTED] = committed = max(committed, self._quarantined_to(counters))
        counters[BUDGET] = committed - head + free

    def _ends(self, name: str) -> Table | None:
        """The table of points, if a column has the ends of a graph's edges; else None."""
        edges = self.graph is not None and self.name == "edges" and name in ("src", "dst")
        return self.graph.points if edges and self.graph is not None else None

    def _check_ends(self, given: Mapping[str, Array]) -> None:
        """Refuse new edges at deleted points."""
        for name, a in given.items():
            if (points := self._ends(name)) is not None:
                check_alive(points, self.device.asarray(a), f"{self.name}.{name}")

    def _live_ends(self, column: Column, key: Any, value: Any) -> Any:
        """Convert ``value``; refuse deleted points as ends of live edges."""
        points = self._ends(column.name)
        if points is None or not points.deletes:
            return value
        a = self.device.asarray(converted(self, column, value))
        with self.device.active():
            key = self.device.asarray(key) if isinstance(key, np.ndarray) else key
            check_alive(points, a, f"{self.name}.{column.name}", ~self.alive[key])
        return a

    @property
    def _has_deletes(self) -> bool:
        return self.deletes

    def _quarantined_to(self, counters: Any = None) -> int:
        """The end, in the ring, of the deleted rows that may be released now."""
        return int(
            (self._host_meta if counters is None else counters)[TAIL]
            if self._held is None
            else self._held
        )

    def _reuses(self) -> bool:
        """Whether the next row is recycled; without references to the table, all rows are free."""
        release(self)
        return bool(self._host_meta[HEAD] < self._host_meta[COMMITTED])

    def _extend_capacity(self, more: int) -> None:
        """Provide capacity for ``more`` rows: release deleted rows; grow if these are few.

        Raises
        ------
        ValueError
            As `grow`.
        """
        released = reclaim(self) if self.deletes else 0
        enough = released >= max(more, self.capacity // SHARE)
        if not enough and not (released and self.capacity >= self._most):  # those may suffice
            super()._extend_capacity(more)

    def _hidden_array(self, kind: str, capacity: int) -> Array:
        if kind == "free":
            if not self.deletes:  # requested by a kernel that only allocates: it stays empty
                return self.device.nothing(4).view(np.int32)
            return self._ring(capacity if self._ring_is_full else self.ring.size)
        return super()._hidden_array(kind, capacity)

    def hidden(self, kind: str) -> Array:
        """Return an array that only kernels access, see `Store.address`."""
        if kind == "free" and self.deletes and not self._ring_is_full:
            self._resize_ring(self.capacity)
            self._ring_is_full = True
        return super().hidden(kind)

    @property
    def ring(self) -> Array:
        """The ring of deleted rows, of a table that has `deletes`; its size is a power of two.

        Kernels that create or delete rows compute its size from the capacity.  Until such a kernel
        needs it, the ring is only as large as the host, or batches of changes, need it.
        """
        return self._hidden["free"]

    def reserve_ring(self, more: int) -> None:
        """Provide capacity in the ring for ``more`` deleted rows."""
        w: list[int] = self._host_meta.tolist()
        used = w[TAIL] - min(w[HEAD], w[COMMITTED])
        if used + more > self.ring.size:  # by much, as a new address invalidates bound launches
            self._resize_ring(max(used + more, min(4 * self.ring.size, self.capacity)))

    def _ring(self, rows: int) -> Array:
        return self.device.zeros(1 << max(rows - 1, 0).bit_length(), np.int32)

    def _resize_ring(self, rows: int) -> None:
        with self.device.active():
            fresh = self._ring(rows)
            if fresh.size != self.ring.size:
                self._move_ring(fresh)
                self._set_ring(fresh)

    def _set_ring(self, ring: Array) -> None:
        self._changed()  # first: an interrupt must not leave launches with the old address
        self._hidden["free"] = ring
        self._ring_is_full = False

    def _move_ring(self, fresh: Array) -> None:
        """Copy deleted rows to another ring: their positions continue, only addresses change."""
        xp, tail, old = self.device.xp, int(self._host_meta[TAIL]), self.ring
        # also rows that a launch has recycled, as their ends are not yet checked
        at = xp.arange(max(tail - min(old.size, fresh.size), 0), tail)
        fresh[at & (fresh.size - 1)] = old[at & (old.size - 1)]

    def _resized(self, capacity: int, hidden: dict[str, Array]) -> None:
        if self.deletes:
            self._move_ring(hidden["free"])
        for dependent in self.dependents:
            dependent._table_resized(capacity)
        if self.graph is not None and self.name == "points":
            self.graph.points_resized()

    def _no_dead(self) -> dict[str, Array]:
        """Return the hidden arrays of a table without dead rows."""
        kinds = ("dead", "free") if self.deletes else ()
        return {kind: self._hidden_array(kind, self.capacity) for kind in kinds}

    def _replace(self, records: list[Record], hidden: dict[str, Array], count: int) -> None:
        """Install compacted rows, which are all alive."""
        self._records = records
        self._bind_columns(records, self.columns.values())
        self._hidden = hidden
        counters = self._host_meta
        counters[COUNT] = count
        counters[HEAD] = counters[TAIL] = counters[COMMITTED] = 0
        self._held = None
        self._publish_counters()
        self._changed()


def _connected(x: Any) -> set[Any]:
    """The tables, collections and sets connected by references, without those of a graph."""
    found, todo = set[Any](), [x]
    while todo:
        if (x := todo.pop()) not in found:
            found.add(x)
            if x.graph is None:
                todo += [*getattr(x, "dependents", ()), *getattr(x, "_targets", {}).values()]
    return found


def set_lengths(tables: Iterable[Table], sizes: Iterable[int]) -> None:
    """Give tables of one device numbers of rows; the contents of new rows are undefined.

    No row may be deleted, and no reference to a removed row may exist.  Rows beyond the capacity
    are appended as by `Table.extend`.
    """
    changed = []
    for t, n in zip(tables, sizes, strict=True):
        if n > t.capacity:
            t.extend(n - len(t))
        elif n != len(t):
            t._may_change()
            t._host_meta[COUNT] = n
            t._derive_counters(t._host_meta)
            t.changed()
            changed.append(t)
    if changed and not (device := changed[0].device).on_host:
        device.put(*(w for t in changed for w in t._counter_writes(t._host_meta)))


def _bools(values: Any) -> bool:
    return bool(values) and all(isinstance(v, (bool, np.bool_)) for v in values)


Table.reserved = frozenset(n for n in (*dir(Table), *dir(Row)) if not n.startswith("_"))
