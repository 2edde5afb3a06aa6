"""Branch and bound for a connected subgraph of bounded size and of minimum degree ``k``.

A node of the search is a pair of vertex sets, of bit words: *chosen* vertices, of which the query
is one, and *candidates*.  It stands for all subgraphs that have the chosen vertices and some
candidates.  A visit reduces the node (`reduction`), and branches: it includes or excludes a
neighbour of the chosen vertex that has the fewest spare candidates.  If a candidate is excluded, so
are those that it dominates (Yao, Chang, PVLDB 2021).

The open nodes of all queries are in one queue.  An item searches below a node depth first: a few
nodes while the queue has fewer items than `SearchState.target_items`; then it adds its open nodes
to the queue.  While there are fewer than `SearchState.few_items`, it adds its shallowest open node
after each visit, too.  So one hard query soon occupies all threads, until its end.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.community.nodes import (
    STANDARD_WORDS,
    WIDE_WORDS,
    Node,
    WideNode,
    WidestNode,
    allocate,
    count_common,
    end_rows,
    low_bits,
    pop,
    push,
    row_of,
)
from morph.algorithms.community.reduction import (
    find_lacking,
    find_reached,
    next_candidate,
    reduce_node,
)
from morph.algorithms.graph.cliques import bit, size_of
from morph.launch.foreach import func, kernel
from morph.prelude import atomic_add, atomic_max, bit_positions, i32, i64, static, u64

MIN_NODES_PER_ITEM = 16  # visited below a node of the queue
MAX_NODES_PER_ITEM = 1 << 10  # the same once the queue has enough items


class SearchState(NamedTuple):
    """The arguments of the search.

    ``queries`` has a row for each query: ``first_word``, of ``adjacency``; ``first_row``, its
    first row in ``rows``; ``size``, the number of vertices around it, itself the first; ``words``
    of a set of these; ``min_size`` and ``max_size``, bounds of the subgraph's size; ``degree``, the
    minimum degree to reach; ``lower`` and ``higher``, how many rows before and after it are of the
    same vertex and sizes, in ascending order of degrees; ``solved``, whether the search has ended:
    there is a solution, or one of a higher degree, or none of a lower degree; ``solution``, the
    vertices of the best subgraph, and ``found_degree``, its minimum degree; ``open``, the number of
    open nodes; ``nodes``, that of all; ``most_nodes``, visited nodes after which the query's
    remaining nodes are dropped.

    The neighbours of vertex ``v`` begin at word ``first_word + v * words`` of ``adjacency``.
    """

    queries: Any
    adjacency: Any
    max_depth: int  # more than the number of vertices of any subgraph
    words: int  # of the largest set of any query
    counters: Any  # scalars: ``nodes`` visited in this launch; ``solutions``; ``open`` items
    few_items: int  # while fewer items are open, an item adds one after each visit
    target_items: int  # open items that occupy all threads
    node_limit: int  # visited nodes after which a launch defers the rest
    solutions: Any  # a column of words, one solution after another, if all are wanted
    capacity: int  # of solutions
    max_solutions: int  # solutions: with so many, the search ends


@func
def push_excluding(node, q, adjacency, v, words):
    """Push the node without a candidate, and without those that it could replace."""
    first = q.first_word
    out = row_of(first, v, words)
    for j in range(words):
        node.frontier[j] = node.candidates[j]
    node.candidates[v >> 6] = node.candidates[v >> 6] & ~bit(v)
    for j in range(words):
        replaced = u64(0)
        for i in bit_positions(node.candidates[j]):
            row = row_of(first, 64 * i64(j) + i, words)
            only = u64(0)  # its neighbours that the other one lacks
            for w in range(words):
                of_u = (
                    adjacency[row + w] & (node.chosen[w] | node.frontier[w]) & ~adjacency[out + w]
                )
                only = only | (of_u & ~bit(v) if w == v >> 6 else of_u)
            if only == u64(0):
                replaced = replaced | bit(i)
        node.candidates[j] = node.candidates[j] & ~replaced
    push(node, words)
    for j in range(words):
        node.candidates[j] = node.frontier[j]


@func
def push_including(node, v, words):
    """Push the node with a candidate chosen."""
    node.candidates[v >> 6] = node.candidates[v >> 6] & ~bit(v)
    node.chosen[v >> 6] = node.chosen[v >> 6] | bit(v)
    push(node, words)


@func
def record_solution(node, q, queries, adjacency, words):
    """Store the vertices of ``subgraph``, if they are the query's first solution."""
    if atomic_max(q.solved, 1) == 0:
        end_rows(queries, q.id - q.lower, q.lower)
        least, first = q.max_size, q.first_word
        for j in range(words):
            q.solution[j] = node.subgraph[j]
            for i in bit_positions(node.subgraph[j]):
                row = row_of(first, 64 * i64(j) + i, words)
                least = min(least, count_common(adjacency, row, node.subgraph, words))
        q.found_degree = least


