"""Branch and bound for a connected subgraph of bounded size and of minimum degree ``k``.

A node of the search is a pair of vertex sets, of bit words: *chosen* vertices, of which the query
is one, and *candidates*.  It stands for all subgraphs that have the chosen vertices and some
candidates.  `reduce_node` removes candidates that no solution in a node has, chooses those that all
have, and finds nodes without a solution (Yao, Chang, PVLDB 2021: reductions by degree, distance and
common neighbours, rules for vertices without spare neighbours, bounds by degrees and by missing
neighbours; a candidate that is left out takes with it those whose neighbours it has).

The open nodes of all queries are in one queue.  An item searches below a node depth first, for a
number of nodes that doubles each time that nodes which stay open are returned to the queue.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.launch.foreach import func, kernel
from morph.prelude import (
    atomic_add,
    atomic_max,
    ctz,
    i32,
    i64,
    local,
    popcount,
    static,
    struct,
    u64,
)

NODES = 256  # nodes below a node of the pool, in the first generation
OLDEST = 3  # the generation from which on the limit is not doubled


class Pool(NamedTuple):
    """The arguments of the search.

    ``queries`` has a row for each query: ``first``, its first word in ``near``; ``size``, the
    number of vertices around it, itself the first; ``least`` and ``most``, bounds of
    the subgraph's size; ``degree``, the minimum degree to reach; ``found``, whether there is a
    solution, and its vertices, ``solution``; ``open``, the number of open nodes; ``nodes``, the
    number of all.  Row ``first + v`` of ``near`` has the neighbours of vertex ``v``.
    """

    queries: Any
    near: Any
    deepest: int  # more than the number of vertices of any subgraph
    words: int  # the most of any query
    spent: Any  # scalars: ``nodes`` visited in this launch; ``found``, the number of all solutions
    limit: int  # of nodes, after which a launch ends soon
    solutions: Any  # a column of words, one solution after another, if all are searched
    capacity: int  # of solutions


@struct
class Node:
    """A node of the search, and what is computed of it; all of them but two are bit words."""

    chosen: local(u64, 4)
    rest: local(u64, 4)  # the candidates
    reached: local(u64, 4)
    front: local(u64, 4)
    following: local(u64, 4)
    beyond: local(u64, 4)  # neighbours of the front
    lacking: local(u64, 4)  # chosen vertices of degree below k among these
    gains: local(i32, 16)  # candidates by their number of lacking neighbours
    stack: local(u64, 64)  # the sets of open nodes, chosen vertices first
    depth: local(i32, 1)  # how many words of these are in use


@func
def fill(node, deepest, words):
    """Have zeros in all sets of a new node."""
    for _ in range(words):
        node.chosen.add(u64(0))
        node.rest.add(u64(0))
        node.reached.add(u64(0))
        node.front.add(u64(0))
        node.following.add(u64(0))
        node.beyond.add(u64(0))
        node.lacking.add(u64(0))
    for _ in range(deepest + 1):
        node.gains.add(i32(0))
    for _ in range(2 * words * (deepest + 1)):
        node.stack.add(u64(0))
    node.depth.add(i32(0))


@func
def bit(v):
    return u64(1) << u64(v & 63)


@func
def size_of(s, words):
    total = i32(0)
    for j in range(words):
        total += i32(popcount(s[j]))
    return total


@func
def common(near, row, s, words):
    """Count the members of a set among the neighbours of a row."""
    total = i32(0)
    for j in range(words):
        total += i32(popcount(near[row + j] & s[j]))
    return total


@func
def row_of(q, v, words):
    """Give the place of a vertex's neighbours in ``near``."""
    return q.first + i64(words) * v


@func
def farthest(k, most):
    """Give the largest distance in a graph of ``most`` vertices and minimum degree ``k``."""
    far = i32(1)
    if k == 1:
        far = most - 1
    elif k + 2 <= most:
        far = i32(2)
        while k + far + 2 + (far + 1) // 3 * (k - 2) <= most:
            far += 1
    return far


