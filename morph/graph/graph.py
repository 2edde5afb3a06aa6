"""Graphs: tables of points, edges and others, and the index from points to edges."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self, overload

import numpy as np

from morph.data.collection import Collection
from morph.data.compaction import carry_out, compact
from morph.data.pickles import State, add_columns, refill, state_of
from morph.data.row import Row, as_id
from morph.data.store import groups_of
from morph.data.table import Table
from morph.data.versions import advance_epoch, exclusive, new_lock, renew
from morph.graph.adjacency import Adjacency
from morph.graph.applied import Applied, Then
from morph.graph.arrange import Rows, sources_from
from morph.graph.construction import Making
from morph.graph.export import Exporting
from morph.graph.reverses import have_reverses
from morph.graph.tiles import TILED, Tiles
from morph.language.arguments import boolean, string
from morph.language.dtypes import Ref
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.runtime.device import Array, Device, device_for

apply: Hook[Applied] = Hook()  # updates.changes
pair_up: Hook[Array] = Hook()  # updates.changes
single_changes: Hook[Any] = Hook()  # updates.single
many_changes: Hook[Any] = Hook()  # updates.many
recognise: Hook[Any] = Hook()  # updates.recognition
partition: Hook[Any] = Hook()  # partition.partition
delete: Hook[None] = Hook("morph.graph.deletion:delete")


class Graph(Making, Exporting):
    """A table of points, a table of edges from ``src`` to ``dst``, and other tables, on one device.

    Parameters
    ----------
    device : str or Device, optional
        See `morph.device`, and `morph.set_device` for the default.
    directed : bool
        False: each edge has its reverse among the edges, so that the neighbours of a point, also
        ``innbrs``, are the targets of its out-edges.  `apply` and ``edges.delete`` change both;
        code that inserts edges in another way, or deletes them in a kernel, must do so for their
        reverses, too.  Graph algorithms raise a ValueError if an edge has none.  An edge and its
        reverse should have equal weights; a write to the column does not change both.

    Attributes
    ----------
    points, edges : Table
    tables : dict of str to Table
        All tables, ``points`` and ``edges`` first; each is also an attribute of the graph.
    out_identity : bool
        Whether the k-th entry of the out-adjacency is edge k.  True after `from_edges` and
        `compact`, until points or edges are added or deleted.
    edge_order : array of int32, shape (m,), or None
        The input position of each edge of `from_edges` (-1 for later edges); None if the edges are
        in the order of the input.
    version : int
        Increases whenever the adjacency is invalidated.
    changes : int
        Increases whenever points or edges are added or deleted, or ends of edges change: on the
        host, in a launch, or by a batch.

    Notes
    -----
    The adjacency is built on demand, and rebuilt after points or edges were added or deleted.
    After a write to the memory of ``src`` or ``dst`` (``g.edges.src.array``), call
    `structure_changed`.  The deletion of a point deletes its incident edges: on the host at once,
    in a kernel at the end of the launch.  No edge may lead to a deleted point.
    """

    kind: ClassVar[str] = "graph"
    __slots__ = (
        "__weakref__", "_adjacency", "_lock", "_made", "_order", "_pairs", "changes", "device",
        "directed", "edges", "fixed", "kept", "name", "out_identity", "paired", "points",
        "recycled", "tables", "tiled", "undoable", "version",
    )  # fmt: skip

    def __init__(self, device: str | Device | None = None, directed: bool = True) -> None:
        directed = boolean(directed, "directed")
        self.device = device_for(device)
        self._lock = new_lock()  # held while a thread changes, reads or copies the graph
        self.name = "graph"
        self.directed = directed
        self.tables: dict[str, Table] = {}
        self.kept: dict[Any, Any] = {}  # caches for the next call of an algorithm or launch
        self.version = self.changes = 0
        self.out_identity = False
        self.tiled = ""  # the direction in which launches compute sums by tiles, or empty
        self.undoable = False  # during `then` of `apply`: the batch may be rolled back
        self.fixed = ""  # the reason why points and edges must not change, or empty
        self._pairs: Array | None = None  # the reverse of each edge
        self.paired = not directed  # undirected, and each edge is known to have its reverse
        self._order: Array | None = None  # see `edge_order`
        # edges below `_made` whose ids were recycled, so that they have no input position, u8
        self.recycled: Array | None = None
        self._made = 0  # number of edges with an input position, or a recycled id
        super().__init__()
        self.points = self.add_table("points")
        self.edges = self.add_table("edges", src=Ref("points"), dst=Ref("points"))
        self._adjacency = Adjacency(self.points, self.edges)
        advance_epoch()

    @classmethod
    def _of_rows(cls, where: Device, rows: Rows, directed: bool) -> Self:
        """Make a graph that uses these arrays, which are not checked."""
        m = int(rows.dst.size)
        sources = {"src": partial(sources_from, where, rows.offsets, m)}
        g = cls(where, directed)
        g.points.extend(rows.offsets.size - 1)
        if rows.weight is not None:
            g.edges.add("weight", rows.weight.dtype)
        g.edges.adopt(m, sources | rows.columns())
        g._order = rows.order
        g._made = len(g.edges)
        g._adjacency.set_out(rows.offsets)
        g.out_identity, g.paired = True, not directed
        return g

    @exclusive
    def add_table(self, name: str, pack: Any = None, capacity: int = 0, **columns: Any) -> Table:
        """Add a table, for example of triangles.

        Parameters
        ----------
        name : str
        pack, capacity, **columns
            As in `Table`.  References may be to this table and to tables that are added later.

        Raises
        ------
        ValueError
            If the name is in use or not an identifier.
        """
        string(name, "name")
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise ValueError(f"table {shown(name)}: the name of a table is an identifier")
        if name in self.tables or (name not in ("points", "edges") and hasattr(type(self), name)):
            raise ValueError(f"table {shown(name)}: the graph has this name already")
        table = Table(name, self.device, capacity)
        table.graph, table._lock = self, self._lock
        if columns or pack:
            table.add_columns({n: (t, None) for n, t in columns.items()}, groups_of(pack or ()))
        self.tables[name] = table
        return table

    def dissolve(self) -> None:
        """Make the tables objects of their own: the graph must not be used any more.

        Graph and tables refer to each other, so Python's collector would free their memory, later.
        """
        for table in self.tables.values():
            table.graph = None
        self.kept.clear()

    def __getattr__(self, name: str) -> Table:
        if not name.startswith("_") and name != "tables" and name in self.tables:
            return self.tables[name]
        raise AttributeError(f"the graph has no table {shown(name)}")

    # --- adjacency -------------------------------------------------------------------------------

    @exclusive
    def structure_changed(self, reverses: Array | None = None) -> None:
        """Invalidate the adjacency: points or edges were created or deleted, or ends changed."""
        self._pairs, self.paired = reverses, reverses is not None
        self.points_changed()

    def may_change(self) -> None:
        """Refuse changes of points and edges while these are not possible.

        Raises
        ------
        TypeError
            If the graph is `fixed`, as the parts of a partitioned graph are.
        RuntimeError
            While ``then`` of `apply` runs: if it fails, the batch is rolled back.
        ValueError
            If the graph has 2^31 edges or more.
        """
        self.refuse_fixed()
        self.edges._refuse_wide("in a graph that changes")

    def refuse_fixed(self) -> None:
        """Raise if the graph is fixed or ``then`` of a batch is running.

        Unlike `may_change` it does not test the number of edges, which the preparation of a batch
        has tested.
        """
        if self.fixed:
            raise TypeError(self.fixed)
        if self.undoable:
            raise RuntimeError("`then` of Graph.apply may not change points and edges of the graph")

    @exclusive
    def points_changed(self, appended: bool = False) -> None:
        """Invalidate the adjacency: points were created or deleted.

        A `gapped` adjacency is only extended if the points are new and the last (``appended``).
        Without an index there is nothing to invalidate: the version stays.
        """
        if self.gapped and appended:
            self._adjacency.refresh()
        elif self._adjacency.used:
            self._adjacency.clear()
            self.out_identity = False
            self.moved()
        self.changes += 1

    @property
    def complete(self) -> bool:
        """Whether the index has all live edges, and none of these is at a deleted point."""
        return self._adjacency.complete

    @property
    def gapped(self) -> bool:
        """Whether rows of the index have spare capacity, as after the first batch."""
        return self._adjacency.gapped

    def points_resized(self) -> None:
        """Extend the index at its next use, as the capacity of the points has changed."""
        self.moved()

    def moved(self) -> None:
        """Change the version: the adjacency is invalid, or has other addresses."""
        renew(self)

    @exclusive
    def adjacency(self, direction: str = "out") -> tuple[Array, Array | None]:
        """Return the index from points to edges, without dead edges and edges at dead points.

        Parameters
        ----------
        direction : str
            ``"out"`` (edges by source) or ``"in"`` (by destination).

        Returns
        -------
        offsets : array, shape (n + 1,), int64
        edges : array, shape (live edges,), int32, or None
            Edge ids; None means that entry k is edge k (see ``out_identity``).

        Notes
        -----
        A program that changes points or edges writes to these arrays: copy them to keep them.
        """
        offsets, ids = self._adjacency.index(direction)
        return offsets[: len(self.points) + 1], ids

    @exclusive
    def index(self, direction: str) -> None:
        """Build the index of a direction, if it is not built."""
        if self.gapped:
            self._adjacency.rows(direction)
        else:
            self._adjacency.index(direction)

    @property
    def rebuildable(self) -> bool:
        """Whether a launch can rebuild the adjacency: its rows are in order of ids."""
        return self._adjacency.sorted_by is None

    @exclusive
    def allow_rebuilds(self) -> bool:
        """Prepare for programs that rebuild the adjacency; return whether the graph has changed."""
        if self.edges.deletes and not (self.gapped or self.out_identity):
            return False
        self.edges.allow_deletes()
        self._adjacency.pack()
        self.out_identity = False
        self.moved()
        return True

    def begin_rebuilds(self, directions: Iterable[str], running: bool) -> None:
        """See `Adjacency.begin_rebuilds`."""
        self._adjacency.begin_rebuilds(directions, running)

    def address(self, kind: str, column: str = "") -> int:
        """Return the address of an index: ``out_offset``, ``out_edge``, ``in_offset``, ``in_edge``.

        A `gapped` index also has ``out_end`` and ``in_end``, and its offsets are rows of `gapped`.
        The index is built on demand; addresses are valid while ``version`` and the versions of the
        tables are unchanged.  Offsets cover the whole capacity of the points.  If entry k is edge
        k, the address of ``out_edge`` is 0.
        """
        if kind == "rebuild":
            return self.device.pointer(self._adjacency.rebuilt_rows().block)
        direction, _, part = kind.partition("_")
        if part in Tiles._fields and (found := self._adjacency.tiles(direction)):
            return self.device.pointer(getattr(found, part))
        if (
            direction not in ("out", "in")
            or part not in ("offset", "edge", "end")[: 2 + self.gapped]
        ):
            raise ValueError(f"a graph has no {shown(kind)} array")
        if self.gapped:
            rows = self._adjacency.rows(direction)
            if part == "offset":
                return rows.rows.address("column", "begin")
            return rows.entries.address("column", part)
        offsets, ids = self._adjacency.index(direction)
        if part == "offset":
            return self.device.pointer(offsets)
        return 0 if ids is None else self.device.pointer(ids)

    @contextmanager
    def sums_by_tiles(self) -> Iterator[None]:
        """Let launches in the block sum over in-neighbours by tiles, if faster: see `tiles`."""
        direction = "in" if self.directed else "out"
        if self.tiled or self._adjacency.tiles(direction) is None:
            yield
            return
        before, known = self.version, self.kept.get(TILED)
        self.tiled = direction
        renew(self, known[1] if known and known[0] == before else None)  # bound launches stay valid
        self.kept[TILED] = before, self.version
        try:
            yield
        finally:
            self.tiled = ""
            renew(self, before)

    @exclusive
    def sort_edges(self, by: str | None = "weight") -> None:
        """Order each point's out-edges by a column, ties by id; edges keep their ids.

        A rebuild of the adjacency sorts by the values at that time.  ``by=None`` restores the order
        of ids.

        Raises
        ------
        ValueError
            If edges have no such column, or it is a vector.
        """
        if by is not None:
            string(by, "by")
        if by is not None and by not in self.edges.columns:
            raise ValueError(self.edges.no_column(by))
        if by is not None and self.edges.columns[by].size:
            raise ValueError(f"edges cannot be sorted by {shown(by)}, which is a vector")
        self.may_change()
        self._adjacency.sort_by(by)
        self.out_identity = False
        self.moved()

    # --- changes ---------------------------------------------------------------------------------

    def apply(
        self, inserts: Any = None, deletes: Any = None, updates: Any = None,
        delete_points: Any = None, *, nonnegative: bool = False, then: Then = None,
    ) -> Applied:  # fmt: skip
        """Delete, update and insert edges atomically: an error leaves the graph unchanged.

        The order is: delete points with all their edges, delete edges, set weights, insert edges.

        Parameters
        ----------
        inserts : (src, dst), (src, dst, weight), or mapping of column names to arrays
            Arrays of shape (k,), on any device, or one value each; ends are ids or `labels`.  Other
            columns get their fill.  An insert of an existing pair adds a parallel edge; loops are
            allowed.
        deletes : array of ids, or tuple (src, dst)
            Edges by id, or by ends: the k-th occurrence of a pair denotes the k-th of its edges,
            by id.
        updates : (ids, weight) or (src, dst, weight)
            Weights to set.  A pair denotes its edge with the smallest id.
        delete_points : array of ids or labels
        nonnegative : bool
            Refuse negative weights and NaN.
        then : callable, optional
            Called with the result after the graph has changed.  If it raises, the batch is rolled
            back.  It must not change points and edges of the graph (RuntimeError).  A rollback
            restores only the changes of the batch: other writes of ``then``, also to weights, are
            kept.

        Returns
        -------
        Applied
            The inserted, deleted and updated edges, and the numbers of absent and repeated names.

        Raises
        ------
        TypeError, ValueError, OverflowError
            The error names the argument, position and value.

        Notes
        -----
        In an undirected graph, an edge is two arcs, each the reverse of the other (`reverses`).  It
        is named by either arc, or by its ends in any order, and both arcs are changed.  Parallel
        edges are ordered by the ids of their arcs from the smaller point.

        Edges keep their ids until `compact`; the id of a deleted edge may be recycled, unless a
        reference denotes the deleted edge.
        """
        with self._lock:
            return apply(self, inserts, deletes, updates, delete_points, nonnegative, then)

    def single_changes(self) -> Any:
        """The state kept for batches of one change, see `morph.updates.single`; or None.

        It is made at the second of two such batches without another change in between.
        """
        index = self._adjacency
        known, second = index.singles
        if known is None:
            return single_changes(self) if index.single_at == self.versions() else None
        if not known.current(self):
            index.singles = None, None
            return None
        if index.is_free(known.table):
            return known
        if second is None or not second.current(self):
            return single_changes(self, known)
        return second if index.is_free(second.table) else known

    def recognise(self, inserts: Any, deletes: Any, updates: Any) -> Any:
        """A batch for `many_changes`, see `updates.recognition`.

        None if no batch of several changes has been applied on a GPU yet, or the arguments are not
        recognised.
        """
        if not self._adjacency.many_at:
            return None
        with self.device.active():
            return recognise(self, inserts, deletes, updates)

    def many_changes(self, rows: int) -> Any:
        """The state kept for batches of several changes, see `morph.updates.many`; or None.

        It is made at the second of two such batches, as in `single_changes`; only on GPUs.
        """
        index, large = self._adjacency, rows > self.device.serial_items
        known = index.many.get(large)
        if known is None:
            return many_changes(self, rows) if index.many_at.get(large) == self.versions() else None
        if known.current(self):
            return known
        del index.many[large]
        return None

    def versions(self) -> tuple[int, int, int]:
        """The versions of the graph and of its tables."""
        return self.version, self.edges.version, self.points.version

    @exclusive
    def reverses(self) -> Array:
        """Return the reverse of each edge of an undirected graph; -1 for dead edges.

        Returns
        -------
        array of int32, shape (len(edges),)

        Raises
        ------
        ValueError
            If the graph is directed, or an edge has no reverse.
        """
        if self.directed:
            raise ValueError("the graph is directed: its edges have no reverses")
        if self._pairs is None:
            self._pairs = pair_up(self)
        return self._pairs[: len(self.edges)]

    def _found_reverses(self) -> Array:
        """Return the reverse of each edge of an undirected graph; -1 if it has none."""
        with self.device.active():
            return pair_up(self, partial=True)

    @exclusive
    def require_reverses(self) -> None:
        """Check that each edge of an undirected graph has its reverse, if edges have changed.

        A part of a graph has only the edges from its points, and is not checked.

        Raises
        ------
        ValueError
            If an edge has no reverse.
        """
        if self.directed or self.paired or self.fixed:
            return
        src, dst, _ = self.edge_list()
        if not have_reverses(self.device, src, dst):
            self.reverses()
        self.paired = True

    @exclusive
    def _delete(self, points: Array | None = None, edges: Array | None = None) -> None:
        """Delete live rows for `Table.delete`: points with their edges, or edges."""
        delete(self, points, edges)

    def _forget_order(self, ids: Array | int) -> None:
        """Set the `edge_order` of edges ``ids`` to -1, as their ids were recycled."""
        if self._made and self.edges.deletes:
            with self.device.active():
                ids = self.device.asarray(np.array([ids])) if isinstance(ids, int) else ids
                ids = ids[ids < self._made]
                if ids.size:
                    self.track_recycled()[ids] = 1

    def track_recycled(self) -> Array:
        """Return `recycled`, allocated first if it is None."""
        if self.recycled is None:
            self.recycled = self.device.zeros(self._made, np.uint8)
            self.moved()  # kernels of batches write to the array
        return self.recycled

    @property
    def edge_order(self) -> Array | None:
        """The input positions of edges, see the class."""
        if self.recycled is None:
            return self._order
        xp = self.device.xp
        with self.device.active():
            order = xp.arange(self._made, dtype=np.int32) if self._order is None else self._order
            return xp.where(self.recycled == 0, order, np.int32(-1))

    # --- views -----------------------------------------------------------------------------------

    @exclusive
    def csr(self) -> tuple[Array, Array, Array | None]:
        """Return the graph as compressed rows, without a copy if edge k is entry k.

        Returns
        -------
        offsets : array, shape (n + 1,), int64
        dst : array, shape (m,), int32
        weight : array, shape (m,), or None
            None if edges have no column ``weight``.
        """
        offsets, ids = self.adjacency("out")
        columns = self.edges.columns
        pick = slice(len(self.edges)) if ids is None else ids
        with self.device.active():
            weight = columns["weight"].array[pick] if "weight" in columns else None
            return offsets, columns["dst"].array[pick], weight

    @exclusive
    def edge_list(self) -> tuple[Array, Array, Array | None]:
        """Return source, destination and weight (or None) of the live edges, by id; shape (m,)."""
        count, edges = len(self.edges), self.edges
        pick = edges.ids() if edges.live < count else slice(count)
        with self.device.active():
            names = ("src", "dst", "weight")
            src, dst, weight = (
                edges.columns[c].array[pick] if c in edges.columns else None for c in names
            )
            return src, dst, weight

    @exclusive
    def degree(self, point: Any = None, direction: str = "out") -> Any:
        """Count the edges at one point (id or label), or at every point (shape (n,), int64)."""
        if point is not None:
            return int(self._adjacency.at(direction, self._point(point)).size)
        offsets, _ = self.adjacency(direction)
        with self.device.active():
            return offsets[1:] - offsets[:-1]

    @exclusive
    def edge(self, src: Any, dst: Any) -> Row | None:
        """Find the first edge between two points, ids or labels, in adjacency order, or None."""
        u, v = self._point(src), self._point(dst)
        with self.device.active():
            at = self._adjacency.at("out", u)
            hit = self.device.xp.flatnonzero(self.edges.columns["dst"].array[at] == v)
            return Row(self.edges, int(at[hit[0]])) if hit.size else None

    @exclusive
    def around(self, row: Row, name: str) -> Any:
        """Return ``row.name`` as in kernels: neighbours, edges or a degree; None for others."""
        if isinstance(row.table, Collection) and "item" in row.table.columns:
            return self.around(row.item, name) if isinstance(row.item, Row) else None
        both, back = ("all", "in") if self.directed else ("out", "out")
        direction = {
            "outnbrs": "out", "innbrs": back, "nbrs": both, "outedges": "out", "inedges": "in",
            "edges": both, "out_degree": "out", "in_degree": back, "degree": both,
        }.get(name)  # fmt: skip
        if row.table is self.edges and name in ("nbr1", "nbr2", "nbrs"):
            ends = {"nbr1": (row.src,), "nbr2": (row.dst,), "nbrs": (row.src, row.dst)}[name]
            return [e for p in ends for e in self.around(p, "edges") if e != row]
        if row.table is not self.points or direction is None:
            return None
        ids, table = [], self.points if name.endswith("nbrs") else self.edges
        for d, end in (("out", "dst"), ("in", "src")):
            if direction in (d, "all"):
                at = self._adjacency.at(d, self._point(row))
                with self.device.active():
                    at = self.edges.columns[end].array[at] if table is self.points else at
                ids += self.device.to_host(at).tolist()
        return len(ids) if name.endswith("degree") else [Row(table, i) for i in ids]

    def weight(self, src: Any, dst: Any) -> Any:
        """Return the weight of `edge` (src, dst); 1 if edges have no weights.

        Raises
        ------
        KeyError
            If there is no such edge.
        """
        edge = self.edge(src, dst)
        if edge is None:
            raise KeyError(f"no edge from {shown(src)} to {shown(dst)}")
        return edge.weight if "weight" in self.edges.columns else 1

    def _point(self, p: Any) -> int:
        if not isinstance(p, Row) and (self._numbers_are_labels or self._is_label(p)):
            p = self.id_of(p)
        return self.points.row(as_id(p, self.points, "point")).id

    # --- whole graphs ----------------------------------------------------------------------------

    @overload
    def to(self, device: str | Device) -> Graph: ...
    @overload
    def to(self, device: list[Any] | tuple[Any, ...]) -> Any: ...
    @exclusive
    def to(self, device: Any) -> Any:
        """Return a copy on a device (also on this one): all tables, layouts, the adjacency.

        A list of devices is equivalent to ``morph.partition(g, devices)``.
        """
        if isinstance(device, (list, tuple)):
            return partition(self, device)
        g = self.like(device)
        for name, table in self.tables.items():
            g.tables[name]._take_rows(table)
        g.out_identity, g._made = self.out_identity, self._made
        if (order := self.edge_order) is not None:
            g._order = g.device.copy(order)
        if self._pairs is not None:
            g._pairs = g.device.copy(self._pairs)
        g.paired = self.paired
        g._take_labels(self._labels)
        g._adjacency.copy_from(self._adjacency)
        return g

    def copy(self) -> Graph:
        """Return an independent copy on the same device: all tables and ids.

        Collections and sets of the graph's rows are separate objects and refer to this graph;
        `copy.deepcopy` of a container copies a graph and its collections together.
        """
        return self.to(self.device)

    def snapshot(self) -> Graph:
        """Return a copy on the same device, for concurrent readers of the current graph.

        A batch changes a graph's arrays in place, and no other thread may read them during it.
        The copy has separate arrays with the same ids: columns and the index.
        """
        return self.copy()

    def __copy__(self) -> Graph:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        memo[id(self)] = copy = self.copy()
        return copy

    @exclusive
    def __reduce__(self) -> Any:
        """Pickle the name of the device, and all tables on the host."""
        host = self.device.to_host
        tables = [(name, state_of(t)) for name, t in self.tables.items()]
        more = [self.edge_order, self._pairs, self.adjacency()[0] if self.out_identity else None]
        arrays = [None if a is None else np.array(host(a)) for a in more]
        by = self._adjacency.sorted_by
        about = type(self), self.device, self.directed, tables, self._made, by
        return _rebuilt, (*about, arrays, self._labels)

    def like(self, device: str | Device | None = None) -> Graph:
        """Return a graph with the same tables, columns and layouts, without rows."""
        g = Graph(self.device if device is None else device, self.directed)
        for name, table in self.tables.items():
            copy = g.tables[name] if name in g.tables else g.add_table(name)
            copy._take_columns(table)
        g._adjacency.sorted_by = self._adjacency.sorted_by
        return g

    @exclusive
    def compact(self) -> None:
        """Remove dead rows from all tables, and edges without an end.

        Rows keep their order, except that edges are sorted by source (and then by the column of
        `sort_edges`), so that ``out_identity`` holds again.  References to dead rows, in all
        tables and in the collections of this graph, become -1; items of collections that are dead
        rows are removed; sets keep the components of the live rows.  Ids change: `Row` objects of
        the caller are not updated.
        """
        self.may_change()
        xp, count = self.device.xp, len(self.edges)
        offsets, ids = self._adjacency.index("out")
        with self.device.active():
            old = xp.arange(count) if ids is None else ids.astype(np.int64)
            if self.gapped:  # rows are not sorted
                old |= self.edges.columns["src"].array[old].astype(np.int64) << 32
                old.sort()
                old &= 0xFFFFFFFF
            fresh = xp.zeros(self.points.live + 1, np.int64)
            fresh[1:] = xp.cumsum((offsets[1:] - offsets[:-1])[self.points.ids()])
            order = self._input_positions(old)

        def follow() -> None:
            self.structure_changed()
            self._reordered(order)
            self._adjacency.set_out(fresh)
            self.out_identity = True

        if not compact(self.tables.values(), self.tables.values(), follow, {self.edges: old}):
            carry_out([follow])

    def _reordered(self, order: Array | None) -> None:
        """Reorder `edge_order` for the new ids of edges."""
        self._order, self.recycled = order, None
        self._made = len(self.edges) if self._made else 0

    def _input_positions(self, edges: Array) -> Array | None:
        """The input positions of edges in `from_edges`; -1 for later edges."""
        xp, known = self.device.xp, self.edge_order
        if self._made == 0:
            return None
        kept = xp.where(edges < self._made, edges, 0)
        kept = kept if known is None else known[kept]
        return xp.where(edges < self._made, kept, -1).astype(np.int32)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(t)} {name}" for name, t in self.tables.items())
        return f"<Graph on {self.device.name}: {sizes}>"


def _rebuilt(
    kind: type[Graph], device: Device, directed: bool, tables: list[tuple[str, State]], made: int,
    by: str | None, arrays: list[Any], labels: Array | None = None,
) -> Graph:  # fmt: skip
    """Make a graph from a pickle."""
    g = kind(device, directed)
    for name, state in tables:
        add_columns(g.tables[name] if name in g.tables else g.add_table(name), state)
    for name, state in tables:
        refill(g.tables[name], state)
    order, pairs, offsets = (None if a is None else device.asarray(a) for a in arrays)
    g.structure_changed(pairs)
    g.sort_edges(by)
    g._made, g._order = made, order
    g._take_labels(labels)
    if offsets is not None:
        g._adjacency.set_out(offsets)
        g.out_identity = True
    return g
