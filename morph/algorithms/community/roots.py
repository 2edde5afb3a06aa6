"""Reduction of the roots of searches in wide sets, by a thread for each vertex.

A thread of a GPU that visits a node takes some 10 ms for each 1,000 candidates.  The rules that
decide most roots of many candidates need only the neighbours of one vertex, and are applied to all
vertices at the same time, until they change nothing: those by degrees, and those of `reduction` for
candidates that have few neighbours in common with a chosen vertex, or are adjacent to few of them.
All rules of a round refer to the sets at its beginning.

Each row has a vertex of a query: its ``state``; ``inside``, its chosen neighbours; ``among``, these
and those that are candidates; ``gain``, how many chosen vertices that lack neighbours it is
adjacent to.  A query has the sets ``chosen`` and ``candidates``; ``slots``, how many vertices can
still be chosen; ``missing``, how many neighbours its chosen vertices lack; ``best_gain``, the
largest gain of a candidate.  Other columns are those of `SearchState`.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from morph.algorithms.community.nodes import row_of
from morph.algorithms.graph.cliques import bit
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_cas,
    atomic_max,
    atomic_or,
    atomic_sub,
    ctz,
    i32,
    i64,
    popcount,
    u64,
)

REMOVED, CANDIDATE, CHOSEN = 0, 1, 2  # states of rows


@kernel
def begin_row(r, queries):
    """Choose the vertex of the query, and make all others candidates."""
    r.state = i32(CHOSEN) if r.id == queries[r.query].first_row else i32(CANDIDATE)


@kernel
def clear_sets(q):
    """Empty the sets, which `set_bit` fills."""
    q.slots = q.max_size
    q.missing = i32(0)
    q.best_gain = i32(0)
    for j in range(q.words):
        q.chosen[j] = u64(0)
        q.candidates[j] = u64(0)


@kernel
def set_bit(r, queries):
    """Add a vertex to the set of its state."""
    q = queries[r.query]
    v = r.id - q.first_row
    if r.state == CHOSEN:
        atomic_or(q.chosen[v >> 6], bit(v))
        atomic_sub(q.slots, 1)
    elif r.state == CANDIDATE:
        atomic_or(q.candidates[v >> 6], bit(v))


@kernel
def count_row(r, queries, adjacency):
    """Count the neighbours of a vertex in the sets, and those that a chosen vertex lacks."""
    q = queries[r.query]
    row = row_of(q.first_word, r.id - q.first_row, q.words)
    inside, outside = i32(0), i32(0)
    for j in range(q.words):
        bits = adjacency[row + j]
        inside += i32(popcount(bits & q.chosen[j]))
        outside += i32(popcount(bits & q.candidates[j]))
    r.inside = inside
    r.among = inside + outside
    if r.state == CHOSEN and inside < q.degree:
        atomic_add(q.missing, q.degree - inside)


@kernel
def count_gain(r, queries, rows, adjacency):
    """Count the chosen vertices that lack neighbours and are adjacent to a candidate."""
    q = queries[r.query]
    if r.state == CANDIDATE:
        row, gain = row_of(q.first_word, r.id - q.first_row, q.words), i32(0)
        for j in range(q.words):
            bits = q.chosen[j] & adjacency[row + j]
            while bits != u64(0):
                v = 64 * i64(j) + i64(ctz(bits))
                bits = bits & (bits - u64(1))
                if rows[q.first_row + v].inside < q.degree:
                    gain += 1
        r.gain = gain
        atomic_max(q.best_gain, gain)


@func
def fits(q, rows, adjacency, row, inside):
    """Return whether a candidate has enough candidates in common with each chosen vertex.

    The rule of `keep_compatible`; ``row`` is the candidate's, with ``inside`` chosen neighbours.
    """
    possible = True
    needed = q.degree - inside - q.slots + 1
    for j in range(q.words):
        bits = q.chosen[j]
        while bits != u64(0) and possible:
            v = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            lacking = q.degree - rows[q.first_row + v].inside
            both = needed + lacking
            if lacking > 0 and both > 0:
                other = row_of(q.first_word, v, q.words)
                if adjacency[row + (v >> 6)] & bit(v) != u64(0):
                    both -= 1
                for i in range(q.words):
                    if both > 0:
                        common = adjacency[row + i] & adjacency[other + i] & q.candidates[i]
                        both -= i32(popcount(common))
                possible = both <= 0
    return possible


@func
def change_rows(rows, first, bits, state, changed):
    """Set the state of the candidates of a word; bit i is that of row ``first + i``."""
    while bits != u64(0):
        row = first + i64(ctz(bits))
        bits = bits & (bits - u64(1))
        if atomic_cas(rows[row].state, i32(CANDIDATE), state) == CANDIDATE:
            changed.set()


@kernel
def apply_rules(r, queries, rows, adjacency, changed):
    """Apply the rules to a vertex; ``open`` of a query without a subgraph becomes 0."""
    q = queries[r.query]
    v = r.id - q.first_row
    row, k, slots = row_of(q.first_word, v, q.words), q.degree, q.slots
    if q.chosen[v >> 6] & bit(v) != u64(0):
        if r.among < k or r.inside + slots < k or slots < 0:
            q.open = i32(0)  # race: all write the same
        elif r.inside < k and r.among == k:  # all its neighbours are needed
            for j in range(q.words):
                bits = q.candidates[j] & adjacency[row + j]
                change_rows(rows, q.first_row + 64 * i64(j), bits, i32(CHOSEN), changed)
        elif r.inside + slots == k:  # only its neighbours can be added
            for j in range(q.words):
                bits = q.candidates[j] & ~adjacency[row + j]
                change_rows(rows, q.first_row + 64 * i64(j), bits, i32(REMOVED), changed)
    elif q.candidates[v >> 6] & bit(v) != u64(0):
        few = slots <= 0 or r.among < k or r.inside + slots - 1 < k
        few = few or r.gain < q.missing - (slots - 1) * q.best_gain
        if few or not fits(q, rows, adjacency, row, r.inside):
            if atomic_cas(rows[r.id].state, i32(CANDIDATE), i32(REMOVED)) == CANDIDATE:
                changed.set()


@program
def reduce_roots(queries, rows, adjacency, changed):
    """Set the states of all rows; ``open`` of queries without a subgraph becomes 0."""
    foreach(rows, begin_row, queries)
    changed.set()
    while changed.take():
        foreach(queries, clear_sets)
        foreach(rows, set_bit, queries)
        foreach(rows, count_row, queries, adjacency)
        foreach(rows, count_gain, queries, rows, adjacency)
        foreach(rows, apply_rules, queries, rows, adjacency, changed)
