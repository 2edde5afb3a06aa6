"""Which rows a batch means: edges by id or by their ends, points and the edges at them.

A few ids are on the host (see `Batch`), and only what they ask of a GPU's arrays is fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from morph.graph.deletion import incident
from morph.graph.labels import name_of
from morph.runtime.arrays import any_true
from morph.runtime.device import Array, Device, is_host
from morph.updates.batch import Batch, Named, candidates, none, pair_keys

if TYPE_CHECKING:
    from morph.graph import Graph


def take(device: Device, array: Array, at: Array) -> Array:
    """Elements of an array of the device, where ``at`` lies."""
    if is_host(at) and not is_host(array):
        return device.to_host(array[device.asarray(at)])
    return array[at]


def _of_kind(a: Array, like: Array, device: Device) -> Array:
    """An array where ``like`` lies."""
    return device.to_host(a) if is_host(like) else device.asarray(a)


def _among(device: Device, ids: Array, ascending: Array) -> Array:
    """Which ids are among some that ascend."""
    xp: Any = module_of(device, ids)
    if not ascending.size:
        return xp.zeros(ids.size, bool)
    at = xp.minimum(xp.searchsorted(ascending, ids), ascending.size - 1)
    return ascending[at] == ids


def module_of(device: Device, a: Array) -> Any:
    """NumPy, or CuPy where the array lies on a GPU."""
    return np if is_host(a) else device.xp


def points_to_delete(g: Graph, batch: Batch) -> tuple[Array, int, int]:
    """The points to delete, ascending; how many are dead, and how many are named again."""
    asked = batch.points
    if not asked.size:
        return asked, 0, 0
    points = _unique(module_of(g.device, asked), asked)
    repeated, absent = int(asked.size - points.size), 0
    if points.size and g.points.deletes:
        alive = take(g.device, g.points.hidden("dead"), points) == 0
        absent = int(points.size) - int(alive.sum())
        points = points[alive]
    if points.size and batch.count:
        for name in ("src", "dst"):
            ends = batch.inserts[name]
            bad = _among(g.device, ends, _of_kind(points, ends, g.device))
            if any_true(bad):
                k = int(bad.argmax())
                end = f"inserts.{name}[{k}] = {name_of(g, ends[k])}"
                raise ValueError(f"{end} is deleted in this batch")
    return points, absent, repeated


def edges_to_delete(
    g: Graph, named: Named, points: Array, back: Array | None
) -> tuple[Array, Array, tuple[int, int]]:
    """Ids of the edges to delete, ascending; how many are absent, how many named again.

    The second array has them as they are mentioned, then the arcs back, then those of points: so
    their ids are used again.
    """
    if not named.count and not points.size:
        return none(g.device), none(g.device), (0, 0)
    found, absent = _found(g, named, many=True)
    xp = module_of(g.device, found)
    turned = found if back is None else take(g.device, back, found)
    once = first_mentions(xp, xp.minimum(found, turned))
    order = found[once]
    if back is not None:
        forth, again = order, turned[once]
        order = xp.concatenate([forth, again[again != forth]])
    ids = xp.sort(order)
    if points.size:
        xp, at = g.device.xp, incident(g, g.device.asarray(points), back)
        ids, order = g.device.asarray(ids), g.device.asarray(order)
        order = xp.concatenate([order, at[~_among(g.device, at, ids)]])
        ids = xp.sort(order)
    return ids, order, (absent, int(found.size - once.size))


def edges_to_update(
    g: Graph, named: Named, deleted: Array, back: Array | None
) -> tuple[Array, Array | None, tuple[int, int]]:
    """Ids of the edges to change, ascending, their weights; how many absent, how many again."""
    if not named.count:
        return none(g.device), named.weight, (0, 0)
    ids, absent, where = _found(g, named, many=False, without=deleted, places=True)
    xp, count = module_of(g.device, ids), int(ids.size)
    turned = ids if back is None else take(g.device, back, ids)
    once = _unique(xp, xp.minimum(ids, turned))
    if back is not None:
        ids, where = xp.concatenate([ids, turned]), xp.concatenate([where, where])
    counters = (ids.astype(np.int64) << 32) | where
    counters.sort()
    last = xp.ones(counters.size, bool)
    last[:-1] = (counters[1:] >> 32) != (counters[:-1] >> 32)
    counters = counters[last]
    weight = _of_kind(named.weight, counters, g.device)
    values = weight[counters & 0xFFFFFFFF]
    return (counters >> 32).astype(np.int32), values, (absent, count - int(once.size))


def _found(
    g: Graph, named: Named, many: bool, without: Array | None = None, places: bool = False
) -> Any:
    """The live edges that are named, but those of ``without``; how many are not there; ``places``.

    Pairs name the edge of the least id; with ``many`` the k-th mention of a pair names its k-th
    edge.  Of a graph that is not directed the pair's order does not count.
    """
    edges = g.edges
    if named.ids is not None:
        ids = named.ids
        live: Any = module_of(g.device, ids).ones(ids.size, bool)
        if edges.deletes and ids.size:
            live &= take(g.device, edges.hidden("dead"), ids) == 0
        if without is not None and without.size:
            live &= ~_among(g.device, ids, _of_kind(without, ids, g.device))
    else:
        xp = g.device.xp
        src, dst = g.device.asarray(named.src), g.device.asarray(named.dst)
        if not g.directed:
            src, dst = xp.minimum(src, dst), xp.maximum(src, dst)
        deleted = None if without is None or not without.size else g.device.asarray(without)
        ids, live = _search(g, src, dst, many, deleted)
        assert named.src is not None
        ids, live = (_of_kind(a, named.src, g.device) for a in (ids, live))
    found = ids[live].astype(np.int32)
    absent = int(ids.size - found.size)
    return (
        (found, absent, module_of(g.device, live).flatnonzero(live)) if places else (found, absent)
    )


def _search(
    g: Graph, src: Array, dst: Array, many: bool, without: Array | None
) -> tuple[Array, Array]:
    """For each pair the edge it names, and whether there is one."""
    xp, columns = g.device.xp, g.edges.columns
    ids = candidates(g, src)
    if g.points.deletes:  # as in rows with spare capacity, which have no edges at dead points
        alive, ends = g.points.alive, (columns[c].array for c in ("src", "dst"))
        for end in ends:
            ids = ids[alive[end[ids]] & (end[ids] >= 0)]
    if without is not None:
        ids = ids[~_among(g.device, ids, without)]
    keys = pair_keys(columns["src"].array[ids], columns["dst"].array[ids])
    order = xp.argsort(keys, kind="stable")
    keys, ids = keys[order], ids[order]
    asked = pair_keys(src, dst)
    at = xp.searchsorted(keys, asked, "left")
    if many:
        mine = xp.argsort(asked, kind="stable")
        line = asked[mine]
        rank = xp.empty(asked.size, np.int64)
        rank[mine] = xp.arange(asked.size) - xp.searchsorted(line, line, "left")
        at = at + rank
    live = at < xp.searchsorted(keys, asked, "right")
    if not ids.size:
        return xp.zeros(asked.size, np.int64), live
    return ids[xp.minimum(at, ids.size - 1)], live


def first_mentions(xp: Any, ids: Array) -> Array:
    """Where each id stands first, in order of their mention."""
    if ids.size < 2:
        return xp.arange(ids.size)
    counters = (ids.astype(np.int64) << 32) | xp.arange(ids.size)
    counters.sort()
    first = xp.ones(ids.size, bool)
    first[1:] = (counters[1:] >> 32) != (counters[:-1] >> 32)
    return xp.sort(counters[first] & 0xFFFFFFFF)


def _unique(xp: Any, ids: Array) -> Array:
    """Ids once each, ascending; without `unique`, which is slow for few."""
    ids = xp.sort(ids)
    first = xp.ones(ids.size, bool)
    first[1:] = ids[1:] != ids[:-1]
    return ids[first]