@func
def choose_neighbours(node, near, row, words):
    """Choose all candidates of a row."""
    for j in range(words):
        node.chosen[j] = node.chosen[j] | (near[row + j] & node.rest[j])
        node.rest[j] = node.rest[j] & ~near[row + j]


@func
def keep_neighbours(node, near, row, words):
    """Remove the candidates that are not in a row; give whether there were any."""
    removed = False
    for j in range(words):
        if node.rest[j] & ~near[row + j] != u64(0):
            removed = True
            node.rest[j] = node.rest[j] & near[row + j]
    return removed


@func
def reduce_by_degrees(node, q, near, k, words):
    """Apply the degree rules to each vertex; give whether a set changed, and none is impossible."""
    changed, possible = False, True
    spare = q.most - size_of(node.chosen, words)
    if spare <= 0:
        possible = spare == 0
        for j in range(words):
            node.rest[j] = u64(0)
    for j in range(words):
        bits = node.chosen[j] | node.rest[j]
        while bits != u64(0) and possible:
            v = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            row = row_of(q, v, words)
            inside = common(near, row, node.chosen, words)
            among = inside + common(near, row, node.rest, words)
            if node.chosen[j] & bit(v) != u64(0):
                if among < k or inside + spare < k:
                    possible = False
                elif among == k and inside < k:  # all its neighbours are needed
                    choose_neighbours(node, near, row, words)
                    changed = True
                elif inside + spare == k:  # only its neighbours can be added
                    changed = keep_neighbours(node, near, row, words) or changed
            elif among < k or inside + spare - 1 < k:
                if node.rest[j] & bit(v) != u64(0):
                    node.rest[j] = node.rest[j] & ~bit(v)
                    changed = True
    return changed, possible


@func
def find_reached(node, q, near, distance, words):
    """Find the vertices within a distance of the query's in the subgraph of ``following``."""
    for j in range(words):
        node.reached[j] = u64(0)
        node.front[j] = u64(0)
    node.front[0] = u64(1)
    node.reached[0] = u64(1)
    more = True
    while distance > 0 and more:
        distance -= 1
        more = False
        for j in range(words):
            node.beyond[j] = u64(0)
        for j in range(words):
            bits = node.front[j]
            while bits != u64(0):
                row = row_of(q, 64 * i64(j) + i64(ctz(bits)), words)
                bits = bits & (bits - u64(1))
                for i in range(words):
                    node.beyond[i] = node.beyond[i] | near[row + i]
        for j in range(words):
            node.front[j] = node.beyond[j] & node.following[j] & ~node.reached[j]
            node.reached[j] = node.reached[j] | node.front[j]
            more = more or node.front[j] != u64(0)


@func
def reduce_by_distance(node, q, near, k, words):
    """Remove candidates far from the query; give whether there are any, and none is chosen."""
    for j in range(words):
        node.following[j] = node.chosen[j] | node.rest[j]
    find_reached(node, q, near, farthest(k, q.most), words)
    changed, possible = False, True
    for j in range(words):
        if node.chosen[j] & ~node.reached[j] != u64(0):
            possible = False
        if node.rest[j] & ~node.reached[j] != u64(0):
            node.rest[j] = node.rest[j] & node.reached[j]
            changed = True
    return changed, possible


@func
def reduce_node(node, q, near, k, words):
    """Apply the rules until they change nothing; give whether the node may have a subgraph."""
    changed, possible = True, True
    while changed and possible:
        changed, possible = reduce_by_degrees(node, q, near, k, words)
        if possible and not changed:
            changed, possible = reduce_by_distance(node, q, near, k, words)
    return possible and size_of(node.chosen, words) + size_of(node.rest, words) >= q.least


