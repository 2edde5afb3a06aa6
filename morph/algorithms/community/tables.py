"""The tables of the searches for communities, and the launches that visit nodes in them."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from typing import Any

import numpy as np

from morph.algorithms.community.candidates import (
    QUERY_SHIFT,
    VERTEX,
    CandidateTable,
    find_candidates,
    set_candidates,
)
from morph.algorithms.community.neighbourhood import Ints, SimpleGraph, max_distance
from morph.algorithms.community.nodes import STANDARD_WORDS, WIDE_WORDS, WIDEST_WORDS
from morph.algorithms.community.one_launch import (
    BEGIN,
    COLLECT,
    CONTINUE,
    GIVEN,
    KEYS,
    OUTCOME,
    ROWS,
    VISIT,
    Limits,
    OneLaunch,
    decide,
    decide_few,
)
from morph.algorithms.community.reduction import NO_LIMIT
from morph.algorithms.community.search import SearchState, search_sets
from morph.data.collection import Collection, Flag
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import vec
from morph.launch.foreach import foreach
from morph.launch.kept import KeptLaunches
from morph.prelude import i32, i64, u64
from morph.runtime.threads import get_num_threads

INITIAL_NODE_LIMIT, INITIAL_NODE_LIMIT_CPU = 1 << 18, 1 << 12  # nodes of the first launch
FEW_ITEMS, FEW_ITEMS_CPU = 1 << 9, 0  # open items of the queue, see `SearchState.few_items`
TARGET_ITEMS = 1 << 17  # of a GPU, see `SearchState.target_items`
VISITS_INSIDE_CPU = False  # whether the launch for a single query visits nodes, as on a GPU
NARROW_NODES = 1 << 8  # of searches of the first candidates, which prove no bound
PERIOD = 0.1  # seconds, about, between readings of the clock
WORD = 64
FIRST_SLOTS, FIRST_SLOTS_CPU = 1 << 22, 1 << 16  # of the hash table of vertices
MAX_SLOTS = 1 << 25  # if these are too few, the batch is divided
MAX_DIRECT_CPU = 1 << 21  # slots of a table in which each vertex of each query has its own


class SearchTables:
    """The tables of the searches on a graph, kept from one search to the next."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.device = graph, graph.device
        columns: dict[str, Any] = {"query": i32, "vertex": i32, "slot": i32}
        self.entries, self.alive = (Collection(device=self.device, **columns) for _ in range(2))
        self.frontier, self.next_frontier = (
            Collection(device=self.device, **columns, level=i32) for _ in range(2)
        )
        self.remaining = Collection(device=self.device, key=i64)
        self.counters = Scalars(self.device, full=np.int32(0))
        self.queries = Table(
            "candidate_queries", self.device, vertex=i32, degree=i32, distance=i32, min_common=i32,
        )  # fmt: skip
        self.set_tables_by_words: dict[int, SetTables] = {}
        self.one_launch: OneLaunchTables | None = None
        self.slots = Table("slots", self.device)
        self.max_direct = MAX_DIRECT_CPU if self.device.on_host else MAX_SLOTS
        self.grow(FIRST_SLOTS_CPU if self.device.on_host else FIRST_SLOTS)

    def grow(self, count: int) -> None:
        """Replace the hash table by an empty one with more slots."""
        self.slots = Table(
            "slots", self.device, pack=("key", "common", "degree", "common_left", "number"),
            key=u64, common=i32, degree=i32, common_left=i32, number=i32,
        )  # fmt: skip
        self.slots.extend(count)
        self.entries.clear()
        self.counters.full = 0

    def candidate_table(self, queries: int) -> CandidateTable:
        """Return the table for a number of queries.

        It has a slot for each vertex of each query if these are at most `max_direct`, and grows for
        that; otherwise slots are found by hashing.
        """
        n = len(self.graph.points)
        if len(self.slots) < queries * n <= self.max_direct:
            self.grow(1 << (queries * n - 1).bit_length())
        hashed = queries * n > len(self.slots)
        shift = 64 - (len(self.slots).bit_length() - 1) if hashed else 0
        return CandidateTable(self.graph, self.queries, self.slots, self.counters, shift)

    def set_tables(self, words: int) -> SetTables:
        """Return the tables of searches in sets of so many words."""
        if words not in self.set_tables_by_words:
            self.set_tables_by_words[words] = SetTables(self.device, words)
        return self.set_tables_by_words[words]

    def candidates(self, vertex: Ints, degree: Ints, max_size: Ints) -> tuple[Ints, Ints]:
        """Find the candidates of queries: vertices that subgraphs around them may have.

        Returns
        -------
        sizes : array of int, shape (count,)
            Number of candidates with the query, 0 if there is no subgraph.
        vertices : array of int, shape (sizes.sum(),)
            The query, then its candidates, by descending number of common neighbours.
        """
        least = 2 * degree - max_size
        distance = [2 if x > -2 else max_distance(k, h) for x, k, h in zip(
            least.tolist(), degree.tolist(), max_size.tolist(), strict=True)]  # fmt: skip
        table = self.queries
        table.truncate(0)
        table.extend(
            vertex=vertex.astype(np.int32), degree=degree.astype(np.int32),
            distance=np.array(distance, np.int32), min_common=least.astype(np.int32),
        )  # fmt: skip
        while True:
            slots = self.candidate_table(len(vertex))
            find_candidates(
                table, self.entries, self.alive, self.remaining, self.frontier,
                self.next_frontier, slots,
            )  # fmt: skip
            if not slots.shift or not self.counters.full:
                break
            if len(self.slots) >= MAX_SLOTS and len(vertex) > 1:
                self.grow(len(self.slots))
                return self._in_halves(vertex, degree, max_size)
            self.grow(8 * len(self.slots))
        keys = np.sort(np.asarray(self.device.to_host(self.remaining.key[:])))
        found, query = keys & VERTEX, keys >> QUERY_SHIFT
        has_query = np.zeros(len(vertex), bool)
        has_query[query[found == vertex[query]]] = True
        keep = has_query[query]
        return np.bincount(query[keep], minlength=len(vertex)), found[keep]

    def set_candidates(self, vertices: Ints) -> None:
        """Make these vertices the candidates of the only query."""
        rows = Table("candidates", self.device, vertex=i32)
        rows.extend(vertex=vertices.astype(np.int32))
        while True:
            set_candidates(rows, self.entries, self.candidate_table(1))
            if not self.counters.full:
                break
            self.grow(8 * len(self.slots))

    def _in_halves(self, *arrays: Ints) -> tuple[Ints, Ints]:
        half = len(arrays[0]) // 2
        one, two = (self.candidates(*(x[part] for x in arrays))
                    for part in (slice(half), slice(half, None)))  # fmt: skip
        return np.concatenate([one[0], two[0]]), np.concatenate([one[1], two[1]])


