"""The tables, columns and lists of a small triangulation or refinement, kept for the next one.

A hundred points take less time than their tables: descriptions of columns, memory, launches bound
to them.  So a small call leaves its tables to the next one on the device, which attaches columns
in the same order.  Each table then has the same version at each step, and bound launches are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

from morph.data.collection import Collection, Flag, Set
from morph.data.table import Table
from morph.data.temporary import detach
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.prelude import f64, i32
from morph.runtime.device import Device

KEY = "objects"  # in `Graph.kept`
MOST_KEPT = 1 << 17  # points of a triangulation whose tables are kept: some 32 MB
BASE = 3  # tables of each triangulation: points, edges, triangles
_kept: dict[str, Any] = {}  # by device; of refinements by another name


class KeptObjects:
    """A graph, and the objects that an algorithm uses with it, by name.

    All methods return objects without rows or items, with at least the memory of earlier calls.

    Parameters
    ----------
    graph : Graph
    small : bool
        Whether the objects are kept for the next call; else each is freed after its use.
    """

    def __init__(self, graph: Graph, small: bool) -> None:
        self.graph, self.device, self.small = graph, graph.device, small
        self._objects: dict[str, Any] = {}
        graph.kept[KEY] = self

    @classmethod
    def of(cls, g: Graph) -> Self:
        """Return the objects of a graph."""
        found: Self = g.kept[KEY]
        return found

    def table(self, name: str, capacity: int = 0, **columns: Any) -> Table:
        """Return a table outside of the graph, with at least this capacity."""
        table: Table = self._made(name, lambda: Table(name, self.device, **columns))
        table.truncate(0)
        if table.capacity < capacity:
            table.resize(capacity)
        return table

    def table_to_read(self, name: str, n: int, **columns: Any) -> Table:
        """Return a table of ``n`` rows outside of the graph, whose columns are arrays of their own.

        If it is kept, its memory is that of the next call, too.
        """
        table = self.table(name, **columns)
        if self.small:
            table.extend(n)
        else:  # without a pass over the memory
            shapes = {x: (n, c.size) if c.size else n for x, c in table.columns.items()}
            new = {x: self.device.empty(shapes[x], c.dtype) for x, c in table.columns.items()}
            table.adopt(n, new)
        return table

    def resize(self, store: Table | Collection, rows: int, most: int = 2**31 - 1) -> None:
        """Provide capacity for ``rows`` rows, of kept objects a power of two, or ``most``.

        A store that is full ends a launch, after which items run in another order.  So that results
        do not depend on earlier calls, the capacity is that of a new object.
        """
        wanted = min(1 << (rows - 1).bit_length(), most) if self.small else rows
        if store.capacity != wanted:
            store.resize(wanted)

    def list(
        self, name: str, table: Table | None = None, capacity: int = 0, **columns: Any
    ) -> Collection:
        """Return a list with at least this capacity."""
        device = self.device if table is None else None
        found: Collection = self._made(
            name, lambda: Collection(table, device=device, capacity=capacity, **columns)
        )
        found.clear()
        if found.capacity < capacity:
            found.resize(capacity)
        return found

    def lists(self, table: Table, **capacities: int) -> Iterator[Collection]:
        """Return lists of rows of a table, by name; they are cleared together."""
        made = [
            self._made(name, partial(Collection, table, capacity=n))
            for name, n in capacities.items()
        ]
        self.device.put(*(write for found in made for write in found.cleared()))
        for found, capacity in zip(made, capacities.values(), strict=True):
            if found.capacity < capacity:
                found.resize(capacity)
        return iter(made)

    def set(self, name: str, table: Table) -> Set:
        """Return the set of singletons of the rows of a table."""
        found: Set = self._made(name, lambda: Set(table))
        found.reset()
        return found

    def flag(self, name: str) -> Flag:
        """Return a lowered flag."""
        found: Flag = self._made(name, lambda: Flag(self.graph))
        found.clear()
        return found

    def _made(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the object of this name, which is made at the first call."""
        if not self.small:
            return make()  # freed after its use
        if name not in self._objects:
            self._objects[name] = make()
        return self._objects[name]

    def release(self, name: str) -> None:
        """Leave small tables to the next call, by name; dissolve the graph of others."""
        if self.small:
            _kept[name] = self
        else:
            self.graph.dissolve()


class KeptTables(KeptObjects):
    """The graph of a triangulation, and the objects that belong to it.

    Parameters
    ----------
    device : Device
    small : bool
        Whether columns that are detached keep their memory, too.
    """

    def __init__(self, device: Device, small: bool) -> None:
        g = Graph(device)
        super().__init__(g, small)
        g.points.add("xy", vec(f64, 2))
        g.points.add("same", Ref("points"))
        g.add_table(
            "triangles", pack=("node", "opposite"), node=Ref("points")[3], opposite=(i32, 3)
        )
        self._columns: dict[Any, Any] = {}  # `TemporaryColumns`
        self._attached: list[Any] = []

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
            rows = slice(len(table))
            with self.device.active():
                self.device.write_all([(c.array[rows], c.fill) for c in columns.columns.values()])
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

    def add_table(self, name: str, capacity: int = 0, **columns: Any) -> Table:
        """Add a table to the graph."""
        g = self.graph
        table: Table = self._made(name, lambda: g.add_table(name, capacity=capacity, **columns))
        g.tables[name] = table
        table.truncate(0)
        return table


def kept_by(name: str) -> Any:
    """Return the objects that a call has released by a name, for this call alone; or None."""
    return _kept.pop(name, None)


def tables_for(device: Device, n: int) -> KeptTables:
    """Return tables for a triangulation of ``n`` points: those of an earlier one, if it is small.

    No other call, of any thread, uses them until their `KeptTables.release`.
    """
    kept = kept_by(device.name) if n <= MOST_KEPT else None
    return KeptTables(device, n <= MOST_KEPT) if kept is None else kept


def initial_capacity(device: Device, most: int) -> int:
    """Return the first capacity of a list that gets at most ``most`` items, often far fewer.

    Growth would end the launch.  On a CPU untouched memory is not backed by pages; on a GPU it is.
    """
    return most if device.on_host else 0
