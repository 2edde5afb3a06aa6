"""Columns that an algorithm adds to a user's graph while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.table import Table


@contextmanager
def columns(table: Table, **specs: tuple[Any, Any]) -> Iterator[None]:
    """Add columns for the time of a ``with`` block; the user's own of these names step aside.

    Parameters
    ----------
    table : Table
    **specs : (dtype, fill)
        By column name.
    """
    added, aside = [], []
    try:
        for name, (dtype, fill) in specs.items():
            if name in table.columns:
                other = name + "_"
                while other in table.columns:
                    other += "_"
                table.rename(name, other)
                aside.append((other, name))
            table.add(name, dtype, fill=fill)
            added.append(name)
        yield
    finally:
        for name in added:
            table.drop(name)
        for other, name in aside:
            table.rename(other, name)


def source_ids(graph: Graph, source: Any, what: str = "source") -> Any:
    """Check the id of a point, or an array of them.

    Returns
    -------
    array, shape (k,), int32
        On the host, without repetitions.

    Raises
    ------
    TypeError
        If one is not an integer.
    ValueError
        If one is not a live point.
    """
    ids = np.asarray(graph.device.to_host(source)).ravel()
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"{what} is an id or an array of ids, not {source!r}")
    n = len(graph.points)
    wrong = ids[(ids < 0) | (ids >= n)]
    if wrong.size:
        raise ValueError(f"{what} {wrong[0]} is not a vertex: the graph has {n}, counted from 0")
    ids = np.unique(ids).astype(np.int32)
    if graph.points.deletes:
        dead = ids[~np.asarray(graph.device.to_host(graph.points.alive))[ids]]
        if dead.size:
            raise ValueError(f"{what} {dead[0]} is not a vertex: it was deleted")
    return ids


def live_edges(graph: Graph) -> Any:
    """Give the ids of the edges between live points: an array, or a slice of all."""
    if graph.loose and not graph.points.deletes:  # nothing to pack
        return graph.edges.ids() if graph.edges.deletes else slice(len(graph.edges))
    _, ids = graph.adjacency("out")
    return slice(len(graph.edges)) if ids is None else ids
