"""The parts of a partitioned graph, each an ordinary graph on its device.

A part first has its own points and edges, in order of their global ids, then *mirrors*: copies of
points of other parts that its edges lead to, and, if the graph is directed, copies of the other
edges that lead to its points.  Mirrors are sorted by owner, those of one owner by global id (copies
of edges by the mirror that they start from).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from morph.compiler.ir.layout import GLOBAL_ID
from morph.data.layout import Column
from morph.data.table import Table
from morph.graph import Graph
from morph.graph.adjacency import count_keys
from morph.graph.arrange import Rows, empty
from morph.language.dtypes import ID_LIMIT
from morph.runtime.arrays import all_true, to_host
from morph.runtime.device import Array, Device

HostArray = np.ndarray[Any, Any]
DIVIDED = ("points", "edges")  # the tables whose rows are divided; all others are replicated
FIXED = "points and edges of a part do not change: other parts have copies of them"
POINT_COST = 4  # work of a point, in edges: for PageRank 3.6 on an H200
IDS_AT_ONCE = 1 << 17  # ids that NumPy converts at once, in memory that stays in the cache


@dataclass
class Share:
    """The rows of the points or edges that one part has.

    Attributes
    ----------
    ids : slice or array of int
        Global ids of its own rows, ascending; on the host.
    owned : int
        Number of its own rows, which are the first.
    mirror_ids : array of int
        Global ids of the mirrors, which follow, by owner; on the host.
    mirrors_of : array of int64, shape (parts + 1,)
        Mirrors ``mirrors_of[j]`` to ``mirrors_of[j + 1]`` are copies of rows of part j.
    own_at, mirrors_at : array of int or None
        The local ids of the own rows and of the mirrors, if they lie in no order since the graph
        has changed.
    """

    ids: slice | HostArray
    owned: int
    mirror_ids: HostArray
    mirrors_of: HostArray
    own_at: HostArray | None = None
    mirrors_at: HostArray | None = None

    @property
    def is_range(self) -> bool:
        """Whether the own rows are consecutive."""
        return isinstance(self.ids, slice)

    @property
    def mirrors(self) -> int:
        """Number of mirrors."""
        return int(self.mirror_ids.size)

    @property
    def own(self) -> slice | HostArray:
        """The local ids of the own rows."""
        return slice(self.owned) if self.own_at is None else self.own_at

    def mirrors_from(self, j: int) -> slice | HostArray:
        """Return the local ids of the copies of part j's rows."""
        first, last = self.mirrors_of[j : j + 2].tolist()
        if self.mirrors_at is None:
            return slice(first + self.owned, last + self.owned)
        return self.mirrors_at[first:last]

    def owners(self, rows: HostArray, k: int) -> HostArray:
        """Return the parts that own rows of part k, by local ids."""
        position = rows - self.owned
        if self.mirrors_at is not None:
            position = np.where(position < 0, position, self.positions[np.maximum(position, 0)])
        return np.where(position < 0, k, np.searchsorted(self.mirrors_of, position, "right") - 1)

    def with_mirrors(self, ids: HostArray, owner: HostArray, begin: int) -> Share:
        """Return these rows and new mirrors, of ``owner``, whose local ids begin at ``begin``.

        Their global ids, int32, ascend.
        """
        rows = self.mirrors_at
        if rows is None:
            rows = np.arange(self.owned, begin)
        order = np.argsort(owner, kind="stable")
        owner, new = owner[order], ids[order]
        ends = np.searchsorted(owner, np.arange(self.mirrors_of.size))
        at = [
            first + self.mirror_ids[first:last].searchsorted(new[a:b])
            for first, last, a, b in zip(
                self.mirrors_of[:-1], self.mirrors_of[1:], ends[:-1], ends[1:], strict=True
            )
        ]
        places = np.concatenate(at)
        mirrors, rows = (
            np.insert(old, places, more)
            for old, more in ((self.mirror_ids, new), (rows, begin + order))
        )
        return Share(self.ids, self.owned, mirrors, self.mirrors_of + ends, None, rows)

    @cached_property
    def positions(self) -> HostArray:
        """The position of each mirror, in order of local ids, among ``mirror_ids``."""
        assert self.mirrors_at is not None
        found = np.empty_like(self.mirrors_at)
        found[self.mirrors_at - self.owned] = np.arange(found.size)
        return found

    @cached_property
    def _sorted_mirrors(self) -> tuple[HostArray | None, HostArray]:
        """The positions of the mirrors in order of their ids (None: they lie so), and the ids."""
        a = self.mirror_ids
        if all_true(a[1:] > a[:-1]):
            return None, a
        order = np.argsort(a)
        return order, a[order]

    def own_rows(self, ids: HostArray) -> HostArray:
        """Return the local ids of the own rows among global ids; -1 for others."""
        if isinstance(self.ids, slice):
            rows = ids - self.ids.start
            return np.where((rows >= 0) & (rows < self.owned), rows, -1)
        return _picked(self.own_at, positions(self.ids, ids))

    @property
    def in_order(self) -> bool:
        """Whether own rows are consecutive, in order of their ids, and mirrors follow them."""
        return self.is_range and self.own_at is None and self.mirrors_at is None

    def row(self, id: int) -> int:
        """Return the local id of an own row or mirror by its global id; -1 for others.

        Only if `in_order`.
        """
        assert isinstance(self.ids, slice)
        own = id - self.ids.start
        if 0 <= own < self.owned:
            return int(own)
        ids = self.mirror_ids  # ascending, as all parts have ranges
        at = int(ids.searchsorted(ids.dtype.type(id)))
        return self.owned + at if at < ids.size and ids[at] == id else -1

    def rows(self, ids: HostArray) -> HostArray:
        """Return the local ids of rows, own or mirrors, by global ids; -1 for others."""
        own, (order, ascending) = self.own_rows(ids), self._sorted_mirrors
        at = _picked(order, positions(ascending, ids))
        found = at + self.owned if self.mirrors_at is None else _picked(self.mirrors_at, at)
        return np.where(at < 0, own, found)

    @cached_property
    def _ids_by_row(self) -> HostArray:
        """The global id of each row, own or mirror, that lie in no order; -1 for others."""
        rows = [x for x in (self.own_at, self.mirrors_at) if x is not None and x.size]
        last = max((int(x.max()) for x in rows), default=self.owned - 1)
        found = np.full(last + 1, -1)
        ids = self.ids
        found[self.own] = np.arange(ids.start, ids.stop) if isinstance(ids, slice) else ids
        found[self.mirrors_at] = self.mirror_ids
        return found

    def global_ids(self, rows: HostArray) -> HostArray:
        """Return the global ids of rows by local ids; -1 stays."""
        if self.mirrors_at is not None:
            return np.where(rows < 0, -1, self._ids_by_row[rows])
        if isinstance(self.ids, slice):
            own = rows + self.ids.start
        else:
            own = self.ids[np.where(rows < self.owned, rows, 0)] if self.owned else rows
        mirrored = np.maximum(rows - self.owned, 0)
        other = self.mirror_ids[mirrored] if self.mirrors else rows
        return np.where(rows < 0, -1, np.where(rows < self.owned, own, other))

    def of_global(self, values: HostArray) -> tuple[slice | HostArray, HostArray]:
        """Return the part's rows, mirrors too, and their values in an array by global ids."""
        own = values[self.ids]
        found = np.concatenate([own, values[self.mirror_ids]]) if self.mirrors else own
        if self.mirrors_at is None:
            return slice(self.owned + self.mirrors), found
        first = np.arange(self.owned) if self.own_at is None else self.own_at
        return np.concatenate([first, self.mirrors_at]), found


