"""Batches of changes, applied to a graph: all of them or none.

The edges' table is the truth; the index follows.  A batch is prepared first, which may fail and
has changed nothing then; what is written in place after that is put back if anything fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.batch import Applied, Batch, Named, candidates, none, pair_keys
from morph.device import Array, is_host
from morph.dtypes import ID_LIMIT
from morph.store import COMMITTED, COUNT, HEAD, TAIL
from morph.table import Table

if TYPE_CHECKING:
    from morph.graph import Graph

ROUNDS = 8  # of looking for further edges of one pair, before all edges are sorted
SHARE = 4  # of batches that change more than this part of the edges, no index is made to follow


Then = Callable[[Applied], object] | None


def apply(g: Graph, batch: Batch, then: Then = None) -> Applied:
    """Do what `Graph.apply` promises."""
    with g.device.active():
        return _apply(g, batch, then)


def _apply(g: Graph, batch: Batch, then: Then) -> Applied:
    xp, edges, columns = g.device.xp, g.edges, g.edges.columns
    back = None if g.directed else g.reverses()
    held = g._pairs
    points, absent, repeated = _points(g, batch) if batch.points.size else (batch.points, 0, 0)
    gone, more = _deleted(g, batch.deletes, points, back)
    absent, repeated = absent + more[0], repeated + more[1]
    changed, values, more = _updated(g, batch.updates, gone, back)
    absent, repeated = absent + more[0], repeated + more[1]
    given = _with_reverses(g, batch)
    total = int(given["src"].size) if given else 0
    if gone.size:
        edges.allow_deletes()
    if points.size:
        g.points.allow_deletes()
    ids, fresh = _places(edges, total)
    undo = list[Callable[[], None]]()
    moves = total + int(gone.size)
    loose = _follows(g, moves)
    weighted = "weight" in columns
    old = _of(columns["weight"].array, changed) if weighted else None
    applied = Applied(
        ids, gone, _of(columns["src"].array, gone), _of(columns["dst"].array, gone),
        _of(columns["weight"].array, gone) if weighted else None,
        changed, old, values if weighted else None, points, absent, repeated,
        g, batch.count, _since=g.changes,
    )  # fmt: skip
    try:
        for table, dead in ((edges, gone), (g.points, points)):
            if dead.size:
                _bury(table, dead, undo)
        if changed.size and weighted:
            weight = columns["weight"]
            undo.append(lambda: _put(weight.array, changed, old))
            weight.array[changed] = values
        if total:
            _insert(edges, ids, fresh, given, undo)
        if moves or points.size:
            undo.append(lambda pairs=held: g.structure_changed(pairs))  # type: ignore[misc]
            if total:
                g._forget_order(ids)
                held = held if held is None else _paired(xp, edges, held, ids, batch)
            if loose:
                _follow(g, applied, given, fresh == total)
            else:
                g.structure_changed()
            g._pairs = held
        elif changed.size:
            g.changes += 1
        if then is not None:
            then(applied)
    except BaseException:
        for step in reversed(undo):
            step()
        raise
    applied._changes = g.changes
    return applied


def _follows(g: Graph, count: int) -> bool:
    """Whether the index is to follow a batch in place; if so it is ready for that."""
    index = g._adjacency
    if not g.loose and index.built and SHARE * count < len(g.edges):
        g.version += (
            1  # before: whatever stops this, no launch takes one kind of rows for the other
        )
        index.loosen()
    if g.loose:
        g.out_identity = False
    return g.loose


def _follow(g: Graph, done: Applied, given: dict[str, Array], fresh: bool) -> None:
    """Have the loose rows follow what happened to the edges; ``fresh``: all ids are new."""
    index = g._adjacency
    if done.deleted.size:
        index.remove(done.deleted, done.deleted_src, done.deleted_dst)
    if done.inserted.size:
        ids = done.inserted
        if is_host(given["src"]) and not is_host(ids) and fresh:  # all of them: consecutive
            ids = np.arange(len(g.edges) - ids.size, len(g.edges), dtype=np.int32)
        g.version += index.insert(ids, given["src"], given["dst"])
    index.refresh()
    g.changes += 1


def _of(array: Array, ids: Array) -> Array:
    """Elements of an array; of none a view, which costs less."""
    return array[ids] if ids.size else array[:0]


def _put(array: Array, at: Array, values: Any) -> None:
    array[at] = values


# --- which rows ----------------------------------------------------------------------------------


def _points(g: Graph, batch: Batch) -> tuple[Array, int, int]:
    """The points to delete, ascending; how many are dead, and how many are named again."""
    asked = batch.points
    points = g.device.xp.unique(asked)
    repeated, absent = int(asked.size - points.size), 0
    if points.size and g.points.deletes:
        alive = g.points.hidden("dead")[points] == 0
        absent = int(points.size) - int(alive.sum())
        points = points[alive]
    if points.size and batch.count:
        mark = g.device.zeros(len(g.points), np.bool_)
        mark[points] = True
        for name in ("src", "dst"):
            bad = mark[g.device.asarray(batch.inserts[name])]
            if bool(bad.any()):
                k = int(bad.argmax())
                p = int(batch.inserts[name][k])
                raise ValueError(f"inserts.{name}[{k}] = {p} is deleted in this batch")
    return points, absent, repeated


def _deleted(
    g: Graph, named: Named, points: Array, back: Array | None
) -> tuple[Array, tuple[int, int]]:
    """Ids of the edges to delete, ascending; how many are absent, how many named again."""
    xp = g.device.xp
    if not named.count and not points.size:
        return points, (0, 0)
    found, absent = _found(g, named, back is not None, many=True)
    ids = _unique(xp, found if back is None else xp.concatenate([found, back[found]]))
    once = _unique(xp, found if back is None else xp.minimum(found, back[found]))
    repeated = int(found.size - once.size)
    if points.size and g.loose:
        index = g._adjacency
        at = [index.rows(d).entries_at(points) for d in ("out", "in")[: 1 + (back is None)]]
        if back is not None:
            at.append(back[at[0]])
        ids = _unique(xp, xp.concatenate([ids, *at]))
    elif points.size:
        mark = g.device.zeros(len(g.points), np.bool_)
        mark[points] = True
        ends = [g.edges.columns[c].array[: len(g.edges)] for c in ("src", "dst")]
        at = (mark[ends[0]] & (ends[0] >= 0)) | (mark[ends[1]] & (ends[1] >= 0))
        if g.edges.deletes:
            at &= g.edges.alive
        ids = _unique(xp, xp.concatenate([ids, xp.flatnonzero(at).astype(np.int32)]))
    return ids, (absent, repeated)


def _updated(
    g: Graph, named: Named, gone: Array, back: Array | None
) -> tuple[Array, Array | None, tuple[int, int]]:
    """Ids of the edges to change, ascending, their weights; how many absent, how many again."""
    xp = g.device.xp
    if not named.count:
        return none(g.device), named.weight, (0, 0)
    dying = None
    if gone.size:
        dying = g.device.zeros(len(g.edges), np.bool_)
        dying[gone] = True
    at, absent = _found(g, named, back is not None, many=False, without=dying, places=True)
    ids, where = at
    count = int(ids.size)
    once = _unique(xp, ids if back is None else xp.minimum(ids, back[ids]))
    if back is not None:
        ids, where = xp.concatenate([ids, back[ids]]), xp.concatenate([where, where])
    words = (ids.astype(np.int64) << 32) | where
    words.sort()
    last = xp.ones(words.size, bool)
    last[:-1] = (words[1:] >> 32) != (words[:-1] >> 32)
    words = words[last]
    assert named.weight is not None
    values = named.weight[words & 0xFFFFFFFF]
    return (words >> 32).astype(np.int32), values, (absent, count - int(once.size))


def _found(
    g: Graph, named: Named, both: bool, many: bool, without: Array | None = None,
    places: bool = False,
) -> tuple[Any, int]:  # fmt: skip
    """The live edges that are named; and how many are not there.

    Pairs name the edge of the least id; with ``many`` the k-th mention of a pair names its k-th
    edge.  Of a graph that is not directed (``both``) the pair's order does not count.
    """
    xp, edges = g.device.xp, g.edges
    if named.ids is not None:
        ids, live = named.ids, xp.ones(named.ids.size, bool)
        if edges.deletes:
            live &= edges.hidden("dead")[ids] == 0
        if without is not None:
            live &= ~without[ids]
    else:
        src, dst = named.src, named.dst
        if both:
            src, dst = xp.minimum(src, dst), xp.maximum(src, dst)
        assert src is not None
        ids, live = _search(g, src, dst, many, without)
    found = ids[live].astype(np.int32)
    absent = int(ids.size - found.size)
    return ((found, xp.flatnonzero(live)) if places else found), absent


def _search(
    g: Graph, src: Array, dst: Array, many: bool, without: Array | None
) -> tuple[Array, Array]:
    """For each pair the edge it names, and whether there is one."""
    if g.loose:
        found = _search_rows(g, src, dst, many, without)
        if found is not None:
            return found, found >= 0
    xp, columns = g.device.xp, g.edges.columns
    ids = candidates(g, src)
    if without is not None:
        ids = ids[~without[ids]]
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


def _search_rows(
    g: Graph, src: Array, dst: Array, many: bool, without: Array | None
) -> Array | None:
    """For each pair the edge it names, -1 if there is none; None if that takes many rounds."""
    xp, count = g.device.xp, int(src.size)
    rank = xp.zeros(count, np.int64)
    before = xp.zeros(count, np.int64)  # the mention of the same pair before
    last = 0
    if many and count > 1:
        asked = pair_keys(src, dst)
        order = xp.argsort(asked, kind="stable")
        line = asked[order]
        rank[order] = xp.arange(count) - xp.searchsorted(line, line, "left")
        before[order[1:]] = order[:-1]
        last = int(rank.max())
    if last > ROUNDS:
        return None
    found = xp.full(count, -1, np.int32)
    for r in range(last + 1):
        mine: Any = xp.flatnonzero(rank == r) if last else slice(None)
        some, to = src[mine], dst[mine]
        after = found[before[mine]] if r else xp.full(int(some.size), -1, np.int32)
        now = g._adjacency.find(some, to, after)
        if r:  # what follows an absent one is absent
            now[after < 0] = -1
        found[mine] = now
    for _ in range(ROUNDS if without is not None else 0):
        assert without is not None
        again = xp.flatnonzero((found >= 0) & without[found])
        if not again.size:
            return found
        found[again] = g._adjacency.find(src[again], dst[again], found[again])
    return found if without is None else None


def _unique(xp: Any, ids: Array) -> Array:
    """Ids once each, ascending; without `unique`, which is slow for few."""
    ids = xp.sort(ids)
    first = xp.ones(ids.size, bool)
    first[1:] = ids[1:] != ids[:-1]
    return ids[first]


# --- rows come and go ----------------------------------------------------------------------------


def _places(edges: Table, count: int) -> tuple[Array, int]:
    """Ids for new rows: behind the others while there is room, else those of dead rows first.

    The second value is how many of them were never used.
    """
    xp, words, first = edges.device.xp, edges.words, len(edges)
    free = int(words[COMMITTED]) - min(int(words[HEAD]), int(words[COMMITTED]))
    if first + count <= edges.capacity or not free:
        _enlarge(edges, first + count)
        return xp.arange(first, first + count, dtype=np.int32), count
    again = min(free, count)
    _enlarge(edges, first + count - again)
    words = edges.words
    head, ring = int(words[HEAD]), edges.hidden("free")
    old = ring[xp.arange(head, head + again) & (ring.size - 1)]
    new = xp.arange(first, first + count - again, dtype=np.int32)
    return xp.concatenate([old, new]), count - again


def _enlarge(edges: Table, rows: int) -> None:
    """Have memory for so many rows: by a quarter more, since edges are most of a graph."""
    if rows > edges.capacity:
        edges.resize(max(rows, min(edges.capacity + edges.capacity // 4 + 16, ID_LIMIT)))


def _insert(
    edges: Table, ids: Array, fresh: int, values: dict[str, Array], undo: list[Any]
) -> None:
    """Write rows, and count them among those in use."""
    before, count = edges.words.copy(), int(ids.size)
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
    words = edges.words

    def put_back() -> None:
        if again.size:
            edges.hidden("dead")[again] = 1
        edges.words[:] = before
        edges.settle()

    undo.append(put_back)
    if again.size:
        edges.hidden("dead")[again] = 0
    words[COUNT] += fresh
    words[HEAD] += count - fresh
    edges.settle()


def _bury(table: Table, ids: Array, undo: list[Any]) -> None:
    """Mark rows dead, and let them be used again."""
    before, xp = table.words.copy(), table.device.xp
    dead, ring = table.hidden("dead"), table.hidden("free")

    def put_back() -> None:
        dead[ids] = 0
        table.words[:] = before
        table.settle()

    undo.append(put_back)
    tail = int(before[TAIL])
    ring[xp.arange(tail, tail + ids.size) & (ring.size - 1)] = ids
    dead[ids] = 1
    table.words[TAIL] += ids.size
    table.settle()


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


def _paired(xp: Any, edges: Table, held: Array, ids: Array, batch: Batch) -> Array:
    """Each edge's reverse, when ``ids`` have come: the arcs given, then those back."""
    longer = held
    if held.size < len(edges):
        longer = xp.full(edges.capacity, -1, np.int32)
        longer[: held.size] = held
    given = ids[: batch.count]
    longer[given] = given
    no_loop = edges.device.asarray(batch.inserts["src"] != batch.inserts["dst"])
    forth, again = given[no_loop], ids[batch.count :]
    longer[forth] = again
    longer[again] = forth
    return longer


def pair_up(g: Graph) -> Array:
    """Each live edge's reverse, shape (len(edges),), int32; a loop is its own, dead ones have -1.

    The k-th edge from u to v, by weight and id, belongs to the k-th from v to u.

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
        if bool(odd.any()):
            k = int(odd.argmax())
            u, v = int(src[forth[k]]), int(dst[forth[k]])
            raise ValueError(f"the graph is not directed, but edge {u} -> {v} has no reverse")
        back = g.device.full(len(edges), -1, np.int32)
        back[ids[forth]] = ids[again]
        loop = ids[src == dst]
        back[loop] = loop
        return back
