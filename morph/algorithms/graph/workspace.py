"""Temporary columns and other objects of graph algorithms, on one device or in parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from morph.data.collection import Collection, Set
from morph.data.temporary import detach
from morph.graph import Graph
from morph.partition.graph import PartitionedGraph, PerformanceWarning

MANY = 500  # steps: a search on parts with more of them is slower than on one device if
SMALL_STEP = 50000  # it has fewer edges a step, as a GPU reads more in the time of an exchange
SMALL = "weights"  # key of the scalars that are always kept
LARGEST = 1 << 24  # points of a graph that keeps what an algorithm worked with,
DENSE = 8  # or that takes much more memory itself: for so many edges a point
NO_STARTS = np.zeros(0, np.int32)
Specs = dict[str, tuple[Any, Any]]


class Start:
    """What is written to one device before a call: fills, empty lists, and the start points.

    Parameters
    ----------
    graph : Graph
        The graph, or a part of one.
    temporary : list of TemporaryColumns
    objects : list
        Those of the call; the first is the list of start points, unless ``seed`` is None.
    seed : mapping of str to number, or None
        Values of columns for the start points.
    """

    def __init__(
        self, graph: Graph, temporary: list[Any], objects: list[Any],
        seed: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        self.device, self.temporary, self.objects = graph.device, temporary, objects
        self.known = self._versions()
        seeds, columns = None, graph.points.columns
        if seed is not None:
            near = objects[0]
            beside = [(near.columns[c].array, 0) for c in near.columns if c != "item"]
            values = [(columns[c].array, x) for c, x in seed.items()]
            seeds = near.meta, near.columns["item"].array, beside, values
        writes = self._fills() + self._cleared(objects[seed is not None :])
        self.writer = self.device.prepared(writes, seeds)

    def is_current(self) -> bool:
        """Whether the objects have their memory still."""
        return self.known == self._versions()

    def takes(self, rows: Any, copies: Any) -> bool:
        """Whether `write` has space for so many points."""
        if len(rows) and len(rows) > self.objects[0].capacity:
            return False
        return self.writer.fits and len(rows) + len(copies) <= self.writer.most

    def write(self, rows: Any, copies: Any, count: int | None) -> None:
        """Write all at once.

        Parameters
        ----------
        rows, copies : array of int32
            The start points: own rows of a part, and its copies of others' rows.
        count : int, or None
            Start points of all parts, if the graph is one of them.
        """
        counters = None
        for x in reversed(self.objects):
            if isinstance(x, Collection):  # the first is the last of them
                first = x is self.objects[0]
                counters = x.have(len(rows) if first else 0, count if first or count is None else 0)
        self.writer.write(rows, copies, counters)

    def clear(self) -> None:
        """Write the fills and empty all lists."""
        self.device.put(*self._fills(), *self._cleared(self.objects))

    def _versions(self) -> list[Any]:
        return [x.table.span() for x in self.temporary] + [x.version for x in self.objects]

    def _fills(self) -> list[Any]:
        return [w for x in self.temporary for w in x.writes()]

    def _cleared(self, objects: list[Any]) -> list[Any]:
        return [w for x in objects if isinstance(x, Collection | Set) for w in x.cleared()]


class Workspace:
    """Columns of a graph, and whatever else an algorithm works with, from one call to the next.

    The writes before a later call are known and prepared: no memory is allocated, no launch is
    bound again, and a GPU executes all writes by one kernel.
    """

    graph: Any

    def __init__(
        self, graph: Any, key: Any, make: Callable[[], Any], specs: Mapping[str, Specs],
        seed: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.graph, self.key, self.make, self.seed = graph, key, make, seed
        self.temporary: list[Any] = [
            graph.tables[t].temporary_columns(**s) for t, s in specs.items() if s
        ]
        self.objects: list[Any] | None = None  # until the first call
        self.starts: Any = None
        self.prepared: list[Start] = []  # on each device

    def __enter__(self) -> list[Any]:
        self.graph._lock.acquire()
        try:
            again = self.objects is not None
            for x in self.temporary:
                again = again and x.fits()
            if again:
                self._again()
            else:
                self._first()
        except BaseException:
            self._detach()
            raise
        assert self.objects is not None
        return self.objects

    def __exit__(self, problem: object, *rest: object) -> None:
        self._detach()
        points, edges = len(self.graph.points), len(self.graph.edges)
        if problem is None and (points <= LARGEST or points * DENSE <= edges):
            self.graph.kept[self.key] = self

    def _detach(self) -> None:
        try:
            detach(self.temporary)
        finally:
            self.graph._lock.release()

    def _first(self) -> None:
        for x in self.temporary:
            x.add()
        self.objects, self.prepared = self.make(), []
        if self.starts is not None:
            self._seed()

    def _again(self) -> None:
        starts = NO_STARTS if self.starts is None else self.starts
        for x in self.temporary:
            x.attach()
        if not self.prepared or not all([x.is_current() for x in self.prepared]):
            self.prepared = self._prepare()
        places = list(zip(self.prepared, self._rows(starts), strict=True))
        if all([x.takes(*rows) for x, rows in places]):
            for x, rows in places:
                x.write(*rows, self._count(starts))
            return
        for x in self.prepared:
            x.clear()
        if self.starts is not None:
            self._seed()

    # --- what differs in a graph in parts --------------------------------------------------------

    def _seed(self) -> None:
        """Write the start points and their values."""
        assert self.objects is not None
        points, near = self.graph.points, self.objects[0]
        for name, x in self.seed.items():
            points.assign(points.columns[name], self.starts, x, getattr(points, name).array)
        near.extend(self.starts)

    def _prepare(self) -> list[Start]:
        assert self.objects is not None
        seed = None if self.starts is None else self.seed
        return [Start(self.graph, self.temporary, self.objects, seed)]

    def _rows(self, starts: Any) -> list[tuple[Any, Any]]:
        """Give the start points on each device: own rows, and copies of others' rows."""
        return [(starts, NO_STARTS)]

    def _count(self, starts: Any) -> int | None:
        """Give the entries that the lists of all parts have."""
        return None


