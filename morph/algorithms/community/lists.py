"""The search on adjacency lists, for queries with too many candidates for rows of bits.

A node is a list of chosen vertices, which are connected, and a list of *branches*.  A branch is a
chosen vertex, its *source*, and a place in the source's row: neighbours before that place are
excluded unless they are chosen.  The next source is the vertex with the shortest row among those
that lack neighbours; if none does, each chosen vertex in turn.  So a node takes no memory for the
candidates.
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from morph.algorithms.community.candidates import slot_of
from morph.algorithms.community.neighbourhood import Ints, SimpleGraph
from morph.algorithms.community.reduction import NO_LIMIT
from morph.algorithms.community.tables import PERIOD, SearchTables
from morph.data.collection import Collection
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.language.dtypes import vec
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import atomic_add, atomic_max, i32, i64, local, static, struct

STANDARD_WIDTH = 16  # of lists of chosen vertices
INITIAL_NODE_LIMIT = 1 << 12  # nodes of the first launch
NODES_PER_ITEM = 64  # below an item of the queue, in the first generation
LAST_GENERATION = 7  # the number of nodes doubles up to this generation


class ListSearchState(NamedTuple):
    """The arguments of the search.

    ``queries`` has a row for each query: ``vertex``, ``min_size``, ``max_size``, ``degree``;
    ``solved``, whether a solution was found, or enough of all; its vertices, ``solution``, and
    their number, ``length``; ``open``, the number of open nodes; ``nodes``, that of visited ones.
    ``starts`` and ``targets`` are the sorted rows of the graph; ``candidates`` is a
    `CandidateTable`.
    """

    candidates: Any
    queries: Any
    starts: Any
    targets: Any
    counters: Any
    node_limit: int
    width: int  # of the columns that hold chosen vertices and branches
    solutions: Any  # a column of vertices, ``width`` of each solution, if all are wanted
    capacity: int  # of solutions
    max_solutions: int  # solutions: with so many, the search ends


@struct
class Path:
    """The chosen vertices, how many neighbours each has among them, and the branches."""

    count: local(i32, 1)  # of chosen vertices
    depth: local(i32, 1)  # the number of branches
    chosen: local(i32, 16)
    inside: local(i32, 16)
    source: local(i32, 32)  # of each branch: the index in `chosen` of its source
    next_place: local(i32, 32)  # the place in the row of the source
    extended: local(i32, 32)  # whether the neighbour before that place is chosen


@func
def allocate_path(path, width):
    """Fill the lists of a new path with zeros."""
    path.count.add(i32(0))
    path.depth.add(i32(0))
    for _ in range(width):
        path.chosen.add(i32(0))
        path.inside.add(i32(0))
    for _ in range(2 * width):
        path.source.add(i32(0))
        path.next_place.add(i32(0))
        path.extended.add(i32(0))


@func
def place_in_row(state, v, u):
    """Return the place of vertex u in the row of v, -1 if it is not there."""
    begin, end = state.starts[v].begin, state.starts[v + 1].begin
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if state.targets[middle].vertex < u:
            low = middle + 1
        else:
            high = middle
    return i32(low - begin) if low < end and state.targets[low].vertex == u else i32(-1)


@func
def is_candidate(path, state, q, u):
    """Return whether a vertex is a candidate, neither chosen nor excluded by a branch."""
    slot = slot_of(state.candidates, q.id, u)
    possible = False
    if slot >= 0:
        possible = state.candidates.slots[slot].number == 0
    for i in range(path.count[0]):
        possible = possible and path.chosen[i] != u
    i = 0
    while possible and i < path.depth[0]:
        place = place_in_row(state, path.chosen[path.source[i]], u)
        possible = place < 0 or place >= path.next_place[i]
        i += 1
    return possible


@func
def choose(path, state, u):
    """Choose a vertex."""
    inside = i32(0)
    for i in range(path.count[0]):
        if place_in_row(state, u, path.chosen[i]) >= 0:
            path.inside[i] += 1
            inside += 1
    path.chosen[path.count[0]] = u
    path.inside[path.count[0]] = inside
    path.count[0] += 1


@func
def unchoose(path, state):
    """Remove the last chosen vertex."""
    path.count[0] -= 1
    u = path.chosen[path.count[0]]
    for i in range(path.count[0]):
        if place_in_row(state, u, path.chosen[i]) >= 0:
            path.inside[i] -= 1


@func
def next_source(path, state, q):
    """Return the source of the next branch, -1 if there is none.

    Of the vertices that lack neighbours, the one with the shortest row; if none does, one without a
    branch.  There is none if a vertex lacks more neighbours than can still be chosen.
    """
    left = q.max_size - path.count[0]
    best, most_lacking, shortest = i32(-1), i32(0), i64(0)
    for i in range(path.count[0]):
        lacking = q.degree - path.inside[i]
        if lacking > 0:
            v = path.chosen[i]
            length = state.starts[v + 1].begin - state.starts[v].begin
            if most_lacking == 0 or length < shortest:
                best, shortest = i32(i), length
            most_lacking = max(most_lacking, lacking)
    if most_lacking > left or left == 0:
        best = i32(-1)
    elif most_lacking == 0:
        for i in range(path.count[0]):
            ended = False
            for j in range(path.depth[0]):
                ended = ended or (path.source[j] == i and path.extended[j] == 0)
            if best < 0 and not ended:
                best = i32(i)
    return best


@func
def is_list_solution(path, q):
    solved = path.count[0] >= q.min_size
    for i in range(path.count[0]):
        solved = solved and path.inside[i] >= q.degree
    return solved


@func
def record_list_solution(path, q):
    """Store the chosen vertices, if they are the query's first solution."""
    if atomic_max(q.solved, 1) == 0:
        for i in range(path.count[0]):
            q.solution[i] = path.chosen[i]
        q.length = path.count[0]