def _picked(values: HostArray | None, at: HostArray) -> HostArray:
    """Return the values at positions, or the positions; -1 stays."""
    if values is None or not values.size:
        return at
    return np.where(at < 0, -1, values[at])


def positions(ascending: HostArray, ids: HostArray) -> HostArray:
    """Return the position of each id in an ascending array; -1 where it is missing."""
    if not ascending.size:
        return np.full(ids.shape, -1)
    same = ids.astype(ascending.dtype, copy=False)  # of two types NumPy would convert the larger
    at = np.minimum(np.searchsorted(ascending, same), ascending.size - 1)
    return np.where(ascending[at] == ids, at, -1)


@dataclass
class ChangedEdges:
    """The global ids of a part's edges after batches of changes, by which these lie in no order.

    Attributes
    ----------
    ids : array of int64
        Of each row, own or copy; -1 for deleted rows.  There may be further elements.
    own : array of bool
        Whether the row is the part's own.
    reverse : array of int64
        The global id of the reverse of own edges of a graph that is not directed.
    """

    ids: HostArray
    own: HostArray
    reverse: HostArray

    @classmethod
    def of(cls, part: Part) -> ChangedEdges:
        """Return the ids of edges in order."""
        rows = len(part.graph.edges)
        ids = part.share("edges").global_ids(np.arange(rows))
        own = np.arange(rows) < part.share("edges").owned
        return cls(ids.astype(np.int64), own, np.full(rows, -1))

    def share(self, part: Part) -> Share:
        """Find the own edges in order of ids, and the copies in order of owners."""
        own, copies = (np.flatnonzero((self.ids >= 0) & (self.own == x)) for x in (True, False))
        own = own[np.argsort(self.ids[own])]
        points, parts = part.share("points"), part.mirrors_of.size - 1
        src = to_host(part.graph.edges.src.array)
        owner = points.owners(src[copies], parts)
        order = np.lexsort((self.ids[copies], owner))
        copies, owner = copies[order], owner[order]
        bounds = np.searchsorted(owner, np.arange(parts + 1))
        return Share(self.ids[own], int(own.size), self.ids[copies], bounds, own, copies)

    def cover(self, rows: int) -> None:
        """Extend the arrays to at least this number of rows."""
        more = rows - self.ids.size
        if more > 0:
            more += self.ids.size // 4
            none = np.full(more, -1)
            ids, own = np.append(self.ids, none), np.append(self.own, np.zeros(more, np.bool_))
            reverse = np.append(self.reverse, none)
            self.ids, self.own, self.reverse = ids, own, reverse  # no signal handler runs between