class WorkspaceOfParts(Workspace):
    """A `Workspace` of a graph in parts."""

    def __enter__(self) -> list[Any]:
        objects, self.before = super().__enter__(), self.graph._steps
        return objects

    def __exit__(self, problem: object, *rest: object) -> None:
        super().__exit__(problem, *rest)
        if self.graph.recorder is not None:  # objects are recorded by their order of making
            self.graph.kept.pop(self.key, None)
        if (
            problem is None and self.starts is not None
        ):  # a search, which follows an edge about once
            _warn_of_small_steps(self.graph, self.graph._steps - self.before)

    def _seed(self) -> None:
        assert self.objects is not None
        for name, x in self.seed.items():
            getattr(self.graph.points, name)[self.starts] = x
        self.objects[0].extend(self.starts)

    def _prepare(self) -> list[Start]:
        assert self.objects is not None
        seed = None if self.starts is None else self.seed
        return [
            Start(
                self.graph.local(k), [x.part(k) for x in self.temporary],
                [x.local(k) for x in self.objects], seed,
            )
            for k in self.graph.here
        ]  # fmt: skip

    def _rows(self, starts: Any) -> list[tuple[Any, Any]]:
        self.graph.transport.begin("start at", starts)  # an error if processes differ
        return [self.graph.points.rows_of_part(k, starts) for k in self.graph.here]

    def _count(self, starts: Any) -> int | None:
        return len(starts)


def workspace(
    graph: Graph | PartitionedGraph, name: str, make: Callable[[], Any],
    edges: Specs | None = None, starts: Any = None, seed: Mapping[str, Any] | None = None,
    **points: Any,
) -> Workspace:  # fmt: skip
    """Have columns and other objects for the time of a ``with`` block, which gets the objects.

    The graph keeps those of one algorithm for the next call: then neither memory is allocated nor a
    launch bound.

    Parameters
    ----------
    graph : Graph or PartitionedGraph
    name : str
        Of the algorithm.
    make : callable
        Makes a list of collections, sets, flags or tables.  The next time collections are empty,
        too, and the rows of sets alone.
    edges : dict of str to (dtype, fill), optional
        Columns of the edges.
    starts : array of int32, optional
        Points that the first of the objects, a collection, begins with.
    seed : dict of str to number, optional
        Values of columns for these points; other columns of the collection get 0.
    **points : (dtype, fill)
        Columns of the points.
    """
    key = name, starts is None, *points.items(), *(edges or {}).items()
    with graph._lock:
        kept: Workspace | None = graph.kept.pop(key, None)  # removed while in use
        for other in [k for k, x in graph.kept.items() if isinstance(x, Workspace)]:
            del graph.kept[other]
    if kept is None:
        kind: Any = WorkspaceOfParts if isinstance(graph, PartitionedGraph) else Workspace
        kept = kind(graph, key, make, {"points": points, "edges": edges or {}}, seed or {})
    kept.starts = starts
    return kept


def _warn_of_small_steps(graph: PartitionedGraph, steps: int) -> None:
    """Warn if the parts of several devices spend most of the time on exchanges."""
    several = len({d.name for d in graph.devices}) > 1 or len(graph.here) < len(graph.devices)
    if several and steps > MANY and len(graph.edges) < SMALL_STEP * steps:
        warnings.warn(
            f"{steps} steps for {len(graph.edges)} edges: one device is faster, parts.to(device)",
            PerformanceWarning, stacklevel=5,
        )  # fmt: skip
