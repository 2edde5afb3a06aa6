"""Routes between parts: from the rows that a part owns to their mirrors, and back.

The same routes within a launch: `Shared.route`, and `Route` in kernels/schedule/parts.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.partition.parts import DIVIDED, Share
from morph.runtime.arrays import to_host
from morph.runtime.device import Array, Device

SENT_WHOLE = 8192  # of fewer rows that a part mirrors of another, all values are sent
GPU_FACTOR = 128  # on a GPU, of fewer than `SENT_WHOLE` times this
CHUNK = 16384  # rows that the host compares at a time, in its caches
POSITION = 4  # bytes of a position in a list of changes

# kernels/schedule/parts.h combines within a launch: `combine_mirrors`, `agreed`
OPERATIONS: dict[str, Any] = {
    "add": lambda xp, a, b: a + b,
    "min": lambda xp, a, b: xp.where(b < a, b, a),  # as the atomics treat NaN
    "max": lambda xp, a, b: xp.where(a < b, b, a),
    "or": lambda xp, a, b: a | b,
    "and": lambda xp, a, b: a & b,
}


class Routes:
    """Which parts mirror which rows of the points or edges of a partitioned graph.

    Parameters
    ----------
    table : PartitionedTable

    Attributes
    ----------
    known : dict of str to dict
        By column, for each part j of this process and each part k, the values at k's mirrors of
        j's rows: only what differs from them is sent.  On one machine all values are sent, which is
        faster than to compare them, and nothing is known.
    version : int
        Increases whenever mirrors have been added.
    """

    __slots__ = (
        "_bounds", "_mirrors", "_picked", "_positions", "_sent", "known", "table", "version",
    )  # fmt: skip

    def __init__(self, table: Any) -> None:
        self.table, self.version = table, 0
        self.changed()

    def changed(self) -> None:
        """Find the routes again at their next use: mirrors have been added."""
        self.version += 1
        self._sent: dict[int, list[Array]] | None = None
        self._picked: dict[int, list[Array]] = {}
        self._mirrors: dict[int, list[slice | Array]] = {}
        self._positions: dict[int, Array | None] = {}
        self._bounds: dict[int, Array] = {}
        self.known: dict[str, dict[int, list[Array]]] = {}

    def forget(self, *names: str) -> None:
        """Send all values of columns at their next spread: mirrors have changed."""
        for name in names:
            self.known.pop(name, None)

    @property
    def sent(self) -> dict[int, list[Array]]:
        """For each part j of this process, for each part k: j's rows that k mirrors, in k's order.

        Arrays of int32 on part j's device.
        """
        if self._sent is None:
            wanted = {}
            for k in self.table.graph.here:
                share = self.table._share(k)
                wanted[k] = [[ids] for ids in np.split(share.mirror_ids, share.mirrors_of[1:-1])]
            received, found = self.table.graph.transport.exchange(wanted), {}
            for j, pieces in received.items():
                share, device = self.table._share(j), self.table.local(j).device
                found[j] = [_own_rows(share, device, ids) for (ids,) in pieces]
            self._sent = found
        return self._sent

    def _pick(self, j: int, name: str) -> list[Array]:
        """Gather from a column of part j, for each part k, the values of the rows in `sent`.

        NumPy's ``take`` is fastest by indices of the width of an address.
        """
        table = self.table.local(j)
        array = table.columns[name].array
        if j not in self._picked:
            kind = np.intp if table.device.on_host else np.int32
            self._picked[j] = [rows.astype(kind, copy=False) for rows in self.sent[j]]
        return [array.take(rows, 0) if rows.size else array[:0] for rows in self._picked[j]]

    def mirrors(self, k: int) -> list[slice | Array]:
        """Return, by part, the rows of part k that mirror its rows; arrays on part k's device."""
        if k not in self._mirrors:
            share, device = self.table._share(k), self.table.local(k).device
            found = map(share.mirrors_from, range(share.mirrors_of.size - 1))
            self._mirrors[k] = [x if isinstance(x, slice) else device.asarray(x) for x in found]
        return self._mirrors[k]

    def positions(self, k: int) -> Array | None:
        """Return the position of each mirror of part k by owner; None if they lie in this order."""
        if k not in self._positions:
            share, device = self.table._share(k), self.table.local(k).device
            in_order = share.mirrors_at is None
            self._positions[k] = None if in_order else device.asarray(share.positions)
        return self._positions[k]

    def bounds(self, k: int) -> Array:
        """Return the begin of each owner's mirrors in part k, and the end; int32, on its device."""
        if k not in self._bounds:
            share, device = self.table._share(k), self.table.local(k).device
            self._bounds[k] = device.asarray(share.mirrors_of.astype(np.int32))
        return self._bounds[k]

    def spread(self, name: str) -> None:
        """Set the mirrors of a column to the values of the rows that they are copies of.

        Each part sends to each other part all values, or, by a network, those that differ from
        what it knows of the mirrors, with their positions.

        Raises
        ------
        ValueError
            If a value refers to a point or edge of which a part that mirrors it has no copy.
        """
        ref, transport = self._divided_ref(name), self.table.graph.transport
        known = self.known.pop(name, {})
        outgoing, found = dict[int, Any](), dict[int, Any]()
        for j in self.sent:
            device = self.table.local(j).device
            with device.active():
                pieces = self._pick(j, name)
                if ref is not None:
                    pieces = [ref._share(j).global_ids(device.to_host(a)) for a in pieces]
                before = known.get(j) or [None] * len(pieces)
                changes = [_changes(device, *x) for x in zip(pieces, before, strict=True)]
            outgoing[j], found[j] = zip(*changes, strict=True)
        for k, received in transport.exchange(outgoing).items():
            for rows, (at, values) in zip(self.mirrors(k), received, strict=True):
                if ref is not None:
                    values = ref._local_ids(k, values, f"{self.table.name}.{name}")
                if values.size:
                    self._set(k, name, self._rows_at(k, rows, at), values)
        if transport.network:
            self.known[name] = found
        self.table._stale.discard(name)

    def _rows_at(self, k: int, rows: slice | Array, at: Array) -> slice | Array:
        """Return some of the mirrors of a part in part k; all if there are no positions."""
        if not at.size:
            return rows
        device = self.table.local(k).device
        with device.active():
            at = device.asarray(at)
            return at + rows.start if isinstance(rows, slice) else rows[at]

    def at_mirrors(self, k: int, name: str) -> list[list[Array]]:
        """Return the values of a column at part k's mirrors, an array for each owning part."""
        table = self.table.local(k)
        array = table.columns[name].array
        with table.device.active():
            return [[array[rows].reshape(-1)] for rows in self.mirrors(k)]

    def combine(self, name: str, op: str, sent: Any = None, headers: Any = None) -> None:
        """Combine each row's value with those of its mirrors, in order of parts.

        After ``add`` the mirrors are 0.

        Parameters
        ----------
        name : str
            A column of numbers.
        op : {"add", "min", "max", "or", "and"}
        sent : dict of int to list, optional
            The values of `at_mirrors` of each part of this process, if the caller has them.
        headers : sequence of Header, optional
            See `Transport.exchange`.
        """
        if sent is None:
            sent = {k: self.at_mirrors(k, name) for k in self.table.graph.here}
        operation, found = OPERATIONS[op], {}
        for j, received in self.table.graph.transport.exchange(sent, headers).items():
            device, array = self.table.local(j).device, self.table.local(j).columns[name].array
            found[j] = [device.asarray(values) for (values,) in received]
            with device.active():
                for rows, other in zip(self.sent[j], found[j], strict=True):
                    if rows.size:
                        own = array[rows]
                        array[rows] = operation(device.xp, own, other.reshape(own.shape))
        if op == "add":
            self.fill(name, 0)
        elif self.table.graph.transport.network:
            self.known[name] = found  # mirrors have the values that they have sent
        self.table._stale.add(name)  # a flag of an offer is exact only if mirrors are equal

    def fill(self, name: str, value: Any) -> None:
        """Set all mirrors of a column to one value."""
        self.forget(name)
        for k in self.table.graph.here:
            for rows in self.mirrors(k):
                self._set(k, name, rows, value)
        self.table._stale.add(name)

    def _set(self, k: int, name: str, rows: slice | Array, values: Any) -> None:
        """Write to rows of a column of part k."""
        table = self.table.local(k)
        array = table.columns[name].array
        with table.device.active():
            a = table.device.asarray(values)
            array[rows] = a.reshape(-1, *array.shape[1:]) if a.ndim else a

    def _divided_ref(self, name: str) -> Any:
        """The points or edges that a column refers to, None if it does not."""
        ref = self.table.columns[name].ref
        return self.table.graph.tables[ref] if ref in DIVIDED else None


