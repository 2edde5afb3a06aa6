"""The memory of an interpreted kernel: stores, adjacency, and the capacity that items reserve."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import Meta, Status
from morph.compiler.ir.layout import FROM, TO
from morph.compiler.ir.sites import Kind
from morph.language.types import GraphInfo, Store
from morph.runtime.interpreter.checks import Checks
from morph.runtime.interpreter.values import LocalItems

COUNT, CAPACITY, HEAD, TAIL, COMMITTED, BUDGET = (
    Meta.COUNT, Meta.CAPACITY, Meta.HEAD, Meta.TAIL, Meta.COMMITTED, Meta.BUDGET,
)  # fmt: skip


class Untouched(Exception):
    """The item cannot reserve capacity; it has changed nothing and is re-executed later."""


class Item:
    """One item of a foreach.

    Attributes
    ----------
    position : int
        In the table or collection of the ``foreach``.
    env : dict
        Its locals by name.
    taken : dict of BoundStore to int
        The rows that it has reserved and not used.
    reserved : bool
        Whether it has reserved capacity, which covers all later allocations.
    claim : (list, list, int) or None
        The rows that it claims and those that it guards, as (slot, row), and its priority.
    """

    __slots__ = ("claim", "env", "position", "reserved", "taken")

    def __init__(self, position: int, env: dict[str, Any]) -> None:
        self.position, self.env = position, env
        self.taken: dict[BoundStore, int] = {}
        self.reserved = False
        self.claim: tuple[list[tuple[str, int]], list[tuple[str, int]], int] | None = None


class BoundStore:
    """A store of the unit, with the arrays of the host object that fills its slot."""

    def __init__(self, index: int, info: Store, consecutive: bool, checks: Checks | None) -> None:
        self.index, self.info, self.slot = index, info, info.slot
        self.checks = checks
        self.consecutive = consecutive  # kernels allocate consecutive rows, so none is recycled
        self.obj: Any = None
        self.columns: dict[str, Any] = {}
        self.dead: Any = None
        self.free: Any = None
        self.span = range(0)  # allocated rows, or a collection's entries, at the last barrier

    def bind(self, obj: Any, reexecution: bool) -> None:
        """Update the arrays, which may have been replaced since the last launch.

        A re-execution keeps the extent of the first execution.
        """
        self.obj = obj
        if self.info.kind not in ("table", "collection"):
            return
        self.meta = obj.meta
        self.columns = {c.name: obj.columns[c.name].array for c in self.info.columns}
        self.dead = obj.hidden("dead") if self.info.deletes else None
        self.free = obj.hidden("free") if self.info.deletes else None
        if not reexecution:
            count = int(self.meta[COUNT])
            first = 0 if self.info.kind == "table" else min(int(self.meta[HEAD]), count)
            self.meta[[FROM, TO]] = first, count
        self.span = range(int(self.meta[FROM]), int(self.meta[TO]))

    def is_dead(self, row: int) -> bool:
        """Whether a row is deleted."""
        return self.dead is not None and bool(self.dead[row])

    @property
    def count(self) -> int:
        """Number of rows that have been allocated."""
        return int(self.meta[COUNT])

    def check(self, row: int, node: ir.Node, live: bool = True) -> int:
        """Return ``row`` if it is allocated and, in the checked mode, not deleted."""
        if not 0 <= row < self.meta[COUNT]:
            if self.checks is not None:
                self.checks.stop(Kind.NO_ROW, node, row, self.count)
            outside(f"row {row} of {self.slot}", self.count, node.pos)
        if live and self.checks is not None and self.is_dead(row):
            self.checks.check_deleted(self.slot, row, node)
        return row

    def item_value(self, position: int) -> int:
        """The value of a loop variable over the store: a row, a collection's item, or its entry."""
        if self.info.lists_rows:
            return int(self.columns["item"][position])
        return position

    def reserve(self, count: int) -> bool:
        """Subtract ``count`` from BUDGET, unless BUDGET is less."""
        least = int(self.meta[BUDGET])
        if self.consecutive:
            least -= int(self.meta[COMMITTED] - self.meta[HEAD])
        if least < count:
            return False
        self.meta[BUDGET] -= count
        return True

    def next_row(self) -> int:
        """Allocate a row: a recycled one, or at the end."""
        meta = self.meta
        if self.info.kind == "table" and self.free is not None and meta[HEAD] < meta[COMMITTED]:
            row = int(self.free[int(meta[HEAD]) & (self.free.size - 1)])
            self.clear(row)  # first, in case an interrupt comes in between
            meta[HEAD] += 1
        else:
            row = int(meta[COUNT])
            self.clear(row)
            meta[COUNT] += 1
        return row

    def next_rows(self, count: int, fill: bool = True) -> range:
        """Allocate consecutive new rows; uninitialised ones get a bit pattern of ones."""
        first = int(self.meta[COUNT])
        self.meta[COUNT] += count
        for row in range(first, first + count):
            self.clear(row)
            if not fill:
                for array in self.columns.values():
                    array[row] = 1
        return range(first, first + count)

    def clear(self, row: int) -> None:
        """Set a row to its fill, and mark it alive."""
        for name, array in self.columns.items():
            array[row] = self.obj.columns[name].fill
        if self.dead is not None:
            self.dead[row] = 0

    def delete(self, row: int) -> None:
        """Mark a row dead; the host decides when it may be recycled."""
        assert self.dead is not None and self.free is not None, f"{self.slot} has no deletes"
        if not self.dead[row]:
            self.dead[row] = 1
            self.free[int(self.meta[TAIL]) & (self.free.size - 1)] = row
            self.meta[TAIL] += 1

    def recover(self) -> None:
        """Rebuild the ring of deleted rows after an interrupt, released rows first."""
        if self.dead is None or self.free is None:
            return
        meta, ring, dead = self.meta, self.free, self.dead
        released = ring[np.arange(meta[HEAD], meta[COMMITTED]) & (ring.size - 1)]
        released = released[dead[released] != 0]
        others = np.setdiff1d(np.flatnonzero(dead[: int(meta[COUNT])]), released)
        rows = np.concatenate([released, others])
        ring[: rows.size] = rows
        meta[[HEAD, COMMITTED, TAIL]] = 0, released.size, rows.size

    def take(self) -> int:
        """Remove the first entry of those at the last barrier; -1 if there is none."""
        position = int(self.meta[HEAD])
        if position >= self.span.stop:
            return -1
        self.meta[HEAD] += 1
        return self.item_value(position)

    def _publish_counters(self) -> None:
        """Recompute BUDGET at the end of a step."""
        meta = self.meta
        if self.info.kind == "table":
            meta[BUDGET] = meta[COMMITTED] - meta[HEAD] + meta[CAPACITY] - meta[COUNT]
        else:
            meta[BUDGET] = meta[CAPACITY] - meta[COUNT]


