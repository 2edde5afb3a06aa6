"""Batches of changes, applied to a graph: all of them or none.

The edges' table is the truth; the index follows.  A batch is prepared first, which may fail and
has changed nothing then; what is written in place after that is put back if anything fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.batch import Applied, Batch, Named, candidates, none, pair_keys
from morph.device import Array, Device, is_host
from morph.dtypes import ID_LIMIT
from morph.store import COMMITTED, COUNT, HEAD, TAIL
from morph.table import Table

if TYPE_CHECKING:
    from morph.graph import Graph

ROUNDS = 8  # of looking for further edges of one pair, before all edges are sorted
SHARE = 4  # of batches that change more than this part of the edges, no index is made to follow


def apply(g: Graph, batch: Batch) -> Applied:
    """Do what `Graph.apply` promises."""
    with g.device.active():
        return _apply(g, batch)


def _apply(g: Graph, batch: Batch) -> Applied:
    xp, edges, columns = g.device.xp, g.edges, g.edges.columns
    back = None if g.directed else g.reverses()
    points, absent, repeated = _points(g, batch) if batch.points.size else (batch.points, 0, 0)
    gone, more = _deleted(g, batch.deletes, points, back)
    absent, repeated = absent + more[0], repeated + more[1]
    changed, values, more = _updated(g, batch.updates, gone, back)
    absent, repeated = absent + more[0], repeated + more[1]
    asarray = g.device.asarray
    points, gone, changed = asarray(points), asarray(gone), asarray(changed)
    values = values if values is None else asarray(values)
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
        g, batch.count,
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
            undo.append(lambda pairs=back: g.structure_changed(pairs))  # type: ignore[misc]
            if total:
                g._forget_order(ids)
                back = back if back is None else _paired(xp, edges, back, ids, batch)
            if loose:
                _follow(g, applied, given, fresh == total)
            else:
                g.structure_changed()
            g._pairs = back
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

# A few ids are on the host (see `Batch`), and only what they ask of a GPU's arrays is fetched.


def _take(device: Device, array: Array, at: Array) -> Array:
    """Elements of an array of the device, where ``at`` lies."""
    if is_host(at) and not is_host(array):
        return device.to_host(array[device.asarray(at)])
    return array[at]


def _of_kind(a: Array, like: Array, device: Device) -> Array:
    """An array where ``like`` lies."""
    return device.to_host(a) if is_host(like) else device.asarray(a)


def _among(device: Device, ids: Array, ascending: Array) -> Array:
    """Which ids are among some that ascend."""
    xp: Any = _module(device, ids)
    if not ascending.size:
        return xp.zeros(ids.size, bool)
    at = xp.minimum(xp.searchsorted(ascending, ids), ascending.size - 1)
    return ascending[at] == ids


def _module(device: Device, a: Array) -> Any:
    """NumPy, or CuPy where the array lies on a GPU."""
    return np if is_host(a) else device.xp


def _points(g: Graph, batch: Batch) -> tuple[Array, int, int]:
    """The points to delete, ascending; how many are dead, and how many are named again."""
    asked = batch.points
    points = _unique(_module(g.device, asked), asked)
    repeated, absent = int(asked.size - points.size), 0
    if points.size and g.points.deletes:
        alive = _take(g.device, g.points.hidden("dead"), points) == 0
        absent = int(points.size) - int(alive.sum())
        points = points[alive]
    if points.size and batch.count:
        for name in ("src", "dst"):
            ends = batch.inserts[name]
            bad = _among(g.device, ends, _of_kind(points, ends, g.device))
            if bool(bad.any()):
                k = int(bad.argmax())
                raise ValueError(f"inserts.{name}[{k}] = {int(ends[k])} is deleted in this batch")
    return points, absent, repeated


def _deleted(
    g: Graph, named: Named, points: Array, back: Array | None
) -> tuple[Array, tuple[int, int]]:
    """Ids of the edges to delete, ascending; how many are absent, how many named again."""
    if not named.count and not points.size:
        return none(g.device), (0, 0)
    found, absent = _found(g, named, many=True)
    xp = _module(g.device, found)
    turned = found if back is None else _take(g.device, back, found)
    once = _unique(xp, xp.minimum(found, turned))
    ids = once if back is None else _unique(xp, xp.concatenate([found, turned]))
    if points.size:
        xp, at = g.device.xp, _edges_at(g, g.device.asarray(points), back)
        ids = _unique(xp, xp.concatenate([g.device.asarray(ids), at]))
    return ids, (absent, int(found.size - once.size))


def _edges_at(g: Graph, points: Array, back: Array | None) -> Array:
    """Ids of all live edges that have an end among some points; some twice."""
    if g.loose:
        index, xp = g._adjacency, g.device.xp
        at = [index.rows(d).entries_at(points) for d in ("out", "in")[: 1 + (back is None)]]
        return xp.concatenate(at if back is None else [at[0], back[at[0]]])
    mark = g.device.zeros(len(g.points) + 1, np.bool_)  # the last is no point, -1
    mark[points] = True
    src, dst = (g.edges.columns[c].array[: len(g.edges)] for c in ("src", "dst"))
    found = mark[src] | mark[dst]
    if g.edges.deletes:
        found &= g.edges.alive
    return g.device.xp.flatnonzero(found).astype(np.int32)


def _updated(
    g: Graph, named: Named, gone: Array, back: Array | None
) -> tuple[Array, Array | None, tuple[int, int]]:
    """Ids of the edges to change, ascending, their weights; how many absent, how many again."""
    if not named.count:
        return none(g.device), named.weight, (0, 0)
    ids, absent, where = _found(g, named, many=False, without=gone, places=True)
    xp, count = _module(g.device, ids), int(ids.size)
    turned = ids if back is None else _take(g.device, back, ids)
    once = _unique(xp, xp.minimum(ids, turned))
    if back is not None:
        ids, where = xp.concatenate([ids, turned]), xp.concatenate([where, where])
    words = (ids.astype(np.int64) << 32) | where
    words.sort()
    last = xp.ones(words.size, bool)
    last[:-1] = (words[1:] >> 32) != (words[:-1] >> 32)
    words = words[last]
    weight = _of_kind(named.weight, words, g.device)
    values = weight[words & 0xFFFFFFFF]
    return (words >> 32).astype(np.int32), values, (absent, count - int(once.size))


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
        live: Any = _module(g.device, ids).ones(ids.size, bool)
        if edges.deletes and ids.size:
            live &= _take(g.device, edges.hidden("dead"), ids) == 0
        if without is not None and without.size:
            live &= ~_among(g.device, ids, _of_kind(without, ids, g.device))
    else:
        xp = g.device.xp
        src, dst = g.device.asarray(named.src), g.device.asarray(named.dst)
        if not g.directed:
            src, dst = xp.minimum(src, dst), xp.maximum(src, dst)
        gone = None if without is None or not without.size else g.device.asarray(without)
        ids, live = _search(g, src, dst, many, gone)
        assert named.src is not None
        ids, live = (_of_kind(a, named.src, g.device) for a in (ids, live))
    found = ids[live].astype(np.int32)
    absent = int(ids.size - found.size)
    return (found, absent, _module(g.device, live).flatnonzero(live)) if places else (found, absent)


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
        again = xp.flatnonzero((found >= 0) & _among(g.device, found, without))
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


def _paired(xp: Any, edges: Table, back: Array, ids: Array, batch: Batch) -> Array:
    """Each edge's reverse, when ``ids`` have come: the arcs given, then those back."""
    longer = back
    if back.size < edges.capacity:
        longer = xp.full(edges.capacity, -1, np.int32)
        longer[: back.size] = back
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
