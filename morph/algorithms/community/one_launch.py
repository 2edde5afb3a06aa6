"""The search for one query (`decide`) or a few (`decide_few`) in one launch.

`decide` chooses degrees, finds the candidates of each (`candidates`), orders them, fills their rows
of bits, searches greedily, and on a GPU visits the nodes of the branch and bound (`search`), until
the best degree is known.  Most queries take one launch and one copy to the host; the steps of
`Run.decide` take some forty of these, which on a GPU cost more than most searches.  On a CPU, where
a launch takes little time, another one visits the nodes.  Of more than `ROWS` candidates, those of
most neighbours in common with the query are searched, which proves no bound; if they have no
subgraph of the best degree, `decide` ends, and `Run.decide` searches for the query.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.community.candidates import (
    QUERY_SHIFT,
    VERTEX,
    CandidateTable,
    clear_candidates,
    insert_first,
    order_key,
    reach_all,
    reduce_candidates,
    slot_of,
)
from morph.algorithms.community.greedy import find_greedily
from morph.algorithms.community.nodes import Node, allocate
from morph.algorithms.community.reduction import NO_LIMIT, max_distance
from morph.algorithms.community.search import SearchState, add_root, search_sets
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_max,
    atomic_or,
    bit_positions,
    i32,
    i64,
    static,
    u64,
)

ROWS = 256  # maximum number of candidates of a degree that are searched
KEYS = 1 << 12  # maximum number of candidates that are ordered
# result of `decide`: finished; nodes to visit; too many candidates, or the hash table was full
DECIDED, VISIT, WIDE = 0, 1, 2
OUTCOME = 4  # numbers before the members, see `collect_results`
GIVEN = 6  # numbers of a row, see `OneLaunch.given`
BEGIN, CONTINUE, COLLECT = 0, 1, 2  # phases of `decide_few`


class OneLaunch(NamedTuple):
    """The tables of `decide` and `decide_few`.

    ``queries`` has a row for each degree that is searched for at the same time, with the columns of
    `CandidateTable` and of `SearchState`, and ``count``, its number of candidates.  ``keys`` has
    `KEYS` rows for each of these: the keys of its candidates in any order.  ``rows`` has `ROWS`
    rows for each: ``vertex``, its first candidates in the order of their keys, and the columns of
    `SearchState`, as has ``adjacency``.  ``counters`` are scalars: ``best`` and
    ``bound``, the best degree so far and an upper bound; ``size``, the number of vertices in
    ``outcome``; ``total``, the number of visited nodes; ``degrees``, how many are searched for;
    ``wide``, whether a degree that is still open has too many candidates, or the hash table was
    full; ``narrow_nodes``, the maximum number of nodes in a search that proves no bound; and the
    scalars of `SearchState`.  ``given`` has the vertex, both sizes, the degree, ``lower`` and
    ``higher`` of each row, see `SearchState`.
    """

    queries: Any
    active: Any
    keys: Any
    rows: Any
    adjacency: Any
    counters: Any
    queue: Any
    deferred: Any
    search: SearchState
    table: CandidateTable
    entries: Any
    alive: Any
    remaining: Any
    frontier: Any
    next_frontier: Any
    outcome: Any  # a column: the numbers that the host reads
    given: Any  # a column, of several queries: `GIVEN` numbers of a row


class Limits(NamedTuple):
    """The query, and what limits its search.

    If at most ``most_degrees`` degrees are open, all are searched for at the same time, else one;
    if it is negative, results are collected only.  Searches that prove no bound visit up to
    ``narrow_nodes`` nodes.
    """

    vertex: int
    min_size: int
    max_size: int
    best: int  # the best degree so far; if negative, the previous search continues
    bound: int  # an upper bound
    words: int  # of a set of candidates
    most_degrees: int
    narrow_nodes: int


@func
def begin_row(q, s, words):
    """Begin the search for the degree of a row, and insert its vertex."""
    q.min_common = 2 * q.degree - q.max_size
    q.distance = i32(2) if q.min_common > -2 else max_distance(q.degree, q.max_size)
    q.words = words
    q.first_row = i64(ROWS) * q.id
    q.first_word = q.first_row * words
    q.count = i32(0)
    q.solved = i32(0)
    q.found_degree = i32(-1)
    q.open = i32(1)
    q.nodes = i64(0)
    s.active.add(q)
    at, new = insert_first(q, s.table)
    if new:
        s.entries.add(query=q.id, vertex=q.vertex, slot=i32(at))
        s.frontier.add(query=q.id, vertex=q.vertex, slot=i32(at), level=0)


@kernel
def begin_degree(q, s, vertex, least, most, degree, count, words):
    """Begin the search for one of ``count`` degrees from ``degree`` on."""
    q.vertex = vertex
    q.min_size = least
    q.max_size = most
    q.degree = degree + i32(q.id)
    q.lower = i32(q.id)
    q.higher = count - 1 - i32(q.id)
    begin_row(q, s, words)


@kernel
def begin_given(q, s, words):
    """Begin the search for a degree of one of several queries, see `OneLaunch`."""
    at = GIVEN * q.id
    q.vertex = s.given[at]
    q.min_size = s.given[at + 1]
    q.max_size = s.given[at + 2]
    q.degree = s.given[at + 3]
    q.lower = s.given[at + 4]
    q.higher = s.given[at + 5]
    begin_row(q, s, words)


@kernel
def collect_key(e, s):
    """List a candidate that was not removed, and store its key in an unused row of its query."""
    slot, q = s.table.slots[e.slot], s.queries[e.query]
    if slot.number == 0:
        key = order_key(e, slot)
        s.remaining.add(key=key)
        at = atomic_add(q.count, 1)
        if at < KEYS:
            s.keys[KEYS * e.query + at].key = key


@kernel
def sort_candidate(r, s):
    """Store a candidate at the rank of its key, and clear its row of bits."""
    query, vertex = i32(r.key >> QUERY_SHIFT), i32(r.key & VERTEX)
    q, place = s.queries[query], i32(0)
    if q.count <= KEYS:
        for i in range((q.count + 3) // 4):  # loads of four keys at a time take less time
            first = KEYS * query + 4 * i
            one, two = s.keys[first].key, s.keys[first + 1].key
            three, four = s.keys[first + 2].key, s.keys[first + 3].key
            left = q.count - 4 * i
            place += i32(one < r.key) + i32(two < r.key and left > 1)
            place += i32(three < r.key and left > 2) + i32(four < r.key and left > 3)
        if place < ROWS:
            s.rows[q.first_row + place].vertex = vertex
            s.table.slots[slot_of(s.table, query, vertex)].number = place + 1
            for j in range(q.words):
                s.adjacency[q.first_word + place * i64(q.words) + j] = u64(0)


@kernel
def fill_candidate(r, s):
    """Set the bits of a candidate's neighbours among those of its query, and count them."""
    query, vertex = i32(r.key >> QUERY_SHIFT), i32(r.key & VERTEX)
    q = s.queries[query]
    place = i64(s.table.slots[slot_of(s.table, query, vertex)].number) - 1
    if place >= 0:
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
def begin_nodes(q, s, words, fixed: static):
    """Search greedily for a degree; add the root of the search to the queue if this finds none.

    There is no search if the candidates are too few, far too many, or lack the query.
    """
    node = Node()
    allocate(node, 1, words)
    q.size = min(q.count, i32(ROWS))
    q.most_nodes = i64(NO_LIMIT)
    if q.count > ROWS:
        q.higher = i32(0)  # without a proof, searches of higher degrees do not end
        q.most_nodes = s.counters.narrow_nodes
    if s.table.counters.full != 0 or q.count > KEYS or q.count < max(q.min_size, q.degree + 1):
        q.open = i32(0)
    elif s.rows[q.first_row].vertex != q.vertex:
        q.open = i32(0)
    else:
        q.max_size = min(q.max_size, q.size)
        sets = i32(fixed) if fixed > 0 else q.words
        find_greedily(node, q, s.queries, s.rows, s.adjacency, sets)
        if atomic_max(q.solved, 0) == 0:  # another item may have set it
            add_root(q, s.counters, s.queue)


