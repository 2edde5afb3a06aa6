"""The vertices around many queries that dense subgraphs of bounded size may have, on the device.

One launch finds them for all queries of a batch.  Pairs of a query and a vertex are in one hash
table.  Of the vertices within the distance that the degree allows, in the core of this degree,
those of too few neighbours in common with the query are left out, then, again and again, those of
too few neighbours or common neighbours among the rest.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_cas, atomic_or, atomic_sub, i32, i64, u64

ADJACENT = 1 << 24  # added to the number of common neighbours: the vertex is the query's neighbour
QUERY = 1 << 28  # the same of the query itself, which needs no common neighbours
VERTEX, MOST_BOTH = (1 << 31) - 1, (1 << 17) - 1  # fields of the keys of vertices that are left
QUERY_SHIFT = 48
MAX_PROBES = 64  # of the hash table, which is else too full


class Surroundings(NamedTuple):
    """What the kernels work on.

    ``queries`` has a row for each: its ``vertex``; the ``degree`` to reach; the ``distance`` of the
    vertices; ``least``, the number of common neighbours that it has with its neighbours, two more
    with others; ``size``, how many vertices there are.

    ``slots`` is the hash table: ``key``; ``common``, neighbours of the query that are adjacent;
    ``degree`` and ``both``, neighbours and common neighbours that are left; ``number``, -1 of a
    vertex that is left out, 0 of another, or, if it has one, its number, from 1 on.
    """

    graph: Any
    queries: Any
    slots: Any
    counters: Any  # scalars: ``full``, whether the hash table is too full
    shift: i32  # 64 less the binary logarithm of the number of slots


@func
def key_of(query, v):
    return (u64(query) << u64(32) | u64(v)) + u64(1)


@func
def first_slot(key, shift):
    """Give the slot at which the search for a key begins."""
    return i64(key * u64(0x9E3779B97F4A7C15) >> u64(shift))


@func
def slot_of(around, query, v):
    """Give the slot of a vertex of a query, -1 if it has none."""
    key = key_of(query, v)
    at, mask = first_slot(key, around.shift), (i64(1) << i64(64 - around.shift)) - 1
    probes, found = 1, around.slots[at].key
    while found != key and found != u64(0) and probes < MAX_PROBES:
        at = (at + 1) & mask
        found = around.slots[at].key
        probes += 1
    return at if found == key else i64(-1)


@func
def enter(around, query, v):
    """Give the slot of a vertex of a query, and whether it is new; -1 if the table is too full."""
    key = key_of(query, v)
    at, mask = first_slot(key, around.shift), (i64(1) << i64(64 - around.shift)) - 1
    old = atomic_cas(around.slots[at].key, u64(0), key)
    probes = 1
    while old != u64(0) and old != key and probes < MAX_PROBES:
        at = (at + 1) & mask
        old = atomic_cas(around.slots[at].key, u64(0), key)
        probes += 1
    if old != u64(0) and old != key:
        around.counters.full = i32(1)
        at = i64(-1)
    return at, old == u64(0)


@kernel
def enter_query(q, around, entries, following):
    """Enter the query."""
    at, new = enter(around, q.id, q.vertex)
    if new:
        around.slots[at].common = i32(QUERY)
        entries.add(query=q.id, vertex=q.vertex, slot=i32(at))
        following.add(query=q.id, vertex=q.vertex, slot=i32(at), level=0)


@kernel
def spread(e, around, entries, following):
    """Enter the neighbours of a vertex; count common neighbours at those of the query's."""
    q = around.queries[e.query]
    query, degree, level, last = e.query, q.degree, e.level, e.level + 1 >= q.distance
    add = i32(0)
    if level == 0:
        add = i32(ADJACENT)
    elif level == 1:
        add = i32(1)
    for t in around.graph.points[e.vertex].outnbrs:
        if t.core >= degree:
            at, new = enter(around, query, t.id)
            if at >= 0:
                if add > 0:
                    atomic_add(around.slots[at].common, add)
                if new:
                    entries.add(query=query, vertex=t.id, slot=i32(at))
                    if not last:
                        following.add(query=query, vertex=t.id, slot=i32(at), level=level + 1)


@func
def needed(s, least):
    """Give how many common neighbours a vertex needs."""
    return least if s.common >= ADJACENT else least + 2


@kernel
def select(e, around, alive):
    """Keep a vertex of enough common neighbours."""
    s = around.slots[e.slot]
    least = around.queries[e.query].least
    if s.common >= QUERY or s.common % ADJACENT >= needed(s, least):
        alive.add(query=e.query, vertex=e.vertex, slot=e.slot)
    else:
        s.number = i32(-1)


