"""Base of tables and collections: columns in memory, a counter of rows, growth."""

from __future__ import annotations

import keyword
import logging
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar

import numpy as np

from morph.compiler.ir.layout import STORE_ARRAYS, Meta
from morph.data.column import ColumnView, few_places
from morph.data.conversion import column_from, converted
from morph.data.layout import Column, LazyPlace, Place, Record, record
from morph.data.protocols import TableLike
from morph.data.row import Row
from morph.data.versions import advance_epoch, exclusive, new_lock, renew
from morph.language.arguments import integer, string
from morph.language.dtypes import ID_LIMIT, checked_capacity, parse
from morph.language.messages import shortened, shown
from morph.runtime.device import Array, Device, is_host

_logger = logging.getLogger("morph.memory")
Word = Meta
COUNT, CAPACITY, HEAD, TAIL, COMMITTED, BUDGET = map(int, Word)  # indexing by them takes less time
TYPES = {"u8": np.uint8, "i32": np.int32, "u64": np.uint64}
# arrays that only kernels access: type, and value of a new row
HIDDEN: dict[str, tuple[Any, int]] = {
    kind: (TYPES[array.value], array.fill)
    for kind, array in STORE_ARRAYS.items()
    if array.fill is not None
}
SMALLEST = 16  # capacity of an empty store after its first growth
MOST_LAYOUTS = 1 << 12  # whose numbers are remembered; beyond, equal layouts get new numbers
_layouts: dict[tuple[Any, ...], int] = {}  # numbers of layouts, see `Store.layout`
_numbers = count()  # of layouts, never reused


