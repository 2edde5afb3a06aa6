"""Temporary columns and objects of graph algorithms, on one device or in parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from morph.data.collection import Collection, Set
from morph.data.temporary import detach
from morph.graph import Graph
from morph.launch.kept import KeptLaunches
from morph.partition.graph import PartitionedGraph, PerformanceWarning

# A search on several devices with more steps and fewer edges per step than these is slower than on
# one device: an exchange takes longer than reading the edges.
MANY_STEPS, SMALL_STEP = 500, 50000
# Keys in `Graph.kept`, beside those of workspaces: the scalars of `costs.measure`, the tables of
# `triangles`, the offsets of short rows there.
WEIGHT_SUMS, TRIANGLES, SHORT_ROWS = "weights", "triangles", "short rows"
# A graph caches a workspace with at most so many points, or at least so many edges per point.
MAX_KEPT_POINTS, KEPT_DEGREE = 1 << 24, 8
NO_STARTS = np.zeros(0, np.int32)
Specs = dict[str, tuple[Any, Any]]


class InitialWrites:
    """The writes to one device before a call: fills, cleared lists, start points, their values.

    Parameters
    ----------
    graph : Graph
        The graph, or a part of one.
    temporary : list of TemporaryColumns
    objects : list
        The result of ``make``; the first object lists the start points, unless ``seed`` is None.
    seed : mapping of str to number, or None
        Values of columns at the start points.
    """

    def __init__(
        self, graph: Graph, temporary: list[Any], objects: list[Any],
        seed: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        self.device, self.temporary, self.objects = graph.device, temporary, objects
        self.lists = [x for x in objects if isinstance(x, Collection)]
        self.first = None if seed is None else self.lists.pop(0)
        self.known = self._versions()
        seeds, columns = None, graph.points.columns
        if seed is not None:
            frontier = objects[0]
            others = [(frontier.columns[c].array, 0) for c in frontier.columns if c != "item"]
            values = [(columns[c].array, x) for c, x in seed.items()]
            seeds = frontier.meta, frontier.columns["item"].array, others, values
        writes = self._fills() + self._cleared(objects[seed is not None :])
        self.writer = self.device.prepared(writes, seeds)

    def is_current(self) -> bool:
        """Whether the memory of columns and objects is unchanged since preparation."""
        return self.known == self._versions()

    def accepts(self, rows: Any, mirrors: Any) -> bool:
        """Whether list and kernel have capacity for these start points."""
        if len(rows) and len(rows) > self.objects[0].capacity:
            return False
        return self.writer.fits and len(rows) + len(mirrors) <= self.writer.most

    def write(self, rows: Any, mirrors: Any, count: int | None) -> None:
        """Make all writes at once, on a GPU by one kernel.

        Parameters
        ----------
        rows, mirrors : array of int32
            The start points: own rows, and on a part the mirrors of other parts' rows.
        count : int, or None
            Number of start points of all parts; None for a graph that is not a part.
        """
        counters = None if self.first is None else self.first.have(len(rows), count)
        in_all = None if count is None else 0
        for x in self.lists:
            x.have(0, in_all)
        self.writer.write(rows, mirrors, counters)

    def clear(self) -> None:
        """Write the fills and clear all lists."""
        self.device.put(*self._fills(), *self._cleared(self.objects))

    def _versions(self) -> list[Any]:
        return [x.table.span() for x in self.temporary] + [x.version for x in self.objects]

    def _fills(self) -> list[Any]:
        return [w for x in self.temporary for w in x.writes()]

    def _cleared(self, objects: list[Any]) -> list[Any]:
        return [w for x in objects if isinstance(x, Collection | Set) for w in x.cleared()]


class Objects(list[Any]):
    """The objects of a workspace, and the bundles and launches that are made of them once."""

    def __init__(self, made: Iterable[Any]) -> None:
        super().__init__(made)
        self._made: dict[Any, Any] = {}
        self.run = KeptLaunches().run

    def once(self, make: Callable[..., Any], *args: Any) -> Any:
        """Return ``make(*args)``, evaluated at the first call; later arguments must be equal."""
        if make not in self._made:
            self._made[make] = make(*args)
        return self._made[make]


class Workspace:
    """Temporary columns and objects of an algorithm, cached between calls.

    Later calls allocate no memory and bind no launches; on a GPU one kernel makes all writes.
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
        self.objects: Objects | None = None  # until the first call
        self.starts: Any = None
        self.prepared: list[InitialWrites] = []  # on each device

    def __enter__(self) -> Objects:
        self.graph._lock.acquire()
        try:
            reusable = self.objects is not None
            for x in self.temporary:
                reusable = reusable and x.fits()
            if reusable:
                self._reuse()
            else:
                self._create()
        except BaseException:
            self._detach()
            raise
        assert self.objects is not None
        return self.objects

    def __exit__(self, problem: object, *rest: object) -> None:
        self._detach()
        points, edges = len(self.graph.points), len(self.graph.edges)
        if problem is None and (points <= MAX_KEPT_POINTS or points * KEPT_DEGREE <= edges):
            self.graph.kept[self.key] = self

    def _detach(self) -> None:
        try:
            detach(self.temporary)
        finally:
            self.graph._lock.release()

    def _create(self) -> None:
        for x in self.temporary:
            x.add()
        self.objects, self.prepared = Objects(self.make()), []
        if self.starts is not None:
            self._seed()

    def _reuse(self) -> None:
        starts = NO_STARTS if self.starts is None else self.starts
        for x in self.temporary:
            x.attach()
        if not self.prepared or not all([x.is_current() for x in self.prepared]):
            self.prepared = self._prepare()
        writes_and_rows = list(zip(self.prepared, self._rows(starts), strict=True))
        if all([x.accepts(*rows) for x, rows in writes_and_rows]):
            for x, rows in writes_and_rows:
                x.write(*rows, self._count(starts))
            return
        for x in self.prepared:
            x.clear()
        if self.starts is not None:
            self._seed()

    # --- overridden for partitioned graphs -------------------------------------------------------

    def _seed(self) -> None:
        """Write the start points and their values."""
        assert self.objects is not None
        points, frontier = self.graph.points, self.objects[0]
        for name, x in self.seed.items():
            points.assign(points.columns[name], self.starts, x, getattr(points, name).array)
        frontier.extend(self.starts)

    def _prepare(self) -> list[InitialWrites]:
        assert self.objects is not None
        seed = None if self.starts is None else self.seed
        return [InitialWrites(self.graph, self.temporary, self.objects, seed)]

    def _rows(self, starts: Any) -> list[tuple[Any, Any]]:
        """Return the start points on each device: own rows, and mirrors of other parts' rows."""
        return [(starts, NO_STARTS)]

    def _count(self, starts: Any) -> int | None:
        """Return the number of start points of all parts, None without parts."""
        return None


