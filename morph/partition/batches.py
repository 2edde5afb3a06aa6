"""Batches of changes of a partitioned graph: resolved by the owners, all or nothing by a vote.

Every process has the whole batch.  The part that owns the source of an edge finds the edge that a
change names, and sends it to all others.  Points of which a part needs a copy become mirrors.  Then
each part changes its own graph; if that fails on any part, all graphs stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from morph.compiler.ir.layout import GLOBAL_ID
from morph.data.table import Table
from morph.data.temporary import run_all
from morph.graph.applied import Applied
from morph.graph.gapped import weight_of
from morph.language.arguments import boolean, check_callable
from morph.language.dtypes import vec
from morph.partition.parts import (
    DIVIDED,
    FIXED,
    ChangedEdges,
    HostArray,
    Part,
    positions,
)
from morph.partition.replicated import TableOfParts
from morph.partition.transport import on_all, raise_together
from morph.runtime.arrays import to_host
from morph.updates.batch import Batch, Named, none, parallel_edges
from morph.updates.changes import Resolved, Steps, carry_out, follows

NO_OWNER = 1 << 15  # the owner of an id that no part owns


class OwnedEdges(NamedTuple):
    """Edges of the whole graph, with the owners of their ends."""

    ids: HostArray
    src: HostArray
    dst: HostArray
    reverse: HostArray  # -1 in a directed graph
    at_src: HostArray
    at_dst: HostArray

    def take(self, chosen: Any) -> OwnedEdges:
        """Return some of the edges."""
        return OwnedEdges(*(a[chosen] for a in self))

    def both(self, directed: bool) -> OwnedEdges:
        """Return the edges, then, if the graph is not directed, the reverses of all but loops."""
        if directed:
            return self
        t = self.take(self.src != self.dst)
        turned = t.reverse, t.dst, t.src, t.ids, t.at_dst, t.at_src
        return OwnedEdges(*map(np.concatenate, zip(self, turned, strict=True)))


class Changes(NamedTuple):
    """The edges that a batch changes, by ids of the whole graph; equal in all processes."""

    deleted: OwnedEdges
    updated: OwnedEdges
    weight: HostArray  # of the edges ``updated``
    inserted: OwnedEdges
    columns: dict[str, HostArray]  # of the edges ``inserted``
    given: int  # number of ``inserted`` without reverse edges
    absent: int
    repeated: int


class OwnChanges(NamedTuple):
    """The changes of a batch to the owned edges of one part."""

    columns: dict[str, HostArray]  # of `Applied.rows`
    given: HostArray  # rows of the edges inserted, without reverses


class AppliedToParts(Applied):
    """The changes of a batch to a partitioned graph: ids of the whole graph, int64, on the host."""

    __slots__ = ("_own",)
    _own: dict[int, OwnChanges]

    def rows(self) -> tuple[Any, int]:
        """Return the changes as rows, see `Applied.rows`: each part has those of its own edges.

        The count is that of all parts, on which decisions may depend that all have to make alike.
        """
        parts = self._graph
        weight = parts.edges.columns["weight"].dtype if "weight" in parts.edges.columns else None
        table = parts.kept.get(("changes", weight))
        if table is None:
            made = {k: _changes_table(parts, k) for k in parts.here}
            table = parts.kept["changes", weight] = TableOfParts(parts, made)
        for k, own in self._own.items():
            table.local(k).truncate(0)
            table.local(k).extend(**own.columns)
        return table, sum(parts.gather(lambda k: len(table.local(k))))

    @property
    def present(self) -> int:
        """Inserts that made parallel edges, see `Applied.present`."""
        parts = self._graph
        if parts.changes != self._changes:
            raise RuntimeError("present is counted before the graph changes again")
        return sum(parts.gather(lambda k: self._parallel(k)))

    def _parallel(self, k: int) -> int:
        rows, g = self._own[k].given, self._graph.local(k)
        return parallel_edges(g, g.device.asarray(rows)) if rows.size else 0


def _changes_table(parts: Any, k: int) -> Table:
    """Make the table of the changes of a part, see `Applied.rows`."""
    made = Table("changes", parts.devices[k], edge=np.int32, end=vec(np.int32, 2), outcome=np.int32)
    weight = weight_of(parts.local(k).edges)
    if weight is not None:
        made.add("weight", weight.dtype)
    return made


def apply(
    parts: Any, inserts: Any, deletes: Any, updates: Any, delete_points: Any, nonnegative: bool,
    then: Any,
) -> Applied:  # fmt: skip
    """Implement `PartitionedGraph.apply`."""
    if parts.undoable:
        raise RuntimeError("`then` of `apply` may not change points and edges of the graph")
    nonnegative = boolean(nonnegative, "nonnegative")
    check_callable(then, "then")
    if delete_points is not None and np.size(delete_points):
        raise TypeError("points of a partitioned graph are not created or deleted")
    inserts, deletes, updates = map(_arrays_on_host, (inserts, deletes, updates))
    if parts.labelled:
        inserts, deletes, updates, _ = parts.ids_in_batch(inserts, deletes, updates, None)
    batch = Batch.of(parts, inserts, deletes, updates, None, nonnegative)
    for name in batch.inserts:
        if name not in ("src", "dst") and parts.edges.columns[name].ref in DIVIDED:
            raise ValueError(f"inserts.{name} refers to points or edges: set it after the batch")
    named = (batch.deletes, batch.updates)
    named_by = (a for x in named for a in (x.ids, x.src, x.dst, x.weight) if a is not None)
    parts.transport.begin("apply", *batch.inserts, *batch.inserts.values(), *named_by)
    parts.gather(lambda k: None)
    _name_edges(parts)
    changes = _resolve(parts, batch)
    undo: Steps = []
    try:
        applied = _carry_out(parts, changes, undo)
        if then is not None:
            try:
                parts.undoable = True
                on_all(parts.transport, lambda: then(applied))
            finally:
                parts.undoable = False
    except BaseException:
        run_all(undo)
        raise
    return applied


def _arrays_on_host(x: Any) -> Any:
    """The arrays of an argument, on the host."""
    if hasattr(x, "__cuda_array_interface__"):
        return to_host(x)
    if isinstance(x, tuple):
        return tuple(map(_arrays_on_host, x))
    if isinstance(x, list) and len(x) < 4:  # columns, or a few ids
        return list(map(_arrays_on_host, x))
    if isinstance(x, Mapping):
        return {name: _arrays_on_host(a) for name, a in x.items()}
    return x


# --- names of edges ------------------------------------------------------------------------------


def _name_edges(parts: Any) -> None:
    """Note the global ids of the edges of all parts, before these change for the first time."""
    if all(parts.parts[k].changed is not None for k in parts.here):
        return
    found = {k: ChangedEdges.of(parts.parts[k]) for k in parts.here}
    if not parts.directed:
        raise_together(parts.transport, _find_reverses(parts, found))
    for k, changed in found.items():
        parts.local(k).edges.allow_deletes()
        parts.parts[k].changed = changed


def _find_reverses(parts: Any, found: Mapping[int, ChangedEdges]) -> dict[int, Exception | None]:
    """Find the reverse of each edge; give the errors by part.

    The k-th edge from u to v, by weight and id, belongs to the k-th from v to u.
    """
    sent, own = {}, {}
    for k, changed in found.items():
        src, dst, owner = _ends(parts, k, np.arange(len(parts.local(k).edges)))
        weight = parts.local(k).edges.columns.get("weight")
        plain = weight is not None and not weight.size
        keys = to_host(weight.array[: src.size]) if plain else np.zeros(src.size, np.int8)
        own[k] = src, dst, keys
        chosen = (np.flatnonzero(owner == j) for j in range(len(parts.parts)))
        sent[k] = [[a[at] for a in (src, dst, keys, changed.ids)] for at in chosen]
    errors: dict[int, Exception | None] = dict.fromkeys(parts.here)
    for k, received in parts.transport.exchange(sent).items():
        pieces = zip(*received, strict=True)
        dst, src, weight, ids = (np.concatenate([to_host(a) for a in x]) for x in pieces)
        forth = np.lexsort((found[k].ids, own[k][2], own[k][1], own[k][0]))
        again = np.lexsort((ids, weight, dst, src))
        pairs = [(a[forth], b[again]) for a, b in zip(own[k], (src, dst), strict=False)]
        if any(a.shape != b.shape or (a != b).any() for a, b in pairs):
            text = "the graph is not directed, but an edge has no reverse"
            errors[k] = ValueError(f"{text}: see morph.Graph.reverses")
        else:
            found[k].reverse[forth] = ids[again]
    return errors


def _ends(parts: Any, k: int, rows: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """The global ids of the ends of part k's own edges, and the owners of the targets."""
    points, g = parts.parts[k].share("points"), parts.local(k)
    with g.device.active():
        at = g.device.asarray(rows)
        src, dst = (g.device.to_host(g.edges.columns[c].array[at]) for c in ("src", "dst"))
    return points.global_ids(src), points.global_ids(dst), points.owners(dst, k)