@func
def find_lacking(node, q, near, k, words):
    """Find chosen vertices of too few chosen neighbours; give how many neighbours they lack."""
    missing = i32(0)
    for j in range(words):
        node.lacking[j] = u64(0)
        bits = node.chosen[j]
        while bits != u64(0):
            v = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            inside = common(near, row_of(q, v, words), node.chosen, words)
            if inside < k:
                missing += k - inside
                node.lacking[j] = node.lacking[j] | bit(v)
    return missing


@func
def best_candidate(node, q, near, words):
    """Count the candidates by gain; give one of the most lacking, then of the most neighbours."""
    for gain in range(q.most + 1):
        node.gains[gain] = i32(0)
    best, score = i64(-1), i64(-1)
    for j in range(words):
        bits = node.rest[j]
        while bits != u64(0):
            v = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            row = row_of(q, v, words)
            gained = common(near, row, node.lacking, words)
            node.gains[gained] += 1
            inside = common(near, row, node.chosen, words)
            among = inside + common(near, row, node.rest, words)
            value = ((i64(gained) << 20) + inside << 20) + among
            if value > score:
                best, score = v, value
    return best


@func
def can_fill(node, missing, spare, most):
    """Give whether the candidates of the largest gains have the missing neighbours."""
    gain = most
    while gain > 0 and spare > 0 and missing > 0:
        taken = min(node.gains[gain], spare)
        missing -= taken * gain
        spare -= taken
        gain -= 1
    return missing <= 0


@func
def push(node, words):
    depth = node.depth[0]
    for j in range(words):
        node.stack[depth + j] = node.chosen[j]
        node.stack[depth + words + j] = node.rest[j]
    node.depth[0] = depth + 2 * words


@func
def pop(node, words):
    depth = node.depth[0] - 2 * words
    for j in range(words):
        node.chosen[j] = node.stack[depth + j]
        node.rest[j] = node.stack[depth + words + j]
    node.depth[0] = depth


@func
def push_without(node, q, near, v, words):
    """Push the node without a candidate, and without those that it could replace."""
    out = row_of(q, v, words)
    for j in range(words):
        node.front[j] = node.rest[j]
    node.rest[v >> 6] = node.rest[v >> 6] & ~bit(v)
    for j in range(words):
        bits = node.rest[j]
        while bits != u64(0):
            u = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            row = row_of(q, u, words)
            replaced = True
            for i in range(words):
                of_u = near[row + i] & (node.chosen[i] | node.front[i]) & ~near[out + i]
                if i == v >> 6:
                    of_u = of_u & ~bit(v)
                replaced = replaced and of_u == u64(0)
            if replaced:
                node.rest[j] = node.rest[j] & ~bit(u)
    push(node, words)
    for j in range(words):
        node.rest[j] = node.front[j]


@func
def push_with(node, q, near, v, k, words):
    """Push the node with a candidate chosen, without those of too few common neighbours with it."""
    row = row_of(q, v, words)
    least = 2 * k - q.most
    node.rest[v >> 6] = node.rest[v >> 6] & ~bit(v)
    for j in range(words):
        bits = node.rest[j]
        while bits != u64(0):
            u = 64 * i64(j) + i64(ctz(bits))
            bits = bits & (bits - u64(1))
            other, both = row_of(q, u, words), i32(0)
            for i in range(words):
                both += i32(
                    popcount(near[row + i] & near[other + i] & (node.chosen[i] | node.rest[i]))
                )
            apart = 2 if near[row + j] & bit(u) == u64(0) else 0
            if both < least + apart:
                node.rest[j] = node.rest[j] & ~bit(u)
    node.chosen[v >> 6] = node.chosen[v >> 6] | bit(v)
    push(node, words)


@func
def note_solution(node, q, words):
    """Keep the vertices of ``following``, if they are the query's first solution."""
    if atomic_max(q.found, 1) == 0:
        for j in range(words):
            q.solution[j] = node.following[j]