@dataclass
class Part:
    """One part: its graph, and which rows of its points and edges are its own.

    Attributes
    ----------
    graph : Graph
    shares : dict of str to Share
        By ``"points"`` and ``"edges"``; the latter is made when asked for after a batch of changes.
    changed : ChangedEdges or None
        The names of the edges, if a batch has changed the graph.
    """

    graph: Graph
    shares: dict[str, Share] = field(default_factory=dict)
    changed: ChangedEdges | None = None

    def share(self, name: str) -> Share:
        """Return the rows of the points or edges."""
        if name not in self.shares:
            assert self.changed is not None
            self.shares[name] = self.changed.share(self)
        return self.shares[name]

    @property
    def device(self) -> Device:
        """The part's device."""
        return self.graph.device

    @property
    def owned(self) -> int:
        """Number of its own points."""
        return self.shares["points"].owned

    @property
    def mirrors_of(self) -> HostArray:
        """Point mirrors ``mirrors_of[j]`` to ``mirrors_of[j + 1]`` are copies of part j's."""
        return self.shares["points"].mirrors_of


@dataclass(frozen=True)
class Placement:
    """Which part owns each point; arrays of the device on which parts are made.

    Attributes
    ----------
    owner : array of int16, shape (n,)
    ids : list of slice or array of int64
        Global ids of the points of each part, ascending.
    """

    owner: Array
    ids: list[Any]

    @staticmethod
    def of_ranges(device: Device, bounds: list[int]) -> Placement:
        """Place points ``bounds[k]`` to ``bounds[k + 1]`` on part k."""
        xp, n = device.xp, bounds[-1]
        with device.active():
            owner = xp.empty(n, np.int16)
            ids = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
            for k, own in enumerate(ids):
                owner[own] = k
        return Placement(owner, ids)

    @staticmethod
    def of_owners(device: Device, owner: Array, parts: int) -> Placement:
        """Place each point on the part that ``owner`` names."""
        xp = device.xp
        with device.active():
            owner = device.asarray(owner).astype(np.int16)
            return Placement(owner, [xp.flatnonzero(owner == k) for k in range(parts)])

    @property
    def contiguous(self) -> bool:
        """Whether each part owns a range of global ids."""
        return isinstance(self.ids[0], slice)