@func
def is_solution(node, q, adjacency, words):
    """Whether the chosen vertices, which lack no neighbours, are a solution, then `subgraph`."""
    for j in range(words):
        node.subgraph[j] = node.chosen[j]
    find_reached(node, q, adjacency, q.max_size, words)
    size = size_of(node.chosen, words)
    return size >= q.min_size and size_of(node.reached, words) == size


@func
def visit(node, q, queries, adjacency, words):
    """Find a solution in a node, or push the two nodes below it."""
    again = True
    while again:
        again = False
        if reduce_node(node, q, adjacency, q.degree, words):
            for j in range(words):
                node.subgraph[j] = node.chosen[j] | node.candidates[j]
            solved = size_of(node.subgraph, words) <= q.max_size
            count, missing, focus = find_lacking(node, q, adjacency, q.degree, words)
            if not solved and missing == 0:
                solved = is_solution(node, q, adjacency, words)
            if solved:
                record_solution(node, q, queries, adjacency, words)
            else:
                v, again = next_candidate(node, q, adjacency, count, missing, focus, words)
                if v >= 0 and not again:
                    push_excluding(node, q, adjacency, v, words)
                    push_including(node, v, words)


@func
def visit_for_all(node, q, state, words):
    """Store the subgraph of a node without candidates, or push the two nodes below another."""
    again = True
    while again:
        again = False
        if reduce_node(node, q, state.adjacency, q.degree, words):
            if size_of(node.candidates, words) == 0:
                at = atomic_add(state.counters.solutions, i64(1))
                if at < state.capacity:
                    for j in range(words):
                        state.solutions[at * words + j] = node.chosen[j]
                if at + 1 >= state.max_solutions:
                    atomic_max(q.solved, 1)
            else:
                count, missing, focus = find_lacking(node, q, state.adjacency, q.degree, words)
                v, again = next_candidate(node, q, state.adjacency, count, missing, focus, words)
                if v >= 0 and not again:
                    node.candidates[v >> 6] = node.candidates[v >> 6] & ~bit(v)
                    push(node, words)
                    push_including(node, v, words)


@func
def is_open(node, state, base, nodes, min_nodes, max_nodes):
    """Return whether an item visits another node, having visited ``nodes``.

    Its stack begins at ``base``.
    """
    return node.depth[0] > base and (
        nodes < min_nodes
        or (nodes < max_nodes and atomic_add(state.counters.open, i64(0)) >= state.target_items)
    )


@func
def visit_top(node, q, state, base, words, find_all):
    """Visit the top of the stack; return 1, or 0 if the search has ended."""
    nodes = i32(0)
    if atomic_max(q.solved, 0) > 0:  # another item may have set it
        node.depth[0] = base
    else:
        nodes = i32(1)
        pop(node, words)
        if find_all:
            visit_for_all(node, q, state, words)
        else:
            visit(node, q, state.queries, state.adjacency, words)
    return nodes


@func
def search_below(node, q, state, min_nodes, max_nodes, words, find_all):
    """Search below the nodes of the stack until enough are visited; return their number.

    On a CPU this function takes less time than a loop in the kernel.
    """
    nodes = i32(0)
    while is_open(node, state, i32(0), nodes, min_nodes, max_nodes):
        nodes += visit_top(node, q, state, i32(0), words, find_all)
    return nodes


@func
def lowest(node, like, base, words):
    """Return the sets of the node at the base of the stack; ``like`` is any vector of that type."""
    chosen, candidates = like, like
    for j in range(words):
        chosen[j] = node.stack[base + j]
        candidates[j] = node.stack[base + words + j]
    return chosen, candidates


