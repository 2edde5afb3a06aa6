"""The search on adjacency lists, where the vertices around a query are too many for rows of bits.

A node is a list of chosen vertices, which are connected, and a list of *branches*.  A branch is a
chosen vertex, and a position in its row: the neighbours before are left out, but for chosen ones.
Below a node one branches on the neighbours of the chosen vertex of the shortest row of those that
lack some, or, if none does, of each one after the other.  So a node takes no memory for the
vertices that may still be chosen.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

from morph.algorithms.community.candidates import slot_of
from morph.launch.foreach import func, kernel
from morph.prelude import atomic_add, atomic_max, i32, i64, local, struct

NODES_PER_ITEM = 64  # below an item of the queue, in the first generation
LAST_GENERATION = 7  # from which on the number is not doubled


class ListedPool(NamedTuple):
    """The arguments of the search.

    ``queries`` has a row for each query: ``vertex``, ``min_size``, ``max_size``, ``degree``;
    ``solved``, whether there is a solution, its vertices, ``solution``, and their number,
    ``length``; ``open``, the number of open nodes; ``nodes``, that of all.
    ``starts`` and ``targets`` are the rows of the graph, ascending; ``around`` tells which vertices
    a subgraph may have (`Surroundings`).
    """

    around: Any
    queries: Any
    starts: Any
    targets: Any
    counters: Any
    node_limit: int
    width: int  # of the columns that hold chosen vertices and branches


@struct
class Path:
    """The chosen vertices, how many neighbours each has among them, and the branches."""

    count: local(i32, 1)  # of chosen vertices
    depth: local(i32, 1)  # the number of branches
    chosen: local(i32, 16)
    inside: local(i32, 16)
    at: local(i32, 32)  # of each branch the number of the chosen vertex
    upto: local(i32, 32)  # and the position in its row
    grown: local(i32, 32)  # whether the vertex before this position is chosen


@func
def allocate_path(path, width):
    """Have zeros in all lists of a new path."""
    path.count.add(i32(0))
    path.depth.add(i32(0))
    for _ in range(width):
        path.chosen.add(i32(0))
        path.inside.add(i32(0))
    for _ in range(2 * width):
        path.at.add(i32(0))
        path.upto.add(i32(0))
        path.grown.add(i32(0))


@func
def position(pool, v, u):
    """Give the position of a vertex in the row of another, -1 if it is not there."""
    begin, end = pool.starts[v].begin, pool.starts[v + 1].begin
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if pool.targets[middle].vertex < u:
            low = middle + 1
        else:
            high = middle
    return i32(low - begin) if low < end and pool.targets[low].vertex == u else i32(-1)


@func
def may_be_chosen(path, pool, q, u):
    """Give whether a vertex is none that is chosen or left out."""
    slot = slot_of(pool.around, q.id, u)
    possible = False
    if slot >= 0:
        possible = pool.around.slots[slot].number == 0
    for i in range(path.count[0]):
        possible = possible and path.chosen[i] != u
    i = 0
    while possible and i < path.depth[0]:
        place = position(pool, path.chosen[path.at[i]], u)
        possible = place < 0 or place >= path.upto[i]
        i += 1
    return possible


@func
def choose(path, pool, u):
    """Choose a vertex."""
    inside = i32(0)
    for i in range(path.count[0]):
        if position(pool, u, path.chosen[i]) >= 0:
            path.inside[i] += 1
            inside += 1
    path.chosen[path.count[0]] = u
    path.inside[path.count[0]] = inside
    path.count[0] += 1


@func
def unchoose(path, pool):
    """Remove the vertex that was chosen last."""
    path.count[0] -= 1
    u = path.chosen[path.count[0]]
    for i in range(path.count[0]):
        if position(pool, u, path.chosen[i]) >= 0:
            path.inside[i] -= 1


@func
def next_branch(path, pool, q):
    """Give the vertex of the shortest row of those that lack neighbours, else one without a branch.

    -1 if there is none, or one lacks more neighbours than may still be chosen.
    """
    left = q.max_size - path.count[0]
    best, most, shortest = i32(-1), i32(0), i64(0)
    for i in range(path.count[0]):
        lacking = q.degree - path.inside[i]
        if lacking > 0:
            v = path.chosen[i]
            length = pool.starts[v + 1].begin - pool.starts[v].begin
            if most == 0 or length < shortest:
                best, shortest = i32(i), length
            most = max(most, lacking)
    if most > left or left == 0:
        best = i32(-1)
    elif most == 0:
        for i in range(path.count[0]):
            ended = False
            for j in range(path.depth[0]):
                ended = ended or (path.at[j] == i and path.grown[j] == 0)
            if best < 0 and not ended:
                best = i32(i)
    return best


@func
def is_listed_solution(path, q):
    solved = path.count[0] >= q.min_size
    for i in range(path.count[0]):
        solved = solved and path.inside[i] >= q.degree
    return solved


@func
def note_listed(path, q):
    """Keep the chosen vertices, if they are the query's first solution."""
    if atomic_max(q.solved, 1) == 0:
        for i in range(path.count[0]):
            q.solution[i] = path.chosen[i]
        q.length = path.count[0]