@dataclass(frozen=True)
class Arcs:
    """Edges that a part gets, with the global ids of their ends.

    Attributes
    ----------
    ids : slice or array of int
        Global ids of the edges.
    src : array of int or None
        None: the sources follow from ``degree``.
    dst : array of int
    columns : dict of str to array
        Their other columns.
    degree : array of int or None
        Edges from each of the part's own points, if all are sorted by source.
    temporary : bool
        The arrays may be overwritten.
    """

    ids: Any
    src: Array
    dst: Array
    columns: dict[str, Array]
    degree: Array | None = None
    temporary: bool = False


@dataclass
class Maker:
    """Makes parts.

    Attributes
    ----------
    at : Device
        Where the arrays lie that parts are made of.
    place : Placement
    like : Graph
        A graph whose tables have the columns of the parts'.
    points : dict of str to array
        The columns of points, by global id; others take their fills.
    """

    at: Device
    place: Placement
    like: Graph
    points: dict[str, Array]

    def part(self, k: int, own: Arcs, copies: Arcs | None, where: Device) -> Part:
        """Make part k, which has all edges ``own`` from its points, and ``copies`` of others."""
        at, xp = self.at, self.at.xp
        with at.active():
            points, mirrors = self._points_of(k, own, copies)
            total = points.owned + points.mirrors
            if total > ID_LIMIT:
                raise ValueError(f"part {k} would have {total} points: at most 2^31 - 1 go")
            row = xp.empty(self.place.owner.size, np.int32)  # local ids by global ids
            row[self.place.ids[k]] = xp.arange(points.owned, dtype=np.int32)
            row[mirrors] = xp.arange(points.owned, total, dtype=np.int32)
            edges, copies = self._edges_of(own, copies, row)
            offsets = self._offsets(own, points, copies, row)
            groups = (own,) if copies is None else (own, copies)
            reused = own.temporary and copies is None and where == at
            src, dst = (
                None if first is None
                else _renumbered(at, row, first) if reused
                else _joined(where, at, row, [first, *more])
                for first, *more in ([x.src for x in groups], [x.dst for x in groups])
            )  # fmt: skip
            del row
        g = self._graph(where, total, offsets, src, dst)
        own_ids = self.place.ids[k]
        for name, column in self.like.points.columns.items():
            add_like(g.points, column)
            if name in self.points:
                values = self.points[name]
                with at.active():
                    _write(g.points, name, [values[own_ids], values[mirrors]])
        g.points.add(GLOBAL_ID, np.int32)
        with at.active():
            first = xp.arange(own_ids.start, own_ids.stop) if points.is_range else own_ids
            _write(g.points, GLOBAL_ID, [first, mirrors])
        for name, column in self.like.edges.columns.items():
            if name not in ("src", "dst"):
                add_like(g.edges, column)
            if name in own.columns:
                _write(g.edges, name, [x.columns[name] for x in groups])
        for name in DIVIDED:
            if packs := self.like.tables[name].packs:
                g.tables[name].pack(*packs)
        if offsets is None:
            g.sort_edges(self.like._adjacency.sorted_by)
        return Part(g, {"points": points, "edges": edges})

    def _points_of(self, k: int, own: Arcs, copies: Arcs | None) -> tuple[Share, Array]:
        """Find the points of part k: its share, and the global ids of the mirrors."""
        at, place, xp = self.at, self.place, self.at.xp
        is_mirror = xp.zeros(place.owner.size, np.bool_)
        for start in range(0, own.dst.size, at.bulk):
            ends = own.dst[start : start + at.bulk]
            if not at.on_host:  # random loads are faster than stores, and most ends are repeated
                ends = ends[~is_mirror[ends]]
            is_mirror[ends] = True
        if copies is not None:
            is_mirror[copies.src] = True
        is_mirror[place.ids[k]] = False
        mirrors = xp.flatnonzero(is_mirror)
        owner = place.owner[mirrors]
        if not place.contiguous:
            order = xp.argsort(owner, kind="stable")
            mirrors, owner = mirrors[order], owner[order]
        bounds = xp.searchsorted(owner, xp.arange(len(place.ids) + 1, dtype=owner.dtype))
        ids = place.ids[k]
        owned = ids.stop - ids.start if isinstance(ids, slice) else ids.size
        arrays = map(at.to_host, (mirrors.astype(np.int32), bounds))
        return Share(_on_host(at, ids), int(owned), *arrays), mirrors

    def _edges_of(self, own: Arcs, copies: Arcs | None, row: Array) -> tuple[Share, Arcs | None]:
        """Find the edges of a part: its share, and the copies, sorted by source."""
        at, xp, parts = self.at, self.at.xp, len(self.place.ids)
        owned = int(own.dst.size)
        if copies is None:
            none, bounds = np.zeros(0, np.int32), np.zeros(parts + 1, np.int64)
            return Share(_on_host(at, own.ids), owned, none, bounds), None
        order = xp.argsort(row[copies.src], kind="stable")
        columns = {name: a[order] for name, a in copies.columns.items()}
        copies = Arcs(copies.ids[order], copies.src[order], copies.dst[order], columns)
        owner = self.place.owner[copies.src]
        bounds = at.to_host(xp.searchsorted(owner, xp.arange(parts + 1, dtype=owner.dtype)))
        return Share(_on_host(at, own.ids), owned, at.to_host(copies.ids), bounds), copies

    def _offsets(self, own: Arcs, points: Share, copies: Arcs | None, row: Array) -> Array | None:
        """Return the out-index of a part's edges, if they lie in its order."""
        if own.degree is None:
            return None
        xp, owned = self.at.xp, points.owned
        offsets = xp.zeros(owned + points.mirrors + 1, np.int64)
        offsets[1 : owned + 1] = own.degree
        if copies is not None:
            offsets[1:] += count_keys(xp, row[copies.src], offsets.size - 1)
        return xp.cumsum(offsets, out=offsets)

    def _graph(self, where: Device, n: int, offsets: Array | None, src: Array, dst: Array) -> Graph:
        """Make the graph of a part, without columns but the ends of edges."""
        if offsets is not None:
            rows = Rows(where.asarray(offsets), src, dst, None)
            return Graph._of_rows(where, rows, self.like.directed)
        g = Graph(where, self.like.directed)
        g.points.extend(n)
        g.edges.adopt(dst.size, {"src": src, "dst": dst})
        return g