# --- resolving a batch ---------------------------------------------------------------------------


def _resolve(parts: Any, batch: Batch) -> Changes:
    """Find the edges that a batch names; nothing has changed if this raises."""
    ends = [batch.inserts.get(c) for c in ("src", "dst")]
    ends += [x for named in (batch.deletes, batch.updates) for x in (named.src, named.dst)]
    points = np.unique(np.concatenate([np.zeros(0, np.int64), *(a for a in ends if a is not None)]))
    owner = np.full(points.size, NO_OWNER)
    for k, rows in enumerate(parts.gather(lambda k: _own_rows(parts, k, points))):
        owner[rows >= 0] = k

    def owners(ids: Any) -> HostArray:
        found: HostArray = owner[np.searchsorted(points, ids)]
        return found

    deleted, absent, repeated = _to_delete(parts, batch.deletes, owners)
    updated, weight, updates = _to_update(parts, batch.updates, owners, deleted.ids)
    inserted, columns = _to_insert(parts, batch, owners)
    return Changes(
        deleted, updated, weight, inserted, columns, batch.count,
        absent + updates[0], repeated + updates[1],
    )  # fmt: skip


def _own_rows(parts: Any, k: int, ids: HostArray) -> HostArray:
    rows: HostArray = parts.parts[k].share("points").own_rows(ids)
    return rows


