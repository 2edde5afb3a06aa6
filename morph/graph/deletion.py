"""Deletion of points: their incident edges are deleted at the next barrier.

The host deletes points and their edges together (`delete`).  A kernel marks points as deleted; when
its launch has ended, and before anything else reads the graph, `end_launch` deletes their edges.
The edges are found through the index from before the launch, if there is one, and by a scan of the
edges that the launch created; so the cost is proportional to the numbers of deleted points' edges
and of created edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from morph.data.reclaim import SHARE, release
from morph.data.store import COMMITTED, COUNT, HEAD, TAIL
from morph.runtime.arrays import any_true
from morph.runtime.device import Array

if TYPE_CHECKING:
    from morph.data.table import Table
    from morph.graph import Graph


class Before(NamedTuple):
    """The counters of points and of edges before a launch, and the size of the edges' ring."""

    points: tuple[int, int, int]
    edges: tuple[int, int, int]
    ring: int


def _counters(table: Table) -> tuple[int, int, int]:
    """Return the number of rows, and the begin and end of the deleted ones in their ring."""
    counters: list[int] = table._host_meta.tolist()
    return counters[COUNT], min(counters[HEAD], counters[COMMITTED]), counters[TAIL]


def delete(g: Graph, points: Array | None = None, edges: Array | None = None) -> None:
    """Delete live points with their incident edges, or live edges; ids are distinct."""
    columns, pairs = g.edges.columns, g._pairs
    if points is not None:
        deleted = incident(g, points, pairs)
    else:
        assert edges is not None
        deleted, pairs = (edges, None) if g.directed else with_reverses(g, edges)
    src, dst = (columns[c].array[deleted] for c in ("src", "dst"))
    in_place = g.gapped and g.complete
    try:
        if deleted.size:
            g.edges._tombstone(deleted)
        if points is not None:
            g.points._tombstone(points)
        if pairs is not None:
            pairs[deleted] = -1
        if not in_place:
            g.structure_changed(pairs)
            return
        g._adjacency.remove(deleted.astype(np.int32, copy=False), src, dst)
        g._adjacency.refresh()
        g._pairs, g.out_identity = pairs, False
        g.changes += 1
    except BaseException:
        g.structure_changed()
        raise


def with_reverses(g: Graph, edges: Array) -> tuple[Array, Array | None]:
    """Return some edges of an undirected graph and their reverses, ascending; and all reverses.

    The second result is None if an edge of the graph has no reverse.
    """
    if g.paired:
        back = pairs = g.reverses()
    else:
        back = g._found_reverses()
        pairs = None if any_true(back[g.edges.ids()] < 0) else back
    turned = back[edges]
    both = g.device.xp.concatenate([edges, turned[turned >= 0]])
    both.sort()
    return both[_first(g, both)], pairs


def _first(g: Graph, ids: Array) -> Array:
    """Return a mask of the first occurrence of each id among ascending ids."""
    first = g.device.xp.ones(ids.size, bool)
    first[1:] = ids[1:] != ids[:-1]
    return first


def incident(g: Graph, points: Array, back: Array | None, build: bool = True) -> Array:
    """Return the distinct live edges incident to some points, ascending.

    ``back`` has the edges' reverses.  A missing index is built if ``build`` is true; otherwise the
    edges are scanned.
    """
    index, xp = g._adjacency, g.device.xp
    both = index.at_points(points, back, build) if g.complete else None
    if both is None:
        mark = g.device.zeros(len(g.points) + 1, np.bool_)  # the last element is for None, -1
        mark[points] = True
        src, dst = (g.edges.columns[c].array[: len(g.edges)] for c in ("src", "dst"))
        found = mark[src] | mark[dst]
        if g.edges.deletes:
            found &= g.edges.alive
        return xp.flatnonzero(found).astype(np.int32)
    if g.edges.deletes:  # the launch may have deleted some
        both = both[g.edges.hidden("dead")[both] == 0]
    both.sort()
    return both[_first(g, both)]


# --- launches ------------------------------------------------------------------------------------


def begin_launch(g: Graph, reuse: bool = False) -> Before:
    """Record the counters before a launch that may create or delete points and edges.

    ``reuse``: the launch may recycle edges that it has deleted itself.
    """
    if g.points._held is None:  # otherwise an earlier error left edges of deleted points
        g.points._held = int(g.points._host_meta[TAIL])
    g.edges._held = None if reuse else int(g.edges._host_meta[TAIL])
    ring = g.edges.ring.size if g.edges.deletes else 0
    return Before(_counters(g.points), _counters(g.edges), ring)


def end_launch(g: Graph, before: Before, moved: bool, failed: bool) -> None:
    """Delete the edges of points that a launch deleted, and update the index.

    ``moved``: the launch wrote ends of edges; ``failed``: it ended with an error.
    """
    points, edges = _counters(g.points), _counters(g.edges)
    changed = moved or points != before.points or edges != before.edges
    if changed or g.points._held != points[2]:
        with g.device.active():
            _clean_up(g, before, edges, moved, failed)
    _release_all(g)