def _on_host(at: Device, ids: Any) -> Any:
    return ids if isinstance(ids, slice) else at.to_host(ids)


def _renumbered(at: Device, row: Array, ids: Array) -> Array:
    """Replace global ids by local ids."""
    part = IDS_AT_ONCE if at.on_host else at.bulk
    for start in range(0, ids.size, part):
        piece = ids[start : start + part]
        piece[:] = row[piece]
    return ids


def _joined(where: Device, at: Device, row: Array, ends: list[Array]) -> Array:
    """Return the local ids of several arrays of global ids, one after the other, on a device."""
    made = empty(where, sum(int(a.size) for a in ends), np.int32)
    first = 0
    for ids in ends:
        piece = made[first : first + ids.size]
        if at.on_host and where.on_host:
            for k in range(0, ids.size, IDS_AT_ONCE):
                np.take(row, ids[k : k + IDS_AT_ONCE], out=piece[k : k + IDS_AT_ONCE], mode="clip")
        else:
            local = row[ids]
            with where.active():
                piece[:] = where.asarray(local)
        first += ids.size
    return made


def add_like(table: Table, column: Column) -> None:
    """Add a column like that of another table."""
    dtype = (column.dtype, column.size) if column.size else column.dtype
    table.add(column.name, dtype, -1 if column.ref in DIVIDED else column.fill)
    table.columns[column.name].ref = column.ref


def _write(table: Table, name: str, pieces: list[Array]) -> None:
    """Write the values of a column, which lie on any device."""
    array, first = table.columns[name].array, 0
    with table.device.active():
        for a in pieces:
            array[first : first + len(a)] = table.device.asarray(a)
            first += len(a)
