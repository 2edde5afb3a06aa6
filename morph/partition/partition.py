"""`partition`: which part owns which points, and the parts made."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from morph.compiler.ir.layout import GLOBAL_ID
from morph.graph import Graph
from morph.language.messages import shown
from morph.partition.columns import refuse_divided
from morph.partition.graph import PartitionedGraph
from morph.partition.parts import (
    DIVIDED,
    POINT_COST,
    Arcs,
    HostArray,
    Maker,
    Part,
    Placement,
)
from morph.partition.ranks import Ranks
from morph.partition.speed import speed
from morph.partition.transport import Local, Transport, agree, on_all
from morph.partition.views import refuse_name
from morph.runtime.arrays import all_true
from morph.runtime.device import Array, Device, device_for

BY = ("range", "degree", "hilbert")
MAX_PARTS = 1 << 10  # of a graph; `layout.MOST_PARTS` is the limit of one launch of a program
MEASURED = "measured"
BITS = 16  # of each coordinate along the Hilbert curve


def partition(
    g: Graph,
    devices: Sequence[str | Device] | str | Device | None = None,
    by: Any = "range",
    shares: Sequence[float] | str | None = None,
    comm: Any = None,
) -> PartitionedGraph:
    """Divide a graph into parts, one on each device.

    Parameters
    ----------
    g : Graph
        Without deleted rows.  It is copied.
    devices : sequence of str or Device
        One for each part; a device may have several.  Of ranks, one may stand for all; by default
        the graph's.
    by : {"range", "degree", "hilbert"} or array of int, shape (n,)
        Ranges of equally many points; ranges of equal work: a point counts as four out-edges;
        sections of the Hilbert curve through the points' columns ``x`` and ``y``, of equal size
        as those by degree; or the part of each point.
    shares : sequence of float or "measured", optional
        The share of each part, by default all equal; or in proportion to the speeds of the devices,
        which each process measures once, in up to some seconds.
    comm : mpi4py.MPI.Comm, optional
        Part k lies on rank k, and each rank makes its own part of the same graph.  From now on all
        ranks make the same calls in the same order, and an uncaught exception on one ends all.

    Returns
    -------
    PartitionedGraph

    Raises
    ------
    TypeError, ValueError
        Before any part is made; also if the graphs of the ranks differ.
    """
    ranks = None if comm is None else Ranks(comm)

    def checked() -> list[Device]:
        where = devices_of(ranks, device_for(None, g) if ranks and devices is None else devices)
        _check_graph(g)
        return where

    if ranks is None:
        where = checked()
        return divided(g, where, placement(g, by, fractions_of(shares, where, Local(where))))
    where = on_all(ranks, checked)
    fractions = on_all(ranks, lambda: fractions_of(shares, where, ranks))
    place = on_all(ranks, lambda: placement(g, by, fractions))
    agree(ranks, "the graph", _checksum(g, place))
    return on_all(ranks, lambda: divided(g, where, place, ranks))


def _checksum(g: Graph, place: Placement) -> int:
    """A number that differs, most probably, if graphs, columns or owners do."""
    tables = g.points, g.edges
    columns = [(t.name, c.name, c.array[: len(t)]) for t in tables for c in t.columns.values()]
    labels = None if g.labels is None else list(map(_comparable, g.labels))
    found = zlib.crc32(repr((g.directed, [x[:2] for x in columns], labels)).encode())
    for a in (place.owner, *(x[2] for x in columns)):
        host: Any = np.ascontiguousarray(g.device.to_host(a))
        found = zlib.crc32(host.view(np.uint8), found)
    return found


def _comparable(label: Any) -> Any:
    """Return a label, with types in place of objects whose `repr` may differ between processes."""
    if isinstance(label, tuple):
        return tuple(map(_comparable, label))
    return label if isinstance(label, str | bytes | Number | np.datetime64) else type(label)


def placement(g: Graph, by: Any, fractions: HostArray) -> Placement:
    """Choose the part of each point, on the graph's device."""
    n, parts = len(g.points), fractions.size
    if not isinstance(by, str):
        return Placement.of_owners(g.device, _checked_owners(g, by, parts), parts)
    if by not in BY:
        raise ValueError(f"by is one of {', '.join(map(repr, BY))} or an array, not {shown(by)}")
    xp = g.device.xp
    if by == "range":
        return Placement.of_ranges(g.device, bounds_by_range(n, fractions))
    with g.device.active():
        degree = g.degree()
        if by == "degree":
            return Placement.of_ranges(g.device, bounds_by_degree(g.device, degree, fractions))
        order = xp.argsort(_hilbert(g), kind="stable")
        bounds = bounds_by_degree(g.device, degree[order], fractions)
        owner = xp.empty(n, np.int16)
        for k, (a, b) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            owner[order[a:b]] = k
        return Placement.of_owners(g.device, owner, parts)


