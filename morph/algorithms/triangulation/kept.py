"""The tables, columns and lists of a triangulation, kept for the next small one on the device.

A hundred points take less time than their tables: descriptions of columns, memory, launches bound
to them.  So a small triangulation leaves its tables to the next one, which attaches them in the
same order.  Each table then has the same version at each step, and the bound launches are valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morph.data.collection import Collection, Set
from morph.data.table import Table
from morph.data.temporary import detach
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.prelude import f64, i32
from morph.runtime.device import Device

KEY = "triangulation"  # in `Graph.kept`
MOST_KEPT = 1 << 17  # points of a triangulation whose tables are kept: some 32 MB
BASE = 3  # tables of each triangulation: points, edges, triangles
_kept: dict[str, KeptTables] = {}  # by device


class KeptTables:
    """The graph of a triangulation, and what belongs to it, by name.

    All methods return objects without rows or items, with at least the memory of earlier calls.

    Parameters
    ----------
    device : Device
    small : bool
        Whether columns that are detached keep their memory.
    """

    def __init__(self, device: Device, small: bool) -> None:
        self.device, self.small = device, small
        self.graph = g = Graph(device)
        g.points.add("xy", vec(f64, 2))
        g.points.add("same", Ref("points"))
        g.add_table(
            "triangles", pack=("node", "opposite"), node=Ref("points")[3], opposite=(i32, 3)
        )
        g.kept[KEY] = self
        self._objects: dict[str, Any] = {}
        self._columns: dict[Any, Any] = {}  # `TemporaryColumns`
        self._attached: list[Any] = []

    @classmethod
    def of(cls, g: Graph) -> KeptTables:
        """Return the tables that a graph belongs to."""
        found: KeptTables = g.kept[KEY]
        return found

    def begin(self) -> Graph:
        """Detach the columns and tables of the last call, and return the graph without rows."""
        detach(self._attached)
        self._attached = []
        g = self.graph
        for name in list(g.tables)[BASE:]:
            del g.tables[name]
        g.points.truncate(0)
        g.triangles.truncate(0)
        return g

    def attach(self, table: Table, **specs: Any) -> None:
        """Add columns, (type, fill), to a table; all rows get the fills."""
        key = table.name, *specs
        columns = self._columns.get(key)
        if columns is not None and columns.fits():
            columns.attach()
            made = (table.columns[name] for name in specs)
            with self.device.active():
                self.device.write_all((c.array[: len(table)], c.fill) for c in made)
        else:
            columns = self._columns[key] = table.temporary_columns(**specs)
            columns.add()
        self._attached.append(columns)

    def detach(self, table: Table, *names: str) -> None:
        """Remove the columns that were attached last."""
        columns = self._attached.pop()
        detach([columns])
        if not self.small:
            del self._columns[table.name, *names]

    def table(self, name: str, **columns: Any) -> Table:
        """Return a table outside of the graph."""
        table: Table = self._made(name, lambda: Table(name, self.device, **columns))
        table.truncate(0)
        return table

    def add_table(self, name: str, capacity: int = 0, **columns: Any) -> Table:
        """Add a table to the graph."""
        g = self.graph
        table: Table = self._made(name, lambda: g.add_table(name, capacity=capacity, **columns))
        g.tables[name] = table
        table.truncate(0)
        return table

    def list(
        self, name: str, table: Table | None = None, capacity: int = 0, **columns: Any
    ) -> Collection:
        """Return a list with at least this capacity."""
        device = self.device if table is None else None
        options = {"device": device, "capacity": capacity, **columns}
        found: Collection = self._made(name, lambda: Collection(table, **options))
        found.clear()
        if found.capacity < capacity:
            found.resize(capacity)
        return found

    def set(self, name: str, table: Table) -> Set:
        """Return the set of singletons of the rows of a table."""
        found: Set = self._made(name, lambda: Set(table))
        found.reset()
        return found

    def _made(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the object of this name, which is made at the first call."""
        if not self.small:
            return make()  # freed after its use
        if name not in self._objects:
            self._objects[name] = make()
        return self._objects[name]

    def release(self) -> None:
        """Leave small tables to the next call; dissolve the graph of others."""
        if self.small:
            self.begin()
            _kept[self.device.name] = self
        else:
            self.graph.dissolve()
            self.graph.kept.clear()  # a cycle


def tables_for(device: Device, n: int) -> KeptTables:
    """Return tables for a triangulation of ``n`` points: those of an earlier one, if it is small.

    No other call, of any thread, uses them until their `KeptTables.release`.
    """
    kept = _kept.pop(device.name, None) if n <= MOST_KEPT else None
    return KeptTables(device, n <= MOST_KEPT) if kept is None else kept


def initial_capacity(device: Device, most: int) -> int:
    """Return the first capacity of a list that gets at most ``most`` items, often far fewer.

    Growth would end the launch.  On a CPU untouched memory is not backed by pages; on a GPU it is.
    """
    return most if device.on_host else 0
