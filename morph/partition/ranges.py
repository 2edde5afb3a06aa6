"""Partitioned graphs whose parts own ranges of points and are made where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.graph.arrange import Rows
from morph.partition.graph import PartitionedGraph
from morph.partition.partition import _checked_devices
from morph.partition.parts import Arcs, Maker, Part, Placement
from morph.partition.transport import Local, Transport
from morph.runtime.device import Device

EdgesOf = Callable[[Device, range], Rows]


def partitioned(
    devices: Any, n: int, edges_of: EdgesOf, directed: bool, transport: Transport | None = None
) -> PartitionedGraph:
    """Make a graph whose parts have equally many points, of the edges that each part makes.

    It equals ``partition`` of the whole graph by ``"range"``.

    Parameters
    ----------
    devices : sequence of str or Device
        One for each part.
    n : int
        Points of the graph.
    edges_of : function (Device, range) -> Rows
        Gives the edges from a range of points, sorted by source: offsets of the points of the
        range, sources and targets by global ids.
    directed : bool
        If not, the reverse of each edge is among the edges of some part.
    transport : Transport, optional
        By default all parts lie in this process.
    """
    where = _checked_devices(devices)
    transport = Local(where) if transport is None else transport
    bounds = [0, *np.rint(np.full(len(where), 1 / len(where)).cumsum() * n).astype(int).tolist()]
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
