"""The points and edges of a partitioned graph, as the host sees them: by global ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from morph.compiler.ir.layout import GLOBAL_ID
from morph.data.collection import Collection
from morph.data.column import few_places
from morph.data.conversion import cast, converted, raw
from morph.data.layout import Column
from morph.data.row import Row
from morph.data.table import Table
from morph.language.messages import shown
from morph.partition.array import PartitionedArray, Piece, gather
from morph.partition.collection import PartitionedCollection
from morph.partition.columns import TableBase
from morph.partition.parts import DIVIDED, HostArray, Share
from morph.partition.routes import Routes
from morph.partition.views import (
    PartitionedColumn,
    observed,
    refuse_name,
)
from morph.runtime.arrays import any_true, to_host
from morph.runtime.device import Array, Device


class Stale(set[str]):
    """The columns whose mirrors may differ from the owners' values.

    Attributes
    ----------
    sole_operations : dict of str to str
        The operation of each column that has changed by it alone since mirrors were equal, see
        `Partitioning.sole_operations`; ``""`` if there were others.  Columns that are not stale may
        remain in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sole_operations: dict[str, str] = {}

    def add(self, name: str, operation: str = "") -> None:
        """Add a column that has changed, by an operation alone if it is given."""
        known = self.sole_operations.get(name) if name in self else operation
        self.sole_operations[name] = operation if known == operation else ""
        super().add(name)

    def update(self, *names: Iterable[str]) -> None:
        """Add columns that may have changed in any way."""
        for name in chain(*names):
            self.add(name)