def search_tables(graph: SimpleGraph) -> SearchTables:
    """Return the tables of the searches on a graph, which keeps them."""
    if graph.search_tables is None:
        graph.search_tables = SearchTables(graph.csr)
    return graph.search_tables  # type: ignore[no-any-return]


class SetTables:
    """The tables of searches in sets of some width, kept from one search to the next."""

    def __init__(self, device: Any, words: int) -> None:
        bits = vec(u64, words)
        self.device, self.words = device, words
        self.width = words if words <= WIDE_WORDS else WIDEST_WORDS  # of `search_sets`
        self.adjacency = Table("adjacency", device, bits=u64)
        self.rows = Table(
            "rows", device, query=i32, vertex=i32, inside=i32, among=i32, state=i32, gain=i32
        )
        self.queries = Table(
            "queries", device, first_word=i64, first_row=i64, size=i32, words=i32, min_size=i32,
            max_size=i32, degree=i32, lower=i32, higher=i32, solved=i32, found_degree=i32,
            solution=bits, open=i32, nodes=i64, most_nodes=i64, chosen=bits, candidates=bits,
            slots=i32, missing=i32, best_gain=i32,
        )  # fmt: skip
        self.changed = Flag(device)
        self.queue, self.deferred = (
            Collection(self.queries, chosen=bits, candidates=bits) for _ in range(2)
        )
        self.solutions = Table("solutions", device, bits=u64)
        self.counters = Scalars(device, nodes=0, solutions=0, open=0)

    def visit(
        self, words: int, max_depth: int, end: float, report: Callable[[int], object],
        capacity: int = 0, most_nodes: float = np.inf, max_solutions: int = NO_LIMIT,
    ) -> None:  # fmt: skip
        """Visit the nodes of the queue and their descendants, see `Search.run`.

        Sets have exactly ``words`` words, or at most, if that is more than `STANDARD_WORDS`.
        """
        queue, deferred, counters = self.queue, self.deferred, self.counters
        limit = self.node_limit(words)
        while not queue.empty and clock.monotonic() < end and most_nodes > 0:
            start, counters.nodes = clock.monotonic(), 0
            limit = int(min(limit, most_nodes))
            state = self.state(max_depth, words, limit, capacity, max_solutions)
            width = words if self.width == STANDARD_WORDS else self.width
            statics = int(capacity > 0), width, int(self.few_items > 0)
            foreach(
                queue, search_sets, state, queue, deferred, *statics, until_empty=True,
                balance="warp",
            )  # fmt: skip
            queue, deferred = deferred, queue
            nodes = int(counters.nodes)
            report(nodes)
            most_nodes -= nodes
            limit = self.next_limit(limit, words, start)

    def state(
        self,
        max_depth: int,
        words: int,
        limit: int,
        capacity: int = 0,
        max_solutions: int = NO_LIMIT,
    ) -> SearchState:
        """Return the arguments of the search."""
        return SearchState(
            self.queries, self.adjacency.bits, max_depth, words, self.counters, self.few_items,
            self.target_items, limit, self.solutions.bits, capacity, max_solutions,
        )  # fmt: skip

    @property
    def few_items(self) -> int:
        """Open items of the queue below which items add one after each visit, see `search_sets`."""
        return FEW_ITEMS_CPU if self.device.on_host else FEW_ITEMS

    @property
    def target_items(self) -> int:
        """Open items of the queue that occupy all threads."""
        return 4 * get_num_threads() if self.device.on_host else TARGET_ITEMS

    def node_limit(self, words: int) -> int:
        """Nodes of the first launch: fewer of larger sets, which take longer."""
        most = INITIAL_NODE_LIMIT_CPU if self.device.on_host else INITIAL_NODE_LIMIT
        return most * STANDARD_WORDS**2 // words**2 + 1

    def next_limit(self, limit: int, words: int, start: float) -> int:
        """Nodes of a launch after one that began at ``start``."""
        if clock.monotonic() - start < PERIOD:
            return limit * 2
        return max(limit // 2, self.node_limit(words))


class OneLaunchTables(SetTables):
    """The tables of `one_launch`, for up to ``degrees`` degrees of one or few queries."""

    def __init__(self, tables: SearchTables, degrees: int) -> None:
        super().__init__(tables.device, STANDARD_WORDS)
        for name in ("vertex", "distance", "min_common", "count"):
            self.queries.add(name, i32)
        names = ("nodes", "solutions", "open", "best", "bound", "degrees", "total", "wide", "size",
                 "narrow_nodes")  # fmt: skip
        self.counters = Scalars(self.device, **dict.fromkeys(names, 0))
        self.keys = Table("keys", self.device, key=i64)
        self.keys.extend(degrees * KEYS)
        self.queries.extend(degrees)
        self.rows.extend(degrees * ROWS)
        self.adjacency.extend(degrees * ROWS * STANDARD_WORDS)
        self.solutions.extend(1)
        self.tables, self.degrees = tables, degrees
        self.active = Collection(self.queries)
        self.outcome = Table("outcome", self.device, value=i64)
        self.outcome.extend(OUTCOME + ROWS)
        self.given = Table("given", self.device, value=i32)
        self.given.extend(GIVEN * degrees)
        n = len(tables.graph.points)
        self.words = min(STANDARD_WORDS, -(-n // WORD))  # sets of small graphs need fewer
        self.launches: dict[bool, KeptLaunches] = {}  # with the queues swapped or not
        self.slots: Any = None  # those of the launches

    def arguments(self, degrees: int, max_depth: int, limit: int, swapped: bool) -> OneLaunch:
        """Return the arguments of a search for degrees, with the queues ``swapped`` or not."""
        t = self.tables
        table = t.candidate_table(degrees)._replace(queries=self.queries)
        queues = (self.deferred, self.queue) if swapped else (self.queue, self.deferred)
        return OneLaunch(
            self.queries, self.active, self.keys, self.rows, self.adjacency.bits, self.counters,
            *queues, self.state(max_depth, self.words, limit), table, t.entries, t.alive,
            t.remaining, t.frontier, t.next_frontier, self.outcome.value, self.given.value,
        )  # fmt: skip

    def run(self, launched: Any, s: OneLaunch, *args: Any) -> Any:
        """Call a program with the `arguments`; later calls need no look-up of its launch."""
        if s.table.slots is not self.slots:  # the hash table has grown
            self.launches, self.slots = {}, s.table.slots
        kept = self.launches.setdefault(s.queue is self.deferred, KeptLaunches())
        return kept.run(launched, s, *args)

    def search(
        self, vertex: int, sizes: tuple[int, int], degrees: tuple[int, int], most_degrees: int,
        end: float, report: Callable[[int], object],
    ) -> tuple[int, int, int, Ints]:  # fmt: skip
        """Search for the best subgraph that has a vertex, until ``end`` or sets are too large.

        Parameters
        ----------
        vertex : int
        sizes : (int, int)
            The minimum and maximum number of vertices.
        degrees : (int, int)
            The best minimum degree so far, and an upper bound.
        most_degrees : int
            See `Limits`.
        end : float
            In seconds of `time.monotonic`.
        report : callable
            Called with the number of nodes visited since the last call.

        Returns
        -------
        best, bound, nodes : int
        members : array of int64
            The vertices, ascending; empty if no better subgraph was found.
        """
        visits, depth, swapped = int(self.visits_inside), sizes[1] + 1, False
        statics = visits, self.words if visits else 0
        x = Limits(vertex, *sizes, *degrees, self.words, most_degrees, NARROW_NODES)
        limit, reported = self.node_limit(self.words), 0
        most = max(most_degrees, 1)
        start, given = clock.monotonic(), self.arguments(most, depth, limit, swapped)
        while self.run(decide, given, x, *statics) == VISIT:
            x = x._replace(best=-1)  # continue
            if visits:
                nodes = int(self.counters.nodes)
                report(nodes)
                reported += nodes
                limit, swapped = self.next_limit(limit, self.words, start), not swapped
                start, given = clock.monotonic(), self.arguments(most, depth, limit, swapped)
                late = start >= end
            else:
                self.visit(self.words, depth, end, report)
                late = not (self.queue.empty and self.deferred.empty)
            if late:
                x = x._replace(most_degrees=-1)
        found = np.asarray(self.device.to_host(self.outcome.value[: OUTCOME + ROWS]))
        best, bound, nodes, size = found[:OUTCOME].tolist()
        if visits:
            report(nodes - reported)
        return best, bound, nodes, np.sort(found[OUTCOME : OUTCOME + size])

    def search_few(
        self, given: Ints, end: float, report: Callable[[int], object]
    ) -> tuple[Ints, Any, Ints, list[Ints]]:  # fmt: skip
        """Search for degrees of few queries in one launch, until ``end``.

        Parameters
        ----------
        given : array of int64, shape (count, GIVEN)
            See `OneLaunch.given`.
        end, report
            As in `search`.

        Returns
        -------
        found : array of int64, shape (count,)
            The minimum degree of a subgraph of each row, or -1.
        none : array of bool, shape (count,)
            Whether it is proved that no subgraph has the row's degree.
        nodes : array of int64, shape (count,)
            The number of nodes visited for each row.
        members : list of array of int64
            The vertices of each subgraph, in any order.
        """
        count, width = len(given), int(given[:, 2].max())
        self.given.value[: given.size] = given.ravel().astype(np.int32)
        if (more := count * (OUTCOME + width) - len(self.outcome)) > 0:
            self.outcome.extend(more)
        limit, swapped, what = self.node_limit(self.words), False, BEGIN
        reported = 0
        while True:
            start = clock.monotonic()
            s = self.arguments(count, width + 1, limit, swapped)
            numbers = count, width, self.words, NARROW_NODES, what, self.words
            if self.run(decide_few, s, *numbers) != VISIT:
                break
            report(nodes := int(self.counters.nodes))
            reported += nodes
            limit, swapped = self.next_limit(limit, self.words, start), not swapped
            what = COLLECT if start >= end else CONTINUE
        column = self.outcome.value[: count * (OUTCOME + width)]
        rows = np.asarray(self.device.to_host(column)).reshape(count, OUTCOME + width)
        report(int(rows[:, 2].sum()) - reported)
        members = [x[OUTCOME : OUTCOME + n] for x, n in zip(rows, rows[:, 3].tolist(), strict=True)]
        return rows[:, 0], rows[:, 1] > 0, rows[:, 2], members

    @property
    def visits_inside(self) -> bool:
        """Whether `decide` visits nodes."""
        return VISITS_INSIDE_CPU if self.device.on_host else True


def one_launch_tables(tables: SearchTables, degrees: int) -> OneLaunchTables:
    """Return the tables of `one_launch`, kept from one call to the next."""
    if tables.one_launch is None or tables.one_launch.degrees < degrees:
        tables.one_launch = OneLaunchTables(tables, degrees)
    return tables.one_launch
