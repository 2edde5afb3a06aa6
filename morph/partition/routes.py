"""Routes between parts: from the rows that a part owns to their mirrors, and back.

The same routes within a launch: `Shared.route`, and `Route` in kernels/schedule/parts.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from morph.partition.parts import DIVIDED
from morph.runtime.arrays import to_host
from morph.runtime.device import Array

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
    """

    __slots__ = ("_mirrors", "_positions", "_sent", "table")

    def __init__(self, table: Any) -> None:
        self.table = table
        self.changed()

    def changed(self) -> None:
        """Find the routes again at their next use: mirrors have been added."""
        self._sent: dict[int, list[Array]] | None = None
        self._mirrors: dict[int, list[slice | Array]] = {}
        self._positions: dict[int, Array | None] = {}

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
                rows = (share.own_rows(to_host(ids)).astype(np.int32) for (ids,) in pieces)
                found[j] = [device.asarray(a) for a in rows]
            self._sent = found
        return self._sent

    def mirrors(self, k: int) -> list[slice | Array]:
        """Give for each part the rows of part k that are copies of its rows, on part k's device."""
        if k not in self._mirrors:
            share, device = self.table._share(k), self.table.local(k).device
            found = map(share.mirrors_from, range(share.mirrors_of.size - 1))
            self._mirrors[k] = [x if isinstance(x, slice) else device.asarray(x) for x in found]
        return self._mirrors[k]

    def positions(self, k: int) -> Array | None:
        """Give the position of each mirror of part k by owner; None if they lie in this order."""
        if k not in self._positions:
            share, device = self.table._share(k), self.table.local(k).device
            in_order = share.mirrors_at is None
            self._positions[k] = None if in_order else device.asarray(share.positions)
        return self._positions[k]

    def spread(self, name: str) -> None:
        """Set the mirrors of a column to the values of the rows that they are copies of.

        Raises
        ------
        ValueError
            If a value refers to a point or edge of which a part that mirrors it has no copy.
        """
        ref = self._divided_ref(name)
        outgoing = {}
        for j, lists in self.sent.items():
            table = self.table.local(j)
            with table.device.active():
                pieces = [table.columns[name].array[rows] for rows in lists]
            if ref is not None:
                pieces = [ref._share(j).global_ids(table.device.to_host(a)) for a in pieces]
            outgoing[j] = [[a.reshape(-1)] for a in pieces]
        for k, received in self.table.graph.transport.exchange(outgoing).items():
            for rows, (values,) in zip(self.mirrors(k), received, strict=True):
                if ref is not None:
                    values = ref._local_ids(k, values, f"{self.table.name}.{name}")
                self._set(k, name, rows, values)
        self.table._stale.discard(name)

    def combine(self, name: str, op: str) -> None:
        """Combine each row's value with those of its mirrors, in order of parts.

        After ``add`` the mirrors are 0.

        Parameters
        ----------
        name : str
            A column of numbers.
        op : {"add", "min", "max", "or", "and"}
        """
        operation, outgoing = OPERATIONS[op], {}
        for k in self.table.graph.here:
            array = self.table.local(k).columns[name].array
            with self.table.local(k).device.active():
                outgoing[k] = [[array[rows].reshape(-1)] for rows in self.mirrors(k)]
        for j, received in self.table.graph.transport.exchange(outgoing).items():
            device, array = self.table.local(j).device, self.table.local(j).columns[name].array
            with device.active():
                for rows, (values,) in zip(self.sent[j], received, strict=True):
                    if rows.size:
                        own = array[rows]
                        other = device.asarray(values).reshape(own.shape)
                        array[rows] = operation(device.xp, own, other)
        if op == "add":
            self.fill(name, 0)
        self.table._stale.add(name, "" if op == "add" else op)

    def fill(self, name: str, value: Any) -> None:
        """Set all mirrors of a column to one value."""
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