@func
def nodes_of_item(words):
    """Return how many nodes an item visits at least, and at most."""
    least, most = i32(MIN_NODES_PER_ITEM), i32(MAX_NODES_PER_ITEM)
    if words > STANDARD_WORDS:
        least = least * STANDARD_WORDS**2 // (words * words) + 1
        most = most * STANDARD_WORDS**2 // (words * words) + 1
    return least, most


@func
def sets_of(node, like, words):
    """Return the sets of a node as vectors; ``like`` is any vector of that type."""
    chosen, candidates = like, like
    for j in range(words):
        chosen[j] = node.chosen[j]
        candidates[j] = node.candidates[j]
    return chosen, candidates


@kernel
def search_sets(
    e, state, queue, deferred, find_all: static, width: static, donates: static
):  # fmt: skip
    """Search below a node; add its open nodes to the queue, or to ``deferred``.

    Sets have ``width`` words, or any number if that is above `STANDARD_WORDS`.  If it ``donates``,
    it also adds nodes while few items are open.
    """
    # repeated in `search_greedily`: a function cannot return a struct with local collections
    if width <= STANDARD_WORDS:
        node = Node()
    elif width <= WIDE_WORDS:
        node = WideNode()
    else:
        node = WidestNode()
    allocate(node, state.max_depth, state.words)
    queue.reserve(state.max_depth + 1 + MIN_NODES_PER_ITEM)
    deferred.reserve(state.max_depth + 1)
    q = e.item
    words = i32(width) if width <= STANDARD_WORDS else q.words  # a constant for small sets
    for j in range(words):
        node.chosen[j] = e.chosen[j]
        node.candidates[j] = e.candidates[j]
    push(node, words)
    if atomic_add(q.nodes, i64(0)) >= q.most_nodes:
        node.depth[0] = i32(0)  # drop it
    visited, nodes, base = atomic_add(state.counters.nodes, i64(0)), i32(0), i32(0)
    if visited < state.node_limit:
        min_nodes, max_nodes = nodes_of_item(words)
        if donates:  # on a GPU; `search_below` is the same loop for a CPU
            few = True
            while is_open(node, state, base, nodes, min_nodes, max_nodes):
                nodes += visit_top(node, q, state, base, words, find_all)
                if few and node.depth[0] - base > 2 * words:
                    few = atomic_add(state.counters.open, i64(0)) < state.few_items
                    few = few and nodes <= MIN_NODES_PER_ITEM
                    if few:
                        atomic_add(q.open, 1)
                        atomic_add(state.counters.open, i64(1))
                        chosen, candidates = lowest(node, e.chosen, base, words)
                        queue.add(q, chosen=chosen, candidates=candidates)
                        base += 2 * words
        else:
            nodes = search_below(node, q, state, min_nodes, max_nodes, words, find_all)
        visited = atomic_add(state.counters.nodes, i64(nodes))
        atomic_add(q.nodes, i64(nodes))
    opened = (node.depth[0] - base) // (2 * words) - 1
    if atomic_add(q.open, opened) + opened == 0 and atomic_max(q.solved, 0) == 0:
        end_rows(state.queries, q.id + 1, q.higher)
    atomic_add(state.counters.open, i64(opened))
    while node.depth[0] > base:
        pop(node, words)
        chosen, candidates = sets_of(node, e.chosen, words)
        if visited < state.node_limit:
            queue.add(q, chosen=chosen, candidates=candidates)
        else:
            deferred.add(q, chosen=chosen, candidates=candidates)


@func
def add_root(q, counters, queue):
    """Add a node of the query and all its candidates to the queue."""
    atomic_add(counters.open, i64(1))
    chosen, candidates = q.solution, q.solution
    for j in range(q.words):
        chosen[j] = u64(0)
        candidates[j] = low_bits(q.size - 64 * j)
    chosen[0] = u64(1)
    candidates[0] = candidates[0] & ~u64(1)
    queue.add(q, chosen=chosen, candidates=candidates)


@kernel
def begin_search(q, counters, queue):
    """Add a node of the query and all its candidates to the queue."""
    if q.solved == 0:
        add_root(q, counters, queue)
