"""Messages from the parts that hold mirrors to the parts that own the rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from morph.data.collection import Collection
from morph.data.table import Table
from morph.language.dtypes import vec
from morph.language.intrinsics import to_dtype
from morph.language.types import Column
from morph.runtime.device import Array

OWN = (-(2**31), 0)  # range of own rows: `mirror` below is negative for them
MASKED_PARTS = 16  # up to so many, the host selects the messages to each part; else it sorts them


def message_box(table: Table, slot: str, columns: Sequence[Column]) -> Collection:
    """Make the collection of one kind of messages to rows of a part's table."""
    types: dict[str, Any] = {}
    for c in columns:
        types[c.name] = vec(to_dtype(c.dtype), c.size) if c.size else to_dtype(c.dtype)
    return Collection(table, name=slot, **types)


def sent_messages(
    graph: Any, k: int, table: str, box: Collection, names: Sequence[str], own: bool
) -> list[list[Array]]:
    """Divide the messages of part k by the owners of their items.

    Parameters
    ----------
    graph : PartitionedGraph
    k : int
    table : str
        The table of the items.
    box : Collection
        Its items are local ids of mirrors, or of own rows.
    names : sequence of str
        The columns beside ``item``.
    own : bool
        Whether some items may be own rows.

    Returns
    -------
    list of list of array
        For each part the items and the columns.  An item is a position among the mirrors of the
        receiver's rows; for part k itself it is the local id.
    """
    share, device = graph.tables[table]._share(k), box.device
    xp, items, parts = device.xp, box.items, len(graph.parts)
    columns = [items, *(getattr(box, name).array for name in names)]
    if not items.size:
        return [columns] * parts
    routes = graph.tables[table]._routes
    with device.active():
        mirror, positions = items - items.dtype.type(share.owned), routes.positions(k)
        if positions is not None and positions.size:
            at = positions[xp.maximum(mirror, 0)].astype(items.dtype)
            mirror = xp.where(mirror < 0, mirror, at) if own else at
        if parts == 2 and not own:  # all messages are for the other part
            # copies, as the box will be overwritten by the messages of the other part
            columns = [mirror, *(a.copy() for a in columns[1:])]
            none = [a[:0] for a in columns]
            return [none, columns] if k == 0 else [columns, none]
        if device.on_host and parts <= MASKED_PARTS:
            cuts = share.mirrors_of.tolist()
            ranges = [*pairwise(cuts)]
            if own:
                ranges[k] = OWN
            return [_between(columns, mirror, *x) for x in ranges]
        bounds = routes.bounds(k)
        owner = xp.searchsorted(bounds, mirror, side="right") - 1
        position = mirror - bounds[owner]
        if own:
            owner = xp.where(mirror < 0, k, owner)
            position = xp.where(mirror < 0, items, position)
        columns[0] = position.astype(items.dtype)
        owner = owner.astype(np.uint8 if parts < 256 else np.int32)  # sorted in fewer passes
        order = xp.argsort(owner, kind="stable")
        ends = xp.searchsorted(owner[order], xp.arange(parts + 1, dtype=owner.dtype))
        columns = [a[order] for a in columns]
        cuts = device.to_host(ends).tolist()
        return [[a[i:j] for a in columns] for i, j in zip(cuts[:-1], cuts[1:], strict=True)]


def _between(columns: Sequence[Array], mirror: Array, first: int, end: int) -> list[Array]:
    """Select the messages whose ``mirror`` is in a range; that of own rows is `OWN`."""
    if first == end:
        return [a[:0] for a in columns]
    at = np.flatnonzero((mirror >= first) & (mirror < end))
    item = columns[0][at] if first < 0 else mirror[at] - mirror.dtype.type(first)
    return [item, *(a[at] for a in columns[1:])]


def received_messages(
    graph: Any, k: int, table: str, received: Sequence[Sequence[Array]], points: Sequence[bool]
) -> list[Array]:
    """Concatenate the messages that part k has received; items and points become local ids.

    Parameters
    ----------
    graph : PartitionedGraph
    k : int
    table : str
        The table of the items.
    received : sequence of sequence of array
        From each part, as `sent_messages` gives it.
    points : sequence of bool
        Which columns beside the items hold global ids of points, or -1.

    Raises
    ------
    ValueError
        If the part has no copy of a point.
    """
    device, sent = graph.local(k).device, graph.tables[table]._routes.sent[k]
    with device.active():
        pieces = [[device.asarray(a) for a in columns] for columns in received]
        for j, columns in enumerate(pieces):
            if j != k:
                columns[0] = sent[j][columns[0]]
        filled = [x for x in pieces if x[0].size] or pieces[:1]
        if len(filled) > 1:
            filled = [[device.xp.concatenate(x) for x in zip(*filled, strict=True)]]
        items, *columns = filled[0]
        for i, is_point in enumerate(points):
            if is_point:
                columns[i] = device.asarray(_local_points(graph, k, device.to_host(columns[i])))
    return [items, *columns]


def _local_points(graph: Any, k: int, ids: Any) -> Any:
    """The local ids of points by their global ids; -1 stays."""
    rows = graph.points._share(k).rows(ids)
    lost = ids[(rows < 0) & (ids >= 0)]
    if lost.size:
        raise no_copy(k, lost[0])
    return rows


def no_copy(k: int, point: int) -> ValueError:
    """Make the error of a part that receives a point of which it has no copy."""
    return ValueError(
        f"part {k} executes a change at the other end of an edge that uses point {point}, of "
        "which it has no copy: pass what is needed of that point as numbers"
    )