class PartitionedTable(TableBase):
    """The points or edges of a partitioned graph: each row belongs to one part.

    ``len``, ids and columns are those of the whole graph.  A value that the host writes is written
    to the mirrors of its row, too, except for references to points and edges.
    """

    __slots__ = ("_count", "_dead", "_routes", "_stale")

    def __init__(self, graph: Any, name: str, count: int) -> None:
        self.graph, self.name, self._count, self._dead = graph, name, count, 0
        # columns whose mirrors a launch has left out of date; `Routes.spread` updates them
        self._stale = Stale()
        self._routes = Routes(self)

    def local(self, k: int) -> Table:
        """Return the table of part k, mirrors included."""
        found: Table = self.graph.local(k).tables[self.name]
        return found

    def _share(self, k: int) -> Share:
        """Which rows part k has."""
        found: Share = self.graph.parts[k].share(self.name)
        return found

    def on_parts(self, kind: Any, *args: Any, **columns: Any) -> Any:
        """Make a collection of rows; or a flag, numbers or a table on each part."""
        if issubclass(kind, Collection):
            return PartitionedCollection(self, *args, **columns)
        return super().on_parts(kind, *args, **columns)

    def __len__(self) -> int:
        return self._count

    @property
    def live(self) -> int:
        """Number of rows that are not deleted."""
        return self._count - self._dead

    @property
    def deletes(self) -> bool:
        """Whether rows may be deleted."""
        return self._dead > 0

    def ids(self) -> HostArray:
        """Return the ids of the rows that are not deleted, shape (live,), int64, ascending."""
        if not self._dead:
            return np.arange(self._count)
        self._begin("ids of")
        return np.sort(np.concatenate(self.graph.gather(lambda k: self._share(k).ids)))

    def target(self, column: Column) -> Any:
        """Return the table that a column of references is to; see `Table.target`."""
        return self._tables()[0].target(column)

    def _has_row(self, id: int) -> bool:
        """Whether a row is not deleted."""
        owned = self.graph.gather(lambda k: bool(self._share(k).own_rows(np.array([id])) >= 0))
        return not self._dead or any(owned)

    def _hide(self, names: Iterable[str]) -> tuple[Any, ...]:
        """Prepare for temporary columns of some names; give what `_show` restores at their end."""
        stale, recorded = self._stale & set(names), {}
        if self.graph.recorder is not None:  # a checkpoint has the values of columns in use only
            recorded = {n: self._read(n, slice(None)) for n in names if n in self.columns}
        self._stale.difference_update(stale)
        self._routes.forget(*names)
        return stale, recorded

    def _show(self, names: Iterable[str], hidden: tuple[Any, ...]) -> None:
        """Restore what is known of the columns that have these names again."""
        stale, recorded = hidden
        self._routes.forget(*names)
        self._stale.difference_update(names)
        self._stale.update(stale)
        for name, values in recorded.items():
            self._write(name, slice(None), values)

    def _check_new(self, name: str, spec: Any, fill: Any) -> None:
        refuse_name(self.name, name)
        if fill is not None and getattr(spec, "name", None) in DIVIDED:
            raise ValueError(f"{self.name}.{name}: references of a partitioned graph begin as none")

    def drop(self, name: str) -> None:
        """Remove a column."""
        self._refuse_own(name)
        super().drop(name)
        self._stale.discard(name)
        self._routes.forget(name)

    def rename(self, old: str, new: str) -> None:
        """Rename a column."""
        self._refuse_own(old)
        super().rename(old, new)
        self._routes.forget(old, new)
        if old in self._stale:
            self._stale.remove(old)
            self._stale.add(new)

    def _refuse_own(self, name: str) -> None:
        """Refuse a change of the columns that say how a graph is divided."""
        if name in ("src", "dst") if self.name == "edges" else name == GLOBAL_ID:
            raise TypeError(f"{self.name}.{name} of a partitioned graph does not change")

    def _refuse_change(self, *values: Any, **options: Any) -> Any:
        """Refuse to create or delete rows."""
        raise TypeError(f"{self.name} of a partitioned graph are not created or deleted")

    new = extend = delete = truncate = compact = _refuse_change

    def _local_row(self, k: int, id: int) -> int:
        """Return the local id of a row, own or mirror, in part k; -1 if it is not there."""
        return int(self._share(k).rows(np.array([id]))[0])

    def _refresh(self, name: str, bound: str = "") -> bool:
        """Bring the mirrors of a column up to date, or to a ``bound`` (`Partitioning.bounds`).

        Returns whether values were copied.
        """
        if name not in self._stale or (bound and self._stale.sole_operations.get(name) == bound):
            return False
        self._routes.spread(name)
        return True

    def _own_range(self, k: int, start: int, stop: int) -> tuple[int, int]:
        """Return the first of part k's own rows among the rows of a range, and the one after."""
        share = self._share(k)
        if share.own_at is not None:
            raise TypeError(f"{self.name} of part {k} lie in no order since the graph has changed")
        if isinstance(share.ids, slice):
            first, own = share.ids.start, share.owned
            return min(max(start - first, 0), own), min(max(stop - first, 0), own)
        a, b = np.searchsorted(share.ids, [start, stop]).tolist()
        return a, b

    @observed
    def _read(self, name: str, key: Any) -> Any:
        """Copy values of a column to the host; ``key`` is one of NumPy's, of global ids."""
        key, inner = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        ids = self._ids(key)
        self._begin("read", name, *(() if ids is None else (ids,)))
        column = self.columns[name]
        shape = (column.size,) if column.size else ()
        nothing = -1 if column.ref else 0  # of deleted rows
        count = self._count if ids is None else ids.size
        out = np.full((count, *shape), nothing, column.dtype)
        for at, values in self.graph.gather(lambda k: self._piece(k, name, ids)):
            out[at] = values
        if ids is not None and ids.ndim != 1:
            out = out.reshape((*ids.shape, *shape))
        return out[(..., *inner)] if inner else out[()]

    def gathered(self, name: str, where: Device) -> Array:
        """Copy a column to one device, in order of global ids.

        Parts whose rows lie in order of their ids copy from GPU to GPU.
        """
        column = self.columns[name]
        in_process = len(self.graph.here) == len(self.graph.parts)
        if where.on_host or not in_process or not self._stays_on_parts(column):
            return where.asarray(self._read(name, slice(None)))
        return gather(where, self._count, column.dtype, list(self._pieces(name).values()))

    def results(self, where: Device, *names: str) -> list[Any]:
        """Copy columns to arrays whose parts stay on their devices, see `PartitionedArray`.

        If the parts of a column cannot stay, all columns are copied to one device, ``where``.
        """
        columns = [self.columns[name] for name in names]
        if not all(map(self._stays_on_parts, columns)):
            return [self.gathered(name, where) for name in names]
        pieces, graph = [self._pieces(name) for name in names], self.graph
        copied = {k: _copies([x[k] for x in pieces]) for k in graph.here}
        ranks = None if len(graph.here) == len(graph.parts) else graph.transport
        return [
            PartitionedArray(self._count, c.dtype, {k: x[i] for k, x in copied.items()}, ranks)
            for i, c in enumerate(columns)
        ]

    def early_results(self, where: Device, *names: str) -> EarlyResults:
        """Copy columns as `results` does; on GPUs behind a program, enqueued while it runs."""
        return EarlyResults(self, where, names)

    def _stays_on_parts(self, column: Column) -> bool:
        """Whether a result can stay on the parts, whose rows lie in order of ids.

        Not while a `checkpoint` records values, and not for references and vectors.
        """
        if self._dead or column.ref or column.size or self.graph.recorder is not None:
            return False
        return all(self._share(k).own_at is None for k in self.graph.here)

    def _pieces(self, name: str) -> dict[int, Piece]:
        """Return a view of each part's own values in a column."""
        self._begin("read", name)
        found = {}
        for k in self.graph.here:
            share, table = self._share(k), self.local(k)
            own = slice(share.owned)
            at = share.ids if share.is_range else table.global_id.array[own]
            found[k] = Piece(table.device, at, table.columns[name].array[own])
        return found

    def _piece(self, k: int, name: str, ids: HostArray | None) -> tuple[Any, HostArray]:
        """Copy part k's own values among rows ``ids`` (None: all), and say where they go."""
        share, table = self._share(k), self.local(k)
        column = table.columns[name]
        if ids is None:
            at, picked = share.ids, share.own
        else:
            rows = share.own_rows(ids.reshape(-1))
            at = np.flatnonzero(rows >= 0)
            picked = rows[at]
        picked = picked if isinstance(picked, slice) else table.device.asarray(picked)
        with table.device.active():
            values = table.device.to_host(column.array[picked])
        if column.ref in DIVIDED:
            values = self.graph.tables[column.ref]._share(k).global_ids(values)
        return at, values

    def _write(self, name: str, key: Any, value: Any) -> None:
        """Write values of the host to a column, its mirrors too; ``key`` as in `_read`.

        Raises
        ------
        TypeError, OverflowError, ValueError
            If the values do not suit the column; nothing is written then.
        """
        self._refuse_own(name)
        key, inner = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        ids, column = self._ids(key), self.columns[name]
        a = self._checked(column, value)
        self._begin("write", name, a, *(() if ids is None else (ids,)), *inner)
        self._routes.forget(name)
        if not a.ndim and not inner and ids is None and column.ref not in DIVIDED:
            for table in self._tables():
                with table.device.active():
                    table.columns[name].array[: len(table)] = a[()]
            self._stale.discard(name)
            return
        places: tuple[int, ...] = (self._count,) if ids is None else ids.shape
        wanted = (*places, *((column.size,) if column.size else ()))
        wanted = np.broadcast_to(np.False_, wanted)[(..., *inner)].shape if inner else wanted
        try:
            values = np.broadcast_to(a, wanted).reshape(-1, *wanted[len(places) :])
        except ValueError as error:
            where = f"{self.name}.{name}"
            raise ValueError(
                f"{where}: shape {a.shape} does not fit {wanted or 'one value'}"
            ) from error
        pieces = [self._local_values(k, column, ids, values) for k in self.graph.here]
        equal = None if a.ndim or inner or column.ref in DIVIDED else a[()]
        for k, (rows, local) in zip(self.graph.here, pieces, strict=True):
            if len(local):
                self._write_piece(k, name, rows, inner, local, equal)
        if column.ref in DIVIDED:
            self._stale.add(name)
        elif ids is None and not inner:
            self._stale.discard(name)

    def _write_piece(
        self, k: int, name: str, rows: Any, inner: tuple[Any, ...], values: HostArray, equal: Any
    ) -> None:
        """Write values to rows of part k; all of them are ``equal``, unless that is None."""
        device, array = self.local(k).device, self.local(k).columns[name].array
        if equal is not None and (places := few_places(array, rows)) is not None:
            device.put(*((place, equal) for place in places))
            return
        with device.active():
            at = rows if isinstance(rows, slice) else device.asarray(rows)
            array[(at, *inner)] = device.asarray(values)

    def _local_values(
        self, k: int, column: Column, ids: HostArray | None, values: HostArray
    ) -> tuple[Any, HostArray]:
        """Choose the values of part k's rows.

        References become local ids, and are not written to mirrors: the part may have no copy of
        what they refer to.
        """
        share, refers = self._share(k), column.ref in DIVIDED
        if ids is None:
            rows: Any
            rows, local = (share.own, values[share.ids]) if refers else share.of_global(values)
        else:
            found = (share.own_rows if refers else share.rows)(ids.reshape(-1))
            at = np.flatnonzero(found >= 0)
            rows, local = found[at], values[at]
        if refers:
            target = self.graph.tables[column.ref]
            local = target._local_ids(k, local, f"{self.name}.{column.name}")
        return rows, local

    def rows_of_parts(self, ids: HostArray) -> list[tuple[HostArray, HostArray]]:
        """Return, for each part of this process, the result of `rows_of_part`."""
        shares = [self._share(k) for k in self.graph.here]
        if ids.size != 1 or not all([x.in_order for x in shares]):
            return [self.rows_of_part(k, ids) for k in self.graph.here]
        none, id, found = ids[:0], ids.item(), []
        for share in shares:
            row = share.row(id)
            one = none if row < 0 else np.array([row], np.int32)
            found.append((one, none) if row < share.owned else (none, one))
        return found

    def rows_of_part(self, k: int, ids: HostArray) -> tuple[HostArray, HostArray]:
        """Return part k's own rows among global ids, and its mirrors of other parts' rows."""
        share = self._share(k)
        own = share.own_rows(ids)
        mirrors = share.rows(ids[own < 0])
        return own[own >= 0], mirrors[mirrors >= 0]

    def _local_ids(self, k: int, ids: HostArray, where: str) -> HostArray:
        """Return references to rows, global ids, as local ids of part k.

        Raises
        ------
        ValueError
            If the part has no copy of a row that is referred to.
        """
        rows = self._share(k).rows(ids)
        missing = (rows < 0) & (ids >= 0)
        if any_true(missing):
            found = f"{self.name}[{int(ids[missing][0])}]"
            raise ValueError(f"{where} refers to {found}, of which part {k} has no copy")
        return rows

    def _checked(self, column: Column, value: Any) -> HostArray:
        """Convert values for a column, references as global ids."""
        first = self._tables()[0]
        if isinstance(value, PartitionedColumn):
            value = value.__array__()
        if column.ref not in DIVIDED:
            return to_host(converted(first, column, value))
        where, target = f"{self.name}.{column.name}", self.graph.tables[column.ref]
        return to_host(cast(raw(value, column, target, where), column, len(target), where))

    def _ids(self, key: Any) -> HostArray | None:
        """Return the global ids that a key names; None for all of them."""
        if key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
            return None
        if isinstance(key, slice):
            start, stop, step = key.indices(self._count)
            most = self._count + 1  # a step of more than 64 bits has no dtype
            return np.arange(start, stop, min(max(step, -most), most))
        if isinstance(key, PartitionedColumn):
            key = key.__array__()
        ids = to_host(key.id if isinstance(key, Row) else key)
        if ids.dtype.kind in "iu" or not ids.size:
            ids = ids.astype(np.int64 if ids.dtype.kind != "b" else np.bool_)
        if ids.dtype.kind == "b":
            if ids.shape != (self._count,):
                raise IndexError(f"a mask of {self.name} has {self._count} values, not {ids.shape}")
            return np.flatnonzero(ids)
        if ids.dtype.kind not in "iu":
            raise IndexError(f"{self.name} is indexed by ids, slices and masks, not {shown(key)}")
        outside = (ids < -self._count) | (ids >= self._count)
        if any_true(outside):
            found = int(ids[outside].reshape(-1)[0])
            raise IndexError(f"index {found} is out of bounds for a column of {self._count} rows")
        return np.where(ids < 0, ids + self._count, ids)


