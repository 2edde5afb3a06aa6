"""Columns that an algorithm adds to a user's graph while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def check_source(n: int, source: int) -> None:
    """Refuse a source that is no vertex.

    Raises
    ------
    ValueError
        If ``source`` is not from 0 to ``n`` - 1.
    """
    if not 0 <= source < n:
        raise ValueError(f"source {source} is not a vertex: the graph has {n}, counted from 0")


def ends(graph: Graph) -> tuple[Any, Any]:
    """Give source and destination of the edges between live points, shape (m,) each, int32."""
    _, ids = graph.adjacency("out")
    pick = slice(len(graph.edges)) if ids is None else ids
    with graph.device.active():
        return graph.edges.src.array[pick], graph.edges.dst.array[pick]
