"""Partitioned graphs whose parts own ranges of points and are made where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from morph.graph import Graph
from morph.graph.adjacency import count_keys
from morph.graph.arrange import Rows, arrange, require_memory
from morph.language.messages import shown
from morph.partition.graph import PartitionedGraph
from morph.partition.partition import bounds_by_degree, bounds_by_range, checked_shares, devices_of
from morph.partition.parts import Arcs, HostArray, Maker, Part, Placement
from morph.partition.ranks import Ranks
from morph.partition.transport import Local, Transport
from morph.runtime.arrays import to_host
from morph.runtime.device import Device, device

EdgesOf = Callable[[Device, range], Rows]


class Division(NamedTuple):
    """Which points each part owns, see `partition`.

    Attributes
    ----------
    by : {"range", "degree"}
    shares : sequence of float or None
    """

    by: str
    shares: Sequence[float] | None


BY_RANGE = Division("range", None)


class Ends(NamedTuple):
    """Edges: the global ids of their ends, and their weights; arrays of the host."""

    src: HostArray
    dst: HostArray
    weight: HostArray | None


def places(devices: Any, comm: Any) -> tuple[list[Device], Transport]:
    """Give the device of each part, and how the parts exchange arrays.

    Parameters
    ----------
    devices : str, Device, or sequence of these
        One stands for the device of all ranks.
    comm : mpi4py.MPI.Comm or None
        The ranks of the parts; None: all parts lie in this process.

    Raises
    ------
    TypeError, ValueError
        If there is no such device, or the ranks have another number.
    """
    ranks = None if comm is None else Ranks(comm)
    where = devices_of(ranks, devices)
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
    edges_of : function (Device, range) -> Rows
        Gives the edges from a range of points, sorted by source: offsets of the points of the
        range, sources and targets by global ids.
    directed : bool
        If not, the reverse of each edge is among the edges of some part.
    transport : Transport
    bounds : list of int, optional
        Part k owns the points from ``bounds[k]`` to ``bounds[k + 1]``; by default all parts have
        equally many.
    """
    if bounds is None:
        bounds = bounds_by_range(n, checked_shares(None, len(where)))
    places = {at: Placement.of_ranges(at, bounds) for at in {where[k] for k in transport.parts}}
    rows = {k: edges_of(where[k], range(bounds[k], bounds[k + 1])) for k in transport.parts}
    first = [0, *accumulate(transport.gather({k: int(r.src.size) for k, r in rows.items()}))]
    edge_ids = [slice(a, b) for a, b in pairwise(first)]
    copies: dict[int, Arcs] = {}
    if directed and len(where) > 1:
        copies = _copies(where, places, rows, first, transport)
    parts: list[Part | None] = [None] * len(where)
    for k in transport.parts:
        own, at = rows.pop(k), where[k]
        like, columns = Graph("cpu", directed), own.columns()
        src, dst = columns.pop("src"), columns.pop("dst")
        for name, a in columns.items():
            like.edges.add(name, a.dtype)
        degree = at.zeros(n, np.int64)
        degree[bounds[k] : bounds[k + 1]] = own.offsets[1:] - own.offsets[:-1]
        maker = Maker(at, places[at], degree, like, {})
        parts[k] = maker.part(k, Arcs(edge_ids[k], src, dst, columns), copies.get(k), at)
    return PartitionedGraph(parts, where, (n, first[-1]), directed, transport)


def partitioned_edges(
    where: list[Device], n: int, edges: Mapping[int, Ends], both: bool, directed: bool,
    transport: Transport, division: Division = BY_RANGE,
) -> PartitionedGraph:  # fmt: skip
    """Make a partitioned graph of edges that lie on any parts.

    It equals ``partition`` of the graph that ``Graph.from_edges`` makes of all edges, in order of
    the parts.

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
    fractions = checked_shares(division.shares, len(where))
    if division.by == "degree":
        bounds = bounds_by_degree(device("cpu"), _degrees(n, edges, both, transport), fractions)
    elif division.by == "range":
        bounds = bounds_by_range(n, fractions)
    else:
        wanted = "by is 'range' or 'degree' for a graph that is made in parts"
        raise ValueError(f"{wanted}, not {shown(division.by)}")
    found = _to_owners(edges, bounds, both, transport)

    def edges_of(at: Device, own: range) -> Rows:
        src, dst, weight = found.pop(0)
        dtype = None if weight is None else weight.dtype
        require_memory(at, len(own), src.size, dtype, arranged=False)
        with at.active():
            src, dst = at.asarray(src) - own.start, at.asarray(dst)
            weight = None if weight is None else at.asarray(weight)
            rows = arrange(at, src, dst, weight, len(own), both=False)
            rows.src += own.start
        return Rows(rows.offsets, rows.src, rows.dst, rows.weight)

    return partitioned(where, n, edges_of, directed, transport, bounds)


def _degrees(n: int, edges: Mapping[int, Ends], both: bool, transport: Transport) -> HostArray:
    """Count the edges from each point; each part sums the counts of a range of points."""
    ranges = [slice(n * k // transport.size, n * (k + 1) // transport.size)
              for k in range(transport.size)]  # fmt: skip
    sent = {}
    for k, (src, dst, _) in edges.items():
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
        arrays = [np.concatenate(pieces) for pieces in columns]
        found.append(Ends(arrays[0], arrays[1], arrays[2] if len(arrays) == 3 else None))
    return found


def _reverse(edges: Ends) -> Ends:
    """Give the reverse of each edge but loops."""
    src, dst, weight = edges
    kept = np.flatnonzero(src != dst)
    return Ends(dst[kept], src[kept], None if weight is None else weight[kept])


def _between(edges: Ends, start: int, stop: int) -> list[HostArray]:
    """Give the edges from a range of points."""
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