@kernel
def collect_results(counters, s):
    """Collect the results of all degrees that were searched for, for the host."""
    best, bound, total = counters.best, counters.bound, counters.total
    at, complete = i64(-1), s.table.counters.full == 0
    for i in range(counters.degrees):
        q = s.queries[i]
        total += q.nodes
        if i64(q.found_degree) > best:
            best = i64(q.found_degree)
            at = q.id
        if q.solved == 0 and q.open == 0 and q.count <= ROWS and complete:
            bound = min(bound, i64(q.degree - 1))
    wide = i64(0)
    for i in range(counters.degrees):
        q = s.queries[i]
        if best < i64(q.degree) and i64(q.degree) <= bound and (q.count > ROWS or not complete):
            wide = i64(1)
    if at >= 0:
        q = s.queries[at]
        count = i64(OUTCOME)
        for i in range(q.size):
            if q.solution[i >> 6] >> u64(i & 63) & u64(1) != u64(0):
                s.outcome[count] = i64(s.rows[q.first_row + i].vertex)
                count += 1
        counters.size = count - OUTCOME
    counters.best = best
    counters.bound = bound
    counters.total = total
    counters.wide = wide
    s.outcome[0] = best
    s.outcome[1] = bound
    s.outcome[2] = total
    s.outcome[3] = counters.size