class WorkspaceOfParts(Workspace):
    """A `Workspace` of a partitioned graph."""

    def __enter__(self) -> Objects:
        objects, self.before = super().__enter__(), self.graph._steps
        return objects

    def __exit__(self, problem: object, *rest: object) -> None:
        super().__exit__(problem, *rest)
        if self.graph.recorder is not None:  # checkpoints record objects in the order they are made
            self.graph.kept.pop(self.key, None)
        # a search follows each edge about once, so edges / steps is the work of a step
        if problem is None and self.starts is not None:
            _warn_of_small_steps(self.graph, self.graph._steps - self.before)

    def _reuse(self) -> None:
        super()._reuse()
        lists = [x for x in self.objects or () if getattr(x, "kind", "") == "collection"]
        for k, x in enumerate(lists):  # `InitialWrites` bypasses methods that store the length
            x.set_length(0 if k or self.starts is None else len(self.starts))

    def _seed(self) -> None:
        assert self.objects is not None
        for name, x in self.seed.items():
            getattr(self.graph.points, name)[self.starts] = x
        self.objects[0].extend(self.starts)

    def _prepare(self) -> list[InitialWrites]:
        assert self.objects is not None
        seed = None if self.starts is None else self.seed
        return [
            InitialWrites(
                self.graph.local(k), [x.part(k) for x in self.temporary],
                [x.local(k) for x in self.objects], seed,
            )
            for k in self.graph.here
        ]  # fmt: skip

    def _rows(self, starts: Any) -> list[tuple[Any, Any]]:
        self.graph.transport.begin("start at", starts)  # an error if processes differ
        found: list[tuple[Any, Any]] = self.graph.points.rows_of_parts(starts)
        return found

    def _count(self, starts: Any) -> int | None:
        return len(starts)


def workspace(
    graph: Graph | PartitionedGraph, name: str, make: Callable[[], Any],
    edges: Specs | None = None, starts: Any = None, seed: Mapping[str, Any] | None = None,
    **points: Any,
) -> Workspace:  # fmt: skip
    """Return a context manager that attaches temporary columns and yields the objects of ``make``.

    The graph caches the workspace of its last algorithm for the next call.

    Parameters
    ----------
    graph : Graph or PartitionedGraph
    name : str
        Name of the algorithm.
    make : callable
        Makes a list of collections, sets, flags or tables.  In later calls, collections are empty
        and all rows of a `Set` are singletons.
    edges : dict of str to (dtype, fill), optional
        Columns of the edges.
    starts : array of int32, optional
        Start points, which are appended to the first object, a collection.
    seed : dict of str to number, optional
        Values of columns at these points; other columns of the collection get 0.
    **points : (dtype, fill)
        Columns of the points; for the fill None see `TemporaryColumns`.
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
    """Warn if a search on several devices spent most of its time on exchanges."""
    if steps <= MANY_STEPS or len(graph.edges) >= SMALL_STEP * steps:
        return
    if len({d.name for d in graph.devices}) > 1 or len(graph.here) < len(graph.devices):
        warnings.warn(
            f"{steps} steps for {len(graph.edges)} edges: one device is faster, parts.to(device)",
            PerformanceWarning, stacklevel=5,
        )  # fmt: skip