class Memory:
    """The state shared by the items of one unit."""

    def __init__(self, unit: ir.Unit) -> None:
        nodes = list(ir.walk((unit.funcs, unit.blocks)))
        bulk = {n.slot for n in nodes if isinstance(n, ir.NewRows)}
        self.checks = Checks(unit) if unit.checked else None
        self.stores = {
            s.slot: BoundStore(i, s, s.slot in bulk, self.checks) for i, s in enumerate(unit.stores)
        }
        self.graphs: dict[str, GraphInfo] = {g.slot: g for g in unit.graphs}
        self.traversed = sorted(directions(nodes))
        self.locks = sorted({n.slot for n in nodes if isinstance(n, ir.Lock)})
        self.adjacency: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self.status: np.ndarray[Any, Any] = np.zeros(0, np.int64)
        self.deferred: set[int] = set()
        self.item = Item(-1, {})

    def bind(
        self, stores: dict[str, Any], graphs: dict[str, Any], status: Any, reexecution: bool
    ) -> None:
        """Bind the host objects; a re-execution keeps the locks of items."""
        self.status = status
        for slot, store in self.stores.items():
            store.bind(stores[slot], reexecution)
        for slot in self.locks if not reexecution else ():
            stores[slot].hidden("lock")[:] = 0
        for graph, direction in self.traversed:
            edges = self.stores[dict(self.graphs[graph].tables)["edges"]]
            end = edges.obj.columns["dst" if direction == "out" else "src"].array
            self.adjacency[graph, direction] = (*graphs[graph].adjacency(direction), end)

    def edges_at(
        self, graph: str, direction: str, point: int, node: ir.Node
    ) -> tuple[Any, Any, Any]:
        """The adjacency of a point: its entries as a range, edge ids (or None), other ends."""
        self.stores[dict(self.graphs[graph].tables)["points"]].check(point, node, live=False)
        offsets, ids, end = self.adjacency[graph, direction]
        if point >= len(offsets) - 1:  # created in this launch
            return range(0), ids, end
        return range(int(offsets[point]), int(offsets[point + 1])), ids, end

    def outside(self, kind: Kind, node: ir.Node, value: int, limit: int, place: str) -> NoReturn:
        """Report an access out of range, which compiled code detects only in the checked mode."""
        if self.checks is not None:
            self.checks.stop(kind, node, value, limit)
        outside(place, limit, node.pos)

    def delete(self, store: BoundStore, row: int) -> None:
        """Mark a row dead; the checks record the item."""
        if self.checks is not None and not store.is_dead(row):
            self.checks.deaths[store.slot, row] = self.item.position
        store.delete(row)

    # --- reservations ----------------------------------------------------------------------------

    def injected(self) -> bool:
        """Whether a test injects a failure of this reservation."""
        left = int(self.status[Status.INJECT])
        if left > 0:
            self.status[Status.INJECT] = left - 1
        return left == 1

    def reserve(self, needs: list[tuple[BoundStore | LocalItems, int]]) -> None:
        """Reserve capacity for all needs, or defer the item without any reservation."""
        fail = self.injected()
        taken: list[tuple[BoundStore, int]] = []
        for where, count in needs:
            if isinstance(where, LocalItems):
                if fail or len(where) + count > where.capacity:
                    self.status[Status.LOCAL] = 1
                    fail = True
            elif fail or not where.reserve(count):
                self.status[Status.STORES + where.index] = 1
                fail = True
            else:
                taken.append((where, count))
            if fail:
                break
        item = self.item
        for store, count in taken:
            if fail:
                store.meta[BUDGET] += count
            else:
                item.taken[store] = item.taken.get(store, 0) + count
        if fail:
            raise Untouched
        item.reserved = True

    def spend(self, store: BoundStore, count: int, pos: ir.Pos) -> None:
        """Consume reserved capacity; to exceed it is an error of the compiler."""
        left = self.item.taken.get(store, 0) - count
        if left < 0:
            raise AssertionError(f"{where(pos)}: {store.slot} gets more rows than were reserved")
        self.item.taken[store] = left

    def release(self, item: Item) -> None:
        """Return the rows that the item reserved and did not use."""
        for store, count in item.taken.items():
            store.meta[BUDGET] += count
        item.taken.clear()

    def append(self, local: LocalItems, value: Any, pos: ir.Pos) -> None:
        """Add to a local collection, or defer the item."""
        covered = self.item.reserved
        if len(local) >= local.capacity or (not covered and self.injected()):
            if covered:
                raise AssertionError(f"{where(pos)}: a local collection outgrew what was reserved")
            self.status[Status.LOCAL] = 1
            raise Untouched
        local.append(value)


def directions(nodes: list[ir.Node]) -> set[tuple[str, str]]:
    """The (graph, direction) of the adjacency that nodes traverse."""
    found = set()
    for n in nodes:
        if isinstance(n, ir.ForEdges | ir.Degree):
            both = ("out", "in") if n.direction == "all" else (n.direction,)
            found |= {(n.graph, d) for d in both}
        elif isinstance(n, ir.FindEdge):
            found.add((n.graph, "out"))
    return found


def where(pos: ir.Pos) -> str:
    """A position for messages."""
    return f"{pos.file}:{pos.line}"


def outside(place: str, count: int, pos: ir.Pos) -> NoReturn:
    """Report an access out of range, which is undefined in compiled code."""
    raise IndexError(f"{where(pos)}: {place} does not exist: there are {count}")
