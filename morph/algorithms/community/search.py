"""Branch and bound for a connected subgraph of bounded size and of minimum degree ``k``.

A node of the search is a pair of vertex sets, of bit words: *chosen* vertices, of which the query
is one, and *candidates*.  It stands for all subgraphs that have the chosen vertices and some
candidates.  `reduce_node` removes candidates that no solution of the node has, chooses those that
all have, and detects nodes without a solution (Yao, Chang, PVLDB 2021: reductions by degree and
distance, rules for vertices without spare neighbours; if a candidate is excluded, so are those that
it dominates).  A candidate is also removed if it is adjacent to too few of the chosen vertices that
lack neighbours (`least_gain`), or if it and such a vertex need more neighbours than there are
slots, and have too few candidates in common (`keep_compatible`).  A branch includes or excludes a
neighbour of the chosen vertex that has the fewest spare candidates.

The open nodes of all queries are in one queue.  An item searches below a node depth first: a few
nodes while the queue has fewer items than `SearchState.target_items`; then it adds its open nodes
to the queue.  While there are fewer than `SearchState.few_items`, it adds its shallowest open node
after each visit, too.  So one hard query soon occupies all threads, until its end.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.graph.cliques import bit, size_of
from morph.launch.foreach import foreach, func, kernel, program
from morph.prelude import (
    atomic_add,
    atomic_max,
    bit_positions,
    i32,
    i64,
    local,
    popcount,
    static,
    struct,
    u64,
)

MIN_NODES_PER_ITEM = 16  # visited below a node of the queue
MAX_NODES_PER_ITEM = 1 << 10  # the same once the queue has enough items
VERTEX_BITS, COUNT_BITS = 18, 15  # of the fields of a score, see `score_of`
LAST_VERTEX, MOST_COUNTED = (1 << VERTEX_BITS) - 1, (1 << COUNT_BITS) - 1
NONE = (1 << 62) - 1  # larger than each key (neighbours, vertex) of find_lacking
STANDARD_WORDS = 4  # of sets; items visit fewer nodes of larger ones, which take longer
WIDE_WORDS, WIDEST_WORDS = 16, 64  # of larger sets, see `node_struct`


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


def node_struct(words: int, slots: int, lists: int) -> Any:
    """Return a struct for a node with sets of up to so many words and a stack of ``slots`` words.

    Collections are twice as large where these do not suffice, which compiles the unit again.
    """

    @struct
    class Node:
        """A node of the search, and what is computed of it; all but four are bit words."""

        chosen: local(u64, words)
        candidates: local(u64, words)
        reached: local(u64, words)
        frontier: local(u64, words)
        subgraph: local(u64, words)
        neighbours: local(u64, words)  # neighbours of the front
        lacking: local(u64, words)  # chosen vertices of degree below k among these
        needy: local(i64, lists)  # the vertices of ``lacking`` as a list
        needs: local(i32, lists)  # how many neighbours each vertex of ``needy`` lacks
        gains: local(i32, lists)  # candidates by their number of lacking neighbours
        stack: local(u64, slots)  # the sets of open nodes, chosen vertices first
        depth: local(i32, 1)  # how many words of these are in use

    return Node


Node = node_struct(STANDARD_WORDS, 256, 32)
WideNode = node_struct(WIDE_WORDS, 512, 32)
WidestNode = node_struct(WIDEST_WORDS, 2048, 32)


@func
def allocate(node, max_depth, words):
    """Fill the sets of a new node with zeros."""
    for _ in range(words):
        node.chosen.add(u64(0))
        node.candidates.add(u64(0))
        node.reached.add(u64(0))
        node.frontier.add(u64(0))
        node.subgraph.add(u64(0))
        node.neighbours.add(u64(0))
        node.lacking.add(u64(0))
    for _ in range(max_depth + 1):
        node.gains.add(i32(0))
        node.needy.add(i64(0))
        node.needs.add(i32(0))
    for _ in range(2 * words * (max_depth + 1)):
        node.stack.add(u64(0))
    node.depth.add(i32(0))


@func
def count_common(adjacency, row, s, words):
    """Count the members of a set among the neighbours of a row."""
    total = i32(0)
    for j in range(words):
        total += i32(popcount(adjacency[row + j] & s[j]))
    return total


@func
def count_in_both(adjacency, row, one, other, words):
    """Count the members of two sets among the neighbours of a row."""
    first, second = i32(0), i32(0)
    for j in range(words):
        bits = adjacency[row + j]
        first += i32(popcount(bits & one[j]))
        second += i32(popcount(bits & other[j]))
    return first, second


@func
def row_of(q, v, words):
    """Return the first word of a vertex's neighbours in ``adjacency``."""
    return q.first_word + i64(words) * v


