"""Batches of changes, applied to a graph: all of them or none.

The edges' table is the truth; the index follows.  A batch is prepared first, which may fail and
has changed nothing then; what is written in place after that is put back if anything fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from morph.data.store import CAPACITY, COMMITTED, COUNT, HEAD
from morph.data.table import Table
from morph.data.temporary import run_all
from morph.graph.applied import Applied, Then
from morph.graph.labels import name_of
from morph.graph.reverses import without_reverse
from morph.language.arguments import boolean, check_callable
from morph.runtime.arrays import any_true
from morph.runtime.device import Array, is_host
from morph.updates import edge_ids, fast_path, recognition
from morph.updates.batch import Batch, pair_keys
from morph.updates.named import edges_to_delete, edges_to_update, points_to_delete

if TYPE_CHECKING:
    from morph.graph import Graph

Steps = list[Callable[[], object]]
SHARE = 4  # of batches that change more than this part of the edges, no index is made to follow


def apply(
    g: Graph, inserts: Any, deletes: Any, updates: Any, points: Any, nonnegative: bool, then: Then
) -> Applied:  # fmt: skip
    """Implement `Graph.apply`."""
    g.refuse_fixed()
    if nonnegative is not False:
        nonnegative = boolean(nonnegative, "nonnegative")
    if g._numbers_are_labels:
        inserts, deletes, updates, points = g.ids_in_batch(inserts, deletes, updates, points)
    if then is None and points is None and (singles := g.single_changes()) is not None:
        change = singles.recognise(inserts, deletes, updates)
        made = None if change is None else singles.apply(g, change, nonnegative)
        if made is not None:
            done: Applied = made[0]
            return done
    g.may_change()
    check_callable(then, "then")
    then = None if then is None else _unchangeable(g, then)
    with g.device.active():
        fast = None
        if points is None or getattr(points, "size", 1) == 0:
            fast = recognition.recognise(g, inserts, deletes, updates)
        if fast is None and g.labelled and not g._numbers_are_labels:
            inserts, deletes, updates, points = g.ids_in_batch(inserts, deletes, updates, points)
            if points is None:
                fast = recognition.recognise(g, inserts, deletes, updates)
        if fast is not None:
            moves = (fast.counts[0] + fast.counts[2]) * (1 if g.directed else 2)
            if follows(g, moves) and g._adjacency.has_out:
                applied = _prepared(g, fast, nonnegative) if then is None else None
                if applied is None:
                    applied = fast_path.carry_out(g, fast, nonnegative, then)
                if applied is not None:
                    _note(g, fast)
                    return applied
        return _apply(g, Batch.of(g, inserts, deletes, updates, points, nonnegative), then)


def _prepared(g: Graph, batch: recognition.FastBatch, nonnegative: bool) -> Applied | None:
    """Apply a batch of several changes by a prepared launch; None if it needs the fast path."""
    count = sum(batch.counts)
    many = None if count == 1 else g.many_changes(count if g.directed else 2 * count)
    made = None if many is None else many.apply_many(g, batch, nonnegative)
    return None if made is None else made[0]


def _note(g: Graph, batch: recognition.FastBatch) -> None:
    """Note a batch that was applied, after which launches for others of its kind are prepared."""
    count = sum(batch.counts)
    if count == 1:
        g._adjacency.single_at = g.versions()
    elif not g.device.on_host:
        rows = count if g.directed else 2 * count
        g._adjacency.many_at[rows > g.device.serial_items] = g.versions()


def _unchangeable(g: Graph, then: Callable[[Applied], object]) -> Callable[[Applied], object]:
    """A call of ``then`` during which the graph cannot be changed."""

    def call(applied: Applied) -> None:
        try:
            g.undoable = True
            then(applied)
        finally:
            g.undoable = False

    return call


class Resolved(NamedTuple):
    """The rows that a batch means, all on the graph's device."""

    points: Array  # to delete
    deleted: Array  # edges to delete, ascending
    order: Array  # the same as they are mentioned, since their ids are used again in this order
    changed: Array  # edges that get other weights
    values: Array | None  # these weights
    absent: int
    repeated: int


def _resolve(g: Graph, batch: Batch) -> Resolved:
    """Find the rows that a batch means; nothing has changed if this raises."""
    back = None if g.directed else g.reverses()
    points, absent, repeated = (
        points_to_delete(g, batch) if batch.points.size else (batch.points, 0, 0)
    )
    deleted, order, deletes = edges_to_delete(g, batch.deletes, points, back)
    changed, values, updates = edges_to_update(g, batch.updates, deleted, back)
    points, deleted, changed, order = map(g.device.asarray, (points, deleted, changed, order))
    absent, repeated = absent + deletes[0] + updates[0], repeated + deletes[1] + updates[1]
    values = values if values is None else g.device.asarray(values)
    return Resolved(points, deleted, order, changed, values, absent, repeated)


def _apply(g: Graph, batch: Batch, then: Then) -> Applied:
    """Apply a batch on the host, or have the index follow it, or be built again."""
    named, undo = _resolve(g, batch), Steps()
    try:
        applied = carry_out(g, named, _with_reverses(g, batch), batch, undo)
        if then is not None:
            then(applied)
    except BaseException:
        run_all(undo)
        raise
    return applied