def divided(
    g: Graph, where: list[Device], place: Placement, transport: Transport | None = None
) -> PartitionedGraph:
    """Make the parts of a graph, of which this process makes its own."""
    at, xp, n = g.device, g.device.xp, len(g.points)
    edges = {name: c.array[: len(g.edges)] for name, c in g.edges.columns.items()}
    points = {name: c.array[:n] for name, c in g.points.columns.items() if c.ref not in DIVIDED}
    src, dst = edges.pop("src"), edges.pop("dst")
    extra = {name: a for name, a in edges.items() if g.edges.columns[name].ref not in DIVIDED}
    with at.active():
        in_order = g.out_identity and not g.gapped
        degree = g.degree() if in_order else None
        ids = _edges_by_part(g, place, src)
        ends = (place.owner[src], place.owner[dst]) if g.directed and len(where) > 1 else None

    def arcs(ids: Any, degree: Array | None = None) -> Arcs:
        columns = {name: a[ids] for name, a in extra.items()}
        return Arcs(ids, src[ids], dst[ids], columns, degree)

    maker = Maker(at, place, g, points)
    parts: list[Part | None] = [None] * len(where)
    for k in range(len(where)) if transport is None else transport.here:
        copies = None
        with at.active():
            if ends is not None:
                copies = arcs(xp.flatnonzero((ends[1] == k) & (ends[0] != k)))
            own = arcs(ids[k], None if degree is None else degree[place.ids[k]])
            parts[k] = maker.part(k, own, copies, where[k])
    made = PartitionedGraph(parts, where, (n, len(g.edges)), g.directed, transport)
    made.follow_labels(g)
    _copy_references(g, made)
    for name, table in g.tables.items():
        if name not in DIVIDED:
            _replicate(made, name, table)
    return made


def _edges_by_part(g: Graph, place: Placement, src: Array) -> list[Any]:
    """Return the ids of the edges that each part owns."""
    if place.contiguous and g.out_identity and not g.gapped:
        offsets = g.device.to_host(g.adjacency()[0])
        return [slice(int(offsets[p.start]), int(offsets[p.stop])) for p in place.ids]
    owner = place.owner[src]
    return [g.device.xp.flatnonzero(owner == k) for k in range(len(place.ids))]


def _copy_references(g: Graph, parts: PartitionedGraph) -> None:
    """Write the references to points and edges, which become local ids."""
    for name in DIVIDED:
        for column in g.tables[name].columns.values():
            if column.ref in DIVIDED and column.name not in ("src", "dst"):
                parts.tables[name]._write(
                    column.name, slice(None), getattr(g.tables[name], column.name)[:]
                )


def _replicate(parts: PartitionedGraph, name: str, table: Any) -> None:
    """Copy a table to every part."""
    made = parts.add_table(name)
    for k in parts.here:
        copy = made.local(k)
        copy._take_columns(table)
        copy._take_rows(table)


def devices_of(ranks: Ranks | None, devices: Any) -> list[Device]:
    """Return the device of each part; of ranks, one may stand for all."""
    if ranks is not None and isinstance(devices, str | Device):
        devices = [devices] * ranks.size
    where = _checked_devices(devices)
    if ranks is not None and len(where) != ranks.size:
        raise ValueError(f"there are {ranks.size} ranks, but devices for {len(where)}")
    return where


def _checked_devices(devices: Sequence[str | Device] | None) -> list[Device]:
    if isinstance(devices, str | Device) or not isinstance(devices, Sequence):
        raise TypeError(f"devices is a list with a device for each part, not {shown(devices)}")
    if not 0 < len(devices) <= MAX_PARTS:
        raise ValueError(f"a graph has 1 to {MAX_PARTS} parts, not {len(devices)}")
    return [device_for(d) for d in devices]