@func
def max_distance(k, max_size):
    """Return the largest distance in a graph of ``max_size`` vertices and minimum degree ``k``."""
    far = i32(1)
    if k == 1:
        far = max_size - 1
    elif k + 2 <= max_size:
        far = i32(2)
        while k + far + 2 + (far + 1) // 3 * (k - 2) <= max_size:
            far += 1
    return far


@func
def choose_neighbours(node, adjacency, row, words):
    """Choose all candidates of a row."""
    for j in range(words):
        node.chosen[j] = node.chosen[j] | (adjacency[row + j] & node.candidates[j])
        node.candidates[j] = node.candidates[j] & ~adjacency[row + j]


@func
def keep_neighbours(node, adjacency, row, words):
    """Remove the candidates that are not in a row; return whether there were any."""
    removed = False
    for j in range(words):
        if node.candidates[j] & ~adjacency[row + j] != u64(0):
            removed = True
            node.candidates[j] = node.candidates[j] & adjacency[row + j]
    return removed


@func
def check_chosen(node, q, adjacency, k, slots_left, words):
    """Apply the degree rules to the chosen vertices; return as `reduce_by_degrees`."""
    changed, possible = False, True
    for j in range(words):
        if possible:
            failed, full, closed = u64(0), u64(0), u64(0)
            for i in bit_positions(node.chosen[j]):
                row = row_of(q, 64 * i64(j) + i, words)
                inside, outside = count_in_both(adjacency, row, node.chosen, node.candidates, words)
                if inside + outside < k or inside + slots_left < k:
                    failed = failed | bit(i)
                elif inside + outside == k and inside < k:  # all its neighbours are needed
                    full = full | bit(i)
                elif inside + slots_left == k:  # only its neighbours can be added
                    closed = closed | bit(i)
            possible = failed == u64(0)
            if possible and full | closed != u64(0):
                for i in bit_positions(full):
                    choose_neighbours(node, adjacency, row_of(q, 64 * i64(j) + i, words), words)
                    changed = True
                for i in bit_positions(closed):
                    row = row_of(q, 64 * i64(j) + i, words)
                    changed = keep_neighbours(node, adjacency, row, words) or changed
    return changed, possible


@func
def reduce_by_degrees(node, q, adjacency, k, words):
    """Apply the degree rules; return whether a set changed, and whether a solution is possible."""
    slots_left = q.max_size - size_of(node.chosen, words)
    possible = slots_left >= 0
    if slots_left <= 0:
        for j in range(words):
            node.candidates[j] = u64(0)
    changed = False
    if possible:
        changed, possible = check_chosen(node, q, adjacency, k, slots_left, words)
    if possible:
        for j in range(words):
            few = u64(0)
            for i in bit_positions(node.candidates[j]):
                row = row_of(q, 64 * i64(j) + i, words)
                inside, outside = count_in_both(adjacency, row, node.chosen, node.candidates, words)
                if inside + outside < k or inside + slots_left - 1 < k:
                    few = few | bit(i)
            node.candidates[j] = node.candidates[j] & ~few
            changed = changed or few != u64(0)
    return changed, possible


@func
def find_reached(node, q, adjacency, distance, words):
    """Find the vertices within a distance of the query's in the subgraph of ``node.subgraph``."""
    for j in range(words):
        node.reached[j] = u64(0)
        node.frontier[j] = u64(0)
    node.frontier[0] = u64(1)
    node.reached[0] = u64(1)
    more = True
    while distance > 0 and more:
        distance -= 1
        more = False
        for j in range(words):
            node.neighbours[j] = u64(0)
        for j in range(words):
            for i in bit_positions(node.frontier[j]):
                row = row_of(q, 64 * i64(j) + i, words)
                for w in range(words):
                    node.neighbours[w] = node.neighbours[w] | adjacency[row + w]
        for j in range(words):
            node.frontier[j] = node.neighbours[j] & node.subgraph[j] & ~node.reached[j]
            node.reached[j] = node.reached[j] | node.frontier[j]
            more = more or node.frontier[j] != u64(0)


@func
def reduce_by_distance(node, q, adjacency, k, words):
    """Remove candidates far from the query; return as `reduce_by_degrees`."""
    for j in range(words):
        node.subgraph[j] = node.chosen[j] | node.candidates[j]
    find_reached(node, q, adjacency, max_distance(k, q.max_size), words)
    changed, possible = False, True
    for j in range(words):
        if node.chosen[j] & ~node.reached[j] != u64(0):
            possible = False
        if node.candidates[j] & ~node.reached[j] != u64(0):
            node.candidates[j] = node.candidates[j] & node.reached[j]
            changed = True
    return changed, possible


