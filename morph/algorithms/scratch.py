"""Columns that an algorithm adds to a user's graph while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from morph.collect import Collection, Set
from morph.graph import Graph
from morph.table import Table

SMALL = "a cell"  # what is kept whatever else is
LARGEST = 1 << 24  # points of a graph that keeps what an algorithm worked with
Specs = dict[str, tuple[Any, Any]]


class Kept:
    """Columns of tables, and whatever else an algorithm works with, from one call to the next."""

    def __init__(self, lent: list[Any], objects: Any) -> None:
        self.lent, self.objects = lent, objects


@contextmanager
def workspace(
    graph: Graph, name: str, make: Callable[[], Any], edges: Specs | None = None, **points: Any
) -> Iterator[Any]:
    """Have columns and other objects for the time of a ``with`` block.

    The graph keeps those of one algorithm for the next call: then neither memory is allocated nor a
    launch bound.

    Parameters
    ----------
    graph : Graph
    name : str
        Of the algorithm.
    make : callable
        Makes a list of collections, sets, flags or tables.  The next time collections are empty,
        too, and the rows of sets alone.
    edges : dict of str to (dtype, fill), optional
        Columns of the edges.
    **points : (dtype, fill)
        Columns of the points.

    Yields
    ------
    list
        What ``make`` gave, now or before.
    """
    key = name, *((c, str(np.dtype(t))) for c, (t, _) in {**points, **(edges or {})}.items())
    kept = graph.kept.pop(key, None)  # nobody else has it meanwhile
    for other in graph.kept.keys() - {SMALL}:
        del graph.kept[other]
    specs = {"points": points, "edges": edges or {}}
    lent = kept.lent if kept else [graph.tables[t].lent(**s) for t, s in specs.items() if s]
    fits = all(x.fits() for x in lent)
    for x, spec in zip(lent, (s for s in specs.values() if s), strict=True):
        x.specs = spec
    with ExitStack() as stack:
        if kept and fits:
            objects = kept.objects
            writes: list[tuple[Any, Any]] = []
            for x in lent:
                writes += x.take_back()
                stack.push(x)
            for x in objects:
                if isinstance(x, Collection):
                    writes += x.cleared()
            graph.device.put(*writes)
        else:
            for x in lent:
                stack.enter_context(x)
            objects = make()
        yield objects
        for x in objects:
            if isinstance(x, Set):
                x.reset()
    if len(graph.points) <= LARGEST:
        graph.kept[key] = Kept(lent, objects)


@contextmanager
def columns(table: Table, **specs: tuple[Any, Any]) -> Iterator[None]:
    """Add columns for the time of a ``with`` block; the user's own of these names step aside.

    Parameters
    ----------
    table : Table
    **specs : (dtype, fill)
        By column name.
    """
    with table.lent(**specs):
        yield


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
    n = len(graph.points)
    if type(source) is int and 0 <= source < n and not graph.points.deletes:
        return np.array([source], np.int32)
    ids = np.asarray(graph.device.to_host(source)).ravel()
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"{what} is an id or an array of ids, not {source!r}")
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
