"""Greedy search for a community, which begins the branch and bound of `search`."""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from morph.algorithms.community.nodes import (
    STANDARD_WORDS,
    WIDE_WORDS,
    Node,
    WideNode,
    WidestNode,
    allocate,
    count_common,
    end_rows,
    make_root,
    row_of,
)
from morph.algorithms.community.reduction import LAST_VERTEX, VERTEX_BITS
from morph.algorithms.community.search import begin_search
from morph.algorithms.graph.cliques import bit
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import atomic_max, bit_positions, i32, i64, popcount, static, u64


@func
def add_greedily(node, q, adjacency, v, words):
    """Add a vertex to ``reached``, and its neighbours to ``frontier``."""
    node.reached[v >> 6] = node.reached[v >> 6] | bit(v)
    row = row_of(q.first_word, v, words)
    for j in range(words):
        bits = adjacency[row + j] & node.subgraph[j]
        node.frontier[j] = (node.frontier[j] | bits) & ~node.reached[j]


@func
def greedy_choice(node, q, rows, adjacency, words):
    """Return the vertex of ``frontier`` with most chosen neighbours, then most; -1 if none."""
    best = i64(-1)
    for j in range(words):
        for i in bit_positions(node.frontier[j]):
            v = 64 * i64(j) + i
            inside = count_common(adjacency, row_of(q.first_word, v, words), node.reached, words)
            score = (i64(inside) << VERTEX_BITS) + i64(rows[q.first_row + v].among)
            best = max(best, (score << VERTEX_BITS) + (LAST_VERTEX - v))
    return LAST_VERTEX - (best & LAST_VERTEX) if best >= 0 else i64(-1)


@func
def greedy_degree(node, q, adjacency, words):
    """Return the minimum degree of the vertices of ``reached``."""
    least = q.max_size
    for j in range(words):
        for i in bit_positions(node.reached[j]):
            row = row_of(q.first_word, 64 * i64(j) + i, words)
            least = min(least, count_common(adjacency, row, node.reached, words))
    return least


@func
def grow_greedily(node, q, rows, adjacency, words):
    """Add the vertex with most chosen neighbours again and again.

    Return the minimum degree of the best subgraph, which is then ``chosen``, or -1.
    """
    for j in range(words):
        node.reached[j] = u64(0)
        node.frontier[j] = u64(0)
    size, v, best = i32(0), i64(0), i32(-1)
    while v >= 0 and size < q.max_size:
        add_greedily(node, q, adjacency, v, words)
        size += 1
        if size >= q.min_size:
            degree = greedy_degree(node, q, adjacency, words)
            if degree > best:
                best = degree
                for j in range(words):
                    node.chosen[j] = node.reached[j]
        v = greedy_choice(node, q, rows, adjacency, words)
    return best


@kernel
def count_neighbours(r, queries, adjacency):
    """Count the neighbours of a vertex."""
    q = queries[r.query]
    row, total = row_of(q.first_word, r.id - q.first_row, q.words), i32(0)
    for j in range(q.words):
        total += i32(popcount(adjacency[row + j]))
    r.among = total


@func
def find_greedily(node, q, queries, rows, adjacency, words):
    """Find a subgraph by a greedy search; the query is solved if it has the degree."""
    make_root(node, q.size, words)
    for j in range(words):
        node.subgraph[j] = node.chosen[j] | node.candidates[j]
    best = grow_greedily(node, q, rows, adjacency, words)
    if best >= 0:
        q.found_degree = best
        for j in range(words):
            q.solution[j] = node.chosen[j]
    if best >= q.degree:
        atomic_max(q.solved, 1)
        q.open = i32(0)
        end_rows(queries, q.id - q.lower, q.lower)


@kernel
def search_greedily(q, queries, rows, adjacency, most_words, width: static):
    """Find a subgraph by a greedy search; ``width`` is that of `search_sets`."""
    if width <= STANDARD_WORDS:
        node = Node()
    elif width <= WIDE_WORDS:
        node = WideNode()
    else:
        node = WidestNode()
    allocate(node, 1, most_words)
    find_greedily(node, q, queries, rows, adjacency, q.words)


@program
def begin_searches(
    queries, rows, adjacency, counters, queue, most_words, find_all, width: static
):  # fmt: skip
    """Search greedily, unless all subgraphs are wanted; add the roots of searches to a queue."""
    if find_all == 0:
        foreach(rows, count_neighbours, queries, adjacency)
        foreach(
            queries, search_greedily, queries, rows, adjacency, most_words, width, balance="warp"
        )  # fmt: skip
    foreach(queries, begin_search, counters, queue)
