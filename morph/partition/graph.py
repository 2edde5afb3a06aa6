"""Graphs divided into parts, which lie on devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, ClassVar, NamedTuple, Protocol

from morph.compiler.ir.layout import GLOBAL_ID, MOST_PARTS
from morph.data.collection import Flag
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.data.versions import exclusive, new_lock
from morph.graph import Graph
from morph.graph.applied import Applied, Then
from morph.graph.labels import Labelled, Lookup
from morph.language.arguments import integer
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.language.weak import WeakMap
from morph.partition.batches import apply
from morph.partition.columns import TableBase, refuse_divided
from morph.partition.parts import DIVIDED, FIXED, POINT_COST, Part, add_like
from morph.partition.replicated import ReplicatedFlag, ReplicatedScalars, ReplicatedTable
from morph.partition.routes import Routes
from morph.partition.tables import PartitionedTable
from morph.partition.transport import Local, Transport
from morph.partition.views import refuse_copies, spec_of_part
from morph.runtime.arrays import all_true, count_true
from morph.runtime.device import Device, device

checkpoint: Hook[AbstractContextManager[None]] = Hook()  # io.graph.checkpoint
each_part: Hook[None] = Hook("morph.partition.pool:each_part")
run_parts: Hook[dict[int, BaseException | None]] = Hook("morph.partition.pool:run_parts")
NUMBERED = ", by whose numbers edges are named"  # ends the note of an error: its ids are local


class PerformanceWarning(UserWarning):
    """One device would be faster than several, or a step sends a whole column to all parts."""


class Recorder(Protocol):
    """Records the course of a program, see `io.graph.checkpoint`."""

    def value(self, read: Callable[[], Any]) -> Any:
        """Return the result of ``read``, or the recorded value."""

    def step(self, kernel: str, run: Callable[[], None]) -> None:
        """Run a kernel, or skip it if a checkpoint has its effect."""


class Statistics(NamedTuple):
    """Sizes of one part.

    Attributes
    ----------
    device : str
    points, edges : int
        Its own.
    mirrors, copies : int
        Copies of points and edges of other parts.
    cut : int
        Its own edges that lead to points of other parts.
    share : float
        Its work as a fraction of all: of its own edges, and points, which count as four.
    """

    device: str
    points: int
    mirrors: int
    edges: int
    copies: int
    cut: int
    share: float


class PartitionedGraph(Labelled):
    """A partitioned graph: each part is an ordinary graph on its device; made by `partition`.

    Its tables and columns are those of the whole graph: ids, sizes and values are global.

    Attributes
    ----------
    parts : list of Part
        None for the parts of other processes.
    devices : list of Device
        Of each part.
    device : Device
        Where columns are read to: the host.
    directed : bool
    points, edges : PartitionedTable
    tables : dict of str to PartitionedTable or ReplicatedTable
        ``points`` and ``edges``, whose rows are divided, and further tables, of which every part
        has a copy; each is an attribute of the graph too.
    transport : Transport
        How the parts exchange arrays.
    here : range
        The parts of this process.
    changes : int
        The number of batches that have changed edges.
    made : WeakMap
        The collections, flags and replicated tables of the graph, in order of making, each with
        its number.
    recorder : Recorder or None
        Of a `checkpoint`.
    behind : callable or None
        Enqueues work on the GPUs behind the next launch of a program on all parts.
    """

    kind: ClassVar[str] = "graph"
    points: PartitionedTable
    edges: PartitionedTable
    __slots__ = (
        "__weakref__", "_lock", "_numbers", "_steps", "behind", "changes", "device", "devices",
        "directed", "edges", "here", "kept", "made", "parts", "points", "recorder", "tables",
        "transport", "undoable",
    )  # fmt: skip

    def __init__(
        self,
        parts: list[Part | None],
        devices: list[Device],
        sizes: tuple[int, int],
        directed: bool,
        transport: Transport | None = None,
    ) -> None:
        self.parts, self.devices, self.directed = parts, devices, directed
        self.device = device("cpu")
        self._lock = new_lock()
        self.changes, self.undoable = 0, False  # `undoable`: `then` of `apply` runs
        self.kept: dict[Any, Any] = {}  # objects that algorithms keep for their next call
        self._numbers = count()
        self.recorder: Recorder | None = None
        self.behind: Callable[[], None] | None = None
        self.made: WeakMap[Any, int] = WeakMap()
        self.transport = Local(devices) if transport is None else transport
        self.here = self.transport.here
        self._steps = 0  # of kernels and programs so far
        super().__init__()
        self.points = PartitionedTable(self, "points", sizes[0])
        self.edges = PartitionedTable(self, "edges", sizes[1])
        self.tables: dict[str, Any] = {"points": self.points, "edges": self.edges}
        for k in self.here:
            self.local(k).fixed = FIXED

    def __reduce__(self) -> Any:
        refuse_copies()

    def follow_labels(self, g: Graph) -> None:
        """Take the labels of the graph that was divided; points are not created or deleted."""
        self._take_labels(g._labels)
        self._lookup = g.lookup()

    def lookup(self) -> Lookup | None:
        """Return the labels of the points; None if they have none."""
        return self._lookup

    def _label_at(self, p: int) -> Any:
        return None if self._lookup is None else self._lookup.labels[p]

    def _set_labels(self, labels: Iterable[Any] | None) -> None:
        raise TypeError("labels of a partitioned graph are set before it is divided")

    def local(self, k: int) -> Graph:
        """Return the graph of part k."""
        k = integer(k, "k")
        if not 0 <= k < len(self.parts):
            raise IndexError(f"k = {shown(k)}: there are {len(self.parts)} parts")
        part = self.parts[k]
        if part is None:
            raise ValueError(f"part {k} lies in another process")
        return part.graph

    @property
    def has_unordered_mirrors(self) -> bool:
        """Whether a batch has changed the graph or, even if it failed, added mirrors.

        Rows of mirrors are then in no order.
        """
        return self.changes > 0 or self.points._routes.version > 1

    @property
    def routes(self) -> Routes:
        """The routes between points and their mirrors."""
        return self.points._routes

    @property
    def stale(self) -> set[str]:
        """Columns of points whose mirrors are out of date."""
        return self.points._stale

    def gather(self, value: Callable[[int], Any]) -> list[Any]:
        """Return a value of each part to all processes."""
        return self.transport.gather({k: value(k) for k in self.here})

    def each_part(self, run: Callable[[int], Any]) -> None:
        """Run a function for each part of this process, those on several GPUs at the same time.

        An error of a part is raised in all processes when all parts have ended.
        """
        each_part(self.devices, self.transport, run, NUMBERED)

    def run_parts(self, run: Callable[[int], Any]) -> dict[int, BaseException | None]:
        """Run a function for each part of this process, as `each_part`; return the errors."""
        return run_parts(self.devices, self.here, run, NUMBERED)

    def register(self, made: Any) -> None:
        """Number a new collection, flag or replicated table."""
        self.made.setdefault(made, next(self._numbers))

    def checkpoint(
        self, path: str | os.PathLike[str], every: float = 600.0
    ) -> AbstractContextManager[None]:
        """Save what a program has computed, now and then, and resume it.

        The program in the block runs kernels and programs on this graph.  If there is a file, of an
        earlier run of the same program, it resumes: kernels are skipped, and what the host reads is
        what it read then, up to the step of the checkpoint.  The parts, devices and ranks may be
        others.  At the end of the block, without an error, the file is deleted.

        Parameters
        ----------
        path : path-like
            A file, replaced as a whole at each checkpoint.
        every : float
            Seconds; a checkpoint is made after the first step that ends later.

        Raises
        ------
        ValueError
            If the file is no checkpoint, or one of another graph or program.

        Notes
        -----
        The block has to depend on the graph and on what it reads of it only, not on times, for
        example.  Reads of ``local(k)`` are not saved.  All values that the host reads are, large
        arrays too, until the block ends.
        """
        return checkpoint(self, path, every)

    def add_table(
        self, name: str, pack: Any = None, capacity: int = 0, **columns: Any
    ) -> TableBase:
        """Add a table, see `Graph.add_table`; every part gets a copy.

        Raises
        ------
        ValueError
            If a column refers to points or edges, whose local ids differ between the parts.
        """
        return self._replicated(
            name, lambda g, own: g.add_table(name, pack, capacity, **own), columns
        )

    def _replicated(
        self, name: str, make: Callable[[Graph, dict[str, Any]], Table], columns: dict[str, Any]
    ) -> ReplicatedTable:
        self.transport.begin("add table", name, *columns)
        for column, spec in columns.items():
            refuse_divided(name, column, getattr(spec, "name", None))
        copies: list[Table | None] = [None] * len(self.parts)
        for k in self.here:
            own = {column: spec_of_part(spec, k) for column, spec in columns.items()}
            copies[k] = make(self.local(k), own)
        made = ReplicatedTable(self, name, copies)
        if all(t is None or t.graph is not None for t in copies):
            self.tables[name] = made
        return made

    def on_parts(self, kind: Any, *args: Any, **options: Any) -> Any:
        """Make a `Flag`, `Scalars` or `Table` of which every part has a copy.

        Raises
        ------
        TypeError
            If it is of another kind.
        """
        if issubclass(kind, Table):
            name, *more = args
            return self._replicated(
                name, lambda g, own: kind(name, g.device, *more, **own), options
            )
        if not issubclass(kind, Flag | Scalars):
            raise TypeError(f"{kind.__name__} does not take a partitioned graph")
        self.transport.begin("make", kind.__name__)
        copies = [None if p is None else kind(p.graph, *args, **options) for p in self.parts]
        return (ReplicatedFlag if issubclass(kind, Flag) else ReplicatedScalars)(self, copies)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name != "tables" and name in self.tables:
            return self.tables[name]
        if hasattr(Graph, name):
            raise AttributeError(f"a partitioned graph has no {name!r}: use parts.to(device)")
        raise AttributeError(f"the graph has no table {name!r}")

    @exclusive
    def apply(
        self, inserts: Any = None, deletes: Any = None, updates: Any = None,
        delete_points: Any = None, *, nonnegative: bool = False, then: Then = None,
    ) -> Applied:  # fmt: skip
        """Delete, change and insert edges, see `Graph.apply`: all parts, or, if it raises, none.

        Ids are those of the whole graph, and ids of deleted edges are not used again.  With parts
        on ranks all ranks give the same batch.

        Raises
        ------
        TypeError, ValueError, OverflowError
            As `Graph.apply`; also if points are to be deleted.
        """
        self.transport.begin("apply")
        return apply(self, inserts, deletes, updates, delete_points, nonnegative, then)

    def to(self, device: str | Device) -> Graph:
        """Return the whole graph on one device: points and edges with all columns, other tables.

        Edges have new ids if some were deleted.

        Raises
        ------
        TypeError
            If there are several devices.
        """
        if isinstance(device, Sequence) and not isinstance(device, str):
            raise TypeError("a partitioned graph goes to one device; then divide it again")
        ids = self.edges.ids() if self.edges.deletes else slice(None)
        src, dst = self.edges.src[ids], self.edges.dst[ids]
        g = Graph(device, self.directed)
        g.points.extend(len(self.points))
        sorted_by_source = all_true(src[1:] >= src[:-1])
        g.edges.extend(src=src, dst=dst)
        for name, table in self.tables.items():
            whole = g.tables[name] if name in DIVIDED else g.add_table(name)
            for column in table.columns.values():
                if column.name not in (*whole.columns, GLOBAL_ID):
                    add_like(whole, column)
            if name not in DIVIDED:
                whole.extend(len(table))
            for column in list(whole.columns):
                if column not in ("src", "dst"):
                    rows = ids if name == "edges" else slice(None)
                    getattr(whole, column)[:] = table._read(column, rows)
        g._take_labels(self._labels)
        by = self.local(self.here[0])._adjacency.sorted_by
        if by is not None:
            g.sort_edges(by)
        elif sorted_by_source:
            g.compact()
        return g

    def why_by_steps(self) -> str:
        """Say why programs run launch by launch; empty if all parts execute them together."""
        devices = [self.devices[k] for k in self.here]
        if self.recorder is not None:
            return "a checkpoint records single launches"
        if self.has_unordered_mirrors and len(devices) < len(self.devices):
            return "the graph has changed since it was divided, and parts lie in several processes"
        if len(self.devices) > MOST_PARTS:
            return f"there are more than {MOST_PARTS} parts"
        if any(d.interprets for d in devices):
            return "a part is interpreted"
        gpus = {d.name for d in devices if not d.on_host}
        return "not every part has a GPU of its own" if gpus and len(gpus) < len(devices) else ""

    def statistics(self) -> list[Statistics]:
        """Return the sizes of each part."""
        self.transport.begin("statistics")
        total = max(POINT_COST * len(self.points) + len(self.edges), 1)
        return self.gather(lambda k: self._sizes(k, total))

    def _sizes(self, k: int, total: int) -> Statistics:
        part = self.parts[k]
        assert part is not None
        points, edges = part.share("points"), part.share("edges")
        g, own, bulk = part.graph, edges.own, part.device.bulk
        with g.device.active():
            own = own if isinstance(own, slice) else g.device.asarray(own)
            dst = g.edges.columns["dst"].array[own]
            pieces = (dst[start : start + bulk] for start in range(0, dst.size, bulk))
            cut = sum(count_true(piece >= points.owned) for piece in pieces)
        mirrors = points.mirrors, edges.owned, edges.mirrors, cut
        share = (POINT_COST * points.owned + edges.owned) / total
        return Statistics(g.device.name, points.owned, *mirrors, share)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(t)} {name}" for name, t in self.tables.items())
        return f"<PartitionedGraph on {', '.join(d.name for d in self.devices)}: {sizes}>"

    def __str__(self) -> str:
        rows = self.statistics()
        edges = max(len(self.edges), 1)
        cut, most = sum(r.cut for r in rows), max(r.edges for r in rows)
        lines = [
            f"{len(self.points)} points, {len(self.edges)} edges, parts: {len(rows)}; "
            f"edges cut: {100 * cut / edges:.1f} %; "
            f"edges of the largest part: {most * len(rows) / edges:.2f} times the mean"
        ]
        header = ("part", *Statistics._fields)
        cells = [
            header,
            *((str(k), *map(str, r[:-1]), f"{r.share:.3f}") for k, r in enumerate(rows)),
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            lines.append("  ".join(x.rjust(w) for x, w in zip(row, widths, strict=True)))
        return "\n".join(lines)