@func
def reduce_node(node, q, adjacency, k, words):
    """Apply the rules until they change nothing; return whether the node may have a subgraph."""
    changed, possible = True, True
    while changed and possible:
        changed, possible = reduce_by_degrees(node, q, adjacency, k, words)
        if possible and not changed:
            changed, possible = reduce_by_distance(node, q, adjacency, k, words)
    return possible and size_of(node.chosen, words) + size_of(node.candidates, words) >= q.min_size


@func
def find_lacking(node, q, adjacency, k, words):
    """Find chosen vertices of too few chosen neighbours.

    Return their number; how many neighbours they lack together; and the row (see `row_of`) of the
    one with the fewest neighbours that are chosen or candidates, -1 if there is none.
    """
    missing, fewest = i32(0), NONE
    for j in range(words):
        lacking = u64(0)
        for i in bit_positions(node.chosen[j]):
            v = 64 * i64(j) + i
            row = row_of(q, v, words)
            inside, outside = count_in_both(adjacency, row, node.chosen, node.candidates, words)
            if inside < k:
                missing += k - inside
                lacking = lacking | bit(i)
                fewest = min(fewest, (i64(inside + outside) << VERTEX_BITS) + v)
        node.lacking[j] = lacking
    count, focus = i32(0), i64(-1)
    if fewest < NONE:
        focus = row_of(q, fewest & LAST_VERTEX, words)
        for j in range(words):
            for i in bit_positions(node.lacking[j]):
                v = 64 * i64(j) + i
                row = row_of(q, v, words)
                node.needy[count] = v
                node.needs[count] = k - count_common(adjacency, row, node.chosen, words)
                count += 1
    return count, missing, focus


@func
def score_of(gained, inside, among, v):
    """Return a number that is larger for more lacking neighbours, then chosen ones, then all.

    Among equal ones it is larger for the first vertex.  Counts are bounded, which only matters for
    the order of the search.
    """
    score = (i64(min(gained, MOST_COUNTED)) << COUNT_BITS) + i64(min(inside, MOST_COUNTED))
    score = (score << COUNT_BITS) + i64(min(among, MOST_COUNTED))
    return (score << VERTEX_BITS) + (LAST_VERTEX - v)


@func
def best_candidate(node, q, adjacency, focus, words):
    """Count the candidates by gain; return one of the most lacking, then of the most neighbours.

    It is a neighbour of the row ``focus``, if that is not -1.
    """
    for gain in range(q.max_size + 1):
        node.gains[gain] = i32(0)
    best = i64(-1)
    for j in range(words):
        near = ~u64(0)
        if focus >= 0:
            near = adjacency[focus + j]
        for i in bit_positions(node.candidates[j]):
            v = 64 * i64(j) + i
            row = row_of(q, v, words)
            gained, inside = count_in_both(adjacency, row, node.lacking, node.chosen, words)
            node.gains[gained] += 1
            if near & bit(i) != u64(0):
                among = inside + count_common(adjacency, row, node.candidates, words)
                best = max(best, score_of(gained, inside, among, v))
    return LAST_VERTEX - (best & LAST_VERTEX) if best >= 0 else i64(-1)


@func
def least_gain(node, missing, slots_left, max_size):
    """Return how many missing neighbours any added candidate must provide.

    These are all but those that the candidates of the largest gains provide in the other slots.
    """
    gain, others = max_size, slots_left - 1
    while gain > 0 and others > 0 and missing > 0:
        taken = min(node.gains[gain], others)
        missing -= taken * gain
        others -= taken
        gain -= 1
    return missing


@func
def lacks_common(node, adjacency, row, other, needed, words):
    """Return whether two rows have fewer candidates in common than are needed."""
    for j in range(words):
        if needed > 0:
            needed -= i32(popcount(adjacency[row + j] & adjacency[other + j] & node.candidates[j]))
    return needed > 0


@func
def keep_compatible(node, q, adjacency, count, least, slots_left, words):
    """Remove candidates of too small a gain, and those that do not fit one of the lacking vertices.

    If a candidate and a vertex need more neighbours together than there are other slots, they have
    some of these in common.  Return whether there were such candidates; ``count`` vertices lack
    neighbours.
    """
    removed = False
    for j in range(words):
        unfit = u64(0)
        for i in bit_positions(node.candidates[j]):
            row = row_of(q, 64 * i64(j) + i, words)
            gained, inside = count_in_both(adjacency, row, node.lacking, node.chosen, words)
            needed = q.degree - inside - slots_left + 1
            compatible, n = gained >= least, 0
            while compatible and n < count:
                both = needed + node.needs[n]
                if both > 0:
                    v = node.needy[n]
                    if adjacency[row + (v >> 6)] & bit(v) != u64(0):
                        both -= 1
                    other = row_of(q, v, words)
                    compatible = not lacks_common(node, adjacency, row, other, both, words)
                n += 1
            if not compatible:
                unfit = unfit | bit(i)
        node.candidates[j] = node.candidates[j] & ~unfit
        removed = removed or unfit != u64(0)
    return removed


