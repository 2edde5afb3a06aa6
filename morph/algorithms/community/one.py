"""The search for a single query: one launch, except for the nodes of the branch and bound.

`decide` chooses degrees, finds the candidates of each (`candidates`), orders them, fills their rows
of bits and searches greedily, until the best degree is known or nodes of the branch and bound
(`search`) have to be visited.  A query that needs no nodes takes one launch and one copy to the
host; the steps of `tasks` take some forty of these, which on a GPU cost more than most searches.
If a set has more than `ROWS` candidates, `decide` ends, and `tasks` searches for the query.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.community.candidates import (
    QUERY_SHIFT,
    VERTEX,
    CandidateTable,
    find_candidates,
    slot_of,
)
from morph.algorithms.community.search import begin_search, max_distance, search_greedily
from morph.launch.foreach import foreach, kernel, program
from morph.prelude import atomic_add, atomic_max, atomic_min, atomic_or, i32, i64, u64

ROWS = 256  # maximum number of candidates of a degree
DECIDED, VISIT, WIDE = 0, 1, 2  # result of `decide`: finished, nodes to visit, too many candidates
OUTCOME = 5  # numbers before the members: the result of `decide`, and those of `write_outcome`


class OneQuery(NamedTuple):
    """The arguments of `decide`.

    ``queries`` has a row for each degree that is searched for at the same time, with the columns of
    `CandidateTable` and of `SearchState`.  ``rows`` has `ROWS` rows for each of these: ``key``, the
    keys of its candidates in any order, ``vertex``, its candidates in the order of their keys, and
    the columns of `SearchState`, as has ``adjacency``.  ``counters`` are scalars: ``best`` and
    ``bound``, the best degree so far and an upper bound; ``kept``, the degree of the subgraph in
    ``outcome``, and ``size``, its number of vertices; ``total``, the number of visited nodes;
    ``wide``, whether a degree has too many candidates; and the scalars of `SearchState`.
    """

    queries: Any
    active: Any
    rows: Any
    adjacency: Any
    counters: Any
    queue: Any
    deferred: Any
    table: CandidateTable
    entries: Any
    alive: Any
    remaining: Any
    frontier: Any
    next_frontier: Any
    outcome: Any  # a column: the numbers that the host reads


@kernel
def begin_degree(q, s, vertex, least, most, degree, count, words):
    """Begin the search for one of ``count`` degrees from ``degree`` on."""
    k = degree + i32(q.id)
    q.vertex = vertex
    q.degree = k
    q.min_size = least
    q.max_size = most
    q.min_common = 2 * k - most
    q.distance = i32(2) if 2 * k - most > -2 else max_distance(k, most)
    q.words = words
    q.first_row = i64(ROWS) * q.id
    q.first_word = q.first_row * words
    q.size = i32(0)
    q.lower = i32(q.id)
    q.higher = count - 1 - i32(q.id)
    q.solved = i32(0)
    q.found_degree = i32(-1)
    q.open = i32(1)
    q.nodes = i64(0)
    s.active.add(q)


@kernel
def store_key(r, s):
    """Store the key of a candidate in a row of its query, if one is unused."""
    q = s.queries[r.key >> QUERY_SHIFT]
    at = atomic_add(q.size, 1)
    if at < ROWS:
        s.rows[q.first_row + at].key = r.key


@kernel
def order(r, s):
    """Store a candidate at the rank of its key, and clear its row of bits."""
    query, vertex = i32(r.key >> QUERY_SHIFT), i32(r.key & VERTEX)
    q, place = s.queries[query], i32(0)
    if q.size <= ROWS:
        for i in range(q.size):
            if s.rows[q.first_row + i].key < r.key:
                place += 1
        row = s.rows[q.first_row + place]
        row.vertex = vertex
        row.inside = i32(0)
        s.table.slots[slot_of(s.table, query, vertex)].number = place + 1
        for j in range(q.words):
            s.adjacency[q.first_word + place * i64(q.words) + j] = u64(0)


@kernel
def fill(r, s):
    """Set the bits of a candidate's neighbours among those of its query, and count them."""
    query, vertex = i32(r.key >> QUERY_SHIFT), i32(r.key & VERTEX)
    q = s.queries[query]
    if q.size <= ROWS:
        place = i64(s.table.slots[slot_of(s.table, query, vertex)].number) - 1
        first, among = q.first_word + place * q.words, i32(0)
        for t in s.table.graph.points[vertex].outnbrs:
            slot, at = slot_of(s.table, query, t.id), i64(-1)
            if slot >= 0:
                at = i64(s.table.slots[slot].number) - 1
            if at >= 0:
                atomic_or(s.adjacency[first + (at >> 6)], u64(1) << u64(at & 63))
                among += 1
        s.rows[q.first_row + place].among = among