class EarlyResults:
    """Copies of columns that GPUs make as soon as a program has ended.

    The ``with`` block runs the last program that changes the columns, see
    `PartitionedTable.results`.
    """

    def __init__(self, table: PartitionedTable, where: Device, names: tuple[str, ...]) -> None:
        self._table, self._where, self._names = table, where, names
        self._made: list[Any] | None = None

    def __enter__(self) -> EarlyResults:
        self._table.graph.behind = self._copy
        return self

    def __exit__(self, problem: object, *rest: object) -> None:
        self._table.graph.behind = None
        if problem is not None:
            self._made = None

    def _copy(self) -> None:
        """Enqueue the copies; called again if the launch is repeated."""
        self._made, table = None, self._table
        if all(table._stays_on_parts(table.columns[name]) for name in self._names):
            with suppress(MemoryError):  # `arrays` tries again when the program has ended
                self._made = table.results(self._where, *self._names)

    def arrays(self) -> list[Any]:
        """Return the copies; make them now if none were enqueued."""
        if self._made is None:
            self._made = self._table.results(self._where, *self._names)
        return self._made


def _copies(pieces: Sequence[Piece]) -> list[Piece]:
    """Copy one part's values of several columns, by one launch."""
    device, at, _ = pieces[0]
    at = at if isinstance(at, slice) else device.copy(at)
    return [Piece(device, at, a) for a in device.copies(*(x.values for x in pieces))]
