"""Candidates of many queries: the vertices that a subgraph around a query may have, on the device.

One launch finds them for all queries of a batch.  Pairs of a query and a vertex are in one hash
table.  Candidates are in the core of the wanted degree, within the distance that this degree
allows, and have enough neighbours in common with the query.  Candidates with too few
neighbours or common neighbours among the others are removed, until there are no such ones.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_add, atomic_cas, atomic_or, atomic_sub, i32, i64, u64

ADJACENT = 1 << 24  # added to ``common`` of the query's neighbours
QUERY = 1 << 28  # added to ``common`` of the query, which needs no common neighbours
VERTEX, MAX_COMMON = (1 << 31) - 1, (1 << 17) - 1  # fields of the keys in ``remaining``
QUERY_SHIFT = 48
MAX_PROBES = 64  # after so many the hash table counts as full


class CandidateTable(NamedTuple):
    """The hash table, and what the kernels that fill it need.

    ``queries`` has a row for each: its ``vertex``; the ``degree`` to reach; the largest
    ``distance`` of candidates; ``min_common``, how many common neighbours it needs with a candidate
    that is its neighbour, two less than with others.

    ``slots`` are those of the table: ``key``; ``common``, the number of neighbours in common with
    the query; ``degree`` and ``common_left``, neighbours and common neighbours that are candidates;
    ``number``, -1 of a removed vertex, 0 of a candidate, or its place among them, from 1 on.
    """

    graph: Any
    queries: Any
    slots: Any
    counters: Any  # scalars: ``full``, whether the hash table is full
    shift: i32  # 64 less the binary logarithm of the number of slots; 0: no hashing (`first_slot`)


@func
def key_of(query, v):
    return (u64(query) << u64(32) | u64(v)) + u64(1)


@func
def first_slot(table, query, v):
    """Return the slot at which the search for a vertex of a query begins.

    Without hashing each pair of a query and a vertex has a slot of its own, which is this one.
    """
    at = i64(query) * len(table.graph.points) + i64(v)
    if table.shift > 0:
        at = i64(key_of(query, v) * u64(0x9E3779B97F4A7C15) >> u64(table.shift))
    return at


@func
def slot_of(table, query, v):
    """Return the slot of a vertex of a query, -1 if it has none."""
    key = key_of(query, v)
    at, mask = first_slot(table, query, v), (i64(1) << i64(64 - table.shift)) - 1
    probes, found = 1, table.slots[at].key
    while found != key and found != u64(0) and probes < MAX_PROBES:
        at = (at + 1) & mask
        found = table.slots[at].key
        probes += 1
    return at if found == key else i64(-1)


@func
def find_key(table, at, key):
    """Return the key of a slot, 0 if it was empty and now has the given key.

    Most slots are taken already: a load finds this without an atomic operation.
    """
    old = table.slots[at].key
    if old == u64(0):
        old = atomic_cas(table.slots[at].key, u64(0), key)
    return old


@func
def insert(table, query, v):
    """Return the slot of a vertex of a query, and whether it is new; -1 if the table is full."""
    key = key_of(query, v)
    at, mask = first_slot(table, query, v), (i64(1) << i64(64 - table.shift)) - 1
    old, probes = find_key(table, at, key), 1
    while old != u64(0) and old != key and probes < MAX_PROBES:
        at = (at + 1) & mask
        old = find_key(table, at, key)
        probes += 1
    if old != u64(0) and old != key:
        table.counters.full = i32(1)
        at = i64(-1)
    return at, old == u64(0)


@func
def insert_first(q, table):
    """Insert the vertex of a query; return its slot, and whether it is new."""
    at, new = insert(table, q.id, q.vertex)
    if new:
        table.slots[at].common = i32(QUERY)
    return at, new


@kernel
def insert_query(q, table, entries, next_frontier):
    """Insert the vertex of a query."""
    at, new = insert_first(q, table)
    if new:
        entries.add(query=q.id, vertex=q.vertex, slot=i32(at))
        next_frontier.add(query=q.id, vertex=q.vertex, slot=i32(at), level=0)


@kernel
def expand(e, table, entries, next_frontier):
    """Insert the neighbours of a vertex; near the query, count common neighbours."""
    q = table.queries[e.query]
    query, degree, level, last = e.query, q.degree, e.level, e.level + 1 >= q.distance
    add = i32(0)
    if level == 0:
        add = i32(ADJACENT)
    elif level == 1:
        add = i32(1)
    for t in table.graph.points[e.vertex].outnbrs:
        if t.core >= degree:
            at, new = insert(table, query, t.id)
            if at >= 0:
                if add > 0:
                    atomic_add(table.slots[at].common, add)
                if new:
                    entries.add(query=query, vertex=t.id, slot=i32(at))
                    if not last:
                        next_frontier.add(query=query, vertex=t.id, slot=i32(at), level=level + 1)


@func
def common_needed(s, min_common):
    """Return how many common neighbours a vertex needs."""
    return min_common if s.common >= ADJACENT else min_common + 2


@kernel
def select_by_common(e, table, alive):
    """List a vertex with enough common neighbours, remove another."""
    s = table.slots[e.slot]
    min_common = table.queries[e.query].min_common
    if s.common >= QUERY or s.common % ADJACENT >= common_needed(s, min_common):
        alive.add(query=e.query, vertex=e.vertex, slot=e.slot)
    else:
        s.number = i32(-1)


@kernel
def count_left(e, table):
    """Count the neighbours that are candidates, and those in common with the query."""
    query, degree = e.query, table.queries[e.query].degree
    inside, common_left = i32(0), i32(0)
    for t in table.graph.points[e.vertex].outnbrs:
        if t.core >= degree:
            at = slot_of(table, query, t.id)
            if at >= 0 and table.slots[at].number == 0:
                inside += 1
                if table.slots[at].common >= ADJACENT:
                    common_left += 1
    s = table.slots[e.slot]
    s.degree = inside
    s.common_left = common_left


@kernel
def remove(e, table, next_frontier):
    """Remove a vertex with too few neighbours."""
    s, q = table.slots[e.slot], table.queries[e.query]
    if s.degree < q.degree or (s.common < QUERY and s.common_left < common_needed(s, q.min_common)):
        s.number = i32(-1)
        next_frontier.add(query=e.query, vertex=e.vertex, slot=e.slot, level=0)


@kernel
def peel(e, table, next_frontier):
    """Remove the neighbours of a removed vertex that have too few neighbours without it."""
    query = e.query
    q = table.queries[query]
    degree, min_common = q.degree, q.min_common
    adjacent = table.slots[e.slot].common >= ADJACENT
    for t in table.graph.points[e.vertex].outnbrs:
        if t.core >= degree:
            at = slot_of(table, query, t.id)
            if at >= 0 and table.slots[at].number == 0:
                s = table.slots[at]
                too_few = atomic_sub(s.degree, i32(1)) <= degree
                if adjacent:
                    few = atomic_sub(s.common_left, i32(1)) <= common_needed(s, min_common)
                    too_few = too_few or (few and s.common < QUERY)
                if too_few and atomic_cas(s.number, i32(0), i32(-1)) == 0:
                    next_frontier.add(query=query, vertex=t.id, slot=i32(at), level=0)


@func
def order_key(e, s):
    """Return a key of ascending order: the queries, then their vertices of most common neighbours.

    The first vertex of a query is its own; ``s`` is the slot of the entry.
    """
    order = i64(MAX_COMMON)
    if s.common < QUERY:
        order = max(order - s.common_left, i64(1))
    else:
        order = i64(0)
    return i64(e.query) << QUERY_SHIFT | order << 31 | i64(e.vertex)


@kernel
def collect(e, table, remaining):
    """List a candidate that was not removed."""
    s = table.slots[e.slot]
    if s.number == 0:
        remaining.add(key=order_key(e, s))


@kernel
def clear(e, table):
    """Empty a slot."""
    s = table.slots[e.slot]
    s.key = u64(0)
    s.common = i32(0)
    s.number = i32(0)


@program
def clear_candidates(entries, alive, frontier, next_frontier, table):
    """Empty the hash table and the lists."""
    foreach(entries, clear, table)
    entries.clear()
    alive.clear()
    frontier.clear()
    next_frontier.clear()


@program
def reach_until_full(entries, frontier, next_frontier, table):
    """Insert all vertices near the queries in ``frontier``; end if the hash table is full."""
    while not frontier.empty and table.counters.full == 0:
        foreach(frontier, expand, table, entries, next_frontier)
        frontier, next_frontier = next_frontier, frontier
        next_frontier.clear()


@program
def reach_all(entries, frontier, next_frontier, table):
    """Insert all vertices near the queries in ``frontier``.

    The condition of the loop reads no scalars, for which a GPU needs a second barrier.  Continues
    after the hash table is full; `collect_results` finds that out.
    """
    while not frontier.empty:
        foreach(frontier, expand, table, entries, next_frontier)
        frontier, next_frontier = next_frontier, frontier
        next_frontier.clear()


@program
def reduce_candidates(entries, alive, frontier, next_frontier, table):
    """List the candidates among the entries in ``alive``, then remove some of these."""
    foreach(entries, select_by_common, table, alive)
    foreach(alive, count_left, table)
    foreach(alive, remove, table, frontier)
    while not frontier.empty:
        foreach(frontier, peel, table, next_frontier)
        frontier, next_frontier = next_frontier, frontier
        next_frontier.clear()


@program
def find_candidates(queries, entries, alive, remaining, frontier, next_frontier, table):
    """Find the candidates of queries: the keys of ``remaining``."""
    clear_candidates(entries, alive, frontier, next_frontier, table)
    remaining.clear()
    foreach(queries, insert_query, table, entries, frontier)
    reach_until_full(entries, frontier, next_frontier, table)
    frontier.clear()
    reduce_candidates(entries, alive, frontier, next_frontier, table)
    foreach(alive, collect, table, remaining)


@kernel
def insert_row(r, queries, rows, adjacency, table, entries):
    """Insert a candidate with its position, and clear its row of bits."""
    q = queries[r.query]
    at, new = insert(table, r.query, r.vertex)
    if new:
        entries.add(query=r.query, vertex=r.vertex, slot=i32(at))
    if at >= 0:
        table.slots[at].number = i32(r.id - q.first_row) + 1
    first = q.first_word + (r.id - q.first_row) * i64(q.words)
    for j in range(q.words):
        adjacency[first + j] = u64(0)


@kernel
def fill_row(r, queries, adjacency, table):
    """Set the bits of a vertex's neighbours among the vertices of its query."""
    q = queries[r.query]
    first = q.first_word + (r.id - q.first_row) * i64(q.words)
    query = r.query
    for t in table.graph.points[r.vertex].outnbrs:
        slot, at = slot_of(table, query, t.id), i64(-1)
        if slot >= 0:
            at = i64(table.slots[slot].number) - 1
        if at >= 0:
            atomic_or(adjacency[first + (at >> 6)], u64(1) << u64(at & 63))


@program
def fill_rows(rows, entries, queries, adjacency, table):
    """Fill the rows of bits of the vertices of all queries."""
    foreach(entries, clear, table)
    entries.clear()
    foreach(rows, insert_row, queries, rows, adjacency, table, entries)
    foreach(rows, fill_row, queries, adjacency, table)


@kernel
def insert_candidate(r, table, entries):
    """Insert a vertex as a candidate of the only query."""
    at, new = insert(table, 0, r.vertex)
    if new:
        entries.add(query=0, vertex=r.vertex, slot=i32(at))


@program
def set_candidates(rows, entries, table):
    """Make the vertices of rows the candidates of the only query."""
    foreach(entries, clear, table)
    entries.clear()
    foreach(rows, insert_candidate, table, entries)