def _to_delete(parts: Any, named: Named, owners: Any) -> tuple[OwnedEdges, int, int]:
    """The edges to delete; how many are absent, and how many are named again."""
    _, found = _named(parts, named, owners, True, None)
    low = found.ids if parts.directed else np.minimum(found.ids, found.reverse)
    once = found.take(_first(low))
    absent, repeated = named.count - found.ids.size, found.ids.size - once.ids.size
    return once.both(parts.directed), absent, repeated


def _to_update(
    parts: Any, named: Named, owners: Any, deleted: HostArray
) -> tuple[OwnedEdges, HostArray, tuple[int, int]]:
    """The edges to change, and their weights; how many are absent, and how many are named again."""
    mention, found = _named(parts, named, owners, False, deleted)
    low = found.ids if parts.directed else np.minimum(found.ids, found.reverse)
    last = found.ids.size - 1 - _first(low[::-1])
    counted = found.take(last).both(parts.directed)
    weight = np.zeros(0) if named.weight is None else to_host(named.weight)
    mention = mention[last]
    values = weight[mention]
    if not parts.directed:
        loops = found.src[last] == found.dst[last]
        values = np.concatenate([values, values[~loops]])
    repeated = found.ids.size - last.size
    return counted, values, (named.count - found.ids.size, repeated)


def _first(ids: HostArray) -> HostArray:
    """Where each id stands first, in order of their mention."""
    return np.sort(np.unique(ids, return_index=True)[1])


def _to_insert(parts: Any, batch: Batch, owners: Any) -> tuple[OwnedEdges, dict[str, HostArray]]:
    """The edges to insert with new ids, those given first, and their other columns."""
    first, count = len(parts.edges), batch.count
    columns = {name: to_host(a) for name, a in batch.inserts.items()}
    nothing = np.zeros(0, np.int64)
    src, dst = (columns.pop(c, nothing).astype(np.int64) for c in ("src", "dst"))
    ids = np.arange(first, first + count)
    reverse = np.full(count, -1)
    if not parts.directed:
        no_loop = np.flatnonzero(src != dst)
        reverse = ids.copy()
        reverse[no_loop] = first + count + np.arange(no_loop.size)
        columns = {name: np.concatenate([a, a[no_loop]]) for name, a in columns.items()}
    arcs = OwnedEdges(ids, src, dst, reverse, owners(src), owners(dst))
    return arcs.both(parts.directed), columns


def _named(
    parts: Any, named: Named, owners: Any, many: bool, without: HostArray | None
) -> tuple[HostArray, OwnedEdges]:
    """The edges that changes name, found by the owners, and by which mentions.

    Pairs name the edge of the least id that is not among ``without``; with ``many`` the k-th
    mention of a pair names its k-th edge.  Of a graph that is not directed the pair's order does
    not count.
    """
    if not named.count:
        nothing = np.zeros(0, np.int64)
        return nothing, OwnedEdges(*(nothing,) * 6)
    pieces = parts.gather(lambda k: _of_part(parts, k, named, owners, many, without))
    mention, *arcs = (np.concatenate(a) for a in zip(*pieces, strict=True))
    order = np.argsort(mention)
    return mention[order], OwnedEdges(*arcs).take(order)