def carry_out(
    g: Graph, named: Resolved, given: dict[str, Array], batch: Batch, undo: Steps
) -> Applied:
    """Apply a batch; if that raises, `run_all` puts the graph back as it was.

    Parameters
    ----------
    g : Graph
    named : Resolved
    given : dict of str to array
        The columns of the edges to insert, those of the reverses last.
    batch : Batch
        The edges to insert, without the reverses.
    undo : list of callable
        Gets the steps that undo the changes.
    """
    edges, reverses = g.edges, g._pairs
    total = int(given["src"].size) if given else 0
    if named.deleted.size:
        edges.allow_deletes()
    if named.points.size:
        g.points.allow_deletes()
    capacity = edges.capacity
    undo.append(lambda: edge_ids.shrink(edges, capacity))
    first, again = edge_ids.allocate(edges, total)
    ids = _ids(edges, first, again, total)
    gapped = follows(g, total + int(named.deleted.size))
    applied = _record(g, named, ids, batch.count)
    _write(g, named, applied, given, total - again, undo)
    if total or named.deleted.size or named.points.size:
        undo.append(_reverses_back(g, reverses, named.deleted, ids))
        reverses = _new_reverses(g, batch, reverses, named.deleted, ids)
        if gapped:
            _follow(g, applied, given, not again)
        else:
            g.structure_changed()
        g._pairs = reverses
    elif named.changed.size:
        g.changes += 1
    applied._changes = g.changes
    return applied


def _record(g: Graph, named: Resolved, ids: Array, given: int) -> Applied:
    """The record of the changes, before they are made."""
    columns, deleted, changed = g.edges.columns, named.deleted, named.changed
    weight = columns["weight"].array if "weight" in columns else None
    old = None if weight is None else _of(weight, changed)
    return Applied(
        ids, deleted, _of(columns["src"].array, deleted), _of(columns["dst"].array, deleted),
        None if weight is None else _of(weight, deleted),
        changed, old, old if named.values is None else named.values, named.points,
        named.absent, named.repeated, g, given, _since=g.changes,
    )  # fmt: skip


def _write(
    g: Graph, named: Resolved, done: Applied, given: dict[str, Array], fresh: int,
    undo: Steps,
) -> None:  # fmt: skip
    """Delete rows, set weights, and insert edges, of which ``fresh`` have new ids."""
    edges = g.edges
    for table, dead in ((edges, named.order), (g.points, named.points)):
        if dead.size:
            _delete(table, dead, undo)
    if named.changed.size and "weight" in edges.columns:
        weight = edges.columns["weight"]
        undo.append(lambda: _put(weight.array, named.changed, done.old_weight))
        weight.array[named.changed] = named.values
    if done.inserted.size:
        _insert(edges, done.inserted, fresh, given, undo)


def follows(g: Graph, count: int) -> bool:
    """Whether the index is to follow a batch in place; if so it is ready for that."""
    index = g._adjacency
    if not g.gapped and index.built and SHARE * count < len(g.edges):
        g.moved()  # before: whatever stops this, no launch takes one kind of rows for the other
        index.loosen()
    if g.gapped:
        g.out_identity = False
    return g.gapped


def _follow(g: Graph, done: Applied, given: dict[str, Array], fresh: bool) -> None:
    """Update the gapped rows after a change of the edges; ``fresh``: all ids are new."""
    index = g._adjacency
    if done.deleted.size:
        index.remove(done.deleted, done.deleted_src, done.deleted_dst)
    if done.inserted.size:
        ids = done.inserted
        if is_host(given["src"]) and not is_host(ids) and fresh:  # all of them: consecutive
            ids = np.arange(len(g.edges) - ids.size, len(g.edges), dtype=np.int32)
        if index.insert(ids, given["src"], given["dst"]):
            g.moved()
    index.refresh()
    g.changes += 1


def _of(array: Array, ids: Array) -> Array:
    """Elements of an array; of none a view, which costs less."""
    return array[ids] if ids.size else array[:0]


def _put(array: Array, at: Array, values: Any) -> None:
    array[at] = values


# --- rows come and go ----------------------------------------------------------------------------


def _ids(edges: Table, first: int, again: int, count: int) -> Array:
    """Ids for new rows, see `edge_ids.allocate`."""
    xp, counters = edges.device.xp, edges._host_meta
    new = xp.arange(first, first + count - again, dtype=np.int32)
    if not again:
        return new
    head, ring = min(int(counters[HEAD]), int(counters[COMMITTED])), edges.ring
    return xp.concatenate([ring[xp.arange(head, head + again) & (ring.size - 1)], new])


