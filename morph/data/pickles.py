"""Pickling of tables, collections, sets, flags and rows.

A pickle has host arrays of the allocated rows, and the name of the device.  The pickle of a table
of a graph, or of an object that refers to it, includes the graph, so that objects pickled together
keep their relations.  `copy.copy` and `copy.deepcopy` of collections, sets, flags and rows use the
same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from morph.data.protocols import TableLike
from morph.language.dtypes import Ref
from morph.runtime.device import Array, Device

Made = TypeVar("Made")


class State(NamedTuple):
    """Contents of a store.

    Attributes
    ----------
    columns : list of (name, dtype, size, ref, fill)
    packs : tuple of tuple of str
    capacity : int
    counters : array of int64
        Counters.
    records : list of (names, bytes)
    hidden : dict of str to array
        Arrays of a table whose rows may be dead.
    """

    columns: list[tuple[Any, ...]]
    packs: tuple[tuple[str, ...], ...]
    capacity: int
    counters: Array
    records: list[tuple[tuple[str, ...], Array]]
    hidden: dict[str, Array]


def state_of(store: Any) -> State:
    """Copy the contents of a store to the host."""
    _, last = store.span()
    host = store.device.to_host
    columns = [(c.name, c.dtype, c.size, c.ref, c.fill) for c in store.columns.values()]
    records = [(r.names, np.array(host(r.buffer[: last * r.stride]))) for r in store._records]
    hidden = {}
    if getattr(store, "deletes", False):
        arrays = {"dead": store.hidden("dead"), "free": store.ring}
        hidden = {kind: np.array(host(a)) for kind, a in arrays.items()}
    return State(columns, store.packs, store.capacity, store._host_meta.copy(), records, hidden)


def refill(store: Any, state: State) -> None:
    """Fill a store, which has the columns and no rows, with a state."""
    for name, _, _, _, fill in state.columns:
        store.columns[name].fill = fill
    store.pack(*state.packs)
    store.resize(state.capacity)
    by_names = {r.names: r for r in store._records}
    with store.device.active():
        for names, held in state.records:
            by_names[names].buffer[: held.size] = store.device.asarray(held)
        if state.hidden:
            store.allow_deletes()
            store.hidden("dead")[:] = store.device.asarray(state.hidden["dead"])
            store._set_ring(store.device.copy(state.hidden["free"]))
        store._host_meta[:] = state.counters  # deleted rows are kept, as references may follow
    store._send_counters()
    store._changed()


def add_columns(table: TableLike, state: State) -> None:
    """Add the columns of a state that a table lacks."""
    known = set(table.columns)
    table.add_columns(
        {
            name: ((dtype, size) if size else dtype, fill)
            for name, dtype, size, _, fill in state.columns
            if name not in known
        }
    )
    for name, _, _, ref, _ in state.columns:
        table.columns[name].ref = ref


def reduced(x: Any) -> tuple[Any, ...]:
    """Return the state that `pickle` stores of a table, a collection, a set or a flag."""
    if x.kind == "flag":
        return rebuilt_flag, (type(x), x.device, bool(x))
    with x._lock:
        if x.kind == "set":
            return rebuilt_set, (type(x), x.table, np.array(x.device.to_host(x._parent)))
        if x.kind == "collection":
            targets = {c.name: x.target(c) for c in x.columns.values() if c.ref}
            return rebuilt_collection, (type(x), x.table, targets, x.name, x.device, state_of(x))
        if x.graph is not None:
            return table_of, (x.graph, x.name)
        # targets are set when the table exists: tables may refer to each other
        return rebuilt_table, (type(x), x.name, x.device, state_of(x)), x._targets or None


def table_of(graph: Any, name: str) -> Any:
    """Return a table of a graph."""
    return graph.tables[name]


def rebuilt_table(
    kind: Callable[[str, Device], TableLike], name: str, device: Device, state: State
) -> TableLike:
    """Make a table outside any graph."""
    table = kind(name, device)
    add_columns(table, state)
    refill(table, state)
    return table


def rebuilt_collection(
    kind: Callable[..., Made], table: TableLike | None, targets: dict[str, Any], name: str,
    device: Device, state: State,
) -> Made:  # fmt: skip
    """Make a collection of rows of the same tables."""
    specs: dict[str, Any] = {}
    for column, dtype, size, ref, _ in state.columns:
        if ref:
            to = targets[column] or ref
            specs[column] = Ref(to)[size] if size else Ref(to)
        else:
            specs[column] = (dtype, size) if size else dtype
    if table is not None:
        specs.pop("item")
    collection = kind(table, device=device, name=name, **specs)
    refill(collection, state)
    return collection


def rebuilt_set(kind: Callable[[TableLike], Any], table: TableLike, parent: Array) -> Any:
    """Make sets of the rows of a table."""
    made = kind(table)
    with made.device.active():
        made._parent[: parent.size] = made.device.asarray(parent)
    return made


def rebuilt_flag(kind: Callable[[Device], Any], device: Device, raised: bool) -> Any:
    """Make a flag."""
    flag = kind(device)
    if raised:
        flag.set()
    return flag