def _own_rows(share: Share, device: Device, ids: Array) -> Array:
    """Return the rows of a part on its device, int32, by the global ids of own rows."""
    if not isinstance(share.ids, slice) or share.own_at is not None:
        return device.asarray(share.own_rows(to_host(ids)).astype(np.int32))
    with device.active():
        return (device.asarray(ids) - share.ids.start).astype(np.int32, copy=False)


def _changes(
    device: Device, values: Array, known: Array | None
) -> tuple[tuple[Array, Array], Array]:
    """Positions and values of the rows that differ from those known, and what is known then.

    No positions: all values, or none.  Bits are compared: 0.0 and -0.0 differ.  A list is sent if
    it has less than two thirds of the bytes of all values; then what is known changes in place.
    """
    on_host = type(values) is np.ndarray
    xp, count = np if on_host else device.xp, len(values)
    everything = (xp.zeros(0, np.int32), values.reshape(-1)), values
    if known is None or count < (SENT_WHOLE if on_host else GPU_FACTOR * SENT_WHOLE):
        return everything
    bits, known = np.dtype(f"u{values.dtype.itemsize}"), known.reshape(values.shape)
    most = 2 * values.nbytes // (3 * (POSITION + values.nbytes // count))
    found, step = list[Array](), CHUNK if on_host else count
    for i in range(0, count, step):
        differs = values[i : i + step].view(bits) != known[i : i + step].view(bits)
        at = xp.flatnonzero(differs if values.ndim == 1 else differs.any(1)).astype(np.int32)
        most -= at.size
        if most < 0:
            return everything
        at += np.int32(i)
        found.append(at)
    at = xp.concatenate(found)
    known[at] = changed = values[at]
    return (at, changed.reshape(-1)), known