@func
def put_branch(path, at, upto, grown):
    last = path.depth[0]
    path.at[last] = at
    path.upto[last] = upto
    path.grown[last] = grown
    path.depth[0] = last + 1


@func
def branch(path, pool, q):
    """Begin a branch of the chosen vertices; give whether there is one."""
    at = next_branch(path, pool, q)
    if at >= 0:
        put_branch(path, at, i32(0), i32(0))
    return at >= 0


@func
def step(path, pool, q):
    """Choose the next vertex of the last branch, or end it; give whether one is chosen."""
    last = path.depth[0] - 1
    v = path.chosen[path.at[last]]
    if path.grown[last] > 0:
        unchoose(path, pool)
        path.grown[last] = i32(0)
    begin = pool.starts[v].begin
    count, at, found = i32(pool.starts[v + 1].begin - begin), path.upto[last], i32(-1)
    while found < 0 and at < count:
        u = pool.targets[begin + at].vertex
        if may_be_chosen(path, pool, q, u):
            found = u
        at += 1
    path.upto[last] = at
    if found >= 0:
        choose(path, pool, found)
        path.grown[last] = i32(1)
    return found >= 0


@func
def backtrack(path, pool, q, base):
    """End a branch: begin that of the next vertex, or return to the last that has grown."""
    if path.inside[path.at[path.depth[0] - 1]] < q.degree or not branch(path, pool, q):
        while path.depth[0] > base and path.grown[path.depth[0] - 1] == 0:
            path.depth[0] -= 1


@func
def follow(path, pool, q, base, limit):
    """Search below a node, or until so many are visited; give the number."""
    nodes = i32(0)
    while path.depth[0] > base and nodes < limit and atomic_max(q.solved, 0) == 0:
        nodes += 1
        if step(path, pool, q):
            if is_listed_solution(path, q):
                note_listed(path, q)
            else:
                branch(path, pool, q)  # else the next step goes on
        else:
            backtrack(path, pool, q, base)
    return nodes


@func
def lists_of(path, e):
    """Give the lists of a path as vectors."""
    chosen, at, upto, grown = e.chosen, e.at, e.upto, e.grown
    for i in range(path.count[0]):
        chosen[i] = path.chosen[i]
    for i in range(path.depth[0]):
        at[i] = path.at[i]
        upto[i] = path.upto[i]
        grown[i] = path.grown[i]
    return chosen, at, upto, grown


@kernel
def work_on_lists(e, pool, queue, later):
    """Search below a node; return what stays open to the queue, or keep it for later."""
    path = Path()
    q, base = pool.queries[e.query], e.base
    allocate_path(path, pool.width)
    queue.reserve(2 * pool.width)
    later.reserve(2 * pool.width)
    for i in range(e.count):
        choose(path, pool, e.chosen[i])
    for i in range(e.depth):
        put_branch(path, e.at[i], e.upto[i], e.grown[i] if i < base else i32(0))
    visited = atomic_add(pool.counters.nodes, i64(0))
    if visited < pool.node_limit:
        if e.depth == 0:
            branch(path, pool, q)
        limit = NODES_PER_ITEM << min(e.generation, LAST_GENERATION)
        nodes = follow(path, pool, q, base, limit)
        visited = atomic_add(pool.counters.nodes, i64(nodes))
        atomic_add(q.nodes, i64(nodes))
    opened, count, again = i32(-1), i32(1), visited < pool.node_limit
    chosen, at, upto, grown = lists_of(path, e)
    if atomic_max(q.solved, 0) == 0:
        if path.depth[0] == 0 and not again:  # the root, at which no branch has begun
            later.add(e)
            opened += 1
        for i in range(path.depth[0]):
            if i >= base and (path.grown[i] > 0 or i == path.depth[0] - 1):
                opened += 1
                if again:
                    queue.add(
                        query=e.query, generation=e.generation + 1, count=count, depth=i32(i) + 1,
                        base=i32(i), chosen=chosen, at=at, upto=upto, grown=grown,
                    )  # fmt: skip
                else:
                    later.add(
                        query=e.query, generation=e.generation, count=count, depth=i32(i) + 1,
                        base=i32(i), chosen=chosen, at=at, upto=upto, grown=grown,
                    )  # fmt: skip
            count += path.grown[i]
    atomic_add(q.open, opened)