@func
def store_list_solution(path, state, q):
    """Store the chosen vertices, then -1 up to the width."""
    at = atomic_add(state.counters.solutions, i64(1))
    if at < state.capacity:
        for i in range(state.width):
            state.solutions[at * state.width + i] = path.chosen[i] if i < path.count[0] else i32(-1)
    if at + 1 >= state.max_solutions:
        atomic_max(q.solved, 1)


@func
def put_branch(path, source, next_place, extended):
    last = path.depth[0]
    path.source[last] = source
    path.next_place[last] = next_place
    path.extended[last] = extended
    path.depth[0] = last + 1


@func
def open_branch(path, state, q):
    """Open a branch at the next source; return whether there is one."""
    source = next_source(path, state, q)
    if source >= 0:
        put_branch(path, source, i32(0), i32(0))
    return source >= 0


@func
def advance(path, state, q):
    """Choose the next neighbour of the last branch; return whether there is one."""
    last = path.depth[0] - 1
    v = path.chosen[path.source[last]]
    if path.extended[last] > 0:
        unchoose(path, state)
        path.extended[last] = i32(0)
    begin = state.starts[v].begin
    count, place, found = i32(state.starts[v + 1].begin - begin), path.next_place[last], i32(-1)
    while found < 0 and place < count:
        u = state.targets[begin + place].vertex
        if is_candidate(path, state, q, u):
            found = u
        place += 1
    path.next_place[last] = place
    if found >= 0:
        choose(path, state, found)
        path.extended[last] = i32(1)
    return found >= 0


@func
def backtrack(path, state, q, base):
    """End the last branch: open one at the next source, or return to the last extended one."""
    if path.inside[path.source[path.depth[0] - 1]] < q.degree or not open_branch(path, state, q):
        while path.depth[0] > base and path.extended[path.depth[0] - 1] == 0:
            path.depth[0] -= 1


@func
def search_branches(path, state, q, base, limit, find_all):
    """Search below a node until ``limit`` nodes are visited; return their number."""
    nodes = i32(0)
    while path.depth[0] > base and nodes < limit and atomic_max(q.solved, 0) == 0:
        nodes += 1
        if advance(path, state, q):
            solved = is_list_solution(path, q)
            if solved:
                if find_all:
                    store_list_solution(path, state, q)
                else:
                    record_list_solution(path, q)
            if find_all or not solved:
                open_branch(path, state, q)  # without one, the last branch advances
        else:
            backtrack(path, state, q, base)
    return nodes


@func
def vectors_of(path, e):
    """Return the lists of a path as vectors."""
    chosen, source, next_place, extended = e.chosen, e.source, e.next_place, e.extended
    for i in range(path.count[0]):
        chosen[i] = path.chosen[i]
    for i in range(path.depth[0]):
        source[i] = path.source[i]
        next_place[i] = path.next_place[i]
        extended[i] = path.extended[i]
    return chosen, source, next_place, extended