def _of_part(
    parts: Any, k: int, named: Named, owners: Any, many: bool, without: HostArray | None
) -> tuple[HostArray, ...]:
    """The mentions that name own edges of part k, and these edges."""
    part = parts.parts[k]
    if named.ids is not None:
        asked = to_host(named.ids).astype(np.int64)
        rows = np.flatnonzero(np.isin(part.changed.ids, asked) & part.changed.own)
        rows = rows[np.argsort(part.changed.ids[rows])]
        at = positions(part.changed.ids[rows], asked)
        mention = np.flatnonzero(at >= 0)
        rows = rows[at[mention]]
        if without is not None:
            kept = ~np.isin(asked[mention], without)
            mention, rows = mention[kept], rows[kept]
    else:
        u, v = (to_host(a).astype(np.int64) for a in (named.src, named.dst))
        if not parts.directed:
            u, v = np.minimum(u, v), np.maximum(u, v)
        mention = np.flatnonzero(owners(u) == k)
        share = part.share("points")
        asked = _keys(share.own_rows(u[mention]), share.rows(v[mention]))
        live, rows = _search(part, asked, many, without)
        mention = mention[live]
    src, dst, owner = _ends(parts, k, rows)
    ids, reverse = part.changed.ids[rows], part.changed.reverse[rows]
    return mention, ids, src, dst, reverse, np.full(ids.size, k), owner


def _keys(u: HostArray, v: HostArray) -> HostArray:
    """Pairs of local ids as numbers; -1 is like no target."""
    return (u.astype(np.int64) << 32) + v


def _search(
    part: Part, asked: HostArray, many: bool, without: HostArray | None
) -> tuple[HostArray, HostArray]:
    """Which pairs have an edge, and its row."""
    rows, src, dst = _edges_from(part, np.unique(asked >> 32))
    ids = part.changed.ids[rows] if part.changed is not None else rows
    if without is not None:
        kept = ~np.isin(ids, without)
        rows, src, dst, ids = rows[kept], src[kept], dst[kept], ids[kept]
    keys = _keys(src, dst)
    order = np.lexsort((ids, keys))
    keys, rows = keys[order], rows[order]
    at = np.searchsorted(keys, asked)
    if many:
        mine = np.argsort(asked, kind="stable")
        line = asked[mine]
        at[mine] += np.arange(line.size) - np.searchsorted(line, line)
    live = at < np.searchsorted(keys, asked, "right")
    return live, rows[at[live]]