def _check_graph(g: Graph) -> None:
    """Refuse graphs that cannot be divided."""
    if not isinstance(g, Graph):
        raise TypeError(f"partition takes a Graph, not {shown(g)}")
    g.require_reverses()
    for table in (g.points, g.edges):
        if table.live < len(table):
            raise ValueError(f"{table.name} of the graph are deleted: compact() it first")
    if GLOBAL_ID in g.points.columns:
        raise ValueError(f"points have a column {GLOBAL_ID!r}, which parts use: rename it")
    for name, table in g.tables.items():
        for column in table.columns.values():
            refuse_name(name, column.name)
            if name not in DIVIDED:
                refuse_divided(name, column.name, column.ref)


def fractions_of(
    shares: Sequence[float] | str | None, where: list[Device], transport: Transport
) -> HostArray:
    """Return each part's share of the whole, shape (parts,); measure it if requested."""
    if isinstance(shares, str):
        if shares != MEASURED:
            raise ValueError(f"shares are {MEASURED!r} or numbers, not {shown(shares)}")
        own = [where[k] for k in transport.here]
        speeds = on_all(transport, lambda: [speed(d) / own.count(d) for d in own])
        shares = transport.gather(dict(zip(transport.here, speeds, strict=True)))
    return checked_shares(shares, len(where))


def checked_shares(shares: Sequence[float] | None, parts: int) -> HostArray:
    """Return each part's share of the whole, shape (parts,)."""
    try:
        a = np.asarray([1.0] * parts if shares is None else shares, np.float64)
    except (TypeError, ValueError):
        a = np.empty(0)
    if a.shape != (parts,) or not bool((a >= 0).all() and 0 < a.sum() < np.inf):
        raise ValueError(f"shares are {parts} numbers, none below 0, not {shown(shares)}")
    fractions: HostArray = a / a.sum()
    return fractions


def _checked_owners(g: Graph, by: Any, parts: int) -> Array:
    """Check the part of each point."""
    owner, n = g.device.asarray(by), len(g.points)
    if owner.shape != (n,) or owner.dtype.kind not in "iu":
        raise ValueError(
            f"by is an array of {n} integers, one for each point, not {owner.dtype} {owner.shape}"
        )
    with g.device.active():
        bad = g.device.xp.flatnonzero((owner < 0) | (owner >= parts))
        if bad.size:
            at = int(bad[0])
            raise ValueError(f"by[{at}] = {int(owner[at])}: parts are numbered 0 to {parts - 1}")
    return owner


def bounds_by_range(n: int, fractions: HostArray) -> list[int]:
    """Divide ``n`` points into ranges, so that each has its share of them."""
    return [0, *np.rint(fractions.cumsum() * n).astype(np.int64).tolist()]


def bounds_by_degree(where: Device, degree: Array, fractions: HostArray) -> list[int]:
    """Divide a sequence of points, so that each range has its share of the work."""
    total = where.xp.cumsum(degree + POINT_COST)
    if not total.size:
        return [0] * (fractions.size + 1)
    targets = where.asarray(np.rint(fractions.cumsum() * int(total[-1])))
    inner = where.to_host(where.xp.searchsorted(total, targets[:-1], side="right")).tolist()
    return [0, *inner, int(total.size)]


def _hilbert(g: Graph) -> Array:
    """Return each point's position along a Hilbert curve through columns ``x`` and ``y``."""
    columns, xp = g.points.columns, g.device.xp
    if not {"x", "y"} <= columns.keys():
        raise ValueError("by='hilbert' needs columns x and y of points")
    x, y = (_coordinate(xp, columns[c].array[: len(g.points)], c) for c in "xy")
    position = xp.zeros(x.size, np.int64)
    for bit in range(BITS - 1, -1, -1):
        right, upper = (x >> bit) & 1, (y >> bit) & 1
        position = position << 2 | (3 * right) ^ upper
        mirrored = (upper == 0) & (right == 1)
        low = (1 << bit) - 1
        x, y = (
            xp.where(mirrored, low - (x & low), x & low),
            xp.where(mirrored, low - (y & low), y & low),
        )
        x, y = xp.where(upper == 0, y, x), xp.where(upper == 0, x, y)
    return position


def _coordinate(xp: Any, values: Array, name: str) -> Array:
    """Scale coordinates to integers of `BITS` bits."""
    if values.ndim != 1 or not all_true(xp.isfinite(values)):
        raise ValueError(f"by='hilbert' needs finite numbers in column {name} of points")
    a = values.astype(np.float64)
    low, high = (float(a.min()), float(a.max())) if a.size else (0.0, 0.0)
    scale = ((1 << BITS) - 1) / (high - low) if high > low else 0.0
    return ((a - low) * scale).astype(np.int64)
