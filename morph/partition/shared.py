"""State shared by all launches on a partitioned graph: message boxes, memory, routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from morph.compiler.ir.layout import MARKED_ROWS, Route
from morph.compiler.partitioning.program import NeedsSteps
from morph.data.collection import Collection
from morph.data.table import Table
from morph.language.dtypes import vec
from morph.language.types import Column
from morph.language.weak import WeakMap
from morph.launch.scratch import Scratch, scratch
from morph.partition.graph import PartitionedGraph
from morph.partition.messages import message_box
from morph.partition.replicated import ReplicatedFlag, ReplicatedTable


class Shared:
    """State shared by all launches on a partitioned graph.

    Parameters
    ----------
    devices : sequence of Device
        Of each part.
    here : range
        The parts of this process.

    Attributes
    ----------
    running, failed : bool
        Whether a launch is running, and whether the latest one has not ended, or by an error.
    """

    def __init__(self, devices: Sequence[Any], here: range) -> None:
        self._devices = {k: devices[k] for k in here}
        # by table: the state for which they hold, the words, and arrays whose addresses these have
        self._routes: dict[str, tuple[Any, np.ndarray[Any, Any], list[Any]]] = {}
        self._marked: dict[str, list[Any]] = {}
        self._mirrored: dict[str, list[tuple[Any, Any]]] = {}
        self._boxes: dict[Any, Collection] = {}
        self._all_rows: dict[Any, Table] = {}
        self._ids: list[Any] | None = None  # of the own points of each part
        self.running = self.failed = False

    def begin(self) -> None:
        """Begin a launch: drop the messages that a failed one has left.

        Raises
        ------
        RuntimeError
            If a launch of this thread is running.
        """
        if self.running:
            raise RuntimeError("a signal handler that interrupts a launch cannot launch")
        if self.failed:
            for box in self._boxes.values():
                box.clear()
        self.failed = True  # until its end

    def fail(self, objects: Iterable[Any]) -> None:
        """Make the copies equal that a failed launch has changed, among its objects."""
        for x in objects:
            if isinstance(x, ReplicatedTable | ReplicatedFlag):
                x.make_equal()

    @cached_property
    def memories(self) -> dict[int, Scratch]:
        """The memory of each part of this process; several on a CPU run at the same time.

        Raises
        ------
        NeedsSteps
            If a part cannot access the memory of another.
        """
        devices = self._devices.values()
        if not all(d.reach(other) for d in devices for other in devices):
            raise NeedsSteps("a part cannot access the memory of another")
        apart = len(devices) > 1
        return {
            k: Scratch(d) if d.on_host and apart else scratch(d) for k, d in self._devices.items()
        }

    def box(
        self, k: int, table: Table, slot: str, columns: Sequence[Column], capacity: int = 0
    ) -> Collection:
        """The messages of one kind to rows of a table that part k sends, or receives.

        Programs and single launches share them: they are empty between launches.
        """
        key = k, table.name, slot, tuple(columns)
        if key not in self._boxes:
            self._boxes[key] = made = message_box(table, slot, columns)
            made.resize(capacity)
        return self._boxes[key]

    def all_rows(self, k: int, points: Any, names: Sequence[str]) -> Table:
        """The table of part k with all rows of some columns of the points, see `copy_all`."""
        local = points.local(k)
        types = {n: local.columns[n] for n in names}
        key = k, *((n, c.dtype.str, c.size) for n, c in types.items())
        if key not in self._all_rows:
            made = Table("all_points", local.device, len(points))
            for n, c in types.items():
                made.add(n, vec(c.dtype, c.size) if c.size else c.dtype)
            made.extend(len(points))
            self._all_rows[key] = made
        return self._all_rows[key]

    def copy_all(self, points: Any, names: Sequence[str]) -> None:
        """Set the tables of all rows to the owners' values."""
        graph = points.graph
        if self._ids is None:
            self._ids = graph.gather(lambda k: points._share(k).ids)
        for name in names:
            sent = {}
            for k, device in self._devices.items():
                share, array = points._share(k), points.local(k).columns[name].array
                with device.active():
                    sent[k] = [[array[: share.owned].reshape(-1)]] * len(graph.devices)
            for k, received in graph.transport.exchange(sent).items():
                device, table = self._devices[k], self.all_rows(k, points, names)
                array = table.columns[name].array
                with device.active():
                    for ids, (values,) in zip(self._ids, received, strict=True):
                        rows = ids if isinstance(ids, slice) else device.asarray(ids)
                        array[rows] = device.asarray(values).reshape(-1, *array.shape[1:])

    def take_back(self, points: Any, names: Sequence[str], changed: Iterable[str]) -> None:
        """Set the owners' values of columns to those of the tables of all rows."""
        for k, device in self._devices.items():
            share, table = points._share(k), self.all_rows(k, points, names)
            for name in changed:
                with device.active():
                    rows = share.ids if share.is_range else device.asarray(share.ids)
                    own = points.local(k).columns[name].array
                    own[: share.owned] = table.columns[name].array[rows]

    def route(self, graph: PartitionedGraph, name: str) -> np.ndarray[Any, Any]:
        """The words of `Route` of a table, a row for each part of this process.

        If the parts lie in several processes, rows for others go to an array in the order of those
        sent, so the first mirror in each part is the first of these.
        """
        table = graph.tables[name]
        state = table._routes.version, graph.has_unordered_mirrors
        known = self._routes.get(name)
        if known is None or known[0] != state:
            known = self._routes[name] = state, *self._new_route(graph, table)
        return known[1]

    def _new_route(
        self, graph: PartitionedGraph, table: Any
    ) -> tuple[np.ndarray[Any, Any], list[Any]]:
        """Make the words of `route`, and the arrays of which these have the addresses."""
        here, count, arrays = graph.here, len(graph.devices), list[Any]()
        found = np.zeros((len(here), Route.WORDS), np.int64)
        rows = table._routes.sent
        homes = graph.transport.exchange({k: [[a] for a in rows[k]] for k in here})
        for row, (k, device) in zip(found, self._devices.items(), strict=True):
            share, own = table._share(k), rows[k]
            mirrored = [device.asarray(a) for (a,) in homes[k]]
            with device.active():
                sent, home = map(device.xp.concatenate, (own, mirrored))
            if graph.has_unordered_mirrors:
                home, *more = self._unordered_route(graph, table, k, home)
                row[[Route.MIRROR_AT, Route.OWNER]] = [*map(device.pointer, more)]
                arrays += more
            arrays += [sent, home]
            row[Route.SENT], row[Route.HOME] = device.pointer(sent), device.pointer(home)
            row[Route.OWNED] = share.owned
            row[Route.SENT_BOUNDS :][: count + 1] = np.cumsum([0, *(a.size for a in own)])
            first = row[Route.SENT_BOUNDS :][:count].tolist()
            if len(here) == count:
                first = [x.owned + int(x.mirrors_of[k]) for x in map(table._share, here)]
            row[Route.FIRST_MIRROR :][:count] = first
            row[Route.MIRRORS :][: count + 1] = share.owned + share.mirrors_of
        return found, arrays

    def _unordered_route(
        self, graph: PartitionedGraph, table: Any, k: int, home: Any
    ) -> tuple[Any, ...]:
        """For mirrors that may lie in no order: `Route.HOME`, `Route.MIRROR_AT` and `Route.OWNER`.

        ``home`` is in the order of routes.
        """
        share, device = table._share(k), self._devices[k]
        here = [x.mirrors_from(k) for x in map(table._share, graph.here)]
        at = [np.arange(x.start, x.stop) if isinstance(x, slice) else x for x in here]
        owner = np.repeat(np.arange(len(at), dtype=np.uint8), np.diff(share.mirrors_of))
        owner = owner if share.mirrors_at is None else owner[share.positions]
        mirror_at, owner = map(device.asarray, (np.concatenate(at).astype(np.int32), owner))
        positions = table._routes.positions(k)
        with device.active():
            return home if positions is None else home[positions], mirror_at, owner

    def marked(self, graph: PartitionedGraph, name: str) -> list[Any]:
        """For each part here, where the rows of each mark begin among those sent, by receiver.

        Words of 8 marks are whole, and an end follows: see `PartsLayout.marks`.
        """
        if name not in self._marked:
            table, found = graph.tables[name], []
            for k, device in self._devices.items():
                own, xp = table._routes.sent[k], device.xp
                starts = accumulate((a.size for a in own), initial=0)
                with device.active():
                    rows = xp.arange(8 * words_of_marks(table._share(k).owned) + 1) * MARKED_ROWS
                    begins = [
                        (s + xp.searchsorted(a, rows)).astype(np.int32)
                        for s, a in zip(starts, own, strict=False)
                    ]
                    found.append(xp.concatenate(begins))
            self._marked[name] = found
        return self._marked[name]

    def mirrored(self, graph: PartitionedGraph, name: str) -> list[tuple[Any, Any]]:
        """For each part the arrays `Equal.MIRRORED` and `Equal.FIRST`: which rows it mirrors.

        They have the same number of words, of 32 rows each, for every sender.
        """
        if name not in self._mirrored:
            table, count, found = graph.tables[name], len(graph.devices), []
            shares = [table._share(k) for k in range(count)]
            words = max(-(-x.owned // 32) for x in shares)
            routes = table._routes.sent
            sent = [[d.to_host(a) for a in routes[j]] for j, d in enumerate(graph.devices)]
            for k, device in enumerate(graph.devices):
                bits, firsts = np.zeros((count, 32 * words), np.bool_), []
                for j, mirrors in enumerate(shares[k].mirrors_of[:-1]):
                    rows = sent[j][k]
                    bits[j][rows] = True
                    before = rows.searchsorted(32 * np.arange(words, dtype=rows.dtype))
                    firsts.append(before + (shares[k].owned + mirrors))
                packed = np.packbits(bits, bitorder="little").view(np.uint32)
                first = np.concatenate(firsts).astype(np.int32)
                found.append((device.asarray(packed), device.asarray(first)))
            self._mirrored[name] = found
        return self._mirrored[name]


def words_of_marks(rows: int) -> int:
    """The number of words with the marks of this many rows."""
    return -(-rows // (8 * MARKED_ROWS))


_known: WeakMap[PartitionedGraph, Shared] = WeakMap()


def shared_by(graph: PartitionedGraph) -> Shared:
    """Return the state shared by the launches on a graph."""
    found = _known.get(graph)
    return _known.setdefault(graph, Shared(graph.devices, graph.here)) if found is None else found