def _edges_from(part: Part, points: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """The rows of the edges from some points, by local ids, and their ends; on the host."""
    g, points = part.graph, points[(points >= 0) & (points < len(part.graph.points))]
    with g.device.active():
        rows = g._adjacency.edges_from(g.device.asarray(points))
        ends = [g.edges.columns[c].array[rows] for c in ("src", "dst")]
        host: Any = [g.device.to_host(a) for a in (rows, *ends)]
    return tuple(host)


# --- changes of the parts ------------------------------------------------------------------------


@contextmanager
def _changeable(parts: Any) -> Iterator[None]:
    """A ``with`` block in which the parts are changed, which is refused elsewhere."""
    graphs = [parts.local(k) for k in parts.here]
    fix = map(setattr, graphs, repeat("fixed"), repeat(FIXED))
    try:
        for g in graphs:
            g.fixed = ""
        yield
    finally:
        list(fix)  # one call, which no signal handler interrupts


def _carry_out(parts: Any, changes: Changes, undo: Steps) -> Applied:
    """Change all parts; ``undo`` gets the steps that put them back as they were."""
    done: dict[int, Applied] = {}
    mirrors = dict.fromkeys(parts.here, 0)

    def add_mirrors() -> None:
        for k in parts.here:
            g, groups = parts.local(k), (changes.inserted, changes.deleted)
            with g.device.active():  # gapped rows now: adding points drops compact ones
                follows(g, sum(int(_mask(parts, k, arcs).sum()) for arcs in groups))
            mirrors[k] = _add_mirrors(parts, k, changes.inserted)

    def change_parts() -> None:
        for k in parts.here:
            g, (named, batch) = parts.local(k), _of_local(parts, k, changes)
            with g.device.active():
                done[k] = carry_out(g, named, batch.inserts, batch, undo)

    try:
        with _changeable(parts):
            on_all(parts.transport, add_mirrors)
    except BaseException:
        _forget_mirrors(parts)
        raise
    if any(parts.gather(lambda k: mirrors[k])):
        _forget_mirrors(parts)  # those of parts of other processes, too
    with _changeable(parts):
        on_all(parts.transport, change_parts)
    pieces = parts.gather(lambda k: _old_weights(parts, k, done[k]))
    since = parts.changes
    own = {k: _own_changes(parts, k, changes, done[k]) for k in parts.here}
    for k, a in done.items():
        _name_changes(parts.parts[k], k, changes, a, undo)

    before = parts.edges._count, parts.edges._dead

    def count(rows: int, dead: int) -> None:
        if changes.inserted.ids.size + changes.deleted.ids.size + changes.updated.ids.size:
            parts.changes += 1
        parts.edges._count, parts.edges._dead = rows, dead
        parts.edges._routes.changed()

    undo.append(lambda: count(*before))
    count(before[0] + changes.inserted.ids.size, before[1] + changes.deleted.ids.size)
    applied = _record(parts, changes, pieces)
    applied._since, applied._changes, applied._own = since, parts.changes, own
    return applied


def _mask(parts: Any, k: int, arcs: OwnedEdges) -> HostArray:
    """Which edges part k has, own or copied."""
    found: HostArray = arcs.at_src == k
    return found | (arcs.at_dst == k) if parts.directed else found


def _of_local(parts: Any, k: int, changes: Changes) -> tuple[Resolved, Batch]:
    """The rows of part k that change, and the edges that it inserts, by local ids."""
    part, device = parts.parts[k], parts.devices[k]
    inserted = _mask(parts, k, changes.inserted)
    arcs, given = changes.inserted.take(inserted), {}
    if arcs.ids.size:
        local = (part.share("points").rows(a).astype(np.int32) for a in (arcs.src, arcs.dst))
        given = dict(zip(("src", "dst"), local, strict=True))
        given |= {name: a[inserted] for name, a in changes.columns.items()}
    deleted_rows = _rows(part, changes.deleted.take(_mask(parts, k, changes.deleted)))
    updated = _mask(parts, k, changes.updated)
    rows = _rows(part, changes.updated.take(updated))
    order = np.argsort(rows)
    values = changes.weight[updated][order]
    nothing = none(device)
    deleted, named, changed, weight = map(
        device.asarray, (np.sort(deleted_rows), deleted_rows, rows[order], values)
    )
    batch = Batch(given, int(arcs.ids.size), Named(nothing), Named(nothing), nothing)
    return Resolved(nothing, deleted, named, changed, weight, 0, 0), batch


def _rows(part: Part, arcs: OwnedEdges) -> HostArray:
    """The rows of edges that a part has, int32."""
    assert part.changed is not None
    if not arcs.ids.size:
        return np.zeros(0, np.int32)
    rows, _, _ = _edges_from(part, np.unique(part.share("points").rows(arcs.src)))
    ids = part.changed.ids[rows]
    order = np.argsort(ids)
    return rows[order][positions(ids[order], arcs.ids)].astype(np.int32)


def _add_mirrors(parts: Any, k: int, arcs: OwnedEdges) -> int:
    """Add the points to which new edges of part k lead, or from which copies do; return how many.

    They stay if the batch fails: a mirror without edges does nothing.
    """
    part, mine = parts.parts[k], arcs.at_src == k
    ids, owner = arcs.dst[mine], arcs.at_dst[mine]
    if parts.directed:
        mine = arcs.at_dst == k
        ids, owner = np.append(ids, arcs.src[mine]), np.append(owner, arcs.at_src[mine])
    ids, first = np.unique(ids, return_index=True)
    share = part.share("points")
    new = share.rows(ids) < 0
    ids, owner = ids[new], owner[first[new]]
    if ids.size:
        _forget_mirrors(parts)
        points = part.graph.points
        begin, ids = len(points), ids.astype(np.int32)
        share = share.with_mirrors(ids, owner, begin)
        try:
            points.extend(ids.size, **{GLOBAL_ID: ids})
            part.shares["points"] = share
        except BaseException:
            if len(points) > begin:  # interrupted when the rows were there
                part.shares["points"] = share
            raise
    return int(ids.size)


def _forget_mirrors(parts: Any) -> None:
    """Find the routes of points again, and bring all mirrors up to date, when they are needed."""
    parts.points._routes.changed()
    parts.points._stale.update(parts.points.columns.keys() - {GLOBAL_ID})


def _name_changes(part: Part, k: int, changes: Changes, done: Applied, undo: Steps) -> None:
    """Note the ids of the rows that a part has changed."""
    changed = part.changed
    assert changed is not None
    deleted_rows, made = to_host(done.deleted), to_host(done.inserted)
    changed.cover(len(part.graph.edges))
    rows = np.union1d(deleted_rows, made)
    before = changed.ids[rows], changed.own[rows], changed.reverse[rows]

    def put(rows: HostArray, *names: Any) -> None:
        changed.ids[rows], changed.own[rows], changed.reverse[rows] = names
        part.shares.pop("edges", None)

    undo.append(lambda: put(rows, *before))
    put(deleted_rows, -1, False, -1)
    arcs = changes.inserted
    arcs = arcs.take((arcs.at_src == k) | ((arcs.at_dst == k) & part.graph.directed))
    put(made, arcs.ids, arcs.at_src == k, arcs.reverse)


# --- the record of a batch -----------------------------------------------------------------------


def _own(parts: Any, k: int, rows: Any) -> tuple[HostArray, HostArray]:
    """Rows of edges of a part on the host, and a mask of those that are its own."""
    found = to_host(rows)
    return found, parts.parts[k].changed.own[found]


def _old_weights(parts: Any, k: int, done: Applied) -> list[HostArray]:
    """The ids and old weights of the part's own edges that were deleted or updated."""
    found, names = [], parts.parts[k].changed.ids
    for rows, weight in ((done.deleted, done.deleted_weight), (done.updated, done.old_weight)):
        at, own = _own(parts, k, rows)
        found += [names[at[own]], np.zeros(0) if weight is None else to_host(weight)[own]]
    return found


def _record(parts: Any, changes: Changes, pieces: Sequence[Any]) -> AppliedToParts:
    """Make the record of a batch, by ids of the whole graph."""
    deleted, deleted_weight, changed, old = (
        np.concatenate(a) for a in zip(*pieces, strict=True)
    )  # fmt: skip
    order, again = np.argsort(deleted), np.argsort(changed)
    dead, set_ = changes.deleted, np.argsort(changes.updated.ids)
    dead = dead.take(np.argsort(dead.ids))
    weighted = "weight" in parts.edges.columns
    return AppliedToParts(
        changes.inserted.ids, dead.ids, dead.src, dead.dst,
        deleted_weight[order] if weighted else None,
        changes.updated.ids[set_], old[again] if weighted else None,
        changes.weight[set_] if weighted else None, np.zeros(0, np.int64),
        changes.absent, changes.repeated, parts, changes.given,
    )  # fmt: skip


def _own_changes(parts: Any, k: int, changes: Changes, done: Applied) -> OwnChanges:
    """The changes of a part's own edges, by local ids."""
    g = parts.local(k)
    deleted_rows, own_deleted = _own(parts, k, done.deleted)
    updated, own_updated = _own(parts, k, done.updated)
    mine = _mask(parts, k, changes.inserted)
    own_made = changes.inserted.at_src[mine] == k
    given = np.flatnonzero(mine)[own_made] < changes.given
    rows = deleted_rows[own_deleted], updated[own_updated], to_host(done.inserted)[own_made]
    before = [to_host(a)[own_deleted] for a in (done.deleted_src, done.deleted_dst)]
    weight = weight_of(g.edges)
    with g.device.active():
        now = g.device.asarray(np.concatenate(rows[1:]))
        after = [g.device.to_host(g.edges.columns[c].array[now]) for c in ("src", "dst")]
        made = g.device.to_host(weight.array[now[rows[1].size :]]) if weight is not None else None
    outcomes = Applied.DELETED, Applied.UPDATED, Applied.INSERTED
    found = {
        "edge": np.concatenate(rows),
        "end": np.stack([np.append(a, b) for a, b in zip(before, after, strict=True)], axis=1),
        "outcome": np.repeat(np.array(outcomes, np.int32), [r.size for r in rows]),
    }
    if made is not None:
        old = to_host(done.deleted_weight)[own_deleted], to_host(done.old_weight)[own_updated]
        found["weight"] = np.concatenate([*old, made])
    return OwnChanges(found, rows[2][given])