@kernel
def search_lists(e, state, queue, deferred, find_all: static):
    """Search below a node; add its open nodes to the queue, or to ``deferred``."""
    path = Path()
    q, base = state.queries[e.query], e.base
    allocate_path(path, state.width)
    queue.reserve(2 * state.width)
    deferred.reserve(2 * state.width)
    for i in range(e.count):
        choose(path, state, e.chosen[i])
    for i in range(e.depth):
        put_branch(path, e.source[i], e.next_place[i], e.extended[i] if i < base else i32(0))
    visited = atomic_add(state.counters.nodes, i64(0))
    if visited < state.node_limit:
        if e.depth == 0:
            open_branch(path, state, q)
        limit = NODES_PER_ITEM << min(e.generation, LAST_GENERATION)
        nodes = search_branches(path, state, q, base, limit, find_all)
        visited = atomic_add(state.counters.nodes, i64(nodes))
        atomic_add(q.nodes, i64(nodes))
    opened, count, requeue = i32(-1), i32(1), visited < state.node_limit
    chosen, source, next_place, extended = vectors_of(path, e)
    if atomic_max(q.solved, 0) == 0:
        if path.depth[0] == 0 and not requeue:  # the root, without a branch
            deferred.add(e)
            opened += 1
        for i in range(path.depth[0]):
            if i >= base and (path.extended[i] > 0 or i == path.depth[0] - 1):
                opened += 1
                if requeue:
                    queue.add(
                        query=e.query, generation=e.generation + 1, count=count, depth=i32(i) + 1,
                        base=i32(i), chosen=chosen, source=source, next_place=next_place,
                        extended=extended,
                    )  # fmt: skip
                else:
                    deferred.add(
                        query=e.query, generation=e.generation, count=count, depth=i32(i) + 1,
                        base=i32(i), chosen=chosen, source=source, next_place=next_place,
                        extended=extended,
                    )  # fmt: skip
            count += path.extended[i]
    atomic_add(q.open, opened)


# --- the host -------------------------------------------------------------------------------------


class ListSearch:
    """The search on adjacency lists around one vertex, among the candidates that were set last."""

    def __init__(
        self, tables: SearchTables, graph: SimpleGraph, vertex: int, limits: Mapping[str, int]
    ) -> None:  # fmt: skip
        device, self.tables = tables.device, tables
        self.width = STANDARD_WIDTH
        while self.width < limits["max_size"]:
            self.width *= 4
        one, two = vec(i32, self.width), vec(i32, 2 * self.width)
        self.starts = Table("starts", device, begin=i64)
        self.starts.extend(begin=graph.offsets)
        self.targets = Table("targets", device, vertex=i32)
        self.targets.extend(vertex=graph.targets.astype(np.int32))
        columns: dict[str, Any] = {name: i32 for name in ("vertex", *limits)}
        self.queries = Table("listed", device, **columns, solved=i32, solution=one, length=i32,
                             open=i32, nodes=i64)  # fmt: skip
        self.queries.new(vertex=vertex, open=1, **limits)
        columns = dict.fromkeys(("query", "generation", "count", "depth", "base"), i32)
        self.queue, self.deferred = (
            Collection(
                device=device, **columns, chosen=one, source=two, next_place=two, extended=two
            )
            for _ in range(2)
        )
        self.queue.add(query=0, generation=0, count=1, depth=0, base=0,
                     chosen=np.full(self.width, vertex, np.int32))  # fmt: skip

    def run(
        self, end: float, report: Callable[[int], object], most_nodes: float = np.inf,
        capacity: int = 0, max_solutions: int = NO_LIMIT,
    ) -> int:  # fmt: skip
        """Search until the time is up or ``most_nodes`` are visited.

        With a ``capacity`` of 0 the search ends at the first solution, see `members`.  Otherwise it
        ends with ``max_solutions`` solutions or a few more, and stores up to ``capacity``, see
        `all_members`.

        Returns
        -------
        int
            The number of solutions, 0 with a ``capacity`` of 0.
        """
        device = self.tables.device
        counters, limit = Scalars(device, nodes=0, solutions=0), INITIAL_NODE_LIMIT
        self.solutions = Table("listed_solutions", device, vertex=i32)
        self.solutions.extend(max(capacity * self.width, 1))
        queue, deferred = self.queue, self.deferred
        while not queue.empty and clock.monotonic() < end and most_nodes > 0:
            start, counters.nodes = clock.monotonic(), 0
            state = ListSearchState(
                self.tables.candidate_table(1), self.queries, self.starts, self.targets,
                counters, limit, self.width, self.solutions.vertex, capacity, max_solutions,
            )  # fmt: skip
            foreach(queue, search_lists, state, queue, deferred, int(capacity > 0),
                    until_empty=True)  # fmt: skip
            queue, deferred = deferred, queue
            nodes = int(counters.nodes)
            report(nodes)
            most_nodes -= nodes
            if clock.monotonic() - start < PERIOD:
                limit *= 2
        return int(counters.solutions)

    def all_members(self, count: int) -> list[Ints]:
        """Return the vertices of all subgraphs, each ascending."""
        column = self.solutions.vertex[: count * self.width]
        found = np.asarray(self.tables.device.to_host(column)).reshape(count, self.width)
        return [np.sort(x[x >= 0]).astype(np.int64) for x in found]

    @property
    def members(self) -> Ints | None:
        """The vertices of a subgraph, ascending, or None."""
        row = self.queries[0]
        if not row.solved:
            return None
        found = np.asarray(self.tables.device.to_host(self.queries.solution[:]))[0]
        return np.sort(found[: int(row.length)].astype(np.int64))