@func
def size_bound(node, q, adjacency, words):
    """Bound the size of a subgraph by the members that each chosen vertex may still lack.

    Candidates that are no neighbours of a chosen vertex are counted for the first that may not lack
    them all (Jiang, Zhu, Wang, Lu, Hao, IJCAI 2021).
    """
    size = size_of(node.chosen, words)
    bound = size
    for j in range(words):
        node.frontier[j] = node.candidates[j]
    for j in range(words):
        for i in bit_positions(node.chosen[j]):
            row = row_of(q, 64 * i64(j) + i, words)
            may_lack = (
                q.max_size - q.degree - size + count_common(adjacency, row, node.chosen, words)
            )
            outside = size_of(node.frontier, words) - count_common(
                adjacency, row, node.frontier, words
            )
            if outside > may_lack:
                bound += may_lack
                for w in range(words):
                    node.frontier[w] = node.frontier[w] & adjacency[row + w]
    return bound + size_of(node.frontier, words)


@func
def push(node, words):
    depth = node.depth[0]
    for j in range(words):
        node.stack[depth + j] = node.chosen[j]
        node.stack[depth + words + j] = node.candidates[j]
    node.depth[0] = depth + 2 * words


@func
def pop(node, words):
    depth = node.depth[0] - 2 * words
    for j in range(words):
        node.chosen[j] = node.stack[depth + j]
        node.candidates[j] = node.stack[depth + words + j]
    node.depth[0] = depth


@func
def push_excluding(node, q, adjacency, v, words):
    """Push the node without a candidate, and without those that it could replace."""
    out = row_of(q, v, words)
    for j in range(words):
        node.frontier[j] = node.candidates[j]
    node.candidates[v >> 6] = node.candidates[v >> 6] & ~bit(v)
    for j in range(words):
        replaced = u64(0)
        for i in bit_positions(node.candidates[j]):
            row = row_of(q, 64 * i64(j) + i, words)
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
def end_rows(queries, first, count):
    """End the searches of ``count`` consecutive rows of queries."""
    for i in range(count):
        atomic_max(queries[first + i].solved, 1)


@func
def record_solution(node, q, queries, adjacency, words):
    """Store the vertices of ``subgraph``, if they are the query's first solution."""
    if atomic_max(q.solved, 1) == 0:
        end_rows(queries, q.id - q.lower, q.lower)
        least = q.max_size
        for j in range(words):
            q.solution[j] = node.subgraph[j]
            for i in bit_positions(node.subgraph[j]):
                row = row_of(q, 64 * i64(j) + i, words)
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
def next_candidate(node, q, adjacency, count, missing, focus, words):
    """Remove candidates; return the candidate of the next branch, and whether any were removed.

    The candidate is -1 if the node has no subgraph.
    """
    v = best_candidate(node, q, adjacency, focus, words)
    slots_left = q.max_size - size_of(node.chosen, words)
    least = least_gain(node, missing, slots_left, q.max_size)
    removed = keep_compatible(node, q, adjacency, count, least, slots_left, words)
    if not removed and size_of(node.chosen, words) < q.min_size:
        if size_bound(node, q, adjacency, words) < q.min_size:
            v = i64(-1)
    return v, removed


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
def low_bits(count):
    """Return a word whose lowest ``count`` bits are set."""
    return ~u64(0) if count >= 64 else bit(max(count, 0)) - u64(1)


@func
def make_root(node, size, words):
    """Set a node to the query and all its candidates."""
    for j in range(words):
        node.chosen[j] = u64(0)
        node.candidates[j] = low_bits(size - 64 * j)
    node.chosen[0] = u64(1)
    node.candidates[0] = node.candidates[0] & ~u64(1)


@func
def add_greedily(node, q, adjacency, v, words):
    """Add a vertex to ``reached``, and its neighbours to ``frontier``."""
    node.reached[v >> 6] = node.reached[v >> 6] | bit(v)
    row = row_of(q, v, words)
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
            inside = count_common(adjacency, row_of(q, v, words), node.reached, words)
            score = (i64(inside) << VERTEX_BITS) + i64(rows[q.first_row + v].among)
            best = max(best, (score << VERTEX_BITS) + (LAST_VERTEX - v))
    return LAST_VERTEX - (best & LAST_VERTEX) if best >= 0 else i64(-1)


@func
def greedy_degree(node, q, adjacency, words):
    """Return the minimum degree of the vertices of ``reached``."""
    least = q.max_size
    for j in range(words):
        for i in bit_positions(node.reached[j]):
            row = row_of(q, 64 * i64(j) + i, words)
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
    row, total = row_of(q, r.id - q.first_row, q.words), i32(0)
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