@kernel
def count(e, around):
    """Count the neighbours that are left, and the common neighbours among them."""
    query, degree = e.query, around.queries[e.query].degree
    inside, both = i32(0), i32(0)
    for t in around.graph.points[e.vertex].outnbrs:
        if t.core >= degree:
            at = slot_of(around, query, t.id)
            if at >= 0 and around.slots[at].number == 0:
                inside += 1
                if around.slots[at].common >= ADJACENT:
                    both += 1
    s = around.slots[e.slot]
    s.degree = inside
    s.both = both


@kernel
def remove(e, around, following):
    """Remove a vertex of too few neighbours."""
    s, q = around.slots[e.slot], around.queries[e.query]
    if s.degree < q.degree or (s.common < QUERY and s.both < needed(s, q.least)):
        s.number = i32(-1)
        following.add(query=e.query, vertex=e.vertex, slot=e.slot, level=0)


@kernel
def peel(e, around, following):
    """Remove the neighbours of a removed vertex that have too few neighbours without it."""
    query = e.query
    q = around.queries[query]
    degree, least = q.degree, q.least
    adjacent = around.slots[e.slot].common >= ADJACENT
    for t in around.graph.points[e.vertex].outnbrs:
        if t.core >= degree:
            at = slot_of(around, query, t.id)
            if at >= 0 and around.slots[at].number == 0:
                s = around.slots[at]
                low = atomic_sub(s.degree, i32(1)) <= degree
                if adjacent:
                    few = atomic_sub(s.both, i32(1)) <= needed(s, least)
                    low = low or (few and s.common < QUERY)
                if low and atomic_cas(s.number, i32(0), i32(-1)) == 0:
                    following.add(query=query, vertex=t.id, slot=i32(at), level=0)


@kernel
def collect(e, around, left):
    """Add a vertex that is left to a list."""
    s = around.slots[e.slot]
    if s.number == 0:
        less = i64(MOST_BOTH)  # ascending: the query, then the vertices of most common neighbours
        if s.common < QUERY:
            less = max(less - s.both, i64(1))
        else:
            less = i64(0)
        left.add(key=i64(e.query) << QUERY_SHIFT | less << 31 | i64(e.vertex))


@kernel
def clear(e, around):
    """Empty a slot."""
    s = around.slots[e.slot]
    s.key = u64(0)
    s.common = i32(0)
    s.number = i32(0)


@program
def find_candidates(queries, entries, alive, left, now, then, around):
    """Find the vertices around queries that subgraphs may have: those of ``left``."""
    foreach(entries, clear, around)
    entries.clear()
    alive.clear()
    left.clear()
    now.clear()
    then.clear()
    foreach(queries, enter_query, around, entries, now)
    while not now.empty:
        foreach(now, spread, around, entries, then)
        now, then = then, now
        then.clear()
    if around.counters.full == 0:
        foreach(entries, select, around, alive)
    foreach(alive, count, around)
    foreach(alive, remove, around, now)
    while not now.empty:
        foreach(now, peel, around, then)
        now, then = then, now
        then.clear()
    foreach(alive, collect, around, left)


@kernel
def enter_row(r, queries, rows, adjacency, around, entries):
    """Enter a vertex whose number is known, and empty its row of bits."""
    q = queries[r.query]
    at, new = enter(around, r.query, r.vertex)
    if new:
        entries.add(query=r.query, vertex=r.vertex, slot=i32(at))
    if at >= 0:
        around.slots[at].number = i32(r.id - q.first_row) + 1
    first = q.first_word + (r.id - q.first_row) * i64(q.words)
    for j in range(q.words):
        adjacency[first + j] = u64(0)


@kernel
def fill_row(r, queries, adjacency, around):
    """Set the bits of a vertex's neighbours among the vertices of its query."""
    q = queries[r.query]
    first = q.first_word + (r.id - q.first_row) * i64(q.words)
    query = r.query
    for t in around.graph.points[r.vertex].outnbrs:
        slot, at = slot_of(around, query, t.id), i64(-1)
        if slot >= 0:
            at = i64(around.slots[slot].number) - 1
        if at >= 0:
            atomic_or(adjacency[first + (at >> 6)], u64(1) << u64(at & 63))


@program
def fill_rows(rows, entries, queries, adjacency, around):
    """Fill the rows of bits of the vertices of all queries."""
    foreach(entries, clear, around)
    entries.clear()
    foreach(rows, enter_row, queries, rows, adjacency, around, entries)
    foreach(rows, fill_row, queries, adjacency, around)