def _insert(edges: Table, ids: Array, fresh: int, values: dict[str, Array], undo: Steps) -> None:
    """Write rows, and count them among those in use."""
    before, count = edges._host_meta.copy(), int(ids.size)
    for name, column in edges.columns.items():
        value = values[name] if name in values else edges._fill_value(column)
        here = column.array[int(before[COUNT]) :][:count] if fresh == count else None
        if here is None:
            column.array[ids] = edges.device.asarray(value)
        elif here.flags.c_contiguous and name in values and not is_host(here) and is_host(value):
            here.set(value)
        else:
            here[:] = edges.device.asarray(value)
    again = ids[: count - fresh]
    counters = edges._host_meta

    def restore() -> None:
        if again.size:
            edges.hidden("dead")[again] = 1
        edges._host_meta[:] = before
        edges._host_meta[CAPACITY] = edges.capacity
        edges._publish_counters()

    undo.append(restore)
    if again.size:
        edges.hidden("dead")[again] = 0
    counters[COUNT] += fresh
    counters[HEAD] += count - fresh
    edges._publish_counters()


def _delete(table: Table, ids: Array, undo: Steps) -> None:
    """Mark rows deleted."""
    before = table._host_meta.copy()

    def restore() -> None:
        table.hidden("dead")[ids] = 0  # which is another array if it was resized meanwhile
        table._host_meta[:] = before
        table._host_meta[CAPACITY] = table.capacity
        table._publish_counters()

    undo.append(restore)
    table._tombstone(ids)


# --- reverses ------------------------------------------------------------------------------------


def _with_reverses(g: Graph, batch: Batch) -> dict[str, Array]:
    """The columns of all edges to insert: of a graph that is not directed, both arcs."""
    given = batch.inserts
    if g.directed or not batch.count:
        return given
    xp: Any = np if is_host(given["src"]) else g.device.xp
    turned: dict[str, Any] = {"src": given["dst"], "dst": given["src"]}
    no_loop: Any = given["src"] != given["dst"]
    return {
        name: xp.concatenate([a, turned.get(name, a)[no_loop]])  # type: ignore[index]
        for name, a in given.items()
    }


def _new_reverses(
    g: Graph, batch: Batch, reverses: Array | None, deleted: Array, ids: Array
) -> Array | None:
    """Each edge's reverse, when ``deleted`` are deleted and ``ids`` inserted: first those given."""
    if ids.size:
        g._forget_order(ids)
    if reverses is None:
        return None
    edges, xp = g.edges, g.device.xp
    reverses[deleted] = -1
    if not ids.size:
        return reverses
    longer = reverses
    if reverses.size < len(edges):
        longer = xp.full(edges.capacity, -1, np.int32)
        longer[: reverses.size] = reverses
    given = ids[: batch.count]
    longer[given] = given
    no_loop = edges.device.asarray(batch.inserts["src"] != batch.inserts["dst"])
    forth, again = given[no_loop], ids[batch.count :]
    longer[forth] = again
    longer[again] = forth
    return longer


def _reverses_back(
    g: Graph, reverses: Array | None, deleted: Array, ids: Array
) -> Callable[[], None]:
    """Return a function that restores the reverses; edges ``ids`` had none."""
    before = None if reverses is None else reverses[deleted]

    def restore() -> None:
        if reverses is not None:
            reverses[ids[ids < reverses.size]] = -1
            reverses[deleted] = before
        g.structure_changed(reverses)

    return restore


def _paired(xp: Any, forth: Array, again: Array, src: Array, dst: Array) -> tuple[Array, Array]:
    """Pair the k-th edge from u to v with the k-th from v to u; others are left out."""
    keys, back = pair_keys(src[forth], dst[forth]), pair_keys(dst[again], src[again])
    rank = xp.arange(keys.size) - xp.searchsorted(keys, keys, "left")
    at = xp.searchsorted(back, keys, "left") + rank
    kept = at < xp.searchsorted(back, keys, "right")
    return forth[kept], again[at[kept]]


def pair_up(g: Graph, partial: bool = False) -> Array:
    """Each live edge's reverse, shape (len(edges),), int32; a loop is its own, dead ones have -1.

    The k-th edge from u to v, by weight and id, belongs to the k-th from v to u.  With ``partial``,
    edges without reverse have -1, too.

    Raises
    ------
    ValueError
        If an edge has no reverse.
    """
    xp: Any = g.device.xp
    edges = g.edges
    with g.device.active():
        ids: Any = edges.ids()
        ends: Any = (edges.columns[c].array[ids].astype(np.int64) for c in ("src", "dst"))
        src, dst = ends
        weight = edges.columns.get("weight")
        if weight is not None and not weight.size:
            order: Any = xp.argsort(weight.array[ids], kind="stable")
            ids, src, dst = ids[order], src[order], dst[order]
        forth = xp.argsort((src << 32) | dst, kind="stable")
        again = xp.argsort((dst << 32) | src, kind="stable")
        odd = (src[forth] != dst[again]) | (dst[forth] != src[again])
        if any_true(odd):
            if not partial:
                u, v = (name_of(g, p) for p in without_reverse(*map(g.device.to_host, (src, dst))))
                raise ValueError(
                    f"the graph is not directed, but edge {u} -> {v} has no reverse: Graph.apply "
                    "inserts and deletes both"
                )
            forth, again = _paired(xp, forth, again, src, dst)
        back = g.device.full(len(edges), -1, np.int32)
        back[ids[forth]] = ids[again]
        loop = ids[src == dst]
        back[loop] = loop
        return back