@program
def begin_query(s, best, bound, narrow_nodes):
    """Reset the state: the previous query may have been interrupted."""
    s.counters.best = best
    s.counters.bound = bound
    s.counters.narrow_nodes = narrow_nodes
    s.counters.nodes = 0
    s.counters.degrees = 0
    s.counters.total = 0
    s.counters.size = 0
    s.counters.open = 0
    s.queue.clear()
    s.deferred.clear()


@program
def clear_searches(s):
    """Empty the lists of candidates and of searches."""
    s.active.clear()
    s.remaining.clear()
    clear_candidates(s.entries, s.alive, s.frontier, s.next_frontier, s.table)


@program
def begin_searches(s, words, fixed: static):
    """Find the candidates of degrees, search greedily, and add the roots of searches to the queue.

    A full hash table, which has not all candidates, is found later, by `collect_results`.
    """
    reach_all(s.entries, s.frontier, s.next_frontier, s.table)
    reduce_candidates(s.entries, s.alive, s.frontier, s.next_frontier, s.table)
    foreach(s.alive, collect_key, s)
    foreach(s.remaining, sort_candidate, s)
    foreach(s.remaining, fill_candidate, s)
    foreach(s.active, begin_nodes, s, words, fixed, balance="warp")


@program
def decide(s, x, visits: static, fixed: static):
    """Search within `Limits` until the best degree is known, or `Run.decide` must search (`WIDE`).

    If ``visits`` is 0, the host visits nodes; otherwise these have ``fixed`` words, see
    `search_sets`.
    """
    state, going_on, low, high = DECIDED, x.best < 0, i64(x.best), i64(x.bound)
    if going_on:
        s.counters.nodes = 0
    else:
        begin_query(s, x.best, x.bound, x.narrow_nodes)
    while state == DECIDED and (going_on or (low < high and x.most_degrees >= 0)):
        if not going_on:
            count, degree = high - low, low + 1
            if count > x.most_degrees:
                degree = low + (3 * count + 3) // 4
                count = i64(1)
            s.counters.degrees = count
            clear_searches(s)
            foreach(
                s.queries[:count], begin_degree, s, i32(x.vertex), i32(x.min_size),
                i32(x.max_size), i32(degree), i32(count), i32(x.words),
            )  # fmt: skip
            begin_searches(s, i32(x.words), fixed)
        going_on = False
        if visits and x.most_degrees >= 0:
            foreach(
                s.queue, search_sets, s.search, s.queue, s.deferred, 0, fixed, 1, until_empty=True,
                balance="warp",
            )  # fmt: skip
        if x.most_degrees >= 0 and not (s.queue.empty and s.deferred.empty):
            state = VISIT
        else:
            foreach(s.counters, collect_results, s)
            low, high = s.counters.best, s.counters.bound
            if s.counters.wide != 0:
                state = WIDE
    return state


@kernel
def collect_row(q, s, width):
    """Collect the result of a row for the host, with up to ``width`` members.

    The numbers before these are the degree found, whether it is proved that there is no subgraph of
    the row's degree, the number of nodes, and that of members.
    """
    first, count = (OUTCOME + i64(width)) * q.id, i64(0)
    if q.found_degree >= 0:
        for j in range(q.words):
            for i in bit_positions(q.solution[j]):
                member = s.rows[q.first_row + 64 * j + i].vertex
                s.outcome[first + OUTCOME + count] = i64(member)
                count += 1
    complete = q.count <= ROWS and s.table.counters.full == 0
    s.outcome[first] = i64(q.found_degree)
    s.outcome[first + 1] = i64(complete and q.solved == 0 and q.open == 0)
    s.outcome[first + 2] = q.nodes
    s.outcome[first + 3] = count


@program
def decide_few(s, count, width, words, narrow_nodes, what, fixed: static):
    """Search for all degrees of the first ``count`` rows at the same time, see `OneLaunch.given`.

    Nodes have ``fixed`` words, see `search_sets`.
    """
    state = DECIDED
    s.counters.nodes = 0
    if what == BEGIN:
        begin_query(s, 0, 0, narrow_nodes)
        clear_searches(s)
        foreach(s.queries[:count], begin_given, s, i32(words))
        begin_searches(s, i32(words), fixed)
    if what != COLLECT:
        foreach(
            s.queue, search_sets, s.search, s.queue, s.deferred, 0, fixed, 1, until_empty=True,
            balance="warp",
        )  # fmt: skip
    if what != COLLECT and not (s.queue.empty and s.deferred.empty):
        state = VISIT
    else:
        foreach(s.queries[:count], collect_row, s, width)
    return state