@kernel
def check_size(q, s):
    """End the search for a degree whose candidates are too few, too many, or lack the query."""
    if q.size > ROWS:
        q.open = i32(0)
        q.solved = i32(1)  # as if undecided: the bound stays
        s.counters.wide = 1  # race: all write the same
    elif q.size < max(q.min_size, q.degree + 1) or s.rows[q.first_row].vertex != q.vertex:
        q.open = i32(0)
    else:
        q.max_size = min(q.max_size, q.size)


@kernel
def note(q, counters):
    """Add the nodes of the search for a degree; update the best degree and the bound."""
    atomic_add(counters.total, q.nodes)
    atomic_max(counters.best, i64(q.found_degree))
    if q.solved == 0 and q.open == 0:
        atomic_min(counters.bound, i64(q.degree - 1))


@kernel
def keep_best(q, s):
    """Store the vertices of a subgraph of the best degree, if it exceeds the stored one's."""
    best = s.counters.best
    if q.found_degree == best and atomic_max(s.counters.kept, best) < best:
        count = i64(OUTCOME)
        for i in range(q.size):
            if q.solution[i >> 6] >> u64(i & 63) & u64(1) != u64(0):
                s.outcome[count] = i64(s.rows[q.first_row + i].vertex)
                count += 1
        s.counters.size = count - OUTCOME


@kernel
def write_outcome(counters, outcome):
    """Write the numbers that the host reads, except the first."""
    outcome[1] = counters.best
    outcome[2] = counters.bound
    outcome[3] = counters.total
    outcome[4] = counters.size


@program
def begin_degrees(s, vertex, least, most, degree, count, words):
    """Find the candidates of degrees; return whether the hash table had a slot for each."""
    s.counters.wide = 0
    s.active.clear()
    foreach(s.queries[:count], begin_degree, s, vertex, least, most, degree, count, words)
    find_candidates(
        s.active, s.entries, s.alive, s.remaining, s.frontier, s.next_frontier, s.table
    )  # fmt: skip
    foreach(s.remaining, store_key, s)
    return s.table.counters.full == 0


@program
def search_degrees(s, words):
    """Search greedily; add the root nodes of undecided degrees to the queue."""
    s.counters.open = 0
    foreach(s.remaining, order, s)
    foreach(s.remaining, fill, s)
    foreach(s.active, check_size, s)
    foreach(s.active, search_greedily, s.queries, s.rows, s.adjacency, words,
            balance="warp", where=lambda q: q.open > 0)  # fmt: skip
    foreach(s.active, begin_search, s.counters, s.queue, where=lambda q: q.open > 0)


@program
def note_degrees(s):
    """Collect the results of all degrees that were searched for."""
    foreach(s.active, note, s.counters)
    foreach(s.active, keep_best, s)
    s.active.clear()


@program
def begin_query(s, best, bound):
    """Reset the state: the previous query may have been interrupted."""
    s.counters.best = best
    s.counters.bound = bound
    s.counters.kept = best
    s.counters.total = 0
    s.counters.size = 0
    s.active.clear()
    s.queue.clear()
    s.deferred.clear()


@program
def decide(s, vertex, least, most, best, bound, words, most_degrees):
    """Search until the best degree is known, nodes have to be visited, or sets are too large.

    The search is for a degree above ``best``, up to ``bound``; a negative ``best`` continues the
    previous search after its nodes were visited.  If at most ``most_degrees`` degrees are open, all
    are searched for, else one; if ``most_degrees`` is negative, results are collected only.
    """
    state = DECIDED
    if best < 0:
        note_degrees(s)
        if s.counters.wide != 0:
            state = WIDE
    else:
        begin_query(s, best, bound)
    while state == DECIDED and s.counters.best < s.counters.bound and most_degrees >= 0:
        count = s.counters.bound - s.counters.best
        degree = s.counters.best + 1
        if count > most_degrees:
            degree = s.counters.best + (3 * count + 3) // 4
            count = i64(1)
        found = begin_degrees(
            s, i32(vertex), i32(least), i32(most), i32(degree), i32(count), i32(words)
        )  # fmt: skip
        if found:
            search_degrees(s, i32(words))
            if not s.queue.empty:
                state = VISIT
        if state == DECIDED:
            note_degrees(s)
            if not found or s.counters.wide != 0:
                state = WIDE
    foreach(s.counters, write_outcome, s.outcome)
    s.outcome[0] = state
    return state