@func
def is_solution(node, q, near, words):
    """Whether the chosen vertices, which lack no neighbours, are a solution; then `following`."""
    for j in range(words):
        node.following[j] = node.chosen[j]
    find_reached(node, q, near, q.most, words)
    size = size_of(node.chosen, words)
    return size >= q.least and size_of(node.reached, words) == size


@func
def visit(node, q, near, words):
    """Find a solution in a node, or push the two nodes below it."""
    if reduce_node(node, q, near, q.degree, words):
        for j in range(words):
            node.following[j] = node.chosen[j] | node.rest[j]
        found = size_of(node.following, words) <= q.most
        missing = find_lacking(node, q, near, q.degree, words)
        if not found and missing == 0:
            found = is_solution(node, q, near, words)
        if found:
            note_solution(node, q, words)
        else:
            v = best_candidate(node, q, near, words)
            spare = q.most - size_of(node.chosen, words)
            if can_fill(node, missing, spare, q.most):
                push_without(node, q, near, v, words)
                push_with(node, q, near, v, q.degree, words)


@func
def visit_for_all(node, q, pool, words):
    """Note the only subgraph of a node without candidates, or push the two nodes below another."""
    if reduce_node(node, q, pool.near, q.degree, words):
        if size_of(node.rest, words) == 0:
            at = atomic_add(pool.spent.found, i64(1))
            if at < pool.capacity:
                for j in range(words):
                    pool.solutions[at * words + j] = node.chosen[j]
        else:
            missing = find_lacking(node, q, pool.near, q.degree, words)
            v = best_candidate(node, q, pool.near, words)
            spare = q.most - size_of(node.chosen, words)
            if can_fill(node, missing, spare, q.most):
                node.rest[v >> 6] = node.rest[v >> 6] & ~bit(v)
                push(node, words)
                push_with(node, q, pool.near, v, q.degree, words)


@func
def search_below(node, q, pool, limit, words, every):
    """Search below the nodes of the stack, or until so many are visited; give the number."""
    nodes = i32(0)
    while node.depth[0] > 0 and nodes < limit:
        if atomic_max(q.found, 0) > 0:  # another item may have set it
            node.depth[0] = i32(0)
        else:
            nodes += 1
            pop(node, words)
            if every:
                visit_for_all(node, q, pool, words)
            else:
                visit(node, q, pool.near, words)
    return nodes


@func
def sets_of(node, like, words):
    """Give the sets of a node as vectors."""
    chosen, rest = like, like
    for j in range(words):
        chosen[j] = node.chosen[j]
        rest[j] = node.rest[j]
    return chosen, rest


@kernel
def work(e, pool, queue, later, every: static):
    """Search below a node; return nodes that stay open to the queue, or keep them for later."""
    node = Node()
    fill(node, pool.deepest, pool.words)
    queue.reserve(pool.deepest + 1)
    later.reserve(pool.deepest + 1)
    q = e.item
    words = (q.size + 63) // 64
    for j in range(words):
        node.chosen[j] = e.chosen[j]
        node.rest[j] = e.rest[j]
    push(node, words)
    spent, nodes = atomic_add(pool.spent.nodes, i64(0)), i32(0)
    if spent < pool.limit:
        limit = NODES << min(e.generation, OLDEST)
        nodes = search_below(node, q, pool, limit, words, every)
        spent = atomic_add(pool.spent.nodes, i64(nodes))
        atomic_add(q.nodes, i64(nodes))
    atomic_add(q.open, node.depth[0] // (2 * words) - 1)
    while node.depth[0] > 0:
        pop(node, words)
        chosen, rest = sets_of(node, e.chosen, words)
        if spent < pool.limit:
            queue.add(q, generation=e.generation + 1, chosen=chosen, rest=rest)
        else:
            later.add(q, generation=e.generation, chosen=chosen, rest=rest)
