"""Host objects as the compiler sees them: each graph, table, collection, set or flag has a slot."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from morph.data.collection import Collection, Flag, Set
from morph.data.column import ColumnView
from morph.data.row import Row
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import NAMES, vec
from morph.language.types import SCALARS, Column, GraphInfo, Object, Store
from morph.runtime.device import Device

OBJECTS = (Graph, Table, Collection, Set, Flag)
VIEWS = (Scalars, ColumnView)  # objects that stand for a table or collection


_arrays: dict[tuple[int, str], tuple[weakref.ref[Any], Table]] = {}


def _table_of(array: np.ndarray[Any, Any], name: str, device: Device) -> Table:
    """A table on a device whose column ``value`` is a captured array; cached by array."""
    key = id(array), device.name
    if key not in _arrays or _arrays[key][0]() is not array:
        dtype = array.dtype.newbyteorder("=")
        kind = dtype if array.ndim == 1 else vec(dtype, array.shape[1])
        table = Table(name, device, value=kind)
        table.extend(value=array)
        _arrays[key] = weakref.ref(array, partial(_arrays.pop, key)), table
    return _arrays[key][1]


def owner(x: Any) -> Any:
    """The table or collection of a row, scalars or a column; other objects are returned."""
    return x.table if isinstance(x, Row) else x.store if isinstance(x, ColumnView) else x


def in_parts(x: Any) -> bool:
    """Whether an object belongs to a partitioned graph: ``x.local(k)`` is its share on part k."""
    return hasattr(type(x), "local")


def layouts(objects: Iterable[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """The objects that `Slots` enters for some objects, and what a unit depends on of them.

    The second result is equal for other objects of the same layouts that refer to each other in the
    same way, so that the same unit fits them, with the objects at the same positions in its slots.
    """
    found: list[Any] = []
    known: dict[int, int] = {}  # position in `found`, by identity
    key: list[Any] = []
    for x in objects:
        _enter(x, found, known, key)
    return found, tuple(key)


def _enter(x: Any, found: list[Any], known: dict[int, int], key: list[Any]) -> None:
    """Append an object, and those that it refers to, to ``found`` and their layouts to ``key``.

    Not a nested function of `layouts`: a recursive closure is a cycle, which keeps all objects.
    """
    if id(x) not in known and x.kind == "table" and x.graph is not None:
        _enter(x.graph, found, known, key)
    if (at := known.setdefault(id(x), len(found))) < len(found):
        key.append(~at)  # negative, as numbers of layouts are not
        return
    found.append(x)
    if x.kind == "graph":
        tables = list(x.tables.items())  # another thread may add one
        identity = x.out_identity and not x.gapped
        key.append((len(tables), x.directed, identity, x.gapped, x.tiled))
        for name, table in tables:
            known[id(table)] = len(found)
            found.append(table)
            key.extend((name, table.layout))
    elif x.kind == "set":
        key.append("set")
        _enter(x.table, found, known, key)
    elif x.kind == "flag":
        key.append("flag")
    else:
        key.append(x.layout)
        for c in list(x.columns.values()):
            if c.ref:
                target = x.target(c)
                key.append(None) if target is None else _enter(target, found, known, key)


class Slots:
    """The objects of one launch, by slot, and their descriptions for the compiler."""

    def __init__(self, device: Device | None = None) -> None:
        self.device = device  # where captured arrays are copied to
        self.arrays: set[str] = set()  # slots of captured arrays
        self.captured = False  # whether a unit names an object that it captured
        self.objects: dict[str, Any] = {}
        self.stores: dict[str, Store] = {}
        self.graphs: dict[str, GraphInfo] = {}
        self._slot: dict[int, str] = {}
        self._reserved: set[str] = set()

    @classmethod
    def known(cls, objects: dict[str, Any]) -> Slots:
        """The slots of a unit that is known to fit these objects, without descriptions."""
        slots = cls()
        slots.objects = objects
        return slots

    def of(self, obj: Any, name: str) -> Object | None:
        """Assign a slot to an object; None for numbers, functions and other Python objects."""
        if isinstance(obj, np.ndarray) and self.device is not None:
            store = self.of(_table_of(obj, name, self.device), name)
            assert store is not None
            self.arrays.add(store.slot)
            return Object("array", store.slot, "value")
        if isinstance(obj, VIEWS):
            store = self.of(owner(obj), name)
            assert store is not None
            if isinstance(obj, Scalars):
                return Object("scalars", store.slot)
            if (
                obj.store.kind != "table"
                or obj.store.columns.get(obj.column.name) is not obj.column
            ):
                raise ValueError(f"{name!r} is no column of a table: pass {obj.store.name} itself")
            return Object("column", store.slot, obj.column.name)
        if not isinstance(obj, OBJECTS):
            return None
        if id(obj) not in self._slot:
            self._enter(obj, name)
        return Object("graph" if isinstance(obj, Graph) else obj.kind, self._slot[id(obj)])

    def capture(self, obj: Any, name: str) -> Object | None:
        """As `of`, for an object that a unit captures: the unit fits no other in its place."""
        found = self.of(obj, name)
        self.captured = self.captured or found is not None
        return found

    def _enter(self, obj: Any, name: str) -> None:
        if isinstance(obj, Table) and obj.graph is not None:
            self.of(obj.graph, "graph")
            if id(obj) in self._slot:
                return
        slot = self._unique(name, obj.tables if isinstance(obj, Graph) else ())
        self._slot[id(obj)] = slot
        self.objects[slot] = obj
        if isinstance(obj, Graph):
            self._graph(slot, obj)
        elif isinstance(obj, Set):
            of = self.of(obj.table, "table")
            assert of is not None
            obj.table._refuse_wide("in sets")
            self.stores[slot] = Store(slot, "set", of=of.slot)
        elif isinstance(obj, Flag):
            self.stores[slot] = Store(slot, "flag")
        else:
            self.stores[slot] = self._store(slot, obj)

    def reserve(self, name: str) -> str:
        """A unique slot, named after ``name``, for an object that a launch creates."""
        slot = self._unique(name)
        self._reserved.add(slot)
        return slot

    def _unique(self, name: str, parts: Iterable[str] = ()) -> str:
        """A slot, named after ``name``, whose C++ name and the names of its tables are unused."""
        taken = {s.replace(".", "_") for s in self.objects} | self._reserved
        n, found = 1, name
        while taken & {found, *(f"{found}_{p}" for p in parts)}:
            n += 1
            found = f"{name}{n}"
        return found

    def _graph(self, slot: str, g: Graph) -> None:
        tables = []
        for name, table in list(g.tables.items()):  # another thread may add one
            inner = f"{slot}.{name}"
            tables.append((name, inner))
            self._slot[id(table)] = inner
            self.objects[inner] = table
        for _, inner in tables:
            self.stores[inner] = self._store(inner, self.objects[inner])
        identity = g.out_identity and not g.gapped
        self.graphs[slot] = GraphInfo(slot, tuple(tables), g.directed, identity, g.gapped, g.tiled)

    def _store(self, slot: str, obj: Any) -> Store:
        columns = list(obj.columns.values())  # another thread may add one
        targets = {c.name: self._target(obj, c) for c in columns if c.ref}
        described = tuple(
            Column(c.name, SCALARS[NAMES[c.dtype]], c.size, targets.get(c.name), c.stride,
                   *obj._record_position(c.name)) for c in columns
        )  # fmt: skip
        deletes = bool(getattr(obj, "deletes", False))
        return Store(slot, obj.kind, described, None, deletes, obj._wide, obj.owner_stride)

    def _target(self, obj: Any, column: Any) -> str | None:
        """The slot of the table that a column's references denote; None if it is not known."""
        target = obj.target(column)
        if target is None:
            return None
        target._refuse_wide(f"where {obj.name}.{column.name} refers to them")
        found = self.of(target, column.ref)
        return found.slot if found else None
