"""Routes between parts: from the rows that a part owns to their mirrors, and back."""

from __future__ import annotations

from typing import Any

from morph.runtime.device import Array

OPERATIONS: dict[str, Any] = {
    "add": lambda xp, a, b: a + b,
    "min": lambda xp, a, b: xp.where(b < a, b, a),  # as the atomics treat NaN
    "max": lambda xp, a, b: xp.where(a < b, b, a),
    "or": lambda xp, a, b: a | b,
    "and": lambda xp, a, b: a & b,
}


class Routes:
    """Who mirrors which rows of the points or edges of a partitioned graph.

    Parameters
    ----------
    table : PartitionedTable
    """

    __slots__ = ("_sent", "table")

    def __init__(self, table: Any) -> None:
        self.table = table
        self._sent: dict[int, list[Array]] | None = None

    @property
    def sent(self) -> dict[int, list[Array]]:
        """For each part j of this process, for each part k: j's rows that k mirrors, in k's order.

        Arrays of int32 on part j's device.
        """
        if self._sent is None:
            homes = {}
            for k in self.table.graph.here:
                share = self.table._share(k)
                bounds = share.mirrors_of.tolist()
                pairs = zip(bounds[:-1], bounds[1:], strict=True)
                homes[k] = [[share.home[a:b]] for a, b in pairs]
            received = self.table.graph.transport.exchange(homes)
            self._sent = {
                j: [self.table.local(j).device.asarray(rows) for (rows,) in pieces]
                for j, pieces in received.items()
            }
        return self._sent

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
            first = self.table._share(k).owned
            for (values,) in received:
                if ref is not None:
                    values = ref._local_ids(k, values, f"{self.table.name}.{name}")
                self._set(k, name, slice(first, first + self._rows(name, values)), values)
                first += self._rows(name, values)
        self.table._stale.discard(name)

    def combine(self, name: str, op: str, identity: Any = None) -> None:
        """Combine each row's value with those of its mirrors, in order of parts.

        Parameters
        ----------
        name : str
            A column of numbers.
        op : {"add", "min", "max", "or", "and"}
        identity : number, optional
            What the mirrors hold afterwards; by default 0 after ``add``, else what they held.
        """
        operation, outgoing = OPERATIONS[op], {}
        for k in self.table.graph.here:
            share, array = self.table._share(k), self.table.local(k).columns[name].array
            bounds = (share.mirrors_of + share.owned).tolist()
            pairs = zip(bounds[:-1], bounds[1:], strict=True)
            with self.table.local(k).device.active():
                outgoing[k] = [[array[a:b].reshape(-1)] for a, b in pairs]
        for j, received in self.table.graph.transport.exchange(outgoing).items():
            device, array = self.table.local(j).device, self.table.local(j).columns[name].array
            with device.active():
                for rows, (values,) in zip(self.sent[j], received, strict=True):
                    if rows.size:
                        own = array[rows]
                        other = device.asarray(values).reshape(own.shape)
                        array[rows] = operation(device.xp, own, other)
        if op == "add" and identity is None:
            identity = 0
        if identity is not None:
            self.fill(name, identity)
        self.table._stale.add(name)

    def fill(self, name: str, value: Any) -> None:
        """Set all mirrors of a column to one value."""
        for k in self.table.graph.here:
            share = self.table._share(k)
            self._set(k, name, slice(share.owned, share.owned + share.mirrors), value)
        self.table._stale.add(name)

    def _set(self, k: int, name: str, rows: slice, values: Any) -> None:
        """Write to rows of a column of part k."""
        table = self.table.local(k)
        array = table.columns[name].array[rows]
        with table.device.active():
            a = table.device.asarray(values)
            array[...] = a.reshape(array.shape) if a.ndim else a

    def _rows(self, name: str, values: Array) -> int:
        size: int = self.table.columns[name].size
        return int(values.size) // max(size, 1)

    def _divided_ref(self, name: str) -> Any:
        """The points or edges that a column refers to, None if it does not."""
        ref = self.table.columns[name].ref
        return self.table.graph.tables[ref] if ref in self.table.graph.divided else None