def end_rebuilds(g: Graph, before: Before) -> None:
    """Install the adjacency that a launch has rebuilt after each step that changed the graph."""
    points, edges = _counters(g.points), _counters(g.edges)
    if points != before.points or edges != before.edges:
        with g.device.active():
            if edges[1] != before.edges[1]:
                g._forget_order(_created(g, before, edges))
        g._adjacency.end_rebuilds()
        g._pairs, g.paired = None, False
        g.moved()
        g.changes += 1
    else:
        g._adjacency.trim_rebuilt()
    _release_all(g)


def release_before_rebuild(g: Graph) -> None:
    """Release the rows that the launch had deleted when it last rebuilt the adjacency."""
    g.points._held, g.edges._held = g._adjacency.rebuilt_rows().tails()


def recover(g: Graph) -> None:
    """Delete the edges of deleted points, found by a scan, after an interrupt in `end_launch`."""
    with g.device.active():
        if g.points.deletes:
            g.edges._tombstone(_at_deleted(g, g.edges.ids()))
        g.structure_changed()
    _release_all(g)


def _release_all(g: Graph) -> None:
    for table in (g.points, g.edges):
        table._held = None
        release(table)


def _clean_up(
    g: Graph, before: Before, edges: tuple[int, int, int], moved: bool, failed: bool
) -> None:
    """Delete the edges of deleted points; update the index and `Graph.edge_order`."""
    followed = False
    moved |= edges[1] > before.edges[2]  # the launch has recycled edges that it deleted
    try:
        if not (g.points.deletes or g.gapped or edges[1] != before.edges[1]):
            return
        created = _created(g, before, edges)
        if g.points.deletes:
            deleted = _lost(g, before, created, moved)
            if deleted.size:
                g.edges._tombstone(deleted)
        if edges[1] != before.edges[1]:
            g._forget_order(created)
        if g.gapped and g.complete and not (moved or failed):
            followed = _follow(g, before, created)
    finally:
        if not followed:
            g.structure_changed()


def _created(g: Graph, before: Before, edges: tuple[int, int, int]) -> Array:
    """The edges that a launch has created; all if the ring has lost the recycled ones."""
    xp = g.device.xp
    created = xp.arange(before.edges[0], edges[0], dtype=np.int32)
    if edges[1] == before.edges[1]:
        return created
    if edges[2] - before.edges[1] > before.ring:
        return xp.arange(edges[0], dtype=np.int32)
    ring = g.edges.ring
    at = xp.arange(before.edges[1], edges[1]) & (ring.size - 1)
    return xp.concatenate([created, ring[at]])


def _follow(g: Graph, before: Before, created: Array) -> bool:
    """Apply a launch's changes to gapped rows; return False if a rebuild is cheaper."""
    xp, edges, index = g.device.xp, g.edges, g._adjacency
    held, tail, columns = before.edges[2], int(edges._host_meta[TAIL]), edges.columns
    if SHARE * (tail - held + created.size) >= len(edges):
        return False
    deleted = created[:0]
    if tail > held:
        ring = edges.ring
        deleted = ring[xp.arange(held, tail) & (ring.size - 1)]
        # the index never had edges that the launch created and deleted
        deleted = deleted[~xp.isin(deleted, created)]
    inserted = created[edges.alive[created]] if edges.deletes else created
    changed = deleted, inserted
    (src, dst), (u, v) = ([columns[c].array[ids] for c in ("src", "dst")] for ids in changed)
    if any_true(u < 0) or any_true(v < 0):
        return False
    if deleted.size:
        index.remove(deleted, src, dst)
    if inserted.size and index.insert(inserted, u, v):
        g.moved()
    index.refresh()
    g._pairs, g.paired, g.out_identity = None, False, False
    g.changes += 1
    return True


def _lost(g: Graph, before: Before, created: Array, moved: bool) -> Array:
    """The live edges of points that a launch deleted, or created at deleted points."""
    xp, points, held = g.device.xp, g.points, g.points._held
    assert held is not None
    if moved or held != before.points[2]:
        return _at_deleted(g, g.edges.ids())
    ring, tail = points.ring, int(points._host_meta[TAIL])
    dead = ring[xp.arange(held, tail) & (ring.size - 1)]
    parts = []
    if created.size:
        alive = created[g.edges.alive[created]] if g.edges.deletes else created
        parts.append(_at_deleted(g, alive))
    if dead.size:
        parts.append(incident(g, dead[dead < before.points[0]], g._pairs, build=False))
    if not parts:
        return dead
    return parts[0] if len(parts) == 1 else xp.unique(xp.concatenate(parts))


def _at_deleted(g: Graph, ids: Array) -> Array:
    """Select the edges that have an end at a deleted point."""
    dead, lost = g.points.hidden("dead"), g.device.zeros(ids.size, np.bool_)
    for name in ("src", "dst"):
        end = g.edges.columns[name].array[ids]
        lost |= (end >= 0) & (dead[end] != 0)
    return ids[lost].astype(np.int32, copy=False)
