"""Temporary columns and other objects of graph algorithms, on one device or in parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from morph.data.collection import Collection, Set
from morph.data.temporary import detach
from morph.graph import Graph
from morph.partition.graph import PartitionedGraph, PerformanceWarning

MANY = 500  # steps: a search on parts with more of them is slower than on one device if
SMALL_STEP = 50000  # it has fewer edges a step, as a GPU reads more in the time of an exchange
SMALL = "weights"  # key of the scalars that are always kept
LARGEST = 1 << 24  # points of a graph that keeps what an algorithm worked with,
DENSE = 8  # or that takes much more memory itself: for so many edges a point
Specs = dict[str, tuple[Any, Any]]


class Workspace:
    """Columns of a graph, and whatever else an algorithm works with, from one call to the next.

    The writes before a later call are known and prepared: no memory is allocated, no launch is
    bound again, and a GPU executes all writes by one kernel.
    """

    def __init__(
        self, graph: Graph, key: Any, make: Callable[[], Any], specs: Mapping[str, Specs],
        seed: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.graph, self.key, self.make, self.seed = graph, key, make, seed
        self.temporary: list[Any] = [
            graph.tables[t].temporary_columns(**s) for t, s in specs.items() if s
        ]
        self.objects: list[Any] | None = None  # until the first call
        self.starts: Any = None
        self.prepared: Any = None
        self.known: list[Any] = []  # what it was prepared for

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
        self.objects = self.make()
        if self.starts is not None:
            self._seed()

    def _seed(self) -> None:
        """Write the start points and their values."""
        assert self.objects is not None
        points, near = self.graph.points, self.objects[0]
        for name, x in self.seed.items():
            points.assign(points.columns[name], self.starts, x, getattr(points, name).array)
        near.extend(self.starts)

    def _again(self) -> None:
        objects, count = self.objects, 0 if self.starts is None else len(self.starts)
        assert objects is not None
        if count and count > objects[0].capacity:
            objects[0].resize(count)
        for x in self.temporary:
            x.attach()
        known = [x.table.span() for x in self.temporary] + [x.version for x in objects]
        if known != self.known:
            self._prepare()
            self.known = known
        if not self.prepared.fits or count > self.prepared.most:
            writes = [w for x in self.temporary for w in x.writes()]
            writes += [w for x in objects if isinstance(x, Collection | Set) for w in x.cleared()]
            self.graph.device.put(*writes)
            if self.starts is not None:
                self._seed()
            return
        counters = None
        for x in reversed(objects):
            if isinstance(x, Collection):  # the first is the last of them
                counters = x.have(count if x is objects[0] else 0)
        self.prepared.write(self.starts, counters)

    def _prepare(self) -> None:
        assert self.objects is not None
        objects, points = self.objects, self.graph.points.columns
        seeds, seeded = None, self.starts is not None
        writes = [w for x in self.temporary for w in x.writes()]
        writes += [
            w for x in objects[seeded:] if isinstance(x, Collection | Set) for w in x.cleared()
        ]
        if seeded:
            near = objects[0]
            beside = [(near.columns[c].array, 0) for c in near.columns if c != "item"]
            columns = [(points[c].array, x) for c, x in self.seed.items()]
            seeds = near.meta, near.columns["item"].array, beside, columns
        self.prepared = self.graph.device.prepared(writes, seeds)


class WorkspaceOfParts(Workspace):
    """A `Workspace` of a graph in parts; each call writes the columns anew."""

    graph: Any

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

    def _again(self) -> None:
        objects = self.objects
        assert objects is not None
        for x in self.temporary:
            x.attach()
        for k in self.graph.here:
            writes = [w for x in self.temporary for w in x.writes(k)]
            lists = [c for x in objects if isinstance(c := x.local(k), Collection)]
            writes += [w for c in lists for w in c.cleared()]
            self.graph.local(k).device.put(*writes)
        if self.starts is not None:
            self._seed()


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
