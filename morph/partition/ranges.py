"""Partitioned graphs whose parts own ranges of points and are made where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from morph.graph import Graph
from morph.graph.adjacency import count_keys
from morph.graph.arrange import Rows, arrange, require_memory, sources_from
from morph.language.messages import shown
from morph.partition.graph import PartitionedGraph, each_part
from morph.partition.partition import (
    bounds_by_degree,
    bounds_by_range,
    checked_shares,
    devices_of,
    fractions_of,
)
from morph.partition.parts import Arcs, HostArray, Maker, Part, Placement
from morph.partition.ranks import Ranks
from morph.partition.transport import Local, Transport
from morph.runtime.arrays import to_host
from morph.runtime.device import Device, device, device_for

EdgesOf = Callable[[Device, range, int], Rows]


class Division(NamedTuple):
    """Which points each part owns.

    Attributes
    ----------
    by_degree : bool
        Ranges of equal work instead of equally many points.
    fractions : array, shape (parts,)
        The share of each part.
    """

    by_degree: bool
    fractions: HostArray


def division(
    where: list[Device], transport: Transport,
    by: str = "range", shares: Sequence[float] | str | None = None,
) -> Division:  # fmt: skip
    """Check options of `partition`, for a graph that is made in parts.

    Raises
    ------
    ValueError
        If ``by`` is not ``"range"`` or ``"degree"``, or ``shares`` are not those of the parts.
    """
    if by not in ("range", "degree"):
        wanted = "by is 'range' or 'degree' for a graph that is made in parts"
        raise ValueError(f"{wanted}, not {shown(by)}")
    return Division(by == "degree", fractions_of(shares, where, transport))


class Ends(NamedTuple):
    """Edges: the global ids of their ends, weights, positions in a file; arrays of the host."""

    src: HostArray
    dst: HostArray
    weight: HostArray | None = None
    position: HostArray | None = None

    def map(self, change: Callable[[HostArray], HostArray]) -> Ends:
        """Change all arrays."""
        others = (a if a is None else change(a) for a in self[2:])
        return Ends(change(self.src), change(self.dst), *others)


def places(devices: Any, comm: Any) -> tuple[list[Device], Transport]:
    """Return the device of each part, and how the parts exchange arrays.

    Parameters
    ----------
    devices : str, Device, or sequence of these, or None
        One stands for the device of all ranks.
    comm : mpi4py.MPI.Comm or None
        The ranks of the parts; None: all parts lie in this process.

    Raises
    ------
    TypeError, ValueError
        If there is no such device, or the ranks have another number.
    """
    ranks = None if comm is None else Ranks(comm)
    where = devices_of(ranks, device_for(None) if devices is None else devices)
    return where, Local(where) if ranks is None else ranks


def partitioned(
    where: list[Device], n: int, edges_of: EdgesOf, directed: bool, transport: Transport,
    bounds: list[int] | None = None,
) -> PartitionedGraph:  # fmt: skip
    """Make a graph whose parts own ranges of points, of the edges that each part makes.

    It equals ``partition`` of the whole graph with the same ranges.

    Parameters
    ----------
    where : list of Device
        One for each part.
    n : int
        Points of the graph.
    edges_of : function (Device, range, int) -> Rows
        Gives the edges from the points of a part, whose number it is given, sorted by source:
        offsets of these points, targets by global ids, perhaps also the sources.  Parts on
        different GPUs call it at the same time.
    directed : bool
        If not, the reverse of each edge is among the edges of some part.
    transport : Transport
    bounds : list of int, optional
        Part k owns the points from ``bounds[k]`` to ``bounds[k + 1]``; by default all parts have
        equally many.
    """
    if bounds is None:
        bounds = bounds_by_range(n, checked_shares(None, len(where)))
    places = {at: Placement.of_ranges(at, bounds) for at in {where[k] for k in transport.here}}
    rows: dict[int, Rows] = {}
    parts: list[Part | None] = [None] * len(where)

    def make_rows(k: int) -> None:
        rows[k] = own = edges_of(where[k], range(bounds[k], bounds[k + 1]), k)
        if directed and len(where) > 1 and own.src is None:
            own.src = sources_from(where[k], own.offsets, own.dst.size, bounds[k])

    each_part(where, transport, make_rows)
    first = [0, *accumulate(transport.gather({k: int(r.dst.size) for k, r in rows.items()}))]
    edge_ids = [slice(a, b) for a, b in pairwise(first)]
    copies: dict[int, Arcs] = {}
    if directed and len(where) > 1:
        copies = _copies(where, places, rows, first, transport)

    def make_part(k: int) -> None:
        own, at = rows.pop(k), where[k]
        like, columns = Graph("cpu", directed), own.columns()
        src, dst = columns.pop("src", None), columns.pop("dst")
        for name, a in columns.items():
            like.edges.add(name, a.dtype)
        with at.active():
            degree = own.offsets[1:] - own.offsets[:-1]
        del own
        arcs = Arcs(edge_ids[k], src, dst, columns, degree, temporary=True)
        parts[k] = Maker(at, places[at], like, {}).part(k, arcs, copies.get(k), at)

    each_part(where, transport, make_part)
    return PartitionedGraph(parts, where, (n, first[-1]), directed, transport)


def partitioned_edges(
    where: list[Device], n: int, edges: Mapping[int, Ends], both: bool, directed: bool,
    transport: Transport, division: Division,
) -> PartitionedGraph:  # fmt: skip
    """Make a partitioned graph of edges that lie on any parts.

    It equals ``partition`` of the graph that ``Graph.from_edges`` makes of all edges, in order of
    the parts, and has a column ``position`` of edges if these are given.

    Parameters
    ----------
    where : list of Device
        One for each part.
    n : int
        Points of the graph.
    edges : dict of int to Ends
        Any edges, for each part of this process, with valid ends.
    both : bool
        Add the reverse of each edge but loops.
    directed : bool
        If not, each edge has its reverse, with those that ``both`` adds.
    """
    fractions = division.fractions
    if division.by_degree:
        bounds = bounds_by_degree(device("cpu"), _degrees(n, edges, both, transport), fractions)
    else:
        bounds = bounds_by_range(n, fractions)
    found = dict(zip(transport.here, _to_owners(edges, bounds, both, transport), strict=True))
    positions = {}

    def edges_of(at: Device, own: range, k: int) -> Rows:
        src, dst, weight, position = found.pop(k)
        dtype = None if weight is None else weight.dtype
        require_memory(at, len(own), src.size, dtype, arranged=False)
        with at.active():
            src, dst = at.asarray(src) - own.start, at.asarray(dst)
            weight = None if weight is None else at.asarray(weight)
            rows = arrange(at, src, dst, weight, len(own), both=False)
            if position is not None:
                positions[k] = at.asarray(position)[rows.order]
        return Rows(rows.offsets, None, rows.dst, rows.weight)

    made = partitioned(where, n, edges_of, directed, transport, bounds)
    if positions:
        made.edges.add("position", np.int64)
        for k, own in positions.items():
            at, column = where[k], made.local(k).edges.columns["position"]
            with at.active():
                column.array[: own.size] = own
    return made


def _degrees(n: int, edges: Mapping[int, Ends], both: bool, transport: Transport) -> HostArray:
    """Count the edges from each point; each part sums the counts of a range of points."""
    ranges = [slice(n * k // transport.size, n * (k + 1) // transport.size)
              for k in range(transport.size)]  # fmt: skip
    sent = {}
    for k, (src, dst, *_) in edges.items():
        counts = count_keys(np, src, n)
        if both:
            counts += count_keys(np, dst, n, unlike=src)
        sent[k] = [[counts[own]] for own in ranges]
    received = transport.exchange(sent)
    sums = {k: sum(to_host(a) for (a,) in pieces) for k, pieces in received.items()}
    degrees: HostArray = np.concatenate(transport.gather(sums))
    return degrees


def _to_owners(
    edges: Mapping[int, Ends], bounds: list[int], both: bool, transport: Transport
) -> list[Ends]:
    """Send edges to the owners of their sources; gives those of each part of this process.

    The edges come first, in order of the parts that had them, then the reverse ones.
    """
    first = next(iter(edges.values()))
    names = [name for name, a in zip(Ends._fields, first, strict=True) if a is not None]
    sent = {}
    for k, own in edges.items():
        groups = [own, _reverse(own)] if both else [own]
        sent[k] = [[a for x in groups for a in _between(x, *ends)] for ends in pairwise(bounds)]
    found = []
    for received in transport.exchange(sent).values():
        columns = [[to_host(a) for a in pieces] for pieces in zip(*received, strict=True)]
        if both:
            half = len(columns) // 2
            columns = [a + b for a, b in zip(columns[:half], columns[half:], strict=True)]
        arrays = map(np.concatenate, columns)
        found.append(Ends(**dict(zip(names, arrays, strict=True))))
    return found


def are_symmetric(n: int, edges: Mapping[int, Ends], transport: Transport) -> bool:
    """Whether all edges are there both ways, with equal weights.

    ``edges`` has any of them for each part of this process.
    """
    bounds = bounds_by_range(n, checked_shares(None, transport.size))
    turned = {k: x._replace(src=x.dst, dst=x.src) for k, x in edges.items()}
    found = [_to_owners(x, bounds, False, transport) for x in (edges, turned)]
    same = map(_are_same, *found)
    return all(transport.gather(dict(zip(transport.here, same, strict=True))))


def _are_same(a: Ends, b: Ends) -> bool:
    """Whether two lists have the same edges, in any order."""
    if a.src.size != b.src.size:
        return False
    orders = [np.lexsort([y for y in (x.weight, x.dst, x.src) if y is not None]) for x in (a, b)]
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    return all(np.array_equal(x[orders[0]], y[orders[1]]) for x, y in pairs)


def _reverse(edges: Ends) -> Ends:
    """Return the reverse of each edge but loops."""
    kept = np.flatnonzero(edges.src != edges.dst)
    turned = edges._replace(src=edges.dst, dst=edges.src)
    return turned.map(lambda a: a[kept])


def _between(edges: Ends, start: int, stop: int) -> list[HostArray]:
    """Return the edges from a range of points."""
    chosen = np.flatnonzero((edges.src >= start) & (edges.src < stop))
    return [a[chosen] for a in edges if a is not None]


def _copies(
    where: list[Device], places: Mapping[Device, Placement], rows: Mapping[int, Rows],
    first: list[int], transport: Transport,
) -> dict[int, Arcs]:  # fmt: skip
    """Send each part the edges of others that lead to its points."""
    sent = {}
    for k, own in rows.items():
        at, columns = where[k], own.columns()
        with at.active():
            owner = places[at].owner[own.dst]
            chosen = [at.xp.flatnonzero((owner == j) & (j != k)) for j in range(len(where))]
            sent[k] = [[ids + first[k], *(a[ids] for a in columns.values())] for ids in chosen]
    found = {}
    for k, received in transport.exchange(sent).items():
        at, names = where[k], rows[k].columns()
        with at.active():
            ids, src, dst, *rest = (
                at.xp.concatenate([at.asarray(a) for a in pieces])
                for pieces in zip(*received, strict=True)
            )
        found[k] = Arcs(ids, src, dst, dict(zip(list(names)[2:], rest, strict=True)))
    return found
