"""Compaction: removes dead rows from tables, and renumbers all references.

All new arrays are prepared first and installed at the end, so that running out of memory changes
nothing.  An interrupt during the installation is raised after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from morph.data.layout import Record
from morph.data.protocols import StoreLike, TableLike
from morph.runtime.arrays import all_true
from morph.runtime.device import Array


def compact(
    chosen: Iterable[TableLike],
    tables: Iterable[TableLike],
    follow: Callable[[], None],
    order: Mapping[Any, Array] | None = None,
) -> bool:
    """Renumber the rows of ``chosen`` so that the live ones are 0, 1, 2, ...

    Parameters
    ----------
    chosen : iterable of Table
    tables : iterable of Table
        All tables that may refer to them.
    follow : callable
        Called at the end if a row was moved or removed: updates the graph's data about the rows.
    order : mapping of Table to array of int64, optional
        The rows that a table keeps, in their new order; by default the live rows in their order.

    Returns
    -------
    bool
        Whether a row was moved or removed.
    """
    order, chosen = order or {}, list(chosen)
    for t in chosen:
        if t.graph is not None:
            t.graph.kept.clear()  # its lists may contain truncated rows
    keeps: dict[TableLike, Array] = {}
    maps: dict[TableLike, Array] = {}
    for t in chosen:
        keep = order[t] if t in order else t.ids()
        with t.device.active():
            if keep.size == len(t) and all_true(keep == t.device.xp.arange(keep.size)):
                continue
            keeps[t] = keep
            maps[t] = t.device.full(len(t), -1, np.int32)
            maps[t][keep] = t.device.xp.arange(keep.size, dtype=np.int32)
    if not maps:
        return False
    commits: list[Callable[[], None]] = []
    for t in tables:
        with t.device.active():
            commits.append(prepared(t, keeps.get(t), maps))
    dependents = {id(d): d for t in maps for d in t.dependents}
    for d in dependents.values():
        with d.device.active():
            commits.append(d._renumbered(maps))
    carry_out([*commits, follow])
    return True


def carry_out(commits: Iterable[Callable[[], None]]) -> None:
    """Call all functions; after an interrupt, call all again, to keep references consistent."""
    try:
        for commit in commits:
            commit()
    except BaseException:
        for commit in commits:
            commit()
        raise


def prepared(t: TableLike, keep: Array | None, maps: Mapping[Any, Array]) -> Callable[[], None]:
    """Prepare one table: its kept rows if it is renumbered, and its references.

    Returns the function that installs the new arrays.
    """
    xp, count = t.device.xp, len(t)
    moved = {}
    for c in t.columns.values():
        target = t.target(c) if c.ref else None
        if target is not None and target in maps:
            moved[c.name] = translate(xp, c.array[:count], maps[target])
    if keep is None:

        def commit() -> None:
            for name, values in moved.items():
                t.columns[name].array[:count] = values

        return commit
    moved = {name: values[keep] for name, values in moved.items()}
    records, hidden = squeeze(t, keep, moved), t._no_dead()
    return lambda: t._replace(records, hidden, int(keep.size))


def translate(xp: Any, ids: Array, new_id: Array) -> Array:
    """Renumber references; -1 is kept, and references to deleted rows become -1."""
    if new_id.size == 0:
        return xp.full(ids.shape, -1, np.int32)
    return xp.where(ids >= 0, new_id[xp.maximum(ids, 0)], np.int32(-1))


def squeeze(store: StoreLike, keep: Array, moved: Mapping[str, Array]) -> list[Record]:
    """Return new records that begin with the rows ``keep``, with columns ``moved`` replaced."""
    records = []
    for old in store._records:
        new = replace(old, memory=store.device.buffer(old.buffer.size))
        word = next(w for w in (8, 4, 2, 1) if old.stride % w == 0)
        source, to = (b.view(f"u{word}").reshape(-1, old.stride // word)
                      for b in (old.buffer, new.buffer))  # fmt: skip
        to[: keep.size] = source.take(keep, axis=0)
        for name in old.names:
            if name in moved:
                view = new.view(store.device, store.columns[name], new.buffer)
                view[: keep.size] = moved[name]
        records.append(new)
    return records