class Store:
    """Growable columns on one device; use `Table` or `Collection`.

    Attributes
    ----------
    name : str
    device : Device
    columns : dict of str to Column
    capacity : int
        Number of rows that the memory has space for.
    version : int
        Changes with each address, stride and property of the columns.
    meta : array, shape (8,), int64
        Counters, on the device, where they are allocated at the first use; the words are those of
        `Word`.
    """

    kind: ClassVar[str] = "store"
    reserved: ClassVar[frozenset[str]] = frozenset()
    __slots__ = (
        "__weakref__", "_fills", "_hidden", "_host_counters", "_layout", "_lock", "_meta",
        "_most", "_records", "capacity", "columns", "device", "name", "version",
    )  # fmt: skip

    def __init__(self, name: str, device: Device, capacity: int = 0) -> None:
        self.columns: dict[str, Column] = {}
        self.name = name
        self.device = device
        self.capacity = checked_capacity(capacity)
        self.version = 0
        self._lock = new_lock()  # the lock of the graph, if the store belongs to one
        self._most = ID_LIMIT
        self._records: list[Record] = []
        self._hidden: dict[str, Array] = {}
        self._fills: Array = None
        self._layout = -1, 0  # the version at which `layout` was found, and its number
        # On the host, the meta array itself; for a GPU, a copy that is valid until `touched`.
        counters = np.zeros(8, np.int64)
        counters[CAPACITY] = counters[BUDGET] = self.capacity
        self._meta: Array = counters if device.on_host else None
        self._host_counters: np.ndarray[Any, Any] | None = counters
        advance_epoch()

    # --- counters --------------------------------------------------------------------------------

    @property
    def meta(self) -> Array:
        """The counters on the device."""
        if self._meta is None:
            allocate_counters([self])
        return self._meta

    @property
    def _host_meta(self) -> np.ndarray[Any, Any]:
        """The counters on the host; `_send_counters` sends changes to the device."""
        if self._host_counters is None:
            self._host_counters = self.device.to_host(self.meta)
        return self._host_counters

    def _send_counters(self) -> None:
        if writes := self._counter_writes(self._host_counters):
            self.device.put(*writes)

    def _counter_writes(self, counters: Any) -> list[tuple[Array, Any]]:
        """The writes that send counters to the device: none on a host or before the first use."""
        return [] if self.device.on_host or self._meta is None else [(self._meta, counters)]

    def touched(self) -> None:
        """Invalidate the host's copy of the counters: a kernel may have changed them."""
        if self._host_counters is None:
            return
        if not self.device.on_host and self._meta is not None:
            object.__setattr__(self, "_host_counters", None)  # `Store.__setattr__` is for columns

    def _publish_counters(self) -> None:
        """Recompute BUDGET and HEAD after changes by the host, as at the end of a launch."""
        self._derive_counters(self._host_meta)
        self._send_counters()

    def _derive_counters(self, counters: np.ndarray[Any, Any]) -> None:
        raise AssertionError("a store is a table or a collection")

    def span(self) -> tuple[int, int]:
        """The first allocated row, and the end."""
        return 0, self._host_meta.item(COUNT)

    def __len__(self) -> int:
        first, last = self.span()
        return last - first

    # --- columns ---------------------------------------------------------------------------------

    def add_column(self, name: str, spec: Any, fill: Any = None) -> ColumnView:
        """Add a column; existing rows get ``fill``.  See `Table.add`."""
        self.add_columns({name: (spec, fill)})
        return ColumnView(self, self.columns[name])

    @exclusive
    def add_columns(
        self, specs: Mapping[str, tuple[Any, Any]], groups: Iterable[Iterable[str]] = ()
    ) -> None:
        """Add several columns at once; none is added if one of them is refused.

        Parameters
        ----------
        specs : mapping of str to (type, fill)
            By name; see `Table.add`.
        groups : iterable of iterables of str
            Which of them to pack, see `pack`.

        Raises
        ------
        TypeError, ValueError
            As by `Table.add` and `pack`.
        """
        columns = {name: self._column(name, *given) for name, given in specs.items()}
        records = self._laid_out(columns, groups)
        first, last = self.span()
        self._allocate(records)
        self._bind_columns(records, columns.values())
        if last > first:  # new memory is zero
            filled = [c for c in columns.values() if np.asarray(c.fill).tobytes().strip(b"\0")]
            self.device.write_all((c.array[first:last], c.fill) for c in filled)
        self._records.extend(records)
        self._hidden.pop("owner", None)  # a packed record may have space for it
        self.columns.update(columns)
        self._changed()

    def _column(self, name: str, spec: Any, fill: Any) -> Column:
        """Make a column without memory, after all checks."""
        self._check_name(name)
        where = f"column {name!r} of {self.name}"
        parsed = parse(spec, where)
        self._check_ref(parsed.ref, parsed.table, where)
        return column_from(name, parsed, fill)

    @exclusive
    def drop(self, name: str) -> None:
        """Remove a column.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        string(name, "name")
        if name not in self.columns:
            raise KeyError(self.no_column(name))
        column = self.columns.pop(name)
        if any(r.packed and name in r.names for r in self._records):
            try:
                rest = (r.names for r in self._records if r.packed)
                self._pack([kept for r in rest if (kept := tuple(n for n in r if n != name))])
            except BaseException:
                self.columns[name] = column
                raise
        else:
            self._records = [r for r in self._records if name not in r.names]
            self._changed()

    @exclusive
    def rename(self, old: str, new: str) -> None:
        """Rename a column; its values, order and memory are kept.

        Raises
        ------
        KeyError
            If there is no column ``old``.
        ValueError
            If ``new`` is in use or not a valid name of a column.
        """
        string(old, "old"), string(new, "new")
        if old not in self.columns:
            raise KeyError(self.no_column(old))
        self._check_name(new)
        column = self.columns[old]
        named = {new if c is column else n: c for n, c in self.columns.items()}
        self.columns.clear()
        self.columns.update(named)  # in their previous order
        for rec in self._records:
            rec.names = tuple(new if n == old else n for n in rec.names)
        column.name = new
        self._changed()

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            problem = ": the name of a column is an identifier"
        elif name.startswith("_") or name in self.reserved:
            problem = f": this name has another meaning on {self.kind} rows"
        elif name in self.columns:
            problem = " exists already"
        elif name != (normal := unicodedata.normalize("NFKC", name)):
            problem = f": in Python's text this name is {normal!r}"
        else:
            return
        raise ValueError(f"column {shown(name)} of {self.name}{problem}")

    @property
    def packs(self) -> tuple[tuple[str, ...], ...]:
        """The columns that share a record, by record."""
        return tuple(r.names for r in self._records if r.packed)

    def _record_position(self, name: str) -> tuple[int, int]:
        """The offset of a column in its record, and the record's index; (0, -1): no record."""
        for i, rec in enumerate(self._records):
            if rec.packed and name in rec.names:
                return rec.offset(name), i
        return 0, -1

    @property
    def owner_stride(self) -> int:
        """Bytes between the claim keys of two rows; they lie in a record with spare bytes."""
        return next((r.stride for r in self._records if r.spare >= 0), 8)

    @property
    def layout(self) -> int:
        """A number of the properties that units depend on, apart from the tables referred to.

        It is equal only for stores of one kind with columns of equal names, types and places in a
        row, and for all of these unless more than `MOST_LAYOUTS` layouts were used in between.
        """
        version = self.version
        if self._layout[0] != version:
            columns = list(self.columns.values())  # another thread may add one
            packed = ((i, r) for i, r in enumerate(self._records) if r.packed)
            places = {n: (i, at) for i, r in packed
                      for n, at in zip(r.names, r.offsets, strict=True)}  # fmt: skip
            described = (
                self.kind, self._has_deletes, self._wide, self.owner_stride,
                *[(c.name, c.dtype, c.size, c.ref, c.stride, places.get(c.name)) for c in columns],
            )  # fmt: skip
            if len(_layouts) >= MOST_LAYOUTS and described not in _layouts:
                _layouts.clear()
            number = _layouts.setdefault(described, next(_numbers))
            object.__setattr__(self, "_layout", (version, number))
        return self._layout[1]

    @exclusive
    def pack(self, *groups: str | Iterable[str]) -> None:
        """Change the memory layout; kernels and results do not depend on it.

        Parameters
        ----------
        *groups : str, or iterable of str
            Columns to interleave in one record, or several groups, each a record.  All other
            columns are separate arrays.  The size of a record is a power of two up to 32 bytes,
            or a multiple of 32, so that random access to a row reads as few sectors as possible.

        Raises
        ------
        ValueError
            If a column does not exist or is named twice.
        """
        self._pack(groups_of(groups))

    def _pack(self, groups: list[tuple[str, ...]]) -> None:
        columns = self.columns
        _, last = self.span()
        plans = self._laid_out(columns, groups)
        self._allocate(plans)
        if last:
            views = ((n, rec.view(self.device, columns[n], rec.buffer))
                     for rec in plans for n in rec.names)  # fmt: skip
            self.device.write_all((a[:last], columns[n].array[:last]) for n, a in views)
        self._bind_columns(plans, columns.values())
        self._records = plans
        self._hidden.pop("owner", None)
        self._changed()

    def _laid_out(
        self, columns: Mapping[str, Column], groups: Iterable[Iterable[str]]
    ) -> list[Record]:
        """Lay out a record for each group of columns, and one for each of the others."""
        packed = [tuple(g) for g in groups]
        flat = [n for g in packed for n in g]
        for n in flat:
            if n not in columns:
                raise ValueError(self.no_column(n, columns))
            if flat.count(n) > 1:
                raise ValueError(f"column {n!r} of {self.name} is packed twice")
        records = [record([columns[n] for n in g], packed=True) for g in packed if g]
        return records + [record([c], packed=False) for n, c in columns.items() if n not in flat]

    def _allocate(self, records: Sequence[Record]) -> None:
        """Allocate the memory of records."""
        for rec, buffer in zip(records, self._buffers(records, self.capacity), strict=True):
            rec.buffer = buffer

    def _buffers(self, records: Sequence[Record], capacity: int) -> list[Array]:
        """Zeroed memory of each record for ``capacity`` rows; none has an address, too."""
        if not capacity:
            return [self.device.nothing(rec.stride) for rec in records]
        return self.device.buffers([capacity * rec.stride for rec in records])

    def _bind_columns(self, records: Iterable[Record], columns: Iterable[Column]) -> None:
        """Make the records' memory that of the columns."""
        by_name = {}
        for rec in records:
            base = self.device.pointer(rec.buffer) if rec.is_computed else 0
            for name, offset in zip(rec.names, rec.offsets, strict=True):
                by_name[name] = rec, base, offset
        for c in columns:
            rec, base, offset = by_name[c.name]
            if rec.is_computed:
                c.place = Place(self.device, rec.buffer, base, offset, self.capacity)
            else:
                c.place = LazyPlace(self.device, rec, self.capacity)
            c.stride = rec.stride

    def _changed(self) -> None:
        self._fills = None
        renew(self)

    def no_column(self, name: str, columns: Iterable[str] | None = None) -> str:
        """The message that there is no such column, with the names of all columns."""
        known = shortened(", ".join(self.columns if columns is None else columns) or "none", 100)
        return f"{self.name} has no column {shown(name)}; it has {known}"

    def target(self, column: Column) -> TableLike | None:
        """The table that a reference column refers to; None if it is not known."""
        raise AssertionError("a store is a table or a collection")

    def _check_ref(self, ref: str | None, table: Any, where: str) -> None:
        """Refuse a reference to a table whose compaction would not update the store."""

    # --- growth ----------------------------------------------------------------------------------

    def grow(self, minimum: int = 0) -> None:
        """Double the capacity, or make it ``minimum`` if that is more.

        Raises
        ------
        ValueError
            If the store would exceed 2^31 - 1 rows.
        """
        minimum = integer(minimum, "minimum")
        most = max(self._most, minimum)  # `resize` refuses an impossible minimum
        self.resize(min(max(2 * self.capacity, minimum, SMALLEST), most))

    def _extend_capacity(self, more: int) -> None:
        """Increase the capacity by ``more`` rows; raises as `grow`."""
        self.grow(self.capacity + more)

    def limit_rows(self, most: int) -> None:
        """Limit the store to ``most`` rows, as other data have fewer bits for their numbers."""
        self._most = integer(most, "most")

    @exclusive
    def resize(self, capacity: int) -> None:
        """Change the capacity; rows keep their contents and ids.

        Arrays taken from columns before refer to the old memory.  If memory runs out, the store is
        unchanged.

        Raises
        ------
        ValueError
            If ``capacity`` is below the number of rows, or above 2^31 - 1 or `limit_rows`.
        """
        capacity = checked_capacity(capacity)
        _, last = self.span()
        if capacity > self._most or capacity == self.capacity == self._most:
            raise ValueError(f"{self.name} is limited to {self._most} rows")
        if capacity < last:
            raise ValueError(f"{self.name} cannot have {capacity} rows: {last} are in use")
        counters = self._host_meta.copy()
        counters[CAPACITY] = capacity
        self._derive_counters(counters)
        with self.device.active():
            buffers = self._buffers(self._records, capacity)
            if last:
                sizes = (last * rec.stride for rec in self._records)
                both = zip(buffers, self._records, sizes, strict=True)
                self.device.put(*((new[:size], rec.buffer[:size]) for new, rec, size in both))
            kept = self._hidden.keys() - {"owner"}  # the owner array is unused between launches
            hidden = {kind: self._hidden_array(kind, capacity) for kind in kept}
            for kind, array in hidden.items():
                keep = min(array.size, self.capacity, capacity)
                if kind in HIDDEN:
                    self.device.write(array[:keep], self._hidden[kind][:keep])
            self._resized(capacity, hidden)
        before = (
            [r.buffer for r in self._records],
            self.capacity,
            self._hidden,
            self._host_meta.copy(),
        )
        try:
            self._take(buffers, capacity, hidden, counters)
        except BaseException:  # roll back: no kernel may write out of bounds
            self._take(*before)
            raise
        if capacity > before[1]:
            _logger.debug(
                "%s on %s: capacity %d to %d", self.name, self.device.name, before[1], capacity
            )

    def _take(
        self, buffers: list[Array], capacity: int, hidden: dict[str, Array],
        counters: np.ndarray[Any, Any],
    ) -> None:  # fmt: skip
        """Replace the memory of the columns."""
        for rec, buffer in zip(self._records, buffers, strict=True):
            rec.buffer = buffer
        self.capacity = capacity
        self._hidden = hidden
        self._bind_columns(self._records, self.columns.values())
        self._host_meta[:] = counters
        self._send_counters()
        self._changed()

    def _resized(self, capacity: int, hidden: dict[str, Array]) -> None:
        """Allocate other arrays that depend on the capacity; a failure changes nothing."""

    def _ensure_capacity(self, rows: int) -> None:
        """Provide capacity for ``rows`` rows: exactly at first, then at least doubling."""
        if rows > self.capacity:
            self.resize(max(rows, min(2 * self.capacity, self._most)))

    # --- addresses -------------------------------------------------------------------------------

    def address(self, kind: str, column: str = "") -> int:
        """Return the device address of an array of a kernel, valid for this ``version``.

        Parameters
        ----------
        kind : str
            ``column`` (then ``column`` names it), ``meta``, ``fill`` (one row's fills, each at a
            multiple of 8 bytes in column order), ``dead`` (u8), ``free`` (i32 ring), ``owner``
            (u64), ``lock`` or ``created`` (i32).  The last five are allocated on demand.
        """
        if kind == "column":
            return self.columns[column].place.address  # type: ignore[union-attr]
        if kind == "meta":
            return self.device.pointer(self.meta)
        if kind == "fill":
            if self._fills is None:
                self._fills = self.device.constant(self._fill_bytes())
            return self.device.pointer(self._fills)
        if kind not in HIDDEN and (kind != "free" or self.kind != "table"):
            raise ValueError(f"a {self.kind} has no {kind!r} array")
        return self.device.pointer(self.hidden(kind))

    def hidden(self, kind: str) -> Array:
        """Return an array that only kernels access, see `address`; shape (capacity,)."""
        if kind not in self._hidden:
            home = next((r for r in self._records if r.spare >= 0), None)
            if kind == "owner" and home is not None and self.capacity:
                self._hidden[kind] = home.spares(self.device, home.buffer)
                self.device.write(self._hidden[kind], HIDDEN[kind][1])
            else:
                self._hidden[kind] = self._hidden_array(kind, self.capacity)
        return self._hidden[kind]

    @property
    def _has_deletes(self) -> bool:
        """Whether rows may be dead."""
        return False

    @property
    def _wide(self) -> bool:
        """Whether the store has more rows than references can denote."""
        return self.capacity > ID_LIMIT

    def _refuse_wide(self, use: str) -> None:
        """Raise an error if the store is wide; ``use`` is the use that is then impossible.

        Raises
        ------
        ValueError
        """
        if self._wide:
            most = f"{ID_LIMIT} rows are possible {use}"
            raise ValueError(f"{self.name} has {self.capacity} rows: at most {most}")

    def _hidden_array(self, kind: str, capacity: int) -> Array:
        self._refuse_wide("with locks or deletion")
        dtype, value = HIDDEN[kind]
        rows = max(capacity, 1)
        return (
            self.device.full(rows, dtype(value), dtype) if value else self.device.zeros(rows, dtype)
        )

    def _fill_bytes(self) -> bytes:
        parts = [np.asarray(c.fill).tobytes() for c in self.columns.values()]
        return b"".join(data + bytes(-len(data) % 8) for data in parts) or bytes(8)

    # --- values ----------------------------------------------------------------------------------

    @exclusive
    def assign(self, column: Column, key: Any, value: Any, array: Array = None) -> None:
        """Write ``value`` (from any device) to elements of a column, after checking it.

        Raises
        ------
        TypeError, OverflowError, ValueError
            If the values do not fit the column; nothing is written then.
        """
        array = column.array if array is None else array
        if type(value) is int and self.device.on_host and not column.ref:
            kind, most = column.dtype.kind, 1 << min(8 * column.dtype.itemsize - 1, 63)
            if (kind in "iu" and 0 <= value < most) or (kind == "f" and abs(value) < 1 << 15):
                array[key] = value
                return
        a = converted(self, column, value)
        if not self.device.on_host and a.ndim == 0 and is_host(a) and array.ndim == 1:
            if (places := few_places(array, key)) is not None:
                self.device.put(*((place, a[()]) for place in places))
                return
        key = self.device.asarray(key) if isinstance(key, np.ndarray) else key
        with self.device.active():
            try:
                if isinstance(key, slice):
                    self.device.write(array[key], a)
                else:
                    array[key] = a[()] if a.ndim == 0 else self.device.asarray(a)
            except ValueError as error:
                where, wanted = f"{self.name}.{column.name}", array[key].shape or "one value"
                raise ValueError(f"{where}: shape {a.shape} does not fit {wanted}") from error

    def _write(
        self, first: int, n: int, values: Mapping[str, Array], more: Sequence[Any] = ()
    ) -> None:
        """Set rows ``first`` to ``first + n`` of each column to ``values``, else to its fill.

        ``more`` writes are executed together with these.
        """
        rows, columns = slice(first, first + n), self.columns.items()
        writes = ((c.array[rows], values.get(name, c.fill)) for name, c in columns)
        self.device.write_all((*writes, *more))

    def _fill_value(self, column: Column) -> Any:
        return self.device.asarray(column.fill) if column.size else column.fill

    # --- attribute access to columns -------------------------------------------------------------

    def __getattr__(self, name: str) -> ColumnView:
        if name.startswith("_") or name == "columns" or name not in self.columns:
            message = name if name.startswith("_") or name == "columns" else self.no_column(name)
            raise AttributeError(message)
        return ColumnView(self, self.columns[name])

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            with suppress(KeyError):
                column = self.columns[name]
                if not (isinstance(value, ColumnView) and value.column is column):
                    ColumnView(self, column)[:] = value  # not for `t.x += a`, done by now
                return
            raise AttributeError(self.no_column(name)) from None

    def row(self, id: int) -> Row:
        """Return row ``id``.

        Raises
        ------
        IndexError
            If it is not allocated; negative ids are invalid.
        """
        id = integer(id, "id")
        first, last = self.span()
        if not first <= id < last:
            rows = f"rows {first} to {last - 1}"
            raise IndexError(f"{self.name} has no row {shown(id)}: it has {rows}")
        return Row(self, int(id))

    def is_dead(self, id: int) -> bool:
        """Whether a row is deleted."""
        return False

    def delete(self, ids: Any) -> None:
        """Delete rows, if the store supports it."""
        raise TypeError(f"rows of a {self.kind} cannot be deleted")

    def __repr__(self) -> str:
        columns = ", ".join(map(repr, self.columns.values()))
        kind = type(self).__name__
        return f"<{kind} {self.name!r} of {len(self)} rows on {self.device.name}: {columns}>"


def allocate_counters(stores: Iterable[Any]) -> None:
    """Allocate the counters of stores of one device that have none there yet, and send them."""
    fresh = [s for s in stores if s._meta is None]
    if fresh:
        device = fresh[0].device
        made = device.empty(8 * len(fresh), np.int64)
        writes = []
        for k, s in enumerate(fresh):
            with s._lock:
                if s._meta is None:  # else another thread has allocated them
                    meta = made[8 * k : 8 * k + 8]
                    writes.append((meta, s._host_counters))
                    s._meta = meta
        device.put(*writes)


def groups_of(groups: Iterable[Any]) -> list[tuple[str, ...]]:
    """Normalise the groups of columns that `Store.pack` takes: names, or groups of names."""
    given = list(groups)
    names = [g for g in given if isinstance(g, str)]
    if names and len(names) != len(given):
        raise ValueError("pack takes column names, or groups of them, not both")
    return [tuple(names)] if names else [tuple(g) for g in given]
